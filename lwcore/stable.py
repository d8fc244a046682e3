"""Symmetric α-stable laws and the estimation of their tail index.

The matched statistic of a lag is modelled by a symmetric α-stable (SαS) law, whose characteristic function is
``exp(i u loc − scale^α |u|^α)`` (above Eq. (31)). Here α, the tail index, is called ``alpha`` and the paper's σ_α is called ``scale``.
At ``alpha = 2`` the law is a Gaussian of variance ``2·scale²``; as ``alpha`` falls to 1 it becomes a Cauchy law.

How the law is computed, for a standardised ``x > 0`` and ``alpha < 2``:

* small x (below 0.4 to 2, growing with ``alpha``): the power series at zero, which keeps the probability next to the median and the score
  relatively accurate;
* up to ``x = 20``: Zolotarev's integral (`_by_integral`), whose integrand is positive, so that the tails keep their relative accuracy;
* ``x > 20``: the series in powers of ``x^−α``, there accurate to rounding for every ``alpha < 2``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import finite_array, one_of, real_in

Array = NDArray[np.float64]

_SERIES_TERMS = 25
_TAIL_START = 20.0
_BLOCK = 256  # points per block of the integral: a few megabytes of temporaries, whatever the size of x
_PROBABILITIES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # of the quantiles in McCulloch's ratio, and the median
_LOWEST_FITTED_ALPHA = 1.01
_FEWEST_SAMPLES = 200  # ten beyond each outer quantile; below that the asymptotic interval cannot be trusted


@dataclass(frozen=True)
class SymmetricStable:
    """Symmetric α-stable law with characteristic function ``exp(i u loc − scale^α |u|^α)``, the law of Eq. (31).

    All methods that take `x` or `p` are vectorised: they return an array of the argument's shape, or a scalar for a scalar. NaN in `x`
    stays NaN. For ``alpha`` of at least 1.01, ``pdf``, ``cdf``, ``sf`` and ``score`` have a relative error below 1e-11, in the far tails
    too (``score`` loses digits within 1e-9 of 2); nearer to 1 the error grows, to 1e-8 for ``score`` at 1.0001.

    Attributes:
        alpha: Tail index α in (1, 2]; 2 is the Gaussian.
        scale: Scale σ > 0, in the units of the data.
        loc: Location (median, and mean as ``alpha > 1``), in the units of the data.

    Raises:
        TypeError: If an argument is not a real number.
        ValueError: If an argument is out of range.
    """

    alpha: float
    scale: float = 1.0
    loc: float = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "alpha", real_in("alpha", self.alpha, "(1, 2]"))
        object.__setattr__(self, "scale", real_in("scale", self.scale, "(0, inf)"))
        object.__setattr__(self, "loc", real_in("loc", self.loc, "(-inf, inf)"))

    def _standardise(self, x: ArrayLike) -> Array:
        return (np.asarray(x, dtype=np.float64) - self.loc) / self.scale

    def pdf(self, x: ArrayLike) -> Array:
        """Return the probability density at `x`, in one over the units of the data."""
        return _standard(self.alpha, np.abs(self._standardise(x))).density / self.scale

    def cdf(self, x: ArrayLike) -> Array:
        """Return the probability of a value at most `x`."""
        return _upper_tail(self.alpha, -self._standardise(x))

    def sf(self, x: ArrayLike) -> Array:
        """Return the probability of a value above `x`, ``1 − cdf(x)`` without the cancellation."""
        return _upper_tail(self.alpha, self._standardise(x))

    def ppf(self, p: ArrayLike) -> Array:
        """Return the quantile at probability `p`, the inverse of `cdf`.

        Args:
            p: Probabilities in [0, 1], any shape. For a far right quantile use the symmetry, ``2·loc − ppf(1 − p)`` with ``1 − p``
                given as a small number.

        Returns:
            Quantiles in the units of the data; infinite at 0 and 1 and beyond the range of a float.

        Raises:
            TypeError: If `p` does not hold real numbers.
            ValueError: If a probability is outside [0, 1].
        """
        probability = finite_array("p", p)
        outside = (probability < 0) | (probability > 1)
        if outside.any():
            raise ValueError(f"p contains {float(probability[outside].flat[0])!r}: must lie in [0, 1].")
        tail = np.minimum(probability, 1 - probability)
        with np.errstate(over="ignore"):
            return self.loc + self.scale * np.sign(probability - 0.5) * _upper_quantile(self.alpha, tail)

    def score(self, x: ArrayLike) -> Array:
        """Return the score for location, ``−(d/dx) log pdf(x)``, in one over the units of the data.

        It is odd about `loc`, linear next to it and, for ``alpha < 2``, falls as ``(alpha + 1)/(x − loc)`` far out.
        """
        z = self._standardise(x)
        return np.sign(z) * _standard(self.alpha, np.abs(z)).score / self.scale

    def fisher_information(self) -> float:
        """Return the Fisher information for location, ``E[score²] = I_α/scale²``, where I_α is its value at unit scale.

        I_α is what a likelihood test can use of each sequence; it is the curvature at zero of the divergence in Eq. (32).
        """
        return _unit_fisher_information(self.alpha) / self.scale**2

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw independent values by the method of Chambers, Mallows and Stuck (1976).

        Args:
            size: Shape of the result.
            rng: Source of randomness.

        Returns:
            Array of shape `size`, in the units of the data.
        """
        angle = rng.uniform(-np.pi / 2, np.pi / 2, size)
        waiting = rng.exponential(size=size)
        a = self.alpha
        z = np.sin(a * angle) / np.cos(angle) ** (1 / a) * (np.cos((a - 1) * angle) / waiting) ** ((1 - a) / a)
        return self.loc + self.scale * z


