"""The exponent of a dose: how the sequences that learning takes grow as the envelope falls, from
responses known up to an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats


class Exponent(NamedTuple):
    """An exponent d of ``N½ ∝ f₀^d`` and the ends of its 95 % interval over seeds."""

    value: float
    low: float
    high: float


def design(rows: pd.DataFrame, lags: bool) -> NDArray[np.float64]:
    """Regressors of log N½: log f₀ first, log ℓ if there are several lags, and an intercept for
    each task or cell that is pooled."""
    columns = [rows["log_envelope"].to_numpy(float)]
    if lags and rows["lag"].nunique() > 1:
        columns.append(np.log(rows["lag"].to_numpy(float)))
    groups = rows["group"].to_numpy()
    columns += [(groups == group).astype(float) for group in np.unique(groups)]
    return np.stack(columns, axis=1)


def censored_fit(
    x: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fit ``y = x β + σ ε``, ε standard normal, by maximum likelihood where of y only an interval
    is known; give β.

    Ends may be infinite: below the first number tried, or above the last.

    Examples:
        >>> x = np.stack([np.arange(8.0), np.ones(8)], axis=1)
        >>> exact = -2 * x[:, 0] + 1
        >>> censored_fit(x, exact - 0.2, exact + 0.2).round(2)
        array([-2.,  1.])
    """
    bounded = np.where(
        np.isfinite(low) & np.isfinite(high),
        (low + high) / 2,
        np.where(np.isfinite(low), low, high),
    )
    start = np.linalg.lstsq(x, bounded, rcond=None)[0]
    spread = max(float(np.std(bounded - x @ start)), 0.2)

    def loss(theta: NDArray[np.float64]) -> float:
        mean, scale = x @ theta[:-1], np.exp(theta[-1])
        upper, lower = (high - mean) / scale, (low - mean) / scale
        flip = lower > 0  # the tail in which a difference of probabilities keeps its digits
        a, b = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
        with np.errstate(divide="ignore"):
            log_b, log_a = stats.norm.logcdf(b), stats.norm.logcdf(a)
            return -float(np.sum(log_b + np.log1p(-np.exp(np.minimum(log_a - log_b, -1e-12)))))

    found = optimize.minimize(loss, np.append(start, np.log(spread)), method="BFGS")
    return found.x[:-1]


def dose_exponent(
    rows: pd.DataFrame, rng: np.random.Generator, draws: int = 200, level: float = 0.95
) -> Exponent:
    """Fit the exponent d to searches (`low` < N½ ≤ `high`), and its interval by drawing seeds with
    replacement."""
    value = _slope(rows)
    seeds = rows["seed"].unique()
    by_seed = dict(list(rows.groupby("seed")))
    drawn = [
        _slope(pd.concat([by_seed[seed] for seed in rng.choice(seeds, len(seeds))]))
        for _ in range(draws)
    ]
    tail = (1 - level) / 2
    # A bootstrap over n seeds is too narrow by √((n − 1)/n), and its quantiles are those of a
    # normal, not of Student's t.
    widen = (
        np.sqrt(len(seeds) / (len(seeds) - 1))
        * stats.t.ppf(1 - tail, len(seeds) - 1)
        / stats.norm.ppf(1 - tail)
    )
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Exponent(value, value + widen * (low - value), value + widen * (high - value))


def _slope(rows: pd.DataFrame) -> float:
    with np.errstate(divide="ignore"):
        low, high = (
            np.log(rows["low"].to_numpy(float)),
            np.log(rows["high"].fillna(np.inf).to_numpy(float)),
        )
    return float(censored_fit(design(rows, lags=True), low, high)[0])
