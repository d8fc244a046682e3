"""Laws for the decay of the envelope, the windows they imply in closed form, and their fit to a measured envelope.

The paper's letters and the names here: ℓ ``lags`` (in steps), f(ℓ) ``envelope``, c ``amplitude``, β or λ ``decay``, ε_th ``threshold``.
All names are importable from `lwcore.window`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import finite_array, instance_of, lag_list, one_of, real_array, real_in, require

Array = NDArray[np.float64]

_LAWS = ("exponential", "power", "logarithmic", "tempered_power")


@dataclass(frozen=True)
class DecayLaw:
    """A law for the decay of the envelope: one of the three regimes of Eq. (38) and Appendix F, or a power that ends exponentially.

    Attributes:
        name: ``"exponential"`` for ``f = c λ^ℓ``, ``"power"`` for ``f = c ℓ^−β``, ``"logarithmic"`` for ``f = c/log(1 + ℓ)``,
            ``"tempered_power"`` for ``f = c ℓ^−β λ^ℓ``.
        amplitude: The factor c > 0, in the units of the envelope.
        decay: λ > 0 of the exponential law, β of the power laws; NaN for the logarithmic law, which has no such parameter.
        tempering: λ > 0 of the tempered power law; NaN for the others.

    Raises:
        TypeError: If a parameter is not a real number.
        ValueError: If the name is not one of the four or a parameter is out of range.
    """

    name: str
    amplitude: float
    decay: float = float("nan")
    tempering: float = float("nan")

    def __post_init__(self) -> None:
        """Check the parameters."""
        one_of("name", self.name, _LAWS)
        object.__setattr__(self, "amplitude", real_in("amplitude", self.amplitude, "(0, inf)"))
        if self.name != "logarithmic":
            allowed = "(0, inf)" if self.name == "exponential" else "(-inf, inf)"
            object.__setattr__(self, "decay", real_in("decay", self.decay, allowed))
        if self.name == "tempered_power":
            object.__setattr__(self, "tempering", real_in("tempering", self.tempering, "(0, inf)"))

    def envelope(self, lags: ArrayLike) -> Array:
        """Return f at the lags (ℓ > 0, not necessarily whole, any shape), in the units of the amplitude."""
        lag = finite_array("lags", lags)
        require("lags", lag, lag > 0, "above 0")
        if self.name == "logarithmic":
            return self.amplitude / np.log1p(lag)
        if self.name == "exponential":
            return self.amplitude * self.decay**lag
        return self.amplitude * lag**-self.decay * (self.tempering**lag if self.name == "tempered_power" else 1.0)


def predicted_window(law: DecayLaw, threshold: ArrayLike) -> Array:
    """Return the lag at which a decay law falls to a threshold, the window it predicts.

    Implements Eqs. (39) and (60), ``H_N = f^←(ε_th)``, in closed form: ``log(c/ε)/log(1/λ)``, ``(c/ε)^(1/β)`` or ``exp(c/ε) − 1``; for the
    tempered power law ``(β/k) W((k/β) (c/ε)^(1/β))`` with ``k = log(1/λ)`` and Lambert's W, a power of c/ε that bends into a logarithm at
    ``ℓ = β/k``. With ``threshold = detection_threshold(N, ...)`` from `lwcore.bounds`, proportional to N^(−1/p), the first three are the
    regimes of H_N in N; `lwcore.window.regime_window` puts the two together.

    Args:
        law: The decay law, e.g. ``fit_decay(lags, f).best.law``.
        threshold: Envelope values ε > 0, in the units of the amplitude, any shape; may be infinite (nothing is detected).

    Returns:
        Lag in steps, real, of the shape of `threshold`: the last at which the law is at the threshold or above. 0 where the law is below it
        for all ℓ ≥ 1, as in `learnability_window`; infinite where it never falls to the threshold for good (λ > 1, or λ = 1 or no λ with
        β ≤ 0) or beyond the range of a float.

    Examples:
        >>> law = DecayLaw("power", amplitude=1.0, decay=0.5)
        >>> print(predicted_window(law, [0.5, 0.1, 2.0]).round(6))
        [  4. 100.   0.]
    """
    level = real_array("threshold", threshold)
    require("threshold", level, level > 0, "above 0")
    return lag_at(law, np.log(level))


def lag_at(law: DecayLaw, log_threshold: ArrayLike) -> Array:
    """Return `predicted_window` for the logarithm of a threshold, which may be beyond the range of a float; +∞ is allowed."""
    instance_of("law", law, DecayLaw)
    log_level = real_array("log_threshold", log_threshold)
    require("log_threshold", log_level, ~np.isnan(log_level), "a number or infinite")
    log_ratio = np.log(law.amplitude) - log_level
    if law.name == "logarithmic":
        with np.errstate(over="ignore"):
            lag = np.expm1(np.exp(log_ratio))
        return np.where(lag >= 1, lag, 0.0)[()]
    power = 0.0 if law.name == "exponential" else law.decay
    rate = 0.0 if law.name == "power" else -np.log(law.decay if law.name == "exponential" else law.tempering)
    if rate < 0 or (rate == 0 and power <= 0):  # a growing law is above any finite threshold in the end, a constant one always or never
        above = log_level < np.inf if (rate, power) != (0, 0) else log_ratio >= 0
        return np.where(above, np.inf, 0.0)[()]
    with np.errstate(over="ignore"):
        if power == 0:
            lag = log_ratio / rate
        elif rate == 0:
            lag = np.exp(log_ratio / power)
        else:
            lag = abs(power) / rate * _bend(np.sign(power), log_ratio / abs(power) + np.sign(power) * np.log(rate / abs(power)))
    return np.where(lag >= 1, lag, 0.0)[()]


def _bend(sign: float, level: Array) -> Array:
    """Return the largest y with ``y + sign·log y = level``, or 0 where there is none: ``log W⁻¹`` for sign 1, else ``y − log y``."""
    if sign > 0:
        return special.wrightomega(level)  # W(e^level), without the overflow
    start = np.clip(level, 1.0, None)
    y = 2 * start  # above the root, from where Newton's iteration on a convex function falls to it without passing
    finite = np.isfinite(start)
    for _ in range(60):
        y = np.where(finite, np.maximum(y - (y - np.log(y) - start) / np.maximum(1 - 1 / y, 1e-9), 1.0), np.inf)
    return np.where(level >= 1, y, 0.0)


@dataclass(frozen=True)
class LawFit:
    """One decay law fitted to an envelope by least squares on ``log f``.

    Attributes:
        law: The fitted law.
        amplitude_error: Standard error of the amplitude.
        decay_error: Standard error of the decay parameter; NaN for the logarithmic law.
        r_squared: Share of the variance of ``log f`` that the law explains; below 0 where a constant does better, NaN where f is constant.
        aicc: Akaike's criterion with the correction for few points, up to a constant common to the laws; the least is the best. Infinite
            where there are too few lags for it.
        tempering_error: Standard error of λ of the tempered power law; NaN for the others.
        amplitude_interval: Confidence interval by Student's t on the logarithm of the amplitude, (low, high).
        decay_interval: The same for β, or on the logarithm of the exponential law's λ; NaN for the logarithmic law.
        tempering_interval: The same on the logarithm of the tempered power law's λ; NaN for the others.
    """

    law: DecayLaw
    amplitude_error: float
    decay_error: float
    r_squared: float
    aicc: float
    tempering_error: float
    amplitude_interval: tuple[float, float]
    decay_interval: tuple[float, float]
    tempering_interval: tuple[float, float]


@dataclass(frozen=True)
class DecayFit:
    """The four decay laws fitted to one envelope.

    Attributes:
        exponential: Fit of ``f = c λ^ℓ``.
        power: Fit of ``f = c ℓ^−β``.
        logarithmic: Fit of ``f = c/log(1 + ℓ)``.
        tempered: Fit of ``f = c ℓ^−β λ^ℓ``, which contains the first two; nothing keeps β above 0 or λ below 1.
    """

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit

    @property
    def best(self) -> LawFit:
        """The fit of least AICc; of equals the one listed first."""
        return min(self.exponential, self.power, self.logarithmic, self.tempered, key=lambda fit: fit.aicc)


def fit_decay(lags: Iterable[int], envelope: ArrayLike, confidence: float = 0.95) -> DecayFit:
    """Fit the four decay laws to an envelope.

    Ordinary least squares on ``log f``, where the laws are linear in ℓ, ``log ℓ``, both, and ``log log(1 + ℓ)`` (the last with slope −1).
    Neighbouring lags share their noise, so the standard errors and intervals, which take residuals to be independent, are too small as a
    rule. A rescaled envelope changes amplitudes and nothing else. Residuals below the rounding of ``log f`` count as that rounding, so that
    data without noise do not go to the law with the most parameters.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing, at least five.
        envelope: Envelope f > 0, shape (lags,).
        confidence: Coverage of the intervals, in (0, 1).

    Returns:
        The four fits; ``.best`` is the one of least AICc.

    Raises:
        TypeError: If a lag is not an integer, or the envelope not made of real numbers.
        ValueError: If the envelope is not positive and finite or does not fit the lags, there are fewer than five of them, or the
            confidence is out of range.

    Examples:
        >>> lags = np.arange(1, 65)
        >>> best = fit_decay(lags, 3 * lags**-0.5).best
        >>> print(best.law.name, round(best.law.amplitude, 3), round(best.law.decay, 3))
        power 3.0 0.5
    """
    lag, f = matching(lags, "envelope", finite_array("envelope", envelope, ndim=1), axis=0)
    confidence = real_in("confidence", confidence, "(0, 1)")
    if lag.size < 5:
        raise ValueError(f"lags has {lag.size} entries: must have at least 5, for the parameters and a variance.")
    if not (f > 0).all():
        bad = np.flatnonzero(f <= 0)[0]
        raise ValueError(f"envelope = {float(f[bad])!r} at lag {lag[bad]:g}: must be above 0 at every lag.")
    log_f = np.log(f)
    constant, log_lag = np.ones_like(lag), -np.log(lag)
    return DecayFit(
        exponential=_fit_law("exponential", np.stack([constant, lag]), log_f, confidence),
        power=_fit_law("power", np.stack([constant, log_lag]), log_f, confidence),
        logarithmic=_fit_law("logarithmic", constant[None], log_f, confidence, known=-np.log(np.log1p(lag))),
        tempered=_fit_law("tempered_power", np.stack([constant, log_lag, lag]), log_f, confidence),
    )


def _fit_law(name: str, regressors: Array, log_f: Array, confidence: float, known: Array | float = 0.0) -> LawFit:
    """Regress ``log f − known`` on the regressors, shape (parameters, lags); the first is the constant, whose coefficient is log c."""
    parameters, count = regressors.shape
    change = log_f - log_f[0]  # the unit of f goes first, and nothing but the amplitude depends on it; a constant f leaves exact zeros
    centred = change - change.mean()
    basis, triangle = np.linalg.qr(regressors.T)
    coefficients = np.linalg.solve(triangle, basis.T @ (centred - known))
    residual = np.sum((centred - known - coefficients @ regressors) ** 2)
    errors = np.linalg.norm(np.linalg.inv(triangle), axis=1) * np.sqrt(residual / (count - parameters))
    coefficients[0] += log_f[0] + change.mean()
    margin = errors * special.stdtrit(count - parameters, (1 + confidence) / 2)
    estimates: list[tuple[float, float, tuple[float, float]]] = []
    for value, error, low, high, in_log in zip(
        coefficients, errors, coefficients - margin, coefficients + margin, [True, name == "exponential", True], strict=False
    ):
        if in_log:  # c and λ are fitted by their logarithms
            with np.errstate(over="ignore"):
                value, error, low, high = np.exp(value), np.exp(value) * error, np.exp(low), np.exp(high)
        estimates.append((float(value), float(error), (float(low), float(high))))
    missing = (float("nan"), float("nan"), (float("nan"), float("nan")))
    amplitude, decay, tempering = estimates + [missing] * (3 - parameters)
    total = np.sum(centred**2)
    k = parameters + 1  # the residual variance is estimated, too
    rounding = 8 * np.finfo(float).eps * (1 + np.abs(log_f).max())
    aicc = float("inf")
    if count > k + 1:
        aicc = count * np.log(max(residual / count, rounding**2)) + 2 * k + 2 * k * (k + 1) / (count - k - 1)
    return LawFit(
        law=DecayLaw(name, amplitude[0], decay[0], tempering[0]),
        amplitude_error=amplitude[1],
        decay_error=decay[1],
        r_squared=float(1 - residual / total) if total > 0 else float("nan"),
        aicc=float(aicc),
        tempering_error=tempering[1],
        amplitude_interval=amplitude[2],
        decay_interval=decay[2],
        tempering_interval=tempering[2],
    )


def matching(lags: Iterable[int], name: str, values: Array, axis: int) -> tuple[Array, Array]:
    """Return the lags as floats and the values after checking that there is one value for each lag along an axis."""
    lag = np.array(lag_list("lags", lags), dtype=np.float64)
    if values.shape[axis] != lag.size:
        raise ValueError(f"{name} has shape {values.shape}: dimension {axis} must hold one entry for each of the {lag.size} lags.")
    return lag, values
