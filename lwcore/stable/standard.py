"""The symmetric α-stable law of unit scale: two series, and a table of an integral between them.

Near zero the law is a polynomial in x², far out one in ``x^−α``, with coefficients in closed form.
Between them the characteristic function is integrated along a contour on which nothing cancels,
and polynomials through values of that integral stand for it.

Three functions of x are computed in this way, the *rows* of every table: the density p, minus its
derivative −p′, and the tail probability P(X > x), at ``x ≥ 0``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray
from scipy import special

if TYPE_CHECKING:
    Array = NDArray[np.float64]
else:
    Array = np.ndarray | np.floating  # which NumPy makes of arrays without a dimension

DENSITY, SLOPE, TAIL = range(3)  # the rows: p, −p′ and P(X > x)
_FAR_POWER = (1, 2, 0)  # of 1/x, beside the polynomial in x^−α
_NEAR_TERMS = 26
_FAR_TERMS = 41
_HIGHEST_RAY_ALPHA = 1.85
_NODES = 16  # of a panel of the table
_PARETO = 1e60  # from here on everything is a power of x, to rounding


@functools.lru_cache
def standard_law(alpha: float) -> _Gaussian | _Stable:
    """Return the law of tail index `alpha` in (0.5, 2], kept with its table for later calls."""
    return _Gaussian() if alpha == 2 else _Stable(alpha)


class _Gaussian:
    """The law at α = 2, of variance 2, with the methods that `_Stable` has.

    All are closed forms.
    """

    near_end = 3.0  # for quadratures, as is `far_start`
    far_start = 12.0

    def __call__(self, x: Array, row: int) -> Array:
        if row == TAIL:
            return special.erfc(x / 2) / 2
        density = np.exp(self.log_density(x))
        return density * (x / 2) if row == SLOPE else density

    def log_density(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return -((x / 2) ** 2) - np.log(4 * np.pi) / 2

    def from_median(self, x: Array) -> Array:
        return special.erf(x / 2) / 2

    def score(self, x: Array) -> Array:
        return x / 2


class _Stable:
    """The law at an α below 2, at any array of ``x ≥ 0``, NaN or infinity.

    The bell bends from `near_end` on; beyond `far_start` lies the tail. Between the two the
    integral is replaced by one polynomial on each panel of an axis, x itself or, for α below 1,
    where the bell is a cusp, log x.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.near, self.near_end = _near_series(alpha)
        self.far, self.far_start = _far_series(alpha)
        if alpha <= _HIGHEST_RAY_ALPHA:
            self.integral = _along_a_ray(alpha, self.near_end)
        else:
            self.integral = _round_a_corner(alpha)
        self.has_log_axis = alpha < 1
        self.start = float(self.axis(self.near_end))
        length = self.axis(self.far_start) - self.start
        widest = 0.4 if self.has_log_axis else 0.5
        self.panels = int(np.ceil(length / widest))
        self.width = length / self.panels

    def __call__(self, x: Array, row: int) -> Array:
        """Return p, −p′ or P(X > x), each by the method that holds at an x; NaN stays NaN."""
        flat = x.ravel()
        result = np.full(flat.size, np.nan)
        is_near = flat < self.near_end
        is_far = flat > self.far_start
        is_between = ~(is_near | is_far | np.isnan(flat))
        for selected, compute in (
            (is_near, self._near),
            (is_far, self._far),
            (is_between, self._between),
        ):
            i = np.flatnonzero(selected)
            if i.size:
                result[i] = compute(flat[i], row)
        return result.reshape(x.shape)

    def _near(self, x: Array, row: int) -> Array:
        """Return a row by the series in x², of which the odd rows have the factor x."""
        value = np.polyval(self.near[row], x**2)
        if row == DENSITY:
            return value
        return x * value + (0.5 if row == TAIL else 0)

    def _far(self, x: Array, row: int) -> Array:
        """Return a row by the series in ``x^−α``, times the powers of 1/x that all terms share."""
        power = x**-self.alpha
        return np.polyval(self.far[row], power) * power / x ** _FAR_POWER[row]

    def _between(self, x: Array, row: int) -> Array:
        """Return a row by the polynomials of the table, each on its panel as on (−1, 1)."""
        place = (self.axis(x) - self.start) / self.width
        panel = np.minimum(place.astype(np.intp), self.panels - 1)
        coefficients = self.table[row].take(panel, axis=1)
        return np.polyval(coefficients, 2 * (place - panel) - 1)

    def axis(self, x: Any) -> Any:
        """Return where points lie on the axis that is divided into panels: x itself or log x."""
        return np.log(x) if self.has_log_axis else x

    @functools.cached_property
    def table(self) -> Array:
        """Coefficients of the panels' polynomials, (3, powers, panels), highest power first.

        They go through values of the integral at each panel's Chebyshev nodes.
        """
        node = chebyshev.chebpts1(_NODES)  # on (−1, 1)
        panel = np.arange(self.panels)[:, None]
        place = self.start + (panel + (node + 1) / 2) * self.width
        x = np.exp(place) if self.has_log_axis else place
        values = self.integral(x.ravel())
        in_chebyshev = through_chebyshev_nodes(values.reshape(-1, _NODES).T)
        in_powers = np.einsum("kp,kc->pc", _powers_of_chebyshev(_NODES), in_chebyshev)
        by_row = in_powers[::-1].reshape(_NODES, 3, -1).swapaxes(0, 1)
        table: Array = np.ascontiguousarray(by_row)
        read_only(table)
        return table

    def log_density(self, x: Array) -> Array:
        """Return the logarithm of p(x), also where that is too small for a float."""
        within = np.minimum(x, _PARETO)
        times_beyond = np.maximum(x / _PARETO, 1)
        return np.log(self(within, DENSITY)) - (self.alpha + 1) * np.log(times_beyond)

    def score(self, x: Array) -> Array:
        """Return the score ``−p′(x)/p(x)``, which falls as 1/x far out."""
        within = np.minimum(x, _PARETO)
        score = self(within, SLOPE) / self(within, DENSITY)
        return score * (_PARETO / np.maximum(x, _PARETO))

    def from_median(self, x: Array) -> Array:
        """Return ``P(0 < X < x)``, near the median without a difference to one half."""
        near = np.minimum(x, self.near_end)
        within = -near * np.polyval(self.near[TAIL], near**2)
        return np.where(x < self.near_end, within, 0.5 - self(x, TAIL))


