"""The steps at which values are used or made, from what was measured of their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lwcore.diagnose.trials import Steps, Times

_STRAY = 0.2  # share of entries that may be of an earlier step than their row: behind a ReLU, say


class Rows(NamedTuple):
    """Rows of a value's entries, along some of its axes, and the step of each.

    `times` holds steps, −1 where nothing moves a row. A row's step is the last one of its entries.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    times: Steps

    @property
    def order(self) -> tuple[int, ...]:
        """All axes, those of the rows first."""
        return (*self.axes, *(axis for axis in range(len(self.shape)) if axis not in self.axes))

    def spread(self) -> Steps:
        """The step of each entry, all in a line."""
        sizes = [size if axis in self.axes else 1 for axis, size in enumerate(self.shape)]
        return np.broadcast_to(self.times.reshape(sizes), self.shape).ravel()


def rows_of(times: Times, length: int) -> Rows | None:
    """Find the axes along which a value's step changes; None if nothing moves it."""
    measured = measured_rows(times)
    if measured is None:
        return None
    axes, low, high = measured
    return Rows(times.low.shape, axes, settled(low, high, length))


def measured_rows(times: Times) -> tuple[tuple[int, ...], Steps, Steps] | None:
    """Rows along the fewest axes that say when entries move, with bounds for their steps."""
    low = times.low
    if not (low >= 0).any():
        return None
    axes: list[int] = []
    while _stray(low, axes) > _STRAY:
        left = [axis for axis, size in enumerate(low.shape) if axis not in axes and size > 1]
        if not left:
            break
        axes.append(min(left, key=lambda axis: (_stray(low, [*axes, axis]), -low.shape[axis])))
    chosen = tuple(sorted(axes))
    others = tuple(axis for axis in range(low.ndim) if axis not in chosen)
    # the last step of a row, and as far as that one may reach
    return chosen, low.max(axis=others).ravel(), times.high.max(axis=others).ravel()


def _stray(low: Steps, axes: Sequence[int]) -> float:
    """Share of entries that move with an earlier step than others in their row."""
    others = tuple(axis for axis in range(low.ndim) if axis not in axes)
    known = low >= 0
    early = known & (low < low.max(axis=others, keepdims=True))
    return float(early.sum() / known.sum())


def settled(low: Steps, high: Steps, length: int) -> Steps:
    """Return one step for each row, in order, where only bounds may be known of some.

    Between rows whose step is exactly known, steps go on evenly; rows that nothing moves come
    before the first one that is moved, or behind the last.
    """
    exact = np.flatnonzero((low == high) & (low >= 0))
    known = np.flatnonzero(low >= 0)
    times = low.astype(np.int64).copy()
    if len(exact) and len(exact) < len(known):
        between = np.interp(known, exact, low[exact]).round().astype(np.int64)
        times[known] = np.clip(between, low[known], high[known])
    if not len(known):
        return times
    first, last = known[0], known[-1]
    pace = 1 if len(known) > 1 and times[known[1]] > times[first] else 0
    times[:first] = times[first] - pace * np.arange(first, 0, -1)
    times[last + 1 :] = times[last] + pace * np.arange(1, len(times) - last)
    for place in np.flatnonzero(
        (low < 0) & (np.arange(len(low)) > first) & (np.arange(len(low)) < last)
    ):
        times[place] = times[place - 1]
    return np.clip(times, 0, length - 1)


def later(own: Steps, joined: Steps) -> int:
    """By how many steps values wait, all alike, for the first data that is joined with them.

    In ``tanh(W x_t + U h)`` with the h of the step before, the use of U is at step t: each of its
    values is joined with data one step later, the last one, too. A state that waits for the next
    step's input is not, as the last one waits for none.
    """
    known = own >= 0
    if own.shape != joined.shape or not known.any() or (joined[known] < 0).any():
        return 0
    waits = {*(joined - own)[known].tolist()}
    return max(waits.pop(), 0) if len(waits) == 1 else 0
