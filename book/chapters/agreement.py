"""How far scores agree with what was learned, in ranks, over everything and within strata, and how
sure that is.

Within a stratum something is held fixed: within lags, say, plain lag says nothing, and what is left
is which network learns.

Networks of one seed share task and sequences, so that intervals over seeds speak of other seeds of
the same models. What is said of cells has the cell as its unit (`correlation_interval`,
`over_orders`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import permutations
from math import atanh, prod, sqrt, tanh

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from lwcore.signatures import require
from lwcore.stats import Interval, bootstrap

LEARNED = 0.5  # a lag counts as learned if at least this share of its coefficient is recovered


def rank_correlation(
    scores: xr.DataArray, share: xr.DataArray, within: Sequence[str] = ()
) -> NDArray[np.float64]:
    """Correlate ranks within strata: Spearman's coefficient with the ranks' covariances and
    variances added up over strata.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        within: Dimensions whose values make the strata; none for a single one, Spearman's own
            coefficient.

    Returns:
        One coefficient a predictor, in [−1, 1]; 0 for one that is constant in every stratum, NaN
        where the share is.
    """
    x, y = (stats.rankdata(_strata(one, share.dims, within), axis=-1) for one in (scores, share))
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    spread = np.sqrt((x**2).sum((-2, -1)) * (y**2).sum((-2, -1)))
    found = np.divide((x * y).sum((-2, -1)), spread, out=np.zeros_like(spread), where=spread > 0)
    return np.where((y**2).sum() > 0, found, np.nan)


def partial_rank_correlation(
    scores: xr.DataArray, share: xr.DataArray, given: xr.DataArray, within: Sequence[str] = ()
) -> NDArray[np.float64]:
    """Correlate ranks as `rank_correlation` does, with what a third number says of both taken out.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        given: The third number, of the dimensions of `share`.
        within: Dimensions whose values make the strata; none for a single one.

    Returns:
        One coefficient a predictor; NaN for one that has the order of `given`, of which nothing is
        left.
    """
    third = given.expand_dims("predictor")
    direct, of_score = (rank_correlation(scores, one, within) for one in (share, given))
    of_share = rank_correlation(third, share, within)
    left = np.clip((1 - of_score**2) * (1 - of_share**2), 0, None)
    return np.divide(
        direct - of_score * of_share,
        np.sqrt(left),
        out=np.full_like(direct, np.nan),
        where=left > 1e-12,
    )


def compare(
    scores: xr.DataArray, share: xr.DataArray, strata: Mapping[str, Sequence[str]]
) -> xr.Dataset:
    """Compare the rank correlations of predictors with what was learned, and each with the
    baseline, the first of them.

    Args:
        scores: (predictor, …, seed, …), without NaN.
        share: What was learned, of the other dimensions of `scores`.
        strata: Dimensions whose values make the strata, by name; the first should be the whole, ().

    Returns:
        ``value``, ``low``, ``high`` (stratum, predictor) and ``gain``, ``gain_low``, ``gain_high``,
        the difference to the baseline, with the intervals of `stats.bootstrap` over seeds.
    """
    for name, array in (("scores", scores), ("share", share)):
        if array.isnull().any():
            raise ValueError(
                f"{name}: {int(array.isnull().sum())} of {array.size} entries are NaN; none may be."
            )
    scores, share = xr.align(scores, share, join="exact")

    def agreement(pick: NDArray[np.intp]) -> NDArray[np.float64]:
        ours, learned = scores.isel(seed=pick), share.isel(seed=pick)
        found = np.array([rank_correlation(ours, learned, within) for within in strata.values()])
        return np.stack([found, found - found[..., :1]])

    names = ("value", "low", "high", "gain", "gain_low", "gain_high")
    values = np.stack(bootstrap(agreement, share.sizes["seed"]), axis=1).reshape(6, len(strata), -1)
    dims = ("stratum", "predictor")
    return xr.Dataset(
        {name: (dims, value) for name, value in zip(names, values, strict=True)}
    ).assign_coords(dict(scores.predictor.coords) | {"stratum": list(strata)})


def correlation_interval(value: float, count: int) -> tuple[float, float]:
    """Give the interval for a rank correlation over a few independent units, by Fisher's
    transformation with Bonett and Wright's error.

    Args:
        value: The coefficient, in (−1, 1).
        count: Number of units, 4 or more; for a partial correlation one less for each number that
            is given.

    Returns:
        Ends that cover the coefficient of Gaussian numbers in 90 to 98 of 100 cases for five units,
        if it is at most 0.7.
    """
    half = stats.norm.isf(0.025) * sqrt((1 + value**2 / 2) / (count - 3))
    return tanh(atanh(value) - half), tanh(atanh(value) + half)


def over_orders(
    scores: xr.DataArray, share: xr.DataArray, within: Sequence[str], unit: str = "model"
) -> NDArray[np.float64]:
    """Give the rank correlations for every order of the units: how well predictors do that do not
    know which unit is which.

    Args:
        scores: (predictor, …).
        share: What was learned, of the other dimensions of `scores`.
        within: Dimensions whose values make the strata.
        unit: What is exchanged, all that belongs to one together; eight at most, for all their
            orders are gone through.

    Returns:
        Coefficients (order, predictor), those of the order as it is first.
    """
    require(f"number of {unit}s", share.sizes[unit], share.sizes[unit] <= 8, "8 at most")
    orders = permutations(range(share.sizes[unit]))
    return np.array(
        [
            rank_correlation(
                scores, share.copy(data=share.isel({unit: list(order)}).values), within
            )
            for order in orders
        ]
    )


def ranking(compared: xr.Dataset, by: str) -> pd.DataFrame:
    """Rank the predictors by their rank correlation within one kind of strata.

    Args:
        compared: The result of `compare`.
        by: Name of the strata.

    Returns:
        A row for each predictor, with intervals over the units: rank correlation within the strata,
            then differences to the baseline in
        the first strata, that is over all.
    """
    gain, baseline = compared.stratum.values[0], compared.predictor.values[0]
    ordered = compared.isel(
        predictor=np.argsort(-compared.value.sel(stratum=by).values, kind="stable")
    )
    within, over_all = ordered.sel(stratum=by), ordered.sel(stratum=gain)
    columns = {
        "error from": ordered.source.values,
        f"ranks, {by}": Interval(within.value, within.low, within.high).words(),
        f"ranks, {gain}, less {baseline}": Interval(
            over_all.gain, over_all.gain_low, over_all.gain_high
        ).words(),
    }
    return pd.DataFrame(columns, index=pd.Index(ordered.predictor.values, name="predictor"))


def _strata(
    array: xr.DataArray, dims: Sequence[Hashable], within: Sequence[str]
) -> NDArray[np.float64]:
    """Lay out values as (predictor, stratum, member), or without predictors (1, stratum, member),
    in an order common to all arrays."""
    names = [*within, *(dim for dim in dims if dim not in within)]
    shape = (array.sizes.get("predictor", 1), prod(array.sizes[dim] for dim in within), -1)
    return array.transpose("predictor", *names, missing_dims="ignore").values.reshape(shape)
