"""A reader's batches as one set of sequences, and the axes in which they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from lwcore.ambient import placed
from lwcore.diagnose.tensors import explained, in_order, said_by, tensors_in
from lwcore.signatures import require

Pair = tuple[Tensor, Tensor]

FEWEST = 40  # sequences: half of them find directions, and a bootstrap needs twenty numbers
_AT_ONCE = 128  # sequences of a dataset
_TRIED = 5  # sequences on which it is tried whether they are single steps of one
_SINGLE = "Of single pairs, (T, …), torch.utils.data.DataLoader(pairs, 32) makes batches"
_LENGTHS = (
    "one for all: pad sequences to the longest of all, and not to that of their batch, and "
    "leave padding out in the loss"
)
# what PyTorch and NumPy say of sequences of several lengths that are to be put together
_OF_LENGTHS = re.compile("equal size|same shape|must match|inhomogeneous", re.IGNORECASE)
_FEW = 6  # names that are told
_ARRAYS = (Tensor, np.ndarray)
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
        words = f"of the shape (sequences, steps, …). {_SINGLE}"
        require("inputs", shape, inputs.ndim > 1, words)
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
        words = (
            f"{count} in one, the sequences of inputs {shape} with batch_first={batch_first}. "
            f"{_SINGLE}"
        )
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
    _refuse_no_batches(batches)
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        # a generator of its own: a loader without one draws a seed from PyTorch's
        own = torch.Generator("cpu")
        batches = DataLoader(batches, _AT_ONCE, collate_fn=_collated, generator=own)
    if _is_pair(batches):
        batches = [batches]
    axes: Axes | None = None
    inputs: list[Tensor] = []
    targets: list[Tensor] = []
    n_read = 0
    for place, batch in enumerate(_read(batches)):
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
    require("shapes in batches", shapes, len(shapes) == 1, _LENGTHS)
    return axes, (torch.cat(inputs)[:sequences], torch.cat(targets)[:sequences])


def _refuse_no_batches(batches: Any) -> None:
    """Refuse what can be iterated and gives no batches: a text, a dictionary, inputs alone."""
    is_text = isinstance(batches, str | bytes)
    require("batches", batches, not is_text, "pairs of tensors, and not the name of a file")
    if isinstance(batches, Mapping):
        keys = [repr(key) for key in batches]
        holds_arrays = any(isinstance(part, _ARRAYS) for part in batches.values())
        words = "pairs, or one pair: "
        words += "(d['x'], d['y']), say" if holds_arrays else "one of the loaders in it, d['train']"
        require("batches", f"a dictionary of {', '.join(keys[:_FEW])}", False, words)
    is_alone = isinstance(batches, _ARRAYS)
    words = "pairs, or one pair, of inputs and targets: (inputs, targets)"
    require("batches", f"one {type(batches).__name__}", not is_alone, words)
    if isinstance(batches, tuple | list) and batches and isinstance(batches[0], _ARRAYS):
        words = "a pair of tensors, inputs and targets, or a list of such pairs"
        if len(batches) == 2:
            words += ". Of targets in a list torch.as_tensor(targets) makes a tensor"
        require("batches", _kind(batches), _is_pair(batches), words)


def _collated(items: list[Any]) -> Any:
    """Return items of a dataset as one batch."""
    is_whole = all(item is not None for item in items)
    require("items of the dataset", "None for some", is_whole, "pairs of inputs and targets")
    return default_collate(items)


def _read(batches: Any) -> Iterator[Any]:
    """Yield batches, and say of an error of the reader's own which of them could not be read."""
    with explained("batches", "cannot be iterated"):
        waiting = iter(batches)
    place = 0
    while True:
        with explained(f"batches[{place}]", "cannot be read", _advice):
            try:
                batch = next(waiting)
            except StopIteration:
                return
        yield batch
        place += 1


def _advice(error: Exception) -> str:
    """Say what is likely wrong where sequences cannot be read."""
    is_of_lengths = _OF_LENGTHS.search(said_by(error)) is not None
    return f"Lengths must be {_LENGTHS}" if is_of_lengths else ""


def refuse_too_few(inputs: Tensor) -> str:
    """Say as what inputs are read, and refuse what are too few sequences or steps."""
    count, length = inputs.shape[:2]
    read_as = f"read as {count:,} sequences of {length:,} steps of width {inputs[0, 0].numel()}"
    words = f"at least {FEWEST} sequences of at least 2 steps. "
    if length < 2 or _may_be_single(inputs):
        words += f"{_SINGLE}. "
    elif count < length:
        words += "Cut a long series, (T, D), into windows: series.unflatten(0, (-1, 12)), say. "
    words += "Are axes swapped? For (T, B, …) say batch_first=False, for (B, C, T) time_axis=2"
    require("batches", read_as, count >= FEWEST and length >= 2, words)
    return read_as


