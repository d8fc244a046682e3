"""What CONTRIBUTING teaches works as it is written there."""

import re

from book.claims import Claims
from tests.built_book import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
CELL = re.compile(
    r"```\{code-cell\} ipython3\n(?:---\n.*?\n---\n|(?::[^\n]*\n)*)(.*?)```", re.DOTALL
)


def test_the_chapter_with_a_claim_an_equation_and_a_figure_runs(tmp_path, monkeypatch, capsys):
    claim = tmp_path / "book" / "claims" / "16_mine.toml"
    claim.parent.mkdir(parents=True)
    claim.write_text(re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)[1])
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    names = {}
    cells = CELL.findall(TEXT)
    for cell in cells:
        exec(cell, names)
    assert len(cells) == 2
    assert "mean-of-draws" in Claims(claim)
    assert "mean-of-draws: holds" in capsys.readouterr().out
