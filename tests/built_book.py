"""Where the built book stands, what it consists of, and with which browser it is read."""

import os
import re
import shutil
from functools import cache
from pathlib import Path

import jupytext
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
DOCUMENTS = [_toc["root"]]
for _pages in PARTS.values():
    DOCUMENTS += _pages
NOTEBOOKS = [name for name in DOCUMENTS if "\nkernelspec:" in (ROOT / f"{name}.md").read_text()]


# The colours of code, half of all elements: what is in them is read as the text around it.
COLOURED = re.compile(r'<span class="[a-z]\w?">([^<]*)</span>')


@cache
def page(name):
    """Return a built page, read once for all tests of a process, which leave it as it is."""
    text = (BOOK / f"{name}.html").read_text()
    return BeautifulSoup(COLOURED.sub(r"\1", text), "html.parser")


@cache
def cells(name):
    """Return the cells of a text notebook, read once as well."""
    return jupytext.read(ROOT / f"{name}.md").cells


def article(name):
    """Return the article of a built page."""
    return page(name).find("article")


def variables_in(name):
    """Return the variables that a page of the reference lists, with their dimensions."""
    text = (ROOT / "book" / "api" / f"{name}.md").read_text()
    listed = {}
    for names, dims in re.findall(r"^\| (`.*?) \|(.*?)\|", text, re.MULTILINE):
        listed |= {key: {*re.findall(r"\w+", dims)} for key in re.findall(r"\w+", names)}
    return listed
