"""A reader's model, its loss and its data as the core sees them.

The model runs as it is, in its own precision and layout, and is not changed. `lwcore.diagnose`
knows of it what an `Adapter` says: `kind`, `shape` and `loss_name`, what it refuses (`check`),
readings of batches (`read`), and a loss as if nothing had been learned (`forget`). One recurrence
is read by `lwcore.diagnose.recurrent`, any other causal model by `lwcore.diagnose.uses`.

All numbers that a model gives for a sequence stand side by side as one row of predictions, (B, K).
`ends` has the step at which each of them is made: the last one whose input moves it.
"""

import copy
import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as trees

from lwcore.ambient import placed
from lwcore.diagnose.data import Axes, Pair
from lwcore.diagnose.times import Rows, rows_of
from lwcore.diagnose.trials import PAIRS, Layout, Trials, last_steps, moved_apart
from lwcore.signatures import ArgumentError, Lags, require

Function = Callable[..., Tensor]

ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
_TRIED = 4  # sequences on which assumptions are tried
_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
_HELD = 2**23  # numbers in the predictions that are held at a time
_UNMOVED = 0.05  # share of sequences whose predictions may not move: behind a ReLU, say
_CONSTANTS = 2**20  # numbers in a constant prediction, up to which the best one is sought
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3, None: 0.05}  # rounding adds up over steps
_WEIGHED = (nn.CrossEntropyLoss, nn.NLLLoss)  # whose mean is over weights, not over sequences


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


class Leaf(NamedTuple):
    """One tensor of what a model gives: where it has its sequences, and its shape without them."""

    layout: Layout
    shape: torch.Size


