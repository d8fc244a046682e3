"""The diagonal network's rates, envelope and window: against automatic differentiation and the laws of `lwcore.window`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lwcore.bounds import sample_complexity
from lwcore.elman import ElmanNetwork, bridge, symmetric_initialisation
from tests.elman_oracles import SIGMA, SMOOTH, double, sequences


@pytest.mark.parametrize("name", SMOOTH)
def test_rates_are_derivatives_of_states(name):
    rng, x = np.random.default_rng(0), sequences(2, 5, 2, seed=1)
    start = symmetric_initialisation(6, 2, 0.8, rng, name)
    network = start.at(start.parameters + 0.1 * rng.standard_normal(start.parameters.shape))
    rates = np.exp(bridge.log_rates(network, x))
    w, u = double(network.recurrent_weights), double(network.input_weights)
    for n in range(2):
        states = [torch.zeros(6, dtype=torch.float64)]
        for step in double(x[n]):
            states.append(SIGMA[name](w * states[-1] + u @ step).requires_grad_())
        for lag in range(1, 5):
            (found,) = torch.autograd.grad(states[5].sum(), states[5 - lag], retain_graph=True)
            assert rates[n, lag - 1] == pytest.approx(found.abs().numpy(), rel=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_envelope_is_the_mean_rate_and_stays_below_the_cut_offs_law(name):
    x, network = sequences(3, 40, 2, seed=2), symmetric_initialisation(50, 2, 0.9, np.random.default_rng(1), name)
    log_f = bridge.log_envelope(network, x)
    assert np.exp(log_f) == pytest.approx(np.exp(bridge.log_rates(network, x)).mean(axis=(0, 2)), rel=1e-12)
    lags = np.arange(1, 40)
    assert (log_f < lags * math.log(0.9 * network.activation.slope_bound)).all()
    assert bridge.decay_rates(log_f) == pytest.approx(np.exp(log_f[1:] - log_f[:-1]))


def test_silent_neuron_attains_the_cut_offs_law():
    """u = 0: tanh stays at its steepest, and the envelope is α^ℓ itself."""
    network = ElmanNetwork([[0.8, 0.0], [0.8, 0.0]], [1.0, -1.0])
    log_f = bridge.log_envelope(network, np.ones((1, 30, 1)))
    law = bridge.cut_off_law(0.8)
    assert np.exp(log_f) == pytest.approx(law.envelope(np.arange(1, 30)), rel=1e-12)
    budgets = [1e2, 1e3]
    assert bridge.window(log_f, budgets) == pytest.approx(np.floor(bridge.predicted_window(law, budgets)))


def test_window_is_where_sequences_suffice():
    log_f = np.log([0.5, 0.1, 0.2, 0.01])
    needed = sample_complexity(np.exp(log_f), 1.0, 1.0, 2.0)
    budgets = needed[[1, 2]] * (1 + 1e-9)
    assert list(bridge.window(log_f, budgets)) == [3, 3]
    assert list(bridge.window(log_f, [needed[0] / 2, needed[0] * 1.01])) == [0, 1]


@pytest.mark.parametrize(("alpha", "dimension"), [(0.3, 1), (0.5, 2)])
def test_wide_networks_follow_their_law(alpha, dimension):
    x = sequences(6, 61, dimension, seed=3)
    found = np.mean(
        [np.exp(bridge.log_envelope(symmetric_initialisation(40_000, dimension, alpha, np.random.default_rng(s)), x)) for s in range(3)],
        axis=0,
    )
    ratio = found[[19, 39]] / bridge.wide_law(alpha, dimension).envelope([20, 40])
    assert ratio == pytest.approx(1, rel=0.25)  # the law is asymptotic; without its power the ratio would be below 0.2
    assert (found[[19, 39]] < 0.35 * alpha ** np.array([20, 40])).all()


def test_arguments_are_named():
    network = symmetric_initialisation(4, 1, 0.5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="inputs"):
        bridge.log_rates(network, np.ones((1, 1, 1)))
    with pytest.raises(ValueError, match="alpha"):
        bridge.wide_law(1.2, 2)
    with pytest.raises(ValueError, match="ratio"):
        bridge.cut_off_law(0.0)
