"""Intervals against SciPy's, against all resamples, and by how often they hold the truth."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from lwcore.signatures import ArgumentError
from lwcore.stats import Interval, binomial, bootstrap, holm, most_covered, span, student
from lwcore.tables import summary


@pytest.mark.parametrize("level", [0.4, 0.9])
def test_of_few_units_all_draws_are_gone_through(level):
    """Ends are quantiles of all 27 draws of three units, at the level of Student's interval."""
    values = np.array([1.0, 2.0, 7.0])
    every = [values[list(drawn)].mean() for drawn in product(range(3), repeat=3)]
    half = np.sqrt(3 / 2) * stats.t.isf((1 - level) / 2, 2)
    ends = np.quantile(every, stats.norm.cdf([-half, half]), method="inverted_cdf")
    found = bootstrap(lambda drawn: values[drawn].mean(), 3, level=level)
    assert found == (pytest.approx(10 / 3), *map(pytest.approx, ends))


def test_many_units_have_the_percentiles_of_the_draws_that_were_asked_for():
    values = np.random.default_rng(0).normal(size=(5000, 2))
    found = bootstrap(lambda one: values[one].mean(0), 5000, np.random.default_rng(1), 300, 0.9)
    picks = np.random.default_rng(1).integers(5000, size=(300, 5000))
    ends = np.quantile(values[picks].mean(1), [0.05, 0.95], axis=0, method="inverted_cdf")
    np.testing.assert_allclose(found[1:], ends, atol=1e-3)
    np.testing.assert_array_equal(found.value, values.mean(0))


def test_draws_without_a_value_do_not_count():
    """Where no draw has one there is no interval either."""
    values = np.array([np.nan, 1.0, 2.0])
    found = bootstrap(lambda drawn: [values[drawn].mean(), np.nan], 3)
    np.testing.assert_array_equal([found.low, found.high], [[1, np.nan], [2, np.nan]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "least", "most"),
    [(3, 0.73, 0.77), (4, 0.855, 0.895), (5, 0.91, 0.95), (6, 0.92, 0.97), (40, 0.93, 0.97)],
)
def test_interval_of_a_mean_covers_what_it_says(count, least, most):
    """Over 3000 experiments; plain quantiles of 3 to 6 units would cover 75, 80, 84 and 86 %. With
    three and four units the range is all there is."""
    values = np.random.default_rng(count).normal(size=(3000, count))
    _, low, high = bootstrap(lambda drawn: values[:, drawn].mean(1), count, draws=400)
    assert least < ((low <= 0) & (high >= 0)).mean() < most


@pytest.mark.parametrize("count", [3, 5])
def test_a_range_covers_the_median_as_often_as_said(count):
    values = np.random.default_rng(count).exponential(size=(20_000, count))
    inside = (values.min(1) <= np.log(2)) & (np.log(2) <= values.max(1))
    assert inside.mean() == pytest.approx(most_covered(count), abs=0.01)


def test_binomial_interval_is_clopper_and_pearsons():
    hits = [0, 3, 7, 10]
    expected = [stats.binomtest(one, 10).proportion_ci(0.9) for one in hits]
    np.testing.assert_allclose(np.transpose(binomial(hits, 10, 0.9)[1:]), expected, atol=1e-12)
    assert binomial(499, 1000).words() == ["0.50 [0.47, 0.53]"]
    assert binomial(499, 1000).words("share") == ["50 % [47, 53]"]
    assert Interval([1.0, np.nan], [0.0, 0.0], [2.0, 0.0]).words() == ["1.0 [0.0, 2.0]", "–"]


def test_holms_procedure_goes_on_to_the_first_failure():
    """Beside a loop over the sorted values, family by family."""
    p = np.random.default_rng(0).beta(0.3, 2, size=(50, 6))
    for values, found in zip(p, holm(p, 0.05), strict=True):
        rejected = np.zeros(6, bool)
        for left, place in zip(range(6, 0, -1), values.argsort(), strict=True):
            if values[place] > 0.05 / left:
                break
            rejected[place] = True
        np.testing.assert_array_equal(found, rejected)


def test_a_summary_cuts_no_text():
    values = xr.DataArray([[1, 2, 3], [100, 104, 1001]], {"seed": [1, 2]}, ("seed", "step"))
    words = ["2 (range 1–3)", "104 (range 100–1,001)"]
    assert summary({"x": values}, ("seed",), unit="count").x.tolist() == words
    steps = summary({"x": values / 10}, ("seed",), {"x": "steps"})
    assert steps.x[1] == "0.20 steps (range 0.10–0.30)"


def test_draws_of_many_units_are_those_of_one_array_and_need_no_room(monkeypatch):
    values = np.random.default_rng(0).normal(size=50)
    shown = []

    def mean(drawn):
        shown.append(drawn)
        return values[drawn].mean()

    monkeypatch.setattr("lwcore.stats._AT_ONCE", 120)
    bootstrap(mean, 50, np.random.default_rng(1), 300)
    together = np.random.default_rng(1).integers(50, size=(300, 50))
    np.testing.assert_array_equal(shown[:300], together)


def test_a_bootstrap_of_a_million_units():
    found = bootstrap(lambda drawn: drawn[:10].mean(), 1_000_000, draws=41)
    assert 0 < found.low < found.high < 1_000_000


