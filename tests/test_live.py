"""The book while it is edited: what is watched, and what takes a new start."""

import glob

from book.live import REST, ROOT, TEXTS

KINDS = ["bib", "css", "csv", "html", "js", "md", "nc", "py", "svg", "toml", "yml"]


def files_of(patterns):
    """Files of the checkout that some patterns fit."""
    found = set()
    for pattern in patterns:
        found |= set(glob.glob(pattern, root_dir=ROOT, recursive=True))
    return found


def test_pages_are_written_and_all_else_takes_a_new_start():
    texts, rest = files_of(TEXTS), files_of(REST)
    assert texts & rest == set()
    assert {"notebooks/03_bptt.md", "book/intro.md", "book/_templates/ledger.html"} <= texts
    assert {"book/live.py", "lwcore/configs/small.toml", "book/_static/charts.js"} <= rest
    folders = ("book", "lwcore", "notebooks")
    every = files_of(f"{folder}/**/*.{kind}" for folder in folders for kind in KINDS)
    assert every - texts - rest == {"lwcore/README.md", "book/pdf.css"}
