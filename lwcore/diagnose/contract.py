"""What `diagnose` asks of data and model: pairs, where they have sequences and steps, and a copy.

Whatever is not so is refused here, or in the module that measures it, by `require`: with the name,
the value, the rule, and the way out.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as trees
from torch.utils.data import DataLoader, Dataset, IterableDataset

from lwcore.signatures import ArgumentError, require

FEWEST = 40  # sequences: half of them find directions, and a bootstrap needs twenty numbers
_AT_ONCE = 128  # sequences of a dataset
_WIDE = 2  # times as many features as steps: then steps may be channels
_FEW_NAMES = 6  # that are told
_ARRAYS = (Tensor, np.ndarray)
_NUMBERS = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
_SINGLE = "Of single pairs, (T, …), torch.utils.data.DataLoader(pairs, 32) makes batches"
AXES = (
    f"{_SINGLE}. Cut one long series, (T, D), into windows: series.unflatten(0, (-1, 12)), say. "
    "Are axes swapped? For (T, B, …) say batch_first=False, for (B, C, T) time_axis=2"
)
_LENGTHS = (
    "one for all: pad sequences to the longest of all, and not to that of their batch, and "
    "leave padding out in the loss"
)
_PAIR = (
    "a pair (inputs, targets): each an array, or a tuple or dictionary of arrays. Make one of what "
    "has more, as by ((b[:-1], b[-1]) for b in loader), or ((b, b['labels']) for b in loader)"
)
_UNCOPIED = (
    "It is copied, so that yours stays as it is: keep what cannot be copied (open files, locks, "
    "generators, tensors with a gradient in lists or dictionaries) outside of it"
)
CHANNELS = (
    "named where it is not plain which axis counts steps: time_axis=2 for channels first, "
    "(B, C, T), and time_axis=1 for (B, T, D)"
)


class Axes(NamedTuple):
    """Where a reader's tensor has its sequences and its steps; None where it has none."""

    sequences: int
    steps: int | None

    def front(self, tensor: Tensor) -> Tensor:
        """Return a tensor as (B, T, …), or as (B, …) without steps."""
        if self.steps is None:
            return tensor.movedim(self.sequences, 0)
        return tensor.movedim((self.sequences, self.steps), (0, 1))

    def back(self, tensor: Tensor) -> Tensor:
        """Undo `front`, in a copy that may be written to and viewed."""
        if self.steps is None:
            tensor = tensor.movedim(0, self.sequences)
        else:
            tensor = tensor.movedim((0, 1), (self.sequences, self.steps))
        return tensor.clone(memory_format=torch.contiguous_format)


class Rows:
    """Some sequences: tensors (B, T, …), or (B, …) without steps, and None."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        """Take the tensors of all inputs, or of all targets."""
        self.leaves = list(leaves)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return next(len(leaf) for leaf in self.leaves if leaf is not None)

    def __getitem__(self, places: Any) -> Rows:
        """Select sequences."""
        return self.map(lambda leaf: leaf[places])

    def map(self, function: Callable[[Tensor], Tensor]) -> Rows:
        """Do the same to all tensors."""
        return Rows([None if leaf is None else function(leaf) for leaf in self.leaves])


class Form(NamedTuple):
    """How a reader's inputs or targets are nested, and the axes of each tensor in them."""

    spec: Any
    axes: list[Axes | None]

    def front(self, given: Any) -> Rows:
        """Return all tensors with their sequences in front."""
        leaves = trees.tree_leaves(given)
        pairs = zip(leaves, self.axes, strict=True)
        return Rows([None if axes is None else axes.front(leaf) for leaf, axes in pairs])

    def back(self, some: Rows) -> Any:
        """Return what the model, or the loss, takes."""
        pairs = zip(some.leaves, self.axes, strict=True)
        own = [None if axes is None else axes.back(leaf) for leaf, axes in pairs]
        return trees.tree_unflatten(own, self.spec)


