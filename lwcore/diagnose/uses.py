"""Reads any causal model by the uses of its parameters: what they did ℓ steps before the loss.

With a loss E_t at step t, the part of lag ℓ is ``(∂E_t/∂z_k) ∂z_k/∂θ``, summed over all rows z_k of
values with the time k = t − ℓ. `lwcore.diagnose.sites` says what uses, values, rows and times are.
All lags together are the gradient. In the example of two layers of attention there, the part of
``layers[0].key`` at lag ℓ is autograd's gradient in row t − ℓ of its value, carried on into the
parameters by making the call again (`Replay`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import in_double
from lwcore.diagnose.adapter import Adapter, Bands
from lwcore.diagnose.ends import UNMOVED
from lwcore.diagnose.reached import Reached
from lwcore.diagnose.replay import Replay
from lwcore.diagnose.sites import LEAVE_OUT, Gathered, Site, Value
from lwcore.diagnose.tape import Call, Plan, Tape
from lwcore.diagnose.tensors import ZEROS, dense, few, first_line, followed, in_reals, n_numbers
from lwcore.diagnose.times import Evidence, Sightings
from lwcore.diagnose.trials import Layout
from lwcore.signatures import ArgumentError, Lags, checked, require

ENDS = 16  # end points of a sequence, drawn where its loss has more
# Relative errors of what must be equal or zero, by the type of numbers; None is any coarser one.
_EXACT = {torch.float64: 1e-10, torch.float32: 1e-6, None: 0.01}
# Trials in which calls are sought that take data, where one may have taken none in the first, and
# those in which each must have taken data, if it did not in all.
_TRIALS, _OPEN = 40, 10
_READ_OUT = 2  # end points of each sequence at which it is tried where it is read out
_LARGE = 16.0  # times the loss, at which gradients are tried, too

# what must hold, in the words of a refusal
_SAME_CALLS = (
    "one that does the same for all sequences. Does it loop over sequences? Run them as one batch. "
    "Is a loop as long as the longest of them? Loop over all steps of the inputs, and keep the "
    "state behind an end by torch.where. Are steps sent to layers by index? Then "
    f"{LEAVE_OUT}"
)
_GRADIENT = "some that carry a gradient: is the model run under torch.no_grad(), or detached?"
_FOLLOWED = (
    "parameters that are not run under torch.no_grad() (for a burn-in, detach the state behind "
    "it), in a checkpoint with use_reentrant=True (turn checkpoints off to measure), or in a "
    f"function of your own; else {LEAVE_OUT}"
)
_SEEN = (
    "some that the predictions use, where it can be seen: not within torch.vmap, a scripted "
    "function or one of your own (write a loop in its place)"
)
_UNCHANGED = (
    "one whose gradients pass unchanged: is there a hook that clips or scales them, or a function "
    "of your own? Take it off to measure"
)
_NOT_LATER = (
    "one where none is. Is the parameter put behind data (add_bias_kv), or used for all steps at "
    f"once, as by a Fourier transform? Then {LEAVE_OUT}. If it is below 1e-4, it may be rounding: "
    "try model.double()"
)
_NORMALISED = (
    "Of this one the values of all steps move with the last input: are inputs normalised over the "
    "window, or is its last value subtracted? Do so in the data. Does it reverse or sort steps? "
    "Give them in the order of time, the newest last"
)
_READ_EARLIER = (
    "one that reads all sequences out at the same step. Do these end earlier, by a mask, a length "
    "or a flag? Then give the predictions of all steps and leave some out in the loss, pad on the "
    "left, or pad with one step that is always the same. Is it a maximum over steps? Take "
    "torch.logsumexp in its place to measure. If all predictions are made at the last step even "
    "so, say horizon=True"
)
_AT_ONCE = (
    "Of this one nothing can be told by lags: it takes a window at once (as an MLP or one "
    "convolution does, whose kernel looks back within lag 0), is detached, what looks back is not "
    "learned (a reservoir in buffers: make these parameters to measure them), or axis 1 of the "
    "inputs is no time (for channels first, (B, C, T): time_axis=2)"
)


class _EndPoints(NamedTuple):
    """One end point of each sequence, (B,), and the gradient of its loss at all sites."""

    end: Tensor
    gradients: list[Tensor]


class _Reading(NamedTuple):
    """A batch of sequences that was run once: the tape of its uses, and the loss behind them."""

    uses: Uses
    tape: Tape
    predictions: Tensor  # (B, K)
    loss_gradients: Tensor  # of each sequence's own loss in its predictions
    n_padding: Tensor  # steps of padding at the end of each sequence, (B,)

    @property
    def end_steps(self) -> list[int]:
        """The steps at which predictions with a loss are made."""
        has_loss = self.loss_gradients.ne(0).any(0).cpu()
        made = {*self.uses.ends[has_loss].tolist()}
        return sorted(made - {-1})  # what no input moves has no step

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""
        return self.end_steps[0] if self.end_steps else -1

    def value_gradients(self, weights: Float[Tensor, "B K"] | None = None) -> list[Tensor]:
        """Return ∂E/∂z at each site, of losses with a weight for each prediction."""
        pulls = self.loss_gradients if weights is None else weights * self.loss_gradients
        values: list[Tensor] = []
        for made in self.tape.made:
            values += made
        gradients = torch.autograd.grad(self.predictions, values, pulls, retain_graph=True, **ZEROS)
        by_use = []
        start = 0
        for made in self.tape.made:
            of_use = gradients[start : start + len(made)]
            by_use.append([dense(gradient) for gradient in of_use])
            start += len(made)
        return [site.series(by_use) for site in self.uses.sites]

    def weights_at(self, end: Tensor) -> Float[Tensor, "B K"]:
        """Return 1 for the predictions of each sequence that are made at its end, else 0."""
        ends = self.uses.ends.to(self.loss_gradients.device)
        own = end.to(self.loss_gradients.device)
        return (ends[None] == own[:, None]).to(self.loss_gradients)

    def end_points(self, most: int = ENDS) -> Iterator[_EndPoints]:
        """Yield end points of all sequences, at the most so many, with the gradients of the loss.

        If there are no more, they are taken one by one. Else they are cut into strata, runs of
        neighbours. Of each stratum one is drawn for each sequence, and its loss is multiplied by
        the number of end points in the stratum. So the mean over all draws is the sum over all.
        """
        steps = torch.tensor(self.end_steps, dtype=torch.int64)
        for stratum in steps.tensor_split(min(most, len(steps))):
            shape = (len(self.predictions),)
            generator = self.uses.generator
            draws = torch.randint(len(stratum), shape, generator=generator, device="cpu")
            end = stratum[draws]
            gradients = self.value_gradients(self.weights_at(end) * len(stratum))
            yield _EndPoints(self._end_of_real_steps(end, gradients), gradients)

    def _end_of_real_steps(self, end: Tensor, gradients: list[Tensor]) -> Tensor:
        """Return end points, moved to the last real step where a padded sequence is read out there.

        A model may read out each sequence at its own last real step. In trials, which hold no
        padding, that is the last step of all, and this is the end point that was measured. It is
        moved if the gradient of a padded sequence reaches no value behind its last real step.
        """
        if not self.uses.moves_ends or not bool(self.n_padding.any()):
            return end
        reached = Reached.of(self.uses.sites, gradients, end, self.uses.shape[1])
        return torch.where(self.is_padded_readout(reached, end), self.last_real, end)

    @property
    def last_real(self) -> Tensor:
        """The last step of each sequence that is no padding, (B,)."""
        return self.uses.shape[1] - 1 - self.n_padding.cpu()

    def is_padded_readout(self, reached: Reached, end: Tensor) -> Tensor:
        """Say which sequences' gradients reach real steps, (B,), and none of the padding behind."""
        last = reached.last
        return (last >= 0) & (last <= self.last_real) & (self.last_real < end)

    def _rows(
        self, band: Sequence[int], end_points: Sequence[_EndPoints]
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield, for each end point and site, which rows are in a band, and the gradient in all.

        The site is given by its number; a row is in the band if the end point is so much later.
        """
        for end, gradients in end_points:
            for index, gradient in enumerate(gradients):
                in_band = self.uses.sites[index].in_band(band, end)
                yield index, in_band.to(gradient.device), gradient

    def _replay(self) -> Replay:
        """Return the values as a function of the parameters."""
        return Replay(self.uses.chosen.values(), self.tape, self.uses.sites)

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        """Return each lag's part of the gradient, summed over sequences, as one vector."""
        return self.band_vectors([[lag] for lag in lags])

    def band_vectors(self, bands: Bands) -> Float[Tensor, "bands P"]:
        """Return each band's part of the gradient, summed over sequences, as one vector."""
        replay = self._replay()
        end_points = list(self.end_points())
        vectors = []
        for band in bands:
            cotangents = [torch.zeros_like(value) for value in replay.values]
            for index, in_band, gradient in self._rows(band, end_points):
                cotangents[index][in_band] += gradient[in_band]
            vectors.append(replay.vjp(cotangents))
        return torch.stack(vectors)

    def gradient(self) -> Float[Tensor, " P"]:
        """Return all lags together, summed over sequences, as one vector."""
        return self._replay().vjp(self.value_gradients())

    def band_numbers(
        self, directions: Float[Tensor, "bands P"], bands: Bands
    ) -> Float[Tensor, "2 bands B"]:
        """Return each sequence's part of each band along its direction w, and the whole along it.

        Both are sums of products of ∂E/∂z and of J w, how values change along w: over the rows of
        the band, and over all rows.
        """
        whole = self.value_gradients()
        end_points = list(self.end_points())
        replay = self._replay()
        numbers = []
        for band, direction in zip(bands, directions, strict=True):
            changes = replay.jvp(direction)
            along_all = torch.zeros(len(self.predictions), dtype=torch.float64)
            for change, gradient in zip(changes, whole, strict=True):
                along_all += in_double(change * gradient).sum((1, 2)).cpu()
            along_band = torch.zeros_like(along_all)
            for index, in_band, gradient in self._rows(band, end_points):
                products = in_double(changes[index][in_band] * gradient[in_band]).sum(1)
                sequences = in_band.nonzero()[:, 0]  # to which the rows belong
                along_band.index_add_(0, sequences.cpu(), products.cpu())
            numbers.append(torch.stack([along_band, along_all]))
        return torch.stack(numbers, 1)


@checked
@dataclass(eq=False)
class Uses(Adapter):
    """A causal model with its loss, whose parameters are followed to the steps of their use.

    Parameters are those named, by their names or those of modules, or all that are learned.
    """

    parameters: Sequence[str] | None = None

    # made by `check`
    plan: Plan = field(default_factory=Plan, init=False)  # of the calls in each pass
    sites: list[Site] = field(default_factory=list, init=False)
    moves_ends: bool = field(default=False, init=False)  # of padded sequences: see the check

    tolerance = _EXACT

    def __post_init__(self) -> None:
        """Take the parameters, and a generator for the draws of end points."""
        super().__post_init__()
        self.generator = torch.Generator("cpu").manual_seed(0)

    def _chosen(self) -> dict[str, Tensor]:
        every: dict[str, Tensor] = dict(self.model.named_parameters())
        wanted = self.parameters
        if wanted is None:
            wanted = [name for name, part in every.items() if part.requires_grad]
        found: set[int] = set()
        for name in wanted:
            own = self._named(name)
            words = f"of the model's parameters or modules: {few([*every])}"
            require("parameters", name, bool(own), words)
            found |= own
        words = "names of one parameter or more, or None if some are learned (require gradients)"
        require("parameters", self.parameters, bool(found), words)
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
        loss_gradients = self.objective.gradients(predictions, targets)
        n_padding = self.trials.padding_behind(inputs)
        return _Reading(self, tape, predictions, loss_gradients, n_padding)

    def _taped(
        self, inputs: Tensor, plan: Plan | None, watch: bool = False, others: Plan | None = None
    ) -> tuple[Tape, Tensor]:
        """Run the model on sequences, with a tape of the calls that take parameters."""
        tape = Tape(list(self.chosen.values()), plan, watch, others)
        with followed(self.chosen.values()), torch.backends.cudnn.flags(enabled=False), tape:
            predictions = self.predictions(inputs)
        require("model", self.kind, tape.fits, _SAME_CALLS)
        uneven = tape.uneven_call(len(inputs))
        if uneven is not None:
            told = f"{self._name_of(tape, uneven)}: makes more rows of some data than of other"
            words = f"used on all steps, of which torch.where chooses, say. Else {LEAVE_OUT}"
            require("parameters", told, False, words)
        return tape, predictions

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: by name, and by how much it fails.

        Times of all uses are measured. Of a few sequences it is tried that no prediction depends on
        later uses, and that all uses make up the gradient of autograd.
        """
        super().check(inputs, targets)
        trial = self._make_plan()
        values = self._values_of(trial)
        require("parameters", [*self.chosen], bool(values), _SEEN)
        self.entries = max(self.entries, sum(prod(value.shape) for value in values))
        self.limit_batch(self.entries)
        self.sites = self._gathered(values).sites(trial.starts, self.shape[1])
        tried = self.tried(inputs, targets)
        reading = self.read(*tried)
        self._check_additive(reading)
        self.check_sum(*tried)
        self._check_causal(reading)
        if not self.end_at_each_step:  # there each prediction has a step of its own
            self._check_where_read_out(inputs, targets)

    def forget(self, inputs: Tensor, targets: Tensor) -> None:
        """Take the loss as if nothing were learned, whose gradients must be as linear."""
        super().forget(inputs, targets)
        self._check_additive(self.read(*self.tried(inputs, targets)))

    # Where and when parameters are used

    def _make_plan(self) -> Tape:
        """Find the uses in trial passes, and refuse those that cannot be made again.

        What is free of data in one trial, as behind a gate that is closed in it, is tried in more.
        """
        trial, predictions = self._taped(self.trials.patterned(), None)
        self.plan = trial.plan
        n_open = Counter(trial.open)
        n_trials = _TRIALS if trial.may_lack_data else 1
        is_gated = False
        n_done = 1
        while n_done < n_trials:
            trial, predictions = self._taped(self.trials.patterned(), None, others=self.plan)
            is_gated |= self.plan.add(trial.plan)
            n_open.update(trial.open)
            n_done += 1
        if is_gated:
            self._refuse_closed(trial, n_open)
        if any(call.autocasts for call in trial.calls):
            self.exact = _EXACT[None]
        require("predictions", "without a gradient", predictions.requires_grad, _GRADIENT)
        unfollowed = self._names_of(sorted(trial.unfollowed))
        require("parameters", ", ".join(unfollowed), not unfollowed, _FOLLOWED)
        self._check_calls(trial)
        return trial

    def _refuse_closed(self, trial: Tape, n_open: Counter[int]) -> None:
        """Refuse uses that have data in them in too few trials: others may be missed."""
        for number, call in zip(self.plan.with_data, trial.uses, strict=True):
            told = (
                f"{self._name_of(trial, call)}: inputs get through to one of its calls in only "
                f"{n_open[number]} of {_TRIALS} trials"
            )
            words = f"used on data in most steps: open the gate before it. Else {LEAVE_OUT}"
            require("parameters", told, n_open[number] >= _OPEN, words)

    def _names_of(self, places: Sequence[int]) -> list[str]:
        """Return the names of parameters by their places."""
        names = [*self.chosen]
        return [names[place] for place in places]

    def _values_of(self, trial: Tape) -> list[Value]:
        """Return the values that all uses of a trial pass give for the sequences."""
        values = []
        for use, (call, made) in enumerate(zip(trial.uses, trial.made, strict=True)):
            name = self._name_of(trial, call)
            for output, tensor in enumerate(made):
                layout = Layout.of(tensor)
                if layout is None and tensor.shape == made[0].shape:
                    layout = call.layout  # as found in another trial
                if layout is not None:
                    shape = tuple(layout.front(tensor).shape[1:])
                    values.append(Value(use, output, layout, shape, call, name))
        return values

    def _name_of(self, tape: Tape, call: Call) -> str:
        """Return a function's name with those of the parameters that it takes."""
        return f"{call.name}() of {few(self._names_of(tape.sources(call)))}"

    def _check_calls(self, tape: Tape) -> None:
        """Refuse functions that cannot be made again, or whose gradient has no derivative.

        Of the uses of one function with the same parameters one is tried. Of steps on the way each
        is made, for later calls take what they give.
        """
        parameters = [part.detach().requires_grad_() for part in self.chosen.values()]
        values: list[Tensor] = [*parameters]
        tried: set[Any] = set()
        for call in tape.calls:
            if call.is_use and call.signature in tried:
                continue
            tried.add(call.signature)
            try:
                with torch.enable_grad():
                    given = call(values)
                _differentiate_twice(given, parameters)
            except RuntimeError as error:  # NotImplementedError is one
                # PyTorch raises it where a function has no second derivative, or runs only once
                words = f"repeated for other parameters ({first_line(error)}): {LEAVE_OUT}"
                message = f"parameters = {self._name_of(tape, call)}: cannot be {words}."
                raise ArgumentError(message) from error
            if not call.is_use:
                values += given

    def _gathered(self, values: list[Value]) -> Gathered:
        """Measure the steps that move each value, and those that move what it is joined to."""

        def moving(inputs: Tensor) -> list[Tensor]:
            tape, _ = self._taped(inputs, self.plan, watch=True)
            found = [value.of(tape.made) for value in values]
            for use, join in self.plan.joins.items():
                found.append(join.layout.front(tape.joined[use]))
            return found

        def gather(found: list[Sightings]) -> Evidence:
            return Gathered.of(values, self.plan, found).evidence

        entries = 2 * self.entries  # of values, and of joins beside them
        found = self.sightings(moving, entries, gather)
        return Gathered.of(values, self.plan, found)

    # What is refused

    def _check_additive(self, reading: _Reading) -> None:
        """Refuse gradients that change on their way, by a hook say: they must be linear in E.

        The gradients of two shares of the loss of each prediction, r E and (1 − r) E, must add up
        to that of E, which finds what takes norms. That of c E must be c times as large, which
        finds what clips.
        """
        whole = reading.value_gradients()
        loss_gradients = reading.loss_gradients
        share = torch.rand(loss_gradients.shape, generator=self.trials.generator)
        share = share.to(loss_gradients)
        of_share = reading.value_gradients(share)
        of_rest = reading.value_gradients(1 - share)
        of_multiple = reading.value_gradients(torch.full_like(loss_gradients, _LARGE))
        sizes = [float(in_double(part).norm()) for part in whole]
        # rounding comes from all sites, so that it is held against the largest one
        largest = max(sizes, default=0.0)
        for index, site in enumerate(self.sites):
            wanted = in_double(whole[index])
            from_shares = in_double(of_share[index]) + in_double(of_rest[index])
            from_multiple = in_double(of_multiple[index]) / _LARGE
            missing = max(
                float((from_shares - wanted).norm()), float((from_multiple - wanted).norm())
            )
            size = max(sizes[index], 1e-300)
            told = (
                f"{site.name}: parts of the loss one by one miss {missing / size:.1g} of the "
                "gradient"
            )
            require("model", told, missing <= 10 * self.exact * largest, _UNCHANGED)

    def _check_causal(self, reading: _Reading) -> None:
        """Refuse uses later than a prediction made of them, and models of which none is earlier.

        Tried at a few end points, the first and the last among them, by gradients of the
        predictions themselves: that of a loss may be zero.
        """
        steps = reading.end_steps or self.end_steps
        every = max(1, len(steps) // 6)
        of_predictions = reading._replace(loss_gradients=torch.ones_like(reading.loss_gradients))
        some_before = False
        worst = (0.0, "", -1)  # share of the gradient, site and step
        for step in sorted({steps[0], steps[-1], *steps[::every]}):
            weights = reading.weights_at(torch.full((len(reading.predictions),), step))
            # drawn, so that gradients of several predictions do not cancel
            draws = torch.rand(weights.shape, generator=self.generator).to(weights)
            whole = of_predictions.value_gradients(weights * (1 + draws))
            by_site = [in_double(part.abs()).sum((0, 2)).cpu().numpy() for part in whole]
            most = max(float(by_row.sum()) for by_row in by_site)
            for site, by_row in zip(self.sites, by_site, strict=True):
                is_before = (site.times >= 0) & (site.times < step)
                some_before |= bool((by_row[is_before] > 0).any())
                late = float(by_row[site.times > step].sum())
                if late > self.exact * most:  # else rounding, as where a site has a gradient of 0
                    worst = max(worst, (late / float(by_row.sum()), site.name, step))
        late, name, step = worst
        told = f"{name}: {late:.1g} of the gradient of step {step} is in values of later steps"
        require("model", told, late <= self.exact, _NOT_LATER)
        words = f"one that uses parameters before the step of a prediction. {self._why_at_once()}"
        count = n_numbers(self.chosen.values())
        told = (
            f"{self.kind}, all of whose {count:,} parameters looked at act at the step of the "
            "prediction alone (lag 0)"
        )
        require("model", told, some_before, words)

    def _check_where_read_out(self, inputs: Tensor, targets: Tensor) -> None:
        """Measure whether padded sequences are read out before their padding; refuse others.

        In each sequence as it is, steps behind the last one that the gradient reaches are counted.
        More of them than in gaps between steps that are reached tell of a readout before the end.
        In a few sequences, behind a ReLU or a maximum over steps, they may be a little more by
        chance. What all sequences have alike is the model's own delay. Steps like padding that the
        gradient leaves out between others may be events that did not happen: then those at the end
        may be such, too.
        """
        drawn = self.generator.get_state()  # what is drawn here leaves later draws as they are
        sequences, behind, padded = [], [], []
        longest_gap = 0
        skips_padding = False
        for places in torch.arange(len(inputs)).split(self.at_once):
            own = inputs[places.to(inputs.device)]
            reading = self.read(own, targets[places.to(targets.device)])
            is_like_padding = self.trials.like_padding(own).cpu()
            for end, gradients in reading.end_points(_READ_OUT):
                reached = Reached.of(self.sites, gradients, end, self.shape[1])
                sequences.append(places)
                behind.append(reached.behind(end))
                padded.append(reading.is_padded_readout(reached, end))
                longest_gap = max(longest_gap, reached.longest_gap())
                skips_padding |= reached.leaves_out(is_like_padding)
        self.generator.set_state(drawn)
        n_behind = torch.cat(behind)
        is_padded = torch.cat(padded)
        if skips_padding:
            is_padded[:] = False
        self.moves_ends = bool(is_padded.any())
        is_whole = (n_behind >= 0) & ~is_padded
        delay = int(n_behind[is_whole].min()) if bool(is_whole.any()) else 0
        is_early = is_whole & (n_behind > delay + longest_gap)
        if int(is_early.sum()) < UNMOVED * len(n_behind):
            by_chance = max(2 * longest_gap + 1, self.shape[1] // 10)
            is_early &= n_behind > delay + by_chance
        early = is_early.nonzero()[:, 0]
        places = torch.cat(sequences)[early]
        told = (
            f"{self.kind}: in {len(places.unique())} of {len(inputs)} sequences a prediction uses "
            f"nothing of the last steps ({n_behind[early][:1].tolist()} in sequence "
            f"{places[:1].tolist()})"
        )
        require("model", told, self.horizon or not len(early), _READ_EARLIER)

    def _why_at_once(self) -> str:
        """Say why all that carries a gradient is likely used at the step of the prediction."""
        length = self.shape[1]
        for site in self.sites:
            of_all_steps = length in site.values[0].shape[:-1]  # features are behind
            is_last = bool((site.times == length - 1).all())
            if is_last and (of_all_steps or len(site.times) == length):
                return _NORMALISED
        if self.without_gradient:
            return (
                f"Of this one no gradient reaches {few(self.without_gradient)}: is it detached on "
                "its way, by NumPy, or by an argmax?"
            )
        frozen = [name for name, part in self.model.named_parameters() if not part.requires_grad]
        if frozen and self.parameters is None:
            return f"Of this one {few(frozen)} are frozen: name them in `parameters`"
        return _AT_ONCE


def _differentiate_twice(given: Sequence[Tensor], parameters: Sequence[Tensor]) -> None:
    """Differentiate the gradient of what a call gives, which fails where PyTorch has no rule."""
    moved = []
    pulls = []
    for part in given:
        if part.requires_grad:
            moved.append(part)
            pulls.append(torch.ones_like(part, requires_grad=True))
    found = torch.autograd.grad(moved, parameters, pulls, create_graph=True, **ZEROS)
    total: Any = 0
    for part in found:
        if part.requires_grad:
            total = total + in_reals(part).sum()
    if isinstance(total, Tensor):
        torch.autograd.grad(total, pulls, allow_unused=True)
