"""A reader's model, its loss and its data as the core sees them.

The model runs as it is, in its own precision and layout, and is not changed. `lwcore.diagnose`
knows of it what an `Adapter` says: `kind`, `shape` and `loss_name`, what it refuses (`check`),
readings of batches (`read`), and a loss as if nothing had been learned (`forget`). One recurrence
is read by `lwcore.diagnose.recurrent`, any other causal model by `lwcore.diagnose.uses`.

All numbers that a model gives for a sequence stand side by side as one row of predictions, (B, K).
`ends` has the step at which each of them is made: the last one whose input moves it.
"""

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees

from lwcore.ambient import placed
from lwcore.diagnose.data import FRONT, Axes, Pair
from lwcore.diagnose.kept import kept_as_it_was
from lwcore.diagnose.losses import IGNORED, WEIGHED, Untrained, summed, usual_loss
from lwcore.diagnose.outputs import Leaf, Outputs, only_tensor, shown
from lwcore.diagnose.tensors import (
    ZEROS,
    dense,
    explained,
    followed,
    in_order,
    in_reals,
    tensors_in,
)
from lwcore.diagnose.times import SIGHTINGS, Rows, Sightings, rows_of
from lwcore.diagnose.trials import (
    PATTERN,
    Trials,
    last_steps,
    moved_apart,
    n_pairs,
    starts,
    steps_by_pair,
)
from lwcore.signatures import checked, require

Function = Callable[..., Tensor]
Bands = Sequence[Sequence[int]]  # lags that are measured together

