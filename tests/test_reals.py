"""What is read as real numbers, and what is refused in every function that takes them."""

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from lwcore import detection, stats, window
from lwcore.elman.kernel import limiting_kernel
from lwcore.reals import Unreadable, complaint, read
from lwcore.signatures import ArgumentError
from lwcore.stable import SymmetricStable, fit

MASKED = np.ma.array([0.5, 0.25], mask=[False, True])
REFUSED = {
    "text": ["0.5", ["0.5"], np.array(["a"]), b"1"],
    "bytes": [b"1"],
    "truth values": [True, [True, 2.0], [[1.0], [False]], np.array([True]), torch.tensor([True])],
    "complex": [1j, [1.0, 2j], np.array([0.5 + 0j])],
    "dates": [np.datetime64("2020-01-01"), np.array(["2020"], "M8[s]")],
    "durations": [np.timedelta64(1, "s")],
    "objects": [None, [None, 1.0], {}, {1.0}, Decimal(1), object(), pd.Timestamp("2020"), iter([])],
    "masked": [MASKED, [MASKED, [1.0, 2.0]], [np.ma.masked, 1.0]],
    "detached": [torch.ones(2, requires_grad=True), [torch.ones((), requires_grad=True)]],
    "range of a float": [10**400, [1.0, 10**400], np.longdouble("1e4000")],
    "one length": [[[1.0], [1.0, 2.0]]],
}
REFUSED["text"].remove(b"1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([0.5, 1], np.float16), [0.5, 1]),
        (np.array([0.5], ">f8"), [0.5]),
        (np.array([200], np.uint8), [200]),
        ([1, 2**64, 10**300], [1, 2**64, 1e300]),
        (Fraction(1, 2), 0.5),
        (np.array([1, 2.5], object), [1, 2.5]),
        (torch.tensor([1, 2], dtype=torch.int32), [1, 2]),
        (pd.Series([0.5, pd.NA], dtype="Float64"), [0.5, np.nan]),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), [[1], [np.nan]]),
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


@pytest.mark.parametrize(("words", "value"), PAIRS)
def test_what_holds_no_real_numbers_is_refused_with_the_reason(words, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Unreadable, match=words):
            read(value)


LAW = SymmetricStable(1.5)
TAKERS = {
    "x": [LAW.pdf, LAW.logpdf, LAW.cdf, LAW.sf, LAW.score],
    "p": [LAW.ppf, lambda p: stats.holm(p, 0.05)],
    "shift": [LAW.kl, lambda shift: detection.detection_error(3, shift, 1.0, 1.5)],
    "samples": [fit],
    "values": [stats.student, stats.span],
    "required": [lambda needed: window.learnability_window([1, 2], needed, [10])],
    "lags": [
        window.DecayLaw("power", 1.0, 0.5).envelope,
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
def test_every_function_refuses_them_by_the_name_of_its_argument(name, call):
    for words, value in PAIRS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ArgumentError, match=words) as caught:
                call(value)
        assert str(caught.value).startswith(f"{name} = ")


def test_numbers_of_sequences_may_be_any_whole_numbers_that_a_float_can_hold():
    for n in (2**63, 2**64, 10**20, [10**30, 5]):
        exact = detection.detection_threshold(n, 1.0, 1.0, 1.5)
        np.testing.assert_array_equal(
            exact, detection.detection_threshold(np.array(n, float), 1.0, 1.0, 1.5)
        )
    with pytest.raises(ArgumentError, match="range of a float"):
        detection.detection_threshold(10**400, 1.0, 1.0, 1.5)


def test_an_error_shows_the_number_that_was_given():
    with pytest.raises(ArgumentError, match=r"^p = 1\.5: must be 0, or in \[1e-150, 1\]\.$"):
        LAW.ppf(1.5)
    with pytest.raises(
        ArgumentError, match=r"^n_sequences = 0\.5: must be a number from 1 to 1e\+150\.$"
    ):
        detection.detection_error(0.5, 1.0, 1.0, 1.5)


@pytest.mark.parametrize("parameter", ["scale", "loc"])
def test_parameters_are_within_the_range_of_a_float(parameter):
    with pytest.raises(ArgumentError, match=f"{parameter} = 1000.*: must be a number from"):
        SymmetricStable(1.5, **{parameter: 10**400})


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (np.array(True), "truth values"),
        (torch.tensor(True), "truth values"),
        (np.array([True, False]), "truth values"),
        (np.timedelta64(5, "s"), "durations"),
        (np.timedelta64(3, "h"), "durations"),
        (np.datetime64("2026-01-01"), "dates"),
    ],
)
def test_what_is_no_number_is_found_inside_a_list(entry, why):
    assert why in complaint([entry, entry])
    if np.ndim(entry) == 0:
        assert why in complaint([3.0, entry])


def test_a_table_that_is_refused_is_named():
    table = pd.DataFrame({"a": [True, False], "b": [1.0, 2.0]})
    with pytest.raises(ArgumentError, match=r"values = DataFrame of several types"):
        stats.student(table)
