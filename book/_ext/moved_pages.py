"""Addresses that lead on: of the book itself to its first page, and of pages that are now parts of
another, with the place in the page, to the new one."""

from pathlib import Path

MOVED = {  # the page that is gone: where it went, and the place there
    "book/costs": ("trust.html", "what-it-costs"),
    "book/report": ("trust.html", "what-ran"),
}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>This page has moved</title>
<meta name="robots" content="noindex"><link rel="canonical" href="{page}">
<script>location.replace("{page}" + (location.hash || "#{place}"));</script>
<noscript><meta http-equiv="refresh" content="0; url={page}#{place}"></noscript></head>
<body><p>This page is now a part of <a href="{page}#{place}">How this was built</a>.</p></body></html>
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
    for name, (page, place) in MOVED.items():
        path = Path(app.outdir) / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(page=page, place=place), encoding="utf-8")
    # Jupyter Book's own has no icon, and a browser asks for one that is not there
    (Path(app.outdir) / "index.html").write_text(FIRST, encoding="utf-8")


def setup(app):
    """Connect it."""
    app.connect("build-finished", leave_addresses)
