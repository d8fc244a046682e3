"""The estimators against their own claims: coverage, invariance, oracles, and what they say of laws that are not stable."""

from __future__ import annotations

import dataclasses
import math
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from lwcore.stable import SymmetricStable, ecf, fit, goodness, hill, likelihood, mcculloch, standard
from lwcore.stable.goodness import goodness_of_fit
from lwcore.stable.standard import standard_law

METHODS = ["mcculloch", "ecf", "hill", "mle"]
FAST = METHODS[:3]


def draws(alpha: float, size: int | tuple[int, ...], seed: int, scale: float = 1.0, loc: float = 0.0) -> np.ndarray:
    """Samples of a stable law."""
    return SymmetricStable(alpha, scale, loc).sample(size, np.random.default_rng(seed))


def assert_close(one: object, other: object, unit: float = 1.0, shift: float = 0.0, rtol: float = 1e-9) -> None:
    """Assert that the fit `other` is `one` in another unit and with another origin."""
    np.testing.assert_allclose(other.alpha, one.alpha, rtol=rtol)
    np.testing.assert_allclose(other.alpha_interval, one.alpha_interval, rtol=rtol)
    np.testing.assert_allclose(other.scale, abs(unit) * np.asarray(one.scale), rtol=rtol)
    np.testing.assert_allclose((other.loc - shift) / other.scale, np.sign(unit) * one.loc / one.scale, atol=rtol)
    np.testing.assert_array_equal(other.reliable, one.reliable)


# Coverage


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.8, 1.1, 1.5, 1.9])
@pytest.mark.parametrize(("method", "replications"), [("mcculloch", 1500), ("ecf", 1500), ("mle", 150)])
def test_interval_covers_as_often_as_it_says(method: str, replications: int, alpha: float) -> None:
    low, high = fit(draws(alpha, (1000, replications), 11), method).alpha_interval
    covered = int(((low <= alpha) & (alpha <= high)).sum())
    least, most = stats.binom.ppf([0.001, 0.999], replications, 0.95)
    assert least <= covered <= most


@pytest.mark.slow
def test_interval_of_hill_covers_where_it_is_believed_and_only_there() -> None:
    n, replications = 2000, 600
    for alpha, believed in ((1.2, True), (1.8, False)):
        result = fit(draws(alpha, (n, replications), 12), "hill")
        low, high = result.alpha_interval
        covered = (low <= alpha) & (alpha <= high)
        assert (result.reliable.mean() > 0.95) == believed
        if believed:
            least, most = stats.binom.ppf([0.001, 0.999], int(result.reliable.sum()), 0.95)
            assert least <= covered[result.reliable].sum() <= most
        else:
            assert result.reliable.sum() == 0
            assert covered.mean() < 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("method", "columns"), [("mcculloch", 2000), ("ecf", 2000), ("hill", 2000), ("mle", 120)])
def test_interval_is_as_wide_as_the_estimate_scatters(method: str, columns: int) -> None:
    result = fit(draws(1.3, (1600, columns), 13), method)
    low, high = result.alpha_interval
    error = 3 / math.sqrt(2 * columns)  # three standard errors of a standard deviation
    assert np.mean(high - low) == pytest.approx(2 * 1.96 * np.std(result.alpha), rel=error + 0.03)


@pytest.mark.parametrize("method", METHODS)
def test_interval_is_wider_for_more_confidence_and_shrinks_with_n(method: str) -> None:
    sample = draws(1.4, 64_000, 1)

    def width(every: int = 1, confidence: float = 0.95) -> float:
        result = fit(sample[::every], method, confidence)
        low, high = result.alpha_interval
        assert low < result.alpha < high
        return (high - low) / result.alpha

    # the error falls as 1/√n, and Hill's as 1/√k, of which k ~ √n
    assert width(every=16) / width() == pytest.approx(2 if method == "hill" else 4, rel=0.15)
    assert width(confidence=0.99) / width(confidence=0.9) == pytest.approx(2.5758 / 1.6449, rel=2e-2)


