"""Measuring functions of the companion's chapters, against closed forms, brute force and
simulation."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr

from book.chapters.elman_measured import (
    approximation_errors,
    descents,
    failures,
    needed,
    parts,
    slopes,
    study,
    worst_in_ball,
)
from lwcore.elman import bounds
from lwcore.elman.bounds import Problem
from lwcore.elman.descent import gradient_descent
from lwcore.elman.network import ElmanNetwork, linear_model, symmetric_initialisation
from tests.elman_oracles import SMOOTH

PROBLEM = Problem("tanh", 0.6, 3, 2, 0.4, 0.6, sequences=2)


def rng(seed=0):
    return np.random.default_rng(seed)


def errors(sizes, samples):
    return {"x": xr.DataArray(samples, {"m": sizes}, ("m", "start"))}


def test_slope_of_an_exact_power():
    sizes = np.array([1.0, 10.0, 100.0])
    table = slopes(errors(sizes, np.repeat(sizes[:, None] ** -0.5, 3, axis=1)), rng())
    assert list(table.loc["x"]) == ["-0.50", "-0.50", "-0.50", "0.1"]


def test_interval_of_a_slope_covers_it():
    """Errors |N(0, 1)|/√m: the interval at 95 % holds −1/2 in about that share of 60 experiments."""
    sizes, draws, held = np.array([16.0, 64.0, 256.0, 1024.0]), rng(1), 0
    for _ in range(60):
        sample = np.abs(draws.standard_normal((4, 40))) * sizes[:, None] ** -0.5
        _, low, high = slopes(errors(sizes, sample), draws).loc["x"].astype(float)[:3]
        held += low <= -0.5 <= high
    assert 50 <= held <= 60


def test_failures_are_counted_over_the_probability_allowed():
    found = failures([0.5, 1.0, 1.1, 2.0], 0.25)
    assert (found.value, found.n) == (2.0, 4)
    assert found.low < 2 < found.high <= 4


@pytest.mark.parametrize("motion", ["turning", "steady"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_targets_are_means_over_wide_networks(motion, dimension):
    case = study(dataclasses.replace(PROBLEM, dimension=dimension), rng(), motion=motion)
    found = approximation_errors(case, [100_000], 3, rng(1)).sel(error="transport").values
    # no neuron's share exceeds the summand's bound
    spread = np.exp(case.problem.log_summand) / 100_000**0.5
    assert found.max() < 6 * spread
    assert np.abs(case.targets).max() > 20 * found.max()
    assert np.linalg.norm(case.inputs, axis=2).max() <= 1 + 1e-12
    assert case.target_error < 1e-7


def test_study_refuses_other_dimensions():
    with pytest.raises(ValueError, match="dimension = 3"):
        study(dataclasses.replace(PROBLEM, dimension=3), rng())


@pytest.mark.parametrize("name", SMOOTH)
def test_worst_point_of_a_ball_is_close_to_that_of_a_fine_grid(name):
    """One input dimension: every neuron's best over a grid of the rectangle, summed."""
    start = symmetric_initialisation(12, 1, 0.6, rng(), name)
    sequence, radii = np.array([[0.9], [-0.4], [0.7]]), (0.8, 1.2)
    w, u = (np.linspace(-r, r, 121) / 12**0.5 for r in radii)
    moves = np.stack(np.meshgrid(w, u, indexing="ij"), axis=-1).reshape(-1, 2)
    totals = np.zeros((2, 12))
    for i in range(12):
        rows = start.parameters[i] + moves
        pair = ElmanNetwork(np.concatenate([rows, rows]), np.ones(2 * len(rows)), name)
        state = pair.hidden(sequence[None])[0, -1, : len(rows)]
        at_start = start.hidden(sequence[None])[0, -1, i]
        lines = np.empty((2, 12))
        for k in range(2):  # the linear model of neuron i alone, along each axis
            moved = start.parameters.copy()
            moved[i, k] += 1.0
            lines[k, i] = (
                linear_model(start, moved, sequence[None])[0, -1] * 12**0.5 * start.readout[i]
            )
        gain = start.readout[i] * (state - at_start)
        totals[:, i] = gain.max(), (gain - start.readout[i] * moves @ lines[:, i]).max()
    for total, error in zip(totals.sum(axis=1) / 12**0.5, (False, True), strict=True):
        found = worst_in_ball(start, sequence, radii, error=error)
        # a climb may end on a lower hill; the grid misses the edges of a hill
        assert 0.99 * total < found < 1.002 * total


def test_descents_take_the_theorems_step_size_and_stay_in_the_ball():
    case = study(PROBLEM, rng())
    (run,) = descents(case, 20, 9, 1, rng(3))
    by_hand = gradient_descent(
        case.start(20, rng(3)), case.inputs, case.targets, 1 / (3 * 3), 9, radii=(0.4, 0.6)
    )
    assert run.risks == pytest.approx(by_hand.risks, rel=1e-12)
    assert run.recurrent_moves.max() <= 0.4 * (1 + 1e-12)
    (free,) = descents(case, 20, 9, 1, rng(3), free=5.0)
    assert free.input_moves.max() > 0.6


@pytest.mark.parametrize("printed", [True, False])
def test_needed_width_and_steps_give_the_risk(printed):
    problem = dataclasses.replace(PROBLEM, activation="logistic")
    need = needed(problem, 0.02, as_printed=printed)
    width, steps = 2 * round(math.exp(need.log_width) / 2), round(math.exp(need.log_steps))
    assert bounds.theorem_1(problem, width, steps, as_printed=printed).value == pytest.approx(
        0.02, rel=2e-3
    )


def test_parts_are_what_shrinks_with_steps_and_with_width():
    few, many = (parts(bounds.theorem_1(PROBLEM, 10**12, tau)) for tau in (1, 100))
    assert np.subtract(few, many) == pytest.approx([math.log(10), 0])
