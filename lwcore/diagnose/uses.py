"""Any causal model as the core sees it: what parameters used at each time give to the gradient.

A parameter is *used* where one of PyTorch's functions makes, of it and of data, a value z of
sequences. The time k of a use is measured: it is the last step of the inputs that moves z. Where
z first waits for data of a later step, as U h in ``tanh(W x_t + U h)`` does, it is that step.
Along a direction w the uses at time k give ``⟨∂E_t/∂z_k, ∂z_k/∂θ · w⟩`` to the gradient of the loss
E_t at the end point t, and ``ℓ = t − k`` is their lag. All lags together are the gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as trees

from lwcore.ambient import in_double, placed
from lwcore.diagnose.adapter import (
    ZEROS,
    Adapter,
    _first_line,
    dense,
    followed,
    in_reals,
)
from lwcore.diagnose.tape import Plan, Tape
from lwcore.diagnose.times import Rows, later, measured_rows, settled
from lwcore.diagnose.trials import Layout, Steps, last_steps
from lwcore.signatures import ArgumentError, Lags, checked, require

ENDS = 16  # end points of a sequence, drawn where its loss has more
_EXACT = {torch.float64: 1e-10, torch.float32: 1e-6, None: 0.01}  # of what must be equal or zero
_LEAVE_OUT = "name in `parameters` those to look at, without it"


class Value(NamedTuple):
    """One tensor that a call gives for all sequences: its place among a tape's values."""

    use: int
    output: int
    layout: Layout


@dataclass(eq=False)
class Site:
    """Uses in one place of the code: rows of values (B, N, F), and the step of each row."""

    name: str
    values: list[Value]
    rows: Rows
    times: Steps = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def start(self) -> int:
        """The step of the first use."""
        return int(self.times[0])

    def series(self, made: Sequence[Sequence[Tensor]]) -> Float[Tensor, "B N F"]:
        """Values, or gradients in them, in rows."""
        order = [0, *(axis + 1 for axis in self.rows.order)]
        parts = []
        for value in self.values:
            tensor = made[value.use][value.output]
            front = in_reals(value.layout.front(tensor).permute(order))
            count = len(self.rows.times)
            parts.append(front.reshape(front.shape[0], count, -1))
        return torch.cat(parts, 1)

    def by_time(self, length: int) -> Tensor:
        """Rows of each step, (T, most of a step); N where a step has fewer."""
        places = [np.flatnonzero(self.times == step) for step in range(length)]
        most = max(len(one) for one in places)
        table = np.full((length, most), len(self.times))
        for step, one in enumerate(places):
            table[step, : len(one)] = one
        return torch.from_numpy(table)


class Part(NamedTuple):
    """Gradients (B, n, F) in some rows (B, n) of a site; rows one too far stand for none."""

    site: int
    rows: Tensor
    gradient: Tensor


