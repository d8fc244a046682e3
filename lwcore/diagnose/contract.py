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
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as trees
from torch.utils.data import DataLoader, Dataset, IterableDataset

from lwcore.signatures import ArgumentError, checked, require

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray

FEWEST = 40  # sequences: half of them find directions, and a bootstrap needs twenty numbers
_AT_ONCE = 128  # sequences of a dataset
_FEW_NAMES = 6  # that are told
# Of sequences that repeat others, as overlapping windows of one series do, scaled or not:
_PROBES = 3  # numbers of a piece, by which it is told from others
_DIGITS = 3  # of these, behind the point
_FEWEST_VALUES = 3  # in a piece, and a quarter of its steps: else it is a flag, a level or padding
_BY_CHANCE = 0.1  # share of sequences that may repeat others
_BY_ITSELF = 0.05  # share of sequences that share their first piece with others, and then differ
_MOST_NUMBERS = 2**22  # in the columns that are looked at one by one
_ARRAYS = (Tensor, np.ndarray)
_SINGLE = (
    "The first of several inputs, or of a dictionary's, must be one with steps. Of single pairs, "
    "(T, …), torch.utils.data.DataLoader(pairs, 32) makes batches"
)
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
    "has more: ((b[:-1], b[-1]) for b in loader), or (({'x': b['x']}, b['y']) for b in loader)"
)
_HOLDS = (
    "no function that holds the model, as a lambda with self: a copy would change the one that was "
    "given. Write a method, or remove() the hook"
)
_UNCOPIED = (
    "It is copied, so that yours stays as it is: keep open files, locks, generators, and lists of "
    "tensors with a gradient outside of it"
)
_SHARED = "one of which copy.deepcopy makes others, without a __deepcopy__ that gives the same"

Axes = tuple[int, ...]  # of a reader's tensor: that of sequences, and that of steps if it has one


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
    axes: list[Axes]  # none for None

    def front(self, given: Any) -> Rows:
        """Return all tensors with their sequences in front, and then their steps."""
        found: list[Any] = []
        for leaf, axes in zip(trees.tree_leaves(given), self.axes, strict=True):
            found.append(leaf.movedim(axes, (0, 1)[: len(axes)]) if axes else None)
        return Rows(found)

    def back(self, some: Rows) -> Any:
        """Return what the model, or the loss, takes: copies that may be written to and viewed."""
        found: list[Any] = []
        for leaf, axes in zip(some.leaves, self.axes, strict=True):
            own = leaf
            if axes:
                own = leaf.movedim((0, 1)[: len(axes)], axes)
                own = own.clone(memory_format=torch.contiguous_format)
            found.append(own)
        return trees.tree_unflatten(found, self.spec)


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

    @property
    def with_steps(self) -> list[int]:
        """The places of the inputs that have steps."""
        places = enumerate(self.inputs_form.axes)
        return [place for place, axes in places if len(axes) > 1]

    @property
    def flat(self) -> list[int]:
        """The places of inputs (B, T) behind the first: they may be (B, D), without steps."""
        return [place for place in self.with_steps[1:] if self.inputs.leaves[place].ndim == 2]

    @property
    def read_as(self) -> str:
        """What inputs are read as, in words."""
        width = self.first[0, 0].numel()
        return f"read as {self.count:,} sequences of {self.length:,} steps of width {width}"


def collect(batches: Any, most: int, batch_first: bool, time_axis: int | None) -> Data:
    """Collect sequences from pairs of inputs and targets, from one pair, or from a dataset.

    A tuple of two is one pair, (inputs, targets); all else gives pairs, one after the other.
    """
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        batches = DataLoader(batches, _AT_ONCE)
    forms: list[Form] = []
    inputs: list[Rows] = []
    targets: list[Rows] = []
    n_read = 0
    for place, batch in enumerate(_pairs(batches)):
        name = f"batches[{place}]"
        is_pair = isinstance(batch, tuple | list) and len(batch) == 2
        require(name, shown(batch), is_pair, _PAIR)
        pair = _numbers(name, tuple(batch))
        forms = forms or _forms(pair, batch_first, time_axis)
        for part, form, found in zip(pair, forms, (inputs, targets), strict=True):
            spec = trees.tree_structure(part)
            require(name, f"{spec}", spec == form.spec, "nested as the first one")
            some = form.front(part)[: most - n_read]
            found.append(some.map(torch.clone))  # a loader may fill its tensors anew
        require(
            name, shown(batch), len(inputs[-1]) == len(targets[-1]), "as many targets as inputs"
        )
        n_read += len(inputs[-1])
        if n_read >= most:
            break
    require("batches", shown(batches), bool(inputs), "one pair or more")
    return Data(_joined(inputs), _joined(targets), *forms)


def _pairs(batches: Any) -> Iterator[Any]:
    """Yield pairs, and say of an error of the reader's own which of them could not be read."""
    if isinstance(batches, tuple) and len(batches) == 2:
        yield batches
        return
    with explained("batches", "cannot be read", f"Lengths must be {_LENGTHS}"):
        yield from batches


