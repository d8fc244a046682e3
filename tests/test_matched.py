"""The matched statistic examined: terms against autograd, effective samples against an
autoregression."""

import numpy as np
import pytest
import torch

from book.chapters import matched
from lwcore.gradient import immediate_sensitivity, matched_statistic, random_direction
from lwcore.network import Network
from tests import oracles
from tests.networks import CELLS, close, draw, make


@pytest.mark.parametrize("kind", CELLS)
def test_terms_are_both_sides_of_equation_27(kind):
    """Entry by entry, with M by autograd; and Eq. (28) with signs of other sequences."""
    network = Network(make(kind), torch.Generator().manual_seed(3))
    trace, delta = network.observe(draw(2, 7, 3), draw(2, 7, seed=4))
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    sensitivity = immediate_sensitivity(trace, direction)
    terms = matched.lag_terms(trace, delta, direction, [1, 3])
    start = trace.history[1, 0]
    for e, t in enumerate(range(3, 7)):
        for i, lag in enumerate((1, 3)):
            whole = oracles.transport(network.cell, trace.inputs[1], start, t, lag)
            moved = sensitivity[1, t - lag]
            close(terms.transport[1, e, i], delta[1, t] @ whole[:4] @ moved)
            rates = oracles.carried_block(network.cell, whole).diagonal()
            expected = (delta[1, t] * rates * moved[-4:]).sum()
            close(terms.statistic()[1, e, i], expected)
    signs = terms.of(slice(0, 1)).signs
    second = terms.of(slice(1, 2), [1])
    assert torch.equal(signs, terms.alignments[0].sum(0).sign())
    expected = matched_statistic(second.rates, second.alignments, signs[1:])
    close(second.statistic(signs[1:]).mean(1), expected)
    assert torch.equal(second.transport, terms.transport[1:, :, 1:])


@pytest.mark.parametrize("persistence", [0.0, 0.8, 1.0])
def test_effective_samples_of_an_autoregression(persistence):
    """x_t = φ x_{t−1} + …: autocorrelation φ^k, and the variance of the mean of T values known in
    closed form."""
    length = 40
    steps = [draw(3000, 1, seed=9)]
    fresh = (1 - persistence**2) ** 0.5
    for t in range(1, length):
        innovation = draw(3000, 1, seed=10 + t)
        steps.append(persistence * steps[-1] + fresh * innovation)
    k = np.arange(1, length)
    correlated = (1 - k / length) * persistence**k
    expected = length / (1 + 2 * correlated.sum())
    samples = matched.effective_samples(torch.stack(steps, dim=1), np.random.default_rng(0))
    assert samples.value[0] == pytest.approx(expected, rel=0.08)
    assert samples.low[0] <= samples.value[0] <= samples.high[0]
