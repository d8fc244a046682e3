"""Intervals against SciPy's, and by how often they hold the truth."""

import numpy as np
import pytest
from scipy import stats

from lwcore.stats import binomial, bootstrap, holm, most_covered, span, student


def test_many_units_have_the_percentiles_of_the_draws_that_were_asked_for():
    values = np.random.default_rng(0).normal(size=5000)
    found = bootstrap(lambda one: values[one].mean(), 5000, np.random.default_rng(1), 300)
    drawn = values[np.random.default_rng(1).integers(5000, size=(300, 5000))].mean(1)
    ends = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    np.testing.assert_allclose(found, [values.mean(), *ends], atol=1e-3)


def test_draws_without_a_value_do_not_count():
    """Where no draw has one there is no interval either."""
    values = np.array([np.nan, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    found = bootstrap(lambda drawn: [values[drawn].max(), np.nan], 8)
    np.testing.assert_array_equal([found.low, found.high], [[1, np.nan], [2, np.nan]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "least", "most"),
    [(5, 0.91, 0.95), (40, 0.93, 0.97)],
)
def test_interval_of_a_mean_covers_what_it_says(count, least, most):
    """Over 3000 experiments; plain quantiles of 5 units would cover 84 %."""
    values = np.random.default_rng(count).normal(size=(3000, count))
    _, low, high = bootstrap(lambda drawn: values[:, drawn].mean(1), count, draws=1200)
    assert least < ((low <= 0) & (high >= 0)).mean() < most


@pytest.mark.parametrize("count", [3, 5])
def test_a_range_covers_the_median_as_often_as_said(count):
    values = np.random.default_rng(count).exponential(size=(20_000, count))
    inside = (values.min(1) <= np.log(2)) & (np.log(2) <= values.max(1))
    assert inside.mean() == pytest.approx(most_covered(count), abs=0.01)


def test_binomial_interval_is_clopper_and_pearsons():
    hits = [0, 3, 7, 10]
    expected = [stats.binomtest(one, 10).proportion_ci() for one in hits]
    np.testing.assert_allclose(np.transpose(binomial(hits, 10)[1:]), expected, atol=1e-12)


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


def test_students_interval_has_no_unit():
    x = np.array([1.0, 3.0, 4.0])
    usual = np.array(stats.ttest_1samp(x, 0).confidence_interval())
    np.testing.assert_allclose(student(x)[1:], usual, rtol=1e-12)
    for unit in (1e-300, 1e306):
        np.testing.assert_allclose(np.array(student(unit * x)) / unit, [8 / 3, *usual], rtol=1e-12)
    large = student([1e308, 1.7e308])
    assert large.value == pytest.approx(1.35e308)
    assert (large.low, large.high) == (-np.inf, np.inf)  # ten times as far
    assert np.isnan(student([0.1] * 3)[1:]).all()  # they say nothing of their spread


def test_a_span_of_two_and_of_infinite_numbers():
    assert span([1, 2]) == "1.5 (range 1.0–2.0)"
    assert span([1, 2, np.inf, np.nan]) == "2.0 (range 1.0 to ∞)"
    assert span([-np.inf, np.inf]) == span([np.nan]) == "–"
