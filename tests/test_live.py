"""The book while it is edited: what one page brings is not for the pages of the next time."""

from types import SimpleNamespace

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


def test_what_is_watched_is_there():
    for pattern in (*live.TEXTS, *live.CODE):
        assert list(live.ROOT.glob(pattern)), pattern
