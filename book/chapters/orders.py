"""What chapters on orders of transport share: networks without the normalisation's Jacobian, and
medians in words."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lwcore.printing import Bracket, Unit, printed
from lwcore.trace import Trace


def without_norm(trace: Trace) -> Trace:
    """A trace whose Jacobians leave out that of layer normalisation, the identity in its place.

    Gates and states stay those of the network.
    """
    cell = trace.recurrence
    altered: Any = copy.deepcopy(cell)
    altered.gates, altered.layernorm = cell.gates, False
    return replace(trace, recurrence=altered)


def span(values: ArrayLike, unit: str = Unit.NUMBER, never: str = "none") -> str:
    """Print a median over networks and, where they differ, their range: ``"12 (range 9–15)"``.

    NaN counts as beyond all numbers, and is written as `never`.
    """
    numbers = np.nan_to_num(np.asarray(values, float), nan=np.inf)
    ends = float(np.median(numbers)), float(numbers.min()), float(numbers.max())
    return printed(*ends, unit=unit, bracket=Bracket.RANGE).replace("∞", never)
