"""Each notebook as a file that Jupyter opens and runs: the download button of a page offers it
beside the page's source.

The file is made from the text notebook when its page is written. In front stand two cells more:
where the notebook comes from and what it needs, and a step into the folder that it is run in, so
that it runs wherever it was saved.
"""

from pathlib import Path

import executed
import nbformat

NEEDS = """\
*From the living paper on the learnability window, page `{page}`.* This notebook needs a checkout of the book's repository, with the
package `lwcore` installed from it: `make book` does that, and so does `pip install -c constraints.txt -e '.[book]'` in an environment of
your own; then start Jupyter from that environment. Recorded runs are read from the checkout's folder `book/results`. Words such as
{{claim}}`…` and {{numref}}`…` are links in the book's pages; with the extension `jupyterlab-myst`, Jupyter shows more of them."""

STEP = """\
import os
from pathlib import Path

import lwcore

os.chdir(Path(lwcore.__file__).parents[1] / "{folder}")  # the checkout: recorded runs are read relative to it"""


def notebook(page: str):
    """Make the notebook of a page, without outputs; None if the page is no notebook."""
    source = executed.ROOT / f"{page}.md"
    if not source.exists() or not executed.is_notebook(source):
        return None
    without_outputs = executed.read(source)
    without_outputs.metadata.pop("jupytext", None)  # a file of its own, not one half of a pair
    first = [
        nbformat.v4.new_markdown_cell(NEEDS.format(page=page), id="needs"),
        nbformat.v4.new_code_cell(STEP.format(folder=Path(page).parent.as_posix()), id="step"),
    ]
    for number, cell in enumerate(without_outputs.cells):
        cell["id"] = f"cell-{number}"  # the same file from the same source
    without_outputs.cells = first + without_outputs.cells
    return without_outputs


def offer(app, pagename, templatename, context, doctree):
    """Write the file of a page, and tell the theme of it."""
    if app.builder.format != "html":
        return
    without_outputs = notebook(pagename)
    if without_outputs is not None:
        path = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(without_outputs, path)
        context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    """Connect it, before the theme makes its buttons."""
    app.connect("html-page-context", offer, priority=100)
