"""The book while it is edited: `make live` serves it on this machine, and writes a page anew after
its text was saved.

One Sphinx stays in memory, and with it all that `make book` reads at its start. A change of the
package, of the book's Python, of claims or of settings takes a new one: the program starts itself
again. Whatever fails is said, and is tried again after the next change.
"""

import argparse
import io
import logging
import os
import re
import socket
import sys
from pathlib import Path

from jupyter_book.config import get_final_config
from livereload import Server
from livereload.handlers import LiveReloadHandler
from livereload.watcher import Watcher
from sphinx.application import Sphinx
from sphinx.util.console import color_terminal, nocolor
from sphinx.util.docutils import docutils_namespace, patch_docutils

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
WATCHED = ("book", "lwcore", "notebooks", "_config.yml", "constraints.txt")
# A page or what it shows: the Sphinx that is there can write it. All else is read at the start.
TEXTS = re.compile(
    r"notebooks/.*\.md|book/(?!results/).*\.md|book/(_static|_templates)/.*|book/results/.*"
)
# What editors and Python leave beside a file
PASSED_OVER = re.compile(
    r"(^|/)(__pycache__|\.[^/]*)(/|$)|(~|\.pyc|\.ipynb|\.tmp|/4913)$|/#[^/]*#$"
)
WARNING = re.compile(r"\b(WARNING|ERROR|CRITICAL|SEVERE): ")


class Watch(Watcher):
    """Looks for files that were changed, added or removed since the book was last written."""

    def __init__(self, write):
        """Begin with the files as they are; `write` takes the set of those that change."""
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
    """A server that leaves the log to the book: livereload has every library say what it does."""

    def _setup_logging(self):
        """Log what goes wrong alone."""
        logging.getLogger("tornado").addHandler(logging.StreamHandler())
        logging.getLogger("tornado").setLevel(logging.ERROR)
        logging.getLogger("livereload").setLevel(logging.ERROR)


class Warnings(io.TextIOBase):
    """A stream that passes warnings on and counts them."""

    def __init__(self, out):
        """Begin without any."""
        self.out = out
        self.count = 0

    def write(self, text):
        """Pass some text on."""
        self.count += len(WARNING.findall(text))
        return self.out.write(text)

    def flush(self):
        """Pass all on."""
        self.out.flush()


class Book:
    """The book in memory; None where it could not be read."""

    def __init__(self):
        """Read the book and write it."""
        self.warnings = Warnings(sys.stderr)
        self.app = None
        self.failed = False
        self.attempt(self.start)

    def start(self):
        """Make the Sphinx that `make book` makes, and write what is not there yet."""
        self.app = sphinx(self.warnings)
        write(self.app)

    def change(self, changed):
        """Write what follows from a change of some files."""
        code = sorted(name for name in changed if not TEXTS.fullmatch(name))
        print(f"\n{', '.join(sorted(changed)[:5])}{' …' * (len(changed) > 5)}", flush=True)
        if code or self.failed or self.app is None:
            again()
        self.attempt(lambda: write(self.app))

    def attempt(self, build):
        """Build, and say how it ended; an error ends the build and not the program."""
        self.warnings.count = 0
        self.failed = False
        try:
            build()
        except Exception as error:
            self.failed = True
            print(f"\n{reason(error)}\nThe pages stay as they were. Mend it and save.", flush=True)
        else:
            n = self.warnings.count
            said = {0: "Without a warning.", 1: "1 warning, above."}.get(n, f"{n} warnings, above.")
            print(said if n == 0 else f"{said} `make book` would fail.", flush=True)


def reason(error):
    """Say in a line or two what a build failed with: Sphinx wraps what it was given."""
    inner = getattr(error, "orig_exc", None) or error.__cause__
    words = str(error) if inner is None else f"{type(inner).__name__}: {inner}"
    return f"The book could not be written: {words or type(error).__name__}"


