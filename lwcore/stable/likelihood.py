"""Maximum likelihood for a symmetric α-stable law, and the interval of the likelihood ratio."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from lwcore.stable import mcculloch
from lwcore.stable.estimates import LOWEST_ALPHA, Estimates
from lwcore.stable.law import SymmetricStable
from lwcore.stable.standard import Array

_NEAREST = 1e-4  # to the Gaussian, which is judged by itself
_SPACING, _NODES = 0.05, 384  # of arsinh(|x|/scale): up to 1e8, beyond which the density is a power of x to four digits


def estimate(data: Array, margin: float) -> Estimates:
    """Fit every column by maximum likelihood over (alpha, log scale, loc), from McCulloch's fit.

    The interval holds every ``alpha`` whose profile likelihood passes the likelihood-ratio test: ``2 log ratio ≤ margin²``. It needs no
    standard error, which is as well: at ``alpha = 2`` the information about ``alpha`` is infinite.

    Args:
        data: Samples, shape (samples, columns).
        margin: Square root of the largest test statistic allowed; 0 for no interval, which takes most of the time.

    Returns:
        The estimates, with ``alpha`` held within [LOWEST_ALPHA, 2].
    """
    first = mcculloch.estimate(data, margin)
    columns = data.shape[1]
    alpha, scale, loc, low, high = np.full((5, columns), np.nan)
    for c in np.flatnonzero(~np.isnan(first.alpha)):
        sample = _Sample((data[:, c] - first.loc[c]) / first.scale[c], first.alpha[c])
        tilt, log_scale, shift = sample.best
        alpha[c] = _alpha(tilt)
        scale[c], loc[c] = first.scale[c] * np.exp(log_scale), first.loc[c] + first.scale[c] * shift
        if margin > 0:
            low[c], high[c] = sample.interval(margin)
    nowhere = np.isnan(alpha)
    doubts = [
        (nowhere, ["interquartile range is zero"] * columns),
        (alpha == 2, ["no stable law with alpha below 2 is likelier than the Gaussian: alpha is held at 2"] * columns),
        (alpha < LOWEST_ALPHA + 1e-9, [f"the likelihood still rises towards {LOWEST_ALPHA}, at which alpha is held"] * columns),
    ]
    return Estimates(alpha, np.where(nowhere, 0.0, scale), np.where(nowhere, first.loc, loc), low, high, doubts)


class _Sample:
    """Samples of one column in units of a first fit, and their mean log likelihood.

    It is a function of ``tilt = −log(2 − alpha)`` in place of alpha: on this axis the share of the tails falls evenly towards the Gaussian.

    Attributes:
        height: The greatest mean log likelihood found.
        best: Tilt, log scale and location there; an infinite tilt is the Gaussian.
    """

    def __init__(self, x: Array, alpha: float) -> None:
        """Find the greatest likelihood, from a first `alpha`."""
        self.x = x
        square = np.mean((x - x.mean()) ** 2)
        self.gaussian = -0.5 * np.log(2 * np.pi * square) - 0.5  # its mean log likelihood at its own mean and variance
        self.height, self.best = self.climb(np.array([_tilt(min(alpha, 1.95)), 0.0, 0.0]))
        if self.gaussian >= self.height:
            self.height, self.best = self.gaussian, np.array([np.inf, np.log(square / 2) / 2, x.mean()])

    def descent(self, point: Array) -> tuple[float, Array]:
        """Return minus the mean log likelihood and its gradient in (tilt, log scale, location)."""
        tilt, log_scale, shift = point
        z = (self.x - shift) * np.exp(-log_scale)
        log_density, slope, _ = _log_density(_cubics(_surface()(tilt)), z)
        by_tilt, _, _ = _log_density(_cubics(_surface()(tilt, 1)), z)
        return log_scale - log_density.mean(), np.array([-by_tilt.mean(), 1 + (z * slope).mean(), slope.mean() * np.exp(-log_scale)])

    def climb(self, start: Array, *, hold: bool = False) -> tuple[float, Array]:
        """Return the greatest mean log likelihood and where it is; on request with the tilt held."""
        from scipy import optimize  # here, as its import costs more than the rest of this module

        tilts = (start[0], start[0]) if hold else (_LEAST_TILT, _GREATEST_TILT)
        options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500}
        found = optimize.minimize(
            self.descent, start, jac=True, method="L-BFGS-B", bounds=[tilts, (None, None), (None, None)], options=options
        )
        return -found.fun, found.x

    def profile(self, tilt: float, start: Array) -> tuple[float, Array]:
        """Return the greatest mean log likelihood at a tilt, and log scale and location there, by Newton's method from a near start."""
        cubics = _cubics(_surface()(tilt))
        point, height = start, -np.inf
        for _ in range(12):
            z = (self.x - point[1]) * np.exp(-point[0])
            log_density, slope, curvature = _log_density(cubics, z)
            previous, height = height, log_density.mean() - point[0]
            # in location relative to the scale, in which the Hessian has no unit
            gradient = np.array([1 + (z * slope).mean(), slope.mean()])
            mixed = -(slope + z * curvature).mean()
            hessian = np.array([[-(z * slope + z**2 * curvature).mean(), mixed], [mixed, -curvature.mean()]])
            if height < previous - 1e-12 or hessian[0, 0] <= 0 or np.linalg.det(hessian) <= 0:
                break
            step = np.linalg.solve(hessian, gradient)
            if step @ gradient < 1e-15:  # twice what is left to gain
                return height, point
            point = point - step * [1, np.exp(point[0])]
        height, best = self.climb(np.array([tilt, *start]), hold=True)  # not near enough
        return height, best[1:]

    def interval(self, margin: float) -> tuple[float, float]:
        """Return the ends of the range of alpha in which the root of the likelihood-ratio statistic is within `margin`."""
        middle = min(self.best[0], _GREATEST_TILT)
        low = _alpha(self.end(middle, _LEAST_TILT, margin))
        high = 2.0 if self.root(self.gaussian) <= margin else _alpha(self.end(middle, _GREATEST_TILT, margin))
        return low, high

    def end(self, middle: float, outermost: float, margin: float) -> float:
        """Return the tilt between `middle` and `outermost` at which the root passes `margin`, or the nearer of the two if it does not."""
        from scipy import optimize

        nearest = self.best[1:]

        @functools.cache
        def excess(tilt: float) -> float:
            nonlocal nearest
            height, nearest = self.profile(tilt, nearest)
            return self.root(height) - margin

        if middle == outermost or excess(middle) >= 0:
            return middle
        inner, step = middle, np.copysign(2.5 / np.sqrt(self.x.size) * np.exp(middle), outermost - middle)
        while True:
            outer = middle + step if abs(step) < abs(outermost - middle) else outermost
            if excess(outer) >= 0:
                return optimize.brentq(excess, inner, outer, xtol=1e-7)
            if outer == outermost:
                return outermost
            inner = outer
            step *= 2

    def root(self, height: float) -> float:
        """Return the square root of twice the log likelihood ratio."""
        return float(np.sqrt(2 * self.x.size * max(self.height - height, 0)))


