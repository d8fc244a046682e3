"""The matched statistic examined: effective samples against an autoregression."""

import numpy as np
import pytest
import torch

from book.chapters import matched
from tests.networks import draw


@pytest.mark.parametrize("persistence", [0.0, 0.8])
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
