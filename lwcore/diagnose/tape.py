"""A tape of the calls of PyTorch's functions that take parameters, and of what they give."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees

from lwcore.diagnose.trials import Layout
from lwcore.signatures import require

_SCANS = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # functions of many steps
_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__")
_DEVICES = ("cpu", "cuda")


class Slot(int):
    """The place among a tape's values of a parameter, or of what is made of parameters."""


class Precision(NamedTuple):
    """The autocast that a call was made in, for each kind of device."""

    casts: tuple[tuple[str, bool, torch.dtype], ...]

    @classmethod
    def of_now(cls) -> Precision:
        """Return the autocast that holds now."""
        return cls(
            tuple(
                (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
                for device in _DEVICES
            )
        )

    def again(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which it holds again."""
        stack = ExitStack()
        for device, enabled, dtype in self.casts:
            if enabled:
                stack.enter_context(torch.autocast(device, dtype, cache_enabled=False))
        return stack


class Call(NamedTuple):
    """A function that took parameters: its arguments, and where its values have sequences."""

    function: Callable[..., Any]
    leaves: list[Any]
    spec: Any
    places: list[int]  # of those of its values that carry gradients
    layout: Layout | None  # None: a step on the way from parameters to a use
    precision: Precision

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return what it gives for other parameters."""
        leaves = [values[part] if isinstance(part, Slot) else part for part in self.leaves]
        args, named = trees.tree_unflatten(leaves, self.spec)
        with self.precision.again():
            given = trees.tree_leaves(self.function(*args, **named))
        return [given[place] for place in self.places]

    @property
    def marks(self) -> list[Any]:
        """Its arguments, data left open."""
        return [
            part if isinstance(part, Slot) else Tensor if isinstance(part, Tensor) else repr(part)
            for part in self.leaves
        ]


@dataclass
class Plan:
    """What a trial pass found: of each call that takes parameters where its values belong.

    `joins` has, for each use, which of all functions called first made something of its value and
    other data, and where that belongs.
    """

    layouts: list[Layout | None]
    joins: dict[int, tuple[int, Layout]]


class Tape(TorchFunctionMode):
    """The calls of a pass that take parameters, in order, and the values that they give.

    Without a plan the pass is a trial of the sequences of `trials.PATTERN`, which makes one. A
    value that knows of sequences is a use of the parameters in it; what knows of none, or would be
    the same for all, is a step on the way to one.
    """

    def __init__(
        self, parameters: Sequence[Tensor], plan: Plan | None = None, watch: bool = False
    ) -> None:
        """Record one pass; with `watch` also what first joins each use with other data."""
        super().__init__()
        self.calls: list[Call] = []
        self.made: list[list[Tensor]] = []  # of each use
        self.kept: list[Any] = list(parameters)  # alive, so that no other has its id
        self.slots = {id(part): Slot(place) for place, part in enumerate(parameters)}
        self.known: dict[Any, list[Slot]] = {}
        self.origins = [[place] for place in range(len(parameters))]  # of each value
        self.unfollowed: set[int] = set()  # parameters used where no gradient is followed
        self.planned = iter(plan.layouts) if plan else None
        self.plan = plan or Plan([], {})
        self.complete = True  # whether a plan has fitted so far
        self.tried = plan is None
        self.watched: dict[int, list[int]] = {}
        for use, (number, _) in self.plan.joins.items() if watch else ():
            self.watched.setdefault(number, []).append(use)
        self.joined: dict[int, Tensor] = {}  # of uses, what is first made of them and others
        self.pending: dict[int, set[int]] = {}  # uses that a tensor is made of alone
        self.count = 0  # of functions called

    def __torch_function__(
        self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a call of any of PyTorch's functions, and record it if it takes parameters."""
        name = getattr(function, "__name__", "")
        named = kwargs or {}
        if function is functional.multi_head_attention_forward:
            with self:
                return _opened(function)(*args, **named)
        self.count += 1
        number = self.count
        leaves, spec = trees.tree_flatten((args, named))
        slots = [self.slots.get(id(part)) for part in leaves]
        taken = any(slot is not None for slot in slots)
        if taken and name in _SCANS:
            with self:
                return _unrolled(name, *args)
        if taken:
            given = self._record(function, name, leaves, spec, slots, args, named)
        else:
            given = function(*args, **named)
        if self.tried:
            self._follow(leaves, given, number)
        elif number in self.watched:
            first = next((p for p in trees.tree_leaves(given) if isinstance(p, Tensor)), None)
            if first is not None:
                self.joined |= dict.fromkeys(self.watched[number], first)
        return given

    def _record(
        self,
        function: Any,
        name: str,
        leaves: list[Any],
        spec: Any,
        slots: list[Slot | None],
        args: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        if name in _IN_PLACE:  # in a new tensor, then
            name = name.replace("i", "", 1)
            function = getattr(Tensor, name)
        plain = not name.endswith("_") or name.endswith("__")
        require("model", f"{name}() of a parameter", plain, "one that writes none in place")
        if function in (functional.embedding, functional.embedding_bag):
            function, leaves, spec, slots, args, named = self._dense(function, args, named)
        precision = Precision.of_now()
        made = function(*args, **named)
        outputs = trees.tree_leaves(made)
        places = [i for i, part in enumerate(outputs) if getattr(part, "requires_grad", False)]
        if not places:  # a shape, or what no gradient reaches
            numbers = any(isinstance(p, Tensor) and p.is_floating_point() for p in outputs)
            if numbers and not torch.is_grad_enabled():
                self.unfollowed |= {
                    p for slot in slots if slot is not None for p in self.origins[slot]
                }
            return made
        given = [outputs[place] for place in places]
        held = [
            (part.detach() if isinstance(part, Tensor) else part) if slot is None else slot
            for part, slot in zip(leaves, slots, strict=True)
        ]
        layout = self._layout(given[0])
        call = Call(function, held, spec, places, layout, precision)
        if layout is not None:
            if len(given) > 1:  # h, which may be made of c: copies are not made of one another
                made = trees.tree_map_only(Tensor, Tensor.clone, made)
            use = len(self.made)
            self.calls.append(call)
            self.made.append([trees.tree_leaves(made)[place] for place in places])
            shown = trees.tree_map_only(Tensor, Tensor.clone, made)  # which may be written to
            if self.tried:
                for part in trees.tree_leaves(shown):
                    self.pending[id(part)] = {use}
            return shown
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

    def _layout(self, value: Tensor) -> Layout | None:
        if self.planned is None:
            found = Layout.of(value)
            self.plan.layouts.append(found)
            return found
        planned = next(self.planned, self)
        if planned is self:
            self.complete = False
            return None
        return planned  # type: ignore[return-value]

    def _dense(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The arguments of a look-up whose gradient is dense; what writes or counts is refused."""
        bound = inspect.signature(function).bind(*args, **named)
        bound.apply_defaults()
        given = bound.arguments
        words = (
            "None: it writes to the weights in a forward pass. Scale them once, and leave it out"
        )
        require("max_norm", given["max_norm"], given["max_norm"] is None, words)
        counts = given["scale_grad_by_freq"]
        words = "False: it weighs gradients of a sequence by what others hold"
        require("scale_grad_by_freq", counts, not counts, words)
        given["sparse"] = False
        if function is functional.embedding_bag and given["input"].ndim == 2:
            simple = given["mode"] != "max" and given["padding_idx"] is None
            if simple and not given["include_last_offset"]:
                function = _bag  # which has second derivatives
        leaves, spec = trees.tree_flatten((bound.args, bound.kwargs))
        slots = [self.slots.get(id(part)) for part in leaves]
        return function, leaves, spec, slots, bound.args, bound.kwargs

    def _follow(self, leaves: list[Any], given: Any, number: int) -> None:
        """Note what is first made of a use and of other data, in a trial pass."""
        tensors = [part for part in leaves if isinstance(part, Tensor)]
        mine = [self.pending[id(part)] for part in tensors if id(part) in self.pending]
        if not mine:
            return
        uses: set[int] = set().union(*mine)
        results = [part for part in trees.tree_leaves(given) if isinstance(part, Tensor)]
        others = [part for part in tensors if id(part) not in self.pending]
        joined = len({frozenset(one) for one in mine}) > 1 or any(
            Layout.of(part) is not None for part in others
        )
        self.kept += results + tensors
        if not joined:
            for part in results:
                self.pending[id(part)] = self.pending.get(id(part), set()) | uses
            return
        layout = Layout.of(results[0]) if results else None
        for part in results:  # of what is written in place, the same tensor
            self.pending.pop(id(part), None)
        for use in uses:
            if layout is not None:
                self.plan.joins.setdefault(use, (number, layout))

    def sources(self, marks: Iterable[Any]) -> list[int]:
        """Return the places of the parameters in some arguments."""
        return sorted({place for m in marks if isinstance(m, Slot) for place in self.origins[m]})

    def again(self, parameters: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return the values of all uses, for other parameters and the same data."""
        values, made = list(parameters), []
        for call in self.calls:
            given = call(values)
            if call.layout is None:
                values += given
            else:
                made.append(given)
        return made


@functools.wraps(functional.embedding_bag)
def _bag(indices: Tensor, weight: Tensor, *_: Any, **named: Any) -> Tensor:
    """Sums or means of embeddings, as of `torch.nn.functional.embedding_bag`."""
    given = inspect.signature(functional.embedding_bag).bind(indices, weight, *_, **named)
    given.apply_defaults()
    rows = functional.embedding(indices, weight)
    weights = given.arguments["per_sample_weights"]
    if weights is not None:
        rows = rows * weights[..., None]
    return rows.sum(1) if given.arguments["mode"] == "sum" else rows.mean(1)


def _opened(function: Any) -> Any:
    """PyTorch's own function in Python, with the calls in it seen by a mode."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    made = types.FunctionType(function.__code__, names, None, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _unrolled(name: str, x: Tensor, second: Any, third: Any, *how: Any) -> tuple[Tensor, ...]:
    """A stack of PyTorch's recurrent layers, step by step."""
    packed = isinstance(second, Tensor) and second.dtype == torch.int64  # sizes of its batches
    words = "sequences that are padded and not packed (padding behind a sequence changes nothing "
    words += "before it: leave out pack_padded_sequence)"
    require(f"inputs of {name}()", "packed", not packed, words)
    state, weights = second, third
    _, layers, _, _, bidirectional, batch_first = how
    require("bidirectional", bidirectional, not bidirectional, "False, for a causal model")
    cell, axis, last = getattr(torch, f"{name}_cell"), int(batch_first), []
    many, own = name == "lstm", len(weights) // layers
    projected = own in (3, 5)
    words = "0: steps with projections are not read. Leave its parameters out, by `parameters`"
    require("proj_size", "above 0", not projected, words)
    steps = list(x.unbind(axis))
    for layer in range(layers):
        now = [part[layer] for part in state] if many else state[layer]
        for t, step in enumerate(steps):
            now = cell(step, now, *weights[layer * own : (layer + 1) * own])
            steps[t] = now[0] if many else now
        last.append(now)
    ends: Any = zip(*last, strict=True) if many else [last]
    return torch.stack(steps, axis), *(torch.stack(part) for part in ends)
