"""The steps at which values are used or made, from what was measured of their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lwcore.diagnose.trials import Steps, Times, next_starts

_STRAY = 0.2  # share of entries that may be of an earlier step than their row: behind a ReLU, say
_STEADY = 12  # pairs of sequences that must say that an entry is of an earlier step than its row
# Pairs that must have moved a row by its last step, if rows do not go evenly through the steps. A
# gate that skips steps may have skipped a later one so far. If that one is passed as often as those
# that were seen, so many pairs miss it once in a million.
SIGHTINGS = 20
_MANY_STEPS = 8  # that go evenly, which chance does not do
_LATER = 4  # later steps that are tried alone


class Rows(NamedTuple):
    """Rows of a value's entries, along some of its axes, and the step of each.

    Of keys (T, H) in attention the rows are along axis 0, and row k has the step k.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    times: Steps
    is_moved: Steps  # whether an input was found that moves a row
    are_told: bool = True  # whether each step is known, also where not all steps were tried

    def spread(self) -> Steps:
        """Return the step of each entry, all in a line."""
        others = _other_axes(len(self.shape), self.axes)
        rows = self.times.reshape([self.shape[axis] for axis in self.axes])
        return np.broadcast_to(np.expand_dims(rows, others), self.shape).ravel()


class Bounds(NamedTuple):
    """Rows along some axes, and between which steps each is moved last; −1 where nothing does.

    `seen` has in how many pairs of sequences that was so.
    """

    axes: tuple[int, ...]
    low: Steps
    high: Steps
    seen: Steps

    def shifted(self, steps: int) -> Bounds:
        """Return the same rows so many steps later."""
        is_moved = self.low >= 0
        low = np.where(is_moved, self.low + steps, -1)
        return self._replace(low=low, high=np.where(is_moved, self.high + steps, -1))

    def later(self, other: Bounds) -> Bounds:
        """Return the later of two steps of each row."""
        low = np.maximum(self.low, other.low)
        return self._replace(low=low, high=np.maximum(self.high, other.high))

    def with_more(self, other: Bounds) -> Bounds:
        """Return these rows, and others behind them."""
        parts = zip(self[1:], other[1:], strict=True)
        return Bounds(self.axes, *map(np.concatenate, parts))

    def go_evenly(self, length: int, n_behind: int) -> bool:
        """Say whether rows go evenly through the steps, up to the last or so many before it."""
        steps = settled(self.low, self.high, length)
        return not has_unknown(self) and _go_evenly(steps[self.low >= 0], length, n_behind)

    def are_sure(self, length: int, n_behind: int) -> bool:
        """Say whether rows go evenly through the steps, or each was seen often enough.

        Evenly is up to the last step, or to so many before it, as U h does.
        """
        return self.go_evenly(length, n_behind) or bool(self.seen.min() >= SIGHTINGS)


