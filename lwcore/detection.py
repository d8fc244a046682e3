"""Detection of the sign of a lag's gradient (Section 5, Appendices C and D).

What a network learns about inputs of ℓ steps ago comes from the part of the gradient that has
flowed back over ℓ steps. One sequence gives one number for it, the matched statistic: its mean
``Δ = f(ℓ) m̄(ℓ)``, plus heavy-tailed noise of scale σ. A lag is detected when N independent
sequences tell the sign of that mean. So one of the two laws SαS(location ±Δ, scale σ) of Eq. (31)
is to be named: how well, or from how many sequences?

Results depend on Δ/σ only, and arrays broadcast. Δ ≥ 0 is the ``shift``, f the ``envelope``, m̄ the
``alignment``, P_e or ε the ``error``. The ``detector`` says who names the sign, and so which
exponent p ``N ∝ (σ/Δ)^p`` has:

* ``"mean"``, p = κ_α = α/(α − 1): the sign of the sample mean. Its error is known exactly.
* ``"likelihood"``, p = 2: the likelihood ratio. The constant is that of large N, or small Δ/σ.
* ``"paper_v2"``, p = α: printed in v1 and v2, with the constant of the mean. For weak signals and
  α below 2 no test can reach it, as N sequences hold at most ``N KL₁/4`` on the sign.

In formulas, h is Δ/σ, the laws at +Δ and −Δ have the densities p₊ and p₋ and the divergence KL₁,
and ``L(x) = log p₊(x)/p₋(x)``.
"""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import numpy as np
from scipy import special

from lwcore.signatures import (
    ArgumentError,
    FiniteReals,
    Range,
    checked,
    floats,
    require,
    unchecked,
)
from lwcore.stable.law import LARGEST, LEAST, SymmetricStable, log_ratio
from lwcore.stable.standard import TAIL, Array, panel_rule, standard_law

TailIndexAboveOne = Annotated[float, Range("a number in (1, 2]", lambda alpha: 1 < alpha <= 2)]
Error = Annotated[float, Range("a number in [1e-150, 0.5)", lambda error: LEAST <= error < 0.5)]
Detector = Literal["mean", "likelihood", "paper_v2"]  # each with an exponent of its own
ExactDetector = Literal["mean", "likelihood", "median"]  # whose errors are computed exactly
Observer = Literal["mean", "likelihood"]  # of the mean alone, or of all values

_LOG_2 = float(np.log(2))

# Shifts h = Δ/σ, in scales.
_KNOWN_GAUSSIAN = 40.0  # above it one Gaussian value tells the sign, to rounding
_KNOWN = 1e100  # above it one value of any law does
_LARGEST_OF_LIKELIHOOD = 1e6  # above it the likelihood's error is bounded by the one here

# Numbers that end a computation: the sign is known long before, or nothing is left but rounding.
_LEAST_EXPONENT = -800.0  # e^x is 0 below it, as a float
_KERNEL_END = 14.0  # beyond it 1/cosh πt is rounding
_FARTHEST = 200.0  # how far ψ is followed, in radians of the largest log ratio


@checked
def rate_exponent(alpha: TailIndexAboveOne, detector: Detector = "mean") -> float:
    """Return the rate exponent p in ``N ∝ (σ/Δ)^p``: α/(α − 1), 2 or α.

    Implements Eq. (31) in its exponent, which is that of Eq. (37) too.

    Examples:
        >>> rate_exponent(1.5), rate_exponent(1.5, "likelihood"), rate_exponent(1.5, "paper_v2")
        (3.0, 2.0, 1.5)
    """
    exponents = {"mean": alpha / (alpha - 1), "likelihood": 2.0, "paper_v2": alpha}
    return float(exponents[detector])


