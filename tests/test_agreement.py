"""Agreement in ranks, against SciPy and against counting by hand; intervals, against Student and
against all resamples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters.agreement import (
    correlation_interval,
    over_orders,
    over_seeds,
    partial_rank_correlation,
    rank_correlation,
)

WITHIN = {"all": (), "lag": ("lag",), "network": ("model", "seed")}


def made(rng, predictors=3, seeds=4, ties=False):
    """Scores that follow the share with more or less noise, and the share."""
    coords = {"model": ["a", "b"], "seed": list(range(seeds)), "lag": [2, 4, 8, 16, 32]}
    share = xr.DataArray(rng.random((2, seeds, 5)), coords, ["model", "seed", "lag"])
    noise = xr.DataArray(
        rng.normal(size=(predictors, 2, seeds, 5)), dims=("predictor", *share.dims)
    )
    scores = (share + 0.3 * noise).assign_coords(predictor=[f"p{i}" for i in range(predictors)])
    if ties:
        scores, share = (4 * scores).round(), (4 * share).round() / 4
    return scores.transpose("predictor", "model", "seed", "lag"), share


def strata(array, within):
    """The values of each stratum, gathered with loops over labels."""
    for labels in product(*(array[dim].values for dim in within)):
        yield array.sel(dict(zip(within, labels, strict=True))).values.ravel()


@pytest.mark.parametrize("ties", [False, True])
def test_over_everything_it_is_spearmans_coefficient(ties):
    scores, share = made(np.random.default_rng(0), ties=ties)
    expected = [
        stats.spearmanr(one.values.ravel(), share.values.ravel()).statistic for one in scores
    ]
    np.testing.assert_allclose(rank_correlation(scores, share), expected)


@pytest.mark.parametrize("within", WITHIN.values())
def test_within_strata_covariances_and_variances_add_up(within):
    scores, share = made(np.random.default_rng(1), ties=True)
    for one, found in zip(scores, rank_correlation(scores, share, within), strict=True):
        covariances = [
            np.cov(stats.rankdata(x), stats.rankdata(y))
            for x, y in zip(strata(one, within), strata(share, within), strict=True)
        ]
        (xx, xy), (_, yy) = np.sum(covariances, axis=0)
        assert found == pytest.approx(xy / np.sqrt(xx * yy))


def test_what_is_constant_in_a_stratum_says_nothing_there():
    scores, share = made(np.random.default_rng(2))
    by_lag = -share.lag + 0 * scores
    assert rank_correlation(by_lag, share, ("lag",)) == pytest.approx(0)
    np.testing.assert_allclose(rank_correlation(by_lag, -share.lag + 0 * share), 1)
    assert np.isnan(rank_correlation(scores, 0 * share)).all()


def test_infinite_scores_are_the_last_ones():
    scores, share = made(np.random.default_rng(3))
    low = scores.where(share > 0.5, -np.inf)
    np.testing.assert_array_equal(
        rank_correlation(low, share), rank_correlation(scores.where(share > 0.5, -99.0), share)
    )


@pytest.mark.parametrize("within", WITHIN.values())
def test_partial_correlation_is_that_of_what_a_line_leaves(within):
    """Regress ranks, centred in their strata, on the third one's, and correlate the residuals."""
    scores, share = made(np.random.default_rng(10), ties=True)
    given = (
        share + xr.DataArray(np.random.default_rng(11).normal(size=share.shape), dims=share.dims)
    ).round(1)
    ranks = [
        np.concatenate([stats.rankdata(part) - (part.size + 1) / 2 for part in strata(one, within)])
        for one in (share, given, *scores)
    ]
    left = [one - np.polyval(np.polyfit(ranks[1], one, 1), ranks[1]) for one in ranks]
    expected = [stats.pearsonr(left[0], one).statistic for one in left[2:]]
    np.testing.assert_allclose(partial_rank_correlation(scores, share, given, within), expected)


def test_nothing_is_left_of_what_is_given():
    scores, share = made(np.random.default_rng(12))
    found = partial_rank_correlation(scores, share, np.exp(scores[0]).drop_vars("predictor"))
    assert np.isnan(found[0])
    assert np.isfinite(found[1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0, 0.5, 0.7])
