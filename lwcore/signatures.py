"""Signatures that check: what they say of arguments holds before any work begins.

A function under `checked` reads its annotations once, at its first call, and makes a check of each.
Every call then holds its arguments to these, and its result. Shapes and dtypes are jaxtyping's: in
``Float[Tensor, "B T H"]`` letters agree between arguments. Ranges are types here, `Count` or
`Share`. What must hold between arguments is required in the function, by `require`. The checks are
this module's own: they need neither jaxtyping's nor beartype's, which ``python -O`` and
``JAXTYPING_DISABLE=1`` switch off, and look at every entry of a container.
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
# The sizes that the letters of shapes have in one call; of a ``*letter`` a tuple. Whole numbers
# that were given stand under their names in braces: a shape may be "{orders}+1".
Sizes = dict[str, Any]
Check = Callable[[Any, Sizes], bool]

_DESCRIPTIONS: dict[Hashable, str] = {}  # of ranges: what they allow
_ABSENT: Any = object()  # an argument that was not given
_PACKAGE = Path(__file__).parent.as_posix()
_UNIONS = (typing.Union, types.UnionType)
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
        plain_args, plain_kwargs = signature.with_plain_numbers(args, kwargs)
        result = called(*plain_args, **plain_kwargs)
        signature.hold_result(result, sizes)
        return result

    call.__checked__ = True  # type: ignore[attr-defined]
    return typing.cast(Checked, call)


def unchecked(function: Checked) -> Checked:
    """Return a function without its checks, for inner loops.

    Checks cost some 2 to 10 µs a call. Who leaves them out vouches for the arguments.
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


