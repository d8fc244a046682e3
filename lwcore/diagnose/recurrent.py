"""One recurrence as the core sees it: a module called once in a pass, or once in every step.

A hook cuts the graph behind the module, where the gradient of a loss ends; from there on everything
is read off a `lwcore.trace.Trace` in float64.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import vjp
from torch.utils import _pytree as trees

from lwcore.cells import GRU, LSTM, Cell
from lwcore.diagnose.contract import Rows
from lwcore.diagnose.losses import Objective, close_for
from lwcore.diagnose.passes import TRIED, ZEROS, Passes
from lwcore.diagnose.route import FOLLOWED, Route
from lwcore.diagnose.tape import tensors_in
from lwcore.gradient import carry_back, first_loss
from lwcore.signatures import require
from lwcore.trace import Trace

_STEPS = 1024  # whose derivatives in the parameters are taken at once
_ONE = (
    "one recurrence: called once a step with inputs (B, D), the state that it gave a step before, "
    "of real numbers, and nothing else; it reads step k of the inputs at its step k, all its "
    "weights are learned, and all else is within a step. Name its parameters in `parameters`, to "
    "read it by their uses"
)


class Layers(nn.Module):
    """A stack of PyTorch's recurrent layers as one step of one state, in float64.

    The state is all layers' side by side, (h¹, h², …), of an LSTM (h¹, c¹, h², c², …). Inside a
    step a layer reads what the one below has just written, so that one-step Jacobians hold all
    paths through time and layers. Of the outputs, h of all layers, the last H are the module's.
    """

    def __init__(self, module: Any) -> None:
        """Take the parameters of a module of one direction and without projections."""
        super().__init__()
        for name, parameter in module.named_parameters():
            self.register_parameter(name, parameter)
        self.cell: Any = getattr(torch, f"{module.mode.lower()}_cell")
        self.layers = module.num_layers
        self.parts = 2 if module.mode == "LSTM" else 1  # of a layer's state, (h, c)
        self.state_size = self.layers * self.parts * module.hidden_size
        places = torch.arange(self.state_size).unflatten(0, (self.layers, self.parts, -1))
        self.shown = places[:, 0].flatten()  # h
        self.carried = places[:, -1].flatten()  # c of an LSTM
        family: Any = {"LSTM": LSTM, "GRU": GRU}.get(module.mode)
        if self.layers == 1 and family is not None:  # the same step, with its derivative
            self.closed_form = family.from_torch(module).requires_grad_(False).closed_form

    def step(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Tensor:
        """Take one step through all layers, each by PyTorch's own function."""
        x = x.reshape(-1, x.shape[-1])
        before = state.reshape(len(x), self.layers, self.parts, -1)
        after: list[Tensor] = []
        for layer, past in enumerate(before.unbind(1)):
            names = [f"weight_ih_l{layer}", f"weight_hh_l{layer}"]
            names += [f"bias_ih_l{layer}", f"bias_hh_l{layer}"]
            weights = [getattr(self, name, None) for name in names]
            own = past.unbind(1) if self.parts > 1 else past[:, 0]
            new = tensors_in(self.cell(x, own, *weights))
            after += new
            x = new[0]  # the layer's h, which the next one reads
        return torch.cat(after, dim=-1).reshape(state.shape)