# What they find


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.7, 1.05, 1.4, 1.8])
@pytest.mark.parametrize("method", ["mcculloch", "ecf", "mle"])
def test_fit_finds_the_law(method: str, alpha: float) -> None:
    result = fit(draws(alpha, 100_000, 3, scale=3.0, loc=-2.0), method)
    assert result.reliable
    assert (result.reason, result.method) == ("", method)
    assert result.alpha == pytest.approx(alpha, abs=0.025)
    assert result.scale == pytest.approx(3, rel=0.02)
    assert result.loc == pytest.approx(-2, abs=0.06)


@pytest.mark.slow
def test_the_likelihood_is_sharper_than_the_characteristic_function_and_that_than_quantiles() -> None:
    sample = draws(1.2, (1000, 200), 14)
    quantiles, curve, full = (np.std(fit(sample, method).alpha) for method in ("mcculloch", "ecf", "mle"))
    assert full < 0.95 * curve < 0.95 * quantiles


def test_weights_of_the_line_rest_on_the_covariance_that_samples_show() -> None:
    u, n = np.array([0.2, 0.5, 0.9]), 500
    phi = np.array([np.exp(1j * v * draws(1.4, (n, 4000), 19)).mean(0) for v in u])
    for predicted, seen in zip(ecf._covariance(u, 1.4), (np.log(-np.log(np.abs(phi) ** 2)), np.angle(phi)), strict=True):
        np.testing.assert_allclose(n * np.cov(seen), predicted, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ecf", "mle"])
def test_location_is_nearly_as_sharp_as_its_information_allows(method: str) -> None:
    law = SymmetricStable(1.2)
    loc = fit(draws(1.2, (500, 400), 26), method).loc
    assert np.std(loc) * math.sqrt(500 * law.fisher_information()) == pytest.approx(1, abs=0.1)


@given(alpha=st.floats(0.52, 1.99))
def test_exact_quantiles_give_the_parameters_back(alpha: float) -> None:
    # Ten samples at the quantiles 0.05, 0.15, ..., 0.95 of a law: their own quantiles at 0.05, 0.25, 0.75 and 0.95 are exactly the law's.
    law = SymmetricStable(alpha, scale=1e-12, loc=3e-12)
    result = fit(law.ppf(np.arange(5, 100, 10) / 100))
    assert result.alpha == pytest.approx(alpha, abs=2e-6)
    assert result.scale == pytest.approx(law.scale, rel=1e-6, abs=0)
    assert result.loc == pytest.approx(law.loc, rel=1e-9, abs=0)


def test_characteristic_function_is_the_mean_of_phases() -> None:
    x = draws(1.2, (3000, 20), 15)  # two blocks
    phi = ecf.characteristic_function(x, 0.3, 4)
    np.testing.assert_allclose(phi, [np.exp(0.3j * k * x).mean(0) for k in (1, 2, 3, 4)], atol=1e-13)
    x[7] = -1e9  # a phase that no digit tells
    np.testing.assert_allclose(ecf.characteristic_function(x, 0.3, 1)[0], np.exp(0.3j * np.delete(x, 7, 0)).sum(0) / 3000, atol=1e-13)


def test_phases_count_up_to_where_their_digits_end() -> None:
    at_end, beyond = 1e8, 1e8 + 0.5
    phi = ecf.characteristic_function(np.array([[at_end, beyond, -beyond]]), 0.3, 2)
    np.testing.assert_allclose(phi[:, 0], np.exp(0.3j * at_end * np.array([1, 2])), atol=1e-6)
    np.testing.assert_array_equal(phi[:, 1:], 0)


def test_memory_does_not_grow_with_the_data() -> None:
    def most(function: Callable[[], object]) -> int:
        tracemalloc.start()
        function()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    x = np.linspace(-3, 3, 400_000)[:, None]
    few, many = (most(lambda n=n: ecf.characteristic_function(x[:n], 0.1, 3)) for n in (100_000, 400_000))
    assert many < 1.1 * few
    law = standard_law(1.3)
    points = np.linspace(law.near_end, law.far_start, 4000)
    few, many = (most(lambda n=n: law.integral(points[:n])) for n in (1000, 4000))
    assert many < few + 3 * 3000 * 8 * 1.1  # but for the three results at each point


def test_weights_between_two_of_the_table_are_on_the_line_through_them() -> None:
    table = ecf._table()
    alpha = table.alphas[:-1] + 0.25 * np.diff(table.alphas)
    for weights in (table.slope, table.intercept, table.phase):
        np.testing.assert_allclose(table.at(weights, alpha).T, 0.75 * weights[:-1] + 0.25 * weights[1:], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("alpha", [1.15, 1.6, 1.95])
def test_line_is_exact_where_the_characteristic_function_is(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(samples: np.ndarray, step: float, points: int) -> np.ndarray:
        u = step * np.arange(1, points + 1)[:, None]
        power = np.exp(-2 * (1.1 * u) ** alpha)  # of scale 1.1 and location −0.2 in units of the first fit
        n, columns = samples.shape
        return np.sqrt(power + (1 - power) / n) * np.exp(-0.2j * u) * np.ones(columns)

    monkeypatch.setattr(ecf, "characteristic_function", exact)
    sample = draws(1.5, 300, 16)
    first, result = fit(sample), fit(sample, "ecf")
    assert result.alpha == pytest.approx(alpha, rel=1e-9)
    assert result.scale == pytest.approx(1.1 * first.scale, rel=1e-9)
    assert result.loc == pytest.approx(first.loc - 0.2 * first.scale, rel=1e-9)


def test_weights_are_taken_at_the_slope_just_found_twice() -> None:
    x, table = draws(1.3, 300, 6), ecf._table()
    first = fit(x)
    u = 0.1 * np.arange(1, 13)
    power = np.abs(np.exp(1j * np.outer(u, (x - first.loc) / first.scale)).mean(1)) ** 2
    level = np.log(-np.log((300 * power - 1) / 299))
    slopes = [first.alpha]
    for _ in range(3):
        slopes.append(float(table.at(table.slope, np.array(slopes[-1:]))[:, 0] @ level))
    assert fit(x, "ecf").alpha == pytest.approx(slopes[-1], rel=1e-12)
    assert slopes[-1] != pytest.approx(slopes[-2], rel=1e-9)


def test_hill_without_an_index_gives_the_gaussians_scale() -> None:
    result = fit(np.repeat([-1.0, 1.0], 100), "hill")
    assert "do not differ" in result.reason
    assert result.scale == pytest.approx(1 / SymmetricStable(2.0).ppf(0.75), rel=1e-6)


def test_hill_takes_the_largest_deviations_from_the_median() -> None:
    x = draws(1.3, 400, 17, loc=5.0)
    d = sorted(abs(x - np.median(x)), reverse=True)[:21]
    expected = 20 / sum(math.log(value / d[20]) for value in d[:20])
    result = fit(x, "hill")
    assert result.alpha == pytest.approx(expected, rel=1e-12)
    assert result.alpha_interval == pytest.approx([expected * (1 + sign * 1.959964 / math.sqrt(20)) for sign in (-1, 1)], rel=1e-6)
    assert result.scale == pytest.approx(
        np.subtract(*np.quantile(x, [0.75, 0.25], method="hazen")) / (2 * SymmetricStable(min(result.alpha, 2.0)).ppf(0.75)), rel=1e-6
    )


def test_bias_of_hill_is_the_integral_of_the_tail() -> None:
    def bias(alpha: float, fraction: float) -> float:
        law = SymmetricStable(alpha)
        start = math.log(law.ppf(1 - fraction / 2))
        mean = integrate.quad(lambda t: 2 * law.sf(math.exp(t)) / fraction, start, start + 40 / alpha, epsabs=0, limit=500)[0]
        return 1 / (alpha * mean) - 1

    for fraction in (0.01, 0.2):
        for alpha in (0.6, 1.3, 1.7, 1.95):
            assert np.interp(alpha, *hill._bias(fraction)) == pytest.approx(bias(alpha, fraction), rel=0.02, abs=1e-4)
    x = draws(1.7, 1000, 0)
    said = re.search(r"the 32 largest of 1000 .* alpha = ([\d.]+): a bias of ([\d.]+) standard errors", fit(x, "hill").reason)
    assert float(said[1]) == pytest.approx(fit(x).alpha, rel=5e-3)
    assert float(said[2]) == pytest.approx(bias(fit(x).alpha, 0.032) * math.sqrt(32), abs=0.01)


def test_what_the_characteristic_function_cannot_tell_is_left_to_the_quantiles() -> None:
    x = np.random.default_rng(1).standard_cauchy(5)
    result, first = fit(x, "ecf"), fit(x)
    assert "lost in its noise" in result.reason
    assert math.isnan(result.alpha)
    assert (result.scale, result.loc) == (first.scale, first.loc)


def test_likeliest_gaussian_has_the_mean_and_variance_of_the_samples() -> None:
    x = np.random.default_rng(9).normal(3, 2, size=300)
    result = fit(x, "mle")
    assert result.alpha == 2
    assert (result.loc, 2 * result.scale**2) == pytest.approx((x.mean(), x.var()), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.75, 1.25, 1.7, 1.93])
def test_the_likelihood_is_greatest_there_and_falls_by_the_quantile_at_the_ends(alpha: float) -> None:
    x = draws(alpha, 300, 18, scale=2.0, loc=1.0)
    result = fit(x, "mle")

    def descent(alpha: float, log_scale: float, loc: float) -> float:
        return -SymmetricStable(alpha, math.exp(log_scale), loc).logpdf(x).sum()

    best = descent(result.alpha, math.log(result.scale), result.loc)
    for step in np.vstack([0.02 * np.eye(3), -0.02 * np.eye(3)]):
        assert descent(result.alpha + step[0], math.log(result.scale) + step[1], result.loc + step[2]) > best
    for end in result.alpha_interval:
        if end == 2:
            assert 2 * (stats.norm.nnlf(stats.norm.fit(x), x) - best) < 3.8415
        else:
            profile = optimize.minimize(lambda p, end=end: descent(end, *p), [math.log(result.scale), result.loc], method="Nelder-Mead").fun
            assert 2 * (profile - best) == pytest.approx(3.8415, rel=0.01)


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.5, 1.9, 1.999])
def test_tabulated_log_density_is_the_laws(alpha: float) -> None:
    law, tilt = SymmetricStable(alpha), -math.log(2 - alpha)
    z = np.concatenate([np.linspace(-9, 9, 182), [-1e3, 1e5, 1e12]])
    cubics = likelihood._cubics(likelihood._surface()(tilt))
    log_density, slope, curvature = likelihood._log_density(cubics, z)
    np.testing.assert_allclose(log_density, law.logpdf(z), atol=3e-4)
    np.testing.assert_allclose(slope, -law.score(z), atol=3e-3)
    step = 1e-6
    after, before = (likelihood._log_density(cubics, z * (1 + s))[1] for s in (step, -step))
    np.testing.assert_allclose(curvature, (after - before) / (2 * step * z), atol=1e-6)


