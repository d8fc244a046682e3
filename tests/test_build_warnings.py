"""What the build says of a page on which something is wrong: file, line, and what to write."""

import re
import subprocess
import sys

import pytest

from tests.built_book import ROOT

PAGE = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  name: python3
---

# Mine

It is at α = {setting}`ALPHA`, not {setting}`BETA`.

```{code-cell} ipython3
import warnings
ALPHA = 1.6
warnings.warn("too few seeds")
```
"""


@pytest.mark.slow
def test_a_build_says_file_and_line_and_writes_settings_of_the_code(tmp_path):
    page = tmp_path / "notebooks" / "mine.md"
    page.parent.mkdir()
    page.write_text(PAGE)
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\nnotebooks/mine\n```\n")
    settings = {
        "extensions": "myst_nb,setting_role",
        "nb_execution_cache_path": tmp_path / "_build",
        "nb_execution_mode": "cache",
        "nb_output_stderr": "warn",
    }
    command = [sys.executable, "-m", "sphinx", "-C", "-q", "-b", "html"]
    for name, value in settings.items():
        command += ["-D", f"{name}={value}"]
    done = subprocess.run(
        [*command, tmp_path, tmp_path / "_build"],
        env={"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "book" / "_ext")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    assert re.search("notebooks/mine.md:13: .*0 lines of the page's code give BETA a number", said)
    assert re.search(r"notebooks/mine.md:\d+: WARNING: stderr was found", said)
    html = (tmp_path / "_build" / "notebooks" / "mine.html").read_text()
    assert "at α = 1.6, not" in html
