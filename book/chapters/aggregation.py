"""Ways to average the sequences' numbers, and how fast each of them beats the noise down.

An estimator of the location tells the sign of a shift Δ with error ε as soon as Δ reaches its own
(1 − ε)-quantile at shift 0. If that quantile falls as ``N^(−1/p)``, the number of sequences needed
grows as ``Δ^(−p)``: p is the exponent that Eqs. (31)–(39) are about. It depends on who averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

METHODS = ("mean", "likelihood", "median", "clipped mean", "median of means")
_CLIP = 3.0  # half-width at which values are clipped, in units of half the interquartile range
_BLOCKS = 8  # blocks of the median of means
_CHUNK = 2**21  # numbers drawn at a time


def aggregate(
    samples: ArrayLike, method: str, law: SymmetricStable | None = None
) -> NDArray[np.float64]:
    """Estimate the location from each row of samples.

    All estimators move with the samples and scale with them.

    Args:
        samples: Shape (..., N), N at least 8.
        method: ``"mean"``; ``"median"``; ``"clipped mean"``, of values clipped to the median ± 3
            times half the interquartile range; ``"median of means"``, of 8 blocks in the order of
            the samples; ``"likelihood"``, one Newton step of the likelihood from the median, which
            is as good as its maximum for large N.
        law: The noise at location 0, needed by ``"likelihood"`` only.

    Returns:
        The estimates, shape (...).
    """
    if law is None and method == "likelihood":
        raise ValueError("law = None: the likelihood needs the law of the noise.")
    values = np.atleast_1d(np.asarray(samples, float))
    return estimates(values, (method,), law)[0]


def estimates(values: Array, methods: Sequence[str], law: SymmetricStable | None = None) -> Array:
    """Estimate the location from each row of values by several methods; what these share is
    computed once.

    Args:
        values: Shape (..., N).
        methods: Names from `METHODS`.
        law: The noise, for ``"likelihood"``.

    Returns:
        The estimates, shape (methods, ...).
    """
    count = values.shape[-1]
    if set(methods) - {"mean", "median of means"}:
        ordered = np.sort(values, axis=-1)
        low, median, high = (_between(ordered, share * (count - 1)) for share in (0.25, 0.5, 0.75))

    def located(method: str) -> Array:
        if method == "mean":
            return values.mean(-1)
        if method == "median of means":
            return np.median(
                [block.mean(-1) for block in np.array_split(values, _BLOCKS, axis=-1)], axis=0
            )
        if method == "median":
            return median[..., 0]
        if method == "clipped mean":
            reach = _CLIP * (high - low) / 2
            return np.clip(values, median - reach, median + reach).mean(-1)
        assert law is not None  # seen to above
        score = law.score(values - median + law.loc).sum(-1)
        return median[..., 0] - law.loc + score / (count * law.fisher_information())

    return np.stack([located(method) for method in methods])


def _between(ordered: Array, place: float) -> Array:
    """Read sorted rows at a place between two entries, by a straight line; keeps the last
    dimension."""
    below = int(place)
    return ordered[..., below : below + 1] + (place - below) * (
        ordered[..., below + 1 : below + 2] - ordered[..., below : below + 1]
    )


def detectable_shift(
    law: SymmetricStable,
    n_sequences: int,
    method: str,
    error: float,
    replicates: int,
    rng: np.random.Generator,
) -> float:
    """Find by simulation the shift whose sign a method tells with a given error from N sequences.

    Args:
        law: The noise, at location 0.
        n_sequences: N, at least 8.
        method: One of `METHODS`.
        error: ε in (0, 0.5).
        replicates: Number of simulated averages; the result is a quantile of twice as many, as the
            law is symmetric.
        rng: Source of randomness.

    Returns:
        The shift Δ, in the units of the law's scale.
    """
    return float(_detectable(law, n_sequences, (method,), error, replicates, rng)[0])


def _detectable(
    law: SymmetricStable,
    n_sequences: int,
    methods: Sequence[str],
    error: float,
    replicates: int,
    rng: np.random.Generator,
) -> Array:
    """Find the shift of `detectable_shift` for each method, from the same samples."""
    found = np.empty((len(methods), replicates))
    rows = max(1, _CHUNK // n_sequences)
    for start in range(0, replicates, rows):
        block = found[:, start : start + rows]
        block[:] = estimates(law.sample((block.shape[1], n_sequences), rng), methods, law)
    return np.quantile(np.abs(found), 1 - 2 * error, axis=1)


@dataclass(frozen=True)
class MeasuredExponent:
    """An exponent p, measured.

    Attributes:
        exponent: The estimate.
        interval: Its confidence interval.
        n_sequences: The numbers N at which shifts were measured.
        shifts: The detectable shift at each N, mean over batches, in units of the scale.
    """

    exponent: float
    interval: tuple[float, float]
    n_sequences: NDArray[np.int64]
    shifts: NDArray[np.float64]

    def __str__(self) -> str:
        """Write the estimate with its interval."""
        return f"{self.exponent:.2f} ({self.interval[0]:.2f} to {self.interval[1]:.2f})"


def measured_exponent(
    alpha: float,
    method: str,
    n_sequences: ArrayLike,
    rng: np.random.Generator,
    *,
    error: float = 0.1,
    replicates: int = 400,
    batches: int = 10,
    confidence: float = 0.95,
) -> MeasuredExponent:
    """Measure the exponent p in ``N ∝ Δ^(−p)`` of a method, from the slope of log Δ against log N.

    Args:
        alpha: Tail index of the noise in (1, 2].
        method: One of `METHODS`.
        n_sequences: Numbers N, at least two different ones, each at least 8.
        rng: Source of randomness.
        error: Detection error ε in (0, 0.5).
        replicates: Simulated averages a batch and N.
        batches: Independent repetitions of the whole; their spread gives the interval, at least 3.
        confidence: Level of the interval, in (0, 1).

    Returns:
        The exponent with its interval by Student's t over batches.
    """
    together = measured_exponents(
        alpha,
        (method,),
        n_sequences,
        rng,
        error=error,
        replicates=replicates,
        batches=batches,
        confidence=confidence,
    )
    return together[method]


def measured_exponents(
    alpha: float,
    methods: Sequence[str],
    n_sequences: ArrayLike,
    rng: np.random.Generator,
    *,
    error: float = 0.1,
    replicates: int = 400,
    batches: int = 10,
    confidence: float = 0.95,
) -> dict[str, MeasuredExponent]:
    """Measure the exponents of several methods, all of them on the same samples.

    Args:
        alpha: Tail index of the noise in (1, 2].
        methods: Names from `METHODS`.
        n_sequences: Numbers N, as for `measured_exponent`, and so what follows.
        rng: Source of randomness.
        error: Detection error ε.
        replicates: Simulated averages a batch and N.
        batches: Independent repetitions.
        confidence: Level of the intervals.

    Returns:
        The exponents with their intervals, by method.
    """
    names = list(methods)
    law = SymmetricStable(alpha)
    share = (1 + confidence) / 2
    numbers = np.asarray(n_sequences)
    if np.unique(numbers).size < 2:
        raise ValueError(
            f"n_sequences = {numbers.tolist()}: must hold at least two different numbers."
        )
    log_shifts = np.log(
        [
            [_detectable(law, int(n), names, error, replicates, rng) for n in numbers]
            for _ in range(batches)
        ]
    )
    log_n = np.log(numbers) - np.log(numbers).mean()
    found = {}
    for method, log_shift in zip(names, np.moveaxis(log_shifts, -1, 0), strict=True):
        slopes = log_shift @ log_n / (log_n @ log_n)  # −1/p, one a batch
        half_width = special.stdtrit(batches - 1, share) * slopes.std(ddof=1) / np.sqrt(batches)
        low, middle, high = (-1 / (slopes.mean() + side * half_width) for side in (-1, 0, 1))
        found[method] = MeasuredExponent(
            float(middle), (float(low), float(high)), numbers, np.exp(log_shift.mean(0))
        )
    return found
