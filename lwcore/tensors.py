"""Checks of tensors at the door, as `lwcore.arguments` has them for numbers and arrays."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def floating(
    name: str, value: Any, shape: tuple[int | None, ...] | None = None, letters: str = ""
) -> Tensor:
    """Return `value` after checking that it is a tensor of real floating-point numbers, of a
    certain shape.

    Its entries are not looked at, which would cost a pass over the memory, and on a GPU a wait.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.
        shape: The size of each dimension, None for any from 1 up; None for any shape, empty ones
            included.
        letters: What the dimensions are called, for the message: ``"B, T, H"``.

    Returns:
        The tensor.

    Raises:
        TypeError: If it is no tensor, or one of integers, truth values or complex numbers.
        ValueError: If it is of another shape.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}: must be a torch.Tensor.")
    if not value.is_floating_point():
        raise TypeError(f"{name} has dtype {value.dtype}: must be a floating type.")
    if shape is not None:
        found = tuple(value.shape)
        if len(found) != len(shape) or any(
            n < 1 if wanted is None else n != wanted for n, wanted in zip(found, shape, strict=True)
        ):
            sizes = ", ".join("≥ 1" if wanted is None else str(wanted) for wanted in shape)
            raise ValueError(f"{name} has shape {found}: must be ({letters}) = ({sizes}).")
    return value


def finite(
    name: str, value: Any, shape: tuple[int | None, ...] | None = None, letters: str = ""
) -> Tensor:
    """Return `value` after checking what `floating` checks, and that all its entries are finite.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.
        shape: As for `floating`.
        letters: As for `floating`.

    Returns:
        The tensor.

    Raises:
        ValueError: If an entry is NaN or infinite.
    """
    tensor = floating(name, value, shape, letters)
    # a sum is ten times as fast, and finite only if all entries are
    if not tensor.sum().isfinite() and not tensor.isfinite().all():
        raise ValueError(
            f"{name}: {int((~tensor.isfinite()).sum())} of {tensor.numel()} entries are NaN or "
            "infinite; all must be finite."
        )
    return tensor


def torch_generator(name: str, value: Any) -> torch.Generator | None:
    """Return a source of randomness after checking that it is one of PyTorch's generators, or None
    for its default one.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.

    Returns:
        The generator, or None.

    Raises:
        TypeError: If it is anything else: a seed, or a generator of NumPy.
    """
    if value is not None and not isinstance(value, torch.Generator):
        raise TypeError(f"{name} = {value!r}: must be a torch.Generator or None.")
    return value
