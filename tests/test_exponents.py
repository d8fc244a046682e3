"""Exponents from responses known up to an interval: the fit against SciPy's and a closed form, its
intervals against simulations."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from book.chapters import dose
from book.chapters.exponents import censored_fit, dose_exponent, dosed


def rows(*needed, response="sequences"):
    """Searches with these N½, seed by seed and dose by dose, read on the grid; those beyond its
    ends are not known."""
    found = []
    for seed, numbers in enumerate(needed):
        for gate, need in zip(dose.GATES, numbers, strict=False):
            high = min((count for count in dose.COUNTS if count >= need), default=np.nan)
            low = max((count for count in dose.COUNTS if count < need), default=0)
            of = dose.asdict(dose.Condition("LSTM", gate, "recall", 20))
            end, steps = ("settled", 2000) if np.isnan(high) else ("half", 500)
            found.append(of | {"seed": seed, "low": low, "high": high, "end": end, "steps": steps})
    return dosed(pd.DataFrame(found), response)


def simulated(d, rng):
    """Searches of six networks that obey a power law of exponent d."""
    noise = 0.3 * rng.standard_normal((6, 1)) + 0.4 * rng.standard_normal((6, 6))
    log_envelope = math.log(32) + 20 * np.log1p(-np.array(dose.GATES))
    return rows(*np.exp(4 + d * (log_envelope - 1) + noise))


@pytest.mark.parametrize("d", [0.0, -1.0])
def test_interval_covers_the_exponent_although_the_grid_ends(d):
    rng = np.random.default_rng(5)
    found = [dose_exponent(simulated(d, rng), rng, draws=30) for _ in range(20)]
    covered = sum(one.low <= d <= one.high for one in found)
    assert stats.binomtest(covered, 20, 0.95, alternative="less").pvalue > 1e-3
    assert np.mean([one.value for one in found]) == pytest.approx(d, abs=0.03 + 0.1 * abs(d))


def test_the_fit_has_the_largest_likelihood():
    rng = np.random.default_rng(3)
    x = np.stack([rng.standard_normal(40), np.ones(40)], axis=1)
    y = x @ [1.5, -2] + 0.7 * rng.standard_normal(40)
    low, high = np.floor(y), np.floor(y) + 1
    low[:6], high[6:14] = -np.inf, np.inf
    weights = rng.integers(0, 3, (3, 40)).astype(float)

    def loss(theta, of):
        ends = [(end - x @ theta[:2]) / np.exp(theta[2]) for end in (low, high)]
        below, above = (stats.norm.cdf(end) for end in ends)
        return -(of * np.log(above - below)).sum()

    for of, found in zip(weights, censored_fit(x, low, high, weights), strict=True):
        best = optimize.minimize(loss, [1, -1, 0], (of,), method="Nelder-Mead", tol=1e-10).x
        np.testing.assert_allclose(found, best[:2], atol=1e-4)


def test_a_single_dose_inside_the_grid_gives_a_bound():
    """From 20 sequences at the mildest gate; at the next one 4,096 are not enough."""
    found = dose_exponent(rows(*2 * [[20, np.inf, np.inf]]), np.random.default_rng(0))
    assert found.low == -np.inf
    between = 20 * (math.log1p(-0.1) - math.log1p(-0.05))
    beyond = 4096 * 2**0.25 / (16 * 2**0.25)  # amid a step of the grid, both
    assert found.value == pytest.approx(math.log(beyond) / between, abs=0.02)
    inside = dose_exponent(rows(*2 * [[20, 24, np.inf]]), np.random.default_rng(0))
    assert np.isfinite(inside.low)


def test_a_lag_that_is_never_learned_says_nothing():
    one = rows(*2 * [[20, 30, 40, 60, 100, 200]])
    never = one.assign(lag=40, low=4096, high=np.nan)
    both = dose_exponent(pd.concat([one, never]), np.random.default_rng(0))
    assert both == dose_exponent(one, np.random.default_rng(0))


def test_one_seed_has_no_interval():
    found = dose_exponent(rows([20, 30, 40]), np.random.default_rng(0))
    assert found[1:] == (-np.inf, np.inf)


def test_steps_are_a_response_too():
    found = rows(*2 * [[20, np.inf]], response="steps")
    assert found.low.tolist() == [450, 2000] * 2
    assert found.high.tolist() == pytest.approx([500, np.nan] * 2, nan_ok=True)
    assert found.log_envelope[0] == pytest.approx(math.log(32 * 0.95**20))
