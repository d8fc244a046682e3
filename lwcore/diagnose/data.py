"""A reader's batches as one set of sequences, and the axes in which they stand."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from lwcore.signatures import require

Pair = tuple[Tensor, Tensor]

_AT_ONCE = 128  # sequences of a dataset
_REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Axes(NamedTuple):
    """Where inputs have their sequences and steps, and targets their sequences."""

    sequences: int
    steps: int
    targets: int

    @classmethod
    def of(
        cls, inputs: Tensor, targets: Tensor, batch_first: bool = True, time_axis: int | None = None
    ) -> Self:
        """Return the axes that a reader names as PyTorch's layers do."""
        shape = tuple(inputs.shape)
        require("inputs", shape, inputs.ndim > 1, "of the shape (sequences, steps, …)")
        sequences = 0 if batch_first else 1
        steps = 1 - sequences if time_axis is None else time_axis
        is_axis = -inputs.ndim <= steps < inputs.ndim and steps % inputs.ndim != sequences
        words = f"an axis of inputs {shape} beside that of sequences, {sequences}"
        require("time_axis", time_axis, is_axis, words)
        steps %= inputs.ndim
        count, length = shape[sequences], shape[steps]
        first_axes = tuple(targets.shape[:2])
        axis = 1 if not batch_first and first_axes == (length, count) else 0
        fits = targets.ndim > axis and targets.shape[axis] == count
        words = f"{count} in one, the sequences of inputs {shape} with batch_first={batch_first}"
        require("first axes of targets", first_axes, fits, words)
        return cls(sequences, steps, axis)

    def front(self, inputs: Tensor, targets: Tensor) -> Pair:
        """Return inputs (B, T, …) and targets (B, …)."""
        inputs = inputs.movedim((self.sequences, self.steps), (0, 1))
        return inputs, targets.movedim(self.targets, 0)

    def inputs_back(self, inputs: Tensor) -> Tensor:
        """Return inputs as the model takes them."""
        return inputs.movedim((0, 1), (self.sequences, self.steps))

    def targets_back(self, targets: Tensor) -> Tensor:
        """Return targets as the loss takes them."""
        return targets.movedim(0, self.targets)


FRONT = Axes(0, 1, 0)  # inputs (B, T, …) and targets (B, …)


def collect_sequences(
    batches: Any, sequences: int, batch_first: bool, time_axis: int | None
) -> tuple[Axes, Pair]:
    """Collect sequences from pairs of inputs and targets, from one pair, or from a dataset.

    Returns the axes of the reader's batches, and inputs (B, T, …) with targets (B, …).
    """
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        # a generator of its own: a loader without one draws a seed from PyTorch's
        batches = DataLoader(batches, _AT_ONCE, generator=torch.Generator("cpu"))
    if _is_pair(batches):
        batches = [batches]
    axes: Axes | None = None
    inputs: list[Tensor] = []
    targets: list[Tensor] = []
    n_read = 0
    for place, batch in enumerate(batches):
        pair = _pair_of(f"batches[{place}]", batch)
        axes = axes or Axes.of(*pair, batch_first, time_axis)
        own_inputs, own_targets = axes.front(*pair)
        inputs.append(own_inputs)
        targets.append(own_targets)
        n_read += len(own_inputs)
        if n_read >= sequences:
            break
    require("batches", batches, axes is not None, "one pair or more")
    assert axes is not None
    shapes = {
        (tuple(x.shape[1:]), tuple(y.shape[1:])) for x, y in zip(inputs, targets, strict=True)
    }
    words = (
        "one for all: pad sequences to the longest of all, and not to that of their batch, and "
        "leave padding out in the loss"
    )
    require("shapes in batches", shapes, len(shapes) == 1, words)
    return axes, (torch.cat(inputs)[:sequences], torch.cat(targets)[:sequences])


def _pair_of(name: str, batch: Any) -> Pair:
    """Return inputs and targets of a batch as tensors of numbers that are finite."""
    words = (
        "a pair of tensors, inputs and targets: make one of it, as by "
        "((b['x'], b['y']) for b in loader), and wrap a model that takes more"
    )
    require(name, _kind(batch), _is_pair(batch), words)
    inputs, targets = batch
    return _numbers(f"inputs in {name}", inputs), _numbers(f"targets in {name}", targets)


def _numbers(name: str, part: Any) -> Tensor:
    """Return real or whole numbers as a tensor that can carry gradients."""
    dtype = part.dtype if isinstance(part, Tensor) else _torch_dtype(part)
    words = (
        "real or whole numbers of PyTorch's usual types (float32, int64; of uint64, "
        "complex or objects make such ones first)"
    )
    require(name, str(dtype), dtype in (*_REAL, *_WHOLE, torch.bool), words)
    tensor = torch.as_tensor(part).detach()
    if tensor.is_inference():  # such tensors carry no gradients; a copy does
        tensor = tensor.clone()
    words = "finite. " + (
        "Put a number where one is missing, and say where in a further column of the inputs"
        if name.startswith("inputs")
        else "Put a number where one is missing, and give the loss a further column of 0 and 1 to "
        "multiply it by"
    )
    require(name, "NaN or infinite somewhere", bool(tensor.isfinite().all()), words)
    return tensor


def _torch_dtype(array: Any) -> Any:
    """Return the type that PyTorch gives an array, or its own if PyTorch has none."""
    try:
        return torch.as_tensor(array[:0]).dtype
    except (TypeError, IndexError):
        return array.dtype


def _kind(batch: Any) -> str:
    """Write what a batch is."""
    if isinstance(batch, tuple | list):
        return f"{type(batch).__name__} of {', '.join(type(part).__name__ for part in batch)}"
    return type(batch).__name__


def _is_pair(batch: Any) -> bool:
    """Say whether a batch is a pair of arrays."""
    is_two = isinstance(batch, tuple | list) and len(batch) == 2
    return is_two and all(isinstance(part, Tensor | np.ndarray) for part in batch)