@dataclass(frozen=True)
class Data:
    """All sequences: inputs, targets and how a reader has them."""

    inputs: Rows
    targets: Rows
    inputs_form: Form
    targets_form: Form

    @property
    def first(self) -> Tensor:
        """The first of the inputs, whose steps are counted."""
        return self.inputs.leaves[0]

    @property
    def count(self) -> int:
        """The number of sequences."""
        return len(self.first)

    @property
    def length(self) -> int:
        """The number of steps."""
        return self.first.shape[1]

    def has_steps(self, place: int) -> bool:
        """Say whether one of the inputs has steps."""
        axes = self.inputs_form.axes[place]
        return axes is not None and axes.steps is not None


def collect(batches: Any, most: int, batch_first: bool, time_axis: int | None) -> Data:
    """Collect sequences from pairs of inputs and targets, from one pair, or from a dataset.

    A tuple of two is one pair, (inputs, targets); all else gives pairs, one after the other.
    """
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        own = torch.Generator("cpu")  # a loader without one draws a seed from PyTorch's
        batches = DataLoader(batches, _AT_ONCE, generator=own)
    forms: tuple[Form, Form] | None = None
    inputs: list[Rows] = []
    targets: list[Rows] = []
    n_read = 0
    for place, batch in enumerate(_pairs(batches)):
        is_pair = isinstance(batch, tuple | list) and len(batch) == 2
        require(f"batches[{place}]", _kind(batch), is_pair, _PAIR)
        pair = [
            _numbers(f"{name} in batches[{place}]", part)
            for name, part in zip(("inputs", "targets"), batch, strict=True)
        ]
        forms = forms or _forms(pair[0], pair[1], batch_first, time_axis)
        for part, form, found in zip(pair, forms, (inputs, targets), strict=True):
            spec = trees.tree_structure(part)
            require(f"batches[{place}]", f"{spec}", spec == form.spec, "nested as the first one")
            found.append(form.front(part))
        n_read += len(inputs[-1])
        if n_read >= most:
            break
    require("batches", _kind(batches), forms is not None, "one pair or more")
    assert forms is not None
    return Data(_joined(inputs, most), _joined(targets, most), *forms)


def _pairs(batches: Any) -> Iterator[Any]:
    """Yield pairs, and say of an error of the reader's own which of them could not be read."""
    is_text = isinstance(batches, str | bytes)
    is_alone = is_text or isinstance(batches, (*_ARRAYS, Mapping))
    words = "pairs, or one pair, of inputs and targets: (inputs, targets), or (d['x'], d['y'])"
    require("batches", _kind(batches), not is_alone, words)
    is_listed = isinstance(batches, list) and len(batches) == 2 and isinstance(batches[0], _ARRAYS)
    if is_listed or (isinstance(batches, tuple) and len(batches) == 2):
        yield batches
        return
    with explained("batches", "cannot be iterated"):
        waiting = iter(batches)
    place = 0
    while True:
        with explained(f"batches[{place}]", "cannot be read", f"Lengths must be {_LENGTHS}"):
            try:
                batch = next(waiting)
            except StopIteration:
                return
        yield batch
        place += 1


def _kind(given: Any) -> str:
    """Write what a batch is."""
    if isinstance(given, tuple | list):
        return f"{type(given).__name__} of {', '.join(type(part).__name__ for part in given[:9])}"
    if isinstance(given, Mapping):
        return f"a dictionary of {few([repr(key) for key in given])}"
    return type(given).__name__


