"""The book while it is edited: `make live` serves it on this machine, and writes a page anew after
its text was saved.

One Sphinx stays in memory. A change of the package, of the book's Python, of claims or of settings
takes a new one: the program starts itself again. What fails is tried again after the next change.
"""

import argparse
import logging
import os
import re
import sys
from pathlib import Path

from jupyter_book.config import get_final_config
from livereload import Server
from livereload.handlers import LiveReloadHandler
from livereload.watcher import Watcher
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
WATCHED = ("book", "lwcore", "notebooks", "_config.yml", "constraints.txt")
KINDS = {".bib", ".css", ".csv", ".html", ".js", ".md", ".nc", ".py", ".svg", ".toml", ".yml"}
# A page or what it shows: the Sphinx that is there can write it. All else is read at the start.
TEXTS = re.compile(
    r"notebooks/.*\.md|book/(?!results/).*\.md|book/(_static|_templates)/.*|book/results/.*"
)


class Watch(Watcher):
    """Looks for files that were changed, added or removed since the book was last written."""

    def __init__(self, write):
        """Begin with the files as they are; `write` takes the names of those that change."""
        super().__init__()
        self.write = write
        self.before = stamps()

    def examine(self):
        """Have what has changed written; the server then tells the browser."""
        if self._changes and LiveReloadHandler.waiters:  # once: a page of before the start is there
            return self._changes.pop()
        now = stamps()
        changed = {name for name, _ in self.before.items() ^ now.items()}
        self.before = now
        if not changed:
            return None, None
        self.write(changed)
        return min(changed), None


class QuietServer(Server):
    """A server that has libraries log nothing but errors."""

    def _setup_logging(self):
        """Leave the log to the book: livereload has every library say what it does."""
        logging.getLogger("tornado").setLevel(logging.ERROR)
        logging.getLogger("livereload").setLevel(logging.ERROR)


class Book:
    """The book in memory; without an application where it could not be read."""

    def __init__(self):
        """Read the book and write it."""
        self.app = None
        self.failed = False
        self.warned = False
        self.build()

    def change(self, changed):
        """Write what follows from a change of some files."""
        print(f"\n{', '.join(sorted(changed)[:5])}{' …' * (len(changed) > 5)}", flush=True)
        needs_start = any(not TEXTS.fullmatch(name) for name in changed)
        if needs_start or self.failed:
            os.execv(sys.executable, [sys.executable, "-m", "book.live", *sys.argv[1:]])
        self.build()

    def build(self):
        """Build, and say how it ended; an error ends the build and not the program."""
        try:
            self.app = self.app or sphinx()
            write(self.app)
        except Exception as error:
            self.failed = True
            cause = getattr(error, "orig_exc", None) or error.__cause__ or error
            reason = f"{type(cause).__name__}: {cause}"
            print(f"The book could not be written: {reason}\nMend it and save.", flush=True)
            return
        n_warnings = self.app._warncount
        self.warned = self.warned or n_warnings > 0
        if self.warned:  # else `make book` would take the pages for read
            Path(self.app.doctreedir, "environment.pickle").unlink(missing_ok=True)
        outcome = (
            f"{n_warnings} warnings, above: `make book` would fail." if n_warnings else "Done."
        )
        print(outcome, flush=True)


def stamps():
    """Give the time of the last change of every file that is watched, by its name."""
    found = {}
    for name in WATCHED:
        top = ROOT / name
        for path in [top] if top.is_file() else top.rglob("*"):
            place = path.relative_to(ROOT)
            is_hidden = any(part.startswith(".") for part in place.parts)
            if path.suffix in KINDS and not is_hidden and path.is_file():
                found[place.as_posix()] = path.stat().st_mtime_ns
    return found


def sphinx():
    """Make the Sphinx that `make book` makes, which prints warnings alone.

    Its one step that looks at all the package's code for each page is left out.
    """
    settings = {
        "external_toc_path": str(ROOT / "book" / "_toc.yml"),
        "nitpicky": True,
        "latex_individualpages": False,
    }
    config, _ = get_final_config(
        user_yaml=ROOT / "_config.yml", cli_config=settings, sourcedir=ROOT
    )
    trees = ROOT / "_build" / ".doctrees"
    app = Sphinx(
        ROOT, None, HTML, trees, "html", confoverrides=config, keep_going=True, status=None
    )
    pages = app.events.listeners["html-collect-pages"]
    pages[:] = [kept for kept in pages if kept.handler.__module__ != "sphinx.ext.viewcode"]
    remember_trees(app)
    return app


def remember_trees(app):
    """Keep the pages' trees in memory: to number figures, all are asked for after every edit."""
    trees = {}
    read = app.env.get_doctree

    def tree(name):
        stamp = os.stat(Path(app.doctreedir) / f"{name}.doctree").st_mtime_ns
        if trees.get(name, (None,))[0] != stamp:
            trees[name] = stamp, read(name)
        return trees[name][1]

    def begin(app, env):
        env.get_doctree = tree
        return []

    def end(app, env):
        del env.get_doctree
        return []

    app.connect("env-get-updated", begin, priority=0)
    app.connect("env-get-updated", end, priority=999)


def write(app):
    """Write what has changed; scripts that one page brought are not for those of the next time."""
    lists = (
        app.builder._js_files,
        app.builder._css_files,
        app.registry.js_files,
        app.registry.css_files,
    )
    before = [list(files) for files in lists]
    app._warncount = 0  # it would count those of earlier builds, too
    try:
        app.build()
    finally:
        for files, kept in zip(lists, before, strict=True):
            files[:] = kept


def main():
    """Build, serve, watch."""
    options = argparse.ArgumentParser(prog="python -m book.live", description="Serve the book.")
    options.add_argument("--port", type=int, default=8000)
    port = options.parse_args().port
    with patch_docutils(None), docutils_namespace():
        watch = Watch(write=lambda changed: book.change(changed))  # before the book is read
        server = QuietServer(watcher=watch)
        print("Reading the book.", flush=True)
        book = Book()
        print(f"http://127.0.0.1:{port}/ until Ctrl-C; save a page, and it is there anew.")
        server.serve(root=str(HTML), host="127.0.0.1", port=port, open_url_delay=None)


if __name__ == "__main__":
    main()
