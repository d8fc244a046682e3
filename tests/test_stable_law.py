"""The stable law against mpmath, closed forms and simulation.

``tests/data/stable_law.json`` holds ``[alpha, x, pdf, sf, score]`` by mpmath with 70 digits.
``python -m tests.test_stable_law`` makes it afresh, in some minutes; a few of its values are
recomputed in every run.
"""

import json
import math
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import integrate, stats
from threadpoolctl import threadpool_limits

from lwcore.stable import SymmetricStable
from lwcore.stable.standard import DENSITY, SLOPE, TAIL, standard_law

REFERENCE = Path(__file__).parent / "data" / "stable_law.json"
WAYS = DENSITY, SLOPE, TAIL


def by_mpmath(alpha: float, x: float, digits: int) -> tuple[float, float, float]:
    """Give pdf, sf and score at ``x ≥ 0`` from the characteristic function, integrated along a ray
    on which nothing oscillates much."""
    with mpmath.workdps(digits):
        alpha = mpmath.mpf(alpha)
        x = mpmath.mpf(x)
        angle = min(1 / alpha, 1) * mpmath.pi / 2 * mpmath.mpf("0.9")
        turn = mpmath.expj(angle)
        turned_power = mpmath.expj(alpha * angle)
        edges = [mpmath.mpf(2) ** k / (x + 1) for k in range(-8, 7)]
        panels = [0, *edges, mpmath.inf]

        def wave(t):
            return mpmath.exp(1j * x * t * turn - t**alpha * turned_power)

        of_pdf = mpmath.quad(wave, panels)
        of_slope = mpmath.quad(lambda t: t * wave(t), panels)
        pdf = mpmath.re(turn * of_pdf) / mpmath.pi
        slope = mpmath.re(1j * turn**2 * of_slope) / mpmath.pi
        if not x:
            return float(pdf), 0.5, 0.0
        of_sf = mpmath.quad(lambda t: mpmath.im(wave(t)) / t, panels)
        sf = 0.5 - (angle + of_sf) / mpmath.pi
        return float(pdf), float(sf), float(-slope / pdf)


def reference() -> np.ndarray:
    """The recorded values, an α after the other, each at the same points."""
    return np.array(json.loads(REFERENCE.read_text()))


