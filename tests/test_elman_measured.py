"""Measuring functions of the companion's chapters, against closed forms, brute force and
simulation."""

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import elman_measured as chapter
from book.claims.companion_search import SMOOTH
from lwcore.elman import network
from lwcore.elman.bounds import Problem, theorem_1
from lwcore.elman.descent import gradient_descent
from lwcore.elman.kernel import limiting_kernel
from tests.elman_oracles import echo

PROBLEM = Problem("tanh", 0.6, 3, 2, 0.4, 0.6, sequences=2)


def rng(seed=0):
    return np.random.default_rng(seed)


def slope(sizes, samples, draws):
    errors = {"x": xr.DataArray(samples, {"m": sizes}, ("m", "start"))}
    return chapter.slopes(errors, draws).loc["x"].astype(float)


def test_slope_is_a_powers_and_its_interval_covers():
    """Errors |N(0, 1)|/√m: the interval at 95 % holds −1/2 in about that share of 60 experiments."""
    sizes, draws, held = np.array([16.0, 64.0, 256.0, 1024.0]), rng(1), 0
    exact = slope(sizes, np.repeat(sizes[:, None] ** -0.5, 3, axis=1), draws)
    assert list(exact) == pytest.approx([-0.5, -0.5, -0.5, 0.031])
    for _ in range(60):
        sample = np.abs(draws.standard_normal((4, 40))) * sizes[:, None] ** -0.5
        _, low, high, _ = slope(sizes, sample, draws)
        held += low <= -0.5 <= high
    assert 50 <= held <= 60


def test_failures_are_counted_over_the_probability_allowed():
    found = chapter.failures([0.5, 1.0, 1.1, 2.0], 0.25)
    assert (found.value, found.n) == (2.0, 4)
    assert found.low < 2 < found.high <= 4


@pytest.mark.parametrize("motion", ["turning", "steady"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_targets_are_means_over_wide_networks(motion, dimension):
    case = chapter.study(dataclasses.replace(PROBLEM, dimension=dimension), rng(), motion=motion)
    found = chapter.approximation_errors(case, [100_000], 3, rng(1)).sel(error="transport").values
    # no neuron's share exceeds the summand's bound
    assert found.max() < 6 * np.exp(case.problem.log_summand) / 100_000**0.5
    assert np.abs(case.targets).max() > 20 * found.max()
    assert case.target_error < 1e-7


@pytest.mark.parametrize("name", SMOOTH)
def test_worst_point_of_a_ball_is_close_to_that_of_a_fine_grid(name):
    """One input dimension: every neuron's best over a grid of the rectangle, summed."""
    start = network.symmetric_initialisation(12, 1, 0.6, rng(), name)
    sequence, radii = np.array([[0.9], [-0.4], [0.7]]), (0.8, 1.2)
    w, u = (np.linspace(-r, r, 122) / 12**0.5 for r in radii)
    moves = np.stack(np.meshgrid(w, u, indexing="ij"), axis=-1).reshape(-1, 2)
    gradients = network.hidden_gradients(start, sequence[None])[0, -1]
    totals = np.zeros(2)
    for row, c, gradient in zip(start.parameters, start.readout, gradients, strict=True):
        rows = np.concatenate([moves, 0 * moves]) + row
        end = network.ElmanNetwork(rows, np.ones(len(rows)), name)
        moved, still = np.split(end.hidden(sequence[None])[0, -1], 2)
        gain = c * (moved - still)
        totals += gain.max() / 12**0.5, (gain - c * moves @ gradient).max() / 12**0.5
    for total, error in zip(totals, (False, True), strict=True):
        # a climb may end on a lower hill; the grid misses the edges of a hill
        worst = chapter.worst_in_ball(start, sequence, radii, error=error)
        assert 0.99 * total < worst < 1.002 * total


def test_descents_take_the_theorems_step_size_and_stay_in_the_ball():
    case = chapter.study(PROBLEM, rng())
    (run,), first = chapter.descents(case, 20, 9, 1, rng(3)), case.start(20, rng(3))
    options = {"step_size": 1 / (3 * 3), "steps": 9, "radii": (0.4, 0.6)}
    by_hand = gradient_descent(first, case.inputs, case.targets, **options)
    assert run.risks == pytest.approx(by_hand.risks, rel=1e-12)
    (free,) = chapter.descents(case, 20, 9, 1, rng(3), free=5.0)
    assert free.input_moves.max() > 0.6


@pytest.mark.parametrize("printed", [True, False])
def test_needed_width_and_steps_give_the_risk(printed):
    problem = dataclasses.replace(PROBLEM, activation="logistic")
    log_width, log_steps = chapter.needed(problem, 0.02, as_printed=printed)
    width, steps = 2 * round(math.exp(log_width) / 2), round(math.exp(log_steps))
    found = theorem_1(problem, width, steps, as_printed=printed)
    assert found.value == pytest.approx(0.02, rel=2e-3)
    assert np.exp(chapter.parts(found)) == pytest.approx([0.01, 0.01], rel=4e-3)


def test_least_norm_is_that_of_a_kernels_section():
    kernel = limiting_kernel(chapter.sequences(6, 3, 2, seed=18), alpha=0.8).value[..., 1]
    assert chapter.least_norm(kernel, kernel[0]) == pytest.approx(kernel[0, 0] ** 0.5, rel=1e-8)
    assert chapter.least_norm(np.diag([4.0, 0.0]), [1.0, 0.0]) == pytest.approx(0.5)
    assert chapter.least_norm(np.diag([1.0, 0.0]), [1.0, 1.0]) == np.inf


def test_class_kernel_is_the_kernel_of_partial_means():
    """At scalar inputs, by sums over both w₀ and Gauss and Legendre's rule for u₀. Of an odd
    activation one of the two parts would be 0."""
    x = np.array([[0.9, -0.5, 0.7], [-0.3, 1.0, 0.8], [0.2, 0.4, -0.9]])
    nodes, weights = np.polynomial.legendre.leggauss(400)
    sigma, weights = network.ACTIVATIONS["logistic"], 9 * weights * stats.norm.pdf(9 * nodes)
    features = np.array(
        [[[echo(sigma, w, 9 * u, one) for u in nodes] for w in (0.8, -0.8)] for one in x]
    )  # (n, w, u, 2)
    of_u, of_w = features[..., 1].mean(axis=1), features[..., 0] @ weights
    expected = (of_u * weights) @ of_u.T + of_w @ of_w.T / 2
    ours = chapter.class_kernel(x[..., None], alpha=0.8, activation="logistic")[..., 2]
    np.testing.assert_allclose(ours, expected, atol=1e-9)
