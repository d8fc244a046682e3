"""Tables of the page on trust: the recorded numbers, under words."""

from __future__ import annotations

import pandas as pd

from book.chapters import tables_trust
from tests.built_book import ROOT

TRUST = ROOT / "book" / "results" / "trust"


def test_nothing_that_was_recorded_went_wrong():
    table = tables_trust.interruptions(tables_trust.record(TRUST / "interruption.json"))["count"]
    assert table["kills"] >= 20
    assert table["… inside a write"] > 5
    assert table["files read by another process meanwhile"] > 100
    wrong = [
        "results that differ from the undisturbed one",
        "… of them partial",
        "files left behind",
        "… results that differ",
    ]
    assert table[wrong].tolist() == [0] * len(wrong)


def test_mutation_scores_stand_with_their_intervals():
    table = tables_trust.mutation(
        pd.DataFrame(
            {
                "module": ["stable", "bptt"], "mutants": [900, 140], "run": [300, 140], "killed": [240, 133], "timed_out": [6, 0],
                "survived_explained": [50, 7], "survived_unexplained": [4, 0], "score": [0.82, 0.95], "score_low": [0.77, float("nan")],
                "score_high": [0.86, float("nan")], "score_without_timeouts": [0.8, 0.95], "score_without_explained": [0.98, 1.0],
            }
        )
    )  # fmt: skip
    assert table["noticed (%)"].tolist() == ["82 (77 to 86)", "95"]
    assert table["killed alone (%)"].tolist() == ["80", "95"]
    assert table.tried.tolist() == ["300 of 900", "140"]
    assert table.loc["stable", "unexplained"] == 4
    recorded = pd.read_csv(TRUST / "mutation.csv")
    tried = (
        recorded.killed
        + recorded.timed_out
        + recorded.survived_explained
        + recorded.survived_unexplained
    )
    assert (tried == recorded.run).all()
    noticed = (recorded.killed + recorded.timed_out) / recorded.run
    pd.testing.assert_series_equal(recorded.score, noticed.round(4), check_names=False)
    pd.testing.assert_series_equal(
        recorded.score_without_timeouts,
        (recorded.killed / recorded.run).round(4),
        check_names=False,
    )


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


def test_coverage_adds_up():
    modules = ["lwcore/claims/a.py", "lwcore/claims/b.py", "lwcore/cli.py", "total"]
    counts = {
        "statements": [10, 20, 5, 35],
        "statements_run": [10, 10, 5, 25],
        "branches": [4, 6, 2, 12],
        "branches_run": [4, 3, 2, 9],
    }
    table = tables_trust.coverage(pd.DataFrame({"module": modules} | counts))
    assert table.index.tolist() == ["claims", "other modules", "in all"]
    assert table.loc["claims", "reached (%)"] == 66.7
    assert table.loc["in all", ["branches", "taken (%)"]].tolist() == [12, 75]
