"""Passes of a copy of the reader's model: what it gives for each sequence, and when that is made.

All numbers that the model gives for a sequence stand side by side, (B, K).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution
from torch.utils import _pytree as trees

from lwcore.ambient import placed
from lwcore.diagnose.contract import Copies, Data, Rows, explained
from lwcore.diagnose.exchange import Exchange, Layout, Owners, Steps, spread
from lwcore.diagnose.tape import CONDITIONS, Survey, tensors_in
from lwcore.signatures import require

# for `torch.autograd.grad`: 0 in what is not used
ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
TRIED = 8  # sequences on which a model is tried
_SURVEYED = 32  # on which it is looked at what data move
RUN = 64  # sequences that the model alone is run on at a time
HELD = 2**23  # numbers in the predictions that are held at a time
_AHEAD = 4  # a fraction of the steps: so many may all predictions look ahead
_FFT_ROUNDING = 256  # units in the last place of the largest entry, that Fourier transforms spread
_KIND = "kind of distribution"
NAME = (
    "Say of which the loss is made, by head=lambda out: out[0], out['logits'], out.logits or "
    "(out.loc, out.scale), say. The loss gets what the head gives, of several things one tuple"
)
_CALLED = (
    "It must take any number of sequences, and inputs as they are: a tuple as arguments and a "
    "dictionary as keywords, or either as one argument. On trial, steps of one sequence stand in "
    "another, to see what depends on them: give a model that takes logarithms of differences of "
    "steps, or checks their order, the differences as inputs"
)
_LATER = (
    "one of which no prediction moves with later inputs. Is a causal mask missing, is it "
    "bidirectional, or are inputs normalised over the window or reversed? If the axis is that of "
    "a horizon, with all predictions made at the last step, say horizon=True"
)
_MIXED = (
    "one that predicts for each sequence by itself. Are axes swapped (batch_first=True of the "
    "layers, or batch_first=False here, for inputs (T, B, …)), are these single pairs, which "
    "torch.utils.data.DataLoader(pairs, 32) makes batches of, or is there a softmax, a scale or a "
    "normalisation over the batch? Is it the loss? Say that by loss="
)
_STILL = "reached by some input: is the last layer 0, as before training, or a state dead?"
_FINITE = (
    "finite. Has training diverged, is there a division by 0, or a logarithm or root of 0? "
    f"{_CALLED}"
)


class _Leaf(NamedTuple):
    """One tensor of what a model gives: where it has its sequences, and its shape without them."""

    place: int  # among all that the model gives
    layout: Layout
    shape: torch.Size


class Outputs(NamedTuple):
    """Where what a model gives has the predictions of each sequence, (B, K) of them in all."""

    spec: Any
    others: list[Any]  # what stands in the place of what is no prediction
    leaves: list[_Leaf]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each tensor has for a sequence."""
        return [leaf.shape.numel() for leaf in self.leaves]

    @property
    def entries(self) -> int:
        """How many numbers there are for a sequence."""
        return sum(self.sizes)

    def rows(self, given: Any) -> Float[Tensor, "B K"]:
        """Return all numbers of each sequence side by side."""
        parts, _ = flattened(given)
        fronts = [leaf.layout.front(parts[leaf.place]) for leaf in self.leaves]
        return torch.cat([front.flatten(1) for front in fronts], 1)

    def fits(self, given: Any, count: int) -> bool:
        """Say whether what the model gives for so many sequences has the tensors of the trial."""
        parts, spec = flattened(given)
        if spec != self.spec:
            return False
        for leaf in self.leaves:
            part = parts[leaf.place]
            is_same = isinstance(part, Tensor) and leaf.layout.holds(part, count)
            if not is_same or leaf.layout.front(part).shape[1:] != leaf.shape:
                return False
        return True

    def restored(self, predictions: Float[Tensor, "B K"]) -> Any:
        """Return predictions as the model gives them, for the loss: copies, which it may change."""
        parts = list(self.others)
        for part, leaf in zip(predictions.split(self.sizes, 1), self.leaves, strict=True):
            own = leaf.layout.back(part.reshape(len(predictions), *leaf.shape))
            parts[leaf.place] = own.clone(memory_format=torch.contiguous_format)
        nested = trees.tree_unflatten(parts, self.spec)
        return trees.tree_map(_closed, nested, is_leaf=_is_opened)

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes that the loss gets, without the axis of sequences."""
        shapes = []
        for leaf in self.leaves:
            shape = [*leaf.layout.back(torch.empty(1, *leaf.shape, device="meta")).shape]
            del shape[leaf.layout.axis]
            shapes.append(tuple(shape))
        return shapes


def flattened(given: Any) -> tuple[list[Any], Any]:
    """Return all parts of what a model gives, parameters of distributions too, and their nest."""

    def opened(part: Any) -> Any:
        if not isinstance(part, Distribution):
            return part
        constraints: Any = type(part).arg_constraints
        own = {name: vars(part).get(name) for name in constraints}
        own = {name: value for name, value in own.items() if isinstance(value, Tensor)}
        return {_KIND: type(part), **own}

    return trees.tree_flatten(trees.tree_map(opened, given))


def _is_opened(part: Any) -> bool:
    return isinstance(part, dict) and _KIND in part


def _closed(part: Any) -> Any:
    """Return a distribution from its parameters, and anything else as it is."""
    if not _is_opened(part):
        return part
    named = dict(part)
    return named.pop(_KIND)(**named)


class Passes:
    """A copy of the reader's model with its head, as a function of sequences."""

    outputs: Outputs
    ends: Tensor  # (K,): the step at which each prediction is made; −1: reached by no input
    look_ahead = 0  # steps that predictions see ahead

    def __init__(self, copies: Copies, data: Data, horizon: bool) -> None:
        """Run it on a few sequences; refuse one that changes from pass to pass."""
        self.model = copies.model
        self.head = copies.head
        self.call = copies.caller(data)
        self.data = data
        self.horizon = horizon
        self.names_of_given = copies.names
        self.name = type(self.model).__name__
        self.device = next(self.model.parameters(), torch.zeros(())).device
        self.exchange = Exchange(data)
        self.at_once = RUN
        self.only_tensor = False  # whether the loss gets the one tensor of what the model gives
        self._refuse_changes(copies.made)

    def _refuse_changes(self, made: Mapping[str, Tensor]) -> None:
        """Refuse a model that gives something else the second time, by chance or by a state."""
        places = self.exchange.some(_SURVEYED)
        rows = self.data.inputs[places]
        others = self.data.inputs[places.roll(1)]
        with Survey():  # which refuses what cannot be followed
            self.given(rows)  # what is made only once is made
        for name, held in made.items():
            owner, _, key = name.rpartition(".")
            is_stale = vars(self.model.get_submodule(owner)).get(key) is held
            words = "one that makes anew in each pass what it makes of parameters, not in a cache"
            require("model", f"{self.name}, which holds {name}", not is_stale, words)
        before = self.given(rows)
        with Survey() as survey:
            self.given(rows)
        with Survey() as rolled:
            self.given(others)
        after = self.given(rows)
        tensors = [tensors_in(flattened(one)[0]) for one in (before, after)]
        for one, two in zip(*tensors, strict=True):
            is_same = one.shape == two.shape and torch.equal(one.nan_to_num(), two.nan_to_num())
            require(
                "model",
                f"{self.name}, with other predictions the second time",
                is_same,
                "one without random draws, and that keeps no state from batch to batch: is there "
                "a dropout that is on though model.eval() was called (training=self.training), a "
                "random or a stored first state, or a cache?",
            )
        self.moved = survey.moved_by(rolled), places  # functions that data move, in this pass
        self.exchange.rounding = _FFT_ROUNDING if survey.has_transforms else 0

    def given(self, inputs: Rows) -> Any:
        """Return what the loss takes of what the model gives, through the head if there is one."""
        own = self.data.inputs_form.back(inputs.map(lambda leaf: placed(leaf, self.device)))
        words = f"fails on {len(inputs)} sequences, inputs {shown(own)}"
        with explained(f"model ({self.name})", words, _advice):
            given = self.call(own)
        if self.head is not None:
            with explained("head", f"fails on what the model gives, {shown(given)}"):
                given = self.head(given)
        return _only_tensor(given) if self.only_tensor else given

    # What it gives, and when

    def find_outputs(self) -> None:
        """Find the predictions of each sequence, and refuse where sequences are mixed."""

        def run(inputs: Rows) -> list[Tensor]:
            with torch.no_grad():
                return [part for _, part in _numeric(self.given(inputs))]

        owners = self.exchange.owners(run)
        given = self.given(self.data.inputs[self.exchange.some(TRIED)])
        self.shown = shown(given)
        numeric = _numeric(given)
        self._refuse_without(numeric, owners)
        alike = {}
        for (_, part), owner in zip(numeric, owners, strict=True):
            if owner.layout is not None:
                alike[part.shape] = owner.layout
        leaves = []
        for (place, part), owner in zip(numeric, owners, strict=True):
            layout = owner.layout
            if layout is None and not owner.mixes:  # the same for all, as a scale that is fixed
                layout = alike.get(part.shape)
            if layout is not None:
                leaves.append(_Leaf(place, layout, layout.front(part).shape[1:]))
        parts, spec = flattened(given)
        kinds = [part if isinstance(part, type) else None for part in parts]
        self.outputs = Outputs(spec, kinds, leaves)

    def _refuse_without(self, numeric: list[tuple[int, Tensor]], owners: list[Owners]) -> None:
        """Refuse what has no predictions of each sequence, and say why."""
        told = f"{self.shown} for {TRIED} sequences"
        require("predictions", told, bool(owners), f"tensors of real numbers. {NAME}")
        pairs = zip(numeric, owners, strict=True)
        is_mixed = any(owner.mixes and part.ndim > 0 for (_, part), owner in pairs)
        require("model", f"{self.name}, which mixes sequences", not is_mixed, _MIXED)
        is_moved = any(owner != Owners(None, False, False) for owner in owners)
        require("predictions", "the same for all inputs", is_moved, _STILL)
        has_some = any(owner.layout is not None for owner in owners)
        require("predictions", told, has_some, f"those of each sequence, along an axis. {_MIXED}")

    def measure_ends(self) -> None:
        """Measure the step at which each prediction is made: the last one that reaches it."""

        def run(inputs: Rows) -> list[Tensor]:
            parts = self.alone(inputs).split(self.outputs.sizes, 1)
            pairs = zip(parts, self.outputs.leaves, strict=True)
            return [part.reshape(len(part), *leaf.shape) for part, leaf in pairs]

        by_leaf = [spread(own.last) for own in self.exchange.times(run, self.at_once)]
        ends = np.concatenate([own.reshape(-1) for own in by_leaf])
        self.ends = torch.from_numpy(ends).to(torch.int64)
        known = {*ends.tolist()} - {-1}
        require("predictions", "the same for all inputs", bool(known), _STILL)
        told = f"True, with predictions made at steps {min(known)} to {max(known)}"
        words = "False: not all are made at one step, and each has the time that was measured"
        require("horizon", told, not self.horizon or len(known) == 1, words)
        for own in by_leaf:
            self._refuse_ahead(own)

    def _refuse_ahead(self, ends: Steps) -> None:
        """Refuse predictions at every step that far later inputs move.

        An axis as long as the inputs, one of the first two beside that of sequences, counts steps.
        A model may look a few steps ahead, as a centred convolution does.
        """
        length = self.data.length
        ahead = []
        for axis, size in enumerate(ends.shape[:2]):
            if size == length:
                latest = np.moveaxis(ends, axis, 0).reshape(length, -1).max(1)
                ahead.append(int((latest - np.arange(length)).max()))
        if self.horizon or not ahead:
            return
        least = max(0, min(ahead))  # there may be as many classes as steps
        told = f"{self.name}, with predictions that inputs move up to {least} steps later"
        require("model", told, least <= length // _AHEAD, _LATER)
        self.look_ahead = max(self.look_ahead, least)

    def predictions(self, inputs: Rows) -> Float[Tensor, "B K"]:
        """Return all numbers that the model gives for each sequence, as one row."""
        given = self.given(inputs)
        words = (
            f"as for {TRIED}: {self.shown}. Does it drop axes of length 1, by squeeze()? Then "
            "name the axis, squeeze(-1). Does it do otherwise by what the data hold?"
        )
        fits = self.outputs.fits(given, len(inputs))
        require("predictions", f"{shown(given)} for {len(inputs)}", fits, words)
        rows = self.outputs.rows(given)
        require("predictions", "NaN or infinite", bool(rows.isfinite().all()), _FINITE)
        return rows

    def alone(self, inputs: Rows) -> Float[Tensor, "B K"]:
        """Return predictions of which no gradient is asked."""
        with torch.no_grad():
            return self.predictions(inputs)

    def in_parts(self, places: Tensor | None = None) -> Iterator[tuple[Tensor, Rows]]:
        """Yield predictions beside targets, of as many sequences as memory is to hold."""
        every = torch.arange(self.data.count) if places is None else places
        for places in every.split(max(1, HELD // max(self.outputs.entries, 1))):
            parts = [self.alone(self.data.inputs[some]) for some in places.split(self.at_once)]
            yield torch.cat(parts), self.data.targets[places]


def _advice(error: Exception) -> str:
    """Say what is likely wrong where the model fails."""
    if type(error).__module__.startswith("torch._dynamo"):
        return f"It must be {CONDITIONS}"
    return _CALLED


def _numeric(given: Any) -> list[tuple[int, Tensor]]:
    """Return the tensors of real or complex numbers in what a model gives, and their places."""
    found = []
    for place, part in enumerate(flattened(given)[0]):
        if isinstance(part, Tensor) and (part.is_floating_point() or part.is_complex()):
            found.append((place, part))
    return found


def _only_tensor(given: Any) -> Any:
    """Return the one tensor of a named output, as of `logits` and a cache, or all that there is."""
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
    if isinstance(given, list | tuple):
        given = {f"[{place}]": part for place, part in enumerate(given)}
    if not isinstance(given, Mapping):
        return f"a {type(given).__name__}"
    words = []
    for name, part in given.items():
        is_tensor = isinstance(part, Tensor)
        words.append(f"{name} {tuple(part.shape) if is_tensor else f'({type(part).__name__})'}")
    return ", ".join(words)
