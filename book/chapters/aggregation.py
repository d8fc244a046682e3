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

METHODS = ("mean", "likelihood", "median", "clipped mean")
_CHUNK = 2**21  # numbers drawn at a time
_BATCHES = 10  # independent repetitions, whose spread gives an interval


def estimates(values: Array, methods: Sequence[str], law: SymmetricStable | None = None) -> Array:
    """Estimate locations of rows of values, (..., N) → (methods, ...), by several methods.

    Values are clipped to the median ± 3 times half the interquartile range.
    ``"likelihood"`` is one Newton step from the median, as good as the maximum for large N.

    Args:
        methods: Some of `METHODS`.
        law: The law of the noise, which the likelihood needs.
    """
    count = values.shape[-1]
    if set(methods) - {"mean"}:
        low, median, high = np.quantile(values, (0.25, 0.5, 0.75), axis=-1, keepdims=True)

    def located(method: str) -> Array:
        if method == "mean":
            return values.mean(-1)
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
    """Simulate the shifts Δ whose signs the methods tell with error 0.1 from N sequences.

    Args:
        n: Number of sequences N; all methods are given the same.
        replicates: How many averages are simulated.
    """
    averages = np.empty((len(methods), replicates))
    n_at_once = max(1, _CHUNK // n)
    for start in range(0, replicates, n_at_once):
        block = averages[:, start : start + n_at_once]
        drawn = law.sample((block.shape[1], n), rng)
        block[:] = estimates(drawn, methods, law)
    # the law is symmetric: the 0.9-quantile of twice as many averages
    return np.quantile(np.abs(averages), 0.8, axis=1)


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
    """Measure exponents p in ``N ∝ Δ^(−p)`` by method, from slopes of log Δ on log N.

    95 % intervals are Student's, over independent batches. All methods see the same samples.

    Args:
        n_sequences: The numbers N.
        replicates: Simulated averages for each batch and N.
    """
    law = SymmetricStable(alpha)
    numbers = np.asarray(n_sequences)
    log_n = np.log(numbers)
    centred = log_n - log_n.mean()
    batches = []
    for _ in range(_BATCHES):
        shifts = [detectable_shifts(law, int(n), methods, replicates, rng) for n in numbers]
        batches.append(np.log(shifts))
    log_shifts = np.stack(batches)  # (batch, N, method)
    by_method = {}
    for place, method in enumerate(methods):
        log_shift = log_shifts[..., place]
        slopes = log_shift @ centred / (centred @ centred)  # −1/p, one a batch
        mean, low, high = student(slopes)
        by_method[method] = MeasuredExponent(
            exponent=float(-1 / mean),
            interval=(float(-1 / low), float(-1 / high)),
            shifts=np.exp(log_shift.mean(0)),
        )
    return by_method
