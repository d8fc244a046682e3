"""Bad input: every parameter of every function that checks refuses what its annotation excludes."""

import functools
import importlib
import inspect
import itertools
import math
import os
import pkgutil
import re
import subprocess
import sys
import typing
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, jaxtyped
from numpy.typing import NDArray

import lwcore
from lwcore import signatures
from lwcore.signatures import ArgumentError, Count, checked

TENSOR = torch.ones(1)
# What a reader may hand in by mistake, wherever.
MISTAKES = [
    *(None, True, -1, 0, 0.5, 1.0, 2.5, math.nan, math.inf, 1j, "word", b"word", object()),
    *([], [2, 1], [1.5], ["a"], {}, np.array([[1.0, math.nan]]), np.array(["a"])),
    *(torch.ones(0), torch.ones(2), torch.ones(2, 1, 4, 1, 3), torch.ones(2, 3, dtype=torch.int64)),
]


def holds(hint, value):
    """Whether a function takes a value for a parameter with an annotation."""

    def work(x) -> None: ...

    work.__annotations__ = {"x": hint}
    try:
        checked(work)(value)
    except ArgumentError:
        return False
    return True


@functools.cache
def excluded(hint):
    return [mistake for mistake in MISTAKES if not holds(hint, mistake)]


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


def hints_of(called):
    hints = typing.get_type_hints(called, include_extras=True)
    return {
        name: hint for name, hint in hints.items() if name != "return" and hint is not typing.Any
    }


CHECKED = {name: called for name, called in public() if hasattr(called, "__checked__")}


def test_every_parameter_of_every_function_refuses_mistakes_by_name():
    """It is held wherever it is given, before Python finds that others are missing."""
    n_excluded = 0
    for name, called in CHECKED.items():
        for parameter, hint in hints_of(called).items():
            assert hint not in (int, float), f"{name} says nothing of what {parameter} may be"
            for mistake in excluded(hint):
                n_excluded += 1
                with pytest.raises(ArgumentError, match=rf"^{parameter}\b.* = ") as caught:
                    called(**{parameter: mistake})
                assert ": must be " in str(caught.value), name
    assert n_excluded >= 3000


def test_functions_and_classes_that_say_what_they_take_check():
    """But for those made or called inside; a method is called by those who have made its object."""
    inner = {"at_steps", "stream_rates", "lags_and_ends", "to_bytes"}
    inner |= {"StepJacobian", "GatedJacobian", "broadcast"}
    telling = r"jaxtyping|Range\(|\.(Dataset|Figure|Axes|Config|Network|Trace|Cell)'"
    silent = set()
    for name, called in public():
        is_method = called.__name__ not in (called.__qualname__, "__init__")
        if name.startswith("lwcore.diagnose."):  # whose entry reads everything for the others
            continue
        if not is_method and name not in CHECKED and re.search(telling, str(hints_of(called))):
            silent.add(called.__qualname__.removesuffix(".__init__"))
    assert silent == inner


NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=2))
ENDS = [-1, 0, 1, -0.5, 0.0, 1.0, 2**63 - 1, 2**63, 5e-324, math.nextafter(1, 0), math.inf]


@given(NUMBERS)
def test_kinds_of_numbers(drawn):
    for value in (drawn, *ENDS):
        are_taken_as_they_say(value)


def are_taken_as_they_say(value):
    whole = isinstance(value, int) and not isinstance(value, bool)
    real = whole or isinstance(value, float)
    for kind, is_allowed in {
        signatures.Count: whole and value >= 1,
        signatures.Index: whole and value >= 0,
        signatures.Int64Count: whole and 1 <= value < 2**63,
        signatures.Seed: whole and 0 <= value < 2**63,
        signatures.NotNegative: real and 0 <= value < math.inf,
        signatures.Finite: real and math.isfinite(value),
        signatures.Positive: real and 0 < value < math.inf,
        signatures.Share: real and 0 < value < 1,
        signatures.Count | None: value is None or (whole and value >= 1),
    }.items():
        assert holds(kind, value) == is_allowed