@pytest.mark.parametrize("alpha", np.unique(reference()[:, 0]))
def test_values_agree_with_mpmath(alpha):
    rows = reference()
    x, pdf, sf, score = rows[rows[:, 0] == alpha, 1:].T
    law = SymmetricStable(alpha)
    np.testing.assert_allclose(law.pdf(x), pdf, rtol=1e-13)
    np.testing.assert_allclose(law.logpdf(x), np.log(pdf), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(law.score(x), score, rtol=1e-12)
    for own, other in ((law.sf, law.cdf), (law.cdf, law.sf)):
        expected = sf if own == law.sf else 1 - sf
        np.testing.assert_allclose(own(x), expected, rtol=1e-13)
        np.testing.assert_allclose(other(-x), expected, rtol=1e-13)


@pytest.mark.slow
def test_the_reference_can_be_made_again():
    for alpha, x, *values in random.Random(1).sample(reference().tolist(), 1):
        np.testing.assert_allclose(by_mpmath(alpha, x, 50), values, rtol=1e-14)


@pytest.mark.parametrize("alpha", [0.501, 0.9999, 1.3, 1.84, 1.86, 2 - 1e-12])
def test_table_and_series_stand_for_the_integral(alpha):
    law = standard_law(alpha)
    # many per panel, so that each degree of freedom is seen
    x = np.geomspace(law.near_end, law.far_start, 3000)
    integral = law.integral(x)
    np.testing.assert_allclose([law(x, row) for row in WAYS], integral, rtol=3e-12)
    near = [law._near(x[:1], row) for row in WAYS]
    np.testing.assert_allclose(near, integral[:, :1], rtol=3e-12)
    far = [law._far(x[-1:], row) for row in WAYS]
    np.testing.assert_allclose(far, integral[:, -1:], rtol=3e-12)


def test_gaussian_and_cauchy_are_the_two_ends():
    x = np.array([-1e8, -8, -0.5, 0, 1e-3, 3, 1e12])
    p = np.array([1e-140, 1e-5, 0.25, 0.5, 1 - 1e-6])
    z = (x - 1) / 3
    for alpha, closed, score in (
        (1.0, stats.cauchy(1, 3), 2 / 3 * z / (1 + z**2)),
        (2.0, stats.norm(1, 3 * math.sqrt(2)), z / 6),
    ):
        law = SymmetricStable(alpha, scale=3.0, loc=1.0)
        for name in ("pdf", "cdf", "sf", "logpdf"):
            np.testing.assert_allclose(getattr(law, name)(x), getattr(closed, name)(x), rtol=1e-12)
        np.testing.assert_allclose(law.ppf(p), closed.ppf(p), rtol=1e-9)
        np.testing.assert_allclose(law.score(x), score, rtol=1e-12)
        assert law.fisher_information() == pytest.approx(1 / 18, rel=1e-12)


# Half of the draws from where the law changes its ways of computing.
alphas = st.floats(0.5, 2, exclude_min=True) | st.sampled_from(
    [0.75, 1.0, 1 - 1e-9, 1 + 1e-9, 1.5, 1.85, 1.99, 2 - 1e-9, 2.0]
)
sizes = st.floats(-8, 8).map(lambda exponent: 10.0**exponent)


@given(alpha=alphas, x=sizes, scale=sizes, loc=st.floats(-1e3, 1e3))
@example(alpha=0.6, x=0.5e150, scale=1e150, loc=0.0)
@example(alpha=0.6, x=1e-50, scale=1e-150, loc=0.0)
def test_symmetry_and_scaling(alpha, x, scale, loc):
    """Also at the ends of the range."""
    unit = SymmetricStable(alpha)
    law = SymmetricStable(alpha, scale)
    z = x / scale
    assert law.pdf(x) == law.pdf(-x)
    assert law.score(x) == -law.score(-x)
    near = partial(pytest.approx, rel=1e-13)
    for name, power in {"pdf": 1, "score": 1, "sf": 0, "kl": 0}.items():
        found = getattr(law, name)(x) * scale**power
        assert found == near(float(getattr(unit, name)(z)), abs=0), name
    assert law.logpdf(x) + math.log(scale) == near(float(unit.logpdf(z)), abs=1e-13)
    assert law.ppf(0.1) / scale == near(float(unit.ppf(0.1)))
    assert law.fisher_information() * scale * scale == near(unit.fisher_information())
    moved = SymmetricStable(alpha, scale, loc)
    assert moved.kl(x) == law.kl(x)
    assert moved.sf(loc + x) == law.sf((loc + x) - loc)


@given(
    alpha=alphas,
    tail=st.floats(-149, -0.301032).map(lambda exponent: 10.0**exponent),
)
@example(alpha=0.6, tail=1e-6)  # far out, and not yet Pareto's
def test_ppf_inverts_cdf(alpha, tail):
    law = SymmetricStable(alpha)
    x = law.ppf(tail)
    assert x < 0
    if x >= -1e150:
        assert law.cdf(x) == pytest.approx(tail, rel=1e-9, abs=0)


# Divergence and information


@given(alpha=alphas)
def test_divergence_starts_with_the_fisher_information_and_ends_as_a_logarithm(alpha):
    law = SymmetricStable(alpha, scale=10.0, loc=1.0)
    unit = law.fisher_information() / 2
    assert law.kl(1e-7) == pytest.approx(unit * 1e-14, rel=1e-9, abs=0)  # a shift of 1e-8 scales
    # the next order is quartic: halving the shift divides what is missing by four
    missing = [1 - law.kl(shift) / (unit * shift**2) for shift in (0.2, 0.1)]
    assert missing[0] / 4 == pytest.approx(missing[1], rel=0.05, abs=1e-10)
    if 0.75 <= alpha < 1.999:
        growth = np.diff(law.kl([1e12, 1e15, 1e41, 1e150])) / np.log([1e3, 1e26, 1e109])
        np.testing.assert_allclose(growth, alpha + 1, rtol=1e-6)


@pytest.mark.parametrize(("alpha", "shift"), [(0.8, 0.9), (1.5, 0.05), (1.999, 40.0)])
def test_divergence_is_the_mean_log_ratio(alpha, shift):
    law = SymmetricStable(alpha)
    moved = SymmetricStable(alpha, loc=shift)

    def integrand(t):
        x = math.sinh(t)
        return math.cosh(t) * moved.pdf(x) * (moved.logpdf(x) - law.logpdf(x))

    kinks = [0, math.asinh(shift)]
    expected, _ = integrate.quad(integrand, -40, 40, points=kinks, limit=500, epsrel=1e-10)
    assert law.kl(shift) == pytest.approx(expected, rel=1e-8)


# Ends, samples, imports


def test_special_arguments():
    law, infinite = SymmetricStable(1.5), np.array([np.inf, -np.inf])
    np.testing.assert_array_equal(law.cdf(infinite), [1, 0])
    np.testing.assert_array_equal(law.sf(infinite), [0, 1])
    np.testing.assert_array_equal([law.pdf(infinite), law.score(infinite)], 0)
    np.testing.assert_array_equal(law.ppf([0.0, 0.5, 1.0]), [-np.inf, 0, np.inf])
    for function in (law.cdf, law.sf, law.pdf, law.score):
        assert np.isnan(function(np.nan))
    for function in (law.pdf, law.ppf, law.kl):
        assert np.shape(function(0.2)) == ()
        assert function(np.full((2, 3), 0.2)).shape == (2, 3)
    assert law.kl(0.0) == 0


@pytest.mark.parametrize("alpha", [0.6, 1.2, 1.7])
def test_samples_follow_the_law(alpha):
    law = SymmetricStable(alpha, scale=3.0, loc=10.0)
    draws = law.sample([40, 100], np.random.default_rng(5))
    assert draws.shape == (40, 100)
    assert stats.kstest(law.cdf(draws.ravel()), "uniform").pvalue > 1e-3


def test_samples_are_those_of_the_two_laws_in_closed_form():
    """At α = 1 the tangent of an angle; at α = 2 twice its sine, times the root of a waiting."""
    generators = [np.random.default_rng(5) for _ in range(3)]
    angle = generators[0].uniform(-np.pi / 2, np.pi / 2, 1000)
    waiting = generators[0].exponential(size=1000)
    cauchy = SymmetricStable(1.0, scale=3.0).sample(1000, generators[1])
    gaussian = SymmetricStable(2.0, scale=3.0).sample(1000, generators[2])
    np.testing.assert_allclose(cauchy, 3 * np.tan(angle), rtol=1e-12)
    np.testing.assert_allclose(gaussian, 6 * np.sin(angle) * np.sqrt(waiting), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.52, 1.0, 1.5, 2.0])
