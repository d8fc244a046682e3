"""The ways into the book: its parts and their order, what each chapter ends with, words and their
explanations, the landing page."""

import re
from itertools import pairwise
from types import SimpleNamespace

import pytest
import symbol_hints
import torch
from docutils import nodes
from docutils.core import publish_doctree
from package_source import ROOT
from word_hints import PAGE

from tests.built_book import BOOK, DOCUMENTS, NOTEBOOKS, PARTS, article
from tests.built_book import page as built_page

CHAPTERS = [name for name in NOTEBOOKS if name.startswith("notebooks/")]
GLOSSARY = (ROOT / f"{PAGE}.md").read_text().partition("```{glossary}")[2].partition("```")[0]
WORDS = {
    entry.partition("\n")[0]: [
        paragraph.strip() for paragraph in entry.partition("\n")[2].split("\n\n")
    ]
    for entry in re.split(r"\n(?=\S)", GLOSSARY)
    if not entry.lstrip().startswith(":sorted:") and entry.strip()
}
MODULES = [*ROOT.glob("lwcore/**/*.py"), *ROOT.glob("book/chapters/*.py")]
SOURCE = "".join(path.read_text() for path in MODULES)


def test_parts_have_names_and_pages_one_place():
    assert all(PARTS)
    assert all(PARTS.values())
    assert len(set(DOCUMENTS)) == len(DOCUMENTS)
    assert DOCUMENTS[0] == "book/intro"


def test_pages_lead_from_each_to_the_next():
    for name, following in pairwise(DOCUMENTS):
        page = built_page(name)
        target = (BOOK / name).parent / page.select_one('link[rel="next"]')["href"]
        assert target.resolve() == (BOOK / f"{following}.html").resolve()


def test_sidebar_shows_the_parts():
    page = built_page("book/intro")
    assert [
        caption.get_text(strip=True) for caption in page.select("nav.bd-docs-nav p.caption")
    ] == list(PARTS)


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_ends_with_what_we_learn_and_leads_on(name):
    last = article(name).find("section").find_all("section", recursive=False)[-1]
    assert last.find("h2").find(string=True).strip() == "What we learn"
    ways = [
        link["href"]
        for link in last.find_all(["p", "ul"], recursive=False)[-1].select(
            "a.reference.internal[href]"
        )
    ]
    assert any(re.fullmatch(r"(\.\./book/)?[\w.]+\.html", way) for way in ways)


@pytest.mark.parametrize("word", WORDS)
def test_word_has_an_explanation_without_formulas_and_a_place(word):
    said, place = WORDS[word]
    assert len(said.split()) >= 8
    assert not re.search(r"[$`{]", said)
    assert re.search(r"^In the code .*`.*Chapters?: \{doc\}", place)


def test_names_in_the_glossary_are_those_of_the_code():
    known = {path.stem for path in MODULES}
    written = [
        code
        for _, place in WORDS.values()
        for code in re.findall(r"`([^`]+)`", re.sub(r"\{doc\}`[^`]*`", "", place))
    ]
    names = {name for code in written for name in re.findall(r"[A-Za-z_]{2,}", code)}
    assert len(names) > 20
    assert {name for name in names - known if not re.search(rf"\b{name}\b", SOURCE)} == set()


def test_words_in_chapters_show_their_explanation():
    shown = {
        word: paragraphs[0].replace("'", "’").replace("\n", " ")
        for word, paragraphs in WORDS.items()
    }
    linked = {}
    for name in DOCUMENTS:
        for link in article(name).select("a.word"):
            assert link["title"] in shown.values()
            assert link["data-bs-toggle"] == "tooltip"
            linked.setdefault(name, []).append(link["href"])
    assert set(CHAPTERS) - {"notebooks/08_robust_averaging"} <= linked.keys()
    assert all(len(set(links)) >= 2 for name, links in linked.items() if name in CHAPTERS)


