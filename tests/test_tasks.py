"""The delayed regression against Eq. (40) written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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
        ({"length": 1}, "length = 1: must be an integer from 2 up"),
        ({"lags": [1, 4, 12]}, r"lags\[2\] = 12: must be an integer from 1 to 11"),
        ({"lags": [4, 1, 7]}, "strictly increasing, but 1 follows 4"),
        ({"lags": [1, 1, 7]}, "strictly increasing, but 1 follows 1"),
        ({"lags": [1, 4]}, "3 given for 2 lags"),
        ({"coefficients": [0.6, np.nan, 0.1]}, "coefficients: 1 of 3 entries are NaN"),
        ({"noise": -0.1}, r"noise = -0.1: must lie in \[0, inf\)"),
        ({"direction": [0.0, 0.0]}, "direction = 0"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        task(**changes)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_direction_of_any_length_is_scaled_to_one(size):
    np.testing.assert_allclose(
        task(direction=[3 * size, 0.0, 4 * size]).direction, [0.6, 0.0, 0.8], rtol=1e-12
    )


def test_sequences_are_real_numbers():
    with pytest.raises(ValueError, match=r"dtype = torch\.int64: must be a floating type"):
        sample(task(), 3, np.random.default_rng(0), torch.int64)


def test_number_of_sequences_must_be_positive():
    with pytest.raises(ValueError, match="n_sequences = 0"):
        sample(task(), 0, np.random.default_rng(0))
