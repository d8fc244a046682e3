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

    def holds(self, values: Tensor, count: int) -> bool:
        """Say whether values are of so many sequences, as rows that data choose are not."""
        is_there = values.ndim > self.axis
        return is_there and values.shape[self.axis] == self.around * count * self.within


class Times(NamedTuple):
    """The first and the last step that reach each entry of a value, −1 where none does."""

    first: Steps
    last: Steps

    def adds_nothing_to(self, known: Times) -> bool:
        """Say whether an earlier round found the same.

        How far back an entry looks is not asked, as bits of far steps hardly move it.
        """
        looks_back = np.array_equal(self.first < self.last, known.first < known.last)
        return looks_back and np.array_equal(self.last, known.last)


class Exchange:
    """Sequences of the data, and others whose steps are put in their place."""

    def __init__(self, data: Data) -> None:
        """Take the data, and a generator of our own."""
        self.data = data
        self.generator = torch.Generator("cpu").manual_seed(0)
        self.rounding = 0  # units in the last place
        first = data.first
        differs = bool((first != first[:1, :1]).any())
        require("inputs", "all steps equal", differs, "steps that differ, so that one is exchanged")

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
        found = self._times_once(run, at_once, [])
        for _ in range(_ROUNDS):
            before = found
            found = self._times_once(run, at_once, before)
            is_known = all(own.adds_nothing_to(one) for own, one in zip(found, before, strict=True))
            if is_known and self._is_whole(run, at_once, found):
                return [Times(np.where(t.last < 0, -1, t.first), t.last) for t in found]
        require("model", "values that some step reaches in few sequences alone", False, _GATED)
        raise AssertionError

    def _times_once(self, run: Run, at_once: int, known: Sequence[Times]) -> list[Times]:
        """Exchange each step of a few sequences once; return what they add to known times."""
        length = self.data.length
        n_steps = max(1, min(length, at_once // _TOGETHER))  # each in a copy of all sequences
        base, others = self._drawn(_TOGETHER, n_steps)
        still = [value.detach().clone() for value in run(base)]
        found = [Times(t.first.copy(), t.last.copy()) for t in known]
        for value in still if not known else []:
            shape = value.shape[1:]
            found.append(Times(np.full(shape, length), np.full(shape, -1)))
        for start in range(0, length, n_steps):
            steps = torch.arange(start, start + n_steps).clamp(max=length - 1)
            of_row = steps.repeat_interleave(len(base) // n_steps)
            made = run(_mixed(base, others, of_row[:, None] == torch.arange(length)))
            for own, before, after in zip(found, still, made, strict=True):
                moved = self._differs(before, after).unflatten(0, (n_steps, -1)).any(1)
                for step, is_moved in zip(steps.tolist(), moved.cpu().numpy(), strict=True):
                    own.last[is_moved] = np.maximum(own.last[is_moved], step)
                    own.first[is_moved] = np.minimum(own.first[is_moved], step)
        return found

    def _is_whole(self, run: Run, at_once: int, found: Sequence[Times]) -> bool:
        """Say whether in hardly any further sequence a step later than its time reaches a row.

        In each sequence all steps behind some step are exchanged.
        """
        latest = [spread(times.last) for times in found]
        n_late = np.zeros(len(found))
        n_tried = 0
        while n_tried < _FURTHER:
            base, others = self._drawn(min(at_once, _FURTHER), 1)
            draws = torch.randint(self.data.length, (len(base), 1), generator=self.generator)
            moved = self._moved(run, base, others, torch.arange(self.data.length) > draws)
            for place, own in enumerate(latest):
                before = own <= draws.numpy().reshape(-1, *[1] * own.ndim)
                is_late = moved[place].cpu().numpy() & before & (own >= 0)
                n_late[place] += is_late.reshape(len(base), -1).any(1).sum()
            n_tried += len(base)
        return bool((n_late <= _RARE * n_tried).all())

    def _moved(self, run: Run, base: Rows, others: Rows, is_exchanged: Tensor) -> list[Tensor]:
        """Say which entries are others if some steps are those of others."""
        still = [value.detach().clone() for value in run(base)]
        made = run(_mixed(base, others, is_exchanged))
        return [self._differs(before, after) for before, after in zip(still, made, strict=True)]

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

    def _drawn(self, count: int, n_copies: int) -> tuple[Rows, Rows]:
        """Draw sequences, and for each of their steps an unlike one; both in several copies."""
        places = self.some(count)
        base = self.data.inputs[places]
        from_sequence, from_step = self._unlike(places)
        others = Rows(base.leaves)
        for index in self.data.with_steps:
            others.leaves[index] = self.data.inputs.leaves[index][from_sequence, from_step]

        def copies(leaf: Tensor) -> Tensor:
            return torch.cat([leaf] * n_copies)

        return base.map(copies), others.map(copies)

    def _unlike(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return for each step, (B, T), the sequence and the step of the most unlike one.

        It is the same step of another sequence; where all have the same, another step.
        """
        candidates = self.some(max(_CANDIDATES // len(places), _TOGETHER))
        steps = torch.arange(self.data.length)
        shuffled = torch.randperm(self.data.length, generator=self.generator)
        sequences, chosen = [], []
        for place in places.tolist():  # never all in memory
            of_same = self._n_other(place, candidates, steps)
            of_any = self._n_other(place, candidates, shuffled)
            scores = torch.cat([of_same * (of_any.max() + 1), of_any])
            ties = torch.rand(scores.shape, generator=self.generator)
            best = (scores + ties / 2).argmax(0)
            sequences.append(candidates[best % len(candidates)])
            chosen.append(torch.where(best < len(candidates), steps, shuffled))
        return torch.stack(sequences), torch.stack(chosen)

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


def _latest(times: Steps, axes: tuple[int, ...]) -> Steps:
    """Return the time of each row along some axes; the other axes have the length 1."""
    others = tuple(axis for axis in range(times.ndim) if axis not in axes)
    return times.max(axis=others, keepdims=True)


def of_rows(times: Steps, axes: tuple[int, ...]) -> Steps:
    """Return the time of each row, in a line."""
    return _latest(times, axes).reshape(-1)


def spread(times: Steps) -> Steps:
    """Return the time of each entry, that of its row."""
    return np.broadcast_to(_latest(times, row_axes(times)), times.shape)
