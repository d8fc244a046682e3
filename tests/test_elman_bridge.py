"""The diagonal network's envelope: against automatic differentiation and its laws."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from book.chapters import elman_bridge as bridge
from book.chapters.elman_measured import sequences
from book.claims.companion_search import SIGMA, SMOOTH
from lwcore.elman.network import symmetric_initialisation
from tests.elman_oracles import double


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
        path = [torch.zeros(2, width, dtype=torch.float64)]
        for now in double(x).unbind(1):
            path.append(SIGMA[name](w * path[-1] + now @ u.T).requires_grad_())
        slopes = torch.autograd.grad(path[5].sum(), path[4:0:-1])
        rates = [one.abs().mean().item() for one in slopes]
        assert np.exp(bridge.log_envelope(network, x)) == pytest.approx(rates, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "dimension"), [(0.01, 3), (0.6, 1), (0.9, 3)])
def test_wide_law_and_its_excess_are_those_of_infinitely_many_neurons(alpha, dimension):
    """Rates of 500 scalar recurrences for each of 150 sizes of u, integrated over the chi law: no
    network, and no approximation."""
    rng, sizes = np.random.default_rng(0), np.exp(np.linspace(-12, 2, 150))
    weights = stats.chi(dimension).pdf(sizes) * sizes * (14 / 149)
    lags, state = np.array([300, 600]), np.zeros((150, 500))
    log_rates = np.zeros((2, *state.shape))
    for left in range(lags[-1] + 60, 0, -1):
        steps = rng.standard_normal((500, dimension))
        heard = np.multiply.outer(sizes, steps[:, 0] / np.linalg.norm(steps, axis=1))
        state = np.tanh(alpha * state + heard)
        log_rates[left <= lags] += np.log1p(-np.minimum(state**2, 1 - 1e-15))
    law, excess = bridge.wide_law(alpha, dimension, lags)
    above = np.log(np.exp(log_rates).mean(axis=2) @ weights) + lags * math.log(alpha) - law
    assert above == pytest.approx(excess, rel=0.25, abs=2e-3)
    assert 2 * excess[1] == pytest.approx(excess[0], rel=0.02)
