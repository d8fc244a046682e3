"""Divergence, information, errors and numbers of sequences: against slow integrals, simulated
tests, and each other."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lwcore.detection import (
    binary_entropy,
    detection_error,
    detection_threshold,
    fano_error,
    hellman_raviv_error,
    kl_divergence,
    lan_divergence,
    least_sequences,
    mutual_information,
    necessary_sequences,
    rate_exponent,
    sample_complexity,
)
from lwcore.stable import SymmetricStable
from lwcore.stable.law import log_ratio

DETECTORS = ("mean", "likelihood", "paper_v2")
EXACT_DETECTORS = ("mean", "likelihood", "median")
LOG_2 = math.log(2)

alphas = st.floats(1.05, 1.99) | st.just(2.0)
shifts = st.floats(-4, 1.5).map(lambda log_shift: 10**log_shift)
logs = st.floats(-100, 100)


# Numbers and thresholds


@pytest.mark.parametrize(
    ("detector", "exponent"), [("mean", 3), ("likelihood", 2), ("paper_v2", 1.5)]
)
def test_number_of_sequences_is_the_textbooks_for_a_gaussian_and_a_power(detector, exponent):
    assert rate_exponent(1.5, detector) == pytest.approx(exponent)
    n = sample_complexity([1e-3, 1e-5], 1.0, 1.0, 1.5, detector=detector)
    assert n[1] / n[0] == pytest.approx(100**exponent)
    f = np.array([0.3, 1.0, 7.0])
    m = 0.2
    sigma = 1.7
    error = 0.05
    deviation = math.sqrt(2) * sigma
    textbook = (stats.norm.ppf(1 - error) * deviation / (f * m)) ** 2
    n = sample_complexity(f, m, sigma, 2.0, error, detector)
    np.testing.assert_allclose(n, textbook, rtol=1e-12)


@given(
    sizes=st.tuples(logs, logs, logs),
    n=st.floats(0, 20).map(math.exp),
    alpha=st.floats(1.05, 2),
    error=st.floats(1e-12, 0.49),
    detector=st.sampled_from(DETECTORS),
)
def test_threshold_and_number_are_inverse_and_those_of_the_error(sizes, n, alpha, error, detector):
    f, m, sigma = np.exp(sizes)
    threshold = detection_threshold(n, m, sigma, alpha, error, detector)
    assert sample_complexity(threshold, m, sigma, alpha, error, detector) == pytest.approx(
        n, rel=1e-9
    )
    if not math.isclose(f, threshold, rel_tol=1e-9):
        assert (f >= threshold) == (sample_complexity(f, m, sigma, alpha, error, detector) <= n)
    if detector == "mean":
        assert detection_error(n, threshold * m, sigma, alpha) == pytest.approx(error, rel=1e-9)


def test_numbers_without_a_signal_and_beyond_the_range_of_a_float():
    nothing = sample_complexity([0.0, 1.0, 1.0], [1.0, 0.0, -1.0], 1.0, 1.5)
    np.testing.assert_array_equal(nothing, np.inf)
    np.testing.assert_array_equal(detection_threshold(10, [0.0, -1.0], 1.0, 1.5), np.inf)
    assert sample_complexity(1e-200, 1.0, 1.0, 1.5) == np.inf
    # f m̄ underflows to 0
    tiny = sample_complexity(
        [1e-200, 1e-10], [1e-200, 1e-90], [1e-300, 1.0], 1.5, detector="paper_v2"
    )
    assert tiny[0] == pytest.approx(tiny[1], rel=1e-9)


# Divergence and information


def information_by_mixture(alpha, h):
    """Eq. (57) for one value, half the divergences from the mixture: by quadrature over x, the mean
    of ``log 2 − h_b(p)``, of log odds L: ``(L/2) tanh(L/2) − log cosh(L/2)``."""
    ratio, mass = log_ratio(alpha, h)
    half, odds = ratio / 2, np.exp(-ratio)
    small = np.tanh(np.minimum(half, 1))
    near_evens = half * np.tanh(half) + np.log1p(-(small**2)) / 2
    near_certain = LOG_2 - np.log1p(odds) - ratio * odds / (1 + odds)
    return np.sum(mass * (1 + odds) * np.where(half < 1, near_evens, near_certain))


@given(
    alpha=alphas,
    shift=shifts,
    n=st.sampled_from([1, 2, 3, 4, 7, 20, 1000, 10**6]),
    unit=st.sampled_from([1e-12, 1e12]),
)
def test_divergence_and_information(alpha, shift, n, unit):
    one = kl_divergence(shift, alpha)
    product = kl_divergence(unit * shift, alpha, unit, n)
    mean = kl_divergence(unit * shift, alpha, unit, n, "mean")
    assert product == pytest.approx(n * one, rel=1e-9, abs=0)
    shrunk = kl_divergence(shift * n ** (1 - 1 / alpha), alpha)
    assert mean == pytest.approx(shrunk, rel=1e-9, abs=0)
    assert 0 < mean <= product * (1 + 1e-9)  # averaging loses information
    limit = lan_divergence(unit * shift, alpha, unit)
    # no cubic term, as the law is symmetric about 0
    assert -1e-9 <= 1 - one / limit <= 0.6 * shift**2 + 1e-9

    of_all = mutual_information(unit * shift, alpha, unit, n)
    of_one = mutual_information(shift, alpha)
    of_mean = mutual_information(shift, alpha, 1.0, n, "mean")
    by_mixture = information_by_mixture(alpha, shift * n ** (1 - 1 / alpha))
    assert of_mean == pytest.approx(by_mixture, rel=1e-9, abs=0)
    assert 0 < max(of_one, of_mean) <= of_all * (1 + 1e-12)
    assert of_all <= min(LOG_2, n * of_one * (1 + 1e-12), product / 4 * (1 + 1e-9))
    if product < 4e-6:  # to first order they are the same
        assert of_all == pytest.approx(product / 4, rel=1e-4, abs=0)
    more = mutual_information(1.1 * shift, alpha, 1.0, 2 * n)
    assert of_all < more or of_all > LOG_2 - 1e-12


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_nothing_and_everything_is_told(alpha):
    assert mutual_information(0.0, alpha) == 0
    assert mutual_information([1e80, 1e150], alpha) == pytest.approx(LOG_2, rel=1e-15)
    assert mutual_information(1e-100, alpha, 1, 1e150) < 1e-49
    assert mutual_information(0.5, alpha, 1.0, 1e30) == pytest.approx(LOG_2, rel=1e-15)
    assert (mutual_information([[1.0], [1e4]], alpha, 1.0, [1, 10**8]) <= LOG_2).all()


def test_rates_of_the_quadratic_limit():
    alpha = 1.4
    n = 10**6
    tiny = 1e-9
    of_all = kl_divergence(tiny, alpha, 1.0, n)
    for detector in ("likelihood", "mean"):
        exact = kl_divergence(tiny, alpha, 1.0, n, detector)
        limit = lan_divergence(tiny, alpha, 1.0, n, detector)
        assert limit == pytest.approx(exact, rel=1e-8, abs=0)
    # Eq. (32) as printed exceeds what all N sequences together have, however small the shift
    as_printed = lan_divergence(tiny, alpha, 1.0, n, "paper_v2")
    assert as_printed / of_all == pytest.approx(n ** (2 / alpha - 1), rel=1e-6)


# Errors


def log_ratios(alpha: float, shift: float, count: int) -> np.ndarray:
    """The log-likelihood ratios at equally probable values of one observation."""
    law = SymmetricStable(alpha)
    z = law.ppf((np.arange(count) + 0.5) / count)
    return law.logpdf(z) - law.logpdf(z + 2 * shift)


def test_two_and_three_sequences_by_enumeration():
    """Also where the characteristic function turns sign, which squares do not."""
    of_one = log_ratios(1.8, 0.2, 1500)
    of_two = of_one[:, None] + of_one
    information = LOG_2 - np.logaddexp(0, -of_two).mean()
    assert mutual_information(0.2, 1.8, 1.0, 2) == pytest.approx(information, rel=2e-3)
    error = detection_error(2, 0.2, 1.0, 1.8, "likelihood")
    assert error == pytest.approx((of_two < 0).mean(), rel=2e-3)
    of_one = log_ratios(1.2, 3.0, 160)
    of_two = of_one[:, None] + of_one
    for count, of_all in ((2, of_two), (3, of_two[..., None] + of_one)):
        information = LOG_2 - np.logaddexp(0, -of_all).mean()
        found = mutual_information(3.0, 1.2, 1.0, count)
        assert found == pytest.approx(information, rel=2e-5, abs=0)


@pytest.mark.parametrize("n", [2, 3, 7, 20])
def test_error_next_to_the_gaussian_is_the_gaussians(n):
    """Computed as for any other law; but for errors so rare that the tail makes them."""
    shift = np.array([0.01, 0.5])
    error = detection_error(n, shift, 1.0, 2 - 1e-9, "likelihood")
    np.testing.assert_allclose(error, stats.norm.sf(shift * math.sqrt(n / 2)), rtol=1e-8)


def test_error_of_three_sequences_by_a_sum_without_cancellation():
    """Where a Gaussian's bell has a thin tail, the swings of Fourier's integral cancel to 1e-5."""
    alpha = 1.9999
    shift = 1e3
    law = SymmetricStable(alpha)
    furthest = np.arcsinh(shift) + 40 / alpha
    u, step = np.linspace(-np.arcsinh(shift), furthest, 500, retstep=True)
    distance = np.sinh(u)  # of a value x above 0 from the shift
    x = distance + shift
    ratio = law.logpdf(distance) - law.logpdf(distance + 2 * shift)
    peak = ratio.argmax()
    width = step * np.cosh(u)
    width[0] /= 2  # at x = 0, where both signs meet

    def probability_below(s):
        """Of one value's ratio: it lies beyond s between two roots."""
        near = np.interp(abs(s), ratio[: peak + 1], x[: peak + 1])
        far = np.interp(-abs(s), -ratio[peak:], x[peak:])
        below = law.sf(near + shift) - law.sf(far + shift)
        above = law.cdf(near - shift) + law.sf(far - shift)
        is_beyond = abs(s) >= ratio[peak]
        return np.where(s < 0, np.where(is_beyond, 0, below), np.where(is_beyond, 1, above))

    ratios = np.concatenate([ratio, -ratio])
    mass = np.concatenate([law.pdf(distance) * width, law.pdf(distance + 2 * shift) * width])
    expected = 0.0
    for first, its_mass in zip(ratios, mass, strict=True):
        expected += its_mass * np.sum(mass * probability_below(-first - ratios))
    found = detection_error(3, shift, 1.0, alpha, "likelihood")
    assert found == pytest.approx(expected, rel=2e-3, abs=0)


