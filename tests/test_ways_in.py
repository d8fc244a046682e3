"""The ways into the book: its parts and their order, words and their explanations, the first page."""

import re
from itertools import pairwise

from tests.built_book import BOOK, DOCUMENTS, PARTS, ROOT, article
from tests.built_book import page as built_page


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


def test_words_in_chapters_show_their_meaning():
    links = [link for name in DOCUMENTS for link in article(name).select("a.word")]
    assert len(links) > 20
    assert all(len(link["title"].split()) >= 3 for link in links)


def test_the_code_has_every_name_that_the_page_of_notation_gives_it():
    page = (ROOT / "book" / "notation.md").read_text()
    places = re.findall(r"^\| .* \| (.*)$", page, re.MULTILINE)
    places += re.findall(r"^  In the code (.*)$", page, re.MULTILINE)
    names = set()
    for place in places:
        for code in re.findall(r"`([^`]+)`", re.sub(r"\{(?:doc|ref)\}`[^`]*`", "", place)):
            names |= set(re.findall(r"\b[A-Za-z_]\w+", code))
    modules = [*ROOT.glob("lwcore/**/*.py"), *ROOT.glob("book/chapters/*.py")]
    source = "".join(path.read_text() + path.stem for path in modules)
    assert len(names) > 20
    assert [name for name in names if not re.search(rf"\b{name}\b", source)] == []


def test_every_entry_of_the_bibliography_is_cited():
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "book/references.bib").read_text(), re.MULTILINE)
    pages = "".join((ROOT / f"{name}.md").read_text() for name in DOCUMENTS)
    cited = set(",".join(re.findall(r"\{cite(?::t)?\}`([^`]+)`", pages)).split(","))
    assert set(keys) - cited == set()
