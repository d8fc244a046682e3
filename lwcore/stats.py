"""How sure a number is: intervals over independent units, Holm's procedure.

A unit is what was drawn independently: a seed, a sequence, never an end point within one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from math import factorial, prod, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lwcore.printing import Bracket, Unit, printed
from lwcore.reals import Unreadable, read
from lwcore.signatures import (
    ArgumentError,
    Count,
    FiniteReals,
    Int64Count,
    Reals,
    Share,
    checked,
    floats,
    require,
)

_AT_ONCE = 1 << 22  # numbers of drawn units that are kept
_MOST_DRAWN = 10**10  # numbers of drawn units in one bootstrap, at some 10 ns each
_ALL = 7  # units up to which all ways to draw them are gone through


class Interval(NamedTuple):
    """An estimate, or an array of them, and the two ends of its interval."""

    value: Any
    low: Any
    high: Any

    def words(self, unit: str = Unit.NUMBER) -> list[str]:
        """Print each with its interval, ``"0.52 [0.49, 0.55]"``, in order; a dash for NaN."""
        value, low, high = (np.ravel(part) for part in np.broadcast_arrays(*self))
        triples = zip(value, low, high, strict=True)
        return [printed(*map(float, triple), unit=unit) for triple in triples]


@checked
def bootstrap(
    statistic: Callable[[NDArray[np.intp]], Any],
    count: Int64Count,
    rng: np.random.Generator | None = None,
    draws: Int64Count = 2000,
    level: Share = 0.95,
) -> Interval:
    """Bootstrap interval of a statistic, a function of which units are drawn, by their numbers.

    Of few units all ways to draw them are gone through, of more a sample, which has to reach as far
    out as the level. Quantiles at the level
    itself cover too little: for a mean of five values, 84 % instead of 95 %. They are taken further
    out, where for a mean of Gaussian values they meet Student's interval. See `most_covered` for
    what cannot be helped. A draw without a value, NaN, does not count.

    Examples:
        >>> values = np.array([1.0, 2.0, 4.0, 8.0])
        >>> bootstrap(lambda drawn: values[drawn].mean(), 4).words()
        ['4 [1.0, 8]']
    """
    require("count", count, count > 1, "2 or above, and below 2^63")
    words = f"{_MOST_DRAWN:.0e} at most together, which takes minutes: fewer draws, or parts"
    require("count · draws", count * draws, count <= _ALL or count * draws <= _MOST_DRAWN, words)
    reach = sqrt(count / (count - 1)) * -special.stdtrit(count - 1, (1 - level) / 2)
    tail = float(special.ndtr(-reach))
    if count <= _ALL:
        picks = np.array(list(combinations_with_replacement(range(count), count)))
        ways = [factorial(count) / prod(map(factorial, np.bincount(pick))) for pick in picks]
        weights = np.array(ways) / count**count
        drawn = [statistic(pick) for pick in picks]
    else:
        fewest = math.ceil(1 / tail) if tail > 0 else math.inf
        words = f"{fewest:.4g} or more, so that one lies beyond a level of {level}"
        require("draws", draws, draws >= fewest, words)
        rng = np.random.default_rng(0) if rng is None else rng
        weights = np.full(draws, 1 / draws)
        drawn = [statistic(pick) for pick in _draw(int(count), int(draws), rng)]
    values = _statistics(drawn)
    order = values.argsort(0)  # NaN last
    ranked = np.take_along_axis(values, order, 0)
    reached = np.where(np.isnan(ranked), 0.0, weights[order]).cumsum(0)
    # what rounding adds must not reach past the last draw
    masses = [mass * reached[-1] * (1 - 1e-12) for mass in (tail, 1 - tail)]
    low, high = (
        np.take_along_axis(ranked, (reached >= mass).argmax(0)[None], 0)[0] for mass in masses
    )
    return Interval(_statistics([statistic(np.arange(count))])[0, ...], low, high)


def _draw(count: int, draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of the units in each draw, of which few are kept at once."""
    rows = max(_AT_ONCE // count, 1)
    for first in range(0, draws, rows):
        yield from rng.integers(count, size=(min(rows, draws - first), count))


def _statistics(drawn: list[Any]) -> NDArray[np.float64]:
    """Return what a statistic gave for each draw, as one array."""
    try:
        return read(drawn)
    except Unreadable as error:
        words = str(error)
    raise ArgumentError(f"statistic(drawn) = {drawn[0]!r:.200}, …: must be real numbers, {words}.")


@checked
def most_covered(count: Count) -> float:
    """The share of cases that an interval within the range of some units can cover at most.

    It is ``1 − 2^(1−n)`` for a median, or a mean of symmetric values: 75 % of three units.
    """
    return 1 - 2.0 ** max(1 - count, -1100)


@checked
def student(values: FiniteReals, level: Share = 0.95) -> Interval:
    """Student's interval of the mean of a few independent numbers.

    Its ends are NaN where all numbers are the same.
    """
    x = floats("values", values)
    require("values", values, x.ndim == 1 and x.size > 1, "a list of at least two")
    _, power = np.frexp(np.abs(x).max())
    # without a rounding, so that no square leaves the range of a float
    scaled = np.ldexp(x, -power)
    mean = scaled.mean()
    error = scaled.std(ddof=1) / np.sqrt(x.size)
    if np.ptp(x) == 0:  # what is all the same says nothing about a spread
        return Interval(x[0], np.nan, np.nan)
    half = special.stdtrit(x.size - 1, (1 + level) / 2) * error
    ends = mean - half, mean + half
    with np.errstate(over="ignore"):
        return Interval(*np.ldexp([mean, *ends], power))


@checked
def binomial(hits: FiniteReals, trials: Count, level: Share = 0.95) -> Interval:
    """Share of trials in which something happened, with Clopper and Pearson's exact interval."""
    x, n = floats("hits", hits), floats("trials", trials)
    tail = (1 - level) / 2
    whole = (x >= 0) & (x <= n) & (x == np.floor(x))
    require("hits", x, whole, f"whole numbers from 0 to {trials}")
    low = np.nan_to_num(special.betaincinv(x, n - x + 1, tail), nan=0.0)
    high = np.nan_to_num(special.betainccinv(x + 1, n - x, tail), nan=1.0)
    return Interval(x / n, low, high)


@checked
def holm(p: FiniteReals, level: Share) -> NDArray[np.bool_]:
    """Holm's procedure: the hypotheses rejected among p-values, each family along the last axis.

    Examples:
        >>> print(holm([[0.001, 0.02, 0.04], [0.02, 0.02, 0.02]], 0.05))
        [[ True  True  True]
         [False False False]]
    """
    chance = floats("p", p)
    require("p", p, chance.ndim > 0, "a list of p-values, or several")
    require("p", chance, (chance >= 0) & (chance <= 1), "in [0, 1]")
    tests = chance.shape[-1]
    rank = chance.argsort(-1).argsort(-1)  # 0 for the smallest
    failed = np.where(chance > level / (tests - rank), rank, tests)
    return rank < failed.min(-1, keepdims=True)


@checked
def span(values: Reals, unit: str = Unit.NUMBER) -> str:
    """Print the median of some numbers and their range.

    NaN is left out, a dash if nothing is left; infinite numbers are numbers.

    Examples:
        >>> span([3.0, 1.0, 2.4])
        '2.4 (range 1.0–3.0)'
    """
    numbers = floats("values", values).ravel()
    require("values", values, numbers.size > 0, "one number or more")
    ordered = np.sort(numbers[~np.isnan(numbers)])
    if ordered.size == 0:
        return "–"
    below, above = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
    with np.errstate(invalid="ignore"):  # between −∞ and ∞ there is no middle
        middle = below if below == above else below / 2 + above / 2
    ends = float(ordered[0]), float(ordered[-1])
    return printed(float(middle), *ends, unit=unit, bracket=Bracket.RANGE)
