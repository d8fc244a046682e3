"""Reads any causal model by the uses of its parameters: what they did ℓ steps before the loss.

A *use* is one call of a function of PyTorch that takes parameters and data, and a *row* of what it
gives is all that has one time (`lwcore.diagnose.exchange`): of keys (B, T, H) in attention row k
has the time k, and of T calls of a cell each is a row. Uses of one function with the same
parameters are a `Site`, with N rows. With the loss E_t of predictions that have the time t, the
part of lag ℓ is ``(∂E_t/∂z_k) ∂z_k/∂θ``, summed over all rows z_k with the time k = t − ℓ.

All lags together are the gradient, but for what has no time. Rows that no step reaches, as of
learned tokens or of ``U h`` with a first state, have no lag; parameters that are used on these
alone, at one early step alone, or where data stand at other steps, as a first state that is
learned, are left out by name. A function whose value no data move at any
step, as a transposed weight, is no use: it counts at the use that takes what it gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import in_double, placed
from lwcore.diagnose.contract import Rows, explained, few
from lwcore.diagnose.exchange import STILL, Layout, Steps, Times, of_rows, row_axes
from lwcore.diagnose.losses import Objective
from lwcore.diagnose.passes import SURVEYED, ZEROS, Passes
from lwcore.diagnose.route import FOLLOWED, LEAVE_OUT, TURN_OFF, Route, in_reals
from lwcore.diagnose.tape import UNIFORM, Tape
from lwcore.signatures import require

ENDS = 16  # end points of a sequence, drawn where its loss has more
# Relative errors of what must be equal or zero, by the type of numbers; others are coarser.
_EXACT = {torch.float64: 1e-10, torch.float32: 1e-6}
_COARSE = 0.01

_UNEVEN = 0.05  # share of sequences that may be read out earlier than others
_READ_OUT = 256  # sequences in which that is looked at
_SEEN = (
    "some that the predictions use, where it can be seen: not within torch.vmap, a scripted "
    "function or one of your own (write a loop in its place)"
)
_EACH = (
    "used on each sequence by itself, on the same rows of each, and on data in most sequences: is "
    "there a normalisation over the batch, or a gate before it? Choose among steps by torch.where. "
    "A first state has an axis of sequences, (B, H); and what is used on data and on learned "
    "positions alike is not read"
)
_NO_LAG = (
    "Some values are reached by no step of the inputs, as of learned tokens, of padding, of a "
    "first state, or of one input at a step where it alone is the same in all sequences: their "
    "part of the gradient has no lag."
)
_TRANSFORMED = (
    "one without Fourier transforms, whose rounding hides which steps reach its small values: "
    "write them as convolutions, or take logarithms of the inputs"
)
_FEATURES = (
    "a further input whose steps do not reach what earlier steps make, as a mask. Has it features "
    "and no steps? Give it another width, torch.nn.functional.pad(c, (0, 1)), and take c[:, :-1] "
    "in the model. Is a length made of it? Give the length, (B,). Is a time counted from the last "
    "step? Give that, ts[:, -1:] - ts, as the input"
)
_SAME_END = (
    "one that reads all sequences out at the same step. Do these end earlier, by a mask, a length "
    "or a flag? Then give the predictions of all steps and leave some out in the loss, or pad on "
    "the left. Is it a maximum over steps? Take torch.logsumexp in its place to measure"
)

# One end point of each sequence, (B,), and the gradient of its loss at all sites.
_EndPoint = tuple[Tensor, list[Tensor]]


class Site(NamedTuple):
    """The uses of one function with the same parameters: N rows, and the time of each."""

    parameters: frozenset[int]  # their places among all that were chosen
    places: list[int]  # of its values among all that uses make
    layout: Layout
    shape: tuple[int, ...]  # of all values together, without sequences: (calls, …)
    axes: tuple[int, ...]  # of the shape, along which rows are
    times: Steps  # of the rows; −1: reached by no step, no lag

    def stacked(self, made: Sequence[Tensor]) -> Tensor:
        """Return its values, (B, calls, …), among all that the uses of a pass have made."""
        return torch.stack([self.layout.front(made[place]) for place in self.places], 1)

    def series(self, made: Sequence[Tensor]) -> Float[Tensor, "B N F"]:
        """Return its rows from what all uses have made, or from gradients in that."""
        values = self.stacked(made)
        axes = [axis + 1 for axis in self.axes]  # behind that of sequences
        values = in_reals(values.movedim(axes, [*range(1, len(axes) + 1)]))
        n_rows = prod(self.shape[axis] for axis in self.axes)
        return values.reshape(len(values), n_rows, -1)

    def is_at(self, times: Tensor) -> Tensor:
        """Say which rows, (B, N), have a time of each sequence, (B,)."""
        own = torch.from_numpy(self.times)
        return (own == times[:, None]) & (own >= 0)


class Replay:
    """The values at all sites as a function of the parameters, whose derivative is J."""

    def __init__(self, parameters: Iterable[Tensor], tape: Tape, sites: Sequence[Site]) -> None:
        """Make the calls again with copies of the parameters."""
        self.theta = []  # copies of the parameters, complex ones as pairs of real numbers
        copies = []
        for parameter in parameters:
            reals = in_reals(parameter.detach()).clone().requires_grad_()
            self.theta.append(reals)
            copies.append(torch.view_as_complex(reals) if parameter.is_complex() else reals)
        with torch.enable_grad():
            made = tape.replay(copies)
            # of h.to(U) no gradient is in U
            self.values = [site.series(made).requires_grad_() for site in sites]

    def vjp(self, cotangents: Sequence[Tensor]) -> Float[Tensor, " P"]:
        """Return the gradient Jᵀu in all parameters, as one vector, of gradients u in values."""
        found = torch.autograd.grad(self.values, self.theta, cotangents, retain_graph=True, **ZEROS)
        return torch.cat([in_double(part).cpu().flatten() for part in found])

    @cached_property
    def _backward(self) -> tuple[list[Tensor], Sequence[Tensor]]:
        """Some u, and Jᵀu as what autograd can differentiate in u; it is linear, and u is zero."""
        u = [torch.zeros_like(value, requires_grad=True) for value in self.values]
        with torch.enable_grad():
            pulled = torch.autograd.grad(self.values, self.theta, u, create_graph=True, **ZEROS)
        return u, pulled

    def jvp(self, direction: Float[Tensor, " P"]) -> Sequence[Tensor]:
        """Return J w, how all values change as the parameters go in a direction w.

        By two reverse passes, since not all of PyTorch's functions have a forward mode: ``w · Jᵀu``
        is a number, and its gradient in u is J w.
        """
        u, pulled = self._backward
        total: Any = 0
        sizes = [part.numel() for part in self.theta]
        for gradient, part, w in zip(pulled, self.theta, direction.split(sizes), strict=True):
            own = placed(w, part.device, part.dtype).reshape(part.shape)
            total = total + (gradient * own).sum()
        return torch.autograd.grad(total, u, retain_graph=True, **ZEROS)


class _Reading(NamedTuple):
    """A batch of sequences that was run once: the tape of its uses, and the loss behind them."""

    uses: Uses
    tape: Tape
    predictions: Tensor  # (B, K)
    pulls: Tensor  # gradients of each sequence's own loss in its predictions

    @property
    def end_steps(self) -> list[int]:
        """The steps at which predictions with a loss are made."""
        has_loss = self.pulls.ne(0).any(0).cpu()
        made = {*self.uses.passes.ends[has_loss].tolist()}
        return sorted(made - {-1})  # what no input reaches has no step

    def value_gradients(self, weights: Any = 1) -> list[Tensor]:
        """Return ∂E/∂z at each site, of losses with a weight for each prediction."""
        pulls = weights * self.pulls
        how = {"retain_graph": True, **ZEROS}
        with explained(self.uses.kind, "has a gradient that cannot be taken again", TURN_OFF):
            found = torch.autograd.grad(self.predictions, self.tape.values, pulls, **how)
        return [site.series(found) for site in self.uses.sites]

    def weights_at(self, end: Any) -> Float[Tensor, "B K"]:
        """Return 1 for the predictions that are made at an end, one for all or (B, 1), else 0."""
        return torch.ones_like(self.pulls) * (self.uses.passes.ends == end).to(self.pulls)

    def end_points(self) -> Iterator[_EndPoint]:
        """Yield end points of all sequences, at the most `ends_drawn`, with the loss's gradients.

        If there are no more, they are taken one by one. Else they are cut into strata, runs of
        neighbours. Of each stratum one is drawn for each sequence, and its loss is multiplied by
        the number of end points in the stratum. So the mean over all draws is the sum over all.
        """
        steps = torch.tensor(self.end_steps, dtype=torch.int64)
        if not len(steps):
            return
        for stratum in steps.tensor_split(min(self.uses.ends_drawn, len(steps))):
            draws = torch.randint(len(stratum), (len(self.pulls),), generator=self.uses.generator)
            end = stratum[draws]
            yield end, self.value_gradients(self.weights_at(end[:, None]) * len(stratum))

    def _replay(self) -> Replay:
        """Return the values as a function of the parameters."""
        return Replay(self.uses.chosen.values(), self.tape, self.uses.sites)

    def _at_lag(self, replay: Replay, end_points: Sequence[_EndPoint], lag: int) -> list[Tensor]:
        """Return ∂E/∂z at each site, of losses at end points in the rows of one lag, else 0."""
        found = [torch.zeros_like(value) for value in replay.values]
        for end, gradients in end_points:
            for site, total, gradient in zip(self.uses.sites, found, gradients, strict=True):
                is_at = site.is_at(end - lag)
                total[is_at] += gradient[is_at]
        return found

    def lag_vectors(self, lags: Sequence[int]) -> Float[Tensor, "lags P"]:
        """Return each lag's part of the gradient, summed over sequences, as one vector."""
        replay = self._replay()
        end_points = list(self.end_points())
        return torch.stack([replay.vjp(self._at_lag(replay, end_points, lag)) for lag in lags])

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector.

        Some end points are taken one by one, with rows that are no later than they are.
        """
        steps = self.end_steps
        is_left = torch.ones_like(self.pulls)
        replay = self._replay()
        total: Any = 0
        for step in steps[:: max(1, len(steps) // 6)]:
            weights = self.weights_at(step)
            is_left -= weights
            gradients = self.value_gradients(weights)
            for site, gradient in zip(self.uses.sites, gradients, strict=True):
                gradient[:, torch.from_numpy(site.times > step)] = 0
            total = total + replay.vjp(gradients)
        return total + replay.vjp(self.value_gradients(is_left))

    def lag_numbers(
        self, directions: Float[Tensor, "lags P"], lags: Sequence[int]
    ) -> Float[Tensor, "2 lags B"]:
        """Return each sequence's part of each lag along its direction w, and the whole along it.

        Both are sums of products of ∂E/∂z and of J w, how values change along w: over the rows of
        the lag, and over all rows.
        """
        whole = self.value_gradients()
        end_points = list(self.end_points())
        replay = self._replay()
        numbers: list[Any] = []
        for lag, direction in zip(lags, directions, strict=True):
            changes = replay.jvp(direction)
            for gradients in (self._at_lag(replay, end_points, lag), whole):
                pairs = zip(changes, gradients, strict=True)
                numbers.append(sum(in_double(one * two).sum((1, 2)).cpu() for one, two in pairs))
        return torch.stack(numbers).unflatten(0, (-1, 2)).movedim(1, 0)


class Uses(Route):
    """A causal model with its loss, whose parameters are followed to the times of their use.

    Parameters are those named, by their names or those of modules, or all that are learned.
    """

    route = "uses"
    ends_drawn = ENDS

    def __init__(
        self, passes: Passes, objective: Objective, parameters: Sequence[str] | None
    ) -> None:
        """Find all uses, and measure their times; refuse what cannot be taken apart."""
        self.parameters = parameters
        super().__init__(passes, objective)
        self.kind = passes.name
        self.generator = torch.Generator().manual_seed(0)
        types = {part.dtype.to_real() for part in self.chosen.values()}
        self.exact = max(_EXACT.get(own, _COARSE) for own in types)
        self._find_sites()
        self._leave_out_timeless()
        if any((site.times < 0).any() for site in self.sites):
            require("model", self.kind, not passes.exchange.rounding, _TRANSFORMED)
            self.caveats.append(_NO_LAG)

    def _chosen(self) -> dict[str, Tensor]:
        every: dict[str, Tensor] = dict(self.passes.model.named_parameters())
        tied = dict(self.passes.model.named_parameters(remove_duplicate=False))
        wanted = self.parameters
        if wanted is None:
            wanted = [name for name, part in every.items() if part.requires_grad]
        found: set[Tensor] = set()
        for name in wanted:  # or in a module of this name
            own = {part for full, part in tied.items() if f"{full}.".startswith(f"{name}.")}
            require(
                "parameters",
                name,
                bool(own),
                f"of the model's parameters or modules: {few([*every])}",
            )
            found |= own
        require(
            "parameters",
            self.parameters,
            bool(found),
            "names of one parameter or more, or None if some are learned (require gradients)",
        )
        return {name: part for name, part in every.items() if part in found}

    def read(self, inputs: Rows, targets: Rows) -> _Reading:
        """Read a batch of sequences in one pass."""
        tape, predictions = self._taped(inputs)
        return _Reading(self, tape, predictions, self.objective.gradients(predictions, targets))

    def _taped(self, inputs: Rows) -> tuple[Tape, Tensor]:
        """Run the model on sequences, with a tape of the calls that take parameters."""
        parameters = [*self.chosen.values()]
        tape = Tape(parameters, self.steps)
        with torch.enable_grad(), tape:
            predictions = self.passes.predictions(inputs)
        fits = self.names in ([], tape.names)
        require("model", f"{self.kind}, with other uses for some data", fits, UNIFORM)
        return tape, predictions

    def _find_sites(self) -> None:
        """Find all uses in a trial, and measure the times of their rows."""
        trial = self._find_uses()
        require("parameters", few([*self.chosen]), bool(trial.values), _SEEN)
        self.sites = self._grouped(trial)
        self.limit_batch(sum(prod(site.shape) for site in self.sites))
        times = self.passes.exchange.times(self._stacked, self.passes.at_once)
        self.looks_back = False
        for index, (site, own) in enumerate(zip(self.sites, times, strict=True)):
            axes = tuple(sorted({0, *row_axes(own.last)}))
            self.sites[index] = site._replace(axes=axes, times=of_rows(own.last, axes).ravel())
            is_of_several = own.first < own.last
            self.looks_back |= bool(is_of_several[own.last < self.data.length - 1].any())
        if self.data.flat:
            self._refuse_features(times)

    def _refuse_features(self, known: Sequence[Times]) -> None:
        """Refuse an input (B, D), D = T, that reaches all that earlier steps make: it has none."""
        exchange = self.passes.exchange
        exchange.exchanged = [0]
        others = exchange.times(self._stacked, self.passes.at_once)
        exchange.exchanged = self.data.with_steps
        last = self.data.length - 1
        for own, without in zip(known, others, strict=True):
            times = own.last[(without.last >= 0) & (without.last < last)]
            is_taken = len(times) and times.min() == last
            require("inputs", f"(B, {last + 1})", not is_taken, _FEATURES)

    def _find_uses(self) -> Tape:
        """Tell uses from steps on the way to one: what is the same for other sequences.

        ``U h`` of a first state is a use, as it is of later ones, though no step reaches it.
        """
        places = self.passes.exchange.some(SURVEYED)
        inputs = self.data.inputs[places]
        _, others = self.passes.exchange.drawn(places.roll(1))  # other in each step, if it can be
        self.steps: dict[int, bool] = {}
        while True:  # what a step gives is known from the next time on
            self.names: list[str] = []
            trial, predictions = self._taped(inputs)
            require("predictions", "without a gradient", predictions.requires_grad, FOLLOWED)
            self.names = trial.names
            other, _ = self._taped(others)
            with explained(self.kind, "has a function that cannot be made again", LEAVE_OUT):
                is_same = [*map(torch.equal, trial.values, other.values)]
            sizes: dict[Any, int] = {}  # of what is moved, by the number and by the kind of its use
            for (number, kind, value), same in zip(trial.noted, is_same, strict=True):
                if not same:
                    sizes[number] = sizes[kind] = value.numel()
            still = {}
            for number, kind, value in trial.noted:
                if number in sizes:
                    continue
                # ``U h`` with a first state, of all sequences or of one
                size = value.numel()
                of_states = (size, size * len(inputs))
                for place, part in enumerate(kind):
                    as_data = (*kind[:place], None, *kind[place + 1 :])
                    if isinstance(part, frozenset) and sizes.get(as_data) in of_states:
                        self._leave_out(part)
                        return self._find_uses()
                is_alike = sizes.get(kind) in of_states
                if not (is_alike and self._carries(value)):
                    still[number] = is_alike
            if not still:
                return trial
            self.steps |= still

    def _carries(self, value: Tensor) -> bool:
        """Say whether a parameter moves a value, as none moves U·0."""
        total = in_reals(value).sum()
        parts = torch.autograd.grad(total, [*self.chosen.values()], retain_graph=True, **ZEROS)
        return any(part.any() for part in parts)

    def _stacked(self, inputs: Rows) -> list[Tensor]:
        """Return the values at all sites."""
        tape, _ = self._taped(inputs)
        return [site.stacked(tape.values).detach() for site in self.sites]

    def _grouped(self, trial: Tape) -> list[Site]:
        """Return the sites, whose times are not measured yet."""
        layouts = self.passes.exchange.layouts(lambda inputs: self._taped(inputs)[0].values)
        kinds = [(kind, value.shape) for _, kind, value in trial.noted]
        pairs = [*zip(kinds, layouts, strict=True)]
        # for steps at which nothing moves, as of a first state or where few neurons fire
        known = dict(pair for pair in pairs if pair[1] != STILL)
        groups: dict[Any, list[int]] = {}
        for place, (kind, found) in enumerate(pairs):
            layout = known.get(kind, STILL) if found == STILL else found
            groups.setdefault((kind, layout), []).append(place)
        return [self._site(trial, own, layout) for (_, layout), own in groups.items()]

    def _site(self, trial: Tape, places: list[int], layout: Layout | str) -> Site:
        """Return the site of some values; refuse those that have no sequences, or mix them."""
        call = trial.makers[places[0]][0]
        parameters = trial.sources(call)
        if isinstance(layout, str):
            own = self._names(parameters)
            shown = f"{call.name}() of {', '.join(own)}, whose value {layout}"
            require("parameters", shown, False, self.without(_EACH, own))
            raise AssertionError
        shape = layout.front(trial.values[places[0]]).shape[1:]
        return Site(parameters, places, layout, (len(places), *shape), (), np.zeros(0, int))

    def _leave_out_timeless(self) -> None:
        """Take parameters out that are used on what no step reaches, or at one early step alone.

        As on a category of the whole sequence, or as a first state that is learned.
        """
        times: dict[int, set[int]] = {}
        for site in self.sites:
            for place in site.parameters:
                times.setdefault(place, {-1}).update(site.times.tolist())
        last = self.passes.end_steps[-1]
        timeless = [place for place, own in times.items() if len(own) < 3 and max(own) < last]
        if timeless:
            self._leave_out(timeless)
            self._find_sites()

    def _names(self, places: Collection[int]) -> list[str]:
        """Return the names of parameters at some places."""
        return [name for place, name in enumerate(self.chosen) if place in places]

    def _leave_out(self, places: Collection[int]) -> None:
        """Take parameters out that have no lag, and say so."""
        names = self._names(places)
        self.chosen = {name: part for name, part in self.chosen.items() if name not in names}
        require(
            "parameters",
            f"{few(names)}, and no other",
            bool(self.chosen),
            "some that are used at several steps: nothing can be told by lags of one",
        )
        self.caveats.append(
            f"Left out: {few(names)}, used as a first state, on no step of the inputs, or on one "
            "early step alone, so that there is no lag."
        )

    def check(self) -> None:
        """Refuse what does not add up, and sequences that are read out at other steps.

        As padded ones at their last real step. A prediction of the last step is followed back to
        the latest row that it is made of, at sites with rows of several times. It must be as late
        in nearly all sequences.
        """
        super().check()
        end = self.passes.end_steps[-1]
        generator = self.passes.exchange.generator
        times = []
        for site in self.sites:
            has_several = len({*site.times.tolist()} - {-1}) > 1
            times.append(np.where(has_several, site.times, -1))
        latest = []
        for places in self.passes.exchange.some(_READ_OUT).split(self.at_once):
            reading = self.read(self.data.inputs[places], self.data.targets[places])
            pulls = reading.weights_at(end)
            pulls *= 1 + torch.rand(pulls.shape, generator=generator).to(pulls)  # so none cancel
            gradients = reading._replace(pulls=pulls).value_gradients()
            is_reached = torch.cat([own.ne(0).any(2).cpu() for own in gradients], 1)
            latest.append(np.where(is_reached, np.concatenate(times), -1).max(1))
        last = np.concatenate(latest)
        is_early = last < last.max()
        require(
            "model",
            f"{self.kind}: in {is_early.sum()} of {len(last)} sequences a prediction of step {end} "
            f"is made of nothing behind step {last.min()}",
            is_early.mean() <= _UNEVEN,
            _SAME_END,
        )
