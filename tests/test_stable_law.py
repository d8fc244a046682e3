"""The stable law against mpmath, closed forms, published tables and simulation.

``tests/data/stable_law.json`` holds ``[alpha, x, pdf, sf, score]`` by mpmath with 70 digits.
``python -m tests.test_stable_law`` makes it afresh, in some minutes; a few of its values are
recomputed in every run.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lwcore.stable import SymmetricStable
from lwcore.stable import law as law_module
from lwcore.stable.standard import DENSITY, SLOPE, TAIL, _along_a_ray, _round_a_corner, standard_law

REFERENCE = Path(__file__).parent / "data" / "stable_law.json"
ALPHAS = [
    0.51,
    0.75,
    0.95,
    0.999,
    1.0001,
    1.01,
    1.1,
    1.5,
    1.75,
    1.9,
    1.99,
    1.999,
    1.999999,
    1.999999999,
]
POINTS = [
    0,
    1e-3,
    0.03,
    0.2,
    0.4,
    0.55,
    0.8,
    1.0,
    1.4,
    1.9,
    2.6,
    3.3,
    4.2,
    5.1,
    6.0,
    7.0,
    8.0,
    9.5,
    11,
    13,
    16,
    19.5,
    21,
    60,
    1e3,
    1e5,
    1e8,
]


def by_mpmath(alpha: float, x: float, digits: int) -> tuple[float, float, float]:
    """Return pdf, sf and score at ``x ≥ 0`` from the characteristic function, integrated along a
    ray on which nothing oscillates much."""
    with mpmath.workdps(digits):
        alpha, x = mpmath.mpf(alpha), mpmath.mpf(x)
        angle = min(1 / alpha, 1) * mpmath.pi / 2 * mpmath.mpf("0.9")
        turn, turned_power = mpmath.expj(angle), mpmath.expj(alpha * angle)
        panels = [0, *(mpmath.mpf(2) ** k / (x + 1) for k in range(-8, 7)), mpmath.inf]

        def transform(t: mpmath.mpf) -> mpmath.mpc:
            return mpmath.exp(1j * x * t * turn - t**alpha * turned_power)

        pdf = mpmath.re(turn * mpmath.quad(transform, panels)) / mpmath.pi
        slope = (
            mpmath.re(1j * turn**2 * mpmath.quad(lambda t: t * transform(t), panels)) / mpmath.pi
        )
        sf = (
            0.5 - (angle + mpmath.quad(lambda t: mpmath.im(transform(t)) / t, panels)) / mpmath.pi
            if x
            else 0.5
        )
        return float(pdf), float(sf), float(-slope / pdf) if x else 0.0


def reference() -> list[list[float]]:
    return json.loads(REFERENCE.read_text())


@pytest.mark.parametrize("alpha", ALPHAS)
def test_values_agree_with_mpmath(alpha: float) -> None:
    x, pdf, sf, score = np.array([row[1:] for row in reference() if row[0] == alpha]).T
    assert x.size == len(POINTS)
    law, x = SymmetricStable(alpha, scale=4.0), 4 * x
    np.testing.assert_allclose(4 * law.pdf(x), pdf, rtol=1e-13)
    np.testing.assert_allclose(law.logpdf(x), np.log(pdf / 4), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose([law.sf(x), law.cdf(-x)], [sf, sf], rtol=1e-13)
    np.testing.assert_allclose([law.cdf(x), law.sf(-x)], [1 - sf, 1 - sf], rtol=1e-13)
    np.testing.assert_allclose(4 * law.score(x), score, rtol=1e-12)
    np.testing.assert_allclose(4 * law.score(-x), -score, rtol=1e-12)


@pytest.mark.parametrize("name", ["pdf", "cdf"])
def test_values_agree_with_nolans_that_scipy_ships(name: str) -> None:
    table = np.load(
        Path(stats.__file__).parent / f"tests/data/levy_stable/stable-Z1-{name}-sample-data.npy"
    )
    for alpha in np.unique((symmetric := table[(table[:, 3] == 0) & (table[:, 2] > 0.5)])[:, 2]):
        x, value = symmetric[symmetric[:, 2] == alpha, :2].T
        np.testing.assert_allclose(getattr(SymmetricStable(alpha), name)(x), value, rtol=1e-12)


@pytest.mark.slow
def test_the_reference_can_be_made_again() -> None:
    rows = reference()
    assert [row[:2] for row in rows] == [[alpha, x] for alpha in ALPHAS for x in POINTS]
    for alpha, x, *values in random.Random(1).sample(rows, 3):
        np.testing.assert_allclose(by_mpmath(alpha, x, 50), values, rtol=1e-14)


@pytest.mark.parametrize(
    "alpha", [0.501, 0.6, 0.8, 0.9999, 1.05, 1.3, 1.7, 1.84, 1.86, 1.9999, 2 - 1e-12]
)
def test_the_table_stands_for_the_integral(alpha: float) -> None:
    law: Any = standard_law(alpha)
    # many per panel, so that each degree of freedom is seen
    x = np.geomspace(law.near_end, law.far_start, 3000)
    np.testing.assert_allclose(
        np.stack([law(x, row) for row in (DENSITY, SLOPE, TAIL)]), law.integral(x), rtol=3e-12
    )


@pytest.mark.parametrize("alpha", [1.84, 1.85])
def test_both_integrals_hold_where_one_takes_over(alpha: float) -> None:
    x = np.linspace(2.4, 12, 200)
    np.testing.assert_allclose(_along_a_ray(alpha, 2.4)(x), _round_a_corner(alpha)(x), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.501, 0.6, 0.97, 1.3, 1.8, 1.999])
def test_series_are_left_where_their_smallest_term_is_rounding(alpha: float) -> None:
    law: Any = standard_law(alpha)

    def near(k: int) -> float:
        return math.gamma((2 * k + 1) / alpha) / math.factorial(2 * k) * law.near_end ** (2 * k)

    def far(k: int) -> float:
        return math.gamma(alpha * k + 1) / math.factorial(k) * law.far_start ** (-alpha * k)

    smallest = (
        [near(k) / near(0) for k in range(1, 26)],
        [far(k) / (far(1) * math.sin(math.pi * (1 - alpha / 2))) for k in range(2, 41)],
    )
    assert [min(terms) for terms in smallest] == pytest.approx([1e-17, 1e-17], rel=1e-9, abs=0)
    # so many coefficients: up to that term, and before it
    assert [law.near.shape, law.far.shape] == [
        (3, int(np.argmin(smallest[0])) + 2),
        (3, int(np.argmin(smallest[1])) + 1),
    ]


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.5, 1.9, 2.0])
def test_central_probability_is_what_the_tails_leave_and_keeps_its_digits(alpha: float) -> None:
    law, x = standard_law(alpha), np.array([0.0, 0.2, 0.7, 3.0, 30.0])
    np.testing.assert_allclose(law.central(x), 0.5 - law(x, TAIL), rtol=1e-12, atol=1e-15)
    assert law.central(np.array([1e-9]))[0] == pytest.approx(
        1e-9 * law(np.array([0.0]), DENSITY)[0], rel=1e-12, abs=0
    )


@pytest.mark.parametrize("alpha", [0.9, 1.3, 1.8])
def test_farthest_quantiles_are_where_the_tail_says(alpha: float) -> None:
    law, p = SymmetricStable(alpha), np.array([1e-250, 1e-120, 1e-80])
    np.testing.assert_allclose(law.cdf(law.ppf(p)), p, rtol=1e-9)


def test_cauchy_law() -> None:
    law, x = (
        SymmetricStable(1.0, scale=3.0, loc=1.0),
        np.array([-1e200, -1e8, -2.0, 1.0, 1.5, 40.0, 1e12]),
    )
    z = (x - 1) / 3
    np.testing.assert_allclose(law.pdf(x), stats.cauchy(1, 3).pdf(x), rtol=1e-14)
    np.testing.assert_allclose(
        law.logpdf(x), -np.log(3 * np.pi) - 2 * np.log(np.hypot(1, z)), rtol=1e-14
    )
    np.testing.assert_allclose(
        law.score(x), 2 / 3 * z / np.hypot(1, z) / np.hypot(1, z), rtol=1e-14
    )
    np.testing.assert_allclose(law.sf(x), stats.cauchy(1, 3).sf(x), rtol=1e-14)
    p = np.array([1e-300, 1e-5, 0.2, 0.25, 0.3, 0.5, 0.6, 1 - 1e-6])
    np.testing.assert_allclose(law.ppf(p), stats.cauchy(1, 3).ppf(p), rtol=1e-9)
    assert law.fisher_information() == pytest.approx(0.5 / 9, rel=1e-13)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.5, 1.99])
def test_log_density_outlives_the_density(alpha: float) -> None:
    law = SymmetricStable(alpha)
    far, farther = law.logpdf([1e250, 1e290])
    assert law.pdf(1e290) == 0
    assert far - farther == pytest.approx((alpha + 1) * 40 * math.log(10), rel=1e-13)
    assert SymmetricStable(2.0, scale=0.5).logpdf(1e6) == pytest.approx(
        -1e12 - math.log(math.pi) / 2, rel=1e-15
    )


# The quantile ratio ν_α = (q95 − q05)/(q75 − q25) and the spread ν_c = (q75 − q25)/scale tabulated
# by McCulloch (1986) for β = 0. He worked from DuMouchel's tables of the law, and his last digit
# does not stand except at the two ends, where the law is elementary.
MCCULLOCH = {
    2.0: (2.439, 1.908),
    1.9: (2.512, 1.914),
    1.8: (2.608, 1.921),
    1.7: (2.737, 1.927),
    1.6: (2.912, 1.933),
    1.5: (3.148, 1.939),
}
MCCULLOCH |= {
    1.4: (3.464, 1.946),
    1.3: (3.882, 1.955),
    1.2: (4.447, 1.965),
    1.1: (5.217, 1.980),
    1.0: (6.314, 2.000),
}


@pytest.mark.parametrize("alpha", MCCULLOCH)
def test_quantiles_against_mccullochs_tables(alpha: float) -> None:
    ratio, spread = MCCULLOCH[alpha]
    q05, q25, q75, q95 = SymmetricStable(alpha, loc=3.0).ppf([0.05, 0.25, 0.75, 0.95])
    last_digit = 5e-4 if alpha in (1.0, 2.0) else 6e-3
    assert (q95 - q05) / (q75 - q25) == pytest.approx(ratio, abs=last_digit)
    assert q75 - q25 == pytest.approx(spread, abs=min(last_digit, 3e-3))


# Properties
# ------------------------------------------------------------------------------------------------------------------

# One half of the draws from where the law changes its ways of computing.
alphas = st.floats(0.5, 2, exclude_min=True) | st.sampled_from(
    [0.75, 1.0, 1 - 1e-9, 1 + 1e-9, 1.5, 1.85, 1.99, 2 - 1e-9, 2.0]
)
sizes = st.floats(-8, 8).map(lambda exponent: 10.0**exponent)


@given(alpha=alphas, x=sizes, scale=sizes, loc=st.floats(-1e3, 1e3))
def test_symmetry_and_scaling(alpha: float, x: float, scale: float, loc: float) -> None:
    unit, law = SymmetricStable(alpha), SymmetricStable(alpha, scale)
    z = x / scale
    assert law.pdf(x) == law.pdf(-x)
    assert law.score(x) == -law.score(-x)
    assert law.sf(x) == law.cdf(-x)
    assert law.cdf(x) + law.sf(x) == pytest.approx(1, rel=1e-15)
    assert law.pdf(x) * scale == pytest.approx(float(unit.pdf(z)), rel=1e-14, abs=0)
    assert law.logpdf(x) + math.log(scale) == pytest.approx(
        float(unit.logpdf(z)), rel=1e-13, abs=1e-13
    )
    assert law.score(x) * scale == pytest.approx(float(unit.score(z)), rel=1e-14, abs=0)
    assert law.sf(x) == unit.sf(z)
    assert law.kl(x) == unit.kl(z)
    assert SymmetricStable(alpha, scale, loc).kl(x) == law.kl(x)
    assert SymmetricStable(alpha, scale, loc).sf(loc + x) == unit.sf(((loc + x) - loc) / scale)


@given(alpha=alphas, x=sizes, growth=st.floats(1e-6, 1))
def test_density_and_tail_fall_and_agree(alpha: float, x: float, growth: float) -> None:
    law, y = SymmetricStable(alpha), x * (1 + growth)
    with np.errstate(under="ignore"):
        fall, rise = law.sf(x) - law.sf(y), law.cdf(y) - law.cdf(x)
    assert law.pdf(x) >= law.pdf(y)
    assert law.logpdf(x) > law.logpdf(y) or x < 1e-3
    assert fall >= 0
    assert rise >= 0
    noise = 1e-13 * law.sf(x)  # the fall lies between the width times the densities at both ends
    assert (y - x) * law.pdf(y) - noise <= fall <= (y - x) * law.pdf(x) + noise


@given(alpha=alphas, x=st.floats(0.01, 40), side=st.sampled_from([-1, 1]))
def test_score_is_the_slope_of_the_log_density(alpha: float, x: float, side: int) -> None:
    law = SymmetricStable(alpha)
    step = 1e-3 * min(x, 1.0)
    ahead, behind = (law.logpdf(side * x + sign * step * np.array([1, 2])) for sign in (1, -1))
    slope = (8 * (ahead[0] - behind[0]) - (ahead[1] - behind[1])) / (12 * step)
    assert law.score(side * x) == pytest.approx(-slope, rel=1e-6, abs=1e-9 / step * 1e-3)


@given(alpha=alphas, shift=sizes)
def test_divergence_is_positive_even_and_grows(alpha: float, shift: float) -> None:
    law = SymmetricStable(alpha)
    divergence = law.kl(shift)
    assert divergence > 0
    assert law.kl(-shift) == divergence
    assert law.kl(1.001 * shift) > divergence
    # A location family's divergence is at most the quadratic one of its largest curvature, −(log
    # p)″ at its largest, at the location.
    assert divergence <= math.gamma(3 / alpha) / math.gamma(1 / alpha) * shift**2 / 2 * (1 + 1e-9)


@given(alpha=alphas)
def test_divergence_starts_with_the_fisher_information(alpha: float) -> None:
    law = SymmetricStable(alpha, scale=10.0, loc=1.0)
    unit = law.fisher_information() / 2
    assert law.kl(1e-7) == pytest.approx(unit * 1e-14, rel=1e-9, abs=0)  # a shift of 1e-8 scales
    # the next order is quartic: halving the shift divides what is missing by four
    missing = [1 - law.kl(shift) / (unit * shift**2) for shift in (0.2, 0.1)]
    assert missing[0] / 4 == pytest.approx(missing[1], rel=0.05, abs=1e-10)


# Divergence
# ------------------------------------------------------------------------------------------------------------------

SHIFTS = np.array([0.0, 1e-8, 1e-3, 0.2, 0.25, 0.26, 0.7, 1.0, 4.0, 33.0, 1e4, 1e8, -1e8])


def test_divergence_of_cauchy_and_gaussian_laws() -> None:
    # Cauchy: log(1 + shift²/4) (Chyzak and Nielsen 2019). Gaussian: elementary.
    np.testing.assert_allclose(SymmetricStable(1.0).kl(SHIFTS), np.log1p(SHIFTS**2 / 4), rtol=1e-12)
    np.testing.assert_allclose(
        SymmetricStable(2.0, scale=3.0).kl(SHIFTS), SHIFTS**2 / 36, rtol=1e-14
    )


@pytest.mark.parametrize("alpha", [1 - 1e-8, 1 + 1e-8])
def test_divergence_next_to_cauchys(alpha: float) -> None:
    np.testing.assert_allclose(
        SymmetricStable(alpha).kl(SHIFTS), np.log1p(SHIFTS**2 / 4), rtol=1e-7
    )


def test_divergence_next_to_the_gaussian() -> None:
    # few: a wider one would move the bell to where the other law is all Pareto tail, of 1e-13
    shifts = np.array([1e-8, 0.3, 1.0])
    np.testing.assert_allclose(SymmetricStable(2 - 1e-13).kl(shifts), shifts**2 / 4, rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.8, 1.2, 1.5, 1.9, 1.999])
@pytest.mark.parametrize("shift", [0.05, 0.9, 8.0, 40.0])
def test_divergence_is_the_mean_log_ratio(alpha: float, shift: float) -> None:
    law, moved = SymmetricStable(alpha), SymmetricStable(alpha, loc=shift)
    node, weight = np.polynomial.legendre.leggauss(20)

    def integral(function: Callable[[np.ndarray], np.ndarray], edges: np.ndarray) -> float:
        centre, half = (edges[1:] + edges[:-1])[:, None] / 2, np.diff(edges)[:, None] / 2
        return float(np.sum(half * weight * function(centre + half * node)))

    def integrand(x: np.ndarray) -> np.ndarray:
        return moved.pdf(x) * (moved.logpdf(x) - law.logpdf(x))

    def both_ends(log_x: np.ndarray) -> np.ndarray:
        return np.exp(log_x) * (integrand(np.exp(log_x)) + integrand(-np.exp(log_x)))

    direct = integral(integrand, np.linspace(-100, 100, 2001)) + integral(
        both_ends, np.linspace(np.log(100), 50, 101)
    )
    assert law.kl(shift) == pytest.approx(direct, rel=1e-8)


@pytest.mark.parametrize("alpha", [0.6, 1.1, 1.5, 1.99])
def test_divergence_grows_as_the_logarithm_in_the_end(alpha: float) -> None:
    near, far = SymmetricStable(alpha, scale=2.0).kl([2e6, 2e8])
    assert far - near == pytest.approx((alpha + 1) * math.log(100), rel=2e-3 if alpha < 1 else 1e-5)


# Ends, quantiles, samples
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.6, 0.98, 1.02, 1.1, 1.5, 1.9, 2 - 1e-6])
def test_the_three_ways_of_computing_join_without_a_step(alpha: float) -> None:
    # Each way is accurate on its own side only: a step would show in the second difference of the
    # logarithm on a fine grid.
    law = SymmetricStable(alpha)
    ends = standard_law(alpha).near_end, standard_law(alpha).far_start
    for grid in (np.linspace(0.9 * end, 1.1 * end, 300) for end in ends):
        for values in (law.pdf(grid), law.sf(grid), law.score(grid)):
            curvature = np.diff(np.log(values), 2) / np.diff(grid)[:-1] ** 2
            assert np.abs(np.diff(curvature)).max() < 0.1 * np.abs(curvature).max()


def test_gaussian_and_cauchy_are_the_two_ends() -> None:
    x = np.array([-30.0, -8.0, -0.5, 0.0, 1e-3, 3.0, 12.0])
    gaussian, law = stats.norm(1, 2 * math.sqrt(2)), SymmetricStable(2.0, scale=2.0, loc=1.0)
    for name in ("pdf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(law, name)(x), getattr(gaussian, name)(x), rtol=1e-12)
    np.testing.assert_allclose(
        law.ppf([1e-20, 0.1, 0.5, 0.7]),
        gaussian.ppf([1e-20, 0.1, 0.5, 0.7]),
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_allclose(law.score(x), (x - 1) / 8, rtol=1e-12)
    almost = SymmetricStable(2 - 1e-13)
    np.testing.assert_allclose(
        almost.sf([0.1, 3, 7]), SymmetricStable(2).sf([0.1, 3, 7]), rtol=1e-6
    )
    np.testing.assert_allclose(
        SymmetricStable(1 + 1e-6).sf([0.1, 3, 700]), stats.cauchy.sf([0.1, 3, 700]), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("alpha", "information"),
    [(1.1, 0.4630), (1.3, 0.4310), (1.5, 0.4281), (1.8, 0.4552), (2, 0.5), (1, 0.5), (1.0001, 0.5)],
)
def test_fisher_information(alpha: float, information: float) -> None:
    assert SymmetricStable(alpha).fisher_information() == pytest.approx(information, abs=6e-5)
    assert SymmetricStable(alpha, scale=1e12).fisher_information() == pytest.approx(
        information * 1e-24, rel=2e-4, abs=0
    )


@given(
    alpha=alphas,
    tail=st.floats(-140, -0.301032).map(lambda exponent: 10.0**exponent),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_ppf_inverts_cdf_at_any_scale(alpha: float, tail: float, scale: float) -> None:
    law = SymmetricStable(alpha, scale)
    x = law.ppf(tail)
    assert x < 0
    assert law.cdf(x) == pytest.approx(tail, rel=1e-11, abs=0)
    assert x == pytest.approx(scale * SymmetricStable(alpha).ppf(tail), rel=1e-14, abs=0)


@pytest.mark.parametrize("excess", [1e-9, 1.1e-5, 2.3e-5])
def test_quantiles_next_to_the_median_keep_their_digits(excess: float) -> None:
    alpha, p = 1.5, 0.5 + excess
    linear = (p - 0.5) / SymmetricStable(alpha).pdf(0.0)
    bend = math.gamma(3 / alpha) / (6 * math.gamma(1 / alpha))  # of the cdf: −pdf''(0)/6 pdf(0)
    assert SymmetricStable(alpha).ppf(p) == pytest.approx(
        linear * (1 + bend * linear**2), rel=1e-13, abs=0
    )


def test_information_is_integrated_once_a_law() -> None:
    law_module._unit_fisher_information.cache_clear()
    for scale in (1.0, 2.0):
        SymmetricStable(1.37, scale).fisher_information()
    assert law_module._unit_fisher_information.cache_info().misses == 1


def test_special_arguments() -> None:
    law = SymmetricStable(1.5)
    infinite = np.array([np.inf, -np.inf])
    np.testing.assert_array_equal(law.cdf(infinite), [1, 0])
    np.testing.assert_array_equal(law.sf(infinite), [0, 1])
    np.testing.assert_array_equal(law.pdf(infinite), 0)
    np.testing.assert_array_equal(law.score(infinite), [0, 0])
    np.testing.assert_array_equal(law.ppf([0.0, 0.5, 1.0]), [-np.inf, 0, np.inf])
    assert np.isnan([law.cdf(np.nan), law.sf(np.nan), law.pdf(np.nan), law.score(np.nan)]).all()
    assert law.pdf(np.zeros((0, 3))).shape == (0, 3)
    assert np.shape(law.ppf(0.2)) == ()
    assert law.ppf(np.full((2, 3), 0.2)).shape == (2, 3)
    assert np.shape(law.kl(0.5)) == ()
    assert law.kl(np.full((2, 3), 0.5)).shape == (2, 3)
    assert law.kl(0.0) == 0


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.2, 1.7, 2.0])
def test_samples_follow_the_law(alpha: float) -> None:
    law = SymmetricStable(alpha, scale=3.0, loc=10.0)
    draws = law.sample((40, 100), np.random.default_rng(5))
    assert draws.shape == (40, 100)
    assert stats.kstest(law.cdf(draws.ravel()), "uniform").pvalue > 1e-3


def test_gaussian_samples_have_variance_twice_the_squared_scale() -> None:
    draws = SymmetricStable(2.0, scale=3.0).sample(100_000, np.random.default_rng(0))
    assert np.var(draws) == pytest.approx(2 * 3.0**2, rel=5 * math.sqrt(2 / draws.size))


def test_bad_probability_is_named() -> None:
    with pytest.raises(ValueError, match=r"p contains 1\.5.*\[0, 1\]"):
        SymmetricStable(1.5).ppf([0.2, 1.5])


def test_the_theory_half_imports_quickly_and_without_torch() -> None:
    code = "import sys, lwcore.stable, lwcore.detection, lwcore.window; print({'torch', 'scipy.stats', 'scipy.optimize'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "set()"
    )


if __name__ == "__main__":
    table = [[alpha, x, *by_mpmath(alpha, x, 70)] for alpha in ALPHAS for x in POINTS]
    REFERENCE.write_text("[\n" + ",\n".join(map(json.dumps, table)) + "\n]\n")