def shown(given: Any) -> str:
    """Write which tensors there are in a batch, or in what a model takes or gives."""
    words = []
    for path, part in trees.tree_leaves_with_path(given):
        has_shape = isinstance(part, _ARRAYS) and not getattr(part, "is_nested", False)
        shape = tuple(part.shape) if has_shape else f"a {type(part).__name__}"
        words.append(f"{trees.keystr(path)} {shape}".strip())
    return few(words)


def _numbers(name: str, given: Any) -> Any:
    """Return arrays in some nest as tensors of finite numbers that can carry gradients."""

    def tensor(part: Any) -> Any:
        if part is None:
            return None
        require(name, shown(part), isinstance(part, _ARRAYS), _PAIR)
        if isinstance(part, np.ndarray):  # a copy, whose bytes and strides PyTorch can read
            part = part.astype(part.dtype.newbyteorder("="), order="C")
        words = "dense: real or whole numbers of PyTorch's usual types, as float32 or int64"
        with explained(f"{name} ({part.dtype})", f"must be {words}"):
            found = torch.as_tensor(part).detach()
            # fails for complex, sparse, nested and meta tensors, which are refused so
            ends = found.reshape(-1).aminmax() if found.numel() else ()
            is_finite = all(map(torch.isfinite, ends))
        require(
            name,
            "NaN, infinite or masked somewhere",
            is_finite and not np.ma.is_masked(part),
            "finite: put a number where one is missing, and say where in a further column",
        )
        return found

    return trees.tree_map(tensor, given)


def _forms(pair: Any, batch_first: bool, time_axis: int | None) -> list[Form]:
    """Return the axes of all tensors, as a reader names them by those of the first."""
    first, *_ = [*trees.tree_leaves(pair[0]), None]
    shape = tuple(getattr(first, "shape", ()))
    require(
        "inputs", shape, len(shape) > 1, f"arrays of the shape (sequences, steps, …). {_SINGLE}"
    )
    sequences = 0 if batch_first else 1
    steps = 1 - sequences if time_axis is None else time_axis
    require(
        "time_axis",
        time_axis,
        0 <= steps < len(shape) and steps != sequences,
        f"an axis of inputs {shape} beside that of sequences, {sequences}",
    )
    forms = []
    for name, given in zip(("inputs", "targets"), pair, strict=True):
        leaves, spec = trees.tree_flatten(given)
        is_given = any(leaf is not None for leaf in leaves)
        require(name, None, is_given, "an array, or a tuple or dictionary of arrays")
        forms.append(Form(spec, [_axes_of(name, leaf, sequences, steps, shape) for leaf in leaves]))
    return forms


def _axes_of(name: str, leaf: Any, sequences: int, steps: int, shape: Sequence[int]) -> Axes:
    """Return the axes of one tensor: those of the first, of this shape, or that of sequences."""
    if leaf is None:
        return ()
    own = dict(enumerate(leaf.shape))
    if own.get(sequences) == shape[sequences] and own.get(steps) == shape[steps]:
        return (sequences, steps) if name == "inputs" else (sequences,)  # its steps are the loss's
    count = shape[sequences]
    words = f"{count}, the sequences of the inputs, with axis {sequences} for these. {_SINGLE}"
    found = [axis for axis in (0, sequences) if own.get(axis) == count]
    require(f"first axes of {name}", tuple(leaf.shape[:2]), bool(found), words)
    return (found[0],)


def _joined(parts: list[Rows]) -> Rows:
    """Return all batches as one."""
    found: list[Any] = []
    for leaves in zip(*(part.leaves for part in parts), strict=True):
        with explained("batches", "have unlike shapes", f"Lengths must be {_LENGTHS}"):
            found.append(None if leaves[0] is None else torch.cat(leaves))
    return Rows(found)


class Copies(NamedTuple):
    """Copies of a reader's model, head, loss and step, to work on."""

    model: nn.Module
    head: Any
    loss: Any
    step: Any

    @classmethod
    def of(cls, model: nn.Module, head: Any, loss: Any, step: Any) -> Copies:
        """Copy them together, so that what they share is shared; refuse what cannot be copied."""
        model = getattr(model, "_orig_mod", model)  # of torch.compile
        _refuse_unreadable(model)
        inside = [None, *model.modules()]
        require("step", type(step).__name__, step in inside, "one of model's modules")
        memo: dict[int, Any] = {}
        for module in model.modules():
            for value in vars(module).values():
                if isinstance(value, Tensor) and not value.is_leaf:
                    memo[id(value)] = None  # made of parameters, and made anew in each pass
        with explained("model", "cannot be deep-copied", _UNCOPIED):
            found = cls(*copy.deepcopy((model, head, loss, step), memo))
            _refuse_closures(found.model, memo)
        is_apart = {*model.parameters()}.isdisjoint(found.model.parameters())
        require("model", "with parameters that a copy shares", is_apart, _SHARED)
        for module in found.model.modules():
            if getattr(module, "sparse", False):
                vars(module)["sparse"] = False  # of an embedding's gradients
        return found

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
    """Refuse parameters without numbers or with hooks, training mode, and parts that hide uses."""
    for name, part in model.named_parameters():
        is_made = not is_lazy(part) and not part.is_meta and not part.is_inference()
        require(
            "parameters of model",
            name,
            is_made and not part._backward_hooks,
            "made, outside of torch.inference_mode(), and without a hook on its gradient, which a "
            "copy does not have: run a lazy model once on a batch, load the weights of one on "
            "meta, and remove() hooks",
        )
    for module in model.modules():
        # in training mode there are random draws, and statistics that change
        require(
            "model.training",
            module.training,
            not module.training,
            "False: call model.eval() first. Of torch.export, give the model before the export",
        )
        require(
            "model",
            type(module).__name__,
            not isinstance(module, torch.jit.ScriptModule),
            "as it was before scripting or tracing: uses of its parameters cannot be seen",
        )


