"""Any causal model as the core sees it: what parameters used at each time give to the gradient.

A parameter is used where one of PyTorch's functions takes it, or something made of parameters
alone, and gives values z of sequences and steps. The use is at the time k of the value that it
makes: of a convolution's output, of attention's queries, keys and values, of a recurrence's step.
Along a direction w the uses at time k give ``⟨∂E_t/∂z_k, ∂z_k/∂θ · w⟩`` to the gradient of the loss
E_t at the end point t, and ``ℓ = t − k`` is their lag. All lags together are the gradient.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import jvp, vjp
from torch.nn import functional
from torch.utils import _pytree as trees

from lwcore.ambient import FORWARD_MODE, in_double, placed
from lwcore.diagnose.adapter import ZEROS, Adapter, changed, followed
from lwcore.diagnose.tape import Layout, Tape
from lwcore.signatures import Lags, checked, require

ENDS = 16  # end points of a sequence, drawn where its loss has more
_COUNTS = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # sequences on trial, mistaken for no width
_EXACT = {torch.float64: 1e-10, torch.float32: 1e-6, None: 0.01}  # of what must be equal or zero


class Site(NamedTuple):
    """Uses in one place of the code: once for all steps, or once in each of the last steps."""

    name: str
    uses: list[int]  # places among a tape's
    layout: Layout
    start: int  # the step of the first value

    def series(self, made: Sequence[Sequence[Tensor]], count: int) -> Float[Tensor, "B T F"]:
        """Values, or gradients in them, of all steps, zero where there are none."""
        steps = ([self.layout.placed(part, count) for part in made[use]] for use in self.uses)
        found = torch.cat([torch.cat(parts, -1) for parts in steps], 1)
        missing = self.layout.length - self.start - found.shape[1]  # below 0: padding, cut off
        return functional.pad(found, (0, 0, self.start, missing))


class _Reading(NamedTuple):
    """Sequences by the uses of parameters in one pass; values of all sites side by side."""

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
        missing = self.network.shape[1] - self.predictions.shape[1]
        return int(self.steps[0]) + missing if len(self.steps) else -1

    def by_site(self, made: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Values of uses, or gradients in them, (B, T, F) for each site."""
        return [site.series(made, len(self.predictions)) for site in self.network.sites]

    def values(self, theta: Float[Tensor, " P"]) -> Float[Tensor, "B T F"]:
        """All values for other parameters, what each use reads held."""
        own = self.network.chosen.values()
        pairs = zip(theta.split([part.numel() for part in own]), own, strict=True)
        made = self.tape.again([part.view_as(like).to(like) for part, like in pairs])
        return torch.cat(self.by_site(made), -1)

    def pulled(self, weights: Float[Tensor, "B predictions"] | None = None) -> list[Tensor]:
        """The gradient in the values at each site of losses, weighted by sequence and step."""
        pulls = self.pulls if weights is None else weights[..., None] * self.pulls
        values, spec = trees.tree_flatten(self.tape.made)
        found = torch.autograd.grad(self.predictions, values, pulls, retain_graph=True, **ZEROS)
        return self.by_site(trees.tree_unflatten(found, spec))

    def parts(self, lags: Lags) -> Iterator[Float[Tensor, "B T F"]]:
        """Of each lag the gradient in the values so long before end points that are drawn."""
        count, shown, _ = self.pulls.shape
        back, ends, found = torch.as_tensor(lags, device=self.pulls.device), [], []
        for stratum in self.steps.tensor_split(min(ENDS, len(self.steps))):
            draws = torch.randint(len(stratum), (count, 1), generator=self.network.generator)
            end = stratum[draws.to(stratum.device)]
            weights = self.pulls.new_zeros(count, shown)
            weights.scatter_(1, end, float(len(stratum)))  # each stands for all of them
            whole = torch.cat(self.pulled(weights), -1)
            ends.append(end + self.network.shape[1] - shown)
            at = ends[-1] - back
            found.append(whole.gather(1, _index(at, whole)) * (at >= 0)[..., None])
        for lag, rows in zip(lags, torch.stack(found, 2).unbind(1), strict=True):
            index = _index(torch.cat(ends, 1) - lag, whole)
            yield torch.zeros_like(whole).scatter_add(1, index, rows)

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        return self._vectors(self.parts(lags))

    def gradient(self) -> Float[Tensor, " P"]:
        return self._vectors([torch.cat(self.pulled(), -1)])[0]

    def _vectors(self, parts: Iterable[Tensor]) -> Float[Tensor, "parts P"]:
        """Gradients in the values as gradients in the parameters."""
        back = vjp(self.values, self.network.theta)[1]
        return torch.stack([in_double(back(part)[0]).cpu() for part in parts])

    def numbers(self, directions: Float[Tensor, "lags P"], lags: Lags) -> Float[Tensor, "2 lags B"]:
        whole, theta, numbers = torch.cat(self.pulled(), -1), self.network.theta, []
        for part, w in zip(self.parts(lags), directions, strict=True):
            with FORWARD_MODE, torch.no_grad():
                direction = placed(w, theta.device, theta.dtype)
                moved = jvp(self.values, (theta,), (direction,))[1]
            along = [in_double(moved * pulls).sum((1, 2)) for pulls in (part, whole)]
            numbers.append(torch.stack(along))
        return torch.stack(numbers, 1).cpu()


