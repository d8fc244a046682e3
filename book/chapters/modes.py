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
from typing import NamedTuple

import numpy as np
from diptest import diptest
from numpy.typing import ArrayLike, NDArray

from lwcore.signatures import require

_RESOLVED = 1e-6  # a table of a million samples tells no smaller chance


class ModeTest(NamedTuple):
    """The dip of a sample, and the chance of a dip as large in a uniform sample of its size."""

    dip: float
    p_value: float  # small where there is more than one mode


def mode_test(sample: ArrayLike) -> ModeTest:
    """The dip test of 4 to 72,000 independent draws, at least two of them different."""
    values, (least, most) = np.asarray(sample, float), (4, 72_000)  # what its table covers
    fits = least <= values.size <= most
    require("number of samples", values.size, fits, f"from {least} to {most}")
    require("sample", sample, np.ptp(values) > 0, "draws of which at least two are different")
    dip, p_value = diptest(values, allow_zero=False)
    return ModeTest(dip, max(p_value, _RESOLVED))


def rejection_rate(
    draw: Callable[[np.random.Generator], NDArray[np.float64]],
    rng: np.random.Generator,
    trials: int = 500,
) -> float:
    """The share of samples drawn in which `mode_test` finds more than one mode at a level of 5 %.

    It is the test's level for a law with one mode, its power for a law with more.
    """
    return float(np.mean([mode_test(draw(rng)).p_value <= 0.05 for _ in range(trials)]))
