"""One recurrence as the core sees it: a module called once in a pass, or once in every step.

A hook cuts the graph behind the module, where the gradient of a loss ends; from there on everything
is read off a `lwcore.trace.Trace` in float64.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import vjp
from torch.nn.utils import parametrize
from torch.utils import _pytree as trees

from lwcore.ambient import placed
from lwcore.cells import GRU, LSTM, Cell
from lwcore.diagnose.adapter import ZEROS, Adapter, flat, followed
from lwcore.diagnose.times import rows_of
from lwcore.diagnose.trials import last_steps
from lwcore.gradient import first_loss, lag_vectors, transported
from lwcore.signatures import Lags, checked, require
from lwcore.trace import Trace

_STEPS = 1024  # whose derivatives in the parameters are taken at once


class Layers(nn.Module):
    """A stack of PyTorch's recurrent layers as one step of one state, in float64.

    The state is all layers' side by side, (h¹, h², …), of an LSTM (h¹, c¹, h², c², …). Inside a
    step a layer reads what the one below has just written, so that one-step Jacobians hold all
    paths through time and layers. Of the outputs, h of all layers, the last H are the module's.
    """

    def __init__(self, module: Any) -> None:
        """A stack with the parameters of a module of one direction and without projections."""
        super().__init__()
        for name, parameter in module.named_parameters():
            self.register_parameter(name, parameter)
        self.cell: Any = getattr(torch, f"{module.mode.lower()}_cell")
        self.layers, self.parts = module.num_layers, 2 if module.mode == "LSTM" else 1
        self.state_size = self.layers * self.parts * module.hidden_size
        places = torch.arange(self.state_size).unflatten(0, (self.layers, self.parts, -1))
        self.shown, self.carried = places[:, 0].flatten(), places[:, -1].flatten()
        family: Any = {"LSTM": LSTM, "GRU": GRU}.get(module.mode)
        if self.layers == 1 and family is not None:  # the same step, with its derivative
            self.closed_form = family.from_torch(module).requires_grad_(False).closed_form

    def step(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Tensor:
        """One step through all layers, each by PyTorch's own function."""
        after: list[Tensor] = []
        x = x.reshape(-1, x.shape[-1])
        before = state.reshape(len(x), self.layers, self.parts, -1)
        for layer, past in enumerate(before.unbind(1)):
            names = (f"{kind}_{of}_l{layer}" for kind in ("weight", "bias") for of in ("ih", "hh"))
            weights = (getattr(self, name, None) for name in names)
            after += flat(self.cell(x, past.unbind(1) if self.parts > 1 else past[:, 0], *weights))
            x = after[-self.parts]
        return torch.cat(after, dim=-1).reshape(state.shape)


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
        return _joined(after).reshape(state.shape)


def _joined(state: Any) -> Tensor:
    """All parts of a state as one vector of each sequence."""
    return torch.cat([part.flatten(1) for part in flat(state)], 1)


