"""The experiment on clock and quota: what it asks for, what it keeps, and that it can be stopped."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from book.chapters import clock, dose
from tests.built_book import ROOT

REGISTRATION = "book/registration_clock.md"


@pytest.fixture
def quick(monkeypatch):
    """Make outcomes up, so that nothing is trained; the fixed arm never learns at s above 0.1."""
    asked = []

    def train(members, cap):
        asked.append((members, cap))
        rows = []
        for member in members:
            stuck = member.arm == "fixed" and member.condition.gate > 0.1
            end, steps = ("cap", cap) if stuck else ("half", 50)
            rows.append({"share": 0.5, "steps": steps, "end": end, "fitted": 1.0})
        return rows

    monkeypatch.setattr(clock.stacked, "train", train)
    return asked


def record_all(part, folder):
    with ThreadPoolExecutor(1) as pool:
        for seed in clock.SEEDS[part]:
            clock.record(part, seed, pool, folder)


def test_the_clock_trains_every_number_of_sequences_once(quick, tmp_path):
    record_all("clock", tmp_path)
    rows = clock.recorded("clock", tmp_path, complete=True)
    counts = rows.groupby(["cell", "optimizer", "gate", "seed"])["count"].apply(sorted)
    assert len(counts) == 3 * 6 * 6
    assert all(tuple(tried) == (16, 32, 64, 128, 256, 1024, 4096) for tried in counts)
    assert {cap for _, cap in quick} == {60_000}


def test_a_stopped_part_goes_on_from_whole_units(quick, tmp_path):
    record_all("clock", tmp_path)
    path = tmp_path / "clock-11.csv"
    whole = path.read_text().splitlines()
    path.write_text("\n".join(whole[:-2]) + "\n")
    with pytest.raises(FileNotFoundError, match="lacks 1 units"):
        clock.recorded("clock", tmp_path, complete=True)
    quick.clear()
    record_all("clock", tmp_path)
    assert len(quick) == 1
    assert len(clock.recorded("clock", tmp_path, complete=True)) == 3 * 42 * 6


def test_mobility_waits_for_endless_data_and_drops_starts_that_they_cannot_teach(quick, tmp_path):
    with pytest.raises(FileNotFoundError):
        record_all("mobility", tmp_path)
    record_all("endless", tmp_path)
    endless = clock.recorded("endless", tmp_path, complete=True)
    assert {(one.mixing, one.gate) for one in clock.taught_starts(endless)} == {
        (mixing, gate) for mixing in clock.MIXINGS for gate in (0.05, 0.1)
    }
    quick.clear()
    record_all("mobility", tmp_path)
    arms = {members[0].arm for members, _ in quick}
    assert arms == {"learned", "fixed", "wide"}
    assert len(clock.recorded("mobility", tmp_path, complete=True)) == 3 * 8 * 7 * 6


def test_starts_are_dropped_for_the_compared_arms_alone():
    rows = [
        {"gate": one.gate, "mixing": one.mixing, "arm": arm, "seed": seed, "end": "half"}
        for one in clock.starts()
        for arm in clock.ARMS
        for seed in clock.SEEDS["endless"]
    ]
    table = pd.DataFrame(rows)
    at = (table["gate"] == 0.2) & (table["mixing"] == 0.9)
    table.loc[at & (table["arm"] == "wide"), "end"] = "cap"
    assert len(clock.taught_starts(table)) == 16
    table.loc[at & (table["arm"] == "learned") & (table["seed"] < 13), "end"] = "cap"
    assert len(clock.taught_starts(table)) == 16  # four of six
    table.loc[at & (table["arm"] == "learned") & (table["seed"] < 14), "end"] = "cap"
    assert len(clock.taught_starts(table)) == 15


def test_a_width_counts_what_is_trained():
    condition = dose.Condition("ConstGate", 0.2, "regression", 5)
    assert dose.n_parameters(condition, 16) == 16 * (4 + 16 + 1) + 16 + 1
    rows = {width for _, width in clock.parameter_conditions()}
    assert rows == {16, 24, 32, 48, 64}


def test_a_start_is_measured_with_its_size():
    condition = dose.Condition("MinGRU", 0.1, "recall", 10)
    (row,) = clock.measure_start(condition, 907)
    assert row["size"] > 0
    assert row["envelope"] == pytest.approx(32 * 0.9**10, rel=0.1)
    assert row["needed"] > 0


def test_data_are_younger_than_the_registration():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the history of the repository")
    first = git("log", "--diff-filter=A", "--format=%H", "--", REGISTRATION).stdout.split()[-1]
    for path in sorted((ROOT / clock.FOLDER).glob("*.csv")):
        for revision in pd.read_csv(path)["revision"].unique():
            assert git("merge-base", "--is-ancestor", first, revision).returncode == 0
