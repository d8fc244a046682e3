"""The symmetric α-stable law (SαS) of location and scale, the model of a lag's statistic.

The paper's σ_α is ``scale`` here. At α = 2 the law is a Gaussian of variance ``2·scale²``, at 1 a
Cauchy law. The paper's laws have a mean, so α above 1; the law itself is computed down to 0.5.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy import special

from lwcore.signatures import FiniteReals, Index, Range, checked, floats, require
from lwcore.stable.standard import DENSITY, TAIL, Array, panel_rule, read_only, standard_law

LARGEST = 1e150  # in size, of all that has a unit: products and squares of it are floats
LEAST = 1e-150  # of scales and of probabilities but 0
TailIndex = Annotated[float, Range("a number in (0.5, 2]", lambda alpha: 0.5 < alpha <= 2)]
Scale = Annotated[
    float, Range("a number from 1e-150 to 1e150", lambda scale: LEAST <= scale <= LARGEST)
]
Location = Annotated[
    float, Range("a number from −1e150 to 1e150", lambda loc: -LARGEST <= loc <= LARGEST)
]
_AT_MEDIAN = -60.0  # in log x: nearer is no float but ½
_FAR_OUT = 230.0  # in log x: so far out, all is a power of x, to rounding
_LOGARITHMIC = 1e15  # in scales: beyond, the divergence grows as (α + 1) log h, to rounding


@checked
@dataclass(frozen=True)
class SymmetricStable:
    """The symmetric α-stable law, ``E exp(iuX) = exp(i u loc − scale^α |u|^α)``, of Eq. (31).

    `loc` is the median, and the mean if ``alpha > 1``. Methods take arrays of any shape, in the
    units of the data, up to 1e150 in size or infinite; NaN stays NaN. ``pdf``, ``cdf``, ``sf`` and
    ``score`` have a relative error below 1e-12, in the far tails too (1e-10 for ``score`` at
    ``alpha`` below 0.6).

    Examples:
        >>> cauchy = SymmetricStable(alpha=1.0)
        >>> print(cauchy.cdf([0.0, 1.0]).round(12))
        [0.5  0.75]
        >>> round(SymmetricStable(alpha=1.5).fisher_information(), 4)
        0.4281
    """

    alpha: TailIndex
    scale: Scale = 1.0
    loc: Location = 0.0

    def pdf(self, x: ArrayLike) -> Array:
        """Return the probability density; 0 where that of unit scale is too small for a float."""
        z = np.abs(self._standardise(x))
        return standard_law(self.alpha)(z, DENSITY)[()] / self.scale

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density, also where that is too small for a float."""
        z = np.abs(self._standardise(x))
        return standard_law(self.alpha).log_density(z)[()] - np.log(self.scale)

    def cdf(self, x: ArrayLike) -> Array:
        """Return the probability of a value at most `x`.

        Far on the right it is 1 to rounding; what is missing there is `sf`.
        """
        return self._tail(-self._standardise(x))

    def sf(self, x: ArrayLike) -> Array:
        """Return the probability of a value above `x`, ``1 − cdf(x)`` without the cancellation."""
        return self._tail(self._standardise(x))

    def _tail(self, z: Array) -> Array:
        """Return the probability beyond z, of which the standard law is computed on one side."""
        tail = standard_law(self.alpha)(np.abs(z), TAIL)
        return np.where(z < 0, 1 - tail, tail)[()]

    def _standardise(self, x: ArrayLike) -> Array:
        """Return ``z = (x − loc)/scale``."""
        values = floats("x", x)
        if not np.abs(values).max(initial=0.0) <= LARGEST:
            is_known = ~(np.abs(values) > LARGEST) | np.isinf(values)  # NaN, too
            require("x", values, is_known, f"of a size up to {LARGEST:g}, or infinite")
        return (values - self.loc) / self.scale

    @checked
    def ppf(self, p: FiniteReals) -> Array:
        """Return the quantile at probability `p`, the inverse of `cdf`.

        For a far right quantile use ``2·loc − ppf(1 − p)`` with ``1 − p`` given as a small number.
        """
        probability = floats("p", p)
        is_known = (probability == 0) | ((probability >= LEAST) & (probability <= 1))
        require("p", probability, is_known, "0, or in [1e-150, 1]")
        side = np.sign(probability - 0.5)
        with np.errstate(over="ignore"):  # of a quantile that no float holds: infinite
            return self.loc + side * self.scale * _upper_quantile(self.alpha, probability)

    def score(self, x: ArrayLike) -> Array:
        """Return the score ``−(d/dx) log pdf(x)``; far out ``(α + 1)/(x − loc)``, for α below 2.

        It says in which direction, and how strongly, a value at x argues for another location.
        """
        z = self._standardise(x)
        score = np.sign(z) * standard_law(self.alpha).score(np.abs(z))
        return score[()] / self.scale

    def fisher_information(self) -> float:
        """Return the Fisher information for location, ``E[score²] = I_α/scale²``.

        I_α, its value at unit scale, is what a likelihood test can use of each sequence; it is the
        curvature at zero of the divergence in Eq. (32).
        """
        shift = 1e-10  # so small that the divergence is I_α shift²/2 to rounding
        at_unit_scale = _unit_divergence(self.alpha, shift / 2) * 2 / shift**2
        return at_unit_scale / self.scale / self.scale

    @checked
    def kl(self, shift: FiniteReals) -> Array:
        """Return the divergence in nats of this law, moved by `shift`, from itself: Eq. (32), left.

        It is even in `shift`, grows as ``I_α (shift/scale)²/2`` at first and, for ``alpha < 2``, as
        ``(alpha + 1) log|shift/scale|`` in the end. Relative error below 1e-9 from 1e-8 scales on.
        """
        distance = np.abs(floats("shift", shift))
        require("shift", distance, distance <= LARGEST, f"of a size up to {LARGEST:g}")
        divergence_at = np.vectorize(_unit_divergence, otypes=[float])
        with np.errstate(over="ignore"):  # of a Gaussian's
            return divergence_at(self.alpha, distance / self.scale / 2)[()]

    @checked
    def sample(self, size: Index | tuple[Index, ...] | list[Index], rng: Generator) -> Array:
        """Draw independent values by the method of Chambers, Mallows and Stuck (1976).

        Args:
            size: The shape of the result; ``()`` for one number.
            rng: NumPy's generator, which gives a uniform and an exponential number for each value.
        """
        angle = rng.uniform(-np.pi / 2, np.pi / 2, size)
        waiting = rng.exponential(size=size)
        a = self.alpha
        tilt = (np.cos((a - 1) * angle) / waiting) ** ((1 - a) / a)
        standard = np.sin(a * angle) / np.cos(angle) ** (1 / a) * tilt
        return self.loc + self.scale * standard