@dataclass(eq=False)
class Adapter(ABC):
    """A reader's model with its head and loss, as the core sees it; what reads lags is a subclass.

    `batch` are inputs and targets in the reader's layout; inside, sequences stand in front and
    steps second. `shape` is that of the inputs: sequences, steps, width of a step. `chosen` are the
    parameters, by name, whose gradient is taken apart.
    """

    model: nn.Module
    batch: Pair
    head: Function | None = None
    loss: Any = None
    axes: Axes | None = field(default=None, kw_only=True)
    horizon: bool = field(default=False, kw_only=True)
    untrained: Any = field(default=None, init=False)  # an `Untrained`, once learning is forgotten

    tolerance = _CLOSE  # of all lags together, beside the gradient
    at_once = _TRIED  # sequences that are read together
    ends_at_padding = False  # whether it does not matter when a sequence's predictions are made
    averages = False  # whether the loss of a batch is the mean of its sequences', not the sum

    def __post_init__(self) -> None:
        """Find where the model has its sequences, on a trial batch."""
        self.kind = type(self.model).__name__
        parts = [*self.model.modules()]
        training = any(part.training for part in parts)  # random draws, statistics
        require("model.training", training, not training, "False: call model.eval() first")
        scripted = [
            type(part).__name__ for part in parts if isinstance(part, torch.jit.ScriptModule)
        ]
        words = "as it was before scripting or tracing: uses of its parameters cannot be seen"
        require("model", ", ".join(scripted), not scripted, words)
        self.axes = self.axes or Axes.of(*self.batch)
        inputs, targets = self.axes.front(*self.batch)
        self.shape = (*inputs.shape[:2], inputs[0, 0].numel())
        self.weight = next(self.model.parameters(), torch.zeros(()))
        self.exact = self.tolerance.get(self.weight.dtype, self.tolerance[None])
        inputs = placed(inputs, self.weight.device)
        self.trials = Trials(inputs)
        self.chosen = self._chosen()
        self._find_predictions(self.trials.patterned())
        self._choose_loss(targets)

    @abstractmethod
    def _chosen(self) -> dict[str, Tensor]:
        """The parameters whose gradient is taken apart."""

    @abstractmethod
    def read(self, inputs: Tensor, targets: Tensor) -> Reading:
        """Return what a batch of sequences says of lags."""

    @abstractmethod
    def aside(self, inputs: Tensor) -> str:
        """Return what in the model the lags do not count."""

    def fit(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(_AT_ONCE, _ENTRIES // max(entries, 1)))

    # What the model gives

    def _find_predictions(self, trial: Tensor) -> None:
        """Find the tensors that the model gives for sequences, and where it has these."""
        given = self._given(trial)
        parts, spec = trees.tree_flatten(given)
        layouts = [Layout.of(part) if _is_number(part) else None for part in parts]
        places = [place for place, layout in enumerate(layouts) if layout is not None]
        if not places:
            self._refuse_predictions(given)
        self.spec, self.places, self.shown = spec, places, _shown(given)
        self.leaves = []
        for place in places:
            layout: Any = layouts[place]
            self.leaves.append(Leaf(layout, layout.front(parts[place]).shape[1:]))
        self.entries = sum(leaf.shape.numel() for leaf in self.leaves)
        self.fit(self.entries)

    def _given(self, inputs: Tensor) -> Any:
        """All that the model gives, through the head if there is one."""
        assert self.axes is not None
        dtype = self.weight.dtype if inputs.is_floating_point() else None
        given = self.axes.inputs_back(placed(inputs, self.weight.device, dtype))
        words = f"fails on {len(inputs)} sequences, inputs of the shape {tuple(given.shape)}"
        advice = "It must take any number of sequences, and one tensor: wrap it if it takes more"
        with _wrapped(f"model ({self.kind})", words, advice):
            found = self.model(given)
        if self.head is not None:
            with _wrapped("head", f"fails on what the model gives, {_shown(found)}"):
                found = self.head(found)
        return _plain(found)

    def sequences_first(self, inputs: Tensor, targets: Tensor) -> Pair:
        """Return a batch in the reader's layout with its sequences in front, steps second."""
        assert self.axes is not None
        inputs, targets = self.axes.front(inputs, targets)
        return placed(inputs, self.weight.device), placed(targets, self.weight.device)

    def predictions(self, inputs: Tensor) -> Float[Tensor, "B K"]:
        """Return all numbers that the model gives for each sequence, as one row."""
        parts = trees.tree_leaves(self._given(inputs))
        rows = [
            leaf.layout.front(parts[place]).reshape(len(inputs), -1)
            for place, leaf in zip(self.places, self.leaves, strict=True)
        ]
        return torch.cat(rows, 1) if len(rows) > 1 else rows[0]

    def _restored(self, predictions: Float[Tensor, "B K"]) -> Any:
        """Predictions as the model gave them, for the loss."""
        sizes = [leaf.shape.numel() for leaf in self.leaves]
        rows = predictions.split(sizes, 1)
        parts: list[Any] = [None] * self.spec.num_leaves
        for place, leaf, row in zip(self.places, self.leaves, rows, strict=True):
            parts[place] = leaf.layout.back(row.reshape(len(predictions), *leaf.shape))
        return trees.tree_unflatten(parts, self.spec)

    def _refuse_predictions(self, given: Any) -> None:
        """Refuse what has no axis of sequences: none, or one along which they are mixed."""
        trial = self.trials.patterned()
        self._refuse_changes(lambda: flat(self._given(trial)))
        if not flat(given):
            words = "tensors, of which the loss is made (say which: head=lambda out: out.logits)"
            require("predictions", _shown(given), False, words)
        finite = all(bool(part.isfinite().all()) for part in flat(given))
        require("predictions", "NaN or infinite somewhere", finite, "finite")
        words = "tensors with an axis of sequences, each made of its own inputs. Are axes swapped? "
        words += "Sequences come first here, (B, T, …); layers of PyTorch read them so with "
        words += "batch_first=True. For a model of (T, B, …) say batch_first=False"
        shown = f"{_shown(given)} for inputs {tuple(trial.shape)}"
        require("predictions", shown, False, words)

    # The loss

    def _choose_loss(self, targets: Tensor) -> None:
        """Take the reader's loss, or the one that fits predictions and targets in one way only."""
        if isinstance(self.loss, type):
            words = f"a function, not a class: {self.loss.__name__}()"
            require("loss", self.loss.__name__, False, words)
        if self.loss is None:
            self.loss, self.loss_name = self._usual_loss(targets)
        else:
            self.loss_name = str(getattr(self.loss, "__name__", type(self.loss).__name__))
        self._try_loss(targets)

    def _usual_loss(self, targets: Tensor) -> tuple[Any, str]:
        shown = self._shapes(targets)
        own = tuple(targets.shape[1:])
        alike = all(tuple(leaf.shape) == own for leaf in self._user_shapes())
        if len(self.leaves) == 2 and targets.is_floating_point() and alike:
            return _gaussian, "gaussian_nll_loss"
        words = "given: the model gives several tensors (head=lambda out: out[0] takes the first)"
        require("loss", f"None for {shown}", len(self.leaves) == 1, words)
        (leaf,) = self._user_shapes()
        shape = tuple(leaf.shape)
        if targets.is_floating_point():
            fits = shape == own or _squeezed(shape) == _squeezed(own)
            words = f"given, for {shown} do not fit squared errors"
            require("loss", "None", fits, words)
            return (nn.MSELoss() if shape == own else _squared), "mse_loss"
        usual = len(shape) == len(own) + 1
        words = f"given, for {shown} do not fit cross-entropy"
        whole = not targets.is_complex() and targets.dtype != torch.bool
        require("loss", "None", usual and whole, words)
        second = shape[1:] == own
        last = shape[:-1] == own
        words = f"given: of {shown} classes may be second or last"
        require("loss", "None", not (second and last and len(shape) > 1), words)
        require("loss", "None", second or last, f"given, for {shown} do not fit cross-entropy")
        largest, classes = int(targets.max()), shape[0] if second else shape[-1]
        words = f"given, or targets below {classes}, the number of classes"
        require("loss", f"None, with the target {largest}", largest < classes, words)
        loss = nn.CrossEntropyLoss()
        return (loss if second else _classes_last), "cross_entropy"

    def _user_shapes(self) -> list[Any]:
        """Shapes of what the model gives, without the axis of sequences, as the loss has them."""
        few = torch.zeros(2, self.entries)
        parts = [p for p in trees.tree_leaves(self._restored(few)) if isinstance(p, Tensor)]
        shapes = []
        for leaf, part in zip(self.leaves, parts, strict=True):
            sizes = [size for axis, size in enumerate(part.shape) if axis != leaf.layout.axis]
            shapes.append(leaf._replace(shape=torch.Size(sizes)))
        return shapes

    def _shapes(self, targets: Tensor) -> str:
        own = " and ".join(str(("B", *leaf.shape)) for leaf in self._user_shapes())
        return f"predictions {own} and targets {('B', *targets.shape[1:])}".replace("'", "")

    def _try_loss(self, targets: Tensor) -> None:
        """Call the loss on a few sequences, so that what is wrong is said before any work."""
        few = self.trials.inputs[:3]
        wanted = placed(targets[:3], self.weight.device)
        with torch.no_grad():
            predictions = self.predictions(few)
        with warnings.catch_warnings(record=True) as said, self._loss_wrapped(targets):
            warnings.simplefilter("always")
            self.losses(predictions, wanted)
            self.losses(predictions, wanted, len(few))
        broadcast = [str(one.message) for one in said if "size" in str(one.message)]
        name = f"loss ({self.loss_name})"
        words = "one that compares numbers of the same shape: reshape the targets"
        require(name, self._shapes(targets), not broadcast, words)

    @contextmanager
    def _loss_wrapped(self, targets: Tensor) -> Iterator[None]:
        """Say of an error in the loss what it was given."""
        try:
            yield
        except ArgumentError:
            raise
        except Exception as error:
            where = f"fails on {self._shapes(targets)}, for one sequence or some"
            require(f"loss ({self.loss_name})", _first_line(error), False, self._advice(where))

    def _advice(self, where: str) -> str:
        """What a loss that fails may need."""
        advice = f"one that takes what the model gives. It {where}"
        if len(self.leaves) > 1 or self.spec.num_leaves > 1:
            return f"{advice}. Which of {self.shown}? head=lambda out: out[0], or out['logits']"
        if isinstance(self.loss, nn.CrossEntropyLoss):
            return (
                f"{advice}. Classes come second: "
                "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y), or loss=None"
            )
        return advice

    def losses(
        self, predictions: Float[Tensor, "B K"], targets: Tensor, at_once: int = 1
    ) -> Tensor:
        """Return the losses of batches of so many sequences."""
        assert self.axes is not None
        pairs = zip(predictions.split(at_once), targets.split(at_once), strict=True)
        if self.untrained is not None:
            products = [p * self.untrained.pulls(y) for p, y in pairs]
            return torch.stack([product.sum() for product in products])
        found = [self._loss_of(self._restored(p), self.axes.targets_back(y)) for p, y in pairs]
        return torch.stack(found)

    def _loss_of(self, predictions: Any, targets: Tensor) -> Tensor:
        value = self.loss(predictions, targets)
        words = "one that gives a tensor: a number, or one for each sequence"
        require(f"loss ({self.loss_name})", type(value).__name__, isinstance(value, Tensor), words)
        return value.sum()

    def forget(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Take the loss as if nothing were learned, from now on; return the targets it takes.

        It is a product with pulls on a constant prediction: with loss gradients at the mean
        prediction, centred, which makes the constant the best one: for squared error and
        cross-entropy exactly.
        """
        total: Any = 0
        for predictions, _ in self._predicted(inputs, targets):
            total += predictions.sum(0, keepdim=True)
        untrained = Untrained(self.losses, total / len(inputs))
        pulls: Any = 0
        for part in targets.split(self._held(total.numel())):
            pulls += untrained.pulls(part).sum(0, keepdim=True)
        untrained.mean = pulls / len(targets)
        self.untrained = untrained
        untrained.losses = functools.partial(Adapter._plain_losses, self)
        return targets

    def _plain_losses(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Losses of single sequences, as the reader has them."""
        kept, self.untrained = self.untrained, None
        try:
            return self.losses(predictions, targets)
        finally:
            self.untrained = kept

    def beats_constants(self, inputs: Tensor, targets: Tensor) -> bool:
        """Whether the loss is below that of every constant tried: of the best one, if convex."""
        total: Any = 0
        own = 0.0
        for predictions, part in self._predicted(inputs, targets):
            total += predictions.sum(0, keepdim=True)
            own += float(self._joint(predictions, part, len(targets)).detach())
        constant = (total / len(inputs)).requires_grad_()
        if constant.numel() > _CONSTANTS:
            return True  # not tried: too many numbers
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

    # What is refused

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse what cannot be taken apart: sequences that are mixed, losses, predictions."""
        few = self.trials.some(_TRIED).to(inputs.device)
        with torch.no_grad():
            self._check_sequences(inputs[few])
            with self._loss_wrapped(targets):
                self._check_loss(inputs, targets)
        self._check_ends(targets)
        self._check_every_end(inputs)

    def _check_sequences(self, inputs: Tensor) -> None:
        """Refuse a model whose predictions for a sequence are not its own, and say why."""
        rounding = _CLOSE.get(self.weight.dtype, _CLOSE[None])
        self._refuse_changes(lambda: [self.predictions(inputs)])
        together = self.predictions(inputs)
        finite = bool(together.isfinite().all())
        require("predictions", "NaN or infinite somewhere", finite, "finite")
        alone = torch.cat([self.predictions(one) for one in inputs.split(1)])
        if torch.allclose(alone, together, rtol=rounding, atol=rounding):
            return
        apart = float((alone - together).abs().max() / together.abs().max().clamp(min=1e-30))
        words = "one that predicts for a sequence alone as among others. "
        if apart < 0.1:
            words += "Rounding may grow in its states: try model.double(). "
        words += "Else sequences are mixed: are axes swapped (batch_first=True of the layers, or "
        words += "batch_first=False here, for inputs (T, B, …)), or is there a softmax or a "
        words += "normalisation over the batch?"
        require("model", f"{self.kind}, with predictions {apart:.1g} apart", False, words)

    def _refuse_changes(self, run: Callable[[], list[Tensor]]) -> None:
        """Refuse a model that gives something else the second time: by chance, or by a state."""
        rounding = _CLOSE.get(self.weight.dtype, _CLOSE[None])

        def same(one: list[Tensor], two: list[Tensor]) -> bool:
            pairs = zip(one, two, strict=True)
            return all(
                a.shape == b.shape
                and torch.allclose(a.double(), b.double(), rounding, rounding, equal_nan=True)
                for a, b in pairs
                if not a.is_complex()
            )

        with torch.no_grad():
            if same(run(), run()):
                return
            with kept_as_it_was(self.model) as kept:
                first = run()
                changed = kept.changed()
            with kept_as_it_was(self.model):
                second = run()
        if same(first, second) and changed:
            words = "one that keeps no state from batch to batch: start each batch anew"
            require("model", f"{self.kind}, which changed {', '.join(changed)}", False, words)
        words = "one without random draws: a dropout that is on though model.eval() was called "
        words += "(training=self.training), or a random first state?"
        require("model", f"{self.kind}, with other predictions the second time", False, words)

    def _check_loss(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a loss that is no sum or mean over sequences, tried on all of them."""
        weighed = isinstance(self.loss, _WEIGHED) and self.loss.reduction == "mean"
        if weighed:
            ignored = bool(targets.eq(self.loss.ignore_index).any())
            if ignored or self.loss.weight is not None:
                self.loss = copy.copy(self.loss)  # over unequal counts: the mean of no sequence
                self.loss.reduction = "sum"
        name = f"loss ({self.loss_name})"
        rounding = _CLOSE.get(self.weight.dtype, _CLOSE[None])
        fits_sum = fits_mean = True
        closer = [0.0, 0.0]
        shown = mixed = ""
        batches = [*self._predicted(inputs, targets)]
        order = self.trials.some(32).to(inputs.device)
        some = [*self._predicted(inputs[order], targets[order])]
        for predictions, part in [*batches, *some]:
            single = self.losses(predictions, part)
            bad = (~single.isfinite()).nonzero()[:, 0]
            words = "finite for each sequence alone (are all its targets left out? then give the "
            words += "sum, not the mean, over those that are not)"
            require(
                name,
                f"{float(single[bad[0]]) if len(bad) else 0} for sequence {bad[:1].tolist()}",
                not len(bad),
                words,
            )
            joint = self.losses(predictions, part, len(part))[0]
            total, mean = single.sum(), single.mean()
            size = single.abs().max()  # may be tiny
            apart = [float((joint - one).abs()) for one in (total, mean)]
            fits_sum &= apart[0] <= rounding * float(size) * max(1, len(single) ** 0.5)
            fits_mean &= apart[1] <= rounding * float(size)
            closer = [one + more for one, more in zip(closer, apart, strict=True)]
            if not (fits_sum or fits_mean) and not shown:
                shown = f"{float(joint):.6g} for {len(single)} sequences"
                mixed = f"the sum of what these have alone, {float(total):.6g}, or the mean, "
                mixed += f"{float(mean):.6g}. Does it weigh classes, leave out targets, or compare "
                mixed += "sequences? Then give the sum over what each has alone"
        require(name, shown, fits_sum or fits_mean, mixed)
        self.averages = fits_mean and (not fits_sum or closer[1] < closer[0])

    def _check_ends(self, targets: Tensor) -> None:
        """Measure when each prediction is made, and refuse those that look ahead."""
        pairs = [self.trials.pair() for _ in range(PAIRS)]
        self.pairs = pairs

        def fronted(inputs: Tensor) -> list[Tensor]:
            with torch.no_grad():
                rows = self.predictions(inputs)
            sizes = [leaf.shape.numel() for leaf in self.leaves]
            parts = rows.split(sizes, 1)
            return [
                part.reshape(len(inputs), *leaf.shape)
                for part, leaf in zip(parts, self.leaves, strict=True)
            ]

        found = last_steps(fronted, pairs, self.entries)
        length = self.shape[1]
        ends = []
        for leaf, times in zip(self.leaves, found, strict=True):
            rows = rows_of(times, length)
            words = "one whose predictions inputs move"
            require("model", self.kind, rows is not None, words)
            assert rows is not None
            if self.horizon:
                rows = rows._replace(times=np.full_like(rows.times, rows.times.max()))
            self._refuse_looks_ahead(leaf, rows, targets, fronted)
            self._refuse_swapped_classes(leaf, rows)
            ends.append(rows.spread())
        self.ends = torch.from_numpy(np.concatenate(ends).astype(np.int64))
        self.end_steps = sorted({*self.ends.tolist()} - {-1})

    def _refuse_swapped_classes(self, leaf: Leaf, rows: Rows) -> None:
        """Refuse cross-entropy whose second axis, of classes, is that of the steps."""
        crossed = type(self.loss) in _WEIGHED or self.loss is functional.cross_entropy
        second = 2  # of `leaf.shape`, which begins with what shares the axis of sequences
        swapped = crossed and leaf.layout.axis == 0 and second in rows.axes and len(leaf.shape) > 3
        words = "one that has classes where the model has them. Steps come second here, as they "
        words += "change along this axis: loss=None, or "
        words += "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y)"
        require(f"loss ({self.loss_name})", "classes second", not swapped, words)

    def _refuse_looks_ahead(
        self, leaf: Leaf, rows: Rows, targets: Tensor, fronted: Callable[[Tensor], list[Tensor]]
    ) -> None:
        """Refuse predictions of a step that later inputs move."""
        if self.horizon:
            return
        length = self.shape[1]
        last = length - 1
        ends = rows.times
        step_by_step = len(rows.axes) == 1 and len(ends) == length
        if step_by_step:
            early = [(j, int(end)) for j, end in enumerate(ends) if end > j]
            if not early:
                return
            j, end = early[0]
            told = f"{self.kind}: the prediction of step {j} moves with the inputs up to step {end}"
            words = (
                "one that looks at no later inputs: is a causal mask missing, or a shift, does it "
            )
            words += "normalise over time, run in two directions, or see a prefix as a whole? "
            words += f"Or leave out {len(early)} predictions, by a head"
            require("model", told, False, words)
        if len(set(ends.tolist())) > 1:
            return
        if leaf.shape.numel() == 1:
            return
        firsts = last_steps(fronted, self.pairs[:1], self.entries, backwards=True)
        place = self.leaves.index(leaf)
        early_rows = rows_of(firsts[place], length)
        seen_from = last - early_rows.times if early_rows is not None else np.zeros(1)
        backwards = int(ends[0]) == last == seen_from.max() and seen_from.min() <= last // 2
        if backwards and len(seen_from) > 1:
            told = (
                f"{self.kind}: all predictions move with the last step, and not all with the first"
            )
            words = (
                "one that looks at no later inputs: does it run from the last step to the first?"
            )
            require("model", told, False, words)
        per_step = length in targets.shape[1:] and length in leaf.shape
        if not per_step or int(ends[0]) != last:
            return
        if self._has_weights_of_its_own(leaf):
            return
        told = f"{self.kind}: all {length} predictions of a sequence move with all inputs"
        words = (
            f"one whose {length} predictions look at no later inputs: is the causal mask missing, "
        )
        words += "does it normalise over time, or run in two directions? If they are a horizon, "
        words += "made at the last step, say horizon=True. If inputs are (B, C, T), say time_axis=2"
        require("model", told, False, words)

    def _check_every_end(self, inputs: Tensor) -> None:
        """Refuse data whose predictions are not all made when those of the trials are.

        One step of every sequence is changed, at which a prediction is made.
        """
        draws = torch.randint(
            len(self.end_steps), (len(inputs),), generator=self.trials.generator, device="cpu"
        )
        steps = torch.tensor(self.end_steps)[draws]
        unmoved: list[int] = []
        few = max(1, min(64, self.at_once))
        for part in torch.arange(len(inputs)).split(few):
            own, step = inputs[part.to(inputs.device)], steps[part]
            moved, early = self._moved_by_steps(own, step)
            for _ in range(2):  # by other steps, as the first may have done nothing
                left = (~moved).nonzero()[:, 0]
                if len(left):
                    moved[left] |= self._moved_by_steps(own[left.to(own.device)], step[left])[0]
            # a step of padding that is another tells a model that the sequence is longer
            real = self.trials.padding_behind(own).cpu() <= self.shape[1] - 1 - step
            early &= real
            words = "one whose predictions no later inputs move"
            told = f"{self.kind}: predictions of sequence {int(part[early.nonzero()[:1, 0]].sum())}"
            require("model", f"{told} move with later steps", not bool(early.any()), words)
            unmoved += part[~moved & real].tolist()
        few_enough = len(unmoved) < max(2, _UNMOVED * len(inputs))
        if self.ends_at_padding or few_enough:
            return
        told = f"{self.kind}: predictions of {len(unmoved)} of {len(inputs)} sequences do not move "
        told += f"with the step at which they are made in others (sequence {unmoved[0]})"
        words = (
            "one whose predictions do: are they read out where a sequence ends? Then give those "
        )
        words += "of all steps, and leave some out in the loss, or pad on the left"
        require("model", told, False, words)

    def _moved_by_steps(self, inputs: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Whether changes of one step move predictions made at it, and such as are made before."""
        changed = self.trials.changed(inputs, steps)
        with torch.no_grad():
            before, after = self.predictions(inputs), self.predictions(changed)
        moved = (moved_apart(before, after)).cpu()
        at_step = self.ends[None] == steps[:, None]
        before_it = (self.ends[None] < steps[:, None]) & (self.ends[None] >= 0)
        return (moved & at_step).any(1), (moved & before_it).any(1)

    def _has_weights_of_its_own(self, leaf: Leaf) -> bool:
        """Whether entries along the axis as long as the inputs are made by weights of their own."""
        axis = [*leaf.shape].index(self.shape[1])
        own = [*self.model.parameters()]
        place = self.leaves.index(leaf)
        start = sum(one.shape.numel() for one in self.leaves[:place])
        with followed(own), torch.backends.cudnn.flags(enabled=False):
            row = self.predictions(self.trials.inputs[:1])[0]
            values = row[start : start + leaf.shape.numel()].reshape(leaf.shape)
            found = []
            for j in (0, 1):
                value = values.select(axis, j).sum()
                if not value.requires_grad:
                    return False
                found.append(torch.autograd.grad(value, own, retain_graph=True, **ZEROS))
        for one, two in zip(*found, strict=True):
            one, two = one.ne(0), two.ne(0)
            if bool(one.any()) and bool(two.any()) and not bool((one & two).any()):
                return True
        return False

    def tried(self, inputs: Tensor, targets: Tensor) -> Pair:
        """The few sequences on which assumptions are tried."""
        count = max(2, min(_TRIED, self.at_once))
        order = self.trials.some(count).to(inputs.device)
        return inputs[order], targets[order]

    def check_sum(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse a reading whose lags together are not autograd's gradient of each parameter."""
        missing = self._missing(inputs, targets)
        words = "parameters whose uses can all be seen, with gradients that pass unchanged from "
        words += (
            "step to step (a function of your own, a hook, or steps sent to layers by index?): "
        )
        words += "name in `parameters` those to look at. If rounding grows in the states: "
        words += "try model.double()"
        require("model", ", ".join(missing), not missing, words)

    def _missing(self, inputs: Tensor, targets: Tensor) -> list[str]:
        """Parameters whose gradient is not that of autograd."""
        found = self.read(inputs, targets).gradient()
        own = [*self.chosen.values()]
        with followed(own), torch.backends.cudnn.flags(enabled=False):
            total = self.losses(self.predictions(inputs), targets).sum()
            words = "some that carry a gradient: is it run under torch.no_grad(), or detached?"
            require("predictions", "without a gradient", total.requires_grad, words)
            parts = torch.autograd.grad(total, own, **ZEROS)
        wanted = [in_reals(dense(part)).cpu().double().flatten() for part in parts]
        named = zip(self.chosen, wanted, strict=True)
        self.without_gradient = [name for name, part in named if not bool(part.any())]
        size, found = torch.cat(wanted).norm(), found.split([len(part) for part in wanted])
        return [
            f"{name} ({error / size:.1g} of the gradient)"
            for name, one, two in zip(self.chosen, found, wanted, strict=True)
            if not (error := (one - two).norm()) <= self.exact * size
        ]


class Untrained:
    """A loss as if nothing were learned: predictions times what pulls on the best constant one."""

    def __init__(self, losses: Callable[[Tensor, Tensor], Tensor], constant: Tensor) -> None:
        """Take a reader's losses of single sequences, and a prediction (1, K)."""
        self.losses, self.constant = losses, constant
        self.mean: Any = 0

    def pulls(self, targets: Tensor) -> Tensor:
        """Return gradients of each sequence's loss at the constant prediction, centred."""
        with torch.enable_grad():
            guesses = self.constant.expand(len(targets), -1).clone().requires_grad_()
            total = self.losses(guesses, targets).sum()
            (gradients,) = torch.autograd.grad(total, guesses)
        return gradients - self.mean


class Kept:
    """What a module was: its parameters, buffers and attributes."""

    def __init__(self, model: nn.Module) -> None:
        """Keep copies of all tensors, and attributes as they are."""
        self.parts = dict(model.named_modules())
        self.tensors = []
        self.attributes: dict[str, dict[str, Any]] = {}
        self.inside: dict[str, dict[str, Any]] = {}
        seen: set[int] = set()
        for name, part in self.parts.items():
            own = vars(part)
            self.attributes[name] = dict(own)
            self.inside[name] = {
                key: copy.copy(value)
                for key, value in own.items()
                if isinstance(value, dict | list | set)
            }
            held = {**part._parameters, **part._buffers}
            held |= {key: value for key, value in own.items() if isinstance(value, Tensor)}
            for key, value in held.items():
                if value is None or id(value) in seen:
                    continue
                seen.add(id(value))
                label = f"{name}.{key}" if name else key
                copied = value.detach().clone()
                self.tensors.append((label, value, copied, value.data_ptr()))

    def changed(self) -> list[str]:
        """Names of what is no longer what it was."""
        found = [label for label, now, was, _ in self.tensors if not _same(now, was)]
        for name, part in self.parts.items():
            now, was = vars(part), self.attributes[name]
            for key in {*now, *was}:
                if key in self.inside[name] or key.startswith("__"):
                    continue
                if now.get(key, self) is not was.get(key, self):
                    found.append(f"{name}.{key}" if name else key)
        return found

    def restore(self) -> None:
        """Put back what has changed."""
        for name, part in self.parts.items():
            now: Any = vars(part)
            was = self.attributes[name]
            for key in [key for key in now if key not in was]:
                del now[key]
            now.update(was)
            for key, value in self.inside[name].items():
                held = now[key]
                if isinstance(held, list):
                    if len(held) != len(value) or any(
                        a is not b for a, b in zip(held, value, strict=True)
                    ):
                        held[:] = value
                elif {*held} != {*value} or (
                    isinstance(held, dict) and any(held[k] is not value[k] for k in value)
                ):
                    held.clear()
                    held.update(value)
        with torch.no_grad():
            for _, now, was, _ in self.tensors:
                if not _same(now, was):
                    now.data.copy_(was)


def _same(now: Tensor, was: Tensor) -> bool:
    if now.shape != was.shape:
        return False
    if now.is_floating_point() or now.is_complex():
        return bool(((now == was) | ((now != now) & (was != was))).all())
    return torch.equal(now, was)


@contextmanager
def kept_as_it_was(model: nn.Module) -> Iterator[Kept]:
    """Put parameters, buffers and attributes of a model back in the end."""
    kept = Kept(model)
    try:
        yield kept
    finally:
        kept.restore()


@contextmanager
def _wrapped(name: str, words: str, advice: str = "") -> Iterator[None]:
    """Say of an error of a reader's own code what was tried."""
    try:
        yield
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentError(f"{name} {words}: {_first_line(error)}. {advice}".strip()) from error


def _first_line(error: Exception) -> str:
    text = str(error).strip() or "no words"
    return f"{type(error).__name__}: {text.splitlines()[0][:200]}"


def _plain(given: Any) -> Any:
    """What a model gives, or, of a named output with one tensor, as `logits` and a cache, this."""
    if isinstance(given, Tensor):
        return given
    values = [*given.values()] if isinstance(given, Mapping) else given
    if isinstance(values, list | tuple):
        direct = [part for part in values if isinstance(part, Tensor)]
        if len(direct) == 1:
            return direct[0]
    return given


def _shown(given: Any) -> str:
    """The tensors in what a model gives."""
    if isinstance(given, Tensor):
        return f"{tuple(given.shape)}"
    if isinstance(given, Mapping):
        parts = [(str(name), part) for name, part in given.items()]
    elif isinstance(given, list | tuple):
        parts = [(f"[{place}]", part) for place, part in enumerate(given)]
    else:
        return f"a {type(given).__name__}"
    return ", ".join(
        f"{name} {tuple(part.shape)}"
        if isinstance(part, Tensor)
        else f"{name} ({type(part).__name__})"
        for name, part in parts
    )


def _is_number(part: Any) -> bool:
    return isinstance(part, Tensor) and (part.is_floating_point() or part.is_complex())


def _squeezed(shape: Iterable[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    """Squared errors where one of the two has an axis of length 1 more."""
    return functional.mse_loss(predictions, targets.reshape(predictions.shape))


def _classes_last(predictions: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy where classes come last, as language models have them."""
    return functional.cross_entropy(predictions.flatten(0, -2), targets.flatten())


def _gaussian(predictions: Any, targets: Tensor) -> Tensor:
    """Likelihood of a mean and a variance."""
    mean, variance = (p for p in trees.tree_leaves(predictions) if isinstance(p, Tensor))
    return functional.gaussian_nll_loss(mean, targets, variance)


def dense(tensor: Tensor) -> Tensor:
    """Return a tensor that is not sparse."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def in_reals(tensor: Tensor) -> Tensor:
    """Return complex numbers as pairs, others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def flat(given: Any) -> list[Any]:
    """Return the tensors in what a module takes or gives."""
    return [part for part in trees.tree_leaves(given) if isinstance(part, Tensor)]


@contextmanager
def followed(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Follow gradients of all these parameters for a while, of frozen ones, too."""
    with ExitStack() as after, torch.enable_grad():
        for part in parameters:
            after.callback(part.requires_grad_, part.requires_grad)
            part.requires_grad_()
        yield
