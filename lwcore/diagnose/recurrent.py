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
from torch.nn.utils import parametrize
from torch.utils import _pytree as trees

from lwcore.cells import GRU, LSTM, Cell
from lwcore.diagnose.contract import Rows
from lwcore.diagnose.losses import Objective, close_for
from lwcore.diagnose.passes import TRIED, ZEROS, Passes
from lwcore.diagnose.route import FOLLOWED, Bands, Route
from lwcore.diagnose.tape import tensors_in
from lwcore.gradient import carry_back, first_loss
from lwcore.signatures import require
from lwcore.trace import Trace

_STEPS = 1024  # whose derivatives in the parameters are taken at once


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
        return _joined(after).reshape(state.shape)


def _joined(state: Any) -> Tensor:
    """Return all parts of a state as one vector of each sequence."""
    return torch.cat([part.flatten(1) for part in tensors_in(state)], 1)


class _Reading(NamedTuple):
    """Sequences by their trace, and ``δ_t = ∂E/∂s_t``, states apart."""

    trace: Trace
    delta: Float[Tensor, "B T S"]

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""
        return first_loss(self.delta) if self.delta.any() else -1

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector."""
        return self._whole().sum(0)

    def band_vectors(self, bands: Bands) -> Float[Tensor, "bands P"]:
        """Return each band's part of the gradient, summed over sequences, as one vector."""
        trace = self.trace
        vectors: list[Any] = [0] * len(bands)
        for band, lag, start, rows in self._transported(bands):
            steps = slice(start, trace.length - lag)
            step = trace.stepped(trace.inputs[:, steps], trace.previous[:, steps])
            parts = vjp(step, trace.parameters)[1](rows)[0]
            vectors[band] += torch.cat([part.flatten() for part in parts.values()])
        return torch.stack(vectors)

    def band_numbers(
        self, directions: Float[Tensor, "bands P"], bands: Bands
    ) -> Float[Tensor, "2 bands B"]:
        """Return each sequence's part of each band along its direction, and the whole along it."""
        along: list[Any] = [0] * len(bands)
        for band, _, start, rows in self._transported(bands):
            along[band] += self._each(rows, start) @ directions[band]
        return torch.stack([torch.stack(along), directions @ self._whole().mT])

    def _transported(self, bands: Bands) -> Iterator[tuple[int, int, int, Tensor]]:
        """Yield δ carried back by each lag: the band, the lag, the first step, and the rows."""
        band_of: dict[int, int] = {}
        for place, band in enumerate(bands):
            band_of |= dict.fromkeys(band, place)
        first = max(self.first, 0)
        for lag, rows in carry_back(self.trace, self.delta, sorted(band_of), first):
            yield band_of[lag], lag, max(first - lag, 0), rows

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

    `module` is PyTorch's or a cell of `lwcore.cells`; it is found if there is one. Of its calls are
    kept what it read, the state it started from, and what it gave, as leaves, where the
    predictions' graph ends.
    """

    route = "recurrence"

    def __init__(
        self, passes: Passes, objective: Objective, module: nn.Module | None = None
    ) -> None:
        """Take the module out of a first pass; refuse a model that is not this one recurrence."""
        self.module: Any = module
        super().__init__(passes, objective)
        self.exact = close_for(passes.model)
        self.ends_drawn = self.data.length
        _, calls = self._called(self.data.inputs[torch.arange(3)])
        found: Any = self.module  # by `_chosen`, if none was named
        copied: Any = copy.deepcopy(found).cpu().double().requires_grad_(False)
        self.recurrence = self._recurrence(copied, calls)
        read, initial = self._taken(calls)
        name = type(found).__name__
        self.kind = f"{name}, {initial[0, self.recurrence.carried].numel():,} neurons"
        n_parameters = sum(part.numel() for part in self.chosen.values())
        n_states = read.shape[1] * self.recurrence.state_size
        self.limit_batch(max(n_states, n_parameters, passes.outputs.entries))
        is_fit = self._reads_own_steps() and self._is_alone() and self._is_read_out_at_once()
        words = (
            "a recurrence that reads step k of the inputs at its step k, and of which all else is "
            "within a step: name its parameters in `parameters`, to read it by their uses"
        )
        require("step", name, is_fit, words)

    def _chosen(self) -> dict[str, Tensor]:
        if self.module is None:
            found = recurrent_modules(self.passes.model)
            words = "one nn.LSTM, GRU, RNN or cell"
            require("recurrent modules of model", len(found), len(found) == 1, words)
            (self.module,) = found
        options = vars(self.module)
        has_more = bool(options.get("bidirectional") or options.get("proj_size"))
        is_made_anew = parametrize.is_parametrized(self.module) or not _owns_weights(self.module)
        words = (
            "of one direction of time, without projections, and all its weights parameters that "
            "are learned (name those that are in `parameters`, to read them by their uses)"
        )
        is_plain = not has_more and not is_made_anew and learned(self.module)
        require("recurrent module", self.module, is_plain, words)
        self.time_axis = 1 if options.get("batch_first", True) else 0
        return dict(self.module.named_parameters())

    def _called(self, inputs: Rows) -> tuple[Tensor, list[ModuleCall]]:
        """Return predictions, and the module's calls, with leaves for what they gave."""
        with recorded([self.module]) as calls:
            return self.passes.predictions(inputs), calls.get(self.module, [])

    def _recurrence(self, copied: Any, _: list[ModuleCall]) -> Any:
        """Return the module as the core's own, from its copy in float64."""
        return Layers(copied) if isinstance(copied, nn.RNNBase) else copied

    def _taken(self, calls: list[ModuleCall]) -> tuple[Tensor, Tensor]:
        """Return what the module read, (B, T, D), and its first state, (B, S), in float64."""
        read: Any = calls[0].read if len(calls) == 1 else None
        is_plain = isinstance(read, Tensor) and read.ndim == 3
        words = "of its recurrent module, with a tensor of three axes"
        require("calls in a pass", len(calls), is_plain, f"one {words}")
        state = calls[0].state
        inputs = read.detach().cpu().double().movedim(self.time_axis, 1)
        if state is None:
            return inputs, inputs.new_zeros(len(inputs), self.recurrence.state_size)
        # parts (layers, B, H), of a cell (B, H), side by side as in `Layers`
        parts = [part if part.ndim == 3 else part[None] for part in tensors_in(state)]
        initial = torch.stack(parts, dim=1).permute(2, 0, 1, 3).flatten(1)
        return inputs, initial.detach().cpu().to(inputs)

    def _state_gradients(self, by_call: list[list[Tensor]]) -> Tensor:
        """Return gradients in what each call gave as gradients in states, (B, T, S)."""
        ((outputs, *last),) = by_call
        steps = outputs.movedim(self.time_axis, 1)
        places = torch.arange(self.recurrence.state_size)
        shown = places[self.recurrence.shown]
        carried = places[self.recurrence.carried]
        delta = steps.new_zeros(*steps.shape[:2], self.recurrence.state_size)
        delta[..., shown[-outputs.shape[-1] :]] = steps
        for part, where in zip(last, (shown, carried), strict=False):  # h, c of every layer
            delta[:, -1, where] += part.transpose(0, 1).flatten(1)
        return delta

    def _delta(self, calls: list[ModuleCall], number: Tensor) -> Tensor:
        """Return a number's gradients in the states that the module gave, (B, T, S), in float64."""
        given = tensors_in([call.given for call in calls])
        require("predictions", "without a gradient", number.requires_grad, FOLLOWED)
        found = torch.autograd.grad(number, given, retain_graph=True, **ZEROS)
        n_parts = len(given) // len(calls)  # h and c of an LSTM, say
        gradients = [part.cpu().double() for part in found]
        by_call = []
        for place in range(0, len(gradients), n_parts):
            by_call.append(gradients[place : place + n_parts])
        return self._state_gradients(by_call)

    def read(self, inputs: Rows, targets: Rows) -> _Reading:
        """Return the trace of sequences, and each one's δ."""
        with torch.enable_grad():
            predictions, calls = self._called(inputs)
            total = self.objective.of(predictions, targets).sum()
        words = "one of what the recurrent module gives"
        require("loss", self.objective.name, total.requires_grad, words)
        trace = Trace.scan(self.recurrence, *self._taken(calls))
        return _Reading(trace, self._delta(calls, total))

    def check(self) -> None:
        """Refuse a recurrence whose lags together are not the gradient."""
        self.check_sums()

    def check_linear(self) -> None:
        """Nothing: the gradient is taken by Eq. (3), and goes through no hook of the reader's."""

    # Whether it is a recurrence of which all else is within a step

    def _reads_own_steps(self) -> bool:
        """Say whether step k of the module reads the inputs of step k alone."""
        length = self.data.length

        def reads(inputs: Rows) -> list[Tensor]:
            with torch.no_grad():
                _, calls = self._called(inputs)
                return [self._taken(calls)[0]]

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

    def _recurrence(self, copied: Any, calls: list[ModuleCall]) -> Any:
        kind = {nn.LSTMCell: nn.LSTM, nn.GRUCell: nn.GRU, nn.RNNCell: nn.RNN}.get(type(copied))
        if kind is None:
            return Stepped(copied, calls[0].given if calls else None)
        options = {"nonlinearity": copied.nonlinearity} if kind is nn.RNN else {}
        # made without parameters, which would be drawn from PyTorch's own generator
        sizes = copied.input_size, copied.hidden_size
        layer = kind(*sizes, bias=copied.bias, device="meta", **options)
        layer = layer.to_empty(device="cpu").double()
        layer.load_state_dict({f"{name}_l0": part for name, part in copied.state_dict().items()})
        return Layers(layer.requires_grad_(False))

    def _taken(self, calls: list[ModuleCall]) -> tuple[Tensor, Tensor]:
        is_plain = _is_chain(calls)
        for call in calls:
            is_plain = is_plain and call.read.ndim == 2 and not call.more
        for part in tensors_in(calls[0].given) if is_plain else []:
            is_plain = is_plain and part.is_floating_point()
        words = (
            "called once a step with inputs (B, D), the state that it gave a step before, of real "
            "numbers, and nothing else: name its parameters in `parameters`, to read it by uses"
        )
        require("step", type(self.module).__name__, is_plain, words)
        read = torch.stack([call.read.detach() for call in calls], 1).cpu().double()
        if calls[0].state is None:
            return read, read.new_zeros(len(read), self.recurrence.state_size)
        return read, _joined(calls[0].state).detach().cpu().to(read)

    def _state_gradients(self, by_call: list[list[Tensor]]) -> Tensor:
        return torch.stack([_joined(parts) for parts in by_call], 1)


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


