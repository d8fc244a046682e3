"""The loss of each sequence: the one that fits predictions and targets, and as if untrained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.signatures import require

Shape = tuple[int, ...]  # without the axis of sequences

IGNORED = -100  # the target that cross-entropy leaves out
WEIGHED = (nn.CrossEntropyLoss, nn.NLLLoss)  # whose mean is over weights, not over sequences
_ROUNDING = 1e-5  # of the largest gradient, up to which all are the same
_MODULES = {functional.cross_entropy: nn.CrossEntropyLoss, functional.nll_loss: nn.NLLLoss}


def refuse_no_function(loss: Any) -> None:
    """Refuse what is neither a loss nor None, as its name would be."""
    words = "a function of predictions and targets, as torch.nn.functional.mse_loss, or None"
    require("loss", loss, loss is None or callable(loss), words)


def usual_loss(shapes: Sequence[Shape], targets: Tensor, shown: str) -> tuple[Any, str]:
    """Return the loss that fits predictions and targets in one way only, and its name.

    Squared error for real targets, cross-entropy for whole ones, with classes second or last.
    `shown` are the shapes in words, for what fits in no way or in two.
    """
    own = tuple(targets.shape[1:])
    shape = shapes[0]
    if targets.is_floating_point():
        fits = _without_ones(shape) == _without_ones(own)
        require("loss", "None", fits, f"given, for {shown} do not fit squared errors")
        return (nn.MSELoss() if shape == own else _squared), "mse_loss"
    is_whole = not targets.is_complex() and targets.dtype != torch.bool
    has_classes = len(shape) == len(own) + 1
    second = shape[1:] == own
    last = shape[:-1] == own
    n_classes = shape[0] if second else [1, *shape][-1]
    fits = is_whole and has_classes and (second or last) and n_classes > 1
    words = f"given, for {shown} do not fit cross-entropy"
    if _without_ones(shape) == _without_ones(own):
        words += (
            ". Are they counts, or two classes? Squared errors of the first: loss=lambda p, y: "
            "F.mse_loss(p.flatten(), y.flatten().float()); of the second it is "
            "F.binary_cross_entropy_with_logits"
        )
    require("loss", "None", fits, words)
    words = f"given: of {shown} classes may be second or last"
    require("loss", "None", not (second and last and len(shape) > 1), words)
    wanted = targets[targets != IGNORED]
    outside = wanted[(wanted < 0) | (wanted >= n_classes)].tolist()
    words = (
        f"given, or targets from 0 to {n_classes - 1}, as there are {n_classes} classes, with "
        f"{IGNORED} for what is to be ignored"
    )
    require("loss", f"None, with the target {outside[:1]}", not outside, words)
    return (nn.CrossEntropyLoss() if second else _ClassesLast()), "cross_entropy"


def _without_ones(shape: Iterable[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return squared errors where one of the two has an axis of length 1 more."""
    return functional.mse_loss(predictions, targets.reshape(predictions.shape))


class _ClassesLast(nn.CrossEntropyLoss):
    """Cross-entropy where classes come last, as language models have them."""

    def forward(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of all steps of all sequences."""
        return super().forward(predictions.flatten(0, -2), targets.flatten())


def summed(loss: Any, targets: Tensor) -> Any:
    """Return a loss as a sum, where its mean is over weights, or over targets not left out.

    Of these sequences have unequal shares: such a mean is none over sequences. The sum over all
    sequences is as many times the mean.
    """
    if loss in _MODULES:
        loss = _MODULES[loss]()
    if not isinstance(loss, WEIGHED) or loss.reduction != "mean":
        return loss
    if loss.weight is None and not bool(targets.eq(loss.ignore_index).any()):
        return loss
    loss = copy.copy(loss)
    loss.reduction = "sum"
    return loss


class Untrained:
    """A loss as if nothing were learned: predictions times what pulls on the best constant one.

    The pulls are gradients of each sequence's loss at one constant prediction, less their mean,
    which makes the constant the best one: for squared error and cross-entropy exactly.
    """

    def __init__(
        self,
        losses: Callable[[Tensor, Tensor], Tensor],
        constant: Tensor,
        targets: Sequence[Tensor],
    ) -> None:
        """Take a reader's losses of single sequences, a prediction (1, K), and all targets."""
        self.losses = losses
        self.constant = constant
        total: Any = 0
        for part in targets:
            total += self._gradients(part).sum(0, keepdim=True)
        self.mean = total / sum(len(part) for part in targets)
        size = apart = 0.0
        for part in targets:  # never all in memory
            gradients = self._gradients(part)
            size = max(size, float(gradients.abs().max()))
            apart = max(apart, float((gradients - self.mean).abs().max()))
        words = "'error' for a loss whose gradient at a constant is the same for all targets"
        require("source", "target", apart > _ROUNDING * size, words)

    def of(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of some sequences together."""
        return (predictions * (self._gradients(targets) - self.mean)).sum()

    def _gradients(self, targets: Tensor) -> Tensor:
        """Return gradients of each sequence's loss at the constant prediction."""
        with torch.enable_grad():
            guesses = self.constant.expand(len(targets), -1).clone().requires_grad_()
            total = self.losses(guesses, targets).sum()
            (gradients,) = torch.autograd.grad(total, guesses)
        return gradients
