"""Any causal model as the core sees it: what parameters used at each time give to the gradient.

A parameter is *used* where one of PyTorch's functions makes, of it and of data, a value z of
sequences. The time k of a use is measured: it is the last step of the inputs that moves z. Where
z first waits for data of a later step, as U h in ``tanh(W x_t + U h)`` does, it is that step.
Along a direction w the uses at time k give ``⟨∂E_t/∂z_k, ∂z_k/∂θ · w⟩`` to the gradient of the loss
E_t at the end point t, and ``ℓ = t − k`` is their lag. All lags together are the gradient.

In an example of two layers of attention, for sequences of T steps::

    h = read(x)
    for layer in layers:
        h = h + attend(layer.query(h), layer.key(h), layer.value(h))
    return show(h)

Every call of ``read``, ``query``, ``key``, ``value`` and ``show`` is a use (`lwcore.diagnose.tape`
records it), eight in all. What ``layers[0].key`` gives is a `Value`: a tensor (B, T, H) whose
`Layout` says that its sequences are along axis 0. Row k of it moves with the inputs up to step k
and with no later one, so that its time is k. This is measured (`lwcore.diagnose.trials`), and not
read off the shape. The value's T rows with their times are a `Site`. A loop over a cell calls the
cell T times, from one place of the code: its site has T values of one row each.

With a loss at step t, the gradient of ``layers[0].key`` at lag ℓ is autograd's gradient in row
t − ℓ of the site, carried on into the parameters by making the call again (`Repeated`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import in_double, placed
from lwcore.diagnose.adapter import Adapter, Bands
from lwcore.diagnose.tape import Call, Plan, Tape
from lwcore.diagnose.tensors import ZEROS, dense, first_line, followed, in_reals
from lwcore.diagnose.times import Bounds, bounds_of, has_unknown, settled, waits_of
from lwcore.diagnose.trials import Layout, Steps, Times, last_steps
from lwcore.signatures import ArgumentError, Lags, checked, require

ENDS = 16  # end points of a sequence, drawn where its loss has more
_EXACT = {torch.float64: 1e-10, torch.float32: 1e-6, None: 0.01}  # of what must be equal or zero
_LEAVE_OUT = "name in `parameters` those to look at, without it"
_ROUNDED = 1e-4  # share of the gradient, up to which it may be by rounding
_MORE_PAIRS = 12  # of sequences, for values that the first ones do not move
_LARGE = 16.0  # times the loss, at which gradients are tried, too


class Value(NamedTuple):
    """One tensor that a use gives for all sequences, and its shape without their axis."""

    use: int
    output: int
    layout: Layout
    shape: tuple[int, ...]
    call: Call
    name: str

    def of(self, made: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return it, (B, …), from what all uses of a pass have made."""
        return self.layout.front(made[self.use][self.output])


class Group(NamedTuple):
    """Values of one place of the code: the steps that move their rows, one value after the other.

    `joined` has the steps that move what is first made of a row and of other data.
    """

    values: list[Value]
    own: Bounds
    joined: Bounds


@dataclass(eq=False)
class Site:
    """Uses in one place of the code: rows of values (B, N, F), and the step of each row."""

    name: str
    values: list[Value]
    axes: tuple[int, ...]  # of a value, along which its rows are
    times: Steps  # of the rows of the first value, then of the next

    @property
    def start(self) -> int:
        """The step of the first use."""
        return int(self.times[0])

    def series(self, made: Sequence[Sequence[Tensor]]) -> Float[Tensor, "B N F"]:
        """Return values, or gradients in them, in rows."""
        n_rows = len(self.times) // len(self.values)
        axes = [axis + 1 for axis in self.axes]  # behind that of sequences
        parts = []
        for value in self.values:
            rows = value.of(made).movedim(axes, [*range(1, len(axes) + 1)])
            rows = in_reals(rows)
            parts.append(rows.reshape(len(rows), n_rows, -1))
        return torch.cat(parts, 1)

    def in_band(self, band: Sequence[int], end: Tensor) -> Tensor:
        """Say which rows, (B, N), were used so long before each sequence's end point, (B,)."""
        lags = end[:, None] - torch.from_numpy(self.times)
        return (lags >= band[0]) & (lags <= band[-1])


