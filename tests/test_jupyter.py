"""A chapter that Jupyter saves changes where it was edited, and nowhere else."""

import subprocess
import sys

from tests.built_book import ROOT

# In a process of its own: jupytext's settings in this repository change how it writes.
SAVE = """
import difflib, sys
from pathlib import Path
import jupytext
from jupytext.config import load_jupytext_config

for path in map(Path, sys.argv[1:]):
    before = path.read_text()
    notebook = jupytext.reads(before, "md:myst")
    after = jupytext.writes(notebook, "md:myst", config=load_jupytext_config(str(path)))
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), path.name, "saved", lineterm="")
    print("\\n".join(changed), end="")
"""


def saved(*paths):
    """What saving chapters as they are would change."""
    command = [sys.executable, "-c", SAVE, *paths]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_saving_a_chapter_in_jupyter_changes_nothing():
    changed = saved(*sorted(ROOT.glob("notebooks/*.md")))
    assert changed == "", f"`make format` writes chapters as Jupyter does:\n{changed}"
