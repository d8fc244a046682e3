"""The probability of naming the wrong sign, exactly, for three tests: sign of the mean, likelihood ratio, sign of the median."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import one_of, real_in
from lwcore.bounds.complexity import sample_complexity
from lwcore.bounds.information import graded_rule
from lwcore.bounds.shift_family import log_ratio, log_upper_tail, standardised
from lwcore.stable import SymmetricStable
from lwcore.stable.standard import standard_law

Array = NDArray[np.float64]

_TESTS = ("mean", "likelihood", "median")
_FARTHEST = 200.0  # how far the likelihood ratio's characteristic function is followed, in radians of its largest value
_TOLERANCE = 1e-11
_LARGEST = 1e6


def detection_error(n_sequences: ArrayLike, shift: ArrayLike, scale: ArrayLike, alpha: float, test: str = "mean") -> Array:
    """Return the probability that a test on N independent sequences names the wrong sign of the location ±Δ.

    The exact alternative to Fano's bound, Eq. (34). All three tests are symmetric in the two signs, so the error is the same under both.

    * ``"mean"``: the sign of the sample mean, ``1 − F_α(Δ N^(1 − 1/α)/σ)``. Exact for every N.
    * ``"likelihood"``: the sign of the log-likelihood ratio of all N values, the best of all tests. Exact up to quadrature: a relative
      error of 3e-7 at N = 2, 3e-8 at N = 3, 1e-9 at N = 4 and less for more sequences where Δ ≤ 3 σ, of 2e-5 where Δ ≤ 50 σ, of 1e-2 up
      to Δ = 1e6 σ; beyond that an upper bound, the least of its value there and of the other two tests' errors. For N = 1 it is the sign
      of the one value.
    * ``"median"``: the sign of the sample median, that is of the majority of the values; for odd N exact by the law of the order statistic.
      For even N one of the two middle values is picked by a fair coin, which errs exactly as often as the median of N − 1.

    Args:
        n_sequences: Number N ≥ 1 of independent sequences; any shape that broadcasts with the next two. Whole, but for ``"mean"``.
        shift: Δ ≥ 0.
        scale: Scale σ > 0 of one sequence's statistic, in the units of the shift.
        alpha: Tail index α in (1, 2].
        test: ``"mean"``, ``"likelihood"`` or ``"median"``.

    Returns:
        Error in [0, ½] of the broadcast shape; 0 where it underflows, for which see `log_detection_error`.
    """
    return np.exp(log_detection_error(n_sequences, shift, scale, alpha, test))


def log_detection_error(n_sequences: ArrayLike, shift: ArrayLike, scale: ArrayLike, alpha: float, test: str = "mean") -> Array:
    """Return the logarithm of `detection_error`, which takes the same arguments; it does not underflow, and N may be 1e30."""
    mean = one_of("test", test, _TESTS) == "mean"
    h, alpha, n, mean_h = standardised(shift, alpha, scale, n_sequences, whole=not mean)
    if mean or (test == "likelihood" and alpha == 2):
        return log_upper_tail(alpha, mean_h)[()]
    return np.vectorize(_log_likelihood_error if test == "likelihood" else _log_median_error, otypes=[float])(alpha, h, n)[()]


def _log_likelihood_error(alpha: float, h: float, n: float) -> float:
    """Return the log error of the likelihood ratio test, for ``alpha < 2``.

    With S the sum of the log-likelihood ratios, and Q, ρ, ψ as in `mutual_information`, the error is
    ``½ ρ^N E_Q[e^(−|S|/2)] = (ρ^N/2π) ∫_0^∞ ψ(t)^N/(¼ + t²) dt``: Chernoff's exponent in front, all of the rest in the integral.
    """
    if n == 1:  # p(x − h)/p(x + h) is above 1 where x is above 0, as the law is symmetric and unimodal
        return float(log_upper_tail(alpha, np.asarray(h)))
    if h * np.sqrt(n) < np.finfo(float).eps:  # the error is ½ to rounding
        return float(-np.log(2))
    if h > _LARGEST:
        least = (
            _log_likelihood_error(alpha, _LARGEST, n),
            _log_median_error(alpha, h, n),
            float(log_upper_tail(alpha, np.asarray(h * n ** (1 - 1 / alpha)))),
        )
        return min(least)
    table = log_ratio(alpha, h)
    most = float(table.log_ratio.max())
    width = float(1 / np.sqrt(n * table.tilted_variance()))
    # L has its largest value at a smooth maximum, so |ψ| falls as (t L)^(−½), slowly enough to be followed for a while where N is small
    end = 16 * width
    farthest = max(end, _FARTHEST / most)
    while True:
        t, weight = graded_rule(min(0.25, width), 2 / most, end)
        swing = float(end * np.ptp(table.log_ratio, axis=1).max())
        log_psi, sign = table.refined(20 + int(swing)).tilted_cosine(t)
        part = weight * sign ** np.mod(n, 2) * np.exp(n * log_psi) / (0.25 + t**2)
        integral, last = np.sum(part), part[t > end / 2]
        if end >= farthest or np.abs(last).sum() < _TOLERANCE * integral:
            if n % 2 == 0:  # then the rest is positive, and falls as t^(−N/2 − 2) on the whole
                octave = 0.5 ** (n / 2 + 1)
                integral += np.sum(last) * octave / (1 - octave)
            return min(n * table.log_affinity() + float(np.log(integral / (2 * np.pi))), float(-np.log(2)))
        end = min(2 * end, farthest)


def _log_median_error(alpha: float, h: float, n: float) -> float:
    """Return the log error of the median: that of ``Beta(m, m)`` below q, where m of N = 2m − 1 signs are wrong, each with probability q.

    With w half the beta variable's distance from ½ (scaled to 1) this is ``½ ∫_{w₀}^1 (1 − w²)^(m−1) dw / ∫_0^1 …``, ``w₀ = 1 − 2q``: a
    ratio of two integrals of one form, without binomial coefficients, for any m.
    """
    m = np.floor((n + 1) / 2)
    log_wrong = float(log_upper_tail(alpha, np.asarray(h)))
    return (
        _log_beta_tail(m, 2 * float(standard_law(alpha).central(np.asarray(h))), log_wrong + np.log(2))
        - _log_beta_tail(m, 0.0, 0.0)
        - float(np.log(2))
    )


def _log_beta_tail(m: float, start: float, log_rest: float) -> float:
    """Return ``log ∫_{w₀}^1 (1 − w²)^(m−1) dw`` from w₀ and ``log(1 − w₀)``, both accurate."""
    if log_rest == -np.inf:
        return -float("inf")
    rest = np.exp(log_rest)
    log_first = np.log1p(-(start**2)) if start < 0.5 else log_rest + np.log1p(start)  # log(1 − w₀²)
    # with w = w₀ + (1 − w₀) u: (1 − w²)/(1 − w₀²) = 1 − u (2 w₀ + (1 − w₀) u)/(1 + w₀); it is nothing once its (m − 1)th power is e^−45
    with np.errstate(divide="ignore"):
        fall = -(1 + start) * np.expm1(-45 / (m - 1))
    end = fall / (start + np.sqrt(start**2 + fall * rest))
    node, weight = graded_rule(end / 16, end, end)
    ratio = node * (2 * start + rest * node) / (1 + start)
    integral = np.sum(weight * np.exp((m - 1) * np.log1p(-ratio)))
    return float(log_rest + (m - 1) * log_first + np.log(integral))


def large_sample_error(n_sequences: ArrayLike, shift: ArrayLike, scale: ArrayLike, alpha: float, test: str = "likelihood") -> Array:
    """Return the large-N limit of the error of a test that reaches the exponent 2.

    ``Φ(−Δ √(N I_α)/σ)`` for ``"likelihood"``, and ``Φ(−2 p(0) Δ √N/σ)``, p(0) the density of unit scale at its median, for
    ``"median"``. The limit is taken with ``N Δ²`` held fixed: at fixed Δ and N → ∞ both sides vanish, exponentially and not at the
    same rate. The ratio ``4 p(0)²/I_α`` is the efficiency of the median, 0.81 at α = 1 and 0.64 at α = 2. The error of the mean needs no
    limit; the arguments are those of `detection_error`.

    Returns:
        Error in [0, ½] of the broadcast shape.
    """
    h, alpha, n, _ = standardised(shift, alpha, scale, n_sequences, whole=False)
    law = SymmetricStable(alpha)
    likelihood = one_of("test", test, ["likelihood", "median"]) == "likelihood"
    efficacy = np.sqrt(law.fisher_information()) if likelihood else 2 * law.pdf(0.0)
    with np.errstate(over="ignore"):
        return special.ndtr(-efficacy * h * np.sqrt(n))[()]


def least_sequences(shift: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1, test: str = "mean") -> Array:
    """Return the least whole number of sequences at which a test has an error of at most ε.

    The inverse of `detection_error` in N, and so Eq. (37) without a constant or an exponent put in by hand; for ``"mean"`` it is
    `sample_complexity`, rounded up. ``error`` is ε in (0, 0.5); the other arguments are those of `detection_error`.

    Returns:
        Whole numbers ≥ 1 of the broadcast shape, to a relative accuracy of 1e-12 where they are larger than that can tell; infinite for a
        shift of 0.
    """
    h, alpha, _, _ = standardised(shift, alpha, scale, 1, whole=False)
    error = real_in("error", error, "(0, 0.5)")
    if one_of("test", test, _TESTS) == "mean":
        return np.maximum(np.ceil(sample_complexity(h, 1.0, 1.0, alpha, error) * (1 - 1e-12)), 1.0)
    return np.vectorize(lambda one: _least_number(alpha, float(one), error, test), otypes=[float])(h)[()]


def _least_number(alpha: float, h: float, error: float, test: str) -> float:
    if h == 0:
        return float("inf")

    def enough(n: float) -> bool:
        return bool(log_detection_error(n, h, 1.0, alpha, test) <= np.log(error))

    high = float(np.maximum(np.ceil(sample_complexity(h, 1.0, 1.0, alpha, error, "optimal")), 1.0))  # a guess
    while not enough(high):
        high *= 2
    low = np.floor(high / 2)
    while low >= 1 and enough(low):
        high, low = low, np.floor(low / 2)
    while high - low > max(1.0, 1e-12 * high):
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)
