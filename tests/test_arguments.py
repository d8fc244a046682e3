"""What a caller may hand in, and what the error says where he may not."""

from __future__ import annotations

import numpy as np
import pytest

from lwcore.arguments import finite_array, integer_in, lag_list, real_in


@pytest.mark.parametrize(
    ("value", "interval"),
    [(0.5, "(0, 1)"), (0, "[0, inf)"), (np.float32(1), "(0, 1]"), (2, "(1, 2]")],
)
def test_numbers_within_an_interval_pass(value: float, interval: str) -> None:
    passed = real_in("x", value, interval)
    assert (type(passed), passed) == (float, value)


@pytest.mark.parametrize(
    ("value", "interval"),
    [(0, "(0, 1)"), (1, "(0, 1)"), (-1, "[0, inf)"), (np.inf, "[0, inf)"), (np.nan, "[0, 1]")],
)
def test_numbers_outside_an_interval_are_named(value: float, interval: str) -> None:
    with pytest.raises(ValueError, match=r"x = .*: must lie in [\[(]"):
        real_in("x", value, interval)


def test_an_integer_is_neither_a_truth_value_nor_a_whole_float() -> None:
    assert [integer_in("n", value, 1, 3) for value in (1, np.int64(3))] == [1, 3]
    for value in (True, 2.0, "2", None):
        with pytest.raises(TypeError, match=r"n = .*: must be an integer from 1 to 3\."):
            integer_in("n", value, 1, 3)
    for value in (0, 4):
        with pytest.raises(ValueError, match=f"n = {value}: must be an integer from 1 to 3"):
            integer_in("n", value, 1, 3)
    with pytest.raises(ValueError, match="must be an integer from 1 up"):
        integer_in("n", 0, 1)


def test_what_is_no_number_is_of_the_wrong_type() -> None:
    for value in (True, "1", None, 1j):
        with pytest.raises(TypeError, match=r"x = .*: must be a real number in \(0, 1\)"):
            real_in("x", value, "(0, 1)")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([[1.0], [1.0, 2.0]], TypeError, "x: must be a rectangular array"),
        (["1"], TypeError, "x: must be an array of real numbers, not of dtype"),
        ([True], TypeError, "not of dtype bool"),
        ([1j], TypeError, "not of dtype complex128"),
        ([], ValueError, "must not be empty"),
        ([[1.0]], ValueError, r"x has shape \(1, 1\): must have 0 or 1 dimension"),
        ([1.0, np.inf, np.nan], ValueError, "2 of 3 entries are NaN or infinite"),
    ],
)
def test_arrays_that_are_none_are_named(value: list, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        finite_array("x", value, ndim=(0, 1))


def test_lags_are_several_integers_that_increase() -> None:
    assert lag_list("lags", np.array([1, 4]), 5) == [1, 4]
    for lags, message in (
        ([], "must name at least one lag"),
        ([2, 1], "1 follows 2"),
        ([1, 5], r"lags\[1\] = 5"),
        ([0], r"lags\[0\] = 0"),
    ):
        with pytest.raises(ValueError, match=message):
            lag_list("lags", lags, 5)
    for lags in ("12", 3):
        with pytest.raises(TypeError, match="must be a sequence"):
            lag_list("lags", lags)
