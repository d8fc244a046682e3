"""Detection of the sign of a lag's gradient (Section 5, Appendices C and D).

One of the two laws SαS(location ±Δ, scale σ) of Eq. (31) is to be named from N independent
sequences; ``Δ = f(ℓ) m̄(ℓ)`` is the mean of the matched statistic. Results depend on Δ/σ only, and
arrays broadcast. Δ ≥ 0 is the ``shift``, f the ``envelope``, m̄ the ``alignment``, P_e or ε the
``error``. The ``rate`` says who detects, and with it the exponent p of ``N ∝ (σ/Δ)^p``:

* ``"mean"``, p = κ_α = α/(α − 1): the sign of the sample mean. Its error is known exactly.
* ``"optimal"``, p = 2: the likelihood ratio. The constant is that of large N, or small Δ/σ.
* ``"paper_v2"``, p = α: printed in v1 and v2, with the constant of the mean. No test can reach it
  for α below 2, as N sequences hold at most ``N KL₁/4`` on the sign.
"""

from __future__ import annotations

import functools
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from lwcore.signatures import ArgumentError, FiniteReals, bare, checked, floats, kind, require
from lwcore.stable.law import SymmetricStable, log_ratio
from lwcore.stable.standard import Array, panel_rule, standard_law

if TYPE_CHECKING:
    TailIndexAboveOne = float
    Error = float
else:
    TailIndexAboveOne = kind(Real, "a number in (1, 2]", lambda alpha: 1 < alpha <= 2)
    Error = kind(Real, "a number in (0, 0.5)", lambda error: 0 < error < 0.5)
Rate = Literal["mean", "optimal", "paper_v2"]
Test = Literal["mean", "likelihood", "median"]
Statistic = Literal["product", "mean"]

_LOG_2 = float(np.log(2))
_KNOWN = 1e100  # in scales: at larger shifts the sign is known, to rounding
_LARGEST = 1e6  # in scales: at larger shifts the likelihood's error is bounded by the one there
_LARGEST_RATIO = 1e300  # of a shift and a scale
_MOST = 1e307  # sequences, in a search
_QUADRATIC = 1e-100  # in scales: of smaller shifts only N h² counts, and h² may be no float
_FARTHEST = 200.0  # how far ψ is followed, in radians of the largest log ratio


@checked
def rate_exponent(alpha: TailIndexAboveOne, rate: Rate = "mean") -> float:
    """The rate exponent p in ``N ∝ (σ/Δ)^p``: α/(α − 1), 2 or α.

    Implements Eq. (31) in its exponent, which is that of Eq. (37) too.

    Examples:
        >>> rate_exponent(1.5), rate_exponent(1.5, "optimal"), rate_exponent(1.5, "paper_v2")
        (3.0, 2.0, 1.5)
    """
    return float({"mean": alpha / (alpha - 1), "optimal": 2.0, "paper_v2": alpha}[rate])


@checked
def sample_complexity(
    envelope: FiniteReals,
    alignment: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    rate: Rate = "mean",
) -> Array:
    """Return N(ℓ), how many sequences it takes to name the sign of a lag's gradient.

    The matched statistic of one sequence has the mean ``Δ = f m̄``, in noise of scale σ_α. Averaged
    over N sequences the noise has the scale ``σ_α N^(−1/p)``. The sign of the average is right with
    probability 1 − ε once ``f m̄ ≥ C σ_α N^(−1/p)``, which gives ``N = (C σ_α/(m̄ f))^p``. So
    halving the envelope f takes 2^p times the sequences. Implements Eqs. (37) and (58), with the
    exact constant in place of Fano's: ``C = F_α⁻¹(1 − ε)``, F_α the law of unit scale, and for
    ``"optimal"`` ``C = Φ⁻¹(1 − ε)/√I_α``.

    N is real; rounded up, the mean's sign errs with at most ε. It is infinite where an envelope or
    alignment of 0, or a negative alignment, leaves no signal.

    Args:
        envelope: f(ℓ), how much gradient crosses ℓ steps: `lwcore.transport.envelope`.
        alignment: m̄(ℓ), the mean alignment, weighted with the rates: `lwcore.gradient.factorise`.
        scale: σ_α(ℓ), the scale of the statistic of one sequence.
        alpha: Its tail index α: 2 for Gaussian noise, less for heavier tails.
        error: ε, the chance of a wrong sign.
        rate: Who detects, which gives p: see `rate_exponent`.

    Examples:
        >>> print(sample_complexity([0.1, 0.05], alignment=1, scale=1, alpha=2).round())
        [ 328. 1314.]
    """
    f = floats("envelope", envelope)
    require("envelope", f, f >= 0, "0 or above")
    f, mean, sigma = broadcast(envelope=f, alignment=alignment, scale=scale)
    constant = _constant(alpha, error, rate == "optimal")
    # C σ/(m̄ f), in the range of floats also where a product of the two is not.
    ratio = _quotient([constant, _positive("scale", sigma)], [np.maximum(mean, 0), f])
    with np.errstate(over="ignore"):
        return ratio ** rate_exponent(alpha, rate)


