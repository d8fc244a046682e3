"""Tail index, scale and location of a symmetric α-stable law from samples, and whether they fit.

Two estimators: by sample quantiles (McCulloch 1986), and by a regression on the empirical
characteristic function (Koutrouvelis 1980, 1981), for all columns of the samples at once. What an
estimator needs to know of the laws is tabulated over alpha at its first call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from lwcore.signatures import FiniteReals, Int64Count, checked, floats, require
from lwcore.stable.law import LARGEST, SymmetricStable
from lwcore.stable.standard import Array, read_only, through_chebyshev_nodes

Method = Literal["mcculloch", "ecf"]

LOWEST_ALPHA = 0.51  # of a fit: heavier tails are held there, and marked
_MARGIN = 1.959963984540054  # standard errors to either end of an interval of 95 %
_FEWEST_SAMPLES = 200  # ten beyond each outer quantile; below, no asymptotic interval holds
_TIED = 3  # samples of one value, from which on they count as tied
_PAIRED = 0.25  # share of samples whose value comes again, from which on they count as copies

# By quantiles: alphas of the table, dense enough for straight lines between them.
_QUANTILE_ALPHAS = 4001
_CHEBYSHEV_NODES = 24  # log ν is good to 3e-8

# By the characteristic function.
_FREQUENCY_STEP = 0.1
_FREQUENCIES = 12  # up to 1.2 over the scale: beyond, |φ|² is mostly noise
_STEEPEST = 1.95  # an alpha above which the weights would cancel among themselves
_UNRESOLVED = 1e8  # in scales: so far out the phase hangs on the last digits of the data

# Goodness of fit.
_BOOTSTRAP_DRAWS = 1 << 20  # at once
_DISTANCE_STEP = 0.2
_DISTANCE_POINTS = 20  # frequencies up to 4 over the scale, where the weight has fallen to 2 %


@dataclass(frozen=True)
class StableFit:
    """A symmetric stable law fitted to samples; arrays, an entry a column, where these were 2-D."""

    alpha: Array  #: in [0.51, 2]; NaN where there is none, as of samples with many ties
    scale: Array  #: in the units of the data, as is `loc`; NaN without `alpha`, 0 without a spread
    loc: Array
    alpha_interval: tuple[Array, Array]  #: the ends of its 95 % interval, in [0.51, 2]
    method: str
    reason: NDArray[np.str_]  #: why the estimate cannot be taken at face value; empty where it can

    @property
    def reliable(self) -> NDArray[np.bool_]:
        """Whether the estimate can be taken at face value; never of fewer than 200 samples."""
        return self.reason == ""


class _Estimates(NamedTuple):
    """What a method finds, an entry for each column of the samples."""

    alpha: Array
    scale: Array
    loc: Array
    alpha_low: Array  # the lower end of the interval of alpha
    alpha_high: Array


@checked
def fit(samples: FiniteReals, method: Method = "mcculloch") -> StableFit:
    """Fit a symmetric stable law to independent draws, shape (samples,) or (samples, columns).

    Each column gets a law of its own. Take the second method, unless columns are very many:

    * ``"mcculloch"``, from five sample quantiles: quick, and blind to what happens between them;
    * ``"ecf"``, from the characteristic function: nearly as sharp as the likelihood, and some
      times slower.

    No result depends on the unit of the data. A stable law has no value that comes again and again:
    ``alpha`` and ``scale`` are NaN where more than a quarter of the samples have a copy, or a share
    above 1/√n has two or more, too many for chance (a unit that is off, clipped or coarsely rounded
    numbers). Both estimators presume that the law is stable: a product of two Gaussians also gets
    an ``alpha`` below 2. Ask `goodness_of_fit`.

    Examples:
        >>> law = SymmetricStable(alpha=1.5, scale=2.0)
        >>> found = fit(law.sample(20_000, np.random.default_rng(0)), method="ecf")
        >>> low, high = found.alpha_interval
        >>> print(f"{found.alpha:.2f} [{low:.2f}, {high:.2f}], scale {found.scale:.2f}")
        1.48 [1.46, 1.50], scale 1.97
    """
    data = floats("samples", samples)
    in_columns = data.ndim in (1, 2) and data.size > 0 and len(data) > 1
    require("samples", data, in_columns, "two samples or more, in one column or several")
    require("samples", data, np.abs(data) <= LARGEST, f"of a size up to {LARGEST:g}")
    columns = data.reshape(len(data), -1)
    ordered = np.sort(columns, axis=0)
    estimates = _estimate(method, columns, ordered, _MARGIN)

    has_spread = estimates.scale != 0
    tied = _share_of_ties(ordered)
    is_tied = has_spread & (tied > 0)
    doubts: list[tuple[Any, Any]] = [
        (~has_spread, "the interquartile range is zero"),
        (is_tied, [f"{100 * share:.0f} % of the samples are tied" for share in tied]),
        (np.isnan(estimates.alpha), "the characteristic function is lost in its noise"),
        (estimates.alpha == 2, "alpha is held at 2: the tails are no heavier than a Gaussian's"),
        (estimates.alpha < LOWEST_ALPHA + 1e-9, f"alpha is held at {LOWEST_ALPHA}"),
    ]
    reason = np.full(has_spread.shape, "")
    for holds, description in reversed(doubts):  # the first that holds is said
        if holds.any():
            reason = np.where(holds, description, reason)
    if len(data) < _FEWEST_SAMPLES:
        few = f"{len(data)} samples, fewer than {_FEWEST_SAMPLES}"
        reason = np.where(reason == "", few, np.char.add(f"{few}; ", reason))

    def by_column(values: Any) -> Any:
        """Return one value for each column, a number where the samples were one list."""
        return values.reshape(data.shape[1:])[()]

    is_of_no_law = is_tied | (has_spread & np.isnan(estimates.alpha))
    of_the_law = [estimates.alpha, estimates.alpha_low, estimates.alpha_high, estimates.scale]
    alpha, low, high, scale = np.where(is_of_no_law, np.nan, of_the_law)
    return StableFit(
        alpha=by_column(alpha),
        scale=by_column(scale),
        loc=by_column(estimates.loc),
        alpha_interval=(by_column(low), by_column(high)),
        method=method,
        reason=by_column(reason),
    )


def _share_of_ties(ordered: Array) -> Array:
    """Return the share of each column's samples that are tied, 0 where it may be chance."""
    shares = []
    for times in (_TIED, 2):
        ends = len(ordered) - times + 1
        is_first = ordered[times - 1 :] == ordered[:ends]  # of so many equal ones in a row
        is_tied = np.zeros(ordered.shape, dtype=bool)
        for k in range(times):
            is_tied[k : k + ends] |= is_first
        shares.append(is_tied.mean(axis=0))
    tied, paired = shares
    tied = np.where(paired > _PAIRED, paired, tied)
    return np.where(tied > 1 / np.sqrt(len(ordered)), tied, 0.0)


