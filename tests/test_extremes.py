"""One argument at the end of its range, the others as usual: the right value, without a warning, or
a refusal in words. Oracles: mpmath, closed forms, limits."""

import mpmath as mp
import numpy as np
import pytest
import xarray as xr

from lwcore import inference, results
from lwcore.detection import (
    detection_threshold,
    rate_exponent,
    sample_complexity,
)
from lwcore.elman.kernel import limiting_kernel
from lwcore.signatures import ArgumentError
from lwcore.stats import bootstrap, most_covered, student
from lwcore.window import window_bounds

LARGEST = np.finfo(float).max


@pytest.mark.parametrize("detector", ["mean", "likelihood", "paper_v2"])
@pytest.mark.parametrize("count", [1, 17])
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


DURATION = np.timedelta64(2, "D")


@pytest.mark.parametrize(
    "call",
    [
        lambda: rate_exponent(DURATION),
        lambda: most_covered(DURATION),
        lambda: sample_complexity(1, 1, 1, 1.5, error=np.timedelta64(0, "s")),
        lambda: bootstrap(np.mean, DURATION),
        lambda: sample_complexity(np.array([DURATION], object), 1, 1, 1.5),
        lambda: sample_complexity([[DURATION]], 1, 1, 1.5),
    ],
)
def test_a_duration_is_no_number(call):
    """NumPy has it among its whole numbers."""
    with pytest.raises(ArgumentError, match=r"^\w+ = .*: must be "):
        call()


@pytest.mark.parametrize("level", [0.9999999, 1 - 2**-53])
def test_students_interval_holds_at_a_level_next_to_1(level):
    """Of two numbers the law is Cauchy's, whose quantile is a cotangent."""
    value, low, high = student([1.0, 3.0], level)
    half = float(mp.cot(mp.pi * (1 - mp.mpf(level)) / 2))
    assert (value, low, high) == pytest.approx((2, 2 - half, 2 + half), rel=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("alpha", [1e100, LARGEST])
def test_a_kernel_at_huge_weights_is_finite_or_refused(activation, alpha):
    inputs = [[[0.5], [0.4], [-0.3], [0.2]]]

    def call():
        return limiting_kernel(inputs, alpha=alpha, activation=activation, tolerance=1e-3)

    for part in finite_or_refused(call):
        assert np.isfinite(part).all()


def finite_or_refused(call):
    """What a call gives; nothing where it is refused in words."""
    try:
        return call()
    except ArgumentError as error:
        if "range of a float" in str(error) or "are floats" in str(error):
            return []
        raise


def numbers(dtype, size=1.0):
    """Numbers of sequences, as measured, of a type that holds them exactly."""
    drawn = np.random.default_rng(0).integers(-8, 9, (2, 3, 2, 128)) * size
    dims = ("probe", "lag", "sequence")
    held = {name: (dims, part.astype(dtype)) for name, part in zip(NAMES, drawn, strict=True)}
    return xr.Dataset(
        held, coords={"view": ("probe", ["zeroth"] * 2 + ["gradient"]), "lag": [1, 2]}
    )


NAMES = ("statistic", "projection")


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.int8, ">f8"])
def test_a_summary_is_of_double_precision_whatever_holds_the_numbers(dtype):
    found, expected = (inference.signal_and_noise(numbers(kind)) for kind in (dtype, float))
    xr.testing.assert_identical(found, expected)
    assert {found[name].dtype for name in ("signal", "scale", "deviation")} == {np.dtype(float)}


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(ArgumentError, match=r"^path = '.*': must be the path of a file"):
        results.save(xr.Dataset({"a": 1.0}), path)
