"""Rows of the tables: a function, one of its arguments, a bad value for it, and the error that must
come.

A table lists doors: a public function with good arguments, each of a kind. The kind knows what is
bad: for a real number in (1, 2] that is NaN, a text, a truth value, and what lies just outside
either end. A kind takes further bad values, which only this argument has. Each argument is tried
with one value of the wrong type and one of the wrong size, in turn; that its check refuses all of
them is tested once for each kind.
"""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch


class Bad(NamedTuple):
    """A bad value, the error it must raise, and how the message shows it: a regular expression."""

    value: Any
    error: type[Exception]
    shown: str


class Argument(NamedTuple):
    """A good value of an argument and its bad ones."""

    good: Any
    bad: tuple[Bad, ...] = ()

    def also(self, *bad: Bad) -> Argument:
        """Refuse these values too."""
        return Argument(self.good, self.bad + bad)

    def only_bad(self, chosen: Callable[[Bad], bool]) -> Argument:
        """Keep those bad values that are bad here, too."""
        return Argument(self.good, tuple(bad for bad in self.bad if chosen(bad)))


@dataclass
class Door:
    """A public function and its arguments; those that are not of a kind are good as they stand."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    called: dict[str, str] = field(default_factory=dict)

    def __init__(
        self,
        function: Callable[..., Any],
        called: dict[str, str] | None = None,
        /,
        **arguments: Any,
    ):
        self.function, self.arguments, self.called = function, arguments, called or {}

    @property
    def name(self) -> str:
        """The function's name, its module in front."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def call(self, **bad: Any) -> Any:
        """Call the function with good arguments but for the bad ones."""
        good = {
            name: given.good if isinstance(given, Argument) else given
            for name, given in self.arguments.items()
        }
        result = self.function(**good | bad)
        # a generator checks when it is first asked
        return next(result) if inspect.isgenerator(result) else result


class Row(NamedTuple):
    """One bad call."""

    door: Door
    argument: str
    bad: Bad

    @property
    def label(self) -> str:
        """A short name for the test."""
        return f"{self.door.name.removeprefix('lwcore.')}-{self.argument}-{short(self.bad.value)}"

    def call(self) -> Any:
        """Call the function with the bad value and good ones for the rest."""
        return self.door.call(**{self.argument: self.bad.value})


def rows(doors: list[Door]) -> Iterator[Row]:
    """Go through a table: for each argument one value of each error that its kind knows, the next
    one in turn at every door."""
    turn: Counter[tuple[str, ...]] = Counter()
    for door in doors:
        for argument, given in door.arguments.items():
            for error in (
                dict.fromkeys(bad.error for bad in given.bad) if isinstance(given, Argument) else ()
            ):
                alike = [bad for bad in given.bad if bad.error is error]
                kind = tuple(bad.shown for bad in alike)
                yield Row(door, argument, alike[turn[kind] % len(alike)])
                turn[kind] += 1


