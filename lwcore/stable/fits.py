"""Tail index, scale and location of a symmetric α-stable law from samples.

Three estimators: by sample quantiles (McCulloch 1986), by a regression on the empirical
characteristic function (Koutrouvelis 1980, 1981), and by maximum likelihood.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebpts1
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import finite_array, one_of, real_in
from lwcore.stable.law import SymmetricStable
from lwcore.stable.standard import Array

LOWEST_ALPHA = 0.51  # fitted: heavier tails are held there, and marked
_FEWEST_SAMPLES = 200  # ten beyond each outer quantile; below, no asymptotic interval holds
_STEP, _POINTS = 0.1, 12  # frequencies up to 1.2 over the scale: beyond, |φ|² is mostly noise
_STEEPEST = 1.95  # above it the weights would cancel among themselves
_UNRESOLVED = 1e8  # in scales: so far out the phase hangs on the last digits of the data
_BLOCK = 1 << 15  # samples at a time: half a megabyte of powers, whatever the size of the data
_SPACING, _NODES = 0.04, 480  # of arsinh(|x|/scale): up to 1e8, then a power of x
_NO_SPREAD = "interquartile range is zero"
_LIGHTER = "tails significantly lighter than any stable law's"


@dataclass(frozen=True)
class StableFit:
    """A symmetric stable law fitted to samples; arrays, one entry per column, when these were 2-D.

    Attributes:
        alpha: Estimated tail index, in [0.51, 2]; NaN where there is none.
        scale: Estimated scale σ_α, in the units of the data.
        loc: Estimated location, in the units of the data.
        alpha_interval: Ends of the confidence interval for `alpha`, within the same range.
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
    """Estimate a law from independent draws, shape (samples,) or (samples, columns), by column.

    * ``"mcculloch"``, from five sample quantiles: quick, and blind to what happens between them;
    * ``"ecf"``, from the characteristic function: nearly as sharp as the likelihood, at once for
      all columns;
    * ``"mle"``, by maximum likelihood: the sharpest, one column after the other.

    No result depends on the unit of the data. All presume that the law is stable: a product of two
    Gaussians also gets an ``alpha`` below 2. Ask `goodness_of_fit`. A fit is unreliable where there
    are fewer than 200 samples, where the interquartile range is zero, and where `alpha` is held at
    an end of [0.51, 2] because the data lie beyond.

    Examples:
        >>> law = SymmetricStable(alpha=1.5, scale=2.0)
        >>> found = fit(law.sample(20_000, np.random.default_rng(0)), method="ecf")
        >>> low, high = found.alpha_interval
        >>> print(f"{found.alpha:.2f} ({low:.2f} to {high:.2f}), scale {found.scale:.2f}")
        1.48 (1.46 to 1.50), scale 1.97
    """
    data = finite_array("samples", samples, ndim=(1, 2))
    if len(data) < 2:
        raise ValueError(f"samples has shape {data.shape}: must have at least 2 samples.")
    one_of("method", method, METHODS)
    margin = special.ndtri((1 + real_in("confidence", confidence, "(0, 1)")) / 2)

    count, columns = len(data), data[0].size
    found = METHODS[method](data.reshape(count, -1), margin)
    few = f"{count} samples, fewer than {_FEWEST_SAMPLES}"
    doubts = {few: np.full(columns, count < _FEWEST_SAMPLES)} | found.doubts
    reasons = ["; ".join(why for why, where in doubts.items() if where[c]) for c in range(columns)]
    if data.ndim == 1:
        alpha, scale, loc, low, high = (array.item() for array in found[:5])
        return StableFit(alpha, scale, loc, (low, high), method, not reasons[0], reasons[0])
    reliable, reason, ends = np.array([not why for why in reasons]), np.array(reasons), found[3:5]
    return StableFit(found.alpha, found.scale, found.loc, ends, method, reliable, reason)


