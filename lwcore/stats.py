"""How sure a number is: intervals over independent units, Holm's procedure.

A unit is what was drawn independently: a seed, a sequence, never an end point within one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lwcore.printing import Bracket, Unit, printed
from lwcore.signatures import (
    Count,
    FiniteReals,
    Int64Count,
    Reals,
    Share,
    checked,
    floats,
    require,
)

_OUTSIDE = 0.025  # of an interval of 95 %, the chance beyond either end
_MOST_TRIALS = 10**7  # SciPy's quantiles of the beta law lose their digits from 10^8 on


class Interval(NamedTuple):
    """An estimate, or an array of them, and the two ends of its interval."""

    value: Any
    low: Any
    high: Any


@checked
def bootstrap(
    statistic: Callable[[NDArray[np.intp]], Any],
    count: Int64Count,
    rng: np.random.Generator | None = None,
    draws: Int64Count = 2000,
) -> Interval:
    """Return the bootstrap interval of a statistic, a function of the numbers of the drawn units.

    Quantiles that leave out 2.5 % on either side cover too little: for a mean of five values, 84 %
    instead of 95 %. They are taken further out, where for a mean of Gaussian values they meet
    Student's interval, and draws have to reach as far; for fewer than six units take `student`. See
    `most_covered` for what cannot be helped. A draw without a value, NaN, does not count.

    Args:
        statistic: Given which units are drawn, an array of `count` numbers below `count`, returns a
            number or an array of them.
        count: The number of units.
        rng: What draws them. None draws the same ones at every call.
        draws: How often they are drawn.

    Examples:
        >>> values = np.array([1.0, 2.0, 4.0, 8.0, 9.0, 9.0])
        >>> printed(*bootstrap(lambda drawn: values[drawn].mean(), 6))
        '6 [1.7, 9]'
    """
    require("count", count, count > 1, "2 or above, and below 2^63")
    # Student's quantile, in standard deviations of the values instead of their estimate
    reach = math.sqrt(count / (count - 1)) * -special.stdtrit(count - 1, _OUTSIDE)
    tail = float(special.ndtr(-reach))
    fewest = math.ceil(1 / tail)
    requirement = f"{fewest:.4g} or more, so that one lies beyond the interval"
    require("draws", draws, draws >= fewest, requirement)
    rng = rng or np.random.default_rng(0)
    drawn = [statistic(rng.integers(count, size=count)) for _ in range(draws)]
    values = floats("statistic(drawn)", drawn)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # where all are NaN
        low, high = np.nanquantile(values, [tail, 1 - tail], axis=0, method="inverted_cdf")
    value = floats("statistic(drawn)", statistic(np.arange(count)))[()]
    return Interval(value, low, high)


@checked
def most_covered(count: Count) -> float:
    """Return the share of cases that an interval within the range of some units covers at most.

    It is ``1 − 2^(1−n)`` for a median, or a mean of symmetric values: 75 % of three units.
    """
    return 1 - 0.5 ** (count - 1)


@checked
def student(values: FiniteReals) -> Interval:
    """Return Student's interval of 95 % of the mean of a few independent numbers.

    Its ends are NaN where all numbers are the same: they say nothing about a spread.
    """
    x = floats("values", values)
    require("values", values, x.ndim == 1 and x.size > 1, "a list of at least two")
    if x.min() == x.max():
        return Interval(x[0], np.nan, np.nan)
    # a power of 2 rounds nothing, and no square leaves the range of a float
    _, power = np.frexp(np.abs(x).max())
    scaled = np.ldexp(x, -power)
    mean = scaled.mean()
    error = scaled.std(ddof=1) / np.sqrt(x.size)
    half = -special.stdtrit(x.size - 1, _OUTSIDE) * error
    with np.errstate(over="ignore"):
        return Interval(*np.ldexp([mean, mean - half, mean + half], power))


@checked
def binomial(hits: FiniteReals, trials: Count) -> Interval:
    """Return the share of hits in up to 10^7 trials, with Clopper and Pearson's exact interval."""
    x = floats("hits", hits)
    require("trials", trials, trials <= _MOST_TRIALS, f"{_MOST_TRIALS:.0e} at most")
    n = floats("trials", trials)
    is_possible = (x >= 0) & (x <= n) & (x == np.floor(x))
    require("hits", x, is_possible, f"whole numbers from 0 to {trials}")
    low = special.betaincinv(x, n - x + 1, _OUTSIDE)
    high = special.betainccinv(x + 1, n - x, _OUTSIDE)
    low = np.where(x == 0, 0.0, low)[()]
    high = np.where(x == n, 1.0, high)[()]
    return Interval(x / n, low, high)


@checked
def holm(p: FiniteReals, level: Share) -> NDArray[np.bool_]:
    """Return which hypotheses Holm's procedure rejects, each family along the last axis.

    From the smallest p-value on, each is held against the level over the number of those that are
    left; the first that fails ends the procedure. Some true hypothesis of a family is rejected in
    a share `level` of cases at most.

    Examples:
        >>> print(holm([[0.001, 0.02, 0.04], [0.02, 0.02, 0.02]], 0.05))
        [[ True  True  True]
         [False False False]]
    """
    p_values = floats("p", p)
    require("p", p, p_values.ndim > 0, "a list of p-values, or several")
    require("p", p_values, (p_values >= 0) & (p_values <= 1), "in [0, 1]")
    n_tests = p_values.shape[-1]
    rank = p_values.argsort(-1).argsort(-1)  # 0 for the smallest
    is_too_large = p_values > level / (n_tests - rank)
    first_failure = np.where(is_too_large, rank, n_tests).min(-1, keepdims=True)
    return rank < first_failure


@checked
def span(values: Reals, unit: str = Unit.NUMBER) -> str:
    """Print the median of some numbers and their range; NaN is left out.

    Examples:
        >>> span([3.0, 1.0, 2.4])
        '2.4 (range 1.0–3.0)'
    """
    numbers = floats("values", values).ravel()
    require("values", values, numbers.size > 0, "one number or more")
    known = numbers[~np.isnan(numbers)]
    if known.size == 0:
        return "–"
    with np.errstate(invalid="ignore"):  # between −∞ and ∞ there is no middle
        median = float(np.median(known))
    return printed(median, known.min(), known.max(), unit=unit, bracket=Bracket.RANGE)
