"""Signatures that check: what they say of arguments holds before any work begins.

Shapes and dtypes are jaxtyping's: in ``Float[Tensor, "B T H"]`` letters agree between arguments.
Classes, unions and literals are beartype's. Ranges are types here, `Count` or `Share`. What must
hold between arguments is required in the function.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Hashable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
from beartype import BeartypeConf, beartype
from beartype.vale import Is
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from numpy.typing import ArrayLike, NDArray

from lwcore.reals import Unreadable, complaint, read

Checked = TypeVar("Checked", bound=Callable[..., Any])

_WORDS: dict[Hashable, str] = {}


class ArgumentError(TypeError, ValueError):
    """An argument of the wrong type or range: its name, its value and what is allowed."""


def checked(called: Checked) -> Checked:
    """A function, or a class at its making, that holds every call to its signature.

    Of ``@checked def mean_of(count: Count) -> float``, the call ``mean_of(0)`` says: "count = 0:
    must be a whole number, 1 or above."
    """
    if isinstance(called, type):
        called.__init__ = checked(called.__init__)  # type: ignore[misc]
        return called
    held = jaxtyped(typechecker=beartype(conf=BeartypeConf(is_color=False)))(called)

    @functools.wraps(called)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return held(*args, **kwargs)
        except TypeCheckError as error:
            message = str(error)
        raise ArgumentError(_reworded(message, called, args, kwargs))

    call.__checked__ = True  # type: ignore[attr-defined]
    return typing.cast(Checked, call)


def bare(function: Checked) -> Checked:
    """A function without its checks, for inner loops: they cost some 50 µs a call."""
    return typing.cast(Checked, inspect.unwrap(function))


def require(name: str, value: Any, holds: Any, words: str) -> None:
    """A condition on an argument; of an array, entry by entry, the first that fails is shown."""
    if np.all(holds):
        return
    if np.ndim(value) and np.shape(value) == np.shape(holds):
        first = float(np.asarray(value)[~np.asarray(holds)].flat[0])
        raise ArgumentError(f"{name} contains {first!r}: every entry must be {words}.")
    raise ArgumentError(f"{name} = {_shown(value)}: must be {words}.")


def floats(name: str, value: Any) -> NDArray[np.float64]:
    """Return an argument as real numbers, NaN among them, in less time than a check takes."""
    try:
        return read(value)
    except Unreadable as error:
        words = str(error)
    raise ArgumentError(f"{name} = {_shown(value)}: must be real numbers, {words}.")


def kind(base: Any, words: str, holds: Callable[[Any], Any]) -> Any:
    """A type of those objects of another for which something holds, with an error's words."""
    made = Annotated[base, Is[lambda value: not isinstance(value, bool) and bool(holds(value))]]
    _WORDS[made] = words
    return made


def allowed(hint: Any) -> str:
    """The words for what a type allows."""
    if hint in _WORDS:
        return _WORDS[hint]
    if typing.get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, typing.get_args(hint)))}"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(map(allowed, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return f"({'; '.join(map(allowed, typing.get_args(hint)))})"
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        dtype, shape = hint.__name__.partition("[")[0], ", ".join(hint.dim_str.split())
        return f"a {hint.array_type.__name__} of type {dtype} and shape ({shape})"
    if hint is type(None):
        return "None"
    return str(hint) if typing.get_args(hint) else getattr(hint, "__name__", str(hint))


def _real(value: Any) -> bool:
    """Whether values are real numbers, as `lwcore.reals` reads them."""
    return not complaint(value)


def _increase(values: Any) -> bool:
    """Whether values are whole numbers from 1 on that increase, and at least one."""
    array = np.asarray(values) if _real(values) else np.empty(0)
    whole = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu"
    return whole and bool(array[0] >= 1 and (array[1:] > array[:-1]).all())


def _finite(value: Any) -> bool:
    """Whether values are real, finite, and at least one."""
    array = read(value) if _real(value) else np.empty(0)
    return array.size > 0 and bool(np.isfinite(array).all())


if TYPE_CHECKING:  # a type checker knows no ranges
    Count = int
    Index = int
    Finite = float
    Positive = float
    NotNegative = float
    Share = float
    Lags = Sequence[int] | NDArray[np.integer[Any]]
    Reals = ArrayLike
    FiniteReals = ArrayLike
else:
    Count = kind(Integral, "a whole number, 1 or above", lambda value: value >= 1)
    Index = kind(Integral, "a whole number, 0 or above", lambda value: value >= 0)
    Finite = kind(Real, "a finite number", math.isfinite)
    Positive = kind(Real, "a finite number above 0", lambda value: 0 < value < math.inf)
    NotNegative = kind(Real, "a finite number, 0 or above", lambda value: 0 <= value < math.inf)
    Share = kind(Real, "a number in (0, 1)", lambda value: 0 < value < 1)
    Lags = kind(object, "whole numbers from 1 on that increase", _increase)
    Reals = kind(object, "real numbers", _real)
    FiniteReals = kind(object, "real numbers, finite and at least one", _finite)


def _reworded(message: str, function: Callable[..., Any], args: Any, kwargs: Any) -> str:
    """What jaxtyping says in ten lines, in one."""
    found = re.search(r"typechecking parameter '(\w+)'", message)
    if found is None:  # the result, which is our own fault
        return message
    value = inspect.signature(function).bind(*args, **kwargs).arguments[found[1]]
    wanted = allowed(typing.get_type_hints(function, include_extras=True)[found[1]])
    sizes = ", ".join(re.findall(r"^\w+=\d+$", message, re.MULTILINE))
    given = f", with {sizes}" if sizes and "shape" in wanted else ""
    return f"{found[1]} = {_shown(value)}: must be {wanted}{given}."


def _shown(value: Any) -> str:
    """A value in an error: a small one as it is, an array by its type and shape."""
    shape = getattr(value, "shape", ())
    if not len(shape):
        return repr(value.item() if isinstance(value, np.ndarray | np.generic) else value)[:200]
    return f"{type(value).__name__} of {value.dtype} and shape {tuple(shape)}"
