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
_STEPS = 4096  # that are exchanged, at the least, in sequences that are not very long
_TRIED = 128  # further sequences in which no later step may reach a value
_CANDIDATES = 256  # sequences of which the most unlike one is taken
_DRAWS = 64  # further steps that are drawn where a step is the same in all sequences
_ROUNDING = 64  # units in the last place of the largest entry, that Fourier transforms spread


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


class Owners(NamedTuple):
    """The layout of a value, None if no sequence moves it, and whether sequences are mixed in it.

    A value that sequences move, and that has not as many entries of each, is `uneven`.
    """

    layout: Layout | None
    mixes: bool
    is_uneven: bool


class Times(NamedTuple):
    """The first and the last step that reach each entry of a value, −1 where none does."""

    first: Steps
    last: Steps


class Exchange:
    """Sequences of the data, and others whose steps are put in their place."""

    def __init__(self, data: Data, seed: int = 0) -> None:
        """Take the data, and a generator of our own."""
        self.data = data
        self.generator = torch.Generator("cpu").manual_seed(seed)
        self.rounding = 0  # units in the last place
        first = data.first
        differs = bool((first != first[:1, :1]).any())
        require("inputs", "all steps equal", differs, "steps that differ, so that one is exchanged")

    def some(self, count: int) -> Tensor:
        """Draw places of a few sequences, none twice."""
        order = torch.randperm(self.data.count, generator=self.generator, device="cpu")
        return order[:count]

    def owners(self, run: Run) -> list[Owners]:
        """Find where values have their sequences: exchange these, one after the other."""
        order = self.some(2 * TRIAL)
        base = self.data.inputs[order[:TRIAL]]
        others = self.data.inputs[order[TRIAL:]]
        still = [value.detach().clone() for value in run(base)]
        moved: list[list[Tensor]] = [[] for _ in still]
        is_uneven = [False for _ in still]
        for place in range(TRIAL):
            mixed = base.map(Tensor.clone)
            for leaf, other in zip(mixed.leaves, others.leaves, strict=True):
                if leaf is not None:
                    leaf[place] = other[place]
            for index, (before, after) in enumerate(zip(still, run(mixed), strict=True)):
                is_uneven[index] |= before.shape != after.shape
                if not is_uneven[index]:
                    moved[index].append(self._differs(before, after))
        uneven = Owners(None, mixes=False, is_uneven=True)
        pairs = zip(moved, is_uneven, strict=True)
        return [uneven if is_it else _owners(torch.stack(found)) for found, is_it in pairs]

    def times(self, run: Run, at_once: int) -> list[Times]:
        """Measure the first and the last step that reach each entry: exchange step after step.

        `run` gives values (B, …). In each round other sequences are taken, until one finds nothing
        new: four at the least, in long sequences two.
        """
        length = self.data.length
        n_steps = max(1, min(length, at_once // _TOGETHER))
        found: list[Times] = []
        least = min(4, max(2, _STEPS // (_TOGETHER * length)))
        for round_ in range(_ROUNDS):
            base, others = self._drawn(_TOGETHER, n_steps)
            still = [value.detach().clone() for value in run(base)]
            count = len(still[0]) // n_steps if still else 0
            firsts = [np.full(value.shape[1:], length, np.int32) for value in still]
            lasts = [np.full(value.shape[1:], -1, np.int32) for value in still]
            for start in range(0, length, n_steps):
                steps = torch.arange(start, start + n_steps).clamp(max=length - 1)
                is_exchanged = torch.nn.functional.one_hot(steps.repeat(count), length).bool()
                made = run(self._mixed(base, others, is_exchanged))
                for index, (before, after) in enumerate(zip(still, made, strict=True)):
                    moved = self._differs(before, after).unflatten(0, (count, n_steps)).any(0)
                    by_step = moved.cpu().numpy()
                    order = steps.numpy().reshape(-1, *[1] * (by_step.ndim - 1))
                    np.maximum(lasts[index], np.where(by_step, order, -1).max(0), out=lasts[index])
                    early = np.where(by_step, order, length).min(0)
                    np.minimum(firsts[index], early, out=firsts[index])
            is_new = not found
            for index, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
                if len(found) <= index:
                    found.append(Times(first, last))
                    continue
                known = found[index]
                is_new |= bool((last > known.last).any() or (first < known.first).any())
                found[index] = Times(np.minimum(first, known.first), np.maximum(last, known.last))
            if not is_new and round_ + 1 >= least:
                break
        return [Times(np.where(t.last < 0, -1, t.first), t.last) for t in found]

    def later(self, run: Run, times: Sequence[Steps], at_once: int) -> list[float]:
        """Return in which share of further sequences each value is reached by later steps.

        In each sequence all steps behind some step are exchanged.
        """
        shares = [0.0] * len(times)
        n_rounds = max(1, _TRIED // at_once)
        for _ in range(n_rounds):
            base, others = self._drawn(min(at_once, _TRIED), 1)
            count, length = len(base), self.data.length
            draws = torch.randint(length, (count, 1), generator=self.generator, device="cpu")
            is_exchanged = torch.arange(length)[None] > draws
            still = [value.detach().clone() for value in run(base)]
            made = run(self._mixed(base, others, is_exchanged))
            for index, (before, after) in enumerate(zip(still, made, strict=True)):
                moved = self._differs(before, after).cpu().numpy()
                own = times[index][None] <= draws.numpy().reshape(-1, *[1] * times[index].ndim)
                is_late = (moved & own & (times[index] >= 0)[None]).reshape(count, -1).any(1)
                shares[index] += float(is_late.mean()) / n_rounds
        return shares

    def _differs(self, one: Tensor, two: Tensor) -> Tensor:
        """Say of each entry of two passes if it is another, bit by bit; NaN is NaN."""
        two = two.detach()
        shapes = f"{tuple(one.shape)} and {tuple(two.shape)}"
        words = "of one shape for all data, as where torch.where chooses among all steps"
        require("values in the model", shapes, one.shape == two.shape, words)
        is_other = (one != two) & ~((one != one) & (two != two))
        if self.rounding and (one.is_floating_point() or one.is_complex()) and one.numel():
            sizes = one.abs()
            largest = float(sizes[sizes.isfinite()].max()) if bool(sizes.isfinite().any()) else 0.0
            is_other &= (one - two).abs() > self.rounding * torch.finfo(one.dtype).eps * largest
        return is_other

    def _drawn(self, count: int, n_each: int) -> tuple[Rows, Rows]:
        """Draw sequences, each several times, and for each of their steps one of another."""
        places = self.some(count)
        base = self.data.inputs[places]
        from_sequence, from_step = self._unlike(places)
        others = Rows(base.leaves)
        for index, leaf in enumerate(self.data.inputs.leaves):
            if self.data.has_steps(index):
                others.leaves[index] = leaf[from_sequence, from_step]

        def repeated(leaf: Tensor) -> Tensor:
            return leaf.repeat_interleave(n_each, 0)

        return base.map(repeated), others.map(repeated)

    def _unlike(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return for each step, (B, T), the sequence and the step of the most unlike one.

        It is the same step of another sequence; where all have the same, any step of any.
        """
        count, length = len(places), self.data.length
        candidates = self.some(_CANDIDATES)
        n_other = torch.zeros(count, len(candidates), length)
        for index, leaf in enumerate(self.data.inputs.leaves):
            if not self.data.has_steps(index):
                continue
            own = leaf[places].reshape(count, length, -1)
            other = leaf[candidates].reshape(len(candidates), length, -1)
            for row in range(count):  # never all in memory
                n_other[row] += (own[row][None] != other).sum(-1).cpu()
        ties = torch.rand(n_other.shape, generator=self.generator, device="cpu")
        best = (n_other + ties / 2).argmax(1)
        sequences = candidates[best]
        steps = torch.arange(length).expand(count, length).clone()
        is_same = n_other.max(1).values == 0
        for row, step in is_same.nonzero().tolist():
            for _ in range(_DRAWS):
                sequence = int(self.some(1))
                other = int(torch.randint(length, (), generator=self.generator, device="cpu"))
                if self._are_unlike(int(places[row]), step, sequence, other):
                    sequences[row, step], steps[row, step] = sequence, other
                    break
        return sequences, steps

    def _are_unlike(self, sequence: int, step: int, other: int, other_step: int) -> bool:
        """Say whether two steps differ in some input."""
        for index, leaf in enumerate(self.data.inputs.leaves):
            has_steps = self.data.has_steps(index)
            if has_steps and bool((leaf[sequence, step] != leaf[other, other_step]).any()):
                return True
        return False

    def _mixed(self, base: Rows, others: Rows, is_exchanged: Tensor) -> Rows:
        """Return sequences in which some steps, (B, T), are those of others."""
        mixed = Rows(base.leaves)
        for index, (leaf, other) in enumerate(zip(base.leaves, others.leaves, strict=True)):
            if self.data.has_steps(index):
                where = is_exchanged.to(leaf.device)
                where = where.reshape(*leaf.shape[:2], *[1] * (leaf.ndim - 2))
                mixed.leaves[index] = torch.where(where, other, leaf)
        return mixed


def _owners(moved: Tensor) -> Owners:
    """Find the axis of sequences, from what each of the sequences moves, (sequences, …)."""
    n_owners = moved.sum(0)
    if not bool(n_owners.any()):
        return Owners(None, False, False)
    if bool((n_owners > 1).any()):
        return Owners(None, True, False)
    owner = moved.to(torch.int8).argmax(0)
    for axis, size in enumerate(owner.shape):
        more, rest = divmod(size, TRIAL)
        if rest or not more:
            continue
        for within in range(more, 0, -1):  # sequences are mostly outside of their steps
            if more % within:
                continue
            wanted = torch.arange(size, device=owner.device) // within % TRIAL
            wanted = wanted.reshape(-1, *[1] * (owner.ndim - axis - 1))
            if bool(((n_owners == 0) | (owner == wanted)).all()):
                return Owners(Layout(axis, more // within, within), False, False)
    return Owners(None, False, True)


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


def of_rows(times: Steps, axes: tuple[int, ...]) -> Steps:
    """Return the time of each row, in a line."""
    others = tuple(axis for axis in range(times.ndim) if axis not in axes)
    return times.max(axis=others).reshape(-1)


def spread(times: Steps) -> Steps:
    """Return the time of each entry, that of its row, in a line."""
    axes = row_axes(times)
    others = tuple(axis for axis in range(times.ndim) if axis not in axes)
    latest = times.max(axis=others, keepdims=True)
    return np.broadcast_to(latest, times.shape).reshape(-1)