@settings(max_examples=8)
@given(
    alpha=alphas,
    shift=st.floats(-3, 0.6).map(lambda log_shift: 10**log_shift),
    n=st.sampled_from([1, 2, 3, 4, 7, 20, 999, 1000]),
    unit=st.sampled_from([1e-12, 1e12]),
)
def test_errors_in_their_order_fall_with_number_and_shift_and_know_no_unit(alpha, shift, n, unit):
    def errors(n, shift, unit=1.0):
        of_detectors = []
        for detector in EXACT_DETECTORS:
            of_detectors.append(detection_error(n, unit * shift, unit, alpha, detector))
        return np.array(of_detectors)

    by_test = errors(n, shift)
    mean, likelihood, median = by_test
    wrong = float(SymmetricStable(alpha).sf(shift))
    # more than half of the signs are wrong, or half of them and the coin falls badly
    half = n // 2
    majority = stats.binom.sf(half, n, wrong)
    tie = stats.binom.pmf(half, n, wrong) / 2 if n % 2 == 0 else 0
    assert median == pytest.approx(majority + tie, rel=1e-9, abs=0)
    np.testing.assert_allclose(errors(n, shift, unit), by_test, rtol=1e-9)
    assert (errors(n + 1, 1.01 * shift) < np.maximum(by_test, 5e-324)).all()  # or both underflow
    # no test beats the likelihood ratio, between Fano (log 2's last digit: 1e-18) and Hellman-Raviv
    assert likelihood <= by_test.min() * (1 + 1e-6)
    information = mutual_information(shift, alpha, 1.0, n)
    assert fano_error(min(information * (1 + 1e-15), np.log(2))) <= likelihood * (1 + 1e-6)
    assert likelihood <= hellman_raviv_error(information) * (1 + 1e-6) + 1e-15
    of_mean = mutual_information(shift, alpha, 1.0, n, "mean")
    assert fano_error(of_mean) <= mean * (1 + 1e-9)
    if n == 1:
        np.testing.assert_allclose(by_test, wrong, rtol=1e-12)


