"""The record of mutants adds up, and keeps what was not run anew."""

from __future__ import annotations

import shutil

import pandas as pd

from tests.built_book import ROOT
from tests.mutation import __main__ as tool

TRUST = ROOT / "book" / "results" / "trust"


def test_recorded_scores_are_shares_of_what_was_tried():
    found = pd.read_csv(TRUST / "mutation.csv")
    survived = found.survived_explained + found.survived_unexplained
    assert (found.killed + found.timed_out + survived == found.run).all()
    noticed = ((found.killed + found.timed_out) / found.run).round(4)
    pd.testing.assert_series_equal(found.score, noticed, check_names=False)


def test_what_was_not_run_anew_keeps_its_rows(tmp_path, monkeypatch):
    for file in ("mutation.csv", "survivors.csv"):
        shutil.copy(TRUST / file, tmp_path)
    monkeypatch.setattr(tool, "TABLE", tmp_path / "coverage.csv")
    tool.report({})
    for file in ("mutation.csv", "survivors.csv"):
        assert (tmp_path / file).read_text() == (TRUST / file).read_text()
