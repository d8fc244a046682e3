"""How many sequences repeat others, as overlapping windows of one series do, scaled or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float

from lwcore.signatures import checked

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray
Codes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_DIGITS = 4  # of a ratio of differences, which scaling leaves as it is up to rounding
_FEWEST_VALUES = 3  # in a piece, and a quarter of its steps: else it is a flag, a level or padding
_BY_CHANCE = 0.1  # share of sequences that may repeat others
_BY_ITSELF = 0.05  # share of sequences that share their first piece with others, and then differ
_CLOCK = 1e-5  # of a column's deviation, below which a linear rule foretells the next step
_LARGEST = 1e100  # whose square is a number, too
_MOST_COLUMNS = 32  # that are looked at one by one
_MOST_NUMBERS = 2**22  # in these


@checked
def count_repeats(inputs: Float[Array, "B T D"]) -> int:
    """Count the sequences whose first half stands in another one, in some column.

    Columns are looked at one by one, as one that differs from window to window, a position or
    noise, hides that others repeat; then all of them together, and all flags. What repeats by
    itself is left out, as a clock, a calendar or a level: its pieces also stand at the same place
    in sequences that differ.
    """
    count, length, _ = inputs.shape
    steps = np.where(np.abs(inputs) < _LARGEST, inputs, 0.0)  # nor what is no number
    steps = steps[:, :, (steps != steps[:1]).any((0, 1))]
    if length // 2 < _FEWEST_VALUES:
        return 0
    # along a direction in which unlike steps have unlike numbers
    direction = np.random.default_rng(0).standard_normal(steps.shape[1:])
    wholes = _numbered((steps * direction).sum((1, 2)))
    does_repeat = np.zeros(count, dtype=bool)
    for place in _some_columns(steps):
        column = steps[:, :, place]
        if _goes_on_linearly(column):
            continue
        does_repeat |= _repeats(_numbered(column), length // 2, wholes)
        if (column != column.round()).any():
            does_repeat |= _repeats(_numbered(_ratios(column)), length // 2 - 2, wholes)
    if steps.shape[2] > 1:
        lowest, highest = steps.min((0, 1)), steps.max((0, 1))
        is_flag = ((steps == lowest) | (steps == highest)).all((0, 1))
        for is_in in (np.ones_like(is_flag), is_flag):
            together = steps[:, :, is_in] @ direction[0, is_in]
            does_repeat |= _repeats(_numbered(together), length // 2, wholes)
    n_repeats = int(does_repeat.sum())
    return n_repeats if n_repeats > _BY_CHANCE * count else 0


def _some_columns(steps: Float[Array, "B T D"]) -> list[int]:
    """Return the columns to look at: all, or so many that it takes seconds."""
    count, length, width = steps.shape
    most = min(_MOST_COLUMNS, max(1, _MOST_NUMBERS // (count * length)), width)
    return np.unique(np.linspace(0, width - 1, most).astype(int)).tolist() if width else []


def _goes_on_linearly(column: Float[Array, "B T"]) -> bool:
    """Say whether x(t) = a x(t − 1) + b x(t − 2) + c in all rows, as of lines and sines."""
    after = column[:, 2:].ravel()
    before = [column[:, 1:-1].ravel(), column[:, :-2].ravel(), np.ones_like(after)]
    known = np.stack(before, axis=1)
    rule, *_ = np.linalg.lstsq(known, after, rcond=None)
    return bool(np.abs(known @ rule - after).max() <= _CLOCK * after.std())


def _numbered(values: np.ndarray) -> Codes:
    """Return whole numbers from 0 on in the place of values, the same for equal ones."""
    return pd.factorize(values.ravel())[0].reshape(values.shape)


def _ratios(column: Float[Array, "B T"]) -> Float[Array, "B T-2"]:
    """Return ratios of successive differences, which scale and shift leave as they are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.diff(column, axis=1)
        ratios = changes[:, 1:] / changes[:, :-1]
        size = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(ratios))))
        rounded = np.round(ratios * size) / size
    return np.where(np.isfinite(rounded), rounded, 0.0)


def _repeats(codes: Codes, n_first: int, wholes: Codes) -> Mask:
    """Say of which rows so many first steps stand in another one; `wholes` number all inputs."""
    count = len(codes)
    if n_first < _FEWEST_VALUES:
        return np.zeros(count, dtype=bool)
    pieces = codes  # of some steps each, from every step on; next of up to twice as many
    n_steps = 1
    while n_steps < n_first:
        more = min(n_steps, n_first - n_steps)
        pieces = _numbered(pieces[:, :-more] * pieces.size + pieces[:, more:])
        n_steps += more
    first_steps = np.sort(codes[:, :n_first], axis=1)
    n_values = 1 + (np.diff(first_steps, axis=1) != 0).sum(1)
    is_telling = n_values >= max(_FEWEST_VALUES, n_first // 4)
    first = pd.Series(pieces[:, 0])
    n_at_same_place = pd.Series(wholes).groupby(first).transform("nunique")
    if (n_at_same_place > 1).mean() > _BY_ITSELF:
        return np.zeros(count, dtype=bool)
    rows = np.repeat(np.arange(count), pieces.shape[1])
    n_rows = pd.Series(rows).groupby(pieces.ravel()).nunique()
    return is_telling & (n_rows[pieces[:, 0]].to_numpy() > 1)
