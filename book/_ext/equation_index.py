r"""The index from equations to code and back: a table of each paper's equations, and a link to it
wherever a docstring names one.

Three sources are brought together. ``book/equations.toml`` says in a few words what each equation
says, which chapters show it, whether a run of an experiment reaches what implements it, and why nothing
implements it where nothing does. A chapter shows
equation 13 where a formula has it in its tag, as in ``\tag{13}``, ``\tag{9–13}`` or ``\tag{13,
58}``, or where a line reads ``(paper-eq-13)=``. A function implements it if its docstring has a
sentence that begins "Implements Eq. (13)"; no two functions implement the same. Equations of the
companion paper are written "C&E Eq. (13)", in a tag ``\tag{C&E 13}``, in a line
``(paper-eq-ce-13)=``; here and in the inventory they are known as ``ce-13``.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from docutils import nodes
from package_source import ROOT, definitions, modules
from sphinx.addnodes import only, pending_xref
from sphinx.util.docutils import SphinxDirective

INVENTORY = ROOT / "book" / "equations.toml"
COMPANION = "ce-"
NUMBERS = r"\(\d+\)(?:(?:\s*–\s*|,\s+|,?\s+(?:and|or|to)\s+)\(\d+\))*"
NAMED = re.compile(rf"(?P<companion>C&E(?:'s)?\s+)?\bEqs?\.\s+(?P<numbers>{NUMBERS})")
IMPLEMENTS = re.compile(rf"\bImplements\s+{NAMED.pattern}")
TAG = re.compile(r"\\tag\{(?P<companion>C&E )?(?P<numbers>[\d–, ]+)\}")
HEAD = {"Eq.": 5, "What it says": 30, "Shown in": 20, "In the code": 45}  # with the columns' widths


@cache
def inventory() -> dict[str, dict]:
    """Read what is said of each equation."""
    return tomllib.loads(INVENTORY.read_text())


def equations(match: re.Match) -> list[str]:
    r"""List the equations that a phrase stands for, as "(9)–(11) and (13)" or the tag "9–11, 13",
    as the inventory knows them.

    >>> equations(NAMED.search("Eqs. (9)–(11) and (13)"))
    ['9', '10', '11', '13']
    >>> equations(TAG.search(r"\tag{C&E 18, 19}"))
    ['ce-18', 'ce-19']
    """
    found: list[int] = []
    for first, last in re.findall(r"(\d+)\)?(?:\s*(?:–|to)\s*\(?(\d+))?", match["numbers"]):
        found += range(int(first), int(last or first) + 1)
    return [f"{COMPANION if match['companion'] else ''}{number}" for number in found]


def named(docstring: str) -> list[str]:
    """List the equations that a docstring names."""
    return [equation for match in NAMED.finditer(docstring) for equation in equations(match)]


@cache
def implementations() -> dict[str, str]:
    """What implements each equation, as it is imported."""
    found: dict[str, str] = {}
    for definition in (each for module in modules() for each in definitions(module)):
        for match in IMPLEMENTS.finditer(definition.docstring):
            for equation in equations(match):
                if equation in found:
                    both = f"{found[equation]} and {definition.name}"
                    raise ValueError(f"{both} implement Eq. {equation}: one is to name it.")
                found[equation] = definition.name
    return found


def title(chapter: str) -> str:
    """A chapter's title, up to a colon."""
    text = (ROOT / "notebooks" / f"{chapter}.md").read_text()
    whole = re.search(r"^# (.+)", text, re.MULTILINE)[1]
    return whole.partition(":")[0]


