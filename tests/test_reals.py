"""What is read as real numbers, and what is refused in every function that takes them."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from lwcore import detection, stats, window
from lwcore.elman.kernel import limiting_kernel
from lwcore.reals import read
from lwcore.signatures import ArgumentError
from lwcore.stable import SymmetricStable, fit

MASKED = np.ma.array([0.5, 0.25], mask=[False, True])
REFUSED = {
    "text": ["0.5", ["0.5"], np.array(["a"])],
    "bytes": [b"1"],
    "truth values": [True, [[1.0], [False]], [3.0, np.array(True)], torch.tensor([True])],
    "complex": [1j, [1.0, 2j], np.array([0.5 + 0j])],
    "dates": [np.datetime64("2020-01-01"), np.array(["2020"], "M8[s]")],
    "durations": [[3.0, np.timedelta64(3, "h")], np.timedelta64(1, "s")],
    "objects": [None, [None, 1.0], {1.0}, Decimal(1), pd.Timestamp("2020"), iter([])],
    "masked": [MASKED, [MASKED, [1.0, 2.0]], [np.ma.masked, 1.0]],
    "detached": [torch.ones(2, requires_grad=True), [torch.ones((), requires_grad=True)]],
    "range of a float": [10**400, [1.0, 10**400], np.longdouble("1e4000")],
    "one length": [[[1.0], [1.0, 2.0]]],
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([0.5, 1], np.float16), [0.5, 1]),
        (np.array([200], np.uint8), [200]),
        ([1, 2**64, 10**300], [1, 2**64, 1e300]),
        (Fraction(1, 2), 0.5),
        (torch.tensor([1, 2], dtype=torch.int32), [1, 2]),
        (pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}), [[1], [2]]),
        (xr.DataArray([np.inf, 1.0]), [np.inf, 1]),
        (np.ma.array([1.0, 2.0]), [1, 2]),  # nothing is masked
        ([], []),
    ],
)
def test_real_numbers_are_read_in_double_precision(value, expected):
    found = read(value)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


PAIRS = [(words, value) for words, values in REFUSED.items() for value in values]
LAW = SymmetricStable(1.5)
TAKERS = {
    "x": [LAW.pdf, LAW.sf],
    "p": [LAW.ppf, lambda p: stats.holm(p, 0.05)],
    "shift": [LAW.kl, lambda shift: detection.detection_error(3, shift, 1.0, 1.5)],
    "samples": [fit],
    "values": [stats.student, stats.span],
    "required": [lambda needed: window.learnability_window([1, 2], needed, [10])],
    "lags": [
        lambda lags: window.learnability_window(lags, [1.0, 2.0], [10]),
        lambda lags: window.mixture_envelope(lags, [2.0]),
    ],
    "envelope": [
        lambda f: detection.sample_complexity(f, 1.0, 1.0, 1.5),
        lambda f: window.fit_decay([1, 2, 3, 4, 5], f),
    ],
    "inputs": [lambda inputs: limiting_kernel(inputs, alpha=0.5)],
}
CALLS = [(name, call) for name, calls in TAKERS.items() for call in calls]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_what_holds_no_real_numbers_is_refused_by_name_with_the_reason(name, call):
    for words, value in PAIRS:
        with pytest.raises(ArgumentError, match=words) as caught:
            call(value)
        assert str(caught.value).startswith(f"{name} = ")
