"""From the papers' equations to the code and back: nothing is missing, nothing named that does not
exist, all links lead somewhere; and what a package gives on has an entry in the reference."""

import inspect
import re
import sys

from api_pages import modules, public
from equation_index import COMPANION, NAMED, TAG, equations_in, implementations, inventory

from tests.built_book import ROOT, article

EQUATIONS = [*map(str, range(1, 61)), *(f"{COMPANION}{number}" for number in range(1, 33))]
SOURCES = {name: inspect.getsource(sys.modules[name]) for name in modules() if public()}


def shown_in(chapter):
    """Equations that a chapter shows: in the tag of a formula, or under a target of their own."""
    text = (ROOT / "notebooks" / f"{chapter}.md").read_text()
    tagged = set(equations_in(TAG, text))
    return tagged | set(re.findall(r"^\(paper-eq-([\w-]+)\)=$", text, re.MULTILINE))


def test_every_equation_is_shown_and_implemented_or_there_is_a_reason_why_not():
    assert list(inventory()) == EQUATIONS
    for equation, entry in inventory().items():
        assert entry["shown"], equation
        assert (equation in implementations()) != ("reason" in entry), equation


def test_chapters_show_the_equations_that_the_inventory_says():
    listed = {(chapter, key) for key, entry in inventory().items() for chapter in entry["shown"]}
    chapters = {chapter for chapter, _ in listed}
    assert {(chapter, key) for chapter in chapters for key in shown_in(chapter)} == listed


def test_docstrings_name_equations_that_exist():
    for module, source in SOURCES.items():
        assert set(equations_in(NAMED, source)) <= set(EQUATIONS), module


def test_every_exported_name_has_an_entry_in_the_reference():
    entries = {place["id"] for place in article("book/api/index").select("[id]")}
    for module in SOURCES:
        for name in getattr(sys.modules[module], "__all__", ()):
            exported = f"{module}.{name}"
            assert {exported, f"module-{exported}"} & entries, exported
