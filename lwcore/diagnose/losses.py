"""The loss of each sequence: the reader's own or the one that fits, and as if untrained.

A sequence's loss is the reader's own, called on that sequence alone.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import optimize
from torch import Tensor, nn
from torch.nn import functional

from lwcore.ambient import in_double, placed
from lwcore.diagnose.contract import Rows, explained
from lwcore.diagnose.passes import HELD, NAME, ZEROS, Passes
from lwcore.signatures import require

Shape = tuple[int, ...]  # without the axis of sequences

IGNORED = -100  # the target that cross-entropy leaves out
_WEIGHED = (nn.CrossEntropyLoss, nn.NLLLoss)  # whose mean is over weights, not over sequences
_MODULES = {functional.cross_entropy: nn.CrossEntropyLoss, functional.nll_loss: nn.NLLLoss}
_ROUNDINGS = 16  # by which gradients may be apart that are the same
_MOST_NUMBERS = 2**20  # in a constant prediction, up to which the best one is sought
_SEARCH = {"maxiter": 30, "ftol": 1e-14}
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over steps
_COARSE = 0.05  # of other types
_SECOND = (
    "PyTorch's losses take classes second: "
    "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y), or loss=None"
)
_FINITE = (
    "finite, and so its gradient, for each sequence alone. Does it compare sequences, or are all "
    "targets of one left out? Then give the sum, not the mean, over those that are not. Is there a "
    "root or a norm of 0, or a logarithm of 0 behind a torch.where?"
)
_OF_MODEL = (
    "one of what it is given alone, for the model is copied: make what it does with parameters a "
    "part of the model, as by torch.nn.Sequential(net, net.out), or give a method (net.decode) and "
    "no lambda; leave a weight decay out"
)


def close_for(model: nn.Module) -> float:
    """Return the relative error up to which sums agree, for the coarsest of a model's types."""
    types = {part.dtype.to_real() for part in model.parameters()}
    return max([_CLOSE.get(dtype, _COARSE) for dtype in types], default=1e-9)


