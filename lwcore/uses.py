"""Any causal model as the core sees it: what parameters used at each time give to the gradient.

A parameter is used where one of PyTorch's functions takes it, or something made of parameters
alone, and gives values z of sequences and steps. The use is at the time k of the value that it
makes: of a convolution's output, of attention's queries, keys and values, of a recurrence's step.
Along a direction w the uses at time k give ``⟨∂E_t/∂z_k, ∂z_k/∂θ · w⟩`` to the gradient of the loss
E_t at the end point t, and ``ℓ = t − k`` is their lag. All lags together are the gradient.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees

from lwcore.adapter import ZEROS, Adapter, Function, Pair, changed, followed
from lwcore.gradient import FORWARD_MODE
from lwcore.signatures import checked, require

ENDS = 16  # end points of a sequence, drawn where its loss has more
_COUNTS = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # sequences on trial, mistaken for no width
_EXACT = {torch.float64: 1e-10, torch.float32: 1e-6}  # of what must be equal or zero, relative
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


class Site(NamedTuple):
    """Uses in one place of the code: once for all steps, or once in each of the last steps."""

    name: str
    uses: list[int]  # places among a tape's
    layout: Layout
    start: int  # the step of the first value

    def series(self, made: Sequence[Any], like: Sequence[Any], count: int) -> Tensor:
        """Values or gradients of all steps, (B, steps, F), zero where there is none."""
        steps = []
        for place in self.uses:
            pairs = zip(made[place], like[place], strict=True)
            parts = (torch.zeros_like(z) if part is None else part for part, z in pairs)
            steps.append(torch.cat([self.layout.placed(part, count) for part in parts], -1))
        return torch.cat(steps, 1)


class UsesReading(NamedTuple):
    """What a batch of sequences says of lags, by the uses of parameters in one pass."""

    network: Uses
    tape: Tape
    predictions: Tensor  # (B, T, K), or of one at the end (B, 1, K)
    pulls: Tensor  # ∂E/∂ of these, of each sequence's own loss

    @property
    def steps(self) -> Tensor:
        """Places of the predictions that have a loss."""
        return self.pulls.ne(0).any(-1).any(0).nonzero()[:, 0]

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""
        missing = self.network.shape[1] - self.predictions.shape[1]
        return int(self.steps[0]) + missing if len(self.steps) else -1

    def series(self, made: Any) -> list[Tensor]:
        """Values or gradients of uses, by site."""
        count = len(self.predictions)
        return [site.series(made, self.tape.made, count) for site in self.network.sites]

    def gradients(self, weights: Float[Tensor, "B predictions"]) -> list[Tensor]:
        """The gradient at each site of losses weighted by sequence and step."""
        values = [part for use in self.tape.made for part in use]
        how: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
        found = iter(
            torch.autograd.grad(self.predictions, values, weights[..., None] * self.pulls, **how)
        )
        return self.series([[next(found) for _ in use] for use in self.tape.made])

    def _back(self, lags: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """End points of each sequence, (B, ends), and gradients at each site lags before them."""
        back = torch.as_tensor(lags, device=self.pulls.device)
        count, places, _ = self.pulls.shape
        ends, found = [], []
        for stratum in self.steps.tensor_split(min(ENDS, len(self.steps))):
            draws = torch.randint(len(stratum), (count,), generator=self.network.generator)
            end = stratum[draws.to(stratum.device)]
            weights = self.pulls.new_zeros(count, places)
            weights.scatter_(1, end[:, None], float(len(stratum)))  # each stands for all of them
            ends.append(end + self.network.shape[1] - places)
            at = ends[-1][:, None] - back
            pairs = zip(self.network.sites, self.gradients(weights), strict=True)
            found.append([_gathered(part, at - site.start) for site, part in pairs])
        return torch.stack(ends, 1), [torch.stack(parts, 1) for parts in zip(*found, strict=True)]

    def _lagged(
        self, series: list[Tensor], ends: Tensor, back: list[Tensor], j: int, lag: int
    ) -> Float[Tensor, " B"]:
        """Each sequence's ``Σ ⟨∂E_t/∂z_{t−ℓ}, values⟩`` over its end points t and sites, (B,)."""
        sites = self.network.sites
        along = [
            (_gathered(part, ends - lag - site.start) * pull[:, :, j]).double().sum((1, 2))
            for site, part, pull in zip(sites, series, back, strict=True)
        ]
        return torch.stack(along).sum(0)

    def lag_vectors(self, lags: Sequence[int]) -> Float[Tensor, "lags P"]:
        """Each lag's part of the gradient, summed over sequences, as one vector."""
        ends, back = self._back(lags)
        totals = (
            lambda series, j=j, lag=lag: self._lagged(series, ends, back, j, lag).sum()
            for j, lag in enumerate(lags)
        )
        found = self.pulled(totals)
        return torch.stack([torch.cat([p.double().flatten().cpu() for p in v]) for v in found])

    def pulled(self, totals: Iterable[Callable[[list[Tensor]], Tensor]]) -> list[list[Tensor]]:
        """Gradients in the parameters of functions of all sites' values, earlier ones held."""
        own = [part.detach().requires_grad_() for part in self.network.chosen.values()]
        with torch.enable_grad():
            series = self.series(self.tape.again(own))
            return [list(torch.autograd.grad(total(series), own, **ZEROS)) for total in totals]

    def numbers(
        self, directions: Float[Tensor, "lags P"], lags: Sequence[int]
    ) -> Float[Tensor, "2 lags B"]:
        """Each sequence's part of each lag along its direction, and the whole gradient along it."""
        ends, back = self._back(lags)
        whole = self.gradients(torch.ones_like(self.pulls[..., 0]))
        numbers = []
        for j, (lag, w) in enumerate(zip(lags, directions, strict=True)):
            moved = self.tangents(w)
            along = self._lagged(moved, ends, back, j, lag)
            pairs = zip(moved, whole, strict=True)
            total = [(part * pull).double().sum((1, 2)) for part, pull in pairs]
            numbers.append(torch.stack([along, torch.stack(total).sum(0)]))
        return torch.stack(numbers, 1).cpu()

    def tangents(self, w: Float[Tensor, " P"]) -> list[Tensor]:
        """How the values at each site move along a direction, earlier ones held, (B, steps, F)."""
        own = list(self.network.chosen.values())
        moves = w.split([part.numel() for part in own])
        with FORWARD_MODE, forward_ad.dual_level(), torch.no_grad():
            duals = [
                forward_ad.make_dual(part.detach(), move.reshape(part.shape).to(part))
                for part, move in zip(own, moves, strict=True)
            ]
            made = self.tape.again(duals)
            return self.series([[forward_ad.unpack_dual(z).tangent for z in use] for use in made])


