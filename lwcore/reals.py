"""Real numbers from users, read in one way by the whole package.

NumPy reads more than real numbers: it drops masks and imaginary parts, parses text, and takes dates
for nanoseconds. What `read` does not take it refuses, with words for what is missing.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NO_REALS = {  # by NumPy's code for a kind of dtype
    "b": "not truth values",
    "c": "not complex",
    "M": "not dates",
    "m": "not durations",
    "S": "not bytes",
    "U": "not text",
    "T": "not text",
}


class Unreadable(ValueError):
    """A value that holds no real numbers; its message says what must be different."""


def read(value: Any) -> NDArray[np.float64]:
    """Return real numbers as an array of float64, of any shape, NaN and infinities among them.

    Taken are numbers, nested lists of them, and all that NumPy makes real numbers of: tensors,
    series, data arrays. Whole numbers may be as large as a float can be.

    Raises:
        Unreadable: for text, truth values, complex numbers, dates, missing or masked entries,
            other objects, ragged lists, tensors that require grad, and numbers beyond 1.8e308.

    Examples:
        >>> read([1, 2**70])
        array([1.00000000e+00, 1.18059162e+21])
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    if type(value) is float:
        return np.array(value)
    _refuse_what_numpy_would_drop(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise Unreadable("in rows of one length, in memory that NumPy can read") from error
    if array.dtype.kind == "O":  # as large whole numbers are
        for entry in array.flat:
            if isinstance(entry, bool | np.bool_ | np.timedelta64) or not isinstance(entry, Real):
                raise Unreadable(f"not objects of type {type(entry).__name__}")
    elif array.dtype.kind not in "iuf":
        raise Unreadable(_NO_REALS.get(array.dtype.kind, "not records"))
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float64, copy=False)
    except (OverflowError, FloatingPointError) as error:
        raise Unreadable("within the range of a float, up to 1.8e308") from error


def complaint(value: Any) -> str:
    """Return what keeps a value from being read as real numbers; an empty text if nothing does."""
    try:
        read(value)
    except Unreadable as error:
        return str(error)
    return ""


def _refuse_what_numpy_would_drop(value: Any) -> None:
    """Refuse masks, gradients and truth values, in lists, too."""
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.getmaskarray(value).any():
            raise Unreadable("none of them masked (fill these, or leave them out)")
    elif getattr(value, "requires_grad", False) is True:
        raise Unreadable("detached (the tensor requires grad)")
    elif isinstance(value, list | tuple):
        types = set(map(type, value))
        if bool in types or np.bool_ in types:
            raise Unreadable(_NO_REALS["b"])
        if not types <= {float, int}:  # the rule, and quick
            for entry in value:
                _refuse_what_numpy_would_drop(entry)
    else:
        # In a list, NumPy would take these for numbers. PyTorch's dtypes have no kind.
        dtype = getattr(value, "dtype", None)
        code = "b" if "bool" in str(dtype) else getattr(dtype, "kind", "")
        if code in ("b", "m", "M"):
            raise Unreadable(_NO_REALS[code])
