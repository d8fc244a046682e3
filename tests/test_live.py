"""The book while it is edited: what is watched, and what takes a new start."""

import pytest

from book import live


@pytest.mark.parametrize(
    ("name", "watched", "text"),
    [
        ("notebooks/one.md", True, True),
        ("book/_static/one.css", True, True),
        ("book/claims/one.toml", True, False),
        ("lwcore/one.py", True, False),
        ("_config.yml", True, False),
        ("notebooks/.one.md.swp", False, False),
        ("notebooks/one.md~", False, False),
        ("notebooks/.hidden/one.md", False, True),
    ],
)
def test_pages_are_written_and_all_else_takes_a_new_start(name, watched, text):
    path = str(live.ROOT / name)
    assert (live.is_watched(path), live.is_text(path)) == (watched, text)
