"""Tables of the page on trust: what was done to the program, and how often it failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

Record = dict[str, Any]


def record(path: str | Path) -> Record:
    """Read a record.

    Args:
        path: A JSON file of ``make interruptions``.

    Returns:
        What it holds.
    """
    return json.loads(Path(path).read_text(encoding="utf-8"))


def interruptions(recorded: Record) -> pd.DataFrame:
    """Show what was counted while runs were interrupted.

    Args:
        recorded: ``interruption.json``.

    Returns:
        One row for each count.
    """
    runs, pairs = recorded["interruption"], recorded["two at once"]
    rows = {
        "kills": runs["kills"],
        "… inside a write": runs["inside a write"],
        "runs that came to their end": runs["runs finished"],
        "results that differ from the undisturbed one": runs["other bits"],
        "files read by another process meanwhile": runs["files read meanwhile"],
        "… of them partial": runs["partial files seen"],
        "files left behind": runs["files left behind"] + pairs["files left behind"],
        "pairs of processes on one run": pairs["pairs"],
        "… one of them killed": pairs["one killed"],
        "… results that differ": pairs["other bits"],
    }
    return pd.Series(rows, name="count").rename_axis("what was counted").to_frame()


def mutation(table: pd.DataFrame) -> pd.DataFrame:
    """Show the mutation score of every module.

    Args:
        table: ``mutation.csv``.

    Returns:
        For each module: mutants tried, of how many if they are a sample, and those killed, timed
            out and surviving; the share noticed,
        killed or timed out, in percent, with its 95 % interval where they are a sample; the same
        without those that timed out.
    """
    columns = {
        "tried": [
            f"{run} of {total}" if run < total else f"{run}"
            for run, total in zip(table.run, table.mutants, strict=True)
        ],
        "killed": table.killed,
        "timed out": table.timed_out,
        "explained": table.survived_explained,
        "unexplained": table.survived_unexplained,
        "noticed (%)": [
            _score(*row) for row in table[["score", "score_low", "score_high"]].to_numpy()
        ],
        "killed alone (%)": [f"{100 * score:.0f}" for score in table.score_without_timeouts],
    }
    return pd.DataFrame(columns).set_index(pd.Index(table.module, name="module"))


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """Show which share of lines and branches the tests reach, by parts of the package.

    Args:
        table: ``coverage.csv``.

    Returns:
        For each part, and in all: lines, branches, and the shares reached in percent.
    """
    table = table[table.module.str.startswith("lwcore/")]  # the last line is their sum
    parts = table.module.str.removeprefix("lwcore/").str.partition("/")
    part = parts[0].where(parts[1] == "/", "other modules")
    sums = table.groupby(part)[["statements", "statements_run", "branches", "branches_run"]].sum()
    sums.loc["in all"] = sums.sum()
    return pd.DataFrame(
        {
            "lines": sums.statements,
            "reached (%)": (100 * sums.statements_run / sums.statements).round(1),
            "branches": sums.branches,
            "taken (%)": (100 * sums.branches_run / sums.branches).round(1),
        }
    ).rename_axis("part of the package")


def _score(score: float, low: float, high: float) -> str:
    """Write a share in percent, with its interval if there is one."""
    return f"{100 * score:.0f}" + (f" ({100 * low:.0f} to {100 * high:.0f})" if low == low else "")