def stamps():
    """Give the time of the last change of every file that is watched, by its name."""
    found = {}
    for name in WATCHED:
        top = ROOT / name
        for path in [top] if top.is_file() else top.rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if PASSED_OVER.search(name):
                continue
            try:
                if path.is_file():
                    found[name] = path.stat().st_mtime_ns
            except FileNotFoundError:  # removed at this moment
                continue
    return found


def sphinx(warnings):
    """Make the Sphinx that `make book` makes, without its one step that looks at all the package's
    code for each page."""
    settings = {
        "external_toc_path": str(ROOT / "book" / "_toc.yml"),
        "nitpicky": True,
        "latex_individualpages": False,
    }
    config, _ = get_final_config(
        user_yaml=ROOT / "_config.yml", cli_config=settings, sourcedir=ROOT
    )
    app = Sphinx(
        ROOT,
        None,
        HTML,
        ROOT / "_build" / ".doctrees",
        "html",
        confoverrides=config,
        keep_going=True,
        warning=warnings,
    )
    for handler in logging.getLogger("sphinx").handlers:
        handler.addFilter(is_news)
    pages = app.events.listeners["html-collect-pages"]
    pages[:] = [
        listener for listener in pages if listener.handler.__module__ != "sphinx.ext.viewcode"
    ]
    remember_trees(app)
    return app


def is_news(record):
    """Say whether a line of Sphinx's log is worth reading: of every figure it notes that the page's
    lighter copy is replaced."""
    return "will overwrite data, as a file already exists" not in record.getMessage()


def remember_trees(app):
    """Keep in memory the pages' trees that figures are numbered by: all are asked for after every
    edit."""
    trees, read = {}, app.env.get_doctree

    def tree(name):
        stamp = os.stat(Path(app.doctreedir) / f"{name}.doctree").st_mtime_ns
        if trees.get(name, (None,))[0] != stamp:
            trees[name] = stamp, read(name)
        return trees[name][1]

    app.connect(
        "env-get-updated", lambda app, env: setattr(env, "get_doctree", tree) or [], priority=0
    )
    app.connect("env-get-updated", lambda app, env: delattr(env, "get_doctree") or [], priority=999)


def write(app):
    """Write what has changed; scripts that one page brought are not for those of the next time."""
    lists = (
        app.builder._js_files,
        app.builder._css_files,
        app.registry.js_files,
        app.registry.css_files,
    )
    before = [list(each) for each in lists]
    app._warncount = 0  # it would count those of earlier builds, too
    try:
        app.build()
    finally:
        for each, kept in zip(lists, before, strict=True):
            each[:] = kept


def again():
    """Start this program anew, with the code as it is now."""
    os.execv(sys.executable, [sys.executable, "-m", "book.live", *sys.argv[1:]])


def port_number(text):
    """Read the number of a port."""
    number = int(text) if text.isdecimal() else -1
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from 1 to 65535")
    return number


def is_free(port):
    """Say whether the server can have a port."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main():
    """Build, serve, watch."""
    options = argparse.ArgumentParser(prog="python -m book.live", description="Serve the book.")
    options.add_argument("--port", type=port_number, default=8000)
    port = options.parse_args().port
    if not is_free(port):
        sys.exit(
            f"Port {port} is taken, by another `make live`, say. Choose another one: "
            f"make live PORT={port + 1 if port < 65535 else 8000}"
        )
    if not color_terminal():
        nocolor()
    with patch_docutils(None), docutils_namespace():
        watch = Watch(write=lambda changed: book.change(changed))  # before the book is read
        book = Book()
        server = QuietServer(watcher=watch)
        print(
            f"The book is at http://127.0.0.1:{port}/ until Ctrl-C; save a page, and it is there "
            "anew.",
            flush=True,
        )
        server.serve(root=str(HTML), host="127.0.0.1", port=port, open_url_delay=None)


if __name__ == "__main__":
    main()
