"""How fast estimates shrink on measured numbers: estimators applied to resamples of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from book.chapters.aggregation import estimates

Array = NDArray[np.float64]

ESTIMATORS = ("mean", "clipped mean", "median", "median of means")
NUMBERS = (8, 16, 32, 64, 128, 256)  # a quarter of some thousand sequences at the most
# N at which locations and spreads are taken; `concentration` shows that spreads go from there as
# N^(−1/2)
ONE_NUMBER = 128
RESAMPLES = 200
_CHUNK = 2**17  # numbers drawn at a time, to stay in the cache


def resampled(
    values: ArrayLike, count: int, rng: np.random.Generator, methods: tuple[str, ...] = ESTIMATORS
) -> Array:
    """Estimate locations from resamples with replacement; all methods see the same ones.

    Drawn with replacement, N of n numbers are independent draws from a law close to the true one,
    for laws with a variance at every N, for others as long as N is much smaller than n. Disjoint
    blocks would leave four of N = 256 in a thousand numbers, and a spread of four values is not
    one.

    Args:
        values: One number a sequence, shape (..., sequences).
        count: N, at least 8.
        rng: Source of randomness.
        methods: Estimators, from `aggregation`.

    Returns:
        Shape (..., methods, resamples).
    """
    samples = np.atleast_1d(np.asarray(values, float))
    flat = samples.reshape(-1, samples.shape[-1])
    size = RESAMPLES * count
    found = np.empty((len(flat), len(methods), RESAMPLES))
    rows = max(1, _CHUNK // size)
    for start in range(0, len(flat), rows):
        block = flat[start : start + rows]
        places = (
            rng.integers(block.shape[1], size=(len(block), size))
            + block.shape[1] * np.arange(len(block))[:, None]
        )
        drawn = block.ravel()[places].reshape(len(block), RESAMPLES, count)
        found[start : start + rows] = np.moveaxis(estimates(drawn, methods), 0, 1)
    return found.reshape(*samples.shape[:-1], len(methods), RESAMPLES)


def concentration(
    values: ArrayLike,
    rng: np.random.Generator,
    methods: tuple[str, ...] = ESTIMATORS,
    error: float = 0.1,
) -> Array:
    """Measure how the spread of estimates shrinks: the slope of its logarithm against log N, which
    is −1/p.

    Args:
        values: One number a sequence, shape (..., sequences).
        rng: Source of randomness.
        methods: Estimators, from `aggregation`.
        error: ε in (0, 0.5); spread is the distance from the ε-quantile to the (1 − ε)-quantile.

    Returns:
        Slopes, shape (..., methods); NaN where all numbers are equal.
    """
    spreads = [spread(resampled(values, n, rng, methods), error) for n in NUMBERS]
    log_n = np.log(NUMBERS) - np.log(NUMBERS).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.tensordot(log_n, np.log(spreads), 1) / (log_n @ log_n)


def spread(estimates: Array, error: float) -> Array:
    """Distance between the ε- and the (1 − ε)-quantile over the last dimension, in standard
    deviations of a Gaussian with the same."""
    low, high = np.quantile(np.asarray(estimates, float), [error, 1 - error], axis=-1)
    return (high - low) / (2 * special.ndtri(1 - error))
