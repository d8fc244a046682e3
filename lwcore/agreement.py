"""How far scores agree with what was learned, in ranks, over everything and within strata, and how sure that is.

Within a stratum something is held fixed: within lags, say, plain lag says nothing, and what is left is which network learns.

The independent unit is the seed: networks of one seed share task and sequences. Models stay as they are in every resample, so that
intervals speak of other seeds of the same models, not of other models.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import prod

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from lwcore.arguments import instance_of, integer_in, one_of, real_in, sequence_of
from lwcore.labelled import array_with, dataset_with
from lwcore.seeds import interval, resamples

LEARNED = 0.5  # a lag counts as learned if at least this share of its coefficient is recovered
Agreement = Callable[[xr.DataArray, xr.DataArray, Sequence[str]], NDArray[np.float64]]


def rank_correlation(scores: xr.DataArray, share: xr.DataArray, within: Sequence[str] = ()) -> NDArray[np.float64]:
    """Correlate ranks within strata: Spearman's coefficient with the ranks' covariances and variances added up over strata.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        within: Dimensions whose values make the strata; none for a single one, Spearman's own coefficient.

    Returns:
        One coefficient a predictor, in [−1, 1]; 0 for one that is constant in every stratum, NaN where the share is.
    """
    array_with("scores", scores, "predictor", *map(str, array_with("share", share).dims))
    _checked_dims("within", within, share)
    x, y = (stats.rankdata(_strata(one, share.dims, within), axis=-1) for one in (scores, share))
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    spread = np.sqrt((x**2).sum((-2, -1)) * (y**2).sum((-2, -1)))
    found = np.divide((x * y).sum((-2, -1)), spread, out=np.zeros_like(spread), where=spread > 0)
    return np.where((y**2).sum() > 0, found, np.nan)


def discrimination(scores: xr.DataArray, share: xr.DataArray, within: Sequence[str] = ()) -> NDArray[np.float64]:
    """Say how often a learned lag scores above one that is not: the area under the ROC curve, over pairs of the same stratum.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        within: Dimensions whose values make the strata; none for a single one.

    Returns:
        One probability a predictor, ties counted half; NaN where no stratum holds both kinds.
    """
    array_with("scores", scores, "predictor", *map(str, array_with("share", share).dims))
    _checked_dims("within", within, share)
    ranks = stats.rankdata(_strata(scores, share.dims, within), axis=-1)
    positive = _strata(share, share.dims, within) >= LEARNED
    ones, others = positive.sum(-1), (~positive).sum(-1)
    wins = (ranks * positive).sum(-1) - ones * (ones + 1) / 2  # Mann and Whitney's count
    pairs = (ones * others).sum()
    return wins.sum(-1) / pairs if pairs else np.full(len(ranks), np.nan)


def compare(
    scores: xr.DataArray,
    share: xr.DataArray,
    strata: Mapping[str, Sequence[str]],
    statistics: Mapping[str, Agreement] | None = None,
) -> xr.Dataset:
    """Compare predictors with what was learned, and each with the baseline, the first of them.

    Args:
        scores: (predictor, …, seed, …), without NaN.
        share: What was learned, of the other dimensions of `scores`.
        strata: Dimensions whose values make the strata, by name; the first should be the whole, ().
        statistics: Measures of agreement by name; rank correlation and AUC if None.

    Returns:
        ``value``, ``low``, ``high`` (statistic, stratum, predictor) and ``gain``, ``gain_low``, ``gain_high``, the difference to the
        baseline, with the intervals of `interval` over seeds.

    Raises:
        ValueError: If scores or shares are NaN, or belong to other networks.
    """
    array_with("scores", scores, "predictor", *map(str, array_with("share", share).dims))
    array_with("share", share, "seed")
    for stratum in instance_of("strata", strata, Mapping).values():
        _checked_dims("strata", stratum, share)
    statistics = statistics or {"rank correlation": rank_correlation, "AUC": discrimination}
    for name, array in (("scores", scores), ("share", share)):
        if array.isnull().any():
            raise ValueError(f"{name}: {int(array.isnull().sum())} of {array.size} entries are NaN; none may be.")
    scores, share = xr.align(scores, share, join="exact")
    picks, weights = resamples(share.sizes["seed"])

    def agreement(pick: NDArray[np.int64]) -> NDArray[np.float64]:
        ours, learned = scores.isel(seed=pick), share.isel(seed=pick)
        return np.array([[statistic(ours, learned, within) for within in strata.values()] for statistic in statistics.values()])

    found, drawn = agreement(np.arange(share.sizes["seed"])), np.array([agreement(pick) for pick in picks])
    names = ("value", "low", "high", "gain", "gain_low", "gain_high")
    ends = interval(drawn, weights, share.sizes["seed"]), interval(drawn - drawn[..., :1], weights, share.sizes["seed"])
    values = (found, *ends[0], found - found[..., :1], *ends[1])
    dims = ("statistic", "stratum", "predictor")
    return xr.Dataset({name: (dims, value) for name, value in zip(names, values, strict=True)}).assign_coords(
        dict(scores.predictor.coords) | {"statistic": list(statistics), "stratum": list(strata)}
    )


def best_by_chance(
    scores: xr.DataArray, share: xr.DataArray, within: Sequence[str], units: Sequence[str], draws: int = 1000, level: float = 0.95
) -> float:
    """Say how large a rank correlation the best of many predictors reaches if none says which unit is which.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        within: Dimensions whose values make the strata.
        units: What is exchanged at random, all that belongs to one together: ``["model"]``, say, or ``["model", "seed"]`` for networks.
        draws: Number of exchanges.
        level: Quantile of the largest coefficient over predictors.

    Returns:
        That quantile.
    """
    array_with("scores", scores, "predictor", *map(str, array_with("share", share).dims))
    _checked_dims("within", within, share)
    _checked_dims("units", units, share)
    integer_in("draws", draws, 1)
    real_in("level", level, "(0, 1)")
    rng = np.random.default_rng(0)
    share = share.transpose(*units, ...)
    values = share.values.reshape(-1, *share.shape[len(units) :])
    exchanged = (share.copy(data=rng.permutation(values).reshape(share.shape)) for _ in range(draws))
    return float(np.quantile([rank_correlation(scores, one, within).max() for one in exchanged], level))


def chance_table(
    scores: xr.DataArray, share: xr.DataArray, ways: Mapping[str, tuple[Sequence[str], Sequence[str]]], draws: int = 500
) -> pd.DataFrame:
    """Show the largest rank correlation of all predictors beside what the best of as many reaches by chance.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        ways: Strata and units of `best_by_chance`, by the words for their row.
        draws: Number of exchanges.

    Returns:
        A row for each way: the best found, and what chance stays below in 95 of 100 exchanges.
    """
    array_with("scores", scores, "predictor", *map(str, array_with("share", share).dims))
    integer_in("draws", draws, 1)
    instance_of("ways", ways, Mapping)
    rows = {
        words: (rank_correlation(scores, share, within).max(), best_by_chance(scores, share, within, units, draws))
        for words, (within, units) in ways.items()
    }
    columns = [f"best of {scores.sizes['predictor']}, found", "by chance, in 95 of 100 below"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).round(2)


def hits(scores: xr.DataArray, share: xr.DataArray, within: Sequence[str] = ()) -> NDArray[np.float64]:
    """Give the share of points where ``N(ℓ) ≤ N`` and being learned go together, for predictors that name a number; NaN for others."""
    array_with("scores", scores, "predictor", *map(str, array_with("share", share).dims))
    _checked_dims("within", within, share)
    right = (_strata(scores, share.dims, within) >= 0) == (_strata(share, share.dims, within) >= LEARNED)
    return np.where(scores.predictor.str.startswith("N:"), right.mean((-2, -1)), np.nan)


def ranking(compared: xr.Dataset, by: str, gain: str | None = None) -> pd.DataFrame:
    """Rank the predictors by their rank correlation within one kind of strata.

    Args:
        compared: The result of `compare`.
        by: Name of the strata.
        gain: Name of the strata in which to show the difference to the baseline; the first, that is over all, if None.

    Returns:
        A row for each predictor, with intervals over seeds: rank correlation within the strata, then differences to the baseline in rank
        correlation and, if there is one, AUC; and when it was measured, if not all at once.
    """
    dataset_with("compared", compared, "value", "low", "high", "gain", "gain_low", "gain_high", "stratum", "predictor")
    for name, stratum in (("by", by), ("gain", gain)):
        if stratum is not None:
            one_of(name, stratum, compared.stratum.values.tolist())
    gain, baseline = gain or compared.stratum.values[0], compared.predictor.values[0]
    best_first = np.argsort(-compared.value.sel(statistic="rank correlation", stratum=by).values, kind="stable")
    ordered = compared.isel(predictor=best_first)
    rank, area = ordered.sel(statistic="rank correlation"), ordered.sel(statistic="AUC", stratum=gain)
    stages = {} if len(set(compared.stage.values) - {"–"}) < 2 else {"measured": ordered.stage.values}
    columns = {
        "error from": ordered.source.values,
        **stages,
        f"ranks, {by}": _words(rank.sel(stratum=by), "value", "low", "high"),
        f"ranks, {gain}, less {baseline}": _words(rank.sel(stratum=gain), "gain", "gain_low", "gain_high"),
        f"AUC, {gain}, less {baseline}": _words(area, "gain", "gain_low", "gain_high"),
    }
    table = pd.DataFrame(columns, index=pd.Index(ordered.predictor.values, name="predictor"))
    return table if area.value.notnull().any() else table.iloc[:, :-1]


def widths(compared: xr.Dataset) -> pd.DataFrame:
    """Show how wide intervals are: least, median and largest width over the predictors that are not constant in the strata."""
    dataset_with("compared", compared, "low", "high", "statistic", "stratum", "predictor")
    width = (compared.high - compared.low).where(compared.high > compared.low).transpose("statistic", "stratum", "predictor")
    rows = pd.MultiIndex.from_product([width.statistic.values, width.stratum.values], names=["statistic", "strata"])
    table = pd.DataFrame(width.values.reshape(len(rows), -1), index=rows).quantile([0, 0.5, 1], axis=1).T
    return table.set_axis(["least", "median", "largest"], axis=1).round(2)


def _checked_dims(name: str, dims: Sequence[str], share: xr.DataArray) -> None:
    """Refuse names that are no dimensions of what was learned."""
    for dim in sequence_of(name, dims):
        one_of(name, dim, map(str, share.dims))


def _words(one: xr.Dataset, *names: str) -> list[str]:
    """Write values with their intervals; a dash where there is none."""
    triples = zip(*(one[name].values for name in names), strict=True)
    return ["–" if np.isnan(value) else f"{value:.2f} ({low:.2f} to {high:.2f})" for value, low, high in triples]


def _strata(array: xr.DataArray, dims: Sequence[Hashable], within: Sequence[str]) -> NDArray[np.float64]:
    """Lay out values as (predictor, stratum, member), or without predictors (1, stratum, member), in an order common to all arrays."""
    names = [*within, *(dim for dim in dims if dim not in within)]
    shape = (array.sizes.get("predictor", 1), prod(array.sizes[dim] for dim in within), -1)
    return array.transpose("predictor", *names, missing_dims="ignore").values.reshape(shape)
