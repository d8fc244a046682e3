"""The rules of the clock, on data that were made up so that the answer is known."""

import itertools
import math
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from book.chapters import clock, clock_rules, dose, exponents
from lwcore.stats import Interval


def test_the_boundary_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(200):
        half = rng.integers(0, 2, 7).astype(bool)
        low, high = clock_rules.boundary(clock.COUNTS, half.tolist())
        wrong = {
            edge: sum((count >= edge) != one for count, one in zip(clock.COUNTS, half, strict=True))
            for edge in (*clock.COUNTS, math.inf)
        }
        found = math.inf if math.isnan(high) else high
        best = min(wrong.values())
        assert found == max(edge for edge, number in wrong.items() if number == best)
        assert low < found


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    for name in ("dose_exponent", "exponent_draws"):
        fewer = partial(getattr(exponents, name), draws=60)
        monkeypatch.setattr(clock_rules, name, fewer)


ENVELOPES = {gate: 32 * (1 - gate) ** clock.LAG for gate in dose.GATES}


def made_up(arm="learned", data=0.0, steps=-0.2, spread=0.05, at_mean=100.0, **varied):
    """Make trainings up in which n* and steps are powers of the envelope."""
    rng = np.random.default_rng(1)
    rows = []
    middle = np.exp(np.mean(np.log(list(ENVELOPES.values()))))
    for seed, (gate, envelope) in itertools.product(range(11, 17), ENVELOPES.items()):
        condition = dose.Condition("MinGRU", gate, "recall", clock.LAG)
        fallen = envelope / middle
        needed = at_mean * fallen**data * math.exp(spread * rng.standard_normal())
        for count in clock.COUNTS:
            taken = 900 * fallen**steps * math.exp(spread * rng.standard_normal())
            end = "half" if count >= needed else "cap"
            found = {"count": count, "steps": taken if end == "half" else 60_000, "end": end}
            rows.append(asdict(condition) | varied | {"arm": arm, "seed": seed} | found)
    return pd.DataFrame(rows)


def starts(**varied):
    rows = []
    for cell, seed in itertools.product(("MinGRU", "ConstGate"), range(11, 17)):
        for gate, envelope in ENVELOPES.items():
            named = asdict(dose.Condition(cell, gate, "recall", clock.LAG))
            rows.append(named | varied | {"seed": seed, "envelope": envelope})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("data", "steps"), [(0.0, -0.2), (-0.13, 0.0)])
def test_exponents_of_made_up_data_are_found(data, steps):
    trained = made_up(data=data, steps=steps, spread=0.2, at_mean=64)
    table = pd.concat([trained, trained.assign(optimizer="sgd"), trained.assign(cell="ConstGate")])
    rows = clock_rules.clock_rows(table, starts(), np.random.default_rng(0))
    assert [(row.cell, row.optimizer) for row in rows] == list(clock.CLOCK_ROWS)
    for row in rows:
        assert row.sequences.value == pytest.approx(data, abs=0.03)
        assert row.sequences.low <= row.sequences.value <= row.sequences.high
        assert row.steps.value == pytest.approx(steps, abs=0.02)
        assert row.by_data.low - 0.02 < 0 < row.by_data.high + 0.02
    assert (rows[0].verdict() == "supported") is (data == 0)


def row(**changed):
    near = Interval(0.0, -0.05, 0.05)
    usual = clock_rules.ClockRow(
        "MinGRU", "adamw", near, Interval(-0.3, -0.4, -0.2), 0.95, 0.8, near, 0.0, 0.1
    )
    return replace(usual, **changed)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "supported"),
        ({"sequences": Interval(-0.08, -0.12, -0.04)}, "undecided"),
        ({"sequences": Interval(-0.3, -0.4, -0.2)}, "refuted"),
        ({"steps": Interval(0.0, -0.05, 0.05)}, "refuted"),
        ({"steps": Interval(0.0, -0.05, 0.05), "cell": "ConstGate"}, "supported"),
    ],
)
def test_a_row_is_judged_by_the_registered_rule(changed, verdict):
    assert row(**changed).verdict() == verdict
