"""What chapters on orders of transport share: networks without the normalisation's Jacobian, and
medians in words."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lwcore.trace import Trace


def without_norm(trace: Trace) -> Trace:
    """A trace whose Jacobians leave out that of layer normalisation, the identity in its place.

    Gates and states stay those of the network.
    """
    cell = trace.recurrence
    altered: Any = copy.deepcopy(cell)
    altered.gates, altered.layernorm = cell.gates, False
    return replace(trace, recurrence=altered)


def span(values: ArrayLike, form: str = ".0f", never: str = "none") -> str:
    """A median over networks and, where they differ, the least and largest: ``"12 (9 to 15)"``.

    NaN counts as beyond all numbers, and is written as `never`.
    """
    numbers = np.nan_to_num(np.asarray(values, float), nan=np.inf)
    ends = np.median(numbers), numbers.min(), numbers.max()
    middle, low, high = (f"{end:{form}}" if np.isfinite(end) else never for end in ends)
    return middle if low == high else f"{middle} ({low} to {high})"
