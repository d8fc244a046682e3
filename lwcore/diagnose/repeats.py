"""How many sequences repeat others: overlapping windows of one series, scaled and squashed or not.

Columns are looked at one by one, as one that differs from window to window, a position or noise,
hides that others repeat. What repeats by itself is no such sign: a clock, a flag that is mostly 0,
a level that stays. So pieces count only if they are too much of a surprise for chance. How large a
surprise each step is, is estimated from the step before and from how long it has stayed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lwcore.signatures import checked

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray
Codes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_CHANCE = 0.01  # that any two sequences would repeat one another
_DIGITS = 4  # of a ratio of differences, which scaling leaves as it is up to rounding
_FEWEST_FOR_RATIOS = 6  # steps
_COMMON = 1 / 200  # share of steps above which it is known what follows on a value
_MOSTLY = 0.9  # share of steps above which they are taken to be all alike
_MIXED = 10  # windows in which what follows on a value is taken to be counted beforehand
_FEW = 0.05  # share of sequences that may have the same ratios by chance
_STEP = 1e-4  # of a column's deviation, to which differences are rounded
_CLOCK = 1e-5  # of a column's deviation, below which a linear rule foretells the next step
_LARGEST = 1e100  # whose square is a number, too
_MOST_COLUMNS = 32  # that are looked at one by one
_MOST_NUMBERS = 2**22  # in these


@checked
def count_repeats(
    inputs: Float[Array, "B T D"], is_real: Bool[np.ndarray, "B T"] | None = None
) -> int:
    """Count the sequences that begin with half or more of another one's steps, in some column.

    Chance, clocks, flags and columns that are the same in all sequences do not count. Windows that
    were scaled one by one, and squashed by tanh, a logistic function or exp, are recognised by
    ratios of their differences. Steps that are not real are padding.
    """
    if is_real is None:
        is_real = np.ones(inputs.shape[:2], dtype=bool)
    if inputs.shape[1] < 2 or not is_real.any():
        return 0
    steps = np.where(np.abs(inputs) < _LARGEST, inputs, 0.0)  # nor what is no number
    steps = steps[:, :, ~_are_same(steps, is_real)]
    does_repeat = np.zeros(len(steps), dtype=bool)
    clocks = []
    for place in _some_columns(steps):
        column = steps[:, :, place]
        if _goes_on_linearly(column, is_real):
            clocks.append(place)
        else:
            does_repeat |= _column_repeats(column, is_real)
    steps = np.delete(steps, clocks, axis=2)
    for together in (steps, steps[:, :, _are_flags(steps)]):
        if together.shape[2] > 1:
            codes = _codes(together @ _directions(together), is_real)
            surprise = _surprise(codes, is_real)
            does_repeat |= _repeats(codes, is_real, surprise, codes.shape[1] // 2)
    return int(does_repeat.sum())


def _some_columns(steps: Float[Array, "B T D"]) -> list[int]:
    """Return the columns to look at: all, or so many that it takes seconds."""
    count, length, width = steps.shape
    most = min(_MOST_COLUMNS, max(1, _MOST_NUMBERS // (count * length)), width)
    return np.unique(np.linspace(0, width - 1, most).astype(int)).tolist() if width else []


def _directions(steps: Float[Array, "B T D"]) -> Float[Array, " D"]:
    """Return a vector along which unlike steps have unlike numbers."""
    return np.random.default_rng(0).standard_normal(steps.shape[2])


def _column_repeats(column: Float[Array, "B T"], is_real: Mask) -> Mask:
    """Say which rows of a column repeat others, as they are or up to a scale of each."""
    half = column.shape[1] // 2
    codes = _codes(column, is_real)
    surprise = _surprise(codes, is_real)
    changes = np.diff(column, axis=1) / (_STEP * max(column[is_real].std(), 1e-300))
    both_real = is_real[:, 1:] & is_real[:, :-1]
    of_changes = _surprise(_codes(changes.round(), both_real), both_real)
    # what follows may be known by its value, or by its difference, as in a count of steps
    surprise[:, 1:] = np.minimum(surprise[:, 1:], of_changes)
    does_repeat = _repeats(codes, is_real, surprise, half)
    if does_repeat.any() or half < _FEWEST_FOR_RATIOS // 2:
        return does_repeat
    for unsquashed in _unsquashed(column):
        ratios, is_known = _ratios(unsquashed)
        is_known &= is_real[:, 2:]
        if not is_known.any() or _are_same(ratios, is_known, _MOSTLY):
            continue
        codes = _codes(ratios, is_known)
        # to have the same ratios is no more of a surprise than to have the same values
        of_ratios = np.minimum(_surprise(codes, is_known), surprise[:, 2:])
        scaled = _repeats(codes, is_known, of_ratios, half - 2)
        if scaled.mean() > _FEW:  # else ratios are equal by chance, as in orbits of one rule
            does_repeat |= scaled
    return does_repeat


def _are_same(steps: Float[Array, "B T ..."], is_there: Mask, least: float = 1.0) -> Mask:
    """Say which columns have the same value in all rows, at each step or at this share of them."""
    longest = steps[is_there.sum(1).argmax()]
    return np.asarray((steps == longest)[is_there].mean(0) >= least)


def _are_flags(steps: Float[Array, "B T D"]) -> Mask:
    """Say which columns take two values."""
    lowest, highest = steps.min((0, 1)), steps.max((0, 1))
    return np.asarray(((steps == lowest) | (steps == highest)).all((0, 1)))


def _goes_on_linearly(column: Float[Array, "B T"], is_real: Mask) -> bool:
    """Say whether x(t) = a x(t − 1) + b x(t − 2) + c in all rows, as of lines and sines."""
    if column.shape[1] < 3:
        return False
    are_real = is_real[:, 2:] & is_real[:, 1:-1] & is_real[:, :-2]
    after = column[:, 2:][are_real]
    size = after.std() if len(after) else 0.0
    if size == 0:
        return True
    before = [column[:, 1:-1][are_real], column[:, :-2][are_real], np.ones_like(after)]
    known = np.stack(before, axis=1)
    rule, *_ = np.linalg.lstsq(known, after, rcond=None)
    return bool(np.abs(known @ rule - after).max() < _CLOCK * size)


def _codes(values: np.ndarray, is_there: Mask) -> Codes:
    """Return a number for each step, the same for equal ones; a new one where there is none."""
    codes = _numbered(values)
    new = np.arange(codes.size).reshape(codes.shape) + codes.size
    return _numbered(np.where(is_there, codes, new))


def _numbered(values: np.ndarray) -> Codes:
    """Return whole numbers from 0 on in the place of values, the same for equal ones."""
    return pd.factorize(values.ravel())[0].reshape(values.shape)


def _unsquashed(column: Float[Array, "B T"]) -> Iterator[Array]:
    """Yield a column, and what it would be before a function that squashes."""
    yield column
    lowest, highest = column.min(), column.max()
    with np.errstate(divide="ignore", invalid="ignore"):
        if lowest >= 0:
            yield np.log(column)
        if lowest >= 0 and highest <= 1:
            yield np.arctanh(2 * column - 1)
        elif lowest >= -1 and highest <= 1:
            yield np.arctanh(column)


def _ratios(column: Float[Array, "B T"]) -> tuple[Array, Mask]:
    """Return ratios of successive differences, and where there are any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.diff(column, axis=1)
        ratios = changes[:, 1:] / changes[:, :-1]
        digits = np.floor(np.log10(np.abs(ratios)))
        size = 10.0 ** (_DIGITS - 1 - digits)
        rounded = np.round(ratios * size) / size
    is_known = np.isfinite(rounded)
    return np.where(is_known, rounded, 0.0), is_known


