"""From detectable lags to the learnability window, in either of its two definitions, and the neurons' time scales.

The paper's letters and the names here: ℓ ``lags`` (in steps), f(ℓ) ``envelope``, N(ℓ) ``required``, N ``n_sequences``, μ^{(q)}_ℓ ``rates``,
H_N the learnability window, τ_q the time scale of neuron q. The decay laws of `lwcore.decay` are importable from here, too.

Two definitions of the window are in use. ``"supremum"``, the default, is the paper's, Eqs. (36) and (60): the longest detectable lag,
however many shorter ones are not. ``"first_passage"`` is the longest lag up to which every lag is detectable. They agree where N(ℓ) does
not fall (the envelope does not rise) with the lag; measured ones do, so every function here that depends on it takes ``definition``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, instance_of, integer_in, lag_list, one_of, real_array, require
from lwcore.decay import DecayFit, DecayLaw, LawFit, fit_decay, lag_at, matching, predicted_window
from lwcore.detection import log_detection_threshold, sample_complexity

__all__ = [
    "DecayFit",
    "DecayLaw",
    "LawFit",
    "fit_decay",
    "generalised_inverse",
    "learnability_window",
    "mixture_envelope",
    "predicted_window",
    "regime_window",
    "time_scales",
    "window_bounds",
]

Array = NDArray[np.float64]

_DEFINITIONS = ("supremum", "first_passage")


def learnability_window(
    lags: Iterable[int], required: ArrayLike, n_sequences: ArrayLike, *, definition: str = "supremum"
) -> NDArray[np.int64]:
    """Return the window H_N, the longest lag that N sequences can detect.

    Implements Eq. (36), ``H_N = max{ℓ : N(ℓ) ≤ N}``, over the lags given; ``N(ℓ) ≤ N`` is the same as ``f(ℓ) ≥ ε_th(ℓ)``.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing.
        required: Number of sequences N(ℓ) ≥ 0 that each lag needs, shape (..., lags), as from `lwcore.detection.sample_complexity`; may be
            infinite, not NaN.
        n_sequences: Numbers of sequences N ≥ 0, shape (budgets,).
        definition: ``"supremum"``, Eq. (36), which a single long detectable lag satisfies; or ``"first_passage"``, the longest lag up to
            which every lag given is detectable. They agree where N(ℓ) does not fall with ℓ.

    Returns:
        Window in steps, shape (..., budgets); 0 where no lag is detectable.

    Raises:
        TypeError: If a lag is not an integer.
        ValueError: If `required` has NaN or negative entries or does not fit the lags, or another argument is not allowed.

    Examples:
        >>> lags = [1, 2, 3, 4]
        >>> required = [10, 40, 200, 90]
        >>> learnability_window(lags, required, [5, 50, 100])
        array([0, 2, 4])
        >>> learnability_window(lags, required, [5, 50, 100], definition="first_passage")
        array([0, 2, 2])
    """
    lag = np.array(lag_list("lags", lags))
    needed = real_array("required", required)
    if needed.ndim == 0 or needed.shape[-1] != lag.size:
        raise ValueError(f"required has shape {needed.shape}: its last dimension must hold one entry for each of the {lag.size} lags.")
    require("required", needed, needed >= 0, "0 or more, or infinite")  # NaN fails, too
    budgets = finite_array("n_sequences", n_sequences, ndim=1)
    require("n_sequences", budgets, budgets >= 0, "0 or more")
    if one_of("definition", definition, _DEFINITIONS) == "first_passage":
        needed = np.maximum.accumulate(needed, axis=-1)
    return np.where(needed[..., None, :] <= budgets[:, None], lag, 0).max(axis=-1)


def generalised_inverse(
    lags: Iterable[int], envelope: ArrayLike, level: ArrayLike, *, definition: str = "supremum", between: str = "log"
) -> Array:
    """Return ``f^←(ε)``, the lag at which a measured envelope falls to a level.

    The generalised inverse of Eqs. (39) and (60), ``sup{ℓ : f(ℓ) ≥ ε}``, of an envelope that need not be monotone.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing.
        envelope: Envelope f ≥ 0, shape (..., lags).
        level: Levels ε > 0 in the units of the envelope, shape (levels,) or a scalar; may be infinite.
        definition: ``"supremum"``, or ``"first_passage"`` for the lag at which f falls below the level for the first time.
        between: What f is between two lags. ``"log"``: log f is a straight line in ℓ, and the lag returned is real. ``"grid"``: only the
            lags given exist, and one of them is returned, as in `learnability_window`.

    Returns:
        Lag in steps, shape (..., levels), or (...) for a scalar level. 0 where f is below the level at every lag (``"supremum"``), or at
        the first (``"first_passage"``: what happens before the first lag is not known); the last lag where f is at the level or above
        there: the inverse is then at least that.

    Raises:
        TypeError: If a lag is not an integer, or the envelope not made of real numbers.
        ValueError: If the envelope is negative or not finite or does not fit the lags, or another argument is not allowed.
    """
    lag, f = matching(lags, "envelope", np.atleast_1d(finite_array("envelope", envelope)), axis=-1)
    require("envelope", f, f >= 0, "0 or more")
    levels = real_array("level", level)
    if levels.ndim > 1 or levels.size == 0 or not (levels > 0).all():
        raise ValueError(f"level = {level!r}: must be a number above 0, or a one-dimensional array of them.")
    above = f[..., None, :] >= np.atleast_1d(levels)[:, None]
    if one_of("definition", definition, _DEFINITIONS) == "first_passage":
        above = np.logical_and.accumulate(above, axis=-1)
    last = np.where(above, np.arange(lag.size), -1).max(axis=-1)  # shape (..., levels)
    result = np.where(last >= 0, lag[np.maximum(last, 0)], 0.0)
    if one_of("between", between, ["log", "grid"]) == "log" and lag.size > 1:
        falls = (last >= 0) & (last < lag.size - 1)
        left = np.where(falls, last, 0)
        here, after = (np.take_along_axis(_log(f), index, axis=-1) for index in (left, left + 1))
        drop = np.subtract(here, after, where=falls, out=np.zeros(falls.shape))
        share = np.divide(here - np.log(levels), drop, where=falls & (drop > 0), out=np.zeros(falls.shape))
        result = np.where(falls, lag[left] + share * (lag[left + 1] - lag[left]), result)
    return result[..., 0] if levels.ndim == 0 else result


def window_bounds(
    lags: Iterable[int],
    envelope: ArrayLike,
    alignment: ArrayLike,
    scale: ArrayLike,
    n_sequences: ArrayLike,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
    *,
    definition: str = "supremum",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two bounds between which the envelope alone confines the window.

    Implements Eqs. (38), (39) and (59), ``f^←(C' N^(−1/p)) ≤ H_N ≤ f^←(c' N^(−1/p))``, with their constants: the least and the greatest
    σ_α(ℓ)/m̄(ℓ) over the lags given, put in the place of each lag's own. That σ_α and m̄ stay between positive constants is what
    Lemma 5.2 assumes; where they do not, the bounds lie far apart, and where an alignment is zero or negative the lower one is 0.

    Lags and definition are those of `learnability_window`; the envelope has shape (lags,), alignment and scale that or none,
    ``n_sequences`` shape (budgets,); for the rest see `lwcore.detection.sample_complexity`.

    Returns:
        Lower and upper bound in steps, each of shape (budgets,); `learnability_window` lies between them, the ends included.

    Raises:
        TypeError: If an argument is not made of real numbers.
        ValueError: If one is not finite, out of range or does not fit the lags.
    """
    lag, f = matching(lags, "envelope", finite_array("envelope", envelope, ndim=1), axis=0)
    required = sample_complexity(1.0, alignment, scale, alpha, error, rate)  # grows with σ/m̄
    if required.shape not in ((), lag.shape):
        raise ValueError(f"alignment and scale have the shape {required.shape}: must hold one entry for each of the {lag.size} lags.")
    shape = sample_complexity(f, 1.0, 1.0, alpha, error, rate) / sample_complexity(1.0, 1.0, 1.0, alpha, error, rate)
    steps = lag.astype(np.int64)
    low, high = (
        learnability_window(steps, constant * shape, n_sequences, definition=definition) for constant in (required.max(), required.min())
    )
    return low, high