@given(tilt=st.floats(-0.3, 8), log_scale=st.floats(-1, 1), shift=st.floats(-1, 1), seed=st.integers(0, 99))
def test_gradient_of_the_likelihood(tilt: float, log_scale: float, shift: float, seed: int) -> None:
    sample = likelihood._Sample(draws(1.4, 50, seed), 1.4)
    point = np.array([tilt, log_scale, shift])
    np.testing.assert_allclose(sample.descent(point)[1], optimize.approx_fprime(point, lambda p: sample.descent(p)[0], 1e-7), atol=1e-5)


def test_profile_is_the_same_from_near_and_far() -> None:
    sample = likelihood._Sample(draws(1.4, 200, 5), 1.4)
    height, near = sample.profile(1.2, sample.best[1:])
    again, far = sample.profile(1.2, np.array([2.5, 4.0]))  # too far for Newton's method
    assert again == pytest.approx(height, abs=1e-9)
    np.testing.assert_allclose(far, near, atol=1e-4)
    assert height < sample.height
    direct = optimize.minimize(lambda p: sample.descent(np.array([1.2, *p]))[0], near, method="Nelder-Mead", options={"xatol": 1e-8})
    assert -direct.fun == pytest.approx(height, abs=1e-9)


def test_newtons_steps_know_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = likelihood._Sample(draws(1.4, 300, 5, scale=5.0), 1.4)  # of which no first fit has taken the scale
    monkeypatch.delattr(likelihood._Sample, "climb")
    height, _ = sample.profile(sample.best[0], sample.best[1:] + np.array([0.05, 0.2]))
    assert height == pytest.approx(sample.height, abs=1e-9)


