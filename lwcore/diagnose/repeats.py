"""How many sequences repeat others: overlapping windows of one series, scaled or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray

_CHANCE = 0.01  # that any two sequences would repeat one another
_DIGITS = 4  # of a ratio of differences, which scaling leaves as it is up to rounding


def repeated(inputs: Float[Array, "B T D"], real: Bool[np.ndarray, "B T"] | None = None) -> int:
    """Return how many sequences begin with half or more of another one's steps, in their order.

    None where steps are so few of a kind that chance alone would do it. Windows that were scaled
    one by one are recognised by ratios of their differences. Steps that are not `real` are padding.
    """
    there = np.ones(inputs.shape[:2], dtype=bool) if real is None else real
    plain = _repeats(_codes(inputs, there), there)
    if plain or inputs.shape[1] < 6:
        return plain
    ratios, known = _ratios(inputs)
    known &= there[:, 2:]
    return _repeats(_codes(ratios, known), known)


def _codes(steps: Float[Array, "B T D"], there: Bool[np.ndarray, "B T"]) -> np.ndarray:
    """A number for each step, the same for equal ones; a new one for each that is not there."""
    count, length, width = steps.shape
    vector = np.random.default_rng(0).standard_normal(width)
    codes = pd.factorize((np.nan_to_num(steps) @ vector).ravel())[0].reshape(count, length)
    own = np.arange(codes.size).reshape(codes.shape) + codes.size
    return pd.factorize(np.where(there, codes, own).ravel())[0].reshape(count, length)


def _ratios(inputs: Float[Array, "B T D"]) -> tuple[np.ndarray, np.ndarray]:
    """Ratios of successive differences, and where there are any."""
    apart = np.diff(inputs, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = apart[:, 1:] / apart[:, :-1]
        size = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(ratios))))
        rounded = np.round(ratios * size) / size
    known = np.isfinite(rounded)
    return np.where(known, rounded, 0.0), np.asarray(known.any(-1))


def _repeats(codes: np.ndarray, there: np.ndarray) -> int:
    count, length = codes.shape
    half = max(1, length // 2)
    if not there.any():
        return 0
    often = np.bincount(codes[there]) / there.sum()
    chance = 2 * np.log(count) + np.log(length) + half * np.log(np.square(often).sum())
    if chance > np.log(_CHANCE):
        return 0
    while (steps := length - codes.shape[1] + 1) < half:  # of pieces; next to twice as many
        more = min(steps, half - steps)
        both = codes[:, :-more] * codes.size + codes[:, more:]
        codes = pd.factorize(both.ravel())[0].reshape(both.shape)
    owners = np.repeat(np.arange(count), codes.shape[1])
    held = pd.Series(owners).groupby(codes.ravel()).nunique()
    return int((held[codes[:, 0]] > 1).sum())