@dataclass(frozen=True)
class StableFit:
    """A symmetric stable law fitted to samples; every field but `method` is an array, one entry per column, when the samples were 2-D.

    Attributes:
        alpha: Estimated tail index, in [1.01, 2]; NaN where more than half of the samples coincide.
        scale: Estimated scale σ_α, in the units of the data.
        loc: Estimated location, in the units of the data.
        alpha_interval: Lower and upper end of the confidence interval for `alpha`, within the same range.
        method: Name of the estimator.
        reliable: Whether the estimate can be taken at face value.
        reason: Why it cannot; empty where it can.
    """

    alpha: float | Array
    scale: float | Array
    loc: float | Array
    alpha_interval: tuple[float, float] | tuple[Array, Array]
    method: str
    reliable: bool | NDArray[np.bool_]
    reason: str | NDArray[np.str_]


def fit(samples: ArrayLike, method: str = "mcculloch", confidence: float = 0.95) -> StableFit:
    """Estimate tail index, scale and location of a symmetric stable law.

    McCulloch's (1986) estimator, for the symmetric case: the ratio ``ν = (q95 − q05)/(q75 − q25)`` of sample quantiles has one value for
    each ``alpha`` and is inverted for it; the interquartile range then gives the scale and the median the location. The interval is
    ``log ν`` plus and minus its standard error, from the joint asymptotic law of the four quantiles, carried over to ``alpha``. No
    quantity depends on the unit of the data.

    The quantiles alone cannot tell a stable law from another heavy-tailed one: a product of two Gaussians also has an "alpha" below 2.

    Args:
        samples: Independent draws, shape (samples,) or (samples, columns); each column is fitted on its own.
        method: The estimator; ``"mcculloch"``.
        confidence: Coverage of the interval, in (0, 1).

    Returns:
        The fit. It is marked unreliable where there are fewer than 200 samples, where ν is outside what stable laws with ``alpha`` in
        [1.01, 2] can have (`alpha` is then the nearer end of that range), and where the interquartile range is zero.

    Raises:
        TypeError: If `samples` does not hold real numbers.
        ValueError: If `samples` has NaN or infinite entries or a wrong dimension, or another argument is not allowed.
    """
    data = finite_array("samples", samples, ndim=(1, 2))
    one_of("method", method, ["mcculloch"])
    margin = special.ndtri((1 + real_in("confidence", confidence, "(0, 1)")) / 2)

    count = data.shape[0]
    q05, q25, loc, q75, q95 = np.quantile(data.reshape(count, -1), _PROBABILITIES, axis=0, method="hazen")
    table = _mcculloch_table()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q75 > q25, (q95 - q05) / (q75 - q25), np.nan)
    log_ratio = np.log(ratio)

    def alpha_of(log_ratio: Array) -> Array:
        return table.alpha(np.clip(log_ratio, table.gaussian, table.heaviest))

    alpha = alpha_of(log_ratio)
    half_width = margin * table.spread(alpha) / np.sqrt(count)
    interval = (alpha_of(log_ratio + half_width), alpha_of(log_ratio - half_width))
    scale = np.where(q75 > q25, (q75 - q25) / (2 * table.quartile(alpha)), 0.0)

    few = f"{count} samples, fewer than {_FEWEST_SAMPLES}"
    below = f"quantile ratio {{:.4g}} is below the Gaussian's {np.exp(table.gaussian):.4g}: alpha is held at 2"
    above = f"quantile ratio {{:.4g}} is above the {np.exp(table.heaviest):.4g} of alpha = {_LOWEST_FITTED_ALPHA}, at which alpha is held"
    flags = [
        (np.full(ratio.size, count < _FEWEST_SAMPLES), [few] * ratio.size),
        (np.isnan(ratio), ["interquartile range is zero"] * ratio.size),
        (log_ratio < table.gaussian, [below.format(r) for r in ratio]),
        (interval[0] == 2, ["tails significantly lighter than any stable law's"] * ratio.size),
        (log_ratio > table.heaviest, [above.format(r) for r in ratio]),
    ]
    reason = ["; ".join(text[column] for raised, text in flags if raised[column]) for column in range(ratio.size)]
    if data.ndim == 1:
        ends = (float(interval[0][0]), float(interval[1][0]))
        return StableFit(float(alpha[0]), float(scale[0]), float(loc[0]), ends, method, not reason[0], reason[0])
    return StableFit(alpha, scale, loc, interval, method, np.array([not text for text in reason]), np.array(reason))