def require_path(name: str, path: str) -> None:
    """Refuse a path that no file can have, before anything is computed for that file."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    require(name, path, possible, "a path, without NUL or half symbols")


def floats(name: str, value: Any) -> NDArray[np.float64]:
    """Return an argument as real numbers, NaN and infinities among them, of any shape.

    See `lwcore.reals.read` for what is taken. The error names the argument.
    """
    try:
        return read(value)
    except Unreadable as error:
        reason = str(error)
    raise ArgumentError(f"{name} = {_shown(value)}: must be real numbers: {reason}.")


def constrained(base: Any, description: str, predicate: Callable[[Any], Any]) -> Any:
    """Return the type of those objects of a type for which a predicate holds.

    A checked function refuses others, and says in the error what is allowed, in the words of the
    description. No truth value is a number. What holds of real numbers must hold of the float that
    is nearest, which is what a checked function is given.

    Examples:
        >>> Even = constrained(Integral, "an even number", lambda value: value % 2 == 0)
        >>> allowed(Even)
        'an even number'
    """

    def allows(value: Any) -> bool:
        if isinstance(value, bool | np.timedelta64):  # which NumPy has among its whole numbers
            return False
        try:
            return bool(predicate(float(value) if base is Real else value))
        except (ArithmeticError, TypeError, ValueError):  # a whole number beyond any float, say
            return False

    hint = Annotated[base, Is[allows]]
    _DESCRIPTIONS[hint] = description
    return hint


def allowed(hint: Any) -> str:
    """Describe what a type allows, in words that follow "must be"."""
    return _read_hint(hint).description


def check_of(hint: Any) -> Check | None:
    """Return a function that tells whether a value is of a type, or None if every value is.

    The function is given the sizes that letters of shapes have so far in a call, and adds those
    that it finds. A type that is not known here is an error, so that nothing passes in silence.
    """
    return _read_hint(hint).check


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the reader's own line that led here: the nearest one outside of this package.

    A warning is then shown once for each such line, and a filter for a module of the reader's
    applies to it.
    """
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None and _is_between(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_between(frame: types.FrameType) -> bool:
    """Return whether a frame is of this package, or of a library that it goes through."""
    module = frame.f_globals.get("__name__", "")
    own = Path(frame.f_code.co_filename).as_posix().startswith(f"{_PACKAGE}/")
    return own or module.partition(".")[0] in _BETWEEN


def are_lags(values: Any) -> bool:
    """Return whether values are whole numbers from 1 on that increase, and at least one."""
    if not _are_reals(values):
        return False
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        return False
    return bool(array[0] >= 1 and (array[1:] > array[:-1]).all())


def _are_reals(value: Any) -> bool:
    return not complaint(value)


def _are_finite(value: Any) -> bool:
    """Return whether values are real, finite, and at least one."""
    if not _are_reals(value):
        return False
    array = read(value)
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

    def _is_positive(value: float) -> bool:
        return value > 0 and math.isfinite(value)

    def _is_not_negative(value: float) -> bool:
        return value >= 0 and math.isfinite(value)

    # Integers of 64 bits count what is held in memory, and what NumPy draws.
    Count = constrained(Integral, "a whole number, 1 or above", lambda value: value >= 1)
    Index = constrained(Integral, "a whole number, 0 or above", lambda value: value >= 0)
    Int64Count = constrained(
        Integral, "a whole number, 1 or above and below 2^63", lambda value: 1 <= value < 2**63
    )
    Seed = constrained(
        Integral, "a whole number, 0 or above and below 2^63", lambda value: 0 <= value < 2**63
    )
    Finite = constrained(Real, "a finite number", math.isfinite)
    Positive = constrained(Real, "a finite number above 0", _is_positive)
    NotNegative = constrained(Real, "a finite number, 0 or above", _is_not_negative)
    Share = constrained(Real, "a number in (0, 1)", lambda value: 0 < value < 1)
    Lags = constrained(object, "whole numbers from 1 on that increase", are_lags)
    Reals = constrained(object, "real numbers", _are_reals)
    FiniteReals = constrained(object, "real numbers, finite and at least one", _are_finite)


class _Parameter(NamedTuple):
    """A parameter of a function: where its argument may stand, and what it may be."""

    name: str
    position: int  # among positional arguments; beyond all of them if it goes by its name alone
    kind: Any
    hint: Any
    check: Check
    number: type | None  # what a number arrives as: int, float, or as it came


class _Signature(NamedTuple):
    """What a function says of its arguments and of its result."""

    name: str
    parameters: list[_Parameter]  # those that have something to hold
    names: frozenset[str]  # of all parameters
    defaults: Sizes
    result: Any
    check_result: Check | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Signature:
        """Read a function's annotations."""
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = []
        defaults = {}
        declared = inspect.signature(function).parameters
        for position, parameter in enumerate(declared.values()):
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
            hint = hints.get(parameter.name, Any)
            check = check_of(hint)
            if check is None:
                continue
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                position = sys.maxsize
            number = _number_type(hint)
            parameters.append(
                _Parameter(parameter.name, position, parameter.kind, hint, check, number)
            )
        result = hints.get("return", Any)
        return cls(
            name=function.__qualname__,
            parameters=parameters,
            names=frozenset(declared),
            defaults=defaults,
            result=result,
            check_result=check_of(result),
        )

    def hold(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sizes:
        """Refuse the first argument that is not allowed; return the sizes of shapes' letters."""
        sizes: Sizes = {}
        n_positional = len(args)
        for parameter in self.parameters:
            if parameter.kind in _COLLECTING:
                for name, value in self._collected(parameter, args, kwargs):
                    if not parameter.check(value, sizes):
                        raise ArgumentError(_refusal(name, value, parameter, sizes))
                continue
            if parameter.position < n_positional:
                value = args[parameter.position]
            else:
                value = kwargs.get(parameter.name, _ABSENT)
            if value is not _ABSENT and not parameter.check(value, sizes):
                raise ArgumentError(_refusal(parameter.name, value, parameter, sizes))
            if isinstance(value, int | np.integer) and not isinstance(value, bool):
                sizes[f"{{{parameter.name}}}"] = value
        return sizes

    def _collected(
        self, parameter: _Parameter, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tuple[str, Any]]:
        """Return the arguments that ``*args`` or ``**kwargs`` collects, with names for errors."""
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return [(name, value) for name, value in kwargs.items() if name not in self.names]
        further = args[parameter.position :]
        return [(f"{parameter.name}[{k}]", value) for k, value in enumerate(further)]

    def with_plain_numbers(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with the numbers of ranges as Python's own.

        NumPy's whole numbers wrap around, and fractions are known to no function of SciPy's.
        """
        for parameter in self.parameters:
            number = parameter.number
            if number is None:
                continue
            position = parameter.position
            is_positional = position < len(args)
            value = args[position] if is_positional else kwargs.get(parameter.name)
            if type(value) is number or not isinstance(value, Real):
                continue
            if is_positional:
                args = (*args[:position], number(value), *args[position + 1 :])
            else:
                kwargs = kwargs | {parameter.name: number(value)}
        return args, kwargs

    def hold_result(self, result: Any, sizes: Sizes) -> None:
        """Refuse a result that is not the one announced, which is our own fault."""
        if self.check_result is None:
            return
        if not self.check_result(result, _WithDefaults(self.defaults, sizes)):
            raise ArgumentError(
                f"{self.name} gave {_shown(result)}, not {allowed(self.result)}: a fault of lwcore."
            )


_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _WithDefaults(dict[str, Any]):
    """Sizes of letters, with the defaults of parameters that a shape names."""

    def __init__(self, defaults: Sizes, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.defaults = defaults

    def __missing__(self, letter: str) -> Any:
        return self.defaults[letter.strip("{}")]


def _number_type(hint: Any) -> type | None:
    """Return int or float for a range of whole or of real numbers, alone or beside other types."""
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if origin in _UNIONS:
        numbers = {_number_type(part) for part in parts} - {None}
        return numbers.pop() if len(numbers) == 1 else None
    if origin is not Annotated:
        return None
    plain: dict[Any, type] = {Integral: int, Real: float}
    return plain.get(parts[0])


class _Hint(NamedTuple):
    """What an annotation says: in words that follow "must be", and as a check."""

    description: str
    check: Check | None  # None where every value is taken


@functools.cache
def _read_hint(hint: Any) -> _Hint:
    """Read an annotation. All kinds that are known stand here."""
    if hint in (Any, object, typing.Self) or isinstance(hint, TypeVar):
        return _Hint(_named(hint), None)
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if origin is Annotated:
        return _Hint(_DESCRIPTIONS.get(hint, str(hint)), _check_range(hint))
    if origin in _UNIONS:
        checks = [check_of(part) for part in parts]
        return _Hint(" or ".join(map(allowed, parts)), _check_union(checks))
    if origin is Literal:
        return _Hint(f"one of {', '.join(map(repr, parts))}", _check_literal(parts))
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return _Hint("a function", lambda value, _: callable(value))
    if origin in (np.ndarray, NDArray):
        # NDArray[dtype] is ndarray[shape, dtype[…]] up to NumPy 2.4, and a name of its own since.
        dtype = parts[0] if origin is NDArray else typing.get_args(parts[1])[0]
        return _Hint(f"a NumPy array of type {dtype.__name__}", _check_dtype(dtype))
    if origin is tuple and parts[-1:] != (...,):
        checks = [check_of(part) for part in parts]
        return _Hint(f"({'; '.join(map(allowed, parts))})", _check_tuple(checks))
    if isinstance(origin, type):
        return _read_container(origin, parts, hint)
    if not isinstance(hint, type):
        raise TypeError(f"lwcore.signatures knows no check for {hint!r}.")
    if issubclass(hint, AbstractArray):
        dtype = hint.__name__.partition("[")[0]
        shape = ", ".join(hint.dim_str.split())
        description = f"a {hint.array_type.__name__} of type {dtype} and shape ({shape})"
        return _Hint(description, _check_shape(hint))
    if _is_named_tuple(hint):
        return _Hint(_named(hint), _check_fields(hint))
    description = "None" if hint is type(None) else _named(hint)
    return _Hint(description, lambda value, _: isinstance(value, hint))


def _read_container(container: type, parts: tuple[Any, ...], hint: Any) -> _Hint:
    """Read the annotation of a container with its entries' types, or of another generic class."""
    a_container = f"a {_named(container)}"
    if issubclass(container, Mapping):
        key, value = map(allowed, parts)
        description = f"{a_container}, of which each key is {key} and each value {value}"
        return _Hint(description, _check_mapping(container, *map(check_of, parts)))
    if issubclass(container, collections.abc.Iterable):
        entry = "" if parts[0] is Any else f", of which each entry is {allowed(parts[0])}"
        return _Hint(a_container + entry, _check_entries(container, check_of(parts[0])))
    if all(part is Any for part in parts):
        return _Hint(_named(container), lambda value, _: isinstance(value, container))
    raise TypeError(f"lwcore.signatures knows no check for {hint!r}.")


def _named(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint))


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _check_range(hint: Any) -> Check:
    """Check for objects of a type for which something holds."""
    base = check_of(typing.get_args(hint)[0])
    predicates = [validator.is_valid for validator in hint.__metadata__]

    def check(value: Any, sizes: Sizes) -> bool:
        if base is not None and not base(value, sizes):
            return False
        return all(holds(value) for holds in predicates)

    return check


def _check_union(checks: list[Check | None]) -> Check | None:
    """Check for one of several types; letters are bound by the first that fits.

    What one that does not fit has bound on the way is forgotten.
    """
    alternatives = [check for check in checks if check is not None]
    if len(alternatives) < len(checks):
        return None  # one of the types is every type

    def check(value: Any, sizes: Sizes) -> bool:
        for alternative in alternatives:
            tried = dict(sizes)
            if alternative(value, tried):
                sizes |= tried
                return True
        return False

    return check


def _check_literal(choices: tuple[Any, ...]) -> Check:
    """Check for one of some values, of their own types: True is not 1."""

    def check(value: Any, _: Sizes) -> bool:
        return any(isinstance(value, type(choice)) and value == choice for choice in choices)

    return check


def _check_dtype(dtype: Any) -> Check:
    """Check for an array of NumPy's of a dtype, in any shape."""
    return lambda value, _: isinstance(value, np.ndarray) and np.issubdtype(value.dtype, dtype)


def _check_tuple(checks: list[Check | None]) -> Check:
    """Check for a tuple with one type for each place."""

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, tuple) or len(value) != len(checks):
            return False
        for entry, check_entry in zip(value, checks, strict=True):
            if check_entry is not None and not check_entry(entry, sizes):
                return False
        return True

    return check


def _check_fields(hint: Any) -> Check:
    """Check for a named tuple, and its fields."""
    hints = typing.get_type_hints(hint, include_extras=True)
    check_entries = _check_tuple([check_of(hints.get(name, Any)) for name in hint._fields])
    n_fields = len(hint._fields)

    def check(value: Any, sizes: Sizes) -> bool:
        # one that its class has not made, of another length, has no fields
        return isinstance(value, hint) and (len(value) != n_fields or check_entries(value, sizes))

    return check


def _check_entries(container: type, check_entry: Check | None) -> Check:
    """Check for a container and all that is in it. What can be read once only is left alone."""

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, container):
            return False
        if check_entry is None or not isinstance(value, collections.abc.Collection):
            return True
        if getattr(value, "shape", None) == ():
            return False  # NumPy and PyTorch give a single number the methods of a container
        return all(check_entry(entry, sizes) for entry in value)

    return check


