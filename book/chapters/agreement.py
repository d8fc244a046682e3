"""Rank correlations of scores with what was learned, within strata, and how sure they are.

Within lags plain lag says nothing, and what is left is which network learns. Networks of one seed
share task and sequences, so that intervals over seeds speak of other seeds of the same models. What
is said of cells has the cell as its unit (`correlation_interval`).

Scores are (predictor, …), the share learned has the other dimensions, and dimensions named in
`within` make the strata; where not everything was asked, scores are columns of a table
(`over_rows`).
"""

from collections.abc import Sequence
from math import atanh, prod, sqrt, tanh

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from lwcore.stats import Interval, bootstrap

Array = NDArray[np.float64]


def rank_correlation(
    scores: xr.DataArray, share: xr.DataArray, within: Sequence[str] = ()
) -> Array:
    """Spearman's coefficients, ranks' covariances and variances added up over strata.

    They are 0 for a predictor that is constant in every stratum, and NaN for a share that is, or
    where a score is NaN.
    """
    names = [*within, *(dim for dim in share.dims if dim not in within)]

    def centred(array: xr.DataArray) -> Array:
        laid_out = array.transpose("predictor", *names, missing_dims="ignore").values
        shape = (array.sizes.get("predictor", 1), prod(share.sizes[dim] for dim in within), -1)
        ranks = stats.rankdata(laid_out.reshape(shape), axis=-1)
        return np.asarray(ranks - ranks.mean(-1, keepdims=True))

    x, y = centred(scores), centred(share)
    spread = np.sqrt((x**2).sum((-2, -1)) * (y**2).sum((-2, -1)))
    found = np.divide((x * y).sum((-2, -1)), spread, out=np.zeros_like(spread), where=spread != 0)
    return np.where((y**2).sum() > 0, found, np.nan)


def over_rows(
    rows: pd.DataFrame, scores: Sequence[str], outcome: str, within: Sequence[str]
) -> Interval:
    """Rank correlations of columns with an outcome, over the rows of a table that names their
    seeds, with intervals over seeds; NaN for a score that is constant in every stratum.

    Ranks are shares of a stratum's rows, so that each row counts alike.
    """
    columns = ((), (outcome,), *((score,) for score in scores))
    of, *ties = (rows.groupby([*within, *one]).ngroup().to_numpy() for one in columns)
    seeds, seed = np.unique(rows["seed"], return_inverse=True)

    def agreement(pick: NDArray[np.intp]) -> Array:
        weight = np.bincount(pick, minlength=len(seeds))[seed]
        # a seed that is drawn twice makes two strata, or two rows of one
        copies = np.ones_like(weight) if "seed" in within else weight

        def middle(groups: NDArray[np.intp]) -> Array:
            """Where among all rows the middle of a row's group lies: ties share a rank."""
            size = np.bincount(groups, copies)
            return np.asarray((size.cumsum() - size / 2)[groups])

        size = np.bincount(of, copies)[of].clip(1)
        y, *xs = ((middle(tie) - middle(of)) / size for tie in ties)
        spread = np.sqrt([(weight * x**2).sum() * (weight * y**2).sum() for x in xs])
        found = [(weight * x * y).sum() for x in xs]
        return np.divide(found, spread, out=np.full(len(xs), np.nan), where=spread > 0)

    return bootstrap(agreement, len(seeds))


def correlation_interval(value: float, count: int) -> tuple[float, float]:
    """Interval of a rank correlation in (−1, 1) over a few units, by Fisher's transformation.

    Its error is Bonett and Wright's. The count is 4 or more; of a partial correlation, the number
    of units less one for each number that is given. For Gaussian numbers and five units it covers
    90 to 98 of 100 cases, if the coefficient is at most 0.7.
    """
    half = stats.norm.isf(0.025) * sqrt((1 + value**2 / 2) / (count - 3))
    return tanh(atanh(value) - half), tanh(atanh(value) + half)