def _accepted_alphas(
    alphas: Array, expected: Array, margin: Array, observed: Array
) -> tuple[Array, Array]:
    """Return the least and greatest alpha under which a statistic can be expected as observed.

    That is, within its margin of what is expected, which grows with alpha. The standard error at
    the estimate would cover too little near ``alpha = 2``, where the spread falls quickly.
    """
    at_most = np.maximum.accumulate(expected + margin)
    at_least = np.maximum.accumulate(expected - margin)
    low = np.interp(observed, at_most, alphas)
    high = np.interp(observed, at_least, alphas)
    return low, high


def _estimate(method: str, data: Array, ordered: Array, margin: float) -> _Estimates:
    """Fit by a method; `ordered` is the data, each column sorted."""
    by_quantiles = _by_quantiles(ordered, margin)
    if method == "mcculloch":
        return by_quantiles
    return _by_characteristic_function(data, by_quantiles, margin)


def _by_quantiles(ordered: Array, margin: float) -> _Estimates:
    """Fit by ``ν = (q95 − q05)/(q75 − q25)`` of sample quantiles, which falls with alpha.

    The interval holds every ``alpha`` whose log ν is within `margin` asymptotic standard errors of
    the observed one. The scale is that of the interquartile range, the location the median.
    """
    probabilities = [0.05, 0.25, 0.5, 0.75, 0.95]
    q05, q25, median, q75, q95 = np.quantile(ordered, probabilities, axis=0, method="hazen")
    inner_range = q75 - q25
    has_spread = q75 > q25
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(np.where(has_spread, (q95 - q05) / inner_range, np.nan))
    table = _quantile_table()
    # np.interp wants what grows: minus log ν
    alpha = np.interp(-log_ratio, -table.log_ratio, table.alpha)
    error = margin * table.spread / np.sqrt(len(ordered))
    low, high = _accepted_alphas(table.alpha, -table.log_ratio, error, -log_ratio)
    upper_quartile = np.interp(alpha, table.alpha, table.upper_quartile)
    scale = np.where(has_spread, inner_range / (2 * upper_quartile), 0.0)
    return _Estimates(alpha, scale, median, low, high)


