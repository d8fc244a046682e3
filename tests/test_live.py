"""The book while it is edited: what is watched, what takes a new start, what is said of a failure,
and that what one page brings is not for the pages of the next time."""

import os
import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from sphinx.errors import ExtensionError

from book import live


def test_scripts_of_one_page_are_not_for_the_next_time():
    lists = {"_js_files": ["theme.js"], "_css_files": ["theme.css"]}
    registry = SimpleNamespace(js_files=[("ours.js", {})], css_files=[])
    builder = SimpleNamespace(**lists)

    def build():
        builder._js_files.append("charts.js")
        registry.js_files.append(("charts.js", {}))

    app = SimpleNamespace(builder=builder, registry=registry, build=build)
    for _ in range(2):
        live.write(app)
    assert builder._js_files == ["theme.js"]
    assert registry.js_files == [("ours.js", {})]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A small checkout that is watched, with the changes that were handed on."""
    for name in ("book/claims/one.toml", "lwcore/one.py", "notebooks/one.md", "_config.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(live, "ROOT", tmp_path)
    return tmp_path


def test_files_that_change_appear_or_go_are_handed_on_once(checkout):
    written = []
    watch = live.Watch(written.append)
    assert watch.examine() == (None, None)
    os.utime(checkout / "notebooks/one.md", ns=(1, 1))  # older than before: a file put back
    (checkout / "book/claims/two.toml").write_text("2")
    (checkout / "lwcore/one.py").unlink()
    watch.examine()
    assert written == [{"notebooks/one.md", "book/claims/two.toml", "lwcore/one.py"}]
    for name in ("__pycache__/one.pyc", ".one.md.swp", "one.md~", "#one.md#", "one.ipynb"):
        (checkout / "notebooks" / name).parent.mkdir(exist_ok=True)
        (checkout / "notebooks" / name).write_text("left by an editor")
    assert watch.examine() == (None, None)
    assert len(written) == 1


@pytest.mark.parametrize(
    ("name", "starts_again"),
    [
        ("notebooks/16_mine.md", False),
        ("book/intro.md", False),
        ("book/api/theory.md", False),
        ("book/_static/living_paper.css", False),
        ("book/results/small.nc", False),
        ("book/claims/16_mine.toml", True),
        ("book/chapters/dose.py", True),
        ("book/charts/style.py", True),
        ("book/_ext/ledger.py", True),
        ("book/_toc.yml", True),
        ("book/equations.toml", True),
        ("book/references.bib", True),
        ("lwcore/configs/quick.toml", True),
        ("_config.yml", True),
    ],
)
def test_what_is_read_at_the_start_takes_a_new_start(book, monkeypatch, name, starts_again):
    def again():
        raise SystemExit

    monkeypatch.setattr(live, "again", again)
    if starts_again:
        with pytest.raises(SystemExit):
            book.change({name})
    else:
        book.change({name})
        assert book.app.built == 2


@pytest.fixture
def book(monkeypatch):
    """The book, of which the building is left out: `app.says` is what it warns of or fails with."""
    app = SimpleNamespace(built=0, says="")

    def write(app):
        app.built += 1
        if isinstance(app.says, Exception):
            raise app.says
        book.warnings.write(app.says)

    monkeypatch.setattr(live, "sphinx", lambda warnings: app)
    monkeypatch.setattr(live, "write", write)
    book = live.Book.__new__(live.Book)
    book.__init__()  # it writes, and `write` reads `book`
    return book


def test_a_count_of_warnings_is_that_of_the_last_build(book, capsys):
    book.app.says = "notebooks/one.md:3: WARNING: odd\nnotebooks/one.md:9: ERROR: wrong\n"
    book.change({"notebooks/one.md"})
    assert "2 warnings, above. `make book` would fail." in capsys.readouterr().out
    book.app.says = ""
    book.change({"notebooks/one.md"})
    assert capsys.readouterr().out == "\nnotebooks/one.md\nWithout a warning.\n"


def test_a_build_that_fails_is_said_and_tried_again_from_the_start(book, monkeypatch, capsys):
    book.app.says = ExtensionError(
        "Handler threw an exception", KeyError("mean-of-draws"), "ledger"
    )
    book.change({"notebooks/one.md"})
    assert "The book could not be written: KeyError: 'mean-of-draws'" in capsys.readouterr().out
    started = []
    monkeypatch.setattr(live, "again", lambda: started.append(True))
    book.app.says = ""
    book.change({"notebooks/one.md"})
    assert started == [True]


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (
            "taken",
            r"Port \d+ is taken, by another `make live`, say. Choose another one: make live PORT=",
        ),
        ("0", "'0': must be a whole number from 1 to 65535"),
        ("many", "'many': must be a whole number from 1 to 65535"),
    ],
)
def test_a_port_that_cannot_be_had_is_refused_before_the_book_is_read(
    port, words, capsys, monkeypatch
):
    monkeypatch.setattr(live, "Book", lambda: pytest.fail("the book was read"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1]) if port == "taken" else port
        monkeypatch.setattr(sys, "argv", ["live", "--port", number])
        with pytest.raises(SystemExit) as end:
            live.main()
    said = capsys.readouterr().err + str(end.value)
    assert re.search(words, said)


def test_libraries_do_not_log_what_they_do():
    code = """import logging
from book.live import QuietServer
QuietServer()._setup_logging()
logging.getLogger("fontTools.subset").info("glyphs pruned")
logging.getLogger("livereload").info("Running task")
logging.getLogger("tornado.access").warning("404 GET /one")"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
