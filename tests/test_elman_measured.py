"""Measuring functions of the companion's chapters, against closed forms, brute force and
simulation."""

import dataclasses
import math

import numpy as np
import pytest

from book.chapters.elman_measured import (
    approximation_errors,
    descents,
    needed,
    parts,
    study,
    worst_in_ball,
)
from book.claims.companion_search import SMOOTH
from lwcore.elman.bounds import Problem, theorem_1
from lwcore.elman.descent import gradient_descent
from lwcore.elman.network import (
    ElmanNetwork,
    hidden_gradients,
    symmetric_initialisation,
)

PROBLEM = Problem("tanh", 0.6, 3, 2, 0.4, 0.6, sequences=2)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("motion", ["turning", "steady"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_targets_are_means_over_wide_networks(motion, dimension):
    case = study(dataclasses.replace(PROBLEM, dimension=dimension), rng(), motion=motion)
    found = approximation_errors(case, [100_000], 3, rng(1)).sel(error="transport").values
    # no neuron's share exceeds the summand's bound
    assert found.max() < 6 * np.exp(case.problem.log_summand) / 100_000**0.5
    assert np.abs(case.targets).max() > 20 * found.max()
    assert case.target_error < 1e-7


@pytest.mark.parametrize("name", SMOOTH)
def test_worst_point_of_a_ball_is_close_to_that_of_a_fine_grid(name):
    """One input dimension: every neuron's best over a grid of the rectangle, summed."""
    start = symmetric_initialisation(12, 1, 0.6, rng(), name)
    sequence, radii = np.array([[0.9], [-0.4], [0.7]]), (0.8, 1.2)
    w, u = (np.linspace(-r, r, 122) / 12**0.5 for r in radii)
    moves = np.stack(np.meshgrid(w, u, indexing="ij"), axis=-1).reshape(-1, 2)
    gradients = hidden_gradients(start, sequence[None])[0, -1]
    totals = np.zeros(2)
    for row, c, gradient in zip(start.parameters, start.readout, gradients, strict=True):
        end = ElmanNetwork(np.concatenate([moves, 0 * moves]) + row, np.ones(2 * len(moves)), name)
        moved, still = np.split(end.hidden(sequence[None])[0, -1], 2)
        gain = c * (moved - still)
        totals += gain.max() / 12**0.5, (gain - c * moves @ gradient).max() / 12**0.5
    for total, error in zip(totals, (False, True), strict=True):
        # a climb may end on a lower hill; the grid misses the edges of a hill
        assert 0.99 * total < worst_in_ball(start, sequence, radii, error=error) < 1.002 * total


def test_descents_take_the_theorems_step_size_and_stay_in_the_ball():
    case = study(PROBLEM, rng())
    (run,), first = descents(case, 20, 9, 1, rng(3)), case.start(20, rng(3))
    options = {"step_size": 1 / (3 * 3), "steps": 9, "radii": (0.4, 0.6)}
    by_hand = gradient_descent(first, case.inputs, case.targets, **options)
    assert run.risks == pytest.approx(by_hand.risks, rel=1e-12)
    (free,) = descents(case, 20, 9, 1, rng(3), free=5.0)
    assert free.input_moves.max() > 0.6


@pytest.mark.parametrize("printed", [True, False])
def test_needed_width_and_steps_give_the_risk(printed):
    problem = dataclasses.replace(PROBLEM, activation="logistic")
    log_width, log_steps = needed(problem, 0.02, as_printed=printed)
    width, steps = 2 * round(math.exp(log_width) / 2), round(math.exp(log_steps))
    found = theorem_1(problem, width, steps, as_printed=printed)
    assert found.value == pytest.approx(0.02, rel=2e-3)
    assert np.exp(parts(found)) == pytest.approx([0.01, 0.01], rel=4e-3)
