"""What the build says of a page on which something is missing: file, line, and what to write."""

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

It is 0.73, at α = 1.5.

![](dot.svg)

```{code-cell} ipython3
from IPython.display import SVG
SVG('<svg xmlns="http://www.w3.org/2000/svg"/>')
```

```{code-cell} ipython3
import warnings
warnings.warn("too few seeds")
```
"""
DESCRIBED = """```{code-cell} ipython3
---
mystnb:
  figure:
    caption: "**Nothing.** An empty picture."
    name: fig-nothing
  image:
    alt: "Nothing is to be seen."
---
from IPython"""
SETTINGS = {
    "extensions": "myst_nb,typed_decimals,described_outputs,pages_that_warned",
    "nb_execution_mode": "cache",
    "nb_output_stderr": "show",
    "suppress_warnings": "mystnb.unknown_mime_type",
}


@pytest.fixture
def build(tmp_path):
    """Build a book of one page, which has the name of a chapter: what was warned of."""
    page = tmp_path / "notebooks" / "mine.md"
    page.parent.mkdir()
    (tmp_path / "notebooks" / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\nnotebooks/mine\n```\n")

    def built(text):
        page.write_text(text)
        command = [sys.executable, "-m", "sphinx", "-C", "-q", "-b", "html"]
        outside = {
            "exclude_patterns": "_build,jupyter_execute",
            "nb_execution_cache_path": tmp_path / "_build",
        }
        for name, value in (SETTINGS | outside).items():
            command += ["-D", f"{name}={value}"]
        paths = {"PYTHONPATH": str(ROOT / "book" / "_ext")}
        done = subprocess.run(
            [*command, tmp_path, tmp_path / "_build"],
            env={"PATH": "", "HOME": str(tmp_path), "PYTHONWARNINGS": "default", **paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        warned = re.split(r"\n(?=\S+\.md:)", re.sub(r"\x1b\[[0-9;]*m", "", done.stderr))
        return [one.replace(f"{tmp_path}/", "") for one in warned if ".md" in one]

    return built


@pytest.mark.slow
def test_a_build_says_file_line_and_what_to_write_until_it_is_written(build):
    warned = build(PAGE)
    assert [one.partition(": ")[0] for one in sorted(warned)] == [
        "notebooks/mine.md:13",
        "notebooks/mine.md:15",
        "notebooks/mine.md:17",
        "notebooks/mine.md:22",
    ]
    number, picture, figure, warning = sorted(warned)
    assert '"0.73" = "…" under ["notebooks/mine"]' in number
    assert "no alternative text" in picture
    assert "no alternative text and no caption" in figure
    assert '    alt: "What is to be seen."' in figure
    assert "UserWarning: too few seeds" in warning

    assert sorted(build(PAGE)) == sorted(warned), "a page that warned is read again"

    mended = PAGE.replace("0.73", "more").replace("![]", "![A dot.]")
    mended = mended.replace("```{code-cell} ipython3\nfrom IPython", DESCRIBED)
    mended = mended.replace("warnings.warn", "print")
    assert build(mended) == []
