"""What both ways to take a gradient apart share: which parameters, and what must add up.

`lwcore.diagnose.recurrent` reads one recurrence by Eq. (3), `lwcore.diagnose.uses` any other causal
model by the uses of its parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lwcore.ambient import in_double
from lwcore.diagnose.contract import Rows, explained, few
from lwcore.diagnose.losses import Objective
from lwcore.diagnose.passes import ZEROS, Passes
from lwcore.signatures import require

TURN_OFF = "Turn checkpoints off to measure: they save memory, and change no number"
FINITE = "finite. Is there a root or a norm of 0, or a logarithm of 0 behind a torch.where?"
_TRIED = 16  # sequences on which it is tried that all adds up
_SMALLER = 64  # so many times is the loss smaller there: hooks that clip gradients are noticed
_ALONE = 4  # of these, sequences that are held against those of each alone
_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
FOLLOWED = "some that carry a gradient: is it run under torch.no_grad(), or detached?"
LEAVE_OUT = (
    "Is it in torch.autocast, is it torch.vmap, or one of your own? Measure without it, or name in "
    "`parameters` those to look at, without those that it takes"
)
_ADDS_UP = (
    "one whose gradient is the sum of its lags. Does a hook change gradients, is there a function "
    "of your own, torch.autocast, torch.vmap or torch.jit, or a parameter that is used for all "
    "steps at once, as by a Fourier transform or before a causal mask? Is there z += b with a view "
    "or a list that holds z? Write z = z + b. Is it rounding? Try model.double() on float64 inputs"
)


class Route(ABC):
    """A model whose gradient can be taken apart by lag."""

    kind: str  # of the model, in words
    route: str  # "uses" or "recurrence"
    looks_back = True  # whether some row before the last step is made of several steps
    ends_drawn: int  # end points of a sequence, drawn where its loss has more
    exact: float  # relative error up to which what adds up does so

    def __init__(self, passes: Passes, objective: Objective) -> None:
        """Take the parameters, and read so many sequences at once that arrays stay small."""
        self.passes = passes
        self.objective = objective
        self.data = passes.data
        self.chosen = self._chosen()
        for part in self.chosen.values():  # frozen ones, too
            part.requires_grad_()
        self.caveats: list[str] = []
        self.at_once = _AT_ONCE
        self.limit_batch(passes.shape.numel())

    @property
    def n_parameters(self) -> int:
        """How many numbers the parameters hold whose gradient is taken apart."""
        return sum(part.numel() for part in self.chosen.values())

    @abstractmethod
    def _chosen(self) -> dict[str, Tensor]:
        """Return the parameters whose gradient is taken apart."""

    @abstractmethod
    def read(self, inputs: Rows, targets: Rows) -> Any:
        """Return what a batch of sequences says of lags.

        It has `gradient`, all lags together; `lag_vectors`, each lag's part, summed over sequences;
        and `lag_numbers`, of each sequence both along a direction for each lag.
        """

    def limit_batch(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(self.at_once, _ENTRIES // max(entries, 1)))
        self.passes.at_once = min(self.passes.at_once, self.at_once)

    def check(self) -> None:
        """Refuse where all lags together are not autograd's gradient, of each sequence alone."""
        places = self.passes.exchange.some(max(_ALONE, min(_TRIED, self.at_once)))
        inputs = self.data.inputs[places]
        targets = self.data.targets[places]
        self.objective.refuse_parameters(self.chosen.values(), self.passes.alone(inputs), targets)
        wanted = self._autograd(inputs, targets)
        singles = range(_ALONE)
        alone = torch.stack([torch.cat(self._autograd(inputs[[k]], targets[[k]])) for k in singles])
        generator = self.passes.exchange.generator
        direction = torch.randn(alone.shape[1], generator=generator, dtype=torch.float64)
        with explained(self.kind, "has a function that cannot be made again", LEAVE_OUT):
            reading = self.read(inputs, targets)
            found = reading.gradient().split([len(part) for part in wanted])
            along = reading.lag_numbers(direction[None], [1])[1, 0, :_ALONE]
        # where sequences cancel, rounding does not
        allowed = self.exact * max(torch.cat(wanted).norm(), len(places) * alone.norm(dim=1).mean())
        missing = []
        for name, own, gradient in zip(self.chosen, found, wanted, strict=True):
            is_lost = gradient.any() and not own.any()
            if is_lost or not (own - gradient).norm() <= allowed:  # nor if it is NaN
                missing.append(name)
        require(
            "parameters",
            f"{few(missing)}, whose lags do not add up to the gradient",
            not missing,
            self.without(_ADDS_UP, missing),
        )
        require(
            "model",
            f"{self.kind}, with other gradients in a batch",
            bool((alone @ direction - along).abs().max() <= allowed),
            "one that treats a sequence as among others: does it look at the whole batch?",
        )

    def _autograd(self, inputs: Rows, targets: Rows) -> list[Tensor]:
        """Return the gradient of each parameter, as PyTorch has it, as a vector in float64."""
        parameters = [*self.chosen.values()]
        with torch.enable_grad():
            total = self.objective.of(self.passes.predictions(inputs), targets).sum() / _SMALLER
            require("predictions", "without a gradient", total.requires_grad, FOLLOWED)
            with explained(self.passes.name, "fails where its gradient is taken", TURN_OFF):
                parts = torch.autograd.grad(total, parameters, **ZEROS)
                found = [_SMALLER * in_double(in_reals(part)).cpu().flatten() for part in parts]
        is_finite = all(part.isfinite().all() for part in found)
        require("gradient", "NaN or infinite", is_finite, FINITE)
        return found

    def without(self, words: str, names: Sequence[str]) -> str:
        """Add to the words of a refusal the parameters that can be read without those of names.

        Where all of a module's can, it stands for them.
        """
        modules = {name.partition(".")[0] for name in names}
        found = []
        for name in self.chosen:
            module = name.partition(".")[0]
            if name not in names:
                found.append(name if module in modules else module)
        if not found:
            return words
        return f"{words}. Else look at others alone: parameters={[*dict.fromkeys(found)]}"


def in_reals(tensor: Tensor) -> Tensor:
    """Return complex numbers as pairs, others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
