"""The learnability window, laws for the decay of the envelope, and the neurons' time scales.

The paper's letters and the names here: ℓ ``lags`` (in steps), f(ℓ) ``envelope``, N(ℓ) ``required``,
N ``n_sequences``, μ^{(q)}_ℓ ``rates``, H_N the window, τ_q the time scale of neuron q; c
``amplitude``, β or λ ``decay``, ε_th the detection threshold of `lwcore.detection`.

Two definitions of the window are in use. ``"supremum"``, the default, is the paper's, Eqs. (36) and
(60): the longest detectable lag, however many shorter ones are not. ``"first_passage"`` is the
longest lag up to which every lag is detectable. They agree where N(ℓ) does not fall (the envelope
does not rise) with the lag; measured ones do. NumPy and SciPy only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import (
    finite_array,
    instance_of,
    integer_in,
    lag_list,
    one_of,
    real_array,
    real_in,
    require,
)
from lwcore.detection import log_detection_threshold, sample_complexity

Array = NDArray[np.float64]


def learnability_window(
    lags: Iterable[int],
    required: ArrayLike,
    n_sequences: ArrayLike,
    *,
    definition: str = "supremum",
) -> NDArray[np.int64]:
    """Return the window H_N, the longest lag that N sequences can detect; 0 where none can be.

    Implements Eq. (36), ``H_N = max{ℓ : N(ℓ) ≤ N}``, over the lags given; ``N(ℓ) ≤ N`` is the same
    as ``f(ℓ) ≥ ε_th(ℓ)``. The required numbers, shape (..., lags), as from
    `lwcore.detection.sample_complexity`, may be infinite; with N of shape (budgets,) the window has
    the shape (..., budgets).

    >>> lags = [1, 2, 3, 4]
    >>> required = [10, 40, 200, 90]
    >>> learnability_window(lags, required, [5, 50, 100])
    array([0, 2, 4])
    >>> learnability_window(lags, required, [5, 50, 100], definition="first_passage")
    array([0, 2, 2])
    """
    lag, needed = matching(lags, "required", np.atleast_1d(real_array("required", required)))
    require("required", needed, needed >= 0, "0 or more, or infinite")  # NaN fails, too
    budgets = finite_array("n_sequences", n_sequences, ndim=1)
    require("n_sequences", budgets, budgets >= 0, "0 or more")
    if one_of("definition", definition, ("supremum", "first_passage")) == "first_passage":
        needed = np.maximum.accumulate(needed, axis=-1)
    return np.where(needed[..., None, :] <= budgets[:, None], lag, 0).max(axis=-1)


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

    Implements Eqs. (38), (39) and (59), ``f^←(C' N^(−1/p)) ≤ H_N ≤ f^←(c' N^(−1/p))``, with their
    constants: the least and the greatest σ_α(ℓ)/m̄(ℓ) over the lags given, put in the place of each
    lag's own. That σ_α and m̄ stay between positive constants is what Lemma 5.2 assumes; where they
    do not, the bounds lie far apart, and where an alignment is not positive the lower one is 0.
    """
    lag, f = matching(lags, "envelope", finite_array("envelope", envelope, ndim=1))
    required = sample_complexity(1.0, alignment, scale, alpha, error, rate)  # grows with σ/m̄
    if required.shape not in ((), lag.shape):
        words = f"the shape {required.shape}: must fit the {lag.size} lags"
        raise ValueError(f"alignment and scale have {words}.")
    relative = sample_complexity(f, 1.0, 1.0, alpha, error, rate)
    relative = relative / sample_complexity(1.0, 1.0, 1.0, alpha, error, rate)
    low, high = (
        learnability_window(lag, constant * relative, n_sequences, definition=definition)
        for constant in (required.max(), required.min())
    )
    return low, high


