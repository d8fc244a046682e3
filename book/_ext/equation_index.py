r"""The index from equations to code and back: a table of each paper's equations, and a link to it
wherever a docstring names one.

Three sources are brought together. ``book/equations.toml`` says in a few words what each equation
says, which chapters show it, and why nothing implements it where nothing does. A chapter shows
equation 13 where a formula has it in its tag, as in ``\tag{13}``, ``\tag{9–13}`` or ``\tag{13,
58}``, or where a line reads ``(paper-eq-13)=``. A function implements it if its docstring has a
sentence that begins "Implements Eq. (13)"; no two functions implement the same. Whether a run of an
experiment reaches it is read off the code, too (`reached`). Equations of the companion paper are
written "C&E Eq. (13)", in a tag ``\tag{C&E 13}``, in a line ``(paper-eq-ce-13)=``; here and in the
inventory they are known as ``ce-13``.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from package_source import ROOT, definitions, modules
from reached import reached
from sphinx.addnodes import only, pending_xref
from sphinx.util.docutils import SphinxDirective

INVENTORY = ROOT / "book" / "equations.toml"
COMPANION = "ce-"
NUMBERS = r"\(\d+\)(?:(?:\s*–\s*|,\s+|,?\s+(?:and|or|to)\s+)\(\d+\))*"
NAMED = re.compile(rf"(?P<companion>C&E(?:'s)?\s+)?\bEqs?\.\s+(?P<numbers>{NUMBERS})")
IMPLEMENTS = re.compile(rf"\bImplements\s+{NAMED.pattern}")
TAG = re.compile(r"\\tag\{(?P<companion>C&E )?(?P<numbers>[\d–, ]+)\}")


class Implementation(NamedTuple):
    """What implements an equation, as it is imported, and whether `experiment.run` reaches it."""

    name: str
    on_path: bool


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
def implementations() -> dict[str, Implementation]:
    """Find what implements each equation."""
    found: dict[str, Implementation] = {}
    for module in modules():
        for definition in definitions(module):
            for match in IMPLEMENTS.finditer(definition.docstring):
                for equation in equations(match):
                    if equation in found:
                        raise ValueError(
                            f"{found[equation].name} and {definition.name} both implement Eq. "
                            f"{equation}: one is to name it."
                        )
                    own = definition.name.split(".")[-2 if definition.kind == "method" else -1 :]
                    found[equation] = Implementation(
                        definition.name, ".".join([module, *own]) in reached()
                    )
    return found


def title(chapter: str) -> str:
    """Read a chapter's title, up to a colon; where two chapters share that, what follows it."""
    whole = re.search(r"^# (.+)", (ROOT / "notebooks" / f"{chapter}.md").read_text(), re.MULTILINE)[
        1
    ]
    return whole.removeprefix("Neurons that never meet: ").partition(":")[0]


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
        chosen = [
            key
            for key in inventory()
            if key.startswith(COMPANION) == (self.arguments == ["companion"])
        ]
        group = nodes.tgroup(
            "", *(nodes.colspec(colwidth=width) for width in (5, 30, 20, 45)), cols=4
        )
        group += nodes.thead(
            "",
            nodes.row(
                "",
                *(
                    cell([nodes.Text(word)])
                    for word in ("Eq.", "What it says", "Shown in", "In the code")
                ),
            ),
        )
        group += nodes.tbody(
            "", *(self.row(key, inventory()[key], implementations().get(key)) for key in chosen)
        )
        return [nodes.table("", group, classes=["equations"])]

    def row(self, key, entry, made):
        """Make one row, and make it known by its equation."""
        anchor = f"eq-{key}"
        self.env.get_domain("std").anonlabels[anchor] = self.env.docname, anchor
        says, _ = self.state.inline_text(entry["says"], self.lineno)
        shown = [
            self.link("std", "ref", f"{chapter}/{key}", title(chapter))
            for chapter in entry["shown"]
        ]
        if made:
            reach = nodes.Text(", on the path of a run" if made.on_path else ", theory only")
            written = [
                self.link("py", "obj", made.name, made.name.removeprefix("lwcore."), nodes.literal),
                reach,
            ]
        else:
            written, _ = self.state.inline_text(entry["reason"], self.lineno)
        cells = cell([nodes.Text(in_print(key))]), cell(says), cell(listed(shown)), cell(written)
        return nodes.row("", *cells, ids=[anchor])

    def link(self, domain, role, target, text, style=nodes.inline):
        """Point to what Sphinx will have found when all pages are read; it warns of what it has
        not, and the build fails."""
        place = {
            "refdomain": domain,
            "reftype": role,
            "reftarget": target,
            "refdoc": self.env.docname,
        }
        return pending_xref("", style("", text), **place, refexplicit=True, refwarn=True)


def in_print(key):
    """Write an equation's number as its paper prints it."""
    return f"({key.removeprefix(COMPANION)})"


def cell(children):
    """Put inline nodes into a cell of a table."""
    return nodes.entry("", nodes.paragraph("", "", *children))


def listed(children):
    """Put commas between nodes."""
    return [node for child in children for node in (nodes.Text(", "), child)][1:]


def find_tags(app, doctree):
    """Make the place where a chapter shows an equation known, and give it an anchor."""
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
        lead_to_code(app, formula, [key for key in keys if key in inventory()])
    for name, anchor in doctree.nameids.items():
        if name.startswith("paper-eq-") and anchor:
            labels[f"{chapter}/{name.removeprefix('paper-eq-')}"] = page, anchor


def lead_to_code(app, formula, keys):
    """Put links to the rows of a formula's equations below it, for pages that are read on a
    screen."""
    links = []
    for key in keys:
        target = {
            "refdomain": "std",
            "reftype": "ref",
            "reftarget": f"eq-{key}",
            "refdoc": app.env.docname,
        }
        links.append(
            pending_xref(
                "", nodes.inline("", in_print(key)), **target, refexplicit=True, refwarn=True
            )
        )
    if links:
        line = nodes.paragraph(
            "", "", *listed(links), nodes.Text(" in the code"), classes=["eq-code"]
        )
        formula.parent.insert(formula.parent.index(formula) + 1, only("", line, expr="html"))


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
    return {"parallel_read_safe": True, "parallel_write_safe": True}
