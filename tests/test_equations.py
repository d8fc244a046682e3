"""From the papers' equations to the code and back: nothing is missing, nothing named that does not
exist, all links lead somewhere."""

import ast
import re
import sys

import pytest
import reached
from equation_index import (
    COMPANION,
    IMPLEMENTS,
    INVENTORY,
    NAMED,
    TAG,
    equations,
    implementations,
    inventory,
    link_equations,
    named,
)
from package_source import definitions, modules

from lwcore import experiment
from lwcore.config import Config
from tests.built_book import BOOK, DOCUMENTS, ROOT, page

EQUATIONS = [*map(str, range(1, 61)), *(f"{COMPANION}{number}" for number in range(1, 33))]
SOURCES = {module: path.read_text() for module, path in modules().items()}


def shown_in(chapter):
    """Equations that a chapter shows: in the tag of a formula, or under a target of their own."""
    text = (ROOT / "notebooks" / f"{chapter}.md").read_text()
    tagged = {equation for tag in TAG.finditer(text) for equation in equations(tag)}
    return tagged | set(re.findall(r"^\(paper-eq-([\w-]+)\)=$", text, re.MULTILINE))


def test_inventory_is_complete_and_in_order():
    assert list(inventory()) == EQUATIONS
    assert INVENTORY.read_text().count("\nsays = ") == len(EQUATIONS)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equation_is_implemented_or_there_is_a_reason_why_not(equation):
    assert (equation in implementations()) != ("reason" in inventory()[equation])


def test_what_a_run_calls_is_what_is_read_off_the_sources(tmp_path):
    """A run is watched: nothing that it calls is missed, and of the equations exactly those on its
    path are called."""
    code = {
        name: found
        for name, found in reached.definitions().items()
        if isinstance(found[1], ast.FunctionDef)
    }
    sources = {
        (str(modules()[module].resolve()), first_line(node)): name
        for name, (module, node) in code.items()
    }
    called = set()

    def note(frame, event, _):
        if event == "call":
            called.add(sources.get((frame.f_code.co_filename, frame.f_code.co_firstlineno)))

    config = Config.named("smoke").but(
        models=["GRU", "LSTM", "DiagGate"], seeds=[1], training={"steps": 1, "snapshots": [1]}
    )
    sys.setprofile(note)
    try:
        experiment.run(config, directory=tmp_path, progress=False)
    finally:
        sys.setprofile(None)
    called.discard(None)
    assert len(called) > 100
    assert called - reached.reached() == set()
    classes = {owner for name, owner in reached.methods().items() if name in called}
    for equation, (name, on_path) in implementations().items():
        assert (reached.followed(name) in called | classes) == on_path, equation