def _surprise(codes: Codes, is_there: Mask) -> Float[Array, "B T"]:
    """Return −log of the chance of each step: of the first by its share, of others by those before.

    It stays with a chance that depends on how long it has stayed. Else what comes is drawn by its
    share; behind a common value, of which windows of one series have no more than they have steps,
    it is counted.
    """
    count, length = codes.shape
    n_there = max(int(is_there.sum()), 1)
    share = np.bincount(codes.ravel()) / n_there
    surprise = np.empty((count, length))
    surprise[:, 0] = -np.log(share[codes[:, 0]])
    if length == 1:
        return surprise
    before, after = codes[:, :-1], codes[:, 1:]
    is_common = ((share > _COMMON) & (share * n_there > length))[before]
    does_stay = before == after
    kinds = np.where(is_common, before, codes.max() + 1)
    stay = _mean_by(_numbered(kinds * 2.0 * length + _steps_stayed(does_stay)), does_stay)
    drawn = np.where(is_common, _counted(before, after, share), share[after])
    with np.errstate(divide="ignore"):
        surprise[:, 1:] = -np.log(np.where(does_stay, stay, (1 - stay) * drawn))
    return surprise


def _counted(before: Codes, after: Codes, share: Float[Array, " codes"]) -> Float[Array, "B T"]:
    """Return the chance of what comes behind a value, where it moves, counted in all rows.

    If it is nearly always the same, as in a clock. Else such counts are few in windows that
    overlap, and the share is mixed in, as if it had been counted in so many more windows.
    """
    moves = before != after
    n_moves = np.bincount(before.ravel(), weights=moves.ravel(), minlength=len(share))
    pairs = _numbered(before * float(len(share)) + after)
    n_same = np.bincount(pairs.ravel())[pairs]
    most = np.zeros(len(share))
    np.maximum.at(most, before[moves], n_same[moves])
    is_foretold = (most > _MOSTLY * n_moves)[before]
    n_mixed = np.where(is_foretold, 0, _MIXED * before.shape[1])
    return (n_same + n_mixed * share[after]) / np.maximum(n_moves[before] + n_mixed, 1)


