"""The stable law against mpmath, closed forms and simulation; McCulloch's fit against its own claims."""

from __future__ import annotations

import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lwcore.stable import SymmetricStable, fit


def by_mpmath(alpha: float, x: float) -> tuple[float, float, float]:
    """Return pdf, sf and score at ``x > 0`` from the characteristic function, integrated along a ray on which nothing oscillates much."""
    with mpmath.workdps(34):
        alpha, x = mpmath.mpf(alpha), mpmath.mpf(x)
        angle = min(1 / alpha, 1) * mpmath.pi / 2 * mpmath.mpf("0.9")
        turn, turned_power = mpmath.expj(angle), mpmath.expj(alpha * angle)
        panels = [0, *(2**k / (x + 1) for k in range(-1, 6)), mpmath.inf]

        def transform(t: mpmath.mpf) -> mpmath.mpc:
            return mpmath.exp(1j * x * t * turn - t**alpha * turned_power)

        pdf = mpmath.re(turn * mpmath.quad(transform, panels)) / mpmath.pi
        slope = mpmath.re(1j * turn**2 * mpmath.quad(lambda t: t * transform(t), panels)) / mpmath.pi
        sf = 0.5 - (angle + mpmath.quad(lambda t: mpmath.im(transform(t)) / t, panels)) / mpmath.pi
        return float(pdf), float(sf), float(-slope / pdf)


@pytest.mark.parametrize("alpha", [1.01, 1.3, 1.7, 1.98])
@pytest.mark.parametrize("x", [0.05, 1.1, 6.0, 19.9, 20.1, 1e4])
def test_values_agree_with_mpmath(alpha: float, x: float) -> None:
    law = SymmetricStable(alpha)
    values = [law.pdf(x), law.sf(x), law.score(x), law.cdf(-x), law.cdf(x)]
    pdf, sf, score = by_mpmath(alpha, x)
    np.testing.assert_allclose(values, [pdf, sf, score, sf, 1 - sf], rtol=1e-10)


@pytest.mark.parametrize("alpha", [1.02, 1.1, 1.5, 1.9, 2 - 1e-6])
def test_the_three_ways_of_computing_join_without_a_step(alpha: float) -> None:
    # Each way is accurate on its own side only: a step would show in the second difference of the logarithm on a fine grid.
    law = SymmetricStable(alpha)
    for grid in (np.linspace(0.3, 3.5, 1500), np.linspace(19.9, 20.1, 300)):
        for values in (law.pdf(grid), law.sf(grid), law.score(grid)):
            curvature = np.diff(np.log(values), 2) / np.diff(grid)[:-1] ** 2
            assert np.abs(np.diff(curvature)).max() < 0.1 * np.abs(curvature).max()


