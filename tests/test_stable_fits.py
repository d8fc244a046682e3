"""The estimators against their own claims: coverage, invariance, oracles, and what they say of laws
that are not stable."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from lwcore.stable import SymmetricStable, fit, fits, goodness_of_fit

METHODS = ["mcculloch", "ecf", "mle"]


def draws(
    alpha: float, size: int | tuple[int, ...], seed: int, scale: float = 1.0, loc: float = 0.0
) -> np.ndarray:
    """Samples of a stable law."""
    return SymmetricStable(alpha, scale, loc).sample(size, np.random.default_rng(seed))


def assert_close(
    one: object, other: object, unit: float = 1.0, shift: float = 0.0, rtol: float = 1e-9
) -> None:
    """Assert that the fit `other` is `one` in another unit and with another origin."""
    np.testing.assert_allclose(other.alpha, one.alpha, rtol=rtol)
    np.testing.assert_allclose(other.alpha_interval, one.alpha_interval, rtol=rtol)
    np.testing.assert_allclose(other.scale, abs(unit) * np.asarray(one.scale), rtol=rtol)
    np.testing.assert_allclose(
        (other.loc - shift) / other.scale, np.sign(unit) * one.loc / one.scale, atol=rtol
    )
    np.testing.assert_array_equal(other.reliable, one.reliable)


# Coverage


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.8, 1.1, 1.5, 1.9])
@pytest.mark.parametrize(
    ("method", "replications"), [("mcculloch", 1500), ("ecf", 1500), ("mle", 150)]
)
def test_interval_covers_as_often_as_it_says(method: str, replications: int, alpha: float) -> None:
    low, high = fit(draws(alpha, (1000, replications), 11), method).alpha_interval
    covered = int(((low <= alpha) & (alpha <= high)).sum())
    least, most = stats.binom.ppf([0.001, 0.999], replications, 0.95)
    assert least <= covered <= most


@pytest.mark.slow
@pytest.mark.parametrize(("method", "columns"), [("mcculloch", 2000), ("ecf", 2000), ("mle", 120)])
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

    # the error falls as 1/√n
    assert width(every=16) / width() == pytest.approx(4, rel=0.15)
    assert width(confidence=0.99) / width(confidence=0.9) == pytest.approx(
        2.5758 / 1.6449, rel=2e-2
    )


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
def test_the_likelihood_is_sharper_than_the_characteristic_function_and_that_than_quantiles() -> (
    None
):
    sample = draws(1.2, (1000, 200), 14)
    quantiles, curve, full = (
        np.std(fit(sample, method).alpha) for method in ("mcculloch", "ecf", "mle")
    )
    assert full < 0.95 * curve < 0.95 * quantiles


def test_weights_of_the_line_rest_on_the_covariance_that_samples_show() -> None:
    u, n = np.array([0.2, 0.5, 0.9]), 500
    phi = np.array([np.exp(1j * v * draws(1.4, (n, 4000), 19)).mean(0) for v in u])
    for predicted, seen in zip(
        fits._covariance(u, 1.4), (np.log(-np.log(np.abs(phi) ** 2)), np.angle(phi)), strict=True
    ):
        np.testing.assert_allclose(n * np.cov(seen), predicted, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ecf", "mle"])
def test_location_is_nearly_as_sharp_as_its_information_allows(method: str) -> None:
    law = SymmetricStable(1.2)
    loc = fit(draws(1.2, (500, 400), 26), method).loc
    assert np.std(loc) * math.sqrt(500 * law.fisher_information()) == pytest.approx(1, abs=0.1)


@given(alpha=st.floats(0.52, 1.99))
def test_exact_quantiles_give_the_parameters_back(alpha: float) -> None:
    # Ten samples at the quantiles 0.05, 0.15, ..., 0.95 of a law: their own quantiles at 0.05,
    # 0.25, 0.75 and 0.95 are exactly the law's.
    law = SymmetricStable(alpha, scale=1e-12, loc=3e-12)
    result = fit(law.ppf(np.arange(5, 100, 10) / 100))
    assert result.alpha == pytest.approx(alpha, abs=2e-6)
    assert result.scale == pytest.approx(law.scale, rel=1e-6, abs=0)
    assert result.loc == pytest.approx(law.loc, rel=1e-9, abs=0)


def test_characteristic_function_is_the_mean_of_phases() -> None:
    x = draws(1.2, (3000, 20), 15)  # two blocks
    phi = fits.characteristic_function(x, 0.3, 4)
    np.testing.assert_allclose(
        phi, [np.exp(0.3j * k * x).mean(0) for k in (1, 2, 3, 4)], atol=1e-13
    )
    x[7] = -1e9  # a phase that no digit tells
    np.testing.assert_allclose(
        fits.characteristic_function(x, 0.3, 1)[0],
        np.exp(0.3j * np.delete(x, 7, 0)).sum(0) / 3000,
        atol=1e-13,
    )


def test_phases_count_up_to_where_their_digits_end() -> None:
    at_end, beyond = 1e8, 1e8 + 0.5
    phi = fits.characteristic_function(np.array([[at_end, beyond, -beyond]]), 0.3, 2)
    np.testing.assert_allclose(phi[:, 0], np.exp(0.3j * at_end * np.array([1, 2])), atol=1e-6)
    np.testing.assert_array_equal(phi[:, 1:], 0)


@pytest.mark.parametrize("alpha", [1.15, 1.6, 1.95])
def test_line_is_exact_where_the_characteristic_function_is(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exact(samples: np.ndarray, step: float, points: int) -> np.ndarray:
        u = step * np.arange(1, points + 1)[:, None]
        # of scale 1.1 and location −0.2 in units of the first fit
        power = np.exp(-2 * (1.1 * u) ** alpha)
        n, columns = samples.shape
        return np.sqrt(power + (1 - power) / n) * np.exp(-0.2j * u) * np.ones(columns)

    monkeypatch.setattr(fits, "characteristic_function", exact)
    sample = draws(1.5, 300, 16)
    first, result = fit(sample), fit(sample, "ecf")
    assert result.alpha == pytest.approx(alpha, rel=1e-9)
    assert result.scale == pytest.approx(1.1 * first.scale, rel=1e-9)
    assert result.loc == pytest.approx(first.loc - 0.2 * first.scale, rel=1e-9)


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
def test_the_likelihood_is_greatest_there_and_falls_by_the_quantile_at_the_ends(
    alpha: float,
) -> None:
    x = draws(alpha, 300, 18, scale=2.0, loc=1.0)
    result = fit(x, "mle")

    def descent(alpha: float, log_scale: float, loc: float) -> float:
        return -SymmetricStable(alpha, math.exp(log_scale), loc).logpdf(x).sum()

    best = descent(result.alpha, math.log(result.scale), result.loc)
    for step in np.vstack([0.02 * np.eye(3), -0.02 * np.eye(3)]):
        assert (
            descent(result.alpha + step[0], math.log(result.scale) + step[1], result.loc + step[2])
            > best
        )
    for end in result.alpha_interval:
        if end == 2:
            assert 2 * (stats.norm.nnlf(stats.norm.fit(x), x) - best) < 3.8415
        else:
            profile = optimize.minimize(
                lambda p, end=end: descent(end, *p),
                [math.log(result.scale), result.loc],
                method="Nelder-Mead",
            ).fun
            assert 2 * (profile - best) == pytest.approx(3.8415, rel=0.01)


def test_spread_of_the_quantile_ratio_by_the_delta_method() -> None:
    p = np.array([0.05, 0.25, 0.75, 0.95])
    q, density = stats.cauchy.ppf(p), stats.cauchy.pdf(stats.cauchy.ppf(p))
    covariance = [
        [min(a, b) * (1 - max(a, b)) / (f * g) for b, g in zip(p, density, strict=True)]
        for a, f in zip(p, density, strict=True)
    ]
    slope = optimize.approx_fprime(q, lambda q: math.log((q[3] - q[0]) / (q[2] - q[1])), 1e-7)
    assert fits._quantities(1.0) == pytest.approx(
        (math.log(q[3]), 1.0, math.sqrt(slope @ covariance @ slope)), rel=1e-5
    )


# Invariance


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unit", [1e-12, 1e12, -1.0])
def test_fit_does_not_depend_on_the_unit(method: str, unit: float) -> None:
    sample = draws(1.5, (500, 3), 4, loc=1.0)
    assert_close(
        fit(sample, method),
        fit(unit * sample, method),
        unit,
        rtol=1e-6 if method == "mle" else 1e-9,
    )


@pytest.mark.parametrize("method", METHODS)
@given(
    unit=st.floats(1e-6, 1e6),
    shift=st.floats(-50, 50),
    alpha=st.floats(1.1, 1.9),
    seed=st.integers(0, 99),
)
def test_fit_goes_with_unit_and_origin(
    method: str, unit: float, shift: float, alpha: float, seed: int
) -> None:
    sample = draws(alpha, 300, seed)
    assert_close(
        fit(sample, method),
        fit(unit * (sample + shift), method),
        unit,
        unit * shift,
        rtol=1e-5 if method == "mle" else 1e-8,
    )


@pytest.mark.parametrize("method", METHODS)
@given(alpha=st.floats(1.1, 1.9), seed=st.integers(0, 99))
def test_order_does_not_matter(method: str, alpha: float, seed: int) -> None:
    sample = draws(alpha, 300, seed)
    assert_close(
        fit(sample, method), fit(np.sort(sample), method), rtol=1e-5 if method == "mle" else 1e-10
    )


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 99))
def test_columns_are_fitted_on_their_own(method: str, seed: int) -> None:
    sample = draws(1.5, (400, 3), seed) * [1, 10, 1e-9]
    together = fit(sample, method)
    for column in range(3):
        alone = fit(sample[:, column], method)
        assert np.shape(alone.alpha) == np.shape(alone.reason) == ()
        assert alone.reason == together.reason[column]
        assert alone.alpha == pytest.approx(together.alpha[column], rel=1e-6)
        assert alone.scale == pytest.approx(together.scale[column], rel=1e-6, abs=0)
        assert alone.alpha_interval == pytest.approx(
            [end[column] for end in together.alpha_interval], rel=1e-6
        )


# What is not a stable law


def test_what_no_stable_law_explains_is_not_passed_off_as_one() -> None:
    rng = np.random.default_rng(8)
    uniform, cubed, few = (
        rng.uniform(size=2000),
        rng.standard_cauchy(2000) ** 3,
        rng.normal(size=199),
    )
    for method in METHODS:
        assert not fit(uniform, method).reliable
        assert "199 samples" in fit(few, method).reason
        assert fit(uniform, method).alpha == 2
        assert "held at 2" in fit(uniform, method).reason
        assert not fit(cubed, method).reliable
        assert fit(cubed, method).alpha == pytest.approx(0.51, rel=1e-12)
        assert "held" in fit(cubed, method).reason


@pytest.mark.parametrize("method", METHODS)
def test_a_column_of_zeros_leaves_the_others_alone(method: str) -> None:
    rng = np.random.default_rng(8)
    result = fit(
        np.stack([np.zeros(300), rng.standard_cauchy(300), np.repeat([0.0, 1, 5], 100)], axis=1),
        method,
    )
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
    assert goodness_of_fit(x, fitted, np.random.default_rng(0), 19).distance == pytest.approx(
        expected, rel=0.02
    )


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
@pytest.mark.parametrize(
    ("method", "alpha", "columns"), [("ecf", 1.5, 300), ("mcculloch", 1.8, 300), ("mle", 1.3, 40)]
)
def test_stable_samples_are_rejected_as_often_as_the_level_says(
    method: str, alpha: float, columns: int
) -> None:
    sample = draws(alpha, (300, columns), 22)
    p_value = goodness_of_fit(sample, fit(sample, method), np.random.default_rng(23), 19).p_value
    for level in (0.05, 0.5):
        least, most = stats.binom.ppf([0.001, 0.999], columns, level)
        assert least <= (p_value <= level + 1e-9).sum() <= most


def test_goodness_of_fit_has_no_unit_and_knows_its_columns() -> None:
    sample = np.stack([draws(1.4, 400, 24), np.zeros(400)], axis=1)

    def judged(unit: float) -> tuple:
        fitted = fit(unit * sample, "ecf")
        return goodness_of_fit(unit * sample, fitted, np.random.default_rng(1), 19)

    plain, scaled = judged(1.0), judged(1e-12)
    np.testing.assert_allclose(scaled[0], plain[0], rtol=1e-7)
    assert plain[1][0] == scaled[1][0]
    assert np.isnan([plain[0][1], plain[1][1]]).all()
    alone = goodness_of_fit(sample[:, 0], fit(sample[:, 0], "ecf"), np.random.default_rng(1), 19)
    assert (np.shape(alone.distance), alone.p_value) == ((), plain[1][0])


def test_replicates_may_come_in_several_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = draws(1.4, 200, 24)
    fitted = fit(sample)

    def p_value(at_once: int) -> float:
        monkeypatch.setattr(fits, "_AT_ONCE", at_once)
        return goodness_of_fit(sample, fitted, np.random.default_rng(1), 199).p_value

    one, several, single = p_value(1 << 20), p_value(1000), p_value(1)
    assert 0.1 < one < 0.9
    assert several == pytest.approx(one, abs=0.15)  # three standard errors of a difference
    assert single == pytest.approx(one, abs=0.15)


def test_no_p_value_is_below_one_in_one_more_than_the_replicates() -> None:
    sample = np.random.default_rng(3).uniform(size=1000)
    assert goodness_of_fit(sample, fit(sample), np.random.default_rng(1), 19).p_value == 1 / 20


def test_two_hundred_samples_are_enough() -> None:
    assert fit(draws(1.4, 200, 1)).reliable
    assert "199 samples, fewer than 200" in fit(draws(1.4, 199, 1)).reason


# Arguments


def test_bad_input_to_goodness_of_fit_is_named() -> None:
    sample, rng = draws(1.5, (300, 2), 25), np.random.default_rng(0)
    with pytest.raises(
        ValueError, match=r"samples = ndarray of float64 and shape \(300,\): must be"
    ):
        goodness_of_fit(sample[:, 0], fit(sample), rng)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_handful_of_samples_is_no_error(method: str, count: int) -> None:
    result = fit(np.random.default_rng(count).normal(size=(count, 4)), method)
    assert not result.reliable.any()