class _QuantileTable(NamedTuple):
    """What McCulloch's estimator knows of the laws of unit scale, over a range of alphas."""

    alpha: Array
    log_ratio: Array  # log ν
    upper_quartile: Array
    spread: Array  # √n times the standard error of log ν


@functools.cache
def _quantile_table() -> _QuantileTable:
    """Tabulate `_quantities` over alpha, by a polynomial through their values at a few alphas."""
    node = chebyshev.chebpts1(_CHEBYSHEV_NODES)
    node_alphas = LOWEST_ALPHA + (2 - LOWEST_ALPHA) * (node + 1) / 2
    values = np.array([_quantities(alpha) for alpha in node_alphas])
    coefficients = through_chebyshev_nodes(values)
    curves = chebyshev.chebval(np.linspace(-1, 1, _QUANTILE_ALPHAS), coefficients)
    alphas = np.linspace(LOWEST_ALPHA, 2, _QUANTILE_ALPHAS)
    table = _QuantileTable(alphas, *curves)
    read_only(*table)
    return table


def _quantities(alpha: float) -> tuple[float, float, float]:
    """Return log ν, the upper quartile at unit scale, and √n times the standard error of log ν.

    The error follows by the delta method from the covariance of sample quantiles,
    ``Cov(q_i, q_j) = p_i (1 − p_j)/(n f_i f_j)`` for ``p_i ≤ p_j``, where f is the density at a
    quantile.
    """
    law = SymmetricStable(alpha)
    p = np.array([0.05, 0.25, 0.75, 0.95])
    inner, outer = law.ppf(p[2:])
    # d log ν = d(q95 − q05)/2outer − d(q75 − q25)/2inner
    gradient = np.array([-1 / outer, 1 / inner, -1 / inner, 1 / outer]) / 2
    density = law.pdf([-outer, -inner, inner, outer])
    weight = gradient / density
    covariance = np.minimum.outer(p, p) * (1 - np.maximum.outer(p, p))
    spread = np.sqrt(weight @ covariance @ weight)
    return np.log(outer / inner), inner, spread


