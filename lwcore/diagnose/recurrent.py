"""One recurrence as the core sees it: a module that is called once in every step.

Of PyTorch's layers and of the cells of `lwcore.cells`, which take all steps in one call, a step is
called in their place. What it gives is cut out of the graph: there the gradient of a loss ends, and
from there on everything is read off a `lwcore.trace.Trace` in float64.
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
from torch.utils import _pytree as trees

from lwcore import gradient
from lwcore.cells import Cell
from lwcore.diagnose.contract import Rows
from lwcore.diagnose.losses import Objective, close_for
from lwcore.diagnose.passes import TRIED, ZEROS, Passes
from lwcore.diagnose.route import FOLLOWED, Route
from lwcore.diagnose.tape import scan_layers, step_through, tensors_in
from lwcore.signatures import require
from lwcore.trace import Trace

_ONE = (
    "one recurrence: called once a step with inputs (B, D), the state that it gave a step before, "
    "of real numbers, and nothing else; it reads step k of the inputs at its step k, all its "
    "weights are learned, and all else is within a step. Name its parameters in `parameters`, to "
    "read it by their uses"
)
_MOST_ENDS = 16  # steps of which it is looked at what predictions are made of


class Layers(nn.Module):
    """Recurrent layers of PyTorch's, or a cell of `lwcore.cells`, a step a call.

    That is ``(x, states) -> states``. Inside a step a layer reads what the one below has just
    written, so that one-step Jacobians hold all paths through time and layers.
    """

    def __init__(self, module: Any) -> None:
        """Take a cell, or a module of one direction and without projections."""
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, states: Sequence[Sequence[Tensor]]) -> list[Any]:
        """Take one step; a layer's state is (h,), or (h, c) of an LSTM."""
        own = self.module
        if isinstance(own, Cell):
            return [(own.step(x, states[0][0]),)]
        return step_through(getattr(torch, f"{own.mode.lower()}_cell"), own.all_weights, x, states)

    def scan(self, inputs: Tensor, state: Any = None) -> Any:
        """Return what the module returns for all steps."""
        own = self.module
        if isinstance(own, Cell):
            first = inputs.new_zeros(1, len(inputs), own.state_size)
            return scan_layers(self, inputs, [first], 1)[0][..., own.shown]
        axis = int(own.batch_first)
        parts = tensors_in(state)
        if state is None:
            shape = own.num_layers, inputs.shape[1 - axis], own.hidden_size
            parts = [inputs.new_zeros(shape)] * (2 if own.mode == "LSTM" else 1)
        shown, *last = scan_layers(self, inputs, parts, axis)
        return shown, tuple(last) if len(last) > 1 else last[0]


