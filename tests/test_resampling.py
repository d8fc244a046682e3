"""Resampled estimates against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from book.chapters.resampling import ESTIMATORS, concentration, resampled, spread
from lwcore.stable import SymmetricStable


def test_spread_is_the_standard_deviation_of_a_gaussian():
    quantiles = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, 3, 2.5)
    assert spread(quantiles, 0.1) == pytest.approx(2.5, rel=1e-3)
    assert spread(quantiles, 0.3) == pytest.approx(2.5, rel=1e-3)


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
    x = np.repeat([0.0, 1.0], 50)
    mean, median = resampled(x, 33, np.random.default_rng(2), ("mean", "median"))
    np.testing.assert_array_equal(median, mean > 0.5)


def test_vote_of_signs_decides_as_the_median():
    rng = np.random.default_rng(3)
    draws = rng.exponential(size=(500, 33)) - 0.7
    vote = np.sign(np.sign(draws).sum(-1))
    np.testing.assert_array_equal(vote, np.sign(np.median(draws, axis=-1)))
    assert 0.1 < np.mean(vote > 0) < 0.9, "all votes alike would show nothing"


@pytest.mark.parametrize(
    "draw", [np.random.Generator.standard_normal, np.random.Generator.standard_exponential]
)
def test_exponent_is_two_where_there_is_a_variance(draw):
    slopes = concentration(
        draw(np.random.default_rng(4), size=(20, 1024)), np.random.default_rng(5)
    )
    p = -1 / slopes.mean(0)
    error = p**2 * slopes.std(0) / np.sqrt(len(slopes))
    for name, value, width in zip(ESTIMATORS, p, error, strict=True):
        if name in ("mean", "clipped mean"):  # medians of few numbers only tend to it
            assert abs(value - 2) < 4 * width + 0.02, name
        assert 1.9 < value < 2.3, name


def test_exponent_of_stable_noise_is_told_from_two():
    """For α = 1.5 the mean has 3, and resamples of a thousand numbers do not take it for 2; median
    and clipped mean have 2."""
    slopes = concentration(
        SymmetricStable(1.5).sample((40, 1024), np.random.default_rng(6)), np.random.default_rng(7)
    )
    p = dict(zip(ESTIMATORS, -1 / np.median(slopes, axis=0), strict=True))
    assert 2.5 < p["mean"] < 4
    assert 2.5 < p["median of means"] < 4
    assert p["median"] == pytest.approx(2.05, abs=0.15)
    assert p["clipped mean"] == pytest.approx(2.0, abs=0.1)


def test_equal_numbers_have_no_exponent():
    assert np.isnan(concentration(np.ones(64), np.random.default_rng(8))).all()
