"""Signatures that check: what they say of arguments holds before any work begins.

A function under `checked` reads its annotations at its first call, and holds every call to them.
Shapes and dtypes are jaxtyping's: in ``Float[Tensor, "B T H"]`` letters agree between arguments.
Ranges are types here, `Count` or `Share`. Every entry of a container is looked at. What must hold
between arguments is required in the function, by `require`. No switch of Python or jaxtyping
removes a check.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import AbstractArray
from numpy.typing import ArrayLike, NDArray

from lwcore.reals import Unreadable, complaint, read

Checked = TypeVar("Checked", bound=Callable[..., Any])
Sizes = dict[str, Any]  # that the letters of shapes have in one call; of a ``*letter`` a tuple
_Check = Callable[[Any, Sizes], bool]

_UNIONS = (typing.Union, types.UnionType)
_NUMBERS: dict[Any, type] = {int: Integral, float: Real}  # what is taken for a number of a range


class ArgumentError(TypeError, ValueError):
    """An argument of the wrong type or range: its name, its value and what is allowed."""


def checked(called: Checked) -> Checked:
    """Hold every call of a function, or the making of a class, to its signature.

    Of ``@checked def mean_of(count: Count) -> float``, the call ``mean_of(0)`` says: "count = 0:
    must be a whole number, 1 or above."

    A number of a range, as `Count` or `Share`, arrives as a Python int or float, by which the range
    is held: NumPy's whole numbers wrap around, and SciPy knows no fractions.
    """
    if isinstance(called, type):
        called.__init__ = checked(called.__init__)  # type: ignore[misc]
        return called
    parameters: Any = None

    @functools.wraps(called)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal parameters
        if parameters is None:  # at the first call, when all names in annotations are known
            parameters = _parameters(called)
        sizes: Sizes = {}
        for name, place, hint, check, number in parameters:
            if place < len(args):
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
            else:
                continue
            if not check(value, sizes):
                raise ArgumentError(_refusal(name, value, hint, sizes))
            if number is None or type(value) is number or not isinstance(value, Real):
                continue
            if place < len(args):
                args = (*args[:place], number(value), *args[place + 1 :])
            else:
                kwargs[name] = number(value)
        return called(*args, **kwargs)

    call.__checked__ = True  # type: ignore[attr-defined]
    return typing.cast(Checked, call)


def unchecked(function: Checked) -> Checked:
    """Return a function without its checks, for inner loops.

    Checks cost 10 to 40 µs a call. Who leaves them out vouches for the arguments.
    """
    return typing.cast(Checked, inspect.unwrap(function))


def require(name: str, value: Any, condition: Any, requirement: str) -> None:
    """Refuse an argument for which a condition does not hold.

    Args:
        name: The argument's name, as the caller knows it.
        value: The argument.
        condition: A truth value; or an array of them, one for each entry of the argument, of which
            the first that fails is shown.
        requirement: What must be, to be read after "must be".

    Examples:
        >>> try:
        ...     require("p", [0.5, 1.5], np.array([True, False]), "in [0, 1]")
        ... except ArgumentError as error:
        ...     print(error)
        p contains 1.5: every entry must be in [0, 1].
    """
    if np.all(condition):
        return
    try:
        shape = np.shape(value)
    except ValueError:  # a list whose entries have several shapes
        shape = ()
    if shape and shape == np.shape(condition):
        refused = np.asarray(value)[~np.asarray(condition)]
        first = float(refused.flat[0])
        raise ArgumentError(f"{name} contains {first!r}: every entry must be {requirement}.")
    raise ArgumentError(f"{name} = {_shown(value)}: must be {requirement}.")


def floats(name: str, value: Any) -> NDArray[np.float64]:
    """Return an argument as real numbers, NaN and infinities among them, of any shape.

    See `lwcore.reals.read` for what is taken. The error names the argument.
    """
    try:
        return read(value)
    except Unreadable as error:
        reason = str(error)
    raise ArgumentError(f"{name} = {_shown(value)}: must be real numbers: {reason}.")


class Range(NamedTuple):
    """A range of numbers or other objects: in words that follow "must be", and as a predicate.

    ``Annotated[int, Range("an even number", lambda value: value % 2 == 0)]`` takes even numbers of
    any type of whole numbers, ``Annotated[float, Range(…)]`` real numbers whose nearest float is in
    the range. Behind another type the predicate decides alone. No truth value is a number.
    """

    description: str
    predicate: Callable[[Any], Any]

    def holds(self, base: Any, value: Any) -> bool:
        """Tell whether a value is in the range, of which `base` is the annotated type."""
        kind: Any = _NUMBERS.get(base, object)
        # NumPy has durations among its whole numbers
        if not isinstance(value, kind) or isinstance(value, bool | np.timedelta64):
            return False
        try:
            return bool(self.predicate(float(value) if base is float else value))
        except (ArithmeticError, TypeError, ValueError):  # a whole number beyond any float, say
            return False


def allowed(hint: Any) -> str:
    """Describe what a type allows, in words that follow "must be"."""
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if origin is Annotated:
        return str(hint.__metadata__[-1].description)
    if origin is Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if origin in _UNIONS:
        return " or ".join(map(allowed, parts))
    if origin is Callable:
        return "a function"
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        dtype = hint.__name__.partition("[")[0]
        shape = ", ".join(hint.dim_str.split())
        return f"a {hint.array_type.__name__} of type {dtype} and shape ({shape})"
    name = "None" if hint is type(None) else str(getattr(origin or hint, "__name__", hint))
    entries = " and ".join(allowed(part) for part in parts if part not in (Any, ...))
    return f"a {name} of {entries}" if entries else name


def are_lags(values: Any) -> bool:
    """Return whether values are one or more whole numbers, from 1 on, that increase."""
    if complaint(values):
        return False
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        return False
    return bool(array[0] >= 1 and (array[1:] > array[:-1]).all())


def are_finite(value: Any) -> bool:
    """Return whether values are one or more finite real numbers."""
    array = read(value)
    return array.size > 0 and bool(np.isfinite(array).all())


# Integers of 64 bits count what is held in memory, and what NumPy draws.
Count = Annotated[int, Range("a whole number, 1 or above", lambda value: value >= 1)]
Index = Annotated[int, Range("a whole number, 0 or above", lambda value: value >= 0)]
Int64Count = Annotated[
    int, Range("a whole number, 1 or above and below 2^63", lambda value: 1 <= value < 2**63)
]
Seed = Annotated[
    int, Range("a whole number, 0 or above and below 2^63", lambda value: 0 <= value < 2**63)
]
Finite = Annotated[float, Range("a finite number", math.isfinite)]
Positive = Annotated[float, Range("a finite number above 0", lambda value: 0 < value < math.inf)]
NotNegative = Annotated[
    float, Range("a finite number, 0 or above", lambda value: 0 <= value < math.inf)
]
Share = Annotated[float, Range("a number in (0, 1)", lambda value: 0 < value < 1)]
Lags = Annotated[Any, Range("whole numbers from 1 on that increase", are_lags)]
Reals = Annotated[ArrayLike, Range("real numbers", lambda value: not complaint(value))]
FiniteReals = Annotated[ArrayLike, Range("one or more finite real numbers", are_finite)]


def _parameters(function: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """Return what a function says of its parameters, of those that exclude something.

    That is the name, the place among positional arguments, the type, its check, and int or float
    for a range of numbers.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = []
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name, Any)
        if hint is Any:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"lwcore.signatures knows no check for {parameter}.")
        if parameter.kind is parameter.KEYWORD_ONLY:
            place = sys.maxsize
        base = _base_of_range(hint)
        number = base if base in _NUMBERS else None
        parameters.append((parameter.name, place, hint, _check(hint), number))
    return parameters


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types of which a value may have any."""
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _base_of_range(hint: Any) -> Any:
    """Return the type whose objects a range limits, alone or beside other types; or None."""
    for kind in _alternatives(hint):
        if typing.get_origin(kind) is Annotated:
            return typing.get_args(kind)[0]
    return None


@functools.cache
def _check(hint: Any) -> _Check:
    """Return the check of a type: of a value, and of the sizes that letters have, to which it adds.

    A type that is not known here is an error, so that nothing passes in silence.
    """
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    kind: Any = origin or hint
    if hint in (Any, object) or isinstance(hint, TypeVar):
        return lambda value, _: True
    if origin is Annotated:
        (limits,) = hint.__metadata__
        return lambda value, _: bool(limits.holds(parts[0], value))
    if origin in _UNIONS:
        checks = list(map(_check, parts))
        return lambda value, sizes: any(check(value, sizes) for check in checks)
    if origin is Literal:
        return lambda value, _: isinstance(value, type(parts[0])) and value in parts
    if isinstance(kind, type) and issubclass(kind, AbstractArray):
        return _check_shape(hint)
    has_entries = any(part is not Any for part in parts)
    if kind == Callable or (isinstance(kind, type) and not has_entries):
        return lambda value, _: isinstance(value, kind)
    if not (isinstance(kind, type) and issubclass(kind, Collection)) or kind is np.ndarray:
        raise TypeError(f"lwcore.signatures knows no check for {hint!r}.")
    length = len(parts) if kind is tuple and parts[-1] is not ... else None

    def check_container(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, kind) or length not in (None, len(value)):
            return False
        return all(_check(wanted)(entry, sizes) for _, entry, wanted in _entries("", value, hint))

    return check_container


def _check_shape(hint: Any) -> _Check:
    """Return the check of an array's dtype and shape, whose letters agree with those so far.

    A shape is a list of words: a letter for an axis, with a number added to it perhaps, ``_`` for
    an axis of any size, and one letter with a star at most, for several axes.
    """
    words = []
    for word in hint.dim_str.split():
        letter, _, more = word.partition("+")
        if not letter.removeprefix("*").isidentifier() or not (more or "0").isdigit():
            raise TypeError(f"lwcore.signatures knows no shape with {word!r}.")
        words.append((letter, int(more or 0)))
    starred = [place for place, (letter, _) in enumerate(words) if letter[0] == "*"]

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, hint.array_type):
            return False
        if str(value.dtype).removeprefix("torch.") not in hint.dtypes:
            return False
        shape = tuple(value.shape)
        if starred and len(shape) >= len(words) - 1:
            (first,) = starred
            end = first + 1 + len(shape) - len(words)
            shape = (*shape[:first], shape[first:end], *shape[end:])
        if len(shape) != len(words):
            return False
        found = dict(sizes)  # so that only an array that fits binds letters
        for (letter, more), size in zip(words, shape, strict=True):
            bound = size - more if more else size
            if letter != "_" and found.setdefault(letter, bound) != bound:
                return False
        sizes.update(found)
        return True

    return check


def _entries(name: str, value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is in a container: where, the entry itself, and the type that it should have."""
    parts = typing.get_args(hint)
    if len(parts) == 2 and isinstance(value, Mapping):
        for key, entry in value.items():
            yield f"a key of {name}", key, parts[0]
            yield f"{name}[{key!r}]", entry, parts[1]
    elif parts:
        has_place_for_each = len(parts) > 1 and parts[-1] is not ...
        for k, entry in enumerate(value):
            wanted = parts[k % len(parts)] if has_place_for_each else parts[0]
            yield f"{name}[{k}]", entry, wanted