def regime_window(
    law: DecayLaw,
    n_sequences: ArrayLike,
    alignment: ArrayLike,
    scale: ArrayLike,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
) -> Array:
    """Return H_N(N) for an envelope that follows a decay law, constants included.

    It is Eq. (60) in closed form. With ``ε_th = C σ_α/(m̄ N^(1/p))`` these are the three regimes of Appendix F:
    ``exp(c N^(1/p) m̄/(C σ_α)) − 1`` (logarithmic), ``(c m̄/(C σ_α))^(1/β) N^(1/(pβ))`` (power) and
    ``[log(c m̄/(C σ_α)) + (log N)/p]/log(1/λ)`` (exponential); a tempered power law goes from the second to the third at ``ℓ = β/log(1/λ)``.
    The laws fall with the lag, so both definitions of the window agree (a tempered one with β < 0 rises first: this is the supremum).
    All other arguments are those of `lwcore.detection.detection_threshold`; N may be as large as a float holds.

    Returns:
        Lag in steps, real, of the shape of `n_sequences`; 0 and infinity as in `predicted_window`.
    """
    instance_of("law", law, DecayLaw)
    return lag_at(law, log_detection_threshold(n_sequences, alignment, scale, alpha, error, rate))


def mixture_envelope(lags: ArrayLike, time_scales: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return the envelope of neurons that decay exponentially, each with its own time scale: ``f(ℓ) = Σ_q w_q exp(−ℓ/τ_q)``.

    Few time scales give a few exponentials; a broad spectrum of them a power law over the lags it spans: rates 1/τ with the density
    ``k^(β−1)`` give ``ℓ^−β``.

    Args:
        lags: Lags ℓ ≥ 0 in steps, not necessarily whole, shape (lags,).
        time_scales: τ > 0 in steps, shape (..., neurons); may be infinite. Leave out the NaN that `time_scales` gives for neurons without
            a positive rate.
        weights: Weights w ≥ 0 in the units of the envelope, of a shape that broadcasts with the time scales; None for 1 each.

    Returns:
        Envelope of shape (..., lags).

    Raises:
        TypeError: If lags or weights are not made of real numbers.
        ValueError: If a lag or weight is negative or not finite, or a time scale is NaN, zero or negative, or the shapes do not fit.
    """
    lag = finite_array("lags", lags, ndim=1)
    tau = np.atleast_1d(real_array("time_scales", time_scales))
    weight = finite_array("weights", 1.0 if weights is None else weights)
    require("lags", lag, lag >= 0, "0 or more")
    require("time_scales", tau, tau > 0, "above 0")
    integer_in("number of time_scales", tau.shape[-1], 1)
    require("weights", weight, weight >= 0, "0 or more")
    try:
        tau, weight = np.broadcast_arrays(tau, weight)
    except ValueError:
        raise ValueError(f"weights has shape {weight.shape}: must fit the time scales, of shape {tau.shape}.") from None
    return np.einsum("...q,...lq->...l", weight, np.exp(-lag[:, None] / tau[..., None, :]))


def time_scales(lags: Iterable[int], rates: ArrayLike) -> Array:
    """Return the time scale τ_q of each neuron, from an exponential fit to its effective rates.

    Least squares of ``log μ = a − ℓ/τ`` over the lags. Rates that are zero or negative have no place in such a law and are left out, neuron
    by neuron: where a first-order rate changes its sign, τ describes its positive part. τ does not depend on the scale of the rates.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing.
        rates: Effective rates μ, shape (..., lags, neurons), finite.

    Returns:
        τ in steps, shape (..., neurons), positive; infinite where the fitted rates do not fall, NaN where fewer than two are positive.

    Raises:
        TypeError: If a lag is not an integer, or the rates not made of real numbers.
        ValueError: If the rates are not finite, have fewer than two dimensions or do not fit the lags.

    Examples:
        >>> lags = np.arange(1, 9)
        >>> rates = np.exp(-lags[:, None] / np.array([2.0, 50.0]))
        >>> print(time_scales(lags, rates).round(3))
        [ 2. 50.]
    """
    array = finite_array("rates", rates)
    if array.ndim < 2:
        raise ValueError(f"rates has shape {array.shape}: must be (..., lags, neurons).")
    lag, mu = matching(lags, "rates", array, axis=-2)
    kept = mu > 0
    log_mu = np.log(mu, where=kept, out=np.full(mu.shape, -np.inf))
    largest = log_mu.max(axis=-2, keepdims=True, initial=-np.inf)
    log_mu = np.subtract(log_mu, largest, where=kept, out=np.zeros(mu.shape))  # so that constant rates have a slope of exactly 0
    count = kept.sum(axis=-2, keepdims=True)
    mean_lag = np.where(kept, lag[:, None], 0).sum(axis=-2, keepdims=True) / np.maximum(count, 1)
    centred = np.where(kept, lag[:, None] - mean_lag, 0.0)
    slope = np.sum(centred * log_mu, axis=-2) / np.where(count[..., 0, :] > 1, np.sum(centred**2, axis=-2), np.nan)
    with np.errstate(divide="ignore"):
        return np.where(slope >= 0, np.inf, -1 / slope)


def _log(values: Array) -> Array:
    """Return the logarithm, −∞ at 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)