def test_quantiles_next_to_the_median_have_all_their_digits(alpha):
    law = SymmetricStable(alpha)
    off = np.array([0.2, 0.02, 0.0101, 0.0099, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 2.0**-54])
    off = 0.5 - (0.5 - off)  # as it stands in the probability
    x = -law.ppf(0.5 - off)
    near = off < 1e-7  # p is p(0) there, but for p″x²
    density = math.gamma(1 + 1 / alpha) / math.pi
    np.testing.assert_allclose(x[near], off[near] / density, rtol=1e-13)
    np.testing.assert_allclose(standard_law(alpha).from_median(x), off, rtol=1e-12)
    assert (np.diff(law.ppf(np.linspace(0.48, 0.52, 1001))) > 0).all()
    assert law.ppf(0.5) == 0


DIGEST_OF_TABLES = """
import hashlib
from lwcore.stable import standard
from lwcore.stable.fits import _quantile_table, _weight_table
alphas, _, spread = _weight_table()
tables = [*_quantile_table(), alphas, spread]
tables += [standard.standard_law(alpha).table for alpha in (0.51, 0.95, 1.0001, 1.7, 1.9999)]
digest = hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest()
"""


def test_tables_that_are_kept_have_the_same_bits_at_any_number_of_threads():
    """A run has one thread; a table from before it, made with more, must not change its bits."""
    found = {}
    with threadpool_limits(1):
        exec(DIGEST_OF_TABLES, found)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    command = [sys.executable, "-c", f"{DIGEST_OF_TABLES}\nprint(digest)"]
    printed = subprocess.check_output(command, env=environment, text=True)
    assert printed.strip() == found["digest"]


if __name__ == "__main__":
    made = [[alpha, x, *by_mpmath(alpha, x, 70)] for alpha, x, *_ in reference().tolist()]
    REFERENCE.write_text("[\n" + ",\n".join(map(json.dumps, made)) + "\n]\n")
