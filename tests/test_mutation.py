"""The record of mutants adds up, and keeps what was not run anew."""

from __future__ import annotations

import pandas as pd

from tests.built_book import ROOT

TRUST = ROOT / "book" / "results" / "trust"


def test_recorded_scores_are_shares_of_what_was_tried():
    found = pd.read_csv(TRUST / "mutation.csv")
    survived = found.survived_explained + found.survived_unexplained
    assert (found.killed + found.timed_out + survived == found.run).all()
    noticed = ((found.killed + found.timed_out) / found.run).round(4)
    pd.testing.assert_series_equal(found.score, noticed, check_names=False)
    alone = (found.killed / found.run).round(4)
    pd.testing.assert_series_equal(found.score_without_timeouts, alone, check_names=False)


def test_what_was_not_run_anew_keeps_its_rows(tmp_path, monkeypatch):
    from tests.mutation import __main__ as tool

    for file in ("mutation.csv", "survivors.csv"):
        (tmp_path / file).write_text((TRUST / file).read_text())
    monkeypatch.setattr(tool, "TABLE", tmp_path / "coverage.csv")
    monkeypatch.setattr(tool, "WORK", tmp_path)  # where nothing was run
    monkeypatch.setattr(
        tool,
        "chosen",
        lambda modules, most: ([tool.Mutant(modules[0], "AddNot", 0, 1, "if x:", "if not x:")], 1),
    )
    tool.report(310)
    for file in ("mutation.csv", "survivors.csv"):
        assert (tmp_path / file).read_text() == (TRUST / file).read_text()
