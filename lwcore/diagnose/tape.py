"""A tape of the calls of PyTorch's functions that take parameters, and of what they give.

A call is either a *use*, which makes of parameters and data a value of the sequences, or a *step on
the way* to one, whose value no data move: ``softplus(decay)``, a transposed weight, an embedding of
positions, ``U h`` with a state of zeros. Calls can be made again with other parameters. Calls are
seen by `torch.overrides.TorchFunctionMode`, a public interface.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees

from lwcore.signatures import require

_SCANS = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # functions of many steps
_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__")
_OPERATORS = ("cond", "while_loop", "map_impl", "scan")
_CONDITIONS = (
    "one without torch.cond, while_loop, map and scan, of which eager passes lose the gradient: "
    "write loops and conditions of Python, to measure"
)
_STEPWISE = (
    "one whose layers are neither bidirectional nor projected, on sequences that are padded and "
    "not packed: leave out pack_padded_sequence, pad on the left, and read all at the last step. "
    "Else name in `parameters` those to look at, without these"
)
UNIFORM = (
    "one that does the same for all sequences. Does it loop over sequences? Run them as one batch. "
    "Is a loop as long as the longest of them? Loop over all steps, and keep the state behind an "
    "end by torch.where. Do states begin earlier in few sequences, as in long ones among others "
    "that are padded? Cut all to one length, or leave these few out. Are steps sent to layers by "
    "index? Then name in `parameters` those to look at, without these layers"
)


class Slot(int):
    """The place among a tape's values of a parameter, or of what is made of parameters alone."""


