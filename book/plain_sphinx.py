"""The book by Sphinx alone, without Jupyter Book: `make sphinx` shows whether that way is open.

Jupyter Book 1 is frozen, and holds Sphinx and MyST-Parser at old versions; version 2 cannot build
this book. All that Jupyter Book 1 adds to Sphinx is a configuration. Here that configuration is
written out as `_build/sphinx/conf.py`, newer versions build the book from it, with warnings as
errors, and the pages are compared with those of `make book`.
"""

import argparse
import difflib
import pprint
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bs4 import BeautifulSoup
from jupyter_book.config import get_final_config

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "_build" / "sphinx"
BUILT = ROOT / "_build" / "html"
NEWER = (
    *("sphinx==9.0.4", "myst-parser==5.2.0", "myst-nb==1.4.0", "sphinx-book-theme==1.4.0"),
    *("sphinx-comments", "sphinx-copybutton", "sphinx-design", "sphinx-external-toc"),
    *("sphinx-jupyterbook-latex", "sphinx-mathjax-offline", "sphinx-multitoc-numbering"),
    *("sphinx-proof", "sphinx-thebe", "sphinx-togglebutton", "sphinxcontrib-bibtex"),
)
LEFT_OUT = ("jupyter_book",)
CONF = '''\
"""Written by book/plain_sphinx.py, from _config.yml."""

import sys

sys.path[:0] = {paths}
globals().update(
{settings}
)
'''


def configuration(toc):
    """Give the settings that Jupyter Book makes of `_config.yml`, without Jupyter Book."""
    command_line = {"external_toc_path": toc, "nitpicky": True, "latex_individualpages": False}
    settings, _ = get_final_config(
        user_yaml=ROOT / "_config.yml", cli_config=command_line, sourcedir=ROOT
    )
    extensions = settings["extensions"]
    settings["extensions"] = [name for name in extensions if name not in LEFT_OUT]
    settings["templates_path"] = [str(FOLDER / "templates")]
    # relative to the folder of conf.py, which is another one here
    settings["html_static_path"] = [str(ROOT / path) for path in settings["html_static_path"]]
    settings["html_favicon"] = str(ROOT / settings["html_favicon"])
    return settings


def build(toc):
    """Build the book with newer versions; the exit status, 0 where nothing was warned of."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    # the theme's own template names its icons
    kept = shutil.ignore_patterns("webpack-macros.html")
    shutil.copytree(ROOT / "book" / "_templates", FOLDER / "templates", ignore=kept)
    paths = [str(ROOT), str(ROOT / "book" / "_ext")]
    settings = pprint.pformat(configuration(toc), sort_dicts=False)
    (FOLDER / "conf.py").write_text(CONF.format(paths=paths, settings=settings))
    # uv puts these packages before those of the environment, for this one command
    uv = [Path(sys.executable).with_name("uv"), "run", "--no-project", "--active"]
    for requirement in NEWER:
        uv += ["--with", requirement]
    sphinx = ["python", "-m", "sphinx", "-b", "html", "-n", "-W", "--keep-going"]
    where = ["-c", FOLDER, "-d", FOLDER / "doctrees", ROOT, FOLDER / "html"]
    return subprocess.run([*uv, *sphinx, *where], cwd=ROOT, check=False).returncode


def words(page):
    """List the words of a built page's article."""
    article = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find("article")
    return article.get_text(" ").split() if article else []


def pages(folder):
    """List the pages of a built book that a text was written for."""
    sources = {path.relative_to(folder / "_sources") for path in folder.glob("_sources/**/*.md")}
    return {re.sub(r"\.md$", "", path.as_posix()) for path in sources}


def compare():
    """Say in which pages the two books differ, and how much."""
    old, new = pages(BUILT), pages(FOLDER / "html")
    for name in sorted(old ^ new):
        print(f"{name}: only {'make book' if name in old else 'make sphinx'} writes it")
    same = 0
    for name in sorted(old & new):
        before, now = words(BUILT / f"{name}.html"), words(FOLDER / "html" / f"{name}.html")
        changed = [word for word in difflib.ndiff(before, now) if word[0] in "+-"]
        same += not changed
        if changed:
            print(f"{name}: {len(changed)} words differ, first {' '.join(changed[:8])}")
    print(f"{same} of {len(old & new)} pages say the same, word for word.")


def main():
    """Build, and compare with what `make book` has written."""
    options = argparse.ArgumentParser(prog="python -m book.plain_sphinx", description=__doc__)
    options.add_argument("--toc", default="book/_toc.yml", help="the table of contents")
    status = build(options.parse_args().toc)
    if BUILT.is_dir():
        compare()
    else:
        print("There is no book to compare with: make book.")
    print(f"The book by Sphinx alone is in {FOLDER.relative_to(ROOT).as_posix()}/html")
    sys.exit(status)


if __name__ == "__main__":
    main()
