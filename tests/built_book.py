"""Where the built book stands, what it consists of, and with which browser it is read."""

import os
import shutil
from functools import cache
from pathlib import Path

import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "_build" / "html"


def _find_browser():
    """Return the browser that LW_BROWSER names, or the first that is installed."""
    named = os.environ.get("LW_BROWSER")
    if named:
        return named
    for program in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(program)
        if path:
            return path
    return None


BROWSER = _find_browser()
NO_BROWSER = "no browser found: install chromium, or name one in LW_BROWSER"

_toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text())
PARTS = {}  # the pages of each part, in order
for _part in _toc["parts"]:
    PARTS[_part["caption"]] = _pages = []
    for _chapter in _part["chapters"]:
        _pages.append(_chapter["file"])
        _pages += [section["file"] for section in _chapter.get("sections", [])]
# the chapters of the argument, which alone have numbers, without the pages under them
NUMBERED = [chapter["file"] for chapter in _toc["parts"][0]["chapters"]]
DOCUMENTS = [_toc["root"]]
for _pages in PARTS.values():
    DOCUMENTS += _pages
NOTEBOOKS = [name for name in DOCUMENTS if "\nkernelspec:" in (ROOT / f"{name}.md").read_text()]


@cache
def page(name):
    """Return a built page, read once for all tests of a process, which leave it as it is."""
    return BeautifulSoup((BOOK / f"{name}.html").read_text(), "html.parser")


def article(name):
    """Return the article of a built page."""
    return page(name).find("article")
