"""Five decay laws: exact cases are recovered, criteria follow their definitions, and a search finds
what SciPy's does."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from book.chapters.five_laws import FiveLaws, TwoExponentials, fit_each
from lwcore.window import DecayLaw

LAGS = np.unique(np.geomspace(1, 200, 40).astype(int))
LAWS = FiveLaws(
    DecayLaw("exponential", 3.0, 0.97),
    DecayLaw("power", 0.5, 0.8),
    DecayLaw("logarithmic", 2.0),
    DecayLaw("tempered_power", 2.0, 0.6, 0.99),
    TwoExponentials(2.0, 0.6, slow=0.99, share=0.03),
)


def test_two_exponentials_are_fitted_as_well_as_from_many_starts():
    """SciPy's bounded least squares on amplitudes and time constants, from 8 starts."""
    lags = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 160])
    rng = np.random.default_rng(5)
    bounds = np.log([0.1, 0.1, 1e-12, 1e-12]), np.log([1.6e5, 1.6e5, 1e12, 1e12])
    for law in LAWS:
        log_f = np.log(law.envelope(lags)) + rng.normal(0, 0.2, lags.size)

        def residuals(logs, log_f=log_f):
            fast, slow, *weights = np.exp(logs)
            parts = np.exp([-lags / fast, -lags / slow])
            return np.log(weights @ parts) - log_f

        costs = []
        for fast, slow, w in product((2, 10), (30, 200), (0.1, 0.6)):
            start = np.log([fast, slow, 2 * (1 - w), 2 * w])
            costs.append(optimize.least_squares(residuals, start, bounds=bounds).cost)
        fit = fit_each(lags, [np.exp(log_f)])[0].two_exponentials
        total = np.sum((log_f - log_f.mean()) ** 2)
        residual = (1 - fit.r_squared) * total
        assert residual <= 2 * min(costs) * (1 + 1e-6)


@given(
    amplitude=st.floats(1e-12, 1e12),
    decay=st.floats(0.05, 3),
    tau=st.floats(2, 1000),
    place=st.integers(0, 4),
)
def test_exact_laws_are_recovered(amplitude, decay, tau, place):
    # a part that is gone by the second lag leaves no digits to find
    fast = math.exp(-1 / np.clip(decay, 0.5, 2))
    true = (
        DecayLaw("exponential", amplitude, math.exp(-decay / 20)),
        DecayLaw("power", amplitude, decay),
        DecayLaw("logarithmic", amplitude),
        DecayLaw("tempered_power", amplitude, decay, math.exp(-1 / tau)),
        TwoExponentials(amplitude, fast, math.exp(-1 / (20 + tau / 10)), 0.02 * decay),
    )[place]
    result = fit_each(LAGS, [true.envelope(LAGS)])[0]
    # although the tempered law, which contains two of the others, fits their rounding better
    assert np.argmin([fit.aicc for fit in result]) == place
    found = result[place]
    assert found.law.amplitude == pytest.approx(amplitude, rel=1e-10, abs=0)
    assert found.law.decay == pytest.approx(true.decay, rel=1e-10, nan_ok=True)
    if place == 3:
        assert found.law.tempering == pytest.approx(true.tempering, rel=1e-10)
    assert found.r_squared == pytest.approx(1, abs=1e-12)
