"""Trials: inputs made of the steps of the data, and the last step of them that moves a value.

What a value depends on is measured: steps of a sequence are replaced by those of other sequences,
and what moves is compared. Nothing is read off names or sizes of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lwcore.signatures import require

Steps = np.ndarray  # of whole numbers; jaxtyping cannot read its NDArray

PATTERN = (0, 1, 0, 0, 1, 1, 1)  # which of two sequences stands where in a trial batch
FEWEST_PAIRS = 3  # of sequences, from each of which times are measured
# and more in short sequences: what moves a value at any step in one of fifty pairs is then missed
# once in 30,000, if each step is alike
_TESTED = 512  # steps of sequences that are tried
_EVERY = 96  # steps, up to which the replacement begins at every one of them
_PROBED = 32  # places in longer sequences, each with the two steps behind it
_AT_ENDS = 16  # steps at either end of longer sequences
_NUMBERS = 2**23  # that are compared at a time
_AT_ONCE = 128  # sequences that are run at a time, at the most
_POOL = 4096  # steps to draw from
_ALTERNATIVES = 4  # steps to choose from at the least, in place of another one
_TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-6}  # of the largest value: rounding
_COARSE = 0.02  # of other types, between copies of a sequence
_TIMES = 10  # the rounding that copies show, from which on a value has moved


class Layout(NamedTuple):
    """Where a tensor has its sequences: an axis, which may hold more, around and within them.

    A linear layer may see sequences, steps and features as (B, T, H), or as (B·T, H): there the
    axis 0 has B sequences with T rows *within* each. As (T·B, H) it has T rows *around* them.
    """

    axis: int
    around: int
    within: int

    @classmethod
    def of(cls, values: Tensor) -> Layout | None:
        """Find the sequences of a trial batch, `PATTERN`, or None if the values know of none.

        Places of one sequence hold the same numbers, those of the other one others. No size is
        compared with the number of sequences: other axes may be as long.
        """
        count = len(PATTERN)
        for axis, size in enumerate(values.shape):
            if size == 0 or size % count:
                continue
            more = size // count
            for within in range(more, 0, -1):  # sequences are mostly outside of their steps
                if more % within:
                    continue
                layout = cls(axis, more // within, within)
                if _follows_the_pattern(layout.front(values)):
                    return layout
        return None

    def front(self, values: Tensor) -> Tensor:
        """Return the values with their sequences in front: (B, …), where B may be another one."""
        count = values.shape[self.axis] // (self.around * self.within)
        parted = values.unflatten(self.axis, (self.around, count, self.within))
        return parted.movedim(self.axis + 1, 0)

    def holds(self, values: Tensor, count: int) -> bool:
        """Say whether values are of so many sequences, as those of rows that data choose are not.

        Such rows may follow the pattern of a trial by chance.
        """
        is_there = values.ndim > self.axis
        return is_there and values.shape[self.axis] == self.around * count * self.within

    def back(self, values: Tensor) -> Tensor:
        """Undo `front`."""
        parted = values.movedim(0, self.axis + 1)
        return parted.flatten(self.axis, self.axis + 2)


def _follows_the_pattern(front: Tensor) -> bool:
    """Say whether rows are equal where the sequences of a trial batch are, and differ elsewhere."""
    rows = front.detach().reshape(len(PATTERN), -1)
    firsts = [rows[PATTERN.index(which)] for which in (0, 1)]
    noise = 0.0
    for row, which in zip(rows, PATTERN, strict=True):
        noise = max(noise, float(_distance(row, firsts[which]).max()))
    if noise > _rounding(rows, _COARSE):
        return False
    return float(_distance(*firsts).max()) > max(_rounding(rows), _TIMES * noise)


def moved_apart(one: Tensor, two: Tensor) -> Tensor:
    """Say of each entry of two passes over the same sequences if rounding does not explain it."""
    return _distance(one, two) > _rounding(one)


def _distance(one: Tensor, two: Tensor) -> Tensor:
    """Return |one − two|, where infinities that are the same are no distance apart."""
    wide = torch.promote_types(one.dtype, torch.float32)
    apart = (one.to(wide) - two.to(wide)).abs()
    apart = torch.where(one == two, torch.zeros_like(apart), apart)
    return apart.nan_to_num(nan=torch.inf)


def _rounding(values: Tensor, coarse: float = 0.0) -> float:
    """Return how far apart values are by rounding at the most.

    Of coarse types, as bfloat16, this share of the largest value. It is 0 where values are compared
    that were computed alike: what moves little, as the one number of a head, must be seen to move.
    """
    if not (values.is_floating_point() or values.is_complex()):
        return 0.0
    wide = torch.promote_types(values.dtype, torch.float32)
    sizes = values.to(wide).abs()
    finite = sizes[sizes.isfinite()]
    largest = float(finite.max()) if finite.numel() else 0.0
    real = values.real.dtype if values.is_complex() else values.dtype
    return _TOLERANCE.get(real, coarse) * largest


class Trials:
    """Pairs of sequences that differ in every step, made of the steps that occur in the data.

    Columns that never change within a sequence, such as the number of a shop, belong to no step:
    they are the same in both.
    """

    def __init__(self, inputs: Tensor, seed: int = 0) -> None:
        """Take data (N, T, …), and a pool of steps to draw from. Padding is not drawn."""
        self.inputs = inputs
        self.generator = torch.Generator("cpu").manual_seed(seed)
        self.length = inputs.shape[1]
        self.pad = padding_value(inputs)
        self.padded = padding(inputs, self.pad)
        is_real = ~self.padded
        steps = inputs[is_real] if bool(is_real.any()) else inputs.flatten(0, 1)
        order = torch.randperm(len(steps), generator=self.generator, device="cpu")
        chosen = order[:_POOL].to(steps.device)
        self.pool = steps[chosen]
        self.static = _static_columns(inputs, is_real)
        self.varies = (self.pool != self.pool[:1]).any(0) & ~self.static  # which columns of a step
        words = "steps that differ, so that one can be changed"
        require("inputs", "all steps equal", bool(self.varies.any()), words)

    def pair(self) -> Tensor:
        """Draw two sequences, (2, T, …), that differ in every step and hold no padding."""
        n_padded = self.padded.sum(1)
        fullest = (n_padded == n_padded.min()).nonzero()[:, 0]
        place = int(fullest[self._draw(len(fullest))])
        first = self.inputs[place].clone()
        for step in self.padded[place].nonzero()[:, 0].tolist():
            first[step] = self.pool[self._draw(len(self.pool))]
        second = self.inputs[self._draw(len(self.inputs))].clone()
        differs = (second != first)[:, self.varies].all(1)
        for step in (~differs).nonzero()[:, 0].tolist():
            second[step] = self._unlike(first[step])
        second = torch.where(self.static, first, second)
        return torch.stack([first, second])

    def patterned(self) -> Tensor:
        """Return a trial batch in which each of two sequences stands several times."""
        return self.pair()[list(PATTERN)]

    def some(self, count: int) -> Tensor:
        """Draw places of a few sequences of the data, none twice."""
        order = torch.randperm(len(self.inputs), generator=self.generator, device="cpu")
        return order[:count].sort().values

    def changed(self, inputs: Tensor, steps: Tensor) -> Tensor:
        """Return sequences of which one step each is another: of the pool, and not the same."""
        other = inputs.clone()
        for row, step in enumerate(steps.tolist()):
            own = inputs[row, step].to(self.pool)
            other[row, step] = torch.where(self.static, own, self._unlike(own)).to(inputs)
        return other

    def _unlike(self, step: Tensor) -> Tensor:
        """Draw a step of the data that differs from one in as many columns as a few others do.

        In a rare flag beside a number, too: else what is made of the flag would not move.
        """
        is_other = (self.pool != step) & self.varies
        n_columns = is_other.reshape(len(self.pool), -1).sum(1)
        most = n_columns.topk(min(_ALTERNATIVES, len(self.pool))).values[-1]
        places = (n_columns >= most.clamp(min=1)).nonzero()[:, 0]
        place = int(places[self._draw(len(places))])
        return self.pool[place]

    def _draw(self, below: int) -> int:
        """Draw a whole number from 0 on."""
        return int(torch.randint(below, (1,), generator=self.generator, device="cpu"))

    def padding_behind(self, inputs: Tensor) -> Tensor:
        """Return how many steps of padding stand behind each of some sequences."""
        value = None if self.pad is None else self.pad.to(inputs.device)
        padded = padding(inputs, value)
        return padded.flip(1).cumprod(1).sum(1)

    def like_padding(self, inputs: Tensor) -> Tensor:
        """Say which steps of some sequences, (N, T), are what padding is, wherever they stand."""
        if self.pad is None:
            return torch.zeros(inputs.shape[:2], dtype=torch.bool)
        rows = inputs.reshape(*inputs.shape[:2], -1)
        return (rows == self.pad.to(inputs.device)).all(-1)


def _static_columns(inputs: Tensor, is_real: Tensor) -> Tensor:
    """Say which columns of a step never change within a sequence, though others do."""
    padded = ~is_real.reshape(*is_real.shape, *[1] * (inputs.ndim - 2))
    is_static = ((inputs == inputs[:, :1]) | padded).flatten(0, 1).all(0)
    return is_static & ~is_static.all()


def padding_value(inputs: Tensor) -> Tensor | None:
    """Return the step that pads sequences at an end, if any does: the most frequent of all runs.

    A run is of two and more equal steps at an end of a sequence that has others, too.
    """
    if len(inputs) < 2 or inputs.shape[1] < 3:
        return None
    rows = inputs.reshape(*inputs.shape[:2], -1)
    varied = (rows != rows[:, :1]).any(-1).any(1)
    ends = []
    for end, beside in ((0, 1), (-1, -2)):
        is_run = (rows[:, end] == rows[:, beside]).all(-1) & varied
        ends.append(rows[is_run, end])
    values, counts = torch.cat(ends).unique(dim=0, return_counts=True)
    if not len(values) or int(counts.max()) == 1:
        return None
    return values[counts.argmax()]


def padding(inputs: Tensor, value: Tensor | None) -> Tensor:
    """Return which steps, (N, T), are padding: those of a value, at an end of a sequence."""
    if value is None:
        return torch.zeros(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
    same = (inputs.reshape(*inputs.shape[:2], -1) == value).all(-1)
    before = same.cumprod(1).bool()
    behind = same.flip(1).cumprod(1).flip(1).bool()
    return (behind | before) & ~same.all(1, keepdim=True)


class Times(NamedTuple):
    """Of each entry of a value the last step that moves it: from `low` to `high`; −1 is none."""

    low: Steps
    high: Steps


def n_pairs(n_starts: int) -> int:
    """Return from how many pairs of sequences times are measured, by the steps that are tried."""
    return max(FEWEST_PAIRS, -(-_TESTED // n_starts))


def last_steps(
    values: Callable[[Tensor], Sequence[Tensor]],
    pairs: Sequence[Tensor],
    entries: int,
    backwards: bool = False,
) -> list[Times]:
    """Measure of each entry of some values the last step of the inputs that moves it.

    If `backwards`, the second sequence of a pair replaces all but the last k steps of the first:
    then the largest k that moves an entry is the distance of its first step from the last one. See
    `steps_by_pair`.
    """
    length = pairs[0].shape[1]
    tried = starts(length)
    found: list[Steps] = []
    for by_pair in steps_by_pair(values, pairs, tried, entries, backwards):
        latest = [one.max(0) for one in by_pair]
        found = list(map(np.maximum, found, latest)) if found else latest
    return [Times(low, next_starts(low, tried, length)) for low in found]


def steps_by_pair(
    values: Callable[[Tensor], Sequence[Tensor]],
    pairs: Sequence[Tensor],
    tried: Sequence[int],
    entries: int,
    backwards: bool = False,
) -> Iterator[list[Steps]]:
    """Yield of some pairs at a time the last step that moves each entry: (pairs, …) of each value.

    `values` gives tensors (B, …) for inputs (B, T, …). The second sequence of a pair replaces the
    first one from some step k on: the largest k that moves an entry is its last step. So many
    sequences are run at a time that their `entries`, of each, stay few.
    """
    few = max(1, min(_AT_ONCE, _NUMBERS // max(entries, 1)) - 2)
    n_together = max(1, (few + 2) // (len(tried) + 2))
    for first in range(0, len(pairs), n_together):
        together = pairs[first : first + n_together]
        found: list[Steps] = []
        for place in range(0, len(tried), few):
            some = tried[place : place + few]
            for index, made in enumerate(_run_mixed(values, together, some, backwards)):
                by_pair = made.unflatten(0, (len(together), len(some) + 2))
                if index == len(found):
                    shape = (len(together), *made.shape[1:])
                    found.append(np.full(shape, -1, dtype=np.int32))
                for start, moved in zip(some, _moved(by_pair), strict=True):
                    np.maximum(found[index], start, out=found[index], where=moved)
        yield found


def _run_mixed(
    values: Callable[[Tensor], Sequence[Tensor]],
    pairs: Sequence[Tensor],
    starts: Sequence[int],
    backwards: bool,
) -> list[Tensor]:
    """Return values of each pair's first sequence, of its mixtures, and of the first once more."""
    rows = []
    for pair in pairs:
        rows.append(pair[0])
        for start in starts:
            rows.append(_mixed(pair, start, backwards))
        rows.append(pair[0])
    with torch.enable_grad():
        return [made.detach() for made in values(torch.stack(rows))]


