"""Kullback–Leibler divergence of the two hypotheses, and local asymptotic normality (LAN), which approximates it by a square."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import generator, integer_in, one_of, real_in, sequence_of
from lwcore.bounds.complexity import rate_exponent
from lwcore.bounds.shift_family import standardised
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_STATISTICS = ("product", "mean")
_CHUNK = 1 << 20  # values drawn at a time
_LOGARITHMIC = 1e15  # beyond it KL grows as (α + 1) log h, exactly to rounding


def kl_divergence(shift: ArrayLike, alpha: float, scale: ArrayLike = 1.0, n_sequences: ArrayLike = 1, statistic: str = "product") -> Array:
    """Return KL(P₁‖P₀) between the laws with locations +Δ and −Δ, which lie 2Δ apart, in nats.

    The exact value of what Eqs. (32) and (54)–(56) bound. For N sequences (``"product"``) it is ``N KL₁(Δ/σ)``, linear in N for every α.
    For their mean (``"mean"``) it is ``KL₁(Δ N^(1 − 1/α)/σ)``, as the mean is again SαS, of scale ``σ N^(1/α − 1)``. KL₁ is
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
    """
    product = one_of("statistic", statistic, _STATISTICS) == "product"
    h, alpha, n, mean_h = standardised(shift, alpha, scale, n_sequences, whole=product)
    return n * _unit_divergence(alpha, h) if product else _unit_divergence(alpha, mean_h)


def _unit_divergence(alpha: float, h: Array) -> Array:
    """Return KL₁ between SαS laws of unit scale at ±h, any shape; h may be infinite."""
    if alpha == 2:
        return h * h
    return SymmetricStable(alpha).kl(2 * np.minimum(h, _LOGARITHMIC)) + (alpha + 1) * np.log(np.maximum(h, _LOGARITHMIC) / _LOGARITHMIC)


def lan_divergence(shift: ArrayLike, alpha: float, scale: ArrayLike = 1.0, n_sequences: ArrayLike = 1, rate: str = "optimal") -> Array:
    """Return the quadratic approximation ``½ I_α (2Δ/σ)² N^(2/p)`` of the divergence.

    Implements Eqs. (32) and (54)–(56) with their constant, I_α the Fisher information at unit scale, under the exponent p of a `rate`:

    * ``"optimal"``: p = 2, the limit of ``kl_divergence(..., statistic="product")``; the localisation is ``r_N = √N``.
    * ``"mean"``: p = α/(α − 1), the limit of ``statistic="mean"``.
    * ``"paper_v2"``: p = α, Eq. (32) as printed, ``c_α N^(2/α) (Δ/σ)²`` with ``c_α = 2 I_α``, the largest constant it could have at N = 1.
      It is the limit of neither unless α = 2.

    The true divergence is below it; `lan_range` says how far the two agree. The other arguments are those of `kl_divergence`.

    Returns:
        Array of the broadcast shape, in nats.
    """
    exponent = rate_exponent(alpha, rate)
    h, alpha, n, _ = standardised(shift, alpha, scale, n_sequences, whole=False)
    with np.errstate(over="ignore"):
        return 2 * SymmetricStable(alpha).fisher_information() * (h * n ** (1 / exponent)) ** 2


def lan_range(alpha: float, tolerance: float = 0.05) -> float:
    """Return how far the quadratic approximation holds: the Δ/σ at which the true divergence falls short of it by a given share of it.

    For one observation. For N sequences, ``"product"``, the range in Δ/σ is the same, whatever N; for their mean it shrinks as
    ``N^(1/α − 1)``.

    Args:
        alpha: Tail index α in (1, 2].
        tolerance: Allowed ``1 − KL/LAN``, in (0, 1). Below 1e-9 it is a matter of rounding.

    Returns:
        Δ/σ up to which the shortfall ``1 − KL/LAN`` is within the tolerance; infinite for ``alpha = 2``, where the approximation is exact.
    """
    return _lan_range(real_in("alpha", alpha, "(1, 2]"), real_in("tolerance", tolerance, "(0, 1)"))


@functools.lru_cache
def _lan_range(alpha: float, tolerance: float) -> float:
    if alpha == 2:
        return float("inf")
    quadratic = 2 * SymmetricStable(alpha).fisher_information()
    low, high = 1e-6, 1e6 / (1 - tolerance)  # 1 − KL/LAN rises from 0 to 1 between
    for _ in range(50):
        middle = np.sqrt(low * high)
        within = 1 - kl_divergence(middle, alpha) / (quadratic * middle**2) <= tolerance
        low, high = (middle, high) if within else (low, middle)
    return float(low)


class Expansion(NamedTuple):
    """The terms of Eq. (53) in simulated experiments, each of shape (replicates,).

    Attributes:
        log_ratio: The log-likelihood ratio of N values, of the location ``h/r_N`` against 0.
        central: Δ_N, the sum of the scores over r_N.
        remainder: What ``h Δ_N − ½ h² I_α`` leaves of the log-likelihood ratio.
    """

    log_ratio: Array
    central: Array
    remainder: Array


def lan_expansion(
    alpha: float, n_sequences: int, rng: np.random.Generator, *, h: float = 1.0, rate: str = "optimal", replicates: int = 1000
) -> Expansion:
    """Simulate the LAN expansion of the location of N values at unit scale, with the localisation ``r_N = N^(1/p)``.

    Implements Eq. (53), ``log dP_{h/r_N}/dP_0 = h Δ_N − ½ h² I_α + o(1)``, under P_0. For ``"optimal"``, ``r_N = √N``, Δ_N tends to a
    Gaussian of variance I_α and the remainder to 0. To leading order the log-likelihood ratio spreads by ``h √I_α N^(1/2 − 1/p)``: for
    ``"paper_v2"``, ``r_N = N^(1/α)``, that shrinks to nothing, as the two laws merge; for ``"mean"`` it grows without limit.

    Args:
        alpha: Tail index α in (1, 2].
        n_sequences: Number N ≥ 1 of independent values.
        rng: Source of randomness.
        h: Local parameter, in scales.
        rate: ``"optimal"``, ``"paper_v2"`` or ``"mean"``; names p.
        replicates: Number of experiments.

    Returns:
        The terms of the expansion.
    """
    return lan_expansions(alpha, n_sequences, rng, (rate,), h=h, replicates=replicates)[rate]


def lan_expansions(
    alpha: float, n_sequences: int, rng: np.random.Generator, rates: Sequence[str], *, h: float = 1.0, replicates: int = 1000
) -> dict[str, Expansion]:
    """Simulate the expansion of `lan_expansion` under several localisations, all of them in the same experiments.

    Args:
        alpha: Tail index α in (1, 2].
        n_sequences: Number N ≥ 1 of independent values.
        rng: Source of randomness.
        rates: Names of exponents p, as for `lan_expansion`.
        h: Local parameter, in scales.
        replicates: Number of experiments.

    Returns:
        The terms of the expansion, by rate.
    """
    generator("rng", rng)
    h = real_in("h", h, "(-inf, inf)")
    law, n = SymmetricStable(real_in("alpha", alpha, "(1, 2]")), integer_in("n_sequences", n_sequences, 1)
    roots = [n ** (1 / rate_exponent(alpha, rate)) for rate in sequence_of("rates", rates)]
    log_ratios, scores = np.empty((len(roots), integer_in("replicates", replicates, 1))), np.empty(replicates)
    for block in np.array_split(np.arange(replicates), -(-replicates * n // _CHUNK)):
        values = law.sample((block.size, n), rng)
        log_density, scores[block] = law.logpdf(values), law.score(values).sum(1)
        log_ratios[:, block] = [(law.logpdf(values - h / root) - log_density).sum(1) for root in roots]
    half = h**2 * law.fisher_information() / 2
    centrals = [scores / root for root in roots]
    return {
        rate: Expansion(log_ratio, central, log_ratio - h * central + half)
        for rate, log_ratio, central in zip(rates, log_ratios, centrals, strict=True)
    }