class Stepped(nn.Module):
    """A module ``(x, state) -> state`` as a step of one vector, of all parts of its state."""

    def __init__(self, module: nn.Module, state: Any) -> None:
        """Take a module, and a state that it gave."""
        super().__init__()
        self.module = module
        self.is_tuple = isinstance(state, tuple)
        self.shapes = [part.shape[1:] for part in tensors_in(state)]
        self.sizes = [shape.numel() for shape in self.shapes]
        self.state_size = sum(self.sizes)
        self.shown = self.carried = slice(None)

    def step(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Tensor:
        """Take one step."""
        rows = state.reshape(-1, self.state_size).split(self.sizes, 1)
        pairs = zip(rows, self.shapes, strict=True)
        parts = tuple(row.unflatten(1, shape) for row, shape in pairs)
        after = self.module(x.reshape(-1, x.shape[-1]), parts if self.is_tuple else parts[0])
        joined = torch.cat([part.flatten(1) for part in tensors_in(after)], 1)
        return joined.reshape(state.shape)


class _Reading(NamedTuple):
    """Sequences by their trace, and ``δ_t = ∂E/∂s_t``, states apart."""

    trace: Trace
    delta: Float[Tensor, "B T S"]

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector."""
        return self._whole().sum(0)

    def lag_vectors(self, lags: Sequence[int]) -> Float[Tensor, "lags P"]:
        """Return each lag's part of the gradient, summed over sequences, as one vector."""
        trace = self.trace
        vectors = []
        for start, rows in self._carried_back(lags):
            steps = slice(start, start + rows.shape[1])
            step = trace.stepped(trace.inputs[:, steps], trace.previous[:, steps])
            (parts,) = vjp(step, trace.parameters)[1](rows)
            vectors.append(torch.cat([part.flatten() for part in parts.values()]))
        return torch.stack(vectors)

    def lag_numbers(
        self, directions: Float[Tensor, "lags P"], lags: Sequence[int]
    ) -> Float[Tensor, "2 lags B"]:
        """Return each sequence's part of each lag along its direction, and the whole along it."""
        along = []
        for direction, (start, rows) in zip(directions, self._carried_back(lags), strict=True):
            along.append(self._each(rows, start) @ direction)
        return torch.stack([torch.stack(along), directions @ self._whole().mT])

    def _carried_back(self, lags: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield δ carried back by each lag: the first step that it reaches, and the rows."""
        first = first_loss(self.delta)
        for lag, rows in carry_back(self.trace, self.delta, lags, first):
            yield max(first - lag, 0), rows

    def _whole(self) -> Float[Tensor, "B P"]:
        """Return every sequence's gradient."""
        return self._each(self.trace.backpropagate(self.delta), 0)

    def _each(self, rows: Tensor, start: int) -> Float[Tensor, "B P"]:
        """Return every sequence's gradient from some steps on, a part of them at a time."""
        total: Any = 0
        for part in rows.split(_STEPS, 1):
            total += self.trace.gathered_each(part, slice(start, start + part.shape[1]))
            start += part.shape[1]
        return total


class ModuleCall(NamedTuple):
    """A call of a module: what it read, the state it started from, what else it took, and gave."""

    read: Any
    state: Any
    more: list[Any]
    given: Any


class Recurrent(Route):
    """A network with one recurrent module, called once: a `recurrence` for the core, and traces.

    The module is PyTorch's or a cell of `lwcore.cells`. Of its calls are kept what it read, the
    state it started from, and what it gave, as leaves, where the predictions' graph ends.
    """

    route = "recurrence"

    def __init__(self, passes: Passes, objective: Objective, module: nn.Module) -> None:
        """Take the calls of a first pass; refuse a model that is not this one recurrence."""
        self.module = module
        super().__init__(passes, objective)
        self.exact = close_for(passes.model)
        self.ends_drawn = self.data.length
        _, calls = self._called(self.data.inputs[torch.arange(3)])
        self._require(self._is_plain(calls))
        copied = copy.deepcopy(module).cpu().double().requires_grad_(False)
        self.recurrence = self._recurrence(copied, calls)
        initial = self._initial(calls, 1)
        self.kind = (
            f"{type(module).__name__}, {initial[0, self.recurrence.carried].numel():,} neurons"
        )
        n_parameters = sum(part.numel() for part in self.chosen.values())
        n_states = self.data.length * self.recurrence.state_size
        self.limit_batch(max(n_states, n_parameters, passes.shape.numel()))
        self._require(self._reads_own_steps() and self._is_alone() and self._is_read_out_at_once())

    def _require(self, is_fit: bool) -> None:
        """Refuse a model that is not one recurrence."""
        require("step", type(self.module).__name__, is_fit, _ONE)

    def _chosen(self) -> dict[str, Tensor]:
        options = vars(self.module)
        has_more = bool(options.get("bidirectional") or options.get("proj_size"))
        own: dict[str, Tensor] = dict(self.module.named_parameters())
        weights = options.get("_flat_weights_names", own)  # of PyTorch's layers, some made anew
        self._require(not has_more and {*weights} == {*own} and learned(self.module))
        self.time_axis = 1 if options.get("batch_first", True) else 0
        return own

    def _called(self, inputs: Rows) -> tuple[Tensor, list[ModuleCall]]:
        """Return predictions, and the module's calls, with leaves for what they gave."""
        with recorded([self.module]) as calls:
            return self.passes.predictions(inputs), calls.get(self.module, [])

    def _is_plain(self, calls: list[ModuleCall]) -> bool:
        """Say whether the module is called in the one way that is read."""
        read = calls[0].read if len(calls) == 1 else None
        return isinstance(read, Tensor) and read.ndim == 3

    def _recurrence(self, copied: Any, _: list[ModuleCall]) -> Any:
        """Return the module as the core's own, from its copy in float64."""
        return Layers(copied) if isinstance(copied, nn.RNNBase) else copied

    def _read(self, calls: list[ModuleCall]) -> Tensor:
        """Return what the module read, (B, T, D), in float64."""
        return calls[0].read.detach().cpu().double().movedim(self.time_axis, 1)

    def _initial(self, calls: list[ModuleCall], count: int) -> Tensor:
        """Return the states that it started from, (B, S), in float64."""
        state = calls[0].state
        if state is None:
            return torch.zeros(count, self.recurrence.state_size, dtype=torch.float64)
        return self._state(tensors_in(state)).detach().cpu().double()

    def _state(self, parts: list[Tensor]) -> Tensor:
        """Return a state in parts, (layers, B, H) or (B, H), as one vector of each sequence."""
        by_layer = [part if part.ndim == 3 else part[None] for part in parts]
        return torch.stack(by_layer, dim=1).permute(2, 0, 1, 3).flatten(1)

    def _state_gradients(self, by_call: list[list[Tensor]]) -> Tensor:
        """Return gradients in what each call gave as gradients in states, (B, T, S)."""
        ((outputs, *last),) = by_call
        steps = outputs.movedim(self.time_axis, 1)
        places = torch.arange(self.recurrence.state_size)
        shown = places[self.recurrence.shown]
        delta = steps.new_zeros(*steps.shape[:2], len(places))
        delta[..., shown[-outputs.shape[-1] :]] = steps
        if last:
            delta[:, -1] += self._state(last)
        return delta

    def _delta(self, calls: list[ModuleCall], number: Tensor) -> Tensor:
        """Return a number's gradients in the states that the module gave, (B, T, S), in float64."""
        given = tensors_in([call.given for call in calls])
        require("predictions", "without a gradient", number.requires_grad, FOLLOWED)
        found = torch.autograd.grad(number, given, retain_graph=True, **ZEROS)
        gradients = [part.cpu().double() for part in found]
        n_parts = len(given) // len(calls)  # h and c of an LSTM, say
        starts = range(0, len(gradients), n_parts)
        return self._state_gradients([gradients[place : place + n_parts] for place in starts])

    def read(self, inputs: Rows, targets: Rows) -> _Reading:
        """Return the trace of sequences, and each one's δ."""
        with torch.enable_grad():
            predictions, calls = self._called(inputs)
            total = self.objective.of(predictions, targets).sum()
        trace = Trace.scan(self.recurrence, self._read(calls), self._initial(calls, len(inputs)))
        return _Reading(trace, self._delta(calls, total))

    # Whether it is a recurrence of which all else is within a step

    def _reads_own_steps(self) -> bool:
        """Say whether step k of the module reads the inputs of step k alone."""
        length = self.data.length

        def reads(inputs: Rows) -> list[Tensor]:
            with torch.no_grad():
                _, calls = self._called(inputs)
                return [self._read(calls)]

        (times,) = self.passes.exchange.times(reads, self.passes.at_once)
        is_moved = times.last >= 0
        if len(is_moved) != length or not is_moved.any(1).all():
            return False
        is_own = (times.first == times.last) & (times.last == np.arange(length)[:, None])
        return bool(is_own[is_moved].all())

    def _is_alone(self) -> bool:
        """Say whether no prediction sees earlier inputs where the module always gives the same."""

        def beside(inputs: Rows) -> list[Tensor]:
            with constant(self.module):
                return [self.passes.alone(inputs)]

        (times,) = self.passes.exchange.times(beside, self.passes.at_once)
        is_earlier = (times.last >= 0) & (times.first < self.passes.ends.numpy())
        return not is_earlier.any()

    def _is_read_out_at_once(self) -> bool:
        """Say whether predictions are made of the module's state at their own step alone.

        One prediction may be read out in each sequence at a step of its own, as behind padding:
        Eq. (3) counts from the step of the state.
        """
        ends = self.passes.ends
        known = sorted({*ends.tolist()} - {-1})
        with torch.enable_grad():
            predictions, calls = self._called(self.data.inputs[self.passes.exchange.some(TRIED)])
            for end in {known[0], known[-1]}:
                made_there = predictions[:, ends == end]
                delta = self._delta(calls, made_there.pow(3).sum())  # that no norm fixes
                is_used = delta.ne(0).any(-1)
                if len(known) > 1:
                    is_used[:, end] = False
                if int(is_used.sum(1).max()) > (len(known) == 1):
                    return False
        return True


class Loop(Recurrent):
    """A network that calls one module once a step: what it gives is its state in the next call."""

    def _is_plain(self, calls: list[ModuleCall]) -> bool:
        given = tensors_in([call.given for call in calls])
        is_plain = is_chain(calls) and all(part.is_floating_point() for part in given)
        return is_plain and all(call.read.ndim == 2 and not call.more for call in calls)

    def _recurrence(self, copied: Any, calls: list[ModuleCall]) -> Any:
        kind = {nn.LSTMCell: nn.LSTM, nn.GRUCell: nn.GRU, nn.RNNCell: nn.RNN}.get(type(copied))
        if kind is None:
            return Stepped(copied, calls[0].given)
        options = {"nonlinearity": copied.nonlinearity} if kind is nn.RNN else {}
        # made without parameters, which would be drawn from PyTorch's own generator
        sizes = copied.input_size, copied.hidden_size
        layer = kind(*sizes, bias=copied.bias, device="meta", **options)
        layer = layer.to_empty(device="cpu").double()
        layer.load_state_dict({f"{name}_l0": part for name, part in copied.state_dict().items()})
        return Layers(layer.requires_grad_(False))

    def _read(self, calls: list[ModuleCall]) -> Tensor:
        return torch.stack([call.read.detach() for call in calls], 1).cpu().double()

    def _state(self, parts: list[Tensor]) -> Tensor:
        return torch.cat([part.flatten(1) for part in parts], 1)

    def _state_gradients(self, by_call: list[list[Tensor]]) -> Tensor:
        return torch.stack([self._state(parts) for parts in by_call], 1)


@contextmanager
def recorded(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, list[ModuleCall]]]:
    """Record the calls of some modules for a while; graphs begin at what they give."""
    calls: dict[nn.Module, list[ModuleCall]] = {}

    def leaf(part: Tensor) -> Tensor:
        return part.detach().requires_grad_(part.is_floating_point())

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
        read, state, *more = *given, *named.values(), None, None
        more = [part for part in more if part is not None]
        call = ModuleCall(read, state, more, trees.tree_map_only(Tensor, leaf, returned))
        calls.setdefault(module, []).append(call)
        return call.given

    with ExitStack() as after:
        for module in modules:
            after.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        yield calls


@contextmanager
def constant(module: nn.Module) -> Iterator[None]:
    """Have a module give the same for all sequences and steps: other numbers in each feature."""

    def same(part: Tensor) -> Tensor:
        if part.ndim < 2:
            return torch.zeros_like(part)
        features = torch.linspace(-0.5, 0.5, part.shape[-1])
        return features.to(part).expand(part.shape)

    def hook(_: Any, __: Any, given: Any) -> Any:
        return trees.tree_map_only(Tensor, same, given)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def learned(module: nn.Module) -> bool:
    """Say whether a module has parameters, and none of them is frozen."""
    parameters = [*module.parameters()]
    return bool(parameters) and all(part.requires_grad for part in parameters)


def the_recurrence(passes: Passes, objective: Objective) -> Recurrent:
    """Return a model as one recurrence; refuse one that is none.

    Of PyTorch's recurrent layers and the cells of `lwcore.cells` it has one, or it calls one module
    in a loop, each time with what it gave before.
    """
    inside = [part for part in passes.model.modules() if learned(part)]
    layers = [part for part in inside if isinstance(part, nn.RNNBase | Cell)]
    if len(layers) == 1:
        return Recurrent(passes, objective, layers[0])
    looped = [part for part in inside if part is not passes.model]
    with torch.no_grad(), recorded(looped) as calls:
        passes.given(passes.data.inputs[passes.exchange.some(TRIED)])
    loops = [part for part, own in calls.items() if is_chain(own)]
    within_loops: set[nn.Module] = set()
    for part in loops:
        within_loops.update([*part.modules()][1:])
    outer = [part for part in loops if part not in within_loops]
    require("model", passes.name, len(outer) == 1, _ONE)
    return Loop(passes, objective, outer[0])


def is_chain(calls: Sequence[ModuleCall]) -> bool:
    """Say whether there are several calls, each from the state that the one before gave."""
    if len(calls) < 2 or not isinstance(calls[0].read, Tensor):
        return False
    for before, after in itertools.pairwise(calls):
        given = tensors_in(before.given)
        state = tensors_in(after.state)
        is_same = len(given) == len(state) > 0 and all(map(torch.equal, given, state))
        if not is_same or not isinstance(after.read, Tensor):
            return False
    return True
