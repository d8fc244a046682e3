"""Whether a distribution has more than one mode, asked of a sample: the dip test.

A distribution has one mode if its distribution function is convex up to some point and concave beyond. The **dip** of a sample (Hartigan
and Hartigan 1985) is the least distance, in the largest absolute difference, of its empirical distribution function from any such function.
The uniform law has the flattest single mode and gives the largest dips, so that p-values taken from it hold for every law with one mode,
however heavy its tails. (Silverman's bandwidth test does not keep its level there: outliers look like modes to it.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, integer_in, real_in

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ModeTest:
    """The answer of `mode_test`.

    Attributes:
        dip: The dip, between ``1/(2n)`` and 1/4.
        p_value: Chance of a dip as large in a uniform sample of the same size, in (0, 1]; small where there is more than one mode.
    """

    dip: float
    p_value: float


def dip(sample: ArrayLike) -> float:
    """Return the dip of a sample.

    Args:
        sample: Finite numbers, at least two different ones, shape (n,).

    Returns:
        Least distance of its distribution function from one with a single mode, without unit.

    Raises:
        TypeError: If the sample is not made of real numbers.
        ValueError: If it is not finite or all its entries are alike.
    """
    values = finite_array("sample", sample, ndim=1)
    place, counts = np.unique(values, return_counts=True)
    if place.size < 2:
        raise ValueError(f"sample: all {values.size} entries are {float(values[0])!r}; must hold at least two different values.")
    reached = np.append(0.0, counts.cumsum() / values.size)  # below the first value, at it, at the second ...
    convex_before = _gaps(place, reached)
    concave_after = _gaps(-place[::-1], 1 - reached[::-1])[::-1]
    return float(np.maximum(convex_before, concave_after).min() / 2)


def mode_test(sample: ArrayLike, replicates: int = 1000, seed: int = 0) -> ModeTest:
    """Test whether a distribution has more than one mode.

    Args:
        sample: Independent draws, at least two different ones, shape (n,).
        replicates: Number of uniform samples that the dip is compared with.
        seed: Their seed.

    Returns:
        Dip and p-value; the sample counts as one of the replicates, so that p is never 0.

    Raises:
        TypeError: If the sample is not made of real numbers.
        ValueError: If it is not finite or all its entries are alike, or there are no replicates.
    """
    found = dip(sample)
    reference = _uniform_dips(np.size(sample), integer_in("replicates", replicates, 1), integer_in("seed", seed, 0))
    return ModeTest(found, float((1 + np.count_nonzero(reference >= found)) / (1 + replicates)))


def rejection_rate(draw: Callable[[np.random.Generator], Array], rng: np.random.Generator, level: float = 0.05, trials: int = 500) -> float:
    """Measure how often `mode_test` finds more than one mode: its level for a law with one mode, its power for a law with more.

    Args:
        draw: Draws a sample.
        rng: Source of the samples.
        level: Nominal level, in (0, 1).
        trials: Number of samples.

    Returns:
        Share of the samples with a p-value at or below the level.
    """
    level = real_in("level", level, "(0, 1)")
    return float(np.mean([mode_test(draw(rng)).p_value <= level for _ in range(integer_in("trials", trials, 1))]))


@lru_cache(maxsize=64)
def _uniform_dips(count: int, replicates: int, seed: int) -> Array:
    """Dips of uniform samples."""
    return np.array([dip(sample) for sample in np.random.default_rng(seed).random((replicates, count))])


def _gaps(place: Array, reached: Array) -> Array:
    """For each value as the mode: how far the distribution function rises above the largest convex function below it, to its left.

    A convex function at half that distance is the nearest. When the mode moves right by one value, the convex function changes on one new
    edge only, the last of its lower hull, where the gap can but grow.

    Args:
        place: Different values in ascending order, shape (n,).
        reached: The distribution function before the first value and at each, shape (n + 1,).

    Returns:
        Gaps, shape (n,), from 0 to 1.
    """
    hull, gaps = [0], np.zeros(len(place))
    for mode in range(1, len(place)):
        slope = (reached[mode] - reached[hull]) / (place[mode] - place[hull])
        while len(hull) > 1 and slope[len(hull) - 2] >= slope[len(hull) - 1]:
            hull.pop()
        start = hull[-1]
        chord = reached[start] + slope[len(hull) - 1] * (place[start:mode] - place[start])
        gaps[mode] = max(gaps[mode - 1], np.max(reached[start + 1 : mode + 1] - chord))
        hull.append(mode)
    return gaps