def _refusal(name: str, value: Any, hint: Any, sizes: Sizes) -> str:
    """Say in one line what is wrong with an argument; of a container, with the entry."""
    for kind in _alternatives(hint):
        container = typing.get_origin(kind) or kind
        is_container = isinstance(container, type) and isinstance(value, container)
        for place, entry, wanted in _entries(name, value, kind) if is_container else ():
            if not _check(wanted)(entry, {}):
                return _refusal(place, entry, wanted, sizes)
    requirement = allowed(hint)
    letters = ", ".join(f"{letter}={size}" for letter, size in sizes.items() if letter[0] != "*")
    if letters and "shape" in requirement:
        requirement += f", with {letters}"
    base = _base_of_range(hint)
    reason = "" if base is None or base in _NUMBERS else complaint(value)
    return f"{name} = {_shown(value)}: must be {requirement}{': ' if reason else ''}{reason}."


def _shown(value: Any) -> str:
    """Return a value as an error shows it: a small one as it is, an array by type and shape."""
    shape = getattr(value, "shape", ())
    if not len(shape):
        try:
            plain = value.item() if isinstance(value, np.ndarray | np.generic) else value
            return repr(plain)[:200]
        except Exception:  # a reader's class may fail as it likes
            return f"an object of {type(value).__name__}"
    dtype = getattr(value, "dtype", "several types")  # as the columns of a table
    return f"{type(value).__name__} of {dtype} and shape {tuple(shape)}"