@dataclass(frozen=True)
class DecayLaw:
    """A law for the decay of the envelope: one of Eq. (38) and Appendix F, or the tempered power.

    ``"exponential"`` is ``f = c λ^ℓ``, ``"power"`` is ``f = c ℓ^−β``, ``"logarithmic"`` is
    ``f = c/log(1 + ℓ)`` and ``"tempered_power"`` is ``f = c ℓ^−β λ^ℓ``.
    """

    name: str
    amplitude: float  # c > 0, in the units of the envelope
    decay: float = float("nan")  # λ > 0 of the exponential law, β of the power laws
    tempering: float = float("nan")  # λ > 0 of the tempered power law

    def __post_init__(self) -> None:
        """Check the parameters that the law has."""
        allowed = {
            "exponential": {"decay": "(0, inf)"},
            "power": {"decay": "(-inf, inf)"},
            "logarithmic": {},
            "tempered_power": {"decay": "(-inf, inf)", "tempering": "(0, inf)"},
        }
        parameters = allowed[one_of("name", self.name, allowed)] | {"amplitude": "(0, inf)"}
        for name, interval in parameters.items():
            object.__setattr__(self, name, real_in(name, getattr(self, name), interval))

    def envelope(self, lags: ArrayLike) -> Array:
        """Return f at lags ℓ > 0, not necessarily whole, any shape, in the amplitude's units."""
        lag = finite_array("lags", lags)
        require("lags", lag, lag > 0, "above 0")
        if self.name == "logarithmic":
            return self.amplitude / np.log1p(lag)
        power = 0.0 if self.name == "exponential" else self.decay
        factor = {"exponential": self.decay, "power": 1.0}.get(self.name, self.tempering)
        return self.amplitude * lag**-power * factor**lag

    def inverse(self, log_level: ArrayLike) -> Array:
        """Return ``f^←(ε)``, the lag at which one of the three regimes falls to a level, from log
        ε.

        Implements Eq. (60), ``H_N = f^←(ε_th)``, in closed form: ``log(c/ε)/log(1/λ)``,
        ``(c/ε)^(1/β)`` or ``exp(c/ε) − 1``. The lag is real; 0 where the law is below the level for
        all ℓ ≥ 1, as in `learnability_window`; infinite where it never falls (λ ≥ 1, β ≤ 0) to it.

        >>> law = DecayLaw("power", amplitude=1.0, decay=0.5)
        >>> print(law.inverse(np.log([0.5, 0.1, 2.0])).round(6))
        [  4. 100.   0.]
        """
        name = one_of("law", self.name, ("exponential", "power", "logarithmic"))
        level = real_array("log_level", log_level)
        require("log_level", level, ~np.isnan(level), "a number or infinite")
        ratio = np.log(self.amplitude) - level
        steepness = -np.log(self.decay) if name == "exponential" else self.decay
        if steepness <= 0:  # a growing law is above any level in the end, a constant one or never
            return np.where(ratio >= 0 if steepness == 0 else level < np.inf, np.inf, 0.0)[()]
        with np.errstate(over="ignore"):
            if name == "logarithmic":
                lag = np.expm1(np.exp(ratio))
            else:
                lag = ratio / steepness if name == "exponential" else np.exp(ratio / steepness)
        return np.where(lag >= 1, lag, 0.0)[()]


def regime_window(
    law: DecayLaw,
    n_sequences: ArrayLike,
    alignment: ArrayLike,
    scale: ArrayLike,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
) -> Array:
    """Return H_N for an envelope that follows a decay law, constants included, of the shape of N.

    With ``ε_th = C σ_α/(m̄ N^(1/p))`` these are the three regimes of Appendix F:
    ``exp(c N^(1/p) m̄/(C σ_α)) − 1`` (logarithmic), ``(c m̄/(C σ_α))^(1/β) N^(1/(pβ))`` (power) and
    ``[log(c m̄/(C σ_α)) + (log N)/p]/log(1/λ)`` (exponential). The laws fall with the lag, so both
    definitions of the window agree. N may be as large as a float holds.
    """
    threshold = log_detection_threshold(n_sequences, alignment, scale, alpha, error, rate)
    return instance_of("law", law, DecayLaw).inverse(threshold)


class LawFit(NamedTuple):
    """One decay law fitted to an envelope by least squares on ``log f``."""

    law: DecayLaw
    r_squared: float  # of log f; below 0 where a constant does better, NaN where f is constant
    aicc: float  # up to a constant common to the laws; infinite where there are too few lags for it


class DecayFit(NamedTuple):
    """The decay laws fitted to one envelope; nothing keeps the tempered law's β or 1 − λ above
    0."""

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit

    @property
    def best(self) -> LawFit:
        """The fit of least AICc; of equals the one listed first."""
        return min(self, key=lambda fit: fit.aicc)


def fit_decay(lags: Iterable[int], envelope: ArrayLike) -> DecayFit:
    """Fit the decay laws to an envelope f > 0 at five lags or more, by least squares on ``log f``.

    The laws are linear in ℓ, ``log ℓ``, ``log log(1 + ℓ)`` with slope −1, and the first two. A
    rescaled envelope changes amplitudes and nothing else. Residuals below the rounding of ``log f``
    count as that rounding: data without noise do not go to the law with the most parameters.

    >>> lags = np.arange(1, 65)
    >>> best = fit_decay(lags, 3 * lags**-0.5).best
    >>> print(best.law.name, round(best.law.amplitude, 3), round(best.law.decay, 3))
    power 3.0 0.5
    """
    steps, f = matching(lags, "envelope", finite_array("envelope", envelope, ndim=1))
    lag = steps.astype(np.float64)
    integer_in("number of lags", lag.size, 5)  # for the parameters and a variance
    if not (f > 0).all():
        bad = np.flatnonzero(f <= 0)[0]
        raise ValueError(f"envelope = {float(f[bad])!r} at lag {steps[bad]}: must be above 0.")
    log_f, constant, log_lag = np.log(f), np.ones_like(lag), -np.log(lag)
    return DecayFit(
        exponential=_regress("exponential", [constant, lag], log_f),
        power=_regress("power", [constant, log_lag], log_f),
        logarithmic=_regress("logarithmic", [constant], log_f, -np.log(np.log1p(lag))),
        tempered=_regress("tempered_power", [constant, log_lag, lag], log_f),
    )


