"""Tail index, scale and location of a symmetric α-stable law from samples, and whether they fit.

Three estimators: by sample quantiles (McCulloch 1986), by a regression on the empirical
characteristic function (Koutrouvelis 1980, 1981), and by maximum likelihood.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray
from scipy import special

from lwcore.signatures import FiniteReals, Int64Count, Share, checked, floats, require
from lwcore.stable.law import SymmetricStable
from lwcore.stable.standard import Array, read_only
from lwcore.stable.ties import Ties, find_ties

Method = Literal["mcculloch", "ecf", "mle"]

LOWEST_ALPHA = 0.51  # fitted: heavier tails are held there, and marked
_FEWEST_SAMPLES = 200  # ten beyond each outer quantile; below, no asymptotic interval holds
_STEP, _POINTS = 0.1, 12  # frequencies up to 1.2 over the scale: beyond, |φ|² is mostly noise
_STEEPEST = 1.95  # above it the weights would cancel among themselves
_UNRESOLVED = 1e8  # in scales: so far out the phase hangs on the last digits of the data
_SPACING, _NODES = 0.04, 480  # of arsinh(|x|/scale): up to 1e8, then a power of x
_NEAREST = 1e-4  # of an α to 2: nearer is the Gaussian
_LARGE, _ENOUGH = 1e300, 2.0**32  # of samples; what to divide them by, which changes no digit
_AT_ONCE = 1 << 20  # bootstrap draws


@dataclass(frozen=True)
class StableFit:
    """A symmetric stable law fitted to samples; arrays, an entry a column, where these were 2-D."""

    alpha: Array  # in [0.51, 2]; NaN where there is none, as of samples with many ties
    scale: Array  # in the units of the data, as is `loc`
    loc: Array
    alpha_interval: tuple[Array, Array]  # the ends of its confidence interval, in [0.51, 2]
    method: str
    reason: NDArray[np.str_]  # why the estimate cannot be taken at face value; empty where it can

    @property
    def reliable(self) -> NDArray[np.bool_]:
        """Whether the estimate can be taken at face value."""
        return self.reason == ""


@checked
def fit(samples: FiniteReals, method: Method = "mcculloch", confidence: Share = 0.95) -> StableFit:
    """The law behind independent draws, shape (samples,) or (samples, columns), by column.

    * ``"mcculloch"``, from five sample quantiles: quick, and blind to what happens between them;
    * ``"ecf"``, from the characteristic function: nearly as sharp as the likelihood, at once for
      all columns;
    * ``"mle"``, by maximum likelihood: the sharpest, one column after the other.

    No result depends on the unit of the data. A stable law has no value that comes again and again:
    where more samples are tied than rounding and sampling error explain, there is no ``alpha``, and
    where they are rounded more coarsely than the sampling error, ``reason`` says so. All presume
    that the law is stable: a product of two Gaussians also gets an ``alpha`` below 2. Ask
    `goodness_of_fit`.

    Examples:
        >>> law = SymmetricStable(alpha=1.5, scale=2.0)
        >>> found = fit(law.sample(20_000, np.random.default_rng(0)), method="ecf")
        >>> low, high = found.alpha_interval
        >>> print(f"{found.alpha:.2f} [{low:.2f}, {high:.2f}], scale {found.scale:.2f}")
        1.48 [1.46, 1.50], scale 1.97
    """
    data = floats("samples", samples)
    shaped = data.ndim in (1, 2) and data.size > 0 and len(data) > 1
    require("samples", data, shaped, "two samples or more, in one column or several")
    unit = _ENOUGH if max(data.max(), -data.min()) > _LARGE else 1.0
    columns = data.reshape(len(data), -1) / unit
    found = _METHODS[method](columns, special.ndtri((1 + confidence) / 2))
    no_spread = found[1] == 0
    ties = find_ties(columns)
    atomic = ~no_spread & (ties.share > 1 / np.sqrt(len(data)))  # which sampling error explains
    with np.errstate(over="ignore"):
        scales = unit * found[1]
        centres = unit * found[2]
    beyond = ~np.isfinite(scales) | ~np.isfinite(centres)
    doubts: list[tuple[Any, Any]] = [
        (no_spread, "the interquartile range is zero"),
        (beyond, "scale or loc is beyond the largest float"),
        (atomic, _describe_atoms(ties, atomic, unit)),
        (_is_coarse(ties, len(data), found[1], method), "the samples are rounded too coarsely"),
        (np.isnan(found[0]), "the characteristic function is lost in its noise"),
        (found[0] == 2, "alpha is held at 2: the tails are no heavier than a Gaussian's"),
        (found[0] < LOWEST_ALPHA + 1e-9, f"alpha is held at {LOWEST_ALPHA}"),
    ]
    doubt = np.full(ties.share.shape, "")
    for where, words in reversed(doubts):  # the first that holds is said
        if where.any():
            doubt = np.where(where, words, doubt)
    few = f"{len(data)} samples, fewer than {_FEWEST_SAMPLES}; " * (len(data) < _FEWEST_SAMPLES)
    reason = np.char.rstrip(np.char.add(few, doubt), "; ")
    held = np.where(atomic, np.nan, [found[0], *found[3:]])  # there is no such law
    estimates = (*held, scales, centres)
    alpha, low, high, scale, loc = (a.reshape(data.shape[1:])[()] for a in estimates)
    return StableFit(alpha, scale, loc, (low, high), method, reason.reshape(data.shape[1:])[()])


def _describe_atoms(ties: Ties, atomic: NDArray[np.bool_], unit: float) -> NDArray[np.str_]:
    """Return for each column with atoms what part of the samples is tied, and where."""
    words = np.full(atomic.shape, "", dtype="U80")
    for c in np.flatnonzero(atomic):
        share, value = ties.share[c], unit * ties.value[c]
        per_cent = "100" if share > 0.995 else f"{100 * share:.2g}"
        words[c] = f"{per_cent} % of the samples are tied"
        if not np.isnan(value):
            words[c] += f", most of them at {value:.6g}"
    return words


def _is_coarse(ties: Ties, count: int, scale: Array, method: Method) -> NDArray[np.bool_]:
    """Return where rounding moves the estimate by more than its sampling error.

    A quantile moves within its run of equal values, by half of its share at most. What rounding to
    a step does to the logarithm of the characteristic function is (step/scale)²/24.
    """
    if method == "mcculloch":
        return ties.run / 2 > 1 / np.sqrt(count)
    step = ties.step / np.where(scale > 0, scale, np.inf)
    return step > np.sqrt(24 / np.sqrt(count))


def _accepted(alphas: Array, expected: Array, margin: Array, observed: Array) -> list[Array]:
    """The ends of the `alphas` under which a statistic is within a margin of its expectation.

    The usual interval takes the standard error at the estimate instead, and covers too little near
    ``alpha = 2``, where the spread falls quickly.
    """
    ends = (np.maximum.accumulate(expected + side * margin) for side in (1, -1))
    return [np.interp(observed, end, alphas) for end in ends]


def _by_quantiles(data: Array, margin: float) -> tuple[Array, ...]:
    """Alpha, scale, location and interval by ``ν = (q95 − q05)/(q75 − q25)`` of sample quantiles.

    The interval holds every ``alpha`` whose log ν is within `margin` asymptotic standard errors of
    the observed one.
    """
    q05, q25, loc, q75, q95 = np.quantile(data, [0.05, 0.25, 0.5, 0.75, 0.95], 0, method="hazen")
    alphas, log_ratios, quartiles, spread = _quantile_table()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(np.where(q75 > q25, (q95 - q05) / (q75 - q25), np.nan))
    alpha = np.interp(-log_ratio, -log_ratios, alphas)
    ends = _accepted(alphas, -log_ratios, margin * spread / np.sqrt(len(data)), -log_ratio)
    scale = np.where(q75 > q25, (q75 - q25) / (2 * np.interp(alpha, alphas, quartiles)), 0.0)
    return alpha, scale, loc, *ends


@functools.cache
def _quantile_table() -> Array:
    """Rows of alphas, dense enough for straight lines between, and of what `_quantities` tells."""
    node = chebyshev.chebpts1(24)  # log ν is good to 3e-8
    values = [_quantities(a) for a in LOWEST_ALPHA + (2 - LOWEST_ALPHA) * (node + 1) / 2]
    curves = chebyshev.chebval(np.linspace(-1, 1, 4001), chebyshev.chebfit(node, values, 23))
    table = np.vstack([np.linspace(LOWEST_ALPHA, 2, 4001), curves])
    read_only(table)
    return table


def _quantities(alpha: float) -> tuple[float, float, float]:
    """Of log ν, the upper quartile at unit scale, and sqrt(n) standard errors of log ν."""
    p, law = np.array([0.05, 0.25, 0.75, 0.95]), SymmetricStable(alpha)
    inner, outer = law.ppf(p[2:])
    # d log ν = d(q95 − q05)/2outer − d(q75 − q25)/2inner, Cov(q_i, q_j) = p_i (1 − p_j)/(n f_i f_j)
    gradient = np.array([-1 / outer, 1 / inner, -1 / inner, 1 / outer]) / 2
    weight = gradient / law.pdf([-outer, -inner, inner, outer])
    shared = np.minimum.outer(p, p) * (1 - np.maximum.outer(p, p))
    return np.log(outer / inner), inner, np.sqrt(weight @ shared @ weight)


def _by_characteristic_function(data: Array, margin: float) -> tuple[Array, ...]:
    """The same five by a straight line through the empirical characteristic function φ̂.

    For a stable law ``log(−log |φ(u)|²) = log 2 + alpha·(log scale + log u)``. McCulloch's fit puts
    the data into units of the scale, where the frequencies are fixed; the line is fitted by
    generalised least squares with the asymptotic covariance of φ̂, taken at McCulloch's ``alpha``
    and then twice at the one just found. ``|φ̂|²`` is first rid of its bias, ``(1 − |φ|²)/n``. The
    phase of φ̂, likewise weighted, gives the location.
    """
    (alpha, unit, centre, *_), n = _by_quantiles(data, margin), len(data)
    with np.errstate(divide="ignore", invalid="ignore"):  # a scale of 0 makes everything NaN
        phi = characteristic_function((data - centre) / unit, _STEP, _POINTS)
        level = np.log(-np.log((n * np.abs(phi) ** 2 - 1) / (n - 1)))
    alphas, weights, spread = _weight_table()
    for _ in range(3):
        slope = np.sum(weights(alpha).T[0] * level, axis=0)
        alpha = np.clip(slope, LOWEST_ALPHA, 2)
    _, of_intercept, of_phase = weights(alpha).T
    lost = np.isnan(slope)
    log_scale = np.where(lost, 0, (np.sum(of_intercept * level, axis=0) - np.log(2)) / slope)
    shift = np.where(lost, 0, np.sum(of_phase * np.angle(phi), axis=0))
    ends = _accepted(alphas, alphas, margin * spread / np.sqrt(n), slope)
    with np.errstate(over="ignore"):  # of samples from no stable law
        return alpha, unit * np.exp(log_scale), centre + unit * shift, *ends


def characteristic_function(samples: Array, step: float, points: int) -> NDArray[np.complex128]:
    """The mean of ``exp(i u x)`` at ``u = step, 2·step, …``, shape (points, columns).

    Samples beyond 1e8 of their scales, whose phase is rounding error, count as 0, the mean phase.
    """
    turn = np.where(np.abs(samples) > _UNRESOLVED, 0, np.exp(1j * step * samples))
    power, means = np.ones_like(turn), []
    for _ in range(points):
        power *= turn
        means.append(power.mean(axis=0))
    return np.array(means)


@functools.cache
def _weight_table() -> tuple[Array, Callable[[Array], Array], Array]:
    """Alphas, weights (slope, intercept, phase) as a function, sqrt(n) errors of the slope."""
    from scipy.interpolate import make_interp_spline  # here, as its import takes long

    alphas = np.linspace(LOWEST_ALPHA, 2, 400)
    u = _STEP * np.arange(1.0, _POINTS + 1)
    design = np.stack([np.log(u), np.ones(_POINTS)], axis=1)
    weights, spread = [], []
    for a in alphas:
        plain, odd = _covariance(u, min(a, _STEEPEST))
        by_line, by_phase = np.linalg.solve(plain, design), np.linalg.solve(odd, u)
        slope, intercept = np.linalg.solve(design.T @ by_line, by_line.T)
        weights.append(np.stack([slope, intercept, by_phase / (u @ by_phase)], axis=1))
        spread.append(np.sqrt(slope @ _covariance(u, a)[0] @ slope))
    spreads = np.array(spread)
    read_only(alphas, spreads)
    return alphas, make_interp_spline(alphas, weights, k=1), spreads


def _covariance(u: Array, alpha: float) -> tuple[Array, Array]:
    """Covariances, times n, of levels and of phases at frequencies `u`, at unit scale."""
    phi = np.exp(-(u**alpha))
    plus, minus = (np.exp(-(np.abs(u[:, None] + sign * u) ** alpha)) for sign in (1, -1))
    level = 1 / (phi * u**alpha)  # minus the derivative of log(−log φ²) in the real part of φ̂
    real, imaginary = (plus + minus) / 2 - np.outer(phi, phi), (minus - plus) / 2
    return real * np.outer(level, level), imaginary / np.outer(phi, phi)


def _by_likelihood(data: Array, margin: float) -> tuple[Array, ...]:
    """The same five by maximum likelihood over alpha, log scale and location.

    The interval holds every ``alpha`` that the likelihood-ratio test accepts, ``2 log ratio ≤
    margin²``: at ``alpha = 2`` the information about ``alpha`` is infinite.
    """
    first, unit, centre, *_ = _by_quantiles(data, margin)
    found = np.full((5, first.size), np.nan)
    found[1:3] = 0
    for c in np.flatnonzero(unit):
        with np.errstate(over="ignore"):
            x = (data[:, c] - centre[c]) / unit[c]
        x = np.clip(x, -_LARGE, _LARGE)  # a likelihood feels the logarithm of what is far out
        found[:, c] = _likeliest(x, first[c], margin)
    alpha, log_scale, shift, *ends = found
    return alpha, unit * np.exp(log_scale), centre + unit * shift, *ends


def _likeliest(x: Array, first: float, margin: float) -> tuple[float, ...]:
    """Alpha, log scale, location and interval of one column, from a `first` alpha.

    The profile likelihood is walked over tabulated alphas, from the first to either side until it
    has fallen far enough, and is a spline between them.
    """
    from scipy.interpolate import CubicSpline

    alphas, cubics, informations = _log_density_table()
    begin, allowance = int(np.abs(alphas - first).argmin()), margin**2 / (2 * x.size)
    walked = {begin: _profile(cubics[begin], informations[begin], x, 0.0, 0.0)}
    for side in (-1, 1):
        i = best = begin
        while 0 <= i + side < alphas.size and (
            abs(i - best) < 3 or walked[i][0] >= walked[best][0] - allowance
        ):
            i += side
            walked[i] = _profile(cubics[i], informations[i], x, *walked[i - side][1:])
            best = max(best, i, key=lambda k: walked[k][0])
    at = sorted(walked)
    tilts = -np.log(2 - alphas[at])  # on this axis the share of the tails falls evenly
    height = CubicSpline(tilts, [walked[i][0] for i in at])
    where = CubicSpline(tilts, [walked[i][1:] for i in at])
    peaks = np.append(tilts, height.derivative().roots(extrapolate=False))
    tilt = peaks[height(peaks).argmax()]
    top, (log_scale, shift) = height(tilt), where(tilt)
    with np.errstate(over="ignore"):  # far from all Gaussians
        square = np.mean((x - x.mean()) ** 2)
    gaussian = -np.log(2 * np.pi * square) / 2 - 0.5  # its greatest mean log likelihood
    if gaussian >= top:
        tilt, top, log_scale, shift = np.inf, gaussian, np.log(square / 2) / 2, x.mean()
    crossings = height.solve(top - allowance, extrapolate=False)
    low = max((c for c in crossings if c < tilt), default=tilts[0])
    high = min((c for c in crossings if c > tilt), default=tilts[-1])
    if gaussian >= top - allowance:
        high = np.inf
    alpha, low, high = np.clip(2 - np.exp(-np.array([tilt, low, high])), LOWEST_ALPHA, 2)
    return alpha, log_scale, shift, low, high


def _profile(
    cubics: Array, information: Array, x: Array, log_scale: float, shift: float
) -> tuple[float, float, float]:
    """The greatest mean log likelihood at one alpha, and where it is, by guarded Fisher scoring."""
    height, step = -np.inf, np.zeros(2)
    for _ in range(50):
        z = (x - shift) * np.exp(-log_scale)
        t = np.arcsinh(np.abs(z))
        panel = np.minimum((t / _SPACING).astype(np.intp), _NODES - 2)
        within, cubic = t - panel * _SPACING, cubics.take(panel, axis=1)
        there = polyval(within, cubic, tensor=False).mean() - log_scale
        if there < height:  # overshot, as near the cusp of a small alpha
            step = step / 2
        else:
            height, at = there, (log_scale, shift)
            by_t = polyval(within, np.arange(1, 4)[:, None] * cubic[1:], tensor=False)
            slope = by_t * np.sign(z) / np.hypot(1, z)
            scores = np.array([1 + np.mean(z * slope), np.mean(slope)])  # towards less of each
            step = np.clip(scores / information, -1, 1)
        log_scale, shift = at[0] - step[0], at[1] - step[1] * np.exp(at[0])
        if step @ scores < 1e-10:  # twice what was left to gain
            break
    return height + step @ scores / 2, log_scale, shift


@functools.cache
def _log_density_table() -> tuple[Array, Array, Array]:
    """Alphas, denser to 2; cubics of log p in ``arsinh |x|``; informations on log scale and loc."""
    from scipy.interpolate import CubicSpline

    near_two = 2 - np.geomspace(0.3, _NEAREST, 49)
    alphas = np.append(np.linspace(LOWEST_ALPHA, 1.7, 48)[:-1], near_two)
    t, cubics, informations = _SPACING * np.arange(_NODES), [], []
    for a in alphas:
        log_density = SymmetricStable(a).logpdf(np.sinh(t))
        cubic = CubicSpline(t, log_density, bc_type=((1, 0.0), (1, -a - 1))).c[::-1]
        scores = np.stack([1 + cubic[1] * np.tanh(t[:-1]), cubic[1] / np.cosh(t[:-1])])
        mass = np.exp(log_density[:-1]) * np.cosh(t[:-1]) * _SPACING
        mass[1:] *= 2
        informations.append(scores**2 @ mass)
        cubic[1:, -1] = -a - 1, 0, 0  # a power of x from there on
        cubics.append(cubic)
    table = np.array(cubics)
    of_scale_and_loc = np.array(informations)
    read_only(alphas, table, of_scale_and_loc)
    return alphas, table, of_scale_and_loc


_METHODS = {"mcculloch": _by_quantiles, "ecf": _by_characteristic_function, "mle": _by_likelihood}


class GoodnessOfFit(NamedTuple):
    """How far samples are from a stable law fitted to them; arrays where the fit has columns."""

    distance: Array  # about 1 for stable samples whatever their number n, growing as n for others
    p_value: Array  # of at least this distance if the samples are stable; both NaN without a fit


@checked
def goodness_of_fit(
    samples: FiniteReals, fitted: StableFit, rng: np.random.Generator, replicates: Int64Count = 199
) -> GoodnessOfFit:
    """The distance between the characteristic functions of samples and of their fit, and its p.

    The distance is ``n ∫ |φ̂(u) − exp(−|u|^alpha)|² exp(−u²/4) du`` over the real line, the samples
    in units of the fit. As the law was fitted to the same samples, so is each bootstrap sample,
    drawn from it, before its distance is taken.
    """
    data, shape = np.asarray(samples, float), np.shape(fitted.alpha)
    require("samples", data, data.shape[1:] == shape, f"those fitted, in columns of shape {shape}")
    columns = data.reshape(len(data), -1)
    alpha, scale, loc = map(np.atleast_1d, (fitted.alpha, fitted.scale, fitted.loc))
    distance, p_value = np.full((2, alpha.size), np.nan)
    for c in np.flatnonzero(~np.isnan(alpha)):
        distance[c] = _distance(columns[:, [c]], alpha[[c]], scale[c], loc[c]).item()
        law, bootstrap = SymmetricStable(alpha[c]), np.empty(replicates)
        for lot in np.array_split(np.arange(replicates), -(-len(data) * replicates // _AT_ONCE)):
            draws = law.sample((len(data), lot.size), rng)
            bootstrap[lot] = _distance(draws, *_METHODS[fitted.method](draws, 0.0)[:3])
        farther = ~(bootstrap < distance[c])  # one without a fit counts against rejection
        p_value[c] = (1 + np.sum(farther)) / (replicates + 1)
    return GoodnessOfFit(distance.reshape(shape)[()], p_value.reshape(shape)[()])


def _distance(samples: Array, alpha: Array, scale: Array, loc: Array) -> Array:
    """The distance for each column of samples, shape (samples, columns)."""
    step, points = 0.2, 20  # frequencies up to 4 over the scale, where the weight has fallen to 2 %
    u = step * np.arange(1, points + 1)[:, None]
    phi = characteristic_function((samples - loc) / scale, step, points)
    gap = np.abs(phi - np.exp(-(u**alpha))) ** 2
    return len(samples) * 2 * step * np.sum(np.exp(-(u**2) / 4) * gap, axis=0)