def test_a_level_that_no_draw_reaches_is_refused():
    with pytest.raises(ArgumentError, match=r"draws = 2000: must be .* level of 0\.999999"):
        bootstrap(np.mean, 10, level=0.999999)
    with pytest.raises(ArgumentError, match="draws = 1: must be 117 or more"):
        bootstrap(np.mean, 10, draws=1)
    # of few units all draws are known
    assert bootstrap(np.mean, 3, level=0.999999)[1:] == (0, 2)


@pytest.mark.parametrize("given", [None, "a", 1j, [1, [2, 3]]])
def test_a_statistic_that_is_no_number_is_refused(given):
    with pytest.raises(ArgumentError, match=r"statistic\(drawn\) = .* must be real numbers"):
        bootstrap(lambda drawn: given, 3)


def test_students_interval_has_no_unit():
    x = np.array([1.0, 3.0, 4.0])
    usual = np.array(stats.ttest_1samp(x, 0).confidence_interval())
    np.testing.assert_allclose(student(x)[1:], usual, rtol=1e-12)
    for unit in (1e-300, 1e-200, 1e200, 1e306):
        np.testing.assert_allclose(np.array(student(unit * x)) / unit, [8 / 3, *usual], rtol=1e-12)
    large = student([1e308, 1.7e308])
    assert large.value == pytest.approx(1.35e308)
    assert (large.low, large.high) == (-np.inf, np.inf)  # ten times as far


def test_students_interval_of_the_two_ends_of_the_floats():
    largest = np.finfo(float).max
    assert student([largest, -largest]) == (0, -np.inf, np.inf)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 0.1])
def test_numbers_that_are_all_the_same_say_nothing_of_their_spread(value):
    found = student([value] * 3)
    assert found.value == value
    assert np.isnan(found[1:]).all()
    assert "[" not in found.words()[0]


def test_a_span_of_infinite_numbers_and_of_none():
    words = {
        "2.0 (range 1.0 to ∞)": [1, 2, np.inf],
        "2.5 (range 1.0 to ∞)": [1, 2, 3, np.inf],
        "∞ (range 1.0 to ∞)": [1, np.inf],
        "∞": [np.inf, np.inf],
        "1.0 (range −∞ to 2.0)": [-np.inf, 1, 2, np.nan],
        "–": [-np.inf, np.inf],
    }
    for expected, values in words.items():
        assert span(values) == expected
    assert span([np.nan]) == "–"
    with pytest.raises(ArgumentError, match=r"values = \[\]: must be one number or more"):
        span([])


def test_holm_takes_a_list():
    assert holm([0.01], 0.05).tolist() == [True]
    with pytest.raises(ArgumentError, match=r"p = 0\.01: must be a list of p-values"):
        holm(0.01, 0.05)


def test_counts_beyond_a_float_are_refused():
    for call in (lambda n: binomial(0, n), lambda n: bootstrap(np.mean, n)):
        with pytest.raises(ArgumentError, match="= 1000"):
            call(10**400)
    assert most_covered(10**400) == 1
    assert binomial(0, 10**7).high == pytest.approx(-np.log(0.025) / 1e7)
    with pytest.raises(ArgumentError, match=r"trials = 10000001: must be 1e\+07 at most"):
        binomial(0, 10**7 + 1)


def test_levels_of_whatever_type_are_held_as_floats():
    near_one = 1 - Fraction(1, 10**30)
    for call in (
        lambda: bootstrap(np.mean, 5, level=near_one),
        lambda: binomial(1, 10, near_one),
        lambda: student([1.0, 2.0], near_one),
        lambda: holm([0.1], Fraction(1, 10**400)),
    ):
        with pytest.raises(ArgumentError, match=r"level = .*: must be a number in \(0, 1\)"):
            call()
    assert binomial(1, 10, Fraction(9, 10)) == binomial(1, 10, 0.9)
    assert bootstrap(np.mean, 3, level=Fraction(1, 2)) == bootstrap(np.mean, 3, level=0.5)


def test_a_bootstrap_that_would_take_hours_is_refused():
    words = r"count · draws = 2000000000000: must be .* at most"
    with pytest.raises(ArgumentError, match=words):
        bootstrap(np.mean, 10**9)
    for name, number in (("count", 2**63), ("draws", 10**400)):
        with pytest.raises(ArgumentError, match=f"^{name} = .*: must be .* below 2"):
            bootstrap(np.mean, **{"count": 10, name: number})


TABLE = xr.DataArray([[1.0, 2.0]], {"seed": [1]}, ("seed", "step"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: summary({"x": TABLE}, ("model",)),
            r"by = \('model',\): must be dimensions among seed",
        ),
        (lambda: summary({"x": TABLE}, ()), r"by = \(\): must be dimensions among seed"),
        (lambda: summary({"x": TABLE}, ("seed", "seed")), "by = .*: must be .* none twice"),
        (
            lambda: summary({"x": TABLE}, ("seed",), "apples"),
            ".*'apples'.* is not a valid Unit",
        ),
        (lambda: span([1.0], "apples"), ".*'apples'.* is not a valid Unit"),
    ],
)
def test_tables_that_cannot_be_made_are_refused(call, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        call()


def test_hits_are_counted():
    with pytest.raises(
        ArgumentError, match=r"hits contains 0\.5: every entry must be whole numbers"
    ):
        binomial([1, 0.5], 3)
