"""A run killed at random moments, a reader beside it, and two processes at one run: what ``make
interruptions`` recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.built_book import ROOT


def without_harm(found):
    """Check a record: the same bits, nothing seen in part, nothing left."""
    runs, pairs = found["interruption"], found["two at once"]
    assert runs["other bits"] == runs["files left behind"] == runs["partial files seen"] == 0
    assert (
        min(
            runs["kills"],
            runs["inside a write"],
            runs["runs finished"],
            runs["files read meanwhile"],
        )
        > 0
    )
    assert pairs["other bits"] == pairs["files left behind"] == 0


@pytest.mark.interruption
def test_a_few_kills_do_no_harm(tmp_path):
    command = [
        sys.executable,
        "-m",
        "benchmarks.interruption",
        "5",
        "--record",
        str(tmp_path / "record.json"),
    ]
    subprocess.run(
        command,
        cwd=ROOT,
        check=True,
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    without_harm(json.loads((tmp_path / "record.json").read_text()))


def test_the_recorded_ones_did_none():
    found = json.loads((ROOT / "book" / "results" / "trust" / "interruption.json").read_text())
    assert found["interruption"]["kills"] >= 20
    without_harm(found)