@checked
def sample_complexity(
    envelope: FiniteReals,
    alignment: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    detector: Detector = "mean",
) -> Array:
    """Return N(ℓ), how many sequences it takes to name the sign of a lag's gradient.

    The matched statistic of one sequence has the mean ``Δ = f m̄``, Eq. (29), in noise of scale σ_α;
    in the average over N sequences the noise has the scale ``σ_α N^(−1/p)``, p = α/(α − 1). The
    sign of the average is right with probability 1 − ε once ``f m̄ ≥ C σ_α N^(−1/p)``, which gives
    ``N = (C σ_α/(m̄ f))^p``: half the envelope f takes 2^p times the sequences. Each detector has a
    p and a C of its own:

    * ``"mean"``: p = α/(α − 1), C = F_α⁻¹(1 − ε), F_α the law of scale 1. The sign of the average;
      take it for what averaging, as gradient descent does, can tell.
    * ``"likelihood"``: p = 2, C = Φ⁻¹(1 − ε)/√I_α. The best test, which knows the law, for large N.
    * ``"paper_v2"``: p = α, C as for the mean: versions 1 and 2 of the paper, to compare with them.
      Below α = 2 no test gets by with so few sequences for a weak signal, a small ``f m̄/σ_α``.

    Implements Eqs. (37) and (58), whose constant in front of the power is ``C^p``.

    N is real, and below 1 for a signal far above the noise. Rounded up, it is what the mean needs.
    It is infinite where an envelope or alignment of 0, or a negative alignment, leaves no signal,
    and beyond the largest float. The first three arguments broadcast.

    Args:
        envelope: f(ℓ), how much gradient crosses ℓ steps: `lwcore.transport.envelope`.
        alignment: m̄(ℓ), the mean alignment, weighted with the rates: `lwcore.gradient.factorise`.
            That is NaN where all rates are 0: put 0 there.
        scale: σ_α(ℓ), above 0, the stable scale of one sequence's statistic, as `lwcore.stable.fit`
            gives it. It is no standard deviation: where α is 2, it is that over √2.
        alpha: One tail index α for all lags: 2 for Gaussian noise, less for heavier tails.
        error: ε, the chance of a wrong sign.
        detector: Who detects, as above.

    Examples:
        Half the envelope takes four times the sequences where noise is Gaussian:

        >>> print(sample_complexity([0.1, 0.05], alignment=1, scale=1, alpha=2).round())
        [ 328. 1314.]
    """
    f, mean_alignment, sigma = broadcast(envelope=envelope, alignment=alignment, scale=scale)
    require("envelope", f, f >= 0, "0 or above")
    noise = noise_over_alignment(sigma, mean_alignment)
    c = _error_constant(alpha, error, detector)
    p = rate_exponent(alpha, detector)
    with np.errstate(divide="ignore", over="ignore"):
        return (c * (noise / np.abs(f))) ** p  # −0 is 0


@checked
def detection_threshold(
    n_sequences: FiniteReals,
    alignment: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    detector: Detector = "mean",
) -> Array:
    """Return ε_th, the least envelope that N sequences detect; infinite without an alignment.

    Implements Eq. (35), ``ε_th = C σ_α/(m̄ N^(1/p))``, the inverse of `sample_complexity`: a lag
    needs at most N sequences where its envelope is at least ε_th.

    Examples:
        >>> print(detection_threshold(1000, alignment=1, scale=1, alpha=2).round(4))
        0.0573
    """
    n, mean_alignment, sigma = broadcast(n_sequences=n_sequences, alignment=alignment, scale=scale)
    require("n_sequences", n, n > 0, "above 0")
    noise = noise_over_alignment(sigma, mean_alignment)
    c = _error_constant(alpha, error, detector)
    p = rate_exponent(alpha, detector)
    with np.errstate(over="ignore"):
        return c * (noise / n ** (1 / p))