def _owns_weights(module: nn.Module) -> bool:
    """Say whether all weights that one of PyTorch's layers takes are its own parameters."""
    names = getattr(module, "_flat_weights_names", None)
    own = dict(module.named_parameters(recurse=False))
    return names is None or {*names} == {*own}


def learned(module: nn.Module) -> bool:
    """Say whether a module has parameters, and none of them is frozen."""
    parameters = [*module.parameters()]
    return bool(parameters) and all(part.requires_grad for part in parameters)


def recurrent_modules(model: nn.Module) -> list[nn.Module]:
    """Return PyTorch's recurrent layers and cells of `lwcore.cells` in a model that are learned."""
    found: list[nn.Module] = []
    for part in model.modules():
        if isinstance(part, nn.RNNBase | Cell) and learned(part):
            found.append(part)
    return found


def step_of(passes: Passes) -> nn.Module | None:
    """Return the one module that a model calls in a loop with what it gave before, if any."""
    inside = [part for part in [*passes.model.modules()][1:] if learned(part)]
    with torch.no_grad(), recorded(inside) as calls:
        passes.given(passes.data.inputs[passes.exchange.some(TRIED)])
    loops = []
    within_loops: set[nn.Module] = set()
    for part, own in calls.items():
        if _is_chain(own):
            loops.append(part)
            for child in part.children():
                within_loops.update(child.modules())
    outer = [part for part in loops if part not in within_loops]
    return outer[0] if len(outer) == 1 else None


def _is_chain(calls: Sequence[ModuleCall]) -> bool:
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