class Estimates(NamedTuple):
    """What an estimator finds, arrays of shape (columns,), and where it is in doubt, by reason."""

    alpha: Array
    scale: Array
    loc: Array
    low: Array
    high: Array
    doubts: dict[str, NDArray[np.bool_]]


def accepted(alphas: Array, expected: Array, margin: Array, observed: Array) -> tuple[Array, Array]:
    """Return the ends of the `alphas` under which a statistic is within a margin of expectation.

    An interval that inverts a test takes the spread at each alpha it judges. The usual one, the
    estimate plus and minus its standard error, takes that at the estimate: near ``alpha = 2``,
    where the spread falls quickly, it covers too little.
    """
    ends = (np.maximum.accumulate(expected + side * margin) for side in (1, -1))
    low, high = (np.interp(observed, end, alphas) for end in ends)
    return low, high


# Sample quantiles


def by_quantiles(data: Array, margin: float) -> Estimates:
    """Fit every column by the ratio ``ν = (q95 − q05)/(q75 − q25)`` of its sample quantiles.

    In the symmetric case ν has one value for each ``alpha`` and is inverted for it; the
    interquartile range then gives the scale and the median the location. The interval holds every
    ``alpha`` whose log ν is within `margin` asymptotic standard errors of the observed one.
    """
    q05, q25, loc, q75, q95 = np.quantile(data, [0.05, 0.25, 0.5, 0.75, 0.95], 0, method="hazen")
    alphas, log_ratios, quartiles, spread = _quantile_table()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q75 > q25, (q95 - q05) / (q75 - q25), np.nan)
    log_ratio = np.log(ratio)
    alpha = np.interp(-log_ratio, -log_ratios, alphas)
    low, high = accepted(alphas, -log_ratios, margin * spread / np.sqrt(len(data)), -log_ratio)
    most, least = np.exp(log_ratios[[0, -1]])
    doubts = {
        _NO_SPREAD: np.isnan(ratio),
        f"quantile ratio below the Gaussian's {least:.4g}: alpha is held at 2": ratio < least,
        _LIGHTER: low == 2,
        f"quantile ratio above {most:.4g}: alpha is held at {LOWEST_ALPHA}": ratio > most,
    }
    scale = np.where(q75 > q25, (q75 - q25) / (2 * np.interp(alpha, alphas, quartiles)), 0.0)
    return Estimates(alpha, scale, loc, low, high, doubts)


@functools.cache
def _quantile_table() -> tuple[Array, Array, Array, Array]:
    """Return alphas, dense enough for straight lines between, and what `_quantities` tells."""
    from scipy.interpolate import BarycentricInterpolator  # here, as its import takes long

    nodes = LOWEST_ALPHA + (2 - LOWEST_ALPHA) * (chebpts1(24) + 1) / 2  # log ν is good to 3e-8
    # It shuffles its nodes: with a seed, two processes round alike.
    curves = BarycentricInterpolator(nodes, [_quantities(float(a)) for a in nodes], rng=0)
    alphas = np.linspace(LOWEST_ALPHA, 2, 4001)
    return alphas, *curves(alphas).T


def _quantities(alpha: float) -> tuple[float, float, float]:
    """Return log ν, the upper quartile at unit scale, and sqrt(n) standard errors of log ν."""
    p, law = np.array([0.05, 0.25, 0.75, 0.95]), SymmetricStable(alpha)
    inner, outer = law.ppf(p[2:])
    # d log ν = d(q95 − q05)/2outer − d(q75 − q25)/2inner,
    # and Cov(q_i, q_j) = p_i (1 − p_j)/(n f_i f_j) for p_i ≤ p_j
    gradient = np.array([-1 / outer, 1 / inner, -1 / inner, 1 / outer]) / 2
    weight = gradient / law.pdf([-outer, -inner, inner, outer])
    shared = np.minimum.outer(p, p) * (1 - np.maximum.outer(p, p))
    return np.log(outer / inner), inner, np.sqrt(weight @ shared @ weight)


# The empirical characteristic function


