"""A reader's model, its loss and its data as the core sees them.

The model runs as it is and is not changed. `lwcore.diagnose` knows of it what an `Adapter` says:
`kind`, `shape` and `loss_name`, what it refuses (`check`), readings of batches (`read`), and a loss
as if nothing had been learned (`forget`). One recurrence is read by `lwcore.diagnose.recurrent`,
any other causal model by `lwcore.diagnose.uses`.

It stands on `lwcore.diagnose.passes` (what the model gives), `lwcore.diagnose.objective` (the loss
of that), `lwcore.diagnose.checks` (what is refused of both) and `lwcore.diagnose.ends` (the step at
which each prediction is made).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lwcore.diagnose.checks import TRIED, Checks
from lwcore.diagnose.clock import Clock
from lwcore.diagnose.data import FRONT, Axes, Pair
from lwcore.diagnose.ends import Ends
from lwcore.diagnose.models import coarsest_type, refuse_unreadable
from lwcore.diagnose.objective import Objective
from lwcore.diagnose.passes import FINITE, RUN, Passes
from lwcore.diagnose.tensors import ZEROS, dense, explained, few, followed, in_reals
from lwcore.signatures import checked, require

Function = Callable[..., Tensor]
Bands = Sequence[Sequence[int]]  # lags that are measured together

_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3, None: 0.05}  # rounding adds up over steps


class Reading(Protocol):
    """What a batch of sequences says of lags."""

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""

    def gradient(self) -> Float[Tensor, " P"]:
        """All lags together, summed over sequences, as one vector."""

    def band_vectors(self, bands: Bands) -> Float[Tensor, "bands P"]:
        """Each band's part of the gradient, summed over sequences and end points, as one vector."""

    def band_numbers(
        self, directions: Float[Tensor, "bands P"], bands: Bands
    ) -> Float[Tensor, "2 bands B"]:
        """Each sequence's part of each band along its direction, and the whole along it."""