class Objective:
    """A reader's loss, or the one that fits, on the predictions of passes."""

    def __init__(self, loss: Any, passes: Passes) -> None:
        """Find what the loss takes of all that the model gives; call it on a few sequences."""
        self.loss = loss
        self.passes = passes
        self.averages = False  # whether that of a batch is the mean of its sequences', not the sum
        self.untrained: Untrained | None = None  # once learning is forgotten
        targets = passes.data.targets.leaves
        self.target: Tensor | None = targets[0] if len(targets) == 1 else None
        passes.only_tensor = not self._takes_all()
        passes.find_outputs()
        self._choose()

    def _takes_all(self) -> bool:
        """Say whether the loss takes several things, where they hold only one tensor.

        As logits and a cache: of these PyTorch's own losses, and many of readers, take the logits.
        """
        some = torch.arange(3)
        with torch.no_grad():
            given = self.passes.given(self.passes.data.inputs[some])
            if self.loss is None or isinstance(given, Tensor):
                return False
            try:
                self._call(given, self.passes.data.targets[some])
            except Exception:  # then it is called with the tensor, and what fails is told
                return False
        return True

    def _call(self, predictions: Any, targets: Rows) -> Any:
        """Return the loss; targets of a tuple go as several arguments if the loss takes these."""
        own = targets.map(lambda leaf: placed(leaf, self.passes.device))
        wanted = self.passes.data.targets_form.back(own)
        is_one = not isinstance(wanted, tuple | list) or _takes(self.loss, 2)
        return self.loss(predictions, wanted) if is_one else self.loss(predictions, *wanted)

    def _choose(self) -> None:
        """Take the reader's loss, or the one that fits, and call it on a few sequences."""
        passes = self.passes
        if self.loss is None:
            told = f"None for {passes.shown}, and {len(passes.data.targets.leaves)} targets"
            is_plain = len(passes.outputs.others) == 1 and self.target is not None
            require("loss", told, is_plain, f"given. {NAME}")
            assert self.target is not None
            shape = passes.outputs.shapes()[0]
            self.loss, self.name = usual_loss(shape, self.target, self.shapes())
            self._refuse_unshifted()
        else:
            self.name = str(getattr(self.loss, "__name__", type(self.loss).__name__))
            self._refuse_either()
        if self.target is not None:
            self.loss = summed(self.loss, self.target)
        some = torch.arange(3)
        predictions = passes.alone(passes.data.inputs[some])
        targets = passes.data.targets[some]
        with warnings.catch_warnings(record=True) as said, self.explained():
            warnings.simplefilter("always")
            self.of(predictions, targets)
            self.of(predictions, targets, len(some))
        is_broadcast = any("target size" in str(one.message) for one in said)
        words = "one that compares numbers of the same shape: reshape the targets"
        require(f"loss ({self.name})", self.shapes(), not is_broadcast, words)

    def _refuse_unshifted(self) -> None:
        """Refuse tokens that are to predict themselves."""
        inputs, targets = self.passes.data.first, self.target
        if targets is None or targets.shape != inputs.shape or targets.is_floating_point():
            return
        is_same = bool(((targets == inputs) | (targets == IGNORED)).all())
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
        is_of_classes = isinstance(self.loss, _WEIGHED) or self.loss in [*_MODULES]
        is_either = self.passes.outputs.shapes()[0][:2] == (length, length)
        told = f"takes classes second, of {self.shapes()}"
        words = "one that says which axis has the classes: a function of yours that calls it, as "
        words += "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y) for classes last"
        require(f"loss ({self.name})", told, not (is_of_classes and is_either), words)

    def of(self, predictions: Float[Tensor, "B K"], targets: Rows, at_once: int = 1) -> Tensor:
        """Return the losses of batches of so many sequences."""
        if self.untrained is None:
            return self._plain(predictions, targets, at_once)
        found = []
        for places in torch.arange(len(predictions)).split(at_once):
            found.append(self.untrained.of(predictions[places], targets[places]))
        return torch.stack(found)

    def _plain(self, predictions: Tensor, targets: Rows, at_once: int = 1) -> Tensor:
        """Return the reader's own losses."""
        found = []
        for places in torch.arange(len(predictions)).split(at_once):
            restored = self.passes.outputs.restored(predictions[places])
            value = self._call(restored, targets[places])
            words = "one that gives a tensor: a number, or one for each sequence"
            is_tensor = isinstance(value, Tensor)
            require(f"loss ({self.name})", type(value).__name__, is_tensor, words)
            found.append(value.sum())
        return torch.stack(found)

    def gradients(self, predictions: Float[Tensor, "B K"], targets: Rows) -> Float[Tensor, "B K"]:
        """Return the gradient of each sequence's loss in its predictions."""
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            total = self.of(leaf, targets).sum()
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
        targets = self.passes.data.targets
        total: Any = 0
        for predictions, _ in self.passes.in_parts():
            total += predictions.sum(0, keepdim=True)
        parts = []
        for places in torch.arange(len(targets)).split(max(1, HELD // max(total.numel(), 1))):
            parts.append((len(places), targets[places]))

        def joint(guesses: Tensor, part: Rows) -> Tensor:
            share = len(guesses) / len(targets) if self.averages else 1.0
            return share * self._plain(guesses, part, len(guesses)).sum()

        self.untrained = Untrained(self._plain, joint, total / len(targets), parts)

    def shapes(self) -> str:
        """Write the shapes that the loss gets."""
        predictions = [str(("B", *shape)) for shape in self.passes.outputs.shapes()]
        targets = []
        for leaf in self.passes.data.targets.leaves:
            if leaf is not None:
                targets.append(str(("B", *leaf.shape[1:])))
        words = f"predictions {' and '.join(predictions)} and targets {' and '.join(targets)}"
        return words.replace("'", "")

    def explained(self) -> AbstractContextManager[None]:
        """Say of an error in the loss what it was given, and what is likely missing."""
        advice = (
            f"It gets all of {self.passes.shown}, with None for what is no real numbers of each "
            f"sequence (make these real in a head). {NAME}. Reshape the one, "
            f"loss=lambda p, y: your_loss(p.reshape(y.shape), y); y.float() makes targets real. "
            f"{_SECOND}"
        )
        words = f"fails on {self.shapes()}, for one sequence or some"
        return explained(f"loss ({self.name})", words, advice)

    def check(self, originals: Sequence[Tensor]) -> None:
        """Refuse a loss that is no sum or mean over sequences, tried on all of them.

        `originals` are the parameters of the model that was given, of which this works on a copy.
        """
        name = f"loss ({self.name})"
        self._refuse_parameters(originals)
        close = close_for(self.passes.model)
        is_sum = is_mean = True
        for predictions, targets in self.passes.in_parts():
            with self.explained():
                single = self.of(predictions, targets)
                again = self.of(predictions, targets)
                joint = float(self.of(predictions, targets, len(single)))
                gradients = self.gradients(predictions, targets)
            is_finite = single.isfinite() & gradients.isfinite().all(1)
            bad = (~is_finite).nonzero()[:1, 0].tolist()
            require(name, f"not finite for sequence {bad}", not bad, _FINITE)
            words = "the same the second time: draws, as of negatives, belong into the targets"
            require(name, "another value", torch.allclose(single, again), words)
            total, mean = float(single.sum()), float(single.mean())
            allowed = close * float(single.abs().max())  # which may be tiny
            is_sum &= abs(joint - total) <= allowed * max(1, len(single) ** 0.5)
            is_mean &= abs(joint - mean) <= allowed
            require(
                name,
                f"{joint:.6g} for {len(single)} sequences",
                is_sum or is_mean,
                f"the sum of what these have alone, {total:.6g}, or the mean, {mean:.6g}. "
                "Does it weigh classes, leave out targets, or compare sequences? Then give "
                'the sum over what each has alone, as by reduction="sum"',
            )
        self.averages = not is_sum

    def _refuse_parameters(self, originals: Sequence[Tensor]) -> None:
        """Refuse a loss or a head that takes parameters of the model that was given.

        These are not those of the copy, and what they do would not be seen.
        """
        some = torch.arange(3)
        asked = [part for part in originals if part.requires_grad]
        with torch.enable_grad():
            predictions = self.passes.predictions(self.passes.data.inputs[some])
            total = self.of(predictions, self.passes.data.targets[some]).sum()
        if total.requires_grad and asked:
            found = torch.autograd.grad(total, asked, allow_unused=True)
            is_free = all(part is None for part in found)
            told = "or the head, a function of the model's parameters"
            require(f"loss ({self.name})", told, is_free, _OF_MODEL)


def _takes(loss: Any, count: int) -> bool:
    """Say whether a loss can be called with so many arguments, as far as its signature says."""
    try:
        inspect.signature(getattr(loss, "forward", loss)).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # of a function that is not written in Python
        pass
    return True


def usual_loss(shape: Shape, targets: Tensor, shown: str) -> tuple[Any, str]:
    """Return the loss that fits predictions and targets in one way only, and its name.

    Squared error for real targets, cross-entropy for whole ones, with classes second or last.
    `shown` are the shapes in words, for what fits in no way or in two.
    """
    own = tuple(targets.shape[1:])
    if targets.is_floating_point():
        fits = _without_ones(shape) == _without_ones(own)
        require("loss", "None", fits, f"given, for {shown} do not fit squared errors")
        return _squared, "mse_loss"
    second = shape[1:] == own
    last = shape[:-1] == own and len(shape) > 1
    n_classes = shape[0] if second else [1, *shape][-1]
    fits = targets.dtype != torch.bool and second != last and n_classes > 1
    words = (
        f"given, for {shown} fit cross-entropy in no way, or in two. Are they counts, or two "
        "classes? Squared errors: loss=lambda p, y: F.mse_loss(p.flatten(), y.flatten().float())"
    )
    require("loss", "None", fits, words)
    wanted = targets[targets != IGNORED]
    outside = wanted[(wanted < 0) | (wanted >= n_classes)].tolist()
    words = (
        f"given, or targets from 0 to {n_classes - 1}, as there are {n_classes} classes, with "
        f"{IGNORED} for what is to be ignored"
    )
    require("loss", f"None, with the target {outside[:1]}", not outside, words)
    return (nn.CrossEntropyLoss() if second else _ClassesLast()), "cross_entropy"


def _without_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return squared errors where one of the two may have an axis of length 1 more."""
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
    if loss in [*_MODULES]:
        loss = _MODULES[loss]()
    if not isinstance(loss, _WEIGHED) or loss.reduction != "mean":
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

    def constant_of(numbers: np.ndarray) -> Tensor:
        return placed(torch.from_numpy(numbers).reshape(start.shape), start.device, start.dtype)

    def loss_and_gradient(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        constant = constant_of(numbers).requires_grad_()
        total = 0.0
        gradient = torch.zeros_like(constant)
        for count, targets in parts:
            with torch.enable_grad():
                loss = joint(constant.expand(count, -1), targets)
            gradient += torch.autograd.grad(loss, constant)[0]
            total += loss.item()
        return total, in_double(gradient).cpu().numpy().ravel()

    first = in_double(start).cpu().numpy().ravel()
    how = {"jac": True, "method": "L-BFGS-B", "options": _SEARCH}
    try:
        found = optimize.minimize(loss_and_gradient, first, **how)
        is_better = found.fun <= loss_and_gradient(first)[0] and np.isfinite(found.x).all()
    except Exception:  # of the reader's loss, for a prediction that no model makes
        return start
    return constant_of(found.x) if is_better else start