def first_line(node):
    """Where the code of a definition begins: at its decorators."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equation_is_shown_where_the_inventory_says(equation):
    chapters = inventory()[equation]["shown"]
    assert chapters
    assert [chapter for chapter in chapters if equation not in shown_in(chapter)] == []


def test_chapters_show_no_equation_that_the_inventory_does_not_know_of():
    chapters = {chapter for entry in inventory().values() for chapter in entry["shown"]}
    assert {(chapter, equation) for chapter in chapters for equation in shown_in(chapter)} == {
        (chapter, equation) for equation, entry in inventory().items() for chapter in entry["shown"]
    }


@pytest.mark.parametrize("module", SOURCES)
def test_docstrings_name_equations_that_exist_in_a_form_that_is_understood(module):
    assert set(named(SOURCES[module])) <= set(EQUATIONS)
    understood = sum(1 for _ in NAMED.finditer(SOURCES[module]))
    assert len(re.findall(r"\b(?:Eqs?\b|[Ee]quations?\s+\(?\d)", SOURCES[module])) == understood


def test_only_what_the_reference_shows_implements_an_equation():
    public_ones = sum(
        len(IMPLEMENTS.findall(d.docstring)) for module in modules() for d in definitions(module)
    )
    assert sum(len(IMPLEMENTS.findall(source)) for source in SOURCES.values()) == public_ones


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Implements Eq. (13).", ["13"]),
        ("Eqs. (9)–(11), (13) and (15)", ["9", "10", "11", "13", "15"]),
        ("Eqs.\n    (35) to (37), and\n    (39).", ["35", "36", "37", "39"]),
        ("the bound C&E Eq. (7)", ["ce-7"]),
        ("C&E's\n    Eqs. (2) and (3); Eq. (4)", ["ce-2", "ce-3", "4"]),
        ("a list (13), E. (13), Eq. 13, C&E (13)", []),
    ],
)
def test_named_equations_are_read(text, keys):
    assert named(text) == keys


@pytest.mark.parametrize(
    ("tag", "keys"),
    [
        (r"\tag{9–11, 13}", ["9", "10", "11", "13"]),
        (r"\tag{C&E 18, 19}", ["ce-18", "ce-19"]),
        (r"\tag{D&F 7}", None),
    ],
)
def test_tags_are_read(tag, keys):
    match = TAG.search(tag)
    assert (match and equations(match)) == keys


def test_links_keep_the_papers_apart():
    lines = ["Implements Eqs. (9)–(10), unlike C&E", "Eq. (7)."]
    link_equations(None, "function", "", None, None, lines)
    assert lines == [
        "Implements Eqs. :ref:`(9) <eq-9>`–:ref:`(10) <eq-10>`, unlike C&E",
        "Eq. :ref:`(7) <eq-ce-7>`.",
    ]


def test_a_name_is_the_one_that_a_reader_imports():
    assert implementations()["37"].name == "lwcore.detection.sample_complexity"
    assert implementations()["ce-26"].name == "lwcore.elman.bounds.theorem_2"
    stable = next(d.name for d in definitions("lwcore.stable.law"))
    assert stable == "lwcore.stable.SymmetricStable"
    assert not any("._" in d.name for module in modules() for d in definitions(module))


def leads_somewhere(link, start):
    """Whether a link within the book arrives at a page, and at a place in it."""
    file, _, anchor = link["href"].partition("#")
    target = (BOOK / start).parent / file if file else BOOK / f"{start}.html"
    name = target.resolve().relative_to(BOOK.resolve()).with_suffix("").as_posix()
    return target.is_file() and (not anchor or page(name).find(id=anchor) is not None)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_row_of_the_index_leads_to_chapters_and_code(equation):
    _, _, shown, code = page("book/equations").find("tr", id=f"eq-{equation}").find_all("td")
    assert len(shown.find_all("a")) == len(inventory()[equation]["shown"])
    assert all(link["href"].endswith(f"#paper-eq-{equation}") for link in shown.find_all("a"))
    found = implementations().get(equation)
    assert [link["href"].partition("#")[2] for link in code.find_all("a")] == (
        [found.name] if found else []
    )
    assert found is None or code.text.endswith(
        "on the path of a run" if found.on_path else "theory only"
    )
    assert all(
        leads_somewhere(link, "book/equations")
        for link in (*shown.find_all("a"), *code.find_all("a"))
    )


def test_every_equation_that_a_docstring_names_leads_back_to_its_row():
    entries = {
        entry["id"]: entry
        for name in DOCUMENTS
        if name.startswith("book/api/")
        for entry in page(name).select("dt[id]")
    }
    naming = [d for module in modules() for d in definitions(module) if named(d.docstring)]
    assert len(naming) > 60
    for definition in naming:
        body = entries[definition.name].find_next_sibling("dd")
        rows = {
            link["href"].partition("#eq-")[2]
            for link in body.select('a[href*="equations.html#eq-"]')
        }
        ends = {
            f"{COMPANION if match['companion'] else ''}{number}"
            for match in NAMED.finditer(definition.docstring)
            for number in re.findall(r"\d+", match["numbers"])
        }
        assert ends <= rows
