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

    # share of samples at values that come too often for rounding
    share: Array
    # the commonest of these; NaN where there is none, or all come about as often
    value: Array
    # between values at the quartiles, where these are tied; 0 elsewhere
    step: Array
    # share of samples with the same value at a quantile p, over √(p(1 − p)); the largest
    run: Array


class _Values(NamedTuple):
    """The different values of one column of samples, in order."""

    ordered: Array  # the samples
    values: Array
    first: NDArray[np.intp]  # place of a value's first sample among the ordered
    counts: NDArray[np.intp]
    gaps: Array  # between neighbouring values


def find_ties(columns: Array) -> Ties:
    """Return the ties in columns of samples, of shape (samples, columns).

    Most columns have none, and sorting all samples takes longer than a fit by quantiles. So few
    samples are looked at first, and more only of columns in which some of these are tied.
    """
    n_columns = columns.shape[1]
    ties = Ties(
        share=np.zeros(n_columns),
        value=np.full(n_columns, np.nan),
        step=np.zeros(n_columns),
        run=np.zeros(n_columns),
    )
    few = _evenly_spaced(columns, math.isqrt(len(columns)) * _SHOWN)
    repeated = few[_REPEATS - 1 :] == few[: 1 - _REPEATS]
    suspect = np.flatnonzero(repeated.any(axis=0))
    more = _evenly_spaced(columns[:, suspect], max(_ROWS, len(columns) // 32))
    for c, ordered in zip(suspect, more.T, strict=True):
        values, first, counts = np.unique(ordered, return_index=True, return_counts=True)
        if values.size > 1:
            samples = _Values(ordered, values, first, counts, np.diff(values))
            ties.share[c], ties.value[c] = _find_atoms(samples)
            ties.step[c], ties.run[c] = _find_rounding(samples)
    for c in _columns_with_pairs(columns):
        if ties.share[c] == 0:
            ties.share[c] = _find_copies(columns[:, c])
    return ties


def _evenly_spaced(columns: Array, rows: int) -> Array:
    """Return about so many of each column's samples, evenly spaced, in order of their size.

    Draws are independent: which ones are taken does not matter.
    """
    stride = -(-len(columns) // max(rows, _REPEATS))
    return np.sort(columns[::stride], axis=0)


def _columns_with_pairs(columns: Array) -> NDArray[np.intp]:
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


def _find_atoms(samples: _Values) -> tuple[float, float]:
    """Return the share of samples in excess at atoms, and the commonest atom.

    An atom comes more than twice as often as its neighbours let expect, and so often that chance
    puts as many there in one column of a thousand only.
    """
    ordered, values, _, counts, _ = samples
    tied = np.flatnonzero(counts >= _REPEATS)
    if tied.size == 0:
        return 0.0, np.nan
    expected, neighbours, part = np.array([_expect(samples, i) for i in tied.tolist()]).T
    observed = counts[tied]
    # P(so many or more of all these fall on the value), a binomial tail
    by_chance = special.betainc(observed, neighbours + 1, part)
    is_atom = (by_chance * values.size < _CHANCE) & (observed > 2 * expected)
    if not is_atom.any():
        return 0.0, np.nan
    excess = (observed - expected)[is_atom]
    commonest = tied[is_atom][excess.argmax()]
    return float(excess.sum() / ordered.size), float(values[commonest])


def _expect(samples: _Values, i: int) -> tuple[float, float, float]:
    """Return how often value `i` can be expected, by how many neighbours, and its part of theirs.

    A value can be expected as often as its neighbours have samples in a stretch as wide as the step
    of the rounding, of which the gaps between values are multiples. Of the two sides the one with
    more samples counts, and twice the least gap nearby: floats are finer towards 0. The part is
    that of the step in the stretch of value and neighbours together.
    """
    ordered, values, first, counts, gaps = samples
    last_gap = gaps.size - 1
    gaps_nearby = gaps[max(i - _NEIGHBOURS, 0) : i + _NEIGHBOURS]
    gap_around = (gaps[max(i - 1, 0)] + gaps[min(i, last_gap)]) / 2
    width = min(gap_around, 2 * gaps_nearby.min())

    start = first[i]
    end = start + counts[i]
    lowest = np.searchsorted(values, ordered[max(start - _NEIGHBOURS, 0)])
    highest = np.searchsorted(values, ordered[min(end - 1 + _NEIGHBOURS, ordered.size - 1)])
    below = start - first[lowest]
    above = first[highest] + counts[highest] - end
    sides = [(below, values[i] - values[lowest]), (above, values[highest] - values[i])]

    expected = neighbours = part = 0.0
    for count, stretch in sides:
        if count and count * width / stretch > expected:
            expected = count * width / stretch
            neighbours = count
            part = width / (width + stretch)
    return expected, neighbours, part


def _find_rounding(samples: _Values) -> tuple[float, float]:
    """Return the step between values at the quartiles, and the largest of the runs at quantiles.

    See `Ties`. A run is what a quantile can move within when samples are rounded.
    """
    ordered, values, _, counts, gaps = samples
    p = np.array(QUANTILES)
    quantiles = ordered[(p * ordered.size).astype(int)]
    i = np.searchsorted(values, quantiles)
    runs = np.where(counts[i] >= _REPEATS, counts[i], 0)
    steps = (gaps[np.maximum(i - 1, 0)] + gaps[np.minimum(i, gaps.size - 1)]) / 2
    tied_steps = np.where(runs > 0, steps, 0)
    run_shares = runs / ordered.size / np.sqrt(p * (1 - p))
    return float(tied_steps[1:-1].max()), float(run_shares.max())