class Unprintable:
    def __repr__(self):
        raise KeyError


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (list[Count] | None, [1, 0, 1], "x[1] = 0: must be a whole number, 1 or above."),
        (tuple[Count, str], (1,), "x = (1,): must be a tuple of a whole number, 1 or above and str."),
        (tuple[Count, str], (1, 2), "x[1] = 2: must be str"),
        (signatures.Lags, [0, 2], "x = [0, 2]: must be whole numbers from 1 on that increase"),
        (signatures.Lags, [1, 1], "x = [1, 1]: must be whole numbers from 1 on that increase"),
        (signatures.Lags, [1.0, 2.0], "x = [1.0, 2.0]: must be whole numbers from 1 on"),
        (signatures.FiniteReals, [], "x = []: must be one or more finite real numbers"),
        (Count, np.timedelta64(5), "x = 5: must be a whole number, 1 or above"),
        (Count, Unprintable(), "x = an object of Unprintable: must be a whole number, 1 or above"),
        (dict[str, list[Count]], {"a": [1], "b": [1, True]}, "x['b'][1] = True: must be a whole"),
        (Float[torch.Tensor, " B"] | None, torch.ones(2, 3), "must be a Tensor of type Float and"),
    ],
)  # fmt: skip
def test_the_entry_that_is_wrong_is_named(hint, value, message):
    def work(x) -> None: ...

    work.__annotations__ = {"x": hint}
    with pytest.raises(ArgumentError) as caught:
        checked(work)(value)
    assert message in str(caught.value)


WORDS = ["", "A", "A B", "*B A", "_ A", "A A+1"]
SHAPES = [(), (2,), (2, 2), (2, 3), (2, 2, 3)]


@pytest.mark.parametrize("first", WORDS)
def test_shapes_are_held_as_jaxtyping_holds_them(first):
    """Letters, sums and several axes at once, of one array and between two."""

    def work(x, y) -> None: ...

    arrays = [*map(torch.ones, SHAPES), torch.ones(2, dtype=torch.int64), np.ones(2)]
    for second in WORDS:
        hints = Float[torch.Tensor, first], Float[torch.Tensor, second]
        work.__annotations__ = dict(zip("xy", hints, strict=True))
        ours = checked(work)
        for pair in itertools.product(arrays, arrays):
            with jaxtyped("context"):
                expected = all(map(isinstance, pair, hints))
            try:
                ours(*pair)
                found = True
            except ArgumentError:
                found = False
            assert found == expected, (second, pair)


@pytest.mark.parametrize(
    "hint", [typing.ParamSpec("P"), NDArray[np.bool_], typing.Iterable[str], Float[torch.Tensor, "2"]]
)  # fmt: skip
def test_a_type_without_a_check_is_an_error(hint):
    """Nothing passes because it is not known."""
    with pytest.raises(TypeError, match="knows no"):
        holds(hint, TENSOR)

    @checked
    def collects(*numbers: Count) -> None: ...

    with pytest.raises(TypeError, match=r"knows no check for \*numbers"):
        collects(1)


def test_numbers_of_ranges_arrive_as_pythons_own_and_are_held_as_such():
    """NumPy's whole numbers wrap around, and SciPy knows no fractions."""
    arrived = []

    @checked
    def work(
        share: signatures.Share, *, count: Count = 1, most: signatures.Positive | None = None
    ) -> None:
        arrived[:] = share, count, most

    work(Fraction(1, 3), count=np.int8(100), most=np.float32(0.1))
    assert arrived == [1 / 3, 100, float(np.float32(0.1))]
    assert [*map(type, arrived)] == [float, int, float]
    work(share=0.5, most=None)
    assert arrived == [0.5, 1, None]
    nearly_1 = np.nextafter(np.longdouble(1), np.longdouble(0))
    for share in (1 - Fraction(1, 10**30), nearly_1, Fraction(1, 10**400)):
        with pytest.raises(ArgumentError, match=r"^share = .* in \(0, 1\)"):
            work(share)
    with pytest.raises(ArgumentError, match=r"^most = 1000.* above 0 or None"):
        work(0.5, most=10**400)


def test_no_switch_of_the_interpreter_removes_a_check():
    """Python has -O, and jaxtyping a variable of its own."""
    program = """
import numpy
from jaxtyping import Float
from lwcore.signatures import Share, checked
@checked
def work(x: Float[numpy.ndarray, "A B"] | Share): ...
for refused in (3.0, numpy.ones(3)):
    try:
        work(refused)
    except ValueError as error:
        print("refused")
"""
    switched = os.environ | {"JAXTYPING_DISABLE": "1", "PYTHONOPTIMIZE": "2"}
    printed = subprocess.check_output([sys.executable, "-c", program], env=switched, text=True)
    assert printed.split() == ["refused", "refused"]
