"""The symmetric α-stable law (SαS) of location and scale, the model of a lag's statistic.

The paper's σ_α is ``scale`` here. At α = 2 the law is a Gaussian of variance ``2·scale²``, at 1 a
Cauchy law. The paper's laws have a mean, so α above 1; the law itself is computed down to 0.5.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lwcore.signatures import Finite, FiniteReals, Positive, checked, kind, require
from lwcore.stable.standard import DENSITY, TAIL, Array, panel_rule, read_only, standard_law

if TYPE_CHECKING:
    TailIndex = float
else:
    TailIndex = kind(Real, "a number in (0.5, 2]", lambda alpha: 0.5 < alpha <= 2)

_AT_MEDIAN, _FAR_OUT = -30.0, 230.0  # in log x: at the median, and Pareto's tail, to rounding
_LOGARITHMIC = 1e15  # in scales: beyond, the divergence grows as (α + 1) log h, to rounding


@checked
@dataclass(frozen=True)
class SymmetricStable:
    """The symmetric α-stable law, ``E exp(iuX) = exp(i u loc − scale^α |u|^α)``, of Eq. (31).

    `loc` is the median, and the mean if ``alpha > 1``. Methods take arrays of any shape, in the
    units of the data; NaN stays NaN. ``pdf``, ``cdf``, ``sf`` and ``score`` have a relative error
    below 1e-12, in the far tails too (1e-10 for ``score`` at ``alpha`` below 0.6).

    Examples:
        >>> cauchy = SymmetricStable(alpha=1.0)
        >>> print(cauchy.cdf([0.0, 1.0]).round(12))
        [0.5  0.75]
        >>> SymmetricStable(alpha=1.5).fisher_information()
        0.4281
    """

    alpha: TailIndex
    scale: Positive = 1.0
    loc: Finite = 0.0

    def __post_init__(self) -> None:
        """Keep double precision, whatever the parameters come in."""
        for name in ("alpha", "scale", "loc"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def _standardise(self, x: ArrayLike) -> Array:
        with np.errstate(over="ignore"):
            return (np.asarray(x, float) - self.loc) / self.scale

    def pdf(self, x: ArrayLike) -> Array:
        """The probability density."""
        z = np.abs(self._standardise(x))
        return standard_law(self.alpha)(z, DENSITY)[()] / self.scale

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density, also where that is too small for a float."""
        z = np.abs(self._standardise(x))
        return standard_law(self.alpha).log_density(z)[()] - np.log(self.scale)

    def cdf(self, x: ArrayLike) -> Array:
        """The probability of a value at most `x`."""
        return self._upper_tail(-self._standardise(x))

    def sf(self, x: ArrayLike) -> Array:
        """The probability of a value above `x`, ``1 − cdf(x)`` without the cancellation."""
        return self._upper_tail(self._standardise(x))

    def _upper_tail(self, z: Array) -> Array:
        tail = standard_law(self.alpha)(np.abs(z), TAIL)
        return np.where(z < 0, 1 - tail, tail)[()]

    @checked
    def ppf(self, p: FiniteReals) -> Array:
        """The quantile at probability `p`, the inverse of `cdf`.

        For a far right quantile use ``2·loc − ppf(1 − p)`` with ``1 − p`` given as a small number.
        """
        probability = np.asarray(p, float)
        require("p", probability, (probability >= 0) & (probability <= 1), "in [0, 1]")
        z = _upper_quantile(self.alpha, np.minimum(probability, 1 - probability))
        with np.errstate(over="ignore"):
            return self.loc + self.scale * np.sign(probability - 0.5) * z

    def score(self, x: ArrayLike) -> Array:
        """The score ``−(d/dx) log pdf(x)``; far out ``(α + 1)/(x − loc)``, for α below 2."""
        z = self._standardise(x)
        return np.sign(z) * standard_law(self.alpha).score(np.abs(z))[()] / self.scale

    def fisher_information(self) -> float:
        """The Fisher information for location, ``E[score²] = I_α/scale²``.

        I_α, its value at unit scale, is what a likelihood test can use of each sequence; it is the
        curvature at zero of the divergence in Eq. (32).
        """
        tiny = 1e-10  # what is missing in the divergence of so small a shift is far below rounding
        return _unit_divergence(self.alpha, tiny / 2) * 2 / tiny**2 / self.scale**2

    @checked
    def kl(self, shift: FiniteReals) -> Array:
        """The divergence, in nats, between this law moved by `shift` and this law: Eq. (32), left.

        It is even in `shift`, grows as ``I_α (shift/scale)²/2`` at first and, for ``alpha < 2``, as
        ``(alpha + 1) log|shift|`` in the end. Relative error below 1e-9 from 1e-8 scales on.
        """
        ratio = np.abs(np.asarray(shift, float)) / self.scale
        return np.vectorize(_unit_divergence, otypes=[float])(self.alpha, ratio / 2)[()]

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent draws by the method of Chambers, Mallows and Stuck (1976)."""
        angle = rng.uniform(-np.pi / 2, np.pi / 2, size)
        waiting = rng.exponential(size=size)
        a = self.alpha
        tilt = (np.cos((a - 1) * angle) / waiting) ** ((1 - a) / a)
        return self.loc + self.scale * (np.sin(a * angle) / np.cos(angle) ** (1 / a) * tilt)


def _upper_quantile(alpha: float, tail: Array) -> Array:
    """The ``x ≥ 0`` with ``P(X > x) = tail`` at unit scale; `tail` in [0, 1/2], any shape."""
    if alpha == 2:
        return np.sqrt(2) * np.abs(special.ndtri(tail))
    from scipy.optimize import elementwise  # here, as its import costs more than all of this module

    law, flat = standard_law(alpha), tail.ravel()
    pareto = special.gamma(alpha) * np.sin(np.pi * (1 - alpha / 2)) / np.pi  # P ~ pareto · x^−α
    with np.errstate(divide="ignore", over="ignore"):
        log_x = np.log(pareto / flat) / alpha
        inner = np.flatnonzero(log_x < _FAR_OUT)
        if inner.size:

            def excess(log_x: Array, q: Array) -> Array:  # in log odds, nearly a straight line
                tail = law(np.exp(log_x), TAIL)
                return np.log(q / (0.5 - q)) - np.log(tail / (0.5 - tail))

            ends, args = (_AT_MEDIAN, _FAR_OUT), (np.minimum(flat[inner], 0.5 - 1e-13),)
            log_x[inner] = elementwise.find_root(excess, ends, args=args).x
        return np.exp(log_x).reshape(tail.shape)[()]


def _unit_divergence(alpha: float, h: float) -> float:
    """KL between SαS laws of unit scale at ±h, ``∫_{x>0} (p₊ − p₋) L dx``."""
    if h == 0 or alpha == 2:
        return h**2
    ratio, mass = log_ratio(alpha, min(h, _LOGARITHMIC))
    divergence = float(np.sum(mass * -np.expm1(-ratio) * ratio))
    return divergence + (alpha + 1) * float(np.log(max(h / _LOGARITHMIC, 1)))


@functools.lru_cache(maxsize=512)
def log_ratio(alpha: float, h: float, order: int = 16) -> tuple[Array, Array]:
    """The ratio ``L(x) = log p(x − h) − log p(x + h)`` and the mass ``p(x − h) dx``, over x > 0.

    L is odd. Every divergence, information and error of the laws of unit scale at ±h is an integral
    over ``x > 0`` of ``p(x − h)`` times a function of L, and so a sum over these (panels, nodes),
    for ``0 < h ≤ 1e100``. The variable is ``asinh z``, z the distance from the nearer location, in
    panels of `order` nodes that are short where the law bends from its bell into its tail. Both are
    kept for later calls, and so read-only.
    """
    law = standard_law(alpha)
    far = max(h, law.far_start) * 1e17
    bends = [0.0, min(law.near_end, 0.5)]
    while bends[-1] < max(law.far_start, 2):
        bends.append(bends[-1] + min(0.4 * bends[-1], 0.5))

    def edges(end: float) -> Array:
        inner, stop = np.arcsinh([bend for bend in bends if bend < end]), np.arcsinh(end)
        rest = int(np.ceil((stop - inner[-1]) / 3))
        return np.append(inner[:-1], np.linspace(inner[-1], stop, rest + 1))

    all_edges = np.append(-edges(h)[:0:-1], edges(far))
    t, weight = (part.reshape(-1, order) for part in panel_rule(all_edges, order))
    z = np.sinh(t)
    log_density = law.log_density(np.abs(z))
    if h < law.near_end / 4:  # the integral of the score: a difference would lose digits
        node, node_weight = panel_rule(np.array([-1.0, 1.0]), 8)
        between = (z + h)[..., None] + h * node
        ratio = h * (np.sign(between) * law.score(np.abs(between)) @ node_weight)
    else:
        ratio = log_density - law.log_density(z + 2 * h)
    mass = weight * np.exp(log_density + np.log(np.cosh(t)))
    read_only(ratio, mass)
    return ratio, mass
