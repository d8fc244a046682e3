"""The loss of each sequence: the one that fits predictions and targets, and as if untrained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lwcore.signatures import require

Shape = tuple[int, ...]  # without the axis of sequences

IGNORED = -100  # the target that cross-entropy leaves out
WEIGHED = (nn.CrossEntropyLoss, nn.NLLLoss)  # whose mean is over weights, not over sequences
_ROUNDINGS = 16  # by which gradients may be apart that are the same
_MOST_NUMBERS = 2**20  # in a constant prediction, up to which the best one is sought
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

    A sequence pulls on what its own loss takes, and not on what it leaves out, as padding: there
    the gradient is 0. What the search for the best constant leaves is taken off as the mean over
    the sequences that pull. For squared error and cross-entropy it is all the same from where one
    starts, unless sequences have weights. Where all pull alike they have nothing to learn: 0.
    """

    def __init__(
        self,
        losses: Callable[[Tensor, Any], Tensor],
        joint: Callable[[Tensor, Any], Tensor],
        start: Float[Tensor, "1 K"],
        parts: Sequence[tuple[int, Any]],
    ) -> None:
        """Find the best constant prediction, and what is the same in all pulls.

        Args:
            losses: The reader's losses of single sequences, of predictions (B, K) and targets.
            joint: Their sum, or a share of it that is the same for all.
            start: A prediction from which the best one is sought.
            parts: All targets, some at a time, each behind the number of its sequences.
        """
        self.losses = losses
        self.constant = best_constant(joint, start, parts)
        total = torch.zeros_like(start, dtype=torch.float64)
        n_pulling = torch.zeros_like(total)
        largest = torch.zeros_like(start)
        for count, targets in parts:
            gradients = self._gradients(count, targets)
            total += gradients.sum(0, keepdim=True, dtype=torch.float64)
            n_pulling += gradients.ne(0).sum(0)
            largest = largest.maximum(gradients.abs().amax(0))
        self.mean = (total / n_pulling.clamp(min=1)).to(start.dtype)
        self.differs = torch.ones_like(start, dtype=torch.bool)
        furthest = torch.zeros_like(start)
        for count, targets in parts:  # never all in memory
            furthest = furthest.maximum(self.pulls(count, targets).abs().amax(0))
        self.differs = furthest > _ROUNDINGS * torch.finfo(start.dtype).eps * largest
        words = "'error' for a loss whose gradient at a constant is the same for all targets"
        require("source", "target", bool(self.differs.any()), words)

    def of(self, predictions: Float[Tensor, "B K"], targets: Any) -> Tensor:
        """Return the loss of some sequences together."""
        return (predictions * self.pulls(len(predictions), targets)).sum()

    def pulls(self, count: int, targets: Any) -> Float[Tensor, "B K"]:
        """Return what some sequences' targets pull on each number of the constant prediction."""
        gradients = self._gradients(count, targets)
        is_pulling = gradients.ne(0) & self.differs
        return torch.where(is_pulling, gradients - self.mean, 0)

    def _gradients(self, count: int, targets: Any) -> Tensor:
        """Return gradients of each sequence's loss at the constant prediction."""
        with torch.enable_grad():
            guesses = self.constant.expand(count, -1).clone().requires_grad_()
            total = self.losses(guesses, targets).sum()
            (gradients,) = torch.autograd.grad(total, guesses)
        return gradients


def best_constant(
    joint: Callable[[Tensor, Any], Tensor],
    start: Float[Tensor, "1 K"],
    parts: Sequence[tuple[int, Any]],
) -> Float[Tensor, "1 K"]:
    """Return the prediction that is best for all sequences, or where the search for it begins.

    That is where a loss cannot be followed, as one that fails outside of [0, 1], and where there
    are very many numbers.
    """
    if start.numel() > _MOST_NUMBERS:
        return start
    constant = start.clone().requires_grad_()
    descent = torch.optim.LBFGS([constant], line_search_fn="strong_wolfe", history_size=10)

    def closure() -> Any:
        total: Any = 0.0
        constant.grad = torch.zeros_like(constant)
        for count, targets in parts:
            loss = joint(constant.expand(count, -1), targets)
            constant.grad += torch.autograd.grad(loss, constant)[0]
            total += loss.detach()
        return total

    try:
        with torch.enable_grad():
            first = closure()
            descent.step(closure)
            is_better = bool(closure() <= first)
    except Exception:  # of the reader's loss, for a prediction that no model makes
        return start
    found = constant.detach()
    return found if is_better and bool(found.isfinite().all()) else start
