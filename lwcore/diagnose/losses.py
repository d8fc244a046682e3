"""The loss of each sequence: the reader's own or the one that fits, and as if untrained.

A sequence's loss is the reader's own, called on that sequence alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lwcore.ambient import placed
from lwcore.diagnose.contract import Rows, explained, shown
from lwcore.diagnose.passes import ZEROS, Passes
from lwcore.signatures import require

Shape = tuple[int, ...]  # without the axis of sequences
# of predictions (B, K) and B targets, taken so many at once
Losses = Callable[[Tensor, Any, int], Tensor]

IGNORED = -100  # the target that cross-entropy leaves out
_OF_CLASSES = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss")
_ROUNDINGS = 16  # by which gradients may be apart that are the same
_MOST_NUMBERS = 2**20  # in a constant prediction, up to which the best one is sought
_SEARCH = 30  # steps at the most
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over steps
_COARSE = 0.05  # of other types
_ADVICE = (
    "It gets the one tensor that the model or the head gives, and targets as they are: of several "
    "say loss=lambda p, targets: your_loss(p, *targets). Reshape the one, "
    "loss=lambda p, y: your_loss(p.reshape(y.shape), y); y.float() makes targets real. PyTorch's "
    "losses take classes second: loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y), or "
    "loss=None. Is it a class? Give an instance, torch.nn.MSELoss()"
)
_FINITE = (
    "finite, and so its gradient, for each sequence alone. Does it compare sequences, or are all "
    "targets of one left out? Then give the sum, not the mean, over those that are not. Is there a "
    "root or a norm of 0, or a logarithm of 0 behind a torch.where?"
)
_NO_SUM = (
    "that of the sum of what these have alone, or of the mean. Does it draw, weigh classes, leave "
    "out targets, divide by its own size, or compare sequences? Then give the sum over what each "
    'has alone, as by reduction="sum"'
)
_OF_MODEL = (
    "one of what it is given alone, for the model is copied: make what it does with parameters a "
    "part of the model, as by torch.nn.Sequential(net, net.out), or of the head, by a method "
    "(head=net.decode) and no lambda; leave a weight decay out, and out of parameters= what the "
    "loss alone takes"
)


def close_for(model: nn.Module) -> float:
    """Return the relative error up to which sums agree, for the coarsest of a model's types."""
    errors = [_CLOSE.get(part.dtype.to_real(), _COARSE) for part in model.parameters()]
    return max(errors, default=1e-9)