def _steps_stayed(does_stay: Mask) -> Codes:
    """Return for how many steps each has stayed as it is; those of a row's first value apart."""
    count, length = does_stay.shape
    stayed = np.zeros((count, length), dtype=np.int64)
    is_first = np.ones(count, dtype=bool)
    for step in range(1, length):
        is_first &= does_stay[:, step - 1]
        stayed[:, step] = np.where(does_stay[:, step - 1], stayed[:, step - 1] + 1, 0)
        stayed[is_first, step] = length + step
    stayed[:, 0] = length
    return stayed


def _mean_by(kinds: Codes, values: Mask) -> Float[Array, "B T"]:
    """Return the mean of the values of each kind."""
    sums = np.bincount(kinds.ravel(), weights=values.ravel())
    return (sums / np.bincount(kinds.ravel()))[kinds]


def _repeats(codes: Codes, is_there: Mask, surprise: Float[Array, "B T"], n_first: int) -> Mask:
    """Say of which rows so many first steps stand in another row, and are no chance."""
    count, length = codes.shape
    n_first = max(1, n_first)
    # of the steps of a piece, for any two places in any two rows
    least = 2 * np.log(count) + np.log(length) - np.log(_CHANCE)
    is_telling = is_there[:, :n_first].all(1) & (surprise[:, :n_first].sum(1) > least)
    if not is_telling.any():
        return is_telling
    pieces = codes  # of some steps each, from every step on; next of up to twice as many
    n_steps = 1
    while n_steps < n_first:
        more = min(n_steps, n_first - n_steps)
        pieces = _numbered(pieces[:, :-more] * pieces.size + pieces[:, more:])
        n_steps += more
    rows = np.repeat(np.arange(count), pieces.shape[1])
    n_rows = pd.Series(rows).groupby(pieces.ravel()).nunique()
    is_elsewhere = n_rows[pieces[:, 0]].to_numpy() > 1
    return is_telling & is_elsewhere
