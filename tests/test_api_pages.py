"""The reference of the package: every module stands on one page, every public name has an entry,
and docstrings arrive whole."""

import re
from typing import Annotated, NamedTuple

import pytest
from api_pages import add_types, bare, describe_settings, skip_fields
from package_source import definitions, modules

from lwcore.config import TaskSettings
from tests.built_book import DOCUMENTS, ROOT, article

PAGES = [name for name in DOCUMENTS if name.startswith("book/api/")]


def test_every_module_stands_on_one_page_and_every_public_name_has_an_entry():
    sources = {path.stem: path.read_text() for path in (ROOT / "book" / "api").glob("*")}
    assert {f"book/api/{stem}" for stem in sources} == set(PAGES)
    listed = re.findall(r"^   (lwcore[\w.]*)$", "\n".join(sources.values()), re.MULTILINE)
    assert sorted(listed) == sorted(modules())
    entries = {entry["id"] for name in PAGES for entry in article(name).select("dt[id]")}
    assert {d.name for module in modules() for d in definitions(module)} - entries == set()
    assert "lwcore.config.Config.named" in entries  # from a private base


@pytest.mark.parametrize("name", PAGES)
def test_docstrings_arrive_whole(name):
    page = article(name)
    # a formula that is no literal block becomes a quotation
    assert page.select(".problematic, .system-message, blockquote") == []
    assert re.search(r":\w+:`|\.\. \w+::|numpy\.ndarray\[", page.get_text()) is None


class Pair(NamedTuple):
    """Two numbers."""

    first: "Annotated[int, 'metadata']"


def half(number: "float", *rest: "Annotated[list[Annotated[int, 1]], 2]") -> "float | None":
    """Halve."""


def test_types_are_those_of_the_code():
    lines = [
        "Args:",
        "    number: A number: any.",
        "        Even zero: yes.",
        "    *rest: Others.",
        "",
        "Returns:",
        "    Half: of it.",
        "    Really: so.",
    ]
    add_types(None, "function", "half", half, None, lines)
    assert lines[1:4] == [
        "    number (``float``): A number: any.",
        "        Even zero: yes.",
        "    *rest (``list[int]``): Others.",
    ]
    assert lines[6:] == ["    ``float | None``: Half: of it.", "    Really: so."]
    lines = ["Attributes:", "    first: One.", "    other: Nobody's."]
    add_types(None, "class", "Pair", Pair, None, lines)
    assert lines == ["Attributes:", "    first (``int``): One.", "    other: Nobody's."]
    assert bare("dict[str, Annotated[float, Field(gt=0)]]") == "dict[str, float]"
    lines = [TaskSettings.__doc__, ""]
    describe_settings(None, "class", "TaskSettings", TaskSettings, None, lines)
    assert lines[2:4] == ["Attributes:", "    length: Number of time steps T."]
    assert skip_fields(None, "class", "first", Pair.first, False, None)
    assert skip_fields(None, "function", "half", half, False, None) is None
