"""The ways into the book: its parts and their order, what each chapter ends with, words and their
explanations, the landing page."""

import re
from itertools import pairwise

import pytest
import torch
from package_source import ROOT
from word_hints import PAGE

from tests.built_book import BOOK, DOCUMENTS, NOTEBOOKS, PARTS, article
from tests.built_book import page as built_page
from tests.test_diagnose import Net

CHAPTERS = {name for name in NOTEBOOKS if name.startswith("notebooks/")}
GLOSSARY = (ROOT / f"{PAGE}.md").read_text().partition("```{glossary}")[2].partition("```")[0]
WORDS = {  # a word's explanation, and the place where it is used
    word: [paragraph.strip() for paragraph in text.strip().split("\n\n")]
    for word, text in re.findall(r"^(\w.*)\n((?:(?: .*)?\n)+)", GLOSSARY, re.MULTILINE)
}
MODULES = [*ROOT.glob("lwcore/**/*.py"), *ROOT.glob("book/chapters/*.py")]


def test_parts_have_names_pages_one_place_and_each_leads_to_the_next():
    assert all(PARTS)
    assert all(PARTS.values())
    assert len(set(DOCUMENTS)) == len(DOCUMENTS)
    assert DOCUMENTS[0] == "book/intro"
    captions = built_page("book/intro").select("nav.bd-docs-nav p.caption")
    assert [caption.get_text(strip=True) for caption in captions] == list(PARTS)
    for name, following in pairwise(DOCUMENTS):
        target = built_page(name).select_one('link[rel="next"]')["href"]
        assert ((BOOK / name).parent / target).resolve() == (BOOK / f"{following}.html").resolve()


@pytest.mark.parametrize("name", sorted(CHAPTERS))
def test_chapter_ends_with_what_we_learn_and_leads_on(name):
    last = article(name).find("section").find_all("section", recursive=False)[-1]
    assert last.find("h2").find(string=True).strip() == "What we learn"
    end = last.find_all(["p", "ul"], recursive=False)[-1]
    ways = [link["href"] for link in end.select("a.reference.internal[href]")]
    assert any(re.fullmatch(r"(\.\./book/)?[\w.]+\.html", way) for way in ways)


def test_words_have_explanations_without_formulas_and_places_that_the_code_knows():
    assert len(WORDS) > 20
    names = set()
    for word, (said, place) in WORDS.items():
        assert len(said.split()) >= 8, word
        assert not re.search(r"[$`{]", said), word
        assert re.search(r"^In the code .*`.*Chapters?: \{doc\}", place), word
        for code in re.findall(r"`([^`]+)`", re.sub(r"\{doc\}`[^`]*`", "", place)):
            names |= set(re.findall(r"\b[A-Za-z_]\w+", code))
    rows = re.findall(r"^\| .* \| (.*)$", (ROOT / "book" / "notation.md").read_text(), re.MULTILINE)
    for code in re.findall(r"`([^`]+)`", "\n".join(rows)):
        names |= set(re.findall(r"\b[A-Za-z_]\w+", code))
    source = "".join(path.read_text() + path.stem for path in MODULES)
    assert len(names) > 20
    assert [name for name in names if not re.search(rf"\b{name}\b", source)] == []


def test_words_and_symbols_in_chapters_show_their_meaning_and_lead_to_it():
    said = {one[0].replace("'", "’").replace("\n", " ") for one in WORDS.values()}
    rows = {row["id"]: row for row in article("book/notation").select("tr[id]")}
    words, symbols = {}, {}
    for name in DOCUMENTS:
        for link in article(name).select("a.word"):
            assert link["title"] in said
            assert link["data-bs-toggle"] == "tooltip"
            words.setdefault(name, set()).add(link["href"])
        for link in article(name).select("a.symbol"):
            row = rows[link["href"].partition("#")[2]].select("td")
            meaning, _, code = link["title"].partition(". In the code: ")
            begin = meaning.split(",")[0].strip(".").partition("’")[0]
            assert re.sub(r"\\[()]", "", row[1].get_text()).startswith(begin)
            assert len(meaning.split()) >= 2
            assert "\\" not in link["title"]
            assert row[3].get_text() == code.strip(".")
            assert link["data-bs-toggle"] == "tooltip"
            assert re.fullmatch(r"[^\\{}]+", link["aria-label"].removesuffix(link["title"]))
            assert link["href"] not in symbols.setdefault(name, set()), "explained once, at first"
            symbols[name].add(link["href"])
    assert min(len(CHAPTERS & words.keys()), len(CHAPTERS & symbols.keys())) > len(CHAPTERS) / 2


def test_lines_for_your_own_network_run(capsys):
    text = (ROOT / "book" / "intro.md").read_text()
    (lines,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 24, 1, generator=generator)
    labels = torch.randint(2, (64,), generator=generator)
    names = {"torch": torch, "net": Net(outputs=2), "loader": [(inputs, labels)]}
    exec(compile(lines, "book/intro.md", "exec"), names)
    assert "lag" in names["found"].data.dims


def test_every_entry_of_the_bibliography_is_cited():
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "book/references.bib").read_text(), re.MULTILINE)
    pages = "".join((ROOT / f"{name}.md").read_text() for name in DOCUMENTS)
    cited = set(",".join(re.findall(r"\{cite(?::t)?\}`([^`]+)`", pages)).split(","))
    assert set(keys) - cited == set()
