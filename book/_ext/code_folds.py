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
    body = ast.parse(source).body
    imports = [isinstance(one, ast.Import | ast.ImportFrom) for one in body]
    if any(imports):
        return "imports" if all(imports) else "imports and set-up"
    if "use_book_style()" in source or "Claims(" in source:
        return "set-up"
    defined = [one.name for one in body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    if defined:
        return f"code of {', '.join(defined)}"
    return "code that prepares what follows"


def shown(cell):
    """Say what kind of output a cell's node has."""
    outputs = [one for one in cell.children if one.get("nb_element") == "cell_code_output"]
    if not any(one.children for one in outputs):
        return ""
    inside = [node for one in outputs for node in one.findall()]
    if any(isinstance(node, nodes.image | nodes.figure) for node in inside):
        return "figure"
    raw = " ".join(node.astext() for node in inside if isinstance(node, nodes.raw))
    if 'class="chart"' in raw:
        return "figure"
    return "table" if "<table" in raw else "result"


class NameFolds(SphinxPostTransform):
    """Give each fold of code the words that are shown on it, before MyST-NB makes the fold."""

    default_priority = 190
    formats = ("html",)

    def run(self, **options):
        """Do so."""
        for cell in self.document.findall(nodes.container):
            folded = cell.get("hide_mode") in ("input", "input+output", "all")
            if cell.get("nb_element") != "cell_code" or not folded or not cell.children:
                continue
            said = holds(cell.children[0].astext(), shown(cell))
            cell["prompt_show"], cell["prompt_hide"] = f"Show {said}", f"Hide {said}"


def setup(app):
    """Connect both."""
    app.add_post_transform(NameFolds)
    app.add_js_file(None, body=WATCH)
