"""Laws for the decay of the envelope, the windows they imply in closed form, and their fit to a measured envelope.

The paper's letters and the names here: ℓ ``lags`` (in steps), f(ℓ) ``envelope``, c ``amplitude``, β or λ ``decay``, ε_th ``threshold``.
All names are importable from `lwcore.window`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import finite_array, instance_of, lag_list, one_of, real_array, real_in, require

Array = NDArray[np.float64]

_LAWS = ("exponential", "power", "logarithmic", "tempered_power", "two_exponentials")
_NAN = float("nan")
_STARTS = np.stack(np.meshgrid(np.linspace(-4, 3, 8), np.linspace(-1.5, 1.1, 13), np.linspace(-1, 5, 13), indexing="ij"), axis=-1)
_STARTS = _STARTS.reshape(-1, 13, 3)[..., [2, 0, 1]]  # free numbers of `_fit_two_exponentials`, one column for each first number


@dataclass(frozen=True)
class DecayLaw:
    """A law for the decay of the envelope: one of the three regimes of Eq. (38) and Appendix F, or one of two beside them.

    Attributes:
        name: ``"exponential"`` for ``f = c λ^ℓ``, ``"power"`` for ``f = c ℓ^−β``, ``"logarithmic"`` for ``f = c/log(1 + ℓ)``,
            ``"tempered_power"`` for ``f = c ℓ^−β λ^ℓ``, a power that ends exponentially; ``"two_exponentials"`` for
            ``f = c ((1 − w) λ^ℓ + w κ^ℓ)``, fast at first and slow later.
        amplitude: The factor c > 0, in the units of the envelope.
        decay: λ > 0 of the exponential law, β of the power laws, λ in (0, 1) of the two exponentials; NaN for the logarithmic law, which
            has no such parameter.
        tempering: λ > 0 of the tempered power law; NaN for the others.
        slow: κ in (0, 1) of the two exponentials; NaN for the others.
        share: w in (0, 1) of the two exponentials; NaN for the others.

    Raises:
        TypeError: If a parameter is not a real number.
        ValueError: If the name is not one of the five or a parameter is out of range.
    """

    name: str
    amplitude: float
    decay: float = float("nan")
    tempering: float = float("nan")
    slow: float = float("nan")
    share: float = float("nan")

    def __post_init__(self) -> None:
        """Check the parameters."""
        one_of("name", self.name, _LAWS)
        object.__setattr__(self, "amplitude", real_in("amplitude", self.amplitude, "(0, inf)"))
        if self.name != "logarithmic":
            allowed = {"exponential": "(0, inf)", "two_exponentials": "(0, 1)"}.get(self.name, "(-inf, inf)")
            object.__setattr__(self, "decay", real_in("decay", self.decay, allowed))
        if self.name == "tempered_power":
            object.__setattr__(self, "tempering", real_in("tempering", self.tempering, "(0, inf)"))
        if self.name == "two_exponentials":
            object.__setattr__(self, "slow", real_in("slow", self.slow, "(0, 1)"))
            object.__setattr__(self, "share", real_in("share", self.share, "(0, 1)"))

    def envelope(self, lags: ArrayLike) -> Array:
        """Return f at the lags (ℓ > 0, not necessarily whole, any shape), in the units of the amplitude."""
        lag = finite_array("lags", lags)
        require("lags", lag, lag > 0, "above 0")
        if self.name == "logarithmic":
            return self.amplitude / np.log1p(lag)
        if self.name == "exponential":
            return self.amplitude * self.decay**lag
        if self.name == "two_exponentials":
            return self.amplitude * ((1 - self.share) * self.decay**lag + self.share * self.slow**lag)
        return self.amplitude * lag**-self.decay * (self.tempering**lag if self.name == "tempered_power" else 1.0)


def predicted_window(law: DecayLaw, threshold: ArrayLike) -> Array:
    """Return the lag at which a decay law falls to a threshold, the window it predicts.

    Implements Eq. (60), ``H_N = f^←(ε_th)``, in closed form: ``log(c/ε)/log(1/λ)``, ``(c/ε)^(1/β)`` or ``exp(c/ε) − 1``; for the
    tempered power law ``(β/k) W((k/β) (c/ε)^(1/β))`` with ``k = log(1/λ)`` and Lambert's W, a power of c/ε that bends into a logarithm at
    ``ℓ = β/k``. Two exponentials are inverted by Newton's iteration. With ``threshold = detection_threshold(N, ...)``,
    proportional to N^(−1/p), the first three are the regimes of H_N in N; `lwcore.window.regime_window` puts the two together.

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
    if law.name == "two_exponentials":
        return _two_exponentials_at(law, log_ratio)
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


