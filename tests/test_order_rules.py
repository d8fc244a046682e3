"""The rule of the order between cells, on data that were made up so that the answer is known."""

import itertools
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.recordings.clock import ORDER_CELLS, ORDER_LAGS
from book.chapters import clock, dose, order_rules
from lwcore.stats import Interval


def made_up(by_needed=1.0, by_envelope=0.0, by_size=0.0, spread=0.05, failing=()):
    """Make trainings up in which steps follow N(ℓ), the envelope or the gradient's size."""
    rng = np.random.default_rng(1)
    rows = []
    for lag, optimizer, gate in itertools.product(ORDER_LAGS, dose.OPTIMIZERS, dose.GATES):
        logs = {cell: rng.standard_normal(3) for cell in ORDER_CELLS}
        for cell, seed in itertools.product(ORDER_CELLS, clock.SEEDS["order"]):
            needed, envelope, size = logs[cell]
            taken = by_needed * needed - by_envelope * envelope - by_size * size
            taken += spread * rng.standard_normal()
            row = asdict(dose.Condition(cell, gate, "recall", lag, optimizer))
            row |= {"seed": seed, "needed": np.exp(needed), "envelope": np.exp(envelope)}
            row |= {"size": np.exp(size), "steps": 1000 * np.exp(taken), "end": "half"}
            if (cell, seed) in failing:
                row |= {"steps": 50.0, "end": "settled"}
            rows.append(row)
    return pd.DataFrame(rows)


def test_steps_that_follow_the_number_support_it():
    found = order_rules.order(made_up())
    assert [row.optimizer for row in found.rows] == ["adamw", "sgd"]
    for row in found.rows:
        assert row.needed > 0.9
        assert abs(row.envelope) < 0.5
        assert row.beyond_envelope.low > 0
        assert row.beyond_envelope.low <= row.beyond_envelope.value <= row.beyond_envelope.high
        assert row.pairs == 12
    assert found.verdict() == "supported"
    assert not found.noise_adds_nothing()


def test_a_cell_that_two_of_three_seeds_did_not_learn_ranks_last():
    one = [("GRU", 7)]
    two = [*one, ("GRU", 8)]
    for failing, last in ((one, False), (two, True)):
        found = order_rules.medians(made_up(failing=failing))
        steps = found[found["cell"] == "GRU"]["steps"]
        assert np.isinf(steps).all() == last
        assert (steps > 50).all()  # a failure is never quick


def test_correlations_are_scipys_and_put_infinite_numbers_last():
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 5, (2, 40, 7)).astype(float)
    found = order_rules.rank_correlations(left, right)
    for own, a, b in zip(found, left, right, strict=True):
        assert own == pytest.approx(stats.spearmanr(a, b).statistic)
    endless = np.where(left == 4, np.inf, left)
    assert order_rules.rank_correlations(endless, right) == pytest.approx(found)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({"needed": 0.6}, "supported"),
        ({"needed": 0.59}, "undecided"),
        ({"needed": 0.3}, "refuted"),
        ({"beyond_envelope": Interval(0.2, -0.01, 0.4)}, "undecided"),
    ],
)
def test_an_optimiser_is_judged_by_the_registered_rule(changed, verdict):
    usual = order_rules.OrderRow("adamw", 0.8, 0.5, 0.6, Interval(0.3, 0.1, 0.5), 12)
    assert replace(usual, **changed).verdict() == verdict
