"""The book on paper: all its places are there, and what is printed has bookmarks and text."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader

from book import pdf
from tests.built_book import BROWSER, NO_BROWSER

FEW = ["book/related", "notebooks/14_calibration"]


def test_links_and_pictures_of_the_pages_lead_to_places_in_the_whole():
    whole = BeautifulSoup(pdf.book(FEW), "html.parser")
    assert [node["id"] for node in whole.find_all("article")] == [*map(pdf.anchor, FEW)]
    places = {f"#{node['id']}" for node in whole.select("[id]")}
    links = {link["href"] for link in whole.select("a[href]")}
    assert len(links & places) > 20
    assert {link for link in links - places if not re.match(r"https?://|mailto:", link)} == set()
    sources = {image["src"] for image in whole.find_all("img")}
    assert sources
    assert {source for source in sources if not (pdf.BOOK / source).is_file()} == set()
    assert all("open" in fold.attrs for fold in whole.find_all("details"))


@pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)
def test_printed_pages_have_bookmarks_and_text(tmp_path):
    path = tmp_path / "few.pdf"
    with ThreadPoolExecutor(1) as another:  # a thread has room for one browser's driver
        another.submit(pdf.make, path, FEW).result()
    reader = PdfReader(path)
    titles = [entry.title for entry in reader.outline if not isinstance(entry, list)]
    assert "Related work" in titles
    text = "".join(page.extract_text() for page in reader.pages)
    assert "(37)" in text  # a formula's number
    assert "\\frac" not in text
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