@checked
@dataclass(eq=False)
class Adapter(ABC):
    """A reader's model with its head and loss, as the core sees it; what reads lags is a subclass.

    `batch` are inputs (B, T, …) and targets (B, …); `axes` say where the model and the loss have
    them. `shape` is that of the inputs: sequences, steps, width of a step. `chosen` are the
    parameters, by name, whose gradient is taken apart.
    """

    model: nn.Module
    batch: Pair
    head: Function | None = None
    loss: Any = None
    axes: Axes = field(default=FRONT, kw_only=True)
    horizon: bool = field(default=False, kw_only=True)
    clock: Clock = field(default_factory=Clock.start, kw_only=True)

    tolerance = _CLOSE  # of all lags together, beside the gradient
    at_once = TRIED  # sequences that are read together
    ends_at_padding = False  # whether it does not matter when a sequence's predictions are made

    def __post_init__(self) -> None:
        """Find what the model gives and how the loss takes it, on a trial batch."""
        refuse_unreadable(self.model)
        inputs, targets = self.batch
        self.shape = (*inputs.shape[:2], inputs[0, 0].numel())
        coarsest = coarsest_type(self.model)
        self.exact = self.tolerance.get(coarsest, self.tolerance[None])
        rounding = _CLOSE.get(coarsest, _CLOSE[None])
        self.chosen = self._chosen()
        self.heaviest = torch.zeros(0, dtype=torch.int64)  # the sequences of the largest losses
        self.without_gradient: list[str] = []  # of those that are chosen, by name

        self.passes = Passes(self.model, self.head, self.axes, inputs, self.clock)
        self.kind = self.passes.kind
        self.trials = self.passes.trials
        self.predictions = self.passes.predictions
        self.checks = Checks(self.passes, rounding)
        self.objective = Objective(self.loss, self.passes, targets)
        if not self.passes.find_outputs():
            self.checks.refuse_without_predictions()
        self.entries = self.passes.outputs.entries
        self.limit_batch(self.entries)
        self.objective.choose(targets)
        self.loss_name = self.objective.name

    @abstractmethod
    def _chosen(self) -> dict[str, Tensor]:
        """The parameters whose gradient is taken apart."""

    @abstractmethod
    def read(self, inputs: Tensor, targets: Tensor) -> Reading:
        """Return what a batch of sequences says of lags."""

    def limit_batch(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(_AT_ONCE, _ENTRIES // max(entries, 1)))
        self.passes.at_once = min(RUN, self.at_once)

    def forget(self, inputs: Tensor, targets: Tensor) -> None:
        """Take the loss as if nothing were learned, from now on."""
        self.objective.forget(inputs, targets)

    # What is refused

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: sequences that are mixed, losses, predictions."""
        self.checks.refuse_mixed_sequences(inputs)
        self.heaviest = self.checks.refuse_joint_losses(
            self.objective, inputs, targets, self.chosen
        )
        self.checks.refuse_infinite_gradients(self.objective, inputs, targets)
        self._measure_ends(targets)
        self.measured_ends.check_data(inputs, self.ends_at_padding)
        self._autograd(*self.tried(inputs, targets))

    def _measure_ends(self, targets: Tensor) -> None:
        """Measure the step at which each prediction is made."""
        measured = Ends(self.passes, self.objective, targets)
        measured.measure(self.horizon)
        self.measured_ends = measured
        self.sightings = measured.sightings
        self.pairs = measured.pairs
        self.ends = measured.of_each
        self.end_steps = measured.steps
        self.end_at_each_step = measured.at_each_step

    def tried(self, inputs: Tensor, targets: Tensor) -> Pair:
        """Return the few sequences on which assumptions are tried, with the largest losses."""
        count = max(2, min(TRIED, self.at_once))
        some = self.trials.some(max(1, count - len(self.heaviest)))
        order = torch.cat([some, self.heaviest]).unique().to(inputs.device)
        return inputs[order], targets[order]

    def check_sum(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a reading whose lags together are not autograd's gradient of each parameter."""
        missing = self.missing(inputs, targets)
        hooked = [name for name, part in self.chosen.items() if missing and part._backward_hooks]
        require(
            "parameters",
            few(hooked),
            not hooked,
            "parameters without hooks that change gradients: take these off (handle.remove())",
        )
        require(
            "model",
            ", ".join(missing),
            not missing,
            "parameters whose uses can all be seen, with gradients that pass unchanged from "
            "step to step (a function of your own, torch.vmap, torch.jit.script, a hook, a "
            "gradient that the model takes itself, or steps sent to layers by index?): "
            "name in `parameters` those to look at. If rounding grows in the states: "
            "try model.double()",
        )

    def _autograd(self, inputs: Tensor, targets: Tensor) -> Sequence[Tensor]:
        """Return the gradient of each parameter, as PyTorch has it."""
        parameters = [*self.chosen.values()]
        with followed(parameters), torch.backends.cudnn.flags(enabled=False):
            total = self.objective.of(self.predictions(inputs), targets).sum()
            require(
                "predictions",
                "without a gradient",
                total.requires_grad,
                "some that carry a gradient: is it run under torch.no_grad(), or detached?",
            )
            with explained(f"model ({self.kind})", "fails where its gradient is taken"):
                parts = torch.autograd.grad(total, parameters, **ZEROS)
        for name, part in zip(self.chosen, parts, strict=True):
            is_finite = bool(dense(part).isfinite().all())
            require("gradient", f"NaN or infinite of {name}", is_finite, FINITE)
        return parts

    def missing(self, inputs: Tensor, targets: Tensor) -> list[str]:
        """Return the parameters whose lags together are not their gradient, and by how much."""
        wanted = []
        for part in self._autograd(inputs, targets):
            wanted.append(in_reals(dense(part)).cpu().double().flatten())
        sizes = [len(part) for part in wanted]
        found = self.read(inputs, targets).gradient().split(sizes)
        whole = torch.cat(wanted).norm()
        too_far = []
        self.without_gradient = []
        for name, own, gradient in zip(self.chosen, found, wanted, strict=True):
            if not bool(gradient.any()):
                self.without_gradient.append(name)
            error = (own - gradient).norm()
            if not error <= self.exact * whole:  # nor if it is NaN
                too_far.append(f"{name} ({error / whole:.1g} of the gradient)")
        return too_far