class _McCullochTable(NamedTuple):
    """How the logarithm of the quantile ratio ν hangs together with alpha, as splines through values computed here."""

    gaussian: float  # log ν at alpha = 2, its least value
    heaviest: float  # log ν at the lowest alpha fitted
    alpha: Callable[[Array], Array]  # of log ν
    quartile: Callable[[Array], Array]  # q75 of the unit scale, of alpha
    spread: Callable[[Array], Array]  # sqrt(n) times the standard error of log ν, of alpha


@functools.cache
def _mcculloch_table() -> _McCullochTable:
    from scipy.interpolate import CubicSpline

    alphas = np.linspace(2, _LOWEST_FITTED_ALPHA, 34)
    p = _PROBABILITIES[[0, 1, 3, 4]]
    shared = np.minimum.outer(p, p) * (1 - np.maximum.outer(p, p))
    log_ratio, quartile, spread = np.empty((3, alphas.size))
    for i, a in enumerate(alphas):
        law = SymmetricStable(a)
        inner, outer = law.ppf(p[2:])
        log_ratio[i], quartile[i] = np.log(outer / inner), inner
        # d log ν = d(q95 − q05)/2outer − d(q75 − q25)/2inner, and Cov(q_i, q_j) = p_i (1 − p_j)/(n f_i f_j) for p_i ≤ p_j
        gradient = np.array([-1 / outer, 1 / inner, -1 / inner, 1 / outer]) / 2
        weight = gradient / law.pdf([-outer, -inner, inner, outer])
        spread[i] = np.sqrt(weight @ shared @ weight)
    upwards = slice(None, None, -1)
    return _McCullochTable(
        gaussian=float(log_ratio[0]),
        heaviest=float(log_ratio[-1]),
        alpha=CubicSpline(log_ratio, alphas),
        quartile=CubicSpline(alphas[upwards], quartile[upwards]),
        spread=CubicSpline(alphas[upwards], spread[upwards]),
    )


class _Values(NamedTuple):
    """What the standard law has at a point ``x ≥ 0``."""

    central: Array  # probability of (0, x)
    tail: Array  # probability of (x, ∞)
    density: Array
    score: Array


