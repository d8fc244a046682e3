"""How Jupyter and jupytext write a chapter: what was not edited stays as it is in the file.

Jupytext reads this file when it opens or saves a notebook below it. By itself it folds captions at
80 characters, writes them in other quotes, and notes its own version at the top of the file: one
edited word would change a hundred lines.
"""

import math

from jupytext import myst

SHORT = 20  # a longer text is a caption or an alternative text, and stands in quotes


class OneLine(myst.CompactDumper):
    """Writes the settings of a cell with each text on one line."""

    def __init__(self, *args, **options):
        """Take the width away."""
        super().__init__(*args, **options | {"width": math.inf})


def text(dumper, words):
    """Write a long text in double quotes."""
    style = '"' if len(words) > SHORT and " " in words else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", words, style=style)


OneLine.add_representer(str, text)
myst.CompactDumper = OneLine

c = get_config()  # jupytext brings it
c.notebook_metadata_filter = (
    "-jupytext.text_representation.format_version,-jupytext.text_representation.jupytext_version"
)
