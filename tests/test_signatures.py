"""Bad input: every parameter of every function that checks refuses what its annotation excludes."""

import collections.abc
import importlib
import inspect
import itertools
import math
import os
import pkgutil
import re
import subprocess
import sys
import types
import typing
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import xarray as xr
from beartype.door import is_bearable
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import AbstractArray, Float, jaxtyped
from numpy.typing import NDArray

import lwcore
from lwcore import signatures, window
from lwcore.experiment.config import Config
from lwcore.gradient import Aim
from lwcore.signatures import ArgumentError, allowed, check_of, checked, require, unchecked

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
        ones = torch.ones(shape, dtype=torch.float64)
        return ones if hint.array_type is torch.Tensor else ones.numpy()
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
    """A plain int or float says nothing of what is allowed; True is an int."""
    excluded = 0
    for name, called in CHECKED.items():
        assert not [part for part in parts_of(called) if part in (int, float)], name
        pairs = itertools.product(MISTAKES, hints_of(called).values())
        excluded += sum(not is_bearable(*pair) for pair in pairs)
    assert excluded >= 1000


SWITCHES = [
    ([], {"JAXTYPING_DISABLE": "1"}),
    (["-O"], {}),
    (["-OO"], {"JAXTYPING_DISABLE": "1", "PYTHONOPTIMIZE": "2"}),
]
MODULES = ("detection", "stable", "transport", "tasks")


def accepted():
    """Mistakes that some functions take all the same; most are excluded by ranges and shapes."""
    for name, called in CHECKED.items():
        if name.split(".")[1] in MODULES:
            hints = hints_of(called)
            good = {parameter: taken(hint) for parameter, hint in hints.items()}
            own = dict.fromkeys({"self", "cls"} & inspect.signature(called).parameters.keys())
            for parameter, mistake in itertools.product(good, MISTAKES):
                if not is_bearable(mistake, hints[parameter]):
                    try:
                        called(**own, **good | {parameter: mistake})
                    except ArgumentError as error:
                        if str(error).startswith(f"{parameter} = "):
                            continue
                    yield f"{name}({parameter}={mistake!r})"


def said_by(program, flags, variables):
    """What a program prints under some switches of the interpreter."""
    command = [sys.executable, *flags, "-c", program]
    environment = os.environ | variables
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(("flags", "variables"), SWITCHES)
def test_no_switch_of_the_interpreter_removes_a_check(flags, variables):
    """Python's -O is beartype's switch, too, and jaxtyping has one of its own."""
    program = """
from lwcore.detection import sample_complexity
from lwcore.window import learnability_window
for call in (
    lambda: sample_complexity(0.1, 1, 1, 1.5, error=0.7),
    lambda: learnability_window([4, 2, 1], [1.0, 2.0, 3.0], [10]),
    lambda: learnability_window([1, 2], [1.0, 2.0], [10], definition="other"),
):
    try:
        print(call())
    except ValueError as error:
        print(error)
"""
    assert said_by(program, flags, variables) == [
        "error = 0.7: must be a number in (0, 0.5).",
        "lags = [4, 2, 1]: must be whole numbers from 1 on that increase.",
        "definition = 'other': must be one of 'supremum', 'first_passage'.",
    ]


@pytest.mark.slow
def test_no_switch_of_the_interpreter_removes_any_check():
    program = "from tests.test_signatures import accepted; print(*accepted(), sep=chr(10))"
    assert said_by(program, *SWITCHES[-1]) == [""]


# Of annotations: a shape, a range, what a run is made of.
TELLING = r"jaxtyping|vale\.Is|\.(Dataset|Figure|Axes|Config|Network|Trace|Cell)'"


def test_functions_and_classes_that_say_what_they_take_check():
    """But for those made or called inside; a method is called by those who have made its object."""
    inner = {"at_steps", "stream_rates", "lags_and_ends", "to_bytes"}
    inner |= {"StepJacobian", "GatedJacobian", "Passes"}
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
    unchecked(work)(0)
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