def _two_exponentials_at(law: DecayLaw, log_ratio: Array) -> Array:
    """Return `lag_at` for two exponentials: Newton's iteration on the logarithm, which falls and is convex, from below the root."""
    rates, logs = -np.log([law.decay, law.slow]), np.log([1 - law.share, law.share])
    lag = np.maximum(((np.asarray(log_ratio)[..., None] + logs) / rates).max(-1), 0.0)  # how far one of them goes by itself
    finite = np.isfinite(lag)
    for _ in range(60):
        parts = logs - np.where(finite, lag, 0.0)[..., None] * rates
        height = special.logsumexp(parts, axis=-1)
        steepness = (np.exp(parts - height[..., None]) * rates).sum(-1)
        lag = np.where(finite, lag + np.maximum((height + log_ratio) / steepness, 0.0), lag)
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
        decay_error: Standard error of the decay parameter; NaN for the logarithmic law; of two exponentials all errors and intervals are.
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
    """The five decay laws fitted to one envelope.

    Attributes:
        exponential: Fit of ``f = c λ^ℓ``.
        power: Fit of ``f = c ℓ^−β``.
        logarithmic: Fit of ``f = c/log(1 + ℓ)``.
        tempered: Fit of ``f = c ℓ^−β λ^ℓ``, which contains the first two; nothing keeps β above 0 or λ below 1.
        two_exponentials: Fit of ``f = c ((1 − w) λ^ℓ + w κ^ℓ)``, which contains the first.
    """

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit
    two_exponentials: LawFit

    @property
    def best(self) -> LawFit:
        """The fit of least AICc; of equals the one listed first."""
        return min(self.exponential, self.power, self.logarithmic, self.tempered, self.two_exponentials, key=lambda fit: fit.aicc)


