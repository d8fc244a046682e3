"""How well the sign of a lag's gradient can be told (Section 5, Appendices C and D).

One of the two laws SαS(location ±Δ, scale σ) of Eq. (31) is to be named from N independent
sequences; ``Δ = f(ℓ) m̄(ℓ)`` is the mean of the matched statistic. Results depend on Δ/σ only. The
paper's letters and the names here: Δ ≥ 0 ``shift``, so that the laws lie 2Δ apart; f ``envelope``,
m̄ ``alignment``, σ_α ``scale``, α in (1, 2] ``alpha``, P_e or ε in (0, ½) ``error``, N
``n_sequences``, ε_th `detection_threshold`. Arrays broadcast.

Who averages the N values learns at another rate than who uses them well, hence a ``rate``:

* ``"mean"``: the sign of the sample mean. Its scale is ``σ N^(1/α − 1)``, so the exponent is
  ``κ_α = α/(α − 1)`` (v3 of the paper and later). Its error is known exactly, for every N.
* ``"optimal"``: the likelihood ratio. SαS location families have a finite Fisher information, so
  the exponent is 2 for every α. The constant is that of large N, or of Δ small against σ.
* ``"paper_v2"``: the exponent α printed in v1 and v2. No test can reach it for α below 2, as N
  sequences hold at most ``N KL₁/4`` on the sign; its constant is that of ``"mean"``.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lwcore.arguments import finite_array, one_of, real_in, require
from lwcore.stable import SymmetricStable
from lwcore.stable.law import log_ratio
from lwcore.stable.standard import Array, panel_rule, standard_law

STATISTICS, TESTS = ("product", "mean"), ("mean", "likelihood", "median")
_LOG_2 = float(np.log(2))
_KNOWN = 1e100  # in scales: at larger shifts the sign is known, to rounding
_LARGEST = 1e6  # in scales: at larger shifts the likelihood's error is bounded by the one there
_FARTHEST = 200.0  # how far ψ is followed, in radians of the largest log ratio
_TOLERANCE = 1e-11


# Numbers of sequences and thresholds, by rate


def rate_exponent(alpha: float, rate: str = "mean") -> float:
    """Return the exponent p in ``N ∝ (σ/Δ)^p``: α/(α − 1), 2 or α.

    Implements Eq. (31) in its exponent, which is that of Eq. (37) too.

    Examples:
        >>> rate_exponent(1.5), rate_exponent(1.5, "optimal"), rate_exponent(1.5, "paper_v2")
        (3.0, 2.0, 1.5)
    """
    alpha = real_in("alpha", alpha, "(1, 2]")
    exponents = {"mean": alpha / (alpha - 1), "optimal": 2.0, "paper_v2": alpha}
    return exponents[one_of("rate", rate, exponents)]


def sample_complexity(
    envelope: ArrayLike,
    alignment: ArrayLike,
    scale: ArrayLike,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
) -> Array:
    """Return N(ℓ), the number of sequences at which a lag's sign is told with a given error.

    Implements Eqs. (37) and (58), ``N = (C σ_α/(m̄ f))^p``, with the exact constant in place of
    Fano's: ``C = F_α⁻¹(1 − ε)``, F_α the law of unit scale, and for ``"optimal"``
    ``C = Φ⁻¹(1 − ε)/√I_α``. N is real, and infinite where an envelope or alignment of 0, or a
    negative alignment, leaves no signal. Rounded up, the mean's sign errs with at most ε.

    Examples:
        Half the envelope costs four times the sequences in Gaussian noise, and eight at α = 1.5:

        >>> print(sample_complexity([0.1, 0.05], alignment=1, scale=1, alpha=2).round())
        [ 328. 1314.]
        >>> needed = sample_complexity([0.1, 0.05], alignment=1, scale=1, alpha=1.5)
        >>> print((needed[1] / needed[0]).round(6))
        8.0
    """
    envelope, alignment, scale = _broadcast(envelope=envelope, alignment=alignment, scale=scale)
    require("envelope", envelope, envelope >= 0, "0 or more")
    require("scale", scale, scale > 0, "above 0")
    exponent = rate_exponent(alpha, rate)
    log_shift = _log(envelope) + _log(alignment)  # products may leave the range of a float
    with np.errstate(over="ignore"):
        return np.exp(exponent * (_log_constant(alpha, error, rate) + np.log(scale) - log_shift))


def detection_threshold(
    n_sequences: ArrayLike,
    alignment: ArrayLike,
    scale: ArrayLike,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
) -> Array:
    """Return ε_th, the least envelope that N sequences detect; infinite without an alignment.

    Implements Eq. (35), ``ε_th = C σ_α/(m̄ N^(1/p))``, the inverse of `sample_complexity`.

    Examples:
        >>> print(detection_threshold(1000, alignment=1, scale=1, alpha=2).round(4))
        0.0573
    """
    with np.errstate(over="ignore"):
        return np.exp(log_detection_threshold(n_sequences, alignment, scale, alpha, error, rate))


def log_detection_threshold(
    n_sequences: ArrayLike,
    alignment: ArrayLike,
    scale: ArrayLike,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
) -> Array:
    """Return the logarithm of `detection_threshold`; it neither overflows nor underflows."""
    n_sequences, alignment, scale = _broadcast(
        n_sequences=n_sequences, alignment=alignment, scale=scale
    )
    require("n_sequences", n_sequences, n_sequences > 0, "above 0")
    require("scale", scale, scale > 0, "above 0")
    exponent = rate_exponent(alpha, rate)
    log_shift = _log_constant(alpha, error, rate) + np.log(scale) - np.log(n_sequences) / exponent
    return log_shift - _log(alignment)


def _log_constant(alpha: float, error: float, rate: str) -> float:
    """Return log C, C the Δ/σ that one sequence needs, extrapolated from large N if need be."""
    error = real_in("error", error, "(0, 0.5)")
    if rate == "optimal":
        information = SymmetricStable(alpha).fisher_information()
        return float(np.log(-special.ndtri(error)) - np.log(information) / 2)
    return _log_quantile(alpha, error)


@functools.cache
def _log_quantile(alpha: float, error: float) -> float:
    return float(np.log(-SymmetricStable(alpha).ppf(error)))


def _log(value: Array) -> Array:
    """Return the logarithm, −∞ where the value is zero or negative: no signal."""
    return np.log(value, where=value > 0, out=np.full(value.shape, -np.inf))


# Divergence, and local asymptotic normality (LAN), which approximates it by a square


def kl_divergence(
    shift: ArrayLike,
    alpha: float,
    scale: ArrayLike = 1.0,
    n_sequences: ArrayLike = 1,
    statistic: str = "product",
) -> Array:
    """Return KL(P₁‖P₀) between the laws at +Δ and −Δ, in nats; KL(P₀‖P₁) is the same.

    The exact value of what Eqs. (32) and (54)–(56) bound. For all N values (``"product"``) it is
    ``N KL₁(Δ/σ)``, linear in N for every α; for their ``"mean"``, again SαS, of scale
    ``σ N^(1/α − 1)``, it is ``KL₁(Δ N^(1 − 1/α)/σ)``. KL₁ is that of `SymmetricStable.kl`.
    """
    product = one_of("statistic", statistic, STATISTICS) == "product"
    h, alpha, n, mean_h = _standardised(shift, alpha, scale, n_sequences, whole=product)
    with np.errstate(over="ignore"):
        one = SymmetricStable(alpha).kl(2 * np.minimum(h if product else mean_h, 1e300))
    return n * one if product else one


def lan_divergence(
    shift: ArrayLike,
    alpha: float,
    scale: ArrayLike = 1.0,
    n_sequences: ArrayLike = 1,
    rate: str = "optimal",
) -> Array:
    """Return the quadratic approximation ``½ I_α (2Δ/σ)² N^(2/p)`` of the divergence, in nats.

    Implements Eqs. (32) and (54)–(56) with their constant, under the exponent p of a `rate`:
    ``"optimal"`` is the limit of `kl_divergence` for all values, ``"mean"`` for their mean, and
    ``"paper_v2"`` Eq. (32) as printed, with the largest constant it could have at N = 1, the limit
    of neither unless α = 2. The true divergence is below it; `book.chapters.lan` says how far they
    agree.
    """
    exponent = rate_exponent(alpha, rate)
    h, alpha, n, _ = _standardised(shift, alpha, scale, n_sequences)
    with np.errstate(over="ignore"):
        return 2 * SymmetricStable(alpha).fisher_information() * (h * n ** (1 / exponent)) ** 2


# What an observation tells of the sign B: mutual information, and the errors it allows


def mutual_information(
    shift: ArrayLike,
    alpha: float,
    scale: ArrayLike = 1.0,
    n_sequences: ArrayLike = 1,
    statistic: str = "product",
    route: str = "fourier",
) -> Array:
    """Return I(B; observation) in nats, B the equiprobable sign of the location ±Δ.

    The exact value of what Eq. (33) bounds: of all N sequences (``"product"``), or of their
    ``"mean"``. It is below ``log 2`` and ``KL(P₁‖P₀)/4``, which it approaches for small shifts.

    * ``"fourier"``: ``I = log 2 − E₁[log(1 + e^(−S))]``, S the log-likelihood ratio of all values.
      If each had the density ``√(p₊ p₋)/ρ``, S would be a sum of N symmetric terms with
      characteristic function ``ψ^N``, whence (Parseval), for any N,
      ``I = ½ ∫_0^∞ [1 − (ρ ψ(t))^N] / ((¼ + t²) cosh πt) dt``.
    * ``"mixture"``: Implements Eq. (57), ``½ KL(P₁‖M) + ½ KL(P₀‖M)`` with ``M = ½(P₀ + P₁)``, by
      quadrature over one observation: a single sequence, or the mean.
    """
    product = one_of("statistic", statistic, STATISTICS) == "product"
    mixture = one_of("route", route, ["fourier", "mixture"]) == "mixture"
    h, alpha, n, mean_h = _standardised(shift, alpha, scale, n_sequences, whole=product)
    if not product or alpha == 2:  # the mean of Gaussians is all there is to know
        h, n = mean_h, np.ones_like(n)
    if mixture:
        require("n_sequences", n, n == 1, "1 for route='mixture' with statistic='product'")
    return np.vectorize(_by_mixture if mixture else _by_fourier, otypes=[float])(alpha, h, n)[()]


def _by_fourier(alpha: float, h: float, n: float) -> float:
    if h == 0:
        return 0.0
    h = min(h, 40.0 if alpha == 2 else _KNOWN)  # beyond 40 a Gaussian's sign is known, too
    tilted = _Tilted(alpha, h)
    first = 1 / max(np.sqrt(n * tilted.variance), 4.0)
    t, weight = _graded_rule(first, 0.5, 14.0)  # beyond 14 the kernel is rounding
    log_psi, sign = tilted.cosine(t)
    lost = np.expm1(n * (tilted.log_affinity + log_psi))  # (ρ|ψ|)^N − 1
    gained = np.where(sign ** np.mod(n, 2) < 0, 2 + lost, -lost)
    return float(min(np.sum(weight * gained / ((0.25 + t**2) * np.cosh(np.pi * t))) / 2, _LOG_2))


def _by_mixture(alpha: float, h: float, n: float) -> float:
    """Evaluate Eq. (57): the mean over x > 0 of log 2 less the entropy of the sign given x."""
    if h == 0:
        return 0.0
    pair = log_ratio(alpha, min(h, _KNOWN))
    both = pair.mass * (1 + np.exp(-pair.ratio))
    return float(np.sum(both * _entropy_deficit(np.tanh(pair.ratio / 2))))


def binary_entropy(probability: ArrayLike) -> Array:
    """Return ``h_b(p) = −p log p − (1 − p) log(1 − p)`` in nats, the entropy in Eq. (34)."""
    (p,) = _broadcast(probability=probability)
    require("probability", p, (p >= 0) & (p <= 1), "in [0, 1]")
    return -special.xlogy(p, p) - special.xlog1py(1 - p, -p)


def _entropy_deficit(contrast: Array) -> Array:
    """Return ``log 2 − h_b((1 − x)/2)`` for x in [0, 1], accurate also next to 0."""
    inner = np.minimum(contrast, 0.5)
    near = inner * np.arctanh(inner) + np.log1p(-(inner**2)) / 2
    return np.where(contrast <= 0.5, near, _LOG_2 - binary_entropy((1 - contrast) / 2))


def fano_error(information: ArrayLike) -> Array:
    """Return the least error any test can have if the observation carries at most so much.

    Inverts the binary Fano inequality ``h_b(P_e) ≥ log 2 − I``, the one behind Eq. (34): from an
    *upper* bound on I, such as ``kl_divergence(...)/4``, follows a *necessary* N. From a lower one,
    as in Eq. (33), nothing follows here; `hellman_raviv_error` takes one.
    """
    (information,) = _broadcast(information=information)
    require("information", information, information >= 0, "0 or more")
    left = _LOG_2 - information
    low, high = (np.full(information.shape, np.log(end)) for end in (1e-170, 750.0))
    for _ in range(70):  # bisection in log s, where P_e = 1/(1 + e^s): resolves both ends
        middle = (low + high) / 2
        s = np.exp(middle)
        near_half = _entropy_deficit(np.tanh(s / 2)) <= information
        below = np.where(information < 0.3, near_half, binary_entropy(special.expit(-s)) >= left)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(left > 0, special.expit(-np.exp(low)), 0.0)[()]


def hellman_raviv_error(information: ArrayLike) -> Array:
    """Return the largest error the best test can have if the observation carries at least so much.

    Hellman and Raviv's ``P_e ≤ ½ (1 − I/log 2)``: given the observation, the best test errs with
    probability q, and ``h_b(q) ≥ 2 q log 2``, a chord of a concave function. So from a *lower*
    bound on I follows a *sufficient* N, which Eq. (37) calls N(ℓ).
    """
    (information,) = _broadcast(information=information)
    allowed = (information >= 0) & (information <= _LOG_2)
    require("information", information, allowed, "in [0, log 2]")
    return (0.5 * (1 - information / _LOG_2))[()]


def necessary_sequences(
    shift: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1
) -> Array:
    """Return a number of sequences, real, below which no test has an error of at most ε.

    Implements Eq. (34) in the direction that Fano's inequality has: ``I ≤ N KL₁/4``, so that
    ``N ≥ 4 (log 2 − h_b(ε))/KL₁``. The exponent in σ/Δ is 2 for small shifts, whatever α. (Both
    sides of ``I ≤ KL/4`` are f-divergences; the second derivatives of their generators have the
    ratio ``t/(2 (1 + t)²) ≤ ⅛`` against the symmetrised KL.)
    """
    error = real_in("error", error, "(0, 0.5)")
    with np.errstate(divide="ignore", over="ignore"):
        return 4 * _entropy_deficit(np.asarray(1 - 2 * error)) / kl_divergence(shift, alpha, scale)


# The exact errors of three tests


def detection_error(
    n_sequences: ArrayLike, shift: ArrayLike, scale: ArrayLike, alpha: float, test: str = "mean"
) -> Array:
    """Return the probability that a test on N sequences names the wrong sign of the location ±Δ.

    The exact alternative to Fano's bound, Eq. (34), the same under both signs. N is whole, but for
    the mean.

    * ``"mean"``: the sign of the sample mean, ``1 − F_α(Δ N^(1 − 1/α)/σ)``.
    * ``"likelihood"``: the sign of the log-likelihood ratio, the best of all tests; a relative
      error of 3e-7 at N = 2, 3e-8 at 3, 1e-9 at 4 and less for more where Δ ≤ 3 σ, of 2e-5 where
      Δ ≤ 50 σ, of 1e-2 up to Δ = 1e6 σ; beyond that its value there, an upper bound.
    * ``"median"``: the sign of the majority of the values. For even N one of the two middle values
      is picked by a fair coin, which errs as often as the median of N − 1.
    """
    return np.exp(log_detection_error(n_sequences, shift, scale, alpha, test))


def log_detection_error(
    n_sequences: ArrayLike, shift: ArrayLike, scale: ArrayLike, alpha: float, test: str = "mean"
) -> Array:
    """Return the logarithm of `detection_error`; it does not underflow, and N may be 1e30."""
    mean = one_of("test", test, TESTS) == "mean"
    h, alpha, n, mean_h = _standardised(shift, alpha, scale, n_sequences, whole=not mean)
    if mean or (test == "likelihood" and alpha == 2):
        return _log_upper_tail(alpha, mean_h)[()]
    one = _log_likelihood_error if test == "likelihood" else _log_median_error
    return np.vectorize(one, otypes=[float])(alpha, h, n)[()]


def _log_likelihood_error(alpha: float, h: float, n: float) -> float:
    """Return the log error of the likelihood ratio test, for ``alpha < 2``.

    With S, ρ and ψ as in `mutual_information`, the error is ``½ ρ^N E_Q[e^(−|S|/2)]``, that is
    ``(ρ^N/2π) ∫_0^∞ ψ(t)^N/(¼ + t²) dt``: Chernoff's exponent, and all of the rest.
    """
    if n == 1:  # p(x − h)/p(x + h) is above 1 where x is above 0
        return float(_log_upper_tail(alpha, np.asarray(h)))
    if h * np.sqrt(n) < np.finfo(float).eps:  # the error is ½ to rounding
        return -_LOG_2
    h = min(h, _LARGEST)
    tilted = _Tilted(alpha, h)
    most = float(tilted.pair.ratio.max())
    width = float(1 / np.sqrt(n * tilted.variance))
    # |ψ| falls as (t L)^(−½), L its smooth maximum: to be followed for a while where N is small
    end = 16 * width
    farthest = max(end, _FARTHEST / most)
    while True:
        t, weight = _graded_rule(min(0.25, width), 2 / most, end)
        swing = float(end * np.ptp(tilted.pair.ratio, axis=1).max())
        log_psi, sign = _Tilted(alpha, h, 20 + int(swing)).cosine(t)
        part = weight * sign ** np.mod(n, 2) * np.exp(n * log_psi) / (0.25 + t**2)
        integral, last = np.sum(part), part[t > end / 2]
        if end >= farthest or np.abs(last).sum() < _TOLERANCE * integral:
            if n % 2 == 0:  # then the rest is positive, and falls as t^(−N/2 − 2) on the whole
                octave = 0.5 ** (n / 2 + 1)
                integral += np.sum(last) * octave / (1 - octave)
            return min(n * tilted.log_affinity + float(np.log(integral / (2 * np.pi))), -_LOG_2)
        end = min(2 * end, farthest)


def _log_median_error(alpha: float, h: float, n: float) -> float:
    """Return the log error of the median: of ``Beta(m, m)`` below q, of a sign's being wrong.

    Here N = 2m − 1. With w half the beta variable's distance from ½ (scaled to 1) this is half of
    ``∫_{w₀}^1 (1 − w²)^(m−1) dw / ∫_0^1 …``, ``w₀ = 1 − 2q``, without binomials, for any m.
    """
    m = np.floor((n + 1) / 2)
    start = 2 * float(standard_law(alpha).central(np.asarray(h)))
    log_rest = float(_log_upper_tail(alpha, np.asarray(h))) + _LOG_2
    return _log_beta_tail(m, start, log_rest) - _log_beta_tail(m, 0.0, 0.0) - _LOG_2


def _log_beta_tail(m: float, start: float, log_rest: float) -> float:
    """Return ``log ∫_{w₀}^1 (1 − w²)^(m−1) dw`` from w₀ and ``log(1 − w₀)``, both accurate."""
    if log_rest == -np.inf:
        return -float("inf")
    rest = np.exp(log_rest)
    log_first = np.log1p(-(start**2)) if start < 0.5 else log_rest + np.log1p(start)  # log(1 − w₀²)
    # with w = w₀ + (1 − w₀) u: (1 − w²)/(1 − w₀²) = 1 − u (2 w₀ + (1 − w₀) u)/(1 + w₀),
    # which is nothing once its (m − 1)th power is e^−45
    with np.errstate(divide="ignore"):
        fall = -(1 + start) * np.expm1(-45 / (m - 1))
    end = fall / (start + np.sqrt(start**2 + fall * rest))
    node, weight = _graded_rule(end / 16, end, end)
    ratio = node * (2 * start + rest * node) / (1 + start)
    integral = weight @ np.exp((m - 1) * np.log1p(-ratio))
    return float(log_rest + (m - 1) * log_first + np.log(integral))


def least_sequences(
    shift: ArrayLike, scale: ArrayLike, alpha: float, error: float = 0.1, test: str = "mean"
) -> Array:
    """Return the least whole number of sequences at which a test has an error of at most ε.

    The inverse of `detection_error` in N, to a relative accuracy of 1e-12, and so Eq. (37) without
    a constant or an exponent put in by hand; for the mean, `sample_complexity` rounded up.
    """
    h, alpha, _, _ = _standardised(shift, alpha, scale, 1)
    error = real_in("error", error, "(0, 0.5)")
    if one_of("test", test, TESTS) == "mean":
        return np.maximum(np.ceil(sample_complexity(h, 1.0, 1.0, alpha, error) * (1 - 1e-12)), 1.0)
    return np.vectorize(_least_number, otypes=[float])(h, alpha, error, test)[()]


def _least_number(h: float, alpha: float, error: float, test: str) -> float:
    if h == 0:
        return float("inf")

    def enough(n: float) -> bool:
        return bool(log_detection_error(n, h, 1.0, alpha, test) <= np.log(error))

    guess = sample_complexity(h, 1.0, 1.0, alpha, error, "optimal")
    high = float(np.maximum(np.ceil(guess), 1.0))
    while not enough(high):
        high *= 2
    low = np.floor(high / 2)
    while low >= 1 and enough(low):
        high, low = low, np.floor(low / 2)
    while high - low > max(1.0, 1e-12 * high):
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)


# What they share


class _Tilted:
    """The law Q of one observation with density ``√(p₊ p₋)/ρ``, under which L is symmetric."""

    def __init__(self, alpha: float, h: float, order: int = 16) -> None:
        """Tabulate the law; `order` is the number of nodes of a panel."""
        self.pair = log_ratio(alpha, h, order)
        weight = self.pair.mass * np.exp(-self.pair.ratio / 2)
        distance = np.sum(self.pair.mass * np.expm1(-self.pair.ratio / 2) ** 2)  # 1 − ρ
        far = distance >= 0.5
        self.log_affinity = float(np.log(2 * weight.sum()) if far else np.log1p(-distance))
        self.weight = weight / weight.sum()
        self.variance = float(np.sum(self.weight * self.pair.ratio**2))

    def cosine(self, frequency: Array) -> tuple[Array, Array]:
        """Return (log|ψ|, sign ψ), ``ψ(t) = E_Q[cos(t L)]``, accurate next to ψ = 1."""
        half, weight = self.pair.ratio.ravel() / 2, self.weight.ravel()
        deficit = np.array([np.sin(t * half) ** 2 @ weight for t in frequency])  # in the cache
        psi = 1 - 2 * deficit
        with np.errstate(divide="ignore"):
            near = np.log1p(-2 * np.minimum(deficit, 0.25))
            log_psi = np.where(deficit < 0.25, near, np.log(np.abs(psi)))
        return log_psi, np.sign(psi)


def _graded_rule(first: float, widest: float, end: float) -> tuple[Array, Array]:
    """Return nodes and weights on (0, end), on panels that widen by half each, up to a limit."""
    edges, width = [0.0], first
    while edges[-1] < end:
        edges.append(min(edges[-1] + width, end))
        width = min(1.5 * width, widest)
    return panel_rule(np.array(edges), 24)


def _log_upper_tail(alpha: float, h: Array) -> Array:
    """Return log P(X > h) at unit scale for ``0 ≤ h ≤ ∞``, any shape, without underflow."""
    far = 1e30  # beyond it the tail is Pareto's, to rounding
    if alpha == 2:
        return special.log_ndtr(-h / np.sqrt(2))
    beyond = alpha * np.log(np.maximum(h, far) / far)
    return np.log(SymmetricStable(alpha).sf(np.minimum(h, far))) - beyond


def _broadcast(**arrays: ArrayLike) -> tuple[Array, ...]:
    """Return the arguments as finite float arrays of one shape."""
    checked = {name: finite_array(name, value) for name, value in arrays.items()}
    try:
        return np.broadcast_arrays(*checked.values())
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in checked.items())
        raise ValueError(f"the shapes {shapes} do not broadcast against each other.") from None


def _standardised(
    shift: ArrayLike, alpha: float, scale: ArrayLike, n_sequences: ArrayLike, *, whole: bool = False
) -> tuple[Array, float, Array, Array]:
    """Check what all share; return ``h = Δ/σ``, α, N and the h of the mean, ``h N^(1 − 1/α)``."""
    shift, scale, n_sequences = _broadcast(shift=shift, scale=scale, n_sequences=n_sequences)
    alpha = real_in("alpha", alpha, "(1, 2]")
    require("shift", shift, shift >= 0, "0 or more")
    require("scale", scale, scale > 0, "above 0")
    require("n_sequences", n_sequences, n_sequences >= 1, "1 or more")
    if whole:
        require("n_sequences", n_sequences, n_sequences == np.floor(n_sequences), "a whole number")
    with np.errstate(over="ignore"):
        h = shift / scale
        return h, alpha, n_sequences, h * n_sequences ** (1 - 1 / alpha)
