"""Numbers in prose: a result is computed beside its sentence or comes from a claim. What may be typed is a setting, and stands here."""

import re

import pytest

from tests.built_book import NOTEBOOKS, ROOT

RESULTS = ["book/choose", *(name for name in NOTEBOOKS if re.match(r"notebooks/(0[6-9]|1\d)_", name))]

SETTINGS = {
    "book/choose": {"0.1": "error asked for", "1.3": "α of a simulated law"},
    "notebooks/06_experiments": {"0.05": "gate, author's code", "0.185": "gate, small", "0.34": "gate, quick", "0.5": "gate, paper-v2"},
    "notebooks/08_robust_averaging": {"0.1": "error asked for", "0.9": "quantile that belongs to it", "1.5": "α of a simulated law"},
    "notebooks/10_broad_spectra": {"1.5": "how unequal the slopes of a power law may be"},
    "notebooks/14_calibration": {"1.2": "planted signal, and α", "0.8": "planted", "0.5": "planted", "0.25": "planted"},
}


def prose(name):
    """A page's text without code, displayed formulas, addresses and numbers of sections, equations and statements."""
    text = re.sub(r"\A---\n.*?\n?---\n", "", (ROOT / f"{name}.md").read_text(), flags=re.S)
    text = re.sub(r"^(`{3,})\{(code-cell|math)\}.*?^\1", "", text, flags=re.S | re.M)
    return re.sub(r"\{(claim|measured|cite|doc|eq|numref|symbol)\}`[^`]*`|(Section|Lemma|lemma\}|Definition|§)\s*\d+(\.\d+)+", "", text)


@pytest.mark.parametrize("name", RESULTS)
def test_no_result_is_typed(name):
    typed = set(re.findall(r"(?<![\w.])\d*\.\d+", prose(name)))
    assert typed == SETTINGS.get(name, {}).keys()


def test_a_typed_result_would_be_found(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("---\n---\nIt is 0.73, by Lemma 5.1.\n\n```{code-cell} python\n0.5\n```\n\n{measured}`x` and $.2$\n")
    monkeypatch.setattr("tests.test_prose.ROOT", tmp_path)
    assert re.findall(r"\d*\.\d+", prose("page")) == ["0.73", ".2"]
