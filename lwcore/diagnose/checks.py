"""What is refused of a model and its loss: sequences that are mixed, states, draws at random."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lwcore.diagnose.kept import kept_as_it_was
from lwcore.diagnose.objective import Objective
from lwcore.diagnose.outputs import require_finite, shown
from lwcore.diagnose.passes import FINITE, HOW_TO_NAME, Passes, held_at_once
from lwcore.diagnose.tensors import few, followed, in_reals, tensors_in
from lwcore.diagnose.trials import moved_apart
from lwcore.signatures import require

TRIED = 4  # sequences on which assumptions are tried
_HEAVIEST = 2  # and among them some of large losses


class Checks:
    """What is tried of passes and an objective, up to a rounding."""

    def __init__(self, passes: Passes, rounding: float) -> None:
        """Take a model, and how near numbers must be to count as equal."""
        self.passes = passes
        self.rounding = rounding

    def refuse_without_predictions(self) -> None:
        """Refuse what has no axis of sequences: none, or one along which they are mixed."""
        passes = self.passes
        trial = passes.trials.patterned()
        self._refuse_changes(lambda: tensors_in(passes.given(trial)))
        with torch.no_grad():
            given = passes.given(trial)
            others = tensors_in(passes.given(passes.trials.patterned()))
        tensors = tensors_in(given)
        require(
            "predictions",
            shown(given),
            bool(tensors),
            f"tensors, of which the loss is made. {HOW_TO_NAME}",
        )
        require_finite(passes.model, tensors)
        is_real = any(part.is_floating_point() or part.is_complex() for part in tensors)
        require(
            "predictions",
            str(tensors[0].dtype),
            is_real,
            "numbers with gradients: logits, say, and not the class of the largest (argmax)",
        )
        has_axes = any(part.ndim for part in tensors)
        require(
            "predictions",
            "one number for a batch",
            has_axes,
            "those of each sequence. Is it the loss, a mean over the batch? Say that by loss=",
        )
        is_moved = False
        for one, other in zip(tensors, others, strict=True):
            is_moved |= one.shape != other.shape or bool(moved_apart(one, other).any())
        require(
            "predictions",
            "the same for all inputs",
            is_moved,
            "ones that inputs move: is the last layer 0, as before training, or a state dead?",
        )
        require(
            "predictions",
            f"{shown(given)} for inputs {tuple(trial.shape)}",
            False,
            "tensors with an axis of sequences, each made of its own inputs. Are axes swapped? "
            "Sequences come first here, (B, T, …); layers of PyTorch read them so with "
            "batch_first=True. For a model of (T, B, …) say batch_first=False. Or does it draw "
            "noise of a fixed seed in each pass? Leave that out",
        )

    def refuse_mixed_sequences(self, inputs: Tensor) -> None:
        """Refuse a model whose predictions for a sequence are not its own, and say why."""
        some = inputs[self.passes.trials.some(TRIED).to(inputs.device)]
        self._refuse_changes(lambda: [self.passes.predictions(some)])
        self._refuse_mixed(some, 1)
        for part in inputs.split(self.passes.at_once):  # one of these may change others
            self._refuse_mixed(part, (len(part) + 1) // 2)

    def _refuse_mixed(self, inputs: Tensor, count: int) -> None:
        """Refuse sequences that are predicted otherwise if so many are run at a time."""
        together = self.passes.alone(inputs)
        require_finite(self.passes.model, [together], inputs, self.passes.trials.inputs)
        alone = torch.cat([self.passes.alone(part) for part in inputs.split(count)])
        largest = float(together.abs().max().clamp(min=1e-30))
        apart = float((alone - together).abs().max()) / largest
        words = "one that predicts for a sequence alone as among others. "
        if apart < 0.1:
            words += "Rounding may grow in its states: try model.double(). "
        words += (
            "Else sequences are mixed: are axes swapped (batch_first=True of the layers, or "
            "batch_first=False here, for inputs (T, B, …)), or is there a softmax, a scale or a "
            "normalisation over the batch, or noise that a seed in the model fixes?"
        )
        require(
            "model",
            f"{self.passes.kind}, with predictions {apart:.1g} apart",
            apart <= self.rounding,
            words,
        )

    def _refuse_changes(self, run: Callable[[], list[Tensor]]) -> None:
        """Refuse a model that gives something else the second time: by chance, or by a state."""
        kind = self.passes.kind
        changed = self._what_changes(run, self.passes.model, self.passes.head)
        if changed:
            require(
                "model",
                f"{kind}, which changed {', '.join(changed)}",
                False,
                "one that keeps no state from batch to batch: start each batch anew",
            )
        require(
            "model",
            f"{kind}, with other predictions the second time",
            changed is None,
            "one without random draws: a dropout that is on though model.eval() was called "
            "(training=self.training), or a random first state?",
        )

    def _what_changes(self, run: Callable[[], list[Tensor]], *roots: Any) -> list[str] | None:
        """Return the names of what changes a second run, if known; None if it is the same."""
        with torch.no_grad():
            if self._are_same(run(), run()):
                return None
            with kept_as_it_was(*roots) as kept:
                first = run()
                changed = kept.changed()
            with kept_as_it_was(*roots):
                second = run()
        return changed[:6] if self._are_same(first, second) else []

    def _are_same(self, first: list[Tensor], second: list[Tensor]) -> bool:
        """Say whether two runs gave the same, up to rounding."""
        for one, other in zip(first, second, strict=True):
            if one.shape != other.shape:
                return False
            one = in_reals(one).double()
            other = in_reals(other).double()
            if not torch.allclose(one, other, self.rounding, self.rounding, equal_nan=True):
                return False
        return True

    def refuse_joint_losses(
        self, objective: Objective, inputs: Tensor, targets: Tensor, chosen: dict[str, Tensor]
    ) -> Tensor:
        """Refuse a loss that is no sum or mean over sequences, tried on all of them.

        Returns the places of the sequences with the largest losses.
        """
        name = f"loss ({objective.name})"
        order = self.passes.trials.some(32).to(inputs.device)
        with torch.no_grad(), objective.explained(targets):
            self._refuse_changing_loss(objective, inputs[order], targets[order], chosen)
            is_sum = is_mean = True
            sizes = []
            every = self.passes.in_parts(inputs, targets)
            some = self.passes.in_parts(inputs[order], targets[order])
            for predictions, part in itertools.chain(every, some):  # never all in memory
                single = objective.of(predictions, part)
                bad = (~single.isfinite()).nonzero()[:, 0]
                require(
                    name,
                    f"{single[bad[:1]].tolist()} for sequence {bad[:1].tolist()}",
                    not len(bad),
                    "finite for each sequence alone. Does it compare sequences, or are all "
                    "targets of one left out? Then give the sum, not the mean, over those that "
                    "are not",
                )
                sizes.append(single.abs())
                joint = float(objective.of(predictions, part, len(part))[0])
                total = float(single.sum())
                mean = float(single.mean())
                allowed = self.rounding * float(single.abs().max())  # which may be tiny
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
        objective.averages = not is_sum
        n_heaviest = min(_HEAVIEST, len(inputs))
        return torch.cat(sizes)[: len(inputs)].topk(n_heaviest).indices.cpu()

    def refuse_infinite_gradients(
        self, objective: Objective, inputs: Tensor, targets: Tensor
    ) -> None:
        """Refuse a loss that has a value, and no gradient, for some sequence."""
        at_once = held_at_once(TRIED * self.passes.outputs.entries)
        n_tried = 0
        with objective.explained(targets):
            for predictions, part in self.passes.in_parts(inputs, targets):
                pairs = zip(predictions.split(at_once), part.split(at_once), strict=True)
                for pair in pairs:
                    gradients = objective.gradients(*pair)
                    bad = (~gradients.isfinite().all(1)).nonzero()[:, 0] + n_tried
                    require(
                        f"loss ({objective.name})",
                        f"with a gradient that is NaN or infinite, for sequence {bad[:1].tolist()}",
                        not len(bad),
                        FINITE,
                    )
                    n_tried += len(gradients)

    def _refuse_changing_loss(
        self, objective: Objective, inputs: Tensor, targets: Tensor, chosen: dict[str, Tensor]
    ) -> None:
        """Refuse a loss that is another the second time, or takes parameters."""
        name = f"loss ({objective.name})"
        predictions = self.passes.alone(inputs)
        changed = self._what_changes(lambda: [objective.of(predictions, targets)], objective.loss)
        if changed:
            require(
                name,
                f"one that changed {', '.join(changed)}",
                False,
                "one that keeps no state from batch to batch",
            )
        require(
            name,
            "another value the second time",
            changed is None,
            "the same for the same predictions. Does it draw at random, as negatives? Draw these "
            "once, beforehand, and give them in further columns of the targets",
        )
        taken = []
        with followed(chosen.values()):
            total = objective.of(predictions, targets).sum()
            if total.requires_grad:
                parts = torch.autograd.grad(total, [*chosen.values()], allow_unused=True)
                for key, part in zip(chosen, parts, strict=True):
                    if part is not None:
                        taken.append(key)
        require(
            name,
            f"one that takes {few(taken)}",
            not taken,
            "one of predictions and targets alone. Leave out what it adds for parameters, as a "
            "weight decay, which has no lag, and make logits in the model, if it makes them by "
            "an embedding's weights",
        )