def _numbers(name: str, given: Any) -> Any:
    """Return arrays in some nest as tensors of finite numbers that can carry gradients."""

    def tensor(part: Any) -> Any:
        if part is None:
            return None
        require(name, _kind(part), isinstance(part, _ARRAYS), _PAIR)
        if isinstance(part, np.ndarray):
            part = _readable(part)
        try:
            found = torch.as_tensor(part).detach()
        except TypeError:
            found = None
        is_of_numbers = found is not None and found.dtype in _NUMBERS
        words = "real or whole numbers of PyTorch's usual types, as float32 or int64"
        require(name, str(part.dtype), is_of_numbers, words)
        assert found is not None
        if found.is_inference():  # such tensors carry no gradients; a copy does
            found = found.clone()
        words = "finite: put a number where one is missing, and say where in a further column"
        require(name, "NaN or infinite somewhere", bool(found.isfinite().all()), words)
        return found

    is_text = isinstance(given, str | bytes)
    require(name, _kind(given), not is_text, _PAIR)
    return trees.tree_map(tensor, given)


def _readable(array: Any) -> Any:
    """Return an array as PyTorch reads it: a copy of one that is flipped, or not to be written."""
    is_flipped = any(stride < 0 for stride in array.strides)
    if array.dtype.isnative and not is_flipped and array.flags.writeable:
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C")


def _forms(
    inputs: Any, targets: Any, batch_first: bool, time_axis: int | None
) -> tuple[Form, Form]:
    """Return the axes of all tensors, as a reader names them by those of the first."""
    leaves, spec = trees.tree_flatten(inputs)
    first = leaves[0] if leaves else None
    words = f"arrays of the shape (sequences, steps, …). {_SINGLE}"
    shape = () if first is None else tuple(first.shape)
    require("inputs", shape, len(shape) > 1, words)
    sequences = 0 if batch_first else 1
    steps = 1 - sequences if time_axis is None else time_axis
    is_axis = -len(shape) <= steps < len(shape) and steps % len(shape) != sequences
    words = f"an axis of inputs {shape} beside that of sequences, {sequences}"
    require("time_axis", time_axis, is_axis, words)
    steps %= len(shape)
    count, length = shape[sequences], shape[steps]
    axes = [_axes_of("inputs", leaf, sequences, steps, count, length) for leaf in leaves]
    target_leaves, target_spec = trees.tree_flatten(targets)
    is_given = any(leaf is not None for leaf in target_leaves)
    require("targets", None, is_given, "an array, or a tuple or dictionary of arrays")
    of_targets = []
    for leaf in target_leaves:
        found = _axes_of("targets", leaf, sequences, steps, count, length)
        of_targets.append(None if found is None else found._replace(steps=None))
    if time_axis is None and batch_first:
        _refuse_channels(shape, steps)
    return Form(spec, axes), Form(target_spec, of_targets)


def _axes_of(
    name: str, leaf: Any, sequences: int, steps: int, count: int, length: int
) -> Axes | None:
    """Return the axes of one tensor: those of the first, or the first axis alone."""
    if leaf is None:
        return None
    shape = tuple(leaf.shape)
    furthest = max(sequences, steps)
    if len(shape) > furthest and (shape[sequences], shape[steps]) == (count, length):
        return Axes(sequences, steps)
    for axis in dict.fromkeys((0, sequences)):
        if len(shape) > axis and shape[axis] == count:
            return Axes(axis, None)
    words = f"{count}, the sequences of the inputs, with axis {sequences} for these. {_SINGLE}"
    require(f"first axes of {name}", shape[:2], False, words)
    return None


def _refuse_channels(shape: Sequence[int], steps: int) -> None:
    """Ask for `time_axis` where there are few steps beside the width."""
    is_plain = len(shape) != 3 or shape[2] < _WIDE * shape[steps]
    told = f"None, with {shape[steps]} steps of width {shape[2:]} in inputs {tuple(shape)}"
    require("time_axis", told, is_plain, CHANNELS)


def _joined(parts: list[Rows], most: int) -> Rows:
    """Return all batches as one."""
    found: list[Any] = []
    for leaves in zip(*(part.leaves for part in parts), strict=True):
        if leaves[0] is None:
            found.append(None)
            continue
        shapes = {tuple(leaf.shape[1:]) for leaf in leaves}
        require("shapes in batches", shapes, len(shapes) == 1, _LENGTHS)
        found.append(torch.cat(leaves)[:most])
    return Rows(found)