@checked
def detection_threshold(
    n_sequences: FiniteReals,
    alignment: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    rate: Rate = "mean",
) -> Array:
    """ε_th, the least envelope that N sequences detect; infinite without an alignment.

    Implements Eq. (35), ``ε_th = C σ_α/(m̄ N^(1/p))``, the inverse of `sample_complexity`.

    Examples:
        >>> print(detection_threshold(1000, alignment=1, scale=1, alpha=2).round(4))
        0.0573
    """
    n, mean, sigma = broadcast(n_sequences=n_sequences, alignment=alignment, scale=scale)
    root = _positive("n_sequences", n) ** (1 / rate_exponent(alpha, rate))
    constant = _constant(alpha, error, rate == "optimal")
    return _quotient([constant, _positive("scale", sigma)], [root, np.maximum(mean, 0)])


def _quotient(factors: list[Array | float], divisors: list[Array]) -> Array:
    """Return the product of some numbers divided by others, infinite after a division by 0.

    Powers of 2 are kept apart: they round nothing, and no step leaves the range of a float.
    """
    with np.errstate(divide="ignore", over="ignore"):
        fraction: Any = np.float64(1.0)
        power: Any = np.intc(0)
        for factor in factors:
            part, exponent = np.frexp(factor)
            fraction, power = fraction * part, power + exponent
        for divisor in divisors:
            part, exponent = np.frexp(divisor)
            fraction, power = fraction / part, power - exponent
        quotient: Array = np.ldexp(fraction, power)
        return quotient


@functools.cache
def _constant(alpha: float, error: float, optimal: bool) -> float:
    """C, the Δ/σ that one sequence needs, extrapolated from large N if need be."""
    law = SymmetricStable(alpha)
    if optimal:
        return float(-special.ndtri(error) / np.sqrt(law.fisher_information()))
    return float(-law.ppf(error))


@checked
def kl_divergence(
    shift: FiniteReals,
    alpha: TailIndexAboveOne,
    scale: FiniteReals = 1.0,
    n_sequences: FiniteReals = 1,
    statistic: Statistic = "product",
) -> Array:
    """KL(P₁‖P₀) between the laws at +Δ and −Δ, in nats; KL(P₀‖P₁) is the same.

    The exact value of what Eqs. (32) and (54)–(56) bound. For all N values (``"product"``) it is
    ``N KL₁(Δ/σ)``, linear in N for every α; for their ``"mean"``, again SαS but of scale
    ``σ N^(1/α − 1)``, it is ``KL₁(Δ N^(1 − 1/α)/σ)``. KL₁ is that of `SymmetricStable.kl`.
    """
    h, n = _standardised(shift, scale, n_sequences, whole=statistic == "product")
    if statistic == "mean":
        h, n = _of_mean(h, n, alpha), np.ones_like(n)
    require("shift/scale", h, h <= _LARGEST_RATIO, f"{_LARGEST_RATIO:g} at most")
    law = SymmetricStable(alpha)
    tiny = h < _QUADRATIC  # Δ² may be beyond a float
    with np.errstate(over="ignore"):
        divergence = n * law.kl(2 * np.where(tiny, 0, h))
        if tiny.any():
            square = (np.sqrt(n) * np.where(tiny, h, 0)) ** 2
            divergence = np.where(tiny, 2 * law.fisher_information() * square, divergence)
        return divergence[()]


