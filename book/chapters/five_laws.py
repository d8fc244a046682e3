"""A fifth law for the decay of the envelope beside the four of `lwcore.window`: two exponentials,
fast at first and slow later."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.window import LawFit, fit_decay, r_squared_and_aicc

Array = NDArray[np.float64]


class TwoExponentials(NamedTuple):
    """The law ``f = c ((1 − w) λ^ℓ + w κ^ℓ)``; λ, κ and w are in (0, 1)."""

    amplitude: float  # c, in the units of the envelope
    decay: float  # λ, of the fast part
    slow: float  # κ
    share: float  # w, of the slow part at ℓ = 0

    def envelope(self, lags: ArrayLike) -> Array:
        """The envelope f at lags ℓ, not necessarily whole, any shape."""
        lag = np.asarray(lags, float)
        return self.amplitude * ((1 - self.share) * self.decay**lag + self.share * self.slow**lag)


class FiveLaws(NamedTuple):
    """Five decay laws fitted to one envelope."""

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit
    two_exponentials: LawFit


def fit_laws(lags: Iterable[int], envelope: ArrayLike) -> FiveLaws:
    """Five decay laws fitted to an envelope, as `lwcore.window.fit_decay` fits four of them.

    Two exponentials are fitted by least squares on ``log f``, downhill from the best places of a
    grid. Free are the share at the first lag and the rates, which logistic curves keep in bounds:
    time constants between a tenth of the first lag and a thousand times the last. An envelope that
    rises is none of theirs.
    """
    steps = list(lags)
    four = fit_decay(steps, envelope)
    lag, log_f = np.array(steps, float), np.log(np.asarray(envelope, float))
    low, high = -np.log(1e3 * lag[-1]), np.log(10 / lag[0])

    def parts(free: Array) -> tuple[Array, Array]:
        """Fast and slow, logarithms at the first lag and rates, of numbers (..., 3)."""
        fast = low + (high - low) * special.expit(free[..., 0])
        slow = low + (fast - low) * special.expit(free[..., 1])
        odds = 60 * special.expit(free[..., 2]) - 40
        at_first = special.log_expit(np.stack([-odds, odds], axis=-1))
        return at_first, np.exp(np.stack([fast, slow], axis=-1))

    def residuals(free: Array) -> Array:
        at_first, rates = parts(free)
        each = at_first[..., None] - rates[..., None] * (lag - lag[0])
        change = np.logaddexp(each[..., 0, :], each[..., 1, :]) - (log_f - log_f[0])
        return change - change.mean(-1, keepdims=True)

    axes = np.linspace(-1, 5, 13), np.linspace(-4, 3, 8), np.linspace(-1.5, 1.1, 13)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(13, -1, 3)
    cost = np.square(residuals(grid)).sum(-1)
    free = _descend(residuals, grid[np.arange(13), cost.argmin(1)])  # the best of every fast rate
    residual = np.square(residuals(free)).sum(-1)
    at_first, rates = parts(free[residual.argmin()])
    at_zero = at_first + rates * lag[0]
    curve = special.logsumexp(at_zero - np.outer(lag, rates), axis=-1)
    amplitude = np.exp(np.mean(log_f - curve) + special.logsumexp(at_zero))
    share = special.expit(at_zero[1] - at_zero[0])
    law = TwoExponentials(*map(float, (amplitude, *np.exp(-rates), share)))
    return FiveLaws(*four, LawFit(law, *r_squared_and_aicc(residual.min(), 4, log_f)))


def _descend(residuals: Callable[[Array], Array], free: Array) -> Array:
    """Go downhill from every start at once, (starts, numbers), by Levenberg and Marquardt."""
    here, damping = residuals(free), np.full(len(free), 1e-2)
    unit = np.eye(free.shape[-1])
    for _ in range(60):
        ahead, behind = (residuals(free[:, None] + step * unit) for step in (1e-6, -1e-6))
        slopes = (ahead - behind) / 2e-6
        normal = slopes @ slopes.swapaxes(-1, -2)
        held = damping * normal.trace(axis1=-2, axis2=-1) + 1e-30
        move = np.linalg.solve(normal + held[:, None, None] * unit, slopes @ here[..., None])
        there = residuals(tried := free - move[..., 0])
        better = np.square(there).sum(-1) < np.square(here).sum(-1)
        free, here = (np.where(better[:, None], *two) for two in ((tried, free), (there, here)))
        damping = np.maximum(damping * np.where(better, 0.2, 4.0), 1e-10)
    return free
