"""How jupytext writes a chapter: what was not edited stays as it is in the file.

By itself jupytext folds captions at 80 characters and writes them in other quotes: one edited word
would change a hundred lines. The command `jupytext`, which `make format` calls, reads this file;
Jupyter does where it is started with `--ContentsManager.allow_hidden=True`. What else is set stands
in `pyproject.toml`.
"""

import math
import tomllib
from pathlib import Path

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
pyproject = Path(__file__).with_name("pyproject.toml")
for name, value in tomllib.loads(pyproject.read_text())["tool"]["jupytext"].items():
    setattr(c, name, value)
