"""The book on paper: what is put together has all its places, and what is printed has bookmarks,
page numbers and text."""

import re
import subprocess
import sys
from collections import Counter

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader

from book import pdf
from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER, PARTS, ROOT

FEW = {
    "": ["book/glossary"],
    "The theory": ["book/notation", "notebooks/05c_scaling_laws"],
    "Beyond the paper": ["notebooks/09_prediction"],
}


@pytest.fixture(scope="module")
def whole():
    """The whole book as one page."""
    return BeautifulSoup(pdf.book({"": DOCUMENTS[:1], **PARTS}), "html.parser")


def test_every_page_is_in_it_in_order(whole):
    assert [article["id"] for article in whole.select("article")] == [
        pdf.slug(name) for name in DOCUMENTS
    ]
    assert [part.get_text() for part in whole.select("h1.part")] == list(PARTS)
    assert len(whole.select("nav a")) == len(DOCUMENTS)


def test_links_lead_to_places_in_it(whole):
    places = {node["id"] for node in whole.select("[id]")}
    inside = [link["href"] for link in whole.select('a[href^="#"]')]
    assert len(inside) > 1000
    assert {link for link in inside if link[1:] not in places} == set()
    assert {
        link["href"]
        for link in whole.select("a[href]")
        if not re.match(r"#|https?://|mailto:", link["href"])
    } == set()


def test_pictures_are_found(whole):
    sources = [picture["src"] for picture in whole.select("img")]
    assert len(sources) > 50
    assert [source for source in sources if not (pdf.BOOK / source).is_file()] == []


def test_what_cannot_be_read_on_paper_is_left_out(whole):
    assert whole.select("details.hide, .headerlink, .ledger-controls") == []
    assert all(details.has_attr("open") for details in whole.select("details"))


def test_punctuation_stays_with_its_formula():
    text = BeautifulSoup(
        '<p>so <span class="math">x</span>, and <span class="math">y</span> is</p>', "html.parser"
    )
    for formula in text.select("span.math"):
        pdf.keep_together(formula)
    assert (
        str(text)
        == '<p>so <span class="whole"><span class="math">x</span>,</span> and <span class="math">y</span> is</p>'
    )


def test_without_a_browser_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(pdf, "BROWSER", None)
    with pytest.raises(SystemExit, match="no browser found"):
        pdf.main()


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A few pages, printed."""
    path = tmp_path_factory.mktemp("pdf") / "few.pdf"
    lines = (
        f"from pathlib import Path; from book import pdf; pdf.make(Path({str(path)!r}), {FEW!r})"
    )
    # a process has room for one browser's driver
    subprocess.run([sys.executable, "-c", lines], cwd=ROOT, check=True)
    return path


def bookmarks(reader, entries, depth=0):
    """Flatten the bookmarks: depth, title, page."""
    for entry in entries:
        if isinstance(entry, list):
            yield from bookmarks(reader, entry, depth + 1)
        else:
            yield depth, entry.title, reader.get_destination_page_number(entry) + 1


@pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)
def test_printed_pages_have_bookmarks_numbers_and_text(printed):
    reader = PdfReader(printed)
    found = list(bookmarks(reader, reader.outline))
    assert [title for depth, title, _ in found if depth == 0][-2:] == [
        "The theory",
        "Beyond the paper",
    ]
    assert [
        title for depth, title, _ in found if depth == 1 and title in ("Notation", "Scaling laws")
    ] == ["Notation", "Scaling laws"]
    assert sum(title == "What we learn" for _, title, _ in found) == 2
    begins = {title: page for _, title, page in found}
    contents = reader.pages[1].extract_text()
    for title in ("Notation", "Scaling laws"):
        assert re.search(rf"{title}\s*{begins[title]}\b", contents)
    text = "".join(page.extract_text() for page in reader.pages)
    assert "(37, 58)" in text  # a formula's number
    # and what stands behind it
    assert "which is enough for the sign of the mean" in text.replace("\n", " ")
    assert "\\frac" not in text
    figures = Counter(re.findall(r"Fig\. \d+", text))
    assert len(figures) > 5
    assert len(reader.pages) > 20
    assert reader.metadata.title == "Learnability Window, a living paper"
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert printed.stat().st_size < 25e6
