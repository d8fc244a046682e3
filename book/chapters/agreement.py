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
    """Return Spearman's coefficients; covariances and variances of ranks add up over strata.

    They are 0 for a predictor that is constant in every stratum, and NaN for a share that is, or
    where a score is NaN.

    Args:
        scores: (predictor, …), or one predictor without that dimension.
        share: The share learned (…).
        within: The dimensions of which each place is a stratum.
    """
    dims = [*within, *(dim for dim in share.dims if dim not in within)]
    n_strata = prod(share.sizes[dim] for dim in within)

    def centred_ranks(array: xr.DataArray) -> Array:
        """Rank within each stratum: (predictor, stratum, rank) of an array of any dimensions."""
        laid_out = array.transpose("predictor", *dims, missing_dims="ignore").values
        n_predictors = array.sizes.get("predictor", 1)
        ranks = stats.rankdata(laid_out.reshape(n_predictors, n_strata, -1), axis=-1)
        return np.asarray(ranks - ranks.mean(-1, keepdims=True))

    x = centred_ranks(scores)
    y = centred_ranks(share)
    covariance = (x * y).sum((-2, -1))
    variance_of_share = (y**2).sum((-2, -1))
    spread = np.sqrt((x**2).sum((-2, -1)) * variance_of_share)
    coefficients = np.divide(covariance, spread, out=np.zeros_like(spread), where=spread != 0)
    return np.where(variance_of_share > 0, coefficients, np.nan)


def over_rows(
    rows: pd.DataFrame, scores: Sequence[str], outcome: str, within: Sequence[str]
) -> Interval:
    """Return rank correlations of columns with an outcome, over the rows of a table.

    Intervals are over the seeds that the rows name. Ranks are shares of a stratum's rows, so that
    each row counts alike. NaN for a score that is constant in every stratum.

    Args:
        scores: Names of columns, one coefficient each.
        outcome: Name of the column that they are compared with.
        within: Columns of which each combination is a stratum.
    """
    strata = rows.groupby([*within]).ngroup().to_numpy()
    ties_of_outcome = rows.groupby([*within, outcome]).ngroup().to_numpy()
    ties_of_scores = [rows.groupby([*within, score]).ngroup().to_numpy() for score in scores]
    seeds, seed = np.unique(rows["seed"], return_inverse=True)

    def agreement(pick: NDArray[np.intp]) -> Array:
        weight = np.bincount(pick, minlength=len(seeds))[seed]
        # a seed that is drawn twice makes two strata, or two rows of one
        copies = np.ones_like(weight) if "seed" in within else weight
        size = np.bincount(strata, copies)[strata].clip(1)

        def middle(groups: NDArray[np.intp]) -> Array:
            """Where among all rows the middle of a row's group lies: ties share a rank."""
            sizes = np.bincount(groups, copies)
            return np.asarray((sizes.cumsum() - sizes / 2)[groups])

        middle_of_stratum = middle(strata)
        y = (middle(ties_of_outcome) - middle_of_stratum) / size
        variance = (weight * y**2).sum()
        coefficients = []
        for ties in ties_of_scores:
            x = (middle(ties) - middle_of_stratum) / size
            spread = np.sqrt((weight * x**2).sum() * variance)
            covariance = (weight * x * y).sum()
            coefficients.append(covariance / spread if spread > 0 else np.nan)
        return np.array(coefficients)

    return bootstrap(agreement, len(seeds))


def correlation_interval(value: float, count: int) -> tuple[float, float]:
    """Return the interval of a rank correlation over a few units, by Fisher's transformation.

    Its error is Bonett and Wright's. The count is 4 or more; of a partial correlation, the number
    of units less one for each number that is given. For Gaussian numbers and five units it covers
    90 to 98 of 100 cases, if the coefficient is at most 0.7.
    """
    error = sqrt((1 + value**2 / 2) / (count - 3))
    half_width = stats.norm.isf(0.025) * error
    return tanh(atanh(value) - half_width), tanh(atanh(value) + half_width)