class Repeated:
    """The values of all uses once more, as a function of the parameters; data do not change.

    A change of parameters is pushed forward by two reverse passes: the derivative of ``Jᵀu · w`` in
    u is J w. Not all of PyTorch's functions have a forward mode.
    """

    def __init__(self, network: Uses, tape: Tape) -> None:
        """Make them, of the parameters that are looked at."""
        self.theta = []
        parameters = []
        for own in network.chosen.values():
            part = in_reals(own.detach()).clone().requires_grad_()
            self.theta.append(part)
            parameters.append(torch.view_as_complex(part) if own.is_complex() else part)
        with torch.enable_grad():
            made = tape.replay(parameters)
            self.values = [site.series(made) for site in network.sites]
        self.backward: tuple[Tensor, ...] | None = None  # Jᵀu

    def pull(self, pulls: Sequence[Tensor]) -> Float[Tensor, " P"]:
        """Return gradients in the values as one vector of gradients in the parameters, Jᵀu."""
        values = []
        given = []
        for value, pull in zip(self.values, pulls, strict=True):
            if bool(pull.any()):
                values.append(value)
                given.append(pull)
        if not values:
            return torch.zeros(sum(part.numel() for part in self.theta), dtype=torch.float64)
        found = torch.autograd.grad(values, self.theta, given, retain_graph=True, **ZEROS)
        return torch.cat([in_double(dense(part).flatten()).cpu() for part in found])

    def push(self, direction: Float[Tensor, " P"]) -> Sequence[Tensor]:
        """Return how all values change as the parameters go in a direction, J w."""
        if self.backward is None:
            self.cotangents = [torch.zeros_like(v, requires_grad=True) for v in self.values]
            how = {"create_graph": True, "retain_graph": True, **ZEROS}
            with torch.enable_grad():
                self.backward = torch.autograd.grad(self.values, self.theta, self.cotangents, **how)
        reached = []
        along = []
        sizes = [part.numel() for part in self.theta]
        pieces = direction.split(sizes)
        for gradient, own, piece in zip(self.backward, self.theta, pieces, strict=True):
            if gradient.requires_grad:
                reached.append(gradient)
                along.append(placed(piece, own.device, own.dtype).reshape(own.shape))
        if not reached:
            return [torch.zeros_like(value) for value in self.values]
        return torch.autograd.grad(reached, self.cotangents, along, retain_graph=True, **ZEROS)


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
        has_loss = self.pulls.ne(0).any(0).cpu()
        return sorted({*self.network.ends[has_loss].tolist()} - {-1})

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""
        return self.steps[0] if self.steps else -1

    def pulled(self, weights: Float[Tensor, "B K"] | None = None) -> list[Tensor]:
        """Return the gradient in the values at each site, ∂E/∂z, of losses that are so weighted."""
        pulls = self.pulls if weights is None else weights * self.pulls
        values = [part for made in self.tape.made for part in made]
        with torch.backends.cudnn.flags(enabled=False):
            found = torch.autograd.grad(self.predictions, values, pulls, retain_graph=True, **ZEROS)
        gradients = iter(found)
        by_use = [[dense(next(gradients)) for _ in made] for made in self.tape.made]
        return [site.series(by_use) for site in self.network.sites]

    def at_end(self, steps: Tensor) -> Float[Tensor, "B K"]:
        """Return weights of 1 for those predictions of each sequence that are made at its step."""
        ends = self.network.ends.to(self.pulls.device)
        steps = steps.to(self.pulls.device)
        return (ends[None] == steps[:, None]).to(self.pulls)

    def drawn(self) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Yield an end point for each sequence, and the gradient of its loss at all sites.

        Where there are more than `ENDS`, one of each of so many strata is drawn, and weighs as much
        as its stratum.
        """
        count = len(self.pulls)
        steps = torch.tensor(self.steps, dtype=torch.int64)
        for stratum in steps.tensor_split(min(ENDS, len(steps))):
            generator = self.network.generator
            draws = torch.randint(len(stratum), (count,), generator=generator, device="cpu")
            end = stratum[draws]
            whole = self.pulled(self.at_end(end) * len(stratum))
            yield self._before_padding(end, whole), whole

    def _before_padding(self, end: Tensor, whole: list[Tensor]) -> Tensor:
        """Return the last step that is no padding, where a gradient goes just as far, for the end.

        A model that reads out each sequence where it ends makes its prediction there.
        """
        if not bool(self.padding.any()):
            return end
        reached = torch.full((len(end),), -1, dtype=torch.int64)
        for site, part in zip(self.network.sites, whole, strict=True):
            if len(set(site.times.tolist())) == 1:
                continue  # of a readout, say, which is used once
            times = torch.from_numpy(site.times.astype(np.int64))
            is_used = part.ne(0).any(-1).cpu()
            last = torch.where(is_used, times, -1).max(1).values
            reached = torch.maximum(reached, last)
        last_real = self.network.shape[1] - 1 - self.padding.cpu()
        ends_there = (reached >= 0) & (reached == last_real) & (reached < end)
        return torch.where(ends_there, reached, end)

    def _rows(
        self, band: Sequence[int], ended: Sequence[tuple[Tensor, list[Tensor]]]
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the rows of a band: the place of their site, which they are, and its gradient."""
        for end, gradients in ended:
            for place, gradient in enumerate(gradients):
                chosen = self.network.sites[place].in_band(band, end)
                yield place, chosen.to(gradient.device), gradient

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        """Return each lag's part of the gradient, summed over sequences, as one vector."""
        return self.band_vectors([[lag] for lag in lags])

    def band_vectors(self, bands: Bands) -> Float[Tensor, "bands P"]:
        """Return each band's part of the gradient, summed over sequences, as one vector."""
        repeated = Repeated(self.network, self.tape)
        ended = list(self.drawn())
        vectors = []
        for band in bands:
            pulls = [torch.zeros_like(value) for value in repeated.values]
            for place, chosen, gradient in self._rows(band, ended):
                pulls[place][chosen] += gradient[chosen]
            vectors.append(repeated.pull(pulls))
        return torch.stack(vectors)

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector."""
        return Repeated(self.network, self.tape).pull(self.pulled())

    def band_numbers(
        self, directions: Float[Tensor, "bands P"], bands: Bands
    ) -> Float[Tensor, "2 bands B"]:
        """Return each sequence's part of each band along its direction, and the whole along it.

        Both are products of ∂E/∂z and of J w, how values change along the direction: of the rows of
        the band, and of all.
        """
        whole = self.pulled()
        ended = list(self.drawn())
        repeated = Repeated(self.network, self.tape)
        numbers = []
        for band, direction in zip(bands, directions, strict=True):
            changes = repeated.push(direction)
            along_all = torch.zeros(len(self.pulls), dtype=torch.float64)
            for change, gradient in zip(changes, whole, strict=True):
                along_all += in_double(change * gradient).sum((1, 2)).cpu()
            along_band = torch.zeros_like(along_all)
            for place, chosen, gradient in self._rows(band, ended):
                products = in_double(changes[place][chosen] * gradient[chosen]).sum(1)
                sequences = chosen.nonzero()[:, 0]
                along_band.index_add_(0, sequences.cpu(), products.cpu())
            numbers.append(torch.stack([along_band, along_all]))
        return torch.stack(numbers, 1)


@checked
@dataclass(eq=False)
class Uses(Adapter):
    """A causal model with its loss, whose parameters are followed to the steps of their use.

    In ``h = h + f(U h)``, followed by ``h = h + W x_t``, U counts at step t − 1: what it makes is
    complete before the input of step t is read.

    Parameters are those named, by their names or those of modules, or all that are learned.
    """

    parameters: Sequence[str] | None = None

    tolerance = _EXACT

    def _chosen(self) -> dict[str, Tensor]:
        every: dict[str, Tensor] = dict(self.model.named_parameters())
        wanted = self.parameters
        if wanted is None:
            wanted = [name for name, part in every.items() if part.requires_grad]
        found: set[int] = set()
        for name in wanted:
            own = self._named(name)
            words = f"of the model's parameters or modules: {_few([*every])}"
            require("parameters", name, bool(own), words)
            found |= own
        words = "names of one parameter or more, or None if some are learned (require gradients)"
        require("parameters", self.parameters, bool(found), words)
        self.generator = torch.Generator("cpu").manual_seed(0)
        return {name: part for name, part in every.items() if id(part) in found}

    def _named(self, name: str) -> set[int]:
        """Return the ids of the parameters of a name, their own or a module's, tied ones, too."""
        found = set()
        for full_name, part in self.model.named_parameters(remove_duplicate=False):
            if f"{full_name}.".startswith(f"{name}."):
                found.add(id(part))
        return found

    def read(self, inputs: Tensor, targets: Tensor) -> _Reading:
        """Read a batch of sequences in one pass."""
        tape, predictions = self._taped(inputs, self.plan)
        pulls = self.pulls(predictions, targets)
        return _Reading(self, tape, predictions, pulls, self.trials.padding_behind(inputs))

    def _taped(self, inputs: Tensor, plan: Plan | None, watch: bool = False) -> tuple[Tape, Tensor]:
        """Run the model on sequences, with a tape of the calls that take parameters."""
        tape = Tape(list(self.chosen.values()), plan, watch)
        with followed(self.chosen.values()), torch.backends.cudnn.flags(enabled=False), tape:
            predictions = self.predictions(inputs)
        words = (
            "one that does the same for all sequences: are steps sent to layers by index, or "
            f"loops as long as the data? Then {_LEAVE_OUT}"
        )
        require("model", self.kind, tape.fits, words)
        return tape, predictions

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: by name, and by how much it fails.

        Times of all uses are measured. Of a few sequences it is tried that no prediction depends on
        later uses, and that all uses make up the gradient of autograd.
        """
        super().check(inputs, targets)
        self._make_plan()
        self._measure_times()
        tried = self.tried(inputs, targets)
        reading = self.read(*tried)
        self._check_additive(reading)
        self.check_sum(*tried)
        self._check_causal(reading)

    def forget(self, inputs: Tensor, targets: Tensor) -> None:
        """Take the loss as if nothing were learned, whose gradients must be as linear."""
        super().forget(inputs, targets)
        self._check_additive(self.read(*self.tried(inputs, targets)))

    # Where and when parameters are used

    def _make_plan(self) -> None:
        """Find the uses in a trial pass, and where each value has its sequences."""
        tape, predictions = self._taped(self.trials.patterned(), None)
        self.plan = tape.plan
        if any(call.autocasts for call in tape.calls):
            self.exact = _EXACT[None]
        words = "some that carry a gradient: is the model run under torch.no_grad(), or detached?"
        require("predictions", "without a gradient", predictions.requires_grad, words)
        names = [*self.chosen]
        unfollowed = ", ".join(names[place] for place in sorted(tape.unfollowed))
        words = (
            "parameters that are not run under torch.no_grad() or in a checkpoint with "
            "use_reentrant=True (turn checkpoints off to measure), or in a function of your "
            f"own; else {_LEAVE_OUT}"
        )
        require("parameters", unfollowed, not unfollowed, words)
        self._check_calls(tape)
        self.values = self._values_of(tape)
        self.starts = [call for call in tape.calls if call.layout is None]
        words = (
            "some that the predictions use, where it can be seen: not within torch.vmap, a "
            "scripted function or one of your own (write a loop in its place)"
        )
        require("parameters", names, bool(self.values), words)
        in_a_pass = sum(_numel(value.shape) for value in self.values)
        self.entries = max(self.entries, in_a_pass)
        self.limit_batch(self.entries)

    def _values_of(self, tape: Tape) -> list[Value]:
        """Return the values that all uses of a trial pass give for the sequences."""
        values = []
        uses = [call for call in tape.calls if call.layout is not None]
        for use, (call, made) in enumerate(zip(uses, tape.made, strict=True)):
            name = self._name_of(tape, call)
            for output, tensor in enumerate(made):
                layout = Layout.of(tensor)
                if layout is not None:
                    shape = tuple(layout.front(tensor).shape[1:])
                    values.append(Value(use, output, layout, shape, call, name))
        return values

    def _name_of(self, tape: Tape, call: Call) -> str:
        """Return a function's name with those of the parameters that it takes."""
        names = [*self.chosen]
        return f"{call.name}() of {_few([names[place] for place in tape.sources(call)])}"

    def _check_calls(self, tape: Tape) -> None:
        """Refuse functions that cannot be made again, or whose gradient has no derivative.

        Of each place of the code one call is tried.
        """
        parameters = [part.detach().requires_grad_() for part in self.chosen.values()]
        values: list[Tensor] = [*parameters]
        tried: set[Any] = set()
        for call in tape.calls:
            if call.layout is not None and call.place in tried:
                continue
            tried.add(call.place)
            try:
                with torch.enable_grad():
                    given = call(values)
                _differentiate_twice(given, parameters)
            # what PyTorch raises where a function has no second derivative, or was made to run once
            except (RuntimeError, NotImplementedError) as error:
                words = f"repeated for other parameters ({first_line(error)}): {_LEAVE_OUT}"
                message = f"parameters = {self._name_of(tape, call)}: cannot be {words}."
                raise ArgumentError(message) from error
            if call.layout is None:
                values += given

    def _measure_times(self) -> None:
        """Measure the steps that move each value, and gather the uses in one place of the code."""
        joins = self.plan.joins

        def moving(inputs: Tensor) -> list[Tensor]:
            tape, _ = self._taped(inputs, self.plan, watch=True)
            own = [value.of(tape.made) for value in self.values]
            joined = []
            for use, join in joins.items():
                if use in tape.joined:
                    joined.append(join.layout.front(tape.joined[use]))
                else:
                    joined.append(own[0].new_zeros(len(inputs), 1))
            return own + joined

        found = last_steps(moving, self.pairs, 2 * self.entries)
        groups = self._grouped(found)
        for _ in range(_MORE_PAIRS):  # as of a column that is often the same
            if not any(has_unknown(group.own) for group in groups):
                break
            again = last_steps(moving, [self.trials.pair()], 2 * self.entries)
            found = [one.or_later(other) for one, other in zip(found, again, strict=True)]
            groups = self._grouped(found)
        self.sites = []
        for group in groups:
            own = self._waited(group)
            times = settled(own.low, own.high, self.shape[1])
            self.sites.append(Site(group.values[0].name, group.values, own.axes, times))

    def _grouped(self, found: list[Times]) -> list[Group]:
        """Gather the values in one place of the code, with their steps and those of their joins."""
        count = len(self.values)
        of_joins = dict(zip(self.plan.joins, found[count:], strict=True))
        groups: dict[Any, Group] = {}
        for value, times in zip(self.values, found[:count], strict=True):
            own = bounds_of(times) or _unmoved(1)
            joined = None
            if value.use in of_joins:
                joined = bounds_of(of_joins[value.use])
            if joined is None or len(joined.low) != len(own.low):
                joined = _unmoved(len(own.low))
            place = (*value.call.place, value.output, value.shape, own.axes)
            before = groups.get(place)
            group = Group([value], own, joined)
            if before is not None:
                values = [*before.values, value]
                group = Group(values, before.own.with_more(own), before.joined.with_more(joined))
            groups[place] = group
        return [*groups.values()]

    def _waited(self, group: Group) -> Bounds:
        """Return the steps of values, which wait for what they are joined with.

        A value waits for the data that it is joined with, if all in the place do, the last one,
        too. A state h_t does not: it is joined with the next step's input, and the last one with
        none. Where some wait and others do not, as in several iterations of a step, U h is a map
        of a state if it is also made of the state before the first step, in which no data are.
        """
        value = group.values[0]
        own, joined = group.own, group.joined
        told = f"{value.name}: at some steps, nothing that was tried moves its value"
        require("parameters", told, not has_unknown(own), f"used when inputs move. {_LEAVE_OUT}")
        waits = waits_of(own, joined) if len(own.low) > 1 else None
        if waits is None:
            return own
        known = {*waits.tolist()} - {-1}
        if len(known) == 1:
            return own.shifted(known.pop())
        if any(start.is_start_of(value.call) for start in self.starts):
            return own.later(joined)
        # in the first step there may be no state yet that W x could be joined with
        is_later = own.low > own.low[own.low >= 0].min()
        joins = [self.plan.joins.get(one.use) for one in group.values]
        by_a_cell = any(join is not None and join.is_use for join in joins)
        is_clear = by_a_cell or waits[is_later].max(initial=0) <= 0
        told = f"{value.name}: in some calls its value waits for the next step, in others not"
        words = f"used alike in all steps, so that its step can be told. Else {_LEAVE_OUT}"
        require("parameters", told, is_clear, words)
        return own

    # What is refused

    def _check_additive(self, reading: _Reading) -> None:
        """Refuse gradients that change on their way, by a hook say: they must be linear in E.

        The gradients of two shares of the loss of each prediction, r E and (1 − r) E, must add up
        to that of E, and that of c E must be c times as large.
        """
        whole = reading.pulled()
        generator = self.trials.generator
        share = torch.rand(reading.pulls.shape, generator=generator).to(reading.pulls)
        one, other = reading.pulled(share), reading.pulled(1 - share)
        large = reading.pulled(torch.full_like(reading.pulls, _LARGE))
        most = max((float(in_double(part).norm()) for part in whole), default=0.0)
        for place, site in enumerate(self.sites):
            wanted = in_double(whole[place])
            of_shares = in_double(one[place]) + in_double(other[place])
            of_large = in_double(large[place]) / _LARGE
            missing = max(float((of_shares - wanted).norm()), float((of_large - wanted).norm()))
            size = max(float(wanted.norm()), 1e-300)
            told = (
                f"{site.name}: parts of the loss one by one miss {missing / size:.1g} of the "
                "gradient"
            )
            words = (
                "one whose gradients pass unchanged: is there a hook that clips or scales "
                "them, or a function of your own? Take it off to measure"
            )
            require("model", told, missing <= 10 * self.exact * most, words)

    def _check_causal(self, reading: _Reading) -> None:
        """Refuse uses that are later than a prediction made of them, and see whether any is before.

        Tried at a few end points, the first and the last among them.
        """
        steps = reading.steps or self.end_steps
        every = max(1, len(steps) // 6)
        free = reading._replace(pulls=torch.ones_like(reading.pulls))
        some_before = False
        latest = (0.0, "", -1)  # share of the gradient, site and step
        for step in sorted({steps[0], steps[-1], *steps[::every]}):
            weights = reading.at_end(torch.full((len(reading.pulls),), step))
            draws = torch.rand(weights.shape, generator=self.generator).to(weights)
            whole = free.pulled(weights * (1 + draws))
            for site, part in zip(self.sites, whole, strict=True):
                by_row = in_double(part.abs()).sum((0, 2)).cpu().numpy()
                total = float(by_row.sum())
                if total == 0:
                    continue
                late = float(by_row[site.times > step].sum()) / total
                latest = max(latest, (late, site.name, step))
                some_before |= bool((by_row[site.times < step] > 0).any())
        late, name, step = latest
        told = f"{name}: {late:.1g} of the gradient of step {step} is in values of later steps"
        words = "one where none is. "
        if late < _ROUNDED:
            words += "Rounding may do this, as in a Fourier transform: try model.double()"
        else:
            words += (
                "Is the parameter put behind data (add_bias_kv), or used for all steps at once, as "
                f"by a Fourier transform? Then {_LEAVE_OUT}"
            )
        require("model", told, late <= self.exact, words)
        words = f"one that uses parameters before the step of a prediction. {self._why_at_once()}"
        count = sum(part.numel() for part in self.chosen.values())
        told = (
            f"{self.kind}, all of whose {count:,} parameters looked at act at the step of the "
            "prediction alone (lag 0)"
        )
        require("model", told, some_before, words)

    def _why_at_once(self) -> str:
        """Say why all that carries a gradient is likely used at the step of the prediction."""
        length = self.shape[1]
        frozen = [name for name, part in self.model.named_parameters() if not part.requires_grad]
        if any(np.array_equal(site.times, [length - 1] * length) for site in self.sites):
            return (
                "Of this one the values of all steps move with the last input: are inputs "
                "normalised over the window, or is its last value subtracted? Do so in the data"
            )
        if self.without_gradient:
            return (
                f"Of this one no gradient reaches {_few(self.without_gradient)}: is it detached on "
                "its way, by NumPy, or by an argmax?"
            )
        if frozen and self.parameters is None:
            return f"Of this one {_few(frozen)} are frozen: name them in `parameters`"
        return (
            "Of this one nothing can be told by lags: it takes a window at once (as an MLP or one "
            "convolution does, whose kernel looks back within lag 0), is detached, or axis 1 of "
            "the inputs is no time (for channels first, (B, C, T): time_axis=2)"
        )


def _unmoved(n_rows: int) -> Bounds:
    """Return rows that no input moves."""
    none = np.full(n_rows, -1)
    return Bounds((), none, none)


def _differentiate_twice(given: Sequence[Tensor], parameters: Sequence[Tensor]) -> None:
    """Differentiate the gradient of what a call gives, which fails where PyTorch has no rule."""
    moved = [part for part in given if part.requires_grad]
    pulls = [torch.ones_like(part, requires_grad=True) for part in moved]
    found = torch.autograd.grad(moved, parameters, pulls, create_graph=True, **ZEROS)
    reached = [in_reals(part).sum() for part in found if part.requires_grad]
    if reached:
        torch.autograd.grad(torch.stack(reached).sum(), pulls, allow_unused=True)


def _numel(shape: Sequence[int]) -> int:
    """Return how many numbers a tensor of this shape has."""
    return int(np.prod(shape, dtype=int))


def _few(names: Sequence[str]) -> str:
    """Write names, or the first few and how many more."""
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
