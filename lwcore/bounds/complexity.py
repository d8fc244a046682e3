"""How many independent sequences it takes to see a lag, and how large the envelope must be for a given number.

A lag is seen when the sign of its expected gradient can be told: one of two laws SαS(location ±Δ, scale σ) is to be named from N
independent sequences, where ``Δ = f(ℓ) m̄(ℓ)`` is the mean of the matched statistic, Eqs. (29)–(31).

Who averages the N values learns at another rate than who uses them well, hence the choice of ``rate``:

* ``"mean"``: the sign of the sample mean. Its scale is ``σ N^(1/α − 1)``, so the exponent is ``κ_α = α/(α − 1)`` (v3 of the paper and
  later). The error is known exactly, for every N.
* ``"optimal"``: the likelihood ratio. SαS location families have a finite Fisher information, so the exponent is 2 for every α. The
  constant is the one of large N (equivalently of Δ small against σ).
* ``"paper_v2"``: the exponent α printed in v1 and v2. No test can reach it for ``alpha < 2``, as N sequences hold at most ``N KL₁/4``
  on the sign; having no constant, it borrows the one of ``"mean"``.

At ``alpha = 2`` all three are the same.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import one_of, real_in, require
from lwcore.bounds.shift_family import broadcast
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_RATES = ("mean", "optimal", "paper_v2")


def rate_exponent(alpha: float, rate: str = "mean") -> float:
    """Return the exponent p in ``N ∝ (σ/Δ)^p``.

    Implements Eq. (31) in its exponent, which is that of Eq. (37) too, as each version of the paper, and a likelihood test, has it.

    Args:
        alpha: Tail index α in (1, 2].
        rate: ``"mean"`` for α/(α − 1), ``"optimal"`` for 2, ``"paper_v2"`` for α; see the head of this module.

    Returns:
        The exponent; at least 2 for ``"mean"``, at most 2 for ``"paper_v2"``.

    Examples:
        >>> rate_exponent(1.5), rate_exponent(1.5, "optimal"), rate_exponent(1.5, "paper_v2")
        (3.0, 2.0, 1.5)
    """
    alpha = real_in("alpha", alpha, "(1, 2]")
    return {"mean": alpha / (alpha - 1), "optimal": 2.0, "paper_v2": alpha}[one_of("rate", rate, _RATES)]


def sample_complexity(
    envelope: ArrayLike, alignment: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1, rate: str = "mean"
) -> Array:
    """Return N(ℓ), the number of independent sequences at which the sign of a lag's gradient is told with a given error.

    Implements Eqs. (37) and (58), ``N = (C σ_α/(m̄ f))^p``, with the exact constant in place of Fano's unknown one:
    ``C = F_α⁻¹(1 − ε)`` for ``"mean"`` and, for want of its own, ``"paper_v2"`` (F_α the law of unit scale), and
    ``C = Φ⁻¹(1 − ε)/√I_α`` for ``"optimal"`` (I_α the Fisher information at unit scale). With the number rounded up, the sign test on the
    mean has an error of at most ε, whatever N.

    Args:
        envelope: Envelope f ≥ 0; any shape that broadcasts with the next two.
        alignment: Mean alignment m̄, signed along the hypothesised direction. Where it is zero or negative there is nothing to detect.
        scale: Scale σ_α > 0 of the statistic of one sequence, in the units of ``envelope · alignment``.
        alpha: Tail index α in (1, 2]; one for all entries.
        error: Probability ε of naming the wrong sign, in (0, 0.5).
        rate: ``"mean"``, ``"optimal"`` or ``"paper_v2"``; see the head of this module.

    Returns:
        Number of sequences, real (not rounded; below 1 where a single sequence is more than enough), of the broadcast shape; infinite
        where envelope or alignment leaves no signal, or where it exceeds the range of a float.

    Examples:
        Half the envelope costs four times the sequences in Gaussian noise, and eight times those at α = 1.5:

        >>> print(sample_complexity([0.1, 0.05], alignment=1, scale=1, alpha=2).round())
        [ 328. 1314.]
        >>> needed = sample_complexity([0.1, 0.05], alignment=1, scale=1, alpha=1.5)
        >>> print((needed[1] / needed[0]).round(6))
        8.0
    """
    envelope, alignment, scale = broadcast(envelope=envelope, alignment=alignment, scale=scale)
    require("envelope", envelope, envelope >= 0, "0 or more")
    require("scale", scale, scale > 0, "above 0")
    exponent = rate_exponent(alpha, rate)
    log_shift = _log(envelope) + _log(alignment)  # logarithms, for products and powers may leave the range of a float
    with np.errstate(over="ignore"):
        return np.exp(exponent * (_log_constant(alpha, error, rate) + np.log(scale) - log_shift))


def detection_threshold(
    n_sequences: ArrayLike, alignment: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1, rate: str = "mean"
) -> Array:
    """Return ε_th, the least envelope that N sequences detect.

    Implements Eq. (35), ``ε_th = C σ_α/(m̄ N^(1/p))``, the inverse of `sample_complexity`, whose other arguments it shares: ``f ≥ ε_th``
    where ``N(ℓ) ≤ N``, with ``n_sequences`` N > 0 of any shape that broadcasts.

    Returns:
        Envelope values of the broadcast shape, in the units of ``scale/alignment``; infinite where the alignment is zero or negative.

    Examples:
        >>> threshold = detection_threshold(1000, alignment=1, scale=1, alpha=2)
        >>> print(threshold.round(4))
        0.0573
        >>> print(sample_complexity(threshold, alignment=1, scale=1, alpha=2).round(6))
        1000.0
    """
    with np.errstate(over="ignore"):
        return np.exp(log_detection_threshold(n_sequences, alignment, scale, alpha, error, rate))


def log_detection_threshold(
    n_sequences: ArrayLike, alignment: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1, rate: str = "mean"
) -> Array:
    """Return the logarithm of `detection_threshold`, which takes the same arguments; it neither overflows nor underflows."""
    n_sequences, alignment, scale = broadcast(n_sequences=n_sequences, alignment=alignment, scale=scale)
    require("n_sequences", n_sequences, n_sequences > 0, "above 0")
    require("scale", scale, scale > 0, "above 0")
    exponent = rate_exponent(alpha, rate)
    return _log_constant(alpha, error, rate) + np.log(scale) - _log(alignment) - np.log(n_sequences) / exponent


def _log_constant(alpha: float, error: float, rate: str) -> float:
    """Return log C, C the ratio Δ/σ that a single sequence needs (by extrapolation, for the rates that hold at large N only)."""
    error = real_in("error", error, "(0, 0.5)")
    if rate == "optimal":
        return float(np.log(-special.ndtri(error)) - np.log(SymmetricStable(alpha).fisher_information()) / 2)
    return _log_quantile(alpha, error)


@functools.cache
def _log_quantile(alpha: float, error: float) -> float:
    """Return log F_α⁻¹(1 − ε); kept, as many lags share one α."""
    return float(np.log(-SymmetricStable(alpha).ppf(error)))


def _log(value: Array) -> Array:
    """Return the logarithm, −∞ where the value is zero or negative: no signal."""
    return np.log(value, where=value > 0, out=np.full(value.shape, -np.inf))
