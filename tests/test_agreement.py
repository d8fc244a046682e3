"""Agreement in ranks, against SciPy and against counting by hand; intervals, against Student and
against all resamples."""

from itertools import product

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters.agreement import over_rows, rank_correlation


def noisy_scores(seed):
    """Return scores of three predictors, which follow the share with noise, and the share."""
    rng = np.random.default_rng(seed)
    coords = {"model": ["a", "b"], "seed": [0, 1, 2, 3], "lag": [2, 4, 8, 16, 32]}
    share = xr.DataArray(rng.random((2, 4, 5)), coords, ["model", "seed", "lag"])
    noise = xr.DataArray(rng.normal(size=(3, 2, 4, 5)), dims=("predictor", *share.dims))
    scores = (share + 0.3 * noise).assign_coords(predictor=["p0", "p1", "p2"])
    scores = (4 * scores).round()
    share = (4 * share).round() / 4
    return scores.transpose("predictor", ...), share


@pytest.mark.parametrize("within", [(), ("lag",), ("model", "seed")])
def test_within_strata_covariances_and_variances_add_up(within):
    """Ranks are centred in their strata; with ties."""
    scores, share = noisy_scores(1)

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


@pytest.mark.parametrize("within", [["lag"], ["model", "lag"], ["model", "seed"]])
def test_rows_of_a_table_agree_as_a_grid_does(within):
    """With ties, infinite responses, and a score that says nothing; each seed is left out once."""
    scores, share = noisy_scores(7)
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