def noise_over_alignment(scale: Array, alignment: Array) -> Array:
    """Return σ/m̄, infinite where no alignment is left: a negative mean names the wrong sign."""
    require("scale", scale, scale > 0, "above 0")
    m = np.abs(np.maximum(alignment, 0))  # −0 is 0
    with np.errstate(divide="ignore", over="ignore"):
        ratio = scale / m
    is_float = (m == 0) | ((ratio > 0) & (ratio < np.inf))
    require("scale/alignment", ratio, is_float, "in the range of a float")
    return ratio


@functools.cache
def _error_constant(alpha: float, error: float, detector: Detector) -> float:
    """Return the constant C of a detector's ``N = (C σ/Δ)^p``.

    For the mean it holds for every N: one value has the error ε at Δ/σ = C. For the likelihood
    ratio, whose error tends to ``Φ(−√(N I_α) Δ/σ)``, it holds for large N.
    """
    law = SymmetricStable(alpha)
    if detector == "likelihood":
        gaussian_quantile = -special.ndtri(error)  # Φ⁻¹(1 − ε), by symmetry
        return float(gaussian_quantile / np.sqrt(law.fisher_information()))
    return float(-law.ppf(error))  # F_α⁻¹(1 − ε), by symmetry


@checked
def kl_divergence(
    shift: FiniteReals,
    alpha: TailIndexAboveOne,
    scale: FiniteReals = 1.0,
    n_sequences: FiniteReals = 1,
    detector: Observer = "likelihood",
) -> Array:
    """Return KL(P₁‖P₀) between the laws at +Δ and −Δ, in nats; KL(P₀‖P₁) is the same.

    The exact value of what Eqs. (32) and (54)–(56) bound. For all N values (``"likelihood"``) it is
    ``N KL₁(Δ/σ)``, linear in N for every α; for their ``"mean"``, again SαS but of scale
    ``σ N^(1/α − 1)``, it is ``KL₁(Δ N^(1 − 1/α)/σ)``. KL₁(h) is ``SymmetricStable(alpha).kl(2*h)``.
    """
    h, n = _in_scales(shift, scale, n_sequences, whole=detector == "likelihood")
    if detector == "mean":
        h = _shift_of_mean(h, n, alpha)
        n = np.ones_like(n)
    return n * SymmetricStable(alpha).kl(2 * h)


@checked
def lan_divergence(
    shift: FiniteReals,
    alpha: TailIndexAboveOne,
    scale: FiniteReals = 1.0,
    n_sequences: FiniteReals = 1,
    detector: Detector = "likelihood",
) -> Array:
    """Return the divergence's approximation ``½ I_α (2Δ/σ)² N^(2/p)``, an upper bound, in nats.

    It holds for small shifts, by *local asymptotic normality* (LAN). Implements Eqs. (32) and
    (54)–(56) with their constant, under the exponent p of a `detector`: ``"likelihood"`` is the
    limit of `kl_divergence` for all values, ``"mean"`` for their mean, and ``"paper_v2"`` Eq. (32)
    as printed, with the largest constant it could have at N = 1, the limit of neither unless α = 2.
    """
    h, n = _in_scales(shift, scale, n_sequences)
    local_shift = h * n ** (1 / rate_exponent(alpha, detector))
    with np.errstate(over="ignore"):
        return 2 * SymmetricStable(alpha).fisher_information() * local_shift**2


