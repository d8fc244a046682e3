"""Where the built book stands, what it consists of, and with which browser it is read."""

import os
import shutil
from functools import cache
from pathlib import Path

import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "_build" / "html"

BROWSER = os.environ.get("LW_BROWSER") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NO_BROWSER = "no browser found: install chromium, or name one in LW_BROWSER"

_toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text())
PARTS = {
    part["caption"]: [
        page["file"]
        for chapter in part["chapters"]
        for page in (chapter, *chapter.get("sections", []))
    ]
    for part in _toc["parts"]
}
# the chapters of the argument, which alone have numbers, without the pages under them
NUMBERED = [chapter["file"] for chapter in _toc["parts"][0]["chapters"]]
DOCUMENTS = [_toc["root"], *(page for pages in PARTS.values() for page in pages)]
NOTEBOOKS = [name for name in DOCUMENTS if "\nkernelspec:" in (ROOT / f"{name}.md").read_text()]


@cache
def page(name):
    """A built page, read once for all tests of a process, which leave it as it is."""
    return BeautifulSoup((BOOK / f"{name}.html").read_text(), "html.parser")


def article(name):
    """The article of a built page."""
    return page(name).find("article")