def test_gaussian_and_cauchy_are_the_two_ends() -> None:
    x = np.array([-30.0, -8.0, -0.5, 0.0, 1e-3, 3.0, 12.0])
    gaussian, law = stats.norm(1, 2 * math.sqrt(2)), SymmetricStable(2.0, scale=2.0, loc=1.0)
    for name in ("pdf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(law, name)(x), getattr(gaussian, name)(x), rtol=1e-12)
    np.testing.assert_allclose(law.ppf([1e-20, 0.1, 0.5, 0.7]), gaussian.ppf([1e-20, 0.1, 0.5, 0.7]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(law.score(x), (x - 1) / 8, rtol=1e-12)
    almost = SymmetricStable(2 - 1e-13)
    np.testing.assert_allclose(almost.sf([0.1, 3, 7]), SymmetricStable(2).sf([0.1, 3, 7]), rtol=1e-6)
    np.testing.assert_allclose(SymmetricStable(1 + 1e-6).sf([0.1, 3, 700]), stats.cauchy.sf([0.1, 3, 700]), rtol=1e-4)


@pytest.mark.parametrize(("alpha", "information"), [(1.1, 0.4630), (1.3, 0.4310), (1.5, 0.4281), (1.8, 0.4552), (2, 0.5), (1.0001, 0.5)])
def test_fisher_information(alpha: float, information: float) -> None:
    assert SymmetricStable(alpha).fisher_information() == pytest.approx(information, abs=6e-5)
    assert SymmetricStable(alpha, scale=1e12).fisher_information() == pytest.approx(information * 1e-24, rel=2e-4, abs=0)


def test_score_is_the_slope_of_the_log_density_and_changes_sign_at_the_location() -> None:
    law = SymmetricStable(1.4, scale=2.0, loc=-1.0)
    x = np.array([-60.0, -9.0, -1.5, -0.2, 3.0, 21.0, 500.0])
    step = 1e-4 * (1 + np.abs(x))
    slope = (np.log(law.pdf(x + step)) - np.log(law.pdf(x - step))) / (2 * step)
    np.testing.assert_allclose(law.score(x), -slope, rtol=1e-6)
    assert law.score(law.loc) == 0


@given(alpha=st.floats(1.01, 2), tail=st.floats(1e-280, 0.499999), scale=st.sampled_from([1e-12, 1.0, 1e12]))
@settings(max_examples=40, deadline=None)
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
    assert SymmetricStable(alpha).ppf(p) == pytest.approx(linear * (1 + bend * linear**2), rel=1e-13, abs=0)


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


@pytest.mark.parametrize("alpha", [1.2, 1.7, 2.0])
def test_samples_follow_the_law(alpha: float) -> None:
    law = SymmetricStable(alpha, scale=3.0, loc=10.0)
    draws = law.sample((40, 100), np.random.default_rng(5))
    assert draws.shape == (40, 100)
    assert stats.kstest(law.cdf(draws.ravel()), "uniform").pvalue > 1e-3


def test_gaussian_samples_have_variance_twice_the_squared_scale() -> None:
    draws = SymmetricStable(2.0, scale=3.0).sample(100_000, np.random.default_rng(0))
    assert np.var(draws) == pytest.approx(2 * 3.0**2, rel=5 * math.sqrt(2 / draws.size))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.9,), r"alpha = 0.9.*\(1, 2\]"), ((2.1,), "alpha = 2.1"), ((1.5, 0.0), "scale = 0.0"), ((1.5, 1.0, math.inf), "loc = inf")],
)
def test_bad_parameters_are_named(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SymmetricStable(*arguments)


def test_bad_probability_is_named() -> None:
    with pytest.raises(ValueError, match=r"p contains 1\.5.*\[0, 1\]"):
        SymmetricStable(1.5).ppf([0.2, 1.5])


# The fit ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.3, 1.6])
def test_interval_covers_as_often_as_it_says(alpha: float) -> None:
    replications = 2500
    result = fit(SymmetricStable(alpha).sample((2000, replications), np.random.default_rng(11)))
    low, high = result.alpha_interval
    covered = int(((low <= alpha) & (alpha <= high)).sum())
    least, most = stats.binom.ppf([0.0005, 0.9995], replications, 0.95)
    assert least <= covered <= most
    assert np.mean(high - low) == pytest.approx(2 * 1.96 * np.std(result.alpha), rel=0.045)  # three standard errors of the right side


def test_interval_is_wider_for_more_confidence_and_shrinks_with_the_root_of_n() -> None:
    draws = SymmetricStable(1.5).sample(64_000, np.random.default_rng(1))

    def width(**options: float) -> float:
        low, high = fit(draws[:: options.pop("every", 1)], **options).alpha_interval
        return high - low

    assert width(every=16) / width() == pytest.approx(4, rel=0.1)
    assert width(confidence=0.99) / width(confidence=0.9) == pytest.approx(2.5758 / 1.6449, rel=1e-2)


@pytest.mark.parametrize("alpha", [1.05, 1.4, 1.8])
def test_fit_finds_the_law(alpha: float) -> None:
    result = fit(SymmetricStable(alpha, scale=3.0, loc=-2.0).sample(200_000, np.random.default_rng(3)))
    assert result.reliable
    assert (result.reason, result.method) == ("", "mcculloch")
    assert result.alpha == pytest.approx(alpha, abs=0.02)
    assert result.scale == pytest.approx(3, rel=0.02)
    assert result.loc == pytest.approx(-2, abs=0.05)


@given(alpha=st.floats(1.02, 1.99))
@settings(max_examples=20, deadline=None)
def test_exact_quantiles_give_the_parameters_back(alpha: float) -> None:
    # Ten samples at the quantiles 0.05, 0.15, ..., 0.95 of a law: their own quantiles at 0.05, 0.25, 0.75 and 0.95 are exactly the law's.
    law = SymmetricStable(alpha, scale=1e-12, loc=3e-12)
    result = fit(law.ppf(np.arange(5, 100, 10) / 100))
    assert result.alpha == pytest.approx(alpha, abs=2e-6)
    assert result.scale == pytest.approx(law.scale, rel=1e-6, abs=0)
    assert result.loc == pytest.approx(law.loc, rel=1e-9, abs=0)


@pytest.mark.parametrize("unit", [1e-12, 1e12, -1.0])
def test_fit_does_not_depend_on_the_unit(unit: float) -> None:
    draws = SymmetricStable(1.5, loc=1.0).sample((500, 3), np.random.default_rng(4))
    plain, scaled = fit(draws), fit(unit * draws)
    np.testing.assert_allclose(scaled.alpha, plain.alpha, rtol=1e-12)
    np.testing.assert_allclose(scaled.alpha_interval, plain.alpha_interval, rtol=1e-12)
    np.testing.assert_allclose(scaled.scale, abs(unit) * plain.scale, rtol=1e-12)
    np.testing.assert_allclose(scaled.loc, unit * plain.loc, rtol=1e-12)
    np.testing.assert_array_equal(scaled.reliable, plain.reliable)


def test_columns_are_fitted_on_their_own() -> None:
    draws = SymmetricStable(1.5).sample((400, 3), np.random.default_rng(6)) * [1, 10, 100]
    together = fit(draws)
    for column in range(3):
        alone = fit(draws[:, column])
        assert [type(field) for field in (alone.alpha, alone.reason, alone.reliable)] == [float, str, bool]
        assert (alone.alpha, alone.scale) == (together.alpha[column], together.scale[column])
        assert alone.alpha_interval == (together.alpha_interval[0][column], together.alpha_interval[1][column])


def test_what_no_stable_law_explains_is_not_passed_off_as_one() -> None:
    rng = np.random.default_rng(8)
    uniform, cubed, few = fit(rng.uniform(size=2000)), fit(rng.standard_cauchy(2000) ** 3), fit(rng.normal(size=199))
    assert [result.reliable for result in (uniform, cubed, few)] == [False, False, False]
    assert (uniform.alpha, cubed.alpha) == (2, 1.01)
    assert "below the Gaussian's 2.439" in uniform.reason
    assert "lighter" in uniform.reason
    assert "above" in cubed.reason
    assert "199 samples" in few.reason
    flat = fit(np.stack([np.zeros(300), rng.normal(size=300)], axis=1))
    assert np.isnan(flat.alpha[0])
    assert (flat.scale[0], flat.reliable[0], flat.reason[0]) == (0, False, "interquartile range is zero")
    assert np.isfinite(flat.alpha[1])


def test_gaussian_samples_are_held_at_two_about_half_of_the_time_and_marked() -> None:
    result = fit(np.random.default_rng(9).normal(size=(1000, 200)))
    held = result.alpha == 2
    assert 60 < held.sum() < 140
    np.testing.assert_array_equal(result.reliable, ~held)
    assert (result.alpha_interval[1] == 2).mean() > 0.9


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([1.0, math.nan], {}, "samples.*finite"),
        (np.zeros((2, 2, 2)), {}, "samples has shape"),
        ([1.0, 2.0], {"method": "guess"}, "method = 'guess'.*'mcculloch'"),
        ([1.0, 2.0], {"confidence": 1.0}, "confidence = 1.0"),
    ],
)
def test_bad_input_to_fit_is_named(samples: list, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(samples, **options)


def test_the_theory_half_imports_quickly_and_without_torch() -> None:
    code = "import sys, lwcore.stable, lwcore.bounds, lwcore.window; print({'torch', 'scipy.stats', 'scipy.optimize'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"