class _Reading(NamedTuple):
    """Sequences by their trace, and ``δ_t = ∂E/∂s_t``, states apart."""

    trace: Trace
    delta: Float[Tensor, "B T S"]

    @property
    def first(self) -> int:
        return first_loss(self.delta) if self.delta.any() else -1

    def gradient(self) -> Float[Tensor, " P"]:
        return self._each(self.trace.backpropagate(self.delta)).sum(0)

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        return lag_vectors(self.trace, self.delta, lags)

    def band_vectors(self, bands: Sequence[Sequence[int]]) -> Float[Tensor, "lags P"]:
        """Return the part of the gradient of each band of lags as one vector."""
        band_of = {lag: place for place, band in enumerate(bands) for lag in band}
        first = max(self.first, 0)
        vectors: list[Any] = [0] * len(bands)
        for lag, rows in transported(self.trace, self.delta, sorted(band_of), first):
            steps = slice(max(lag, first) - lag, self.trace.length - lag)
            step = self.trace.stepped(self.trace.inputs[:, steps], self.trace.previous[:, steps])
            parts = vjp(step, self.trace.parameters)[1](rows)[0]
            vectors[band_of[lag]] += torch.cat([part.flatten() for part in parts.values()])
        return torch.stack(vectors)

    def numbers(self, directions: Float[Tensor, "lags P"], lags: Lags) -> Float[Tensor, "2 lags B"]:
        return self.band_numbers(directions, [[lag] for lag in lags])

    def band_numbers(
        self, directions: Float[Tensor, "lags P"], bands: Sequence[Sequence[int]]
    ) -> Float[Tensor, "2 lags B"]:
        """Return each sequence's part of each band along its direction, and the whole along it."""
        band_of = {lag: place for place, band in enumerate(bands) for lag in band}
        first = max(self.first, 0)
        along: list[Any] = [0] * len(bands)
        for lag, rows in transported(self.trace, self.delta, sorted(band_of), first):
            place = band_of[lag]
            along[place] += self._each(rows, max(first - lag, 0)) @ directions[place]
        whole = directions @ self._each(self.trace.backpropagate(self.delta)).mT
        return torch.stack([torch.stack(along), whole])

    def _each(self, rows: Tensor, start: int = 0) -> Float[Tensor, "B P"]:
        """Every sequence's gradient from some steps on, a part of them at a time."""
        total: Any = 0
        for part in rows.split(_STEPS, 1):
            total += self.trace.gathered_each(part, slice(start, start + part.shape[1]))
            start += part.shape[1]
        return total


