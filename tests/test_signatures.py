"""Bad input: every parameter of every public function refuses what its annotation excludes."""

from __future__ import annotations

import importlib
import itertools
import math
import pkgutil
import typing

import numpy as np
import pytest
import torch
from beartype.door import is_bearable
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float

import lwcore
from lwcore import signatures
from lwcore.signatures import ArgumentError, allowed, bare, checked, require
from tests.calls import companion, experiments, networks, theory, transport

CALLS = [call for of in (theory, networks, transport, experiments, companion) for call in of.CALLS]

# What a reader may hand in by mistake, wherever.
MISTAKES = [
    *(None, True, -1, 0, 0.5, 1.0, 2.5, math.nan, math.inf, 1j, "word", b"word", object()),
    *([], [2, 1], [1.5], ["a"], {}, np.array([[1.0, math.nan]]), np.array(["a"])),
    *(torch.ones(0), torch.ones(2), torch.ones(2, 1, 4, 1, 3), torch.ones(2, 3, dtype=torch.int64)),
]


def named(called) -> str:
    """A function's or a class's full name."""
    return f"{called.__module__}.{called.__qualname__}"


def hints_of(called):
    """What is held of each parameter: of a class, of its making."""
    made = called.__init__ if isinstance(called, type) else called
    return {
        k: v for k, v in typing.get_type_hints(made, include_extras=True).items() if k != "return"
    }


@pytest.mark.parametrize(("called", "good"), CALLS, ids=[named(called) for called, _ in CALLS])
def test_good_calls_are_taken_and_mistakes_refused_by_name(called, good):
    """Every parameter with every mistake that its annotation excludes."""
    hints = hints_of(called)
    for parameter, mistake in itertools.product(good, MISTAKES):
        if not is_bearable(mistake, hints[parameter]):
            with pytest.raises(ArgumentError) as caught:
                called(**good | {parameter: mistake})
            assert str(caught.value).startswith(f"{parameter} = ")
            assert ": must be " in str(caught.value)
    called(**good)


def test_enough_is_excluded():
    """A bare int or float says nothing of what is allowed; True is an int."""
    excluded = 0
    for called, good in CALLS:
        hints = hints_of(called)
        parts = [part for one in hints.values() for part in (one, *typing.get_args(one))]
        assert not [part for part in parts if part in (int, float)], named(called)
        excluded += sum(not is_bearable(it, hints[name]) for name in good for it in MISTAKES)
    assert excluded >= 1000


def test_a_body_is_not_entered_with_a_mistake():
    entered = []

    @checked
    def work(count: signatures.Count) -> None:
        entered.append(count)

    with pytest.raises(ArgumentError, match=r"^count = 0: must be a whole number, 1 or above\.$"):
        work(0)
    assert entered == []
    bare(work)(0)
    assert entered == [0]


NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=2))


@given(NUMBERS)
def test_kinds_of_numbers(value):
    whole = isinstance(value, int) and not isinstance(value, bool)
    real = whole or isinstance(value, float)
    for kind, holds in {
        signatures.Count: whole and value >= 1,
        signatures.Index: whole and value >= 0,
        signatures.Finite: real and math.isfinite(value),
        signatures.Positive: real and 0 < value < math.inf,
        signatures.NotNegative: real and 0 <= value < math.inf,
        signatures.Share: real and 0 < value < 1,
        signatures.Reals: real,
        signatures.FiniteReals: real and math.isfinite(value),
    }.items():
        assert is_bearable(value, kind) == holds


@given(st.lists(st.one_of(st.integers(-2, 9), st.floats(0, 3)), max_size=4))
def test_lags_are_whole_numbers_that_increase(values):
    whole = all(isinstance(value, int) for value in values)
    holds = whole and len(values) > 0 and values[0] >= 1 and sorted(set(values)) == values
    assert is_bearable(values, signatures.Lags) == holds
    assert is_bearable(tuple(values), signatures.Lags) == holds
    if whole:
        assert is_bearable(np.array(values, int), signatures.Lags) == holds
        assert is_bearable(torch.tensor(values, dtype=torch.int64), signatures.Lags) == holds


def test_letters_agree_between_arguments():
    @checked
    def product(rows: Float[torch.Tensor, "B T"], scale: Float[torch.Tensor, " B"]) -> None: ...

    words = r"^scale = Tensor of .* shape \(3,\): must be .* \(B\), with B=2, T=5\.$"
    with pytest.raises(ArgumentError, match=words):
        product(torch.ones(2, 5), torch.ones(3))


def test_conditions_show_what_fails():
    require("a", 3, True, "odd")
    with pytest.raises(ArgumentError, match=r"^a = 2: must be odd\.$"):
        require("a", 2, False, "odd")
    with pytest.raises(ArgumentError, match=r"^a contains 4\.0: every entry must be below 4\.$"):
        require("a", np.array([1.0, 4.0]), np.array([1.0, 4.0]) < 4, "below 4")
    assert allowed(typing.Literal["x", "y"] | None) == "one of 'x', 'y' or None"


def test_every_function_that_checks_is_called_here():
    known, missing = {called for called, _ in CALLS}, []
    for info in pkgutil.walk_packages(lwcore.__path__, "lwcore."):
        for name, one in vars(importlib.import_module(info.name)).items():
            own = not name.startswith("_") and getattr(one, "__module__", "") == info.name
            made = one.__init__ if isinstance(one, type) else one
            if own and one not in known and getattr(made, "__checked__", False):
                missing.append(named(one))
    assert not missing
