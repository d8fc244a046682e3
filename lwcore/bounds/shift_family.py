"""Two shifted copies of one stable law, and the law of their log-likelihood ratio: what every bound of this package is computed from.

With ``h = Δ/σ`` and p the density of unit scale, the log-likelihood ratio of one observation is ``L(x) = log p(x − h) − log p(x + h)``, an
odd function of x, positive for ``x > 0``. Every quantity is an integral over ``x > 0`` of ``p(x − h)`` times a function of L; the nodes
are chosen once for a pair (α, h) and shared.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import finite_array, real_in, require
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_ORDER = 16
_FINE_END = 30.0  # the density has its structure within this many scales of its centre
_FAR_TAIL = 1e30  # beyond it the first term of the tail is exact to rounding


@dataclass(frozen=True)
class LogRatio:
    """The log-likelihood ratio of one observation at the nodes of a quadrature rule over ``x > 0``, panel by panel.

    Attributes:
        coordinate: t with ``x − h = sinh t``, shape (panels, nodes): fine near the centre of the law, logarithmic far out.
        half_width: Half the width of each panel in t, shape (panels, 1).
        log_density: ``log p(x − h)``, shape (panels, nodes).
        log_ratio: L, same shape; above 0, but for rounding far out.
    """

    coordinate: Array
    half_width: Array
    log_density: Array
    log_ratio: Array

    @property
    def mass(self) -> Array:
        """Weights with which a sum over nodes is the integral against ``p(x − h) dx`` over ``x > 0``; same shape as the nodes."""
        _, weight = np.polynomial.legendre.leggauss(self.coordinate.shape[1])
        return self.half_width * weight * np.exp(np.log(np.cosh(self.coordinate)) + self.log_density)

    def log_affinity(self) -> float:
        """Return ``log ρ``, ``ρ = ∫ √(p₊ p₋) dx``, accurate relative to itself both near ρ = 1 and near 0."""
        distance = np.sum(self.mass * np.expm1(-self.log_ratio / 2) ** 2)  # 1 − ρ
        if distance < 0.5:
            return float(np.log1p(-distance))
        return float(np.log(2 * np.sum(self.mass * np.exp(-self.log_ratio / 2))))

    def tilted_cosine(self, frequency: Array) -> tuple[Array, Array]:
        """Return (log|ψ|, sign ψ) for ``ψ(t) = E_Q[cos(t L)]``, Q the law with density ``√(p₊ p₋)/ρ``, under which L is symmetric.

        Args:
            frequency: t ≥ 0, shape (frequencies,).

        Returns:
            Two arrays of that shape; the logarithm is accurate next to ψ = 1.
        """
        weight = (self.mass * np.exp(-self.log_ratio / 2)).ravel()
        weight /= weight.sum()
        ratio = self.log_ratio.ravel() / 2
        deficit = np.array([np.sin(t * ratio) ** 2 @ weight for t in frequency])  # one by one: the nodes stay in a core's cache
        psi = 1 - 2 * deficit
        with np.errstate(divide="ignore"):
            log_psi = np.where(deficit < 0.25, np.log1p(-2 * np.minimum(deficit, 0.25)), np.log(np.abs(psi)))
        return log_psi, np.sign(psi)

    def tilted_variance(self) -> float:
        """Return the variance of L under Q; see `tilted_cosine`."""
        weight = self.mass * np.exp(-self.log_ratio / 2)
        return float(np.sum(weight * self.log_ratio**2) / weight.sum())

    def refined(self, nodes: int) -> LogRatio:
        """Return the same functions at more nodes a panel, by the interpolating polynomials; for integrands that oscillate with L."""
        coarse, _ = np.polynomial.legendre.leggauss(self.coordinate.shape[1])
        fine, _ = np.polynomial.legendre.leggauss(nodes)
        degree = coarse.size - 1
        polynomial = np.polynomial.legendre.legvander
        weights = polynomial(fine, degree) @ np.linalg.inv(polynomial(coarse, degree))
        values = (np.asarray(array @ weights.T) for array in (self.coordinate, self.log_density, self.log_ratio))
        coordinate, log_density, log_ratio = values
        return LogRatio(coordinate, self.half_width, log_density, log_ratio)


@functools.lru_cache(maxsize=512)
def log_ratio(alpha: float, h: float) -> LogRatio:
    """Tabulate the log-likelihood ratio of SαS laws of unit scale at ±h, for ``0 < h ≤ 1e100``."""
    law = SymmetricStable(alpha)
    end = max(h, _FINE_END)
    edges = np.concatenate([-_edges(h)[::-1], _edges(end * 1e17)[1:]])  # from x = 0 to where the rest is rounding
    node, _ = np.polynomial.legendre.leggauss(_ORDER)
    half_width = np.diff(edges)[:, None] / 2
    coordinate = edges[:-1, None] + half_width * (1 + node)
    z = np.sinh(coordinate)
    log_density = law.logpdf(z)
    if h < 0.1:  # L = ∫ score over (x − h, x + h): the difference of two logarithms would lose digits
        abscissa, weight = np.polynomial.legendre.leggauss(4)
        ratio = h * (law.score((z + h)[..., None] + h * abscissa) @ weight)
    else:
        ratio = log_density - law.logpdf(z + 2 * h)
    return LogRatio(coordinate, half_width, log_density, ratio)


def _edges(end: float) -> Array:
    """Return panel edges in ``asinh z`` for z from 0 to `end`: narrow up to 30, wide after."""
    edges = [0.0]
    for stop, width in ((_FINE_END, 0.5), (end, 3.0)):
        start, stop = edges[-1], float(np.arcsinh(min(stop, end)))
        if stop > start:
            edges.extend(np.linspace(start, stop, int(np.ceil((stop - start) / width)) + 1)[1:])
    return np.array(edges)


def log_upper_tail(alpha: float, h: Array) -> Array:
    """Return log P(X > h) at unit scale for ``0 ≤ h ≤ ∞``, any shape, without underflow."""
    if alpha == 2:
        return special.log_ndtr(-h / np.sqrt(2))
    return np.log(SymmetricStable(alpha).sf(np.minimum(h, _FAR_TAIL))) - alpha * np.log(np.maximum(h, _FAR_TAIL) / _FAR_TAIL)


def broadcast(**arrays: ArrayLike) -> tuple[Array, ...]:
    """Return the arguments, named for the error message, as float arrays of one shape after checking that they are finite."""
    checked = {name: finite_array(name, value) for name, value in arrays.items()}
    try:
        return np.broadcast_arrays(*checked.values())
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in checked.items())
        raise ValueError(f"the shapes {shapes} do not broadcast against each other.") from None


def standardised(
    shift: ArrayLike, alpha: float, scale: ArrayLike, n_sequences: ArrayLike, *, whole: bool
) -> tuple[Array, float, Array, Array]:
    """Check the arguments that the bounds share.

    Args:
        shift: Δ ≥ 0.
        alpha: Tail index in (1, 2].
        scale: σ > 0.
        n_sequences: N ≥ 1.
        whole: Whether N must be a whole number.

    Returns:
        ``h = Δ/σ`` of one observation; α; N; and ``h N^(1 − 1/α)``, that of their mean. Arrays of the broadcast shape; h may overflow to ∞.
    """
    shift, scale, n_sequences = broadcast(shift=shift, scale=scale, n_sequences=n_sequences)
    alpha = real_in("alpha", alpha, "(1, 2]")
    require("shift", shift, shift >= 0, "0 or more")
    require("scale", scale, scale > 0, "above 0")
    require("n_sequences", n_sequences, n_sequences >= 1, "1 or more")
    if whole:
        require("n_sequences", n_sequences, n_sequences == np.floor(n_sequences), "a whole number")
    with np.errstate(over="ignore"):
        h = shift / scale
        return h, alpha, n_sequences, h * n_sequences ** (1 - 1 / alpha)
