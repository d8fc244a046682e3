"""Windows, decay laws and time scales: exact cases, properties, and what noise does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from lwcore.detection import detection_threshold, rate_exponent, sample_complexity
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
LAWS = [
    DecayLaw("exponential", 3.0, 0.97),
    DecayLaw("power", 0.5, 0.8),
    DecayLaw("logarithmic", 2.0),
    DecayLaw("tempered_power", 2.0, 0.6, 0.99),
]
REGIMES = LAWS[:3]
NAMES = [law.name for law in REGIMES]

required_numbers = hnp.arrays(
    float, (2, 6), elements=st.one_of(st.floats(0, 1e6), st.just(math.inf))
)
budget_lists = hnp.arrays(float, 5, elements=st.floats(0, 1e6)).map(np.sort)


def test_window_by_hand() -> None:
    required = [[1, 5, 100, 7, math.inf], [50, math.inf, math.inf, math.inf, math.inf]]
    supremum = learnability_window(
        lags=[1, 2, 4, 8, 16], required=required, n_sequences=[0, 1, 6, 50, 1000]
    )
    assert supremum.tolist() == [[0, 1, 2, 8, 8], [0, 0, 0, 1, 1]]
    first = learnability_window(
        [1, 2, 4, 8, 16], required, [0, 1, 6, 50, 1000], definition="first_passage"
    )
    assert first.tolist() == [[0, 1, 2, 2, 8], [0, 0, 0, 1, 1]]
    assert first.dtype == np.int64


@given(required=required_numbers, budgets=budget_lists)
def test_window_grows_with_the_number_of_sequences(
    required: np.ndarray, budgets: np.ndarray
) -> None:
    lags = [1, 2, 3, 5, 8, 13]
    supremum = learnability_window(lags, required, budgets)
    first = learnability_window(lags, required, budgets, definition="first_passage")
    for window in (supremum, first):
        assert window.shape == (2, 5)
        assert (np.diff(window, axis=-1) >= 0).all()
    assert (first <= supremum).all()
    # no lag is easier than a shorter one: then the definitions agree
    ordered = np.sort(required, axis=-1)
    np.testing.assert_array_equal(
        learnability_window(lags, ordered, budgets),
        learnability_window(lags, ordered, budgets, definition="first_passage"),
    )


@given(required=required_numbers, budgets=budget_lists)
def test_window_does_not_depend_on_the_other_budgets(
    required: np.ndarray, budgets: np.ndarray
) -> None:
    lags = [1, 2, 3, 5, 8, 13]
    together = learnability_window(lags, required, budgets)
    alone = [learnability_window(lags, required, [budget])[..., 0] for budget in budgets]
    np.testing.assert_array_equal(together, np.stack(alone, axis=-1))


# Measured envelopes
# ----------------------------------------------------------------------------------------------------------

CHOSEN = [1, 2, 3, 5, 8, 13]


@given(
    envelope=hnp.arrays(float, (2, 6), elements=st.one_of(st.floats(1e-3, 1e3), st.just(0.0))),
    budgets=hnp.arrays(float, 5, elements=st.floats(1, 1e12)),
    definition=st.sampled_from(["supremum", "first_passage"]),
)
def test_window_is_the_last_lag_above_the_threshold(
    envelope: np.ndarray, budgets: np.ndarray, definition: str
) -> None:
    m, sigma, alpha = 0.3, 2.0, 1.4
    # half a part in a million off the lags' own numbers, where rounding would decide
    budgets = budgets * (1 + 5e-7)
    needed = sample_complexity(envelope, m, sigma, alpha)
    window = learnability_window(CHOSEN, needed, budgets, definition=definition)
    above = envelope[:, None, :] >= detection_threshold(budgets, m, sigma, alpha)[:, None]
    if definition == "first_passage":
        above = np.logical_and.accumulate(above, axis=-1)
    np.testing.assert_array_equal(window, np.where(above, CHOSEN, 0).max(axis=-1))
    more = learnability_window(
        CHOSEN, sample_complexity(1.3 * envelope, m, sigma, alpha), budgets, definition=definition
    )
    assert (more >= window).all()


@given(
    envelope=hnp.arrays(float, 6, elements=st.floats(1e-3, 1e3)),
    alignment=hnp.arrays(float, 6, elements=st.floats(0.1, 10)),
    scale=hnp.arrays(float, 6, elements=st.floats(0.1, 10)),
    definition=st.sampled_from(["supremum", "first_passage"]),
    rate=st.sampled_from(["mean", "optimal", "paper_v2"]),
)
def test_window_lies_between_its_bounds(
    envelope: np.ndarray, alignment: np.ndarray, scale: np.ndarray, definition: str, rate: str
) -> None:
    budgets, alpha = np.geomspace(1, 1e12, 30), 1.6
    needed = sample_complexity(envelope, alignment, scale, alpha, rate=rate)
    low, high = window_bounds(
        CHOSEN, envelope, alignment, scale, budgets, alpha, rate=rate, definition=definition
    )
    window = learnability_window(CHOSEN, needed, budgets * (1 - 1e-9), definition=definition)
    assert (window <= high).all()
    assert (
        learnability_window(CHOSEN, needed, budgets * (1 + 1e-9), definition=definition) >= low
    ).all()
    assert (low <= high).all()
    same_low, same_high = window_bounds(
        CHOSEN, envelope, 0.7, 2.0, budgets, alpha, rate=rate, definition=definition
    )
    # one constant for all lags: the envelope decides
    np.testing.assert_array_equal(same_low, same_high)


def test_bounds_of_the_window_by_hand() -> None:
    # Gaussian: N = 2 (z σ/(m̄ f))², z = 1.28
    z2 = 2 * stats.norm.ppf(0.9) ** 2
    low, high = window_bounds(
        [1, 2, 3],
        [1.0, 0.5, 0.25],
        [1.0, 1.0, 0.5],
        1.0,
        np.array([0.9, 1.1, 4.1, 16.1, 64.1]) * z2,
        2.0,
    )
    assert low.tolist() == [0, 0, 1, 2, 3]
    assert high.tolist() == [0, 1, 2, 3, 3]
    low, high = window_bounds([1, 2], [1.0, 0.0], [1.0, -1.0], 1.0, [1e6], 2.0)
    assert (low.tolist(), high.tolist()) == ([0], [1])


# Decay laws
# ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", REGIMES, ids=NAMES)
def test_predicted_window_is_where_the_law_crosses(law: DecayLaw) -> None:
    lag = np.array([1.0, 2.5, 10.0, 77.7])
    np.testing.assert_allclose(law.inverse(np.log(law.envelope(lag) * (1 - 1e-13))), lag, rtol=1e-9)
    np.testing.assert_array_equal(law.inverse([math.log(law.envelope(1.0) * 1.001), math.inf]), 0)
    assert DecayLaw("power", 1.0, 0.5).inverse(0.0) == 1  # the first lag is one, too


@pytest.mark.parametrize("law", REGIMES, ids=NAMES)
@pytest.mark.parametrize("rate", ["mean", "optimal", "paper_v2"])
def test_predicted_window_is_the_measured_one(law: DecayLaw, rate: str) -> None:
    lags = np.arange(1, 400)
    budgets = np.geomspace(1, 1e5, 23)
    m, sigma, alpha = 0.3, 0.4, 1.6
    measured = learnability_window(
        lags, sample_complexity(law.envelope(lags), m, sigma, alpha, rate=rate), budgets
    )
    predicted = law.inverse(np.log(detection_threshold(budgets, m, sigma, alpha, rate=rate)))
    assert np.unique(measured).size > 4
    np.testing.assert_array_equal(measured, np.minimum(np.floor(predicted), lags[-1]))


@pytest.mark.parametrize("law", REGIMES, ids=NAMES)
@pytest.mark.parametrize("rate", ["mean", "optimal", "paper_v2"])
def test_regimes(law: DecayLaw, rate: str) -> None:
    n, m, sigma, alpha, error = np.geomspace(10, 1e30, 25), 0.3, 0.4, 1.3, 0.05
    window = regime_window(law, n, m, sigma, alpha, error, rate)
    np.testing.assert_allclose(
        window, law.inverse(np.log(detection_threshold(n, m, sigma, alpha, error, rate))), rtol=1e-9
    )
    assert (window[1:] >= window[:-1]).all()
    finite = window[(window > 0) & np.isfinite(window)]
    kept = n[(window > 0) & np.isfinite(window)]
    p = rate_exponent(alpha, rate)
    slope = {  # Appendix F
        "exponential": lambda: (
            np.diff(finite)[-1] / (np.diff(np.log(kept))[-1] / (p * -math.log(law.decay)))
        ),
        "power": lambda: np.diff(np.log(finite))[-1] / np.diff(np.log(kept))[-1] * p * law.decay,
        "logarithmic": lambda: (
            np.diff(np.log(np.log1p(finite)))[-1] / np.diff(np.log(kept))[-1] * p
        ),
    }[law.name]()
    assert slope == pytest.approx(1, rel=1e-9)
    for unit in (1e-12, 1e12):
        np.testing.assert_allclose(
            regime_window(law, n, unit * m, unit * sigma, alpha, error, rate), window, rtol=1e-9
        )


def test_laws_that_do_not_decay() -> None:
    for flat in (DecayLaw("exponential", 2.0, 1.0), DecayLaw("power", 2.0, 0.0)):
        np.testing.assert_array_equal(
            flat.inverse(np.log([1.0, 2.0, 3.0])), [math.inf, math.inf, 0]
        )
    for growing in (DecayLaw("exponential", 2.0, 1.1), DecayLaw("power", 2.0, -1.0)):
        np.testing.assert_array_equal(
            growing.inverse([0.0, 3.0, math.inf]), [math.inf, math.inf, 0]
        )
    assert DecayLaw("logarithmic", 1.0).inverse(math.log(1e-4)) == math.inf  # e^10000 steps


def test_constant_envelope() -> None:
    found = fit_decay(LAGS, np.full(LAGS.size, 0.1))
    assert found.exponential.law.decay == 1
    assert found.power.law.decay == 0
    assert math.isnan(found.exponential.r_squared)


def test_five_lags_are_too_few_to_choose_the_tempered_law() -> None:
    lags = LAGS[:5]
    found = fit_decay(lags, LAWS[3].envelope(lags) * np.array([1.1, 0.9, 1.05, 1, 0.98]))
    assert found.tempered.aicc == math.inf
    assert found.tempered.r_squared > found.best.r_squared


# Time scales
# -----------------------------------------------------------------------------------------------------------------


@given(
    tau=hnp.arrays(float, (3, 4), elements=st.floats(0.5, 1e6)),
    amplitude=hnp.arrays(float, (3, 4), elements=st.floats(1e-6, 1e6)),
    unit=st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_exact_time_scales_are_recovered(
    tau: np.ndarray, amplitude: np.ndarray, unit: float
) -> None:
    lags = np.array([1, 2, 4, 16, 64])
    rates = unit * amplitude[:, None] * np.exp(-lags[:, None] / tau[:, None])
    np.testing.assert_allclose(time_scales(lags, rates), tau, rtol=1e-8)


def test_neurons_without_a_decay() -> None:
    lags = [1, 2, 4]
    decay = np.exp(-np.array(lags) / 5)
    rates = np.stack(
        [
            decay,
            np.full(3, 0.1),
            1 / decay,
            -decay,
            [0, 1, 0],
            decay * [1, -1, 1],
            decay * [1, 0, 1],
        ],
        axis=-1,
    )
    # the last two: the bad rate is left out
    expected = [5, math.inf, math.inf, math.nan, math.nan, 5, 5]
    np.testing.assert_allclose(time_scales(lags, rates), expected, rtol=1e-12)
    assert np.isnan(time_scales([3], [[0.5, 0.2]])).all()
    constant = np.broadcast_to(np.random.default_rng(0).uniform(size=100), (LAGS.size, 100))
    np.testing.assert_array_equal(time_scales(LAGS, constant), math.inf)


def test_time_scale_of_an_uneven_decay_is_the_least_squares_one() -> None:
    lags = np.array([1, 3, 4, 10])
    rates = np.array([[0.9], [0.5], [0.45], [0.01]])
    assert time_scales(lags, rates)[0] == pytest.approx(
        -1 / np.polyfit(lags, np.log(rates[:, 0]), 1)[0]
    )


def test_mixture_of_exponentials() -> None:
    lags = np.array([0.0, 1, 5, 20])
    np.testing.assert_allclose(mixture_envelope(lags, [4.0]), np.exp(-lags / 4), rtol=1e-14)
    both = mixture_envelope(lags, [4.0, math.inf], [2.0, 1e-12])
    np.testing.assert_allclose(both, 2 * np.exp(-lags / 4) + 1e-12, rtol=1e-14)
    assert mixture_envelope(lags, np.ones((3, 2, 5))).shape == (3, 2, 4)
    np.testing.assert_allclose(mixture_envelope([0.0], np.ones((3, 5))), 5)
    whole = np.array([1, 2, 4, 8])
    rates = mixture_envelope(whole, np.array([[3.0], [9.0]])).T  # one neuron each
    np.testing.assert_allclose(time_scales(whole, rates), [3, 9], rtol=1e-10)


def test_a_broad_spectrum_of_time_scales_is_a_power_law() -> None:
    beta, lags = 0.7, np.unique(np.geomspace(1, 1000, 40).astype(int))
    log_rate = np.linspace(math.log(1e-14), math.log(50), 4000)
    # density k^(β−1) in k = 1/τ
    weights = np.exp(beta * log_rate) * (log_rate[1] - log_rate[0]) / math.gamma(beta)
    envelope = mixture_envelope(lags, np.exp(-log_rate), weights)
    np.testing.assert_allclose(envelope, lags**-beta, rtol=1e-5)
    slowest = np.exp(-log_rate) < 100  # cut the spectrum: a tempered power law
    found = fit_decay(lags, mixture_envelope(lags, np.exp(-log_rate[slowest]), weights[slowest]))
    assert found.best is found.tempered
    assert found.tempered.law.tempering == pytest.approx(math.exp(-1 / 100), abs=3e-3)


def test_residuals_count_as_they_are_down_to_the_rounding_of_the_logarithms() -> None:
    noise = np.random.default_rng(3).normal(size=LAGS.size)
    larger, smaller = (
        fit_decay(LAGS, LAWS[1].envelope(LAGS) * np.exp(size * noise)).power.aicc
        for size in (1e-9, 1e-10)
    )
    assert larger - smaller == pytest.approx(2 * LAGS.size * math.log(10), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learnability_window([1, 2], [1, math.nan], [1]), "required contains nan"),
        (lambda: learnability_window([1, 2], [1, -0.5], [1]), r"required contains -0\.5"),
        (lambda: learnability_window([1, 2], [1, 2, 3], [1]), "required = .* each of the 2 lags"),
        (lambda: learnability_window([1, 2], 1.0, [1]), "required = .* each of the 2 lags"),
        (lambda: learnability_window([1, 2], [1, 2], 1.0), "n_sequences = 1.0: must be a list"),
        (lambda: learnability_window([1, 2], [1, 2], [-1]), r"n_sequences contains -1\.0"),
        (lambda: window_bounds([1, 2], [1, 0.5], [1, 1, 1], 1, [10], 1.5), "broadcast"),
        (lambda: regime_window(LAWS[0], [1, 0], 1, 1, 1.5), r"n_sequences contains 0\.0"),
        (lambda: mixture_envelope([1, -1], [1]), r"lags contains -1\.0"),
        (lambda: mixture_envelope([1], [1, math.nan]), "time_scales contains nan"),
        (lambda: mixture_envelope([1], [1, 2], [1, -2]), r"weights contains -2\.0"),
        (lambda: mixture_envelope([1], [1, 2], [1, 2, 3]), "broadcast"),
        (lambda: mixture_envelope([1, 2], np.ones((2, 0))), "time_scales = .* one or more"),
        (lambda: DecayLaw("tempered_power", 1, 0.5), "tempering = nan: must be .* above 0"),
        (lambda: DecayLaw("power", 1), "decay = nan: must be a finite number"),
        (lambda: DecayLaw("exponential", 1, 0), "decay = 0: must be .* above 0"),
        (lambda: LAWS[0].inverse([0, math.nan]), "log_level contains nan"),
        (lambda: LAWS[3].inverse(0), "law = 'tempered_power'"),
        (lambda: fit_decay([1, 2, 3, 5, 9], [1, 1, 1, 0, 1]), r"envelope contains 0\.0"),
        (lambda: fit_decay([1, 2, 3, 5], [1, 1, 1, 1]), r"lags = \[1, 2, 3, 5\]: must be five"),
        (lambda: time_scales([1, 2], [1, 0.5]), "rates = .* each of the 2 lags"),
    ],
)
def test_what_does_not_fit_together_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