@checked
def mutual_information(
    shift: FiniteReals,
    alpha: TailIndexAboveOne,
    scale: FiniteReals = 1.0,
    n_sequences: FiniteReals = 1,
    detector: Observer = "likelihood",
) -> Array:
    """Return the mutual information I(B; observation) in nats, B the equiprobable sign of ±Δ.

    The exact value of what Eq. (33) bounds: of all N sequences (``"likelihood"``), or of their
    ``"mean"``. It is below ``log 2`` and ``KL(P₁‖P₀)/4``, which it approaches for small shifts.

    Implements Eq. (57), ``½ KL(P₁‖M) + ½ KL(P₀‖M)`` with ``M = ½(P₀ + P₁)``, by an integral: it is
    ``log 2 − E₁[log(1 + e^(−S))]``, S the log-likelihood ratio of all values. If each had the
    density ``√(p₊ p₋)/ρ``, ρ its integral, S would have the characteristic function ``ψ^N``, whence
    ``I = ½ ∫_0^∞ [1 − (ρ ψ(t))^N] / ((¼ + t²) cosh πt) dt``.
    """
    h, n = _in_scales(shift, scale, n_sequences, whole=detector == "likelihood")
    if detector == "mean" or alpha == 2:  # the mean of Gaussians is all there is to know
        h = _shift_of_mean(h, n, alpha)
        n = np.ones_like(n)
    return np.vectorize(_information, otypes=[float])(alpha, h, n)[()]


def _information(alpha: float, h: float, n: float) -> float:
    """Return the information of N values by Parseval's integral, see `mutual_information`."""
    if h == 0:
        return 0.0
    h = min(h, _KNOWN_GAUSSIAN if alpha == 2 else _KNOWN)
    tilted = _TiltedLaw(alpha, h)
    first_panel = 1 / max(np.sqrt(n * tilted.variance), 4.0)
    t, weight = _graded_rule(first_panel, 0.5, _KERNEL_END)
    log_psi, sign = tilted.characteristic_function(t)
    lost = np.expm1(n * (tilted.log_affinity + log_psi))  # (ρ|ψ|)^N − 1
    is_negative = sign ** np.mod(n, 2) < 0  # ψ^N
    integrand = np.where(is_negative, 2 + lost, -lost)  # 1 − (ρψ)^N
    kernel = (0.25 + t**2) * np.cosh(np.pi * t)
    information = np.sum(weight * integrand / kernel) / 2
    return float(min(information, _LOG_2))


@checked
def binary_entropy(probability: FiniteReals) -> Array:
    """Return the entropy ``h_b(p) = −p log p − (1 − p) log(1 − p)`` in Eq. (34), in nats."""
    p = floats("probability", probability)
    require("probability", p, (p >= 0) & (p <= 1), "in [0, 1]")
    return -special.xlogy(p, p) - special.xlog1py(1 - p, -p)


def _entropy_deficit(log_odds: Array) -> Array:
    """Return ``log 2 − h_b(p)`` for log odds above 0 of 1 − p against p, accurate near 0."""
    half = np.minimum(log_odds, 1) / 2
    bias = np.tanh(half)  # 1 − 2p
    near_zero = half * bias + np.log1p(-(bias**2)) / 2
    entropy = unchecked(binary_entropy)(special.expit(-log_odds))
    return np.where(log_odds < 1, near_zero, _LOG_2 - entropy)


@checked
def fano_error(information: FiniteReals) -> Array:
    """Return Fano's least error of any test, if at most I nats are observed.

    Solves ``h_b(P_e) = log 2 − I``, the inequality behind Eq. (34): from an *upper* bound on I, as
    ``kl_divergence/4``, follows a *necessary* N. From a lower one, as in Eq. (33), follows nothing.
    """
    nats = floats("information", information)
    require("information", nats, nats >= 0, "0 or above")
    # bisection in the logarithm of the log odds of right against wrong: it resolves both ends
    low = np.full(nats.shape, np.log(1e-170))
    high = np.full(nats.shape, np.log(750.0))
    for _ in range(70):
        middle = (low + high) / 2
        is_allowed = _entropy_deficit(np.exp(middle)) <= nats
        low = np.where(is_allowed, middle, low)
        high = np.where(is_allowed, high, middle)
    error = special.expit(-np.exp(low))
    return np.where(nats < _LOG_2, error, 0.0)[()]