def test_every_entry_of_a_container_is_held():
    """Wherever the mistake stands, in every call; the error names it."""

    @checked
    def work(
        words: typing.Sequence[typing.Literal["a", "b"]] = (),
        table: dict[str, signatures.Count] | None = None,
        pair: tuple[int, str] = (1, "x"),
        several: tuple[str, ...] = (),
        unique: frozenset[str] = frozenset(),
        nested: typing.Mapping[str, list[torch.Tensor]] = types.MappingProxyType({}),
        aims: typing.Sequence[Aim] = (),
        *rest: signatures.Count,
    ) -> None: ...

    def refused(message, **given):
        with pytest.raises(ArgumentError, match=rf"^{message}"):
            work(**given)

    for place in range(50):
        words = ["a", "b"] * 25
        words[place] = "bogus"
        refused(rf"words = .*must be .* \(words\[{place}\] = 'bogus' is not\)\.$", words=words)
        refused(r"words = .*'bogus'", words=tuple(words))
        refused(rf"several = .*\[{place}\] = 3 is not", several=("a",) * place + (3, "a"))
    work(words=["a"] * 50, table={"a": 1}, pair=(2, "y"), several=("a",), nested={"a": [TENSOR]})
    refused(r"table = .*\(table\['b'\] = 0 is not\)", table={"a": 1, "b": 0, "c": 3})
    refused(r"table = .*\(a key of table = 2 is not\)", table={"a": 1, 2: 3})
    refused(r"pair = .*\(pair\[1\] = 2 is not\)", pair=(1, 2))
    refused(r"pair = \(1,\)", pair=(1,))
    refused("unique = ", unique=frozenset(["a", "b", 3]))
    refused("nested = ", nested={"a": [TENSOR], "b": [TENSOR, 1.0]})
    refused(r"aims = .*is not\)\.$", aims=[Aim(TENSOR, TENSOR, TENSOR), Aim(TENSOR, TENSOR, None)])
    with pytest.raises(ArgumentError, match=r"^rest\[1\] = 0: must be a whole number, 1 or above"):
        work((), None, (1, "x"), (), frozenset(), {}, (), 1, 0)


TENSOR = torch.ones(1)


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (typing.Iterable[signatures.Count], {1: "a", 0: "b"}, r"\(a key of x = 0 is not\)\.$"),
        (typing.Iterable[signatures.Count], np.array(1), "Iterable, of which each entry"),
        (typing.Collection[signatures.Count], torch.tensor(1), "Collection, of which each entry"),
        (Aim, (TENSOR, TENSOR), "must be .*Aim"),
    ],
)
def test_what_only_looks_like_a_container_of_the_type_is_refused_by_name(hint, value, message):
    def work(x) -> None: ...

    work.__annotations__ = {"x": hint}
    with pytest.raises(ArgumentError, match=rf"^x = .*{message}"):
        checked(work)(value)


def test_old_names_are_found_for_one_release_with_a_warning_that_names_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"signatures\.bare is now .*signatures\.unchecked"):
        assert signatures.bare is signatures.unchecked
    with pytest.warns(DeprecationWarning, match=r"signatures\.kind is now .*\.constrained") as seen:
        assert signatures.kind is signatures.constrained
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"window\.scores is now .*\.r_squared_and_aicc"):
        assert window.scores is window.r_squared_and_aicc
    with pytest.raises(AttributeError, match=r"'lwcore\.signatures' has no attribute 'sort'"):
        _ = signatures.sort


CONTAINERS = [
    (name, parameter, typing.get_args(hint)[0])
    for name, called in CHECKED.items()
    for parameter, of_parameter in hints_of(called).items()
    for hint in (of_parameter, *typing.get_args(of_parameter))
    if (origin := typing.get_origin(hint)) in (list, collections.abc.Sequence)
    or (origin is tuple and typing.get_args(hint)[-1] is ...)
]


@pytest.mark.parametrize(("name", "parameter", "entry"), CONTAINERS)
def test_each_entry_of_each_container_that_a_function_takes_is_held(name, parameter, entry):
    called = CHECKED[name]
    good = {one: taken(hint) for one, hint in hints_of(called).items()}
    own = dict.fromkeys({"self", "cls"} & inspect.signature(called).parameters.keys())
    for place in range(20):
        entries = [taken(entry)] * 20
        entries[place] = object()
        for container in (entries, tuple(entries)):
            with pytest.raises(ArgumentError, match=rf"^{parameter} = .*: must be "):
                called(**own, **good | {parameter: container})


def test_there_are_containers():
    assert {parameter for _, parameter, _ in CONTAINERS} >= {"sources", "aims", "parameters", "by"}


@pytest.mark.parametrize("numbers", [[1, True], [[1.0, 2.0], [3.0, False]], (1, 2, np.True_)])
def test_a_truth_value_among_numbers_is_refused(numbers):
    """NumPy would take it for 0 or 1."""
    for hint in (signatures.Lags, signatures.Reals, signatures.FiniteReals):
        assert not check_of(hint)(numbers, {})


