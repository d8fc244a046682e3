"""The book while it is edited: `make live` serves it on this machine, and writes a page anew after
its text was saved.

One Sphinx stays in memory. A change of the package, of the book's Python, of claims or of settings
takes a new one: the program starts itself again. What fails is tried again after the next change.
"""

import argparse
import os
import sys
from pathlib import Path

from jupyter_book.config import get_final_config
from livereload import Server
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
# A page or what it shows: the Sphinx that is there can write it. All else is read at the start.
TEXTS = ["notebooks/*.md", "book/*.md", "book/api/*.md", "book/_templates/**", "book/results/**"]
REST = [
    *("lwcore/**/*.py", "lwcore/**/*.toml", "book/**/*.py", "book/**/*.toml", "book/*.bib"),
    *("book/_static/*", "book/_toc.yml", "_config.yml", "constraints.txt"),
]


def sphinx():
    """Make the Sphinx that `make book` makes, which prints warnings alone."""
    settings = {
        "external_toc_path": "book/_toc.yml",
        "nitpicky": True,
        "latex_individualpages": False,
    }
    config, _ = get_final_config(
        user_yaml=ROOT / "_config.yml", cli_config=settings, sourcedir=ROOT
    )
    trees = ROOT / "_build" / ".doctrees"
    return Sphinx(
        ROOT, None, HTML, trees, "html", confoverrides=config, keep_going=True, status=None
    )


class Book:
    """The book in memory; without an application where it could not be read."""

    app = None

    def build(self):
        """Write what has changed, and say how it ended; an error ends that and not the program."""
        try:
            self.app = self.app or sphinx()
            n_before = self.app._warncount
            self.app.build()
        except Exception as error:
            self.app = None
            print(f"The book could not be written: {error!r}\nMend it and save.", flush=True)
            return
        if self.app._warncount:  # else `make book` would take the pages for read
            Path(self.app.doctreedir, "environment.pickle").unlink(missing_ok=True)
        warned = self.app._warncount > n_before
        print("Warned, above: `make book` would fail." if warned else "Done.", flush=True)

    def change(self):
        """Write a page whose text has changed; begin anew where the book could not be read."""
        if self.app is None:
            begin_anew()
        self.build()


def begin_anew():
    """Start this program again, with the code as it is now."""
    os.execv(sys.executable, [sys.executable, "-m", "book.live", *sys.argv[1:]])


def main():
    """Build, serve, watch."""
    options = argparse.ArgumentParser(prog="python -m book.live", description="Serve the book.")
    options.add_argument("--port", type=int, default=8000)
    port = options.parse_args().port
    book = Book()
    server = Server()
    for pattern in TEXTS:
        server.watch(str(ROOT / pattern), book.change)
    for pattern in REST:
        server.watch(str(ROOT / pattern), begin_anew)
    with patch_docutils(None), docutils_namespace():
        print("Reading the book.", flush=True)
        book.build()
        print(f"http://127.0.0.1:{port}/ until Ctrl-C; save a page, and it is there anew.")
        server.serve(root=str(HTML), host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