def _check_mapping(container: type, check_key: Check | None, check_value: Check | None) -> Check:
    """Check for a mapping, all its keys and all its values."""

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, container):
            return False
        mapping: Any = value
        for key, entry in mapping.items():
            if check_key is not None and not check_key(key, sizes):
                return False
            if check_value is not None and not check_value(entry, sizes):
                return False
        return True

    return check


def _check_shape(hint: Any) -> Check:
    """Check for an array of a dtype and shape, whose letters agree with those bound before.

    A shape is a list of words, one for each axis, of which one may stand for several.
    """
    array_type = hint.array_type
    dtypes = hint.dtypes if isinstance(hint.dtypes, tuple) else None
    axes = [_read_axis(word) for word in hint.dim_str.split()]
    n_axes = len(axes)
    starred = [k for k, axis in enumerate(axes) if axis.is_several]  # one at most

    def check(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, array_type):
            return False
        if dtypes is not None and not _is_among(value.dtype, dtypes):
            return False
        shape = tuple(value.shape)
        if starred:
            first = starred[0]
            n_several = len(shape) - (n_axes - 1)
            if n_several < 0:
                return False
            several = shape[first : first + n_several]
            shape = (*shape[:first], several, *shape[first + n_several :])
        elif len(shape) != n_axes:
            return False
        return all(axis.fits(size, sizes) for axis, size in zip(axes, shape, strict=True))

    return check