@checked
def hellman_raviv_error(information: FiniteReals) -> Array:
    """Return Hellman and Raviv's largest error of the best test, ``P_e ≤ ½ (1 − I/log 2)``.

    From a *lower* bound on I follows a *sufficient* N, N(ℓ) in Eq. (37).
    """
    nats = floats("information", information)
    require("information", nats, (nats >= 0) & (nats <= _LOG_2), "in [0, log 2]")
    return 0.5 * (1 - nats / _LOG_2)


@checked
def necessary_sequences(
    shift: FiniteReals, scale: FiniteReals, alpha: TailIndexAboveOne, error: Error = 0.1
) -> Array:
    """Return the necessary number of sequences, real: with fewer no test has an error of at most ε.

    Implements Eq. (34) in the direction that Fano's inequality has: ``I ≤ N KL₁(Δ/σ)/4``, so that
    ``N ≥ 4 (log 2 − h_b(ε))/KL₁``. The exponent in σ/Δ is 2 for small shifts, whatever α.
    """
    with np.errstate(divide="ignore", over="ignore"):
        needed_nats = _entropy_deficit(-special.logit(error))
        return 4 * needed_nats / kl_divergence(shift, alpha, scale)


@checked
def detection_error(
    n_sequences: FiniteReals,
    shift: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    detector: ExactDetector = "mean",
) -> Array:
    """Return the probability that a test on N sequences names the wrong sign of ±Δ.

    The exact alternative to Fano's bound, Eq. (34). N is whole, but for the mean.

    * ``"mean"``: the sign of the sample mean, ``1 − F_α(Δ N^(1 − 1/α)/σ)``.
    * ``"likelihood"``: the sign of the log-likelihood ratio, the best of all tests; to a relative
      accuracy of 3e-7 or better where Δ ≤ 3 σ, 2e-5 where Δ ≤ 50 σ, 1e-2 up to Δ = 1e6 σ; beyond
      that its value there, an upper bound.
    * ``"median"``: the sign of the majority of the values, for even N that of N − 1.
    """
    h, n = _in_scales(shift, scale, n_sequences, whole=detector != "mean")
    return _error_of(detector, alpha, h, n)


def _error_of(detector: ExactDetector, alpha: float, h: Array, n: Array) -> Array:
    """Return the error that a detector makes with N values at a shift of h scales."""
    if detector == "median":
        return _median_error(alpha, h, n)
    if detector == "mean" or alpha == 2:
        shift = np.asarray(_shift_of_mean(h, n, alpha))
        return standard_law(alpha)(shift, TAIL)[()]
    return np.vectorize(_likelihood_error, otypes=[float])(alpha, h, n)[()]


def _median_error(alpha: float, h: Array, n: Array) -> Array:
    """Return the error of the majority of N = 2m − 1 signs, each wrong with a probability q.

    It is the probability that Beta(m, m) is below q. By ``I_q(m, m) = ½ − ½ I_{4δ²}(½, m)``,
    ``δ = ½ − q``, nothing cancels where q is nearly ½.
    """
    m = np.floor((n + 1) / 2)
    law = standard_law(alpha)
    delta = law.from_median(h)
    nearly_half = special.betaincc(0.5, m, 4 * delta**2) / 2
    error = special.betainc(m, m, law(h, TAIL))
    return np.where(delta < 0.25, nearly_half, error)[()]


def _likelihood_error(alpha: float, h: float, n: float) -> float:
    """Return the error of the likelihood ratio test, for ``alpha < 2``.

    With S, ρ and ψ as in `mutual_information`, the error is ``½ ρ^N E_Q[e^(−|S|/2)]``, that is
    ``(ρ^N/2π) ∫_0^∞ ψ(t)^N/(¼ + t²) dt``. Chernoff's bound is ``ρ^N/2``, and the integral over π
    the share of it that is reached.
    """
    if n == 1:  # p(x − h)/p(x + h) is above 1 where x is above 0
        return float(standard_law(alpha)(np.asarray(h), TAIL))
    if h * np.sqrt(n) < np.finfo(float).eps:  # the error is ½ to rounding
        return 0.5
    h = min(h, _LARGEST_OF_LIKELIHOOD)
    tilted = _TiltedLaw(alpha, h)
    log_bound = n * tilted.log_affinity  # of ρ^N
    if log_bound < _LEAST_EXPONENT:
        return 0.0
    integral = _integral_of_powers(alpha, h, n, tilted)
    error = float(np.exp(log_bound) * integral / (2 * np.pi))
    return min(error, 0.5)