class Objective:
    """A reader's loss, or the one that fits, on the predictions of passes."""

    def __init__(self, loss: Any, passes: Passes) -> None:
        """Take the reader's loss, or find the one that fits."""
        self.passes = passes
        self.losses: Losses = self._own
        targets = passes.data.targets.leaves
        if loss is None:
            require("loss", f"None for {len(targets)} targets", len(targets) == 1, "given")
            loss = usual_loss(self.shape, targets[0], self.shapes())
            self._refuse_unshifted(targets[0])
        self.loss = loss
        self.name = getattr(loss, "__name__", type(loss).__name__)
        self._refuse_either()

    def _refuse_unshifted(self, targets: Tensor) -> None:
        """Refuse tokens that are to predict themselves."""
        inputs = self.passes.data.first
        if targets.shape != inputs.shape or targets.is_floating_point():
            return
        is_same = ((targets == inputs) | (targets == IGNORED)).all()
        require(
            "targets",
            "the inputs of the same step",
            not is_same,
            "those of the next step, as in (tokens[:, :-1], tokens[:, 1:]): labels of Hugging "
            "Face's are shifted in their own loss. If they are meant, say loss=",
        )

    def _refuse_either(self) -> None:
        """Refuse PyTorch's losses of classes where there are as many classes as steps."""
        length = self.passes.data.length
        is_plain = self.name not in _OF_CLASSES or self.shape[:2] != (length, length)
        require(
            f"loss ({self.name})",
            f"takes classes second, of {self.shapes()}",
            is_plain,
            "one that says which axis has the classes: a function of yours that calls it, as "
            "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y) for classes last",
        )

    def of(self, predictions: Float[Tensor, "B K"], targets: Rows) -> Tensor:
        """Return the losses of single sequences."""
        return self.losses(predictions, targets, 1)

    def _own(self, predictions: Tensor, targets: Rows, at_once: int) -> Tensor:
        """Return the reader's own losses of batches of so many sequences."""
        found = []
        own = targets.map(lambda leaf: placed(leaf, self.passes.device))
        for places in torch.arange(len(predictions)).split(at_once):
            wanted = self.passes.data.targets_form.back(own[places])
            given = self.passes.layout.back(predictions[places].reshape(-1, *self.passes.shape))
            # copies, which it may change
            value = self.loss(given.clone(memory_format=torch.contiguous_format), wanted)
            words = "one that gives a tensor: a number, or one for each sequence"
            is_tensor = isinstance(value, Tensor)
            require(f"loss ({self.name})", type(value).__name__, is_tensor, words)
            found.append(value.sum())
        return torch.stack(found)

    def gradients(
        self, predictions: Float[Tensor, "B K"], targets: Rows, at_once: int = 1
    ) -> Float[Tensor, "B K"]:
        """Return the gradient of each sequence's loss in its predictions, or that of batches."""
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            total = self.losses(leaf, targets, at_once).sum()
        if not total.requires_grad:
            return torch.zeros_like(leaf)
        (gradients,) = torch.autograd.grad(total, leaf, **ZEROS)
        return gradients

    def error_sizes(self, places: Tensor) -> np.ndarray:
        """Return the length of each of some sequences' gradient in its predictions."""
        sizes = []
        for predictions, part in self.passes.in_parts(places):
            sizes.append(self.gradients(predictions, part).double().norm(dim=1))
        return torch.cat(sizes).cpu().numpy()

    def forget(self) -> None:
        """Take the loss as if nothing were learned, from now on: see `Untrained`."""
        total: Any = 0
        parts = []
        for predictions, targets in self.passes.in_parts():
            total += predictions.sum(0, keepdim=True)
            parts.append(targets)
        self.losses = Untrained(self._own, total / self.passes.data.count, parts).losses

    @property
    def shape(self) -> Shape:
        """The shape that the loss gets, without the axis of sequences."""
        shape = [*self.passes.shape_of(1)]
        del shape[self.passes.layout.axis]
        return tuple(shape)

    def shapes(self) -> str:
        """Write the shapes that the loss gets."""
        data = self.passes.data
        targets = data.targets_form.back(data.targets[:3])
        return f"predictions {tuple(self.passes.shape_of(3))} and targets {shown(targets)}"

    def check(self, original: nn.Module) -> None:
        """Refuse a loss that is no sum or mean over sequences, tried on all of them.

        `original` is the model that was given, of which this works on a copy.
        """
        name = f"loss ({self.name})"
        close = close_for(self.passes.model)
        is_sum = is_mean = True
        for predictions, targets in self.passes.in_parts():
            with (
                warnings.catch_warnings(),
                explained(name, f"fails on {self.shapes()}, for one sequence or some", _ADVICE),
            ):
                warnings.filterwarnings("error", "Using a target size")  # that is broadcast
                single = self.gradients(predictions, targets)
                is_finite = single.isfinite().all(1) & self.of(predictions, targets).isfinite()
                joint = self.gradients(predictions, targets, len(single))
            bad = (~is_finite).nonzero()[:1, 0].tolist()
            require(name, f"not finite for sequence {bad}", not bad, _FINITE)
            allowed = close * single.norm()
            is_sum &= bool((joint - single).norm() <= allowed)
            is_mean &= bool((joint * len(single) - single).norm() <= allowed)
            require(
                name,
                f"with another gradient for {len(single)} sequences",
                is_sum or is_mean,
                _NO_SUM,
            )
        some = torch.arange(3)
        with torch.enable_grad():  # the original's parameters are not those of the copy
            predictions = self.passes.predictions(self.passes.data.inputs[some])
        self.refuse_parameters(original.parameters(), predictions, self.passes.data.targets[some])

    def refuse_parameters(
        self, parameters: Iterable[Tensor], predictions: Tensor, targets: Rows
    ) -> None:
        """Refuse a loss, of some predictions, that takes parameters, which would not be seen."""
        asked = [part for part in parameters if part.requires_grad]
        with torch.enable_grad():
            total = self._own(predictions, targets, 1).sum()
        if total.requires_grad and asked:
            found = torch.autograd.grad(total, asked, allow_unused=True)
            require(
                f"loss ({self.name})",
                "or the head, a function of the model's parameters",
                {*found} == {None},
                _OF_MODEL,
            )