class Evidence(NamedTuple):
    """What is known so far of rows whose last steps are wanted.

    Each of `rows` must be told its step, also in a long sequence; `joins` only have to be sure.
    Rows that go evenly may end `n_behind` steps before the last one.
    """

    rows: Sequence[Bounds]
    joins: Sequence[Bounds]
    n_behind: int

    @property
    def are_told(self) -> bool:
        """Whether the step of each row is known, also where not all steps were tried."""
        return all(are_told(rows.low, rows.high) for rows in self.rows)

    def are_sure(self, length: int) -> bool:
        """Say whether the steps of all rows, and of what joins them, are known for sure."""
        every = [*self.rows, *self.joins]
        return all(rows.are_sure(length, self.n_behind) for rows in every)

    def later_starts(self, length: int) -> list[int]:
        """Return steps behind rows that go unevenly, from which on later steps are tried alone."""
        behind: set[int] = set()
        for rows in (*self.rows, *self.joins):
            if not rows.go_evenly(length, self.n_behind):
                behind.update((rows.high + 1).tolist())
        found = sorted(behind & {*range(1, length)})
        every = -(-len(found) // _LATER)
        return found[:: max(every, 1)]


class Sightings:
    """The last step that moves each entry of a value, and its rows, from pair to pair.

    With `splits`, entries that are steadily of an earlier step than others make a row of their own.
    A row that an earlier step always moves, and its last step in a share q of the sequences, needs
    that one pair differs there: of 512 trials all miss it with the chance (1 − 2q)^512, which is
    3·10⁻⁵ for q = 0.01 and 0.05 for q = 0.003. Then its step is too early.
    """

    def __init__(self, tried: Sequence[int], length: int, splits: bool = False) -> None:
        """Begin with no pairs."""
        self.tried = tried
        self.length = length
        self.splits = splits
        self.n_pairs = 0
        self.low: Steps = np.array(-1)
        self.is_steady: Steps = np.array(True)  # whether all pairs say the same
        self.bounds: Bounds | None = None

    def add(self, by_pair: Steps) -> None:
        """Add what some pairs of sequences say, (pairs, …)."""
        self._add_steps(by_pair)
        self._find_rows(by_pair)

    def add_later(self, by_pair: Steps) -> bool:
        """Add what pairs say of later steps alone, if any moves an entry; say if so."""
        known_or_later = np.maximum(by_pair, self.low)
        is_later = bool((known_or_later > self.low).any())
        if is_later:
            self._add_steps(known_or_later)
            self._find_rows(by_pair)
        return is_later

    def _find_rows(self, by_pair: Steps) -> None:
        """Find the rows anew, and count in how many pairs the last step of each has moved it."""
        times = Times(self.low, next_starts(self.low, self.tried, self.length))
        splits = self.splits and self.n_pairs >= _STEADY
        bounds = bounds_of(times, self.is_steady if splits else False)
        if bounds is not None:
            bounds = bounds._replace(seen=self._seen(bounds, by_pair))
        self.bounds = bounds

    def _add_steps(self, by_pair: Steps) -> None:
        """Take the later step of each entry, and note where pairs do not say the same."""
        low = by_pair.max(0)
        is_steady = (by_pair == low).all(0)
        if self.n_pairs:
            is_steady &= self.is_steady & (low == self.low)
            low = np.maximum(low, self.low)
        self.low = low
        self.is_steady = is_steady
        self.n_pairs += len(by_pair)

    def _seen(self, bounds: Bounds, by_pair: Steps) -> Steps:
        """Count the pairs in which a row's last step moved it: these, and those before them."""
        of_rows = np.moveaxis(by_pair, 0, -1)  # the axes of a value come first
        of_rows = of_rows.max(_other_axes(self.low.ndim, bounds.axes)).reshape(-1, len(by_pair)).T
        seen = (of_rows == bounds.low).sum(0)
        before = self.bounds
        if before is not None and before.axes == bounds.axes:
            seen += np.where(before.low == bounds.low, before.seen, 0)
        return seen

    @property
    def may_split(self) -> bool:
        """Whether more pairs may tell that some entries are steadily of an earlier step."""
        if not self.splits or self.bounds is None or self.n_pairs >= _STEADY:
            return False
        return bool(early_entries(self.low, self.bounds.axes).any())

    @property
    def rows(self) -> Rows | None:
        """Its rows; None if nothing moves it."""
        return None if self.bounds is None else _rows(self.low.shape, self.bounds, self.length)


def rows_of(times: Times, length: int) -> Rows | None:
    """Find the axes along which a value's step changes; None if nothing moves it."""
    bounds = bounds_of(times)
    return None if bounds is None else _rows(times.low.shape, bounds, length)


def _rows(shape: tuple[int, ...], bounds: Bounds, length: int) -> Rows:
    """Return a value's rows, with one step for each."""
    steps = settled(bounds.low, bounds.high, length).clip(min=0)
    told = are_told(bounds.low, bounds.high)
    return Rows(shape, bounds.axes, steps, bounds.low >= 0, told)


def bounds_of(times: Times, is_steady: Steps | bool = False) -> Bounds | None:
    """Find the fewest axes that say when entries move, and bounds for the step of each row.

    An axis is added as long as many entries move with an earlier step than others in their row, or
    one that is known to do so steadily.
    """
    low = times.low
    n_moved = int((low >= 0).sum())
    if not n_moved:
        return None
    axes: list[int] = []
    early = early_entries(low, axes)
    while early.sum() > _STRAY * n_moved or (early & is_steady).any():
        best = None
        fewest = (0, 0)
        for axis in _other_axes(low.ndim, axes):
            n_early = int(early_entries(low, [*axes, axis]).sum())
            rank = (n_early, -low.shape[axis])  # of two that say the same, the longer one
            if low.shape[axis] > 1 and (best is None or rank < fewest):
                best = axis
                fewest = rank
        if best is None:
            break
        axes.append(best)
        early = early_entries(low, axes)
    others = _other_axes(low.ndim, axes)
    # the last step of a row, and as far as that one may reach
    last = low.max(axis=others).ravel()
    seen = np.zeros_like(last)
    return Bounds(tuple(sorted(axes)), last, times.high.max(axis=others).ravel(), seen)


def _other_axes(n_axes: int, axes: Sequence[int]) -> tuple[int, ...]:
    """Return all axes that are not among these."""
    return tuple(axis for axis in range(n_axes) if axis not in axes)


def early_entries(low: Steps, axes: Sequence[int]) -> Steps:
    """Say which entries move with an earlier step than others in their row along some axes."""
    others = _other_axes(low.ndim, axes)
    return (low >= 0) & (low < low.max(axis=others, keepdims=True))


def settled(low: Steps, high: Steps, length: int) -> Steps:
    """Return one step for each row, in order, where only bounds may be known of some.

    Between rows whose step is exactly known, steps go on evenly. So they do where nothing moves a
    row: between others, before the first one that is moved, and behind the last. What would come
    before the first step of the data, as tokens that are learned, has none: −1.
    """
    times = low.astype(np.int64)
    moved = np.flatnonzero(low >= 0)
    if not len(moved):
        return times
    exact = moved[low[moved] == high[moved]]
    if len(exact):
        between = np.interp(moved, exact, low[exact]).round().astype(np.int64)
        times[moved] = np.clip(between, low[moved], high[moved])
    first, last = moved[0], moved[-1]
    pace = times[moved[1]] - times[first] if len(moved) > 1 else 0  # steps from row to row
    for row in np.flatnonzero(low < 0):
        if row < first:
            earlier = times[first] - pace * (first - row)
            times[row] = earlier if pace else -1
        elif row > last:
            times[row] = times[last] + int(pace > 0) * (row - last)
        else:
            times[row] = round(np.interp(row, moved, times[moved]))
    return np.clip(times, -1, length - 1)


def are_told(low: Steps, high: Steps) -> bool:
    """Say whether the step of each row is known: measured, or in a stretch that leaves one choice.

    In long sequences only some steps are tried. Rows between two whose step is measured are told if
    these are of one step, or each row is of the next step.
    """
    moved = np.flatnonzero(low >= 0)
    is_exact = low[moved] == high[moved]
    exact = moved[is_exact]
    if is_exact.all():
        return True
    if not len(exact) or exact[0] != moved[0] or exact[-1] != moved[-1]:
        return False
    return _steps_are_even(exact, low[exact])


def _steps_are_even(rows: Steps, steps: Steps) -> bool:
    """Say whether between any two rows there is no other, no step, or one step for each row."""
    n_rows = np.diff(rows)
    n_steps = np.diff(steps)
    is_even = (n_rows == 1) | (n_steps == 0) | (n_steps == n_rows)
    return bool(is_even.all())


def _go_evenly(times: Steps, length: int, n_behind: int) -> bool:
    """Say whether steps of rows go evenly up to the last one, or up to so many before it.

    Those of a plain loop, of patches, or of several iterations in each step do. Others may, for a
    gate that skips some steps, be earlier than on other data, and so may few steps by chance.
    """
    steps, counts = np.unique(times, return_counts=True)
    if len(steps) <= 1:
        return bool((steps == length - 1).all())
    n_missing = length - 1 - steps[-1]
    # a patch at either end may be shorter; not one that ends before the last step
    alike = counts[1:] if n_missing else counts[1:-1]
    is_even = len({*np.diff(steps).tolist()}) == 1 and len({*alike.tolist()}) <= 1
    return is_even and len(steps) >= _MANY_STEPS and bool(n_missing <= n_behind)


def has_unknown(bounds: Bounds) -> bool:
    """Say whether nothing moves a row between others, and these do not tell its step.

    They do where both are of one step, or each row is of the next step.
    """
    if len(bounds.axes) > 1:  # single entries, of which some never move
        return False
    moved = np.flatnonzero(bounds.low >= 0)
    return not _steps_are_even(moved, bounds.low[moved])


def waits_of(own: Bounds, joined: Bounds) -> Steps | None:
    """Return by how many steps values wait for the first data that joins them, row by row.

    In ``tanh(W x_t + U h)`` with the h of the step before, U h waits for one step. None where one
    row, such as a state after the last step, is joined with nothing. −1 where steps are not exactly
    known, as in a long sequence.
    """
    is_moved = own.low >= 0
    if not is_moved.any() or (joined.low[is_moved] < 0).any():
        return None
    is_exact = is_moved & (own.low == own.high) & (joined.low == joined.high)
    return np.where(is_exact, joined.low - own.low, -1)
