"""Tied samples. A stable law has a density: a value comes twice only where numbers are rounded.

Rounding gives neighbouring values about equally often. A value that comes far more often than its
neighbours is an atom: zeros of a unit that is off, prices that did not change, clipped gradients.
Where values come twice and their neighbours are no nearer than chance puts them, samples were
copied: they are fewer than they seem.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.ndimage import minimum_filter1d

from lwcore.stable.standard import Array

QUANTILES = (0.05, 0.25, 0.75, 0.95)  # which McCulloch's estimator takes
_SHOWN = 10  # times that an atom of a share of 1/√n, which sampling error hides, shows at first
_ROWS = 4096  # of samples that are looked at then, or one in 32: draws are independent
_REPEATS = 3  # of a value, from which on it counts as tied
_NEIGHBOURS = 16  # samples on either side that say how often a value can be expected
_CHANCE = 1e-3  # that any of the values comes so often by rounding
_HINT = 5  # pairs among the samples that are looked at first, from which on all are
_COPIED = 0.25  # share of samples whose value comes again, from which on they may be copies
_SURPLUS = 4  # times the share that rounding explains


class Ties(NamedTuple):
    """Tied samples, an entry for each column."""

    share: Array  # of samples at values that come too often for rounding
    value: Array  # the commonest of these; NaN where there is none, or all come about as often
    step: Array  # between values at the quartiles, where these are tied; 0 elsewhere
    run: (
        Array  # share of samples with the same value at a quantile p, over √(p(1 − p)); the largest
    )


def find_ties(columns: Array) -> Ties:
    """Return the ties in columns of samples."""
    found = np.zeros((4, columns.shape[1]))
    found[1] = np.nan
    first_look = _every(columns, math.isqrt(len(columns)) * _SHOWN)
    again = np.any(first_look[_REPEATS - 1 :] == first_look[: 1 - _REPEATS], axis=0)
    looked_at = np.flatnonzero(again)
    ordered = _every(columns[:, looked_at], max(_ROWS, len(columns) // 32))
    for place, c in enumerate(looked_at):
        column = ordered[:, place]
        values, first, counts = np.unique(column, return_index=True, return_counts=True)
        if values.size > 1:
            found[:2, c] = _find_atoms(column, values, first, counts)
            found[2:, c] = _find_rounding(column, values, counts)
    for c in _with_pairs(columns):
        if found[0, c] == 0:
            found[0, c] = _find_copies(columns[:, c])
    return Ties(*found)


def _with_pairs(columns: Array) -> NDArray[np.intp]:
    """Return the columns in which pairs are seen among some of the samples.

    The samples are drawn: copies may stand side by side, or far from each other at equal distances.
    """
    total = len(columns)
    rows = math.isqrt(total) * _SHOWN
    drawn = columns
    if 4 * rows < total:
        drawn = columns[np.random.default_rng(0).choice(total, rows, replace=False)]
    ordered = np.sort(drawn, axis=0)
    pairs = np.sum(ordered[1:] == ordered[:-1], axis=0)
    return np.flatnonzero(pairs >= _HINT)


def _find_copies(column: Array) -> float:
    """Return the share of samples whose value comes again, if rounding does not explain it.

    Rounding ties a sample as often as it puts the next value one step away. The step is the least
    gap nearby. Between values that are not rounded, few gaps are so small.
    """
    values, counts = np.unique(column, return_counts=True)
    if values.size < 2 * _NEIGHBOURS:
        return 0.0
    share = float(counts[counts > 1].sum() / column.size)
    if share < _COPIED:
        return 0.0
    gaps: Array = np.diff(values)
    steps = minimum_filter1d(gaps, 2 * _NEIGHBOURS + 1)
    by_rounding = float(np.mean(gaps < 1.5 * steps))
    return share if share > _SURPLUS * by_rounding else 0.0


def _every(columns: Array, rows: int) -> Array:
    """Return evenly spaced samples, about as many as rows, in order."""
    return np.sort(columns[:: -(-len(columns) // max(rows, _REPEATS))], axis=0)


def _find_atoms(
    ordered: Array, values: Array, first: NDArray[np.intp], counts: NDArray[np.intp]
) -> tuple[float, float]:
    """Return the share of samples in excess at atoms, and the commonest atom.

    A value can be expected as often as its neighbours have samples in a stretch as wide as the step
    of the rounding, of which the gaps between values are multiples. Of the two sides the one with
    more samples counts, and twice the least gap nearby: floats are finer towards 0.
    """
    tied = np.flatnonzero(counts >= _REPEATS)
    total, last = ordered.size, values.size - 1
    gaps: Array = np.diff(values)
    expected, others, part = np.zeros((3, tied.size))
    for j, i in enumerate(map(int, tied)):
        near = gaps[max(i - _NEIGHBOURS, 0) : i + _NEIGHBOURS]
        around = (gaps[max(i - 1, 0)] + gaps[min(i, last - 1)]) / 2
        width = min(around, 2 * near.min())
        start, end = first[i], first[i] + counts[i]
        lower, upper = int(start) - _NEIGHBOURS, int(end) - 1 + _NEIGHBOURS
        before = np.searchsorted(values, ordered[max(lower, 0)])
        after = np.searchsorted(values, ordered[min(upper, total - 1)])
        sides = [
            (start - first[before], values[i] - values[before]),
            (first[after] + counts[after] - end, values[after] - values[i]),
        ]
        for samples, stretch in sides:
            if samples and samples * width / stretch > expected[j]:
                expected[j] = samples * width / stretch
                others[j], part[j] = samples, width / (width + stretch)
    by_chance = special.betainc(counts[tied], others + 1, part)  # P(so many or more of all these)
    atoms = (by_chance * values.size < _CHANCE) & (counts[tied] > 2 * expected)
    if not atoms.any():
        return 0.0, np.nan
    excess = (counts[tied] - expected)[atoms]
    return float(excess.sum() / total), float(values[tied[atoms]][excess.argmax()])


def _find_rounding(ordered: Array, values: Array, counts: NDArray[np.intp]) -> tuple[float, float]:
    """Return the step between values at the quartiles, and the largest of the runs at quantiles."""
    quantiles = ordered[[int(p * ordered.size) for p in QUANTILES]]
    at = np.searchsorted(values, quantiles)
    runs = np.where(counts[at] >= _REPEATS, counts[at], 0)
    gaps: Array = np.diff(values)
    last = values.size - 1
    steps = (gaps[np.maximum(at - 1, 0)] + gaps[np.minimum(at, last - 1)]) / 2
    tied_steps = np.where(runs > 0, steps, 0)
    p = np.array(QUANTILES)
    shares = runs / ordered.size / np.sqrt(p * (1 - p))
    return float(tied_steps[1:-1].max()), float(shares.max())
