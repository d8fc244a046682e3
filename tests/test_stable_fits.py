"""The estimators against their own claims: coverage, invariance, oracles, and what they say of laws
that are not stable."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lwcore.stable import SymmetricStable, fit, fits, goodness_of_fit

METHODS = ["mcculloch", "ecf"]
by_method = pytest.mark.parametrize("method", METHODS)


def draws(
    alpha: float, size: int | tuple[int, ...], seed: int, scale: float = 1.0, loc: float = 0.0
) -> np.ndarray:
    """Samples of a stable law."""
    return SymmetricStable(alpha, scale, loc).sample(size, np.random.default_rng(seed))


def within(hits: int, trials: int, chance: float) -> bool:
    """Whether as many hits can be expected, in 998 of 1000 cases."""
    least, most = stats.binom.ppf([0.001, 0.999], trials, chance)
    return least <= hits <= most


# What they find


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.1, 1.9])
@by_method
def test_interval_covers_as_often_as_it_says_and_is_as_wide_as_the_estimate_scatters(method, alpha):
    columns = 600
    fitted = fit(draws(alpha, (1000, columns), 11, scale=3.0, loc=-2.0), method)
    low, high = fitted.alpha_interval
    assert within(((low <= alpha) & (alpha <= high)).sum(), columns, 0.95)
    assert np.median(fitted.alpha) == pytest.approx(alpha, abs=0.02)
    assert np.median(fitted.scale) == pytest.approx(3, rel=0.02)
    assert np.median(fitted.loc) == pytest.approx(-2, abs=0.06)
    if alpha < 1.9:  # no end is held at 2
        error = 3 / math.sqrt(2 * columns)  # three standard errors of a standard deviation
        assert np.mean(high - low) == pytest.approx(3.92 * fitted.alpha.std(), rel=error + 0.03)
    if alpha == 1.1 and method != "mcculloch":
        # nearly as sharp as the information allows
        least = 9 / (1000 * SymmetricStable(alpha).fisher_information())
        assert fitted.loc.var() / least == pytest.approx(1, abs=3 * math.sqrt(2 / columns) + 0.1)


@given(alpha=st.floats(0.52, 1.99))
def test_exact_quantiles_give_the_parameters_back(alpha):
    # Ten samples at the quantiles 0.05, 0.15, ..., 0.95 of a law: their own quantiles at 0.05,
    # 0.25, 0.75 and 0.95 are exactly the law's.
    law = SymmetricStable(alpha, scale=1e-12, loc=3e-12)
    fitted = fit(law.ppf(np.arange(5, 100, 10) / 100))
    assert fitted.alpha == pytest.approx(alpha, abs=2e-6)
    assert fitted.scale == pytest.approx(law.scale, rel=1e-6, abs=0)
    assert fitted.loc == pytest.approx(law.loc, rel=1e-9, abs=0)


def test_characteristic_function_is_the_mean_of_phases_that_digits_tell():
    x = draws(1.2, (3000, 20), 15)
    x[7:9] = [[-1e9], [1e8]]
    with_phase = np.delete(x, 7, axis=0)
    phi = []
    for u in 0.3 * np.arange(1, 5):
        phi.append(np.exp(1j * u * with_phase).sum(0) / 3000)
    np.testing.assert_allclose(fits.characteristic_function(x, 0.3, 4), phi, atol=1e-9)


@pytest.mark.parametrize("alpha", [1.15, 1.6, 1.95])
def test_line_is_exact_where_the_characteristic_function_is(alpha, monkeypatch):
    def exact(samples, step, points):
        n, columns = samples.shape
        u = step * np.arange(1, points + 1)[:, None]
        # of scale 1.1 and location −0.2 in units of the first fit
        power = np.exp(-2 * (1.1 * u) ** alpha)
        return np.sqrt(power + (1 - power) / n) * np.exp(-0.2j * u) * np.ones(columns)

    monkeypatch.setattr(fits, "characteristic_function", exact)
    sample = draws(1.5, 300, 16)
    first = fit(sample)
    fitted = fit(sample, "ecf")
    assert fitted.alpha == pytest.approx(alpha, rel=1e-9)
    assert fitted.scale == pytest.approx(1.1 * first.scale, rel=1e-9)
    assert fitted.loc == pytest.approx(first.loc - 0.2 * first.scale, rel=1e-9)


# Invariance


@by_method
@given(
    unit=st.floats(-12, 12).map(lambda exponent: 10**exponent),
    side=st.sampled_from([-1, 1]),
    shift=st.floats(-50, 50),
    alpha=st.floats(1.1, 1.9),
    seed=st.integers(0, 99),
)
def test_fit_goes_with_unit_and_origin_whatever_order_and_other_columns(
    method, unit, side, shift, alpha, seed
):
    near = partial(np.testing.assert_allclose, rtol=1e-8)
    sample = draws(alpha, (300, 2), seed)
    fitted = fit(sample, method)
    unit = side * unit
    moved = fit(unit * (np.sort(sample[:, 0]) + shift), method)
    assert np.shape(moved.alpha) == np.shape(moved.reason) == ()
    assert moved.reason == fitted.reason[0]
    near(moved.alpha, fitted.alpha[0])
    near(moved.alpha_interval, [end[0] for end in fitted.alpha_interval])
    near(moved.scale, abs(unit) * fitted.scale[0])
    moved_back = (moved.loc / unit - shift) / fitted.scale[0]
    assert moved_back == pytest.approx(fitted.loc[0] / fitted.scale[0], abs=1e-8)


# What is not a stable law


@by_method
def test_what_no_stable_law_explains_is_not_passed_off_as_one(method):
    rng = np.random.default_rng(8)
    light = fit(rng.uniform(size=2000), method)
    heavy = fit(rng.standard_cauchy(2000) ** 3, method)
    for fitted, end in ((light, 2), (heavy, 0.51)):
        assert not fitted.reliable
        assert fitted.alpha == pytest.approx(end, rel=1e-12)
        assert f"held at {end}" in fitted.reason
    assert fit(draws(1.4, 200, 1), method).reliable
    assert "199 samples, fewer than 200" in fit(draws(1.4, 199, 1), method).reason
    assert not fit(rng.normal(size=(2, 4)), method).reliable.any()


@by_method
def test_a_column_of_zeros_leaves_the_others_alone(method):
    columns = draws(1.0, (300, 2), 8)
    columns[:, 0] = 0.0
    fitted = fit(columns, method)
    low, high = fitted.alpha_interval
    assert np.isnan([fitted.alpha[0], low[0], high[0]]).all()
    assert fitted.scale[0] == fitted.loc[0] == 0
    assert "interquartile range is zero" in fitted.reason[0]
    assert np.isfinite(fitted.alpha[1])


# Ties


@by_method
def test_samples_that_come_again_have_no_tail_index(method):
    """They are fewer than they seem, or from no stable law; other columns are left alone."""
    columns = draws(1.6, (2000, 3), 3)
    columns[:200, 0] = 0.0
    columns[:500, 1] = columns[500:1000, 1]
    fitted = fit(columns, method)
    low, high = fitted.alpha_interval
    assert np.isnan([fitted.alpha[:2], low[:2], high[:2]]).all()
    assert fitted.reason.tolist() == [f"{n} % of the samples are tied" for n in (10, 50)] + [""]
    assert np.isfinite(fitted.alpha[2])


def test_ties_that_no_estimate_feels_are_no_doubt():
    """Fewer than sampling error hides, and pairs that rounding makes."""
    sample = draws(1.5, 2000, 10)
    for count in (44, 45):  # 1/√2000 is 45 of them
        tied = sample.copy()
        tied[:count] = 0.0
        assert fit(tied).reliable == (count == 44)
    assert fit(sample.astype(np.float32)).reliable
    assert not fit(sample.round(1)).reliable


# Goodness of fit


def test_distance_is_the_integral():
    x = draws(1.5, 100, 20)
    fitted = fit(x, "ecf")
    u = np.linspace(-4, 4, 2001)
    z = (x - fitted.loc) / fitted.scale
    of_samples = np.exp(1j * np.outer(u, z)).mean(1)
    of_law = np.exp(-(np.abs(u) ** fitted.alpha))
    gap = np.abs(of_samples - of_law) ** 2
    expected = 100 * np.trapezoid(np.exp(-(u**2) / 4) * gap, u)
    goodness = goodness_of_fit(x, fitted, np.random.default_rng(0), 19)
    assert goodness.distance == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_product_of_gaussians_and_laplace_are_told_from_stable_laws():
    rng = np.random.default_rng(21)
    for sample in (rng.normal(size=(2, 2000, 20)).prod(0), rng.laplace(size=(2000, 20))):
        fitted = fit(sample, "ecf")
        assert fitted.alpha.max() < 1.8  # all of them look heavy-tailed
        p_value = goodness_of_fit(sample, fitted, rng, 39).p_value
        assert (p_value <= 0.05).sum() >= 18
        assert p_value.min() == 1 / 40


@pytest.mark.slow
@pytest.mark.parametrize(("method", "alpha"), [("ecf", 1.5), ("mcculloch", 1.8)])
def test_stable_samples_are_rejected_as_often_as_the_level_says(method, alpha):
    columns = 200
    sample = draws(alpha, (300, columns), 22)
    p_value = goodness_of_fit(sample, fit(sample, method), np.random.default_rng(23), 19).p_value
    for level in (0.05, 0.5):
        assert within((p_value <= level + 1e-9).sum(), columns, level)


def test_goodness_of_fit_has_no_unit_and_knows_its_columns():
    sample = np.stack([draws(1.4, 200, 24), np.zeros(200)], axis=1)

    def judged(sample):
        return goodness_of_fit(sample, fit(sample, "ecf"), np.random.default_rng(1), 19)

    plain = judged(sample)
    scaled = judged(1e-12 * sample)
    np.testing.assert_allclose(scaled.distance, plain.distance, rtol=1e-7)
    assert scaled.p_value[0] == plain.p_value[0]
    assert judged(sample[:, 0]).p_value == plain.p_value[0]
    assert np.isnan([plain.distance[1], plain.p_value[1]]).all()