class _Reading(NamedTuple):
    """Sequences by the uses of parameters in one pass."""

    network: Uses
    tape: Tape
    predictions: Tensor  # (B, K)
    pulls: Tensor  # ∂E/∂ of these, of each sequence's own loss
    padding: Tensor  # steps behind the last one that is no padding, (B,)

    @property
    def steps(self) -> list[int]:
        """Steps at which predictions with a loss are made."""
        pulled = self.pulls.ne(0).any(0).cpu()
        return sorted({*self.network.ends[pulled].tolist()} - {-1})

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""
        return self.steps[0] if self.steps else -1

    def pulled(self, weights: Float[Tensor, "B K"] | None = None) -> list[Tensor]:
        """Return the gradient in the values at each site of losses that are so weighted."""
        pulls = self.pulls if weights is None else weights * self.pulls
        values, spec = trees.tree_flatten(self.tape.made)
        with torch.backends.cudnn.flags(enabled=False):
            found = torch.autograd.grad(self.predictions, values, pulls, retain_graph=True, **ZEROS)
        made = trees.tree_unflatten([dense(part) for part in found], spec)
        return [site.series(made) for site in self.network.sites]

    def at_end(self, steps: Tensor) -> Float[Tensor, "B K"]:
        """Weights of those predictions of each sequence that are made at its step."""
        ends = self.network.ends.to(self.pulls.device)
        return (ends[None] == steps[:, None]).to(self.pulls)

    def drawn(self) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Yield an end point for each sequence, and the gradient of its loss at all sites.

        Where there are more than `ENDS`, one of each of so many strata is drawn.
        """
        steps = torch.tensor(self.steps, dtype=torch.int64)
        count = len(self.pulls)
        for stratum in steps.tensor_split(min(ENDS, len(steps))):
            draws = torch.randint(
                len(stratum), (count,), generator=self.network.generator, device="cpu"
            )
            end = stratum[draws]
            weights = self.at_end(end.to(self.pulls.device)) * len(stratum)  # it stands for all
            whole = self.pulled(weights)
            yield self.real_end(end, whole), whole

    def real_end(self, end: Tensor, whole: list[Tensor]) -> Tensor:
        """Where sequences end before their padding, the last step that a gradient reaches."""
        if not bool(self.padding.any()):
            return end
        reached = torch.full((len(end),), -1, dtype=torch.int64)
        for site, part in zip(self.network.sites, whole, strict=True):
            if len({*site.times.tolist()}) < 2:
                continue
            used = part.ne(0).any(-1).cpu()
            times = torch.from_numpy(site.times.astype(np.int64))
            reached = torch.maximum(reached, torch.where(used, times, -1).max(1).values)
        early = self.network.shape[1] - 1 - self.padding.cpu()
        own = (reached >= 0) & (reached == early) & (reached < end)
        return torch.where(own, reached, end)

    def parts(self, bands: Sequence[Sequence[int]]) -> list[list[Part]]:
        """Of each band of lags the gradient in values so long before end points that are drawn."""
        found: list[list[Part]] = [[] for _ in bands]
        for end, whole in self.drawn():
            for place, gradient in enumerate(whole):
                table = self.network.tables[place]
                padded = functional.pad(gradient, (0, 0, 0, 1))  # a row of zeros, for none
                reached = padded.ne(0).any(-1).cpu()  # (B, N+1)
                for number, band in enumerate(bands):
                    steps = end[:, None] - torch.tensor(band)
                    rows = table[steps.clamp(min=0)]  # (B, lags, n)
                    none = padded.shape[1] - 1
                    rows = torch.where((steps < 0)[..., None], none, rows).flatten(1)
                    if bool(reached.gather(1, rows).any()):
                        part = padded.gather(1, _index(rows, padded))
                        found[number].append(Part(place, rows, part))
        return found

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        """Return each lag's part of the gradient, summed over sequences, as one vector."""
        return self.band_vectors([[lag] for lag in lags])

    def band_vectors(self, bands: Sequence[Sequence[int]]) -> Float[Tensor, "lags P"]:
        """Return the part of the gradient of each band of lags as one vector."""
        parts = self.parts(bands)
        with self.network.repeated(self.tape) as repeated:
            vectors = []
            for band in parts:
                pulls = [torch.zeros_like(values) for values in repeated.values]
                for part in band:
                    _add(pulls[part.site], part)
                vectors.append(repeated.pull(pulls))
        return torch.stack(vectors)

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector."""
        with self.network.repeated(self.tape) as repeated:
            return repeated.pull(self.pulled())

    def numbers(self, directions: Float[Tensor, "lags P"], lags: Lags) -> Float[Tensor, "2 lags B"]:
        """Return each sequence's part of each lag along its direction, and the whole along it."""
        return self.band_numbers(directions, [[lag] for lag in lags])

    def band_numbers(
        self, directions: Float[Tensor, "lags P"], bands: Sequence[Sequence[int]]
    ) -> Float[Tensor, "2 lags B"]:
        """Return each sequence's part of each band along its direction, and the whole along it."""
        whole = self.pulled()
        parts = self.parts(bands)
        numbers = []
        with self.network.repeated(self.tape) as repeated:
            for band, direction in zip(parts, directions, strict=True):
                moved = repeated.push(direction)
                pairs = zip(moved, whole, strict=True)
                products = [in_double(one * two).sum((1, 2)) for one, two in pairs]
                along_all = torch.stack(products).sum(0)
                along_band = torch.zeros_like(along_all)
                for part in band:
                    padded = functional.pad(moved[part.site], (0, 0, 0, 1))
                    chosen = padded.gather(1, _index(part.rows, padded))
                    along_band += in_double(chosen * part.gradient).sum((1, 2))
                numbers.append(torch.stack([along_band.cpu(), along_all.cpu()]))
        return torch.stack(numbers, 1)


