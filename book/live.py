"""The book while it is edited: `make live` serves it on this machine, and writes a page anew
seconds after its text was saved.

One Sphinx stays in memory, and with it all that `make book` reads at its start. A change of the
package, of the book's extensions or of its settings takes a new one: the program starts itself
again.
"""

import os
import sys
from functools import partial
from pathlib import Path

from jupyter_book.config import get_final_config
from livereload import Server
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

ROOT = Path(__file__).parents[1]
HTML = ROOT / "_build" / "html"
TEXTS = (
    "notebooks/*.md",
    "book/*.md",
    "book/api/*.md",
    "book/results/*.nc",
    "book/_static/*",
    "book/_templates/**/*",
    "book/_toc.yml",
)
CODE = ("lwcore/**/*.py", "book/_ext/*.py", "book/live.py", "_config.yml", "constraints.txt")


def start():
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
    )
    pages = app.events.listeners["html-collect-pages"]
    pages[:] = [
        listener for listener in pages if listener.handler.__module__ != "sphinx.ext.viewcode"
    ]
    remember_trees(app)
    return app


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
    app.build()
    for each, kept in zip(lists, before, strict=True):
        each[:] = kept


def again():
    """Start this program anew, with the code as it is now."""
    os.execv(sys.executable, [sys.executable, "-m", "book.live", *sys.argv[1:]])


def main():
    """Build, serve, watch."""
    port = int(sys.argv[1]) if sys.argv[1:] else 8000
    with patch_docutils(None), docutils_namespace():
        app = start()
        write(app)
        server = Server()
        for pattern in TEXTS:
            server.watch(str(ROOT / pattern), partial(write, app))
        for pattern in CODE:
            server.watch(str(ROOT / pattern), again)
        print(
            f"The book is at http://127.0.0.1:{port}/ until Ctrl-C; save a page, and it is there "
            "anew."
        )
        server.serve(root=str(HTML), host="127.0.0.1", port=port, open_url_delay=None)


if __name__ == "__main__":
    main()