def _standard(alpha: float, x: Array) -> _Values:
    """Evaluate the law of unit scale at ``x ≥ 0`` (or NaN), any shape."""
    if alpha == 2:
        return _Values(special.erf(x / 2) / 2, special.erfc(x / 2) / 2, np.exp(-(x**2) / 4) / (2 * np.sqrt(np.pi)), x / 2)
    flat = x.ravel()
    result = np.full((4, flat.size), np.nan)
    k = 2 * _SERIES_TERMS
    series_end = (1e-17 * special.factorial(k) / special.gamma((k + 1) / alpha)) ** (1 / k)  # where the first term left out is 1e-17
    for region, evaluate in (
        (flat < series_end, _by_power_series),
        ((flat >= series_end) & (flat <= _TAIL_START), _by_integral),
        (flat > _TAIL_START, _by_tail_series),
    ):
        index = np.flatnonzero(region)
        for start in range(0, index.size, _BLOCK):
            block = index[start : start + _BLOCK]
            result[:, block] = evaluate(alpha, flat[block])
    return _Values(*(row.reshape(x.shape)[()] for row in result))


def _by_power_series(alpha: float, x: Array) -> _Values:
    """Sum ``pdf(x) = Σ_k (−1)^k Γ((2k+1)/α)/(2k)! x^{2k} / (πα)`` with its integral and derivative; for small x."""
    k = np.arange(_SERIES_TERMS)
    coefficient = (-1.0) ** k * special.gamma((2 * k + 1) / alpha) / special.factorial(2 * k) / (np.pi * alpha)
    square = x**2
    density = np.polynomial.polynomial.polyval(square, coefficient)
    central = x * np.polynomial.polynomial.polyval(square, coefficient / (2 * k + 1))
    slope = x * np.polynomial.polynomial.polyval(square, (2 * k * coefficient)[1:])
    return _Values(central, 0.5 - central, density, -slope / density)


def _by_tail_series(alpha: float, x: Array) -> _Values:
    """Sum ``pdf(x) = Σ_{k≥1} Γ(αk+1)/k! sin(kδ) x^{−αk−1} / π``, ``δ = π(1 − α/2)``; asymptotic, for large x."""
    k = np.arange(1, 41)
    coefficient = special.gamma(alpha * k + 1) / special.factorial(k) * np.sin(k * np.pi * (1 - alpha / 2)) / np.pi
    power = x**-alpha
    density = np.polynomial.polynomial.polyval(power, coefficient)  # over x^{−α−1}, likewise below, so that far out nothing is 0/0
    steepness = np.polynomial.polynomial.polyval(power, (alpha * k + 1) * coefficient)
    tail = power * np.polynomial.polynomial.polyval(power, coefficient / (alpha * k))
    return _Values(0.5 - tail, tail, density * power / x, steepness / density / x)


def _by_integral(alpha: float, x: Array) -> _Values:
    """Integrate ``P(X > x) = (1/π) ∫_0^{π/2} exp(−g) dφ``, ``g = x^κ V(φ)``, and its derivatives in x, for a 1-D array of moderate x.

    The form is Zolotarev's (Nolan 1997, Theorem 1, symmetric case) with the angle φ counted from the end where V = 0, and κ = α/(α − 1).
    V rises from 0 to ∞, so exp(−g) falls from 1 to 0; in the logit of the angle the fall has a width of order one. It is cut out and
    integrated by Gauss–Legendre panels; before it the integrand is 1 to rounding, after it 0.

    Returns:
        The four values, each of the shape of `x`.
    """
    kappa = alpha / (alpha - 1)
    logit_table, log_v_table = _log_v_table(alpha)
    log_power = kappa * np.log(x)
    start, end = (np.interp(level - log_power, log_v_table, logit_table) for level in (-37.0, 6.6))  # log g there: exp(−g) is 1, is 0
    node, weight = _panel_rule(28, 16)
    logit = start[:, None] + (end - start)[:, None] * node
    g = np.exp(np.minimum(log_power[:, None] + _log_v(alpha, logit), 6.7))
    measure = weight * (end - start)[:, None] * (np.pi / 2) * special.expit(logit) * special.expit(-logit) * np.exp(-g)
    first, second = (measure * g).sum(axis=1), (measure * g**2).sum(axis=1)
    tail = (np.pi / 2 * special.expit(start) + measure.sum(axis=1)) / np.pi
    return _Values(0.5 - tail, tail, kappa * first / (np.pi * x), (1 + kappa * (second / first - 1)) / x)