def fit_decay(lags: Iterable[int], envelope: ArrayLike, confidence: float = 0.95) -> DecayFit:
    """Fit the five decay laws to an envelope.

    Least squares on ``log f``, where four of the laws are linear in ℓ, ``log ℓ``, both, and ``log log(1 + ℓ)`` (the last with slope −1).
    The two exponentials are sought downhill from the best places of a grid, with time constants between a tenth of the first lag and a
    thousand times the last; their errors and intervals are NaN, and an envelope that rises is none of theirs.
    Neighbouring lags share their noise, so the standard errors and intervals, which take residuals to be independent, are too small as a
    rule. A rescaled envelope changes amplitudes and nothing else. Residuals below the rounding of ``log f`` count as that rounding, so that
    data without noise do not go to the law with the most parameters.

    Args:
        lags: Lags ℓ ≥ 1 in steps, strictly increasing, at least five.
        envelope: Envelope f > 0, shape (lags,).
        confidence: Coverage of the intervals, in (0, 1).

    Returns:
        The five fits; ``.best`` is the one of least AICc.

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
        two_exponentials=_fit_two_exponentials(lag, log_f),
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
    amplitude, decay, tempering = estimates + [(_NAN, _NAN, (_NAN, _NAN))] * (3 - parameters)
    r_squared, aicc = _scores(residual, parameters, log_f)
    return LawFit(
        law=DecayLaw(name, amplitude[0], decay[0], tempering[0]),
        amplitude_error=amplitude[1],
        decay_error=decay[1],
        r_squared=r_squared,
        aicc=aicc,
        tempering_error=tempering[1],
        amplitude_interval=amplitude[2],
        decay_interval=decay[2],
        tempering_interval=tempering[2],
    )


def _fit_two_exponentials(lag: Array, log_f: Array) -> LawFit:
    """Fit two exponentials by their share at the first lag and their rates, which logistic curves keep in bounds."""
    low, high = -np.log(1e3 * lag[-1]), np.log(10 / lag[0])

    def parts(free: Array) -> tuple[Array, Array]:
        """Give the logarithms of both parts at the first lag and both rates, fast and slow, for free numbers of shape (..., 3)."""
        fast = low + (high - low) * special.expit(free[..., 0])
        rates = np.exp(np.stack([fast, low + (fast - low) * special.expit(free[..., 1])], axis=-1))
        return special.log_expit((60 * special.expit(free[..., 2:]) - 40) * np.array([-1.0, 1.0])), rates

    def residuals(free: Array) -> Array:
        at_first, rates = parts(free)
        each = at_first[..., None] - rates[..., None] * (lag - lag[0])
        change = np.logaddexp(each[..., 0, :], each[..., 1, :]) - (log_f - log_f[0])
        return change - change.mean(-1, keepdims=True)

    cost = np.square(residuals(_STARTS)).sum(-1)
    starts = np.take_along_axis(_STARTS, cost.argmin(0)[None, :, None], axis=0)[0]  # the best one for every first number
    free = _descend(residuals, starts)
    residual = np.square(residuals(free)).sum(-1)
    at_first, (fast, slow) = parts(free[residual.argmin()])
    at_zero = at_first + np.array([fast, slow]) * lag[0]
    curve = special.logsumexp(at_zero - np.outer(lag, [fast, slow]), axis=-1)
    law = DecayLaw(
        "two_exponentials",
        amplitude=float(np.exp(np.mean(log_f - curve) + special.logsumexp(at_zero))),
        decay=float(np.exp(-fast)),
        slow=float(np.exp(-slow)),
        share=float(special.expit(at_zero[1] - at_zero[0])),
    )
    r_squared, aicc = _scores(residual.min(), 4, log_f)
    return LawFit(law, _NAN, _NAN, r_squared, aicc, _NAN, (_NAN, _NAN), (_NAN, _NAN), (_NAN, _NAN))


def _descend(residuals: Callable[[Array], Array], free: Array) -> Array:
    """Go downhill from every start at once, shape (starts, numbers), by Levenberg and Marquardt's method."""
    here, damping = residuals(free), np.full(len(free), 1e-2)
    unit = np.eye(free.shape[-1])
    for _ in range(60):
        slopes = (residuals(free[:, None] + 1e-6 * unit) - residuals(free[:, None] - 1e-6 * unit)) / 2e-6
        normal = slopes @ slopes.swapaxes(-1, -2)
        held = damping * normal.trace(axis1=-2, axis2=-1) + 1e-30
        tried = free - np.linalg.solve(normal + held[:, None, None] * unit, slopes @ here[..., None])[..., 0]
        there = residuals(tried)
        better = np.square(there).sum(-1) < np.square(here).sum(-1)
        free, here = np.where(better[:, None], tried, free), np.where(better[:, None], there, here)
        damping = np.maximum(damping * np.where(better, 0.2, 4.0), 1e-10)
    return free


def _scores(residual: float, parameters: int, log_f: Array) -> tuple[float, float]:
    """Give R² on log f, and AICc with residuals counted as the rounding of log f at the least."""
    count, k = log_f.size, parameters + 1  # the residual variance is estimated, too
    total = np.sum((log_f - log_f[0] - (log_f - log_f[0]).mean()) ** 2)
    rounding = 8 * np.finfo(float).eps * (1 + np.abs(log_f).max())
    aicc = float("inf")
    if count > k + 1:
        aicc = float(count * np.log(max(residual / count, rounding**2)) + 2 * k + 2 * k * (k + 1) / (count - k - 1))
    return float(1 - residual / total) if total > 0 else _NAN, aicc


def matching(lags: Iterable[int], name: str, values: Array, axis: int) -> tuple[Array, Array]:
    """Return the lags as floats and the values after checking that there is one value for each lag along an axis."""
    lag = np.array(lag_list("lags", lags), dtype=np.float64)
    if values.shape[axis] != lag.size:
        raise ValueError(f"{name} has shape {values.shape}: dimension {axis} must hold one entry for each of the {lag.size} lags.")
    return lag, values
