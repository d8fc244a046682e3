"""One argument at the end of its range, the others as usual: the right value, without a warning, or
a refusal in words. Oracles: mpmath, closed forms, limits."""

import mpmath as mp
import numpy as np
import pytest

from lwcore import inference
from lwcore.detection import (
    detection_threshold,
    sample_complexity,
)
from lwcore.stats import student
from lwcore.window import window_bounds


@pytest.mark.parametrize(("detector", "count"), [("mean", 1), ("likelihood", 17), ("paper_v2", 1)])
def test_minus_zero_is_zero(detector, count):
    """At any length of an array: NumPy takes the larger of 0 and −0 in several ways."""
    zeros = np.full(count, -0.0)
    assert np.all(sample_complexity(zeros, 1, 1, 1.5, detector=detector) == np.inf)
    assert np.all(sample_complexity(1, zeros, 1, 1.5, detector=detector) == np.inf)
    assert np.all(detection_threshold(10, zeros, 1, 1.5, detector=detector) == np.inf)
    lags = [1, 2, 3]
    bounds = [
        window_bounds(lags, [0.9, 0.5, 0.1], [1, zero, 1], 1, [10, 1e4], 1.5, detector=detector)
        for zero in (0.0, -0.0)
    ]
    np.testing.assert_array_equal(*bounds)
    means = np.array([[2.0, 0.0, -1.0]])
    found = [inference.significant(means, zero, 30, 0.05).tolist() for zero in (0.0, -0.0)]
    assert found == [[[True, False, False]]] * 2


@pytest.mark.parametrize("level", [0.9999999, 1 - 2**-53])
def test_students_interval_holds_at_a_level_next_to_1(level):
    """Of two numbers the law is Cauchy's, whose quantile is a cotangent."""
    value, low, high = student([1.0, 3.0], level)
    half = float(mp.cot(mp.pi * (1 - mp.mpf(level)) / 2))
    assert (value, low, high) == pytest.approx((2, 2 - half, 2 + half), rel=1e-9)
