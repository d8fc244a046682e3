"""Bad input: every parameter of every function that checks refuses what its annotation excludes."""

import importlib
import inspect
import itertools
import math
import pkgutil
import re
import typing
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import xarray as xr
from beartype.door import is_bearable
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import AbstractArray, Float

import lwcore
from lwcore import signatures
from lwcore.config import Config
from lwcore.signatures import ArgumentError, allowed, bare, checked, require

# What a reader may hand in by mistake, wherever.
MISTAKES = [
    *(None, True, -1, 0, 0.5, 1.0, 2.5, math.nan, math.inf, 1j, "word", b"word", object()),
    *([], [2, 1], [1.5], ["a"], {}, np.array([[1.0, math.nan]]), np.array(["a"])),
    *(torch.ones(0), torch.ones(2), torch.ones(2, 1, 4, 1, 3), torch.ones(2, 3, dtype=torch.int64)),
]
# What is taken: of these, every annotation allows one.
TAKEN = [
    *(None, True, 1, 0.4, 1.5, 2, "word", [1, 2], (0.5, 0.5), ("a", "b"), {}, Path("a"), slice(2)),
    *(np.full((2, 3, 2), 0.5), np.ones((2, 3)), np.random.default_rng(0), torch.float64, print),
    *(torch.Generator(), torch.nn.GRU(1, 2), torch.nn.LSTM(1, 2), (torch.ones(2), torch.ones(2))),
    *(xr.Dataset(), xr.DataArray(1.0), *plt.subplots(), Config.named("smoke"), ()),
]
SIZES = defaultdict(lambda: 2)  # of a shape's letters


def taken(hint):
    """Something that an annotation allows; of a class of this package, an object with nothing in it."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        shape = [eval(size.lstrip("*"), {}, SIZES) for size in hint.dim_str.split()]
        return torch.ones(shape, dtype=torch.float64)
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)[0]
    if isinstance(hint, type) and hint.__module__.startswith("lwcore"):
        return hint.__mro__[-2].__new__(hint)
    return next(value for value in TAKEN if is_bearable(value, hint))


def hints_of(function):
    """What is held of each parameter that has a name in a call."""
    hints = typing.get_type_hints(function, include_extras=True)
    named = inspect.signature(function).parameters.values()
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return {one.name: hints[one.name] for one in named if one.kind in kinds and one.name in hints}


def public():
    """Functions, methods and the making of classes, by their full names."""
    for info in pkgutil.walk_packages(lwcore.__path__, "lwcore."):
        for name, one in vars(importlib.import_module(info.name)).items():
            if not name.startswith("_") and getattr(one, "__module__", "") == info.name:
                inner = vars(one).items() if isinstance(one, type) else [("", one)]
                for part, called in inner:
                    called = getattr(called, "__func__", called)
                    if inspect.isfunction(called) and (part == "__init__" or part[:1] != "_"):
                        yield f"{info.name}.{name}.{part}".rstrip("."), called


CHECKED = {name: one for name, one in public() if hasattr(one, "__checked__")}


@pytest.mark.parametrize("name", CHECKED)
def test_mistakes_are_refused_by_name(name):
    """Every parameter with every mistake that its annotation excludes, beside what is taken."""
    called, hints = CHECKED[name], hints_of(CHECKED[name])
    good = {parameter: taken(hint) for parameter, hint in hints.items()}
    own = dict.fromkeys({"self", "cls"} & inspect.signature(called).parameters.keys())
    for parameter, mistake in itertools.product(good, MISTAKES):
        if not is_bearable(mistake, hints[parameter]):
            with pytest.raises(ArgumentError) as caught:
                called(**own, **good | {parameter: mistake})
            assert str(caught.value).startswith(f"{parameter} = ")
            assert ": must be " in str(caught.value)


def parts_of(function):
    """Annotations, and those of which they are made."""
    return [part for hint in hints_of(function).values() for part in (hint, *typing.get_args(hint))]


def test_enough_is_excluded():
    """A bare int or float says nothing of what is allowed; True is an int."""
    excluded = 0
    for name, called in CHECKED.items():
        assert not [part for part in parts_of(called) if part in (int, float)], name
        pairs = itertools.product(MISTAKES, hints_of(called).values())
        excluded += sum(not is_bearable(*pair) for pair in pairs)
    assert excluded >= 1000


# Of annotations: a shape, a range, what a run is made of.
TELLING = r"jaxtyping|vale\.Is|\.(Dataset|Figure|Axes|Config|Network|Trace|Cell)'"


def test_functions_and_classes_that_say_what_they_take_check():
    """But for those made or called inside; a method is called by those who have made its object."""
    inner = {"repeated", "ratio_bands", "at_steps", "stream_rates"}
    inner |= {"StepJacobian", "GatedJacobian", "Diagnosis"}
    silent = {
        called.__qualname__.removesuffix(".__init__")
        for name, called in public()
        if called.__name__ in (called.__qualname__, "__init__") and name not in CHECKED
        if any(re.search(TELLING, str(part)) for part in parts_of(called))
    }
    assert silent == inner


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