def short(value: Any) -> str:
    """Return a few characters that tell a value from the others of its argument."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return f"{type(value).__name__}{tuple(value.shape)}{value.dtype}".replace(" ", "")
    return "".join(c for c in repr(value) if c.isalnum() or c in ".-[]")[:24]


def literally(value: Any) -> str:
    """Return the expression that a message shows the value by as Python writes it."""
    return re.escape(f"= {value!r}")


def wrong(value: Any, error: type[Exception] = ValueError, shown: str | None = None) -> Bad:
    """Return a bad value, shown as Python writes it if nothing else is said."""
    return Bad(value, error, literally(value) if shown is None else shown)


def no_number(*values: Any) -> tuple[Bad, ...]:
    """Return values that no number is."""
    return tuple(wrong(value, TypeError) for value in values)


def real(good: float, interval: str, *bad: float) -> Argument:
    """A real number in an interval in the usual notation: not NaN, no text, and not just outside
    either end."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    beyond = [low if interval[0] == "(" else np.nextafter(low, -math.inf).item()]
    beyond.append(high if interval[-1] == ")" else np.nextafter(high, math.inf).item())
    infinite = [end for end, inside in ((-math.inf, low), (math.inf, high)) if end != inside]
    outside = [
        end
        for end in dict.fromkeys((*beyond, *infinite, math.nan, *bad))
        if not (low == end and interval[0] == "[")
    ]
    return Argument(
        good,
        no_number("0.5", True, 1j, [0.5], np.array([0.5, 0.5]))
        + tuple(wrong(end) for end in outside),
    )


def integer(good: int, low: int | None, high: int | None = None) -> Argument:
    """An integer from one to another: no float, not even a whole one, no text, no truth value, and
    not one less or one more."""
    outside = [
        end
        for end in (None if low is None else low - 1, None if high is None else high + 1)
        if end is not None
    ]
    return Argument(
        good,
        no_number(float(good), "3", True, math.nan, [3]) + tuple(wrong(end) for end in outside),
    )


def word(good: str) -> Argument:
    """One of a few words."""
    return Argument(
        good, tuple(wrong(value) for value in ("nonsense", "", good.upper() + " ", 1, None, [good]))
    )


def numbers(good: Any, *entries: float) -> Argument:
    """Real numbers, perhaps not finite: not ragged, no text, no complex number, no object; some
    entries may be refused."""
    right = np.asarray(good, dtype=float)
    return Argument(
        good,
        (
            Bad(right.astype(complex), TypeError, "complex128"),
            Bad(right.astype(str), TypeError, "<U"),
            Bad(right.astype(object), TypeError, "object"),
            Bad(np.full(right.shape, True), TypeError, "bool"),
            Bad([[1.0], [1.0, 2.0]], TypeError, "inhomogeneous"),
            Bad(None, TypeError, "object|None"),
            Bad({"a": 1.0}, TypeError, "object|'a'"),
            *(
                Bad(np.full(right.shape, entry), ValueError, re.escape(f"{entry:g}"))
                for entry in entries
            ),
        ),
    )


def array(good: Any, *bad: Bad, none: bool = False) -> Argument:
    """Finite real numbers, at least one; None may be allowed."""
    right = np.asarray(good, dtype=float)
    spoiled = np.where(np.arange(right.size).reshape(right.shape) == 0, np.nan, right)
    return Argument(
        good,
        (
            *(row for row in numbers(good).bad if not (none and row.value is None)),
            Bad(spoiled, ValueError, r"1 of \d+ entries are NaN or infinite"),
            Bad(
                np.full(right.shape, -np.inf),
                ValueError,
                r"(\d+) of \1 entries are NaN or infinite",
            ),
            Bad(np.empty((0, *right.shape[1:])), ValueError, r"\(0,.*\)"),
            *bad,
        ),
    )


def of_shape(*shapes: tuple[int, ...]) -> tuple[Bad, ...]:
    """Return ones of shapes that do not fit."""
    return tuple(Bad(np.ones(shape), ValueError, re.escape(str(shape))) for shape in shapes)


def shaped(good: Any, *wrong_shapes: tuple[int, ...]) -> Argument:
    """Finite real numbers of a certain shape."""
    return array(good, *of_shape(*wrong_shapes))


def lags(good: Any, length: int | None = None, *, least: int = 1) -> Argument:
    """Increasing integers below a length."""
    outside = [least - 1] + ([] if length is None else [length])
    return Argument(
        good,
        (
            *(Bad([end], ValueError, rf"\[0\] = {end}") for end in outside),
            Bad([1.0, 2.0], TypeError, r"\[0\] = 1\.0"),
            Bad([True], TypeError, r"\[0\] = True"),
            Bad([2, 1], ValueError, r"\[2, 1\]"),
            Bad([1, 1], ValueError, r"\[1, 1\]"),
            Bad([], ValueError, r"\[\]"),
            Bad("12", TypeError, "'12'"),
            Bad(3, TypeError, "3"),
            Bad([[1, 2]], TypeError, r"\[0\] = \[1, 2\]"),
        ),
    )


def generator(seed: int = 0) -> Argument:
    """A NumPy generator: no seed, not the old global one, none of PyTorch's."""
    return Argument(
        np.random.default_rng(seed),
        tuple(
            Bad(value, TypeError, shown)
            for value, shown in (
                (0, "= 0"),
                (None, "= None"),
                ("rng", "'rng'"),
                (np.random, "module"),
                (torch.Generator(), "torch"),
            )
        ),
    )


def object_of(good: Any, *bad: Any, none: bool = False) -> Argument:
    """An object of a certain class: no text, no number; None may be allowed."""
    wrong_ones = ("x", 3, *bad) if none else (None, "x", 3, *bad)
    return Argument(
        good,
        tuple(
            wrong(
                value,
                TypeError,
                shown=re.escape(type(value).__name__) + "|" + re.escape(str(value)),
            )
            for value in wrong_ones
        ),
    )


def tensor(
    good: torch.Tensor, *wrong_shapes: tuple[int, ...], dtype: type[Exception] = TypeError
) -> Argument:
    """A tensor of floating-point numbers of a certain shape: no array, no list, no integers."""
    return Argument(
        good,
        (
            Bad(None, TypeError, "None"),
            Bad(3.0, TypeError, "float|3.0"),
            Bad(good.detach().numpy(), TypeError, "ndarray"),
            Bad(good.detach().tolist(), TypeError, "list"),
            Bad(torch.zeros(good.shape, dtype=torch.int64), dtype, "int64"),
            Bad(good.detach().to(torch.complex128), dtype, "complex128"),
            *(
                Bad(
                    torch.ones(shape, dtype=good.dtype),
                    ValueError,
                    str(shape).replace("(", r"\(").replace(")", r"\)"),
                )
                for shape in wrong_shapes
            ),
        ),
    )