class _Axis(NamedTuple):
    """One word of a shape, for an axis or for several: a letter, a number or a formula."""

    word: str
    is_several: bool
    fixed: int | None  # its size, if it is a number
    formula: Any  # compiled
    names: list[str]  # in the formula

    def fits(self, size: Any, sizes: Sizes) -> bool:
        """Return whether a size is the one wanted, which the first of a letter's is."""
        if self.fixed is not None:
            return bool(size == self.fixed)
        if self.formula is not None:
            known = {_without_braces(name): sizes[name] for name in self.names}
            return bool(size == eval(self.formula, {"__builtins__": {}}, known))
        if self.word.startswith("_") or self.word == "...":
            return True
        return bool(sizes.setdefault(self.word, size) == size)


def _read_axis(word: str) -> _Axis:
    """Read one word of a shape."""
    is_several = word == "..." or word.startswith("*")
    letter = word.removeprefix("*")
    if letter == "..." or letter.isidentifier():
        # a letter of one axis and one of several are not the same: the star stays in the word
        return _Axis(word, is_several, None, None, [])
    if letter.isdigit():
        return _Axis(word, is_several, int(letter), None, [])
    if not re.fullmatch(r"[\w{}+*/() -]+", letter):
        raise TypeError(f"lwcore.signatures knows no shape with {word!r}.")
    names = re.findall(r"{\w+}|[A-Za-z_]\w*", letter)
    formula = compile(_without_braces(letter), word, "eval")
    return _Axis(word, is_several, None, formula, names)