@checked
def lan_divergence(
    shift: FiniteReals,
    alpha: TailIndexAboveOne,
    scale: FiniteReals = 1.0,
    n_sequences: FiniteReals = 1,
    rate: Rate = "optimal",
) -> Array:
    """The LAN approximation ``½ I_α (2Δ/σ)² N^(2/p)`` of the divergence, in nats; it is above it.

    Implements Eqs. (32) and (54)–(56) with their constant, under the exponent p of a `rate`:
    ``"optimal"`` is the limit of `kl_divergence` for all values, ``"mean"`` for their mean, and
    ``"paper_v2"`` Eq. (32) as printed, with the largest constant it could have at N = 1, the limit
    of neither unless α = 2.
    """
    h, n = _standardised(shift, scale, n_sequences)
    with np.errstate(over="ignore"):
        square = (h * n ** (1 / rate_exponent(alpha, rate))) ** 2
        return 2 * SymmetricStable(alpha).fisher_information() * square


@checked
def mutual_information(
    shift: FiniteReals,
    alpha: TailIndexAboveOne,
    scale: FiniteReals = 1.0,
    n_sequences: FiniteReals = 1,
    statistic: Statistic = "product",
    route: Literal["fourier", "mixture"] = "fourier",
) -> Array:
    """The mutual information I(B; observation) in nats, B the equiprobable sign of ±Δ.

    The exact value of what Eq. (33) bounds: of all N sequences (``"product"``), or of their
    ``"mean"``. It is below ``log 2`` and ``KL(P₁‖P₀)/4``, which it approaches for small shifts.

    * ``"fourier"``: ``I = log 2 − E₁[log(1 + e^(−S))]``, S the log-likelihood ratio of all values.
      If each had the density ``√(p₊ p₋)/ρ``, S would have the characteristic function ``ψ^N``,
      whence (Parseval) ``I = ½ ∫_0^∞ [1 − (ρ ψ(t))^N] / ((¼ + t²) cosh πt) dt``.
    * ``"mixture"``: Implements Eq. (57), ``½ KL(P₁‖M) + ½ KL(P₀‖M)`` with ``M = ½(P₀ + P₁)``, by
      quadrature over one observation: a single sequence, or the mean.
    """
    h, n = _standardised(shift, scale, n_sequences, whole=statistic == "product")
    if statistic == "mean" or alpha == 2:  # the mean of Gaussians is all there is to know
        h, n = _of_mean(h, n, alpha), np.ones_like(n)
    if route == "mixture":
        require("n_sequences", n, n == 1, "1 for route='mixture' with statistic='product'")
    by_route = _by_mixture if route == "mixture" else _by_fourier
    return np.vectorize(by_route, otypes=[float])(alpha, h, n)[()]


def _by_fourier(alpha: float, h: float, n: float) -> float:
    if h == 0:
        return 0.0
    h = min(h, 40.0 if alpha == 2 else _KNOWN)  # beyond 40 a Gaussian's sign is known, too
    h, n = _alike(h, n)
    tilted = _Tilted(alpha, h)
    with np.errstate(over="ignore"):
        first = 1 / max(np.sqrt(n * tilted.variance), 4.0)
    t, weight = _graded_rule(first, 0.5, 14.0)  # beyond 14 the kernel is rounding
    log_psi, sign = tilted.cosine(t)
    with np.errstate(over="ignore"):
        lost = np.expm1(n * (tilted.log_affinity + log_psi))  # (ρ|ψ|)^N − 1
    gained = np.where(sign ** np.mod(n, 2) < 0, 2 + lost, -lost)
    return float(min(np.sum(weight * gained / ((0.25 + t**2) * np.cosh(np.pi * t))) / 2, _LOG_2))


