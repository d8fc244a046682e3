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
    over_rows,
    rank_correlation,
)


def made(seed, predictors=3, seeds=4, ties=False):
    """Scores that follow the share with more or less noise, and the share."""
    rng = np.random.default_rng(seed)
    coords = {"model": ["a", "b"], "seed": list(range(seeds)), "lag": [2, 4, 8, 16, 32]}
    share = xr.DataArray(rng.random((2, seeds, 5)), coords, ["model", "seed", "lag"])
    noise = rng.normal(size=(predictors, 2, seeds, 5))
    scores = share + 0.3 * xr.DataArray(noise, dims=("predictor", *share.dims))
    scores = scores.assign_coords(predictor=[f"p{i}" for i in range(predictors)])
    if ties:
        scores, share = (4 * scores).round(), (4 * share).round() / 4
    return scores.transpose("predictor", ...), share


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("within", [(), ("lag",), ("model", "seed")])
def test_within_strata_covariances_and_variances_add_up(within, ties):
    """Ranks are centred in their strata."""
    scores, share = made(1, ties=ties)

    def ranks(array):
        strata = product(*(array[dim].values for dim in within))
        labels = (dict(zip(within, stratum, strict=True)) for stratum in strata)
        parts = [stats.rankdata(array.sel(at).values) for at in labels]
        return np.concatenate([(part - part.mean()).ravel() for part in parts])

    outcome, *each = (ranks(one) for one in (share, *scores))
    expected = [stats.pearsonr(outcome, one).statistic for one in each]
    np.testing.assert_allclose(rank_correlation(scores, share, within), expected)
    if not within:
        plain = [stats.spearmanr(one.values.ravel(), share.values.ravel())[0] for one in scores]
        np.testing.assert_allclose(rank_correlation(scores, share), plain)


def test_what_is_constant_missing_or_infinite():
    scores, share = made(2)
    by_lag = -share.lag + 0 * scores
    assert rank_correlation(by_lag, share, ("lag",)) == pytest.approx(0)
    np.testing.assert_allclose(rank_correlation(by_lag, -share.lag + 0 * share), 1)
    assert np.isnan(rank_correlation(scores, 0 * share)).all()
    infinite, low = (scores.where(share > 0.5, least) for least in (-np.inf, -99.0))
    np.testing.assert_array_equal(rank_correlation(infinite, share), rank_correlation(low, share))
    found = rank_correlation(scores.where(scores != scores[0].max()), share, ("lag",))
    assert np.isnan(found).tolist() == [True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0, 0.5, 0.7])
def test_interval_of_a_correlation_over_five_units_covers_what_it_says(slope):
    """Over 3000 experiments with Gaussian numbers, whose rank correlation is known; a perfect one
    has no interval."""
    x, noise = np.random.default_rng(13).normal(size=(2, 3000, 5))
    y = slope * x + np.sqrt(1 - slope**2) * noise
    ranks = (stats.rankdata(one, axis=-1) - 3 for one in (x, y))
    found = np.prod([*ranks], axis=0).sum(-1) / 10
    inside = abs(found) < 1 - 1e-9
    truth = 6 / np.pi * np.arcsin(slope / 2)
    low, high = np.transpose([correlation_interval(one, 5) for one in found[inside]])
    covered = ((low <= truth) & (truth <= high)).sum() / len(found)
    assert 0.88 < covered < 0.995


@pytest.mark.parametrize("within", [["lag"], ["model", "lag"], ["model", "seed"]])
def test_rows_of_a_table_agree_as_a_grid_does(within, monkeypatch):
    """In every draw of seeds, with ties, infinite responses, and a score that says nothing."""
    draws = []
    monkeypatch.setattr("book.chapters.agreement.bootstrap", lambda of, count: draws.append(of))
    scores, share = made(7, ties=True)
    share = share.where(share > share.quantile(0.2), -np.inf)
    scores[1] = 0 * scores[1] + share.lag
    rows = share.to_dataframe("share").join(scores.to_series().unstack("predictor")).reset_index()
    over_rows(rows.sample(frac=1, random_state=1), ["p0", "p1", "p2"], "share", within)
    for pick in ([0, 1, 2, 3], [0, 0, 1, 3], [2, 2, 2, 1]):
        found = draws[0](np.array(pick))
        expected = rank_correlation(scores.isel(seed=pick), share.isel(seed=pick), within)
        assert np.isnan(found[1]) == ("lag" in within)
        np.testing.assert_allclose(np.nan_to_num(found), expected, atol=1e-12)


def test_rows_of_unequal_strata_count_alike():
    """Ranks as shares of their stratum, by pandas; a seed that a stratum lacks leaves a gap."""
    rng = np.random.default_rng(8)
    rows = pd.DataFrame(rng.integers(0, 9, (60, 2)), columns=["x", "y"])
    rows = rows.assign(stratum=np.repeat([0, 0, 0, 1, 2], 12), seed=np.tile([1, 2, 3], 20))
    rows = rows[(rows.stratum < 2) | (rows.seed == 1)]
    by = rows.groupby("stratum")[["x", "y"]]
    ranks = by.rank(pct=True)
    x, y = (ranks - ranks.groupby(rows.stratum).transform("mean")).to_numpy().T
    found = over_rows(rows, ["x"], "y", ["stratum"])
    assert found.value == pytest.approx((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum()))
    assert found.low < found.value < found.high
