"""A setting in prose: ``{setting}`ALPHA` `` writes what the code of the page gives ALPHA, so that
who changes the code changes the sentence."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxRole


class Setting(SphinxRole):
    """The number that a constant has in the code of a page."""

    def run(self):
        """Write the number; an error if the page gives the constant none, or several."""
        source = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
        assigned = re.findall(rf"^{re.escape(self.text)} = ([\d.]+)$", source, re.MULTILINE)
        if len(assigned) == 1:
            return [nodes.Text(assigned[0])], []
        reason = f"{len(assigned)} lines of the page's code give {self.text} a number"
        return [], [self.inliner.reporter.error(reason, line=self.lineno)]


def setup(app):
    """Connect it."""
    app.add_role("setting", Setting())