_TRIED, _HEAVIEST = 4, 2  # sequences on which assumptions are tried, and those of large losses
_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
_RUN = 64  # sequences that the model alone is run on at a time
_HELD = 2**23  # numbers in the predictions that are held at a time
_ROUNDS = 32  # of pairs of sequences, until the times of all values are sure
_FEW_NAMES = 6  # that are told
_LONGEST = 1024  # steps, of which each can be tried
_WHICH = (
    "Say of which the loss is made, by head=lambda out: out[0], out['logits'], out.logits or "
    "(out.loc, out.scale), say, and how, by loss="
)
_TRIES = 12  # other steps that a sequence is tried with, before its prediction does not move
_UNMOVED = 0.05  # share of sequences whose predictions may not move: behind a ReLU, say
_CONSTANTS = 2**20  # numbers in a constant prediction, up to which the best one is sought
FINITE = "finite. Is there a root or a norm of 0, or a logarithm of 0 behind a torch.where?"
_EXCHANGED = (
    "On trial, steps of one sequence stand in another, to see what depends on them: give a model "
    "that takes logarithms or roots of differences of steps, or looks at their order, the "
    "differences as inputs, leave out what checks the data, and divide by the count of a mask only "
    "if it is not 0: mask.sum(1).clamp(min=1)"
)
_OF_REALS = (nn.BCELoss, nn.BCEWithLogitsLoss, nn.KLDivLoss, nn.SmoothL1Loss, nn.HuberLoss)
_OPERATORS = "torch.cond, while_loop, map and scan"  # of which eager passes lose the gradient
_OPERATOR_NAMES = ("cond", "while_loop", "map_impl", "scan")
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
    untrained: Untrained | None = field(default=None, init=False)  # once learning is forgotten

    tolerance = _CLOSE  # of all lags together, beside the gradient
    at_once = _TRIED  # sequences that are read together
    ends_at_padding = False  # whether it does not matter when a sequence's predictions are made
    averages = False  # whether the loss of a batch is the mean of its sequences', not the sum

    def __post_init__(self) -> None:
        """Find what the model gives and how the loss takes it, on a trial batch."""
        self.kind = type(self.model).__name__
        self._refuse_models()
        self._choose_tolerances()
        inputs, targets = self.batch
        self.shape = (*inputs.shape[:2], inputs[0, 0].numel())
        self.weight = next(self.model.parameters(), torch.zeros(()))  # where inputs are placed
        self.trials = Trials(placed(inputs, self.weight.device))
        self.chosen = self._chosen()
        self.heaviest = torch.zeros(0, dtype=torch.int64)  # the sequences of the largest losses
        self.without_gradient: list[str] = []  # of those that are chosen, by name

        # On the data first: if the model fails later, made-up inputs are to blame.
        self.fits_data = False
        with _NoOperators():
            self._all_given(self.trials.inputs[:2])
        self._refuse_caches()
        self.fits_data = True

        self.takes_all = self._loss_takes_all(targets)
        self._find_outputs()
        self._choose_loss(targets)

    def _refuse_models(self) -> None:
        """Refuse a model in training mode, and parts whose uses cannot be seen."""
        parts = [*self.model.modules()]
        is_training = any(part.training for part in parts)  # random draws, statistics
        words = "False: call model.eval() first. Of torch.export, give the model before the export"
        require("model.training", is_training, not is_training, words)
        scripted = [part for part in parts if isinstance(part, torch.jit.ScriptModule)]
        names = ", ".join(type(part).__name__ for part in scripted)
        words = "as it was before scripting or tracing: uses of its parameters cannot be seen"
        require("model", names, not scripted, words)
        quantised = [part for part in parts if ".nn.quantized" in type(part).__module__]
        names = ", ".join(type(part).__name__ for part in quantised[:_FEW_NAMES])
        words = "as it was before it was quantised: whole numbers carry no gradients"
        require("model", names, not quantised, words)

    def _refuse_caches(self) -> None:
        """Refuse a model that holds what was once made of parameters: later passes do not."""
        before = _made_of_parameters(self.model)
        self._all_given(self.trials.inputs[:2])
        after = _made_of_parameters(self.model)
        held = [name for name, part in before.items() if after.get(name) is part]
        words = (
            "one that makes in each pass what it makes of parameters: set a cache to None as each "
            "pass begins, or turn it off to measure"
        )
        require("model", f"{self.kind}, which holds {', '.join(held)}", not held, words)

    def _choose_tolerances(self) -> None:
        """Choose how near numbers must be to count as equal, by the coarsest type of the model."""
        types = [dtype.to_real() for dtype in _sizes_by_type(self.model)]
        coarsest = max(types, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)
        self.rounding = _CLOSE.get(coarsest, _CLOSE[None])
        self.exact = self.tolerance.get(coarsest, self.tolerance[None])

    def _find_outputs(self) -> None:
        """Find the predictions in what the model gives; refuse what holds none."""
        for _ in range(_TRIES):  # in the first, a gate may be closed for all
            given = self._given(self.trials.patterned())
            self.outputs = Outputs.of(given)
            if self.outputs.leaves:
                break
        self.gives = shown(given)
        if not self.outputs.leaves:
            self._refuse_predictions(given)
        with explained("predictions", f"{self.gives}: cannot be put together anew", _WHICH):
            self.outputs.shapes()
        self.entries = self.outputs.entries
        self.limit_batch(self.entries)

    @abstractmethod
    def _chosen(self) -> dict[str, Tensor]:
        """The parameters whose gradient is taken apart."""

    @abstractmethod
    def read(self, inputs: Tensor, targets: Tensor) -> Reading:
        """Return what a batch of sequences says of lags."""

    def limit_batch(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(_AT_ONCE, _ENTRIES // max(entries, 1)))

    # What the model gives

    def _given(self, inputs: Tensor) -> Any:
        """Return what the loss takes of all that the model gives."""
        given = self._all_given(inputs)
        return given if self.takes_all else only_tensor(given)

    def _all_given(self, inputs: Tensor) -> Any:
        """Return all that the model gives, through the head if there is one."""
        own = in_order(self.axes.inputs_back(placed(inputs, self.weight.device)))
        words = f"fails on {len(inputs)} sequences, inputs of the shape {tuple(own.shape)}"
        with explained(f"model ({self.kind})", words, lambda error: self._advice(inputs, error)):
            are_followed = torch.is_grad_enabled()
            given = self.model(own)
            is_left_off = are_followed and not torch.is_grad_enabled()
            words = "one that turns gradients off within `with torch.no_grad():`, if at all"
            told = f"{self.kind}, which leaves torch.set_grad_enabled(False) behind"
            require("model", told, not is_left_off, words)
        if self.head is not None:
            with explained("head", f"fails on what the model gives, {shown(given)}"):
                given = self.head(given)
        parts = trees.tree_leaves(given, is_leaf=lambda part: isinstance(part, PackedSequence))
        is_packed = any(isinstance(part, PackedSequence) for part in parts)
        words = (
            "tensors with an axis of sequences: head=lambda out: "
            "torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]"
        )
        require("predictions", "a PackedSequence", not is_packed, words)
        return given

    def _advice(self, inputs: Tensor, error: Exception) -> str:
        """Say what is likely wrong where the model fails."""
        if not torch.is_grad_enabled() and "require grad" in str(error):
            return "Does it take gradients as it predicts? Do so within torch.enable_grad()"
        if type(error).__module__.startswith("torch._dynamo"):
            return f"Write {_OPERATORS} as loops and conditions of Python, to measure"
        if isinstance(error, IndexError) and not inputs.is_floating_point():
            return (
                f"Tokens of the data are {int(self.trials.inputs.min())} to "
                f"{int(self.trials.inputs.max())}: has each a row of the embedding?"
            )
        if self.fits_data and not self._are_of_data(inputs):
            return f"It works on sequences of the data. {_EXCHANGED}"
        return "It must take any number of sequences, and one tensor: wrap it if it takes more"

    def _are_of_data(self, inputs: Tensor) -> bool:
        """Say whether sequences stand in the data as they are."""
        data = self.trials.inputs
        for row in placed(inputs, data.device):
            is_same = (data == row).flatten(1).all(1)
            if not bool(is_same.any()):
                return False
        return True

    def _loss_takes_all(self, targets: Tensor) -> bool:
        """Say whether the loss takes several things, where they hold only one tensor.

        As logits and a cache: of these PyTorch's own losses, and many of readers, take the logits.
        """
        few = self.trials.inputs[:3]
        with torch.no_grad():
            given = self._all_given(few)
            if self.loss is None or isinstance(given, Tensor):
                return False
            try:
                own_targets = self.axes.targets_back(placed(targets[:3], self.weight.device))
                self.loss(given, in_order(own_targets))
            except Exception:  # then it is called with the tensor, and what fails is told
                return False
        return True

    def predictions(self, inputs: Tensor) -> Float[Tensor, "B K"]:
        """Return all numbers that the model gives for each sequence, as one row."""
        given = self._given(inputs)
        words = (
            f"as for {len(PATTERN)}: {self.gives}. Does it drop axes of length 1, by squeeze()? "
            "Then name the axis, squeeze(-1). Does it do otherwise by what the data hold?"
        )
        told = f"{shown(given)} for {len(inputs)}"
        require("predictions", told, self.outputs.fit(given, len(inputs)), words)
        return self.outputs.rows(given)

    def _predictions_alone(self, inputs: Tensor) -> Tensor:
        """Return predictions of which no gradient is asked."""
        with torch.no_grad():
            return self.predictions(inputs)

    def _predicted(self, inputs: Tensor, targets: Tensor) -> Iterator[Pair]:
        """Yield predictions beside targets, of as many sequences as memory is to hold."""
        few = min(_RUN, self.at_once)
        held: list[Tensor] = []
        size = start = end = 0
        for part in inputs.split(few):
            made = self._predictions_alone(part)
            if held and size + made.numel() > _HELD:
                yield torch.cat(held), targets[start:end]
                held, size, start = [], 0, end
            held.append(made)
            size += made.numel()
            end += len(part)
        yield torch.cat(held), targets[start:end]

    # The loss

    def _choose_loss(self, targets: Tensor) -> None:
        """Take the reader's loss, or the one that fits, and call it on a few sequences."""
        if isinstance(self.loss, type):
            words = f"a function, not a class: {self.loss.__name__}()"
            require("loss", self.loss.__name__, False, words)
        if self.loss is None:
            shapes = self.outputs.shapes()
            is_one = self.outputs.spec.num_leaves == 1
            words = f"given, for the model gives several things. {_WHICH}"
            require("loss", f"None for {self.gives}", is_one, words)
            self.loss, self.loss_name = usual_loss(shapes, targets, self._shapes(targets))
            self._refuse_unshifted(targets)
        else:
            self.loss_name = str(getattr(self.loss, "__name__", type(self.loss).__name__))
        self.loss = summed(self.loss, targets)
        few = self.trials.inputs[:3]
        predictions = self._predictions_alone(few)
        with warnings.catch_warnings(record=True) as said, self._loss_explained(targets):
            warnings.simplefilter("always")
            self.losses(predictions, targets[:3])
            self.losses(predictions, targets[:3], len(few))
        broadcast = any("target size" in str(one.message) for one in said)
        words = "one that compares numbers of the same shape: reshape the targets"
        require(f"loss ({self.loss_name})", self._shapes(targets), not broadcast, words)

    def _refuse_unshifted(self, targets: Tensor) -> None:
        """Refuse tokens that are to predict themselves."""
        inputs = self.trials.inputs
        targets = placed(targets, inputs.device)
        is_same = targets.shape == inputs.shape and self.loss_name == "cross_entropy"
        is_same = is_same and bool(((targets == inputs) | (targets == IGNORED)).all())
        words = (
            "those of the next step, as in (tokens[:, :-1], tokens[:, 1:]): labels of Hugging "
            "Face's are shifted in their own loss. If they are meant, say loss="
        )
        require("targets", "the inputs of the same step", not is_same, words)

    def _shapes(self, targets: Tensor) -> str:
        """Write the shapes that the loss gets."""
        every = [*self.outputs.shapes(), tuple(targets.shape[1:])]
        *own, of_targets = [str(("B", *shape)).replace("'", "") for shape in every]
        return f"predictions {' and '.join(own)} and targets {of_targets}"

    def _loss_explained(self, targets: Tensor) -> AbstractContextManager[None]:
        """Say of an error in the loss what it was given, and what is likely missing."""
        words = f"fails on {self._shapes(targets)}, for one sequence or some"
        advice = ""
        is_whole = not targets.is_floating_point()
        if self.outputs.n_left_out:
            advice = (
                f"Of {self.gives} it gets None for what is no real numbers of each sequence. Make "
                "masks and whole numbers real, by head=lambda out: (out[0], out[1].float()), say, "
                "and leave out what is one number for a batch, as a loss of the model's own"
            )
        elif self.outputs.spec.num_leaves > 1:
            advice = f"Of {self.gives}: {_WHICH}"
        elif is_whole and isinstance(self.loss, _OF_REALS):
            advice = f"Targets are {targets.dtype}, and must be real: y.float()"
        elif isinstance(self.loss, nn.CrossEntropyLoss):
            advice = (
                "Classes come second: "
                "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y), or loss=None"
            )
        return explained(f"loss ({self.loss_name})", words, advice)

    def losses(
        self, predictions: Float[Tensor, "B K"], targets: Tensor, at_once: int = 1
    ) -> Tensor:
        """Return the losses of batches of so many sequences."""
        if self.untrained is None:
            return self._plain_losses(predictions, targets, at_once)
        targets = placed(targets, predictions.device)
        pairs = zip(predictions.split(at_once), targets.split(at_once), strict=True)
        return torch.stack([self.untrained.of(*pair) for pair in pairs])

    def _plain_losses(self, predictions: Tensor, targets: Tensor, at_once: int = 1) -> Tensor:
        """Return the reader's own losses."""
        targets = placed(targets, predictions.device)
        found = []
        pairs = zip(predictions.split(at_once), targets.split(at_once), strict=True)
        for some, wanted in pairs:
            own_targets = in_order(self.axes.targets_back(wanted))
            value = self.loss(self.outputs.restored(some), own_targets)
            words = "one that gives a tensor: a number, or one for each sequence"
            is_tensor = isinstance(value, Tensor)
            require(f"loss ({self.loss_name})", type(value).__name__, is_tensor, words)
            found.append(value.sum())
        return torch.stack(found)

    def loss_gradients(
        self, predictions: Float[Tensor, "B K"], targets: Tensor
    ) -> Float[Tensor, "B K"]:
        """Return the gradient of each sequence's loss in its predictions."""
        leaf = predictions.detach().requires_grad_()
        with torch.enable_grad():
            total = self.losses(leaf, targets).sum()
        if not total.requires_grad:
            return torch.zeros_like(leaf)
        (gradients,) = torch.autograd.grad(total, leaf, **ZEROS)
        return gradients

    def forget(self, inputs: Tensor, targets: Tensor) -> None:
        """Take the loss as if nothing were learned, from now on: see `Untrained`."""
        total: Any = 0
        for predictions, _ in self._predicted(inputs, targets):
            total += predictions.sum(0, keepdim=True)
        parts = targets.split(self._held(total.numel()))
        self.untrained = Untrained(self._plain_losses, total / len(inputs), parts)

    def beats_constants(self, inputs: Tensor, targets: Tensor) -> bool:
        """Say whether the loss is below that of the best constant prediction, if it is convex."""
        if self.outputs.entries > _CONSTANTS:
            return True  # not tried: too many numbers
        own = 0.0
        total: Any = 0
        for predictions, part in self._predicted(inputs, targets):
            own += float(self._joint(predictions, part, len(targets)).detach())
            total += predictions.sum(0, keepdim=True)
        constant = (total / len(inputs)).requires_grad_()
        parts = targets.split(self._held(constant.numel()))
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
        return share * self.losses(predictions, targets, len(targets)).sum()

    def _held(self, entries: int) -> int:
        """Return how many sequences' predictions, of so many numbers each, are held at a time."""
        return max(1, _HELD // max(entries, 1))

    # What is refused

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: sequences that are mixed, losses, predictions."""
        few = self.trials.some(_TRIED).to(inputs.device)
        self._check_sequences(inputs, few)
        with torch.no_grad(), self._loss_explained(targets):
            self._check_loss(inputs, targets)
        with self._loss_explained(targets):
            self._check_loss_gradients(inputs, targets)
        self._check_ends(targets)
        self._check_every_end(inputs)
        self._autograd(*self.tried(inputs, targets))

    def tried(self, inputs: Tensor, targets: Tensor) -> Pair:
        """Return the few sequences on which assumptions are tried, with the largest losses."""
        count = max(2, min(_TRIED, self.at_once))
        some = self.trials.some(max(1, count - len(self.heaviest)))
        order = torch.cat([some, self.heaviest]).unique().to(inputs.device)
        return inputs[order], targets[order]

    def _refuse_predictions(self, given: Any) -> None:
        """Refuse what has no axis of sequences: none, or one along which they are mixed."""
        trial = self.trials.patterned()
        self._refuse_changes(lambda: tensors_in(self._given(trial)))
        tensors = tensors_in(given)
        words = f"tensors, of which the loss is made. {_WHICH}"
        require("predictions", shown(given), bool(tensors), words)
        is_finite = all(bool(part.isfinite().all()) for part in tensors)
        require("predictions", "NaN or infinite somewhere", is_finite, "finite")
        is_real = any(part.is_floating_point() or part.is_complex() for part in tensors)
        words = "numbers with gradients: logits, say, and not the class of the largest (argmax)"
        require("predictions", str(tensors[0].dtype), is_real, words)
        has_axes = any(part.ndim for part in tensors)
        words = "those of each sequence. Is it the loss, a mean over the batch? Say that by loss="
        require("predictions", "one number for a batch", has_axes, words)
        with torch.no_grad():
            others = tensors_in(self._given(self.trials.patterned()))
        pairs = zip(tensors, others, strict=True)
        is_moved = any(
            a.shape != b.shape or bool(moved_apart(a.detach(), b).any()) for a, b in pairs
        )
        words = "ones that inputs move: is the last layer 0, as before training, or a state dead?"
        require("predictions", "the same for all inputs", is_moved, words)
        words = (
            "tensors with an axis of sequences, each made of its own inputs. Are axes swapped? "
            "Sequences come first here, (B, T, …); layers of PyTorch read them so with "
            "batch_first=True. For a model of (T, B, …) say batch_first=False. Or does it draw "
            "noise of a fixed seed in each pass? Leave that out"
        )
        require("predictions", f"{shown(given)} for inputs {tuple(trial.shape)}", False, words)

    def _check_sequences(self, inputs: Tensor, few: Tensor) -> None:
        """Refuse a model whose predictions for a sequence are not its own, and say why."""
        self._refuse_changes(lambda: [self.predictions(inputs[few])])
        self._refuse_mixed(inputs[few], 1)
        for part in inputs.split(min(_RUN, self.at_once)):  # one of these may change others
            self._refuse_mixed(part, (len(part) + 1) // 2)

    def _refuse_mixed(self, inputs: Tensor, count: int) -> None:
        """Refuse sequences that are predicted otherwise if so many are run at a time."""
        together = self._predictions_alone(inputs)
        is_finite = bool(together.isfinite().all())
        require("predictions", "NaN or infinite somewhere", is_finite, "finite")
        alone = torch.cat([self._predictions_alone(some) for some in inputs.split(count)])
        largest = float(together.abs().max().clamp(min=1e-30))
        apart = float((alone - together).abs().max()) / largest
        words = "one that predicts for a sequence alone as among others. "
        if apart < 0.1:
            words += "Rounding may grow in its states: try model.double(). "
        words += (
            "Else sequences are mixed: are axes swapped (batch_first=True of the layers, or "
            "batch_first=False here, for inputs (T, B, …)), is there a softmax, a scale or a "
            "normalisation over the batch, or noise of a fixed seed in each pass?"
        )
        told = f"{self.kind}, with predictions {apart:.1g} apart"
        require("model", told, apart <= self.rounding, words)

    def _refuse_changes(self, run: Callable[[], list[Tensor]]) -> None:
        """Refuse a model that gives something else the second time: by chance, or by a state."""
        changed = self._what_changes(run, self.model, self.head)
        if changed:
            words = "one that keeps no state from batch to batch: start each batch anew"
            require("model", f"{self.kind}, which changed {', '.join(changed)}", False, words)
        words = (
            "one without random draws: a dropout that is on though model.eval() was called "
            "(training=self.training), or a random first state?"
        )
        told = f"{self.kind}, with other predictions the second time"
        require("model", told, changed is None, words)

    def _what_changes(self, run: Callable[[], list[Tensor]], *roots: Any) -> list[str] | None:
        """Return the names of what changes a second run, if known; None if it is the same."""

        def same(one: list[Tensor], two: list[Tensor]) -> bool:
            for a, b in zip(one, two, strict=True):
                if a.shape != b.shape:
                    return False
                a, b = in_reals(a).double(), in_reals(b).double()
                if not torch.allclose(a, b, self.rounding, self.rounding, equal_nan=True):
                    return False
            return True

        with torch.no_grad():
            if same(run(), run()):
                return None
            with kept_as_it_was(*roots) as kept:
                first = run()
                changed = kept.changed()
            with kept_as_it_was(*roots):
                second = run()
        return changed[:_FEW_NAMES] if same(first, second) else []

    def _check_loss(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a loss that is no sum or mean over sequences, tried on all of them."""
        name = f"loss ({self.loss_name})"
        order = self.trials.some(32).to(inputs.device)
        self._refuse_changing_loss(name, inputs[order], targets[order])
        is_sum = is_mean = True
        sizes = []
        every, some = (
            self._predicted(inputs, targets),
            self._predicted(inputs[order], targets[order]),
        )
        for predictions, part in itertools.chain(every, some):  # never all in memory
            single = self.losses(predictions, part)
            bad = (~single.isfinite()).nonzero()[:, 0]
            words = (
                "finite for each sequence alone. Does it compare sequences, or are all targets of "
                "one left out? Then give the sum, not the mean, over those that are not"
            )
            told = f"{single[bad[:1]].tolist()} for sequence {bad[:1].tolist()}"
            require(name, told, not len(bad), words)
            sizes.append(single.abs())
            joint = float(self.losses(predictions, part, len(part))[0])
            total, mean = float(single.sum()), float(single.mean())
            allowed = self.rounding * float(single.abs().max())  # which may be tiny
            is_sum &= abs(joint - total) <= allowed * max(1, len(single) ** 0.5)
            is_mean &= abs(joint - mean) <= allowed
            words = (
                f"the sum of what these have alone, {total:.6g}, or the mean, {mean:.6g}. Does "
                "it weigh classes, leave out targets, or compare sequences? Then give the sum "
                'over what each has alone, as by reduction="sum"'
            )
            told = f"{joint:.6g} for {len(single)} sequences"
            require(name, told, is_sum or is_mean, words)
        self.averages = not is_sum
        heaviest = torch.cat(sizes)[: len(inputs)].topk(min(_HEAVIEST, len(inputs))).indices
        self.heaviest = heaviest.cpu()

    def _check_loss_gradients(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a loss that has a value, and no gradient, for some sequence."""
        n_tried = 0
        for predictions, part in self._predicted(inputs, targets):
            few = self._held(_TRIED * self.entries)
            for pair in zip(predictions.split(few), part.split(few), strict=True):
                gradients = self.loss_gradients(*pair)
                bad = (~gradients.isfinite().all(1)).nonzero()[:, 0] + n_tried
                told = f"with a gradient that is NaN or infinite, for sequence {bad[:1].tolist()}"
                require(f"loss ({self.loss_name})", told, not len(bad), FINITE)
                n_tried += len(gradients)

    def _refuse_changing_loss(self, name: str, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a loss that is another the second time, or takes parameters."""
        predictions = self._predictions_alone(inputs)
        changed = self._what_changes(lambda: [self.losses(predictions, targets)], self.loss)
        if changed:
            words = "one that keeps no state from batch to batch"
            require(name, f"one that changed {', '.join(changed)}", False, words)
        words = (
            "the same for the same predictions. Does it draw at random, as negatives? Draw these "
            "once, beforehand, and give them in further columns of the targets"
        )
        require(name, "another value the second time", changed is None, words)
        with followed(self.chosen.values()):
            total = self.losses(predictions, targets).sum()
            parts: Any = [None] * len(self.chosen)
            if total.requires_grad:
                parts = torch.autograd.grad(total, [*self.chosen.values()], allow_unused=True)
        pairs = zip(self.chosen, parts, strict=True)
        taken = [key for key, part in pairs if part is not None]
        words = (
            "one of predictions and targets alone. Leave out what it adds for parameters, as a "
            "weight decay, which has no lag, and make logits in the model, if it makes them by "
            "an embedding's weights"
        )
        require(name, f"one that takes {', '.join(taken[:_FEW_NAMES])}", not taken, words)

    # When predictions are made

    def _parted_predictions(self, inputs: Tensor) -> list[Tensor]:
        """Return each tensor that the model gives with its sequences in front."""
        rows = self._predictions_alone(inputs)
        is_finite = bool(rows.isfinite().all())
        told = "NaN or infinite where those of the data are not"
        require("predictions", told, is_finite, f"finite. {_EXCHANGED}")
        return self.outputs.parted(rows)

    def _check_ends(self, targets: Tensor) -> None:
        """Measure when each prediction is made, and refuse those that look ahead."""
        self.pairs = [self.trials.pair() for _ in range(n_pairs(self.shape[1]))]
        ends = []
        moving: set[int] = set()  # steps at which predictions move, unlike a constant first one
        for place, rows in enumerate(self._rows_of_ends()):
            require("model", self.kind, rows is not None, "one whose predictions inputs move")
            assert rows is not None
            self._refuse_swapped_classes(self.outputs.leaves[place], rows, targets)
            if self.horizon:
                rows = rows._replace(times=np.full_like(rows.times, rows.times.max()))
            else:
                self._refuse_looks_ahead(place, rows, targets)
            ends.append(rows.spread())
            moving.update(rows.times[rows.is_moved].tolist())
        self.moving_ends = sorted(moving)
        self.end_at_each_step = len(moving) == self.shape[1]
        self.ends = torch.from_numpy(np.concatenate(ends).astype(np.int64))
        self.end_steps = sorted({*self.ends.tolist()} - {-1})

    def _rows_of_ends(self) -> list[Rows | None]:
        """Measure the last step that moves each prediction.

        Few that seem to be made earlier than others beside them may only not have moved, as behind
        a ReLU. They are made earlier if all pairs of sequences say so.
        """

        def are_told(found: list[Sightings]) -> bool:
            return all(one.rows is None or one.rows.are_told for one in found)

        def are_sure(found: list[Sightings]) -> bool:
            return all(one.are_sure() for one in found)

        given = self._parted_predictions
        found = self.sightings(given, self.entries, are_told, are_sure, splits=True)
        told = (
            "made at a step that moves them in few trials, as behind a gate that is mostly closed"
        )
        words = f"ones that it moves in {SIGHTINGS} trials or more: open the gate to measure"
        require("predictions", told, are_sure(found), words)
        return [one.rows for one in found]

    def sightings(
        self,
        values: Callable[[Tensor], Sequence[Tensor]],
        entries: int,
        are_told: Callable[[list[Sightings]], bool],
        are_sure: Callable[[list[Sightings]], bool],
        splits: bool = False,
    ) -> list[Sightings]:
        """Measure the last steps that move some values, until they are sure, or for some rounds.

        All steps are tried where some do not tell the time of each row.
        """
        length = self.shape[1]
        tried = starts(length)
        pairs = self.pairs
        found: list[Sightings] = []
        for _ in range(_ROUNDS):
            for by_pair in steps_by_pair(values, pairs, tried, entries):
                found = found or [Sightings(tried, length, splits) for _ in by_pair]
                for one, steps in zip(found, by_pair, strict=True):
                    one.add(steps)
            if len(tried) < length and not are_told(found):
                self.refuse_too_long()
                tried = [*range(length)]
                found = []
            elif are_sure(found):
                break
            else:
                pairs = [self.trials.pair() for _ in self.pairs]
        return found

    def refuse_too_long(self) -> None:
        """Refuse long sequences where each step has to be tried, which takes T² of them."""
        length = self.shape[1]
        words = (
            f"at most {_LONGEST} where parameters are not used, or predictions not made, at each "
            "step in turn, as in patches of several steps: cut sequences into shorter ones"
        )
        require("steps of a sequence", length, length <= _LONGEST, words)

    def _refuse_swapped_classes(self, leaf: Leaf, rows: Rows, targets: Tensor) -> None:
        """Refuse a loss that takes the axis of steps for that of classes."""
        second = 2  # of `leaf.shape`, which begins with what shares the axis of sequences
        is_second = leaf.layout.axis == 0 and len(leaf.shape) == 4 and second in rows.axes
        is_cross_entropy = type(self.loss) in WEIGHED or self.loss is functional.cross_entropy
        length = self.shape[1]
        is_square = leaf.shape[-2:] == (length, length) and leaf.shape.numel() == length**2
        fits_both_ways = is_square and targets.shape[1:] == (length,)
        is_swapped = is_second and is_cross_entropy
        if is_second and fits_both_ways and not is_cross_entropy:
            is_swapped = self._compares_steps_as_classes(targets)
        words = (
            "one that has classes where the model has them. Steps come second here, as they "
            "change along this axis: loss=None, or "
            "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y)"
        )
        require(f"loss ({self.loss_name})", "classes second", not is_swapped, words)

    def _compares_steps_as_classes(self, targets: Tensor) -> bool:
        """Say whether the target of step j pulls on entry j of other steps, and not on step j.

        As where predictions (B, T, V) are taken for (B, classes, steps), which V = T allows.
        """
        few = self.trials.some(_TRIED)
        predictions = self._predictions_alone(self.trials.inputs[few.to(self.trials.inputs.device)])
        own = targets[few.to(targets.device)]
        is_swapped = False
        for row, (one, target) in enumerate(zip(predictions.split(1), own.split(1), strict=True)):
            step = (row + 1) * self.shape[1] // (_TRIED + 1)
            values = targets[targets != target[0, step]]
            if not len(values):
                continue
            other = target.clone()
            other[0, step] = values[0]
            apart = self.loss_gradients(one, target) != self.loss_gradients(one, other)
            steps, entries = apart.reshape(self.shape[1], -1).nonzero().mT
            if bool((entries != step).any()):
                return False
            is_swapped |= bool((steps != step).any())
        return is_swapped

    def _refuse_looks_ahead(self, place: int, rows: Rows, targets: Tensor) -> None:
        """Refuse predictions of a step that later inputs move."""
        shape = self.outputs.leaves[place].shape
        length = self.shape[1]
        ends = rows.times.tolist()
        if len(rows.axes) == 1 and len(ends) == length:  # a prediction at each step
            ahead = [step for step, end in enumerate(ends) if end > step]
            told = words = ""
            if ahead:
                told = (
                    f"{self.kind}: the prediction of step {ahead[0]} moves with the inputs up "
                    f"to step {ends[ahead[0]]}"
                )
                words = (
                    "one that looks at no later inputs: is a causal mask missing, or a shift, "
                    "does it normalise over time, run in two directions, or see a prefix as a "
                    f"whole? Or leave out {len(ahead)} predictions, by a head"
                )
            require("model", told, not ahead, words)
            return
        all_at_last = set(ends) == {length - 1} and shape.numel() > 1
        if not all_at_last:
            return
        told = f"{self.kind}: all predictions move with the last step, and not all with the first"
        words = (
            "one that looks at no later inputs: does it run from the last step to the first? If "
            "they are a horizon, made at the last step, say horizon=True"
        )
        require("model", told, not self._runs_backwards(place), words)
        is_step_by_step = length in targets.shape[1:] and length in shape
        told = f"{self.kind}: all {length} predictions of a sequence move with all inputs"
        words = (
            f"one whose {length} predictions look at no later inputs: is the causal mask "
            "missing, does it normalise over time, or run in two directions? If they are a "
            "horizon, made at the last step, say horizon=True. If inputs are (B, C, T), say "
            "time_axis=2"
        )
        require("model", told, not is_step_by_step, words)

    def _runs_backwards(self, place: int) -> bool:
        """Say whether some predictions see all inputs, and others the last half or less."""
        first_pair = self.pairs[:1]
        found = last_steps(self._parted_predictions, first_pair, self.entries, backwards=True)
        rows = rows_of(found[place], self.shape[1])
        if rows is None or len(rows.times) == 1:
            return False
        last = self.shape[1] - 1
        first_seen = last - rows.times
        return bool(first_seen.max() == last and first_seen.min() <= last // 2)

    def _check_every_end(self, inputs: Tensor) -> None:
        """Refuse data whose predictions are not all made when those of the trials are.

        One step of every sequence is changed, at which a prediction is made.
        """
        count = len(inputs)
        steps = self._draw_ends(count)
        unmoved: list[int] = []
        for places in torch.arange(count).split(max(1, min(_RUN, self.at_once))):
            own = inputs[places.to(inputs.device)]
            step = steps[places]
            moved, earlier = self._moved_by_steps(own, step)
            # by other steps, as the first may have done nothing; a gate may skip some places, too
            for attempt in range(2 * _TRIES if self.end_at_each_step else _TRIES):
                left = (~moved).nonzero()[:, 0]
                if not len(left):
                    break
                changed = step[left] if attempt < _TRIES else self._draw_ends(len(left))
                again, _ = self._moved_by_steps(own[left.to(own.device)], changed)
                moved[left] |= again
            # a step of padding that is another tells a model that the sequence is longer
            is_real = self.trials.padding_behind(own).cpu() <= self.shape[1] - 1 - step
            earlier &= is_real
            told = (
                f"{self.kind}: predictions of sequence {places[earlier][:1].tolist()} move with "
                "later steps"
            )
            words = "one whose predictions no later inputs move"
            require("model", told, not bool(earlier.any()), words)
            unmoved += places[~moved & is_real].tolist()
        few_enough = len(unmoved) < max(2, _UNMOVED * count)
        if self.ends_at_padding or few_enough:
            return
        told = (
            f"{self.kind}: predictions of {len(unmoved)} of {count} sequences do not move with "
            f"the step at which they are made in others (sequence {unmoved[0]})"
        )
        words = (
            "one whose predictions do: are they read out where a sequence ends? Then give those "
            "of all steps, and leave some out in the loss, or pad on the left. Are they a maximum "
            "over steps? Take torch.logsumexp in its place to measure. Are they clamped, "
            "behind a gate that is mostly closed, or made of classes of the inputs? Then give what "
            "they are made of"
        )
        require("model", told, False, words)

    def _draw_ends(self, count: int) -> Tensor:
        """Draw steps at which predictions are made."""
        generator = self.trials.generator
        draws = torch.randint(len(self.moving_ends), (count,), generator=generator, device="cpu")
        return torch.tensor(self.moving_ends)[draws]

    def _moved_by_steps(self, inputs: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Say whether changes of one step move predictions made at it, and those made before."""
        before = self._predictions_alone(inputs)
        after = self._predictions_alone(self.trials.changed(inputs, steps))
        is_moved = moved_apart(before, after).cpu()
        at_step = self.ends[None] == steps[:, None]
        before_it = (self.ends[None] < steps[:, None]) & (self.ends[None] >= 0)
        return (is_moved & at_step).any(1), (is_moved & before_it).any(1)

    # All lags together

    def check_sum(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a reading whose lags together are not autograd's gradient of each parameter."""
        missing = self.missing(inputs, targets)
        hooked = [name for name, part in self.chosen.items() if missing and part._backward_hooks]
        words = "parameters without hooks that change gradients: take these off (handle.remove())"
        require("parameters", ", ".join(hooked[:_FEW_NAMES]), not hooked, words)
        words = (
            "parameters whose uses can all be seen, with gradients that pass unchanged from "
            "step to step (a function of your own, torch.vmap, torch.jit.script, a hook, a "
            "gradient that the model takes itself, or steps sent to layers by index?): "
            "name in `parameters` those to look at. If rounding grows in the states: "
            "try model.double()"
        )
        require("model", ", ".join(missing), not missing, words)

    def _autograd(self, inputs: Tensor, targets: Tensor) -> Sequence[Tensor]:
        """Return the gradient of each parameter, as PyTorch has it."""
        parameters = [*self.chosen.values()]
        with followed(parameters), torch.backends.cudnn.flags(enabled=False):
            total = self.losses(self.predictions(inputs), targets).sum()
            words = "some that carry a gradient: is it run under torch.no_grad(), or detached?"
            require("predictions", "without a gradient", total.requires_grad, words)
            with explained(f"model ({self.kind})", "fails where its gradient is taken"):
                parts = torch.autograd.grad(total, parameters, **ZEROS)
        for name, part in zip(self.chosen, parts, strict=True):
            is_finite = bool(dense(part).isfinite().all())
            require("gradient", f"NaN or infinite of {name}", is_finite, FINITE)
        return parts

    def missing(self, inputs: Tensor, targets: Tensor) -> list[str]:
        """Return the parameters whose lags together are not their gradient, and by how much."""
        parts = self._autograd(inputs, targets)
        wanted = [in_reals(dense(part)).cpu().double().flatten() for part in parts]
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


def _made_of_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors with a gradient that modules hold, as attributes or in dictionaries.

    Those in lists are left out: hooks gather activations there.
    """
    found = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            entries = value if isinstance(value, dict) else {"": value}
            for entry, part in entries.items():
                if isinstance(part, Tensor) and part.grad_fn is not None:
                    found[".".join(filter(None, (name, key, str(entry))))] = part
    return found


class _NoOperators(TorchFunctionMode):
    """Refuses operators of PyTorch's that are not followed where nothing is compiled."""

    def __torch_function__(
        self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one of PyTorch's functions."""
        if isinstance(function, HigherOrderOperator):
            is_followed = function.name() not in _OPERATOR_NAMES
            words = f"one without {_OPERATORS}: write loops and conditions of Python, to measure"
            require("model", f"{function.name()}()", is_followed, words)
        return function(*args, **(kwargs or {}))


def _as_accepted(model: nn.Module, inputs: Tensor, axes: Axes) -> Tensor:
    """Return inputs as they are if the model takes them so, else in the type of most parameters.

    Data of NumPy's are often float64 where a model is float32; flags may be of no number's type.
    """
    sizes = {dtype: size for dtype, size in _sizes_by_type(model).items() if not dtype.is_complex}
    is_real = inputs.is_floating_point() or inputs.dtype == torch.bool
    if not is_real or not sizes:
        return inputs
    device = next(model.parameters()).device
    few = in_order(axes.inputs_back(placed(inputs[:2], device)))
    try:
        with torch.enable_grad():  # and puts back what the model may leave
            model(few)
    except Exception:  # if it is not the type, the model says so when it is run in earnest
        return inputs.to(max(sizes, key=lambda dtype: sizes[dtype]))
    return inputs


def _sizes_by_type(model: nn.Module) -> dict[torch.dtype, int]:
    """Return how many numbers the parameters of each type have."""
    sizes: dict[torch.dtype, int] = {}
    for part in model.parameters():
        if part.is_floating_point() or part.is_complex():
            sizes[part.dtype] = sizes.get(part.dtype, 0) + part.numel()
    return sizes
