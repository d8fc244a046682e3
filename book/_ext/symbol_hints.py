r"""What a symbol means, where it stands: ``{symbol}`H_N` `` sets a formula that shows its meaning
and leads to its row in the notation.

The rows are those of the tables headed "Symbol" on the notation's page. ``{symbol}`f(5) <f(\ell)>`
`` writes a symbol otherwise than its row does. A tooltip holds no formula, so what is shown of a
row is its meaning up to the first formula that is more than a letter, and the name in the code. A
symbol without a row, or with several, stops the build.
"""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxRole
from sphinx.util.logging import getLogger

PAGE = "book/notation"
MARK = 'data-bs-toggle="tooltip"'
LINK = re.compile(
    r'<a class="symbol (?P<rest>[^>]*? title="(?P<said>[^"]*)">)'
    r'(?P<formula><span class="math[^>]*>\\\((?P<written>.*?)\\\)</span>)',
    re.DOTALL,
)

log = getLogger(__name__)


class symbol(nodes.Inline, nodes.TextElement):
    """A symbol, until it is known what it means."""


class SymbolRole(SphinxRole):
    """Set a symbol that explains itself."""

    def run(self):
        """Give the symbol, to be explained when pages are written."""
        written, name = re.fullmatch(r"(.*?)(?:\s*<(.*)>)?", self.text, re.DOTALL).groups()
        node = symbol("", "", nodes.math(written, written), name=name or written)
        self.set_source_info(node)
        return [node], []


def rows(doctree):
    """Find the rows of symbols on a page, each as its cells."""
    for table in doctree.findall(nodes.tgroup):
        if next(table.findall(nodes.entry)).astext() == "Symbol":
            yield from table.children[-1].findall(nodes.row)


def symbols_of(row) -> list[str]:
    """List the symbols that a row explains, as they are written there."""
    names = []
    for formula in row.children[0].findall(nodes.math):
        names += formula.astext().split(", ")
    return names


def place_anchors(app, doctree):
    """Give every row of symbols an anchor."""
    if app.env.docname != PAGE:
        return
    taken = set()
    for row in rows(doctree):
        stem = f"symbol-{nodes.make_id(symbols_of(row)[0])}"
        anchor = stem
        number = 1
        while anchor in taken:
            number += 1
            anchor = f"{stem}-{number}"
        taken.add(anchor)
        row["ids"].append(anchor)


def meaning(row) -> str:
    """Say in plain text what a row says, and the name in the code."""
    text = ""
    for node in next(row.children[1].findall(nodes.paragraph)).children:
        if isinstance(node, nodes.math) and not re.fullmatch(r"\w", node.astext()):
            break
        text += node.astext()
    sentence = text.strip(" ,;:").replace("\n", " ")
    code = row.children[3].astext()
    return f"{sentence}. In the code: {code}." if code else f"{sentence}."


def explain(app, doctree, docname):
    """Give each symbol its meaning."""
    symbols = list(doctree.findall(symbol))
    if not symbols:
        return
    known = list(rows(app.env.get_doctree(PAGE))) if PAGE in app.env.all_docs else []
    for node in symbols:
        fitting = [row for row in known if node["name"] in symbols_of(row)]
        if len(fitting) == 1:
            (row,) = fitting
            address = f"{app.builder.get_relative_uri(docname, PAGE)}#{row['ids'][0]}"
            link = nodes.reference(
                "",
                "",
                *node.children,
                internal=True,
                refuri=address,
                classes=["symbol"],
                reftitle=meaning(row),
            )
            node.replace_self(link)
        else:
            log.warning(
                "symbol %r has %d rows in the notation",
                node["name"],
                len(fitting),
                location=node,
                type="symbol",
            )
            node.replace_self(node.children)


def spoken(written: str) -> str:
    r"""Say a formula in letters, for those who hear the page: ``\bar m(\ell)`` → ``bar m(ell)``."""
    letters = re.sub(r"\\(?:mathcal|mathrm|operatorname)\b|[\\{}$^_]", " ", written)
    return " ".join(letters.split())


def mark(app, pagename, templatename, context, doctree):
    """Mark these links as what the theme draws explanations for, and give them a name.

    A formula alone is none to all who hear it.
    """
    if "body" in context:
        context["body"] = LINK.sub(named, context["body"])


def named(link) -> str:
    """Write such a link."""
    name = f"{spoken(link['written'])}: {link['said']}"
    return f'<a {MARK} aria-label="{name}" class="symbol {link["rest"]}{link["formula"]}'


def setup(app):
    """Connect them."""
    app.add_node(symbol)
    app.add_role("symbol", SymbolRole())
    app.connect("doctree-read", place_anchors)
    app.connect("doctree-resolved", explain)
    app.connect("html-page-context", mark)
