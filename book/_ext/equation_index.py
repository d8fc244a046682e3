r"""The index from equations to code and back: a table of each paper's equations, and a link to it
wherever a docstring names one.

Three sources are brought together. ``book/equations.toml`` says in a few words what each equation
says, which chapters show it, whether an experiment calls what implements it, and why nothing
implements it where nothing does. A chapter shows
equation 13 where a formula has it in its tag, as in ``\tag{13}``, ``\tag{9–13}`` or ``\tag{13,
58}``, or where a line reads ``(paper-eq-13)=``. A function implements it if its docstring has a
sentence that begins "Implements Eq. (13)"; no two functions implement the same. Equations of the
companion paper are written "C&E Eq. (13)", in a tag ``\tag{C&E 13}``, in a line
``(paper-eq-ce-13)=``; here and in the inventory they are known as ``ce-13``.
"""

import inspect
import re
import tomllib
from functools import cache
from pathlib import Path

from api_pages import ROOT, public
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

INVENTORY = ROOT / "book" / "equations.toml"
COMPANION = "ce-"
NUMBERS = r"\(\d+\)(?:(?:\s*–\s*|,\s+|,?\s+(?:and|or|to)\s+)\(\d+\))*"
NAMED = re.compile(rf"(?P<companion>C&E(?:'s)?\s+)?\bEqs?\.\s+(?P<numbers>{NUMBERS})")
IMPLEMENTS = re.compile(rf"\bImplements\s+{NAMED.pattern}")
TAG = re.compile(r"\\tag\{(?P<companion>C&E )?(?P<numbers>[\d–, ]+)\}")
PAGE = "book/equations"
HEAD = """```{list-table}
:header-rows: 1
:class: equations

* - Eq.
  - What it says
  - Shown in
  - In the code"""


@cache
def inventory() -> dict[str, dict]:
    """Read what is said of each equation, by its key: a number, or ``ce-`` and a number."""
    return tomllib.loads(INVENTORY.read_text())


def equations(match: re.Match) -> list[str]:
    r"""List the equations that a phrase or a tag stands for, as the inventory knows them.

    A phrase is as "(9)–(11) and (13)", a tag as "9–11, 13".

    >>> equations(NAMED.search("Eqs. (9)–(11) and (13)"))
    ['9', '10', '11', '13']
    >>> equations(TAG.search(r"\tag{C&E 18, 19}"))
    ['ce-18', 'ce-19']
    """
    numbers: list[int] = []
    for first, last in re.findall(r"(\d+)\)?(?:\s*(?:–|to)\s*\(?(\d+))?", match["numbers"]):
        numbers += range(int(first), int(last or first) + 1)
    paper = COMPANION if match["companion"] else ""
    return [f"{paper}{number}" for number in numbers]


def equations_in(pattern: re.Pattern, text: str) -> list[str]:
    """List the equations of all places in a text that a pattern fits, in their order."""
    keys: list[str] = []
    for match in pattern.finditer(text):
        keys += equations(match)
    return keys


@cache
def implementations() -> dict[str, str]:
    """Find what implements each equation, by the name that a reader imports."""
    implementing: dict[str, str] = {}
    for name, value in public().items():
        for equation in equations_in(IMPLEMENTS, inspect.getdoc(value) or ""):
            if equation in implementing:
                both = f"{implementing[equation]} and {name}"
                raise ValueError(f"{both} implement Eq. {equation}: one is to name it.")
            implementing[equation] = name
    return implementing


def title(chapter: str) -> str:
    """Read a chapter's title, up to a colon."""
    text = (ROOT / "notebooks" / f"{chapter}.md").read_text()
    heading = re.search(r"^# (.+)", text, re.MULTILINE)[1]
    return heading.partition(":")[0]


class EquationIndex(SphinxDirective):
    """A table with a row for each equation.

    A row has the number, what the equation says, the chapters that show it, and what implements it
    or why nothing does. With the argument ``companion`` the companion's equations, else the
    paper's.
    """

    optional_arguments = 1

    def run(self):
        """Make the table, whose rows are known by their equations."""
        for path in (INVENTORY, Path(__file__), *(ROOT / "lwcore").rglob("*.py")):
            self.env.note_dependency(str(path))
        of_companion = self.arguments == ["companion"]
        keys = [key for key in inventory() if key.startswith(COMPANION) == of_companion]
        lines = [HEAD, *map(row, keys), "```"]
        made = self.parse_text_to_nodes("\n".join(lines))
        labels = self.env.get_domain("std").anonlabels
        rows = list(made[0].findall(nodes.row))
        for key, made_row in zip(keys, rows[1:], strict=True):
            anchor = f"eq-{key}"
            made_row["ids"].append(anchor)
            labels[anchor] = self.env.docname, anchor
        return made


def row(key):
    """Write one row of the table."""
    entry = inventory()[key]
    chapters = [f"{{ref}}`{title(chapter)} <{chapter}/{key}>`" for chapter in entry["shown"]]
    in_the_code = entry.get("reason")
    if in_the_code is None:
        name = implementations()[key]
        in_the_code = f"{{py:obj}}`{name.removeprefix('lwcore.')} <{name}>`"
        if not key.startswith(COMPANION):  # no run has one of these
            in_the_code += f", {entry.get('reach', 'not in a run')}"
    cells = [in_print(key), entry["says"], ", ".join(chapters), in_the_code]
    return "* - " + "\n  - ".join(cells)


def in_print(key):
    """Give an equation's number as its paper prints it."""
    return f"({key.removeprefix(COMPANION)})"


def find_tags(app, doctree):
    """Make known where a chapter shows an equation, and lead from there to the equation's row.

    The place gets an anchor.
    """
    page = app.env.docname
    chapter = page.rpartition("/")[2]
    labels = app.env.get_domain("std").anonlabels
    index = app.builder.get_relative_uri(page, PAGE)
    for formula in list(doctree.findall(nodes.math_block)):
        line = nodes.paragraph(classes=["eq-code"])
        for key in equations_in(TAG, formula.astext()):
            anchor = f"paper-eq-{key}"
            if anchor not in doctree.ids:
                doctree.ids[anchor] = formula
                formula["ids"].append(anchor)
            labels[f"{chapter}/{key}".lower()] = page, anchor
            line += nodes.Text(", " if line.children else "")
            line += nodes.reference("", in_print(key), internal=True, refuri=f"{index}#eq-{key}")
        if line.children:
            line += nodes.Text(" in the code")
            siblings = formula.parent
            siblings.insert(siblings.index(formula) + 1, line)
    for name, anchor in doctree.nameids.items():
        if name.startswith("paper-eq-") and anchor:
            labels[f"{chapter}/{name.removeprefix('paper-eq-')}".lower()] = page, anchor


def link_equations(app, what, name, obj, options, lines):
    """Turn "Eq. (13)" in a docstring into a link to its row."""

    def linked(match):
        paper = COMPANION if match["companion"] else ""
        return re.sub(r"\((\d+)\)", rf":ref:`(\1) <eq-{paper}\1>`", match[0])

    lines[:] = NAMED.sub(linked, "\n".join(lines)).split("\n")


def setup(app):
    """Connect the three; docstrings are changed after napoleon, priority 500, has read them."""
    app.add_directive("equation-index", EquationIndex)
    app.connect("doctree-read", find_tags)
    app.connect("autodoc-process-docstring", link_equations, priority=600)
