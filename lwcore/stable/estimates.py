"""What the estimators of a symmetric α-stable law share: their result, the range of alpha, and how an interval is read off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lwcore.stable.standard import Array

LOWEST_ALPHA = 0.51  # fitted: heavier tails are held there, and marked; the laws themselves are computed down to 0.5


class Estimates(NamedTuple):
    """Estimates for each column of the samples, every array of shape (columns,).

    Attributes:
        alpha: Tail index; NaN where there is none.
        scale: Scale, in the units of the data.
        loc: Location, in the units of the data.
        low: Lower end of the interval for `alpha`.
        high: Upper end of it.
        doubts: Pairs of a mask over the columns and the reasons, one a column, to give where the mask is set.
    """

    alpha: Array
    scale: Array
    loc: Array
    low: Array
    high: Array
    doubts: Sequence[tuple[NDArray[np.bool_], Sequence[str]]]


def accepted(alphas: Array, expected: Array, margin: Array, observed: Array) -> tuple[Array, Array]:
    """Return the ends of the range of alpha under which a statistic is no further than a margin from what it is expected to be.

    An interval that inverts a test in this way takes the spread at each alpha it judges. The usual one, the estimate plus and minus its
    standard error, takes the spread at the estimate: near ``alpha = 2``, where the spread falls quickly, it covers too little.

    Args:
        alphas: Increasing grid of tail indices, shape (grid,).
        expected: The statistic's expectation at each; increasing.
        margin: The largest deviation allowed at each, above 0.
        observed: Observed values, shape (columns,).

    Returns:
        Lower and upper end, each of shape (columns,); the ends of the grid where the range reaches beyond it.
    """
    rising = np.maximum.accumulate  # against a margin that falls faster than the expectation rises
    return np.interp(observed, rising(expected + margin), alphas), np.interp(observed, rising(expected - margin), alphas)