@pytest.mark.parametrize("alpha", [1.3, 2.0])
@pytest.mark.parametrize("detector", EXACT_DETECTORS)
def test_least_number_is_the_least(alpha, detector):
    shift, error = np.array([3.0, 0.4, 0.05]), 0.1
    n = least_sequences(shift, 1.0, alpha, error, detector)
    assert (n == np.floor(n)).all()
    assert (detection_error(n, shift, 1.0, alpha, detector) <= error).all()
    several = n > 1
    fewer = n[several] - (2 if detector == "median" else 1)
    assert several.sum() >= 2
    assert (detection_error(fewer, shift[several], 1.0, alpha, detector) > error).all()
    assert (necessary_sequences(shift, 1.0, alpha, error) <= n).all()
    assert least_sequences(0.0, 1.0, alpha, error, detector) == math.inf
    assert least_sequences(1e150, 1.0, alpha, detector=detector) == 1
    if detector == "mean":  # a number that rounding may leave a little above or below a whole one
        counts = np.arange(1, 60)
        exact = detection_threshold(counts, 1.0, 1.0, alpha, error)
        np.testing.assert_array_equal(least_sequences(exact, 1.0, alpha, error), counts)


def test_exponents_of_the_exact_numbers():
    shift, alpha = np.array([1e-4, 1e-9]), 1.3
    numbers = {
        detector: least_sequences(shift, 1.0, alpha, detector=detector)
        for detector in EXACT_DETECTORS
    }
    numbers["Fano"] = necessary_sequences(shift, 1.0, alpha)
    for detector, n in numbers.items():
        exponent = rate_exponent(alpha) if detector == "mean" else 2
        assert np.log(n[1] / n[0]) / np.log(1e5) == pytest.approx(exponent, rel=1e-5), detector
    limit = sample_complexity(shift[1], 1.0, 1.0, alpha, detector="likelihood")
    assert numbers["likelihood"][1] == pytest.approx(limit, rel=1e-6)


