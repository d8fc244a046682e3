"""Rank correlations of scores with what was learned, within strata, and how sure they are.

Within lags plain lag says nothing, and what is left is which network learns. Networks of one seed
share task and sequences, so that intervals over seeds speak of other seeds of the same models. What
is said of cells has the cell as its unit (`correlation_interval`).

Scores are (predictor, …), the share learned has the other dimensions, and dimensions named in
`within` make the strata.
"""

from collections.abc import Callable, Sequence
from math import atanh, prod, sqrt, tanh

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from lwcore.stats import Interval

Array = NDArray[np.float64]
Places = NDArray[np.intp]


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


def in_strata(scores: Array, outcome: Array) -> float:
    """Return Spearman's coefficient over the last axis; all other axes make strata.

    Of few units: each is compared with each, as a bootstrap repeats it some thousand times.
    """

    def centred_ranks(values: Array) -> Array:
        """Return half of how many of its stratum a number exceeds, less how many exceed it."""
        one = values[..., :, None]
        other = values[..., None, :]
        return ((one > other).sum(-1) - (one < other).sum(-1)) / 2

    x = centred_ranks(scores)
    y = centred_ranks(outcome)
    return float((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum()))


def jackknife(statistic: Callable[[Places], Array], n_units: int) -> Interval:
    """Return a statistic of units, with 95 % intervals from leaving each of them out once.

    Student's quantile counts the units. A bootstrap is no choice for seeds: it draws a seed twice
    into one stratum, rows of one seed agree better than rows of different seeds, and so its
    intervals lie too high.

    Args:
        statistic: Takes the numbers of the units that count, from 0 on.
        n_units: How many there are.
    """
    every = np.arange(n_units)
    value = statistic(every)
    without_one = [statistic(np.delete(every, unit)) for unit in every]
    variance = (n_units - 1) * np.var(without_one, axis=0)
    half_width = stats.t.ppf(0.975, n_units - 1) * np.sqrt(variance)
    return Interval(value, value - half_width, value + half_width)


def correlation_interval(value: float, count: int) -> tuple[float, float]:
    """Return the interval of a rank correlation over a few units, by Fisher's transformation.

    Its error is Bonett and Wright's. The count is 4 or more; of a partial correlation, the number
    of units less one for each number that is given. For Gaussian numbers and five units it covers
    90 to 98 of 100 cases, if the coefficient is at most 0.7.
    """
    error = sqrt((1 + value**2 / 2) / (count - 3))
    half_width = stats.norm.isf(0.025) * error
    return tanh(atanh(value) - half_width), tanh(atanh(value) + half_width)