def _near_series(alpha: float) -> tuple[Array, float]:
    """Return coefficients, in x², of p, ``−p′/x`` and ``(P(X > x) − ½)/x``, and where to leave.

    ``p(x) = Σ_k (−1)^k Γ((2k+1)/α)/(2k)! x^{2k} / (πα)``, which converges for α > 1 and is
    asymptotic below. It ends with the term that is the first to fall to 1e-17 of the first.
    """
    k = np.arange(_NEAR_TERMS)
    size = special.gamma((2 * k + 1) / alpha) / special.factorial(2 * k)
    # x at which the k-th term has 1e-17 of the first
    reach = (1e-17 * size[0] / size[1:]) ** (1 / (2 * k[1:]))
    k = k[: 2 + int(reach.argmax())]
    density = (-1.0) ** k * size[k] / (np.pi * alpha)
    slope = np.append(-2 * k[1:] * density[1:], 0.0)
    tail = -density / (2 * k + 1)
    highest_first = np.stack([density, slope, tail])[:, ::-1]
    return highest_first, float(reach.max())


def _far_series(alpha: float) -> tuple[Array, float]:
    """Return coefficients, in ``x^−α``, of p, −p′ and P over their powers, and where to enter.

    ``p(x) = Σ_{k≥1} Γ(αk+1)/k! sin(kδ) x^{−αk−1} / π``, ``δ = π(1 − α/2)``, asymptotic for α > 1.
    As sin δ vanishes towards α = 2, terms are held against the first with its sine and without
    their own: so the series starts only where a Gaussian's tail has died away too.
    """
    delta = np.pi * (1 - alpha / 2)
    k = np.arange(1, _FAR_TERMS)
    size = special.gamma(alpha * k + 1) / special.factorial(k)
    # x at which the next term has 1e-17 of the first
    reach = (1e17 * size[1:] / (size[0] * np.sin(delta))) ** (1 / (alpha * k[:-1]))
    k = k[: 1 + int(reach.argmin())]
    density = size[k - 1] * np.sin(k * delta) / np.pi
    slope = (alpha * k + 1) * density
    tail = density / (alpha * k)
    highest_first = np.stack([density, slope, tail])[:, ::-1]
    return highest_first, float(reach.min())