def _by_mixture(alpha: float, h: float, _: float) -> float:
    """The mean over x > 0 of log 2 less the entropy of the sign given x."""
    if h == 0:
        return 0.0
    ratio, mass = log_ratio(alpha, min(h, _KNOWN))
    return float(np.sum(mass * (1 + np.exp(-ratio)) * _entropy_deficit(ratio)))


@checked
def binary_entropy(probability: FiniteReals) -> Array:
    """The entropy ``h_b(p) = −p log p − (1 − p) log(1 − p)`` in Eq. (34), in nats."""
    p = floats("probability", probability)
    require("probability", p, (p >= 0) & (p <= 1), "in [0, 1]")
    return -special.xlogy(p, p) - special.xlog1py(1 - p, -p)


def _entropy_deficit(log_odds: Array) -> Array:
    """``log 2 − h_b(p)`` for log odds above 0 of 1 − p against p, accurate also next to 0."""
    half = np.minimum(log_odds, 1) / 2
    near = half * np.tanh(half) + np.log1p(-(np.tanh(half) ** 2)) / 2
    return np.where(log_odds < 1, near, _LOG_2 - bare(binary_entropy)(special.expit(-log_odds)))


@checked
def fano_error(information: FiniteReals) -> Array:
    """Fano's least error of any test, ``h_b(P_e) ≥ log 2 − I``, if at most I nats are observed.

    The inequality is the one behind Eq. (34): from an *upper* bound on I, as ``kl_divergence/4``,
    follows a *necessary* N. From a lower one, as in Eq. (33), follows nothing.
    """
    told = floats("information", information)
    require("information", told, told >= 0, "0 or above")
    low, high = (np.full(told.shape, np.log(end)) for end in (1e-170, 750.0))
    for _ in range(70):  # bisection in the logarithm of the log odds: resolves both ends
        middle = (low + high) / 2
        below = _entropy_deficit(np.exp(middle)) <= told
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(told < _LOG_2, special.expit(-np.exp(low)), 0.0)[()]


@checked
def hellman_raviv_error(information: FiniteReals) -> Array:
    """Hellman and Raviv's largest error of the best test, ``P_e ≤ ½ (1 − I/log 2)``.

    Given the observation, the test errs with probability q, and ``h_b(q) ≥ 2 q log 2``, a chord of
    a concave function. From a *lower* bound on I follows a *sufficient* N, N(ℓ) in Eq. (37).
    """
    told = floats("information", information)
    require("information", told, (told >= 0) & (told <= _LOG_2), "in [0, log 2]")
    return 0.5 * (1 - told / _LOG_2)


@checked
def necessary_sequences(
    shift: FiniteReals, scale: FiniteReals, alpha: TailIndexAboveOne, error: Error = 0.1
) -> Array:
    """The necessary number of sequences, real: below it no test has an error of at most ε.

    Implements Eq. (34) in the direction that Fano's inequality has: ``I ≤ N KL₁/4``, so that
    ``N ≥ 4 (log 2 − h_b(ε))/KL₁``. The exponent in σ/Δ is 2 for small shifts, whatever α.
    (I and the symmetrised KL are f-divergences; their generators' second derivatives have the ratio
    ``t/(2 (1 + t)²) ≤ ⅛``.)
    """
    with np.errstate(divide="ignore", over="ignore"):
        missing = _entropy_deficit(-special.logit(error))
        return 4 * missing / kl_divergence(shift, alpha, scale)


