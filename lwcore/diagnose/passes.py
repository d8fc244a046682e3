"""Passes of a reader's model, and what it gives: one row of predictions for each sequence.

The model runs as it is, in its own precision and layout. All numbers that it gives for a sequence
stand side by side, (B, K).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as trees

from lwcore.ambient import placed
from lwcore.diagnose.clock import Clock
from lwcore.diagnose.data import Axes, Pair
from lwcore.diagnose.models import OPERATORS, NoOperators, made_of_parameters
from lwcore.diagnose.outputs import Outputs, only_tensor, shown
from lwcore.diagnose.tensors import (
    explained,
    in_order,
    is_out_of_room,
    said_by,
    speaks_of_shapes,
)
from lwcore.diagnose.trials import PATTERN, Trials
from lwcore.signatures import require

RUN = 64  # sequences that the model alone is run on at a time
_HELD = 2**23  # numbers in the predictions that are held at a time
_TRIES = 12  # trial batches in which predictions are sought: in the first, a gate may be closed
HOW_TO_NAME = (
    "Say of which the loss is made, by head=lambda out: out[0], out['logits'], out.logits or "
    "(out.loc, out.scale), say, and how, by loss="
)
FINITE = "finite. Is there a root or a norm of 0, or a logarithm of 0 behind a torch.where?"
EXCHANGED = (
    "On trial, steps of one sequence stand in another, to see what depends on them: give a model "
    "that takes logarithms or roots of differences of steps, or looks at their order, the "
    "differences as inputs, leave out what checks the data, and divide by the count of a mask only "
    "if it is not 0: mask.sum(1).clamp(min=1)"
)


class Passes:
    """A reader's model with its head, as a function of inputs (B, T, …)."""

    def __init__(
        self,
        model: nn.Module,
        head: Callable[..., Tensor] | None,
        axes: Axes,
        inputs: Tensor,
        clock: Clock,
    ) -> None:
        """Try it on two sequences of the data."""
        self.model = model
        self.head = head
        self.axes = axes
        self.clock = clock
        self.kind = type(model).__name__
        self.device = next(model.parameters(), torch.zeros(())).device
        self.trials = Trials(placed(inputs, self.device))
        self.at_once = RUN
        self.takes_all = True  # whether the loss takes all that the model gives

        # On the data first: if the model fails later, made-up inputs are to blame.
        self.fits_data = False
        with NoOperators():
            self.given(self.trials.inputs[:2])
        self._refuse_caches()
        self.fits_data = True

    def find_outputs(self) -> bool:
        """Find the predictions in what the model gives for a trial batch; say if there are some."""
        for _ in range(_TRIES):
            given = self.given(self.trials.patterned())
            self.outputs = Outputs.of(given)
            if self.outputs.leaves:
                break
        self.gives = shown(given)
        if not self.outputs.leaves:
            return False
        with explained("predictions", f"{self.gives}: cannot be put together anew", HOW_TO_NAME):
            self.outputs.shapes()
        return True

    def given(self, inputs: Tensor) -> Any:
        """Return what the loss takes of what the model gives, through the head if there is one."""
        self.clock.refuse_late()
        own = in_order(self.axes.inputs_back(placed(inputs, self.device)))
        words = f"fails on {len(inputs)} sequences, inputs of the shape {tuple(own.shape)}"
        with explained(f"model ({self.kind})", words, lambda error: self._advice(inputs, error)):
            are_followed = torch.is_grad_enabled()
            given = self.model(own)
            require(
                "model",
                f"{self.kind}, which leaves torch.set_grad_enabled(False) behind",
                torch.is_grad_enabled() or not are_followed,
                "one that turns gradients off within `with torch.no_grad():`, if at all",
            )
        if self.head is not None:
            with explained("head", f"fails on what the model gives, {shown(given)}"):
                given = self.head(given)
        for part in trees.tree_leaves(given, is_leaf=_is_packed):
            require(
                "predictions",
                "a PackedSequence",
                not _is_packed(part),
                "tensors with an axis of sequences: head=lambda out: "
                "torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]",
            )
        return given if self.takes_all else only_tensor(given)

    def predictions(self, inputs: Tensor) -> Float[Tensor, "B K"]:
        """Return all numbers that the model gives for each sequence, as one row."""
        given = self.given(inputs)
        require(
            "predictions",
            f"{shown(given)} for {len(inputs)}",
            self.outputs.fit(given, len(inputs)),
            f"as for {len(PATTERN)}: {self.gives}. Does it drop axes of length 1, by squeeze()? "
            "Then name the axis, squeeze(-1). Does it do otherwise by what the data hold?",
        )
        return self.outputs.rows(given)

    def alone(self, inputs: Tensor) -> Float[Tensor, "B K"]:
        """Return predictions of which no gradient is asked."""
        with torch.no_grad():
            return self.predictions(inputs)

    def parted(self, inputs: Tensor) -> list[Tensor]:
        """Return each tensor that the model gives for a trial, with its sequences in front."""
        rows = self.alone(inputs)
        is_finite = bool(rows.isfinite().all())
        require(
            "predictions",
            "NaN or infinite where those of the data are not",
            is_finite,
            f"finite. {EXCHANGED}",
        )
        return self.outputs.parted(rows)

    def in_parts(self, inputs: Tensor, targets: Tensor) -> Iterator[Pair]:
        """Yield predictions beside targets, of as many sequences as memory is to hold."""
        held: list[Tensor] = []
        size = start = end = 0
        for part in inputs.split(self.at_once):
            made = self.alone(part)
            if held and size + made.numel() > _HELD:
                yield torch.cat(held), targets[start:end]
                held = []
                size = 0
                start = end
            held.append(made)
            size += made.numel()
            end += len(part)
        yield torch.cat(held), targets[start:end]

    def _refuse_caches(self) -> None:
        """Refuse a model that holds what was once made of parameters: later passes do not."""
        before = made_of_parameters(self.model)
        self.given(self.trials.inputs[:2])
        after = made_of_parameters(self.model)
        held = [name for name, part in before.items() if after.get(name) is part]
        require(
            "model",
            f"{self.kind}, which holds {', '.join(held)}",
            not held,
            "one that makes in each pass what it makes of parameters: set a cache to None as each "
            "pass begins, or turn it off to measure",
        )

    def _advice(self, inputs: Tensor, error: Exception) -> str:
        """Say what is likely wrong where the model fails."""
        if is_out_of_room(error):
            return ""
        if not torch.is_grad_enabled() and "require grad" in said_by(error):
            return "Does it take gradients as it predicts? Do so within torch.enable_grad()"
        if type(error).__module__.startswith("torch._dynamo"):
            return f"Write {OPERATORS} as loops and conditions of Python, to measure"
        data = self.trials.inputs
        if isinstance(error, IndexError) and not inputs.is_floating_point():
            return (
                f"Tokens of the data are {int(data.min())} to {int(data.max())}: has each a row of "
                "the embedding?"
            )
        if self.fits_data and not _are_rows_of(placed(inputs, data.device), data):
            return f"It works on sequences of the data. {EXCHANGED}"
        if not speaks_of_shapes(error):
            return ""
        return "It must take any number of sequences, and one tensor: wrap it if it takes more"


def held_at_once(entries: int) -> int:
    """Return how many sequences' predictions, of so many numbers each, are held at a time."""
    return max(1, _HELD // max(entries, 1))


def _is_packed(part: Any) -> bool:
    return isinstance(part, PackedSequence)


def _are_rows_of(rows: Tensor, data: Tensor) -> bool:
    """Say whether sequences stand in the data as they are."""
    for row in rows:
        is_same = (data == row).flatten(1).all(1)
        if not bool(is_same.any()):
            return False
    return True