@checked
@dataclass(eq=False)
class Recurrent(Adapter):
    """A network with one recurrent module, called once: a `recurrence` for the core, and traces.

    `module` is PyTorch's or a cell of `lwcore.cells`; it is found if there is one. Of its calls are
    kept what it read, the state it started from, and what it gave, as leaves, where the
    predictions' graph ends.
    """

    module: Any = None

    looks_back_before = False
    found_fit = False
    ends_at_padding = True

    def _chosen(self) -> dict[str, Tensor]:
        if self.module is None:
            found = recurrent_modules(self.model)
            words = "one nn.LSTM, GRU, RNN or cell"
            require("recurrent modules of model", len(found), len(found) == 1, words)
            (self.module,) = found
        other = any(getattr(self.module, name, 0) for name in ("bidirectional", "proj_size"))
        made_anew = parametrize.is_parametrized(self.module) or not _has_plain_weights(self.module)
        plain = not other and not made_anew and learned(self.module)
        words = (
            "of one direction of time, without projections, and all its weights parameters that "
        )
        words += "are learned (name those that are in `parameters`, to read them by their uses)"
        require("recurrent module", self.module, plain, words)
        self.batch_first = bool(getattr(self.module, "batch_first", True))
        self.called = type(self.module).__name__
        return dict(self.module.named_parameters())

    def __post_init__(self) -> None:
        """Take the module out of a first pass over a trial batch."""
        super().__post_init__()
        trial = self.trials.patterned()
        _, calls = self._called(trial)
        copied: Any = copy.deepcopy(self.module).cpu().double().requires_grad_(False)
        self.recurrence = self._recurrence(copied, calls)
        taken, initial = self._taken(calls)
        neurons = initial[0, self.recurrence.carried].numel()
        self.kind = f"{self.called}, {neurons:,} neurons"
        parameters = sum(part.numel() for part in self.chosen.values())
        states = taken.shape[1] * self.recurrence.state_size
        self.fit(max(states, parameters, self.entries))

    def _called(self, inputs: Tensor) -> tuple[Tensor, list[Call]]:
        """Predictions, and the module's calls, with leaves for what they gave."""
        with recorded([self.module]) as calls, torch.backends.cudnn.flags(enabled=False):
            return self.predictions(inputs), calls.get(self.module, [])

    def _recurrence(self, copied: Any, _: list[Call]) -> Any:
        """The module as the core's own, from its copy in float64."""
        return Layers(copied) if isinstance(copied, nn.RNNBase) else copied

    def _taken(self, calls: list[Call]) -> tuple[Tensor, Tensor]:
        """What the module read, (B, T, D), and its first state, (B, S), in float64."""
        require(f"calls of the {self.called}", len(calls), len(calls) == 1, "one in a pass")
        read, state, _ = calls[0]
        plain = isinstance(read, Tensor) and read.ndim == 3
        words = "a tensor of three axes, equally long sequences"
        require(f"inputs of the {self.called}", type(read).__name__, plain, words)
        ours = read.detach().cpu().double().movedim(int(not self.batch_first), 0)
        initial = ours.new_zeros(len(ours), self.recurrence.state_size)
        if state is not None:  # parts of (layers, B, H), of a cell (B, H)
            parts = [part if part.ndim == 3 else part.unsqueeze(0) for part in flat(state)]
            joined = torch.stack(parts, dim=1).permute(2, 0, 1, 3).flatten(1)
            initial = joined.detach().cpu().to(ours)
        return ours, initial

    def _in_states(self, found: list[list[Tensor]]) -> Tensor:
        """Gradients in what each call gave as gradients in states, (B, T, S)."""
        ((outputs, *last),) = found
        steps = outputs.movedim(int(not self.batch_first), 0)
        places = torch.arange(self.recurrence.state_size)
        shown, carried = places[self.recurrence.shown], places[self.recurrence.carried]
        delta = steps.new_zeros(*steps.shape[:2], self.recurrence.state_size)
        delta[..., shown[-outputs.shape[-1] :]] = steps
        for part, where in zip(last, (shown, carried), strict=False):  # h, c of every layer
            delta[:, -1, where] += part.transpose(0, 1).flatten(1)
        return delta

    def _delta(self, calls: list[Call], number: Tensor) -> Tensor:
        """A number's gradients in the states that the module gave, (B, T, S), in float64."""
        given, spec = trees.tree_flatten([flat(call.given) for call in calls])
        found = torch.autograd.grad(number, given, retain_graph=True, **ZEROS)
        return self._in_states(trees.tree_unflatten([part.cpu().double() for part in found], spec))

    def read(self, inputs: Tensor, targets: Tensor) -> _Reading:
        """The trace of sequences, and each one's δ."""
        with torch.enable_grad():
            predictions, calls = self._called(inputs)
            total = self.losses(predictions, targets).sum()
        words = "one of what the recurrent module gives"
        require("loss", self.loss_name, total.requires_grad, words)
        trace = Trace.of(self.recurrence, *self._taken(calls))
        return _Reading(trace, self._delta(calls, total))

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse sequences that are not treated one by one, and what is no such recurrence."""
        super().check(inputs, targets)
        why = "" if self.found_fit else self.unfit(inputs, targets)
        words = "a recurrence of which all else is within a step: name its parameters in "
        words += "`parameters`, to read it by their uses"
        require("step", f"{self.called}, {why}", not why, words)

    def unfit(self, inputs: Tensor, targets: Tensor) -> str:
        """Why the model is not this one recurrence, all else within a step; "" if it is."""
        self._check_ends(targets)
        why = self._reads_otherwise() or self._else_looks_back()
        if why:
            return why
        tried = self.tried(inputs, targets)
        missing = self._missing(*(part[: self.at_once] for part in tried))
        if missing:
            return f"whose lags together are not the gradient of {', '.join(missing)}"
        self.found_fit = True
        return ""

    def _reads_otherwise(self) -> str:
        """Whether step k of the module is not made of the inputs up to step k."""
        length = self.shape[1]

        def reads(inputs: Tensor) -> list[Tensor]:
            with torch.no_grad():
                return [self._taken(self._called(inputs)[1])[0]]

        count = reads(self.pairs[0])[0].shape[1]
        if count != length:
            return f"with {count} steps for {length} of the inputs"
        (times,) = last_steps(reads, self.pairs, self.entries)
        rows = rows_of(times, length)
        in_order = (
            rows is not None and rows.axes == (0,) and (rows.times == np.arange(length)).all()
        )
        if not in_order:
            return "whose step k does not read the inputs up to step k"
        (firsts,) = last_steps(reads, self.pairs[:1], self.entries, backwards=True)
        early = rows_of(firsts, length)
        back = early is not None and bool((early.times > np.arange(length)[::-1]).any())
        self.looks_back_before = back
        others = self._others()
        if back and others and self._reaches_reads(others):
            return "before which parameters that are learned look back"
        return ""

    def _others(self) -> list[Tensor]:
        own = {id(part) for part in self.chosen.values()}
        parts = self.model.parameters()
        return [part for part in parts if part.requires_grad and id(part) not in own]

    def _reaches_reads(self, others: list[Tensor]) -> bool:
        """Whether what the module reads is made of other parameters."""
        with followed(others):
            _, calls = self._called(self.trials.inputs[:1])
            reads = [call.read for call in calls if isinstance(call.read, Tensor)]
            total = sum(read.sum() for read in reads if read.requires_grad)
            if not isinstance(total, Tensor):
                return False
            found = torch.autograd.grad(total, others, **ZEROS)
        return any(bool(part.ne(0).any()) for part in found)

    def _else_looks_back(self) -> str:
        """Whether a prediction sees other steps than its own past what the module gives."""
        ends = self.ends.numpy()
        with torch.no_grad(), recorded([self.module]) as calls:
            self.predictions(self.pairs[0][:1])
        held = [call.given for call in calls[self.module]]

        def beside(inputs: Tensor) -> list[Tensor]:
            with torch.no_grad(), replaced(self.module, held, len(inputs)):
                return [self.predictions(inputs)]

        (firsts,) = last_steps(beside, self.pairs[:1], self.entries, backwards=True)
        moved = firsts.low >= 0
        if bool((self.shape[1] - 1 - firsts.low < ends)[moved].any()):
            return "beside which the predictions look back on the inputs"
        with torch.enable_grad():
            predictions, calls_now = self._called(self.pairs[0][:1])
            for end in {self.end_steps[0], self.end_steps[-1]}:
                chosen = predictions[:, torch.from_numpy(ends == end)]
                delta = self._delta(calls_now, chosen.pow(3).sum())  # that no norm fixes
                used = delta.ne(0).any(-1).any(0)
                used[end] = False
                if bool(used.any()):
                    return "behind which predictions look back on its states"
        return ""

    def aside(self, _: Tensor) -> str:
        """Say what the lags do not count: what comes before."""
        if not self.looks_back_before:
            return ""
        return (
            f"What comes before the {self.called} looks back in time itself, which its lags do not "
            "count."
        )


@checked
@dataclass(eq=False)
class Loop(Recurrent):
    """A network that calls one module once a step: what it gives is its state in the next call."""

    def _recurrence(self, copied: Any, calls: list[Call]) -> Any:
        kind = {nn.LSTMCell: nn.LSTM, nn.GRUCell: nn.GRU, nn.RNNCell: nn.RNN}.get(type(copied))
        if kind is None:
            return Stepped(copied, calls[0].given if calls else None)
        options = {"nonlinearity": copied.nonlinearity} if kind is nn.RNN else {}
        # made without parameters, which would be drawn from PyTorch's own generator
        layer = kind(
            copied.input_size, copied.hidden_size, bias=copied.bias, device="meta", **options
        )
        layer = layer.to_empty(device="cpu").double()
        layer.load_state_dict({f"{name}_l0": p for name, p in copied.state_dict().items()})
        return Layers(layer.requires_grad_(False))

    def _taken(self, calls: list[Call]) -> tuple[Tensor, Tensor]:
        plain = _chained(calls) and all(call.read.ndim == 2 for call in calls)
        words = "called once a step with inputs (B, D) and the state that it gave a step before"
        require("step", self.called, plain, words)
        read = torch.stack([call.read.detach() for call in calls], 1).cpu().double()
        if calls[0].state is None:
            return read, read.new_zeros(len(read), self.recurrence.state_size)
        return read, _joined(calls[0].state).detach().cpu().to(read)

    def _in_states(self, found: list[list[Tensor]]) -> Tensor:
        return torch.stack([_joined(parts) for parts in found], 1)


class Call(NamedTuple):
    """A call of a module: what it read, the state it started from, and what it gave."""

    read: Any
    state: Any
    given: Any


@contextmanager
def recorded(modules: Iterable[nn.Module]) -> Iterator[dict[nn.Module, list[Call]]]:
    """The calls of some modules for a while; graphs begin at what they give."""
    calls: dict[nn.Module, list[Call]] = {}

    def leaf(part: Tensor) -> Tensor:
        return part.detach().requires_grad_(part.is_floating_point())

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
        read, state, *_ = *given, *named.values(), None, None
        one = Call(read, state, trees.tree_map_only(Tensor, leaf, returned))
        calls.setdefault(module, []).append(one)
        return one.given

    with ExitStack() as after:
        for module in modules:
            after.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        yield calls


@contextmanager
def replaced(module: nn.Module, held: Sequence[Any], count: int) -> Iterator[None]:
    """Have a module give what it gave for one sequence, for each of so many."""
    number = itertools.count()

    def hook(_: Any, __: Any, given: Any) -> Any:
        kept = held[min(next(number), len(held) - 1)]
        return trees.tree_map_only(Tensor, _repeater(given, count), kept)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _repeater(given: Any, count: int) -> Callable[[Tensor], Tensor]:
    """Repeat the one sequence of a tensor, whichever axis it is on, as those given are."""
    shapes = {tuple(part.shape) for part in flat(given)}

    def repeat(part: Tensor) -> Tensor:
        for axis, size in enumerate(part.shape):
            wanted = (*part.shape[:axis], count, *part.shape[axis + 1 :])
            if size == 1 and wanted in shapes:
                return part.expand(*wanted)
        return part

    return repeat


def _has_plain_weights(module: nn.Module) -> bool:
    """Whether all weights that one of PyTorch's layers takes are its own parameters."""
    names = getattr(module, "_flat_weights_names", None)
    if names is None:
        return True
    own = dict(module.named_parameters(recurse=False))
    return {*names} == {*own}


