"""A chapter that Jupyter saves changes where it was edited, and nowhere else."""

import shutil
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
WRITTEN = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Mine

```{code-cell} ipython3
---
mystnb:
  figure:
    caption: "**A long caption is one line: whoever reads a difference sees the word that was changed.** It has a colon, an α and $x$."
    name: fig-mine
  image:
    alt: "A line that rises, and rises, and rises still, to the right-hand edge of the picture."
tags: [hide-input]
---
print(1)
```
"""


def saved(*paths):
    """What saving chapters as they are would change."""
    command = [sys.executable, "-c", SAVE, *paths]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_saving_a_chapter_in_jupyter_changes_nothing():
    changed = saved(*sorted(ROOT.glob("notebooks/*.md")))
    assert changed == "", f"`make format` writes chapters as Jupyter does:\n{changed}"


def test_a_caption_stays_on_its_line_and_no_version_is_noted(tmp_path):
    for name in (".jupytext.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    path = tmp_path / "mine.md"
    path.write_text(WRITTEN)
    assert saved(path) == ""
    path.write_text(WRITTEN.replace("print(1)", "print(1)\n\n"))
    assert "@@" in saved(path), "this difference is none of ours, and is found"
