"""The loss of each sequence: the one that fits predictions and targets, and as if untrained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.signatures import require

Shape = tuple[int, ...]  # without the axis of sequences

WEIGHED = (nn.CrossEntropyLoss, nn.NLLLoss)  # whose mean is over weights, not over sequences


def usual_loss(shapes: Sequence[Shape], targets: Tensor, shown: str) -> tuple[Any, str]:
    """Return the loss that fits predictions and targets in one way only, and its name.

    Squared error for real targets, cross-entropy for whole ones, with classes second or last.
    `shown` are the shapes in words, for what fits in no way or in two.
    """
    own = tuple(targets.shape[1:])
    words = (
        "given: the model gives several tensors (head=lambda out: out[0] takes the first; of a "
        "mean and a variance, loss=lambda p, y: F.gaussian_nll_loss(p[0], y, p[1]))"
    )
    require("loss", f"None for {shown}", len(shapes) == 1, words)
    shape = shapes[0]
    if targets.is_floating_point():
        fits = _without_ones(shape) == _without_ones(own)
        require("loss", "None", fits, f"given, for {shown} do not fit squared errors")
        return (nn.MSELoss() if shape == own else _squared), "mse_loss"
    is_whole = not targets.is_complex() and targets.dtype != torch.bool
    has_classes = len(shape) == len(own) + 1
    second = shape[1:] == own
    last = shape[:-1] == own
    fits = is_whole and has_classes and (second or last)
    require("loss", "None", fits, f"given, for {shown} do not fit cross-entropy")
    words = f"given: of {shown} classes may be second or last"
    require("loss", "None", not (second and last and len(shape) > 1), words)
    largest = int(targets.max())
    n_classes = shape[0] if second else shape[-1]
    words = f"given, or targets below {n_classes}, the number of classes"
    require("loss", f"None, with the target {largest}", largest < n_classes, words)
    return (nn.CrossEntropyLoss() if second else _classes_last), "cross_entropy"


def _without_ones(shape: Iterable[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return squared errors where one of the two has an axis of length 1 more."""
    return functional.mse_loss(predictions, targets.reshape(predictions.shape))


def _classes_last(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return cross-entropy where classes come last, as language models have them."""
    return functional.cross_entropy(predictions.flatten(0, -2), targets.flatten())


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