def by_characteristic_function(data: Array, margin: float) -> Estimates:
    """Fit every column by a straight line through its empirical characteristic function φ̂.

    For a stable law ``log(−log |φ(u)|²) = log 2 + alpha·(log scale + log u)``. McCulloch's fit puts
    the data into units of the scale, where the frequencies are fixed; the line is fitted by
    generalised least squares with the asymptotic covariance of φ̂, taken at McCulloch's ``alpha``
    and then twice at the one just found. ``|φ̂|²`` is first rid of its bias, ``(1 − |φ|²)/n``. The
    phase of φ̂, likewise weighted, gives the location. The interval holds every ``alpha`` from
    which the slope is within `margin` of its own standard errors.
    """
    first, n = by_quantiles(data, margin), len(data)
    with np.errstate(divide="ignore", invalid="ignore"):  # a scale of 0 makes everything NaN
        phi = characteristic_function((data - first.loc) / first.scale, _STEP, _POINTS)
        level = np.log(-np.log((n * np.abs(phi) ** 2 - 1) / (n - 1)))
    slope = first.alpha
    for _ in range(3):
        slope = np.sum(_weights(slope)[0] * level, axis=0)
    alpha = np.clip(slope, LOWEST_ALPHA, 2)
    _, of_intercept, of_phase = _weights(alpha)
    log_scale = (np.sum(of_intercept * level, axis=0) - np.log(2)) / slope
    shift = np.sum(of_phase * np.angle(phi), axis=0)
    lost = np.isnan(slope)
    scale = first.scale * np.exp(np.where(lost, 0, log_scale))
    loc = first.loc + first.scale * np.where(lost, 0, shift)
    alphas, _, spread = _weight_table()
    low, high = accepted(alphas, alphas, margin * spread / np.sqrt(n), slope)
    doubts = {
        _NO_SPREAD: np.isnan(first.alpha),
        "the characteristic function is lost in its noise": lost & ~np.isnan(first.alpha),
        "slope above the Gaussian's: alpha is held at 2": slope > 2,
        _LIGHTER: low == 2,
        f"slope below {LOWEST_ALPHA}, at which alpha is held": slope < LOWEST_ALPHA,
    }
    return Estimates(alpha, scale, loc, low, high, doubts)


