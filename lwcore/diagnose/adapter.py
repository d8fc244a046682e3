"""A reader's model, its loss and its data as the core sees them.

The model runs as it is, in its own precision and layout, and is not changed. `lwcore.diagnose`
knows of it what an `Adapter` says: `kind`, `shape` and `loss_name`, what it refuses (`check`),
readings of batches (`read`), and a loss as if nothing had been learned (`forget`). One recurrence
is read by `lwcore.diagnose.recurrent`, any other causal model by `lwcore.diagnose.uses`.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils import _pytree as trees
from torch.utils.data import DataLoader, Dataset, IterableDataset

from lwcore.ambient import placed
from lwcore.signatures import Lags, require, warn

Pair = tuple[Tensor, Tensor]
Function = Callable[..., Tensor]

ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
_TRIED = 4  # sequences on which assumptions are tried
_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
_HELD = 2**23  # numbers in the predictions that are held at a time
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3, None: 0.05}  # rounding adds up over steps
_ROUNDING = "If it does, rounding grows in its states: try model.double()"


class Reading(Protocol):
    """What a batch of sequences says of lags."""

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""

    def gradient(self) -> Float[Tensor, " P"]:
        """All lags together, summed over sequences, as one vector."""

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        """Each lag's part of the gradient, summed over sequences and end points, as one vector."""

    def numbers(self, directions: Float[Tensor, "lags P"], lags: Lags) -> Float[Tensor, "2 lags B"]:
        """Each sequence's part of each lag along its direction, and the whole gradient along it."""


