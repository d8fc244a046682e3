"""Small helpers for tensors, their gradients, and errors of a reader's own code."""

from __future__ import annotations

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
    text = str(error).strip() or "no words"
    return f"{type(error).__name__}: {text.splitlines()[0][:200]}"
