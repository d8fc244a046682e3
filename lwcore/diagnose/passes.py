"""Passes of a copy of the reader's model: what it gives for each sequence, and when that is made.

All numbers that the model gives for a sequence stand side by side, (B, K).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import placed
from lwcore.diagnose.contract import Copies, Data, Rows, explained, shown
from lwcore.diagnose.exchange import STILL, Exchange, Layout, Steps, spread
from lwcore.diagnose.tape import Survey
from lwcore.signatures import require

# for `torch.autograd.grad`: 0 in what is not used
ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
TRIED = 8  # sequences on which a model is tried
SURVEYED = 37  # on which it is looked at what data move: a prime, that no other axis has
RUN = 64  # sequences that the model alone is run on at a time
HELD = 2**23  # numbers in the predictions that are held at a time
_AHEAD = 4  # a fraction of the steps: so many may all predictions look ahead
_FFT_ROUNDING = 256  # units in the last place of the largest entry, that Fourier transforms spread
_NAME = (
    "one tensor of real numbers, of which the loss is made: say head=lambda out: out[0], "
    "out['logits'] or out.logits, or of several torch.stack([out.loc, out.scale])"
)
_SAME = (
    "one without random draws, and that keeps no state from batch to batch: is there a dropout "
    "that is on though model.eval() was called (training=self.training), a random or a stored "
    "first state, or a cache?"
)
_CALLED = (
    "It must take any number of sequences, and inputs as they are: a tuple as arguments and a "
    "dictionary as keywords, or either as one argument, of their own type: that of parameters is "
    "mostly x.float(). What it holds that was made of parameters is None here: make that in "
    "forward(), and gradients under torch.enable_grad(). On trial, steps of one sequence stand in "
    "another: give a model that takes logarithms of differences of steps, or checks their order, "
    "the differences as inputs. Loops and conditions must be Python's: no torch.cond"
)
_LATER = (
    "one of which no prediction moves with later inputs. Is a causal mask missing, is it "
    "bidirectional, or are inputs normalised over the window or reversed? Has an input (B, D) no "
    "steps, with D as large as their number? Give it another width. If the axis is that of a "
    "horizon, with all predictions made at the last step, say horizon=True"
)
_ALONE = (
    "one that predicts for each sequence by itself. Are axes swapped (batch_first=True of the "
    "layers, or batch_first=False here, for inputs (T, B, …)), are these single pairs, which "
    "torch.utils.data.DataLoader(pairs, 32) makes batches of, or is there a softmax or a scale "
    "over the batch? Is it the loss? Say that by loss="
)
_REACHED = "reached by some input: is the last layer 0, as before training, or a state dead?"
_FINITE = (
    "finite. Has training diverged, is there a division by 0, or a logarithm or root of 0? Where a "
    "mask leaves a step nothing to attend to, mask by torch.finfo(x.dtype).min and not by -inf, or "
    f"by numbers added and not by a bool. {_CALLED}"
)


class Passes:
    """A copy of the reader's model with its head, as a function of sequences."""

    layout: Layout  # of the predictions
    shape: torch.Size  # of those of a sequence
    ends: Tensor  # (K,): the step at which each prediction is made; −1: reached by no input
    look_ahead = 0  # steps that predictions see ahead

    def __init__(self, copies: Copies, data: Data, horizon: bool) -> None:
        """Run it on a few sequences, and find out what it gives of each, and when it is made."""
        self.model = copies.model
        self.head = copies.head
        self.call = copies.caller(data)
        self.data = data
        self.horizon = horizon
        self.name = type(self.model).__name__
        self.device = next(self.model.parameters(), torch.zeros(())).device
        self.exchange = Exchange(data)
        self.at_once = RUN
        self._refuse_changes()
        self._find_layout()
        self._measure_ends()

    def _refuse_changes(self) -> None:
        """Refuse a model that gives something else the second time, by chance or by a state."""
        places = self.exchange.some(SURVEYED)
        rows = self.data.inputs[places]
        with Survey() as survey:  # which refuses what cannot be followed
            self.given(rows)  # what is made only once is made
        before = self.given(rows)
        self.given(self.data.inputs[places.roll(1)])
        after = self.given(rows)
        is_other = self.exchange.differs(before, after).any()
        require(
            "model", f"{self.name}, with other predictions the second time", not is_other, _SAME
        )
        self.exchange.rounding = _FFT_ROUNDING if survey.has_transforms else 0

    def given(self, inputs: Rows) -> Tensor:
        """Return the tensor that the model gives, through the head if there is one.

        Of several things that hold one tensor, as logits and no cache, it is that one.
        """
        own = self.data.inputs_form.back(inputs.map(lambda leaf: placed(leaf, self.device)))
        with explained(
            f"model ({self.name})",
            f"fails on {len(inputs)} sequences, inputs {shown(own)}",
            _CALLED,
        ):
            given = self.call(own)
        if self.head is not None:
            with explained("head", f"fails on what the model gives, {shown(given)}"):
                given = self.head(given)
        parts: Any = given if isinstance(given, list | tuple) else [given]
        parts = given.values() if isinstance(given, Mapping) else parts
        found = [part for part in parts if isinstance(part, Tensor)]
        is_real = len(found) == 1 and found[0].is_floating_point()
        require("predictions", shown(given), is_real, _NAME)
        return found[0]

    def _find_layout(self) -> None:
        """Find the predictions of each sequence, and refuse where sequences are mixed."""
        with torch.no_grad():
            (layout,) = self.exchange.layouts(lambda inputs: [self.given(inputs)])
            given = self.given(self.data.inputs[self.exchange.some(TRIED)])
        if isinstance(layout, str):
            require(
                "model",
                f"{self.name}, which {layout}",
                False,
                f"one whose predictions are {_REACHED}" if layout == STILL else _ALONE,
            )
            raise AssertionError
        self.layout = layout
        self.shape = layout.front(given).shape[1:]

    def _measure_ends(self) -> None:
        """Measure the step at which each prediction is made: the last one that reaches it."""

        def run(inputs: Rows) -> list[Tensor]:
            return [self.alone(inputs).reshape(-1, *self.shape or [1])]

        (times,) = self.exchange.times(run, self.at_once)
        ends = spread(times.last)
        self.ends = torch.from_numpy(ends.flatten())
        self.end_steps = known = sorted({*self.ends.tolist()} - {-1})
        require("predictions", "the same for all inputs", bool(known), _REACHED)
        require(
            "horizon",
            f"True, with predictions made at steps {known[0]} to {known[-1]}",
            not self.horizon or len(known) == 1,
            "False: not all are made at one step, and each has the time that was measured",
        )
        self._refuse_ahead(ends)

    def _refuse_ahead(self, ends: Steps) -> None:
        """Refuse predictions at every step that far later inputs move.

        An axis as long as the inputs, or one shorter where the first or the last is left out, one
        of the first two beside that of sequences, counts steps. A model may look a few steps ahead,
        as a centred convolution does.
        """
        length = self.data.length
        ahead = []
        for axis, size in enumerate(ends.shape[:2]):
            if length - size in (0, 1):
                latest = np.moveaxis(ends, axis, 0).reshape(size, -1).max(1)
                ahead.append(int((latest - np.arange(length - size, length)).max()))
        if self.horizon or not ahead:
            return
        self.look_ahead = max(0, min(ahead))  # there may be as many classes as steps
        require(
            "model",
            f"{self.name}, with predictions that inputs move up to {self.look_ahead} steps later",
            self.look_ahead <= length // _AHEAD,
            _LATER,
        )

    def shape_of(self, count: int) -> torch.Size:
        """Return the shape of what the model gives for so many sequences."""
        return self.layout.back(torch.empty(count, *self.shape, device="meta")).shape

    def predictions(self, inputs: Rows) -> Float[Tensor, "B K"]:
        """Return all numbers that the model gives for each sequence, as one row."""
        given = self.given(inputs)
        wanted = self.shape_of(len(inputs))
        require(
            "predictions",
            f"{shown(given)} for {len(inputs)}",
            given.shape == wanted,
            f"{tuple(wanted)}, as for others. Does it drop axes of length 1, by squeeze()? Then "
            "name the axis, squeeze(-1). Does it do otherwise by what data hold?",
        )
        rows = self.layout.front(given).reshape(len(inputs), -1)
        require("predictions", "NaN or infinite", bool(rows.isfinite().all()), _FINITE)
        return rows

    def alone(self, inputs: Rows) -> Float[Tensor, "B K"]:
        """Return predictions of which no gradient is asked."""
        with torch.no_grad():
            return self.predictions(inputs)

    def in_parts(self, places: Tensor | None = None) -> Iterator[tuple[Tensor, Rows]]:
        """Yield predictions beside targets, of as many sequences as memory is to hold."""
        every = torch.arange(self.data.count) if places is None else places
        n_parts = min(1 + len(every) * self.shape.numel() // HELD, len(every))
        for places in every.tensor_split(n_parts):  # of one size, as a mean takes them
            parts = [self.alone(self.data.inputs[some]) for some in places.split(self.at_once)]
            yield torch.cat(parts), self.data.targets[places]