class EquationIndex(SphinxDirective):
    """A row an equation: its number, what it says, the chapters that show it, and what implements
    it or why nothing does.

    With the argument ``companion`` the companion's equations, else the paper's.
    """

    optional_arguments = 1

    def run(self):
        """Make the table."""
        for path in (INVENTORY, Path(__file__), *modules().values()):
            self.env.note_dependency(str(path))
        companion = self.arguments == ["companion"]
        chosen = [key for key in inventory() if key.startswith(COMPANION) == companion]
        columns = (nodes.colspec(colwidth=width) for width in HEAD.values())
        group = nodes.tgroup("", *columns, cols=len(HEAD))
        group += nodes.thead("", nodes.row("", *(cell(nodes.Text(word)) for word in HEAD)))
        group += nodes.tbody("", *map(self.row, chosen))
        return [nodes.table("", group, classes=["equations"])]

    def row(self, key):
        """Make one row, and make it known by its equation."""
        anchor, entry, here = f"eq-{key}", inventory()[key], self.env.docname
        self.env.get_domain("std").anonlabels[anchor] = here, anchor
        says, _ = self.state.inline_text(entry["says"], self.lineno)
        shown = [link(here, f"{chapter}/{key}", title(chapter)) for chapter in entry["shown"]]
        if name := implementations().get(key):
            code = nodes.literal("", name.removeprefix("lwcore."))
            reach = ", on the path of a run" if entry.get("run") else ", theory only"
            written = [link(here, name, code, "py", "obj"), nodes.Text(reach)]
        else:
            written, _ = self.state.inline_text(entry["reason"], self.lineno)
        cells = [nodes.Text(in_print(key))], says, listed(shown), written
        return nodes.row("", *(cell(*children) for children in cells), ids=[anchor])


def link(page, target, shown, domain="std", role="ref"):
    """Point to what Sphinx will have found when all pages are read; it warns of what it has not,
    and the build fails."""
    inner = nodes.inline("", shown) if isinstance(shown, str) else shown
    place = {"refdomain": domain, "reftype": role, "reftarget": target, "refdoc": page}
    return pending_xref("", inner, **place, refexplicit=True, refwarn=True)


def in_print(key):
    """An equation's number as its paper prints it."""
    return f"({key.removeprefix(COMPANION)})"


def cell(*children):
    """Inline nodes in a cell of a table."""
    return nodes.entry("", nodes.paragraph("", "", *children))


def listed(children):
    """Nodes with commas between them."""
    return [node for child in children for node in (nodes.Text(", "), child)][1:]


def find_tags(app, doctree):
    """Make the place where a chapter shows an equation known, give it an anchor, and lead from
    there to the equation's row, on pages that are read on a screen."""
    page, labels = app.env.docname, app.env.get_domain("std").anonlabels
    chapter = page.rpartition("/")[2]
    for formula in list(doctree.findall(nodes.math_block)):
        keys = [key for tag in TAG.finditer(formula.astext()) for key in equations(tag)]
        for key in keys:
            anchor = f"paper-eq-{key}"
            if anchor not in doctree.ids:
                doctree.ids[anchor] = formula
                formula["ids"].append(anchor)
            labels[f"{chapter}/{key}"] = page, anchor
        if links := [link(page, f"eq-{key}", in_print(key)) for key in keys if key in inventory()]:
            text = *listed(links), nodes.Text(" in the code")
            line = nodes.paragraph("", "", *text, classes=["eq-code"])
            formula.parent.insert(formula.parent.index(formula) + 1, only("", line, expr="html"))
    for name, anchor in doctree.nameids.items():
        if name.startswith("paper-eq-") and anchor:
            labels[f"{chapter}/{name.removeprefix('paper-eq-')}"] = page, anchor


def link_equations(app, what, name, obj, options, lines):
    """Turn "Eq. (13)" in a docstring into a link to its row."""

    def linked(match):
        start = f":ref:`({{}}) <eq-{COMPANION if match['companion'] else ''}{{}}>`"
        return re.sub(r"\((\d+)\)", lambda number: start.format(number[1], number[1]), match[0])

    lines[:] = NAMED.sub(linked, "\n".join(lines)).split("\n")


def setup(app):
    """Connect the three; docstrings are changed after napoleon, priority 500, has read them."""
    app.add_directive("equation-index", EquationIndex)
    app.connect("doctree-read", find_tags)
    app.connect("autodoc-process-docstring", link_equations, priority=600)
