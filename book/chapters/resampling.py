"""Resampling with replacement: how fast estimates shrink on measured numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from book.chapters.aggregation import estimates

Array = NDArray[np.float64]

ESTIMATORS = ("mean", "clipped mean", "median", "median of means")
NUMBERS = (8, 16, 32, 64, 128, 256)  # a quarter of some thousand sequences at the most
RESAMPLES = 200
_CHUNK = 2**17  # numbers drawn at a time, to stay in the cache


def resampled(
    values: ArrayLike, count: int, rng: np.random.Generator, methods: tuple[str, ...] = ESTIMATORS
) -> Array:
    """Locations from the same resamples, (..., sequences) → (..., methods, resamples)."""
    samples = np.atleast_1d(np.asarray(values, float))
    flat, size = samples.reshape(-1, samples.shape[-1]), RESAMPLES * count
    found = np.empty((len(flat), len(methods), RESAMPLES))
    rows = max(1, _CHUNK // size)
    for start in range(0, len(flat), rows):
        block = flat[start : start + rows]
        places = rng.integers(block.shape[1], size=(len(block), size))
        places += block.shape[1] * np.arange(len(block))[:, None]
        drawn = block.ravel()[places].reshape(len(block), RESAMPLES, count)
        found[start : start + rows] = np.moveaxis(estimates(drawn, methods), 0, 1)
    return found.reshape(*samples.shape[:-1], len(methods), RESAMPLES)


def concentration(
    values: ArrayLike, rng: np.random.Generator, methods: tuple[str, ...] = ESTIMATORS
) -> Array:
    """Slopes −1/p of log spread on log N, (..., sequences) → (..., methods); NaN without spread."""
    spreads = [spread(resampled(values, n, rng, methods)) for n in NUMBERS]
    log_n = np.log(NUMBERS) - np.log(NUMBERS).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.tensordot(log_n, np.log(spreads), 1) / (log_n @ log_n)


def spread(estimates: Array) -> Array:
    """Distance from the tenth to the ninth decile, in standard deviations of a Gaussian."""
    low, high = np.quantile(estimates, [0.1, 0.9], axis=-1)
    return (high - low) / (2 * special.ndtri(0.9))
