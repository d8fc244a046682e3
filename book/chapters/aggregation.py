"""Averages of sequences' numbers, and how fast each of them beats the noise down.

If an average's quantile falls as ``N^(−1/p)``, the number of sequences needed to tell the sign of a
shift Δ grows as ``Δ^(−p)``: p is the exponent that Eqs. (31)–(39) are about.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.stable import SymmetricStable
from lwcore.stats import student

Array = NDArray[np.float64]

METHODS = ("mean", "likelihood", "median", "clipped mean", "median of means")
_CHUNK = 2**21  # numbers drawn at a time
_BATCHES = 10  # independent repetitions, whose spread gives an interval


def estimates(values: Array, methods: Sequence[str], law: SymmetricStable | None = None) -> Array:
    """Locations of rows of values, (..., N) → (methods, ...), by several methods.

    Values are clipped to the median ± 3 times half the interquartile range; means are of 8 blocks.
    ``"likelihood"`` is one Newton step from the median, as good as the maximum for large N.
    """
    count = values.shape[-1]
    if set(methods) - {"mean", "median of means"}:
        low, median, high = np.quantile(values, (0.25, 0.5, 0.75), axis=-1, keepdims=True)

    def located(method: str) -> Array:
        if method == "mean":
            return values.mean(-1)
        if method == "median of means":
            return np.median([part.mean(-1) for part in np.array_split(values, 8, -1)], axis=0)
        if method == "median":
            return median[..., 0]
        if method == "clipped mean":
            reach = 3 * (high - low) / 2
            return np.clip(values, median - reach, median + reach).mean(-1)
        assert law is not None, "the likelihood needs the law of the noise"
        score = law.score(values - median + law.loc).sum(-1)
        return median[..., 0] - law.loc + score / (count * law.fisher_information())

    return np.stack([located(method) for method in methods])


def detectable_shifts(
    law: SymmetricStable, n: int, methods: Sequence[str], replicates: int, rng: np.random.Generator
) -> Array:
    """Shifts Δ whose signs the methods tell with error 0.1 from N of the same sequences."""
    found, rows = np.empty((len(methods), replicates)), max(1, _CHUNK // n)
    for start in range(0, replicates, rows):
        block = found[:, start : start + rows]
        block[:] = estimates(law.sample((block.shape[1], n), rng), methods, law)
    # the law is symmetric: the 0.9-quantile of twice as many averages
    return np.quantile(np.abs(found), 0.8, axis=1)


class MeasuredExponent(NamedTuple):
    """An exponent p with its interval, and the detectable shift (mean over batches) at each N."""

    exponent: float
    interval: tuple[float, float]
    shifts: Array


def measured_exponents(
    alpha: float,
    methods: Sequence[str],
    n_sequences: ArrayLike,
    rng: np.random.Generator,
    *,
    replicates: int = 400,
) -> dict[str, MeasuredExponent]:
    """Exponents p in ``N ∝ Δ^(−p)`` by method, from slopes of log Δ on log N, on the same samples.

    Replicates are simulated averages a batch and N; 95 % intervals are Student's, over batches.
    """
    law, numbers, found = SymmetricStable(alpha), np.asarray(n_sequences), {}
    log_n = np.log(numbers) - np.log(numbers).mean()
    how = methods, replicates, rng
    shifts = [[detectable_shifts(law, int(n), *how) for n in numbers] for _ in range(_BATCHES)]
    for method, log_shift in zip(methods, np.moveaxis(np.log(shifts), -1, 0), strict=True):
        slopes = log_shift @ log_n / (log_n @ log_n)  # −1/p, one a batch
        p, low, high = (float(-1 / slope) for slope in student(slopes))
        found[method] = MeasuredExponent(p, (low, high), np.exp(log_shift.mean(0)))
    return found
