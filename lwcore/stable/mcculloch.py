"""McCulloch's (1986) estimator of a symmetric α-stable law, from sample quantiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.polynomial.chebyshev import chebpts1
from numpy.polynomial.polyutils import mapdomain

from lwcore.stable.estimates import LOWEST_ALPHA, Estimates, accepted
from lwcore.stable.law import SymmetricStable
from lwcore.stable.standard import Array

_PROBABILITIES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # of the quantiles in McCulloch's ratio, and the median


def estimate(data: Array, margin: float) -> Estimates:
    """Fit every column by the ratio ``ν = (q95 − q05)/(q75 − q25)`` of its sample quantiles.

    In the symmetric case ν has one value for each ``alpha`` and is inverted for it; the interquartile range then gives the scale and the
    median the location. The interval holds every ``alpha`` whose log ν is within `margin` standard errors of the observed one; these come
    from the joint asymptotic law of the four quantiles.

    Args:
        data: Samples, shape (samples, columns).
        margin: Half-width of the interval in standard errors.

    Returns:
        The estimates, with ``alpha`` held within [LOWEST_ALPHA, 2].
    """
    q05, q25, loc, q75, q95 = np.quantile(data, _PROBABILITIES, axis=0, method="hazen")
    table = _table()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q75 > q25, (q95 - q05) / (q75 - q25), np.nan)
    log_ratio = np.log(ratio)
    alpha = table.alpha(np.clip(log_ratio, table.gaussian, table.heaviest))
    low, high = accepted(table.grid, -table.log_ratio, margin * table.spread / np.sqrt(len(data)), -log_ratio)

    below = f"quantile ratio {{:.4g}} is below the Gaussian's {np.exp(table.gaussian):.4g}: alpha is held at 2"
    above = f"quantile ratio {{:.4g}} is above the {np.exp(table.heaviest):.4g} of alpha = {LOWEST_ALPHA}, at which alpha is held"
    doubts = [
        (np.isnan(ratio), ["interquartile range is zero"] * ratio.size),
        (log_ratio < table.gaussian, [below.format(r) for r in ratio]),
        (low == 2, ["tails significantly lighter than any stable law's"] * ratio.size),
        (log_ratio > table.heaviest, [above.format(r) for r in ratio]),
    ]
    return Estimates(alpha, scale_of(q75 - q25, alpha), loc, low, high, doubts)


def scale_of(interquartile_range: Array, alpha: Array) -> Array:
    """Return the scale of a law from `alpha`, in [LOWEST_ALPHA, 2], and its interquartile range; 0 for a range of 0."""
    return np.where(interquartile_range > 0, interquartile_range / (2 * _table().quartile(alpha)), 0.0)


class _Table(NamedTuple):
    """How the logarithm of the quantile ratio ν hangs together with alpha, from the law's quantiles and densities."""

    gaussian: float  # log ν at alpha = 2, its least value
    heaviest: float  # log ν at the lowest alpha fitted
    alpha: Callable[[Array], Array]  # of log ν
    quartile: Callable[[Array], Array]  # q75 of the unit scale, of alpha
    grid: Array  # increasing alphas, dense enough for straight lines in between
    log_ratio: Array  # log ν at each
    spread: Array  # sqrt(n) times the standard error of log ν at each


@functools.cache
def _table() -> _Table:
    from scipy.interpolate import CubicSpline

    grid = np.linspace(LOWEST_ALPHA, 2, 2001)
    # all three are smooth in alpha, up to 2 and beyond: through 24 Chebyshev nodes log ν is good to 3e-8
    domain = [LOWEST_ALPHA, 2]
    nodes = mapdomain(chebpts1(24), [-1, 1], domain)
    values = np.array([_quantities(float(a)) for a in nodes]).T
    log_ratio, quartile, spread = (Chebyshev.fit(nodes, row, 23, domain=domain) for row in values)
    return _Table(
        gaussian=float(log_ratio(2.0)),
        heaviest=float(log_ratio(LOWEST_ALPHA)),
        alpha=CubicSpline(log_ratio(grid)[::-1], grid[::-1]),
        quartile=quartile,
        grid=grid,
        log_ratio=log_ratio(grid),
        spread=spread(grid),
    )


def _quantities(alpha: float) -> tuple[float, float, float]:
    """Return log ν, the upper quartile of the unit scale, and sqrt(n) times the standard error of log ν."""
    p = _PROBABILITIES[[0, 1, 3, 4]]
    law = SymmetricStable(alpha)
    inner, outer = law.ppf(p[2:])
    # d log ν = d(q95 − q05)/2outer − d(q75 − q25)/2inner, and Cov(q_i, q_j) = p_i (1 − p_j)/(n f_i f_j) for p_i ≤ p_j
    gradient = np.array([-1 / outer, 1 / inner, -1 / inner, 1 / outer]) / 2
    weight = gradient / law.pdf([-outer, -inner, inner, outer])
    shared = np.minimum.outer(p, p) * (1 - np.maximum.outer(p, p))
    return np.log(outer / inner), inner, np.sqrt(weight @ shared @ weight)