def read_as(data: Data) -> str:
    """Say as what inputs are read."""
    width = data.first[0, 0].numel()
    return f"read as {data.count:,} sequences of {data.length:,} steps of width {width}"


class Copies(NamedTuple):
    """Copies of a reader's model, head and loss, to work on."""

    model: nn.Module
    head: Any
    loss: Any
    made: dict[str, Tensor]  # copies of what modules hold that was made of parameters
    names: dict[nn.Module, str]  # of the modules of the model that was given

    @classmethod
    def of(cls, model: nn.Module, head: Any, loss: Any) -> Copies:
        """Copy them together, so that what they share is shared; refuse what cannot be copied."""
        model = getattr(model, "_orig_mod", model)  # of torch.compile
        _refuse_unreadable(model)
        words = "a function of predictions and targets, as torch.nn.MSELoss(), not a class, or None"
        is_function = loss is None or (callable(loss) and not isinstance(loss, type))
        require("loss", loss, is_function, words)
        memo: dict[int, Any] = {}
        made = {}
        for name, module in model.named_modules():
            for key, value in vars(module).items():
                if isinstance(value, Tensor) and not value.is_leaf:  # as of the older weight_norm
                    memo[id(value)] = made[f"{name}.{key}"] = value.detach().clone()
        with explained("model", "cannot be deep-copied", _UNCOPIED):
            names = {module: name for name, module in model.named_modules()}
            return cls(*copy.deepcopy((model, head, loss), memo), made, names)

    def caller(self, data: Data) -> Callable[[Any], Any]:
        """Return a function that hands inputs to the model as its signature takes them.

        A tuple goes as arguments and a dictionary as keywords, if the model takes these; else, as
        in ``forward(self, batch)``, as one argument.
        """
        nested = data.inputs_form.back(data.inputs[:2])
        if isinstance(nested, Tensor):
            return self.model
        takes = inspect.signature(self.model.forward)
        try:
            if isinstance(nested, Mapping):
                takes.bind(**nested)
                return lambda given: self.model(**given)
            takes.bind(*nested)
        except TypeError:
            return self.model
        return lambda given: self.model(*given)


def _refuse_unreadable(model: nn.Module) -> None:
    """Refuse parameters without numbers, training mode, and parts whose uses cannot be seen."""
    for name, part in model.named_parameters():
        is_made = not is_lazy(part) and not part.is_meta
        words = "made: run a lazy model once on a batch, and load the weights of one on meta"
        require("parameters", name, is_made, words)
        words = "one that was made outside of torch.inference_mode()"
        require("model", type(model).__name__, not part.is_inference(), words)
    for module in model.modules():
        # in training mode there are random draws, and statistics that change
        words = "False: call model.eval() first. Of torch.export, give the model before the export"
        require("model.training", module.training, not module.training, words)
        kind = type(module)
        is_scripted = isinstance(module, torch.jit.ScriptModule)
        words = "as it was before scripting or tracing: uses of its parameters cannot be seen"
        require("model", kind.__name__, not is_scripted, words)


def fit_types(inputs: Rows, model: nn.Module) -> Rows:
    """Return real inputs in the type of the model's parameters, if these have one."""
    types = {part.dtype for part in model.parameters() if part.is_floating_point()}
    if len(types) != 1:
        return inputs
    (own,) = types
    return inputs.map(lambda leaf: leaf.to(own) if leaf.is_floating_point() else leaf)


def few(names: Sequence[str]) -> str:
    """Write names, or the first few and how many more."""
    shown = ", ".join(names[:_FEW_NAMES])
    n_more = len(names) - _FEW_NAMES
    return f"{shown} and {n_more} more" if n_more > 0 else shown


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
    lines = str(error).strip().splitlines() or ["no words"]
    # PyTorch's loaders tell what failed in another process with its traceback, and its words last
    line = lines[-1] if "Original Traceback" in str(error) else lines[0]
    return f"{type(error).__name__}: {line[:200]}"