def _may_be_single(inputs: Tensor) -> bool:
    """Say whether what is read as sequences of numbers may be steps with an axis of their own."""
    return inputs.ndim == 2 and inputs.is_floating_point()


def _refuse_single_pairs(model: nn.Module, inputs: Tensor, axes: Axes) -> None:
    """Refuse inputs (T, …) that a model takes with an axis of sequences, and not as they are.

    Layers such as PyTorch's GRU also take one sequence, (T, D). They are read as such if the last
    row is another when it stands alone.
    """
    weight = next(model.parameters(), torch.zeros(()))
    few = axes.inputs_back(placed(inputs[:_TRIED], weight.device))
    given = _given_for(model, few)
    if given and not _may_be_single(inputs):
        return
    if not _given_for(model, few.unsqueeze(axes.sequences)):
        return
    if given:
        last = placed(inputs[:_TRIED][-1:], weight.device)
        alone = _given_for(model, axes.inputs_back(last))
        if not alone or alone[0].shape[:1] != (1,):
            return
        is_own = torch.allclose(alone[0][0], given[0][-1], 1e-3, 1e-3, equal_nan=True)
        if is_own or not _is_alike(given, _given_for(model, few)):
            return
    shape = ", ".join(str(size) for size in inputs.shape[1:])
    told = f"inputs of the shape (…, {shape}), of which the model takes (1, …, {shape})"
    require("batches", told, False, f"pairs with an axis of sequences. {_SINGLE}")


def given_bands(lags: Any, inputs: Tensor) -> list[list[int]]:
    """Return the lags that a reader names, one by one."""
    length = inputs.shape[1]
    given = [int(lag) for lag in lags]
    words = f"below the number of steps, {length}"
    if _may_be_single(inputs):
        words += f", if these are {len(inputs):,} sequences of single numbers. {_SINGLE}"
    else:
        words += ". Are inputs (B, C, T)? Then say time_axis=2"
    require("lags", given, given[-1] < length, words)
    return [[lag] for lag in given]


def _given_for(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Return the tensors that a model gives, none if it fails."""
    try:
        with torch.enable_grad():  # and puts back what the model may leave
            return [part.detach() for part in tensors_in(model(in_order(inputs)))]
    except Exception:  # what fails is told where the model is run in earnest
        return []


def _is_alike(one: list[Tensor], two: list[Tensor]) -> bool:
    """Say whether a model gives the same the second time."""
    return bool(two) and one[0].shape == two[0].shape and torch.equal(one[0], two[0])


def _pair_of(name: str, batch: Any) -> Pair:
    """Return inputs and targets of a batch as tensors of numbers that are finite."""
    words = (
        "a pair of tensors, inputs and targets: make one of it, as by "
        "((b['x'], b['y']) for b in loader), and wrap a model that takes more"
    )
    is_two = isinstance(batch, tuple | list) and len(batch) == 2
    if is_two and isinstance(batch[0], _ARRAYS):  # and a label
        words += f". {_SINGLE}"
    require(name, _kind(batch), _is_pair(batch), words)
    inputs, targets = batch
    return _numbers(f"inputs in {name}", inputs), _numbers(f"targets in {name}", targets)


def _numbers(name: str, part: Any) -> Tensor:
    """Return real or whole numbers as a tensor that can carry gradients."""
    if isinstance(part, np.ndarray):
        part = _readable(part)
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


def _readable(array: Any) -> Any:
    """Return an array as PyTorch reads it: a copy of one that is flipped, or not to be written."""
    is_native = array.dtype.isnative
    is_flipped = any(stride < 0 for stride in array.strides)
    if is_native and not is_flipped and array.flags.writeable:
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C")


def _torch_dtype(array: Any) -> Any:
    """Return the type that PyTorch gives an array, or its own if PyTorch has none."""
    try:
        return torch.as_tensor(np.empty(0, array.dtype)).dtype
    except TypeError:
        return array.dtype


def _kind(batch: Any) -> str:
    """Write what a batch is."""
    if isinstance(batch, tuple | list):
        return f"{type(batch).__name__} of {', '.join(type(part).__name__ for part in batch)}"
    return type(batch).__name__


def _is_pair(batch: Any) -> bool:
    """Say whether a batch is a pair of arrays."""
    is_two = isinstance(batch, tuple | list) and len(batch) == 2
    return is_two and all(isinstance(part, _ARRAYS) for part in batch)
