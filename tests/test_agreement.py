"""Agreement in ranks, against SciPy and against counting by hand; intervals, against Student and
against all resamples."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from book.chapters.agreement import (
    correlation_interval,
    in_strata,
    over_rows,
    rank_correlation,
)


def noisy_scores(seed, ties=False):
    """Return scores of three predictors, which follow the share with noise, and the share."""
    rng = np.random.default_rng(seed)
    coords = {"model": ["a", "b"], "seed": [0, 1, 2, 3], "lag": [2, 4, 8, 16, 32]}
    share = xr.DataArray(rng.random((2, 4, 5)), coords, ["model", "seed", "lag"])
    noise = xr.DataArray(rng.normal(size=(3, 2, 4, 5)), dims=("predictor", *share.dims))
    scores = (share + 0.3 * noise).assign_coords(predictor=["p0", "p1", "p2"])
    if ties:
        scores = (4 * scores).round()
        share = (4 * share).round() / 4
    return scores.transpose("predictor", ...), share


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("within", [(), ("lag",), ("model", "seed")])
def test_within_strata_covariances_and_variances_add_up(within, ties):
    """Ranks are centred in their strata."""
    scores, share = noisy_scores(1, ties=ties)

    def centred_ranks(array):
        of_strata = []
        for labels in product(*(array[dim].values for dim in within)):
            stratum = array.sel(dict(zip(within, labels, strict=True)))
            ranks = stats.rankdata(stratum.values)
            of_strata.append((ranks - ranks.mean()).ravel())
        return np.concatenate(of_strata)

    outcome = centred_ranks(share)
    expected = []
    for of_predictor in scores:
        expected.append(stats.pearsonr(outcome, centred_ranks(of_predictor)).statistic)
    np.testing.assert_allclose(rank_correlation(scores, share, within), expected)
    if within == ("model", "seed"):  # all but the last axis
        found = [in_strata(one.values, share.values) for one in scores]
        np.testing.assert_allclose(found, expected)


def test_what_is_constant_missing_or_infinite():
    scores, share = noisy_scores(2)
    by_lag = -share.lag + 0 * scores
    assert rank_correlation(by_lag, share, ("lag",)) == pytest.approx(0)
    np.testing.assert_allclose(rank_correlation(by_lag, -share.lag + 0 * share), 1)
    assert np.isnan(rank_correlation(scores, 0 * share)).all()
    infinite = scores.where(share > 0.5, -np.inf)
    low = scores.where(share > 0.5, -99.0)
    np.testing.assert_array_equal(rank_correlation(infinite, share), rank_correlation(low, share))
    without_one = scores.where(scores != scores[0].max())
    correlations = rank_correlation(without_one, share, ("lag",))
    assert np.isnan(correlations).tolist() == [True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0, 0.7])
def test_interval_of_a_correlation_over_five_units_covers_what_it_says(slope):
    """Over 3000 experiments with Gaussian numbers, whose rank correlation is known; a perfect one
    has no interval."""
    x, noise = np.random.default_rng(13).normal(size=(2, 3000, 5))
    y = slope * x + np.sqrt(1 - slope**2) * noise
    ranks_of_x = stats.rankdata(x, axis=-1) - 3
    ranks_of_y = stats.rankdata(y, axis=-1) - 3
    correlations = (ranks_of_x * ranks_of_y).sum(-1) / 10
    truth = 6 / np.pi * np.arcsin(slope / 2)
    n_covered = 0
    for correlation in correlations:
        if abs(correlation) < 1 - 1e-9:
            low, high = correlation_interval(correlation, 5)
            n_covered += low <= truth <= high
    assert 0.88 < n_covered / len(correlations) < 0.995


@pytest.mark.parametrize("within", [["lag"], ["model", "lag"], ["model", "seed"]])
def test_rows_of_a_table_agree_as_a_grid_does(within):
    """With ties, infinite responses, and a score that says nothing; each seed is left out once."""
    scores, share = noisy_scores(7, ties=True)
    share = share.where(share > share.quantile(0.2), -np.inf)
    scores[1] = 0 * scores[1] + share.lag
    by_predictor = scores.to_series().unstack("predictor")
    rows = share.to_dataframe("share").join(by_predictor).reset_index()
    shuffled = rows.sample(frac=1, random_state=1)
    interval = over_rows(shuffled, ["p0", "p1", "p2"], "share", within)
    expected = rank_correlation(scores, share, within)
    assert np.isnan(interval.value[1]) == np.isnan(interval.low[1]) == ("lag" in within)
    np.testing.assert_allclose(np.nan_to_num(interval.value), expected, atol=1e-12)
    without_one = []
    for seed in range(4):
        kept = [other for other in range(4) if other != seed]
        without_one.append(rank_correlation(scores.isel(seed=kept), share.isel(seed=kept), within))
    # Tukey: the standard error of a mean of pseudovalues
    pseudovalues = 4 * expected - 3 * np.array(without_one)
    half_width = stats.t.ppf(0.975, 3) * stats.sem(pseudovalues)
    half_width[1] = 0 if "lag" in within else half_width[1]
    np.testing.assert_allclose(np.nan_to_num(interval.high - interval.value), half_width)
    np.testing.assert_allclose(np.nan_to_num(interval.value - interval.low), half_width)


def test_intervals_over_seeds_of_one_stratum_cover_the_mean_over_such_seeds():
    """Rows of a seed agree well, and seeds have levels of their own. A bootstrap, which puts a seed
    twice into a stratum, covered 65 to 80 %."""
    rng = np.random.default_rng(11)
    lags = np.tile(np.arange(5.0), (6, 6, 1))  # by stratum and seed
    stratum, seed, _ = np.indices(lags.shape)
    table = pd.DataFrame({"stratum": stratum.ravel(), "seed": seed.ravel(), "x": lags.ravel()})
    intervals = []
    for _ in range(150):
        level = 1.5 * rng.normal(size=(6, 6, 1))
        response = 0.6 * lags + level + 0.2 * rng.normal(size=lags.shape)
        rows = table.assign(y=response.ravel())
        intervals.append(over_rows(rows, ["x"], "y", ["stratum"]))
    mean = np.mean([one.value for one in intervals])
    covered = np.mean([one.low <= mean <= one.high for one in intervals])
    assert 0.91 < covered <= 1