def _tilt(alpha: float) -> float:
    return float(-np.log(2 - alpha))


def _alpha(tilt: float) -> float:
    return float(np.clip(2 - np.exp(-tilt), LOWEST_ALPHA, 2))


_LEAST_TILT, _GREATEST_TILT = _tilt(LOWEST_ALPHA), _tilt(2 - _NEAREST)


def _log_density(cubics: Array, z: Array) -> tuple[Array, Array, Array]:
    """Return at `z` the standard law's log density and its first two derivatives in z, from its cubics on the axis ``t = arsinh |z|``."""
    place = np.arcsinh(np.abs(z)) / _SPACING
    panel = np.minimum(place.astype(np.intp), _NODES - 2)
    beyond = np.maximum(place - (_NODES - 1), 0)  # a straight line in t there
    f = place - panel - beyond
    a, b, c, d = cubics[:, panel]
    by_t = (b + f * (2 * c + f * 3 * d)) / _SPACING
    by_t_twice = np.where(beyond > 0, 0, 2 * c + f * 6 * d) / _SPACING**2
    stretch = np.hypot(1, z)  # dz/dt
    slope = by_t / stretch
    with np.errstate(over="ignore"):
        curvature = (by_t_twice - slope * np.abs(z)) / stretch**2
    return a + f * (b + f * (c + f * d)) + beyond * _SPACING * by_t, np.sign(z) * slope, curvature


def _cubics(values_and_slopes: Array) -> Array:
    """Return the coefficients, by rising power, of Hermite's cubics between neighbouring nodes; shape (4, panels)."""
    values, slopes = values_and_slopes
    step, before, after = np.diff(values), slopes[:-1], slopes[1:]
    return np.stack([values[:-1], before, 3 * step - 2 * before - after, before + after - 2 * step])


@functools.cache
def _surface() -> Callable[..., Array]:
    """Return log density and slope at the nodes, shape (2, nodes), as a spline in the tilt; the slope is per node, not per unit of t."""
    from scipy.interpolate import CubicSpline

    far, near = np.linspace(LOWEST_ALPHA, 1.7, 48), np.linspace(_tilt(1.7), _GREATEST_TILT, 33)
    tilts = np.concatenate([[_tilt(a) for a in far[:-1]], near])
    t = _SPACING * np.arange(_NODES)
    x = np.sinh(t)
    laws = [SymmetricStable(_alpha(tilt)) for tilt in tilts]
    table = np.stack([[law.logpdf(x), -law.score(x) * np.cosh(t) * _SPACING] for law in laws])
    return CubicSpline(tilts, table)