@checked
def detection_error(
    n_sequences: FiniteReals,
    shift: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    test: Test = "mean",
) -> Array:
    """The error of a test on N sequences: the probability that it names the wrong sign of ±Δ.

    The exact alternative to Fano's bound, Eq. (34). N is whole, but for the mean.

    * ``"mean"``: the sign of the sample mean, ``1 − F_α(Δ N^(1 − 1/α)/σ)``.
    * ``"likelihood"``: the sign of the log-likelihood ratio, the best of all tests; to a relative
      accuracy of 3e-7 or better where Δ ≤ 3 σ, 2e-5 where Δ ≤ 50 σ, 1e-2 up to Δ = 1e6 σ; beyond
      that its value there, an upper bound.
    * ``"median"``: the sign of the majority of the values, for even N that of N − 1.
    """
    h, n = _standardised(shift, scale, n_sequences, whole=test != "mean")
    if test == "median":
        return _median_error(alpha, h, n)
    if test == "mean" or alpha == 2:
        return SymmetricStable(alpha).sf(_of_mean(h, n, alpha))
    return np.vectorize(_likelihood_error, otypes=[float])(alpha, h, n)[()]


def _median_error(alpha: float, h: Array, n: Array) -> Array:
    """The error of the majority of N = 2m − 1 signs: of Beta(m, m) below the chance of a wrong one.

    By ``I_q(m, m) = ½ − ½ I_{4δ²}(½, m)``, ``δ = ½ − q``, nothing cancels where q is nearly ½.
    """
    m = np.floor((n + 1) / 2)
    law = SymmetricStable(alpha)
    off_half = standard_law(alpha).from_median(h)
    near = special.betaincc(0.5, m, 4 * off_half**2) / 2
    return np.where(off_half < 0.25, near, special.betainc(m, m, law.sf(h)))[()]


def _likelihood_error(alpha: float, h: float, n: float) -> float:
    """The error of the likelihood ratio test, for ``alpha < 2``.

    With S, ρ and ψ as in `mutual_information`, the error is ``½ ρ^N E_Q[e^(−|S|/2)]``, that is
    ``(ρ^N/2π) ∫_0^∞ ψ(t)^N/(¼ + t²) dt``: Chernoff's exponent, and all of the rest.
    """
    if n == 1:  # p(x − h)/p(x + h) is above 1 where x is above 0
        return float(SymmetricStable(alpha).sf(h))
    if h * np.sqrt(n) < np.finfo(float).eps:  # the error is ½ to rounding
        return 0.5
    h, n = _alike(min(h, _LARGEST), n)
    tilted = _Tilted(alpha, h)
    most, width = tilted.ratio.max(), 1 / np.sqrt(n * tilted.variance)
    # |ψ| falls as (t L)^(−½), L its smooth maximum: to be followed for a while where N is small
    end, farthest = 16 * width, max(16 * width, _FARTHEST / most)
    while True:
        t, weight = _graded_rule(min(0.25, width), 2 / most, end)
        swing = int(end * np.ptp(tilted.ratio, axis=1).max())
        log_psi, sign = _Tilted(alpha, h, 20 + swing).cosine(t)
        part = weight * sign ** np.mod(n, 2) * np.exp(n * log_psi) / (0.25 + t**2)
        integral, last = np.sum(part), part[t > end / 2]
        if end >= farthest or np.abs(last).sum() < 1e-11 * integral:
            break
        end = min(2 * end, farthest)
    if n % 2 == 0:  # then the rest is positive, and falls as t^(−N/2 − 2) on the whole
        octave = 0.5 ** (n / 2 + 1)
        integral += np.sum(last) * octave / (1 - octave)
    return min(float(np.exp(n * tilted.log_affinity) * integral / (2 * np.pi)), 0.5)


@checked
def least_sequences(
    shift: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    test: Test = "mean",
) -> Array:
    """The least whole number of sequences at which a test has an error of at most ε.

    The inverse of `detection_error` in N, to a relative accuracy of 1e-12, and so Eq. (37) without
    a constant or an exponent put in by hand.
    """
    h, _ = _standardised(shift, scale, 1)
    if test == "mean":
        return np.maximum(np.ceil(sample_complexity(h, 1, 1, alpha, error) * (1 - 1e-12)), 1)
    with np.errstate(over="ignore"):  # of a number that is infinite
        return np.vectorize(_least_number, otypes=[float])(test, alpha, h, error)[()]