def test_lines_for_your_own_network_run(capsys):
    text = (ROOT / "book" / "intro.md").read_text()
    (lines,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = (
        torch.randn(64, 24, 3, generator=generator),
        torch.randint(2, (64,), generator=generator),
    )

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent, self.readout = (
                torch.nn.LSTM(3, 8, batch_first=True),
                torch.nn.Linear(8, 2),
            )

        def forward(self, x):
            return self.readout(self.recurrent(x)[0][:, -1])

    names = {"torch": torch, "net": Net(), "loader": [(inputs, labels)]}
    exec(compile(lines, "book/intro.md", "exec"), names)
    assert "lag" in names["found"].data.dims


def test_report_lists_every_notebook_and_none_failed():
    rows = {
        row.find("a").get_text(): row.get_text()
        for row in article("book/report").select("tbody tr")
    }
    assert rows.keys() == set(NOTEBOOKS)
    assert all("✅" in text for text in rows.values())


def test_every_entry_of_the_bibliography_is_cited():
    keys = set(
        re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text(), flags=re.M)
    )
    pages = "".join((ROOT / f"{name}.md").read_text() for name in DOCUMENTS)
    cited = {key for keys in re.findall(r"\{cite\}`([^`]+)`", pages) for key in keys.split(",")}
    assert keys - cited == set()


def test_symbols_in_chapters_show_their_meaning_and_lead_to_their_row():
    rows = {row["id"]: row for row in article("book/notation").select("tr[id]")}
    linked = {}
    for name in DOCUMENTS:
        for link in article(name).select("a.symbol"):
            row = rows[link["href"].partition("#")[2]]
            meaning, _, code = link["title"].partition(". In the code: ")
            assert re.sub(r"\\[()]", "", row.select("td")[1].get_text()).startswith(
                meaning.split(",")[0].strip(".").partition("’")[0]
            )
            assert len(meaning.split()) >= 2
            assert "\\" not in link["title"]
            assert row.select("td")[3].get_text() == code.strip(".")
            assert link["data-bs-toggle"] == "tooltip"
            assert re.fullmatch(r"[^\\{}]+", link["aria-label"].removesuffix(link["title"]))
            linked.setdefault(name, []).append(link["href"])
    assert set(CHAPTERS) - {"notebooks/11_your_network"} <= linked.keys()
    assert all(len(set(links)) == len(links) for links in linked.values()), (
        "a symbol is explained where it is first used"
    )


def notation(text):
    """The notation's page, as the build would read it."""
    return publish_doctree(text, settings_overrides={"report_level": 5})


TABLE = r"""
====================  ========================================  ========  ==============
Symbol                Meaning                                   Shape     In the code
====================  ========================================  ========  ==============
:math:`H_N`           window: the longest that :math:`N` see,   steps     ``window``
                      with :math:`N(\ell) \le N`
:math:`\lambda, p`    decay                                     number
:math:`s_t`           state                                     number
:math:`S_t`           slope                                     number
====================  ========================================  ========  ==============
"""


def test_a_symbol_is_explained_up_to_its_first_formula():
    rows = list(symbol_hints.rows(notation(TABLE)))
    assert [symbol_hints.symbols_of(row) for row in rows] == [
        ["H_N"],
        [r"\lambda", "p"],
        ["s_t"],
        ["S_t"],
    ]
    assert (
        symbol_hints.meaning(rows[0])
        == "window: the longest that N see, with. In the code: window."
    )
    assert symbol_hints.meaning(rows[1]) == "decay."
    page = notation(TABLE)
    symbol_hints.place_anchors(
        SimpleNamespace(env=SimpleNamespace(docname=symbol_hints.PAGE)), page
    )
    assert [row["ids"] for row in symbol_hints.rows(page)] == [
        ["symbol-h-n"],
        ["symbol-lambda"],
        ["symbol-s-t"],
        ["symbol-s-t-2"],
    ]


def test_a_symbol_without_a_row_is_warned_of(monkeypatch):
    said = []
    monkeypatch.setattr(
        symbol_hints.log, "warning", lambda text, *values, **more: said.append(text % values)
    )
    missing = symbol_hints.symbol("", "", nodes.math("Q", "Q"), name="Q")
    page = nodes.document(None, None, "", missing)
    env = SimpleNamespace(all_docs=[symbol_hints.PAGE], get_doctree=lambda name: notation(TABLE))
    symbol_hints.explain(SimpleNamespace(env=env), page, "notebooks/03_bptt")
    assert said == ["symbol 'Q' has 0 rows in the notation"]
    assert page.astext() == "Q"
