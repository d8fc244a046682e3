"""Windows, decay laws and time scales: exact cases, properties, and what noise does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from lwcore.detection import detection_threshold, sample_complexity
from lwcore.signatures import ArgumentError
from lwcore.window import (
    DecayLaw,
    fit_decay,
    learnability_window,
    mixture_envelope,
    regime_window,
    time_scales,
    window_bounds,
)

LAGS = np.unique(np.geomspace(1, 200, 40).astype(int))
REGIMES = [
    DecayLaw("exponential", 3.0, 0.97),
    DecayLaw("power", 0.5, 0.8),
    DecayLaw("logarithmic", 2.0),
]
CHOSEN = [1, 2, 3, 5, 8, 13]
regimes = pytest.mark.parametrize("law", REGIMES, ids=lambda law: law.name)
detectors = pytest.mark.parametrize("detector", ["mean", "likelihood", "paper_v2"])


def of_lags(low, high, size=6):
    return hnp.arrays(float, size, elements=st.floats(low, high))


# Windows


def test_a_number_that_is_just_enough_is_enough():
    assert learnability_window([1, 2, 4], [5, 7, math.inf], [4.9, 5, 7]).tolist() == [0, 1, 2]
    assert learnability_window([3], [0], [0]) == 3
    assert learnability_window([1, 2], [10, 40], 50) == 2  # one number, one window
    assert learnability_window([1, 2], [[10, 40], [60, 1]], 50).tolist() == [2, 2]


@given(
    envelope=hnp.arrays(float, (2, 1, 6), elements=st.floats(1e-3, 1e3) | st.just(0.0)),
    budgets=of_lags(1, 1e12, 5).map(np.sort),
)
def test_window_is_the_last_lag_above_the_threshold_and_grows(envelope, budgets):
    law = {"alignment": 0.3, "scale": 2.0, "alpha": 1.4}
    # half a part in a million off the lags' own numbers, where rounding would decide
    budgets = budgets * (1 + 5e-7)
    needed = sample_complexity(envelope, **law)
    is_above = envelope[..., None, :] >= detection_threshold(budgets, **law)[:, None]
    up_to_here = np.logical_and.accumulate(is_above, axis=-1)
    windows = {}
    for definition, is_counted in (("supremum", is_above), ("first_passage", up_to_here)):
        window = learnability_window(CHOSEN, needed, budgets, definition=definition)
        np.testing.assert_array_equal(window, np.where(is_counted, CHOSEN, 0).max(axis=-1))
        assert (np.diff(window, axis=-1) >= 0).all()
        windows[definition] = window
    assert (windows["first_passage"] <= windows["supremum"]).all()


@given(
    envelope=of_lags(1e-3, 1e3),
    alignment=of_lags(0.1, 10),
    scale=of_lags(0.1, 10),
    detector=st.sampled_from(["mean", "likelihood", "paper_v2"]),
)
def test_window_lies_between_its_bounds(envelope, alignment, scale, detector):
    alpha = 1.6
    budgets = np.geomspace(1, 1e12, 30)
    needed = sample_complexity(envelope, alignment, scale, alpha, detector=detector)
    low, high = window_bounds(CHOSEN, envelope, alignment, scale, budgets, alpha, detector=detector)
    assert (learnability_window(CHOSEN, needed, budgets * (1 - 1e-9)) <= high).all()
    assert (learnability_window(CHOSEN, needed, budgets * (1 + 1e-9)) >= low).all()
    assert (low <= high).all()
    # one constant for all lags: the envelope decides
    same = window_bounds(CHOSEN, envelope, 0.7, 2.0, budgets, alpha, detector=detector)
    np.testing.assert_array_equal(*same)


def test_bounds_of_the_window_by_hand():
    # Gaussian: N = 2 (z σ/(m̄ f))², z = 1.28
    budgets = np.array([0.9, 1.1, 4.1, 16.1, 64.1]) * 2 * stats.norm.ppf(0.9) ** 2
    f, m = [1.0, 0.5, 0.25], [1.0, 1.0, 0.5]
    low, high = window_bounds([1, 2, 3], f, m, 1.0, budgets, 2.0)
    assert low.tolist() == [0, 0, 1, 2, 3]
    assert high.tolist() == [0, 1, 2, 3, 3]
    for nothing in (-1.0, 0.0, -0.0):
        low, high = window_bounds([1, 2], [1.0, 0.0], [1.0, nothing], 1.0, [1e6], 2.0)
        assert low.tolist() == [0]
        assert high.tolist() == [1]


def test_lags_may_be_whole_numbers_of_any_size():
    lags = np.arange(1, 5, dtype=np.int8)
    window = learnability_window(lags, [10, 40, 200, 90], [5, 50, 100])
    assert window.dtype == np.int64
    assert window.tolist() == [0, 2, 4]
    many = np.arange(1, 101, dtype=np.int8)
    decay = np.exp(-np.arange(1, 101) / 30)
    np.testing.assert_allclose(time_scales(many, decay[:, None]), 30, rtol=1e-9)
    with pytest.raises(ValueError, match=r"lags contains .*: every entry must be below 2\^63"):
        learnability_window(np.array([1, 2**63 + 1], np.uint64), [1, 1], [1])


# Decay laws


@regimes
@detectors
def test_predicted_window_is_the_measured_one(law, detector):
    lags = np.arange(1, 400)
    budgets = np.geomspace(1, 1e5, 23)
    noise = {"alignment": 0.3, "scale": 0.4, "alpha": 1.6, "error": 0.05, "detector": detector}
    needed = sample_complexity(law.envelope(lags), **noise)
    measured = learnability_window(lags, needed, budgets)
    assert np.unique(measured).size > 4
    predicted = regime_window(law, budgets, **noise)
    np.testing.assert_array_equal(measured, np.minimum(np.floor(predicted), lags[-1]))


@regimes
def test_inverse_of_a_law_to_its_ends(law):
    lag = np.array([1.0, 2.5, 10.0, 77.7])
    just_below = np.log(law.envelope(lag) * (1 - 1e-13))
    np.testing.assert_allclose(law.inverse(just_below), lag, rtol=1e-9)
    above_the_first = math.log(law.envelope(1.0) * 1.001)
    np.testing.assert_array_equal(law.inverse([above_the_first, math.inf]), 0)
    assert DecayLaw("power", 1.0, 0.5).inverse(0.0) == 1  # the first lag is one, too
    assert DecayLaw("logarithmic", 1.0).inverse(math.log(1e-4)) == math.inf  # e^10000 steps


# Fits


def test_a_constant_envelope_is_fitted_by_laws_that_do_not_fall():
    constant = fit_decay(LAGS, np.full(LAGS.size, 0.1))
    assert constant.exponential.law.decay == 1
    assert constant.power.law.decay == 0
    assert math.isnan(constant.exponential.r_squared)
    assert constant.power.aicc < constant.tempered.aicc  # no residual is below rounding


@pytest.mark.parametrize("n", [5, 6, LAGS.size])
def test_criterion_and_share_explained_are_those_of_their_definitions(n):
    """AICc, n log(RSS/n) + 2k + 2k(k + 1)/(n − k − 1), where k counts the variance, too."""
    lags = LAGS[:n]
    f = REGIMES[1].envelope(lags) * np.exp(np.random.default_rng(2).normal(0, 0.3, n))
    log_f = np.log(f)
    total = np.sum((log_f - log_f.mean()) ** 2)
    for fit, k in zip(fit_decay(lags, f), (3, 3, 2, 4), strict=True):
        residual = np.sum((log_f - np.log(fit.law.envelope(lags))) ** 2)
        assert fit.r_squared == pytest.approx(1 - residual / total)
        penalty = 2 * k + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
        assert fit.aicc == pytest.approx(n * np.log(residual / n) + penalty)


def test_a_law_is_judged_by_the_f_test_against_a_power_and_an_exponential():
    lags = np.arange(1, 13)
    log_f = np.log(lags**-0.5) + 0.1 * np.random.default_rng(3).standard_normal(12)
    fits = fit_decay(lags, np.exp(log_f))
    ones = np.ones(12)
    logs = np.log(lags)

    def residual(values, *columns):
        _, squares, *_ = np.linalg.lstsq(np.stack(columns, -1), values, rcond=None)
        return squares.item()

    free = residual(log_f, ones, logs, lags)
    for fit, column in ((fits.power, logs), (fits.exponential, lags)):
        explained = residual(log_f, ones, column) - free
        ratio = explained / (free / 9)
        assert fit.p_value == pytest.approx(stats.f.sf(ratio, 1, 9), rel=1e-9)
    beside_the_law = log_f + np.log(np.log1p(lags))
    free = residual(beside_the_law, ones, logs, lags)
    explained = residual(beside_the_law, ones) - free
    ratio = explained / 2 / (free / 9)
    assert fits.logarithmic.p_value == pytest.approx(stats.f.sf(ratio, 2, 9), rel=1e-9)
    assert math.isnan(fits.tempered.p_value)


def test_data_of_no_regime_and_of_all():
    lags = np.arange(1, 65)
    assert fit_decay(lags, lags**-0.4 * 0.97**lags).verdict() == "none"
    assert fit_decay(lags, np.ones(64)).verdict() == "undecided"  # λ = 1 and β = 0 are the same
    for law in REGIMES:
        assert fit_decay(lags, law.envelope(lags)).verdict() == law.name


def test_a_vanishing_envelope_far_from_the_first_lag_has_its_law():
    lags = np.array([100, 200, 400, 800, 1600])
    f = np.exp(-lags / 3)
    fits = fit_decay(lags, f)
    assert fits.verdict() == "exponential"
    assert fits.exponential.law.amplitude == pytest.approx(1, rel=1e-9)
    assert fits.power.law.amplitude == math.inf  # 10^360
    with pytest.raises(ArgumentError, match=r"^amplitude = inf: must be a finite"):
        fits.power.law.envelope(lags)


# Time scales


@given(
    tau=hnp.arrays(float, (3, 4), elements=st.floats(0.5, 1e6)),
    amplitude=hnp.arrays(float, (3, 4), elements=st.floats(1e-6, 1e6)),
    unit=st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_exact_time_scales_are_recovered(tau, amplitude, unit):
    lags = np.array([1, 2, 4, 16, 64])
    neurons = unit * amplitude[:, None] * np.exp(-lags[:, None] / tau[:, None])
    np.testing.assert_allclose(time_scales(lags, neurons), tau, rtol=1e-8)


def test_neurons_without_a_decay_or_with_an_uneven_one():
    lags = np.array([1, 2, 4])
    decay = np.exp(-lags / 5)
    flat = np.full(3, 0.1)

    # of two only the positive rates tell
    rates = [decay, flat, 1 / decay, decay * [1, -1, 1], decay * [1, 0, 1], -decay, [0, 1, 0]]
    expected = [5, math.inf, math.inf, 5, 5, math.nan, math.nan]
    np.testing.assert_allclose(time_scales(lags, np.transpose(rates)), expected, rtol=1e-12)
    assert np.isnan(time_scales([3], [[0.5, 0.2]])).all()


def test_mixture_of_exponentials():
    lags = np.array([0.0, 1, 5, 20])
    both = mixture_envelope(lags, [4.0, math.inf, 1.0], [2.0, 1e-12, 0.0])
    np.testing.assert_allclose(both, 2 * np.exp(-lags / 4) + 1e-12, rtol=1e-14)
    np.testing.assert_allclose(mixture_envelope([0.0], np.ones((3, 2, 5))), np.full((3, 2, 1), 5))


def test_a_law_that_does_not_fall_has_no_last_lag():
    grows = DecayLaw("power", 1.0, -1.0).inverse([0.0, 9.0, math.inf])
    assert grows.tolist() == [math.inf, math.inf, 0]
    stays = DecayLaw("exponential", 1.0, 1.0).inverse([0.0, 0.1])
    assert stays.tolist() == [math.inf, 0]


@pytest.mark.parametrize("first", [1, 2**62])
def test_time_scales_do_not_depend_on_where_the_lags_begin(first):
    """Their sum is beyond 64 bits."""
    lags = [first + k for k in (0, 1, 3, 4, 9)]
    rates = np.exp(-np.array([0, 1, 3, 4, 9])[:, None] / [2.0, 50.0])
    np.testing.assert_allclose(time_scales(lags, rates), [2, 50], rtol=1e-12)
