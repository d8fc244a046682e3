"""N(ℓ) and the threshold: agreement with each other, and with simulated tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lwcore.bounds import detection_threshold, rate_exponent, sample_complexity
from lwcore.stable import SymmetricStable

RATES = ("mean", "optimal", "paper_v2")


def within_binomial_limits(errors: int, trials: int, probability: float) -> bool:
    least, most = stats.binom.ppf([0.0005, 0.9995], trials, probability)
    return bool(least <= errors <= most)


def test_exponents() -> None:
    assert rate_exponent(1.5, "mean") == pytest.approx(3)
    assert rate_exponent(1.5, "optimal") == 2
    assert rate_exponent(1.5, "paper_v2") == 1.5
    assert {rate_exponent(2, rate) for rate in RATES} == {2}


def test_all_rates_agree_for_a_gaussian_and_give_the_textbook_number() -> None:
    f, m, sigma, error = np.array([0.3, 1.0, 7.0]), 0.2, 1.7, 0.05
    textbook = (stats.norm.ppf(1 - error) * math.sqrt(2) * sigma / (f * m)) ** 2  # standard deviation is √2 σ
    for rate in RATES:
        np.testing.assert_allclose(sample_complexity(f, m, sigma, 2.0, error, rate), textbook, rtol=1e-12)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.parametrize(("count", "error"), [(30, 0.1), (7, 0.3)])
def test_sign_of_the_mean_errs_as_often_as_stated(alpha: float, count: int, error: float) -> None:
    sigma, m, trials = 2.0, 0.5, 20_000
    f = float(detection_threshold(count, m, sigma, alpha, error))
    assert math.ceil(sample_complexity(f, m, sigma, alpha, error) - 1e-9) == count
    draws = SymmetricStable(alpha, sigma, loc=f * m).sample((trials, count), np.random.default_rng(2))
    assert within_binomial_limits(int((draws.mean(axis=1) < 0).sum()), trials, error)


def test_likelihood_ratio_errs_as_often_as_stated_for_a_small_shift() -> None:
    alpha, count, error, trials = 1.5, 500, 0.1, 3000
    shift = float(detection_threshold(count, 1.0, 1.0, alpha, error, "optimal"))
    assert sample_complexity(shift, 1.0, 1.0, alpha, error, "optimal") == pytest.approx(count)
    assert sample_complexity(shift, 1.0, 1.0, alpha, error, "mean") > 5 * count  # what averaging costs
    law = SymmetricStable(alpha)
    draws = law.sample((trials, count), np.random.default_rng(3)) + shift
    # log f(x − Δ) − log f(x + Δ), from a table in log|x| as the ratio is odd in x
    grid = np.concatenate([[0.0], np.geomspace(1e-4, 1e12, 4000)])
    table = np.log(law.pdf(grid - shift)) - np.log(law.pdf(grid + shift))
    log_ratio = np.sign(draws) * np.interp(np.abs(draws), grid, table)
    assert within_binomial_limits(int((log_ratio.sum(axis=1) < 0).sum()), trials, error)


@given(
    log_f=st.floats(-100, 100),
    log_m=st.floats(-100, 100),
    log_sigma=st.floats(-100, 100),
    log_n=st.floats(0, 20),
    alpha=st.floats(1.05, 2),
    error=st.floats(1e-12, 0.49),
    rate=st.sampled_from(RATES),
)
@settings(max_examples=100, deadline=None)
def test_threshold_and_sample_complexity_are_inverse(
    log_f: float, log_m: float, log_sigma: float, log_n: float, alpha: float, error: float, rate: str
) -> None:
    f, m, sigma, n = np.exp([log_f, log_m, log_sigma, log_n])
    threshold = detection_threshold(n, m, sigma, alpha, error, rate)
    assert sample_complexity(threshold, m, sigma, alpha, error, rate) == pytest.approx(n, rel=1e-9)
    if not math.isclose(f, threshold, rel_tol=1e-9):
        assert (f >= threshold) == (sample_complexity(f, m, sigma, alpha, error, rate) <= n)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_unit_of_the_statistic_cancels(rate: str, unit: float) -> None:
    f, m, sigma = np.array([0.5, 2.0]), 0.1, np.array([1.0, 3.0])
    plain = sample_complexity(f, m, sigma, 1.4, rate=rate)
    np.testing.assert_allclose(sample_complexity(unit * f, m, unit * sigma, 1.4, rate=rate), plain, rtol=1e-11)
    np.testing.assert_allclose(sample_complexity(f, unit * m, unit * sigma, 1.4, rate=rate), plain, rtol=1e-11)


@pytest.mark.parametrize("rate", RATES)
def test_number_follows_its_exponent(rate: str) -> None:
    n = sample_complexity([1e-3, 1e-5], 1.0, 1.0, 1.3, rate=rate)
    assert np.log(n[1] / n[0]) / np.log(100) == pytest.approx(rate_exponent(1.3, rate))


def test_no_signal_takes_infinitely_many_sequences() -> None:
    np.testing.assert_array_equal(sample_complexity([0.0, 1.0, 1.0], [1.0, 0.0, -1.0], 1.0, 1.5), np.inf)
    np.testing.assert_array_equal(detection_threshold(10, [0.0, -1.0], 1.0, 1.5), np.inf)


def test_products_and_powers_beyond_the_range_of_a_float() -> None:
    within = sample_complexity(1e-10, 1e-90, 1.0, 1.5, rate="paper_v2")
    assert sample_complexity(1e-200, 1e-200, 1e-300, 1.5, rate="paper_v2") == pytest.approx(within, rel=1e-9)  # f m̄ underflows to 0
    assert sample_complexity(1e-200, 1.0, 1.0, 1.5) == np.inf


def test_shapes_broadcast() -> None:
    assert sample_complexity(np.ones((4, 1)), np.ones(3), 1.0, 1.5).shape == (4, 3)
    assert detection_threshold([10, 20], np.ones((3, 1)), 1.0, 1.5).shape == (3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"envelope": -1.0}, r"envelope contains -1\.0"),
        ({"envelope": [1.0, math.nan]}, "envelope.*finite"),
        ({"scale": 0.0}, r"scale contains 0\.0"),
        ({"alpha": 1.0}, r"alpha = 1.0.*\(1, 2\]"),
        ({"error": 0.5}, r"error = 0.5.*\(0, 0.5\)"),
        ({"rate": "fast"}, "rate = 'fast'.*'mean'"),
        ({"envelope": [1.0, 2.0], "alignment": [1.0, 2.0, 3.0]}, r"envelope \(2,\), alignment \(3,\)"),
    ],
)
def test_bad_input_is_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample_complexity(**{"envelope": 1.0, "alignment": 1.0, "scale": 1.0, "alpha": 1.5} | change)


def test_bad_number_of_sequences_is_named() -> None:
    with pytest.raises(ValueError, match="n_sequences contains 0"):
        detection_threshold(0, 1.0, 1.0, 1.5)
