"""What a cell shows can be heard as well as seen, and a cell that warns says of what: otherwise the
build warns, with the line of the cell and what to write there.

A picture needs an alternative text, several words that say what is to be seen; without one, Sphinx
would write the name of its file. A notebook's picture needs a caption, too.
"""

from pathlib import Path

import executed
from docutils import nodes
from sphinx.util.logging import getLogger

CAPTION = """\
---
mystnb:
  figure:
    caption: "**What is to be learned from it.** What is drawn, of which data."
    name: fig-short-name
  image:
    alt: "What is to be seen."
---"""

log = getLogger(__name__)


def cell_of(node):
    """Find the notebook cell that a node belongs to; None outside of cells."""
    while node is not None:
        if isinstance(node, nodes.container) and "cell" in node["classes"]:
            return node
        node = node.parent
    return None


def is_described(image):
    """Say whether a picture has an alternative text: several words."""
    return " " in image.get("alt", "").strip()


def line_of_cell(app, cell):
    """Find the line of its page in which a cell begins; Sphinx knows it within a few lines only."""
    path = Path(app.env.doc2path(app.env.docname))
    return executed.lines_of_cells(path)[cell["cell_index"]] if path.suffix == ".md" else None


def line_of_picture(app, image):
    """Find the line of its page in which a picture's file is named."""
    path = Path(app.env.doc2path(app.env.docname))
    name = Path(image["uri"]).name
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if name in line), 1)


def warn_of_what_cannot_be_heard(app, doctree):
    """Warn of pictures without words."""
    page = app.env.docname
    for image in doctree.findall(nodes.image):
        if cell_of(image) is None and not is_described(image):
            log.warning(
                "this picture has no alternative text: say between the brackets of ![…] or in "
                "`:alt:` what is to be seen, in several words",
                location=(page, line_of_picture(app, image)),
                type="described_outputs",
            )
    for cell in doctree.findall(lambda node: cell_of(node) is node):
        images = list(cell.findall(nodes.image))
        missing = []
        if not all(is_described(image) for image in images):
            missing.append("alternative text")
        if not all(has_caption(image) for image in images):
            missing.append("caption")
        if missing:
            log.warning(
                "the figure that this cell draws has no %s: begin the cell with\n%s",
                " and no ".join(missing),
                CAPTION,
                location=(page, line_of_cell(app, cell)),
                type="described_outputs",
            )


def has_caption(image):
    """Say whether a picture stands in a figure with a caption."""
    node = image.parent
    while node is not None and not isinstance(node, nodes.figure):
        node = node.parent
    return node is not None and next(node.findall(nodes.caption), None) is not None


def warn_of_warnings(app, doctree):
    """Repeat what cells write to stderr."""
    for block in doctree.findall(nodes.literal_block):
        cell = cell_of(block)
        if "stderr" in block["classes"] and cell is not None:
            log.error(
                "this cell warns, and a page may hold no warning:\n%s",
                block.astext().strip(),
                location=(app.env.docname, line_of_cell(app, cell)),
                type="described_outputs",
            )


def setup(app):
    """Connect both."""
    app.connect("doctree-read", warn_of_what_cannot_be_heard)
    app.connect("doctree-read", warn_of_warnings)
