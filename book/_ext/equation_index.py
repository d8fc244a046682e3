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

import inspect
import re
import tomllib
from functools import cache
from pathlib import Path

from api_pages import ROOT, public
from docutils import nodes
from sphinx.addnodes import pending_xref
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
        """Make the table."""
        for path in (INVENTORY, Path(__file__), *(ROOT / "lwcore").rglob("*.py")):
            self.env.note_dependency(str(path))
        of_companion = self.arguments == ["companion"]
        keys = [key for key in inventory() if key.startswith(COMPANION) == of_companion]
        group = nodes.tgroup("", cols=len(HEAD))
        head = nodes.row("")
        for word, width in HEAD.items():
            group += nodes.colspec(colwidth=width)
            head += cell(nodes.Text(word))
        group += nodes.thead("", head)
        group += nodes.tbody("", *map(self.row, keys))
        return [nodes.table("", group, classes=["equations"])]

    def row(self, key):
        """Make one row, and make it known by its equation."""
        entry = inventory()[key]
        page = self.env.docname
        anchor = f"eq-{key}"
        self.env.get_domain("std").anonlabels[anchor] = page, anchor
        says, _ = self.state.inline_text(entry["says"], self.lineno)
        chapters = [link(page, f"{chapter}/{key}", title(chapter)) for chapter in entry["shown"]]
        name = implementations().get(key)
        if name:
            code = nodes.literal("", name.removeprefix("lwcore."))
            reach = ", on the path of a run" if entry.get("run") else ", theory only"
            in_the_code = [link(page, name, code, "py", "obj"), nodes.Text(reach)]
        else:
            in_the_code, _ = self.state.inline_text(entry["reason"], self.lineno)
        return nodes.row(
            "",
            cell(nodes.Text(in_print(key))),
            cell(*says),
            cell(*listed(chapters)),
            cell(*in_the_code),
            ids=[anchor],
        )


def link(page, target, shown, domain="std", role="ref"):
    """Point to a label, or to a name of Python's; Sphinx warns of what it does not find in the end."""
    inner = nodes.inline("", shown) if isinstance(shown, str) else shown
    where = {"refdomain": domain, "reftype": role, "reftarget": target, "refdoc": page}
    return pending_xref("", inner, refexplicit=True, refwarn=True, **where)


def in_print(key):
    """Give an equation's number as its paper prints it."""
    return f"({key.removeprefix(COMPANION)})"


def cell(*children):
    """Put inline nodes into a cell of a table."""
    return nodes.entry("", nodes.paragraph("", "", *children))


def listed(children):
    """Put commas between nodes."""
    with_commas = []
    for child in children:
        with_commas += [nodes.Text(", "), child]
    return with_commas[1:]


def find_tags(app, doctree):
    """Make known where a chapter shows an equation, and lead from there to the equation's row.

    The place gets an anchor.
    """
    page = app.env.docname
    chapter = page.rpartition("/")[2]
    labels = app.env.get_domain("std").anonlabels
    for formula in list(doctree.findall(nodes.math_block)):
        links = []
        for key in equations_in(TAG, formula.astext()):
            anchor = f"paper-eq-{key}"
            if anchor not in doctree.ids:
                doctree.ids[anchor] = formula
                formula["ids"].append(anchor)
            labels[f"{chapter}/{key}"] = page, anchor
            if key in inventory():
                links.append(link(page, f"eq-{key}", in_print(key)))
        if links:
            children = [*listed(links), nodes.Text(" in the code")]
            line = nodes.paragraph("", "", *children, classes=["eq-code"])
            siblings = formula.parent
            siblings.insert(siblings.index(formula) + 1, line)
    for name, anchor in doctree.nameids.items():
        if name.startswith("paper-eq-") and anchor:
            labels[f"{chapter}/{name.removeprefix('paper-eq-')}"] = page, anchor


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
