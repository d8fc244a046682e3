"""Resampled estimates against what is known of them."""

import numpy as np
import pytest
from scipy import stats

from book.chapters.resampling import ESTIMATORS, concentration, resampled, spread
from lwcore.stable import SymmetricStable


def test_spread_is_the_standard_deviation_of_a_gaussian():
    quantiles = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, 3, 2.5)
    assert spread(quantiles) == pytest.approx(2.5, rel=1e-3)


def test_resampled_mean_has_the_bootstrap_variance():
    """Given the sample, the mean of N draws has exactly the sample's variance over N; within four
    errors of 40 × 200 resamples."""
    x = np.random.default_rng(0).exponential(size=500)
    means = resampled(np.tile(x, (40, 1)), 50, np.random.default_rng(1), ("mean",))
    assert means.shape == (40, 1, 200)
    assert abs(means.mean() - x.mean()) < 4 * x.std() / np.sqrt(50 * means.size)
    assert means.var() == pytest.approx(x.var() / 50, rel=4 * np.sqrt(2 / means.size) * 1.2)


def test_methods_see_the_same_resamples():
    """The median of a two-valued sample is one of the values, and it is the one that the mean is
    nearer to."""
    x = np.repeat([[0.0, 1.0], [5.0, 6.0]], 50, axis=1)
    found = resampled(x, 33, np.random.default_rng(2), ("mean", "median")) - x[:, :1, None]
    np.testing.assert_array_equal(found[:, 1], found[:, 0] > 0.5)


@pytest.mark.parametrize(
    ("alpha", "accuracy", "expected"), [(2.0, 0.15, (2, 2, 2, 2)), (1.5, 0.7, (3.2, 2, 2.05, 3.2))]
)
def test_exponent_is_two_where_there_is_a_variance_and_told_from_the_means_elsewhere(
    alpha, accuracy, expected
):
    """For α = 1.5 the mean has 3, and resamples of a thousand numbers do not take it for 2."""
    draws = SymmetricStable(alpha).sample((40, 1024), np.random.default_rng(6))
    slopes = concentration(draws, np.random.default_rng(7))
    assert slopes.shape == (40, len(ESTIMATORS))
    for p, value in zip(-1 / np.median(slopes, axis=0), expected, strict=True):
        assert p == pytest.approx(value, abs=accuracy if value > 2.1 or alpha == 2 else 0.15)


def test_equal_numbers_have_no_exponent():
    assert np.isnan(concentration(np.ones(64), np.random.default_rng(8))).all()
