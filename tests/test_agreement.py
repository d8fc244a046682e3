"""Agreement in ranks, against SciPy and against counting by hand; intervals, against Student and against all resamples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from lwcore.agreement import best_by_chance, chance_table, compare, discrimination, hits, rank_correlation, ranking, widths
from lwcore.seeds import interval, resamples

NETWORKS = ("model", "seed")
WITHIN = {"all": (), "lag": ("lag",), "network": ("model", "seed")}


def made(rng, predictors=3, seeds=4, ties=False):
    """Scores that follow the share with more or less noise, and the share."""
    coords = {"model": ["a", "b"], "seed": list(range(seeds)), "lag": [2, 4, 8, 16, 32]}
    share = xr.DataArray(rng.random((2, seeds, 5)), coords, ["model", "seed", "lag"])
    noise = xr.DataArray(rng.normal(size=(predictors, 2, seeds, 5)), dims=("predictor", *share.dims))
    scores = (share + 0.3 * noise).assign_coords(predictor=[f"p{i}" for i in range(predictors)])
    extra = {"source": ("predictor", ["–"] * predictors), "stage": ("predictor", ["–"] * predictors)}
    if ties:
        scores, share = (4 * scores).round(), (4 * share).round() / 4
    return scores.transpose("predictor", "model", "seed", "lag").assign_coords(extra), share


def strata(array, within):
    """The values of each stratum, gathered with loops over labels."""
    for labels in product(*(array[dim].values for dim in within)):
        yield array.sel(dict(zip(within, labels, strict=True))).values.ravel()


@pytest.mark.parametrize("ties", [False, True])
def test_over_everything_it_is_spearmans_coefficient(ties):
    scores, share = made(np.random.default_rng(0), ties=ties)
    expected = [stats.spearmanr(one.values.ravel(), share.values.ravel()).statistic for one in scores]
    np.testing.assert_allclose(rank_correlation(scores, share), expected)


@pytest.mark.parametrize("within", WITHIN.values())
def test_within_strata_covariances_and_variances_add_up(within):
    scores, share = made(np.random.default_rng(1), ties=True)
    for one, found in zip(scores, rank_correlation(scores, share, within), strict=True):
        covariances = [
            np.cov(stats.rankdata(x), stats.rankdata(y)) for x, y in zip(strata(one, within), strata(share, within), strict=True)
        ]
        (xx, xy), (_, yy) = np.sum(covariances, axis=0)
        assert found == pytest.approx(xy / np.sqrt(xx * yy))


def test_what_is_constant_in_a_stratum_says_nothing_there():
    scores, share = made(np.random.default_rng(2))
    by_lag = -share.lag + 0 * scores
    assert rank_correlation(by_lag, share, ("lag",)) == pytest.approx(0)
    assert discrimination(by_lag, share, ("lag",)) == pytest.approx(0.5)
    np.testing.assert_allclose(rank_correlation(by_lag, -share.lag + 0 * share), 1)
    assert np.isnan(rank_correlation(scores, 0 * share)).all()
    assert np.isnan(discrimination(scores, 0 * share)).all()


def test_infinite_scores_are_the_last_ones():
    scores, share = made(np.random.default_rng(3))
    low = scores.where(share > 0.5, -np.inf)
    np.testing.assert_array_equal(rank_correlation(low, share), rank_correlation(scores.where(share > 0.5, -99.0), share))


@pytest.mark.parametrize("within", WITHIN.values())
def test_discrimination_counts_pairs(within):
    scores, share = made(np.random.default_rng(4), ties=True)
    for one, found in zip(scores, discrimination(scores, share, within), strict=True):
        won = [
            (x > y) + (x == y) / 2
            for values, learned in zip(strata(one, within), strata(share, within), strict=True)
            for x in values[learned >= 0.5]
            for y in values[learned < 0.5]
        ]
        assert found == pytest.approx(np.mean(won))


def test_hits_are_the_points_where_both_say_yes_or_both_no():
    share = xr.DataArray([[0.2, 0.5, 0.9]], dims=("model", "lag"))
    scores = xr.DataArray([[[-1.0, 0.0, -np.inf]]] * 2, dims=("predictor", "model", "lag"), coords={"predictor": ["N: x", "envelope"]})
    found = hits(scores, share)
    assert found[0] == pytest.approx(2 / 3)
    assert np.isnan(found[1])


def test_resamples_are_all_there_are_with_their_probabilities():
    picks, weights = resamples(3)
    every = [tuple(sorted(one)) for one in product(range(3), repeat=3)]
    assert {tuple(pick): weight for pick, weight in zip(picks.tolist(), weights, strict=True)} == {
        one: every.count(one) / 27 for one in every
    }
    picks, weights = resamples(9)
    assert picks.shape == (2000, 9)
    assert set(picks.ravel().tolist()) == set(range(9))
    assert weights.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="2 or more"):
        resamples(1)


def test_interval_is_a_quantile_over_all_draws():
    """With many units little is added to the level: the ends are quantiles of the equally likely draws."""
    drawn = np.random.default_rng(5).normal(size=(4000, 2))
    low, high = interval(drawn, np.full(4000, 1 / 4000), 10**6)
    np.testing.assert_allclose([low, high], np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf"), atol=0.01)
    weighted = interval(np.array([3.0, 1.0, np.nan, 2.0]), np.array([0.01, 0.01, 0.9, 0.08]), 10**6)
    assert weighted.tolist() == [1.0, 3.0]
    assert np.isnan(interval(np.array([np.nan, np.nan]), np.array([0.5, 0.5]), 5)).all()


@pytest.mark.parametrize(("count", "least", "most"), [(3, 0.73, 0.77), (4, 0.855, 0.895), (5, 0.91, 0.95), (6, 0.92, 0.97)])
def test_interval_of_a_mean_covers_what_it_says(count, least, most):
    """Over 3000 experiments; the plain quantiles would cover 75, 80, 84 and 86 %. With three and four units the range is all there is."""
    picks, weights = resamples(count)
    values = np.random.default_rng(count).normal(size=(3000, count))
    low, high = interval(values[:, picks].mean(-1).T, weights, count)
    assert least < ((low <= 0) & (high >= 0)).mean() < most


def test_compare_resamples_seeds_and_pairs_the_baseline():
    scores, share = made(np.random.default_rng(6), seeds=3)
    compared = compare(scores, share, {"all": (), "within lags": ("lag",)})
    one = compared.sel(statistic="rank correlation", stratum="within lags")
    np.testing.assert_allclose(one.value, rank_correlation(scores, share, ("lag",)))
    draws = np.array([rank_correlation(scores.isel(seed=list(p)), share.isel(seed=list(p)), ("lag",)) for p in product(range(3), repeat=3)])
    np.testing.assert_allclose(one.low, draws.min(0))  # with three units the interval ends at the ends
    np.testing.assert_allclose(one.gain_high, (draws - draws[:, :1]).max(0))
    assert (one.gain[0], one.gain_low[0], one.gain_high[0]) == (0, 0, 0)
    table = ranking(compared, "within lags")
    assert table.index.tolist() == compared.predictor.values[np.argsort(-one.value.values)].tolist()
    best = one.sel(predictor=table.index[0])
    assert table.iloc[0]["ranks, within lags"] == f"{best.value:.2f} ({best.low:.2f} to {best.high:.2f})"
    gains = ranking(compared, "all", "within lags").loc[table.index[0]]
    assert gains["ranks, within lags, less p0"] == f"{best.gain:.2f} ({best.gain_low:.2f} to {best.gain_high:.2f})"
    assert widths(compared).loc[("rank correlation", "within lags"), "largest"] == pytest.approx(
        float((one.high - one.low).max()), abs=0.005
    )


def test_compare_refuses_what_is_not_there():
    scores, share = made(np.random.default_rng(7))
    with pytest.raises(ValueError, match="scores: 1 of"):
        compare(scores.where(scores != scores.max()), share, WITHIN)
    with pytest.raises(ValueError, match="seed"):
        compare(scores, share.isel(seed=[0, 1]), WITHIN)


def test_best_by_chance_is_a_quantile_of_the_largest():
    """For one predictor without ties the coefficient within a single lag is Spearman's, whose law under exchange SciPy knows."""
    rng = np.random.default_rng(8)
    scores, share = made(rng, predictors=1, seeds=10)
    one = best_by_chance(scores.isel(lag=[0]), share.isel(lag=[0]), ("lag",), NETWORKS)
    t = stats.t.ppf(0.95, 18)
    assert one == pytest.approx(t / np.sqrt(18 + t**2), abs=0.05)
    many, share = made(rng, predictors=20, seeds=10)
    several = many + 9 * rng.normal(size=many.shape)
    table = chance_table(several, share, {"within lags": (("lag",), NETWORKS)}, draws=200)
    assert table.iloc[0, 0] == round(rank_correlation(several, share, ("lag",)).max(), 2)
    assert table.iloc[0, 1] > best_by_chance(many.isel(predictor=[0]), share, ("lag",), NETWORKS, draws=200)


def test_exchange_of_models_keeps_seeds_together():
    """With two models there are two exchanges, and a predictor that tells models apart is right in half of them."""
    scores, share = made(np.random.default_rng(9), predictors=1)
    model = xr.DataArray([0.0, 1.0], dims="model")
    scores, share = model + 0 * scores, model + 0.01 * share
    highest = rank_correlation(scores.transpose("predictor", ...), share.transpose("model", "seed", "lag"), ("lag",))
    assert best_by_chance(scores, share, ("lag",), ("model",), draws=60) == pytest.approx(highest[0])
    assert best_by_chance(scores, share, ("lag",), ("model",), draws=60, level=0.05) == pytest.approx(-highest[0])
    assert best_by_chance(scores, share, ("lag",), NETWORKS, draws=60) < highest[0]
