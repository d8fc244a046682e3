"""Folded code says what it holds: imports, a function by its name, or the figure, the table or the
result below it."""

import ast

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

# An opened fold that is wider than its place has to be reachable by keyboard. The theme looks at
# what scrolls when the window changes its size, and finds nothing in a closed one.
WATCH = """document.addEventListener("toggle", event => {
  if (event.target.open) window.dispatchEvent(new Event("resize"));
}, true);"""


def holds(source, shown):
    """Say what a cell holds.

    Args:
        source: Its code.
        shown: What is seen of its output: ``"figure"``, ``"table"``, ``"result"`` or nothing.
    """
    if shown:
        return f"code of this {shown}"
    statements = ast.parse(source).body
    are_imports = [isinstance(node, ast.Import | ast.ImportFrom) for node in statements]
    if any(are_imports):
        return "imports" if all(are_imports) else "imports and set-up"
    if "use_book_style()" in source or "Claims(" in source:
        return "set-up"
    names = []
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    if names:
        return f"code of {', '.join(names)}"
    return "code that prepares what follows"


def shown(cell):
    """Say what kind of output a cell's node has."""
    kind = ""
    html = ""
    for output in cell.children:
        if output.get("nb_element") != "cell_code_output" or not output.children:
            continue
        kind = "result"
        for node in output.findall():
            if isinstance(node, nodes.image | nodes.figure):
                return "figure"
            if isinstance(node, nodes.raw):
                html += node.astext()
    if 'class="chart"' in html:
        return "figure"
    return "table" if "<table" in html else kind


class NameFolds(SphinxPostTransform):
    """Give each fold of code the words that are shown on it, before MyST-NB makes the fold."""

    default_priority = 190
    formats = ("html",)

    def run(self, **options):
        """Name all folds of a page."""
        for cell in self.document.findall(nodes.container):
            folded = cell.get("hide_mode") in ("input", "input+output", "all")
            if cell.get("nb_element") != "cell_code" or not folded or not cell.children:
                continue
            content = holds(cell.children[0].astext(), shown(cell))
            cell["prompt_show"] = f"Show {content}"
            cell["prompt_hide"] = f"Hide {content}"


def setup(app):
    """Connect both."""
    app.add_post_transform(NameFolds)
    app.add_js_file(None, body=WATCH)