def _along_a_ray(alpha: float, least: float) -> Callable[[Array], Array]:
    """Return the three rows as a function of x from `least` on, by the Fourier integral.

    ``p(x) = Re (1/π) ∫ e^{ixt} (e^{−t^α} − 1) dt`` along the ray ``arg t = π/(4α)``, on which both
    factors decay. The −1 adds nothing to the real part, but takes away what would cancel in the
    tail. −p′ and P(X > x) have the same integrand times ``−it`` and ``i/t``. The trapezoidal rule
    in v, ``|t| = exp(v − e^{−v})``, converges exponentially.
    """
    angle = np.pi / (4 * alpha)
    step = 2 * np.pi * angle / 52  # analytic for |Im v| < angle: an error of e^−52
    end = np.log(40 / (least * np.sin(angle)))
    v = np.arange(-4.5, end, step)
    t = np.exp(v - np.exp(-v) + 1j * angle)
    weight = np.expm1(-(t**alpha)) * t * (1 + np.exp(-v)) * step / np.pi  # with dt/dv
    weights = np.stack([weight, -1j * t * weight, 1j / t * weight])

    def integral(x: Array) -> Array:
        """Return the rows p, −p′ and P(X > x) at a list of x."""
        # no product by BLAS, as in `through_chebyshev_nodes`
        return np.einsum("rt,tx->rx", weights, np.exp(1j * np.outer(t, x))).real

    return integral


def _round_a_corner(alpha: float) -> Callable[[Array], Array]:
    """Return the same function near α = 2, by a contour up to ix/2 and then to the right.

    ``p(x) = Re (1/π) ∫ e^{ixt − t^α} dt``, and ix/2 is the saddle of a Gaussian. The first stretch
    has a positive integrand that vanishes with ``sin δ``, ``δ = π(1 − α/2)``: it is the tail. The
    second, of the size of ``e^{−x²/4}`` and without oscillation, is the bell. Neither cancels, so
    the sum is accurate through the bend between the two.
    """
    # (iy)^α = y^α (real + i imaginary)
    real = np.cos(np.pi * alpha / 2)
    imaginary = np.sin(np.pi * (1 - alpha / 2))
    node, node_weight = _column_rule(1.0, 48)
    fraction = node**3  # of the way up: the cube tames t^α at zero
    fraction_weight = 3 * node**2 * node_weight
    across, across_weight = _column_rule(6.3, 32)

    def integral(x: Array) -> Array:
        """Return the rows p, −p′ and P(X > x) at a list of x."""
        up = x / 2 * fraction  # t = i up
        power = up**alpha
        decay = np.exp(-x * up - power * real)
        tail = x / 2 * fraction_weight * decay * np.sin(power * imaginary)
        t = across + 0.5j * x
        bell = across_weight * np.exp(1j * x * t - t**alpha)
        density = tail.sum(0) + bell.real.sum(0)
        slope = (up * tail).sum(0) + (-1j * t * bell).real.sum(0)
        beyond = (tail / up).sum(0) + (1j / t * bell).real.sum(0)
        return np.stack([density, slope, beyond]) / np.pi

    return integral


def through_chebyshev_nodes(values: Array) -> Array:
    """Return Chebyshev coefficients of polynomials through values at Chebyshev nodes, by columns.

    The polynomials are orthogonal over their nodes. A fit, or a product of matrices, would be done
    by BLAS, whose last bits depend on its number of threads. Tables are kept for later calls: for a
    run, too, which has one thread, and whose bits must not depend on what was called before.
    """
    count = len(values)
    polynomials = chebyshev.chebvander(chebyshev.chebpts1(count), count - 1)
    coefficients = 2 / count * np.einsum("nk,nc->kc", polynomials, values)
    coefficients[0] /= 2
    return coefficients


@functools.cache
def _powers_of_chebyshev(count: int) -> Array:
    """Return the coefficients of the first Chebyshev polynomials, in rows, lowest power first."""
    powers = np.zeros((count, count))
    for degree in range(count):
        powers[degree, : degree + 1] = chebyshev.cheb2poly(np.eye(count)[degree, : degree + 1])
    read_only(powers)
    return powers


def _column_rule(end: float, order: int) -> tuple[Array, Array]:
    """Return nodes and weights of a Gauss–Legendre rule on (0, end), in columns."""
    nodes, weights = panel_rule(np.array([0.0, end]), order)
    return nodes[:, None], weights[:, None]


def panel_rule(edges: Array, order: int) -> tuple[Array, Array]:
    """Return nodes and weights, flattened, of a Gauss–Legendre rule on each panel between edges."""
    node, weight = _gauss_legendre(order)
    half_width = np.diff(edges)[:, None] / 2
    nodes = edges[:-1, None] + half_width * (node + 1)
    return nodes.ravel(), (half_width * weight).ravel()


@functools.cache
def _gauss_legendre(order: int) -> tuple[Array, Array]:
    node, weight = legendre.leggauss(order)
    read_only(node, weight)
    return node, weight


def read_only(*arrays: Array) -> None:
    """Let nobody change arrays that are kept for later calls: writing to them is an error."""
    for array in arrays:
        array.setflags(write=False)