def test_spread_of_the_quantile_ratio_by_the_delta_method() -> None:
    p = np.array([0.05, 0.25, 0.75, 0.95])
    q, density = stats.cauchy.ppf(p), stats.cauchy.pdf(stats.cauchy.ppf(p))
    covariance = [[min(a, b) * (1 - max(a, b)) / (f * g) for b, g in zip(p, density, strict=True)] for a, f in zip(p, density, strict=True)]
    slope = optimize.approx_fprime(q, lambda q: math.log((q[3] - q[0]) / (q[2] - q[1])), 1e-7)
    assert mcculloch._quantities(1.0) == pytest.approx((math.log(q[3]), 1.0, math.sqrt(slope @ covariance @ slope)), rel=1e-5)


def test_an_interval_takes_few_steps_of_newtons_and_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter()

    def counted(name: str) -> None:
        plain = getattr(likelihood._Sample, name)

        def count(*arguments: object, **options: object) -> object:
            calls[name] += 1
            return plain(*arguments, **options)

        monkeypatch.setattr(likelihood._Sample, name, count)

    counted("profile")
    counted("climb")
    for alpha in (0.8, 1.4, 1.9):
        calls.clear()
        fit(draws(alpha, 1000, 5), "mle")
        assert calls["climb"] == 1
        assert calls["profile"] < 17


