"""What both ways to take a gradient apart share: which parameters, and what must add up.

`lwcore.diagnose.recurrent` reads one recurrence by Eq. (3), `lwcore.diagnose.uses` any other causal
model by the uses of its parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import in_double
from lwcore.diagnose.contract import Rows, explained, few
from lwcore.diagnose.losses import Objective
from lwcore.diagnose.passes import ZEROS, Passes
from lwcore.signatures import require

Bands = Sequence[Sequence[int]]  # lags that are measured together

TURN_OFF = "Turn checkpoints off to measure: they save memory, and change no number"
FINITE = "finite. Is there a root or a norm of 0, or a logarithm of 0 behind a torch.where?"
_TRIED = 16  # sequences on which it is tried that all adds up
_ALONE = 4  # of these, sequences whose parts are held against those of each alone
_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
FOLLOWED = "some that carry a gradient: is it run under torch.no_grad(), or detached?"
_LEAVE_OUT = (
    "Is it torch.vmap, or one of your own? Write a loop in its place, or name in `parameters` "
    "those to look at, without those that it takes"
)
_ADDS_UP = (
    "parameters whose uses can all be seen, with gradients that pass unchanged from step to step "
    "(a function of your own, torch.vmap, torch.jit.script, a hook, a gradient that the model "
    "takes itself?): name in `parameters` those to look at. If rounding grows in the states: try "
    "model.double()"
)


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


class Route(ABC):
    """A model whose gradient can be taken apart by lag."""

    kind: str  # of the model, in words
    route: str  # "uses" or "recurrence"
    ends_drawn: int  # end points of a sequence, drawn where its loss has more
    exact: float  # relative error up to which what adds up does so

    def __init__(self, passes: Passes, objective: Objective) -> None:
        """Take the parameters, and read so many sequences at once that arrays stay small."""
        self.passes = passes
        self.objective = objective
        self.data = passes.data
        self.chosen = self._chosen()
        self.without_gradient: list[str] = []
        self.caveats: list[str] = []
        self.at_once = _AT_ONCE
        self.limit_batch(passes.outputs.entries)

    @abstractmethod
    def _chosen(self) -> dict[str, Tensor]:
        """Return the parameters whose gradient is taken apart."""

    @abstractmethod
    def read(self, inputs: Rows, targets: Rows) -> Reading:
        """Return what a batch of sequences says of lags."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what does not add up, and what looks ahead."""

    @abstractmethod
    def check_linear(self) -> None:
        """Refuse gradients that are not linear in the loss, where this became another one."""

    def limit_batch(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(self.at_once, _ENTRIES // max(entries, 1)))
        self.passes.at_once = min(self.passes.at_once, self.at_once)

    def some(self) -> tuple[Rows, Rows]:
        """Return the few sequences on which it is tried that all adds up."""
        places = self.passes.exchange.some(max(2, min(_TRIED, self.at_once)))
        return self.data.inputs[places], self.data.targets[places]

    def check_sums(self) -> None:
        """Refuse where all lags together are not autograd's gradient, of one sequence or of all."""
        inputs, targets = self.some()
        wanted = self._autograd(inputs, targets)
        generator = torch.Generator().manual_seed(0)
        sizes = [len(part) for part in wanted]
        direction = torch.randn(sum(sizes), generator=generator, dtype=torch.float64)
        with explained(self.kind, "has a function that cannot be made again", _LEAVE_OUT):
            reading = self.read(inputs, targets)
            found = reading.gradient().split(sizes)
            together = reading.band_numbers(direction[None], [[1]])[1, 0]
        whole = torch.cat(wanted).norm()
        missing = []
        self.without_gradient = []
        for name, own, gradient in zip(self.chosen, found, wanted, strict=True):
            if not bool(gradient.any()):
                self.without_gradient.append(name)
            error = (own - gradient).norm()
            if not error <= self.exact * whole:  # nor if it is NaN
                missing.append(f"{name} ({error / whole:.1g} of the gradient)")
        require("model", few(missing), not missing, _ADDS_UP)
        for place in range(min(_ALONE, len(together))):
            gradient = torch.cat(self._autograd(inputs[[place]], targets[[place]]))
            apart = abs(float(gradient @ direction) - float(together[place]))
            allowed = 10 * self.exact * float(max(gradient.norm(), whole))
            told = f"{self.kind}: alone, a sequence's gradient is {apart:.1g} away"
            words = "one that treats a sequence as among others: does it look at the whole batch?"
            require("model", told, apart <= allowed, words)

    def _autograd(self, inputs: Rows, targets: Rows) -> list[Tensor]:
        """Return the gradient of each parameter, as PyTorch has it, as a vector in float64."""
        parameters = [*self.chosen.values()]
        with followed(parameters):
            total = self.objective.of(self.passes.predictions(inputs), targets).sum()
            require("predictions", "without a gradient", total.requires_grad, FOLLOWED)
            with explained(self.passes.name, "fails where its gradient is taken", TURN_OFF):
                parts = torch.autograd.grad(total, parameters, **ZEROS)
        found = []
        for name, part in zip(self.chosen, parts, strict=True):
            part = dense(part)
            is_finite = bool(part.isfinite().all())
            require("gradient", f"NaN or infinite of {name}", is_finite, FINITE)
            found.append(in_double(in_reals(part)).cpu().flatten())
        return found


@contextmanager
def followed(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Follow gradients of these parameters for a while, of frozen ones, too."""
    before = [part.requires_grad for part in parameters]
    for part in parameters:
        part.requires_grad_()
    try:
        with torch.enable_grad():
            yield
    finally:
        for part, is_followed in zip(parameters, before, strict=True):
            part.requires_grad_(is_followed)


def dense(tensor: Tensor) -> Tensor:
    """Return a tensor that is not sparse."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def in_reals(tensor: Tensor) -> Tensor:
    """Return complex numbers as pairs, others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
