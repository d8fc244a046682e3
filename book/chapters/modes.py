"""Whether a distribution has more than one mode, asked of a sample: the dip test.

A distribution has one mode if its distribution function is convex up to some point and concave
beyond. The **dip** of a sample (Hartigan and Hartigan 1985) is the least distance, in the largest
absolute difference, of its empirical distribution function from any such function. The uniform law
has the flattest single mode and gives the largest dips, so that p-values taken from it hold for
every law with one mode, however heavy its tails. (Silverman's bandwidth test does not keep its
level there: outliers look like modes to it.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from diptest import diptest
from numpy.typing import ArrayLike, NDArray

from lwcore.signatures import require

_SIZES = 4, 72_000  # what the table of the test covers
_RESOLVED = 1e-6  # a table of a million samples tells no smaller chance


@dataclass(frozen=True)
class ModeTest:
    """The answer of `mode_test`.

    Attributes:
        dip: The dip, between ``1/(2n)`` and 1/4.
        p_value: Chance of a dip as large in a uniform sample of the same size, in [10⁻⁶, 1]; small
            where there is more than one mode.
    """

    dip: float
    p_value: float


def mode_test(sample: ArrayLike) -> ModeTest:
    """Test whether a distribution has more than one mode.

    Args:
        sample: Independent draws, 4 to 72,000, at least two different ones, shape (n,).

    Returns:
        Dip and p-value. The latter is read off a table of a million uniform samples of each size,
        and no smaller than 10⁻⁶.
    """
    values = np.asarray(sample, float)
    least, most = _SIZES
    require(
        "number of samples", values.size, least <= values.size <= most, f"from {least} to {most}"
    )
    if np.ptp(values) == 0:
        raise ValueError(
            f"sample: all {values.size} entries are {float(values[0])!r}; must hold at least two "
            "different values."
        )
    dip, p_value = diptest(values, allow_zero=False)
    return ModeTest(dip, max(p_value, _RESOLVED))


def rejection_rate(
    draw: Callable[[np.random.Generator], NDArray[np.float64]],
    rng: np.random.Generator,
    level: float = 0.05,
    trials: int = 500,
) -> float:
    """Measure how often `mode_test` finds more than one mode: its level for a law with one mode,
    its power for a law with more.

    Args:
        draw: Draws a sample.
        rng: Source of the samples.
        level: Nominal level, in (0, 1).
        trials: Number of samples.

    Returns:
        Share of the samples with a p-value at or below the level.
    """
    if not callable(draw):
        raise TypeError(
            f"draw = {draw!r}: must be a function that draws a sample from a generator."
        )
    return float(np.mean([mode_test(draw(rng)).p_value <= level for _ in range(trials)]))