def _regress(name: str, columns: list[Array], log_f: Array, known: ArrayLike = 0.0) -> LawFit:
    """Regress ``log f − known`` on the columns, of which the first has the coefficient log c."""
    change = log_f - log_f[0]  # without the unit of f; a constant f leaves exact zeros
    wanted, design = change - change.mean() - known, np.stack(columns, axis=-1)
    found = np.linalg.lstsq(design, wanted)[0]
    residual = np.sum((wanted - design @ found) ** 2)
    with np.errstate(over="ignore"):
        amplitude, factor = np.exp(found[0] + log_f[0] + change.mean()), np.exp(found[-1])
    parameters = {"exponential": [factor], "tempered_power": [found[1 % found.size], factor]}
    law = DecayLaw(name, float(amplitude), *map(float, parameters.get(name, found[1:])))
    return LawFit(law, *scores(residual, found.size, log_f))


def scores(residual: float, parameters: int, log_f: Array) -> tuple[float, float]:
    """Give R² on log f, and AICc with residuals of at least the rounding of log f."""
    count, k = log_f.size, parameters + 1  # the residual variance is estimated, too
    change = log_f - log_f[0]
    total = np.sum((change - change.mean()) ** 2)
    rounding = 8 * np.finfo(float).eps * (1 + np.abs(log_f).max())
    aicc = float("inf")
    if count > k + 1:
        penalty = 2 * k + 2 * k * (k + 1) / (count - k - 1)
        aicc = float(count * np.log(max(residual / count, rounding**2)) + penalty)
    return float(1 - residual / total) if total > 0 else float("nan"), aicc


def time_scales(lags: Iterable[int], rates: ArrayLike) -> Array:
    """Return the time scale τ_q of each neuron in steps, from rates of shape (..., lags, neurons).

    Least squares of ``log μ = a − ℓ/τ`` over the lags. Rates that are zero or negative have no
    place in such a law and are left out, neuron by neuron: where a first-order rate changes its
    sign, τ describes its positive part. τ does not depend on the scale of the rates. It is infinite
    where the rates do not fall, NaN where fewer than two are positive.

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
    # constants: exactly 0
    log_mu = np.subtract(log_mu, largest, where=kept, out=np.zeros(mu.shape))
    count = kept.sum(axis=-2, keepdims=True)
    mean = np.where(kept, lag[:, None], 0).sum(axis=-2, keepdims=True) / np.maximum(count, 1)
    centred = np.where(kept, lag[:, None] - mean, 0.0)
    spread = np.where(count[..., 0, :] > 1, np.sum(centred**2, axis=-2), np.nan)
    slope = np.sum(centred * log_mu, axis=-2) / spread
    with np.errstate(divide="ignore"):
        return np.where(slope >= 0, np.inf, -1 / slope)


def mixture_envelope(
    lags: ArrayLike, time_scales: ArrayLike, weights: ArrayLike | None = None
) -> Array:
    """Return the envelope of neurons that decay exponentially: ``f(ℓ) = Σ_q w_q exp(−ℓ/τ_q)``.

    Few time scales give a few exponentials; a broad spectrum of them a power law over the lags it
    spans: rates 1/τ with the density ``k^(β−1)`` give ``ℓ^−β``. Lags ℓ ≥ 0, shape (lags,), need not
    be whole; time scales, shape (..., neurons), may be infinite but not NaN, as `time_scales` gives
    for neurons without a positive rate; weights w ≥ 0 broadcast with them (None for 1 each).
    """
    lag = finite_array("lags", lags, ndim=1)
    tau = np.atleast_1d(real_array("time_scales", time_scales))
    weight = finite_array("weights", 1.0 if weights is None else weights)
    integer_in("number of time_scales", tau.shape[-1], 1)
    require("lags", lag, lag >= 0, "0 or more")
    require("time_scales", tau, tau > 0, "above 0")
    require("weights", weight, weight >= 0, "0 or more")
    return np.einsum(
        "...q,...lq->...l", np.atleast_1d(weight), np.exp(-lag[:, None] / tau[..., None, :])
    )


def matching(
    lags: Iterable[int], name: str, values: Array, axis: int = -1
) -> tuple[NDArray[np.int64], Array]:
    """Return lags and values after checking that there is one value for each lag along an axis."""
    lag = np.array(lag_list("lags", lags))
    if values.shape[axis] != lag.size:
        allowed = f"dimension {axis} must hold one entry for each of the {lag.size} lags"
        raise ValueError(f"{name} has shape {values.shape}: {allowed}.")
    return lag, values
