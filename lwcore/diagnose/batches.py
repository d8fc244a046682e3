"""What a reader hands over, a loader, a list of batches or one pair, as sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import Dataset, IterableDataset

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences with their axis in front, as they are stored.

    Attributes:
        inputs: What the network takes, shape (sequences, …).
        targets: What its loss takes, shape (sequences, …).
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.inputs)

    def at(self, index: Any) -> Sequences:
        """Choose sequences by an index of their axis."""
        return Sequences(self.inputs[index], self.targets[index])

    def parts(self, size: int) -> Iterator[Sequences]:
        """Cut them into parts of at most so many."""
        return (self.at(slice(start, start + size)) for start in range(0, len(self), size))

    @classmethod
    def joined(cls, parts: list[Sequences], limit: int) -> Sequences:
        """Put parts together.

        Args:
            parts: Sequences, of one shape.
            limit: How many to keep, at the most.

        Returns:
            The first `limit` of them.

        Raises:
            ValueError: If a part's shape or type is not that of the first.
        """
        for name in ("inputs", "targets"):
            like, *others = (getattr(part, name) for part in parts)
            for number, other in enumerate(others, 1):
                if other.shape[1:] != like.shape[1:] or other.dtype != like.dtype:
                    (here, kind), (there, its) = ((tuple(tensor.shape[1:]), tensor.dtype) for tensor in (other, like))
                    raise ValueError(
                        f"batches[{number}]: {name} of a sequence are {here} ({kind}), in the first batch {there} ({its}); all sequences "
                        "must be equally long and of one kind."
                    )
        return cls(torch.cat([part.inputs for part in parts])[:limit], torch.cat([part.targets for part in parts])[:limit])


def pairs(batches: Iterable[Any]) -> Iterator[Batch]:
    """Give pairs of tensors, from whatever gives pairs of tensors or arrays, or from one pair.

    Args:
        batches: A `DataLoader`, a list or generator of pairs, or one pair.

    Yields:
        Inputs and targets, as they come.

    Raises:
        TypeError: If something else is given.
        ValueError: If a batch is empty or holds NaN or infinite numbers, or if `batches` itself raises.
    """
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        kind = type(batches).__name__
        raise TypeError(f"batches is a {kind}, which gives single sequences: must give batches; use DataLoader(dataset, batch_size=64).")
    if isinstance(batches, tuple | list) and len(batches) == 2 and not any(isinstance(part, tuple | list) for part in batches):
        batches = [batches]
    if not isinstance(batches, Iterable) or isinstance(batches, Tensor | np.ndarray | str | dict | PackedSequence):
        raise TypeError(f"batches is a {type(batches).__name__}: must give pairs of inputs and targets.")
    for number, batch in enumerate(_each(batches)):
        yield _pair(f"batches[{number}]", batch)


def _each(batches: Iterable[Any]) -> Iterator[Any]:
    """Go through the batches; say at which one they fail."""
    given = iter(batches)
    for number in count():
        try:
            batch = next(given)
        except StopIteration:
            return
        except Exception as error:
            raise ValueError(
                f"batches: raised {type(error).__name__} ({error}) at batch {number}; must give pairs of inputs and targets."
            ) from error
        yield batch


def _pair(name: str, batch: Any) -> Batch:
    """Check that a batch is two tensors of finite numbers."""
    if isinstance(batch, tuple | list) and any(isinstance(part, PackedSequence) for part in (batch, *batch)):
        raise TypeError(f"{name} holds a PackedSequence: inputs must be a tensor, of sequences of equal length; group them by length.")
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not all(isinstance(part, Tensor | np.ndarray) for part in batch):
        kinds = ", ".join(type(part).__name__ for part in batch) if isinstance(batch, tuple | list) else type(batch).__name__
        raise TypeError(f"{name} is ({kinds}): must be a pair of tensors, inputs and targets.")
    try:
        tensors = [torch.as_tensor(np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part).detach() for part in batch]
    except TypeError as error:
        raise TypeError(f"{name}: must hold numbers ({error}).") from None
    for what, tensor in zip(("inputs", "targets"), tensors, strict=True):
        if tensor.ndim == 0 or not tensor.numel():
            raise ValueError(f"{name}: {what} have shape {tuple(tensor.shape)}; must hold at least one sequence.")
        if bad := int((~tensor.isfinite()).sum()):
            raise ValueError(f"{name}: {bad} of {tensor.numel()} {what} are NaN or infinite; all must be finite.")
    return tensors[0], tensors[1]
