"""What the build says of a page on which something is missing: file, line, and what to write."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import claim_files
import ledger
import nbformat
import pytest
from docutils import nodes
from sphinx.errors import ExtensionError

from book.claims.ledger import MIME
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
            env={"PATH": "", "HOME": str(tmp_path), **paths},
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


def test_what_is_measured_of_an_unknown_claim_is_said_and_ends_no_build(monkeypatch):
    output = nbformat.v4.new_output(
        "display_data", {MIME: {"id": "mean-of-drawz", "measured": [], "facts": {}}}
    )
    cell = nbformat.v4.new_code_cell('judge("mean-of-drawz")', outputs=[output])
    said = []
    monkeypatch.setattr(ledger, "notebooks", lambda env: {"notebooks/mine": Path("mine.md")})
    monkeypatch.setattr(ledger.executed, "find", lambda path: SimpleNamespace(cells=[cell]))
    monkeypatch.setattr(
        ledger.log, "warning", lambda words, *values, **_: said.append(words % values)
    )
    ledger.measure(None, SimpleNamespace())
    assert said[0] == ("claim 'mean-of-drawz' is measured here, and no file in book/claims has it")


def test_a_cell_of_an_unknown_claim_gets_no_link(monkeypatch):
    source = 'judge("mean-of-drawz")'
    cell = nodes.container("", nodes.literal_block(source, source), classes=["tag_claim"])
    page = nodes.section("", cell)
    app = SimpleNamespace(env=SimpleNamespace(outcomes={}))
    ledger.fill_in(app, page, "notebooks/mine")
    assert cell["ids"] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('paper = "ours"\n', "the line `kind = …` is missing at its top"),
        ('paper = "ours"\nkind = simulation\n', "Invalid value (at line 2, column 8)"),
        ('paper = "ours"\nkind = "simulation"\n[mine]\nsays = "x"\n', "place\n  Field required"),
    ],
)
def test_a_file_of_claims_that_cannot_be_read_is_named(tmp_path, monkeypatch, text, words):
    path = tmp_path / "book" / "claims" / "16_mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    monkeypatch.setattr(claim_files, "CHAPTERS", [path])
    monkeypatch.setattr(claim_files, "ROOT", tmp_path)
    with pytest.raises(ExtensionError) as raised:
        claim_files.read_all(None)
    assert str(raised.value).startswith("book/claims/16_mine.toml: ")
    assert words in str(raised.value)