def _by_characteristic_function(data: Array, first: _Estimates, margin: float) -> _Estimates:
    """Fit by a straight line through the empirical characteristic function φ̂.

    For a stable law ``log(−log |φ(u)|²) = log 2 + alpha·(log scale + log u)``, the *level* at a
    frequency u. McCulloch's fit, `first`, puts the data into units of the scale, where the
    frequencies are fixed; the line is fitted by generalised least squares with the asymptotic
    covariance of φ̂, taken at McCulloch's ``alpha`` and then twice at the one just found. ``|φ̂|²``
    is first rid of its bias, ``(1 − |φ|²)/n``. The phase of φ̂, likewise weighted, gives the
    location.
    """
    n = len(data)
    # A scale of 0 makes everything NaN; what is beyond a float in its units counts as far out.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        standardised = (data - first.loc) / first.scale
        phi = characteristic_function(standardised, _FREQUENCY_STEP, _FREQUENCIES)
        unbiased_square = (n * np.abs(phi) ** 2 - 1) / (n - 1)
        level = np.log(-np.log(unbiased_square))
    alphas, weights_at, spread = _weight_table()
    alpha = first.alpha
    for _ in range(3):
        slope_weights = weights_at(alpha).T[0]
        slope = np.sum(slope_weights * level, axis=0)
        alpha = np.clip(slope, LOWEST_ALPHA, 2)
    _, intercept_weights, phase_weights = weights_at(alpha).T
    intercept = np.sum(intercept_weights * level, axis=0)
    phase = np.sum(phase_weights * np.angle(phi), axis=0)
    lost = np.isnan(slope)
    slope_of_a_law = np.maximum(slope, LOWEST_ALPHA)
    log_scale = np.where(lost, 0, (intercept - np.log(2)) / slope_of_a_law)
    shift = np.where(lost, 0, phase)
    low, high = _accepted_alphas(alphas, alphas, margin * spread / np.sqrt(n), slope)
    with np.errstate(over="ignore"):  # of samples from no stable law
        scale = first.scale * np.exp(log_scale)
        loc = first.loc + first.scale * shift
    return _Estimates(alpha, scale, loc, low, high)


def characteristic_function(samples: Array, step: float, points: int) -> NDArray[np.complex128]:
    """Return the mean of ``exp(i u x)`` at ``u = step, 2·step, …``, shape (points, columns).

    Samples beyond 1e8 of their scales, whose phase is rounding error, count as 0, the mean phase.
    """
    # exp(i k step x) is the k-th power of exp(i step x): one exponential for all frequencies
    is_far = np.abs(samples) > _UNRESOLVED
    turn = np.where(is_far, 0, np.exp(1j * step * np.where(is_far, 0, samples)))
    power = np.ones_like(turn)
    means = []
    for _ in range(points):
        power *= turn
        means.append(power.mean(axis=0))
    return np.array(means)


@functools.cache
def _weight_table() -> tuple[Array, Callable[[Array], Array], Array]:
    """Tabulate the regression on the characteristic function over alpha.

    Returns the alphas; a function from alpha to the weights of the frequencies for slope, intercept
    and phase, shape (..., frequencies, 3); and √n times the standard errors of the slope.
    """
    from scipy.interpolate import make_interp_spline  # here, as its import takes long

    alphas = np.linspace(LOWEST_ALPHA, 2, 400)
    u = _FREQUENCY_STEP * np.arange(1.0, _FREQUENCIES + 1)
    design = np.stack([np.log(u), np.ones(_FREQUENCIES)], axis=1)
    weights = []
    spreads = []
    for alpha in alphas:
        # generalised least squares: (X' C⁻¹ X)⁻¹ X' C⁻¹
        of_level, of_phase = _covariance(u, min(alpha, _STEEPEST))
        by_line = np.linalg.solve(of_level, design)
        by_phase = np.linalg.solve(of_phase, u)
        slope, intercept = np.linalg.solve(design.T @ by_line, by_line.T)
        phase = by_phase / (u @ by_phase)
        weights.append(np.stack([slope, intercept, phase], axis=1))
        true_of_level, _ = _covariance(u, alpha)
        spreads.append(np.sqrt(slope @ true_of_level @ slope))
    spread = np.array(spreads)
    read_only(alphas, spread)
    return alphas, make_interp_spline(alphas, weights, k=1), spread


