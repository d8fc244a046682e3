"""The delayed regression against Eq. (40) written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lwcore.signatures import ArgumentError
from lwcore.tasks import DelayedRegression, Sequences, recovered_coefficients, sample


def task(**changes):
    settings = {
        "length": 12,
        "lags": [1, 4, 7],
        "coefficients": [0.6, 0.5, -0.4],
        "noise": 0.0,
        "direction": [3.0, 0.0, 4.0],
    }
    return DelayedRegression(**settings | changes)


def test_target_is_equation_40():
    sequences = sample(task(), 3, np.random.default_rng(0), torch.float64)
    assert sequences.inputs.shape == (3, 12, 3)
    u = np.array([0.6, 0.0, 0.8])
    for n in range(3):
        for t in range(12):
            expected = sum(
                c * (u @ sequences.inputs[n, t - lag].numpy())
                for lag, c in ((1, 0.6), (4, 0.5), (7, -0.4))
                if t >= lag
            )
            assert sequences.targets[n, t].item() == pytest.approx(expected, abs=1e-13)


def test_noise_and_inputs_have_the_stated_moments():
    sequences = sample(
        task(noise=0.3, coefficients=[0.0, 0.0, 0.0]), 4000, np.random.default_rng(1), torch.float64
    )
    count = sequences.targets.numel()
    assert sequences.targets.var().item() == pytest.approx(0.09, rel=5 * np.sqrt(2 / count))
    assert sequences.inputs.var().item() == pytest.approx(1, rel=5 * np.sqrt(2 / (3 * count)))


def test_draw_depends_on_the_generator_alone():
    one, two = (sample(task(noise=0.3), 5, np.random.default_rng(7)) for _ in range(2))
    assert torch.equal(one.inputs, two.inputs)
    assert torch.equal(one.targets, two.targets)
    assert not torch.equal(one.inputs, sample(task(noise=0.3), 5, np.random.default_rng(8)).inputs)


def test_perfect_predictor_recovers_the_coefficients():
    sequences = sample(task(noise=0.3), 20000, np.random.default_rng(2), torch.float64)
    recovered = recovered_coefficients(task(), sequences, sequences.targets, range(1, 9))
    # the standard error of a mean of about 20000 × 5 products, each of variance below 2
    np.testing.assert_allclose(
        recovered, [0.6, 0, 0, 0.5, 0, 0, -0.4, 0], atol=5 * np.sqrt(2 / 1e5)
    )
    nothing = recovered_coefficients(
        task(), Sequences(*sequences), torch.zeros_like(sequences.targets), [1, 4, 7]
    )
    assert torch.equal(nothing, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lags": [1, 4, 12]}, r"^lags = \[1, 4, 12\]: must be below the length, 12"),
        ({"lags": [1, 4]}, r"^coefficients = .*must be one a lag"),
        ({"direction": [0.0, 0.0]}, r"^direction = .*must be a non-zero vector"),
    ],
)
def test_pieces_that_do_not_fit_are_named(changes, message):
    with pytest.raises(ArgumentError, match=message):
        task(**changes)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_direction_of_any_length_is_scaled_to_one(size):
    np.testing.assert_allclose(
        task(direction=[3 * size, 0.0, 4 * size]).direction, [0.6, 0.0, 0.8], rtol=1e-12
    )


def test_sequences_are_real_numbers():
    with pytest.raises(ArgumentError, match=r"dtype = torch\.int64: must be a floating type"):
        sample(task(), 3, np.random.default_rng(0), torch.int64)
