"""A loop over one step as the core sees it: a module that takes its own state, call after call."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lwcore.adapter import Call, Layers, Recurrent, flat
from lwcore.signatures import require


class Loop(Recurrent):
    """A network that calls one module once a step: what it gives is its state in the next call."""

    def _recurrence(self, copied: Any, calls: list[Call]) -> Any:
        kind = {nn.LSTMCell: nn.LSTM, nn.GRUCell: nn.GRU, nn.RNNCell: nn.RNN}.get(type(copied))
        if kind is None:
            return Stepped(copied, calls[0].leaves)
        options = {"nonlinearity": copied.nonlinearity} if kind is nn.RNN else {}
        layer = kind(copied.input_size, copied.hidden_size, bias=copied.bias, **options).double()
        layer.load_state_dict({f"{name}_l0": p for name, p in copied.state_dict().items()})
        return Layers(layer.requires_grad_(False))

    def _taken(self, calls: list[Call]) -> tuple[Tensor, Tensor, Tensor]:
        plain = all(isinstance(call.read, Tensor) and call.read.ndim == 2 for call in calls)
        plain &= len(calls) > 1 and _chained(calls)
        words = (
            "called once a step with inputs (B, D) and the state that it gave in the step before"
        )
        require("step", self.called, plain, words)
        read = torch.stack([call.read.detach() for call in calls], 1).cpu().double()
        states = self._in_states(calls, [x for call in calls for x in flat(call.leaves)])
        initial = read.new_zeros(len(read), self.recurrence.state_size)
        if calls[0].state is not None:
            initial = torch.cat([part.flatten(1) for part in flat(calls[0].state)], 1)
        states = states.detach().cpu().double()[..., self.recurrence.shown]
        return read, initial.detach().cpu().double(), states

    def _in_states(self, calls: list[Call], found: Sequence[Tensor]) -> Tensor:
        parts = iter(found)
        steps = ([next(parts).flatten(1) for _ in flat(call.leaves)] for call in calls)
        return torch.stack([torch.cat(step, 1) for step in steps], 1)


class Stepped(nn.Module):
    """A module ``(x, state) -> state`` as a step of one vector, of all parts of its state."""

    def __init__(self, module: nn.Module, state: Any) -> None:
        """A step from a module and a state that it gave."""
        super().__init__()
        self.module, self.many = module, isinstance(state, tuple)
        self.shapes = [part.shape[1:] for part in flat(state)]
        self.sizes = [shape.numel() for shape in self.shapes]
        self.state_size, self.shown, self.carried = sum(self.sizes), slice(None), slice(None)

    def step(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Tensor:
        """One step."""
        rows = state.reshape(-1, self.state_size).split(self.sizes, 1)
        parts = tuple(row.unflatten(1, shape) for row, shape in zip(rows, self.shapes, strict=True))
        after = self.module(x.reshape(-1, x.shape[-1]), parts if self.many else parts[0])
        return torch.cat([part.flatten(1) for part in flat(after)], 1).reshape(state.shape)


def step_of(model: nn.Module, inputs: Tensor) -> nn.Module | None:
    """The one module that a model calls in a loop with what it gave in the call before, if any."""
    calls: dict[nn.Module, list[Call]] = {}

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> None:
        read, state, *_ = *given, *named.values(), None, None
        calls.setdefault(module, []).append(Call(read, state, returned))

    weight = next(model.parameters())
    dtype = weight.dtype if inputs.is_floating_point() else None
    inside = [part for part in model.modules() if part is not model and [*part.parameters()]]
    hooks = [part.register_forward_hook(note, with_kwargs=True) for part in inside]
    try:
        with torch.no_grad():
            model(inputs.to(weight.device, dtype))
    finally:
        for hook in hooks:
            hook.remove()
    loops = [part for part, made in calls.items() if len(made) > 1 and _chained(made)]
    outer = [part for part in loops if not any(part in {*one.modules()} - {one} for one in loops)]
    return outer[0] if len(outer) == 1 else None


def _chained(calls: Sequence[Call]) -> bool:
    """Whether each call starts from the state that the one before gave."""
    for before, after in itertools.pairwise(calls):
        given, taken = flat(before.leaves), flat(after.state)
        same = len(given) == len(taken) > 0 and isinstance(after.read, Tensor)
        if not (same and all(map(torch.equal, given, taken))):
            return False
    return True
