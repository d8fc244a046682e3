"""What an observation tells about the sign B: mutual information, and the error that Fano's inequality allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import one_of, real_in, require
from lwcore.bounds.divergence import kl_divergence
from lwcore.bounds.shift_family import broadcast, log_ratio, standardised
from lwcore.stable.standard import panel_rule

Array = NDArray[np.float64]

_LARGEST = 1e100  # at shifts beyond it the sign is known, to rounding


def mutual_information(
    shift: ArrayLike,
    alpha: float,
    scale: ArrayLike = 1.0,
    n_sequences: ArrayLike = 1,
    statistic: str = "product",
    route: str = "fourier",
) -> Array:
    """Return I(B; observation) in nats, B the equiprobable sign of the location ±Δ.

    The exact value of what Eq. (33) bounds: of all N sequences (``"product"``), or of their mean alone (``"mean"``). It lies between 0 and
    ``log 2``, and below ``KL(P₁‖P₀)/4``, which it approaches for small shifts. There are two routes:

    * ``"fourier"``: ``I = log 2 − E₁[log(1 + e^(−S))]``, S the log-likelihood ratio of all N values. Under the law with density
      ``√(p₊ p₋)/ρ`` for each value, S is a sum of N symmetric terms with characteristic function ``ψ^N``, whence (Parseval)
      ``I = ½ ∫_0^∞ [1 − (ρ ψ(t))^N] / ((¼ + t²) cosh πt) dt``. Deterministic and exact, whatever N.
    * ``"mixture"``: Implements Eq. (57), ``½ KL(P₁‖M) + ½ KL(P₀‖M)`` with ``M = ½(P₀ + P₁)``, by quadrature over the observation. For one
      observation only: a single sequence, or the mean.

    The other arguments are those of `kl_divergence`.

    Returns:
        Array of the broadcast shape.
    """
    product = one_of("statistic", statistic, ["product", "mean"]) == "product"
    mixture = one_of("route", route, ["fourier", "mixture"]) == "mixture"
    h, alpha, n, mean_h = standardised(shift, alpha, scale, n_sequences, whole=product)
    if not product or alpha == 2:  # the mean of Gaussians is all there is to know
        h, n = mean_h, np.ones_like(n)
    if mixture:
        require("n_sequences", n, n == 1, "1 for route='mixture' with statistic='product'")
    unit = np.vectorize(_by_mixture if mixture else _by_fourier, otypes=[float])
    return unit(alpha, h, n)[()]


def _by_fourier(alpha: float, h: float, n: float) -> float:
    if h == 0:
        return 0.0
    if alpha == 2:  # L = h x, and the tilted law is the law itself
        log_affinity, spread = -(h**2) / 4, np.sqrt(2) * h
    else:
        table = log_ratio(alpha, min(h, _LARGEST))
        log_affinity, spread = table.log_affinity(), np.sqrt(n * table.tilted_variance())
    t, weight = graded_rule(1 / max(spread, 4.0), 0.5, 14.0)  # beyond 14 the kernel is rounding
    log_psi, sign = (-((h * t) ** 2), np.ones_like(t)) if alpha == 2 else table.tilted_cosine(t)
    lost = np.expm1(n * (log_affinity + log_psi))  # (ρ|ψ|)^N − 1
    gained = np.where(sign ** np.mod(n, 2) < 0, 2 + lost, -lost)
    return float(min(np.sum(weight * gained / ((0.25 + t**2) * np.cosh(np.pi * t))) / 2, np.log(2)))


def _by_mixture(alpha: float, h: float, n: float) -> float:
    """Evaluate Eq. (57) for one observation: the mean over x > 0 of log 2 less the entropy of the sign given x."""
    if h == 0:
        return 0.0
    table = log_ratio(alpha, min(h, _LARGEST))
    both = table.mass * (1 + np.exp(-table.log_ratio))
    return float(np.sum(both * _entropy_deficit(np.tanh(table.log_ratio / 2))))


def graded_rule(first: float, widest: float, end: float, order: int = 24) -> tuple[Array, Array]:
    """Return nodes and weights on (0, end) of Gauss–Legendre panels that start with a width and widen by half each, up to a limit."""
    edges, width = [0.0], first
    while edges[-1] < end:
        edges.append(min(edges[-1] + width, end))
        width = min(1.5 * width, widest)
    return panel_rule(np.array(edges), order)


def binary_entropy(probability: ArrayLike) -> Array:
    """Return ``h_b(p) = −p log p − (1 − p) log(1 − p)`` in nats, the entropy in Eq. (34).

    Args:
        probability: p in [0, 1], any shape.

    Returns:
        Entropy in [0, log 2], of that shape.
    """
    (p,) = broadcast(probability=probability)
    require("probability", p, (p >= 0) & (p <= 1), "in [0, 1]")
    return -special.xlogy(p, p) - special.xlog1py(1 - p, -p)


def _entropy_deficit(contrast: Array) -> Array:
    """Return ``log 2 − h_b((1 − x)/2)`` for a contrast x in [0, 1], to full relative accuracy next to 0, where it is ``x²/2``."""
    inner = np.minimum(contrast, 0.5)
    near = inner * np.arctanh(inner) + np.log1p(-(inner**2)) / 2
    return np.where(contrast <= 0.5, near, np.log(2) - binary_entropy((1 - contrast) / 2))


def fano_error(information: ArrayLike) -> Array:
    """Return the error probability that no test can undercut if the observation carries at most so much information.

    Inverts the binary Fano inequality ``h_b(P_e) ≥ log 2 − I``, the one behind Eq. (34): from an *upper* bound on I follows a lower bound
    on P_e and a *necessary* N. From a lower bound on I, as in Eq. (33), nothing follows here; `hellman_raviv_error` takes one.

    Args:
        information: Information I(B; observation), or an upper bound on it such as ``kl_divergence(...)/4``, in nats; ≥ 0, any shape. Of
            ``log 2`` and more, everything is possible.

    Returns:
        The least error P_e in [0, ½], of that shape; accurate relative to itself near 0, as far as ``log 2 − I`` is, and so is ``½ − P_e``.
    """
    (information,) = broadcast(information=information)
    require("information", information, information >= 0, "0 or more")
    left = np.log(2) - information
    low, high = np.full(information.shape, np.log(1e-170)), np.full(information.shape, np.log(750.0))
    for _ in range(70):  # bisection in log s, where P_e = 1/(1 + e^s): resolves both ends
        middle = (low + high) / 2
        s = np.exp(middle)
        below = np.where(information < 0.3, _entropy_deficit(np.tanh(s / 2)) <= information, binary_entropy(special.expit(-s)) >= left)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(left > 0, special.expit(-np.exp(low)), 0.0)[()]


def hellman_raviv_error(information: ArrayLike) -> Array:
    """Return the error probability that the best test has at most, if the observation carries at least so much information.

    Hellman and Raviv's ``P_e ≤ ½ (1 − I/log 2)`` for equiprobable signs: given the observation, the best test errs with probability
    ``q = min(p, 1 − p)``, and ``h_b(q) ≥ 2 q log 2``, a chord of a concave function; the mean over observations is
    ``log 2 − I ≥ 2 P_e log 2``. So from a *lower* bound on I follows a *sufficient* N, which Eq. (37) calls N(ℓ).

    Args:
        information: Information I(B; observation), or a lower bound on it, in nats; in [0, log 2], any shape.

    Returns:
        The largest error P_e in [0, ½], of that shape.
    """
    (information,) = broadcast(information=information)
    require("information", information, (information >= 0) & (information <= np.log(2)), "in [0, log 2]")
    return (0.5 * (1 - information / np.log(2)))[()]


def necessary_sequences(shift: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1) -> Array:
    """Return a number of sequences below which no test whatever has an error of at most ε.

    Implements Eq. (34) in the direction that Fano's inequality has: ``I ≤ N KL₁/4``, KL₁ the exact divergence of one sequence, so that
    ``N ≥ 4 (log 2 − h_b(ε))/KL₁``. The exponent in σ/Δ is 2 for small shifts, whatever α. The proof of ``I ≤ KL/4``: both sides are
    f-divergences, and the ratio of the second derivatives of their generators is ``t/(2 (1 + t)²) ≤ ⅛`` against the symmetrised KL.
    The arguments are those of `least_sequences`, the number that a given test needs.

    Returns:
        Number of sequences, real, of the broadcast shape; infinite for a shift of 0.
    """
    error = real_in("error", error, "(0, 0.5)")
    with np.errstate(divide="ignore", over="ignore"):
        return 4 * _entropy_deficit(np.asarray(1 - 2 * error)) / kl_divergence(shift, alpha, scale)