def _index(steps: Int[Tensor, "B n"], series: Float[Tensor, "B T F"]) -> Int[Tensor, "B n F"]:
    """Steps as an index for `torch.gather`; the first in the place of those before it."""
    return steps.clamp(min=0)[..., None].expand(-1, -1, series.shape[-1])


def _share(part: Tensor, whole: Tensor) -> float:
    """The size of some values beside that of others."""
    sizes = (in_double(values.detach()).abs().sum() for values in (part, whole))
    return float(next(sizes) / next(sizes).clamp(min=1e-300))


@checked
@dataclass(eq=False)
class Uses(Adapter):
    """A causal model with its loss, whose parameters are followed to the steps of their use.

    Parameters are those named, by their names or those of modules, or all that are learned.
    Predictions have an axis of steps, `time`, or are made at the last.
    """

    parameters: Sequence[str] | None = None

    tolerance = _EXACT
    time = None  # axis of steps of the predictions

    def _chosen(self) -> dict[str, Tensor]:
        every: dict[str, Tensor] = dict(self.model.named_parameters())
        wanted = self.parameters
        if wanted is None:
            wanted = [name for name, part in every.items() if part.requires_grad]
        held = {name: [one for one in every if f"{one}.".startswith(f"{name}.")] for name in wanted}
        for name, parts in held.items():
            words = f"of the model's parameters or modules: {[*every]}"
            require("parameters", name, bool(parts), words)
        named = {*itertools.chain(*held.values())}
        chosen = {name: part for name, part in every.items() if name in named}
        words = "names of one parameter or more, or None if some are learned (require gradients)"
        require("parameters", self.parameters, bool(chosen), words)
        self.left_out = [name for name in every if name not in chosen]
        self.kind += f", {sum(part.numel() for part in chosen.values()):,} parameters"
        self.generator = torch.Generator().manual_seed(0)
        return chosen

    @property
    def theta(self) -> Float[Tensor, " P"]:
        """All parameters that are looked at, as one vector."""
        return torch.cat([part.detach().flatten() for part in self.chosen.values()])

    def _seen(self, inputs: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        return self.predictions(inputs), (*inputs.shape[:2], inputs[0, 0].numel())

    def _taped(self, inputs: Tensor, layout: Any) -> tuple[Tape, Tensor]:
        tape = Tape(list(self.chosen.values()), layout)
        with followed(self.chosen.values()), tape:
            return tape, self.predictions(inputs)

    def read(self, inputs: Tensor, targets: Tensor) -> _Reading:
        """A pass over sequences."""
        plan = iter(self.plan)
        tape, predictions = self._taped(inputs, lambda *_: next(plan, None))
        same = sum(len(site.uses) for site in self.sites) == len(tape.made) and not [*plan]
        require("model", self.kind, same, "one that does the same for all sequences")
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            pulls = torch.autograd.grad(self.losses(leaf, targets).sum(), leaf)[0]
        return _Reading(self, tape, self._steps(predictions), self._steps(pulls))

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
        with _no_zeros([part for part in self.model.parameters() if part.requires_grad]):
            self._place(inputs[: fit[0]], targets[: fit[0]])
            inputs, targets = self.tried(inputs, targets)
            reading = self.read(inputs, targets)
            last = self.shape[1] - 1
            for start in sorted({0, self.shape[1] // 2, last - 1, last}):
                again = self.read(changed(inputs, slice(start, None)), targets)
                self._check_values(reading, again, start)
            moved = self.time is not None or bool((again.predictions != reading.predictions).any())
            told = f"{self.kind}: not changed by inputs of step {last}"
            require("model", told, moved, "one that reads the last step (leave out those it skips)")
            for place in reading.steps[[0, -1]].tolist() if len(reading.steps) else ():
                self._check_gradient(reading, place)
            self.check_sum(inputs, targets)

    def _place(self, inputs: Tensor, targets: Tensor) -> None:
        """Find the sequences and steps of all values: in inputs, predictions, and at each use."""
        count, length = len(inputs), self.shape[1]
        layout = functools.partial(Layout.of, count=count, length=length)
        tape, predictions = self._taped(inputs, layout)
        self.plan = tape.plan
        swapped = inputs.clone()
        swapped[0] = inputs[1]
        other, _ = self._taped(swapped, layout)
        fits = [axis for axis, size in enumerate(predictions.shape) if axis and size == length]
        classes = predictions.ndim > 2 and not targets.is_floating_point()
        second = classes and isinstance(self.loss, nn.CrossEntropyLoss)
        self.time = (fits[-1] if second else fits[0]) if fits else None
        self.fit(sum(part.numel() for use in tape.made for part in use) // count)
        self.sites: list[Site] = []
        places: dict[Any, list[int]] = {}
        uses = [(call, call.layout) for call in tape.calls if call.layout is not None]
        for place, (call, _) in enumerate(uses):
            shape = tuple(tape.made[place][0].shape)
            places.setdefault((call.function, *call.marks, shape), []).append(place)
        for (function, *marks, shape), calls in places.items():
            taken = ", ".join([*self.chosen][place] for place in tape.sources(marks))
            name, found = f"{function.__name__}() of {taken}", uses[calls[0]][1]
            moved = tape.made[calls[0]][0] - other.made[calls[0]][0]
            outside = bool(found.fronted(moved, count)[1:].any())  # of the first sequence alone
            found = found._replace(outside=outside)
            width = shape[-1] if len(shape) > 1 else 1
            vectors = moved.numel() == count * width  # one for each sequence
            # so many uses in each step, or in each but the first
            often = next((n for n in (length, length - 1) if len(calls) % n == 0), 0)
            if found.time is not None and not (often and vectors):
                self.sites += [Site(name, [place], found, 0) for place in calls]
                continue
            once = len(calls) == 1 and vectors
            words = f"used on all {length} steps at once, or as often in each. Leave it out: name "
            words += "in `parameters` those to look at"
            told = f"{name}, {len(calls)} times, with values of the shape {shape}"
            require("parameters", told, once or often, words)
            each = len(calls) // often if often else 1
            start = length - len(calls) // each if moved.any() else 0  # of a constant, as a start
            whole = found._replace(time=None)
            self.sites += [Site(name, calls[k::each], whole, start) for k in range(each)]
        words = "some that the predictions use"
        require("parameters", [*self.chosen], bool(self.sites), words)

    def _check_values(self, reading: _Reading, again: _Reading, start: int) -> None:
        """Values before a step do not change with inputs from there on, and those soon after do.

        What looks ahead would have lags that are too short, and what is late some too long.
        """
        both = (one.by_site(one.tape.made) for one in (reading, again))
        for site, one, two in zip(self.sites, *both, strict=True):
            moved, step = one - two, start + 1
            ahead = _share(moved[:, :start], one)
            early = f"{site.name}: {ahead:.1g} of its values changed by inputs of later steps"
            words = "one where none is (rounding, as of a Fourier transform? model.double())"
            require("model", early, ahead <= self.exact, words)
            if site.layout.time is None and 0 <= step - site.start < len(site.uses):
                told = f"{site.name}: not changed at step {step} by inputs from step {start} on"
                require("model", told, bool(moved[:, step].any()), "one that uses it then")

    def _check_gradient(self, reading: _Reading, place: int) -> None:
        """The loss of one sequence and step pulls on nothing later and on no other sequence."""
        weights = torch.zeros_like(reading.pulls[..., 0])
        weights[0, place] = 1
        end = place + self.shape[1] - weights.shape[1]
        for site, part in zip(self.sites, reading.pulled(weights), strict=True):
            other = part.clone()
            other[0, : end + 1] = 0
            share = _share(other, part)
            told = f"{site.name}: {share:.1g} of step {end}'s gradient at later steps or in others"
            words = "one where none is (a width of T steps? change it; rounding? model.double())"
            require("model", told, share <= self.exact, words)


@contextmanager
def _no_zeros(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Small numbers in the place of zeros, behind which a trial sees nothing, for a while."""
    generator = torch.Generator().manual_seed(0)
    with ExitStack() as after:
        for part in parameters:
            after.callback(part.data.copy_, part.detach().clone())
            small = 0.01 * torch.randn(part.shape, generator=generator).to(part)
            part.data.add_(small * (part.data == 0))
        yield
