"""The learnability window, laws for the decay of the envelope, and the neurons' time scales.

The learnability window H_N of a network is the longest lag whose gradient N sequences detect
(`lwcore.detection`). Its envelope f(ℓ) says how much gradient crosses ℓ steps; how f falls with ℓ
decides how the window grows with N.

The paper's letters and the names here: ℓ ``lags`` (in steps), f(ℓ) ``envelope``, N(ℓ) ``required``,
N ``n_sequences``, μ^{(q)}_ℓ ``rates``; c ``amplitude``, β or λ ``decay``.

Two definitions of the window are in use. ``"supremum"``, the paper's, is the longest detectable
lag, however many shorter ones are not; ``"first_passage"`` the longest lag up to which every lag is
detectable. They agree where N(ℓ) does not fall with the lag; measured ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.detection import (
    Detector,
    Error,
    TailIndexAboveOne,
    broadcast,
    detection_threshold,
    noise_over_alignment,
    sample_complexity,
)
from lwcore.signatures import (
    FiniteReals,
    Lags,
    Range,
    Reals,
    Share,
    checked,
    floats,
    require,
)
from lwcore.stable.standard import Array

Definition = Literal["supremum", "first_passage"]
RegimeVerdict = Literal["exponential", "power", "logarithmic", "undecided", "none"]
LawName = Literal["exponential", "power", "logarithmic", "tempered_power"]
Amplitude = Annotated[float, Range("a number, 0 or above", lambda value: value >= 0)]
Parameter = Annotated[float, Range("a number", lambda _: True)]  # NaN where a law has none
_LEAST_SPREAD = 1e-6  # of lags, over the last: closer together, a power looks exponential


@checked
def learnability_window(
    lags: Lags, required: Reals, n_sequences: FiniteReals, *, definition: Definition = "supremum"
) -> NDArray[np.int64] | np.int64:
    """Return the window H_N in steps, the longest lag that N sequences can detect; 0 if none is.

    A lag is detected where it needs no more sequences than there are. Implements Eq. (36), ``H_N =
    sup{ℓ ≥ 1 : f(ℓ) ≥ ε_th(ℓ)}``, over the lags given: ``f(ℓ) ≥ ε_th(ℓ)`` is ``N(ℓ) ≤ N``. Lags
    that are not given count as not detected by ``"supremum"``, whose window is a lower bound then,
    and as detected by ``"first_passage"`` if they lie between two others.

    Args:
        lags: The lags ℓ, in steps.
        required: N(ℓ), how many sequences each lag needs, (..., lags), as from
            `lwcore.detection.sample_complexity`; may be infinite.
        n_sequences: N, how many sequences there are: a number, or several, (n_sequences,).
        definition: ``"supremum"``, the paper's, skips over lags that are not detected. Take it
            where N(ℓ) is exact, or a test has made it infinite wherever there is no signal, as for
            `lwcore.inference.windows`. Untested, one lucky lag can make it long: then take
            ``"first_passage"``, the longest lag up to which all are detected.

    Returns:
        Steps, (...) for one number of sequences, (..., n_sequences) for several.

    Examples:
        With 100 sequences lag 4 is detected, and lag 3 is not:

        >>> lags = [1, 2, 3, 4]
        >>> required = [10, 40, 200, 90]
        >>> learnability_window(lags, required, [5, 50, 100])
        array([0, 2, 4])
        >>> learnability_window(lags, required, [5, 50, 100], definition="first_passage")
        array([0, 2, 2])
    """
    lag, needed = _matching(lags, "required", required)
    available = floats("n_sequences", n_sequences)
    require("required", needed, needed >= 0, "0 or above, or infinite")  # NaN fails, too
    require("n_sequences", n_sequences, available.ndim < 2, "a number, or a list of numbers")
    require("n_sequences", available, available >= 0, "0 or above")
    if definition == "first_passage":
        # A lag now needs what the most demanding of the lags up to it does.
        needed = np.maximum.accumulate(needed, axis=-1)
    by_number = needed if available.ndim == 0 else needed[..., None, :]
    is_detected = by_number <= available[..., None]  # N(ℓ) ≤ N: (..., n_sequences, lags)
    detected_lags = np.where(is_detected, lag, 0)
    return detected_lags.max(axis=-1)


@checked
def window_bounds(
    lags: Lags,
    envelope: FiniteReals,
    alignment: FiniteReals,
    scale: FiniteReals,
    n_sequences: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    detector: Detector = "mean",
) -> tuple[NDArray[np.int64] | np.int64, NDArray[np.int64] | np.int64]:
    """Return two windows between which the envelope alone confines the true one.

    Implements Eqs. (38), (39) and (59), ``f^←(C' N^(−1/p)) ≤ H_N ≤ f^←(c' N^(−1/p))``: the least
    and the greatest σ_α(ℓ)/m̄(ℓ) stand in the place of each lag's own. Where an alignment is not
    positive the lower bound is 0.
    """
    lag, f = _matching(lags, "envelope", envelope)
    mean_alignment = _for_each_lag("alignment", alignment, lag)
    sigma = _for_each_lag("scale", scale, lag)
    noise = noise_over_alignment(sigma, mean_alignment)

    def window_as_at(i: np.intp) -> NDArray[np.int64] | np.int64:
        """Return the window if every lag had the scale and alignment of one."""
        required = sample_complexity(f, mean_alignment[i], sigma[i], alpha, error, detector)
        return learnability_window(lag, required, n_sequences)

    lower = window_as_at(noise.argmax())
    upper = window_as_at(noise.argmin())
    return lower, upper


@checked
@dataclass(frozen=True, eq=False)
class DecayLaw:
    """A decay law of the envelope: one of Eq. (38) and Appendix F, or the tempered power.

    ``"exponential"`` is ``f = c λ^ℓ``, ``"power"`` is ``f = c ℓ^−β``, ``"logarithmic"`` is
    ``f = c/log(1 + ℓ)`` and ``"tempered_power"`` is ``f = c ℓ^−β λ^ℓ``.

    A law that was fitted far from the first lag may have an amplitude of infinity or 0: it can be
    looked at, but not computed with.
    """

    name: LawName
    amplitude: Amplitude  # c, in the units of the envelope
    decay: Parameter = float("nan")  # λ > 0 of the exponential law, β of the power laws
    tempering: Parameter = float("nan")  # λ > 0 of the tempered power law

    def __post_init__(self) -> None:
        """Require the parameters that the law has."""
        if self.name == "exponential":
            is_factor = 0 < self.decay < np.inf
            require("decay", self.decay, is_factor, "a finite number above 0")
        elif self.name != "logarithmic":
            require("decay", self.decay, np.isfinite(self.decay), "a finite number")
        if self.name == "tempered_power":
            is_factor = 0 < self.tempering < np.inf
            require("tempering", self.tempering, is_factor, "a finite number above 0")

    def _require_amplitude(self) -> None:
        """Refuse to compute with an amplitude that no float holds."""
        is_float = 0 < self.amplitude < np.inf
        require("amplitude", self.amplitude, is_float, "a finite number above 0")

    def envelope(self, lags: ArrayLike) -> Array:
        """Return the envelope f at lags ℓ > 0, not necessarily whole, any shape."""
        self._require_amplitude()
        lag = floats("lags", lags)
        require("lags", lag, lag > 0, "above 0")
        if self.name == "logarithmic":
            return self.amplitude / np.log1p(lag)
        with np.errstate(over="ignore", under="ignore"):
            if self.name == "exponential":
                return self.amplitude * self.decay**lag
            f = self.amplitude * lag**-self.decay
            if self.name == "tempered_power":
                f = f * self.tempering**lag
            return f

    def inverse(self, log_level: ArrayLike) -> Array:
        """Return the lag ``f^←(ε)`` at which one of the three regimes falls to a level, from log ε.

        Implements Eq. (60), ``H_N = f^←(ε_th)``, in closed form: ``log(c/ε)/log(1/λ)``,
        ``(c/ε)^(1/β)`` or ``exp(c/ε) − 1``. The lag is real; 0 where the law is below the level for
        all ℓ ≥ 1, as in `learnability_window`; infinite where it never falls (λ ≥ 1, β ≤ 0) to it.

        >>> law = DecayLaw("power", amplitude=1.0, decay=0.5)
        >>> print(law.inverse(np.log([0.5, 0.1, 2.0])).round(6))
        [  4. 100.   0.]
        """
        self._require_amplitude()
        level = floats("log_level", log_level)
        require("log_level", level, ~np.isnan(level), "a number or infinite")
        require("law", self.name, self.name != "tempered_power", "one of the three regimes")
        log_ratio = np.log(self.amplitude) - level  # log(c/ε)
        steepness = self.decay  # β, or log(1/λ)
        if self.name == "exponential":
            steepness = -float(np.log(self.decay))
        if steepness <= 0:  # a growing law is above any level in the end, a constant one or never
            never_falls = log_ratio >= 0 if steepness == 0 else level < np.inf
            return np.where(never_falls, np.inf, 0.0)[()]
        with np.errstate(over="ignore"):
            if self.name == "exponential":
                lag = log_ratio / steepness
            elif self.name == "power":
                lag = np.exp(log_ratio / steepness)
            else:
                lag = np.expm1(np.exp(log_ratio))
        return np.where(lag >= 1, lag, 0.0)[()]


@checked
def regime_window(
    law: DecayLaw,
    n_sequences: FiniteReals,
    alignment: FiniteReals,
    scale: FiniteReals,
    alpha: TailIndexAboveOne,
    error: Error = 0.1,
    detector: Detector = "mean",
) -> Array:
    """Return the window H_N under a decay law, constants included, of the shape of N.

    It is the lag at which the law falls to the detection threshold ``ε_th = C σ_α/(m̄ N^(1/p))``.
    These are the three regimes of Appendix F: ``exp(c N^(1/p) m̄/(C σ_α)) − 1`` (logarithmic),
    ``(c m̄/(C σ_α))^(1/β) N^(1/(pβ))`` (power) and
    ``[log(c m̄/(C σ_α)) + (log N)/p]/log(1/λ)`` (exponential).
    """
    threshold = detection_threshold(n_sequences, alignment, scale, alpha, error, detector)
    is_float = threshold >= np.finfo(float).tiny
    require("detection threshold", threshold, is_float, "in the range of a float")
    return law.inverse(np.log(threshold))


class LawFit(NamedTuple):
    """One decay law fitted to an envelope by least squares on ``log f``.

    `p_value` is, if the law holds and logarithms have independent Gaussian noise, the chance that
    they bend at least so far from it, with a power and an exponential; NaN for a law with both.
    """

    law: Any  # a `DecayLaw`, or another that has parameters and an envelope
    r_squared: float  # of log f; below 0 where a constant does better, NaN where f is constant
    aicc: float  # up to a constant common to the laws; infinite where there are too few lags for it
    p_value: float = float("nan")


class DecayFit(NamedTuple):
    """The decay laws fitted to one envelope; the tempered law's β and 1 − λ may fall below 0.

    Of few lags AICc prefers the law with the fewest parameters; `verdict` says whether they decide.
    """

    exponential: LawFit
    power: LawFit
    logarithmic: LawFit
    tempered: LawFit

    @checked
    def verdict(self, level: Share = 0.05) -> RegimeVerdict:
        """Return which of the three regimes of Eq. (38) the envelope follows, if it tells.

        A regime is refused where its ``p_value`` is below the level. If one is left, it is the
        answer; ``"undecided"`` if several are, and ``"none"`` if no one is.

        >>> lags = [1, 2, 3, 4, 5]
        >>> fit_decay(lags, [1.03, 0.69, 0.58, 0.51, 0.44]).verdict()
        'undecided'
        """
        regimes = (self.exponential, self.power, self.logarithmic)
        possible = [fit.law.name for fit in regimes if fit.p_value >= level]
        if len(possible) > 1:
            return "undecided"
        return possible[0] if possible else "none"


@checked
def fit_decay(lags: Lags, envelope: FiniteReals) -> DecayFit:
    """Fit the decay laws to an envelope f > 0 at five lags or more, by least squares on ``log f``.

    The laws are linear in ℓ, ``log ℓ``, ``log log(1 + ℓ)`` with slope −1, and the first two. The
    least ``aicc`` is the best guess; whether the lags tell the laws apart says `DecayFit.verdict`.

    >>> lags = np.arange(1, 65)
    >>> fits = fit_decay(lags, 3 * lags**-0.5)
    >>> best = min(fits, key=lambda fit: fit.aicc)
    >>> print(best.law.name, round(best.law.amplitude, 3), round(best.law.decay, 3))
    power 3.0 0.5
    >>> fits.verdict()
    'power'
    """
    lag, f = _matching(lags, "envelope", envelope)
    require("lags", lags, lag.size >= 5, "five or more, for the parameters and a variance")
    apart = lag[-1] - lag[0] >= _LEAST_SPREAD * lag[-1]
    require("lags", lags, apart, "spread over a millionth of the last at least, to tell laws apart")
    require("envelope", f, f > 0, "above 0")
    log_f = np.log(f)
    # log f is a constant, plus β times the first column, plus log λ times the second; or a constant
    # plus the logarithmic law, which has no slope.
    of_beta = -np.log(lag)
    of_log_factor = lag.astype(float)
    logarithmic_law = -np.log(np.log1p(lag))
    # Each law is held against one that may bend in both ways, too.
    tempered = _regress([of_beta, of_log_factor], log_f)
    bent_logarithmic = _regress([of_beta, of_log_factor], log_f, logarithmic_law)

    def fit_law(name: LawName, line: _Line, bent: _Line | None) -> LawFit:
        n_slopes = len(line.slopes)
        p_value = float("nan")
        if bent is not None:
            p_value = _p_value(line.residual, bent.residual, 2 - n_slopes, log_f)
        r_squared, aicc = r_squared_and_aicc(line.residual, n_slopes + 1, log_f)
        return LawFit(_law(name, line), r_squared, aicc, p_value)

    return DecayFit(
        exponential=fit_law("exponential", _regress([of_log_factor], log_f), tempered),
        power=fit_law("power", _regress([of_beta], log_f), tempered),
        logarithmic=fit_law("logarithmic", _regress([], log_f, logarithmic_law), bent_logarithmic),
        tempered=fit_law("tempered_power", tempered, None),
    )


class _Line(NamedTuple):
    """A law of log f that was fitted: a constant, and a slope for each column."""

    constant: float
    slopes: Array
    residual: float  # sum of squares


def _regress(columns: list[Array], log_f: Array, law: Array | float = 0.0) -> _Line:
    """Fit ``log f = constant + Σ_k slope_k column_k + law`` by least squares.

    All is centred, and columns are brought to one size: lags may be large and close, or far apart.
    """
    relative = log_f - log_f[0]  # without the unit of f; a constant f leaves exact zeros
    target = relative - relative.mean() - law
    target_mean = target.mean()
    centred_target = target - target_mean
    by_column = np.reshape(columns, (len(columns), log_f.size))
    means = by_column.mean(axis=1)
    centred = by_column - means[:, None]
    sizes = np.abs(centred).max(axis=1)
    design = np.ascontiguousarray((centred / sizes[:, None]).T)
    coefficients = np.linalg.lstsq(design, centred_target)[0]
    residual = np.sum((centred_target - design @ coefficients) ** 2)
    slopes = coefficients / sizes + 0.0  # no −0 of a constant
    constant = target_mean + log_f[0] + relative.mean() - slopes @ means
    return _Line(float(constant), slopes, float(residual))


def _law(name: LawName, line: _Line) -> DecayLaw:
    """Return the law that a regression has found."""
    with np.errstate(over="ignore", under="ignore"):
        amplitude = float(np.exp(line.constant))
        factors = np.exp(line.slopes)
    if name == "exponential":
        return DecayLaw(name, amplitude, float(factors[0]))
    beta = float(line.slopes[0]) if line.slopes.size else float("nan")
    factor = float(factors[1]) if name == "tempered_power" else float("nan")
    return DecayLaw(name, amplitude, beta, factor)


def _p_value(residual: float, bent_residual: float, more_slopes: int, log_f: Array) -> float:
    """Return the p-value of the F-test of a law against one with two slopes, so many more."""
    degrees = log_f.size - 3  # but for a constant and two slopes
    rounding = log_f.size * _rounding(log_f) ** 2
    left = max(bent_residual, rounding)
    explained = max(residual - left, 0)
    ratio = explained / more_slopes / (left / degrees)
    return float(special.fdtrc(more_slopes, degrees, ratio))


def _rounding(log_f: Array) -> float:
    """Return how far rounding may take the logarithm of an envelope."""
    return float(8 * np.finfo(float).eps * (1 + np.abs(log_f).max()))


def r_squared_and_aicc(residual: float, n_parameters: int, log_f: Array) -> tuple[float, float]:
    """Return R² on log f, and Akaike's criterion, corrected for few lags, of a fit.

    Residuals below the rounding of log f count as that rounding. R² is NaN for a constant f, the
    criterion infinite where there are too few lags for it.
    """
    n = log_f.size
    k = n_parameters + 1  # the residual variance is estimated, too
    change = log_f - log_f[0]
    total = np.sum((change - change.mean()) ** 2)
    r_squared = float(1 - residual / total) if total > 0 else float("nan")
    aicc = float("inf")
    if n > k + 1:
        variance = max(residual / n, _rounding(log_f) ** 2)
        penalty = 2 * k + 2 * k * (k + 1) / (n - k - 1)
        aicc = float(n * np.log(variance) + penalty)
    return r_squared, aicc


@checked
def time_scales(lags: Lags, rates: FiniteReals) -> Array:
    """Return time scales τ_q of neurons in steps, from rates of shape (..., lags, neurons).

    Least squares of ``log μ = a − ℓ/τ`` over the lags at which a neuron's rate is positive; τ is
    infinite where the rates do not fall, NaN where fewer than two are positive.

    >>> lags = np.arange(1, 9)
    >>> rates = np.exp(-lags[:, None] / np.array([2.0, 50.0]))
    >>> print(time_scales(lags, rates).round(3))
    [ 2. 50.]
    """
    lag, mu = _matching(lags, "rates", rates, axis=-2)
    time = (lag - lag[0])[:, None].astype(float)  # where the first lag is does not change a slope
    is_positive = mu > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mu = np.where(is_positive, np.log(mu), -np.inf)
        largest = log_mu.max(axis=-2, keepdims=True)  # without the unit: constants are exactly 0
        log_mu = np.where(is_positive, log_mu - largest, 0.0)
    count = is_positive.sum(axis=-2, keepdims=True)
    mean_time = np.where(is_positive, time, 0).sum(axis=-2, keepdims=True) / np.maximum(count, 1)
    centred = np.where(is_positive, time - mean_time, 0.0)
    spread = np.where(count[..., 0, :] > 1, np.sum(centred**2, axis=-2), np.nan)
    slope = np.sum(centred * log_mu, axis=-2) / spread
    with np.errstate(divide="ignore"):
        return np.where(slope >= 0, np.inf, -1 / slope)


@checked
def mixture_envelope(
    lags: FiniteReals, time_scales: Reals, weights: FiniteReals | None = None
) -> Array:
    """Return the envelope of neurons that decay exponentially: ``f(ℓ) = Σ_q w_q exp(−ℓ/τ_q)``.

    A broad spectrum of time scales gives a power law over the lags it spans: rates 1/τ with the
    density ``k^(β−1)`` give ``ℓ^−β``. Lags ℓ ≥ 0 need not be whole; time scales, shape (...,
    neurons), may be infinite; weights w ≥ 0 broadcast with them (None for 1 each).
    """
    lag = floats("lags", lags)
    tau = np.atleast_1d(floats("time_scales", time_scales))
    weight = np.atleast_1d(floats("weights", 1.0 if weights is None else weights))
    require("lags", lags, lag.ndim == 1, "a list of numbers")
    require("lags", lag, lag >= 0, "0 or above")
    require("time_scales", tau, tau > 0, "above 0")
    require("time_scales", tau, tau.shape[-1] > 0, "one or more")
    require("weights", weight, weight >= 0, "0 or above")
    tau, weight = broadcast(time_scales=tau, weights=weight)
    with np.errstate(over="ignore"):
        decays = np.exp(-lag[:, None] / tau[..., None, :])
    return np.einsum("...q,...lq->...l", weight, decays)


def _matching(
    lags: Lags, name: str, values: Reals, axis: int = -1
) -> tuple[NDArray[np.int64], Array]:
    """Return lags and values as arrays; refuse values that are not one a lag along an axis."""
    lag = np.asarray(lags)
    array = floats(name, values)
    require("lags", lag, lag <= np.iinfo(np.int64).max, "below 2^63")
    is_one_each = array.ndim >= -axis and array.shape[axis] == lag.size
    requirement = f"an array with an entry for each of the {lag.size} lags along dimension {axis}"
    require(name, array, is_one_each, requirement)
    return lag.astype(np.int64), array


def _for_each_lag(name: str, values: FiniteReals, lag: NDArray[np.int64]) -> Array:
    """Return an array with a number for each lag, from as many numbers or from one for all."""
    array = floats(name, values)
    require(name, array, array.shape in ((), (1,), lag.shape), f"one number, or {lag.size}")
    return np.broadcast_to(array, lag.shape)