def _without_braces(formula: str) -> str:
    """Return a formula, or a name, that Python can read: braces mark arguments."""
    return formula.replace("{", "_").replace("}", "_")


@functools.cache
def _is_among(dtype: Any, names: tuple[Any, ...]) -> bool:
    """Return whether a dtype of NumPy or PyTorch is one of those of a name, or of a pattern."""
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return any(name == one if isinstance(one, str) else one.match(name) for one in names)


def _refusal(name: str, value: Any, parameter: _Parameter, sizes: Sizes) -> str:
    """Say in one line what is wrong with an argument; of a container, with the entry."""
    requirement = allowed(parameter.hint)
    letters = ", ".join(f"{word}={size}" for word, size in sizes.items() if word.isidentifier())
    if letters and "shape" in requirement:
        requirement += f", with {letters}"
    misfit = next(_misfits(name, value, parameter.hint), "")
    if misfit:
        requirement += f" ({misfit} is not)"
    if parameter.number is float:
        requirement += _rounding(value)
    reason = complaint(value) if _takes_numbers(parameter.hint) else ""
    if reason:
        requirement += f": {reason}"
    return f"{name} = {_shown(value)}: must be {requirement}."


def _rounding(value: Any) -> str:
    """Say which float a number is, if it is another number.

    A fraction next to the end of a range, say, is held by its float, which may be the end.
    """
    if not isinstance(value, Real) or isinstance(value, float | np.timedelta64):
        return ""
    try:
        nearest = float(value)
    except OverflowError:
        return " (a float goes up to 1.8e308)"
    return "" if nearest == value or math.isnan(nearest) else f" (as a float it is {nearest!r})"


def _takes_numbers(hint: Any) -> bool:
    """Return whether a type, or one of several, is of values that NumPy reads, as `Reals` is."""
    origin = typing.get_origin(hint)
    if origin in _UNIONS:
        return any(map(_takes_numbers, typing.get_args(hint)))
    if origin is Annotated:
        return _takes_numbers(typing.get_args(hint)[0])
    return hint is object


def _misfits(name: str, value: Any, hint: Any) -> Iterator[str]:
    """Yield the entries of a container that its type does not allow, as ``name[key] = value``."""
    if typing.get_origin(hint) in _UNIONS:
        for part in typing.get_args(hint):
            yield from _misfits(name, value, part)
        return
    for place, entry, hint_of_entry in _entries_of(name, value, hint):
        check = check_of(hint_of_entry)
        if check is not None and not check(entry, {}):
            yield f"{place} = {_shown(entry)}"


def _entries_of(name: str, value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is in a container: where, the entry itself, and the type that it should have."""
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if _is_named_tuple(hint):
        if not isinstance(value, tuple) or len(value) != len(hint._fields):
            return
        hints = typing.get_type_hints(hint, include_extras=True)
        for field, entry in zip(hint._fields, tuple(value), strict=True):
            yield f"{name}.{field}", entry, hints.get(field, Any)
    elif not isinstance(origin, type) or not isinstance(value, origin):
        return
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield f"a key of {name}", key, parts[0]
            if len(parts) == 2:  # else only its keys are looked at, as of any iterable
                yield f"{name}[{key!r}]", entry, parts[1]
    elif isinstance(value, Sequence) and parts:
        has_place_for_each = len(parts) == len(value) and parts[-1] is not ...
        for k, entry in enumerate(value):
            yield f"{name}[{k}]", entry, parts[k] if has_place_for_each else parts[0]


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


def renamed(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``, which still finds what has a new name, with a warning.

    Old names live for one release. Within this package they are found in silence.
    """

    def find(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new_name = new_names[name]
        if not _is_between(sys._getframe(1)):
            message = f"{module}.{name} is now {module}.{new_name}; the old name will go."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new_name)

    return find


if TYPE_CHECKING:
    bare = unchecked
    kind = constrained
else:
    __getattr__ = renamed(__name__, {"bare": "unchecked", "kind": "constrained"})