def _least_number(test: Test, alpha: float, h: float, error: float) -> float:
    guess = float("inf") if h == 0 else sample_complexity(h, 1, 1, alpha, error, "optimal")
    if not guess < _MOST:
        return float("inf")  # or, but for a factor of ten, too large for a float

    def errs(n: float) -> bool:
        return bool(bare(detection_error)(n, h, 1.0, alpha, test) > error)

    low, high = 0.0, float(np.maximum(np.ceil(guess), 1))
    while errs(high):
        low, high = high, 2 * high
    while high - low > max(1, 1e-12 * high):
        middle = float(np.floor((low + high) / 2))
        low, high = (middle, high) if errs(middle) else (low, middle)
    return high


def _alike(h: float, n: float) -> tuple[float, float]:
    """Return a larger h and fewer sequences that tell as much, where h² is beyond a float.

    Of shifts so small only N h² counts, to rounding.
    """
    if h >= _QUADRATIC:
        return h, n
    together = h * np.sqrt(n)
    larger = max(1e-6 * min(together, 1e-2), 1e-50)
    return larger, float((together / larger) ** 2)


class _Tilted:
    """The law Q of one observation with density ``√(p₊ p₋)/ρ``, under which L is symmetric."""

    def __init__(self, alpha: float, h: float, order: int = 16) -> None:
        self.ratio, mass = log_ratio(alpha, h, order)
        weight = mass * np.exp(-self.ratio / 2)
        distance = np.sum(mass * np.expm1(-self.ratio / 2) ** 2)  # 1 − ρ
        affinity = np.log(2 * weight.sum()) if distance >= 0.5 else np.log1p(-distance)
        self.log_affinity, self.weight = float(affinity), weight / weight.sum()
        self.variance = float(np.sum(self.weight * self.ratio**2))

    def cosine(self, frequency: Array) -> tuple[Array, Array]:
        """(log|ψ|, sign ψ), ``ψ(t) = E_Q[cos(t L)]``, accurate next to ψ = 1."""
        half, weight = self.ratio.ravel() / 2, self.weight.ravel()
        deficit = np.array([np.sin(t * half) ** 2 @ weight for t in frequency])  # in the cache
        psi = 1 - 2 * deficit
        with np.errstate(divide="ignore"):
            near = np.log1p(-2 * np.minimum(deficit, 0.25))
            log_psi = np.where(deficit < 0.25, near, np.log(np.abs(psi)))
        return log_psi, np.sign(psi)


def _graded_rule(first: float, widest: float, end: float) -> tuple[Array, Array]:
    """Nodes and weights on (0, end), on panels that widen by half each, up to a limit."""
    edges, width = [0.0], first
    while edges[-1] < end:
        edges.append(min(edges[-1] + width, end))
        width = min(1.5 * width, widest)
    return panel_rule(np.array(edges), 24)


def _positive(name: str, value: FiniteReals) -> Array:
    array = floats(name, value)
    require(name, array, array > 0, "above 0")
    return array


def broadcast(**values: FiniteReals) -> list[Array]:
    """Return arguments as arrays of one shape; names and shapes are said where there is none."""
    arrays = [floats(name, value) for name, value in values.items()]
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
    raise ArgumentError(f"{', '.join(values)} of shapes {shapes}: must broadcast to one shape.")


def _standardised(
    shift: FiniteReals, scale: FiniteReals, n_sequences: FiniteReals, *, whole: bool = False
) -> list[Array]:
    """``h = Δ/σ`` and N, of one shape."""
    delta, sigma, n = broadcast(shift=shift, scale=scale, n_sequences=n_sequences)
    require("shift", delta, delta >= 0, "0 or above")
    words = "a whole number, 1 or above" if whole else "1 or above"
    require("n_sequences", n, (n >= 1) & (not whole or n == np.floor(n)), words)
    with np.errstate(over="ignore"):
        return [delta / _positive("scale", sigma), n]


def _of_mean(h: Array, n: Array, alpha: float) -> Array:
    """The h of the mean of N values."""
    with np.errstate(over="ignore"):
        return h * n ** (1 - 1 / alpha)
