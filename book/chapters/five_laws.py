"""A fifth law for the decay of the envelope beside the four of `lwcore.window`: two exponentials,
fast at first and slow later."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.window import LawFit, fit_decay, r_squared_and_aicc

Array = NDArray[np.float64]

_DESCENT_STEPS = 60
_DIFFERENCE = 1e-6  # of the central differences that give slopes


class TwoExponentials(NamedTuple):
    """The law ``f = c ((1 − w) λ^ℓ + w κ^ℓ)``; λ, κ and w are in (0, 1)."""

    amplitude: float  # c, in the units of the envelope
    decay: float  # λ, of the fast part
    slow: float  # κ
    share: float  # w, of the slow part at ℓ = 0

    def envelope(self, lags: ArrayLike) -> Array:
        """Return the envelope f at lags ℓ, not necessarily whole, any shape."""
        lag = np.asarray(lags, float)
        fast_part = (1 - self.share) * self.decay**lag
        slow_part = self.share * self.slow**lag
        return self.amplitude * (fast_part + slow_part)


class FiveLaws(NamedTuple):
    """Five decay laws fitted to one envelope."""

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit
    two_exponentials: LawFit


def fit_each(lags: Iterable[int], envelopes: ArrayLike) -> list[FiveLaws]:
    """Fit five decay laws to envelopes, (k, lags), as `lwcore.window.fit_decay` fits four of them.

    Two exponentials are fitted by least squares on ``log f``, downhill from the best places of a
    grid. Free are the share at the first lag and the rates, which logistic curves keep in bounds:
    time constants between a tenth of the first lag and a thousand times the last. An envelope that
    rises is none of theirs.
    """
    lag = np.array(list(lags), float)
    log_envelopes = np.log(np.asarray(envelopes, float))
    slowest = -np.log(1e3 * lag[-1])  # bounds of the rates, as logarithms
    fastest = np.log(10 / lag[0])

    def log_shares_and_rates(free: Array) -> tuple[Array, Array]:
        """Return logarithms of the parts at the first lag, and rates, each (..., 2): fast, slow."""
        log_fast = slowest + (fastest - slowest) * special.expit(free[..., 0])
        log_slow = slowest + (log_fast - slowest) * special.expit(free[..., 1])
        log_odds = 60 * special.expit(free[..., 2]) - 40
        log_shares = special.log_expit(np.stack([-log_odds, log_odds], axis=-1))
        return log_shares, np.exp(np.stack([log_fast, log_slow], axis=-1))

    def residuals(free: Array, log_f: Array) -> Array:
        """Return what is left of log f, with the amplitude fitted: its mean is left out."""
        log_shares, rates = log_shares_and_rates(free)
        log_parts = log_shares[..., None] - rates[..., None] * (lag - lag[0])
        fitted = np.logaddexp(log_parts[..., 0, :], log_parts[..., 1, :])
        difference = fitted - (log_f - log_f[..., :1])
        return difference - difference.mean(-1, keepdims=True)

    # A grid of the three free numbers; descent starts from the best of every fast rate.
    axes = [np.linspace(-1, 5, 13), np.linspace(-4, 3, 8), np.linspace(-1.5, 1.1, 13)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(13, -1, 3)
    starts = []
    for log_f in log_envelopes:
        squares = np.square(residuals(grid, log_f)).sum(-1)
        starts.append(grid[np.arange(13), squares.argmin(1)])
    repeated = np.repeat(log_envelopes, 13, axis=0)
    ends = _descend(lambda free: residuals(free, repeated), np.concatenate(starts))
    squares_at_ends = np.square(residuals(ends, repeated)).sum(-1).reshape(-1, 13)

    fitted = []
    for envelope, log_f, places, squares in zip(
        np.asarray(envelopes), log_envelopes, ends.reshape(-1, 13, 3), squares_at_ends, strict=True
    ):
        log_shares, rates = log_shares_and_rates(places[squares.argmin()])
        log_at_zero = log_shares + rates * lag[0]
        log_curve = special.logsumexp(log_at_zero - np.outer(lag, rates), axis=-1)
        log_amplitude = np.mean(log_f - log_curve) + special.logsumexp(log_at_zero)
        decay, slow = np.exp(-rates)
        law = TwoExponentials(
            amplitude=float(np.exp(log_amplitude)),
            decay=float(decay),
            slow=float(slow),
            share=float(special.expit(log_at_zero[1] - log_at_zero[0])),
        )
        two = LawFit(law, *r_squared_and_aicc(squares.min(), 4, log_f))
        fitted.append(FiveLaws(*fit_decay(lag.astype(int).tolist(), envelope), two))
    return fitted


def _descend(residuals: Callable[[Array], Array], starts: Array) -> Array:
    """Go downhill from every start at once, by Levenberg and Marquardt's method.

    Args:
        residuals: Gives residuals (..., starts, n) of free numbers (..., starts, k).
        starts: Shape (starts, k).
    """
    here = starts
    left = residuals(here)
    damping = np.full(len(here), 1e-2)
    unit = np.eye(here.shape[-1])
    for _ in range(_DESCENT_STEPS):
        ahead = residuals(here + _DIFFERENCE * unit[:, None])
        behind = residuals(here - _DIFFERENCE * unit[:, None])
        slopes = np.moveaxis((ahead - behind) / (2 * _DIFFERENCE), 0, 1)
        normal = slopes @ slopes.swapaxes(-1, -2)
        ridge = damping * normal.trace(axis1=-2, axis2=-1) + 1e-30
        damped = normal + ridge[:, None, None] * unit
        move = np.linalg.solve(damped, slopes @ left[..., None])[..., 0]
        there = here - move
        left_there = residuals(there)
        # A start that gets worse stays where it is, and takes a shorter step the next time.
        better = np.square(left_there).sum(-1) < np.square(left).sum(-1)
        here = np.where(better[:, None], there, here)
        left = np.where(better[:, None], left_there, left)
        damping = np.maximum(damping * np.where(better, 0.2, 4.0), 1e-10)
    return here
