"""Checks of what a caller hands in, made before any work is done.

Every check names the argument, shows its value and says what is allowed, so that the error alone is
enough to mend the call.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kind = TypeVar("Kind")


def real_in(name: str, value: Any, interval: str) -> float:
    """Return `value` as a float after checking that it lies in an interval.

    Args:
        name: Name of the argument, for the message.
        value: The value to check; any real scalar.
        interval: Allowed interval in the usual notation, e.g. ``"(1, 2]"`` or ``"[0, inf)"``.

    Returns:
        The value as a float.

    Raises:
        TypeError: If `value` is not a real number.
        ValueError: If it is NaN or outside the interval.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} = {value!r}: must be a real number in {interval}.")
    low, high = (float(end) for end in interval[1:-1].split(","))
    number = float(value)
    above = number >= low if interval[0] == "[" else number > low
    below = number <= high if interval[-1] == "]" else number < high
    if not (above and below):  # NaN fails both
        raise ValueError(f"{name} = {value!r}: must lie in {interval}.")
    return number


def integer_in(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int after checking that ``low <= value <= high``.

    Args:
        name: Name of the argument, for the message.
        value: The value to check; an integer, NumPy's included.
        low: Least allowed value.
        high: Greatest allowed value; None for no bound.

    Returns:
        The value as an int.

    Raises:
        TypeError: If `value` is not an integer.
        ValueError: If it is out of range.
    """
    allowed = f"an integer from {low}" + (f" to {high}" if high is not None else " up")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} = {value!r}: must be {allowed}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} = {value!r}: must be {allowed}.")
    return number


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value` after checking that it is one of a few words.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.
        allowed: The words that may stand there.

    Returns:
        The value.

    Raises:
        ValueError: If it is not one of them.
    """
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name} = {value!r}: must be one of {', '.join(map(repr, words))}.")
    return value


def real_array(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return `value` as a float64 array after checking that it is made of real numbers; it may be
    empty or hold NaN.

    Args:
        name: Name of the argument, for the message.
        value: The array-like to check.

    Returns:
        The array, a view of `value` where that is possible.

    Raises:
        TypeError: If `value` is not made of real numbers: text, truth values, complex numbers,
            objects or ragged lists.
    """
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name}: must be a rectangular array of real numbers ({error}).") from None
    if raw.dtype.kind not in "iuf":
        raise TypeError(f"{name}: must be an array of real numbers, not of dtype {raw.dtype}.")
    return raw.astype(np.float64, copy=False)


def finite_array(
    name: str, value: ArrayLike, *, ndim: int | tuple[int, ...] | None = None
) -> NDArray[np.float64]:
    """Return `value` as a float64 array after checking that it is finite, not empty and of an
    allowed dimension.

    Args:
        name: Name of the argument, for the message.
        value: The array-like to check.
        ndim: Allowed number (or numbers) of dimensions; None for any.

    Returns:
        The array, a view of `value` where that is possible.

    Raises:
        TypeError: If `value` is not made of real numbers.
        ValueError: If it is empty, has NaN or infinite entries, or the wrong number of dimensions.
    """
    array = real_array(name, value)
    dims = (ndim,) if isinstance(ndim, int) else ndim
    if dims is not None and array.ndim not in dims:
        raise ValueError(
            f"{name} has shape {array.shape}: must have {' or '.join(map(str, dims))} dimension(s)."
        )
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}: must not be empty.")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name}: {int((~np.isfinite(array)).sum())} of {array.size} entries are NaN or "
            "infinite; all must be finite."
        )
    return array


def sequence_of(name: str, values: Any) -> list[Any]:
    """Return some values as a list after checking that there are several to go through, not one
    number.

    Args:
        name: Name of the argument, for the message.
        values: The values; a list, a tuple, a range, an array or a tensor.

    Returns:
        Its entries, plain numbers where an array or a tensor held them.

    Raises:
        TypeError: If it cannot be gone through.
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} = {values!r}: must be a sequence.")
    return list(values)


def lag_list(
    name: str, lags: Iterable[int], length: int | None = None, *, least: int = 1
) -> list[int]:
    """Return the lags as a list of ints after checking that they increase and fit the sequence.

    Args:
        name: Name of the argument, for the message.
        lags: The lags ℓ, each an integer of at least `least`, strictly increasing.
        length: Sequence length T; every lag must be below it. None where no sequence is at hand.
        least: The smallest lag that makes sense; 0 only where lag 0, the loss's own step, counts.

    Returns:
        The lags.

    Raises:
        TypeError: If a lag is not an integer.
        ValueError: If there are none, or one is out of range, repeated or out of order.
    """
    return increasing_integers(
        name, lags, least, None if length is None else length - 1, what="lag"
    )


def increasing_integers(
    name: str, values: Iterable[int], low: int, high: int | None = None, *, what: str = "number"
) -> list[int]:
    """Return some integers as a list after checking that they are in range and strictly increasing.

    Args:
        name: Name of the argument, for the message.
        values: The values.
        low: Least allowed value.
        high: Greatest allowed value; None for no bound.
        what: What one of them is, for the message.

    Returns:
        The values.

    Raises:
        TypeError: If one is not an integer.
        ValueError: If there are none, or one is out of range, repeated or out of order.
    """
    checked = [
        integer_in(f"{name}[{i}]", value, low, high)
        for i, value in enumerate(sequence_of(name, values))
    ]
    if not checked:
        raise ValueError(f"{name} = []: must name at least one {what}.")
    for before, after in pairwise(checked):
        if after <= before:
            raise ValueError(
                f"{name} = {checked}: must be strictly increasing, but {after} follows {before}."
            )
    return checked


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a source of randomness after checking that it is one of NumPy's generators: a seed, or
    NumPy's global state, is none.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.

    Returns:
        The generator.

    Raises:
        TypeError: If it is anything else.
    """
    if not isinstance(value, np.random.Generator):
        raise TypeError(
            f"{name} = {value!r}: must be a NumPy generator, such as np.random.default_rng(seed)."
        )
    return value


def instance_of(name: str, value: Any, kind: type[Kind]) -> Kind:
    """Return `value` after checking that it is an object of a class.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.
        kind: The class.

    Returns:
        The object.

    Raises:
        TypeError: If it is of another class.
    """
    if not isinstance(value, kind):
        raise TypeError(
            f"{name} = {reprlib.repr(value)}: must be a {kind.__name__}, not a "
            f"{type(value).__name__}."
        )
    return value


def flag(name: str, value: Any) -> bool:
    """Return `value` after checking that it is True or False; 1, None and ``"no"`` are neither.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.

    Returns:
        The value.

    Raises:
        TypeError: If it is anything else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {reprlib.repr(value)}: must be True or False.")
    return value


def require(name: str, value: NDArray[np.float64], allowed: NDArray[np.bool_], words: str) -> None:
    """Raise a ValueError that shows the first entry that is not allowed, if there is one."""
    if not allowed.all():
        raise ValueError(
            f"{name} contains {float(value[~allowed].flat[0])!r}: every entry must be {words}."
        )
