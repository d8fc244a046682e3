"""Small helpers for tensors, their gradients, and errors of a reader's own code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as trees

from lwcore.signatures import ArgumentError

_FEW_NAMES = 6  # that are told
# for `torch.autograd.grad`: 0 in what is not used
ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}

_OF_SHAPES = re.compile(
    r"\b(sizes?|shapes?|dim|dimensions?|arguments?|batch|batches|unpack|indices|broadcast\w*)\b"
    r"|'Tensor' object|data type 'str'",
    re.IGNORECASE,
)


def tensors_in(given: Any) -> list[Any]:
    """Return the tensors in what a module takes or gives."""
    return [part for part in trees.tree_leaves(given) if isinstance(part, Tensor)]


def n_numbers(tensors: Iterable[Tensor]) -> int:
    """Return how many numbers some tensors hold together."""
    total = 0
    for part in tensors:
        total += part.numel()
    return total


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Return all numbers of some tensors as one vector."""
    return torch.cat([part.flatten() for part in tensors])


def dense(tensor: Tensor) -> Tensor:
    """Return a tensor that is not sparse."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def in_order(tensor: Tensor) -> Tensor:
    """Return a copy, which may be written to, and viewed as PyTorch's `view` does."""
    return tensor.clone(memory_format=torch.contiguous_format)


def in_reals(tensor: Tensor) -> Tensor:
    """Return complex numbers as pairs, others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def few(names: Sequence[str]) -> str:
    """Write names, or the first few and how many more."""
    shown = ", ".join(names[:_FEW_NAMES])
    n_more = len(names) - _FEW_NAMES
    return f"{shown} and {n_more} more" if n_more > 0 else shown


@contextmanager
def followed(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Follow gradients of all these parameters for a while, of frozen ones, too."""
    with ExitStack() as after, torch.enable_grad():
        for part in parameters:
            after.callback(part.requires_grad_, part.requires_grad)
            part.requires_grad_()
        yield


@contextmanager
def explained(
    name: str, words: str, advice: str | Callable[[Exception], str] = ""
) -> Iterator[None]:
    """Say of an error of a reader's own code what was tried."""
    try:
        yield
    except ArgumentError:
        raise
    except Exception as error:
        if callable(advice):
            advice = advice(error)
        raise ArgumentError(f"{name} {words}: {first_line(error)}. {advice}".strip()) from error


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of what it says."""
    lines = said_by(error).splitlines() or ["no words"]
    # PyTorch's loaders tell what failed in another process with its traceback, and its words last
    line = lines[-1] if "Original Traceback" in said_by(error) else lines[0]
    return f"{type(error).__name__}: {line[:200]}"


def said_by(error: Exception) -> str:
    """Return what an error says, if it can be asked."""
    try:
        return str(error).strip()
    except Exception:  # a reader's own class may fail here, too
        return ""


def is_out_of_room(error: Exception) -> bool:
    """Say whether an error is of memory or of depth, which any inputs may lack."""
    text = said_by(error)
    is_of_memory = "out of memory" in text or "allocate memory" in text
    return is_of_memory or isinstance(error, MemoryError | RecursionError)


def speaks_of_shapes(error: Exception) -> bool:
    """Say whether an error is likely of the shape, number or kind of what a function is given."""
    return _OF_SHAPES.search(said_by(error)) is not None