# The ends of what a float can hold


@pytest.mark.parametrize("together", [1e-6, 0.3])
def test_of_tiny_shifts_only_their_square_times_the_number_counts(together):
    counts = [1e16, 1e100, 1e150]  # whole
    shifts = [together / math.sqrt(n) for n in counts]
    for quantity in (
        lambda h, n: mutual_information(h, 1.5, 1.0, n),
        lambda h, n: kl_divergence(h, 1.5, 1.0, n),
        lambda h, n: detection_error(n, h, 1.0, 1.5, "likelihood"),
    ):
        first, *others = (float(quantity(h, n)) for h, n in zip(shifts, counts, strict=True))
        assert others == pytest.approx([first, first], rel=1e-7, abs=0)


def test_factors_that_leave_the_range_of_a_float_before_their_quotient_does_not():
    expected = sample_complexity(1.0, 1.0, 1e100, 1.5)
    assert sample_complexity(1e200, 1e-100, 1e200, 1.5) == pytest.approx(expected, rel=1e-12)
    usual = detection_threshold(10, 1.0, 1.0, 1.7)
    assert detection_threshold(10, 1e-300, 1e-300, 1.7) == pytest.approx(usual, rel=1e-14)
    assert detection_threshold(10, 1e300, 1e300, 1.7) == pytest.approx(usual, rel=1e-14)


# Fano's inequality


def test_entropy_by_hand():
    np.testing.assert_array_equal(binary_entropy([0.0, 1.0]), 0)
    assert binary_entropy(0.25) == pytest.approx(2 * LOG_2 - 0.75 * math.log(3), rel=1e-14)
    tiny = 1e-200 * (1 + 200 * math.log(10))
    assert binary_entropy(1e-200) == pytest.approx(tiny, rel=1e-13, abs=0)


def test_fano_inverts_the_entropy_also_at_its_ends_and_its_number_for_a_gaussian():
    error = np.geomspace(1e-6, 0.4999, 200)
    np.testing.assert_allclose(fano_error(LOG_2 - binary_entropy(error)), error, rtol=1e-8)
    np.testing.assert_array_equal(fano_error([0.0, LOG_2, 0.7, 1e300]), [0.5, 0, 0, 0])
    chord = hellman_raviv_error(np.multiply([0, 0.3, 1], LOG_2))
    np.testing.assert_allclose(chord, [0.5, 0.35, 0], atol=1e-16)
    small = np.array([1e-12, 1e-9])  # h_b(½ − δ) = log 2 − 2 δ²
    np.testing.assert_allclose(0.5 - fano_error(small), np.sqrt(small / 2), rtol=1e-8)
    # KL = (Δ/σ)²
    needed = 4 * (0.75 * math.log(3) - LOG_2) / np.square([0.3, 5e-4])
    np.testing.assert_allclose(necessary_sequences([0.6, 1e-3], 2.0, 2.0, 0.25), needed)


def test_median_test_of_very_many_values_errs_as_the_central_limit_says():
    density = SymmetricStable(1.5).pdf(0.0)
    for count in (1e11, 1e16, 1e150):
        shift = 1 / (2 * density * math.sqrt(count))
        found = detection_error(2 * math.floor(count / 2), shift, 1.0, 1.5, "median")
        assert found == pytest.approx(stats.norm.sf(1), rel=1e-9)


@pytest.mark.parametrize(("detector", "count"), [("mean", 1), ("likelihood", 17), ("paper_v2", 1)])
def test_minus_zero_is_zero(detector, count):
    """At any length of an array: NumPy takes the larger of 0 and −0 in several ways."""
    zeros = np.full(count, -0.0)
    assert np.all(sample_complexity(zeros, 1, 1, 1.5, detector=detector) == np.inf)
    assert np.all(sample_complexity(1, zeros, 1, 1.5, detector=detector) == np.inf)
    assert np.all(detection_threshold(10, zeros, 1, 1.5, detector=detector) == np.inf)
