"""The dip against its definition, solved as linear programmes, and the test's level and power
against simulation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, stats

from book.chapters.modes import mode_test, rejection_rate


def dip(sample):
    """The dip alone."""
    return mode_test(sample).dip


def nearest_unimodal(sample):
    """The dip as an optimisation: for each value as the mode, the nearest function that is convex
    before it and concave after."""
    place, counts = np.unique(sample, return_counts=True)
    n, reached = len(place), np.append(0, counts.cumsum() / len(sample))
    best = 1.0
    for mode in range(n):
        # Unknowns: the function at 0..mode (at the mode, its limit from the left), at mode..n−1,
        # and the distance.
        left, right = np.arange(mode + 1), mode + 1 + np.arange(n - mode)
        unknowns = n + 2
        rows, limits = [], []

        def need(coefficients, limit, rows=rows, limits=limits, unknowns=unknowns):
            row = np.zeros(unknowns)
            for index, value in coefficients.items():
                row[index] += value
            rows.append(row)
            limits.append(limit)

        for i, k in zip(left, range(mode + 1), strict=True):
            need({i: 1, n + 1: -1}, reached[k])
            if k < mode:
                need({i: -1, n + 1: -1}, -reached[k + 1])
        for i, k in zip(right, range(mode, n), strict=True):
            need({i: -1, n + 1: -1}, -reached[k + 1])
            if k > mode:
                need({i: 1, n + 1: -1}, reached[k])
        need({left[-1]: 1, right[0]: -1}, 0)
        for branch, offset, sign in ((left, 0, 1), (right, mode, -1)):
            for before, after in pairwise(branch):
                need({before: 1, after: -1}, 0)
            for j in range(1, len(branch) - 1):
                first, second = np.diff(place[offset + j - 1 : offset + j + 2])
                bend = {
                    branch[j - 1]: -1 / first,
                    branch[j]: 1 / first + 1 / second,
                    branch[j + 1]: -1 / second,
                }
                need({index: sign * value for index, value in bend.items()}, 0)
        cost = np.zeros(unknowns)
        cost[-1] = 1
        best = min(
            best, optimize.linprog(cost, A_ub=np.array(rows), b_ub=limits, bounds=(0, 1)).fun
        )
    return best


@pytest.mark.parametrize("size", [4, 5, 8, 12, 20, 30])
def test_dip_is_the_distance_from_the_nearest_function_with_one_mode(size):
    rng = np.random.default_rng(size)
    for sample in (
        rng.standard_normal(size),
        rng.standard_normal(size) + 5 * (rng.random(size) < 0.5),
        rng.integers(0, 4, size) + 0.0,
    ):
        if np.ptp(sample) > 0:
            assert dip(sample) == pytest.approx(nearest_unimodal(sample), abs=1e-9)


def test_dip_in_closed_form():
    # evenly spaced: half a step, the least there is
    assert dip(np.arange(10)) == pytest.approx(1 / 20)
    clusters = np.concatenate([np.linspace(0, 1e-6, 50), np.linspace(1, 1 + 1e-6, 50)])
    assert dip(clusters) == pytest.approx(1 / 4, abs=0.01)  # two far, equal clusters: the most


def test_dip_depends_neither_on_place_nor_on_unit_nor_on_direction():
    sample = np.random.default_rng(1).gamma(2.0, size=40)
    for moved in (3 * sample - 7, -sample, sample[::-1]):
        assert dip(moved) == pytest.approx(dip(sample), abs=1e-12)


def test_p_values_of_uniform_samples_are_uniform():
    rng = np.random.default_rng(2)
    p = [mode_test(rng.random(30)).p_value for _ in range(300)]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_level_holds_where_tails_are_heavy_and_power_grows_with_the_distance():
    rng = np.random.default_rng(3)
    assert rejection_rate(lambda r: r.standard_t(2, 64), rng, trials=200) < 0.05
    assert rejection_rate(lambda r: r.exponential(size=64), rng, trials=200) < 0.05

    def groups(distance):
        return lambda r: r.standard_normal(64) + distance * (r.random(64) < 0.5)

    power = [rejection_rate(groups(distance), rng, trials=200) for distance in (3, 4, 5)]
    assert power[0] < 0.3 < power[1] < 0.8 < 0.9 < power[2]


def test_p_value_is_the_chance_of_as_large_a_dip_in_a_uniform_sample():
    rng = np.random.default_rng(4)
    sample = np.concatenate([rng.standard_normal(20), 5 + rng.standard_normal(20)])
    found = mode_test(sample)
    larger = sum(dip(rng.random(40)) >= found.dip for _ in range(4000))
    low, high = stats.binomtest(larger, 4000).proportion_ci(0.999)
    assert 0.02 < found.p_value < 0.5
    assert low < found.p_value < high
    assert mode_test(np.arange(40.0)).p_value == 1


def test_samples_that_have_no_modes_are_refused():
    with pytest.raises(
        ValueError, match=r"sample: all 5 entries are 2\.0; must hold at least two different values"
    ):
        dip(np.full(5, 2.0))
    with pytest.raises(ValueError, match=r"number of samples = 3: must be from 4 to 72000"):
        mode_test([1.0, 2.0, 3.0])
