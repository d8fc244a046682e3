"""The book on paper: what is put together has all its places, and what is printed has bookmarks,
page numbers and text."""

import re
import subprocess
import sys

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader

from book import pdf
from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER, PARTS, ROOT

FEW = {
    "": ["book/glossary"],
    "The theory": ["book/notation", "notebooks/05c_scaling_laws"],
    "Beyond the paper": ["notebooks/09b_earlier_runs"],
}


def test_the_whole_book_is_in_it_in_order_and_all_links_lead_to_places_in_it():
    whole = BeautifulSoup(pdf.book({"": DOCUMENTS[:1], **PARTS}), "html.parser")
    articles = [article["id"] for article in whole.select("article")]
    assert articles == [pdf.slug(name) for name in DOCUMENTS]
    assert [part.get_text() for part in whole.select("h1.part")] == list(PARTS)
    assert len(whole.select("nav a")) == len(DOCUMENTS)
    places = {f"#{node['id']}" for node in whole.select("[id]")}
    links = {link["href"] for link in whole.select("a[href]")}
    assert len(links) > 500
    assert {to for to in links - places if not re.match(r"https?://|mailto:", to)} == set()
    sources = {picture["src"] for picture in whole.select("img")}
    assert len(sources) > 50
    assert {source for source in sources if not (pdf.BOOK / source).is_file()} == set()
    assert whole.select("details.hide, details:not([open]), .headerlink, .ledger-controls") == []


def bookmarks(reader, entries, depth=0):
    """Flatten the bookmarks: depth, title, page."""
    for entry in entries:
        if isinstance(entry, list):
            yield from bookmarks(reader, entry, depth + 1)
        else:
            yield depth, entry.title, reader.get_destination_page_number(entry) + 1


@pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)
def test_printed_pages_have_bookmarks_numbers_and_text(tmp_path):
    path = tmp_path / "few.pdf"
    lines = f"from pathlib import Path; from book import pdf; pdf.make(Path('{path}'), {FEW!r})"
    # a process has room for one browser's driver
    subprocess.run([sys.executable, "-c", lines], cwd=ROOT, check=True)
    reader = PdfReader(path)
    found = list(bookmarks(reader, reader.outline))
    parts = [title for depth, title, _ in found if depth == 0]
    assert parts[-2:] == ["The theory", "Beyond the paper"]
    chapters = {title: page for depth, title, page in found if depth == 1}
    contents = reader.pages[1].extract_text()
    for title in ("Notation", "Scaling laws"):
        assert re.search(rf"{title}\s*{chapters[title]}\b", contents)
    text = "".join(page.extract_text() for page in reader.pages)
    assert "(37, 58)" in text  # a formula's number
    # and what stands behind it
    assert "which is enough for the mean if" in text.replace("\n", " ")
    assert "\\frac" not in text
    assert len(set(re.findall(r"Fig\. \d+", text))) > 5
    assert len(reader.pages) > 20
    assert reader.metadata.title == "Learnability Window, a living paper"
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert path.stat().st_size < 25e6
