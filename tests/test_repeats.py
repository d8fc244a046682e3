"""Overlapping windows are seen, and independent sequences are not taken for them."""

import numpy as np
import pytest

from lwcore.diagnose.contract import count_repeats

COUNT, LENGTH = 96, 16
STEPS = np.arange(LENGTH)
EVERY = np.zeros((COUNT, LENGTH))  # what is added to it has a value in each step
NOISE = np.random.default_rng(9).standard_normal((COUNT, LENGTH))
CODES = np.random.default_rng(8).integers(0, 30, COUNT + LENGTH)
LETTERS = np.stack([CODES[place:][:LENGTH] for place in range(COUNT)])


def windows(stride=1):
    """Windows of one series of noise."""
    series = np.random.default_rng(0).standard_normal(COUNT * stride + LENGTH)
    return np.stack([series[place * stride :][:LENGTH] for place in range(COUNT)])


def scaled(values):
    """Each window with the mean 0 and the variance 1, in single precision."""
    values = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    return values.astype(np.float32)


def columns(*parts):
    """Columns side by side: (B, T, D)."""
    return np.concatenate([part.reshape(COUNT, LENGTH, -1).astype(float) for part in parts], 2)


OVERLAPPING = {
    "plain": columns(windows()),
    "half": columns(windows(stride=8)),
    "noise beside": columns(NOISE, windows()),
    "position beside": columns(windows(), EVERY + np.sin(STEPS)),
    "number beside": columns(windows(), EVERY + np.arange(COUNT)[:, None]),
    "scaled": columns(scaled(windows()), NOISE),
    "letters": columns(LETTERS, NOISE),
    "one-hot letters": columns(np.eye(30)[LETTERS], NOISE),
    "twice": columns(NOISE[np.arange(COUNT) // 2]),
}


@pytest.mark.parametrize("kind", OVERLAPPING)
def test_overlapping_windows_are_seen_whatever_stands_beside_them(kind):
    assert count_repeats(OVERLAPPING[kind]) > 0.75 * COUNT


def independent(seed):
    """Sequences that are drawn independently, of many kinds; clocks that they share."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((COUNT, LENGTH))
    hours = rng.integers(0, 24 * 365, (COUNT, 1)) + STEPS
    sticky = (rng.random((COUNT, LENGTH)) < 0.05).cumsum(1) % 2
    lengths = rng.integers(3, LENGTH, (COUNT, 1))
    return {
        "white": columns(noise),
        "scaled": columns(scaled(noise)),
        "coins": columns(rng.integers(0, 2, (COUNT, LENGTH))),
        "padded": columns(np.where(lengths > STEPS, rng.integers(1, 30, (COUNT, LENGTH)), 0)),
        "flags that stay": columns(sticky, noise),
        "rain": columns(sticky * rng.exponential(size=(COUNT, LENGTH))),
        "levels": columns(EVERY + noise[np.arange(COUNT) // 8, :1], noise),
        "hours": columns(hours % 24, noise),
        "days of the year": columns((hours / 8760).astype(np.float32)),
        "sine of the hour": columns(np.sin(2 * np.pi * hours / 24).astype(np.float32), noise),
        "up or down": columns((rng.integers(0, 2, (COUNT, LENGTH)) * 2 - 1).cumsum(1)),
        "decays": columns(rng.exponential(size=(COUNT, 1)) * np.exp(-0.1 * STEPS)),
    }


@pytest.mark.parametrize("kind", independent(0))
def test_independent_sequences_are_not_taken_for_repeats(kind):
    assert [count_repeats(independent(seed)[kind]) for seed in range(4)] == [0] * 4
