"""A tape of the calls of PyTorch's functions that take parameters, and of what they give."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees

from lwcore.signatures import require

_SCANS = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # functions of many steps
_WIDTH_LAST = ("linear", "embedding", "layer_norm", "rms_norm", *(f"{n}_cell" for n in _SCANS))


class Slot(int):
    """The place among a tape's values of a parameter, or of what is made of parameters alone."""


class Layout(NamedTuple):
    """Where values have their sequences, and, with these in front, their steps, if all are there.

    An axis of sequences may hold more, steps first, within each or, `outside`, around them.
    """

    axis: int
    time: int | None
    length: int
    outside: bool = False

    @classmethod
    def of(cls, shape: Sequence[int], name: str, count: int, length: int) -> Layout | None:
        """That of a function's values, or None if they belong to no sequence."""
        axis = next((a for a, size in enumerate(shape) if size and size % count == 0), None)
        if axis is None:
            return None
        plain = cls(axis, None, length)
        sizes = plain.fronted(torch.empty(shape, device="meta"), count).shape
        fits = [place for place, size in enumerate(sizes[:-1]) if place and size == length]
        if name.startswith("conv"):  # whose padding may be cut off later
            fits = [len(sizes) - 1] if sizes[-1] >= length else []
        elif sizes[-1] == length and name not in _WIDTH_LAST:
            fits.append(len(sizes) - 1)
        return plain._replace(time=fits[0] if fits else None)

    def fronted(self, values: Tensor, count: int) -> Tensor:
        """Values with the sequences in front, and what shares their axis behind."""
        values = values.movedim(self.axis, 0)
        if self.outside:
            values = values.unflatten(0, (-1, count)).movedim(1, 0)
        else:
            values = values.unflatten(0, (count, -1))
        within = values.shape[1]
        many = within > self.length and within % self.length == 0
        return values.unflatten(1, (self.length, -1)) if many else values

    def placed(self, values: Tensor, count: int) -> Float[Tensor, "B steps _"]:
        """Values or their gradients, sequences and steps in front."""
        values = self.fronted(values, count)
        if self.time is None:
            return values.reshape(count, 1, -1)
        values = values.movedim(self.time, 1)
        return values.reshape(count, values.shape[1], -1)


class Call(NamedTuple):
    """A function that took parameters: its arguments, and where its values belong."""

    function: Callable[..., Any]
    leaves: list[Any]
    spec: Any
    places: list[int]  # of those of its values that carry gradients
    layout: Layout | None  # None: made of parameters alone

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:
        """What it gives for other parameters."""
        leaves = [values[part] if isinstance(part, Slot) else part for part in self.leaves]
        args, named = trees.tree_unflatten(leaves, self.spec)
        made = trees.tree_leaves(self.function(*args, **named))
        return [made[place] for place in self.places]

    @property
    def marks(self) -> list[Any]:
        """Its arguments, data left open."""
        return [
            part if isinstance(part, Slot) else Tensor if isinstance(part, Tensor) else repr(part)
            for part in self.leaves
        ]


