"""The delayed regression against Eq. (40) written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lwcore.signatures import ArgumentError
from lwcore.tasks import DelayedRegression, recovered_coefficients, sample

SETTINGS = {
    "length": 12,
    "lags": [1, 4, 7],
    "coefficients": [0.6, 0.5, -0.4],
    "noise": 0.3,
    "direction": [3.0, 0.0, 4.0],
}
TASK = DelayedRegression(**SETTINGS)


def drawn(count, seed=0, task=TASK):
    """Sequences in double precision."""
    return sample(task, count, np.random.default_rng(seed), torch.float64)


def test_target_is_equation_40():
    inputs, targets = drawn(3, task=DelayedRegression(**SETTINGS | {"noise": 0.0}))
    assert inputs.shape == (3, 12, 3)
    component = inputs @ torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    for t in range(12):
        terms = ((c, lag) for c, lag in ((0.6, 1), (0.5, 4), (-0.4, 7)) if t >= lag)
        expected = sum(c * component[:, t - lag] for c, lag in terms) + torch.zeros(3)
        torch.testing.assert_close(targets[:, t], expected.double(), rtol=0, atol=1e-13)


def test_noise_and_inputs_have_the_stated_moments():
    silent = DelayedRegression(**SETTINGS | {"coefficients": [0.0, 0.0, 0.0]})
    inputs, targets = drawn(4000, task=silent)
    count = targets.numel()
    assert targets.var().item() == pytest.approx(0.09, rel=5 * np.sqrt(2 / count))
    assert inputs.var().item() == pytest.approx(1, rel=5 * np.sqrt(2 / (3 * count)))


def test_draw_depends_on_the_generator_alone():
    assert all(map(torch.equal, drawn(5, seed=7), drawn(5, seed=7)))
    assert not any(map(torch.equal, drawn(5, seed=7), drawn(5, seed=8)))


def test_perfect_predictor_recovers_the_coefficients():
    sequences, wanted = drawn(20000), [0.6, 0, 0, 0.5, 0, 0, -0.4, 0]
    found = recovered_coefficients(TASK, sequences, sequences.targets, range(1, 9))
    # the standard error of a mean of about 20000 × 5 products, each of variance below 2
    np.testing.assert_allclose(found, wanted, atol=5 * np.sqrt(2 / 1e5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: DelayedRegression(**SETTINGS | {"lags": [1, 4, 12]}),
            r"^lags = \[1, 4, 12\]: must be below the length, 12",
        ),
        (lambda: DelayedRegression(**SETTINGS | {"lags": [1, 4]}), "^coefficients = .*one a lag"),
        (
            lambda: DelayedRegression(**SETTINGS | {"direction": [0.0, 0.0]}),
            "^direction = .*must be a non-zero vector",
        ),
        (
            lambda: sample(TASK, 3, np.random.default_rng(0), torch.int64),
            r"^dtype = torch\.int64: must be a floating type",
        ),
        (
            lambda: recovered_coefficients(TASK, drawn(3), drawn(3).targets[:, :5], [1]),
            "^predictions = .*one a step of the sequences",
        ),
        (
            lambda: recovered_coefficients(TASK, drawn(3), drawn(3).targets, [12]),
            r"^delays = \[12\]: must be below the length, 12",
        ),
    ],
)
def test_pieces_that_do_not_fit_are_named(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
