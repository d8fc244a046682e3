"""The estimators against their own claims: coverage, invariance, oracles, and what they say of laws
that are not stable."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from lwcore.signatures import ArgumentError
from lwcore.stable import SymmetricStable, fit, fits, goodness_of_fit

METHODS = ["mcculloch", "ecf", "mle"]
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
@pytest.mark.parametrize("alpha", [0.8, 1.1, 1.5, 1.9])
@pytest.mark.parametrize(("method", "columns"), [("mcculloch", 1500), ("ecf", 1500), ("mle", 100)])
def test_interval_covers_as_often_as_it_says_and_is_as_wide_as_the_estimate_scatters(
    method, columns, alpha
):
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


@by_method
def test_interval_is_wider_for_more_confidence(method):
    sample = draws(1.4, 10_000, 1)
    width_at_99 = np.ptp(fit(sample, method, 0.99).alpha_interval)
    width_at_90 = np.ptp(fit(sample, method, 0.9).alpha_interval)
    assert width_at_99 / width_at_90 == pytest.approx(2.5758 / 1.6449, rel=2e-2)


@by_method
def test_an_end_that_nothing_excludes_is_the_least_alpha(method):
    fitted = fit(draws(0.53, 300, 1), method)
    assert fitted.alpha > 0.53
    assert fitted.alpha_interval[0] == pytest.approx(0.51, rel=1e-12)


def test_an_outlier_excludes_the_gaussian_and_no_alpha_beside_it():
    sample = np.append(np.random.default_rng(1).normal(size=20_000), 40.0)
    low, high = fit(sample, "mle").alpha_interval
    assert 2 - low > 1e-3
    assert 2 - high == pytest.approx(1e-4, rel=1e-9)  # the nearest tabulated


@pytest.mark.parametrize(("alpha", "law"), [(1.0, stats.cauchy()), (2.0, stats.norm(0, 2**0.5))])
def test_spread_of_the_quantile_ratio_by_the_delta_method(alpha, law):
    p = np.array([0.05, 0.25, 0.75, 0.95])
    q = law.ppf(p)
    bridge = np.minimum.outer(p, p) - np.outer(p, p)

    def log_ratio(quantiles):
        lowest, lower, upper, highest = quantiles
        return math.log((highest - lowest) / (upper - lower))

    slope = optimize.approx_fprime(q, log_ratio, 1e-7) / law.pdf(q)
    spread = math.sqrt(slope @ bridge @ slope)
    expected = math.log(q[3] / q[2]), q[2], spread
    assert fits._quantities(alpha) == pytest.approx(expected, rel=1e-5)


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


def test_weights_of_the_line_rest_on_the_covariance_that_samples_show():
    n = 500
    u = np.array([0.2, 0.5, 0.9])
    x = draws(1.4, (n, 4000), 19)
    phi = np.array([np.exp(1j * frequency * x).mean(0) for frequency in u])
    of_modulus, of_phase = fits._covariance(u, 1.4)
    log_log_modulus = np.log(-np.log(np.abs(phi) ** 2))
    np.testing.assert_allclose(n * np.cov(log_log_modulus), of_modulus, rtol=0.1)
    np.testing.assert_allclose(n * np.cov(np.angle(phi)), of_phase, rtol=0.1)


@pytest.mark.parametrize("alpha", [0.75, 1.25, 1.7, 1.93])
def test_the_likelihood_is_greatest_there_and_falls_by_the_quantile_at_the_ends(alpha):
    x = draws(alpha, 300, 18, scale=2.0, loc=1.0)
    fitted = fit(x, "mle")
    point = np.array([fitted.alpha, math.log(fitted.scale), fitted.loc])

    def minus_log_likelihood(alpha, log_scale, loc):
        return -SymmetricStable(alpha, math.exp(log_scale), loc).logpdf(x).sum()

    best = minus_log_likelihood(*point)
    for step in 0.02 * np.eye(3):
        assert minus_log_likelihood(*(point + step)) > best
        assert minus_log_likelihood(*(point - step)) > best
    quantile = stats.chi2.ppf(0.95, 1)
    for end in fitted.alpha_interval:
        if end == 2:
            assert 2 * (stats.norm.nnlf(stats.norm.fit(x), x) - best) < quantile
            continue

        def at_end(others, end=end):
            return minus_log_likelihood(end, *others)

        profile = optimize.minimize(at_end, point[1:], method="Nelder-Mead")
        assert 2 * (profile.fun - best) == pytest.approx(quantile, rel=0.01)


@pytest.mark.parametrize("tabulated", [20, 45])
def test_tabulated_densities_have_the_scores_and_informations_of_the_law(tabulated):
    alpha, cubic, information = (table[tabulated] for table in fits._log_density_table())
    law = SymmetricStable(alpha)
    t = fits._SPACING * np.arange(fits._NODES - 1)
    np.testing.assert_allclose(cubic[1], -law.score(np.sinh(t)) * np.cosh(t), atol=1e-5)
    x = law.ppf((np.arange(1000) + 0.5) / 1000)
    of_scale = np.mean((1 - x * law.score(x)) ** 2)
    np.testing.assert_allclose(information, [of_scale, law.fisher_information()], rtol=1e-4)


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
    tolerance = 1e-5 if method == "mle" else 1e-8
    near = partial(np.testing.assert_allclose, rtol=tolerance)
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
    assert moved_back == pytest.approx(fitted.loc[0] / fitted.scale[0], abs=tolerance)


# What is not a stable law


@by_method
def test_what_no_stable_law_explains_is_not_passed_off_as_one(method):
    rng = np.random.default_rng(8)
    light = fit(rng.uniform(size=2000), method)
    assert not light.reliable
    assert light.alpha == 2
    assert "alpha is held at 2" in light.reason
    heavy = fit(rng.standard_cauchy(2000) ** 3, method)
    assert not heavy.reliable
    assert heavy.alpha == pytest.approx(0.51, rel=1e-12)
    assert "held at 0.51" in heavy.reason
    assert fit(draws(1.4, 200, 1), method).reliable
    assert "199 samples, fewer than 200" in fit(draws(1.4, 199, 1), method).reason
    for count in (2, 3, 5):  # no error
        assert not fit(rng.normal(size=(count, 4)), method).reliable.any()


@by_method
def test_a_column_of_zeros_leaves_the_others_alone(method):
    columns = np.zeros(300), draws(1.0, 300, 8), np.repeat([0.0, 1, 5], 100)
    fitted = fit(np.stack(columns, axis=1), method)
    low, high = fitted.alpha_interval
    assert np.isnan([fitted.alpha[0], low[0], high[0]]).all()
    assert fitted.scale[0] == 0
    assert fitted.loc[0] == 0
    assert not fitted.reliable[0]
    assert "interquartile range is zero" in fitted.reason[0]
    assert np.isfinite(fitted.alpha[1])


@by_method
def test_gaussian_samples_are_often_held_at_two_and_marked(method):
    sample = np.random.default_rng(9).normal(3, 2, size=(1000, 60))
    fitted = fit(sample, method)
    held = fitted.alpha == 2
    assert 15 < held.sum() < 58
    np.testing.assert_array_equal(fitted.reliable, ~held)
    assert (fitted.alpha_interval[1] == 2).mean() > 0.9
    assert (fitted.alpha_interval[0] < 2).mean() > 0.9
    if method == "mle":  # the likeliest Gaussian
        np.testing.assert_allclose(fitted.loc[held], sample.mean(0)[held], rtol=1e-12)
        np.testing.assert_allclose(2 * fitted.scale[held] ** 2, sample.var(0)[held], rtol=1e-12)


def test_what_the_characteristic_function_cannot_tell_is_left_to_the_quantiles():
    x = np.random.default_rng(1).standard_cauchy(5)
    fitted = fit(x, "ecf")
    assert "lost in its noise" in fitted.reason
    assert math.isnan(fitted.alpha)
    first = fit(x)
    assert fitted.scale == first.scale
    assert fitted.loc == first.loc


# Ties


@by_method
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.3, 0.45, 0.49, 0.5, 0.6])
@pytest.mark.parametrize("value", [0.0, 1.5])
def test_samples_of_which_many_are_the_same_have_no_tail_index(method, share, value):
    for alpha in (1.5, 2.0):
        sample = draws(alpha, 2000, 5)
        sample[: int(share * 2000)] = value
        fitted = fit(sample, method)
        assert not fitted.reliable
        assert math.isnan(fitted.alpha)
        assert np.isnan(fitted.alpha_interval).all()
        expected = f"{100 * share:.2g} % of the samples are tied, most of them at {value:g}"
        assert fitted.reason in (expected, "the interquartile range is zero")


@by_method
def test_samples_clipped_at_a_norm_and_prices_in_ticks_have_no_tail_index(method):
    clipped = np.clip(draws(1.5, 2000, 6), -3, 3)
    assert "tied, most of them at " in fit(clipped, method).reason
    ticks = draws(1.5, 2000, 7).round(2)
    ticks[:400] = 0.0
    assert "20 % of the samples are tied, most of them at 0" in fit(ticks, method).reason


@pytest.mark.parametrize(
    "rounded",
    [
        lambda x: x,
        lambda x: x.astype(np.float32),
        lambda x: x.astype(np.float16),
        lambda x: x.round(3),
        lambda x: x.round(2),
        lambda x: 1e16 + 1e4 * x,
    ],
)
def test_ties_that_rounding_explains_are_none(rounded):
    for alpha in (1.2, 1.6, 2.0):
        samples = np.clip(draws(alpha, (2000, 50), 8), -6e4, 6e4)
        reasons = fit(rounded(samples).astype(float)).reason
        assert not [reason for reason in reasons if "tied" in reason or "rounded" in reason]


def test_rounding_beyond_the_sampling_error_is_marked():
    sample = draws(1.5, 2000, 9)
    for method in METHODS:
        assert fit(sample.round(), method).reason == "the samples are rounded too coarsely"
        assert fit(sample.round(2), method).reliable
    # quartiles feel a step more than the characteristic function does
    assert not fit(sample.round(1)).reliable
    assert fit(sample.round(1), "ecf").reliable


def test_a_few_ties_that_no_estimate_feels_are_no_doubt():
    sample = draws(1.5, 2000, 10)
    sample[:20] = 0.0
    assert fit(sample).reliable


def test_many_samples_are_as_good_as_few():
    sample = draws(2.0, 200_000, 11)
    sample[::10] = 0.0
    np.random.default_rng(0).shuffle(sample)
    assert "10 % of the samples are tied" in fit(sample).reason


@by_method
def test_samples_near_the_largest_float(method):
    sample = np.clip(draws(1.5, 1000, 12), -15, 15)
    fitted = fit(sample, method)
    large = fit(1e307 * sample, method)
    np.testing.assert_allclose(large.alpha, fitted.alpha, rtol=1e-6)
    np.testing.assert_allclose(large.scale / 1e307, fitted.scale, rtol=1e-6)
    np.testing.assert_allclose(large.loc / 1e307, fitted.loc, atol=1e-6)


def test_a_scale_beyond_the_largest_float_is_said():
    rng = np.random.default_rng(0)
    samples = rng.choice([-1.0, 1.0], 500) * rng.uniform(1.75e308, 1.79e308, 500)
    fitted = fit(samples)
    assert fitted.scale == np.inf
    assert fitted.reason == "scale or loc is beyond the largest float"
    assert not fitted.reliable


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
@pytest.mark.parametrize("method", ["mcculloch", "ecf"])
def test_product_of_gaussians_and_laplace_are_told_from_stable_laws(method):
    rng = np.random.default_rng(21)
    for sample in (rng.normal(size=(2, 2000, 20)).prod(0), rng.laplace(size=(2000, 20))):
        fitted = fit(sample, method)
        assert fitted.alpha.max() < 1.8  # all of them look heavy-tailed
        p_value = goodness_of_fit(sample, fitted, rng, 39).p_value
        assert (p_value <= 0.05).sum() >= 18
        assert p_value.min() == 1 / 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "alpha", "columns"), [("ecf", 1.5, 300), ("mcculloch", 1.8, 300), ("mle", 1.3, 40)]
)
def test_stable_samples_are_rejected_as_often_as_the_level_says(method, alpha, columns):
    sample = draws(alpha, (300, columns), 22)
    p_value = goodness_of_fit(sample, fit(sample, method), np.random.default_rng(23), 19).p_value
    for level in (0.05, 0.5):
        assert within((p_value <= level + 1e-9).sum(), columns, level)


def test_goodness_of_fit_has_no_unit_knows_its_columns_and_may_come_in_lots(monkeypatch):
    sample = np.stack([draws(1.4, 200, 24), np.zeros(200)], axis=1)

    def judged(sample, replicates=19):
        fitted = fit(sample, "ecf")
        return goodness_of_fit(sample, fitted, np.random.default_rng(1), replicates)

    plain = judged(sample)
    scaled = judged(1e-12 * sample)
    np.testing.assert_allclose(scaled.distance, plain.distance, rtol=1e-7)
    assert scaled.p_value[0] == plain.p_value[0]
    of_one_column = judged(sample[:, 0])
    assert np.shape(of_one_column.distance) == ()
    assert of_one_column.p_value == plain.p_value[0]
    assert np.isnan([plain.distance[1], plain.p_value[1]]).all()

    in_one_lot = judged(sample[:, 0], 199).p_value
    assert 0.1 < in_one_lot < 0.9
    monkeypatch.setattr(fits, "_BOOTSTRAP_DRAWS", 1000)
    in_lots = judged(sample[:, 0], 199).p_value
    assert in_lots == pytest.approx(in_one_lot, abs=0.15)  # three standard errors of a difference
    assert in_lots != in_one_lot  # other draws
    light = np.random.default_rng(3).uniform(size=1000)
    assert goodness_of_fit(light, fit(light), np.random.default_rng(1)).p_value == 1 / 200


def test_bad_input_is_named():
    sample, rng = draws(1.5, (300, 2), 25), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"samples = ndarray of .* and shape \(300,\): must be"):
        goodness_of_fit(sample[:, 0], fit(sample), rng)
    with pytest.raises(ValueError, match=r"samples = .*: must be two samples or more"):
        fit([1.0])
    with pytest.raises(ArgumentError, match="confidence = 1: must be"):
        fit(sample, confidence=1)
    with pytest.raises(ArgumentError, match="replicates = 0: must be"):
        goodness_of_fit(sample, fit(sample), rng, 0)


COPIES = {
    "side by side": lambda x: np.repeat(x, 2),
    "one behind another": lambda x: np.tile(x, 2),
    "anywhere": lambda x: np.random.default_rng(5).permutation(np.repeat(x, 2)),
    "one without a copy": lambda x: np.repeat(x, 2)[:-1],
    "three of each": lambda x: np.repeat(x, 3),
    "a third": lambda x: np.append(x, x[: len(x) // 3]),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("count", [300, 5000, 100_000])
def test_samples_that_were_copied_are_ties(copied, count):
    """They are fewer than they seem, and the interval would be too narrow."""
    samples = COPIES[copied](draws(1.6, count, 3))
    fitted = fit(np.stack([samples, draws(1.6, len(samples), 4)], axis=1))
    assert np.isnan(fitted.alpha[0])
    assert np.isfinite(fitted.alpha[1])
    assert "% of the samples are tied" in fitted.reason[0]
    assert fitted.reliable.tolist() == [False, True]


@pytest.mark.parametrize("alpha", [1.2, 2.0])
@pytest.mark.parametrize("places", range(6))
def test_rounded_samples_are_no_copies(alpha, places):
    """Whether pairs are few or nearly all of the samples."""
    for count in (300, 3000):
        for seed in range(10):
            samples = draws(alpha, count, seed)
            for rounded in (np.round(samples, places), samples.astype(np.float16).astype(float)):
                assert "tied" not in str(fit(rounded).reason)
