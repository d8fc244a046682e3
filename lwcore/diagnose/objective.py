"""A reader's loss of rows of predictions: of each sequence alone, or of batches of some."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lwcore.ambient import placed
from lwcore.diagnose.losses import IGNORED, Untrained, summed, usual_loss
from lwcore.diagnose.passes import HOW_TO_NAME, Passes, held_at_once
from lwcore.diagnose.tensors import ZEROS, explained, in_order
from lwcore.signatures import require

_CONSTANTS = 2**20  # numbers in a constant prediction, up to which the best one is sought
_OF_REALS = (nn.BCELoss, nn.BCEWithLogitsLoss, nn.KLDivLoss, nn.SmoothL1Loss, nn.HuberLoss)


class Objective:
    """A reader's loss, or the one that fits, on the predictions of passes."""

    def __init__(self, loss: Any, passes: Passes, targets: Tensor) -> None:
        """Find what the loss takes of all that the model gives, and where predictions are in it."""
        if isinstance(loss, type):
            require("loss", loss.__name__, False, f"a function, not a class: {loss.__name__}()")
        self.loss = loss
        self.passes = passes
        self.averages = False  # whether that of a batch is the mean of its sequences', not the sum
        self.untrained: Untrained | None = None  # once learning is forgotten
        passes.takes_all = self._takes_all(targets)

    def choose(self, targets: Tensor) -> None:
        """Take the reader's loss, or the one that fits, and call it on a few sequences."""
        outputs = self.passes.outputs
        if self.loss is None:
            gives = self.passes.gives
            require(
                "loss",
                f"None for {gives}",
                outputs.spec.num_leaves == 1,
                f"given, for the model gives several things. {HOW_TO_NAME}",
            )
            self.loss, self.name = usual_loss(outputs.shapes(), targets, self.shapes(targets))
            self._refuse_unshifted(targets)
        else:
            self.name = str(getattr(self.loss, "__name__", type(self.loss).__name__))
        self.loss = summed(self.loss, targets)
        some = self.passes.trials.inputs[:3]
        predictions = self.passes.alone(some)
        with warnings.catch_warnings(record=True) as said, self.explained(targets):
            warnings.simplefilter("always")
            self.of(predictions, targets[:3])
            self.of(predictions, targets[:3], len(some))
        is_broadcast = any("target size" in str(one.message) for one in said)
        require(
            f"loss ({self.name})",
            self.shapes(targets),
            not is_broadcast,
            "one that compares numbers of the same shape: reshape the targets",
        )

    def of(self, predictions: Float[Tensor, "B K"], targets: Tensor, at_once: int = 1) -> Tensor:
        """Return the losses of batches of so many sequences."""
        if self.untrained is None:
            return self._plain(predictions, targets, at_once)
        targets = placed(targets, predictions.device)
        pairs = zip(predictions.split(at_once), targets.split(at_once), strict=True)
        return torch.stack([self.untrained.of(*pair) for pair in pairs])

    def _plain(self, predictions: Tensor, targets: Tensor, at_once: int = 1) -> Tensor:
        """Return the reader's own losses."""
        targets = placed(targets, predictions.device)
        found = []
        pairs = zip(predictions.split(at_once), targets.split(at_once), strict=True)
        for some, wanted in pairs:
            own_targets = in_order(self.passes.axes.targets_back(wanted))
            value = self.loss(self.passes.outputs.restored(some), own_targets)
            is_tensor = isinstance(value, Tensor)
            require(
                f"loss ({self.name})",
                type(value).__name__,
                is_tensor,
                "one that gives a tensor: a number, or one for each sequence",
            )
            found.append(value.sum())
        return torch.stack(found)

    def gradients(self, predictions: Float[Tensor, "B K"], targets: Tensor) -> Float[Tensor, "B K"]:
        """Return the gradient of each sequence's loss in its predictions."""
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            total = self.of(leaf, targets).sum()
        if not total.requires_grad:
            return torch.zeros_like(leaf)
        (gradients,) = torch.autograd.grad(total, leaf, **ZEROS)
        return gradients

    def forget(self, inputs: Tensor, targets: Tensor) -> None:
        """Take the loss as if nothing were learned, from now on: see `Untrained`."""
        total: Any = 0
        for predictions, _ in self.passes.in_parts(inputs, targets):
            total += predictions.sum(0, keepdim=True)
        parts = targets.split(held_at_once(total.numel()))
        self.untrained = Untrained(self._plain, total / len(inputs), parts)

    def beats_constants(self, inputs: Tensor, targets: Tensor) -> bool:
        """Say whether the loss is below that of the best constant prediction, if it is convex."""
        if self.passes.outputs.entries > _CONSTANTS:
            return True  # not tried: too many numbers
        own = 0.0
        total: Any = 0
        for predictions, part in self.passes.in_parts(inputs, targets):
            own += float(self._joint(predictions, part, len(targets)).detach())
            total += predictions.sum(0, keepdim=True)
        constant = (total / len(inputs)).requires_grad_()
        parts = targets.split(held_at_once(constant.numel()))
        descent = torch.optim.LBFGS([constant], line_search_fn="strong_wolfe", history_size=10)

        def closure() -> Any:
            joint: Any = 0.0
            constant.grad = torch.zeros_like(constant)
            for part in parts:
                guesses = constant.expand(len(part), -1)
                loss = self._joint(guesses, part, len(targets))
                constant.grad += torch.autograd.grad(loss, constant)[0]
                joint += loss.detach()
            return joint

        with torch.enable_grad():
            descent.step(closure)
            least = float(closure())
        return own < least

    def _joint(self, predictions: Tensor, targets: Tensor, count: int) -> Tensor:
        """Return what some sequences give to the loss of a batch of so many."""
        share = len(targets) / count if self.averages else 1.0
        return share * self.of(predictions, targets, len(targets)).sum()

    def _takes_all(self, targets: Tensor) -> bool:
        """Say whether the loss takes several things, where they hold only one tensor.

        As logits and a cache: of these PyTorch's own losses, and many of readers, take the logits.
        """
        with torch.no_grad():
            given = self.passes.given(self.passes.trials.inputs[:3])
            if self.loss is None or isinstance(given, Tensor):
                return False
            own_targets = self.passes.axes.targets_back(placed(targets[:3], self.passes.device))
            try:
                self.loss(given, in_order(own_targets))
            except Exception:  # then it is called with the tensor, and what fails is told
                return False
        return True

    def _refuse_unshifted(self, targets: Tensor) -> None:
        """Refuse tokens that are to predict themselves."""
        inputs = self.passes.trials.inputs
        targets = placed(targets, inputs.device)
        if targets.shape != inputs.shape or self.name != "cross_entropy":
            return
        is_same = bool(((targets == inputs) | (targets == IGNORED)).all())
        require(
            "targets",
            "the inputs of the same step",
            not is_same,
            "those of the next step, as in (tokens[:, :-1], tokens[:, 1:]): labels of Hugging "
            "Face's are shifted in their own loss. If they are meant, say loss=",
        )

    def shapes(self, targets: Tensor) -> str:
        """Write the shapes that the loss gets."""
        written = []
        for shape in (*self.passes.outputs.shapes(), tuple(targets.shape[1:])):
            written.append(str(("B", *shape)).replace("'", ""))
        return f"predictions {' and '.join(written[:-1])} and targets {written[-1]}"

    def explained(self, targets: Tensor) -> AbstractContextManager[None]:
        """Say of an error in the loss what it was given, and what is likely missing."""
        outputs = self.passes.outputs
        gives = self.passes.gives
        advice = ""
        if outputs.n_left_out:
            advice = (
                f"Of {gives} it gets None for what is no real numbers of each sequence. Make "
                "masks and whole numbers real, by head=lambda out: (out[0], out[1].float()), say, "
                "and leave out what is one number for a batch, as a loss of the model's own"
            )
        elif outputs.spec.num_leaves > 1:
            advice = f"Of {gives}: {HOW_TO_NAME}"
        elif isinstance(self.loss, _OF_REALS) and not targets.is_floating_point():
            advice = f"Targets are {targets.dtype}, and must be real: y.float()"
        elif isinstance(self.loss, nn.CrossEntropyLoss):
            advice = (
                "Classes come second: "
                "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y), or loss=None"
            )
        words = f"fails on {self.shapes(targets)}, for one sequence or some"
        return explained(f"loss ({self.name})", words, advice)
