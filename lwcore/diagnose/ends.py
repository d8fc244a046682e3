"""When predictions are made: at the last step whose input moves them; and what looks ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lwcore.diagnose.checks import TRIED
from lwcore.diagnose.losses import WEIGHED
from lwcore.diagnose.objective import Objective
from lwcore.diagnose.outputs import Leaf
from lwcore.diagnose.passes import Passes
from lwcore.diagnose.times import SIGHTINGS, Evidence, Rows, Sightings, rows_of
from lwcore.diagnose.trials import (
    last_steps,
    moved_apart,
    n_pairs,
    starts,
    steps_by_pair,
)
from lwcore.signatures import require

Values = Callable[[Tensor], Sequence[Tensor]]  # of inputs (B, T, …), tensors (B, …)

_ROUNDS = 32  # of pairs of sequences, until the times of all values are sure
_TOGETHER = 16  # pairs of sequences in which later steps are tried alone
_LONGEST = 1024  # steps, of which each can be tried
_TRIES = 12  # other steps that a sequence is tried with, before its prediction does not move
UNMOVED = 0.05  # share of sequences whose predictions may not move: behind a ReLU, say


class Ends:
    """The step at which each prediction is made, and pairs of sequences that tell times."""

    def __init__(self, passes: Passes, objective: Objective, targets: Tensor) -> None:
        """Draw pairs of sequences."""
        self.passes = passes
        self.objective = objective
        self.targets = targets
        self.trials = passes.trials
        self.length = self.trials.length
        n_first = n_pairs(len(starts(self.length)))
        self.pairs = [self.trials.pair() for _ in range(n_first)]

    def measure(self, is_horizon: bool) -> None:
        """Measure when each prediction is made, and refuse those that look ahead."""
        ends = []
        moving: set[int] = set()  # steps at which predictions move, unlike a constant first one
        for place, rows in enumerate(self._rows()):
            require(
                "model", self.passes.kind, rows is not None, "one whose predictions inputs move"
            )
            assert rows is not None
            self._refuse_swapped_classes(self.passes.outputs.leaves[place], rows)
            if is_horizon:
                rows = rows._replace(times=np.full_like(rows.times, rows.times.max()))
            else:
                self._refuse_looks_ahead(place, rows)
            ends.append(rows.spread())
            moving.update(rows.times[rows.is_moved].tolist())
        self.moving = sorted(moving)
        self.of_each = torch.from_numpy(np.concatenate(ends).astype(np.int64))
        self.steps = sorted({*self.of_each.tolist()} - {-1})

    @property
    def at_each_step(self) -> bool:
        """Whether a prediction that inputs move is made at each step."""
        return len(self.moving) == self.length

    def _rows(self) -> list[Rows | None]:
        """Measure the last step that moves each prediction.

        Few that seem to be made earlier than others beside them may only not have moved, as behind
        a ReLU. They are made earlier if all pairs of sequences say so.
        """

        def gather(found: list[Sightings]) -> Evidence:
            rows = [one.bounds for one in found if one.bounds is not None]
            return Evidence(rows, [], n_behind=0)

        entries = self.passes.outputs.entries
        found = self.sightings(self.passes.parted, entries, gather, splits=True)
        require(
            "predictions",
            "made at a step that moves them in few trials, as behind a gate that is mostly closed",
            gather(found).are_sure(self.length),
            f"ones that it moves in {SIGHTINGS} trials or more: open the gate to measure",
        )
        return [one.rows for one in found]

    def sightings(
        self,
        values: Values,
        entries: int,
        gather: Callable[[list[Sightings]], Evidence],
        splits: bool = False,
    ) -> list[Sightings]:
        """Measure the last steps that move some values, until they are sure, or for some rounds.

        All steps are tried where some do not tell the time of each row. In the end later steps are
        tried alone, in many pairs of sequences: one may move a row now and then.
        """
        tried = starts(self.length)
        pairs = self.pairs
        found: list[Sightings] = []
        for _ in range(_ROUNDS):
            for by_pair in steps_by_pair(values, pairs, tried, entries):
                found = found or [Sightings(tried, self.length, splits) for _ in by_pair]
                for one, steps in zip(found, by_pair, strict=True):
                    one.add(steps)
            evidence = gather(found)
            if len(tried) < self.length and not evidence.are_told:
                self._refuse_too_long()
                tried = [*range(self.length)]
                found = []
                continue
            is_sure = evidence.are_sure(self.length) and not any(one.may_split for one in found)
            if is_sure and not self._later_moves(values, entries, found, evidence):
                break
            pairs = [self.trials.pair() for _ in self.pairs]
        return found

    def _later_moves(
        self, values: Values, entries: int, found: list[Sightings], evidence: Evidence
    ) -> bool:
        """Say whether a later step moves some rows after all, now and then; if so, note it."""
        later = evidence.later_starts(self.length)
        if not later:
            return False
        for _ in range(0, n_pairs(len(later)), _TOGETHER):
            pairs = [self.trials.pair() for _ in range(_TOGETHER)]
            for by_pair in steps_by_pair(values, pairs, later, entries):
                is_moved = False
                for one, steps in zip(found, by_pair, strict=True):
                    is_moved |= one.add_later(steps)
                if is_moved:
                    return True
        return False

    def _refuse_too_long(self) -> None:
        """Refuse long sequences where each step has to be tried, which takes T² of them."""
        require(
            "steps of a sequence",
            self.length,
            self.length <= _LONGEST,
            f"at most {_LONGEST} where parameters are not used, or predictions not made, at each "
            "step in turn, as in patches of several steps: cut sequences into shorter ones",
        )

    # What looks ahead, or seems to

    def _refuse_swapped_classes(self, leaf: Leaf, rows: Rows) -> None:
        """Refuse a loss that takes the axis of steps for that of classes."""
        second = 2  # of `leaf.shape`, which begins with what shares the axis of sequences
        if leaf.layout.axis != 0 or len(leaf.shape) != 4 or second not in rows.axes:
            return
        loss = self.objective.loss
        is_swapped = type(loss) in WEIGHED or loss is functional.cross_entropy
        if not is_swapped and self._fits_both_ways(leaf):
            is_swapped = self._compares_steps_as_classes()
        require(
            f"loss ({self.objective.name})",
            "classes second",
            not is_swapped,
            "one that has classes where the model has them. Steps come second here, as they "
            "change along this axis: loss=None, or "
            "loss=lambda p, y: torch.nn.functional.cross_entropy(p.mT, y)",
        )

    def _fits_both_ways(self, leaf: Leaf) -> bool:
        """Say whether predictions are (T, T) and targets (T,): there may be as many classes."""
        is_square = leaf.shape[-2:] == (self.length, self.length)
        is_all = leaf.shape.numel() == self.length**2
        return is_square and is_all and self.targets.shape[1:] == (self.length,)

    def _compares_steps_as_classes(self) -> bool:
        """Say whether the target of step j pulls on entry j of other steps, and not on step j.

        As where predictions (B, T, V) are taken for (B, classes, steps), which V = T allows.
        """
        some = self.trials.some(TRIED)
        predictions = self.passes.alone(self.trials.inputs[some.to(self.trials.inputs.device)])
        targets = self.targets[some.to(self.targets.device)]
        is_swapped = False
        for row, prediction in enumerate(predictions.split(1)):
            target = targets[row : row + 1]
            step = (row + 1) * self.length // (TRIED + 1)
            values = self.targets[self.targets != target[0, step]]
            if not len(values):
                continue
            other = target.clone()
            other[0, step] = values[0]
            of_target = self.objective.gradients(prediction, target)
            is_moved = of_target != self.objective.gradients(prediction, other)
            steps, entries = is_moved.reshape(self.length, -1).nonzero().mT
            if bool((entries != step).any()):
                return False
            is_swapped |= bool((steps != step).any())
        return is_swapped

    def _refuse_looks_ahead(self, place: int, rows: Rows) -> None:
        """Refuse predictions of a step that later inputs move."""
        kind = self.passes.kind
        shape = self.passes.outputs.leaves[place].shape
        length = self.length
        if len(rows.axes) == 1 and len(rows.times) == length:  # a prediction at each step
            ahead = np.flatnonzero(rows.times > np.arange(length)).tolist()
            if ahead:
                step = ahead[0]
                require(
                    "model",
                    f"{kind}: the prediction of step {step} moves with the inputs up to step "
                    f"{rows.times[step]}",
                    False,
                    "one that looks at no later inputs: is a causal mask missing, or a shift, "
                    "does it normalise over time, run in two directions, or see a prefix as a "
                    f"whole? Or leave out {len(ahead)} predictions, by a head",
                )
            return
        are_all_last = bool((rows.times == length - 1).all())
        if shape.numel() == 1 or not are_all_last:
            return
        require(
            "model",
            f"{kind}: all predictions move with the last step, and not all with the first",
            not self._runs_backwards(place),
            "one that looks at no later inputs: does it run from the last step to the first? If "
            "they are a horizon, made at the last step, say horizon=True",
        )
        require(
            "model",
            f"{kind}: all {length} predictions of a sequence move with all inputs",
            length not in self.targets.shape[1:] or length not in shape,
            f"one whose {length} predictions look at no later inputs: is the causal mask missing, "
            "does it normalise over time, or run in two directions? If they are a horizon, made "
            "at the last step, say horizon=True. If inputs are (B, C, T), say time_axis=2",
        )

    def _runs_backwards(self, place: int) -> bool:
        """Say whether some predictions see all inputs, and others the last half or less."""
        entries = self.passes.outputs.entries
        found = last_steps(self.passes.parted, self.pairs[:1], entries, backwards=True)
        rows = rows_of(found[place], self.length)
        if rows is None or len(rows.times) == 1:
            return False
        last = self.length - 1
        first_seen = last - rows.times
        return bool(first_seen.max() == last and first_seen.min() <= last // 2)

    # Whether they are made then in the data, too

    def check_data(self, inputs: Tensor, at_padding: bool) -> None:
        """Refuse data whose predictions are not all made when those of the trials are.

        One step of every sequence is changed, at which a prediction is made. `at_padding` says that
        it does not matter whether predictions of padded sequences are made earlier.
        """
        count = len(inputs)
        steps = self._draw(count)
        unmoved: list[int] = []
        for places in torch.arange(count).split(self.passes.at_once):
            own = inputs[places.to(inputs.device)]
            step = steps[places]
            moved, earlier = self._moved_by_steps(own, step)
            moved |= self._moved_by_others(own, step, moved)
            # a step of padding that is another tells a model that the sequence is longer
            is_real = self.trials.padding_behind(own).cpu() <= self.length - 1 - step
            earlier &= is_real
            require(
                "model",
                f"{self.passes.kind}: predictions of sequence {places[earlier][:1].tolist()} move "
                "with later steps",
                not bool(earlier.any()),
                "one whose predictions no later inputs move",
            )
            unmoved += places[~moved & is_real].tolist()
        if at_padding or len(unmoved) < max(2, UNMOVED * count):
            return
        require(
            "model",
            f"{self.passes.kind}: predictions of {len(unmoved)} of {count} sequences do not move "
            f"with the step at which they are made in others (sequence {unmoved[0]})",
            False,
            "one whose predictions do: are they read out where a sequence ends? Then give those "
            "of all steps, and leave some out in the loss, or pad on the left. Are they a maximum "
            "over steps? Take torch.logsumexp in its place to measure. Are they clamped, "
            "behind a gate that is mostly closed, or made of classes of the inputs? Then give what "
            "they are made of",
        )

    def _moved_by_others(self, inputs: Tensor, steps: Tensor, moved: Tensor) -> Tensor:
        """Say which sequences move in more trials, as the first may have done nothing.

        By other inputs at the same step, and then at other steps: a gate may skip some places.
        """
        moved = moved.clone()
        for attempt in range(2 * _TRIES if self.at_each_step else _TRIES):
            left = (~moved).nonzero()[:, 0]
            if not len(left):
                break
            changed = steps[left] if attempt < _TRIES else self._draw(len(left))
            is_moved, _ = self._moved_by_steps(inputs[left.to(inputs.device)], changed)
            moved[left] |= is_moved
        return moved

    def _draw(self, count: int) -> Tensor:
        """Draw steps at which predictions are made."""
        generator = self.trials.generator
        draws = torch.randint(len(self.moving), (count,), generator=generator, device="cpu")
        return torch.tensor(self.moving)[draws]

    def _moved_by_steps(self, inputs: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Say whether changes of one step move predictions made at it, and those made before."""
        before = self.passes.alone(inputs)
        after = self.passes.alone(self.trials.changed(inputs, steps))
        is_moved = moved_apart(before, after).cpu()
        at_step = self.of_each[None] == steps[:, None]
        before_it = (self.of_each[None] < steps[:, None]) & (self.of_each[None] >= 0)
        return (is_moved & at_step).any(1), (is_moved & before_it).any(1)