@dataclass(eq=False)
class Adapter(ABC):
    """A reader's model with its head and loss, as the core sees it; what reads lags is a subclass.

    A first batch shows which axis counts the sequences in inputs, targets and predictions; inside,
    sequences stand in front. `shape` is that batch's: sequences, steps, width of a step. `chosen`
    are the parameters, by name, whose gradient is taken apart.
    """

    model: nn.Module
    batch: Pair
    head: Function | None = None
    loss: Any = None

    tolerance = _CLOSE  # of all lags together, beside the gradient
    order = "the model reads sequences first"  # of axes
    batch_first = True
    at_once = _TRIED  # sequences that are read together
    averages = False  # whether the loss of a batch is the mean of its sequences', not the sum

    def __post_init__(self) -> None:
        """Find the axes on a few sequences, however many a batch has."""
        self.kind = type(self.model).__name__
        training = any(part.training for part in self.model.modules())  # random draws, statistics
        require("model.training", training, not training, "False: call model.eval() first")
        self.chosen = self._chosen()
        self.weight = next(self.model.parameters())
        self.exact = self.tolerance.get(self.weight.dtype, self.tolerance[None])
        inputs, targets = self.batch
        numbers = targets.is_floating_point()
        usual = "mse_loss" if numbers else "cross_entropy"
        given = getattr(self.loss, "__name__", type(self.loss).__name__)
        self.loss_name = str(given) if self.loss else usual
        self.loss = self.loss or (nn.MSELoss() if numbers else nn.CrossEntropyLoss())
        self.axes = {"inputs": 0, "targets": 0, "predictions": 0}
        for axis, few in on_trial(inputs, targets, self.batch_first):
            self.axes["inputs"] = axis
            with torch.no_grad():
                predictions, (count, length, width) = self._seen(few.movedim(axis, 0))
            if count == few.shape[axis]:
                break
        words = f"sequences in one and steps in the other, as {self.order} (are axes swapped?)"
        require("first axes of inputs", tuple(inputs.shape[:2]), count == few.shape[axis], words)
        self.shape = inputs.shape[axis], length, width
        self.axes["targets"] = self._axis("targets", targets, self.shape[0])
        self.axes["predictions"] = self._axis("predictions", predictions, count)

    @abstractmethod
    def _chosen(self) -> dict[str, Tensor]:
        """The parameters whose gradient is taken apart."""

    @abstractmethod
    def _seen(self, inputs: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """Predictions for some inputs, and of how many sequences, steps and numbers they are."""

    @abstractmethod
    def read(self, inputs: Tensor, targets: Tensor) -> Reading:
        """What a batch of sequences says of lags."""

    @abstractmethod
    def aside(self, inputs: Tensor) -> str:
        """What in the model the lags do not count."""

    def fit(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(_AT_ONCE, _ENTRIES // max(entries, 1)))

    def _axis(self, name: str, tensor: Tensor, sequences: int) -> int:
        """The axis that counts the sequences."""
        length = self.shape[1]
        fits = [axis for axis, size in enumerate(tensor.shape[:2]) if size == sequences]
        words = f"{sequences} in one, the sequences, for {self.order}, of {length} steps"
        words = f"{words} (are axes swapped?)"
        require(f"first axes of {name}", tuple(tensor.shape[:2]), bool(fits), words)
        return fits[-1] if sequences == length and not self.batch_first else fits[0]

    def sequences_first(self, inputs: Tensor, targets: Tensor) -> Pair:
        """A batch with its axis of sequences in front."""
        device = self.weight.device
        inputs, targets = placed(inputs, device), placed(targets, device)
        return inputs.movedim(self.axes["inputs"], 0), targets.movedim(self.axes["targets"], 0)

    def predictions(self, inputs: Tensor) -> Tensor:
        """What the model predicts, through the head if there is one, sequences in front."""
        dtype = self.weight.dtype if inputs.is_floating_point() else None
        given = placed(inputs, self.weight.device, dtype)
        found = self.model(given.movedim(0, self.axes["inputs"]))
        if self.head is not None:
            found = self.head(flat(found)[0])
        return flat(found)[0].movedim(self.axes["predictions"], 0)

    def losses(self, predictions: Tensor, targets: Tensor, at_once: int = 1) -> Tensor:
        """The losses of batches of so many sequences, in the reader's own layout."""
        found, wanted = self.axes["predictions"], self.axes["targets"]
        guesses = predictions.movedim(0, found).split(at_once, found)
        truths = targets.movedim(0, wanted).split(at_once, wanted)
        return torch.stack([self.loss(*pair).sum() for pair in zip(guesses, truths, strict=True)])

    def forget(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Take the loss as if nothing were learned, from now on; return the targets it takes.

        It is a product with pulls on a constant prediction: with loss gradients at the mean
        prediction, centred, which makes the constant the best one: for squared error and
        cross-entropy exactly.
        """
        total: Any = 0
        for predictions, _ in self._predicted(inputs, targets):
            total += predictions.sum(0, keepdim=True)
        untrained = Untrained(self.loss, dict(self.axes), total / len(inputs))
        pulls: Any = 0
        for part in targets.split(self._held(total.numel())):
            pulls += untrained.pulls(part).sum(0, keepdim=True)
        untrained.mean = pulls / len(targets)
        self.loss = untrained
        return targets

    def beats_constants(self, inputs: Tensor, targets: Tensor) -> bool:
        """Whether the loss is below that of every constant tried: of the best one, if convex."""
        total: Any = 0
        own = 0.0
        for predictions, part in self._predicted(inputs, targets):
            total += predictions.sum(0, keepdim=True)
            own += float(self._joint(predictions, part, len(targets)).detach())
        constant = (total / len(inputs)).requires_grad_()
        parts = targets.split(self._held(constant.numel()))
        descent = torch.optim.LBFGS([constant], line_search_fn="strong_wolfe")

        def closure() -> Any:
            joint: Any = 0.0
            constant.grad = torch.zeros_like(constant)
            for part in parts:
                guesses = constant.expand(len(part), *constant.shape[1:])
                loss = self._joint(guesses, part, len(targets))
                constant.grad += torch.autograd.grad(loss, constant)[0]
                joint += loss.detach()
            return joint

        with torch.enable_grad():
            descent.step(closure)
            least = float(closure())
        return own < least

    def _joint(self, predictions: Tensor, targets: Tensor, count: int) -> Tensor:
        """What some sequences give to the loss of a batch of so many."""
        share = len(targets) / count if self.averages else 1.0
        return share * self.losses(predictions, targets, len(targets)).sum()

    def _held(self, entries: int) -> int:
        """How many sequences' predictions, of so many numbers each, are held at a time."""
        return max(1, _HELD // max(entries, 1))

    def _predicted(self, inputs: Tensor, targets: Tensor) -> Iterator[Pair]:
        """Predictions beside targets, of as many sequences at a time as memory is to hold."""
        few = min(64, self.at_once)
        held: list[Pair] = []
        size = 0
        for x, y in zip(inputs.split(few), targets.split(few), strict=True):
            with torch.no_grad():
                made = self.predictions(x)
            if held and size + made.numel() > _HELD:
                yield torch.cat([p for p, _ in held]), torch.cat([t for _, t in held])
                held, size = [], 0
            held.append((made, y))
            size += made.numel()
        yield torch.cat([p for p, _ in held]), torch.cat([t for _, t in held])

    @torch.no_grad()
    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse sequences that are not treated one by one."""
        ignored = targets.eq(getattr(self.loss, "ignore_index", torch.nan)).any()
        if ignored and getattr(self.loss, "reduction", "") == "mean":
            self.loss = copy.copy(self.loss)  # over unequal counts: the mean of no sequence
            self.loss.reduction = "sum"
        inputs, targets = self.tried(inputs, targets)
        tolerance = _CLOSE.get(self.weight.dtype, _CLOSE[None])
        together = self.predictions(inputs)
        alone = torch.cat([self.predictions(one) for one in inputs.split(1)])
        words = "one that predicts for a sequence alone as among others, no NaN, without random "
        words += f"draws (call model.eval() first). {_ROUNDING}"
        close = torch.allclose(alone, together, rtol=tolerance, atol=tolerance)  # no NaN is
        require("model", type(self.model).__name__, close, words)
        losses = self.losses(together, targets)
        joint = self.losses(together, targets, len(targets))
        total, mean, largest = losses.sum(), losses.mean(), losses.abs().max()  # may be tiny
        fits = [(joint - one).abs() <= tolerance * largest for one in (total, mean)]
        self.averages = bool((joint - mean).abs() < (joint - total).abs())
        shapes = f"are predictions {tuple(together.shape)} and targets {tuple(targets.shape)}"
        words = f"the sum of what {len(losses)} sequences have alone, {total:.6g}, or the mean, "
        words += f"{mean:.6g} (if weighted: the sum; {shapes} broadcast?)"
        require(f"loss ({self.loss_name})", float(joint), any(fits), words)

    def tried(self, inputs: Tensor, targets: Tensor) -> Pair:
        """The few sequences on which assumptions are tried."""
        count = max(2, min(_TRIED, self.at_once))
        return inputs[:count], targets[:count]

    def check_sum(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a reading whose lags together are not autograd's gradient of each parameter."""
        found = self.read(inputs, targets).gradient()
        own = [*self.chosen.values()]
        with followed(own):
            total = self.losses(self.predictions(inputs), targets).sum()
            parts = torch.autograd.grad(total, own, **ZEROS)
        wanted = [part.cpu().double().flatten() for part in parts]
        size, found = torch.cat(wanted).norm(), found.split([len(part) for part in wanted])
        missing = [
            f"{name} ({error / size:.1g} of the gradient)"
            for name, one, two in zip(self.chosen, found, wanted, strict=True)
            if not (error := (one - two).norm()) <= self.exact * size
        ]
        words = "parameters whose uses can all be seen, in states that pass from step to step "
        words += f"unchanged: name in `parameters` those to look at. {_ROUNDING}"
        require("model", ", ".join(missing), not missing, words)


class Untrained:
    """A loss as if nothing were learned: predictions times what pulls on the best constant one."""

    __name__ = "untrained"

    def __init__(self, loss: Any, axes: dict[str, int], constant: Tensor) -> None:
        """A loss from a reader's own and a prediction, sequences in front as everywhere here."""
        self.loss, self.axes, self.constant = loss, axes, constant
        self.mean: Any = 0

    def pulls(self, targets: Tensor) -> Tensor:
        """Gradients of each sequence's loss at the constant prediction, for targets so ordered."""
        found, wanted = self.axes["predictions"], self.axes["targets"]
        with torch.enable_grad():
            guesses = self.constant.expand(len(targets), *self.constant.shape[1:])
            guesses = guesses.clone().requires_grad_()
            pairs = zip(
                guesses.movedim(0, found).split(1, found),
                targets.movedim(0, wanted).split(1, wanted),
                strict=True,
            )
            total = torch.stack([self.loss(*pair).sum() for pair in pairs]).sum()
            (gradients,) = torch.autograd.grad(total, guesses)
        return gradients

    def __call__(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The product, of some sequences in the reader's own layout."""
        found, wanted = self.axes["predictions"], self.axes["targets"]
        pulls = self.pulls(targets.movedim(wanted, 0)) - self.mean
        return predictions * pulls.movedim(0, found)


def on_trial(
    inputs: Tensor, targets: Tensor, batch_first: bool = True
) -> Iterator[tuple[int, Tensor]]:
    """A few of a batch along each axis that may count its sequences, however many there are.

    First along one that is as long as one of the targets'; not as many as the other axis has.
    """
    require("inputs", tuple(inputs.shape), inputs.ndim > 1, "of the shape (sequences, steps, …)")
    axes = (0, 1) if batch_first else (1, 0)
    for axis in sorted(axes, key=lambda axis: inputs.shape[axis] not in targets.shape[:2]):
        few = 5 if inputs.shape[1 - axis] != 5 else 7
        yield axis, inputs.narrow(axis, 0, min(inputs.shape[axis], few))


def changed(inputs: Tensor, steps: slice) -> Tensor:
    """Inputs that are others at some steps, of the same kind."""
    generator, other = torch.Generator().manual_seed(1), inputs.clone()
    shape = other[:, steps].shape
    if inputs.is_floating_point():
        noise = torch.randn(shape, generator=generator)
        noise = placed(noise, inputs.device, inputs.dtype)
        other[:, steps] += noise * inputs.std().clamp(min=0.1)
    else:
        draws = torch.randint(inputs.numel(), shape, generator=generator)
        other[:, steps] = inputs.flatten()[draws.to(inputs.device)]
    return other


def flat(given: Any) -> list[Any]:
    """The tensors in what a module takes or gives."""
    return [part for part in trees.tree_leaves(given) if isinstance(part, Tensor)]


@contextmanager
def followed(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Gradients reach all these parameters for a while, frozen ones, too."""
    with ExitStack() as after, torch.enable_grad():
        for part in parameters:
            after.callback(part.requires_grad_, part.requires_grad)
            part.requires_grad_()
        yield


def gathered(make: Callable[[Pair], Adapter], batches: Any, sequences: int) -> tuple[Adapter, Pair]:
    """An adapter made for a first batch, and its sequences, from pairs, or from one pair.

    A warning is given where only `batch_first` tells sequences from steps, and may be wrong: where
    a loader's batches are as large as the steps are many, or, without a loader, where there are
    fewer sequences than steps.
    """
    size, network = getattr(batches, "batch_size", None), None
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        # a generator of its own: a loader without one draws a seed from PyTorch's
        batches = DataLoader(batches, _AT_ONCE, generator=torch.Generator())
    batches = [batches] if _is_pair(batches) else batches
    parts: list[Pair] = []
    for place, batch in enumerate(batches):
        words = "a pair of tensors, inputs and targets"
        require(f"batches[{place}]", type(batch).__name__, _is_pair(batch), words)
        given, wanted = (torch.as_tensor(part).detach() for part in batch)
        # what was made in torch.inference_mode() carries no gradients; a copy does
        given, wanted = (part.clone() if part.is_inference() else part for part in (given, wanted))
        finite = bool(given.isfinite().all() and wanted.isfinite().all())
        require(f"batches[{place}]", "NaN or infinite somewhere", finite, "finite")
        network = network or make((given, wanted))
        parts.append(network.sequences_first(given, wanted))
        if sum(len(x) for x, _ in parts) >= sequences:
            break
    require("batches", batches, bool(parts), "one pair or more")
    assert network is not None
    shapes = {(tuple(x.shape[1:]), tuple(y.shape[1:])) for x, y in parts}
    require("shapes in batches", shapes, len(shapes) == 1, "one for all: equally long sequences")
    count, length, _ = network.shape
    swapped = length == size != count if size else length > count
    if swapped and parts[0][1].shape[1:2] == (length,):
        read = f"inputs are read as {count} sequences of {length} steps, for {network.order}"
        warn(f"{read}. Is that so?")
    inputs, targets = (torch.cat(some)[:sequences] for some in zip(*parts, strict=True))
    return network, (inputs, targets)


def _is_pair(batch: Any) -> bool:
    few = isinstance(batch, tuple | list) and len(batch) == 2
    return few and all(isinstance(part, Tensor | np.ndarray) for part in batch)
