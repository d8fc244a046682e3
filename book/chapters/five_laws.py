"""A fifth law for the decay of the envelope beside the four of `lwcore.window`: two exponentials,
fast at first and slow later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.signatures import require
from lwcore.window import LawFit, fit_decay, matching, scores

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TwoExponentials:
    """The law ``f = c ((1 − w) λ^ℓ + w κ^ℓ)``.

    Attributes:
        amplitude: c > 0, in the units of the envelope.
        decay: λ in (0, 1), of the fast part.
        slow: κ in (0, 1).
        share: w in (0, 1), of the slow part at ℓ = 0.
    """

    amplitude: float
    decay: float
    slow: float
    share: float
    name = "two_exponentials"

    def __post_init__(self) -> None:
        """Check the parameters."""

    def envelope(self, lags: ArrayLike) -> Array:
        """Return f at lags ℓ > 0, not necessarily whole, any shape."""
        lag = np.asarray(lags, float)
        require("lags", lag, lag > 0, "above 0")
        return self.amplitude * ((1 - self.share) * self.decay**lag + self.share * self.slow**lag)


class TwoExponentialsFit(NamedTuple):
    """Two exponentials fitted to an envelope; numbers as in `lwcore.window.LawFit`."""

    law: TwoExponentials
    r_squared: float
    aicc: float


class FiveLaws(NamedTuple):
    """Five decay laws fitted to one envelope."""

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit
    two_exponentials: TwoExponentialsFit

    @property
    def best(self) -> LawFit | TwoExponentialsFit:
        """The fit of least AICc; of equals the one listed first."""
        fits: tuple[LawFit | TwoExponentialsFit, ...] = (*self[:4], self.two_exponentials)
        return min(fits, key=lambda fit: fit.aicc)


def fit_laws(lags: Iterable[int], envelope: ArrayLike) -> FiveLaws:
    """Fit all five laws to an envelope, as `lwcore.window.fit_decay` does four of them."""
    lags = list(lags)
    return FiveLaws(*fit_decay(lags, envelope), fit_two_exponentials(lags, envelope))


def fit_two_exponentials(lags: Iterable[int], envelope: ArrayLike) -> TwoExponentialsFit:
    """Fit two exponentials by least squares on ``log f``, downhill from the best places of a grid.

    Free are the share at the first lag and the rates, which logistic curves keep in bounds: time
    constants between a tenth of the first lag and a thousand times the last. An envelope that rises
    is none of theirs.
    """
    steps, f = matching(lags, "envelope", np.asarray(envelope, float))
    require("envelope", f, f > 0, "above 0")
    lag, log_f = steps.astype(np.float64), np.log(f)
    low, high = -np.log(1e3 * lag[-1]), np.log(10 / lag[0])

    def parts(free: Array) -> tuple[Array, Array]:
        """Give, fast and slow, logarithms at the first lag and rates, of numbers (..., 3)."""
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
    fast, slow = np.exp(-rates)
    share = special.expit(at_zero[1] - at_zero[0])
    law = TwoExponentials(float(amplitude), float(fast), float(slow), float(share))
    return TwoExponentialsFit(law, *scores(residual.min(), 4, log_f))


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
