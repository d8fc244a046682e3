"""The book while it is edited: what is watched."""

import os

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
