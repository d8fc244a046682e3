"""Whose and when: to which sequence each entry of a value belongs, and its time, by exchange.

**The time of a value is the last input step that reaches it.** It is measured: step k of a sequence
is exchanged for that of another one, and the entries that move, bit by bit, are those that step k
reaches. A step reaches an entry if it moves it in any sequence, so that a gate that is closed in
one sequence changes no time. Inputs without steps (a category of the whole sequence) stay as they
are; what they alone reach has no time. A maximum over the whole window, as in ``exp(k − max)``,
reaches all that is made of it, even if it cancels: its rounding does not. A running one
(`torch.cummax`) tells steps apart.

Whole sequences are exchanged in the same way, to see which entries belong to which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    """The first and the last step that reach each entry of a value; T and −1 where none does."""

    first: Steps
    last: Steps


class Exchange:
    """Sequences of the data, and others whose steps are put in their place."""

    def __init__(self, data: Data) -> None:
        """Take the data, and a generator of our own."""
        self.data = data
        self.exchanged = data.with_steps  # inputs whose steps are
        self.generator = torch.Generator().manual_seed(0)
        self.rounding = 0  # units in the last place

    def some(self, count: int) -> Tensor:
        """Draw places of a few sequences, none twice."""
        order = torch.randperm(self.data.count, generator=self.generator)
        return order[:count]

    def layouts(self, run: Run) -> list[Layout | str]:
        """Find where values have their sequences, or why not: exchange these, one by one."""
        order = self.some(2 * TRIAL)
        base = self.data.inputs[order[:TRIAL]]
        others = self.data.inputs[order[TRIAL:]]
        still = run(base)
        moved: list[list[Tensor]] = [[] for _ in still]
        for place in range(TRIAL):
            made = run(_mixed(base, others, torch.arange(TRIAL) == place))
            for found, before, after in zip(moved, still, made, strict=True):
                if before.shape == after.shape:
                    found.append(self.differs(before, after))
        return [_layout(torch.stack(own)) if len(own) == TRIAL else UNEVEN for own in moved]

    def times(self, run: Run, at_once: int) -> list[Times]:
        """Measure the first and the last step that reach each entry: exchange step after step.

        `run` gives values (B, …). In each round other sequences are taken, until one finds nothing
        new, and until in further sequences no later step reaches a value.
        """
        found: list[Times] = []
        before = None
        for _ in range(_ROUNDS):
            self._exchange_each(run, at_once, found)
            # how far back an entry looks is not asked, as bits of far steps hardly move it
            after = [(own.last.tobytes(), (own.first < own.last).tobytes()) for own in found]
            if after == before and self._is_whole(run, at_once, found):
                return found
            before = after
        require("model", "values that some step reaches in few sequences alone", False, _GATED)
        raise AssertionError

    def _exchange_each(self, run: Run, at_once: int, found: list[Times]) -> None:
        """Exchange each step of a few sequences once; add what that finds to known times."""
        length = self.data.length
        n_steps = max(1, min(length, at_once // _TOGETHER))  # each in a copy of all sequences
        places = self.some(_TOGETHER)
        moved_by = self._mover(run, places, n_steps)
        for start in range(0, length, n_steps):
            steps = torch.arange(start, start + n_steps).clamp(max=length - 1)
            steps = steps.repeat_interleave(len(places))[:, None]
            for index, is_moved in enumerate(moved_by(steps == torch.arange(length))):
                step = steps.numpy().reshape(-1, *[1] * (is_moved.ndim - 1))
                last = np.where(is_moved, step, -1).max(0)
                first = np.where(is_moved, step, length).min(0)
                if index == len(found):
                    found.append(Times(first, last))
                np.maximum(found[index].last, last, out=found[index].last)
                np.minimum(found[index].first, first, out=found[index].first)

    def _is_whole(self, run: Run, at_once: int, found: Sequence[Times]) -> bool:
        """Say whether in hardly any further sequence a step later than its time reaches a row.

        In each sequence all steps behind some step are exchanged.
        """
        latest = [spread(times.last) for times in found]
        n_late = np.zeros(len(found))
        places = self.some(_FURTHER)
        for part in places.split(at_once):
            moved_by = self._mover(run, part)
            draws = torch.randint(self.data.length, (len(part), 1), generator=self.generator)
            moved = moved_by(torch.arange(self.data.length) > draws)
            for place, own in enumerate(latest):
                is_before = own <= draws.numpy().reshape(-1, *[1] * own.ndim)
                is_late = moved[place] & is_before
                n_late[place] += is_late.reshape(len(part), -1).any(1).sum()
        return bool((n_late <= _RARE * len(places)).all())

    def _mover(self, run: Run, places: Tensor, n_copies: int = 1) -> Callable[[Tensor], Any]:
        """Return what says which entries are not as they were if some steps are those of others."""
        copies = torch.arange(len(places)).repeat(n_copies)
        base, others = (part[copies] for part in self.drawn(places))
        still = [value.detach().clone() for value in run(base)]

        def moved_by(is_other: Tensor) -> list[Steps]:
            pairs = zip(still, run(_mixed(base, others, is_other)), strict=True)
            return [self.differs(before, after).cpu().numpy() for before, after in pairs]

        return moved_by

    def differs(self, one: Tensor, two: Tensor) -> Tensor:
        """Say of each entry of two passes if it is another, bit by bit; NaN is NaN."""
        shapes = f"{tuple(one.shape)} and {tuple(two.shape)}"
        require(
            "values in the model",
            shapes,
            one.shape == two.shape,
            "of one shape for all data, as where torch.where chooses among all steps",
        )
        allowed = 0.0
        one = one.detach()
        if self.rounding and (one.is_floating_point() or one.is_complex()) and one.numel():
            largest = float(one.abs().nan_to_num(posinf=0).max())
            allowed = self.rounding * torch.finfo(one.dtype).eps * largest
        return ~torch.isclose(one, two.detach(), rtol=0, atol=allowed, equal_nan=True)

    def drawn(self, places: Tensor) -> tuple[Rows, Rows]:
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
        for index in self.exchanged:
            others.leaves[index] = self.data.inputs.leaves[index][chosen]
        return self.data.inputs[places], others

    def _n_other(self, place: int, candidates: Tensor, order: Tensor) -> Tensor:
        """Count the entries of each step, (candidates, T), that differ from those of a sequence."""
        count = torch.zeros(len(candidates), len(order))
        for index in self.exchanged:
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
    if not n_owners.any():
        return STILL
    if (n_owners > 1).any():
        return MIXED
    owner = moved.to(torch.int8).argmax(0)
    for axis, size in enumerate(owner.shape):
        more = size // TRIAL
        for within in range(more, 0, -1):  # sequences are mostly outside of their steps
            if size % TRIAL or more % within:
                continue
            wanted = torch.arange(size, device=owner.device) // within % TRIAL
            is_wrong = owner.movedim(axis, -1).ne(wanted) & n_owners.movedim(axis, -1).ne(0)
            if not is_wrong.any():
                return Layout(axis, more // within, within)
    return UNEVEN


def row_axes(last: Steps) -> tuple[int, ...]:
    """Return the axes of a value along which its time changes: its other axes are features.

    An entry that no step reaches has the time of its row.
    """
    earliest = np.where(last < 0, last.max(), last)
    axes = []
    for axis in range(last.ndim):
        if (earliest.min(axis) < last.max(axis)).any():
            axes.append(axis)
    return tuple(axes)


def of_rows(times: Steps, axes: tuple[int, ...]) -> Steps:
    """Return the time of each row along some axes, with other axes of length 1."""
    others = tuple(axis for axis in range(times.ndim) if axis not in axes)
    return times.max(axis=others, keepdims=True)


def spread(times: Steps) -> Steps:
    """Return the time of each entry, that of its row."""
    return np.broadcast_to(of_rows(times, row_axes(times)), times.shape)
