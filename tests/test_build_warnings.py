"""What the build says of a page on which something is wrong: file, line, and what to write."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import ledger
import nbformat
import pytest
from docutils import nodes

from book.claims import Claims
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

It is 0.73, at α = {setting}`ALPHA`, not {setting}`BETA`.

```{code-cell} ipython3
---
mystnb:
  figure:
    caption: "**Drawn** at α = {setting}`ALPHA`."
    name: fig-drawn
---
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
        "extensions": "myst_nb,typed_decimals",
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
    assert re.search(r'notebooks/mine.md:13: .*"0.73" = "…" under \["notebooks/mine"\]', said)
    assert re.search("notebooks/mine.md:13: .*0 lines of the page's code give BETA a number", said)
    assert re.search(r"notebooks/mine.md:\d+: WARNING: stderr was found", said)
    html = (tmp_path / "_build" / "notebooks" / "mine.html").read_text()
    assert "at α = 1.6, not" in html


def test_what_is_measured_of_an_unknown_claim_is_said_and_ends_no_build(monkeypatch):
    data = {MIME: {"id": "mean-of-drawz", "measured": [], "facts": {}}}
    output = nbformat.v4.new_output("display_data", data)
    cell = nbformat.v4.new_code_cell('judge("mean-of-drawz")', outputs=[output])
    said = []
    monkeypatch.setattr(ledger, "notebooks", lambda env: {"notebooks/mine": Path("mine.md")})
    monkeypatch.setattr(ledger.executed, "find", lambda path: SimpleNamespace(cells=[cell]))
    monkeypatch.setattr(
        ledger.log, "warning", lambda words, *values, **_: said.append(words % values)
    )
    ledger.measure(None, SimpleNamespace(notebook_keys={"notebooks/mine": "key"}))
    assert said[0] == ("claim 'mean-of-drawz' is measured here, and no file in book/claims has it")


def test_a_cell_of_an_unknown_claim_gets_no_link():
    source = 'judge("mean-of-drawz")'
    cell = nodes.container("", nodes.literal_block(source, source), classes=["tag_claim"])
    app = SimpleNamespace(env=SimpleNamespace(outcomes={}))
    ledger.fill_in(app, nodes.section("", cell), "notebooks/mine")
    assert cell["ids"] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('paper = "ours"\n', "KeyError('kind')"),
        ('paper = "ours"\nkind = simulation\n', "Invalid value (at line 2, column 8)"),
        ('paper = "ours"\nkind = "simulation"\n[mine]\nsays = "x"\n', "Field required"),
    ],
)
def test_a_file_of_claims_that_cannot_be_read_is_named(tmp_path, text, words):
    path = tmp_path / "16_mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        Claims(path)
    assert str(raised.value).startswith(f"{path}: ")
