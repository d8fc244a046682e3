"""How many sequences repeat others: overlapping windows of one series, scaled or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lwcore.signatures import checked

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray

_CHANCE = 0.01  # that any two sequences would repeat one another
_DIGITS = 4  # of a ratio of differences, which scaling leaves as it is up to rounding


@checked
def count_repeats(
    inputs: Float[Array, "B T D"], is_real: Bool[np.ndarray, "B T"] | None = None
) -> int:
    """Count the sequences that begin with half or more of another one's steps, in their order.

    0 where steps are so few of a kind that chance alone would do it. Windows that were scaled one
    by one are recognised by ratios of their differences. Steps that are not real are padding.
    """
    if is_real is None:
        is_real = np.ones(inputs.shape[:2], dtype=bool)
    plain = _repeats(_codes(inputs, is_real), is_real)
    if plain or inputs.shape[1] < 6:
        return plain
    ratios, is_known = _ratios(inputs)
    is_known &= is_real[:, 2:]
    return _repeats(_codes(ratios, is_known), is_known)


def _codes(steps: Float[Array, "B T D"], is_there: np.ndarray) -> np.ndarray:
    """Return a number for each step, the same for equal ones; a new one where there is none."""
    count, length, width = steps.shape
    vector = np.random.default_rng(0).standard_normal(width)
    codes = _numbered(np.nan_to_num(steps) @ vector)
    new = np.arange(codes.size).reshape(count, length) + codes.size
    return _numbered(np.where(is_there, codes, new))


def _numbered(values: np.ndarray) -> np.ndarray:
    """Return whole numbers from 0 on in the place of values, the same for equal ones."""
    return pd.factorize(values.ravel())[0].reshape(values.shape)


def _ratios(inputs: Float[Array, "B T D"]) -> tuple[np.ndarray, np.ndarray]:
    """Return ratios of successive differences, and where there are any."""
    changes = np.diff(inputs, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = changes[:, 1:] / changes[:, :-1]
        digits = np.floor(np.log10(np.abs(ratios)))
        size = 10.0 ** (_DIGITS - 1 - digits)
        rounded = np.round(ratios * size) / size
    is_known = np.isfinite(rounded)
    return np.where(is_known, rounded, 0.0), np.asarray(is_known.any(-1))


def _repeats(codes: np.ndarray, is_there: np.ndarray) -> int:
    """Count the rows of codes whose first half stands anywhere in another row."""
    if not is_there.any():
        return 0
    count, length = codes.shape
    half = max(1, length // 2)
    shares = np.bincount(codes[is_there]) / is_there.sum()
    # chance that two steps are equal, at all of half the steps, for any two places in any two rows
    log_equal = np.log(np.square(shares).sum())
    if 2 * np.log(count) + np.log(length) + half * log_equal > np.log(_CHANCE):
        return 0
    pieces = codes  # of some steps each, from every step on; next of up to twice as many
    n_steps = 1
    while n_steps < half:
        more = min(n_steps, half - n_steps)
        pieces = _numbered(pieces[:, :-more] * pieces.size + pieces[:, more:])
        n_steps += more
    rows = np.repeat(np.arange(count), pieces.shape[1])
    n_rows = pd.Series(rows).groupby(pieces.ravel()).nunique()
    return int((n_rows[pieces[:, 0]] > 1).sum())
