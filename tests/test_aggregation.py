"""Ways to average, against their definitions and against what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from book.chapters.aggregation import (
    METHODS,
    detectable_shifts,
    estimates,
    measured_exponent,
    measured_exponents,
)
from lwcore.stable import SymmetricStable

LAW = SymmetricStable(1.5, 2.0)


def aggregate(samples, method, law):
    return estimates(samples, (method,), law)[0]


def test_methods_are_their_definitions():
    x = np.random.default_rng(0).standard_t(2, 40)
    low, median, high = np.quantile(x, [0.25, 0.5, 0.75])
    reach = 1.5 * (high - low)
    expected = {
        "mean": x.mean(),
        "median": median,
        "clipped mean": np.clip(x, median - reach, median + reach).mean(),
        "median of means": np.median([x[5 * b : 5 * b + 5].mean() for b in range(8)]),
        "likelihood": median + LAW.score(x - median).sum() / (40 * LAW.fisher_information()),
    }
    assert set(expected) == set(METHODS)
    for method, value in expected.items():
        assert aggregate(x, method, LAW) == pytest.approx(value, rel=1e-12)


def test_one_step_is_as_good_as_the_maximum_of_the_likelihood():
    """With 4000 samples the step ends within a tenth of a standard error of where the score
    vanishes."""
    from scipy.optimize import brentq

    x = LAW.sample(4000, np.random.default_rng(1)) + 0.3
    best = brentq(lambda shift: LAW.score(x - shift).sum(), -1, 1)
    error = 1 / np.sqrt(4000 * LAW.fisher_information())
    assert abs(float(aggregate(x, "likelihood", LAW)) - best) < 0.1 * error


@pytest.mark.parametrize("method", METHODS)
@given(shift=st.floats(-1e3, 1e3), log_unit=st.floats(-12, 12), seed=st.integers(0, 1000))
def test_estimates_move_and_scale_with_the_samples(method, shift, log_unit, seed):
    unit = 10.0**log_unit
    x = LAW.sample((3, 16), np.random.default_rng(seed))
    plain = aggregate(x, method, LAW)
    moved = aggregate(unit * (x + shift), method, SymmetricStable(1.5, 2.0 * unit))
    np.testing.assert_allclose(moved, unit * (plain + shift), rtol=1e-9, atol=1e-9 * unit)


def test_shift_for_the_mean_is_the_exact_one():
    """σ F⁻¹(1 − ε) N^(1/α − 1), within three standard errors of the simulated quantile."""
    draws, n = 20000, 50
    (ours,) = detectable_shifts(LAW, n, ("mean",), draws, np.random.default_rng(2))
    exact = SymmetricStable(1.5, 2.0 * n ** (1 / 1.5 - 1))
    shift = float(exact.ppf(0.9))
    error = np.sqrt(0.2 * 0.8 / draws) / (2 * float(exact.pdf(shift)))
    assert abs(ours - shift) < 3 * error


def test_shift_for_the_median_is_the_exact_one():
    """The median of 2k + 1 is below x with the probability that k + 1 or more draws are; within
    three standard errors."""
    draws, n = 20000, 51
    (ours,) = detectable_shifts(LAW, n, ("median",), draws, np.random.default_rng(3))
    error_at = stats.binom.sf(25, n, LAW.sf(ours))  # P(median > ours) at shift 0
    assert abs(error_at - 0.1) < 3 * np.sqrt(0.2 * 0.8 / draws) / 2


@pytest.mark.parametrize(
    ("method", "expected"),
    [("mean", 3.0), ("median of means", 3.0), ("median", 2.0), ("clipped mean", 2.0)],
)
def test_exponents_at_alpha_one_and_a_half(method, expected):
    measured = measured_exponent(1.5, method, [64, 256, 1024], np.random.default_rng(4))
    low, high = measured.interval
    assert abs(measured.exponent - expected) < high - low < 0.6, "told from 2 or 3"


def test_exponents_together_are_those_of_each_alone_on_the_same_draws():
    together = measured_exponents(1.5, METHODS, [8, 64], np.random.default_rng(6), replicates=30)
    assert tuple(together) == METHODS
    for method, found in together.items():
        alone = measured_exponent(1.5, method, [8, 64], np.random.default_rng(6), replicates=30)
        np.testing.assert_allclose(found.shifts, alone.shifts, rtol=1e-12)
        assert str(found) == str(alone)


def test_interval_covers_as_often_as_it_says():
    """80 measurements of the mean's exponent at α = 2, each with a 95 % interval: within four
    binomial standard errors of 95 %."""
    rng = np.random.default_rng(5)
    intervals = [
        measured_exponent(2.0, "mean", [8, 64], rng, replicates=50).interval for _ in range(80)
    ]
    covered = np.mean([low < 2 < high for low, high in intervals])
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 80)
