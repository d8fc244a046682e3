"""The book on paper: what is put together has all its places, and what is printed has bookmarks,
page numbers and text."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from pypdf import PdfReader

from book import pdf
from tests.built_book import BROWSER, COLOURED, DOCUMENTS, NO_BROWSER, PARTS, ROOT

FEW = {"": ["book/ledger"], "The theory": ["book/notation", "notebooks/05c_scaling_laws"]}


class Tags(HTMLParser):
    """The tags of a page that is too large to be made a tree of: each with its attributes, and its
    text if it is one of a few."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes), []))
        if tag == "h1":
            self.open = self.found[-1][2]

    def handle_endtag(self, tag):
        if tag == "h1":
            self.open = []

    def handle_data(self, text):
        self.open.append(text)

    def all(self, tag, name):
        """The attribute of every such tag that has it."""
        return [has[name] for kind, has, _ in self.found if kind == tag and name in has]


def test_the_whole_book_is_in_it_in_order_and_all_links_lead_to_places_in_it():
    text = pdf.book({"": DOCUMENTS[:1], **PARTS})
    whole = Tags(COLOURED.sub(r"\1", text))
    assert whole.all("article", "id") == [pdf.slug(name) for name in DOCUMENTS]
    parts = ["".join(said) for _, has, said in whole.found if has.get("class") == "part" and said]
    assert parts == list(PARTS)
    contents = Tags(text[text.index("<nav>") : text.index("</nav>")])
    assert len(contents.all("a", "href")) == len(DOCUMENTS)
    places = {f"#{has['id']}" for _, has, _ in whole.found if "id" in has}
    links = set(whole.all("a", "href"))
    assert len(links) > 500
    assert {to for to in links - places if not re.match(r"https?://|mailto:", to)} == set()
    sources = set(whole.all("img", "src"))
    assert len(sources) > 50
    assert {source for source in sources if not (pdf.BOOK / source).is_file()} == set()
    folded = [has for tag, has, _ in whole.found if tag == "details"]
    assert all("open" in has and "hide" not in has.get("class", "").split() for has in folded)
    classes = {name for _, has, _ in whole.found for name in (has.get("class") or "").split()}
    assert not {"headerlink", "ledger-controls"} & classes


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
    assert [title for depth, title, _ in found if depth == 0][-1] == "The theory"
    chapters = {title: page for depth, title, page in found if depth == 1}
    contents = reader.pages[1].extract_text()
    for title in ("Notation", "Scaling laws"):
        assert re.search(rf"{title}\s*{chapters[title]}\b", contents)
    text = "".join(page.extract_text() for page in reader.pages)
    assert "(37, 58)" in text  # a formula's number
    # and what stands behind it
    assert "which is enough for the mean if" in text.replace("\n", " ")
    assert "\\frac" not in text
    assert len(set(re.findall(r"Fig\. \d+", text))) > 2
    assert len(reader.pages) > 10
    assert reader.metadata.title == "Learnability Window, a living paper"
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert path.stat().st_size < 25e6