def test_interval_of_a_correlation_over_five_units_covers_what_it_says(slope):
    """Over 3000 experiments with Gaussian numbers, whose rank correlation is known; a perfect one
    has no interval."""
    rng = np.random.default_rng(13)
    x, noise = rng.normal(size=(2, 3000, 5))
    found = [
        stats.spearmanr(*pair).statistic
        for pair in zip(x, slope * x + np.sqrt(1 - slope**2) * noise, strict=True)
    ]
    truth = 6 / np.pi * np.arcsin(slope / 2)
    ends = np.array(
        [correlation_interval(one, 5) if abs(one) < 1 - 1e-9 else (one, one) for one in found]
    )
    assert 0.88 < ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() < 0.995


@pytest.mark.slow
@pytest.mark.parametrize(("given", "slope"), [(0, 0), (0.5, 0), (0.5, 0.5)])
def test_interval_of_a_partial_correlation_has_one_unit_less(given, slope):
    """Over 3000 experiments with eight units, both numbers hanging on a third one; with all eight
    counted it covers less than 95 %."""
    rng = np.random.default_rng(14)
    third, x, noise = rng.normal(size=(3, 3000, 8))
    y = given * third + np.sqrt(1 - given**2) * (slope * x + np.sqrt(1 - slope**2) * noise)
    x = given * third + np.sqrt(1 - given**2) * x

    def partial(direct, one, other):
        return (direct - one * other) / np.sqrt((1 - one**2) * (1 - other**2))

    def spearman(product):
        return 6 / np.pi * np.arcsin(product / 2)  # of Gaussian numbers

    truth = partial(spearman(given**2 + (1 - given**2) * slope), spearman(given), spearman(given))
    ranks = [stats.rankdata(one, axis=-1) - 4.5 for one in (x, y, third)]
    xy, xz, yz = ((ranks[i] * ranks[j]).sum(-1) / 42 for i, j in ((0, 1), (0, 2), (1, 2)))
    xy, xz, yz = (np.clip(one, -1 + 1e-9, 1 - 1e-9) for one in (xy, xz, yz))
    found = np.clip(partial(xy, xz, yz), -1 + 1e-9, 1 - 1e-9)
    fewer, all_units = (
        np.mean(
            [
                low <= truth <= high
                for low, high in (correlation_interval(one, count) for one in found)
            ]
        )
        for count in (7, 8)
    )
    assert all_units < 0.95 < fewer < 0.98


def test_intervals_resample_seeds_and_pair_the_baseline():
    scores, share = made(np.random.default_rng(6), seeds=3)
    found, gain = (over_seeds(scores, share, ("lag",), less=less) for less in ("", "p0"))
    np.testing.assert_allclose(found.value, rank_correlation(scores, share, ("lag",)))
    draws = np.array(
        [
            rank_correlation(scores.isel(seed=list(p)), share.isel(seed=list(p)), ("lag",))
            for p in product(range(3), repeat=3)
        ]
    )
    # with three units the interval ends at the ends
    np.testing.assert_allclose(found.low, draws.min(0))
    np.testing.assert_allclose(gain.high, (draws - draws[:, :1]).max(0))
    assert (gain.value[0], gain.low[0], gain.high[0]) == (0, 0, 0)


def test_what_is_not_there_is_not_ranked():
    scores, share = made(np.random.default_rng(7))
    found = rank_correlation(scores.where(scores != scores[0].max()), share, ("lag",))
    assert np.isnan(found).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="seed"):
        over_seeds(scores, share.isel(seed=[0, 1]))


def test_all_orders_of_the_units_are_gone_through():
    """Seeds stay with their model: with two models a predictor that tells them apart is right in
    one order and wrong in the other."""
    scores, share = made(np.random.default_rng(9), predictors=2)
    found = over_orders(scores, share, ("lag",))
    swapped = share.isel(model=[1, 0]).assign_coords(model=share.model)
    np.testing.assert_allclose(
        found, [rank_correlation(scores, one, ("lag",)) for one in (share, swapped)]
    )
    nine = [one.isel(model=[0] * 9) for one in (scores, share)]
    with pytest.raises(ValueError, match="number of models = 9"):
        over_orders(*nine, ())
