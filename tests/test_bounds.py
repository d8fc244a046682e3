"""Divergence, information, errors and numbers of sequences: against slow integrals, simulated
tests, and each other."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from book.chapters.lan import Expansion, lan_expansions
from lwcore import detection
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

RATES = ("mean", "optimal", "paper_v2")
TESTS = ("mean", "likelihood", "median")
LOG_2 = math.log(2)

alphas = st.one_of(st.floats(1.05, 1.99), st.just(2.0))
shifts = st.floats(-4, 1.5).map(lambda log_shift: 10**log_shift)
numbers = st.sampled_from([1, 2, 3, 4, 7, 20, 1000, 10**6])


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
    # standard deviation is √2 σ
    textbook = (stats.norm.ppf(1 - error) * math.sqrt(2) * sigma / (f * m)) ** 2
    for rate in RATES:
        np.testing.assert_allclose(
            sample_complexity(f, m, sigma, 2.0, error, rate), textbook, rtol=1e-12
        )


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.parametrize(("count", "error"), [(30, 0.1), (7, 0.3)])
def test_sign_of_the_mean_errs_as_often_as_stated(alpha: float, count: int, error: float) -> None:
    sigma, m, trials = 2.0, 0.5, 20_000
    f = float(detection_threshold(count, m, sigma, alpha, error))
    assert math.ceil(sample_complexity(f, m, sigma, alpha, error) - 1e-9) == count
    draws = SymmetricStable(alpha, sigma, loc=f * m).sample(
        (trials, count), np.random.default_rng(2)
    )
    assert within_binomial_limits(int((draws.mean(axis=1) < 0).sum()), trials, error)


def test_likelihood_ratio_errs_as_often_as_stated_for_a_small_shift() -> None:
    alpha, count, error, trials = 1.5, 500, 0.1, 3000
    shift = float(detection_threshold(count, 1.0, 1.0, alpha, error, "optimal"))
    assert sample_complexity(shift, 1.0, 1.0, alpha, error, "optimal") == pytest.approx(count)
    # what averaging costs
    assert sample_complexity(shift, 1.0, 1.0, alpha, error, "mean") > 5 * count
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
def test_threshold_and_sample_complexity_are_inverse(
    log_f: float,
    log_m: float,
    log_sigma: float,
    log_n: float,
    alpha: float,
    error: float,
    rate: str,
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
    np.testing.assert_allclose(
        sample_complexity(unit * f, m, unit * sigma, 1.4, rate=rate), plain, rtol=1e-11
    )
    np.testing.assert_allclose(
        sample_complexity(f, unit * m, unit * sigma, 1.4, rate=rate), plain, rtol=1e-11
    )


@pytest.mark.parametrize("rate", RATES)
def test_number_follows_its_exponent(rate: str) -> None:
    n = sample_complexity([1e-3, 1e-5], 1.0, 1.0, 1.3, rate=rate)
    assert np.log(n[1] / n[0]) / np.log(100) == pytest.approx(rate_exponent(1.3, rate))


def test_no_signal_takes_infinitely_many_sequences() -> None:
    np.testing.assert_array_equal(
        sample_complexity([0.0, 1.0, 1.0], [1.0, 0.0, -1.0], 1.0, 1.5), np.inf
    )
    np.testing.assert_array_equal(detection_threshold(10, [0.0, -1.0], 1.0, 1.5), np.inf)


def test_products_and_powers_beyond_the_range_of_a_float() -> None:
    within = sample_complexity(1e-10, 1e-90, 1.0, 1.5, rate="paper_v2")
    # f m̄ underflows to 0
    assert sample_complexity(1e-200, 1e-200, 1e-300, 1.5, rate="paper_v2") == pytest.approx(
        within, rel=1e-9
    )
    assert sample_complexity(1e-200, 1.0, 1.0, 1.5) == np.inf


def test_shapes_broadcast() -> None:
    assert sample_complexity(np.ones((4, 1)), np.ones(3), 1.0, 1.5).shape == (4, 3)
    assert detection_threshold([10, 20], np.ones((3, 1)), 1.0, 1.5).shape == (3, 2)


# Divergence
# ------------------------------------------------------------------------------------------------------------------


def slow_integral(function, shift: float) -> float:
    """An integral over the line of a function with features of size 1 at ± a shift."""
    edges = [-np.inf, -shift - 30, -shift, 0, shift, shift + 30, np.inf]
    return sum(
        integrate.quad(function, a, b, limit=400, epsabs=1e-13, epsrel=1e-11)[0]
        for a, b in pairwise(edges)
    )


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.95])
@pytest.mark.parametrize("shift", [0.3, 2.0, 40.0])
def test_integrals_by_their_definitions(alpha: float, shift: float) -> None:
    law = SymmetricStable(alpha)

    def densities(x: float) -> tuple[float, float]:
        return float(law.pdf(x - shift)), float(law.pdf(x + shift))

    def divergence(x: float) -> float:
        p, q = densities(x)
        return p * math.log(p / q)

    def information(x: float) -> float:
        p, q = densities(x)
        return sum(r / 2 * math.log(2 * r / (p + q)) for r in (p, q))

    assert kl_divergence(shift, alpha) == pytest.approx(slow_integral(divergence, shift), rel=1e-8)
    assert mutual_information(shift, alpha) == pytest.approx(
        slow_integral(information, shift), rel=1e-8
    )


@given(alpha=alphas, shift=shifts)
def test_divergence_is_positive_and_below_its_quadratic_limit(alpha: float, shift: float) -> None:
    exact, limit = kl_divergence(shift, alpha), lan_divergence(shift, alpha)
    assert 0 < exact <= limit * (1 + 1e-9)
    # a law symmetric about 0 has no cubic term, so that the relative error is quadratic in the
    # shift
    assert 1 - exact / limit <= 0.6 * shift**2 + 1e-9


@given(alpha=alphas, shift=shifts, n=numbers, unit=st.sampled_from([1e-12, 1.0, 1e12]))
def test_divergence_of_many_sequences(alpha: float, shift: float, n: int, unit: float) -> None:
    one = kl_divergence(unit * shift, alpha, unit)
    product = kl_divergence(unit * shift, alpha, unit, n)
    mean = kl_divergence(unit * shift, alpha, unit, n, "mean")
    assert one == pytest.approx(kl_divergence(shift, alpha), rel=1e-9, abs=0)
    assert product == pytest.approx(n * one, rel=1e-12, abs=0)
    assert mean == pytest.approx(
        kl_divergence(shift * n ** (1 - 1 / alpha), alpha), rel=1e-9, abs=0
    )
    assert mean <= product * (1 + 1e-9)  # averaging loses information
    if alpha == 2:
        assert mean == pytest.approx(product, rel=1e-12, abs=0)


@pytest.mark.parametrize("alpha", [1.05, 1.3, 1.7, 1.99])
def test_divergence_falls_behind_its_square_and_ends_as_a_logarithm(alpha: float) -> None:
    wider = np.geomspace(1e-3, 1e6, 40)
    share = kl_divergence(wider, alpha) / lan_divergence(wider, alpha)
    assert share[0] == pytest.approx(1, abs=1e-4)
    assert (np.diff(share) < 1e-9).all()
    # logarithmic far out, where quadrature has given way to the limit, too
    far = kl_divergence([1e10, 1e20, 1e40, 1e160], alpha)
    np.testing.assert_allclose(
        np.diff(far), (alpha + 1) * math.log(10) * np.array([10, 20, 120]), rtol=1e-9
    )


@pytest.mark.parametrize("alpha", [1.5, 1.8])
def test_affinity_of_distant_laws_falls_as_a_power(alpha: float) -> None:
    # each law times the other's tail, p(2h)^½ ∝ h^(−(α + 1)/2), against h^(−α) of what lies between
    near, far = (detection._Tilted(alpha, h).log_affinity for h in (1e40, 1e50))
    assert far - near == pytest.approx(-(alpha + 1) / 2 * math.log(1e10), rel=1e-8)


def test_rates_of_the_quadratic_limit() -> None:
    alpha, n = 1.4, 10**6
    tiny = 1e-9
    assert lan_divergence(tiny, alpha, 1.0, n, "optimal") == pytest.approx(
        kl_divergence(tiny, alpha, 1.0, n), rel=1e-8, abs=0
    )
    assert lan_divergence(tiny, alpha, 1.0, n, "mean") == pytest.approx(
        kl_divergence(tiny, alpha, 1.0, n, "mean"), rel=1e-8, abs=0
    )
    assert lan_divergence(1.0, alpha) == pytest.approx(
        2 * SymmetricStable(alpha).fisher_information()
    )
    # Eq. (32) as printed, a lower bound: it exceeds what all N sequences together have, by N^(2/α −
    # 1), however small the shift
    excess = lan_divergence(tiny, alpha, 1.0, n, "paper_v2") / kl_divergence(tiny, alpha, 1.0, n)
    assert excess == pytest.approx(n ** (2 / alpha - 1), rel=1e-6)


# Information and Fano
# --------------------------------------------------------------------------------------------------------


@given(alpha=alphas, shift=shifts, n=numbers)
def test_information(alpha: float, shift: float, n: int) -> None:
    one = mutual_information(shift, alpha)
    assert one == pytest.approx(mutual_information(shift, alpha, route="mixture"), rel=1e-11, abs=0)
    mean = mutual_information(shift, alpha, 1.0, n, "mean")
    assert mean == pytest.approx(
        mutual_information(shift, alpha, 1.0, n, "mean", "mixture"), rel=1e-11, abs=0
    )
    product = mutual_information(shift, alpha, 1.0, n)
    quarter = kl_divergence(shift, alpha, 1.0, n) / 4
    assert 0 < one <= product * (1 + 1e-12)
    assert mean <= product * (1 + 1e-12)
    assert product <= min(LOG_2, n * one * (1 + 1e-12), quarter * (1 + 1e-9))
    if quarter < 1e-6:
        # to first order all three are the same
        assert product == pytest.approx(quarter, rel=1e-4, abs=0)
    more = mutual_information(1.1 * shift, alpha, 1.0, 2 * n)
    assert product < more or product > LOG_2 - 1e-12


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.parametrize("route", ["fourier", "mixture"])
def test_nothing_and_everything_is_told(alpha: float, route: str) -> None:
    assert mutual_information(0.0, alpha, route=route) == 0
    assert mutual_information([1e80, 1e150], alpha, route=route) == pytest.approx(LOG_2, rel=1e-15)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_information_is_never_more_than_a_sign_holds(alpha: float) -> None:
    assert (
        mutual_information([[1.0], [30.0], [1e4]], alpha, 1.0, [1, 100, 10_000, 10**8]) <= LOG_2
    ).all()


def test_law_under_which_the_log_ratio_is_symmetric() -> None:
    alpha, shift = 1.5, 0.7
    law, tilted = SymmetricStable(alpha), detection._Tilted(alpha, shift)

    def mean(function) -> float:  # an integral against √(p₊ p₋)
        def integrand(x: float) -> float:
            log_p, log_q = law.logpdf(x - shift), law.logpdf(x + shift)
            return float(np.exp((log_p + log_q) / 2) * function(log_p - log_q))

        return slow_integral(integrand, shift)

    affinity = mean(lambda ratio: 1.0)
    assert tilted.log_affinity == pytest.approx(math.log(affinity), rel=1e-7)
    assert tilted.variance == pytest.approx(mean(np.square) / affinity, rel=1e-7)
    log_psi, sign = tilted.cosine(np.array([0.0, 0.3, 2.0]))
    psi = [mean(lambda ratio, t=t: np.cos(t * ratio)) / affinity for t in (0.0, 0.3, 2.0)]
    np.testing.assert_allclose(sign * np.exp(log_psi), psi, atol=1e-7)


# The LAN expansion
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 3000])
def test_expansion_is_exact_for_a_gaussian(n: int) -> None:
    terms = lan_expansion(2.0, n, np.random.default_rng(n), h=1.7, replicates=2000)
    np.testing.assert_allclose(terms.remainder, 0, atol=1e-9)
    np.testing.assert_allclose(terms.log_ratio, 1.7 * terms.central - 1.7**2 / 4, atol=1e-9)
    assert stats.kstest(terms.central, stats.norm(scale=math.sqrt(0.5)).cdf).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.2, 1.6])
def test_expansion_holds_at_root_n(alpha: float) -> None:
    rng = np.random.default_rng(11)
    few, many = (lan_expansion(alpha, n, rng, replicates=2000) for n in (30, 3000))
    information = SymmetricStable(alpha).fisher_information()
    assert stats.kstest(many.central, stats.norm(scale=math.sqrt(information)).cdf).pvalue > 1e-3
    left = [float(np.sqrt(np.mean(terms.remainder**2))) for terms in (few, many)]
    assert left[0] / left[1] == pytest.approx(10, rel=0.15)  # as 1/√N
    # KL of the laws that were drawn, both ways; and a likelihood ratio has the mean 1
    assert -many.log_ratio.mean() == pytest.approx(
        kl_divergence(0.5 / math.sqrt(3000), alpha, 1.0, 3000), abs=4 * 0.7 / math.sqrt(2000)
    )
    assert np.exp(many.log_ratio).mean() == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "power"), [("paper_v2", 1 / 2 - 1 / 1.5), ("mean", 1 / 1.5 - 1 / 2)]
)
def test_other_localisations_have_no_limit_or_an_empty_one(rate: str, power: float) -> None:
    rng = np.random.default_rng(12)
    for n in (100, 2000):
        terms = lan_expansion(1.5, n, rng, h=0.2, rate=rate, replicates=2000)
        expected = 0.2 * math.sqrt(SymmetricStable(1.5).fisher_information()) * n**power
        assert terms.log_ratio.std() == pytest.approx(expected, rel=0.08)


def lan_expansion(
    alpha: float, n: int, rng: np.random.Generator, rate: str = "optimal", **options
) -> Expansion:
    return lan_expansions(alpha, n, rng, [rate], **options)[rate]


def large_sample_error(n: float, shift: float, alpha: float, test: str) -> float:
    """The limit of an error with ``N Δ²`` held: the likelihood has I_α of each value, the median
    ``(2 p(0))²``."""
    law = SymmetricStable(alpha)
    efficacy = 2 * law.pdf(0.0) if test == "median" else math.sqrt(law.fisher_information())
    return float(special.ndtr(-efficacy * shift * math.sqrt(n)))


def log_ratios(alpha: float, shift: float, count: int) -> np.ndarray:
    """The log-likelihood ratios at equally probable values of one observation, the sign being
    plus."""
    law = SymmetricStable(alpha)
    z = law.ppf((np.arange(count) + 0.5) / count)
    return law.logpdf(z) - law.logpdf(z + 2 * shift)


@pytest.mark.parametrize("alpha", [1.2, 1.8])
@pytest.mark.parametrize("shift", [0.2, 1.5])
def test_two_and_three_sequences_by_enumeration(alpha: float, shift: float) -> None:
    single = log_ratios(alpha, shift, 1500)
    pair = single[:, None] + single
    assert mutual_information(shift, alpha, 1.0, 2) == pytest.approx(
        LOG_2 - np.logaddexp(0, -pair).mean(), rel=2e-3
    )
    assert detection_error(2, shift, 1.0, alpha, "likelihood") == pytest.approx(
        (pair < 0).mean(), rel=2e-3
    )
    fewer = log_ratios(alpha, shift, 160)
    triple = fewer[:, None, None] + fewer[:, None] + fewer
    assert detection_error(3, shift, 1.0, alpha, "likelihood") == pytest.approx(
        (triple < 0).mean(), rel=2e-2
    )


@pytest.mark.parametrize("shift", [0.2, 1.5])
def test_four_sequences_by_enumerating_pairs_of_pairs(shift: float) -> None:
    single = log_ratios(1.2, shift, 1500)
    pair = np.sort((single[:, None] + single).ravel()).reshape(1500, -1).mean(1)
    enumerated = LOG_2 - np.logaddexp(0, -(pair[:, None] + pair)).mean()
    assert mutual_information(shift, 1.2, 1.0, 4) == pytest.approx(enumerated, rel=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "shift"), [(1.3, 0.5), (1.6, 1.5)])
def test_error_of_two_sequences_by_a_double_integral(alpha: float, shift: float) -> None:
    """The ratio of one value rises from 0 to its peak and falls again: where the other's is smaller
    is an interval between two roots."""
    law = SymmetricStable(alpha)

    def ratio(log_x: float) -> float:
        return float(law.logpdf(math.exp(log_x) - shift) - law.logpdf(math.exp(log_x) + shift))

    peak = optimize.minimize_scalar(
        lambda t: -ratio(t), bounds=(-5, 8), method="bounded", options={"xatol": 1e-10}
    ).x

    # a density in log |x|, x one value: the other's ratio outweighs it on the wrong side
    def wrong(log_x: float) -> float:
        side = (-50, peak) if log_x > peak else (peak, 80)
        other = optimize.brentq(lambda t: ratio(t) - ratio(log_x), *side, xtol=1e-13)
        near, far = np.exp(sorted([log_x, other]))
        outweighed, outweighs = (
            law.cdf(-near - shift) - law.cdf(-far - shift),
            law.cdf(far - shift) - law.cdf(near - shift),
        )
        x = math.exp(log_x)
        return float(x * (law.pdf(x - shift) * outweighed + law.pdf(-x - shift) * (1 - outweighs)))

    ends = [-30, math.log(shift), peak, peak + 40 / alpha]
    expected = sum(
        integrate.quad(wrong, *piece, epsabs=1e-12, epsrel=1e-9, limit=200)[0]
        for piece in pairwise(ends)
    )
    assert detection_error(2, shift, 1.0, alpha, "likelihood") == pytest.approx(expected, rel=3e-7)


def test_entropy_by_hand() -> None:
    np.testing.assert_array_equal(binary_entropy([0.0, 1.0]), 0)
    assert binary_entropy(0.5) == pytest.approx(LOG_2, rel=1e-15)
    assert binary_entropy(0.25) == pytest.approx(2 * LOG_2 - 0.75 * math.log(3), rel=1e-14)
    assert binary_entropy(1e-200) == pytest.approx(
        1e-200 * (1 + 200 * math.log(10)), rel=1e-13, abs=0
    )


@given(error=st.one_of(st.floats(1e-6, 0.4999), st.floats(-6, -1).map(lambda x: 10**x)))
def test_fano_inverts_the_entropy(error: float) -> None:
    assert fano_error(LOG_2 - binary_entropy(error)) == pytest.approx(error, rel=1e-8, abs=0)


def test_necessary_number_of_a_gaussian_by_hand() -> None:
    # KL = (Δ/σ)²
    np.testing.assert_allclose(
        necessary_sequences([0.6, 1e-3], 2.0, 2.0, 0.25),
        4 * (0.75 * math.log(3) - LOG_2) / np.square([0.3, 5e-4]),
    )


def test_fano_at_its_ends() -> None:
    np.testing.assert_array_equal(fano_error([0.0, LOG_2, 0.7, 1e300]), [0.5, 0, 0, 0])
    small = np.array([1e-12, 1e-9])  # h_b(½ − δ) = log 2 − 2 δ²
    np.testing.assert_allclose(0.5 - fano_error(small), np.sqrt(small / 2), rtol=1e-8)
    last = 1e-13  # what is left is −p log p + p: no root is to be found by squaring
    p = float(fano_error(LOG_2 - last))
    assert p * (1 - math.log(p)) == pytest.approx(LOG_2 - (LOG_2 - last), rel=1e-6, abs=0)
    assert (np.diff(fano_error(np.linspace(0, LOG_2, 200))) < 0).all()


# Exact errors
# ----------------------------------------------------------------------------------------------------------------


@given(alpha=alphas, log_shift=st.floats(-3, 0.6), n=st.sampled_from([1, 2, 3, 4, 7, 20, 1000]))
def test_no_test_beats_the_likelihood_ratio_and_none_beats_fano(
    alpha: float, log_shift: float, n: int
) -> None:
    shift = 10**log_shift
    error = {test: float(detection_error(n, shift, 1.0, alpha, test)) for test in TESTS}
    assert error["likelihood"] <= min(error.values()) * (1 + 1e-6)
    assert fano_error(mutual_information(shift, alpha, 1.0, n)) <= error["likelihood"] * (1 + 1e-6)
    assert fano_error(mutual_information(shift, alpha, 1.0, n, "mean")) <= error["mean"] * (
        1 + 1e-9
    )
    most = hellman_raviv_error(mutual_information(shift, alpha, 1.0, n))
    assert error["likelihood"] <= most * (1 + 1e-6) + 1e-15
    if n == 1:
        assert (
            error["mean"]
            == error["likelihood"]
            == pytest.approx(SymmetricStable(alpha).sf(shift), rel=1e-12, abs=0)
        )
        assert error["median"] == pytest.approx(error["mean"], rel=1e-12, abs=0)


@given(
    alpha=alphas,
    log_shift=st.floats(-3, 0.6),
    n=st.integers(1, 30),
    test=st.sampled_from(TESTS),
    unit=st.sampled_from([1e-12, 1e12]),
)
def test_errors_fall_with_number_and_shift_and_know_no_unit(
    alpha: float, log_shift: float, n: int, test: str, unit: float
) -> None:
    shift = 10**log_shift
    error = float(detection_error(n, shift, 1.0, alpha, test))
    assert detection_error(n, unit * shift, unit, alpha, test) == pytest.approx(
        error, rel=1e-9, abs=0
    )
    assert detection_error(n + 2, shift, 1.0, alpha, test) < error
    assert detection_error(n + 1, shift, 1.0, alpha, test) <= error * (1 + 1e-12)
    assert detection_error(n, 1.2 * shift, 1.0, alpha, test) < error


@pytest.mark.parametrize("alpha", [1.3, 1.5, 1.8, 2.0])
@pytest.mark.parametrize(("n", "shift"), [(1, 0.5), (6, 0.7), (31, 0.2)])
def test_errors_are_those_of_simulated_tests(alpha: float, n: int, shift: float) -> None:
    trials = 20_000
    rng = np.random.default_rng([n, int(10 * alpha)])
    law = SymmetricStable(alpha)
    draws = law.sample((trials, n), rng) + shift
    positive = (draws > 0).sum(axis=1) + rng.choice([-0.1, 0.1], trials)  # an even number may tie
    ratio = np.sum(law.logpdf(draws - shift) - law.logpdf(draws + shift), axis=1)
    wrong = {"mean": draws.sum(axis=1) < 0, "likelihood": ratio < 0, "median": positive < n / 2}
    for test, wrongly in wrong.items():
        assert within_binomial_limits(
            int(wrongly.sum()), trials, float(detection_error(n, shift, 1.0, alpha, test))
        ), test
    if n % 2:
        np.testing.assert_array_equal(wrong["median"], np.median(draws, axis=1) < 0)


@pytest.mark.parametrize("alpha", [1.2, 2.0])
@pytest.mark.parametrize(
    ("n", "shift"), [(1, 1.0), (2, 1.0), (5, 1e-3), (99, 0.3), (100, 0.3), (9999, 0.05)]
)
def test_median_by_the_binomial_law(alpha: float, n: int, shift: float) -> None:
    wrong = float(SymmetricStable(alpha).sf(shift))
    half = n // 2  # more than half of the signs are wrong, or half of them and the coin falls badly
    binomial = stats.binom.sf(half, n, wrong) + (
        stats.binom.pmf(half, n, wrong) / 2 if n % 2 == 0 else 0
    )
    assert detection_error(n, shift, 1.0, alpha, "median") == pytest.approx(
        binomial, rel=1e-9, abs=0
    )


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9])
def test_large_numbers(alpha: float) -> None:
    for test in ("likelihood", "median"):
        gaps = []
        for n in (1e2 + 1, 1e4 + 1, 1e6 + 1, 1e30):
            shift = 2 / math.sqrt(n)
            gaps.append(
                abs(
                    float(
                        detection_error(n, shift, 1.0, alpha, test)
                        / large_sample_error(n, shift, alpha, test)
                    )
                    - 1
                )
            )
        assert 1e-5 < gaps[0] < 0.1
        assert gaps[1] < gaps[0] / 50  # the correction is of order 1/N
        assert gaps[2] < gaps[1] / 50
        assert gaps[3] < 1e-12
    assert mutual_information(0.5, alpha, 1.0, 1e30) == pytest.approx(LOG_2, rel=1e-15)


@pytest.mark.slow
def test_errors_at_their_ends() -> None:
    for test in TESTS:
        for alpha in (1.5, 2.0):
            np.testing.assert_allclose(
                detection_error([1, 2, 9, 1e30], 0.0, 1.0, alpha, test), 0.5, rtol=1e-15
            )
            np.testing.assert_allclose(
                detection_error(9, 1e-200, 1.0, alpha, test), 0.5, rtol=1e-15
            )
            far = np.diff(detection_error(9, 10.0 ** np.arange(2, 12), 1.0, alpha, test))
            assert (far <= 0).all()
    assert detection_error([1, 2], np.ones((3, 1)), 1.0, 1.5, "median").shape == (3, 2)
    assert (detection_error([1, 2, 9], 1e300, 1e-300, 1.5, "median") == 0).all()


@pytest.mark.parametrize("alpha", [1.3, 2.0])
@pytest.mark.parametrize("test", TESTS)
def test_least_number_is_the_least(alpha: float, test: str) -> None:
    shift, error = np.array([3.0, 0.4, 0.05]), 0.1
    n = least_sequences(shift, 1.0, alpha, error, test)
    assert (n == np.floor(n)).all()
    assert (detection_error(n, shift, 1.0, alpha, test) <= error).all()
    several = n > 1
    fewer = n[several] - (2 if test == "median" else 1)
    assert several.sum() >= 2
    assert (detection_error(fewer, shift[several], 1.0, alpha, test) > error).all()
    assert (necessary_sequences(shift, 1.0, alpha, error) <= n).all()
    if test == "mean":
        np.testing.assert_array_equal(n, np.ceil(sample_complexity(shift, 1.0, 1.0, alpha, error)))
    assert least_sequences(0.0, 1.0, alpha, error, test) == math.inf
    if test == "mean":  # a number that rounding may leave a little above or below a whole one
        counts = np.arange(1, 60)
        np.testing.assert_array_equal(
            least_sequences(detection_threshold(counts, 1.0, 1.0, alpha, error), 1.0, alpha, error),
            counts,
        )


@pytest.mark.parametrize("n", [2, 9])
def test_errors_fall_up_to_a_million_scales_and_stay_from_there_on(n: int) -> None:
    before, there, after = detection_error(n, [1e6 - 0.5, 1e6, 1e6 + 0.5], 1.0, 1.4, "likelihood")
    assert before > there == after


@pytest.mark.parametrize("test", ["likelihood", "median"])
def test_one_sequence_may_be_enough(test: str) -> None:
    assert least_sequences(1e200, 1.0, 1.5, test=test) == least_sequences(1e200, 1.0, 1.5) == 1
    alone = 1.001 * SymmetricStable(1.3).ppf(0.6)
    # what the search begins with
    assert sample_complexity(alone, 1.0, 1.0, 1.3, 0.4, "optimal") > 1
    assert least_sequences(alone, 1.0, 1.3, 0.4, test) == 1


def test_exponents_of_the_exact_numbers() -> None:
    shift, alpha = np.array([1e-5, 1e-7]), 1.3
    expected = {"mean": alpha / (alpha - 1), "likelihood": 2, "median": 2}
    for test, exponent in expected.items():
        n = least_sequences(shift, 1.0, alpha, test=test)
        assert np.log(n[1] / n[0]) / np.log(100) == pytest.approx(exponent, rel=1e-6)
    required = necessary_sequences(shift, 1.0, alpha)
    assert np.log(required[1] / required[0]) / np.log(100) == pytest.approx(2, rel=1e-6)
    best = least_sequences(1e-5, 1.0, alpha, test="likelihood")
    assert best == pytest.approx(sample_complexity(1e-5, 1.0, 1.0, alpha, rate="optimal"), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_complexity(-1.0, 1, 1, 1.5), r"envelope = .*: must be 0 or above"),
        (lambda: sample_complexity(1, 1, [1, 0], 1.5), r"scale contains 0\.0: .* above 0"),
        (lambda: detection_threshold([2, 0], 1, 1, 1.5), r"n_sequences contains 0\.0"),
        (lambda: kl_divergence(1, 1.5, 1, [2, 2.5]), r"n_sequences contains 2\.5: .*whole"),
        (
            lambda: mutual_information(1.0, 1.5, 1.0, [1, 2], route="mixture"),
            r"n_sequences contains 2\.0: .* 1 for",
        ),
        (lambda: detection_error([0, 1], 1, 1, 1.5), r"n_sequences contains 0\.0"),
        (lambda: binary_entropy([0.5, 1.5]), r"probability contains 1\.5"),
        (lambda: fano_error([0.1, -0.1]), r"information contains -0\.1"),
        (lambda: hellman_raviv_error([0.1, 0.7]), r"information contains 0\.7"),
        (lambda: detection_error([1, 2], [1, 1, 1], 1, 1.5), "broadcast"),
    ],
)
def test_what_does_not_fit_together_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