def test_tables_are_made_once() -> None:
    assert ecf._table() is ecf._table()
    assert mcculloch._table() is mcculloch._table()
    assert likelihood._surface() is likelihood._surface()
    assert hill._tails() is hill._tails()
    assert standard._gauss_legendre(16) is standard._gauss_legendre(16)
    assert standard_law(1.3) is standard_law(1.3)
    assert hill._bias(0.1) is hill._bias(0.1)


# Invariance


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", [1e-12, 1e12, -1.0])
def test_fit_does_not_depend_on_the_unit(method: str, unit: float) -> None:
    sample = draws(1.5, (500, 3), 4, loc=1.0)
    assert_close(fit(sample, method), fit(unit * sample, method), unit, rtol=1e-6 if method == "mle" else 1e-9)


@pytest.mark.parametrize("method", METHODS)
@given(unit=st.floats(1e-6, 1e6), shift=st.floats(-50, 50), alpha=st.floats(1.1, 1.9), seed=st.integers(0, 99))
def test_fit_goes_with_unit_and_origin(method: str, unit: float, shift: float, alpha: float, seed: int) -> None:
    sample = draws(alpha, 300, seed)
    assert_close(fit(sample, method), fit(unit * (sample + shift), method), unit, unit * shift, rtol=1e-5 if method == "mle" else 1e-8)


@pytest.mark.parametrize("method", METHODS)
@given(alpha=st.floats(1.1, 1.9), seed=st.integers(0, 99))
def test_order_does_not_matter(method: str, alpha: float, seed: int) -> None:
    sample = draws(alpha, 300, seed)
    assert_close(fit(sample, method), fit(np.sort(sample), method), rtol=1e-5 if method == "mle" else 1e-10)


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 99))
def test_columns_are_fitted_on_their_own(method: str, seed: int) -> None:
    sample = draws(1.5, (400, 3), seed) * [1, 10, 1e-9]
    together = fit(sample, method)
    for column in range(3):
        alone = fit(sample[:, column], method)
        assert [type(field) for field in (alone.alpha, alone.reason, alone.reliable)] == [float, str, bool]
        assert alone.reason == together.reason[column]
        assert alone.alpha == pytest.approx(together.alpha[column], rel=1e-6)
        assert alone.scale == pytest.approx(together.scale[column], rel=1e-6, abs=0)
        assert alone.alpha_interval == pytest.approx([end[column] for end in together.alpha_interval], rel=1e-6)