def _upper_quantile(alpha: float, probability: Array) -> Array:
    """Return the distance of quantiles from the median at unit scale, in any shape; not below 0.

    Far out the law is a power of x; else a root is found.
    """
    tail = np.minimum(probability, 1 - probability)
    if alpha == 2:
        return np.sqrt(2) * np.abs(special.ndtri(tail))
    from_median = np.abs(probability - 0.5).ravel()  # to the last digit
    flat_tail = tail.ravel()
    pareto = special.gamma(alpha) * np.sin(np.pi * (1 - alpha / 2)) / np.pi  # P ~ pareto · x^−α
    with np.errstate(divide="ignore"):  # at a tail of 0
        log_x = np.log(pareto / flat_tail) / alpha
    log_x[from_median == 0] = -np.inf
    inner = np.flatnonzero((log_x < _FAR_OUT) & (from_median > 0))
    if inner.size:
        log_x[inner] = _inner_quantile(alpha, flat_tail[inner], from_median[inner])
    with np.errstate(over="ignore"):
        return np.exp(log_x).reshape(probability.shape)[()]


def _inner_quantile(alpha: float, tail: Array, from_median: Array) -> Array:
    """Return log x with ``P(X > x) = tail`` and ``P(0 < X < x) = from_median``, at unit scale.

    Newton's steps in log odds, which are nearly a straight line in log x; where one leaves the
    bracket, it is halved instead.
    """
    law: Any = standard_law(alpha)
    wanted = np.log(tail / from_median)
    low = np.full_like(tail, _AT_MEDIAN)
    high = np.full_like(tail, _FAR_OUT)
    log_x = np.zeros_like(tail)
    step = np.full_like(tail, np.inf)
    while np.max(np.abs(step)) > 1e-13:  # the next one is lost in rounding
        x = np.exp(log_x)
        beyond = law(x, TAIL)
        within = law.from_median(x)
        off = wanted - np.log(beyond / within)  # above 0 where x is too large
        low = np.where(off < 0, log_x, low)
        high = np.where(off > 0, log_x, high)
        newton = log_x - 2 * off * beyond * within / (x * law(x, DENSITY))
        is_within = (low < newton) & (newton < high)
        step = np.where(is_within, newton, (low + high) / 2) - log_x
        log_x = log_x + step
    return log_x


