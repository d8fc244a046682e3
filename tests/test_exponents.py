"""Exponents from responses known up to an interval: the fit against SciPy's and a closed form, its
intervals against simulations."""

import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from book.chapters import dose
from book.chapters.exponents import censored_fit, dose_exponent, dosed


def rows(*needed, response="sequences"):
    """Searches with these N½, seed by seed and dose by dose, read on the grid; those beyond its
    ends are not known."""
    searches = []
    for seed, numbers in enumerate(needed):
        for gate, need in zip(dose.GATES, numbers, strict=False):
            too_few = [count for count in dose.COUNTS if count < need]
            enough = [count for count in dose.COUNTS if count >= need]
            search = asdict(dose.Condition("LSTM", gate, "recall", 20))
            search["seed"] = seed
            search["low"] = max(too_few, default=0)
            search["high"] = min(enough, default=np.nan)
            search["end"] = "half" if enough else "settled"
            search["steps"] = 500 if enough else 2000
            searches.append(search)
    return dosed(pd.DataFrame(searches), response)


def simulated(d, rng):
    """Searches of six networks that obey a power law of exponent d."""
    noise = 0.3 * rng.standard_normal((6, 1)) + 0.4 * rng.standard_normal((6, 6))
    log_envelope = math.log(32) + 20 * np.log1p(-np.array(dose.GATES))
    return rows(*np.exp(4 + d * (log_envelope - 1) + noise))


def test_interval_covers_the_exponent_although_the_grid_ends():
    d = -1.0
    rng = np.random.default_rng(5)
    n_covered = 0
    values = []
    for _ in range(20):
        interval = dose_exponent(simulated(d, rng), rng, draws=30)
        n_covered += interval.low <= d <= interval.high
        values.append(interval.value)
    assert stats.binomtest(n_covered, 20, 0.95, alternative="less").pvalue > 1e-3
    assert np.mean(values) == pytest.approx(d, abs=0.13)


def test_the_fit_has_the_largest_likelihood():
    rng = np.random.default_rng(3)
    x = np.stack([rng.standard_normal(40), np.ones(40)], axis=1)
    y = x @ [1.5, -2] + 0.7 * rng.standard_normal(40)
    low = np.floor(y)
    high = low + 1
    low[:6] = -np.inf
    high[6:14] = np.inf
    weights = rng.integers(0, 3, (3, 40)).astype(float)

    def loss(theta, weight):
        *slopes, log_spread = theta
        below = stats.norm.cdf(low, x @ slopes, np.exp(log_spread))
        above = stats.norm.cdf(high, x @ slopes, np.exp(log_spread))
        return -(weight * np.log(above - below)).sum()

    for weight, fitted in zip(weights, censored_fit(x, low, high, weights), strict=True):
        start = [1, -1, 0]
        best = optimize.minimize(loss, start, (weight,), method="Nelder-Mead", tol=1e-10).x
        np.testing.assert_allclose(fitted, best[:2], atol=1e-4)


def test_a_single_dose_inside_the_grid_gives_a_bound():
    """From 20 sequences at the mildest gate; at the next one 4,096 are not enough."""
    one_inside = [20, np.inf, np.inf]
    bound = dose_exponent(rows(one_inside, one_inside), np.random.default_rng(0))
    assert bound.low == -np.inf
    cut = 20 * (math.log1p(-0.1) - math.log1p(-0.05))
    growth = 4096 * 2**0.25 / (16 * 2**0.25)  # amid a step of the grid, both
    assert bound.value == pytest.approx(math.log(growth) / cut, abs=0.02)
