"""Windows, decay laws and time scales: exact cases, properties, and what noise does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lwcore.bounds import detection_threshold, sample_complexity
from lwcore.window import DecayLaw, fit_decay, learnability_window, predicted_window, time_scales

LAGS = np.unique(np.geomspace(1, 200, 40).astype(int))
LAWS = [DecayLaw("exponential", 3.0, 0.97), DecayLaw("power", 0.5, 0.8), DecayLaw("logarithmic", 2.0)]
LAW_NAMES = [law.name for law in LAWS]

required_numbers = hnp.arrays(float, (2, 6), elements=st.one_of(st.floats(0, 1e6), st.just(math.inf)))
budget_lists = hnp.arrays(float, 5, elements=st.floats(0, 1e6)).map(np.sort)


def test_window_by_hand() -> None:
    required = [[1, 5, 100, 7, math.inf], [50, math.inf, math.inf, math.inf, math.inf]]
    assert learnability_window([1, 2, 4, 8, 16], required, [0, 1, 6, 50, 1000]).tolist() == [[0, 1, 2, 8, 8], [0, 0, 0, 1, 1]]
    first = learnability_window([1, 2, 4, 8, 16], required, [0, 1, 6, 50, 1000], definition="first_passage")
    assert first.tolist() == [[0, 1, 2, 2, 8], [0, 0, 0, 1, 1]]
    assert first.dtype == np.int64


@given(required=required_numbers, budgets=budget_lists)
@settings(max_examples=100, deadline=None)
def test_window_grows_with_the_number_of_sequences(required: np.ndarray, budgets: np.ndarray) -> None:
    lags = [1, 2, 3, 5, 8, 13]
    supremum = learnability_window(lags, required, budgets)
    first = learnability_window(lags, required, budgets, definition="first_passage")
    for window in (supremum, first):
        assert window.shape == (2, 5)
        assert (np.diff(window, axis=-1) >= 0).all()
    assert (first <= supremum).all()
    ordered = np.sort(required, axis=-1)  # no lag is easier than a shorter one: then the definitions agree
    np.testing.assert_array_equal(
        learnability_window(lags, ordered, budgets), learnability_window(lags, ordered, budgets, definition="first_passage")
    )


@given(required=required_numbers, budgets=budget_lists)
@settings(max_examples=50, deadline=None)
def test_window_does_not_depend_on_the_other_budgets(required: np.ndarray, budgets: np.ndarray) -> None:
    lags = [1, 2, 3, 5, 8, 13]
    together = learnability_window(lags, required, budgets)
    alone = [learnability_window(lags, required, [budget])[..., 0] for budget in budgets]
    np.testing.assert_array_equal(together, np.stack(alone, axis=-1))


@pytest.mark.parametrize(
    ("required", "budgets", "options", "message"),
    [
        ([1.0, math.nan], [1], {}, "required contains nan"),
        ([1.0, -2.0], [1], {}, r"required contains -2\.0"),
        ([1.0, 2.0, 3.0], [1], {}, r"required has shape \(3,\).*2 lags"),
        ([1.0, 2.0], 1.0, {}, "n_sequences has shape"),
        ([1.0, 2.0], [-1.0], {}, r"n_sequences contains -1\.0"),
        ([1.0, 2.0], [1], {"definition": "last"}, "definition = 'last'"),
    ],
)
def test_bad_input_to_the_window_is_named(required: list, budgets: list, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learnability_window([1, 2], required, budgets, **options)


# Decay laws ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=LAW_NAMES)
def test_predicted_window_is_where_the_law_crosses(law: DecayLaw) -> None:
    lag = np.array([1.0, 2.5, 10.0, 77.7])
    np.testing.assert_allclose(predicted_window(law, law.envelope(lag) * (1 - 1e-13)), lag, rtol=1e-9)
    np.testing.assert_array_equal(predicted_window(law, [law.envelope(1.0) * 1.001, math.inf]), 0)


@pytest.mark.parametrize("law", LAWS, ids=LAW_NAMES)
@pytest.mark.parametrize("rate", ["mean", "optimal", "paper_v2"])
def test_predicted_window_is_the_measured_one(law: DecayLaw, rate: str) -> None:
    lags = np.arange(1, 400)
    budgets = np.geomspace(1, 1e5, 23)
    m, sigma, alpha = 0.3, 0.4, 1.6
    measured = learnability_window(lags, sample_complexity(law.envelope(lags), m, sigma, alpha, rate=rate), budgets)
    predicted = predicted_window(law, detection_threshold(budgets, m, sigma, alpha, rate=rate))
    assert np.unique(measured).size > 4
    np.testing.assert_array_equal(measured, np.minimum(np.floor(predicted), lags[-1]))


def test_laws_that_do_not_decay() -> None:
    for flat in (DecayLaw("exponential", 2.0, 1.0), DecayLaw("power", 2.0, 0.0)):
        np.testing.assert_array_equal(predicted_window(flat, [1.0, 2.0, 3.0]), [math.inf, math.inf, 0])
    for growing in (DecayLaw("exponential", 2.0, 1.1), DecayLaw("power", 2.0, -1.0)):
        np.testing.assert_array_equal(predicted_window(growing, [1.0, 30.0, math.inf]), [math.inf, math.inf, 0])
    assert predicted_window(DecayLaw("logarithmic", 1.0), 1e-4) == math.inf  # e^10000 steps


@given(
    amplitude=st.floats(1e-12, 1e12),
    decay=st.floats(0.05, 3),
    name=st.sampled_from(["exponential", "power", "logarithmic"]),
)
@settings(max_examples=60, deadline=None)
def test_exact_laws_are_recovered(amplitude: float, decay: float, name: str) -> None:
    parameter = {"exponential": math.exp(-decay / 20), "power": decay, "logarithmic": math.nan}[name]
    true = DecayLaw(name, amplitude, parameter)
    result = fit_decay(LAGS, true.envelope(LAGS))
    found = getattr(result, name)
    assert result.best is found
    assert found.law.name == name
    assert found.law.amplitude == pytest.approx(amplitude, rel=1e-10, abs=0)
    assert found.law.decay == pytest.approx(parameter, rel=1e-10, nan_ok=True)
    assert found.r_squared == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_fit_does_not_depend_on_the_unit(unit: float) -> None:
    f = LAWS[1].envelope(LAGS) * np.exp(np.random.default_rng(0).normal(0, 0.1, LAGS.size))
    plain, scaled = fit_decay(LAGS, f), fit_decay(LAGS, unit * f)
    for name in LAW_NAMES:
        before, after = getattr(plain, name), getattr(scaled, name)
        assert after.law.amplitude == pytest.approx(unit * before.law.amplitude, rel=1e-10, abs=0)
        assert after.amplitude_error == pytest.approx(unit * before.amplitude_error, rel=1e-10, abs=0)
        shape = [(fit.law.decay, fit.decay_error, fit.r_squared, fit.aicc) for fit in (before, after)]
        np.testing.assert_allclose(shape[1], shape[0], rtol=1e-9)


@pytest.mark.parametrize("law", [DecayLaw("exponential", 3.0, 0.6), LAWS[1]], ids=LAW_NAMES[:2])
def test_standard_errors_are_those_of_repeated_fits(law: DecayLaw) -> None:
    lags = LAGS[::5]  # few, so that the degrees of freedom count
    noise = np.exp(np.random.default_rng(1).normal(0, 0.02, (2000, lags.size)))
    fits = [getattr(fit_decay(lags, law.envelope(lags) * factor), law.name) for factor in noise]
    for errors, values in (
        ([fit.decay_error for fit in fits], [fit.law.decay for fit in fits]),
        ([fit.amplitude_error for fit in fits], [fit.law.amplitude for fit in fits]),
    ):
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.07)


def test_criterion_and_share_explained_by_their_definitions() -> None:
    f = LAWS[1].envelope(LAGS) * np.exp(np.random.default_rng(2).normal(0, 0.3, LAGS.size))
    found = fit_decay(LAGS, f)
    for fit, k in ((found.exponential, 3), (found.power, 3), (found.logarithmic, 2)):
        residual = np.sum((np.log(f) - np.log(fit.law.envelope(LAGS))) ** 2)
        n = LAGS.size
        assert fit.r_squared == pytest.approx(1 - residual / np.sum((np.log(f) - np.log(f).mean()) ** 2))
        assert fit.aicc == pytest.approx(n * np.log(residual / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1))
    assert found.best.aicc == min(found.exponential.aicc, found.power.aicc, found.logarithmic.aicc)


def test_constant_envelope() -> None:
    found = fit_decay(LAGS, np.full(LAGS.size, 0.1))
    assert found.exponential.law.decay == 1
    assert found.power.law.decay == 0
    assert math.isnan(found.exponential.r_squared)


@pytest.mark.parametrize(
    ("lags", "envelope", "message"),
    [
        ([1, 2, 3, 5, 9], [1, 1, 1, 0, 1], r"envelope = 0\.0 at lag 5"),
        ([1, 2, 3, 5], [1, 1, 1, 1], "lags has 4 entries"),
        ([1, 2, 3, 5, 9], [1, 1, 1], r"envelope has shape \(3,\).*5 lags"),
        ([1, 2, 3, 5, 4], [1, 1, 1, 1, 1], "strictly increasing"),
        ([1, 2, 3, 5, 9], [1, 1, 1, math.inf, 1], "envelope.*finite"),
    ],
)
def test_bad_input_to_the_fit_is_named(lags: list, envelope: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_decay(lags, envelope)


def test_bad_law_and_threshold_are_named() -> None:
    with pytest.raises(ValueError, match="name = 'linear'"):
        DecayLaw("linear", 1.0)
    with pytest.raises(ValueError, match="decay = nan"):
        DecayLaw("power", 1.0)
    with pytest.raises(ValueError, match="amplitude = 0"):
        DecayLaw("power", 0, 1.0)
    with pytest.raises(ValueError, match=r"threshold contains 0\.0"):
        predicted_window(LAWS[0], [1.0, 0.0])


# Time scales -----------------------------------------------------------------------------------------------------------------


@given(
    tau=hnp.arrays(float, (3, 4), elements=st.floats(0.5, 1e6)),
    amplitude=hnp.arrays(float, (3, 4), elements=st.floats(1e-6, 1e6)),
    unit=st.sampled_from([1e-12, 1.0, 1e12]),
)
@settings(max_examples=50, deadline=None)
def test_exact_time_scales_are_recovered(tau: np.ndarray, amplitude: np.ndarray, unit: float) -> None:
    lags = np.array([1, 2, 4, 16, 64])
    rates = unit * amplitude[:, None] * np.exp(-lags[:, None] / tau[:, None])
    np.testing.assert_allclose(time_scales(lags, rates), tau, rtol=1e-8)


def test_neurons_without_a_decay() -> None:
    lags = [1, 2, 4]
    decay = np.exp(-np.array(lags) / 5)
    rates = np.stack([decay, np.full(3, 0.1), 1 / decay, -decay, [0, 1, 0], decay * [1, -1, 1], decay * [1, 0, 1]], axis=-1)
    expected = [5, math.inf, math.inf, math.nan, math.nan, 5, 5]  # the last two: the bad rate is left out
    np.testing.assert_allclose(time_scales(lags, rates), expected, rtol=1e-12)
    assert np.isnan(time_scales([3], [[0.5, 0.2]])).all()
    constant = np.broadcast_to(np.random.default_rng(0).uniform(size=100), (LAGS.size, 100))
    np.testing.assert_array_equal(time_scales(LAGS, constant), math.inf)


def test_time_scale_of_an_uneven_decay_is_the_least_squares_one() -> None:
    lags = np.array([1, 3, 4, 10])
    rates = np.array([[0.9], [0.5], [0.45], [0.01]])
    assert time_scales(lags, rates)[0] == pytest.approx(-1 / np.polyfit(lags, np.log(rates[:, 0]), 1)[0])


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([1.0, 0.5], r"rates has shape \(2,\)"),
        ([[1.0], [0.5], [0.1]], r"rates has shape \(3, 1\).*2 lags"),
        ([[1.0], [math.nan]], "finite"),
    ],
)
def test_bad_rates_are_named(rates: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        time_scales([1, 2], rates)