def _integral_of_powers(alpha: float, h: float, n: float, tilted: _TiltedLaw) -> float:
    """Return ``∫_0^∞ ψ(t)^N/(¼ + t²) dt``.

    ψ^N begins as a bell and then oscillates. With the largest log ratio L, |ψ| falls as
    ``(t L)^(−½)``. So the end of the integral is moved out, an octave at a time, until the last
    octave adds nothing, or as far as `_FARTHEST`; where N is small, something is left beyond.
    """
    largest_ratio = tilted.ratio.max()
    width = 1 / np.sqrt(n * tilted.variance)  # of the bell
    first_panel = min(0.25, width)
    widest_panel = 2 / largest_ratio  # a third of a period of cos(t L)
    end = 16 * width
    farthest = max(end, _FARTHEST / largest_ratio)
    while True:
        t, weight = _graded_rule(first_panel, widest_panel, end)
        # ψ is an integral over x itself, of cos(t L(x)): at the end it turns so often in a panel.
        turns = int(end * np.ptp(tilted.ratio, axis=1).max())
        resolved = _TiltedLaw(alpha, h, 20 + turns)
        log_psi, sign = resolved.characteristic_function(t)
        terms = weight * sign ** np.mod(n, 2) * np.exp(n * log_psi) / (0.25 + t**2)
        integral = np.sum(terms)
        last_octave = terms[t > end / 2]
        if end >= farthest or np.abs(last_octave).sum() < 1e-11 * integral:
            break
        end = min(2 * end, farthest)
    if n % 2 == 0:  # then the rest is positive, and falls as t^(−N/2 − 2) on the whole
        ratio = 0.5 ** (n / 2 + 1)  # of one octave to the one before: a geometric series
        return integral + np.sum(last_octave) * ratio / (1 - ratio)
    # Otherwise it swings about 0: terms that fade out over some periods leave nothing of it.
    fading = special.erfc(20 * (t / end - 0.75))  # from 2 at half of the end to 0 at the end
    return np.sum(terms * fading / 2)


@checked
def least_sequences(
    shift: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    detector: ExactDetector = "mean",
) -> Array:
    """Return the least whole number of sequences at which a test has an error of at most ε.

    The inverse of `detection_error` in N, and as accurate: for the mean Eq. (37), to 1e-12.
    """
    h, _ = _in_scales(shift, scale, 1)
    if detector == "mean":
        real = sample_complexity(h, 1, 1, alpha, error)
        return np.maximum(np.ceil(real * (1 - 1e-12)), 1)
    return np.vectorize(_least_number, otypes=[float])(detector, alpha, h, error)[()]


def _least_number(detector: ExactDetector, alpha: float, h: float, error: float) -> float:
    """Find the least number of sequences by bisection, from the number of the best test."""
    if h == 0:
        return float("inf")
    guess = sample_complexity(h, 1, 1, alpha, error, "likelihood")

    def errs_too_often(n: float) -> bool:
        return bool(_error_of(detector, alpha, np.asarray(h), np.asarray(n)) > error)

    low = 0.0
    high = float(np.maximum(np.ceil(guess), 1))
    while errs_too_often(high):
        low = high
        high = 2 * high
    while high - low > max(1, 1e-12 * high):
        middle = float(np.floor((low + high) / 2))
        if errs_too_often(middle):
            low = middle
        else:
            high = middle
    return high


