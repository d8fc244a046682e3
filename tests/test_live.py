"""The book while it is edited: what is watched, what takes a new start, what is said of a failure."""

import os
from types import SimpleNamespace

import pytest
from sphinx.errors import ExtensionError

from book import live


def test_files_that_change_appear_or_go_are_handed_on_once(tmp_path, monkeypatch):
    for name in ("book/claims/one.toml", "lwcore/one.py", "notebooks/one.md", "_config.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(live, "ROOT", tmp_path)
    written = []
    watch = live.Watch(written.append)
    assert watch.examine() == (None, None)
    os.utime(tmp_path / "notebooks/one.md", ns=(1, 1))  # older than before: a file put back
    (tmp_path / "book/claims/two.toml").write_text("2")
    (tmp_path / "lwcore/one.py").unlink()
    for name in (".one.md.swp", "one.md~", "#one.md#", "one.ipynb", ".hidden/one.md"):
        (tmp_path / "notebooks" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "notebooks" / name).write_text("left by an editor")
    watch.examine()
    assert watch.examine() == (None, None)
    assert written == [{"notebooks/one.md", "book/claims/two.toml", "lwcore/one.py"}]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """The book, of which the building is left out: `app.fails` is what it fails with."""
    app = SimpleNamespace(built=0, fails=None, _warncount=0, doctreedir=tmp_path)

    def write(app):
        app.built += 1
        if app.fails:
            raise app.fails

    def again(*arguments):
        raise SystemExit

    monkeypatch.setattr(live, "sphinx", lambda: app)
    monkeypatch.setattr(live, "write", write)
    monkeypatch.setattr(live.os, "execv", again)
    return live.Book()


def test_a_build_that_fails_is_said_and_tried_again_from_the_start(book, capsys):
    cause = KeyError("mean-of-draws")
    book.app.fails = ExtensionError("Handler threw an exception", cause, "ledger")
    book.change({"notebooks/one.md"})
    assert "The book could not be written: KeyError: 'mean-of-draws'" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        book.change({"notebooks/one.md"})


def test_pages_that_warned_are_read_again_by_the_next_build(book, capsys):
    pickle = book.app.doctreedir / "environment.pickle"
    for count, words in ((2, "2 warnings, above: `make book` would fail."), (0, "Done.")):
        pickle.write_text("")
        book.app._warncount = count
        book.change({"notebooks/one.md"})
        assert words in capsys.readouterr().out
        assert not pickle.exists()
