"""A run interrupted at random moments, a reader beside it, and two processes at one run: the short version of ``make interruptions``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.built_book import ROOT


def without_harm(found):
    """Check a record: the same bits, nothing seen in part, nothing missed, nothing computed twice but what a killed process was at."""
    runs, pairs = found["interruption"], found["two at once"]
    assert runs["mismatches"] == runs["files left behind"] == runs["partial files seen"] == 0
    assert runs["interruptions"] == runs["killed"] + runs["full disk"]
    assert min(runs["inside a write"], runs["runs finished"], runs["files read meanwhile"]) > 0
    assert pairs["mismatches"] == pairs["files left behind"] == 0
    assert pairs["members"] <= pairs["trainings begun"] <= pairs["members"] + pairs["one killed"]
    assert all(kind["missed"] == 0 for kind in found["damage"].values())


@pytest.mark.interruption
def test_a_few_interruptions_do_no_harm(tmp_path):
    command = [sys.executable, "-m", "benchmarks.interruption", "5", "--record", str(tmp_path / "record.json")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    without_harm(json.loads((tmp_path / "record.json").read_text()))


def test_a_hundred_recorded_ones_did_none():
    found = json.loads((ROOT / "book" / "results" / "trust" / "interruption.json").read_text())
    assert found["interruption"]["interruptions"] >= 100
    without_harm(found)