def _refuse_closures(model: nn.Module, copied: Mapping[int, Any]) -> None:
    """Refuse functions in a copy, as hooks, that hold what was copied: they were not."""
    for module in model.modules():
        for name, value in vars(module).items():
            for part in trees.tree_leaves(value):
                is_apart = copied.keys().isdisjoint(_held(part, set()))
                require(f"{type(module).__name__}.{name}", part, is_apart, _HOLDS)


def _held(part: Any, found: set[int]) -> set[int]:
    """Return the ids of what a function's closure reaches, but for numbers in lists."""
    for cell in getattr(part, "__closure__", None) or ():
        for own in trees.tree_leaves(cell.cell_contents):
            if id(own) not in found:
                found |= {id(own), id(getattr(own, "__self__", own))}
                _held(own, found)
    return found


def few(names: Sequence[str]) -> str:
    """Write names, or the first few and how many more."""
    shown = ", ".join(names[:_FEW_NAMES])
    n_more = len(names) - _FEW_NAMES
    return f"{shown} and {n_more} more" if n_more > 0 else shown


@contextmanager
def explained(name: str, words: str, advice: str = "") -> Iterator[None]:
    """Say of an error of a reader's own code what was tried."""
    try:
        yield
    except ArgumentError:
        raise
    except Exception as error:
        line, *_ = [*str(error).strip().splitlines(), "no words"]
        told = f"{type(error).__name__}: {line[:200]}"
        raise ArgumentError(f"{name} {words}: {told}. {advice}".strip()) from error


@checked
def count_repeats(inputs: Float[Array, "B T D"]) -> int:
    """Count the sequences whose first half stands in another one, in some column.

    Pieces are compared up to shift and scale. Columns are looked at one by one, as one that differs
    from window to window, a position or noise, hides that others repeat; then all of them together,
    and all flags. What repeats by itself is left out, as a clock, a calendar or a level: its pieces
    also stand at the same place in sequences that differ.
    """
    count, length, _ = inputs.shape
    steps = inputs[:, :, (inputs != inputs[:1]).any((0, 1))]
    width = steps.shape[2]
    if length < 2 * _FEWEST_VALUES or not width:
        return 0
    # along a direction in which unlike steps have unlike numbers
    direction = np.random.default_rng(0).standard_normal(steps.shape[1:])
    wholes = (steps * direction).sum((1, 2))
    is_flag = ((steps == steps.min((0, 1))) | (steps == steps.max((0, 1)))).all((0, 1))
    columns = [steps @ direction[0], steps @ (direction[0] * is_flag)]
    for place in range(0, width, 1 + steps.size // _MOST_NUMBERS):
        columns.append(steps[:, :, place])
    n_repeats = int(np.any([_repeats(column, wholes) for column in columns], axis=0).sum())
    return n_repeats if n_repeats > _BY_CHANCE * count else 0


def _repeats(column: Float[Array, "B T"], wholes: Float[Array, " B"]) -> NDArray[np.bool_]:
    """Say which rows' first half stands in another one; `wholes` tell sequences apart."""
    count, length = column.shape
    n_first = max(length // 2, _FEWEST_VALUES)
    pieces = np.lib.stride_tricks.sliding_window_view(column - column.mean(), n_first, axis=1)
    size = pd.DataFrame(column.T).rolling(n_first).std().to_numpy()[n_first - 1 :].T
    probes = np.random.default_rng(1).standard_normal((_PROBES, n_first))
    probes -= probes.mean(1, keepdims=True)  # so that a shift changes nothing
    codes = np.zeros_like(size)
    for probe in probes:
        along = np.einsum("bsn,n->bs", pieces, probe) / np.where(size > 0, size, np.inf)
        codes += probe[0] * np.round(along, _DIGITS)
    first = codes[:, 0]
    n_at_same_place = pd.Series(wholes).groupby(first).nunique()[first]
    if (n_at_same_place > 1).mean() > _BY_ITSELF:
        return np.zeros(count, dtype=bool)
    n_values = 1 + (np.diff(np.sort(column[:, :n_first])) != 0).sum(1)
    rows = pd.Series(np.repeat(np.arange(count), codes.shape[1]))
    n_rows = rows.groupby(codes.ravel()).nunique()[first].to_numpy()
    return (n_values >= max(_FEWEST_VALUES, n_first // 4)) & (n_rows > 1)