class Stepped(nn.Module):
    """A module ``(x, state) -> state`` as a step of one vector, of all parts of its state."""

    def __init__(self, module: nn.Module, state: Any) -> None:
        """Take a module, and a state that it gave."""
        super().__init__()
        self.module = module
        parts, self.spec = trees.tree_flatten(state)
        self.shapes = [part.shape[1:] for part in parts]
        self.sizes = [shape.numel() for shape in self.shapes]
        self.state_size = sum(self.sizes)
        self.shown = self.carried = slice(None)

    def step(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Tensor:
        """Take one step."""
        rows = state.reshape(-1, self.state_size).split(self.sizes, 1)
        pairs = zip(rows, self.shapes, strict=True)
        parts = [row.unflatten(1, shape) for row, shape in pairs]
        after = self.module(x.reshape(-1, x.shape[-1]), trees.tree_unflatten(parts, self.spec))
        return _joined(tensors_in(after)).reshape(state.shape)


def as_steps(module: nn.Module, state: Any) -> Stepped:
    """Return a step of a module, `Layers` or a reader's own, in float64, from a state it gave."""
    return Stepped(copy.deepcopy(module).cpu().double().requires_grad_(False), state)


class _Reading(NamedTuple):
    """Sequences by their trace, and ``δ_t = ∂E/∂s_t``, states apart."""

    trace: Trace
    delta: Float[Tensor, "B T S"]

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector."""
        return self.trace.gathered_each(self.trace.backpropagate(self.delta)).sum(0)

    def lag_vectors(self, lags: Sequence[int]) -> Float[Tensor, "lags P"]:
        """Return each lag's part of the gradient, summed over sequences, as one vector."""
        return gradient.lag_vectors(self.trace, self.delta, lags)

    def lag_numbers(
        self, directions: Float[Tensor, "lags P"], lags: Sequence[int]
    ) -> Float[Tensor, "2 lags B"]:
        """Return each sequence's part of each lag along its direction, and the whole along it."""
        trace = self.trace
        first = gradient.first_loss(self.delta)
        along = []
        carried = gradient.carry_back(trace, self.delta, lags, first)
        for direction, (lag, rows) in zip(directions, carried, strict=True):
            start = max(first - lag, 0)
            each = trace.gathered_each(rows, slice(start, start + rows.shape[1]))
            along.append(each @ direction)
        whole = trace.gathered_each(trace.backpropagate(self.delta))
        return torch.stack([torch.stack(along), directions @ whole.mT])


class ModuleCall(NamedTuple):
    """A call of a module: what it took, inputs and the state before, and what it gave."""

    taken: list[Any]
    given: Any


class Recurrent(Route):
    """A network with one recurrence: a step for the core, and traces.

    Of the step's calls are kept what it read, the state it started from, and what it gave, as
    leaves, where the predictions' graph ends.
    """

    route = "recurrence"

    def __init__(self, passes: Passes, objective: Objective, module: nn.Module) -> None:
        """Take the calls of a first pass; refuse a model that is not this one recurrence."""
        self.module = module
        self.step: Any = module
        if isinstance(module, nn.RNNBase | Cell):
            self.step = Layers(module)
        super().__init__(passes, objective)
        self.exact = close_for(passes.model)
        self.ends_drawn = self.data.length
        _, calls = self._called(self.data.inputs[torch.arange(3)])
        self._require(is_chain(calls))
        given = calls[0].given
        for part in tensors_in(given):  # a state of each sequence, and of no other rows
            self._require(part.is_floating_point() and len(part) == 3)
        self.recurrence = as_steps(self.step, given)
        self.kind = type(module).__name__
        n_states = self.data.length * self.recurrence.state_size
        self.limit_batch(max(n_states, self.n_parameters))
        self._require(self._is_within_a_step() and self._is_read_out_at_once())

    def _require(self, is_fit: bool) -> None:
        """Refuse a model that is not one recurrence."""
        require("step", type(self.module).__name__, is_fit, _ONE)

    def _chosen(self) -> dict[str, Tensor]:
        options = vars(self.module)
        has_more = options.get("bidirectional") or options.get("proj_size")
        own = dict(self.module.named_parameters())
        weights = options.get("_flat_weights_names", own)  # of PyTorch's layers, some made anew
        self._require(not has_more and {*weights} == {*own} and learned(self.module))
        full = {part: name for name, part in self.passes.model.named_parameters()}
        return {full[part]: part for part in own.values()}

    def _called(self, inputs: Rows) -> tuple[Tensor, list[ModuleCall]]:
        """Return predictions, and the step's calls, with leaves for what they gave."""
        with ExitStack() as after:
            if self.step is not self.module:
                self.module.forward = self.step.scan
                after.callback(delattr, self.module, "forward")
            calls = after.enter_context(recorded([self.step]))
            return self.passes.predictions(inputs), calls.get(self.step, [])

    def _delta(self, calls: list[ModuleCall], number: Tensor) -> Tensor:
        """Return a number's gradients in the states that the step gave, (B, T, S), in float64."""
        require("predictions", "without a gradient", number.requires_grad, FOLLOWED)
        given = tensors_in([call.given for call in calls])
        gradients = iter(torch.autograd.grad(number, given, retain_graph=True, **ZEROS))
        states = []
        for call in calls:
            states.append(_joined([next(gradients) for _ in tensors_in(call.given)]))
        return torch.stack(states, 1).cpu().double()

    def read(self, inputs: Rows, targets: Rows) -> _Reading:
        """Return the trace of sequences, and each one's δ."""
        with torch.enable_grad():
            predictions, calls = self._called(inputs)
            total = self.objective.of(predictions, targets).sum()
        self._require(is_chain(calls))  # in these sequences, too
        initial = torch.zeros(len(inputs), self.recurrence.state_size, dtype=torch.float64)
        if len(calls[0].taken) > 1:
            initial = _joined(tensors_in(calls[0].taken[1])).detach().cpu().double()
        trace = Trace.scan(self.recurrence, _read(calls), initial)
        return _Reading(trace, self._delta(calls, total))

    def _is_within_a_step(self) -> bool:
        """Say whether the recurrence reads step k of the inputs at its step k, and all else, too.

        It is made to give the same always: then no prediction sees earlier inputs.
        """

        def run(inputs: Rows) -> list[Tensor]:
            with torch.no_grad(), self.step.register_forward_hook(_constant):
                predictions, calls = self._called(inputs)
            return [_read(calls), predictions]

        read, beside = self.passes.exchange.times(run, self.at_once)
        steps = np.arange(self.data.length)[:, None]
        if len(read.last) != len(steps) or not (read.last >= 0).any(1).all():
            return False
        is_own = (read.last < 0) | ((read.first == steps) & (read.last == steps))
        is_earlier = (beside.last >= 0) & (beside.first < self.passes.ends.numpy())
        return bool(is_own.all() and not is_earlier.any())

    def _is_read_out_at_once(self) -> bool:
        """Say whether predictions are made of the state at their own step alone.

        One prediction may be read out in each sequence at a step of its own, as behind padding:
        Eq. (3) counts from the step of the state.
        """
        known = self.passes.end_steps
        has_one = len(known) == 1
        with torch.enable_grad():
            places = self.passes.exchange.some(self.passes.at_once)
            predictions, calls = self._called(self.data.inputs[places])
            for end in known[:: -1 - len(known) // _MOST_ENDS]:  # the last one, and others
                made_there = predictions[:, self.passes.ends == end]
                delta = self._delta(calls, made_there.pow(3).sum())  # that no norm fixes
                is_used = delta.ne(0).any(-1)
                if not has_one:
                    is_used[:, end] = False
                if is_used.sum(1).max() > has_one:  # one state, or none but that of the end
                    return False
        return True


def _read(calls: list[ModuleCall]) -> Float[Tensor, "B T D"]:
    """Return what a step read, in float64."""
    return torch.stack([call.taken[0].detach() for call in calls], 1).cpu().double()


def _joined(parts: Iterable[Tensor]) -> Float[Tensor, "B S"]:
    """Return the parts of a state as one vector of each sequence."""
    return torch.cat([part.flatten(1) for part in parts], 1)


def _constant(_: Any, __: Any, given: Any) -> Any:
    """Return the same for all sequences and steps: other numbers in each feature."""

    def same(part: Tensor) -> Tensor:
        return torch.linspace(-0.5, 0.5, part.shape[-1]).to(part).expand(part.shape)

    return trees.tree_map_only(Tensor, same, given)


@contextmanager
def recorded(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, list[ModuleCall]]]:
    """Record the calls of some modules for a while; graphs begin at what they give."""
    calls: dict[nn.Module, list[ModuleCall]] = {}

    def leaf(part: Tensor) -> Tensor:
        return part.detach().requires_grad_(part.is_floating_point())

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
        taken = [part for part in (*given, *named.values()) if part is not None]
        call = ModuleCall(taken, trees.tree_map_only(Tensor, leaf, returned))
        calls.setdefault(module, []).append(call)
        return call.given

    with ExitStack() as after:
        for module in modules:
            after.enter_context(module.register_forward_hook(note, with_kwargs=True))
        yield calls


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
    loops = [part for part in looped if is_chain(calls.get(part, []))]
    is_one = bool(loops) and {*loops[0].modules()}.issuperset(loops)
    require("model", passes.name, is_one, _ONE)
    return Recurrent(passes, objective, loops[0])


def is_chain(calls: Sequence[ModuleCall]) -> bool:
    """Say whether there are several calls, each of inputs (B, D) and the state given before."""
    for before, after in itertools.pairwise(calls):
        given = tensors_in(before.given)
        state = tensors_in(after.taken[1:])
        is_same = len(given) == len(state) > 0 and all(map(torch.equal, given, state))
        if not is_same or len(before.taken) > 2 or len(after.taken) != 2:
            return False
    return len(calls) > 1 and all(getattr(call.taken[0], "ndim", 0) == 2 for call in calls)