def _unit_divergence(alpha: float, h: float) -> float:
    """Return the divergence between laws of unit scale at ±h, ``∫_{x>0} (p₊ − p₋) L dx``."""
    if h == 0 or alpha == 2:
        return float(np.square(h))  # infinite where it overflows
    ratio, mass = log_ratio(alpha, min(h, _LOGARITHMIC))
    divergence = float(np.sum(mass * -np.expm1(-ratio) * ratio))  # p₋ = p₊ e^−L
    return divergence + (alpha + 1) * float(np.log(max(h / _LOGARITHMIC, 1)))


@functools.lru_cache(maxsize=512)
def log_ratio(alpha: float, h: float, order: int = 16) -> tuple[Array, Array]:
    """Return the ratio ``L = log p(x − h) − log p(x + h)`` and the mass ``p(x − h) dx`` at x > 0.

    L is odd. Every divergence, information and error of the laws of unit scale at ±h is an integral
    over ``x > 0`` of ``p(x − h)`` times a function of L, and so a sum over these (panels, nodes),
    for ``0 < h ≤ 1e150``. The variable is ``t = asinh z``, z the distance from the nearer location,
    in panels of `order` nodes that are short where the law bends from its bell into its tail.
    """
    law = standard_law(alpha)
    left = _quadrature_edges(law.near_end, law.far_start, end=h)  # z from 0 to −h, where x = 0
    right = _quadrature_edges(law.near_end, law.far_start, end=max(h, law.far_start) * 1e17)
    edges = np.append(-left[:0:-1], right)
    nodes, weights = panel_rule(edges, order)
    t = nodes.reshape(-1, order)
    weight = weights.reshape(-1, order)
    z = np.sinh(t)
    log_density = law.log_density(np.abs(z))
    if h < law.near_end / 4:  # the integral of the score: a difference would lose digits
        node, node_weight = panel_rule(np.array([-1.0, 1.0]), 8)
        between = (z + h)[..., None] + h * node
        scores = np.sign(between) * law.score(np.abs(between))
        ratio = h * (scores @ node_weight)
    else:
        ratio = log_density - law.log_density(z + 2 * h)
    mass = weight * np.exp(log_density + np.log(np.cosh(t)))  # dz = cosh t dt
    read_only(ratio, mass)
    return ratio, mass


def _quadrature_edges(near_end: float, far_start: float, end: float) -> Array:
    """Return edges of panels in ``asinh z`` from z = 0 to an end, short where the law bends."""
    bends = [0.0, min(near_end, 0.5)]
    while bends[-1] < max(far_start, 2):
        bends.append(bends[-1] + min(0.4 * bends[-1], 0.5))
    inner = np.arcsinh([bend for bend in bends if bend < end])
    stop = np.arcsinh(end)
    n_outer = int(np.ceil((stop - inner[-1]) / 3))
    return np.append(inner[:-1], np.linspace(inner[-1], stop, n_outer + 1))
