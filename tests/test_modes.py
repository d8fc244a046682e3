"""The dip test by the level and the power that simulation shows it to have."""

import numpy as np
import pytest
from scipy import stats

from book.chapters.modes import mode_test, rejection_rate


def test_level_holds_where_tails_are_heavy_and_power_grows_with_the_distance():
    rng = np.random.default_rng(3)
    assert rejection_rate(lambda r: r.standard_t(2, 64), rng, trials=200) < 0.05
    assert rejection_rate(lambda r: r.exponential(size=64), rng, trials=200) < 0.05

    def groups(distance):
        return lambda r: r.standard_normal(64) + distance * (r.random(64) < 0.5)

    power = [rejection_rate(groups(distance), rng, trials=200) for distance in (3, 4, 5)]
    assert power[0] < 0.3 < power[1] < 0.8 < 0.9 < power[2]
    p = [mode_test(rng.random(30)).p_value for _ in range(300)]
    assert stats.kstest(p, "uniform").pvalue > 0.01  # the flattest single mode
    assert mode_test(np.repeat([0.0, 1.0], 1000) + 1e-3 * rng.random(2000)).p_value == 1e-6


def test_samples_that_have_no_modes_are_refused():
    with pytest.raises(ValueError, match=r"sample = \[2.0, 2.0, .*: must be draws of which"):
        mode_test([2.0, 2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match=r"number of samples = 3: must be from 4 to 72000"):
        mode_test([1.0, 2.0, 3.0])