def usual_loss(shape: Shape, targets: Tensor, shown: str) -> Any:
    """Return the loss that fits predictions and targets in one way only.

    Squared error for real targets, cross-entropy for whole ones, with classes second or last.
    `shown` are the shapes in words, for what fits in no way or in two.
    """
    own = tuple(targets.shape[1:])
    if targets.is_floating_point():
        fits = [size for size in shape if size > 1] == [size for size in own if size > 1]
        require("loss", "None", fits, f"given, for {shown} do not fit squared errors")
        return mse_loss
    of_classes = set()  # which axes of the predictions may be
    for axis, size in enumerate(shape, 1):
        if size > 1 and axis in (1, len(shape)) and shape[: axis - 1] + shape[axis:] == own:
            of_classes.add(axis)
    fits = targets.dtype != torch.bool and len(of_classes) == 1
    require(
        "loss",
        "None",
        fits,
        f"given, for {shown} fit cross-entropy in no way, or in two. Are they counts, or two "
        "classes? Squared errors: loss=lambda p, y: F.mse_loss(p.flatten(), y.flatten().float())",
    )
    (axis,) = of_classes
    # a mean over what is not ignored is none over sequences
    reduction = "sum" if (targets == IGNORED).any() else "mean"

    def cross_entropy(predictions: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(predictions.movedim(axis, 1), wanted, reduction=reduction)

    return cross_entropy


def mse_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return squared errors where one of the two may have an axis of length 1 more."""
    return functional.mse_loss(predictions, targets.reshape(predictions.shape))


class Untrained:
    """A loss as if nothing were learned: predictions times what pulls on the best constant one.

    A sequence pulls on what its own loss takes, and not on what it leaves out, as padding: there
    the gradient is 0. What the search for the best constant leaves is taken off as the mean over
    the sequences that pull. For squared error and cross-entropy it is all the same from where one
    starts, unless sequences have weights. Where all pull alike they have nothing to learn: 0.
    """

    def __init__(self, losses: Losses, start: Float[Tensor, "1 K"], parts: Sequence[Sized]) -> None:
        """Find the best constant prediction, from `start` on, and what is the same in all pulls.

        `parts` are all targets, some at a time: never all are in memory.
        """
        self.own = losses
        self.constant = best_constant(losses, start, parts)
        total = torch.zeros_like(start, dtype=torch.float64)
        n_pulling = torch.zeros_like(total)
        for targets in parts:
            gradients = self._gradients(targets)
            total += gradients.sum(0, keepdim=True, dtype=torch.float64)
            n_pulling += gradients.ne(0).sum(0)
        self.mean = (total / n_pulling.clamp(min=1)).to(start.dtype)

    def losses(self, predictions: Float[Tensor, "B K"], targets: Sized, _: int) -> Tensor:
        """Return the losses of single sequences."""
        return (predictions * self.pulls(targets)).sum(1)

    def pulls(self, targets: Sized) -> Float[Tensor, "B K"]:
        """Return what some sequences' targets pull on each number of the constant prediction."""
        gradients = self._gradients(targets)
        pulls = gradients - self.mean
        rounding = _ROUNDINGS * torch.finfo(pulls.dtype).eps * self.mean.abs()
        return torch.where(gradients.ne(0) & (pulls.abs() > rounding), pulls, 0)

    def _gradients(self, targets: Sized) -> Tensor:
        """Return gradients of each sequence's loss at the constant prediction."""
        with torch.enable_grad():
            guesses = self.constant.expand(len(targets), -1).clone().requires_grad_()
            total = self.own(guesses, targets, 1).sum()
            (gradients,) = torch.autograd.grad(total, guesses)
        return gradients


def best_constant(
    losses: Losses, start: Float[Tensor, "1 K"], parts: Sequence[Sized]
) -> Float[Tensor, "1 K"]:
    """Return the prediction that is best for all sequences, or where the search for it begins.

    That is where a loss cannot be followed, as one that fails outside of [0, 1], and where there
    are very many numbers.
    """
    if start.numel() > _MOST_NUMBERS:
        return start
    constant = start.clone().requires_grad_()
    search = torch.optim.LBFGS([constant], max_iter=_SEARCH, line_search_fn="strong_wolfe")

    def loss_of_all() -> float:
        search.zero_grad()
        total = 0.0
        for targets in parts:
            count = len(targets)
            loss = losses(constant.expand(count, -1), targets, count).sum()
            loss.backward(inputs=[constant])
            total += float(loss.detach())
        return total

    try:
        with torch.enable_grad():
            at_start = loss_of_all()
            search.step(loss_of_all)
            is_better = loss_of_all() <= at_start
    except Exception:  # of the reader's loss, for a prediction that no model makes
        return start
    return constant.detach() if is_better else start
