"""Symmetric α-stable laws: density, distribution, score, information, divergence, samples.

The matched statistic of a lag is modelled by a symmetric α-stable (SαS) law, whose characteristic function is
``exp(i u loc − scale^α |u|^α)`` (above Eq. (31)). Here α, the tail index, is called ``alpha`` and the paper's σ_α is called ``scale``.
At ``alpha = 2`` the law is a Gaussian of variance ``2·scale²``; at ``alpha = 1`` it is a Cauchy law. The paper's laws have a mean, so
``alpha`` above 1; the law itself is computed down to 0.5. How, `lwcore.stable.standard` tells.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lwcore.arguments import finite_array, generator, integer_in, real_array, real_in, require
from lwcore.stable.standard import Array, StandardLaw, panel_rule, standard_law

_FAR_OUT = 230.0  # in log x: there the tail is Pareto's to rounding, whatever alpha
_END = 1e6  # of integrals, in units of where the tail begins: what lies beyond is rounding


@dataclass(frozen=True)
class SymmetricStable:
    """Symmetric α-stable law with characteristic function ``exp(i u loc − scale^α |u|^α)``. It is the law of Eq. (31).

    All methods that take `x`, `p` or `shift` are vectorised: they return an array of the argument's shape, or a scalar for a scalar. NaN
    in `x` stays NaN. ``pdf``, ``cdf``, ``sf`` and ``score`` have a relative error below 1e-12, in the far tails too (1e-10 for ``score`` at
    ``alpha`` below 0.6). Their last digits depend on how many points are asked for at once, as many are answered from a table.

    Attributes:
        alpha: Tail index α in (0.5, 2]; 2 is the Gaussian, 1 the Cauchy law. What the paper says needs more than 1.
        scale: Scale σ > 0, in the units of the data.
        loc: Location (the median, and the mean if ``alpha > 1``), in the units of the data.

    Raises:
        TypeError: If an argument is not a real number.
        ValueError: If an argument is out of range.

    Examples:
        >>> cauchy = SymmetricStable(alpha=1.0)
        >>> print(cauchy.cdf([0.0, 1.0]))
        [0.5  0.75]
        >>> SymmetricStable(alpha=1.5).fisher_information()
        0.4281
    """

    alpha: float
    scale: float = 1.0
    loc: float = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "alpha", real_in("alpha", self.alpha, "(0.5, 2]"))
        object.__setattr__(self, "scale", real_in("scale", self.scale, "(0, inf)"))
        object.__setattr__(self, "loc", real_in("loc", self.loc, "(-inf, inf)"))

    def _standardise(self, x: ArrayLike) -> Array:
        with np.errstate(over="ignore"):
            return (real_array("x", x) - self.loc) / self.scale

    def pdf(self, x: ArrayLike) -> Array:
        """Return the probability density at `x`, in one over the units of the data."""
        return standard_law(self.alpha).density(np.abs(self._standardise(x)))[()] / self.scale

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at `x`, finite and accurate also where the density is too small for a float."""
        return standard_law(self.alpha).log_density(np.abs(self._standardise(x)))[()] - np.log(self.scale)

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
        """
        probability = finite_array("p", p)
        require("p", probability, (probability >= 0) & (probability <= 1), "in [0, 1]")
        tail = np.minimum(probability, 1 - probability)
        with np.errstate(over="ignore"):
            return self.loc + self.scale * np.sign(probability - 0.5) * _upper_quantile(self.alpha, tail)

    def score(self, x: ArrayLike) -> Array:
        """Return the score for location, ``−(d/dx) log pdf(x)``, in one over the units of the data.

        It is odd about `loc`, linear next to it and, for ``alpha < 2``, falls as ``(alpha + 1)/(x − loc)`` far out.
        """
        return _score(standard_law(self.alpha), self._standardise(x))[()] / self.scale

    def fisher_information(self) -> float:
        """Return the Fisher information for location, ``E[score²] = I_α/scale²``, where I_α is its value at unit scale.

        I_α is what a likelihood test can use of each sequence; it is the curvature at zero of the divergence in Eq. (32).
        """
        return _unit_fisher_information(self.alpha) / self.scale**2

    def kl(self, shift: ArrayLike) -> Array:
        """Return the Kullback–Leibler divergence between this law moved by `shift` and this law, the left-hand side of Eq. (32).

        It is even in `shift`, grows as ``I_α (shift/scale)²/2`` at first and, for ``alpha < 2``, as ``(alpha + 1) log|shift|`` in the end.
        The relative error is below 1e-9 for shifts of 1e-8 to 1e8 scales.

        Args:
            shift: Difference of the two locations, in the units of the data, any shape.

        Returns:
            Divergences in nats.
        """
        ratio = np.abs(finite_array("shift", shift)) / self.scale
        if self.alpha == 2:
            return ((ratio / 2) ** 2)[()]
        different, place = np.unique(ratio, return_inverse=True)
        return np.array([_unit_divergence(self.alpha, float(r)) for r in different])[place].reshape(ratio.shape)[()]

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw independent values by the method of Chambers, Mallows and Stuck (1976).

        Args:
            size: Shape of the result.
            rng: Source of randomness.

        Returns:
            Array of shape `size`, in the units of the data.

        Raises:
            TypeError: If the size is not made of integers, or `rng` is not a generator.
            ValueError: If the size is negative.
        """
        for count in size if isinstance(size, tuple) else (size,):
            integer_in("size", count, 0)
        generator("rng", rng)
        angle = rng.uniform(-np.pi / 2, np.pi / 2, size)
        waiting = rng.exponential(size=size)
        a = self.alpha
        z = np.sin(a * angle) / np.cos(angle) ** (1 / a) * (np.cos((a - 1) * angle) / waiting) ** ((1 - a) / a)
        return self.loc + self.scale * z