def _gathered(series: Float[Tensor, "B steps F"], at: Tensor) -> Float[Tensor, "B n F"]:
    """Values at steps of each sequence, (B, n), zero at those that are not there."""
    inside = (at >= 0) & (at < series.shape[1])
    index = at.clamp(0, series.shape[1] - 1)[..., None].expand(-1, -1, series.shape[-1])
    return series.gather(1, index) * inside[..., None]


def _share(part: Tensor, whole: Tensor) -> float:
    """The size of some values beside that of others."""
    sizes = (values.detach().double().abs().sum() for values in (part, whole))
    return float(next(sizes) / next(sizes).clamp(min=1e-300))


@checked
class Uses(Adapter):
    """A causal model with its loss, whose parameters are followed to the steps of their use.

    `chosen` are the parameters looked at, all or those named, and `left_out` the names of others.
    Predictions have an axis of steps, `time`, or are made at the last.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Pair,
        head: Function | None = None,
        loss: Any = None,
        parameters: Sequence[str] | None = None,
    ) -> None:
        """Choose parameters, by their names or those of modules."""
        super().__init__(model, batch, head, loss)
        every = dict(model.named_parameters())
        self.chosen = every
        for name in parameters or ():
            held = any(_within(one, name) for one in every)
            require("parameters", name, held, f"of the model's parameters or modules: {[*every]}")
        if parameters is not None:
            self.chosen = {n: p for n, p in every.items() if any(_within(n, q) for q in parameters)}
        require("parameters", parameters, bool(self.chosen), "names of one parameter or more")
        self.left_out = [name for name in every if name not in self.chosen]
        self.kind += f", {sum(part.numel() for part in self.chosen.values()):,} parameters"
        self.sites: list[Site] = []
        self.plan: list[Layout | None] = []
        self.time: int | None = None  # axis of steps of the predictions
        self.generator = torch.Generator().manual_seed(0)

    def _prepared(self, inputs: Tensor) -> Tensor:
        words = "of the shape (sequences, steps, …)"
        require("inputs", tuple(inputs.shape), inputs.ndim >= 2, words)
        self.shape = (*inputs.shape[:2], inputs[0, 0].numel())
        return self.predictions(inputs)

    def _taped(self, inputs: Tensor, layout: Any) -> tuple[Tape, Tensor]:
        tape = Tape(list(self.chosen.values()), layout)
        with tape:
            return tape, self.predictions(inputs)

    def read(self, inputs: Tensor, targets: Tensor) -> UsesReading:
        """A pass over sequences."""
        plan = iter(self.plan)
        with followed(self.chosen.values()):
            tape, predictions = self._taped(inputs, lambda *_: next(plan, None))
        same = sum(len(site.uses) for site in self.sites) == len(tape.made) and not [*plan]
        require("model", self.kind, same, "one that does the same for all sequences")
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            pulls = torch.autograd.grad(self.losses(leaf, targets).sum(), leaf)[0]
        return UsesReading(self, tape, self._steps(predictions), self._steps(pulls))

    def _steps(self, predictions: Tensor) -> Float[Tensor, "B predictions _"]:
        """Predictions with their steps second, or one."""
        moved = predictions[:, None] if self.time is None else predictions.movedim(self.time, 1)
        return moved.reshape(*moved.shape[:2], -1)

    def aside(self, _: Tensor) -> str:
        """That there is no envelope, and what is left out."""
        said = "No envelope: parameters are used at each time, there is no one recurrence."
        left = f" Left out of all gradients: {', '.join(self.left_out)}." if self.left_out else ""
        return f"{said} {ENDS} end points of a sequence are drawn where its loss has more.{left}"

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: by name, and by how much it fails.

        Of a few sequences it is tried that predictions and values use no later inputs, that each
        use is of its own sequence and step, and that all uses make up the gradient of autograd.
        """
        super().check(inputs, targets)
        sizes = {size for part in self.model.parameters() for size in part.shape} | {self.shape[1]}
        fit = [n for n in _COUNTS if all(size % n for size in sizes) and n <= len(inputs)]
        require("widths of parameters", sorted(sizes), fit, f"not divided by all of {_COUNTS}")
        inputs, targets = inputs[: fit[0]], targets[: fit[0]]
        self._place(inputs, targets)
        few = max(2, self.at_once)
        inputs, targets = inputs[:few], targets[:few]
        reading = self.read(inputs, targets)
        exact = _EXACT.get(self.weight.dtype, 0.01)
        for start in sorted({0, self.shape[1] // 2, max(self.shape[1] - 2, 0), self.shape[1] - 1}):
            again = self.read(changed(inputs, slice(start, None)), targets)
            self._check_values(reading, again, start, exact)
        moved = self.time is not None or bool((again.predictions != reading.predictions).any())
        told = f"{self.kind}: not changed by inputs of step {self.shape[1] - 1}"
        require("model", told, moved, "one that reads the last step (leave out those it skips)")
        for place in reading.steps[[0, -1]].tolist() if len(reading.steps) else ():
            self._check_gradient(reading, place, exact)
        self._check_sum(reading, exact)

    def _place(self, inputs: Tensor, targets: Tensor) -> None:
        """Find the sequences and steps of all values: in inputs, predictions, and at each use."""
        count, length = len(inputs), self.shape[1]

        def layout(shape: Any, name: str) -> Layout | None:
            self.plan.append(Layout.of(shape, name, count, length))
            return self.plan[-1]

        self.plan, self.sites = [], []
        with followed(self.chosen.values()):
            tape, predictions = self._taped(inputs, layout)
            plan, swapped = iter(self.plan), inputs.clone()
            swapped[0] = inputs[1]
            other, _ = self._taped(swapped, lambda *_: next(plan))
        fits = [axis for axis, size in enumerate(predictions.shape) if axis and size == length]
        classes = predictions.ndim > 2 and not targets.is_floating_point()
        second = classes and isinstance(self.loss, nn.CrossEntropyLoss)
        self.time = (fits[-1] if second else fits[0]) if fits else None
        self.fit(sum(part.numel() for use in tape.made for part in use) // count)
        places: dict[Any, list[int]] = {}
        uses = [call for call in tape.calls if call.layout is not None]
        for place, call in enumerate(uses):
            shape = tuple(tape.made[place][0].shape)
            places.setdefault((call.function, *call.marks, shape), []).append(place)
        for (function, *marks, shape), calls in places.items():
            taken = ", ".join([*self.chosen][place] for place in tape.sources(marks))
            name = f"{function.__name__}() of {taken}"
            found = uses[calls[0]].layout
            assert found is not None
            moved = tape.made[calls[0]][0] - other.made[calls[0]][0]
            outside = bool(found.fronted(moved, count)[1:].any())  # of the first sequence alone
            found = found._replace(outside=outside)
            vectors = moved.numel() == count * shape[-1]  # one for each sequence
            stepwise = len(calls) in (length - 1, length)
            if found.time is not None and not (stepwise and vectors):
                self.sites += [Site(name, [place], found, 0) for place in calls]
                continue
            once = len(calls) == 1 and vectors
            words = f"used on all {length} steps at once, or once in each. Leave it out: name in "
            words += "`parameters` those to look at"
            told = f"{name}, {len(calls)} times, with values of the shape {shape}"
            require("parameters", told, once or stepwise, words)
            start = length - len(calls) if moved.any() else 0  # of a constant, as an initial state
            self.sites.append(Site(name, calls, found._replace(time=None), start))
        words = "some that the predictions use"
        require("parameters", [*self.chosen], bool(self.sites), words)

    def _check_values(
        self, reading: UsesReading, again: UsesReading, start: int, exact: float
    ) -> None:
        """Values before a step do not change with inputs from there on, and those soon after do."""
        both = (one.series(one.tape.made) for one in (reading, again))
        for site, one, two in zip(self.sites, *both, strict=True):
            moved, at = one - two, start - site.start
            ahead = _share(moved[:, : max(at, 0)], one)
            told = f"{site.name}: {ahead:.1g} of its values changed by inputs of later steps"
            require("model", told, ahead <= exact, "one where none is")
            once = site.layout.time is None and 0 <= at + 1 < one.shape[1]
            told = f"{site.name}: not changed at step {start + 1} by inputs from step {start} on"
            require(
                "model", told, not once or bool(moved[:, at + 1].any()), "one that uses it then"
            )

    def _check_gradient(self, reading: UsesReading, place: int, exact: float) -> None:
        """The loss of one sequence and step pulls on nothing later and on no other sequence."""
        weights = torch.zeros_like(reading.pulls[..., 0])
        weights[0, place] = 1
        end = place + self.shape[1] - weights.shape[1]
        for site, part in zip(self.sites, reading.gradients(weights), strict=True):
            other = part.clone()
            other[0, : max(end + 1 - site.start, 0)] = 0
            share = _share(other, part)
            told = f"{site.name}: {share:.1g} of step {end}'s gradient at later steps or in others"
            words = "one where none is (a width of T steps? change it; rounding? model.double())"
            require("model", told, share <= exact, words)

    def _check_sum(self, reading: UsesReading, exact: float) -> None:
        """All uses together make up autograd's gradient."""
        pulls = reading.gradients(torch.ones_like(reading.pulls[..., 0]))
        own = [*self.chosen.values()]
        with followed(own):
            wanted = torch.autograd.grad(reading.predictions, own, reading.pulls, **ZEROS)
        (found,) = reading.pulled(
            [
                lambda series: torch.stack(
                    [(a * b).sum() for a, b in zip(series, pulls, strict=True)]
                ).sum()
            ]
        )
        size = sum(float(part.double().square().sum()) for part in wanted) ** 0.5
        missing = [
            f"{name} ({error / size:.1g} of the gradient)"
            for name, one, two in zip(self.chosen, found, wanted, strict=True)
            if not (error := float((one - two).double().norm())) <= exact * size
        ]
        words = "parameters whose uses can all be seen: name in `parameters` those to look at"
        require("model", ", ".join(missing), not missing, words)


def _within(name: str, of: str) -> bool:
    return name == of or name.startswith(f"{of}.")
