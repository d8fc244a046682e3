r"""The index from equations to code and back: a table of the paper's equations, and a link to it wherever a docstring names one.

Three sources are brought together. ``book/equations.toml`` says in a few words what each equation says, which chapters show it, and why
nothing implements it where nothing does. A chapter shows equation 13 where a formula has it in its tag, as in ``\tag{13}``, ``\tag{9–13}``
or ``\tag{13, 58}``, or where a line reads ``(paper-eq-13)=``. A function implements it if its docstring has a sentence that begins
"Implements Eq. (13)". Equations of the companion paper are written "C&E Eq. (13)" and stand in no row.
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
NUMBERS = r"\(\d+\)(?:(?:\s*–\s*|,\s+|,?\s+(?:and|or|to)\s+)\(\d+\))*"
NAMED = re.compile(rf"(?P<companion>C&E(?:'s)?\s+)?\bEqs?\.\s+(?P<numbers>{NUMBERS})")
IMPLEMENTS = re.compile(rf"\bImplements\s+Eqs?\.\s+({NUMBERS})")
TAG = re.compile(r"\\tag\{([\d–, ]+)\}")


@cache
def inventory() -> dict[int, dict]:
    """Read what is said of each equation."""
    return {int(number): entry for number, entry in tomllib.loads(INVENTORY.read_text()).items()}


def expand(numbers: str) -> list[int]:
    """List the numbers that a phrase such as "(9)–(11) and (13)" stands for.

    >>> expand("(9)–(11) and (13)")
    [9, 10, 11, 13]
    >>> expand("32, 56")
    [32, 56]
    """
    found = []
    for first, last in re.findall(r"(\d+)\)?(?:\s*(?:–|to)\s*\(?(\d+))?", numbers):
        found += range(int(first), int(last or first) + 1)
    return found


def named(docstring: str) -> list[int]:
    """List the paper's equations that a docstring names, those of the companion paper left out."""
    return [number for match in NAMED.finditer(docstring) if not match["companion"] for number in expand(match["numbers"])]


@cache
def implementations() -> dict[int, list[str]]:
    """Find what implements each equation: number → names, in the order of the package's modules."""
    found: dict[int, list[str]] = {}
    for module in modules():
        for definition in definitions(module):
            for match in IMPLEMENTS.finditer(definition.docstring):
                for number in expand(match[1]):
                    found.setdefault(number, []).append(definition.name)
    return found


def title(chapter: str) -> str:
    """Read a chapter's title, up to a colon."""
    return re.search(r"^# ([^:\n]+)", (ROOT / "notebooks" / f"{chapter}.md").read_text(), re.MULTILINE)[1]


class EquationIndex(SphinxDirective):
    """A row an equation: its number, what it says, the chapters that show it, and what implements it or why nothing does."""

    def run(self):
        """Make the table."""
        for path in (INVENTORY, Path(__file__), *modules().values()):
            self.env.note_dependency(str(path))
        code = implementations()
        rows = [self.row(number, entry, code.get(number, [])) for number, entry in sorted(inventory().items())]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (5, 30, 20, 45)), cols=4)
        group += nodes.thead("", nodes.row("", *(cell([nodes.Text(word)]) for word in ("Eq.", "What it says", "Shown in", "In the code"))))
        group += nodes.tbody("", *rows)
        return [nodes.table("", group, classes=["equations"])]

    def row(self, number, entry, names):
        """Make one row, and make it known by its number."""
        anchor = f"eq-{number}"
        self.env.get_domain("std").anonlabels[anchor] = self.env.docname, anchor
        says, _ = self.state.inline_text(entry["says"], self.lineno)
        shown = [self.link("std", "ref", f"{chapter}/{number}", title(chapter)) for chapter in entry["shown"]]
        if names:
            written = [self.link("py", "obj", name, name.removeprefix("lwcore."), nodes.literal) for name in names]
        else:
            written, _ = self.state.inline_text(entry["reason"], self.lineno)
        cells = cell([nodes.Text(f"({number})")]), cell(says), cell(listed(shown)), cell(listed(written) if names else written)
        return nodes.row("", *cells, ids=[anchor])

    def link(self, domain, role, target, text, style=nodes.inline):
        """Point to what Sphinx will have found when all pages are read; it warns of what it has not, and the build fails."""
        place = {"refdomain": domain, "reftype": role, "reftarget": target, "refdoc": self.env.docname}
        return pending_xref("", style("", text), **place, refexplicit=True, refwarn=True)


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
        numbers = [number for tag in TAG.findall(formula.astext()) for number in expand(tag)]
        for number in numbers:
            anchor = f"paper-eq-{number}"
            if anchor not in doctree.ids:
                doctree.ids[anchor] = formula
                formula["ids"].append(anchor)
            labels[f"{chapter}/{number}"] = page, anchor
        lead_to_code(app, formula, [number for number in numbers if number in inventory()])
    for name, anchor in doctree.nameids.items():
        if name.startswith("paper-eq-") and anchor:
            labels[f"{chapter}/{name.removeprefix('paper-eq-')}"] = page, anchor


def lead_to_code(app, formula, numbers):
    """Put links to the rows of a formula's equations below it, for pages that are read on a screen."""
    links = []
    for number in numbers:
        target = {"refdomain": "std", "reftype": "ref", "reftarget": f"eq-{number}", "refdoc": app.env.docname}
        links.append(pending_xref("", nodes.inline("", f"({number})"), **target, refexplicit=True, refwarn=True))
    if links:
        line = nodes.paragraph("", "", *listed(links), nodes.Text(" in the code"), classes=["eq-code"])
        formula.parent.insert(formula.parent.index(formula) + 1, only("", line, expr="html"))


def link_equations(app, what, name, obj, options, lines):
    """Turn "Eq. (13)" in a docstring into a link to its row."""

    def linked(match):
        return match[0] if match["companion"] else re.sub(r"\((\d+)\)", r":ref:`(\1) <eq-\1>`", match[0])

    lines[:] = NAMED.sub(linked, "\n".join(lines)).split("\n")


def setup(app):
    """Connect the three; docstrings are changed after napoleon, priority 500, has read them."""
    app.add_directive("equation-index", EquationIndex)
    app.connect("doctree-read", find_tags)
    app.connect("autodoc-process-docstring", link_equations, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