class Call(NamedTuple):
    """A function that took parameters, and its arguments."""

    function: Callable[..., Any]
    leaves: list[Any]  # its arguments, flat, with a `Slot` in the place of each parameter
    spec: Any  # how they are nested
    outputs: list[int]  # which of its values carry gradients
    is_use: bool  # whether data move its value

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", "a function")

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return what it gives for other parameters."""
        leaves = [values[part] if isinstance(part, Slot) else part for part in self.leaves]
        args, named = trees.tree_unflatten(leaves, self.spec)
        given = trees.tree_leaves(self.function(*args, **named))
        return [given[place] for place in self.outputs]


class Survey(TorchFunctionMode):
    """A pass whose functions are looked at."""

    has_transforms = False  # Fourier transforms, which spread rounding over all steps

    def __torch_function__(
        self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a function, or those in it where PyTorch hides them."""
        opened = _opened(function, args)
        if opened is None:
            return self.run(function, args, kwargs or {})
        with self:
            return opened(*args, **kwargs or {})

    def run(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a function; refuse what cannot be followed."""
        name = getattr(function, "__name__", "")
        is_operator = type(function).__module__.startswith("torch._higher_order_ops")
        require("model", f"{name}()", not (is_operator and name in _OPERATORS), _CONDITIONS)
        self.has_transforms |= name.startswith("fft_")
        return function(*args, **named)


class Tape(Survey):
    """The calls of a pass that take parameters, in order, their names, and what they give.

    What gives the same for other data is a step on the way: of these the numbers are known, among
    all functions of a pass that take what carries gradients.
    """

    def __init__(self, parameters: Sequence[Tensor], steps: Mapping[int, bool]) -> None:
        """Record one pass, in which some functions are steps on the way, or lead nowhere (U·0)."""
        super().__init__()
        self.names: list[str] = []
        self.calls: list[Call] = []
        self.values: list[Tensor] = []  # that uses made
        self.makers: list[tuple[Call, int]] = []  # of each, the use, and which of its outputs
        self.numbers: list[int] = []  # of each, that of the use
        self.kept: list[Any] = list(parameters)  # alive, so that no other has its id
        # of what carries parameters, by its id
        self.slots = {id(part): Slot(place) for place, part in enumerate(parameters)}
        # the parameters in what is in each slot
        self.origins = [frozenset([place]) for place in range(len(parameters))]
        self.steps = steps
        self.n_functions = 0

    @property
    def noted(self) -> list[tuple[int, tuple[Any, ...], Tensor]]:
        """Of each value the number of its use, the kind, and itself.

        Its kind are the function and its arguments, without the data: uses of one site share it.
        """
        kinds = []
        for call, output in self.makers:
            kind: list[Any] = [call.function, output]
            for part in call.leaves:
                if isinstance(part, Slot):
                    kind.append(self.origins[part])
                else:
                    kind.append(None if isinstance(part, Tensor) else repr(part))
            kinds.append(tuple(kind))
        return [*zip(self.numbers, kinds, self.values, strict=True)]

    def sources(self, call: Call) -> frozenset[int]:
        """Return the places of the parameters that a call takes."""
        own = (self.origins[part] for part in call.leaves if isinstance(part, Slot))
        return frozenset().union(*own)

    def replay(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return the values of all uses, for other parameters and the same data."""
        in_slots = list(parameters)
        made: list[Tensor] = []
        for call in self.calls:
            into = made if call.is_use else in_slots
            into += call(in_slots)
        return made

    def run(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a call of any of PyTorch's functions, and record it if it takes parameters."""
        leaves = trees.tree_leaves((args, named))
        self.n_functions += any(getattr(part, "requires_grad", False) for part in leaves)
        if self.slots.keys().isdisjoint(map(id, leaves)):
            return function(*args, **named)
        return self._record(_kept_anew(function), args, named)

    def _record(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a function of parameters, and note it as a use or as a step on the way."""
        leaves, spec = trees.tree_flatten((args, named))
        made = function(*args, **named)
        given = trees.tree_leaves(made)
        held = []
        for part in leaves:
            data = part.detach() if isinstance(part, Tensor) else part
            held.append(self.slots.get(id(part), data))
        outputs = []
        for place, part in enumerate(given):
            if getattr(part, "requires_grad", False) and id(part) not in self.slots:
                outputs.append(place)
        if not outputs:
            return made  # a shape, what no gradient is followed in, or what was taken
        if self.steps.get(self.n_functions) and not any(map(torch.any, tensors_in(given))):  # U·0
            return made
        call = Call(function, held, spec, outputs, self.n_functions not in self.steps)
        self.names.append(call.name)
        self.calls.append(call)
        if call.is_use:
            return self._note_use(call, made)
        # a step on the way from parameters to a use
        self.kept += leaves
        for place in outputs:
            self.kept.append(given[place])
            self.slots[id(given[place])] = Slot(len(self.origins))
            self.origins.append(self.sources(call))
        return made

    def _note_use(self, call: Call, made: Any) -> Any:
        """Keep a use and its values; return what the model goes on with."""
        if len(call.outputs) > 1:  # h, which may be made of c: copies are not made of one another
            made = trees.tree_map_only(Tensor, Tensor.clone, made)
        values = trees.tree_leaves(made)
        for output, place in enumerate(call.outputs):
            self.values.append(values[place])
            self.makers.append((call, output))
            self.numbers.append(self.n_functions)
        return trees.tree_map_only(Tensor, Tensor.clone, made)  # which may be written to


def tensors_in(given: Any) -> list[Any]:
    """Return the tensors in what a function takes or gives."""
    return [part for part in trees.tree_leaves(given) if isinstance(part, Tensor)]


def _kept_anew(function: Any) -> Any:
    """Return a function that makes a new tensor, for one that writes in place; refuse others."""
    name = getattr(function, "__name__", "")
    require("model", f"{name}() of a parameter", name not in _SCANS, _STEPWISE)
    if name in _IN_PLACE:
        return getattr(Tensor, name.replace("i", "", 1))
    writes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    require(
        "model",
        f"{name}() of a parameter",
        not writes,
        "one that writes no parameter in place: h + b in place of h.add_(b), or torch.where or "
        "torch.cat. Are steps sent to layers by index? Then name in `parameters` those to look "
        "at, without these",
    )
    return function


def _opened(function: Any, args: Sequence[Any]) -> Any:
    """Return a function whose inner calls are seen, where PyTorch hides them; else None."""
    if function is functional.multi_head_attention_forward:
        return _seen_through(function)
    name = getattr(function, "__name__", "")
    # of packed sequences the second has the sizes of their batches
    if name not in _SCANS or getattr(args[1], "dtype", None) == torch.int64:
        return None
    weights, _, n_layers, _, _, bidirectional, _ = args[2:]
    is_plain = len(weights) // n_layers in (2, 4)  # a projection is one weight more
    return functools.partial(_unrolled, name) if is_plain and not bidirectional else None


def _seen_through(function: Any) -> Any:
    """Return PyTorch's own function in Python, with the calls in it seen by a mode."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    made = types.FunctionType(function.__code__, names, None, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _unrolled(
    name: str, x: Tensor, state: Any, weights: Any, _: Any, n_layers: int, *options: Any
) -> tuple[Tensor, ...]:
    """Run a stack of PyTorch's recurrent layers step by step, each by its cell."""
    per_layer = len(weights) // n_layers
    by_layer = [weights[first : first + per_layer] for first in range(0, len(weights), per_layer)]
    step = functools.partial(step_through, getattr(torch, f"{name}_cell"), by_layer)
    return tuple(scan_layers(step, x, state if name == "lstm" else (state,), int(options[-1])))


def scan_layers(step: Any, x: Tensor, parts: Sequence[Tensor], time_axis: int) -> list[Tensor]:
    """Take all steps of a stack of layers: h of the last one at each, and the parts of its state.

    Parts are h, of an LSTM h and c, (layers, B, H) each; `step` is ``(x, states) -> states``.
    """
    states: Any = [*zip(*parts, strict=True)]
    shown = []
    for now in x.unbind(time_axis):
        states = step(now, states)
        shown.append(states[-1][0])
    last = [torch.stack(part) for part in zip(*states, strict=True)]
    return [torch.stack(shown, time_axis), *last]


def step_through(
    cell: Any, weights: Sequence[Sequence[Tensor]], x: Tensor, states: Sequence[Any]
) -> list[tuple[Tensor, ...]]:
    """Take one step of a stack of layers by PyTorch's function of a cell: each layer's new state.

    A state is (h,), or (h, c) of an LSTM. A layer reads the new h of the one below.
    """
    after = []
    for state, own in zip(states, weights, strict=True):
        given = cell(x, state if len(state) > 1 else state[0], *own)
        after.append(given if isinstance(given, tuple) else (given,))
        x = after[-1][0]
    return after
