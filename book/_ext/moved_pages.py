"""Addresses that lead on: of the book itself to its first page, and of pages that are now parts of
another, with the place in the page, to the new one (``book/moved.toml``)."""

import posixpath
import tomllib
from pathlib import Path

MOVED = Path(__file__).parents[1] / "moved.toml"
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>This page has moved</title>
<meta name="robots" content="noindex"><link rel="canonical" href="{page}">
<script>location.replace("{page}" + (location.hash || "{place}"));</script>
<noscript><meta http-equiv="refresh" content="0; url={page}{place}"></noscript></head>
<body><p>This page is now a part of <a href="{page}{place}">another one</a>.</p></body></html>
"""
FIRST = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Learnability Window, a living paper</title>
<link rel="icon" href="_static/favicon.svg">
<meta http-equiv="refresh" content="0; url=book/intro.html"></head>
<body><p><a href="book/intro.html">Learnability Window, a living paper</a></p></body></html>
"""


def leave_addresses(app, error):
    """Write a page at each old address that leads to the new one."""
    if error or app.builder.format != "html":
        return
    for name, target in tomllib.loads(MOVED.read_text(encoding="utf-8")).items():
        page, hash_sign, place = target.partition("#")
        if page not in app.env.all_docs:
            raise ValueError(f"{MOVED.name}: {name} leads to {page}, which is no page")
        address = posixpath.relpath(f"{page}.html", posixpath.dirname(name))
        path = Path(app.outdir) / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = PAGE.format(page=address, place=hash_sign + place)
        path.write_text(text, encoding="utf-8")
    # Jupyter Book's own has no icon, and a browser asks for one that is not there
    (Path(app.outdir) / "index.html").write_text(FIRST, encoding="utf-8")


def setup(app):
    """Connect it."""
    app.connect("build-finished", leave_addresses)
