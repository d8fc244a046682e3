"""Tables of the page on trust: the recorded numbers, under words."""

from __future__ import annotations

import pandas as pd

from lwcore import tables_trust
from tests.built_book import ROOT

TRUST = ROOT / "book" / "results" / "trust"


def test_nothing_that_was_recorded_went_wrong():
    table = tables_trust.interruptions(tables_trust.record(TRUST / "interruption.json"))["count"]
    assert table["interruptions"] == 100
    assert table["… killed inside a write"] > 20
    assert table["files read by another process meanwhile"] > 1000
    wrong = [
        "results that differ from the undisturbed one",
        "… of them partial",
        "files left behind",
        "… results that differ",
        "… not noticed",
    ]
    assert table[wrong].tolist() == [0] * len(wrong)


def test_mutation_scores_stand_with_their_intervals():
    table = tables_trust.mutation(
        pd.DataFrame(
            {
                "module": ["stable", "bptt"], "mutants": [900, 140], "run": [300, 140], "killed": [240, 133], "timed_out": [1, 0],
                "survived_explained": [50, 7], "survived_unexplained": [9, 0], "score": [0.8, 0.95], "score_low": [0.75, float("nan")],
                "score_high": [0.84, float("nan")], "score_without_explained": [0.96, 1.0],
            }
        )
    )  # fmt: skip
    assert table["killed (%)"].tolist() == ["80 (75 to 84)", "95"]
    assert table.loc["bptt", "without explained (%)"] == "100"
    assert table.loc["stable", "unexplained"] == 9
    recorded = pd.read_csv(TRUST / "mutation.csv")
    tried = recorded.killed + recorded.timed_out + recorded.survived_explained + recorded.survived_unexplained
    assert (tried == recorded.run).all()


def test_coverage_adds_up():
    modules = ["lwcore/claims/a.py", "lwcore/claims/b.py", "lwcore/cli.py", "total"]
    counts = {"statements": [10, 20, 5, 35], "statements_run": [10, 10, 5, 25], "branches": [4, 6, 2, 12], "branches_run": [4, 3, 2, 9]}
    table = tables_trust.coverage(pd.DataFrame({"module": modules} | counts))
    assert table.index.tolist() == ["claims", "other modules", "in all"]
    assert table.loc["claims", "reached (%)"] == 66.7
    assert table.loc["in all", ["branches", "taken (%)"]].tolist() == [12, 75]
