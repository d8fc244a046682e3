"""The symmetric α-stable law of unit scale at ``x ≥ 0``: density, score and tail probability, each to nearly full relative accuracy.

For 0.5 < α < 2, neither 1 nor 2, three ways of computing share the half-line, and meet where each is accurate to rounding:

* next to zero the power series in ``x²``, which keeps the probability next to the median and the score relatively accurate;
* far out the series in powers of ``x^−α``, which keeps the tail relatively accurate however far;
* between them the Fourier integral of the characteristic function, along a path in the complex plane on which it hardly oscillates:
  a ray (`_FourierRay`), and for α above 1.85, where that one would cancel to give the small tail of a bell, a corner (`_FourierCorner`).

The integral costs microseconds a point. Where many points are asked for, it is evaluated once at the Chebyshev nodes of short panels and
the polynomials through those values answer for it (`_PanelTable`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

DENSITY, SLOPE, TAIL = range(3)  # rows of what the series, integrals and tables hold: p, −p′ and P(X > x)

_NEAR_TERMS, _FAR_TERMS = 26, 41
_HIGHEST_RAY_ALPHA = 1.85
_BLOCK = 256  # points per block of an integral: about a megabyte of temporaries, whatever the number of points
_PANEL_NODES = 16
_AT_ONCE = 1 << 13  # points at which polynomials are evaluated together, to stay in the cache


class StandardLaw(Protocol):
    """What a law of unit scale can tell at an array of ``x ≥ 0``, NaN or infinity.

    Attributes:
        near_end: Where the bell begins to bend: below it, one polynomial of moderate degree does.
        far_start: Where the tail begins: beyond it, everything is a power of x times a smooth function of ``x^−α``.
    """

    near_end: float
    far_start: float

    def density(self, x: Array) -> Array:
        """Return p(x)."""

    def log_density(self, x: Array) -> Array:
        """Return log p(x), also where p(x) is too small for a float."""

    def score(self, x: Array) -> Array:
        """Return ``−p′(x)/p(x)``."""

    def tail(self, x: Array) -> Array:
        """Return P(X > x)."""

    def central(self, x: Array) -> Array:
        """Return P(0 < X < x)."""


@functools.lru_cache
def standard_law(alpha: float) -> StandardLaw:
    """Return the standard law of tail index `alpha` in (0.5, 2]; kept with its table, as a law is seldom used only once."""
    if alpha == 2:
        return _Gaussian()
    if alpha == 1:
        return _Cauchy()
    return _Stable(alpha)


class _Gaussian:
    """α = 2: the Gaussian of variance 2."""

    near_end, far_start = 3.0, np.inf

    def density(self, x: Array) -> Array:
        return np.exp(self.log_density(x))

    def log_density(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return -((x / 2) ** 2) - np.log(4 * np.pi) / 2

    def score(self, x: Array) -> Array:
        return x / 2

    def tail(self, x: Array) -> Array:
        return special.erfc(x / 2) / 2

    def central(self, x: Array) -> Array:
        return special.erf(x / 2) / 2


class _Cauchy:
    """α = 1: the Cauchy law."""

    near_end, far_start = 0.5, 3.0

    def density(self, x: Array) -> Array:
        root = np.hypot(1, x)  # its square would overflow where the density does not matter yet
        return 1 / np.pi / root / root

    def log_density(self, x: Array) -> Array:
        return -np.log(np.pi) - 2 * np.log(np.hypot(1, x))

    def score(self, x: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return 2 / (x + 1 / x)

    def tail(self, x: Array) -> Array:
        return np.arctan2(1, x) / np.pi

    def central(self, x: Array) -> Array:
        return np.arctan(x) / np.pi


class _Stable:
    """All other α."""

    def __init__(self, alpha: float) -> None:
        """Sum up what the two series need, and set up the integral between them."""
        self.alpha: Final = alpha
        self.near, self.near_end = _near_series(alpha)
        self.far, self.far_start = _far_series(alpha)
        integral = _FourierRay(alpha, self.near_end) if alpha <= _HIGHEST_RAY_ALPHA else _FourierCorner(alpha)
        self.integral: Callable[[Array], Array] = integral

    def density(self, x: Array) -> Array:
        def far(x: Array) -> Array:
            power = x**-self.alpha
            return polyval(power, self.far[DENSITY]) * power / x

        return self._by_region(x, lambda x: polyval(x**2, self.near[DENSITY]), lambda x: self.between(x, DENSITY)[0], far)

    def log_density(self, x: Array) -> Array:
        def far(x: Array) -> Array:
            return np.log(polyval(x**-self.alpha, self.far[DENSITY])) - (self.alpha + 1) * np.log(x)

        return self._by_region(x, lambda x: np.log(polyval(x**2, self.near[DENSITY])), lambda x: np.log(self.between(x, DENSITY)[0]), far)

    def score(self, x: Array) -> Array:
        def near(x: Array) -> Array:
            return x * polyval(x**2, self.near[SLOPE]) / polyval(x**2, self.near[DENSITY])

        def between(x: Array) -> Array:
            density, slope = self.between(x, DENSITY, SLOPE)
            return slope / density

        def far(x: Array) -> Array:
            power = x**-self.alpha
            return polyval(power, self.far[SLOPE]) / polyval(power, self.far[DENSITY]) / x

        return self._by_region(x, near, between, far)

    def tail(self, x: Array) -> Array:
        def far(x: Array) -> Array:
            power = x**-self.alpha
            return polyval(power, self.far[TAIL]) * power

        return self._by_region(x, lambda x: 0.5 - x * polyval(x**2, self.near[TAIL]), lambda x: self.between(x, TAIL)[0], far)

    def central(self, x: Array) -> Array:
        return np.where(x < self.near_end, x * polyval(np.minimum(x, self.near_end) ** 2, self.near[TAIL]), 0.5 - self.tail(x))

    def _by_region(self, x: Array, near: _Evaluate, between: _Evaluate, far: _Evaluate) -> Array:
        """Let each way of computing fill in its own part of a new array; NaN belongs to none."""
        flat = np.ravel(x)
        result = np.full(flat.size, np.nan)
        is_near, is_far = flat < self.near_end, flat > self.far_start
        rest = np.flatnonzero(~(is_near | is_far | np.isnan(flat)))
        if rest.size:
            result[rest] = between(flat[rest])
        for region, series in ((is_near, near), (is_far, far)):
            index = np.flatnonzero(region)
            for start in range(0, index.size, _AT_ONCE):
                some = index[start : start + _AT_ONCE]
                result[some] = series(flat[some])
        return result.reshape(np.shape(x))

    def between(self, x: Array, *rows: int) -> Array:
        """Return some of p, −p′ and P(X > x) at points between the series, from the table where making it pays.

        Whether it is already there does not count: the same call must give the same bits again.
        """
        if x.size > _PANEL_NODES * _panel_count(self.alpha, self.near_end, self.far_start):
            return self.table(x, rows)
        return self.integral(x)[list(rows)]

    @functools.cached_property
    def table(self) -> _PanelTable:
        """The polynomials that stand for the integral."""
        count = _panel_count(self.alpha, self.near_end, self.far_start)
        space = np.geomspace if self.alpha < 1 else np.linspace
        return _PanelTable(self.integral, space(self.near_end, self.far_start, count + 1))


_Evaluate = Callable[[Array], Array]


def _near_series(alpha: float) -> tuple[Array, float]:
    """Return the coefficients, in powers of x², of p, ``−p′/x`` and ``P(0 < X < x)/x``, and where to leave the series.

    ``p(x) = Σ_k (−1)^k Γ((2k+1)/α)/(2k)! x^{2k} / (πα)``, which converges for α > 1 and is asymptotic below. It ends with the term that
    is the first to fall to 1e-17 of the first at the largest x.
    """
    k = np.arange(_NEAR_TERMS)
    size = special.gamma((2 * k + 1) / alpha) / special.factorial(2 * k)
    reach = (1e-17 * size[0] / size[1:]) ** (1 / (2 * k[1:]))
    terms = 1 + int(reach.argmax())
    density = ((-1.0) ** k * size / (np.pi * alpha))[: terms + 1]
    k = k[: terms + 1]
    slope = np.append((-2 * k * density)[1:], 0.0)
    return np.stack([density, slope, density / (2 * k + 1)]), float(reach.max())


def _far_series(alpha: float) -> tuple[Array, float]:
    """Return the coefficients, in powers of ``x^−α``, of ``p x^{α+1}``, ``−p′ x^{α+2}`` and ``P(X > x) x^α``, and where to enter it.

    ``p(x) = Σ_{k≥1} Γ(αk+1)/k! sin(kδ) x^{−αk−1} / π``, ``δ = π(1 − α/2)``, asymptotic for α > 1. As sin δ vanishes towards α = 2, terms
    are held against the first with its sine and without their own: so the series starts only where a Gaussian's tail has died away too.
    """
    delta = np.pi * (1 - alpha / 2)
    k = np.arange(1, _FAR_TERMS)
    size = special.gamma(alpha * k + 1) / special.factorial(k)
    reach = (1e17 * size[1:] / (size[0] * np.sin(delta))) ** (1 / (alpha * k[:-1]))
    terms = 1 + int(reach.argmin())
    density = (size * np.sin(k * delta) / np.pi)[:terms]
    k = k[:terms]
    return np.stack([density, (alpha * k + 1) * density, density / (alpha * k)]), float(reach.min())


class _FourierRay:
    """Integrate ``p(x) = Re (1/π) ∫ e^{ixt} (e^{−t^α} − 1) dt`` along the ray ``arg t = π/(4α)``, on which both factors decay.

    The −1 adds nothing to the real part, but takes away what would cancel in the tail. −p′ and P(X > x) come from the same integrand
    times ``−it`` and ``i/t``. The trapezoidal rule in v, ``|t| = exp(v − e^{−v})``, converges exponentially.
    """

    def __init__(self, alpha: float, least: float) -> None:
        """Lay out the rule so that it holds for any x from `least` on."""
        angle = np.pi / (4 * alpha)
        step = 2 * np.pi * angle / 52  # the integrand is analytic for |Im v| < angle: an error of e^−52 for a function of size one
        v = np.arange(-4.5, np.log(40 / (least * np.sin(angle))), step)
        radius = np.exp(v - np.exp(-v))
        t = radius * np.exp(1j * angle)
        weight = np.expm1(-(radius**alpha) * np.exp(1j * alpha * angle)) * t * (1 + np.exp(-v)) * step / np.pi
        self.decay, self.phase = t.imag, t.real
        self.weight = np.stack([weight, -1j * t * weight, 1j / t * weight], axis=1)

    def __call__(self, x: Array) -> Array:
        """Return p, −p′ and P(X > x), shape (3, points), at the points `x`, shape (points,)."""
        result = np.empty((x.size, 3))
        for start in range(0, x.size, _BLOCK):
            block = x[start : start + _BLOCK, None]
            size, turn = np.exp(-block * self.decay), block * self.phase
            result[start : start + _BLOCK] = (size * np.cos(turn)) @ self.weight.real - (size * np.sin(turn)) @ self.weight.imag
        return result.T


class _FourierCorner:
    """Integrate ``p(x) = Re (1/π) ∫ e^{ixt − t^α} dt`` up the imaginary axis to ``ix/2``, and from there to the right; for α near 2.

    The point ix/2 is the saddle of a Gaussian. The first stretch has a positive integrand that vanishes with ``sin δ``, ``δ = π(1 − α/2)``:
    it is the tail. The second, of the size of ``e^{−x²/4}`` and without oscillation, is the bell. Neither cancels, so the sum keeps its
    relative accuracy through the bend from one into the other. −p′ and P(X > x) come from the same integrand times ``−it`` and ``i/t``.
    """

    def __init__(self, alpha: float) -> None:
        """Lay out the Gauss–Legendre rules; cubing the nodes of the first tames ``t^α`` at zero."""
        self.alpha = alpha
        fraction, weight = panel_rule(np.array([0.0, 1.0]), 48)
        self.fraction, self.fraction_weight = fraction**3, 3 * fraction**2 * weight
        self.across, self.across_weight = panel_rule(np.array([0.0, 6.3]), 32)  # e^{−6.3²} is nothing

    def __call__(self, x: Array) -> Array:
        """Return p, −p′ and P(X > x), shape (3, points), at the points `x`, shape (points,)."""
        result = np.empty((3, x.size))
        for start in range(0, x.size, _BLOCK):
            block = x[start : start + _BLOCK, None]
            up, power = block / 2 * self.fraction, (block / 2 * self.fraction) ** self.alpha
            tail = np.exp(-block * up - power * np.cos(np.pi * self.alpha / 2)) * np.sin(power * np.sin(np.pi * (1 - self.alpha / 2)))
            tail *= block / 2 * self.fraction_weight
            t = self.across + 0.5j * block
            bell = self.across_weight * np.exp(1j * block * t - t**self.alpha)
            rows = ((tail, bell), (up * tail, -1j * t * bell), (tail / up, 1j / t * bell))
            result[:, start : start + _BLOCK] = [(a.sum(axis=1) + b.real.sum(axis=1)) / np.pi for a, b in rows]
        return result


def _panel_count(alpha: float, start: float, end: float) -> int:
    """Return how many panels a table needs."""
    if alpha < 1:
        return int(np.ceil(np.log(end / start) / 0.4))
    return int(np.ceil((end - start) / 0.5))


class _PanelTable:
    """Polynomials through the values of an integral at the Chebyshev nodes of adjoining panels."""

    def __init__(self, integral: Callable[[Array], Array], edges: Array) -> None:
        """Evaluate the integral between the edges of the panels, shape (panels + 1,)."""
        self.edges, self.centre, self.half = edges, (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        node, to_powers = _interpolation(_PANEL_NODES)
        values = integral((self.centre[:, None] + self.half[:, None] * node).ravel()).reshape(3, self.half.size, node.size)
        self.coefficient = np.ascontiguousarray((values @ to_powers[0] @ to_powers[1]).transpose(0, 2, 1))  # (row, power, panel)

    def __call__(self, x: Array, rows: tuple[int, ...]) -> Array:
        """Return some rows of the integral, shape (rows, points), at the points `x`, shape (points,)."""
        result = np.empty((len(rows), x.size))
        for start in range(0, x.size, _AT_ONCE):
            part = x[start : start + _AT_ONCE]
            panel = np.clip(np.searchsorted(self.edges, part) - 1, 0, self.half.size - 1)
            local = (part - self.centre[panel]) / self.half[panel]
            for out, row in zip(result[:, start : start + _AT_ONCE], rows, strict=True):
                out[:] = self.coefficient[row, -1][panel]
                for coefficient in self.coefficient[row, -2::-1]:
                    out *= local
                    out += coefficient[panel]
        return result


@functools.cache
def _interpolation(nodes: int) -> tuple[Array, tuple[Array, Array]]:
    """Return the Chebyshev nodes, and the matrices from values there to Chebyshev coefficients and from those to powers.

    The two stay apart: their product has large entries of both signs, which would amplify rounding.
    """
    node = chebyshev.chebpts1(nodes)
    to_chebyshev = chebyshev.chebvander(node, nodes - 1) * 2 / nodes
    to_chebyshev[:, 0] /= 2
    to_powers = np.zeros((nodes, nodes))
    for degree in range(nodes):
        to_powers[degree, : degree + 1] = chebyshev.cheb2poly(np.eye(nodes)[degree, : degree + 1])
    return node, (to_chebyshev, to_powers)


def panel_rule(edges: Array, order: int) -> tuple[Array, Array]:
    """Return nodes and weights of the Gauss–Legendre rule of an order on each of the panels between the edges, each flattened."""
    node, weight = _gauss_legendre(order)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (node + 1)).ravel(), (half * weight).ravel()


@functools.cache
def _gauss_legendre(order: int) -> tuple[Array, Array]:
    return legendre.leggauss(order)