def characteristic_function(samples: Array, step: float, points: int) -> NDArray[np.complex128]:
    """Return the mean of ``exp(i u x)`` at ``u = step, 2·step, …``, shape (points, columns).

    Samples, shape (samples, columns), are in units of their scale; those beyond 1e8, whose phase is
    rounding error, count as 0, the mean over all phases.
    """
    n, columns = samples.shape
    total = np.zeros((points, columns), dtype=np.complex128)
    rows = max(1, _BLOCK // columns)
    for start in range(0, n, rows):
        x = samples[start : start + rows]
        turn = np.where(np.abs(x) > _UNRESOLVED, 0, np.exp(1j * step * x))
        power = np.ones_like(turn)
        for k in range(points):
            power *= turn
            total[k] += power.sum(axis=0)
    return total / n


def _weights(alpha: Array) -> Array:
    """Return weights of slope, intercept and phase at each alpha, shape (3, points, columns)."""
    alphas, weights, _ = _weight_table()
    place = (alpha - alphas[0]) / (alphas[1] - alphas[0])
    place = np.nan_to_num(np.clip(place, 0, len(alphas) - 1 - 1e-9))
    i = place.astype(int)
    return weights[..., i] + (place - i) * (weights[..., i + 1] - weights[..., i])


@functools.cache
def _weight_table() -> tuple[Array, Array, Array]:
    """Return alphas, the weights at each, and sqrt(n) times the standard error of the slope."""
    alphas = np.linspace(LOWEST_ALPHA, 2, 400)
    u = _STEP * np.arange(1.0, _POINTS + 1)
    design = np.stack([np.log(u), np.ones(_POINTS)], axis=1)
    weights, spread = [], []
    for a in alphas:
        plain, odd = _covariance(u, min(a, _STEEPEST))
        by_line, by_phase = np.linalg.solve(plain, design), np.linalg.solve(odd, u)
        slope, intercept = np.linalg.solve(design.T @ by_line, by_line.T)
        weights.append([slope, intercept, by_phase / (u @ by_phase)])
        spread.append(np.sqrt(slope @ _covariance(u, a)[0] @ slope))
    return alphas, np.moveaxis(np.array(weights), 0, -1), np.array(spread)


def _covariance(u: Array, alpha: float) -> tuple[Array, Array]:
    """Return n times the covariances of levels and of phases at frequencies `u`, at unit scale."""
    phi = np.exp(-(u**alpha))
    plus, minus = (np.exp(-(np.abs(u[:, None] + sign * u) ** alpha)) for sign in (1, -1))
    level = 1 / (phi * u**alpha)  # minus the derivative of log(−log φ²) in the real part of φ̂
    real, imaginary = (plus + minus) / 2 - np.outer(phi, phi), (minus - plus) / 2
    return real * np.outer(level, level), imaginary / np.outer(phi, phi)


# Maximum likelihood


def by_likelihood(data: Array, margin: float) -> Estimates:
    """Fit every column by maximum likelihood over (alpha, log scale, loc), from McCulloch's fit.

    The interval holds every ``alpha`` whose profile likelihood passes the likelihood-ratio test:
    ``2 log ratio ≤ margin²``; a `margin` of 0 leaves it out. It needs no standard error, which is
    as well: at ``alpha = 2`` the information about ``alpha`` is infinite.
    """
    first = by_quantiles(data, margin)
    alpha, log_scale, shift, low, high = np.full((5, data.shape[1]), np.nan)
    for c in np.flatnonzero(~np.isnan(first.alpha)):
        sample = _Sample((data[:, c] - first.loc[c]) / first.scale[c], first.alpha[c])
        tilt, log_scale[c], shift[c] = sample.best
        alpha[c] = _alpha(tilt)
        if margin > 0:
            low[c], high[c] = sample.interval(margin)
    nowhere = np.isnan(alpha)
    scale = first.scale * np.exp(np.where(nowhere, 0, log_scale))
    loc = first.loc + first.scale * np.where(nowhere, 0, shift)
    doubts = {
        _NO_SPREAD: nowhere,
        "no stable law is likelier than the Gaussian: alpha is held at 2": alpha == 2,
        f"the likelihood still rises at {LOWEST_ALPHA}, where alpha is held": alpha < LOWEST_ALPHA + 1e-9,
    }
    return Estimates(alpha, scale, loc, low, high, doubts)


class _Sample:
    """Samples of one column in units of a first fit, their greatest mean log likelihood, and where.

    It is a function of ``tilt = −log(2 − alpha)``, log scale and location: on the axis of tilts, of
    which the Gaussian is the infinite one, the share of the tails falls evenly.
    """

    def __init__(self, x: Array, alpha: float) -> None:
        """Find the greatest likelihood, from a first `alpha`."""
        self.x = x
        square = np.mean((x - x.mean()) ** 2)
        self.gaussian = -0.5 * np.log(2 * np.pi * square) - 0.5  # its greatest
        start = np.array([_tilt(min(alpha, 1.95)), 0.0, 0.0])
        self.height, self.best = self.climb(start, _LEAST_TILT, _GREATEST_TILT)
        if self.gaussian >= self.height:
            self.height = self.gaussian
            self.best = np.array([np.inf, np.log(square / 2) / 2, x.mean()])

    def descent(self, point: Array) -> tuple[float, Array]:
        """Return minus the mean log likelihood and its gradient in (tilt, log scale, location)."""
        tilt, log_scale, shift = point
        z = (self.x - shift) * np.exp(-log_scale)
        height, by_tilt, slope = _log_density(tilt, z)
        by_location = slope.mean() * np.exp(-log_scale)
        gradient = np.array([-by_tilt.mean(), 1 + (z * slope).mean(), by_location])
        return log_scale - height.mean(), gradient

    def climb(self, start: Array, least: float, greatest: float) -> tuple[float, Array]:
        """Return the greatest mean log likelihood between two tilts, and where it is."""
        from scipy.optimize import minimize

        bounds, fine = [(least, greatest), (None, None), (None, None)], {"ftol": 1e-15, "gtol": 1e-9}
        by = {"method": "L-BFGS-B", "jac": True, "bounds": bounds, "options": fine}
        found = minimize(self.descent, start, **by)
        return -found.fun, found.x

    def interval(self, margin: float) -> tuple[float, float]:
        """Return the range of alpha in which the likelihood-ratio statistic is within `margin`²."""
        if self._root(self.gaussian) <= margin:
            return _alpha(self._end(_LEAST_TILT, margin)), 2.0
        low, high = (_alpha(self._end(end, margin)) for end in (_LEAST_TILT, _GREATEST_TILT))
        return low, high

    def _root(self, height: float) -> float:
        return float(np.sqrt(2 * self.x.size * max(self.height - height, 0)))

    def _end(self, outermost: float, margin: float) -> float:
        """Return the tilt between the best and `outermost` at which the root passes `margin`."""
        from scipy.optimize import brentq

        def excess(tilt: float) -> float:
            height, _ = self.climb(np.array([tilt, *self.best[1:]]), tilt, tilt)
            return self._root(height) - margin

        middle = min(self.best[0], _GREATEST_TILT)
        if excess(middle) >= 0:
            return middle
        return brentq(excess, middle, outermost, xtol=1e-5) if excess(outermost) > 0 else outermost


def _tilt(alpha: float) -> float:
    return float(-np.log(2 - alpha))


def _alpha(tilt: float) -> float:
    return float(np.clip(2 - np.exp(-tilt), LOWEST_ALPHA, 2))


_LEAST_TILT, _GREATEST_TILT = _tilt(LOWEST_ALPHA), _tilt(2 - 1e-4)  # nearer is the Gaussian


def _log_density(tilt: float, z: Array) -> tuple[Array, Array, Array]:
    """Return the log density of the standard law at `z`, and its derivatives in tilt and z."""
    t = np.arcsinh(np.abs(z))
    panel = np.minimum((t / _SPACING).astype(np.intp), _NODES - 2)
    within = np.minimum(t - panel * _SPACING, _SPACING)
    cubics, by_tilt = (_surface()(tilt, order).take(panel, axis=1) for order in (0, 1))
    steepness, heaviness = 3 - np.exp(-tilt), np.exp(-tilt)  # α + 1, and 2 − α, its derivative
    powers = np.arange(1, 4)[:, None]
    slope = polyval(within, powers * cubics[1:], tensor=False) - steepness
    height = polyval(within, cubics, tensor=False) - steepness * t
    by_tilt = polyval(within, by_tilt, tensor=False) - heaviness * t
    return height, by_tilt, slope * np.sign(z) / np.hypot(1, z)


@functools.cache
def _surface() -> Callable[..., Array]:
    """Return cubics in ``t = arsinh |z|``, shape (4, panels), as a function of the tilt.

    They are the log density plus ``(α + 1) t``, which is constant beyond the last panel.
    """
    from scipy.interpolate import CubicSpline

    far, near = np.linspace(LOWEST_ALPHA, 1.7, 48), np.linspace(_tilt(1.7), _GREATEST_TILT, 49)
    tilts = np.append([_tilt(a) for a in far[:-1]], near)
    t = _SPACING * np.arange(_NODES)
    cubics = []
    for a in map(_alpha, tilts):
        height = SymmetricStable(a).logpdf(np.sinh(t)) + (a + 1) * t
        cubics.append(CubicSpline(t, height, bc_type=((1, a + 1), (1, 0.0))).c[::-1])
    return CubicSpline(tilts, cubics)


METHODS = {"mcculloch": by_quantiles, "ecf": by_characteristic_function, "mle": by_likelihood}