def _index(rows: Tensor, values: Float[Tensor, "B N F"]) -> Tensor:
    """Rows as an index for `torch.gather`."""
    return rows.to(values.device)[..., None].expand(-1, -1, values.shape[-1])


def _add(pulls: Tensor, part: Part) -> None:
    """Add gradients in some rows; those for none, one row too far, are zero."""
    inside = part.rows.clamp(max=pulls.shape[1] - 1)
    there = (part.rows == inside).to(pulls.device)[..., None]
    pulls.scatter_add_(1, _index(inside, pulls), part.gradient * there)


class Repeated:
    """The values of all uses once more, as a function of the parameters, with what they read held.

    A change of parameters is pushed forward by two reverse passes: the derivative of ``Jᵀu · w`` in
    u is J w. Not all of PyTorch's functions have a forward mode.
    """

    def __init__(self, network: Uses, tape: Tape) -> None:
        """Make them, of the parameters that are looked at."""
        own = [part.detach() for part in network.chosen.values()]
        self.theta = [in_reals(part).clone().requires_grad_() for part in own]
        pairs = zip(self.theta, own, strict=True)
        parts = [torch.view_as_complex(t) if p.is_complex() else t for t, p in pairs]
        with torch.enable_grad():
            made = tape.again(parts)
            self.values = [site.series(made) for site in network.sites]
        self.backward: list[Tensor] | None = None

    def pull(self, pulls: Sequence[Tensor]) -> Float[Tensor, " P"]:
        """Return gradients in the values as one vector of gradients in the parameters."""
        pairs = [(v, p) for v, p in zip(self.values, pulls, strict=True) if bool(p.any())]
        if not pairs:
            return torch.cat([torch.zeros(part.numel()).double() for part in self.theta])
        values, given = zip(*pairs, strict=True)
        found = torch.autograd.grad(values, self.theta, given, retain_graph=True, **ZEROS)
        return torch.cat([in_double(dense(part).flatten()).cpu() for part in found])

    def push(self, direction: Float[Tensor, " P"]) -> list[Tensor]:
        """Return how all values change as the parameters go in a direction."""
        if self.backward is None:
            self.cotangents = [torch.zeros_like(v, requires_grad=True) for v in self.values]
            with torch.enable_grad():
                self.backward = list(
                    torch.autograd.grad(
                        self.values,
                        self.theta,
                        self.cotangents,
                        create_graph=True,
                        retain_graph=True,
                        **ZEROS,
                    )
                )
        sizes = [part.numel() for part in self.theta]
        along = [
            placed(part, like.device, like.dtype).reshape(like.shape)
            for part, like in zip(direction.split(sizes), self.theta, strict=True)
        ]
        reached = [(b, a) for b, a in zip(self.backward, along, strict=True) if b.requires_grad]
        if not reached:
            return [torch.zeros_like(v) for v in self.values]
        outputs, given = zip(*reached, strict=True)
        return list(
            torch.autograd.grad(outputs, self.cotangents, given, retain_graph=True, **ZEROS)
        )

    def __enter__(self) -> Repeated:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the graphs."""
        self.values, self.backward, self.cotangents = [], None, []


@checked
@dataclass(eq=False)
class Uses(Adapter):
    """A causal model with its loss, whose parameters are followed to the steps of their use.

    Parameters are those named, by their names or those of modules, or all that are learned.
    """

    parameters: Sequence[str] | None = None

    tolerance = _EXACT

    def _chosen(self) -> dict[str, Tensor]:
        every: dict[str, Tensor] = dict(self.model.named_parameters())
        names = _second_names(self.model, every)
        wanted = self.parameters
        if wanted is None:
            wanted = [name for name, part in every.items() if part.requires_grad]
        held = {
            name: [own for one, own in names.items() if f"{one}.".startswith(f"{name}.")]
            for name in wanted
        }
        for name, parts in held.items():
            words = f"of the model's parameters or modules: {_few([*every])}"
            require("parameters", name, bool(parts), words)
        named = {*itertools.chain(*held.values())}
        chosen = {name: part for name, part in every.items() if name in named}
        words = "names of one parameter or more, or None if some are learned (require gradients)"
        require("parameters", self.parameters, bool(chosen), words)
        self.left_out = [name for name in every if name not in chosen]
        self.generator = torch.Generator("cpu").manual_seed(0)
        return chosen

    @property
    def theta(self) -> Float[Tensor, " P"]:
        """All parameters that are looked at, as one vector."""
        return torch.cat([in_reals(part.detach()).flatten() for part in self.chosen.values()])

    def repeated(self, tape: Tape) -> Repeated:
        """Return the values of a pass as a function of the parameters."""
        try:
            return Repeated(self, tape)
        except (RuntimeError, NotImplementedError) as error:
            raise ArgumentError(self._unrepeatable(tape, error)) from error

    def _unrepeatable(self, tape: Tape, error: Exception) -> str:
        """Say which function has no second derivative, or cannot be called again."""
        names = [*self.chosen]
        values: list[Tensor] = list(self.chosen.values())
        found = []
        for call in tape.calls:
            taken = _few([names[place] for place in tape.sources(call.marks)])
            try:
                given = call([part.detach().requires_grad_() for part in values])
                _second_derivative(given)
            except (RuntimeError, NotImplementedError):
                found.append(f"{getattr(call.function, '__name__', '?')}() of {taken}")
                break
            if call.layout is None:
                values += [part.detach() for part in call(values)]
        which = found[0] if found else "a function"
        return (
            f"parameters = {which}: cannot be repeated for other parameters "
            f"({_first_line(error)}): {_LEAVE_OUT}."
        )

    def _taped(self, inputs: Tensor, plan: Plan | None, watch: bool = False) -> tuple[Tape, Tensor]:
        tape = Tape(list(self.chosen.values()), plan, watch)
        with followed(self.chosen.values()), torch.backends.cudnn.flags(enabled=False), tape:
            predictions = self.predictions(inputs)
        same = tape.complete and (plan is None or next(tape.planned or iter(()), tape) is tape)
        words = "one that does the same for all sequences: are steps sent to layers by index, or "
        words += f"loops as long as the data? Then {_LEAVE_OUT}"
        require("model", self.kind, same, words)
        return tape, predictions

    def read(self, inputs: Tensor, targets: Tensor) -> _Reading:
        """Read a batch of sequences in one pass."""
        tape, predictions = self._taped(inputs, self.plan)
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            total = self.losses(leaf, targets).sum()
            pulls = torch.zeros_like(leaf)
            if total.requires_grad:
                (pulls,) = torch.autograd.grad(total, leaf, **ZEROS)
        return _Reading(self, tape, predictions, pulls, self.trials.padding_behind(inputs))

    def aside(self, _: Tensor) -> str:
        """Return what is left out."""
        return self.left_out_words() if self.left_out else ""

    def left_out_words(self) -> str:
        """Say what is left out, a few names at the most."""
        return f"Left out of all gradients: {_few(self.left_out)}."

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: by name, and by how much it fails.

        Times of all uses are measured. Of a few sequences it is tried that no prediction depends on
        later uses, and that all uses make up the gradient of autograd, end point by end point.
        """
        super().check(inputs, targets)
        self._make_plan()
        self._measure_times()
        tried = self.tried(inputs, targets)
        reading = self.read(*tried)
        self._check_directions(reading)
        self._check_additive(reading)
        self.check_sum(*tried)
        self._check_causal(reading)

    def _make_plan(self) -> None:
        """Find where each value has its sequences, and gather the uses in one place of the code."""
        trial = self.trials.patterned()
        tape, predictions = self._taped(trial, None)
        self.plan = tape.plan
        if any(enabled for call in tape.calls for _, enabled, _ in call.precision.casts):
            self.exact = _EXACT[None]
        words = "some that carry a gradient: is the model run under torch.no_grad(), or detached?"
        require("predictions", "without a gradient", predictions.requires_grad, words)
        names = [*self.chosen]
        unfollowed = ", ".join(names[place] for place in sorted(tape.unfollowed))
        words = "parameters that are not run under torch.no_grad() or in a checkpoint with "
        words += "use_reentrant=True (turn checkpoints off to measure), or in a function of your "
        words += f"own; else {_LEAVE_OUT}"
        require("parameters", unfollowed, not unfollowed, words)
        self.sources: list[str] = []
        self.values: list[Value] = []
        uses = [call for call in tape.calls if call.layout is not None]
        self.keys: list[Any] = []
        for use, (call, made) in enumerate(zip(uses, tape.made, strict=True)):
            taken = _few([names[place] for place in tape.sources(call.marks)])
            function = getattr(call.function, "__name__", "?")
            for output, tensor in enumerate(made):
                layout = Layout.of(tensor)
                if layout is None:
                    continue
                shape = tuple(layout.front(tensor).shape[1:])
                self.values.append(Value(use, output, layout))
                self.sources.append(f"{function}() of {taken}")
                self.keys.append((call.function, *call.marks, output, shape))
        found = bool(self.values)
        require("parameters", names, found, "some that the predictions use")
        self.entries = max(self.entries, sum(_numel(key[-1]) for key in self.keys))
        self.fit(self.entries)

    def _measure_times(self) -> None:
        """Measure the step of each use."""
        joins = sorted(self.plan.joins.items())

        def values(inputs: Tensor) -> list[Tensor]:
            tape, _ = self._taped(inputs, self.plan, watch=True)
            own = [value.layout.front(tape.made[value.use][value.output]) for value in self.values]
            others = [
                layout.front(tape.joined[use])
                if use in tape.joined
                else own[0].new_zeros(len(inputs), 1)
                for use, (_, layout) in joins
            ]
            return [*own, *others]

        found = last_steps(values, self.pairs, 2 * self.entries)
        own, others = found[: len(self.values)], found[len(self.values) :]
        joined = {use: times for (use, _), times in zip(joins, others, strict=True)}
        groups: dict[Any, list[int]] = {}
        measured = [measured_rows(times) for times in own]
        for place, (key, rows) in enumerate(zip(self.keys, measured, strict=True)):
            axes = rows[0] if rows is not None else ()
            groups.setdefault((*key, axes), []).append(place)
        self.sites = [self._site(places, own, measured, joined) for places in groups.values()]
        self.tables = [site.by_time(self.shape[1]) for site in self.sites]

    def _site(
        self, places: list[int], own: list[Any], measured: list[Any], joined: dict[int, Any]
    ) -> Site:
        """The uses in one place of the code, their steps, and what these wait for."""
        length = self.shape[1]
        shape = own[places[0]].low.shape
        axes = measured[places[0]][0] if measured[places[0]] is not None else ()
        count = int(np.prod([shape[axis] for axis in axes], dtype=int))
        none = np.full(count, -1)
        bounds = [measured[p][1:] if measured[p] is not None else (none, none) for p in places]
        low = np.concatenate([one for one, _ in bounds])
        high = np.concatenate([one for _, one in bounds])
        site = Site(
            self.sources[places[0]], [self.values[p] for p in places], Rows(shape, axes, none)
        )
        waits = 0
        if len(low) > 1:
            others = [self._joined_rows(self.values[p].use, joined, count) for p in places]
            waits = later(np.where(low == high, low, -1), np.concatenate(others))
        times = settled(
            np.where(low >= 0, low + waits, -1), np.where(low >= 0, high + waits, -1), length
        )
        site.times = times
        return site

    def _joined_rows(self, use: int, joined: dict[int, Any], count: int) -> Steps:
        """Steps of what is first made of a use and other data, row by row, −1 where unknown."""
        unknown = np.full(count, -1)
        times = joined.get(use)
        rows = measured_rows(times) if times is not None else None
        if rows is None:
            return unknown
        _, low, high = rows
        if len(low) != count:
            return unknown
        return np.where(low == high, low, -1)

    def _check_directions(self, reading: _Reading) -> None:
        """Refuse functions that cannot be repeated, or whose change cannot be pushed forward."""
        with self.repeated(reading.tape) as repeated:
            try:
                repeated.push(torch.ones(len(self.theta), dtype=torch.float64))
            except (RuntimeError, NotImplementedError) as error:
                raise ArgumentError(self._unrepeatable(reading.tape, error)) from error

    def _check_causal(self, reading: _Reading) -> None:
        """Refuse uses that are later than a prediction made of them, and see whether any is before.

        Tried at a few end points, the first and the last among them.
        """
        steps = reading.steps or self.end_steps
        chosen = sorted({steps[0], steps[-1], *steps[:: max(1, len(steps) // 6)]})
        early = False
        for step in chosen:
            end = torch.full((len(reading.pulls),), step)
            weights = reading.at_end(end.to(reading.pulls.device))
            pulls = weights * (1 + torch.rand(weights.shape, generator=self.generator).to(weights))
            free = reading._replace(pulls=torch.ones_like(reading.pulls))
            whole = free.pulled(pulls)
            for site, part in zip(self.sites, whole, strict=True):
                size = in_double(part.abs()).sum((0, 2)).cpu().numpy()
                total = float(size.sum())
                if total == 0:
                    continue
                late = float(size[site.times > step].sum()) / total
                told = f"{site.name}: {late:.1g} of the gradient of step {step} is in values that "
                told += "inputs of later steps move"
                words = "one where none is: is it made of all steps at once, as by a Fourier "
                words += f"transform? Then {_LEAVE_OUT}. If it is 1e-4 or less, rounding: try "
                words += "model.double()"
                require("model", told, late <= self.exact, words)
                early |= bool((size[site.times < step] > 0).any())
        words = "one that uses parameters before the step of a prediction, in a way that gradients "
        words += "reach. Of this one nothing can be told by lags: it takes a window at once (as an "
        words += "MLP or one convolution does, whose kernel looks back within lag 0), is detached, "
        words += "or axis 1 of the inputs is no time (for channels first, (B, C, T): time_axis=2)"
        count = sum(part.numel() for part in self.chosen.values())
        told = f"{self.kind}, all of whose {count:,} parameters looked at act at the step of the "
        told += "prediction alone (lag 0)"
        require("model", told, early, words)

    def _check_additive(self, reading: _Reading) -> None:
        """Refuse gradients that change on their way: end points do not add up."""
        whole = reading.pulled()
        steps = torch.tensor(reading.steps)
        parts: list[Any] = [0] * len(whole)
        ends = self.ends.to(reading.pulls.device)
        for stratum in steps.tensor_split(min(ENDS, max(len(steps), 1))):
            inside = torch.isin(ends, stratum.to(ends.device)).to(reading.pulls)
            found = reading.pulled(inside.expand_as(reading.pulls))
            parts = [one + two for one, two in zip(parts, found, strict=True)]
        halves = reading.pulled(torch.full_like(reading.pulls, 0.5))
        size = max(float(in_double(part).norm()) for part in whole) if whole else 0.0
        for site, one, two, half in zip(self.sites, whole, parts, halves, strict=True):
            missing = max(
                float((in_double(one) - in_double(two)).norm()),
                float((in_double(one) - 2 * in_double(half)).norm()),
            )
            own = float(in_double(one).norm())
            told = (
                f"{site.name}: end points one by one miss {missing / max(own, 1e-300):.1g} of the "
            )
            told += "gradient"
            words = (
                "one whose gradients pass unchanged: is there a hook that clips or scales them, "
            )
            words += "or a function of your own? Take it off to measure"
            require("model", told, missing <= 10 * self.exact * size, words)


def _second_derivative(given: Sequence[Tensor]) -> None:
    """Differentiate a call's gradient in its parameters, which fails where PyTorch has no rule."""
    moved = [part for part in given if part.requires_grad]
    for part in moved:
        pulls = torch.ones_like(part, requires_grad=True)
        own = _leaves_of(part)
        found = torch.autograd.grad(part, own, pulls, create_graph=True, **ZEROS)
        total = sum(in_reals(one).sum() for one in found if one.requires_grad)
        if isinstance(total, Tensor):
            torch.autograd.grad(total, pulls, allow_unused=True)


def _leaves_of(value: Tensor) -> list[Tensor]:
    """The leaves that a value is made of."""
    seen, found, left = set(), [], [value.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        left += [one for one, _ in node.next_functions]
    return found


def _numel(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=int))


def _few(names: Sequence[str]) -> str:
    """Names, or the first few and how many more."""
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"


def _second_names(model: nn.Module, every: dict[str, Tensor]) -> dict[str, str]:
    """All names of parameters, with the one under which each comes first."""
    firsts = {id(part): name for name, part in every.items()}
    named = model.named_parameters(remove_duplicate=False)
    return {name: firsts[id(part)] for name, part in named}