# What is not a stable law


def test_what_no_stable_law_explains_is_not_passed_off_as_one() -> None:
    rng = np.random.default_rng(8)
    uniform, cubed, few = rng.uniform(size=2000), rng.standard_cauchy(2000) ** 3, rng.normal(size=199)
    for method in METHODS:
        assert not fit(uniform, method).reliable
        assert "199 samples" in fit(few, method).reason
    for method in ("mcculloch", "ecf", "mle"):
        assert fit(uniform, method).alpha == 2
        assert not fit(cubed, method).reliable
        assert fit(cubed, method).alpha == pytest.approx(0.51, rel=1e-12)
        assert "held" in fit(cubed, method).reason
    assert "below the Gaussian's 2.439" in fit(uniform).reason
    assert "lighter" in fit(uniform).reason
    assert "slope" in fit(uniform, "ecf").reason
    assert fit(uniform, "hill").alpha > 10
    assert "lighter tail than any stable law" in fit(uniform, "hill").reason
    assert fit(cubed, "hill").alpha == pytest.approx(1 / 3, rel=0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_column_of_zeros_leaves_the_others_alone(method: str) -> None:
    rng = np.random.default_rng(8)
    result = fit(np.stack([np.zeros(300), rng.standard_cauchy(300), np.repeat([0.0, 1, 5], 100)], axis=1), method)
    assert np.isnan(result.alpha[0])
    assert np.isnan([end[0] for end in result.alpha_interval]).all()
    assert (result.scale[0], result.loc[0], result.reliable[0]) == (0, 0, False)
    assert "interquartile range is zero" in result.reason[0]
    assert np.isfinite(result.alpha[1])


@pytest.mark.parametrize("method", ["mcculloch", "ecf", "mle"])
def test_gaussian_samples_are_often_held_at_two_and_marked(method: str) -> None:
    result = fit(np.random.default_rng(9).normal(size=(1000, 60)), method)
    held = result.alpha == 2
    assert 15 < held.sum() < 58
    np.testing.assert_array_equal(result.reliable, ~held)
    assert (result.alpha_interval[1] == 2).mean() > 0.9
    assert (result.alpha_interval[0] < 2).mean() > 0.9


# Goodness of fit


def test_distance_is_the_integral() -> None:
    x = draws(1.5, 100, 20)
    fitted = fit(x, "ecf")
    z = (x - fitted.loc) / fitted.scale
    u = np.linspace(-4, 4, 2001)
    gap = np.abs(np.exp(1j * np.outer(u, z)).mean(1) - np.exp(-(np.abs(u) ** fitted.alpha))) ** 2
    expected = 100 * np.trapezoid(np.exp(-(u**2) / 4) * gap, u)
    assert goodness_of_fit(x, fitted, np.random.default_rng(0), 19).distance == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mcculloch", "ecf"])
def test_product_of_gaussians_and_laplace_are_told_from_stable_laws(method: str) -> None:
    rng = np.random.default_rng(21)
    product, laplace = rng.normal(size=(2, 2000, 20)).prod(0), rng.laplace(size=(2000, 20))
    for sample in (product, laplace):
        fitted = fit(sample, method)
        assert fitted.alpha.max() < 1.8  # all of them look heavy-tailed
        assert (goodness_of_fit(sample, fitted, rng, 39).p_value <= 0.05).sum() >= 18


@pytest.mark.slow
@pytest.mark.parametrize(("method", "alpha", "columns"), [("ecf", 1.5, 300), ("mcculloch", 1.8, 300), ("mle", 1.3, 40)])
def test_stable_samples_are_rejected_as_often_as_the_level_says(method: str, alpha: float, columns: int) -> None:
    sample = draws(alpha, (300, columns), 22)
    p_value = goodness_of_fit(sample, fit(sample, method), np.random.default_rng(23), 19).p_value
    for level in (0.05, 0.5):
        least, most = stats.binom.ppf([0.001, 0.999], columns, level)
        assert least <= (p_value <= level + 1e-9).sum() <= most


def test_goodness_of_fit_has_no_unit_and_knows_its_columns() -> None:
    sample = np.stack([draws(1.4, 400, 24), np.zeros(400)], axis=1)

    def judged(unit: float) -> tuple:
        return dataclasses.astuple(goodness_of_fit(unit * sample, fit(unit * sample, "ecf"), np.random.default_rng(1), 19))

    plain, scaled = judged(1.0), judged(1e-12)
    np.testing.assert_allclose(scaled[0], plain[0], rtol=1e-7)
    assert plain[1][0] == scaled[1][0]
    assert np.isnan([plain[0][1], plain[1][1]]).all()
    alone = goodness_of_fit(sample[:, 0], fit(sample[:, 0], "ecf"), np.random.default_rng(1), 19)
    assert (type(alone.distance), alone.p_value, alone.replicates) == (float, plain[1][0], 19)


def test_replicates_may_come_in_several_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    for block in (100, 1000):  # one at a time, and five
        monkeypatch.setattr(goodness, "_BLOCK", block)
        distances = goodness._bootstrap(SymmetricStable(1.4), 200, 19, "mcculloch", np.random.default_rng(1))
        assert distances.shape == np.unique(distances).shape == (19,)


def test_results_do_not_change() -> None:
    sample = draws(1.5, 300, 4)
    fitted = fit(sample)
    for result in (SymmetricStable(1.5), fitted, goodness_of_fit(sample, fitted, np.random.default_rng(1), 19)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, dataclasses.fields(result)[0].name, 1.0)


def test_a_tail_no_stable_law_has_gets_no_p_value() -> None:
    sample = np.random.default_rng(2).uniform(size=500)
    assert math.isnan(goodness_of_fit(sample, fit(sample, "hill"), np.random.default_rng(1)).p_value)
    nearly = draws(1.85, 1000, 0)
    fitted = fit(nearly, "hill")
    assert 2 < fitted.alpha < 3
    assert math.isnan(goodness_of_fit(nearly, fitted, np.random.default_rng(1)).p_value)


def test_no_p_value_is_below_one_in_one_more_than_the_replicates() -> None:
    sample = np.random.default_rng(3).uniform(size=1000)
    assert goodness_of_fit(sample, fit(sample), np.random.default_rng(1), 19).p_value == 1 / 20


def test_no_interval_is_sought_where_none_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(likelihood._Sample, "interval")
    found = likelihood.estimate(draws(1.4, (200, 2), 8), 0.0)
    assert np.isfinite(found.alpha).all()
    assert np.isnan([found.low, found.high]).all()


def test_two_hundred_samples_are_enough() -> None:
    assert fit(draws(1.4, 200, 1)).reliable
    assert "199 samples, fewer than 200" in fit(draws(1.4, 199, 1)).reason


# Arguments


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([1.0, math.nan], {}, "samples.*finite"),
        (np.zeros((2, 2, 2)), {}, "samples has shape"),
        ([1.0], {}, "at least 2"),
        ([1.0, 2.0], {"method": "guess"}, "method = 'guess'.*'mcculloch'.*'ecf'.*'hill'.*'mle'"),
        ([1.0, 2.0], {"confidence": 1.0}, "confidence = 1.0"),
    ],
)
def test_bad_input_to_fit_is_named(samples: list, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(samples, **options)


def test_bad_input_to_goodness_of_fit_is_named() -> None:
    sample, rng = draws(1.5, (300, 2), 25), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"samples has shape \(300,\)"):
        goodness_of_fit(sample[:, 0], fit(sample), rng)
    with pytest.raises(ValueError, match="replicates = 5"):
        goodness_of_fit(sample, fit(sample), rng, 5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_handful_of_samples_is_no_error(method: str, count: int) -> None:
    result = fit(np.random.default_rng(count).normal(size=(count, 4)), method)
    assert not result.reliable.any()
