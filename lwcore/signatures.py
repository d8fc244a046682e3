"""Signatures that check: what they say of arguments holds before any work begins.

Shapes and dtypes are jaxtyping's: in ``Float[Tensor, "B T H"]`` letters agree between arguments.
Ranges are types here, `Count` or `Share`. What must hold between arguments is required in the
function. The checks are this module's own: they need neither jaxtyping's nor beartype's, which
``python -O`` and ``JAXTYPING_DISABLE=1`` switch off, and look at every entry of a container.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import os
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from beartype.vale import Is
from jaxtyping import AbstractArray
from numpy.typing import ArrayLike, NDArray

from lwcore.reals import Unreadable, complaint, read

Checked = TypeVar("Checked", bound=Callable[..., Any])
Sizes = dict[str, Any]  # of a shape's letters, and of its ``*letters`` as tuples, in one call
Check = Callable[[Any, Sizes], bool]

_WORDS: dict[Hashable, str] = {}
_ABSENT: Any = object()  # an argument that was not given
_PACKAGE = Path(__file__).parent.as_posix()
# Libraries that may stand between a reader's line and ours.
_BETWEEN = {"contextlib", "functools", "concurrent", "threading", "torch", "xarray"}


class ArgumentError(TypeError, ValueError):
    """An argument of the wrong type or range: its name, its value and what is allowed."""


def checked(called: Checked) -> Checked:
    """Hold every call of a function, or the making of a class, to its signature.

    Of ``@checked def mean_of(count: Count) -> float``, the call ``mean_of(0)`` says: "count = 0:
    must be a whole number, 1 or above."

    A number of a range, as `Count` or `Share`, arrives as a Python int or float, whatever it came
    in. The range is held by that float: a fraction or a long double near an end rounds to the end.
    """
    if isinstance(called, type):
        called.__init__ = checked(called.__init__)  # type: ignore[misc]
        return called
    signature: _Signature | None = None

    @functools.wraps(called)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal signature
        if signature is None:  # at the first call, when all names in annotations are known
            signature = _Signature.of(called)
        sizes = signature.hold(args, kwargs)
        args, kwargs = signature.with_plain_numbers(args, kwargs)
        result = called(*args, **kwargs)
        signature.hold_result(result, sizes)
        return result

    call.__checked__ = True  # type: ignore[attr-defined]
    return typing.cast(Checked, call)


def bare(function: Checked) -> Checked:
    """Return a function without its checks, for inner loops: they cost some 2 to 10 µs a call."""
    return typing.cast(Checked, inspect.unwrap(function))


def require(name: str, value: Any, holds: Any, words: str) -> None:
    """Refuse an argument for which a condition does not hold.

    Of an array the condition may be one for each entry: then the first that fails is shown.
    """
    if np.all(holds):
        return
    try:
        shape = np.shape(value)
    except ValueError:  # a list whose entries have several shapes
        shape = ()
    if shape and shape == np.shape(holds):
        first = float(np.asarray(value)[~np.asarray(holds)].flat[0])
        raise ArgumentError(f"{name} contains {first!r}: every entry must be {words}.")
    raise ArgumentError(f"{name} = {_shown(value)}: must be {words}.")


def require_path(name: str, path: str) -> None:
    """Refuse a path that no file can have."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    require(name, path, possible, "a path, without NUL or half symbols")


def floats(name: str, value: Any) -> NDArray[np.float64]:
    """Return an argument as real numbers, NaN and infinities among them, of any shape."""
    try:
        return read(value)
    except Unreadable as error:
        words = str(error)
    raise ArgumentError(f"{name} = {_shown(value)}: must be real numbers: {words}.")


def kind(base: Any, words: str, holds: Callable[[Any], Any]) -> Any:
    """Return the type of those objects of another for which something holds.

    `words` say in an error what is allowed. No truth value is a number. What holds of real numbers
    must hold of the float that is nearest, which is what a checked function is given.
    """

    def allows(value: Any) -> bool:
        if isinstance(value, bool):
            return False
        try:
            return bool(holds(float(value) if base is Real else value))
        except (ArithmeticError, TypeError, ValueError):  # a whole number beyond any float, say
            return False

    made = Annotated[base, Is[allows]]
    _WORDS[made] = words
    return made