def starts(length: int) -> list[int]:
    """Return the steps from which on inputs are replaced.

    In long sequences these are those at both ends, and three neighbours k, k + 1, k + 2 in some
    places. A value that moves
    with k and not with k + 1 has the last step k, exactly. One that moves with k + 2, too, lies
    before the next three.
    """
    if length <= _EVERY:
        return list(range(length))
    places = np.linspace(0, length - 3, _PROBED).round().astype(int)
    within = places[:, None] + np.arange(3)
    ends = [np.arange(_AT_ENDS), length - 1 - np.arange(_AT_ENDS)]
    return np.unique(np.concatenate([within.ravel(), *ends])).tolist()


def _mixed(pair: Tensor, start: int, backwards: bool) -> Tensor:
    """Return the first sequence, with steps of the second one from a start on."""
    if backwards:  # up to there
        kept = pair.shape[1] - start
        return torch.cat([pair[1, :kept], pair[0, kept:]])
    return torch.cat([pair[0, :start], pair[1, start:]])


def _moved(values: Tensor) -> Steps:
    """Say which entries of all rows but the first and the last of a pair are not those of these.

    Of values (pairs, rows, …); returned with the rows in front. The first and the last row of a
    pair are of one sequence. What is between them is rounding.
    """
    base = values[:, :1]
    noise = float(_distance(values[:, -1:], base).max()) if base.numel() else 0.0
    # of all rows: that of the first sequence may be near zero by chance, and rounding is not
    limit = _rounding(values)
    if np.isfinite(noise):
        limit = max(limit, _TIMES * noise)
    moved = _distance(values[:, 1:-1], base) > limit
    return moved.swapaxes(0, 1).cpu().numpy()


def next_starts(last: Steps, tried: Sequence[int], length: int) -> Steps:
    """Return the step before the next start behind those found: what they are at the most."""
    following = np.append(tried[1:], length)
    places = np.searchsorted(tried, np.maximum(last, 0))
    return np.where(last < 0, -1, following[places] - 1).astype(np.int32)
