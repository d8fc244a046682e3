"""Sequences that repeat others: overlapping windows are seen, and independent ones are not taken
for them."""

import numpy as np
import pytest

from lwcore.diagnose.repeats import count_repeats

COUNT, LENGTH = 96, 16
STEPS = np.arange(LENGTH)
EVERY = np.zeros((COUNT, LENGTH))  # what is added to it has a value in each step


def windows(stride=1, seed=0):
    """Windows of one series of noise."""
    series = np.random.default_rng(seed).standard_normal(COUNT * stride + LENGTH)
    return np.stack([series[place * stride :][:LENGTH] for place in range(COUNT)])


def in_single(values):
    """The values, rounded as float32 has them."""
    return values.astype(np.float32).astype(float)


def scaled(values):
    """Each window with the mean 0 and the variance 1."""
    return (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)


def columns(*parts):
    """Columns side by side: (B, T, D)."""
    return np.concatenate([part.reshape(COUNT, LENGTH, -1).astype(float) for part in parts], 2)


NOISE = np.random.default_rng(9).standard_normal((COUNT, LENGTH))
ONE_HOT = np.broadcast_to(np.eye(LENGTH), (COUNT, LENGTH, LENGTH))
POSITION = EVERY + np.linspace(0, 1, LENGTH)
CODES = np.random.default_rng(8).integers(0, 30, COUNT + LENGTH)
LETTERS = np.stack([CODES[place:][:LENGTH] for place in range(COUNT)])


@pytest.mark.parametrize(
    "inputs",
    [
        columns(windows()),
        columns(windows(stride=8)),
        columns(windows(), NOISE),
        columns(NOISE, NOISE[::-1], windows()),
        columns(windows(), POSITION),
        columns(windows(), EVERY + np.sin(STEPS)),
        columns(windows(), ONE_HOT),
        columns(windows(), EVERY + np.arange(COUNT)[:, None]),
        columns(in_single(scaled(windows())), NOISE, POSITION),
        columns(scaled(windows(stride=8))),
        columns(in_single(np.tanh(scaled(windows()))), NOISE),
        columns(in_single(1 / (1 + np.exp(-scaled(windows()))))),
        columns(in_single(np.exp(scaled(windows())))),
        columns(LETTERS, NOISE),
        columns(np.eye(30)[LETTERS], POSITION),
        columns(np.eye(30)[LETTERS], NOISE),
        columns(NOISE[np.arange(COUNT) // 2]),
    ],
    ids=[
        "plain", "half", "noise", "two of noise", "position", "sine", "one-hot position", "id",
        "scaled, noise, position", "scaled half", "tanh", "logistic", "exp", "letters and noise",
        "one-hot letters and position", "one-hot letters and noise", "twice",
    ],
)  # fmt: skip
def test_overlapping_windows_are_seen_whatever_stands_beside_them(inputs):
    assert count_repeats(inputs) > 0.75 * COUNT  # some pieces of letters are no surprise


def independent(seed):
    """Sequences that are drawn independently, of many kinds; clocks that they share."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((COUNT, LENGTH))
    walk = np.zeros((COUNT, LENGTH))
    for step in range(1, LENGTH):
        walk[:, step] = 0.9 * walk[:, step - 1] + noise[:, step]
    hours = rng.integers(0, 24 * 365, (COUNT, 1)) + STEPS
    same_days = 24 * rng.integers(0, 20, (COUNT, 1)) + STEPS  # as of many houses
    sticky = (rng.random((COUNT, LENGTH)) < 0.05).cumsum(1) % 2
    places = rng.integers(0, 2, (COUNT, 1))
    daily = np.sin(2 * np.pi * hours / 24)
    return {
        "white": columns(noise),
        "autoregressive": columns(walk),
        "scaled": columns(scaled(noise)),
        "tanh": columns(in_single(np.tanh(scaled(noise)))),
        "coins": columns(rng.integers(0, 2, (COUNT, LENGTH))),
        "dice": columns(rng.integers(0, 6, (COUNT, LENGTH))),
        "flags that stay": columns((sticky + places) % 2, noise),
        "rain": columns(sticky * rng.exponential(size=(COUNT, LENGTH))),
        "held": columns(noise[:, ::4].repeat(4, axis=1)),
        "levels": columns(EVERY + noise[np.arange(COUNT) // 8, :1], noise),
        "ids": columns(EVERY + np.arange(COUNT)[:, None] // 5, noise),
        "hours": columns(hours % 24, noise),
        "minutes": columns(hours % 60),
        "weekdays": columns(np.eye(7)[hours // 24 % 7], hours // 24 % 7 > 4),
        "days of the year": columns(in_single(hours % 8760 / 8760)),
        "sine of the hour": columns(in_single(daily), np.cos(2 * np.pi * hours / 24)),
        "dates of many houses": columns(in_single(same_days / 480), same_days % 24, noise),
        "daily": columns(in_single(daily + 0.02 * noise)),
        "position": columns(POSITION, ONE_HOT, noise),
        "up or down": columns((rng.integers(0, 2, (COUNT, LENGTH)) * 2 - 1).cumsum(1)),
        "rare events": columns((rng.random((COUNT, LENGTH)) < 0.05) * noise),
        "template": columns(in_single(rng.exponential(size=(COUNT, 1)) * np.cos(STEPS**2))),
        "decays": columns(in_single(rng.exponential(size=(COUNT, 1)) * np.exp(-0.1 * STEPS))),
        "sawtooth": columns(in_single((0.07 * STEPS + rng.random((COUNT, 1))) % 1)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", independent(0))
def test_independent_sequences_are_not_taken_for_repeats(kind):
    assert [count_repeats(independent(seed)[kind]) for seed in range(5)] == [0] * 5


def test_long_flags_of_the_calendar_are_no_repeats():
    """Two weeks of hours, of which a first week stands in each other sequence."""
    starts = np.random.default_rng(0).integers(0, 1000, (100, 1))
    days = (starts + np.arange(336)) // 24 % 7
    for column in (days, days > 4, np.eye(7)[days]):
        assert count_repeats(column.reshape(100, 336, -1).astype(float)) == 0


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e300, 0.0])
@pytest.mark.filterwarnings("error")
def test_numbers_that_are_none_hide_nothing(odd):
    inputs = columns(windows(), NOISE)
    inputs[3] = inputs[5, 2] = odd
    inputs[..., 1] = odd
    assert count_repeats(inputs) > 0.75 * COUNT


@pytest.mark.parametrize("shape", [(64, 1, 3), (64, 2, 1), (64, 5, 2), (40, 12, 0)])
@pytest.mark.filterwarnings("error")
def test_few_steps_or_none_that_are_real_have_no_repeats(shape):
    inputs = np.random.default_rng(0).standard_normal(shape)
    assert count_repeats(inputs) == 0
    assert count_repeats(np.zeros(shape)) == 0
    assert count_repeats(inputs, np.zeros(shape[:2], dtype=bool)) == 0
