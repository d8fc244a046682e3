"""Kullback–Leibler divergence of the two hypotheses, and the quadratic approximation that local asymptotic normality (LAN) gives."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import one_of, real_in
from lwcore.bounds.complexity import rate_exponent
from lwcore.bounds.shift_family import log_ratio, standardised
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_STATISTICS = ("product", "mean")
_LOGARITHMIC = 1e15  # beyond it KL grows as (α + 1) log h, exactly to rounding


def kl_divergence(shift: ArrayLike, alpha: float, scale: ArrayLike = 1.0, n_sequences: ArrayLike = 1, statistic: str = "product") -> Array:
    """Return KL(P₁‖P₀) between the laws with locations +Δ and −Δ, which lie 2Δ apart, in nats.

    The exact value of what Eqs. (32) and (54)–(56) bound. For N sequences (``"product"``) it is ``N KL₁(Δ/σ)``, linear in N for every α.
    For their mean (``"mean"``) it is ``KL₁(Δ N^(1 − 1/α)/σ)``, as the mean is again SαS, of scale ``σ N^(1/α − 1)``. KL₁, by quadrature, is
    quadratic near zero, with a curvature given by the Fisher information, and for ``alpha < 2`` grows as ``(α + 1) log(Δ/σ)`` far out; for
    a Gaussian it is ``(Δ/σ)²``. Both directions, KL(P₁‖P₀) and KL(P₀‖P₁), have the same value. With `SymmetricStable.kl`, whose argument is
    the whole separation: ``kl_divergence(shift, alpha) == SymmetricStable(alpha).kl(2 * shift)``.

    Args:
        shift: Δ ≥ 0; any shape that broadcasts with scale and number.
        alpha: Tail index α in (1, 2].
        scale: Scale σ > 0 of one sequence's statistic, in the units of the shift.
        n_sequences: Number N ≥ 1 of independent sequences; whole for ``"product"``.
        statistic: ``"product"`` for all N values, ``"mean"`` for their average alone.

    Returns:
        Divergence ≥ 0 of the broadcast shape; below 1e-300, that is for ``shift/scale`` below 1e-150, it underflows.

    Raises:
        TypeError: If an argument is not made of real numbers.
        ValueError: If one is not finite or out of range, or the shapes do not broadcast.
    """
    product = one_of("statistic", statistic, _STATISTICS) == "product"
    h, alpha, n, mean_h = standardised(shift, alpha, scale, n_sequences, whole=product)
    unit = np.vectorize(lambda value: _unit_divergence(alpha, float(value)), otypes=[float])
    return n * unit(h) if product else unit(mean_h)[()]


@functools.lru_cache(maxsize=4096)
def _unit_divergence(alpha: float, h: float) -> float:
    """Return KL₁ between SαS laws of unit scale at ±h."""
    if h == 0 or alpha == 2:
        return h * h
    near = min(h, _LOGARITHMIC)
    return log_ratio(alpha, near).divergence() + (alpha + 1) * float(np.log(h / near))


def lan_divergence(shift: ArrayLike, alpha: float, scale: ArrayLike = 1.0, n_sequences: ArrayLike = 1, rate: str = "optimal") -> Array:
    """Return the quadratic approximation ``½ I_α (2Δ/σ)² N^(2/p)`` of the divergence.

    Implements Eqs. (54)–(56) with their constant, I_α the Fisher information at unit scale, under the exponent p of a `rate`:

    * ``"optimal"``: p = 2, the limit of ``kl_divergence(..., statistic="product")``; the localisation is ``r_N = √N``.
    * ``"mean"``: p = α/(α − 1), the limit of ``statistic="mean"``.
    * ``"paper_v2"``: p = α, Eq. (32) as printed, ``c_α N^(2/α) (Δ/σ)²`` with ``c_α = 2 I_α``, the largest constant it could have at N = 1.
      It is the limit of neither unless α = 2.

    The true divergence is below it; `lan_range` says how far the two agree.

    Args:
        shift: Δ ≥ 0; any shape that broadcasts with scale and number.
        alpha: Tail index α in (1, 2].
        scale: Scale σ > 0 of one sequence's statistic.
        n_sequences: Number N ≥ 1 of independent sequences.
        rate: ``"optimal"``, ``"mean"`` or ``"paper_v2"``.

    Returns:
        Array of the broadcast shape, in nats.

    Raises:
        TypeError: If an argument is not made of real numbers.
        ValueError: If one is not finite or out of range, or the shapes do not broadcast.
    """
    exponent = rate_exponent(alpha, rate)
    h, alpha, n, _ = standardised(shift, alpha, scale, n_sequences, whole=False)
    with np.errstate(over="ignore"):
        return 2 * SymmetricStable(alpha).fisher_information() * (h * n ** (1 / exponent)) ** 2


def lan_range(alpha: float, tolerance: float = 0.05) -> float:
    """Return how far the quadratic approximation holds: the Δ/σ at which it exceeds the true divergence by a given relative error.

    For one observation. For N sequences, ``"product"``, the range in Δ/σ is the same, whatever N; for their mean it shrinks as
    ``N^(1/α − 1)``.

    Args:
        alpha: Tail index α in (1, 2].
        tolerance: Allowed ``1 − KL/LAN``, in (0, 1). Below 1e-9 it is a matter of rounding.

    Returns:
        Δ/σ up to which the relative error is within the tolerance; infinite for ``alpha = 2``, where the approximation is exact.

    Raises:
        TypeError: If an argument is not a real number.
        ValueError: If one is out of range.
    """
    alpha, tolerance = real_in("alpha", alpha, "(1, 2]"), real_in("tolerance", tolerance, "(0, 1)")
    if alpha == 2:
        return float("inf")
    quadratic = 2 * SymmetricStable(alpha).fisher_information()
    low, high = np.log(1e-6), np.log(1e6) - np.log1p(-tolerance)  # 1 − KL/LAN rises from 0 to 1 between
    for _ in range(50):
        middle = (low + high) / 2
        h = float(np.exp(middle))
        within = 1 - log_ratio(alpha, h).divergence() / (quadratic * h**2) <= tolerance
        low, high = (middle, high) if within else (low, middle)
    return float(np.exp(low))