class Tape(TorchFunctionMode):
    """The calls of a pass that take parameters, in order, and the values that they give."""

    def __init__(self, parameters: Sequence[Tensor], layout: Callable[..., Layout | None]) -> None:
        """A tape for one pass; `layout` says where the values of the next call belong."""
        super().__init__()
        self.calls: list[Call] = []
        self.made: list[list[Tensor]] = []  # of each use
        self.plan: list[Layout | None] = []  # of the values of each call, in turn
        self.kept: list[Tensor] = list(parameters)  # alive, so that no other has its id
        self.slots = {id(part): Slot(place) for place, part in enumerate(parameters)}
        self.known: dict[Any, list[Slot]] = {}
        self.origins = [[place] for place in range(len(parameters))]  # of each value
        self.layout = layout

    def __torch_function__(
        self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """A call of any of PyTorch's functions."""
        name, named = getattr(function, "__name__", ""), kwargs or {}
        if function is functional.multi_head_attention_forward:
            with self:
                return _opened(function)(*args, **named)
        leaves, spec = trees.tree_flatten((args, named))
        slots = [self.slots.get(id(part)) for part in leaves]
        if not any(slot is not None for slot in slots):
            return function(*args, **named)
        if name in _SCANS:
            with self:
                return _unrolled(name, *args)
        if name in ("__iadd__", "__isub__", "__imul__", "__itruediv__"):  # in a new tensor, then
            name = name.replace("i", "", 1)
            function = getattr(Tensor, name)
        plain = not name.endswith("_") or name.endswith("__")
        require("model", f"{name}() of a parameter", plain, "one that writes none in place")
        made = function(*args, **named)
        outputs = trees.tree_leaves(made)
        places = [i for i, part in enumerate(outputs) if getattr(part, "requires_grad", False)]
        if not places:  # a shape, or what no gradient reaches
            return made
        given = [outputs[place] for place in places]
        held = [
            (part.detach() if isinstance(part, Tensor) else part) if slot is None else slot
            for part, slot in zip(leaves, slots, strict=True)
        ]
        layout = self.layout(given[0].shape, name)
        self.plan.append(layout)
        call = Call(function, held, spec, places, layout)
        if layout is not None:
            if len(given) > 1:  # h, which may be made of c: copies are not made of one another
                made = trees.tree_map_only(Tensor, Tensor.clone, made)
            self.calls.append(call)
            self.made.append([trees.tree_leaves(made)[place] for place in places])
            # a copy, which may be written to
            return trees.tree_map_only(Tensor, Tensor.clone, made)
        self.kept += [part for part in leaves if isinstance(part, Tensor)] + given
        pairs = zip(leaves, call.marks, strict=True)
        same = [id(part) if mark is Tensor else mark for part, mark in pairs]
        known = self.known.setdefault((function, *same), [])
        if not known:  # made for the first time, and not anew in every step
            known += [Slot(len(self.origins) + place) for place in range(len(given))]
            self.origins += [self.sources(call.marks) for _ in given]
            self.calls.append(call)
        self.slots |= {id(part): slot for part, slot in zip(given, known, strict=True)}
        return made

    def sources(self, marks: Sequence[Any]) -> list[int]:
        """The places of the parameters in some arguments."""
        return sorted({place for m in marks if isinstance(m, Slot) for place in self.origins[m]})

    def again(self, parameters: Sequence[Tensor]) -> list[list[Tensor]]:
        """The values of all uses, for other parameters and the same data."""
        values, made = list(parameters), []
        for call in self.calls:
            given = call(values)
            if call.layout is None:
                values += given
            else:
                made.append(given)
        return made


def _opened(function: Any) -> Any:
    """PyTorch's own function in Python, with the calls in it seen by a mode."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    made = types.FunctionType(function.__code__, names, None, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _unrolled(
    name: str, x: Tensor, state: Any, weights: Sequence[Tensor], *how: Any
) -> tuple[Tensor, ...]:
    """A stack of PyTorch's recurrent layers, step by step."""
    _, layers, _, _, bidirectional, batch_first = how
    require("bidirectional", bidirectional, not bidirectional, "False, for a causal model")
    cell, axis, last = getattr(torch, f"{name}_cell"), int(batch_first), []
    many, own = name == "lstm", len(weights) // layers
    require("proj_size", "above 0", own in (2, 4), "0")
    steps = list(x.unbind(axis))
    for layer in range(layers):
        now = [part[layer] for part in state] if many else state[layer]
        for t, step in enumerate(steps):
            now = cell(step, now, *weights[layer * own : (layer + 1) * own])
            steps[t] = now[0] if many else now
        last.append(now)
    ends: Any = zip(*last, strict=True) if many else [last]
    return torch.stack(steps, axis), *(torch.stack(part) for part in ends)