def _score(law: StandardLaw, z: Array) -> Array:
    return np.sign(z) * law.score(np.abs(z))


def _upper_tail(alpha: float, z: Array) -> Array:
    tail = standard_law(alpha).tail(np.abs(z))
    return np.where(z < 0, 1 - tail, tail)[()]


def _upper_quantile(alpha: float, tail: Array) -> Array:
    """Return ``x ≥ 0`` with ``P(X > x) = tail`` for the unit scale; `tail` in [0, 1/2], any shape."""
    if alpha == 2:
        return np.sqrt(2) * np.abs(special.ndtri(tail))
    if alpha == 1:
        with np.errstate(divide="ignore"):
            return (np.sin(np.pi * (0.5 - tail)) / np.sin(np.pi * tail))[()]
    from scipy.optimize import elementwise  # here, as its import costs more than the rest of this module

    law, flat = standard_law(alpha), tail.ravel()
    pareto = special.gamma(alpha) * np.sin(np.pi * (1 - alpha / 2)) / np.pi  # P(X > x) ~ pareto · x^−α
    with np.errstate(divide="ignore", over="ignore"):
        log_pareto = np.log(pareto * (1 / flat - 2)) / alpha  # right far out, and at the median; what is not, follows
        result = np.exp(log_pareto)
    inner = np.flatnonzero((flat < 0.5) & (log_pareto < _FAR_OUT))
    if inner.size:
        q = flat[inner]
        guess = np.maximum(log_pareto[inner], np.log(-np.sqrt(2) * special.ndtri(q)))  # the Gaussian's quantile, or Pareto's

        def mismatch(log_x: Array, q: Array) -> Array:  # in the tail the logarithm, near the median the distance from it
            x = np.exp(log_x)
            return np.where(q < 0.25, np.log(q) - np.log(law.tail(x)), law.central(x) / (0.5 - q) - 1)

        bracket = elementwise.bracket_root(mismatch, guess, args=(q,)).bracket
        result[inner] = np.exp(elementwise.find_root(mismatch, bracket, args=(q,)).x)
    return result.reshape(tail.shape)[()]


@functools.lru_cache
def _unit_fisher_information(alpha: float) -> float:
    if alpha in (1, 2):
        return 0.5
    law = standard_law(alpha)
    x, weight = _half_line(law, _END * law.far_start)
    return float(2 * np.sum(weight * law.density(x) * law.score(x) ** 2))


def _unit_divergence(alpha: float, shift: float) -> float:
    """Return KL for the unit scale and a shift of at least 0, as an integral of something positive.

    As the law is symmetric, the divergence is half of the one symmetrised, ``½ ∫ (p₁ − p₀)(log p₁ − log p₀) dx``. Its integrand is even
    about the middle between the two locations; m is the distance from there.
    """
    law, half = standard_law(alpha), shift / 2
    if half < law.near_end / 4:  # two densities would agree in most digits: take their ratio from the score between them
        m, weight = _half_line(law, _END * law.far_start)
        node, node_weight = panel_rule(np.array([-1.0, 1.0]), 8)
        log_ratio = half * _score(law, m[:, None] + half * node) @ node_weight
        return float(np.sum(weight * law.density(m + half) * np.expm1(log_ratio) * log_ratio))
    total = 0.0
    for side, end in ((1, _END * max(law.far_start, half)), (-1, half)):  # beyond the nearer location, and between it and the middle
        distance, weight = _half_line(law, end)
        other = 2 * half + side * distance
        log_ratio = law.log_density(distance) - law.log_density(other)
        total += np.sum(weight * (law.density(distance) - law.density(other)) * log_ratio)
    return float(total)


def _half_line(law: StandardLaw, end: float) -> tuple[Array, Array]:
    """Return nodes and weights on (0, end) for a function with the features of the law and, far out, of powers.

    Panels are short up to the tail series, as a law close to the Gaussian bends from its bell into its tail there, and then grow.
    """
    edges = [0.0, min(law.near_end, 0.5)]
    while edges[-1] < end:
        at = edges[-1]
        edges.append(at + (min(0.4 * at, 0.5) if at < law.far_start else 2 * at))
    edges[-1] = end
    return panel_rule(np.array(edges), 16)