@pytest.mark.parametrize("hint", [NDArray[np.bool_], types.GenericAlias(NDArray, (np.bool_,))])
def test_arrays_are_checked_whether_their_type_is_an_alias_or_has_a_name(hint):
    """It has one from NumPy 2.5 on."""
    check = check_of(hint)
    assert check(np.array([True]), "")
    assert not check(np.array([1.0]), "")


def test_a_type_without_a_check_is_an_error():
    """Nothing passes because it is not known."""

    @checked
    def work(x: typing.ParamSpec("P")) -> None: ...

    with pytest.raises(TypeError, match=r"knows no check for ~?P"):
        work(1)


@pytest.mark.parametrize("name", CHECKED)
def test_checks_are_those_of_beartype(name):
    """Another implementation: of all that a reader may hand in, the same is taken."""
    called = CHECKED[name]
    for hint in typing.get_type_hints(called, include_extras=True).values():
        check = check_of(hint)
        if "+1" in str(hint):  # a sum of letters that other arguments bind
            continue
        for value in [*MISTAKES, *TAKEN]:
            taken_here = check is None or check(value, {})
            assert taken_here == is_bearable(value, hint), (hint, value)


WORDS = ["", "A", "A A", "A B", "2 A", "... A", "*B", "*B A", "A *B 3", "_ A", "A A+1", "*_x A"]
SHAPES = [(), (2,), (3,), (2, 2), (2, 3), (3, 2), (2, 2, 3), (1, 2, 3, 3)]


@pytest.mark.parametrize("first", WORDS)
def test_shapes_are_held_as_jaxtyping_holds_them(first):
    """Letters, numbers, sums and several axes at once, of one array and between two."""
    arrays = [*map(torch.ones, SHAPES), torch.ones(2, dtype=torch.int64), np.ones(2)]
    for second in WORDS[:-2]:
        hints = Float[torch.Tensor, first], Float[torch.Tensor, second]
        for pair in itertools.product(arrays, arrays):
            sizes = {}
            checks = zip(map(check_of, hints), pair, strict=True)
            ours = all(check(array, sizes) for check, array in checks)
            with jaxtyped("context"):
                theirs = all(map(isinstance, pair, hints))
            assert ours == theirs, (second, *(array.shape for array in pair))


TINY, HUGE = Fraction(1, 10**400), 10**400


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (signatures.Positive, TINY, r"above 0 \(as a float it is 0\.0\)"),
        (signatures.Share, 1 - Fraction(1, 10**30), r"in \(0, 1\) \(as a float it is 1\.0\)"),
        (signatures.Share, np.nextafter(np.longdouble(1), np.longdouble(0)), "as a float it is 1"),
        (signatures.Positive, np.longdouble("1e-4000"), "as a float it is 0"),
        (signatures.Finite, np.longdouble("1e4000"), "as a float it is inf"),
        (signatures.Finite, HUGE, "a float goes up to 1.8e308"),
        (signatures.NotNegative | None, HUGE, "a float goes up to 1.8e308"),
        (signatures.Int64Count, 2**63, r"below 2\^63"),
        (signatures.Seed, 2**70, r"below 2\^63"),
    ],
)
def test_a_number_that_rounds_to_the_end_of_a_range_is_refused(hint, value, words):
    """It is held by the float that would be computed with."""

    @checked
    def work(x: hint) -> None: ...

    with pytest.raises(ArgumentError, match=rf"^x = .*: must be .*{words}"):
        work(value)


def test_numbers_of_ranges_arrive_as_pythons_own():
    """NumPy's whole numbers wrap around, and SciPy knows no fractions."""
    arrived = []

    @checked
    def work(
        share: signatures.Share,
        *,
        count: signatures.Count = 1,
        most: signatures.Positive | None = None,
    ) -> None:
        arrived[:] = share, count, most

    work(Fraction(1, 3), count=np.int8(100), most=np.float32(0.1))
    assert arrived == [1 / 3, 100, float(np.float32(0.1))]
    assert [*map(type, arrived)] == [float, int, float]
    work(share=0.5, most=None)
    assert arrived == [0.5, 1, None]
    work(np.longdouble(0.25), most=3)
    assert [*map(type, arrived)] == [float, int, float]


@pytest.mark.parametrize("path", ["a\0b", "a/\udfff"])
def test_a_path_that_no_file_can_have_is_refused(path):
    with pytest.raises(ArgumentError, match=r"^path = .*: must be a path, without NUL"):
        signatures.require_path("path", "a\0b")
