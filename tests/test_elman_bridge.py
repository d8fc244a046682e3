"""The diagonal network's envelope: against automatic differentiation and its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from book.chapters import elman_bridge as bridge
from lwcore.elman.network import ElmanNetwork, symmetric_initialisation
from tests.elman_oracles import SIGMA, SMOOTH, double, sequences


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("width", [6, 5000])
def test_envelope_is_the_mean_size_of_the_derivatives_of_states(name, width):
    """At the start one half repeats the other; a moved network's halves differ; 5,000 neurons are
    taken in blocks."""
    rng, x = np.random.default_rng(0), sequences(2, 5, 2, seed=1)
    start = symmetric_initialisation(width, 2, 0.8, rng, name)
    off = 0.1 * rng.standard_normal(start.parameters.shape)
    for network in (start, start.at(start.parameters + off)):
        w, u = double(network.parameters[:, 0]), double(network.parameters[:, 1:])
        rates = np.zeros((2, 4))
        for n in range(2):
            states = [torch.zeros(width, dtype=torch.float64)]
            for step in double(x[n]):
                states.append(SIGMA[name](w * states[-1] + u @ step).requires_grad_())
            for lag in range(1, 5):
                (found,) = torch.autograd.grad(states[5].sum(), states[5 - lag], retain_graph=True)
                rates[n, lag - 1] = found.abs().mean()
        found = np.exp(bridge.log_envelope(network, x))
        assert found == pytest.approx(rates.mean(axis=0), rel=1e-11)


def test_silent_neuron_attains_the_cut_offs_law():
    """u = 0: tanh stays at its steepest, and the envelope is α^ℓ itself."""
    network = ElmanNetwork(np.array([[0.8, 0.0], [0.8, 0.0]]), np.array([1.0, -1.0]))
    log_f = bridge.log_envelope(network, np.ones((1, 30, 1)))
    assert np.exp(log_f) == pytest.approx(0.8 ** np.arange(1, 30), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "dimension", "lag"), [(0.3, 1, 20), (0.5, 2, 40), (0.2, 5, 40)])
def test_wide_networks_follow_their_law_where_the_excess_is_small(alpha, dimension, lag):
    """The last case has fewer neurons among 40,000 that still carry anything, hence its wider
    limits."""
    x = sequences(6, 61, dimension, seed=3)
    found = np.mean(
        [
            np.exp(
                bridge.log_envelope(
                    symmetric_initialisation(40_000, dimension, alpha, np.random.default_rng(s)), x
                )
            )
            for s in range(3)
        ],
        axis=0,
    )
    law = bridge.wide_law(alpha, dimension, [lag])
    assert law.log_excess[0] < 0.4
    ratio = found[lag - 1] / np.exp(law.log_envelope[0] + law.log_excess[0])
    assert ratio == pytest.approx(1, rel=0.15 if dimension < 5 else 0.5)
    # without its power of the lag the law would be far off
    assert found[lag - 1] < 0.35 * alpha**lag


@pytest.mark.slow
def test_law_breaks_where_the_excess_is_large():
    x = sequences(4, 61, 5, seed=3)
    found = bridge.log_envelope(
        symmetric_initialisation(20_000, 5, 0.95, np.random.default_rng(0)), x
    )
    law = bridge.wide_law(0.95, 5, [20, 50])
    above = found[[19, 49]] - law.log_envelope
    assert (above > 2).all()
    assert (above < law.log_excess).all()


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.01, 0.6, 0.9])
@pytest.mark.parametrize("dimension", [1, 3])
def test_excess_is_the_first_order_in_one_over_the_lag(alpha, dimension):
    """Rates of 500 scalar recurrences for each of 150 sizes of u, integrated over the chi law: no
    network, and no approximation."""
    rng, sizes = np.random.default_rng(0), np.exp(np.linspace(-12, 2, 150))
    weights = stats.chi(dimension).pdf(sizes) * sizes * (14 / 149)
    lags, state = [300, 600], np.zeros((150, 500))
    log_rates = np.zeros((2, *state.shape))
    for left in range(lags[-1] + 60, 0, -1):
        steps = rng.standard_normal((500, dimension))
        state = np.tanh(
            alpha * state + sizes[:, None] * (steps[:, 0] / np.linalg.norm(steps, axis=1))
        )
        log_rates[[left <= lag for lag in lags]] += np.log1p(-np.minimum(state**2, 1 - 1e-15))
    law = bridge.wide_law(alpha, dimension, lags)
    above = (
        np.log(np.exp(log_rates).mean(axis=2) @ weights)
        + np.array(lags) * math.log(alpha)
        - law.log_envelope
    )
    assert above == pytest.approx(law.log_excess, rel=0.25, abs=2e-3)
    assert 2 * law.log_excess[1] == pytest.approx(law.log_excess[0], rel=0.02)
