"""Whose and when: to which sequence each entry of a value belongs, and its time, by exchange.

**The time of a value is the last input step that reaches it.** It is measured: step k of a sequence
is exchanged for that of another one, and the entries that move, bit by bit, are those that step k
reaches. A step reaches an entry if it moves it in any sequence, so that a gate that is closed in
one sequence changes no time. Inputs without steps (a category of the whole sequence) stay as they
are; what they alone reach has no time.

Whole sequences are exchanged in the same way, to see which entries belong to which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lwcore.diagnose.contract import Data, Rows
from lwcore.signatures import require

Steps = np.ndarray  # of whole numbers; jaxtyping cannot read its NDArray
Run = Callable[[Rows], Sequence[Tensor]]  # the same values, of any sequences

TRIAL = 5  # sequences of which it is measured what belongs to whom
_TOGETHER = 8  # sequences that are exchanged step by step in one round
_ROUNDS = 32  # at the most
_FURTHER = 128  # sequences in which no later step may reach a value
_RARE = 0.02  # share of these in which one may
MIXED = "mixes sequences"  # of a value that has no layout
STILL = "is the same for all inputs"
UNEVEN = "has not the same rows of each sequence"
_CANDIDATES = 2048  # pairs of sequences of which the most unlike ones are taken
_GATED = (
    "reached by the same steps in most sequences. Is there a gate that is mostly closed? Open it, "
    "or look at `parameters` without those behind it"
)


class Layout(NamedTuple):
    """Where a tensor has its sequences: an axis, which may hold more, around and within them.

    A linear layer may see sequences, steps and features as (B, T, H), or as (B·T, H): there the
    axis 0 has B sequences with T rows *within* each. As (T·B, H) it has T rows *around* them.
    """

    axis: int
    around: int
    within: int

    def front(self, values: Tensor) -> Tensor:
        """Return the values with their sequences in front: (B, …)."""
        if self.around == self.within == 1:
            return values.movedim(self.axis, 0)
        count = values.shape[self.axis] // (self.around * self.within)
        parted = values.unflatten(self.axis, (self.around, count, self.within))
        return parted.movedim(self.axis + 1, 0)

    def back(self, values: Tensor) -> Tensor:
        """Undo `front`."""
        if self.around == self.within == 1:
            return values.movedim(0, self.axis)
        parted = values.movedim(0, self.axis + 1)
        return parted.flatten(self.axis, self.axis + 2)


class Times(NamedTuple):
    """The first and the last step that reach each entry of a value, −1 where none does."""

    first: Steps
    last: Steps


class Exchange:
    """Sequences of the data, and others whose steps are put in their place."""

    def __init__(self, data: Data) -> None:
        """Take the data, and a generator of our own."""
        self.data = data
        self.generator = torch.Generator("cpu").manual_seed(0)
        self.rounding = 0  # units in the last place

    def some(self, count: int) -> Tensor:
        """Draw places of a few sequences, none twice."""
        order = torch.randperm(self.data.count, generator=self.generator, device="cpu")
        return order[:count]

    def layouts(self, run: Run) -> list[Layout | str]:
        """Find where values have their sequences, or why not: exchange these, one by one."""
        order = self.some(2 * TRIAL)
        base = self.data.inputs[order[:TRIAL]]
        others = self.data.inputs[order[TRIAL:]]
        shapes = [value.shape for value in run(base)]
        moved: list[list[Tensor]] = [[] for _ in shapes]
        for place in range(TRIAL):
            still = run(base)
            made = run(_mixed(base, others, torch.arange(TRIAL) == place))
            for found, before, after in zip(moved, still, made, strict=True):
                if before.shape == after.shape:
                    found.append(self._differs(before, after))
        return [_layout(torch.stack(m)) if len(m) == TRIAL else UNEVEN for m in moved]

    def times(self, run: Run, at_once: int) -> list[Times]:
        """Measure the first and the last step that reach each entry: exchange step after step.

        `run` gives values (B, …). In each round other sequences are taken, until one finds nothing
        new, and until in further sequences no later step reaches a value.
        """
        found: list[Times] = []
        before: list[Steps] = []
        for _ in range(_ROUNDS):
            self._exchange_each(run, at_once, found)
            # how far back an entry looks is not asked, as bits of far steps hardly move it
            more = self.data.length + 1  # where an entry looks back
            after = [own.last + more * (own.first < own.last) for own in found]
            is_known = bool(before) and all(map(np.array_equal, before, after))
            if is_known and self._is_whole(run, at_once, found):
                return [Times(np.where(t.last < 0, -1, t.first), t.last) for t in found]
            before = after
        require("model", "values that some step reaches in few sequences alone", False, _GATED)
        raise AssertionError

    def _exchange_each(self, run: Run, at_once: int, found: list[Times]) -> None:
        """Exchange each step of a few sequences once; add what that finds to known times."""
        length = self.data.length
        n_steps = max(1, min(length, at_once // _TOGETHER))  # each in a copy of all sequences
        places = self.some(_TOGETHER)
        copies = torch.arange(len(places)).repeat(n_steps)
        base, others = (part[copies] for part in self._drawn(places))
        still = [value.detach().clone() for value in run(base)]
        if not found:
            for value in still:
                shape = value.shape[1:]
                found.append(Times(np.full(shape, length), np.full(shape, -1)))
        for start in range(0, length, n_steps):
            steps = torch.arange(start, start + n_steps).clamp(max=length - 1)
            steps = steps.repeat_interleave(len(places))[:, None]
            moved = self._moved(run, still, base, others, steps == torch.arange(length))
            for own, is_moved in zip(found, moved, strict=True):
                step = steps.numpy().reshape(-1, *[1] * own.last.ndim)
                np.maximum(own.last, np.where(is_moved, step, -1).max(0), out=own.last)
                np.minimum(own.first, np.where(is_moved, step, length).min(0), out=own.first)

    def _is_whole(self, run: Run, at_once: int, found: Sequence[Times]) -> bool:
        """Say whether in hardly any further sequence a step later than its time reaches a row.

        In each sequence all steps behind some step are exchanged.
        """
        latest = [spread(times.last) for times in found]
        n_late = np.zeros(len(found))
        places = self.some(_FURTHER)
        for part in places.split(at_once):
            base, others = self._drawn(part)
            draws = torch.randint(self.data.length, (len(part), 1), generator=self.generator)
            still = [value.detach().clone() for value in run(base)]
            is_behind = torch.arange(self.data.length) > draws
            moved = self._moved(run, still, base, others, is_behind)
            for place, own in enumerate(latest):
                is_before = (own >= 0) & (own <= draws.numpy().reshape(-1, *[1] * own.ndim))
                is_late = moved[place] & is_before
                n_late[place] += is_late.reshape(len(part), -1).any(1).sum()
        return bool((n_late <= _RARE * len(places)).all())

    def _moved(
        self, run: Run, still: Sequence[Tensor], base: Rows, others: Rows, is_other: Tensor
    ) -> list[Steps]:
        """Say which entries are no longer as they were if some steps are those of others."""
        made = run(_mixed(base, others, is_other))
        pairs = zip(still, made, strict=True)
        return [self._differs(before, after).cpu().numpy() for before, after in pairs]

    def _differs(self, one: Tensor, two: Tensor) -> Tensor:
        """Say of each entry of two passes if it is another, bit by bit; NaN is NaN."""
        shapes = f"{tuple(one.shape)} and {tuple(two.shape)}"
        words = "of one shape for all data, as where torch.where chooses among all steps"
        require("values in the model", shapes, one.shape == two.shape, words)
        allowed = 0.0
        if self.rounding and (one.is_floating_point() or one.is_complex()) and one.numel():
            largest = float(one.detach().abs().nan_to_num(posinf=0).max())
            allowed = self.rounding * torch.finfo(one.dtype).eps * largest
        return ~torch.isclose(one.detach(), two.detach(), rtol=0, atol=allowed, equal_nan=True)

    def _drawn(self, places: Tensor) -> tuple[Rows, Rows]:
        """Return sequences, and for each of their steps the most unlike one.

        It is the same step of another sequence; where all have the same, another step.
        """
        candidates = self.some(max(_CANDIDATES // len(places), _TOGETHER))
        own_step = torch.arange(self.data.length)
        any_step = torch.randperm(self.data.length, generator=self.generator)
        sequences = []
        steps = []
        for place in places.tolist():  # never all in memory
            of_same = self._n_other(place, candidates, own_step)
            of_any = self._n_other(place, candidates, any_step)
            scores = torch.cat([of_same * (of_any.max() + 1), of_any])
            ties = torch.rand(scores.shape, generator=self.generator)
            best = (scores + ties / 2).argmax(0)
            sequences.append(candidates[best % len(candidates)])
            steps.append(torch.where(best < len(candidates), own_step, any_step))
        others = self.data.inputs[places]
        chosen = torch.stack(sequences), torch.stack(steps)
        for index in self.data.with_steps:
            others.leaves[index] = self.data.inputs.leaves[index][chosen]
        return self.data.inputs[places], others

    def _n_other(self, place: int, candidates: Tensor, order: Tensor) -> Tensor:
        """Count the entries of each step, (candidates, T), that differ from those of a sequence."""
        count = torch.zeros(len(candidates), len(order))
        for index in self.data.with_steps:
            leaf = self.data.inputs.leaves[index]
            other = leaf[candidates][:, order]
            count += (leaf[place] != other).reshape(*count.shape, -1).sum(-1).cpu()
        return count


def _mixed(base: Rows, others: Rows, is_other: Tensor) -> Rows:
    """Return entries of others where it is said so, along the first axes."""
    mixed = Rows(base.leaves)
    for index, (leaf, other) in enumerate(zip(base.leaves, others.leaves, strict=True)):
        if leaf is not None and leaf.shape[: is_other.ndim] == is_other.shape:
            where = is_other.to(leaf.device)
            where = where.reshape(*where.shape, *[1] * (leaf.ndim - where.ndim))
            mixed.leaves[index] = torch.where(where, other, leaf)
    return mixed


def _layout(moved: Tensor) -> Layout | str:
    """Find the axis of sequences, from what each of the sequences moves, (sequences, …)."""
    n_owners = moved.sum(0)
    if not bool(n_owners.any()):
        return STILL
    if bool((n_owners > 1).any()):
        return MIXED
    owner = moved.to(torch.int8).argmax(0)
    for axis, size in enumerate(owner.shape):
        more = size // TRIAL
        for within in range(more, 0, -1):  # sequences are mostly outside of their steps
            if size % TRIAL or more % within:
                continue
            wanted = torch.arange(size, device=owner.device) // within % TRIAL
            wanted = wanted.reshape(-1, *[1] * (owner.ndim - axis - 1))
            if bool(((n_owners == 0) | (owner == wanted)).all()):
                return Layout(axis, more // within, within)
    return UNEVEN


def row_axes(last: Steps) -> tuple[int, ...]:
    """Return the axes of a value along which its time changes: its other axes are features.

    A row has the time of its latest feature. Along an axis of features all have the same latest
    time, but for those that no step reaches.
    """
    axes = []
    for axis in range(last.ndim):
        others = tuple(other for other in range(last.ndim) if other != axis)
        latest = {*last.max(axis=others).tolist()} if others else {*last.tolist()}
        if len(latest - {-1}) > 1:
            axes.append(axis)
    return tuple(axes)


def of_rows(times: Steps, axes: tuple[int, ...], keepdims: bool = False) -> Steps:
    """Return the time of each row along some axes, in a line, or with other axes of length 1."""
    others = tuple(axis for axis in range(times.ndim) if axis not in axes)
    latest = times.max(axis=others, keepdims=True)
    return latest if keepdims else latest.reshape(-1)


def spread(times: Steps) -> Steps:
    """Return the time of each entry, that of its row."""
    return np.broadcast_to(of_rows(times, row_axes(times), keepdims=True), times.shape)