def _log_v(alpha: float, logit: Array) -> Array:
    """Return log V at the angle ``φ = (π/2)/(1 + e^−logit)``; increasing in φ."""
    angle, complement = np.pi / 2 * special.expit(logit), np.pi / 2 * special.expit(-logit)
    offset = np.pi * (1 - alpha / 2)
    # sin(offset + αφ) = sin(α(π/2 − φ)): the smaller of the two arguments is the one known to full relative accuracy.
    mixed = np.log(np.sin(np.minimum(offset + alpha * angle, alpha * complement)))
    sine = np.log(np.sin(angle))
    return (sine - mixed) * alpha / (alpha - 1) + np.log(np.sin(offset + (alpha - 1) * angle)) - sine


@functools.lru_cache(maxsize=64)
def _log_v_table(alpha: float) -> tuple[Array, Array]:
    """Tabulate log V, to find where the integrand falls; the integral does not depend on the exact place."""
    logit = np.sinh(np.linspace(-6, 6, 4001)) * 0.6
    return logit, _log_v(alpha, logit)


@functools.cache
def _panel_rule(panels: int, order: int) -> tuple[Array, Array]:
    """Return nodes and weights on (0, 1) of the Gauss–Legendre rule of an order repeated on equal panels."""
    node, weight = np.polynomial.legendre.leggauss(order)
    nodes = (np.arange(panels)[:, None] + (node + 1) / 2) / panels
    return nodes.ravel(), np.tile(weight / (2 * panels), panels)


def _upper_tail(alpha: float, z: Array) -> Array:
    values = _standard(alpha, np.abs(z))
    return np.where(z < 0, 0.5 + values.central, values.tail)[()]


def _upper_quantile(alpha: float, tail: Array) -> Array:
    """Return ``x ≥ 0`` with ``P(X > x) = tail`` for the unit scale; `tail` in [0, 1/2], any shape."""
    if alpha == 2:
        return np.sqrt(2) * np.abs(special.ndtri(tail))
    from scipy.optimize import elementwise  # here, as its import costs more than the rest of this module

    flat = tail.ravel()
    result = np.where(flat == 0, np.inf, 0.0)
    inner = np.flatnonzero((flat > 0) & (flat < 0.5))
    if inner.size:
        q = flat[inner]
        pareto = special.gamma(alpha) * np.sin(np.pi * (1 - alpha / 2)) / np.pi  # P(X > x) ~ pareto · x^−α
        far = np.maximum(np.log(pareto / q) / alpha, np.log(2 * np.abs(special.ndtri(q))))
        near = np.log((0.5 - q) * np.pi / special.gamma(1 + 1 / alpha))
        guess = np.where(q < 0.15, far, near)

        def mismatch(log_x: Array, q: Array) -> Array:  # in the tail the logarithm, near the median the distance from it
            values = _standard(alpha, np.exp(log_x))
            return np.where(q < 0.25, np.log(q) - np.log(values.tail), values.central / (0.5 - q) - 1)

        bracket = elementwise.bracket_root(mismatch, guess - 0.25, guess + 0.25, args=(q,)).bracket
        result[inner] = np.exp(elementwise.find_root(mismatch, bracket, args=(q,)).x)
    return result.reshape(tail.shape)[()]


@functools.lru_cache(maxsize=1024)
def _unit_fisher_information(alpha: float) -> float:
    if alpha == 2:
        return 0.5
    node, weight = _panel_rule(15, 12)
    x, far = _TAIL_START * node, _TAIL_START * np.exp(20 * node)  # beyond the end of `far` the integrand, of order x^−(α+3), is nothing
    near_values, far_values = _standard(alpha, x), _standard(alpha, far)
    near = np.sum(weight * _TAIL_START * near_values.score**2 * near_values.density)
    return float(2 * (near + np.sum(weight * 20 * far * far_values.score**2 * far_values.density)))
