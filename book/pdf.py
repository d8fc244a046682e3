"""The whole book as one PDF: ``make pdf``, after ``make book``, where Chromium or Chrome is
installed.

The articles of the built pages, in the order of the contents, become one page, which the browser
prints, with bookmarks for its headings. No LaTeX is needed: formulas are set by the pages' own
MathJax and charts are drawn by their own Vega, as SVG, in their first position.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import sync_playwright

from lwcore.results import revision
from tests.built_book import BOOK, BROWSER, DOCUMENTS, NO_BROWSER, ROOT

PDF = ROOT / "_build" / "pdf" / "learnability-window.pdf"
# beside the pages, so that their pictures and scripts are found; taken away again
WHOLE = BOOK / "whole.html"
# a page that has formulas and charts, and so the scripts of both
CHARTS = "notebooks/05c_scaling_laws"
WIDTH = 643  # pixels of the text's width on paper: 170 mm at 96 a inch
PATIENCE = 300_000  # milliseconds for a step of the browser
FOOTER = '<p style="width: 100%; font: 8px sans-serif; text-align: center" class="pageNumber"></p>'
UNWANTED = ".headerlink, .eq-code, .ledger-controls, .toctree-wrapper, .viewcode-link, details.hide"

# Formulas are set, charts are drawn, and what is wider than the paper is made smaller.
READY = "async () => { await MathJax.startup.promise; await document.fonts.ready; }"
DRAWN = "() => [...document.querySelectorAll('.chart')].every(chart => chart.view)"
FIT = """() => {
  for (const part of document.querySelectorAll('div.math, table')) {
    const ratio = part.parentElement.clientWidth / part.scrollWidth;
    if (ratio < 1) part.style.zoom = ratio;
  }
}"""


def read(name: str) -> BeautifulSoup:
    """Read a built page."""
    return BeautifulSoup((BOOK / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def article(name: str, pages: Sequence[str]) -> Tag:
    """Take a page's article out of the built book and make it fit for standing among the others.

    Anchors get the page's name in front. Links to pages among the others lead to places in the same
    document; links to pages that are left out lead nowhere.
    """
    whole = read(name).find("article")
    for node in whole.select(UNWANTED):
        node.decompose()
    for node in whole.select("details"):
        node["open"] = ""
    for node in whole.select("[id]"):
        node["id"] = anchor(name, node["id"])
    for picture in whole.find_all("img"):
        picture.attrs.pop("loading", None)  # all are printed
        picture["src"] = normpath(join(dirname(name), picture["src"]))
    for link in whole.find_all("a", href=True):
        address = urlsplit(link["href"])
        if address.scheme:
            continue
        target = normpath(join(dirname(name), address.path)) if address.path else name
        target = target.removesuffix(".html")
        if target in pages:
            link["href"] = f"#{anchor(target, address.fragment)}"
        else:
            link.unwrap()
    whole["id"] = anchor(name)
    return whole


def anchor(page: str, place: str = "") -> str:
    """Return the anchor of a place on a page, or of the page, in the whole document."""
    return "--".join(filter(None, [page.replace("/", "-"), place]))


def book(pages: Sequence[str]) -> str:
    """Write pages as one page of HTML, to stand in the folder of the built book."""
    scripts = []
    for script in read(CHARTS).head.find_all("script"):
        text = str(script)
        if any(name in text for name in ("MathJax", "mathjax", "vega", "charts.js")):
            scripts.append(text.replace("../_static", "_static"))
    style = (ROOT / "book" / "pdf.css").read_text(encoding="utf-8")
    colours = read(CHARTS).select_one('link[href*="pygments.css"]')["href"].replace("../", "")
    articles = "".join(str(article(name, pages)) for name in pages)
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Learnability Window, a living paper</title>
<link rel="stylesheet" href="{colours}"><style>{style}</style>{"".join(scripts)}</head><body>
<header><p class="title">Learnability Window,<br>a living paper</p>
<p class="edition">Printed from the built book, revision {revision()[:12]}. The pages have more: charts with sliders, a ledger to search, notebooks to download.</p></header>
{articles}</body></html>"""


def make(pdf: Path, pages: Sequence[str]) -> None:
    """Print pages of the built book to a file."""
    WHOLE.write_text(book(pages), encoding="utf-8")
    options = {"format": "A4", "print_background": True, "outline": True, "tagged": True}
    margin = dict.fromkeys(("top", "bottom", "left", "right"), "20mm")
    footer = {"display_header_footer": True, "header_template": " ", "footer_template": FOOTER}
    try:
        with sync_playwright() as playwright:
            options_of_browser = ["--no-sandbox", "--allow-file-access-from-files"]
            browser = playwright.chromium.launch(executable_path=BROWSER, args=options_of_browser)
            page = browser.new_page(viewport={"width": WIDTH, "height": 900})
            page.set_default_timeout(PATIENCE)
            page.emulate_media(media="print", color_scheme="light")
            page.goto(WHOLE.as_uri())
            page.evaluate(READY)
            page.wait_for_function(DRAWN)
            page.evaluate(FIT)
            page.pdf(path=pdf, margin=margin, **options, **footer)
            browser.close()
    finally:
        WHOLE.unlink()


def main() -> None:
    """Make the PDF of the whole book."""
    if not BROWSER:
        sys.exit(f"make pdf prints with a browser: {NO_BROWSER}")
    PDF.parent.mkdir(parents=True, exist_ok=True)
    make(PDF, DOCUMENTS)
    print(PDF.relative_to(ROOT))


if __name__ == "__main__":
    main()
