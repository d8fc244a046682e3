"""The whole book as one PDF: ``make pdf``, after ``make book``, where Chromium or Chrome is
installed.

The articles of the built pages, in the order of the contents, become one page with a title and a
table of contents; the browser prints it, twice, because only the first print tells on which page a
chapter begins. No LaTeX is needed: formulas are set by the pages' own MathJax and charts are drawn
by their own Vega, as SVG, in their first position.
"""

import datetime
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import escape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, NavigableString, Tag
from playwright.sync_api import Page, sync_playwright
from pypdf import PdfReader

from lwcore.results import revision
from tests.built_book import BOOK, BROWSER, DOCUMENTS, NO_BROWSER, PARTS, ROOT

Parts = dict[str, list[str]]

PDF = ROOT / "_build" / "pdf" / "learnability-window.pdf"
# beside the pages, so that their pictures and scripts are found; taken away again
WHOLE = BOOK / "whole.html"
# a page that has formulas and charts, and so the scripts of both
CHARTS = "notebooks/05c_scaling_laws"
WIDTH = 643  # pixels of the text's width on paper: 170 mm at 96 a inch
PATIENCE = 300_000  # milliseconds for a step of the browser
MARGINS = {"top": "20mm", "bottom": "20mm", "left": "20mm", "right": "20mm"}
LINE = '<div style="width: 100%; font: 8px sans-serif; color: #555; text-align: center">{}</div>'

UNWANTED = ".headerlink, .eq-code, .ledger-controls, details.hide, .toctree-wrapper, script:not([type]), .viewcode-link"
# words without a style of their own: each would be a tag of its own in the PDF
PLAIN = ".highlight :is(.n, .p, .w), .pre"
POINTERS = ("for", "aria-labelledby", "aria-describedby")

# Formulas are set, charts are drawn, and what is wider than the paper is made smaller.
READY = "async () => { await MathJax.startup.promise; await document.fonts.ready; }"
DRAWN = "() => [...document.querySelectorAll('.chart')].every(chart => chart.view)"
FIT = """() => {
  for (const formula of document.querySelectorAll('div.math mjx-container')) {
    const ratio = formula.parentElement.clientWidth / formula.scrollWidth;
    if (ratio < 1) formula.style.fontSize = `${96 * ratio}%`;
  }
  for (const table of document.querySelectorAll('table')) {
    const ratio = table.parentElement.clientWidth / table.scrollWidth;
    if (ratio < 1) table.style.zoom = ratio;
  }
}"""
NUMBER = """pages => {
  for (const [anchor, page] of Object.entries(pages)) document.querySelector(`[data-page-of='${anchor}']`).textContent = page;
}"""


def slug(name: str) -> str:
    """The anchor of a page: ``notebooks/03_bptt`` → ``notebooks-03_bptt``."""
    return name.replace("/", "-")


def article(name: str, known: list[str]) -> Tag:
    """Take a page's article out of the built book and make it fit for standing among the others.

    Args:
        name: The page, such as ``notebooks/03_bptt``.
        known: The pages that it stands among.

    Returns:
        The article: headings one level down, below those of the parts; anchors with the page's name
            in front; links to places in the same
        document.
    """
    whole = BeautifulSoup((BOOK / f"{name}.html").read_text(encoding="utf-8"), "html.parser").find(
        "article"
    )
    for node in whole.select(UNWANTED):
        node.decompose()
    for node in whole.select("details"):
        node["open"] = ""
    for node in whole.select(PLAIN):
        node.unwrap()
    whole.smooth()
    for heading in whole.find_all(["h1", "h2", "h3", "h4"]):
        heading.name = f"h{int(heading.name[1]) + 1}"
    for node in whole.find_all(True):
        if "id" in node.attrs:
            node["id"] = f"{slug(name)}--{node['id']}"
        for pointer in POINTERS:
            if pointer in node.attrs:
                node[pointer] = f"{slug(name)}--{node[pointer]}"
    for picture in whole.find_all("img"):
        picture.attrs.pop("loading", None)  # all are printed
        picture["src"] = normpath(join(dirname(name), picture["src"]))
    for link in whole.find_all("a", href=True):
        lead(link, name, known)
    for formula in whole.select("span.math"):
        keep_together(formula)
    whole["id"] = slug(name)
    return whole


def keep_together(formula: Tag) -> None:
    """Let no line begin with the punctuation behind a formula."""
    behind = formula.next_sibling
    if isinstance(behind, NavigableString) and (mark := re.match(r"[^\s\w]+", behind)):
        behind.replace_with(behind[mark.end() :])
        formula.wrap(BeautifulSoup().new_tag("span", attrs={"class": "whole"})).append(mark[0])


