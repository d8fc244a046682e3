"""Passes of a copy of the reader's model, what it gives, when that is made, and the loss of it.

All numbers that the model gives for a sequence stand side by side, (B, K). A sequence's loss is the
reader's own, called on that sequence alone.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as trees

from lwcore.ambient import placed
from lwcore.diagnose.contract import Copies, Data, Rows, explained, few
from lwcore.diagnose.exchange import Exchange, Layout, Owners, spread
from lwcore.diagnose.losses import IGNORED, Untrained, summed, usual_loss
from lwcore.diagnose.tape import CONDITIONS, Survey, tensors_in
from lwcore.signatures import require

# for `torch.autograd.grad`: 0 in what is not used
ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
RUN = 64  # sequences that the model alone is run on at a time
ALONE = 4  # sequences whose parts are held against those of each alone
_HELD = 2**23  # numbers in the predictions that are held at a time
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over steps
_COARSE = 0.05  # of other types
_OF_REALS = (nn.BCELoss, nn.BCEWithLogitsLoss, nn.KLDivLoss, nn.SmoothL1Loss, nn.HuberLoss)
_NAME = (
    "Say of which the loss is made, by head=lambda out: out[0], out['logits'], out.logits or "
    "(out.loc, out.scale), say. The loss gets what the head gives, of several things one tuple"
)
TURN_OFF = "Turn checkpoints off to measure: they save memory, and change no number"
FINITE = "finite. Is there a root or a norm of 0, or a logarithm of 0 behind a torch.where?"
_EXCHANGED = (
    "It works on sequences of the data. On trial, steps of one sequence stand in another, to see "
    "what depends on them: give a model that takes logarithms of differences of steps, or checks "
    "their order, the differences as inputs"
)
_AHEAD = (
    "one of which no prediction moves with later inputs. Is a causal mask missing, is it "
    "bidirectional, or are inputs normalised over the window or reversed? If the axis is that of "
    "a horizon, with all predictions made at the last step, say horizon=True"
)
_MIXED = (
    "one that predicts for each sequence by itself. Are axes swapped (batch_first=True of the "
    "layers, or batch_first=False here, for inputs (T, B, …)), are these single pairs, which "
    "torch.utils.data.DataLoader(pairs, 32) makes batches of, or is there a softmax, a scale or a "
    "normalisation over the batch?"
)


class _Leaf(NamedTuple):
    """One tensor of what a model gives: where it has its sequences, and its shape without them."""

    place: int  # among all that the model gives
    layout: Layout
    shape: torch.Size


class Outputs(NamedTuple):
    """Where what a model gives has the predictions of each sequence, (B, K) of them in all.

    A distribution of `torch.distributions` counts as its parameters.
    """

    spec: Any
    kinds: list[tuple[type[Distribution], list[str]] | None]
    leaves: list[_Leaf]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each tensor has for a sequence."""
        return [leaf.shape.numel() for leaf in self.leaves]

    @property
    def entries(self) -> int:
        """How many numbers there are for a sequence."""
        return sum(self.sizes)

    @property
    def is_one(self) -> bool:
        """Whether the model gives one tensor of predictions and nothing else."""
        return len(self.kinds) == len(self.leaves) == 1 and self.kinds[0] is None

    def fits(self, given: Any, count: int) -> bool:
        """Say whether what the model gives for so many sequences has the tensors of the trial."""
        parts, _, _ = flattened(given)
        for leaf in self.leaves:
            if leaf.place >= len(parts) or not isinstance(parts[leaf.place], Tensor):
                return False
            part = parts[leaf.place]
            if (
                not leaf.layout.holds(part, count)
                or leaf.layout.front(part).shape[1:] != leaf.shape
            ):
                return False
        return True

    def rows(self, given: Any) -> Float[Tensor, "B K"]:
        """Return all numbers of each sequence side by side."""
        parts, _, _ = flattened(given)
        found = []
        for leaf in self.leaves:
            front = leaf.layout.front(parts[leaf.place])
            found.append(front.reshape(len(front), -1))
        return torch.cat(found, 1) if len(found) > 1 else found[0]

    def restored(self, predictions: Float[Tensor, "B K"]) -> Any:
        """Return predictions as the model gives them, for the loss: copies, which it may change."""
        n_parts = sum(1 if kind is None else len(kind[1]) for kind in self.kinds)
        parts: list[Any] = [None] * n_parts
        for part, leaf in zip(predictions.split(self.sizes, 1), self.leaves, strict=True):
            own = leaf.layout.back(part.reshape(len(predictions), *leaf.shape))
            parts[leaf.place] = own.clone(memory_format=torch.contiguous_format)
        waiting = iter(parts)
        whole = []
        for kind in self.kinds:
            if kind is None:
                whole.append(next(waiting))
            else:
                whole.append(kind[0](**{name: next(waiting) for name in kind[1]}))
        return trees.tree_unflatten(whole, self.spec)

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes that the loss gets, without the axis of sequences."""
        shapes = []
        for leaf in self.leaves:
            one = torch.empty(1, *leaf.shape, device="meta")
            shape = [*leaf.layout.back(one).shape]
            del shape[leaf.layout.axis]
            shapes.append(tuple(shape))
        return shapes


def flattened(given: Any) -> tuple[list[Any], Any, list[Any]]:
    """Return all parts of what a model gives, how they are nested, and which are distributions."""
    leaves, spec = trees.tree_flatten(given)
    parts = []
    kinds: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Distribution):
            kinds.append(None)
            parts.append(leaf)
            continue
        own = vars(leaf)
        constraints: Any = type(leaf).arg_constraints
        names = [name for name in constraints if isinstance(own.get(name), Tensor)]
        kinds.append((type(leaf), names))
        parts += [own[name] for name in names]
    return parts, spec, kinds


class Passes:
    """A copy of the reader's model with its head and loss, as a function of sequences."""

    def __init__(self, copies: Copies, data: Data, horizon: bool) -> None:
        """Run it on a few sequences, find the predictions, and the step of each."""
        self.model = copies.model
        self.head = copies.head
        self.call = copies.caller(data)
        self.data = data
        self.horizon = horizon
        self.names_of_given = copies.names
        self.name = type(self.model).__name__
        first = next(self.model.parameters(), torch.zeros(()))
        self.device = first.device
        self.exchange = Exchange(data)
        self.at_once = RUN
        self.only_tensor = False  # whether the loss gets the one tensor of what the model gives
        self.is_tried = False  # whether the model ran on sequences of the data
        self.close = _close_for(self.model)
        self._refuse_changes(copies)

    def _refuse_changes(self, copies: Copies) -> None:
        """Refuse a model that gives something else the second time, by chance or by a state."""
        few_rows = self.data.inputs[self.exchange.some(2)]
        with Survey():  # which refuses what cannot be followed
            self.shown = shown(self.given(few_rows))  # what is made only once is made
        self.is_tried = True
        for name, held in copies.made.items():
            owner, _, key = name.rpartition(".")
            is_stale = vars(self.model.get_submodule(owner)).get(key) is held
            words = "one that makes anew in each pass what it makes of parameters, not in a cache"
            require("model", f"{self.name}, which holds {name}", not is_stale, words)
        with torch.no_grad():
            before, after = [flattened(self.given(few_rows))[0] for _ in range(2)]
        for one, two in zip(tensors_in(before), tensors_in(after), strict=True):
            is_same = one.shape == two.shape and torch.equal(one.nan_to_num(), two.nan_to_num())
            require(
                "model",
                f"{self.name}, with other predictions the second time",
                is_same,
                "one without random draws, and that keeps no state from batch to batch: is there "
                "a dropout that is on though model.eval() was called (training=self.training), a "
                "random or a stored first state, or a cache?",
            )
        places = self.exchange.some(TRIED)
        some = self.data.inputs[places]
        others = self.data.inputs[places.roll(1)]
        with Survey() as survey:
            self.given(some)
        with Survey() as rolled:
            self.given(others)
        self.moved = survey.moved_by(rolled), places  # functions that data move, in this pass
        self.exchange.rounding = FFT_ROUNDING if survey.has_transforms else 0

    def given(self, inputs: Rows) -> Any:
        """Return what the loss takes of what the model gives, through the head if there is one."""
        own = inputs.map(lambda leaf: placed(leaf, self.device))
        own = self.data.inputs_form.back(own)
        words = f"fails on {len(inputs)} sequences, inputs {shown(own)}"
        with explained(f"model ({self.name})", words, self._advice):
            are_followed = torch.is_grad_enabled()
            given = self.call(own)
            words = "one that turns gradients off within `with torch.no_grad():`, if at all"
            is_on = torch.is_grad_enabled() or not are_followed
            require("model", f"{self.name}, which leaves gradients off behind", is_on, words)
        if self.head is not None:
            with explained("head", f"fails on what the model gives, {shown(given)}"):
                given = self.head(given)
        for part in trees.tree_leaves(given, is_leaf=_is_packed):
            words = (
                "tensors with an axis of sequences: head=lambda out: "
                "torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]"
            )
            require("predictions", "a PackedSequence", not _is_packed(part), words)
        return _only_tensor(given) if self.only_tensor else given

    def _advice(self, error: Exception) -> str:
        """Say what is likely wrong where the model fails."""
        if type(error).__module__.startswith("torch._dynamo"):
            return f"It must be {CONDITIONS}"
        if isinstance(error, MemoryError | RecursionError) or "memory" in str(error):
            return ""
        if self.is_tried:
            return _EXCHANGED
        return (
            "It must take any number of sequences, and inputs as they are: a tuple as arguments "
            "and a dictionary as keywords, or either as one argument"
        )

    # What it gives, and when

    def find_outputs(self) -> None:
        """Find the predictions of each sequence, and refuse where sequences are mixed."""

        def run(inputs: Rows) -> list[Tensor]:
            with torch.no_grad():
                return [part for _, part in self._numeric(self.given(inputs))]

        owners = self.exchange.owners(run)
        given = self.given(self.data.inputs[self.exchange.some(TRIED)])
        parts, spec, kinds = flattened(given)
        leaves = []
        is_mixed = False
        numeric = self._numeric(given)
        alike = {}
        for (_, part), owner in zip(numeric, owners, strict=True):
            if owner.layout is not None:
                alike[part.shape] = owner.layout
        for (place, part), owner in zip(numeric, owners, strict=True):
            is_mixed |= owner.mixes and part.ndim > 0
            layout = owner.layout
            if layout is None and not owner.mixes:  # the same for all, as a scale that is fixed
                layout = alike.get(part.shape)
            if layout is not None:
                leaves.append(_Leaf(place, layout, layout.front(part).shape[1:]))
        self._refuse_without(given, owners, leaves, is_mixed)
        self.outputs = Outputs(spec, kinds, leaves)
        self.n_left_out = len(parts) - len(leaves)
        self.shown = shown(given)

    def _numeric(self, given: Any) -> list[tuple[int, Tensor]]:
        """Return the tensors of real or complex numbers, and their places."""
        found = []
        for place, part in enumerate(flattened(given)[0]):
            if isinstance(part, Tensor) and (part.is_floating_point() or part.is_complex()):
                found.append((place, part))
        return found

    def _refuse_without(
        self, given: Any, owners: list[Owners], leaves: list[_Leaf], is_mixed: bool
    ) -> None:
        """Refuse what has no predictions of each sequence, and say why."""
        told = f"{shown(given)} for {TRIED} sequences"
        require("predictions", told, bool(owners), f"tensors of real numbers. {_NAME}")
        require("model", f"{self.name}, which mixes sequences", not is_mixed, _MIXED)
        if leaves:
            return
        is_moved = any(owner.mixes or owner.is_uneven for owner in owners)
        words = "ones that inputs move: is the last layer 0, as before training, or a state dead?"
        require("predictions", "the same for all inputs", is_moved, words)
        words = (
            f"those of each sequence, along an axis. Is it the loss? Say that by loss=. {_MIXED}"
        )
        require("predictions", told, False, words)

    def measure_ends(self) -> None:
        """Measure the step at which each prediction is made: the last one that reaches it."""

        def run(inputs: Rows) -> list[Tensor]:
            predictions = self.alone(inputs)
            self._require_finite(predictions, inputs)
            parts = predictions.split(self.outputs.sizes, 1)
            pairs = zip(parts, self.outputs.leaves, strict=True)
            return [part.reshape(len(part), *leaf.shape) for part, leaf in pairs]

        times = self.exchange.times(run, self.at_once)
        self.ends = torch.from_numpy(np.concatenate([spread(own.last) for own in times]))
        self.ends = self.ends.to(torch.int64)
        self.firsts = np.concatenate([own.first.reshape(-1) for own in times])
        words = "reached by some input: is the last layer 0, as before training, or a state dead?"
        require("predictions", "the same for all inputs", bool((self.ends >= 0).any()), words)
        self.look_ahead = 0
        for own, leaf in zip(times, self.outputs.leaves, strict=True):
            self._refuse_ahead(spread(own.last).reshape(leaf.shape))
        ends = {*self.ends.tolist()} - {-1}
        told = f"True, with predictions made at steps {min(ends)} to {max(ends)}"
        words = "False: not all are made at one step, and each has the time that was measured"
        require("horizon", told, not self.horizon or len(ends) == 1, words)

    def _refuse_ahead(self, ends: np.ndarray) -> None:
        """Refuse predictions at every step that later inputs move.

        An axis as long as the inputs, one of the first two beside that of sequences, counts steps.
        A model may look the same few steps ahead everywhere, as a centred convolution does.
        """
        length = self.data.length
        axes = [axis for axis, size in enumerate(ends.shape) if size == length]
        if self.horizon or not axes or axes[0] > 1:
            return
        worst = None
        for axis in axes:  # there may be as many classes
            latest = np.moveaxis(ends, axis, 0).reshape(length, -1).max(1)
            ahead = int(max((latest - np.arange(length))[: max(1, length // 2)].max(), 0))
            is_even = bool((latest <= np.minimum(np.arange(length) + ahead, length - 1)).all())
            if is_even and ahead <= length // 4:
                self.look_ahead = max(self.look_ahead, ahead)
                return
            worst = latest if worst is None else worst
        assert worst is not None
        step = int((worst > np.arange(length)).argmax())
        told = f"{self.name}, with predictions {step} that inputs move up to step {worst[step]}"
        require("model", told, False, _AHEAD)

    def predictions(self, inputs: Rows) -> Float[Tensor, "B K"]:
        """Return all numbers that the model gives for each sequence, as one row."""
        given = self.given(inputs)
        words = (
            f"as for {TRIED}: {self.shown}. Does it drop axes of length 1, by squeeze()? Then "
            "name the axis, squeeze(-1). Does it do otherwise by what the data hold?"
        )
        fits = self.outputs.fits(given, len(inputs))
        require("predictions", f"{shown(given)} for {len(inputs)}", fits, words)
        return self.outputs.rows(given)

    def alone(self, inputs: Rows) -> Float[Tensor, "B K"]:
        """Return predictions of which no gradient is asked."""
        with torch.no_grad():
            return self.predictions(inputs)

    def in_parts(self, places: Tensor | None = None) -> Iterator[tuple[Tensor, Rows]]:
        """Yield predictions beside targets, of as many sequences as memory is to hold."""
        every = torch.arange(self.data.count) if places is None else places
        for places in every.split(max(1, _HELD // max(self.outputs.entries, 1))):
            made = []
            for some in places.split(self.at_once):
                inputs = self.data.inputs[some]
                made.append(self.alone(inputs))
                self._require_finite(made[-1], inputs)
            yield torch.cat(made), self.data.targets[places]

    def _require_finite(self, predictions: Tensor, inputs: Rows) -> None:
        """Refuse predictions that are not finite: for parameters that are not, or a sequence."""
        if bool(predictions.isfinite().all()):
            return
        spoilt = []
        for name, part in self.model.named_parameters():
            if not bool(part.isfinite().all()):
                spoilt.append(name)
        words = "finite. Has training diverged? Take weights from before that"
        require("parameters", f"NaN or infinite in {few(spoilt)}", not spoilt, words)
        (bad,) = (~predictions.isfinite().all(1)).nonzero(as_tuple=True)
        own = inputs.leaves[0][bad[0].item()]
        places = (self.data.first == own).flatten(1).all(1).nonzero()[:1, 0].tolist()
        told = f"NaN or infinite for sequence {places}" if places else "NaN or infinite somewhere"
        words = "finite: look for a division by 0, a logarithm or root of 0, or numbers that grow"
        words += "" if places else f". {_EXCHANGED}"
        require("predictions", told, False, words)


TRIED = 8  # sequences on which a model is tried
FFT_ROUNDING = 256  # units in the last place of the largest entry, that Fourier transforms spread


def _close_for(model: nn.Module) -> float:
    """Return the relative error up to which sums agree, for the coarsest of a model's types."""
    closest = 1e-9
    for part in model.parameters():
        closest = max(closest, _CLOSE.get(part.dtype.to_real(), _COARSE))
    return closest


def _is_packed(part: Any) -> bool:
    return isinstance(part, PackedSequence)


def _only_tensor(given: Any) -> Any:
    """Return the one tensor of a named output, as of `logits` and a cache, or all that there is."""
    if isinstance(given, Tensor):
        return given
    values = [*given.values()] if isinstance(given, Mapping) else given
    if isinstance(values, list | tuple):
        tensors = [part for part in values if isinstance(part, Tensor)]
        if len(tensors) == 1:
            return tensors[0]
    return given


def shown(given: Any) -> str:
    """Write which tensors there are in what a model takes or gives."""
    if isinstance(given, Tensor):
        return f"{tuple(given.shape)}"
    if isinstance(given, Mapping):
        names = map(str, given)
        parts = [*given.values()]
    elif isinstance(given, list | tuple):
        names = map("[{}]".format, range(len(given)))
        parts = [*given]
    else:
        return f"a {type(given).__name__}"
    words = []
    for name, part in zip(names, parts, strict=True):
        is_tensor = isinstance(part, Tensor)
        words.append(f"{name} {tuple(part.shape) if is_tensor else f'({type(part).__name__})'}")
    return ", ".join(words)


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
        """Return the loss; a tuple goes as one argument, or as several if the loss takes these."""
        own = targets.map(lambda leaf: placed(leaf, self.passes.device))
        wanted = self.passes.data.targets_form.back(own)
        first = predictions if isinstance(predictions, tuple | list) else (predictions,)
        second = wanted if isinstance(wanted, tuple | list) else (wanted,)
        ways = ((predictions, wanted), (predictions, *second), (*first, wanted), (*first, *second))
        try:
            takes = inspect.signature(getattr(self.loss, "forward", self.loss))
        except ValueError:  # of a function that is not written in Python
            return self.loss(predictions, wanted)
        for given in ways:
            try:
                takes.bind(*given)
            except TypeError:
                continue
            return self.loss(*given)
        return self.loss(predictions, wanted)

    def _choose(self) -> None:
        """Take the reader's loss, or the one that fits, and call it on a few sequences."""
        outputs = self.passes.outputs
        if self.loss is None:
            told = (
                f"None for {self.passes.shown}, and {len(self.passes.data.targets.leaves)} targets"
            )
            is_plain = outputs.is_one and self.target is not None
            require("loss", told, is_plain, f"given. {_NAME}")
            assert self.target is not None
            self.loss, self.name = usual_loss(outputs.shapes(), self.target, self.shapes())
            self._refuse_unshifted()
        else:
            self.name = str(getattr(self.loss, "__name__", type(self.loss).__name__))
        if self.target is not None:
            self.loss = summed(self.loss, self.target)
        some = torch.arange(3)
        predictions = self.passes.alone(self.passes.data.inputs[some])
        targets = self.passes.data.targets[some]
        with warnings.catch_warnings(record=True) as said, self.explained():
            warnings.simplefilter("always")
            self.of(predictions, targets)
            self.of(predictions, targets, len(some))
        is_broadcast = any("target size" in str(one.message) for one in said)
        words = "one that compares numbers of the same shape: reshape the targets"
        require(f"loss ({self.name})", self.shapes(), not is_broadcast, words)

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
            is_tensor = isinstance(value, Tensor)
            words = "one that gives a tensor: a number, or one for each sequence"
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
        n_held = max(1, _HELD // max(total.numel(), 1))
        parts = []
        for places in torch.arange(len(targets)).split(n_held):
            parts.append((len(places), targets[places]))

        def joint(guesses: Tensor, part: Rows) -> Tensor:
            share = len(guesses) / len(targets) if self.averages else 1.0
            return share * self._plain(guesses, part, len(guesses)).sum()

        self.untrained = Untrained(self._plain, joint, total / len(targets), parts)

    def _refuse_unshifted(self) -> None:
        """Refuse tokens that are to predict themselves."""
        inputs, targets = self.passes.data.first, self.target
        if targets is None or targets.shape != inputs.shape or self.name != "cross_entropy":
            return
        is_same = bool(((targets == inputs) | (targets == IGNORED)).all())
        require(
            "targets",
            "the inputs of the same step",
            not is_same,
            "those of the next step, as in (tokens[:, :-1], tokens[:, 1:]): labels of Hugging "
            "Face's are shifted in their own loss. If they are meant, say loss=",
        )

    def shapes(self) -> str:
        """Write the shapes that the loss gets."""
        predictions = [str(("B", *shape)) for shape in self.passes.outputs.shapes()]
        targets = [
            str(("B", *t.shape[1:])) for t in self.passes.data.targets.leaves if t is not None
        ]
        words = f"predictions {' and '.join(predictions)} and targets {' and '.join(targets)}"
        return words.replace("'", "")

    def explained(self) -> AbstractContextManager[None]:
        """Say of an error in the loss what it was given, and what is likely missing."""
        advice = ""
        is_real = self.target is None or self.target.is_floating_point()
        if self.passes.n_left_out:
            advice = (
                f"Of {self.passes.shown} it gets None for what is no real numbers of each "
                "sequence, as for what is None already. Make masks and whole numbers real, by "
                "head=lambda out: (out[0], out[1].float()), say"
            )
        elif not self.passes.outputs.is_one:
            advice = f"It gets all of {self.passes.shown} as one. {_NAME}"
        elif self.target is not None and self._has_other_axes(self.target):
            advice = "Reshape the one: loss=lambda p, y: your_loss(p.reshape(y.shape), y), say"
        elif isinstance(self.loss, _OF_REALS) and not is_real:
            advice = "Targets are whole numbers, and must be real: y.float()"
        elif isinstance(self.loss, nn.CrossEntropyLoss):
            advice = (
                "Classes come second: "
                "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y), or loss=None"
            )
        words = f"fails on {self.shapes()}, for one sequence or some"
        return explained(f"loss ({self.name})", words, advice)

    def _has_other_axes(self, target: Tensor) -> bool:
        """Say whether predictions are as many as targets, in another shape."""
        (shape,) = self.passes.outputs.shapes()
        own = tuple(target.shape[1:])
        return shape != own and [n for n in shape if n > 1] == [n for n in own if n > 1]

    # What is refused

    def check(self, originals: Sequence[Tensor]) -> None:
        """Refuse a loss that is no sum or mean over sequences, tried on all of them.

        `originals` are the parameters of the model that was given, of which this works on a copy.
        """
        name = f"loss ({self.name})"
        self._refuse_parameters(originals)
        self._refuse_swapped()
        is_sum = is_mean = True
        for predictions, targets in self.passes.in_parts():
            leaf = predictions.requires_grad_()
            with self.explained(), torch.enable_grad():
                single = self.of(leaf, targets)
                self._refuse_infinite(single, leaf)
                with torch.no_grad():
                    again = self.of(predictions, targets)
                    joint = float(self.of(predictions, targets, len(single))[0])
            single = single.detach()
            words = "the same the second time: draws, as of negatives, belong into the targets"
            require(name, "another value", torch.allclose(single, again, equal_nan=True), words)
            total, mean = float(single.sum()), float(single.mean())
            allowed = self.passes.close * float(single.abs().max())  # which may be tiny
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

    def _refuse_swapped(self) -> None:
        """Refuse a loss that takes steps for classes, where there are as many of both.

        The gradient of a softmax is 0 if it is summed over its own axis, which is not that of time.
        """
        length = self.passes.data.length
        (shape, *others) = [leaf.shape for leaf in self.passes.outputs.leaves]
        is_whole = self.target is not None and not self.target.is_floating_point()
        if others or not is_whole or shape[:2] != (length, length):
            return
        some = torch.arange(TRIED)
        predictions = self.passes.alone(self.passes.data.inputs[some])
        gradients = self.gradients(predictions, self.passes.data.targets[some])
        ends = self.passes.ends.reshape(shape)
        for axis in (0, 1):
            is_time = bool((ends != ends.narrow(axis, 0, 1)).any())
            total = gradients.reshape(-1, *shape).sum(axis + 1).abs().max()
            is_softmax = bool(total < self.passes.close * gradients.abs().max())
            words = "one that has classes where the model has them: loss=lambda p, y: loss(p.mT, y)"
            told = "a softmax over steps, taken for classes"
            require(f"loss ({self.name})", told, not (is_time and is_softmax), words)

    def _refuse_infinite(self, single: Tensor, leaf: Tensor) -> None:
        """Refuse a loss that is not finite for some sequence alone, or has no such gradient."""
        name = f"loss ({self.name})"
        bad = (~single.isfinite()).nonzero()[:1, 0].tolist()
        words = (
            "finite for each sequence alone. Does it compare sequences, or are all targets of "
            "one left out? Then give the sum, not the mean, over those that are not"
        )
        require(name, f"not finite for sequence {bad}", not bad, words)
        if not single.requires_grad:
            return
        (gradients,) = torch.autograd.grad(single.sum(), leaf, **ZEROS)
        bad = (~gradients.isfinite().all(1)).nonzero()[:1, 0].tolist()
        told = f"with a gradient that is NaN or infinite, for sequence {bad}"
        require(name, told, not bad, FINITE)

    def _refuse_parameters(self, originals: Sequence[Tensor]) -> None:
        """Refuse a loss or a head that takes parameters of the model that was given.

        These are not those of the copy, and what they do would not be seen. Nor does a loss take
        the copy's: what it adds for parameters has no lag.
        """
        some = torch.arange(3)
        own = [*self.passes.model.parameters()]
        with torch.enable_grad():
            given = self.passes.predictions(self.passes.data.inputs[some])
            total = self.of(given.detach(), self.passes.data.targets[some]).sum()
            taken = [("loss", total, own), ("loss", total, originals)]
            taken.append(("head", given.sum(), originals))
            for name, number, parameters in taken:
                asked = [part for part in parameters if part.requires_grad]
                if not number.requires_grad or not asked:
                    continue
                found = torch.autograd.grad(
                    number.real, asked, allow_unused=True, retain_graph=True
                )
                is_free = all(part is None for part in found)
                words = (
                    "one of what it is given alone, for the model is copied: make what it does "
                    "with parameters a part of the model, as by torch.nn.Sequential(net, net.out), "
                    "or give a method (net.decode) and no lambda; leave a weight decay out"
                )
                require(name, "a function of the model's parameters", is_free, words)


def gradient_of(total: Tensor, parameters: Sequence[Tensor], name: str) -> Sequence[Tensor]:
    """Return the gradient of a number in parameters, and say what is wrong if it has none."""
    words = "some that carry a gradient: is it run under torch.no_grad(), or detached?"
    require("predictions", "without a gradient", total.requires_grad, words)
    with explained(f"model ({name})", "fails where its gradient is taken", TURN_OFF):
        return torch.autograd.grad(total, parameters, **ZEROS)
