"""Agreement in ranks, against SciPy and against counting by hand; intervals, against Student and
against all resamples."""

from itertools import product

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters.agreement import jackknife, rank_correlation


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


@pytest.mark.parametrize("within", [[], ["lag"], ["model"]])
def test_jackknife_is_tukeys(within):
    """With ties; each seed is left out once."""
    scores, share = noisy_scores(7)

    def of_seeds(kept):
        return rank_correlation(scores.isel(seed=kept), share.isel(seed=kept), within)

    interval = jackknife(of_seeds, 4)
    expected = rank_correlation(scores, share, within)
    np.testing.assert_allclose(interval.value, expected)
    without_one = [of_seeds([other for other in range(4) if other != seed]) for seed in range(4)]
    # Tukey: the standard error of a mean of pseudovalues
    pseudovalues = 4 * expected - 3 * np.array(without_one)
    half_width = stats.t.ppf(0.975, 3) * stats.sem(pseudovalues)
    np.testing.assert_allclose(interval.high - interval.value, half_width)
    np.testing.assert_allclose(interval.value - interval.low, half_width)