def lead(link: Tag, page: str, known: list[str]) -> None:
    """Let a link on a page lead to the same place in this document; to nowhere, if that was left
    out."""
    address = urlsplit(link["href"])
    if address.scheme:
        return
    target, anchor = (
        normpath(join(dirname(page), address.path)).removesuffix(".html") if address.path else page,
        address.fragment,
    )
    target = DOCUMENTS[0] if target == "index" else target
    if target in known:
        link["href"] = f"#{slug(target)}--{anchor}" if anchor else f"#{slug(target)}"
    else:
        link.unwrap()


def book(parts: Parts) -> str:
    """Write the book as one page.

    Args:
        parts: Its pages by part, in their order; those of the part without a name come first.

    Returns:
        The page as HTML, to stand in the folder of the built book.
    """
    front = BeautifulSoup(
        (BOOK / f"{DOCUMENTS[0]}.html").read_text(encoding="utf-8"), "html.parser"
    )
    charts = BeautifulSoup((BOOK / f"{CHARTS}.html").read_text(encoding="utf-8"), "html.parser")
    scripts = [
        str(script)
        for script in charts.head.find_all("script")
        if re.search(r"MathJax|mathjax|vega|charts\.js", str(script))
    ]
    known = [page for pages in parts.values() for page in pages]
    titles, body = {}, []
    for part, pages in parts.items():
        if part:
            body.append(f'<h1 class="part">{escape(part)}</h1>')
        for page in pages:
            made = article(page, known)
            titles[page] = made.find("h2").get_text()
            # not every machine has a font of coloured signs
            body.append(str(made).replace("✅", "✓"))
    contents = "".join(
        (f"<li class='part'>{escape(part)}</li>" if part else "")
        + "".join(
            f"<li><a href='#{slug(page)}'>{escape(titles[page])}</a><span "
            f"data-page-of='{slug(page)}'></span></li>"
            for page in pages
        )
        for part, pages in parts.items()
    )
    style = (ROOT / "book" / "pdf.css").read_text(encoding="utf-8")
    pygments = front.select_one('link[href*="pygments.css"]')["href"].replace("../", "")
    scripts = "\n".join(scripts).replace("../_static", "_static")
    today = datetime.datetime.now(datetime.UTC).date()
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Learnability Window, a living paper</title>
<link rel="stylesheet" href="{pygments}"><style>{style}</style>{scripts}</head><body>
<header><p class="title">Learnability Window,<br>a living paper</p>
<p>The theory of Lorenzo Livi, <em>Learnability Window in Gated Recurrent Neural Networks</em> (arXiv 2512.05790),
as code that runs and is checked</p>
<p class="edition">Printed from the built book on {today}, revision {escape(revision()[:12])}.
The pages have more: charts with sliders, a ledger to search, words explained where they stand, folded code, notebooks to download.</p></header>
<nav><p class="contents">Contents</p><ul>{contents}</ul></nav>
{"".join(body)}</body></html>"""


def pages_of(pdf: Path, names: list[str]) -> dict[str, int]:
    """Read off a PDF on which page each of the book's pages begins: anchor → number."""
    reader = PdfReader(pdf)
    places = {name.removeprefix("/"): place for name, place in reader.named_destinations.items()}
    return {
        slug(name): reader.get_destination_page_number(places[slug(name)]) + 1 for name in names
    }


def print_to(pdf: Path, page: Page) -> None:
    """Print the page that the browser shows."""
    page.pdf(
        path=pdf,
        format="A4",
        margin=MARGINS,
        print_background=True,
        outline=True,
        tagged=True,
        display_header_footer=True,
        header_template=LINE.format("Learnability Window, a living paper"),
        footer_template=LINE.format('<span class="pageNumber"></span>'),
    )


class Quiet(SimpleHTTPRequestHandler):
    """Serve files without a line on the screen for each."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; give the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def make(pdf: Path, parts: Parts) -> None:
    """Make a PDF of parts of the built book.

    Args:
        pdf: Where to write it.
        parts: What it consists of, as for `book`.
    """
    names = [page for pages in parts.values() for page in pages]
    WHOLE.write_text(book(parts), encoding="utf-8")
    try:
        with served(BOOK) as site, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": WIDTH, "height": 900})
            page.set_default_timeout(PATIENCE)
            page.emulate_media(media="print", color_scheme="light")
            page.goto(f"{site}/{WHOLE.name}")
            page.evaluate(READY)
            page.wait_for_function(DRAWN)
            page.evaluate(FIT)
            print_to(pdf, page)
            page.evaluate(NUMBER, pages_of(pdf, names))
            print_to(pdf, page)
            browser.close()
    finally:
        WHOLE.unlink()


def main() -> None:
    """Make the PDF of the whole book."""
    if not BROWSER:
        sys.exit(f"make pdf prints with a browser: {NO_BROWSER}")
    PDF.parent.mkdir(parents=True, exist_ok=True)
    make(PDF, {"": DOCUMENTS[:1], **PARTS})
    print(
        f"{PDF.relative_to(ROOT)}: {len(PdfReader(PDF).pages)} pages, "
        f"{PDF.stat().st_size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