def _covariance(u: Array, alpha: float) -> tuple[Array, Array]:
    """Return covariances, times n, of levels and of phases at frequencies `u`, at unit scale.

    Those of the real and imaginary parts of φ̂ follow from ``cos a cos b = ½ (cos(a+b) + cos(a−b))``
    and its like, and φ itself, which is real.
    """
    phi = np.exp(-(u**alpha))
    at_sums = np.exp(-(np.abs(u[:, None] + u) ** alpha))
    at_differences = np.exp(-(np.abs(u[:, None] - u) ** alpha))
    products = np.outer(phi, phi)
    real = (at_sums + at_differences) / 2 - products
    imaginary = (at_differences - at_sums) / 2
    level_slope = 1 / (phi * u**alpha)  # minus the derivative of the level in the real part of φ̂
    return real * np.outer(level_slope, level_slope), imaginary / products


class GoodnessOfFit(NamedTuple):
    """How far samples are from a stable law fitted to them; arrays where the fit has columns."""

    distance: Array  # about 1 for stable samples whatever their number n, growing as n for others
    p_value: Array  # of at least this distance if the samples are stable; both NaN without a fit


@checked
def goodness_of_fit(
    samples: FiniteReals, fitted: StableFit, rng: np.random.Generator, replicates: Int64Count = 199
) -> GoodnessOfFit:
    """Return the distance between samples and their fit, and its p-value by bootstrap.

    The distance is ``n ∫ |φ̂(u) − exp(−|u|^alpha)|² exp(−u²/4) du`` over the real line, between
    characteristic functions, the samples in units of the fit. As the law was fitted to the same
    samples, so is each bootstrap sample, drawn from it, before its distance is taken.
    """
    data = floats("samples", samples)
    shape = np.shape(fitted.alpha)
    is_like_fitted = data.ndim > 0 and data.shape[1:] == shape and len(data) > 1
    requirement = f"those fitted, two or more, in columns of shape {shape}"
    require("samples", data, is_like_fitted, requirement)
    columns = data.reshape(len(data), -1)
    alpha = np.atleast_1d(fitted.alpha)
    scale = np.atleast_1d(fitted.scale)
    loc = np.atleast_1d(fitted.loc)
    distance, p_value = np.full((2, alpha.size), np.nan)
    for c in np.flatnonzero(~np.isnan(alpha)):
        distance[c] = _distance(columns[:, [c]], alpha[[c]], scale[c], loc[c]).item()
        law = SymmetricStable(alpha[c])
        replicated = _replicated_distances(law, fitted.method, len(data), replicates, rng)
        farther = ~(replicated < distance[c])  # one without a fit counts against rejection
        p_value[c] = (1 + np.sum(farther)) / (replicates + 1)
    return GoodnessOfFit(distance.reshape(shape)[()], p_value.reshape(shape)[()])


def _replicated_distances(
    law: SymmetricStable, method: str, count: int, replicates: int, rng: np.random.Generator
) -> Array:
    """Draw samples of a law, fit each, and return its distance from its own fit."""
    distances = np.empty(replicates)
    n_lots = -(-count * replicates // _BOOTSTRAP_DRAWS)
    for lot in np.array_split(np.arange(replicates), n_lots):
        draws = law.sample((count, lot.size), rng)
        refitted = _estimate(method, draws, np.sort(draws, axis=0), 0.0)
        distances[lot] = _distance(draws, refitted.alpha, refitted.scale, refitted.loc)
    return distances


def _distance(samples: Array, alpha: Array, scale: Array, loc: Array) -> Array:
    """Return for each column of samples the distance from a law, as in `goodness_of_fit`."""
    u = _DISTANCE_STEP * np.arange(1, _DISTANCE_POINTS + 1)[:, None]
    with np.errstate(over="ignore"):  # it counts as far out
        standardised = (samples - loc) / scale
    phi = characteristic_function(standardised, _DISTANCE_STEP, _DISTANCE_POINTS)
    gap = np.abs(phi - np.exp(-(u**alpha))) ** 2
    weight = np.exp(-(u**2) / 4)
    # twice the sum over u > 0: the integrand is even
    return len(samples) * 2 * _DISTANCE_STEP * np.sum(weight * gap, axis=0)
