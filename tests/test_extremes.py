"""One argument at the end of its range, the others as usual: the right value, without a warning, or
a refusal in words. Oracles: mpmath, closed forms, limits."""

import mpmath as mp
import numpy as np
import pytest

from lwcore import inference
from lwcore.detection import (
    detection_error,
    detection_threshold,
    mutual_information,
    rate_exponent,
    sample_complexity,
)
from lwcore.signatures import ArgumentError
from lwcore.stats import binomial, bootstrap, most_covered
from lwcore.window import window_bounds

LARGEST = np.finfo(float).max


def mass_beyond(a, b, end, side):
    """The mass of Beta(a, b) beyond a number, by quadrature of the density."""
    with mp.workdps(30):
        a, b, end = mp.mpf(a), mp.mpf(b), mp.mpf(end)
        spread = mp.sqrt(a * b / (a + b) / (a + b) / (a + b + 1))
        constant = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
        edges = {min(max(end + side * k * spread, 0), 1) for k in (0, 1, 2, 4, 8, 16, 30)}

        def density(x):
            if not 0 < x < 1:
                return mp.mpf(0)
            return mp.exp(constant + (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x))

        return float(mp.quad(density, sorted(edges)))


@pytest.mark.parametrize(
    ("hits", "trials"),
    [
        (999, 10**9),  # a parameter of 1,000, at which SciPy's inverse fails
        (10**9 - 999, 10**9),
        (1000, 10**11),
        (30, 10**12),
        (3 * 10**11, 10**12),
        (7 * 10**15, 10**16),
        (20_000, 10**13),
        (9_999, 10**11),
        (36071641092455208, 55043371023804504),
    ],
)
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_a_binomial_interval_leaves_out_what_it_says_at_any_number_of_trials(hits, trials, level):
    tail = (1 - level) / 2
    value, low, high = binomial(hits, trials, level)
    assert low < value < high
    assert mass_beyond(hits, trials - hits + 1, low, -1) == pytest.approx(tail, rel=1e-5)
    assert mass_beyond(hits + 1, trials - hits, high, 1) == pytest.approx(tail, rel=1e-5)


@pytest.mark.parametrize("rate", ["mean", "optimal", "paper_v2"])
@pytest.mark.parametrize("count", [1, 3, 8, 17])
def test_minus_zero_is_zero(rate, count):
    """At any length of an array: NumPy takes the larger of 0 and −0 in several ways."""
    zeros = np.full(count, -0.0)
    assert np.all(sample_complexity(zeros, 1, 1, 1.5, rate=rate) == np.inf)
    assert np.all(sample_complexity(1, zeros, 1, 1.5, rate=rate) == np.inf)
    assert np.all(detection_threshold(10, zeros, 1, 1.5, rate=rate) == np.inf)
    lags = [1, 2, 3]
    bounds = [
        window_bounds(lags, [0.9, 0.5, 0.1], [1, zero, 1], 1, [10, 1e4], 1.5, rate=rate)
        for zero in (0.0, -0.0)
    ]
    np.testing.assert_array_equal(*bounds)
    means = np.array([[2.0, 0.0, -1.0]])
    found = [inference.significant(means, zero, 30, 0.05).tolist() for zero in (0.0, -0.0)]
    assert found == [[[True, False, False]]] * 2


def test_with_as_many_sequences_as_a_float_can_count_the_sign_is_known():
    """Beyond them nothing is left to learn; of shifts too small for even these, nothing is told."""
    for alpha in (1.2, 1.5, 1.99):
        for shift in (1e-3, 1.0, 1e6, 1e300, LARGEST):
            assert mutual_information(shift, alpha, 1, LARGEST) == pytest.approx(np.log(2))
            assert detection_error(LARGEST, shift, 1, alpha, "likelihood") == 0
        assert mutual_information(1e-200, alpha, 1, LARGEST) < 1e-80
        assert detection_error(LARGEST, 1e-200, 1, alpha, "likelihood") == 0.5


DURATION = np.timedelta64(2, "D")


@pytest.mark.parametrize(
    "call",
    [
        lambda: rate_exponent(DURATION),
        lambda: most_covered(DURATION),
        lambda: sample_complexity(1, 1, 1, 1.5, error=np.timedelta64(0)),
        lambda: bootstrap(np.mean, DURATION),
        lambda: sample_complexity(np.array([DURATION], object), 1, 1, 1.5),
        lambda: sample_complexity([[DURATION]], 1, 1, 1.5),
    ],
)
def test_a_duration_is_no_number(call):
    """NumPy has it among its whole numbers."""
    with pytest.raises(ArgumentError, match=r"^\w+ = .*: must be "):
        call()