def learned(module: nn.Module) -> bool:
    """Whether a module has parameters, and none of them is frozen."""
    needed = [part.requires_grad for part in module.parameters()]
    return bool(needed) and all(needed)


def recurrent_modules(model: nn.Module) -> list[nn.Module]:
    """PyTorch's recurrent layers and cells of `lwcore.cells` in a model that are learned."""
    parts = (part for part in model.modules() if isinstance(part, nn.RNNBase | Cell))
    return [part for part in parts if learned(part)]


def step_of(model: nn.Module, inputs: Tensor) -> nn.Module | None:
    """The one module that a model calls in a loop with what it gave in the call before, if any."""
    weight = next(model.parameters(), inputs)
    dtype = weight.dtype if inputs.is_floating_point() else None
    inside = [part for part in model.modules() if part is not model and learned(part)]
    with torch.no_grad(), recorded(inside) as calls:
        model(placed(inputs, weight.device, dtype))
    loops = [part for part, made in calls.items() if _chained(made)]
    outer = [part for part in loops if not any(part in {*one.modules()} - {one} for one in loops)]
    return outer[0] if len(outer) == 1 else None


def _chained(calls: Sequence[Call]) -> bool:
    """Whether there are several calls, each from the state that the one before gave."""
    pairs = [(flat(one.given), flat(two.state)) for one, two in itertools.pairwise(calls)]
    linked = (len(a) == len(b) > 0 and all(map(torch.equal, a, b)) for a, b in pairs)
    return bool(pairs) and all(isinstance(c.read, Tensor) for c in calls) and all(linked)
