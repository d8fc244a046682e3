"""From detectable lags to the learnability window, the decay laws that predict it, and the neurons' time scales.

The paper's letters and the names here: ℓ ``lags`` (in steps), f(ℓ) ``envelope``, N(ℓ) ``required``, N ``n_sequences``, μ^{(q)}_ℓ ``rates``,
H_N the learnability window, τ_q the time scale of neuron q.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, lag_list, one_of, real_in

Array = NDArray[np.float64]

_LAWS = ("exponential", "power", "logarithmic")


def learnability_window(
    lags: Iterable[int], required: ArrayLike, n_sequences: ArrayLike, *, definition: str = "supremum"
) -> NDArray[np.int64]:
    """Return the window H_N, the longest lag that N sequences can detect.

    Implements Eq. (36), ``H_N = max{ℓ : N(ℓ) ≤ N}``, over the lags given; ``N(ℓ) ≤ N`` is the same as ``f(ℓ) ≥ ε_th(ℓ)``.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing.
        required: Number of sequences N(ℓ) ≥ 0 that each lag needs, shape (..., lags), as from `lwcore.bounds.sample_complexity`; may be
            infinite, not NaN.
        n_sequences: Numbers of sequences N ≥ 0, shape (budgets,).
        definition: ``"supremum"``, Eq. (36), which a single long detectable lag satisfies; or ``"first_passage"``, the longest lag up to
            which every lag given is detectable. They agree where N(ℓ) does not fall with ℓ.

    Returns:
        Window in steps, shape (..., budgets); 0 where no lag is detectable.

    Raises:
        TypeError: If a lag is not an integer.
        ValueError: If `required` has NaN or negative entries or does not fit the lags, or another argument is not allowed.
    """
    lag = np.array(lag_list("lags", lags))
    needed = np.asarray(required, dtype=np.float64)
    if needed.ndim == 0 or needed.shape[-1] != lag.size:
        raise ValueError(f"required has shape {needed.shape}: its last dimension must hold one entry for each of the {lag.size} lags.")
    if not (needed >= 0).all():  # NaN fails, too
        raise ValueError(f"required contains {float(needed[~(needed >= 0)][0])!r}: every entry must be 0 or more, or infinite.")
    budgets = finite_array("n_sequences", n_sequences, ndim=1)
    if (budgets < 0).any():
        raise ValueError(f"n_sequences contains {float(budgets.min())!r}: every entry must be 0 or more.")
    if one_of("definition", definition, ["supremum", "first_passage"]) == "first_passage":
        needed = np.maximum.accumulate(needed, axis=-1)
    return np.where(needed[..., None, :] <= budgets[:, None], lag, 0).max(axis=-1)


@dataclass(frozen=True)
class DecayLaw:
    """A law for the decay of the envelope, one of the three regimes of Eq. (38) and Appendix F.

    Attributes:
        name: ``"exponential"`` for ``f = c λ^ℓ``, ``"power"`` for ``f = c ℓ^−β``, ``"logarithmic"`` for ``f = c/log(1 + ℓ)``.
        amplitude: The factor c > 0, in the units of the envelope.
        decay: λ > 0 of the exponential law or β of the power law; NaN for the logarithmic law, which has no such parameter.

    Raises:
        TypeError: If a parameter is not a real number.
        ValueError: If the name is not one of the three or a parameter is out of range.
    """

    name: str
    amplitude: float
    decay: float = float("nan")

    def __post_init__(self) -> None:
        """Check the parameters."""
        one_of("name", self.name, _LAWS)
        object.__setattr__(self, "amplitude", real_in("amplitude", self.amplitude, "(0, inf)"))
        if self.name != "logarithmic":
            allowed = "(0, inf)" if self.name == "exponential" else "(-inf, inf)"
            object.__setattr__(self, "decay", real_in("decay", self.decay, allowed))

    def envelope(self, lags: ArrayLike) -> Array:
        """Return f at the lags (ℓ ≥ 1, any shape), in the units of the amplitude."""
        lag = np.asarray(lags, dtype=np.float64)
        if self.name == "exponential":
            return self.amplitude * self.decay**lag
        return self.amplitude * lag**-self.decay if self.name == "power" else self.amplitude / np.log1p(lag)


def predicted_window(law: DecayLaw, threshold: ArrayLike) -> Array:
    """Return the lag at which a decay law falls to a threshold, the window it predicts.

    Implements Eqs. (39) and (60), ``H_N = f^←(ε_th)``, in closed form: ``log(c/ε)/log(1/λ)``, ``(c/ε)^(1/β)`` or ``exp(c/ε) − 1``. With
    ``threshold = detection_threshold(N, ...)`` from `lwcore.bounds`, proportional to N^(−1/p), these are the three regimes of H_N in N.

    Args:
        law: The decay law, e.g. ``fit_decay(lags, f).best.law``.
        threshold: Envelope values ε > 0, in the units of the amplitude, any shape; may be infinite (nothing is detected).

    Returns:
        Lag in steps, real, of the shape of `threshold`. 0 where the law is below the threshold for all ℓ ≥ 1, as in
        `learnability_window`; infinite where it never falls to the threshold (λ ≥ 1 or β ≤ 0 included) or beyond the range of a float.

    Raises:
        ValueError: If a threshold is NaN, zero or negative.
    """
    level = np.asarray(threshold, dtype=np.float64)
    if not (level > 0).all():
        raise ValueError(f"threshold contains {float(level[~(level > 0)].flat[0])!r}: every entry must be above 0.")
    log_ratio = np.log(law.amplitude) - np.log(level)
    with np.errstate(over="ignore"):
        if law.name == "logarithmic":
            lag = np.expm1(np.exp(log_ratio))
        else:
            rate = -np.log(law.decay) if law.name == "exponential" else law.decay
            if rate <= 0:  # no decay: a growing law is above any finite threshold in the end, a constant one from the start or never
                above = level < np.inf if rate < 0 else log_ratio >= 0
                return np.where(above, np.inf, 0.0)[()]
            lag = log_ratio / rate if law.name == "exponential" else np.exp(log_ratio / rate)
    return np.where(lag >= 1, lag, 0.0)[()]


@dataclass(frozen=True)
class LawFit:
    """One decay law fitted to an envelope by least squares on ``log f``.

    Attributes:
        law: The fitted law.
        amplitude_error: Standard error of the amplitude.
        decay_error: Standard error of the decay parameter; NaN for the logarithmic law.
        r_squared: Share of the variance of ``log f`` that the law explains; below 0 where a constant does better, NaN where f is constant.
        aicc: Akaike's criterion with the correction for few points, up to a constant common to the laws; the least is the best.
    """

    law: DecayLaw
    amplitude_error: float
    decay_error: float
    r_squared: float
    aicc: float


@dataclass(frozen=True)
class DecayFit:
    """The three decay laws fitted to one envelope.

    Attributes:
        exponential: Fit of ``f = c λ^ℓ``.
        power: Fit of ``f = c ℓ^−β``.
        logarithmic: Fit of ``f = c/log(1 + ℓ)``.
    """

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit

    @property
    def best(self) -> LawFit:
        """The fit of least AICc."""
        return min(self.exponential, self.power, self.logarithmic, key=lambda fit: fit.aicc)


def fit_decay(lags: Iterable[int], envelope: ArrayLike) -> DecayFit:
    """Fit the three decay laws to an envelope.

    Ordinary least squares on ``log f``, where the laws are straight lines in ℓ, ``log ℓ`` and ``log log(1 + ℓ)`` (the last with slope −1).
    Neighbouring lags share their noise, so the standard errors, which take residuals to be independent, are too small as a rule.
    A rescaled envelope changes amplitudes and nothing else.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing, at least five.
        envelope: Envelope f > 0, shape (lags,).

    Returns:
        The three fits; ``.best`` is the one of least AICc.

    Raises:
        TypeError: If a lag is not an integer, or the envelope not made of real numbers.
        ValueError: If the envelope is not positive and finite or does not fit the lags, or there are fewer than five of them.
    """
    lag, f = _matching(lags, "envelope", finite_array("envelope", envelope, ndim=1), axis=0)
    if lag.size < 5:
        raise ValueError(f"lags has {lag.size} entries: must have at least 5, for two parameters and a variance.")
    if not (f > 0).all():
        bad = np.flatnonzero(f <= 0)[0]
        raise ValueError(f"envelope = {float(f[bad])!r} at lag {lag[bad]:g}: must be above 0 at every lag.")
    log_f = np.log(f)
    constant = np.ones_like(lag)
    return DecayFit(
        exponential=_fit_law("exponential", np.stack([constant, lag]), log_f),
        power=_fit_law("power", np.stack([constant, -np.log(lag)]), log_f),
        logarithmic=_fit_law("logarithmic", constant[None], log_f, known=-np.log(np.log1p(lag))),
    )


def _fit_law(name: str, regressors: Array, log_f: Array, known: Array | float = 0.0) -> LawFit:
    """Regress ``log f − known`` on the regressors, shape (parameters, lags); the first is the constant, whose coefficient is log c."""
    parameters, count = regressors.shape
    change = log_f - log_f[0]  # the unit of f goes first, and nothing but the amplitude depends on it; a constant f leaves exact zeros
    centred = change - change.mean()
    basis, triangle = np.linalg.qr(regressors.T)
    coefficients = np.linalg.solve(triangle, basis.T @ (centred - known))
    residual = np.sum((centred - known - coefficients @ regressors) ** 2)
    errors = np.linalg.norm(np.linalg.inv(triangle), axis=1) * np.sqrt(residual / (count - parameters))
    amplitude = np.exp(log_f[0] + change.mean() + coefficients[0])
    decay, decay_error = (coefficients[1], errors[1]) if parameters == 2 else (np.nan, np.nan)
    if name == "exponential":
        decay, decay_error = np.exp(decay), np.exp(decay) * decay_error
    total = np.sum(centred**2)
    k = parameters + 1  # the residual variance is estimated, too
    with np.errstate(divide="ignore"):
        aicc = count * np.log(residual / count) + 2 * k + 2 * k * (k + 1) / (count - k - 1)
    return LawFit(
        law=DecayLaw(name, float(amplitude), float(decay)),
        amplitude_error=float(amplitude * errors[0]),
        decay_error=float(decay_error),
        r_squared=float(1 - residual / total) if total > 0 else float("nan"),
        aicc=float(aicc),
    )


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
    """
    array = finite_array("rates", rates)
    if array.ndim < 2:
        raise ValueError(f"rates has shape {array.shape}: must be (..., lags, neurons).")
    lag, mu = _matching(lags, "rates", array, axis=-2)
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


def _matching(lags: Iterable[int], name: str, values: Array, axis: int) -> tuple[Array, Array]:
    lag = np.array(lag_list("lags", lags), dtype=np.float64)
    if values.shape[axis] != lag.size:
        raise ValueError(f"{name} has shape {values.shape}: dimension {axis} must hold one entry for each of the {lag.size} lags.")
    return lag, values
