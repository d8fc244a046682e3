"""The delayed regression against Eq. (40) written out."""

import numpy as np
import pytest
import torch

from lwcore.tasks import DelayedRegression, recovered_coefficients, sample

SETTINGS = {
    "length": 12,
    "lags": [1, 4, 7],
    "coefficients": [0.6, 0.5, -0.4],
    "noise": 0.3,
    "direction": [3.0, 0.0, 4.0],
}
TASK = DelayedRegression(**SETTINGS)


def drawn(count, task=TASK):
    """Sequences in double precision."""
    return sample(task, count, np.random.default_rng(0), torch.float64)


def test_target_is_equation_40():
    inputs, targets = drawn(3, task=DelayedRegression(**SETTINGS | {"noise": 0.0}))
    component = inputs @ torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    for n, t in np.ndindex(3, 12):
        expected = sum(
            c * component[n, t - lag].item()
            for lag, c in ((1, 0.6), (4, 0.5), (7, -0.4))
            if t >= lag
        )
        assert targets[n, t].item() == pytest.approx(expected, abs=1e-13)


def test_noise_and_inputs_have_the_stated_moments():
    silent = DelayedRegression(**SETTINGS | {"coefficients": [0.0, 0.0, 0.0]})
    inputs, targets = drawn(4000, task=silent)
    count = targets.numel()
    assert targets.var().item() == pytest.approx(0.09, rel=5 * np.sqrt(2 / count))
    assert inputs.var().item() == pytest.approx(1, rel=5 * np.sqrt(2 / (3 * count)))


def test_perfect_predictor_recovers_the_coefficients():
    sequences, wanted = drawn(20000), [0.6, 0, 0, 0.5, 0, 0, -0.4, 0]
    found = recovered_coefficients(TASK, sequences, sequences.targets, range(1, 9))
    # the standard error of a mean of about 20000 × 5 products, each of variance below 2
    np.testing.assert_allclose(found, wanted, atol=5 * np.sqrt(2 / 1e5))
