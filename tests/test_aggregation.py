"""Ways to average, against their definitions and against what is known exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from book.chapters.aggregation import METHODS, detectable_shifts, estimates, measured_exponents
from lwcore.stable import SymmetricStable

LAW = SymmetricStable(1.5, 2.0)


def test_methods_are_their_definitions():
    x = np.random.default_rng(0).standard_t(2, 40)
    low, median, high = np.quantile(x, [0.25, 0.5, 0.75])
    reach = 1.5 * (high - low)
    expected = {
        "mean": x.mean(),
        "likelihood": median + LAW.score(x - median).sum() / (40 * LAW.fisher_information()),
        "median": median,
        "clipped mean": np.clip(x, median - reach, median + reach).mean(),
    }
    assert tuple(expected) == METHODS
    np.testing.assert_allclose(estimates(x, METHODS, LAW), list(expected.values()), rtol=1e-12)


@given(shift=st.floats(-1e3, 1e3), log_unit=st.floats(-12, 12), seed=st.integers(0, 1000))
def test_estimates_move_and_scale_with_the_samples(shift, log_unit, seed):
    unit = 10.0**log_unit
    x = LAW.sample((3, 16), np.random.default_rng(seed))
    moved = estimates(unit * (x + shift), METHODS, SymmetricStable(1.5, 2.0 * unit))
    expected = unit * (estimates(x, METHODS, LAW) + shift)
    np.testing.assert_allclose(moved, expected, rtol=1e-9, atol=1e-9 * unit)


def test_shifts_for_mean_and_median_are_the_exact_ones():
    """By how often averages exceed them without a shift; the median of 2k + 1 does if k + 1 or more
    draws do. Within three standard errors."""
    n = 51
    draws = 20_000
    rng = np.random.default_rng(2)
    mean, median = detectable_shifts(LAW, n, ("mean", "median"), replicates=draws, rng=rng)
    law_of_mean = SymmetricStable(1.5, 2.0 * n ** (1 / 1.5 - 1))
    tolerance = 3 * np.sqrt(0.2 * 0.8 / draws) / 2
    assert law_of_mean.sf(mean) == pytest.approx(0.1, abs=tolerance)
    assert stats.binom.sf(25, n, LAW.sf(median)) == pytest.approx(0.1, abs=tolerance)


def test_interval_covers_as_often_as_it_says():
    """80 measurements of the mean's exponent at α = 2, each with a 95 % interval: within four
    binomial standard errors of 95 %."""
    rng = np.random.default_rng(5)
    n_covered = 0
    for _ in range(80):
        measured = measured_exponents(2.0, ["mean"], [8, 64], rng, replicates=50)
        low, high = measured["mean"].interval
        n_covered += low < 2 < high
    assert abs(n_covered / 80 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 80)