def allowed(hint: Any) -> str:
    """Return the words for what a type allows."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(allowed, parts))
    if origin is tuple and parts[-1:] != (...,):
        return f"({'; '.join(map(allowed, parts))})"
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        dtype, shape = hint.__name__.partition("[")[0], ", ".join(hint.dim_str.split())
        return f"a {hint.array_type.__name__} of type {dtype} and shape ({shape})"
    if hint is type(None):
        return "None"
    if origin is collections.abc.Callable:
        return "a function"
    if origin is np.ndarray:
        return f"a NumPy array of type {typing.get_args(parts[1])[0].__name__}"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        key, value = map(allowed, parts)
        return f"a {_named(origin)}, of which each key is {key} and each value {value}"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        entries = "" if parts[0] is Any else f", of which each entry is {allowed(parts[0])}"
        return f"a {_named(origin)}{entries}"
    return str(hint) if any(part is not Any for part in parts) else _named(origin or hint)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the reader's that led here: the nearest one outside of this package."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None and _is_between(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_between(frame: types.FrameType) -> bool:
    """Whether a frame is of this package, or of a library that it goes through."""
    module = frame.f_globals.get("__name__", "")
    own = Path(frame.f_code.co_filename).as_posix().startswith(f"{_PACKAGE}/")
    return own or module.partition(".")[0] in _BETWEEN


def _named(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _real(value: Any) -> bool:
    """Whether values are real numbers."""
    return not complaint(value)


def are_lags(values: Any) -> bool:
    """Whether values are whole numbers from 1 on that increase, and at least one."""
    array = np.asarray(values) if _real(values) else np.empty(0)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        return False
    return bool(array[0] >= 1 and (array[1:] > array[:-1]).all())


def _finite(value: Any) -> bool:
    """Whether values are real, finite, and at least one."""
    array = read(value) if _real(value) else np.empty(0)
    return array.size > 0 and bool(np.isfinite(array).all())


if TYPE_CHECKING:  # a type checker knows no ranges
    from torch import Tensor

    Count = int
    Index = int
    Int64Count = int
    Seed = int
    Finite = float
    Positive = float
    NotNegative = float
    Share = float
    Lags = Sequence[int] | NDArray[np.integer[Any]] | Tensor
    Reals = ArrayLike
    FiniteReals = ArrayLike
else:
    Count = kind(Integral, "a whole number, 1 or above", lambda value: value >= 1)
    Index = kind(Integral, "a whole number, 0 or above", lambda value: value >= 0)
    # of what is held in memory, or counted by NumPy
    Int64Count = kind(
        Integral, "a whole number, 1 or above and below 2^63", lambda value: 1 <= value < 2**63
    )
    Seed = kind(
        Integral, "a whole number, 0 or above and below 2^63", lambda value: 0 <= value < 2**63
    )
    Finite = kind(Real, "a finite number", math.isfinite)
    Positive = kind(
        Real, "a finite number above 0", lambda value: value > 0 and math.isfinite(value)
    )
    NotNegative = kind(
        Real, "a finite number, 0 or above", lambda value: value >= 0 and math.isfinite(value)
    )
    Share = kind(Real, "a number in (0, 1)", lambda value: 0 < value < 1)
    Lags = kind(object, "whole numbers from 1 on that increase", are_lags)
    Reals = kind(object, "real numbers", _real)
    FiniteReals = kind(object, "real numbers, finite and at least one", _finite)


class _Parameter(NamedTuple):
    """A parameter of a function: where its argument may stand, and what it may be."""

    name: str
    place: int  # among positional arguments; beyond all of them if it goes by its name alone
    kind: Any
    hint: Any
    check: Check
    number: type | None  # what a number arrives as: int, float, or as it came


class _Signature(NamedTuple):
    """What a function says of its arguments and of its result."""

    name: str
    parameters: list[_Parameter]
    own: frozenset[str]  # names of all parameters
    defaults: Sizes
    result: Any
    check_result: Check | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Signature:
        """Read a function's annotations."""
        hints = typing.get_type_hints(function, include_extras=True)
        found = []
        every = inspect.signature(function).parameters
        for place, one in enumerate(every.values()):
            check = check_of(hints[one.name]) if one.name in hints else None
            if check is not None:
                by_name = one.kind is inspect.Parameter.KEYWORD_ONLY
                where = sys.maxsize if by_name else place
                hint = hints[one.name]
                number = _number_type(hint)
                found.append(_Parameter(one.name, where, one.kind, hint, check, number))
        defaults = {
            name: one.default for name, one in every.items() if one.default is not one.empty
        }
        result = hints.get("return", Any)
        name = function.__qualname__
        return cls(name, found, frozenset(every), defaults, result, check_of(result))

    def hold(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sizes:
        """Refuse the first argument that is not allowed; return the sizes of shapes' letters."""
        sizes: Sizes = {}
        count = len(args)
        for one in self.parameters:
            if one.kind is inspect.Parameter.VAR_POSITIONAL:
                for place, value in enumerate(args[one.place :]):
                    if not one.check(value, sizes):
                        raise ArgumentError(_refusal(f"{one.name}[{place}]", value, one, sizes))
                continue
            if one.kind is inspect.Parameter.VAR_KEYWORD:
                for name, value in kwargs.items():
                    if name not in self.own and not one.check(value, sizes):
                        raise ArgumentError(_refusal(name, value, one, sizes))
                continue
            value = args[one.place] if one.place < count else kwargs.get(one.name, _ABSENT)
            if value is not _ABSENT and not one.check(value, sizes):
                raise ArgumentError(_refusal(one.name, value, one, sizes))
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if whole:  # which a shape may name, as in "{orders}+1"
                sizes[f"{{{one.name}}}"] = value
        return sizes

    def with_plain_numbers(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with the numbers of ranges as Python's own.

        NumPy's whole numbers wrap around, and fractions are known to no function of SciPy's.
        """
        for one in self.parameters:
            number = one.number
            if number is None:
                continue
            positional = one.place < len(args)
            value = args[one.place] if positional else kwargs.get(one.name)
            if type(value) is number or not isinstance(value, Real):
                continue
            if positional:
                args = (*args[: one.place], number(value), *args[one.place + 1 :])
            else:
                kwargs = kwargs | {one.name: number(value)}
        return args, kwargs

    def hold_result(self, result: Any, sizes: Sizes) -> None:
        """Refuse a result that is not the one announced, which is our own fault."""
        if self.check_result is None or self.check_result(result, _Defaulted(self.defaults, sizes)):
            return
        raise ArgumentError(
            f"{self.name} gave {_shown(result)}, not {allowed(self.result)}: a fault of lwcore."
        )


class _Defaulted(dict[str, Any]):
    """Sizes of letters, with the defaults of parameters that a shape names."""

    def __init__(self, defaults: Sizes, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.defaults = defaults

    def __missing__(self, letter: str) -> Any:
        return self.defaults[letter.strip("{}")]


def _number_type(hint: Any) -> type | None:
    """Return int or float for a range of whole or of real numbers, alone or beside other types."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = {number for part in parts if (number := _number_type(part)) is not None}
        return found.pop() if len(found) == 1 else None
    if origin is not Annotated:
        return None
    plain: dict[Any, type] = {Integral: int, Real: float}
    return plain.get(parts[0])


@functools.cache
def check_of(hint: Any) -> Check | None:
    """Return a function that tells whether a value is of a type, or None if every value is.

    A type that is not known here is an error, so that nothing passes in silence.
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object, typing.Self) or isinstance(hint, TypeVar):
        return None
    if origin is Annotated:
        return _annotated(hint)
    if origin in (typing.Union, types.UnionType):
        return _union([check_of(part) for part in parts])
    if origin is Literal:
        return lambda value, _: any(isinstance(value, type(one)) and value == one for one in parts)
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return lambda value, _: callable(value)
    if origin is np.ndarray:
        return _array_of(typing.get_args(parts[1])[0])
    if origin is tuple and parts[-1:] != (...,):
        return _tuple([check_of(part) for part in parts])
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return _mapping(origin, *map(check_of, parts))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return _entries(origin, check_of(parts[0]))
    if isinstance(origin, type) and all(part is Any for part in parts):
        return lambda value, _: isinstance(value, origin)
    if not isinstance(hint, type):
        raise TypeError(f"lwcore.signatures knows no check for {hint!r}.")
    if issubclass(hint, AbstractArray):
        return _shaped(hint)
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _fields(hint)
    return lambda value, _: isinstance(value, hint)


def _annotated(hint: Any) -> Check:
    """A range: objects of a type for which something holds."""
    base = check_of(typing.get_args(hint)[0])
    conditions = [one.is_valid for one in hint.__metadata__]

    def check(value: Any, sizes: Sizes) -> bool:
        if base is not None and not base(value, sizes):
            return False
        return all(holds(value) for holds in conditions)

    return check


def _union(checks: list[Check | None]) -> Check | None:
    """One of several types; letters are bound by the one that fits."""
    if None in checks:
        return None

    def check(value: Any, sizes: Sizes) -> bool:
        for one in checks:
            tried = dict(sizes)
            if one is not None and one(value, tried):
                sizes |= tried
                return True
        return False

    return check


def _array_of(dtype: Any) -> Check:
    return lambda value, _: isinstance(value, np.ndarray) and np.issubdtype(value.dtype, dtype)


def _tuple(checks: list[Check | None]) -> Check:
    """A tuple with one type for each place."""

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, tuple) or len(value) != len(checks):
            return False
        pairs = zip(value, checks, strict=True)
        return all(one is None or one(part, sizes) for part, one in pairs)

    return check


def _fields(hint: Any) -> Check:
    """A named tuple, and its fields."""
    hints = typing.get_type_hints(hint, include_extras=True)
    inner = _tuple([check_of(hints.get(name, Any)) for name in hint._fields])
    count = len(hint._fields)

    def check(value: Any, sizes: Sizes) -> bool:
        # one that its class has not made, of another length, has no fields
        return isinstance(value, hint) and (len(value) != count or inner(value, sizes))

    return check


def _entries(container: type, entry: Check | None) -> Check:
    """A container and all that is in it. What can be read once only is left alone."""

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, container):
            return False
        if entry is None or not isinstance(value, collections.abc.Collection):
            return True
        return all(entry(part, sizes) for part in value)

    return check


def _mapping(container: type, key: Check | None, entry: Check | None) -> Check:
    """A mapping, all its keys and all its values."""

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, container):
            return False
        named: Any = value
        for name, part in named.items():
            if key is not None and not key(name, sizes):
                return False
            if entry is not None and not entry(part, sizes):
                return False
        return True

    return check


def _shaped(hint: Any) -> Check:
    """An array of a dtype and shape, whose letters agree with those bound before."""
    base = hint.array_type
    dtypes = hint.dtypes if isinstance(hint.dtypes, tuple) else None
    axes = [_axis(word) for word in hint.dim_str.split()]
    many = next((k for k, axis in enumerate(axes) if axis.many), None)

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, base):
            return False
        if dtypes is not None and not _is_among(value.dtype, dtypes):
            return False
        shape = tuple(value.shape)
        if many is None:
            if len(shape) != len(axes):
                return False
            return all(axis.fits(size, sizes) for axis, size in zip(axes, shape, strict=True))
        behind = len(axes) - many - 1
        stop = len(shape) - behind
        if stop < many:
            return False
        parts = [*shape[:many], shape[many:stop], *shape[stop:]]
        return all(axis.fits(size, sizes) for axis, size in zip(axes, parts, strict=True))

    return check


class _Axis(NamedTuple):
    """An axis of a shape, or, where there are `many`, several: a letter, a number or a sum."""

    word: str
    many: bool
    fixed: int | None  # its size
    formula: Any  # compiled
    names: list[str]  # in the formula

    def fits(self, size: Any, sizes: Sizes) -> bool:
        """Whether a size is the one wanted, which the first of a letter's is."""
        if self.fixed is not None:
            return bool(size == self.fixed)
        if self.formula is not None:
            known = {_plain(name): sizes[name] for name in self.names}
            return bool(size == eval(self.formula, {"__builtins__": {}}, known))
        if self.word.startswith("_") or self.word == "...":
            return True
        return bool(sizes.setdefault(self.word, size) == size)


def _axis(word: str) -> _Axis:
    """Read one word of a shape."""
    many = word == "..." or word.startswith("*")
    letter = word.removeprefix("*")
    if letter == "..." or letter.isidentifier():
        # a letter of one axis and one of many are not the same
        return _Axis(word, many, None, None, [])
    if letter.isdigit():
        return _Axis(word, many, int(letter), None, [])
    if not re.fullmatch(r"[\w{}+*/() -]+", letter):
        raise TypeError(f"lwcore.signatures knows no shape with {word!r}.")
    names = re.findall(r"{\w+}|[A-Za-z_]\w*", letter)
    return _Axis(word, many, None, compile(_plain(letter), word, "eval"), names)


def _plain(formula: str) -> str:
    """A formula, or a name, without the braces around arguments."""
    return formula.replace("{", "_").replace("}", "_")


@functools.cache
def _is_among(dtype: Any, names: tuple[Any, ...]) -> bool:
    """Whether a dtype of NumPy or PyTorch is one of those of a name, or of a pattern."""
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return any(name == one if isinstance(one, str) else one.match(name) for one in names)


def _refusal(name: str, value: Any, parameter: _Parameter, sizes: Sizes) -> str:
    """What is wrong with an argument, in one line; of a container, with the entry."""
    wanted = allowed(parameter.hint)
    letters = ", ".join(f"{k}={n}" for k, n in sizes.items() if k.isidentifier())
    given = f", with {letters}" if letters and "shape" in wanted else ""
    entry = next(_misfits(name, value, parameter.hint), None)
    of_entry = "" if entry is None else f" ({entry} is not)"
    why = complaint(value) if _takes_numbers(parameter.hint) else ""
    reason = f": {why}" if why else ""
    rounded = _rounding(value) if parameter.number is float else ""
    return f"{name} = {_shown(value)}: must be {wanted}{given}{of_entry}{rounded}{reason}."


def _rounding(value: Any) -> str:
    """Say which float a number is, if it is another number."""
    if not isinstance(value, Real) or isinstance(value, float):
        return ""
    try:
        nearest = float(value)
    except OverflowError:
        return " (a float goes up to 1.8e308)"
    return "" if nearest == value or math.isnan(nearest) else f" (as a float it is {nearest!r})"


def _takes_numbers(hint: Any) -> bool:
    """Whether a type, or one of several, is of values that NumPy reads, as `Reals` is."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(map(_takes_numbers, typing.get_args(hint)))
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return hint is object


def _misfits(name: str, value: Any, hint: Any) -> Iterator[str]:
    """The entries of a container that its type does not allow, as ``name[place] = value``."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for part in parts:
            yield from _misfits(name, value, part)
        return
    entries: list[tuple[str, Any, Any]] = []
    if isinstance(hint, type) and hasattr(hint, "_fields") and isinstance(value, tuple):
        hints = typing.get_type_hints(hint, include_extras=True)
        named = zip(hint._fields, tuple(value), strict=True)
        entries = [(f"{name}.{field}", part, hints.get(field, Any)) for field, part in named]
    elif not isinstance(origin, type) or not isinstance(value, origin):
        return
    elif isinstance(value, Mapping):
        for key, part in value.items():
            entries += [(f"a key of {name}", key, parts[0]), (f"{name}[{key!r}]", part, parts[1])]
    elif isinstance(value, Sequence) and parts:
        kinds = (
            parts if len(parts) == len(value) and parts[-1] is not ... else parts[:1] * len(value)
        )
        entries = [(f"{name}[{k}]", part, kinds[k]) for k, part in enumerate(value)]
    else:
        return
    for place, part, kind_of_entry in entries:
        check = check_of(kind_of_entry)
        if check is not None and not check(part, {}):
            yield f"{place} = {_shown(part)}"


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