class _TiltedLaw:
    """The law Q of one observation with density ``√(p₊ p₋)/ρ``, half-way between the two laws.

    Under Q the log ratio L is symmetric, so that its characteristic function ψ is real. `ratio` is
    L at the nodes of a quadrature over ``x > 0``, `weight` the masses of Q there and at −x
    together, `variance` that of L. ρ, the affinity of the two laws, is kept as a logarithm.
    """

    def __init__(self, alpha: float, h: float, order: int = 16) -> None:
        self.ratio, mass = log_ratio(alpha, h, order)
        weight = mass * np.exp(-self.ratio / 2)  # √(p₊ p₋) dx
        half_affinity = weight.sum()  # x below 0 has the other half
        # ∫_{x>0} (√p₊ − √p₋)² dx is 1 − ρ, from which ρ is known to all digits where it is near 1.
        distance = np.sum(mass * np.expm1(-self.ratio / 2) ** 2)
        log_affinity = np.log(2 * half_affinity) if distance >= 0.5 else np.log1p(-distance)
        self.log_affinity = float(log_affinity)
        self.weight = weight / half_affinity
        self.variance = float(np.sum(self.weight * self.ratio**2))

    def characteristic_function(self, frequency: Array) -> tuple[Array, Array]:
        """Return log|ψ| and the sign of ``ψ(t) = E_Q[cos(t L)]``, accurate next to ψ = 1."""
        half_ratio = self.ratio.ravel() / 2
        weight = self.weight.ravel()
        # 1 − cos x = 2 sin²(x/2); one frequency at a time, which stays in the cache
        deficit = np.array([np.sin(t * half_ratio) ** 2 @ weight for t in frequency])
        psi = 1 - 2 * deficit
        with np.errstate(divide="ignore"):
            near_one = np.log1p(-2 * np.minimum(deficit, 0.25))
            log_psi = np.where(deficit < 0.25, near_one, np.log(np.abs(psi)))
        return log_psi, np.sign(psi)


def _graded_rule(first: float, widest: float, end: float) -> tuple[Array, Array]:
    """Return nodes and weights on (0, end), on panels that widen by half each, up to a limit."""
    edges = [0.0]
    width = first
    while edges[-1] < end:
        edges.append(min(edges[-1] + width, end))
        width = min(1.5 * width, widest)
    return panel_rule(np.array(edges), 24)


def broadcast(**values: FiniteReals) -> list[Array]:
    """Return arguments as arrays of one shape; names and shapes are said where there is none."""
    arrays = [floats(name, value) for name, value in values.items()]
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
    raise ArgumentError(f"{', '.join(values)} of shapes {shapes}: must broadcast to one shape.")


def _in_scales(
    shift: FiniteReals, scale: FiniteReals, n_sequences: FiniteReals, *, whole: bool = False
) -> tuple[Array, Array]:
    """Return ``h = Δ/σ`` and N as arrays of one shape, after they were held to their ranges."""
    delta, sigma, n = broadcast(shift=shift, scale=scale, n_sequences=n_sequences)
    require("shift", delta, delta >= 0, "0 or above")
    require("scale", sigma, sigma > 0, "above 0")
    with np.errstate(over="ignore"):
        h = delta / sigma
    is_in_range = (delta == 0) | ((h >= LEAST) & (h <= LARGEST))
    require("shift/scale", h, is_in_range, f"0, or from {LEAST:g} to {LARGEST:g}")
    is_in_range = (n >= 1) & (n <= LARGEST)
    if whole:
        is_in_range &= n == np.floor(n)
    requirement = f"{'a whole number' if whole else 'a number'} from 1 to {LARGEST:g}"
    require("n_sequences", n, is_in_range, requirement)
    return h, n


def _shift_of_mean(h: Array, n: Array, alpha: float) -> Array:
    """Return the h of the mean of N values, which is SαS of scale ``σ N^(1/α − 1)``."""
    return h * n ** (1 - 1 / alpha)
