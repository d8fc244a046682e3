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
        shown = tuple(inputs.shape)
        require("inputs", shown, inputs.ndim > 1, "of the shape (sequences, steps, …)")
        sequences = 0 if batch_first else 1
        steps = (1 - sequences) if time_axis is None else time_axis
        words = f"an axis of inputs {shown} beside that of sequences, {sequences}"
        inside = -inputs.ndim <= steps < inputs.ndim
        require("time_axis", time_axis, inside and steps % inputs.ndim != sequences, words)
        steps %= inputs.ndim
        count = inputs.shape[sequences]
        both = (count, inputs.shape[steps])
        time_first = not batch_first and tuple(targets.shape[:2]) == both[::-1]
        axis = 1 if time_first else 0
        fits = targets.ndim > axis and targets.shape[axis] == count
        words = f"{count} in one, the sequences of inputs {shown} with batch_first={batch_first}"
        require("first axes of targets", tuple(targets.shape[:2]), fits, words)
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


def collect_sequences(
    batches: Any, sequences: int, batch_first: bool, time_axis: int | None
) -> tuple[Axes, Pair]:
    """Collect sequences from pairs of inputs and targets, from one pair, or from a dataset."""
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        # a generator of its own: a loader without one draws a seed from PyTorch's
        batches = DataLoader(batches, _AT_ONCE, generator=torch.Generator("cpu"))
    batches = [batches] if _is_pair(batches) else batches
    axes: Axes | None = None
    parts: list[Pair] = []
    for place, batch in enumerate(batches):
        pair = _pair_of(place, batch)
        axes = axes or Axes.of(*pair, batch_first, time_axis)
        parts.append(axes.front(*pair))
        if sum(len(x) for x, _ in parts) >= sequences:
            break
    require("batches", batches, bool(parts), "one pair or more")
    assert axes is not None
    shapes = {(tuple(x.shape[1:]), tuple(y.shape[1:])) for x, y in parts}
    require("shapes in batches", shapes, len(shapes) == 1, "one for all: equally long sequences")
    inputs, targets = (torch.cat(some)[:sequences] for some in zip(*parts, strict=True))
    return axes, (inputs, targets)


def _pair_of(place: int, batch: Any) -> Pair:
    name = f"batches[{place}]"
    words = "a pair of tensors, inputs and targets: make one of it, as by "
    words += "((b['x'], b['y']) for b in loader), and wrap a model that takes more"
    require(name, _kind(batch), _is_pair(batch), words)
    named = dict(zip(("inputs", "targets"), batch, strict=True))
    found = []
    for which, part in named.items():
        dtype = part.dtype if isinstance(part, Tensor) else _dtype_of(part)
        allowed = (*_REAL, *_WHOLE, torch.bool)
        words = "real or whole numbers of PyTorch's usual types (float32, int64; of uint64, "
        words += "complex or objects make such ones first)"
        require(f"{which} in {name}", str(dtype), dtype in allowed, words)
        tensor = torch.as_tensor(part).detach()
        # what was made in torch.inference_mode() carries no gradients; a copy does
        tensor = tensor.clone() if tensor.is_inference() else tensor
        require(name, "NaN or infinite somewhere", bool(tensor.isfinite().all()), "finite")
        found.append(tensor)
    return found[0], found[1]


def _dtype_of(array: Any) -> Any:
    try:
        return torch.as_tensor(array[:0]).dtype
    except (TypeError, IndexError):
        return array.dtype


def _kind(batch: Any) -> str:
    if isinstance(batch, tuple | list):
        return f"{type(batch).__name__} of {', '.join(type(part).__name__ for part in batch)}"
    return type(batch).__name__


def _is_pair(batch: Any) -> bool:
    few = isinstance(batch, tuple | list) and len(batch) == 2
    return few and all(isinstance(part, Tensor | np.ndarray) for part in batch)
