"""The network under diagnosis: which axis counts its sequences, and each one's loss gradient taken where the recurrent module ends, δ.

Transport back from there is `Recurrence`'s.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.diagnose.batches import Batch, Sequences
from lwcore.diagnose.listening import Head, Heard, Listener
from lwcore.diagnose.losses import Loss, check_shapes
from lwcore.diagnose.recurrence import Scan
from lwcore.diagnose.words import plural

SOURCES = ("error", "target")
_TRIED = 4  # sequences on which it is tried whether the network treats them one by one
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over the steps


class AxesWarning(UserWarning):
    """Inputs may have been read with sequences and steps swapped."""


class Subject:
    """A network, its head and its loss.

    Attributes:
        ear: What listens to the network.
        module: The recurrent module.
        recurrence: Its step.
        loss_name: What the loss is, in words.
    """

    def __init__(self, model: nn.Module, head: Head | None, loss: Loss | None, batch: Batch) -> None:
        """Find the recurrent module, learn the layout from a batch, and check that the network can be diagnosed.

        Args:
            model: A recurrent module, or a network that calls one once.
            head: For a recurrent module, what turns its outputs, in its own layout, into predictions; None if they are the predictions.
            loss: Loss of predictions and targets. None for the cross-entropy where targets are integers, the squared error where not.
            batch: Inputs and targets of one batch.

        Raises:
            TypeError: If model, inputs or predictions are not what they must be.
            ValueError: If there is not one recurrent module, it is not called once, dropout is at work, shapes do not fit, or sequences are
                mixed.
        """
        self.ear = Listener(model, head)
        self.module, self.recurrence = self.ear.module, self.ear.recurrence
        inputs, targets = batch
        if loss is None:
            classes = not targets.is_floating_point()
            self.loss: Loss = functional.cross_entropy if classes else functional.mse_loss
            self.loss_name = "cross-entropy" if classes else "mean squared error"
        else:
            self.loss, self.loss_name = loss, getattr(loss, "__name__", type(loss).__name__)
        self.constant: tuple[Tensor, Tensor] | None = None
        heard = self.ear.hear(inputs)
        self._find_axes(inputs, targets, heard)
        check_shapes(self.loss, self.loss_name, heard.predictions, targets, self.ear.hint())
        with torch.no_grad():
            self._loss(heard.predictions, targets.to(self.ear.device))
        self.check(self.front(batch))

    def _find_axes(self, inputs: Tensor, targets: Tensor, heard: Heard) -> None:
        """Find which axis counts the sequences in inputs, targets and predictions."""
        self.read_as = batch, length, _ = tuple(heard.inputs.shape)
        layout = (batch, length) if self.ear.batch_first else (length, batch)
        if length == 1:
            raise ValueError(f"inputs: read as {self.reading}; must have at least 2 steps, for there is no lag in one.{self.ear.hint()}")

        def axis(name: str, tensor: Tensor) -> int:
            if tuple(tensor.shape[:2]) == layout:
                return layout.index(batch) if batch != length else int(not self.ear.batch_first)
            for candidate in (0, 1):
                if tensor.ndim > candidate and tensor.shape[candidate] == batch:
                    return candidate
            raise ValueError(
                f"{name} have shape {tuple(tensor.shape)}: no axis counts the {batch} sequences of the batch, whose inputs are read as "
                f"{self.reading}.{self.ear.hint()}"
            )

        self._axes = axis("inputs", inputs), axis("targets", targets), axis("predictions", heard.predictions)
        self._settled = tuple(targets.shape[:2]) != layout  # then the targets say by themselves which axis counts sequences

    @property
    def reading(self) -> str:
        """How the first batch was read."""
        return self.reading_of(self.read_as[0])

    def reading_of(self, count: int) -> str:
        """Say how sequences are read: so many, of so many steps of so many numbers."""
        _, length, width = self.read_as
        return f"{plural(count, 'sequence')} of {plural(length, 'step')} of {plural(width, 'number')}"

    def doubt(self, batch_size: int | None) -> str | None:
        """Say why the axes of sequences and steps may be swapped, if they may.

        Only the recurrent module's ``batch_first`` says which is which where targets have both axes, too. Then a batch of fewer sequences
        than steps is suspect, unless it holds as many sequences as the loader's batches do.

        Args:
            batch_size: Sequences in a batch by what the loader says, if it does.

        Returns:
            What may be wrong and how to mend it, or None.
        """
        batch, length, _ = self.read_as
        suspect = length > batch or length == batch_size
        if self._settled or batch in (length, batch_size) or not suspect:
            return None
        return (
            f"inputs are read as {self.reading}, for the {self.ear.name} has batch_first={self.ear.batch_first}. If they are {length} "
            f"sequences of {batch} steps, make it with batch_first={not self.ear.batch_first}, or give inputs and targets "
            ".transpose(0, 1)."
        )

    def front(self, batch: Batch) -> Sequences:
        """Bring a batch's axis of sequences to the front."""
        inputs, targets = batch
        if inputs.ndim <= self._axes[0] or targets.ndim <= self._axes[1]:
            raise ValueError(f"batches: shapes {tuple(inputs.shape)} and {tuple(targets.shape)}; must have the axes of the first batch.")
        inputs, targets = (tensor.to(self.ear.device).movedim(axis, 0) for tensor, axis in zip(batch, self._axes, strict=False))
        if len(inputs) != len(targets):
            raise ValueError(f"batches: {len(inputs)} sequences and {len(targets)} targets in one batch; must be as many.")
        return Sequences(inputs, targets)

    def hear(self, sequences: Sequences) -> Heard:
        """Run the network on some sequences."""
        return self.ear.hear(sequences.inputs.movedim(0, self._axes[0]))

    def _loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Give the loss of some sequences, predictions and targets in the reader's own layout."""
        try:
            loss = self.loss(predictions, targets)
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            given = f"predictions {tuple(predictions.shape)}, {predictions.dtype}, and targets {tuple(targets.shape)}, {targets.dtype}"
            raise ValueError(f"loss: fails on {given} ({reason}).{self.ear.hint()}") from error
        if not isinstance(loss, Tensor):
            raise TypeError(f"loss gave a {type(loss).__name__}: must give a torch.Tensor.")
        return loss.sum()

    def _loss_of(self, prediction: Tensor, sequence: Sequences) -> Tensor:
        """Give the loss of a batch of one sequence: prediction and target with their axis, of size one, in front."""
        return self._loss(prediction.movedim(0, self._axes[2]), sequence.targets.movedim(0, self._axes[1]))

    def losses(self, predictions: Tensor, sequences: Sequences) -> Tensor:
        """Give every sequence's loss: that of a batch which holds it alone, shape (B,)."""
        front = predictions.movedim(self._axes[2], 0)
        return torch.stack([self._loss_of(front[i : i + 1], sequences.at(slice(i, i + 1))) for i in range(len(sequences))])

    def set_constant(self, parts: list[Sequences]) -> None:
        """Take the network's mean prediction for its prediction from now on, as if nothing had been learned yet.

        The loss gradients there are centred, too, which makes the constant the best one: for squared error and cross-entropy exactly.

        Args:
            parts: Sequences over which to average.
        """
        count = sum(map(len, parts))
        sums = [self.hear(part).predictions.detach().movedim(self._axes[2], 0).sum(0, keepdim=True) for part in parts]
        mean = torch.stack(sums).sum(0) / count
        pulls = torch.stack([self._pulls(mean, part).sum(0, keepdim=True) for part in parts]).sum(0) / count
        self.constant = mean, pulls

    def _pulls(self, constant: Tensor, sequences: Sequences) -> Tensor:
        """Give each sequence's loss gradient in the prediction, where that is a constant; sequences in front."""
        same = constant.expand(len(sequences), *constant.shape[1:]).clone().requires_grad_()
        with torch.enable_grad():
            losses = [self._loss_of(same[i : i + 1], sequences.at(slice(i, i + 1))) for i in range(len(sequences))]
            return torch.autograd.grad(torch.stack(losses).sum(), same)[0]

    def read(self, sequences: Sequences) -> tuple[Scan, Tensor]:
        """Scan sequences and give each one's loss gradient in the recurrent states, ``δ_t = ∂E/∂s_t`` with the states held apart.

        Args:
            sequences: The sequences.

        Returns:
            The scan, and δ, shape (B, T, S), both in float64.

        Raises:
            ValueError: If the loss does not depend on the recurrent module's outputs.
        """
        heard = self.hear(sequences)
        with torch.enable_grad():
            if self.constant is None:
                total = self.losses(heard.predictions, sequences).sum()
            else:
                mean, centre = self.constant
                total = (heard.predictions.movedim(self._axes[2], 0) * (self._pulls(mean, sequences) - centre)).sum()
            if not total.requires_grad:
                raise ValueError("loss: does not depend on the recurrent module's outputs.")
            found = torch.autograd.grad(total, heard.leaves, allow_unused=True)
        parts = [None if part is None else part.detach().cpu().double() for part in found]
        scan, places = self.recurrence.scan(heard.inputs, heard.initial), self.recurrence
        delta = scan.inputs.new_zeros(len(sequences), scan.length, places.state_size)
        if parts[0] is not None:
            delta[..., places.shown[places.layer == places.layer[-1]]] = parts[0] if self.ear.batch_first else parts[0].transpose(0, 1)
        for last, where in zip(parts[1:], (places.shown, places.carried), strict=False):  # the last states h, c of every layer
            if last is not None:
                delta[:, -1, where] += last.transpose(0, 1).flatten(1)
        return scan, delta

    def check(self, sequences: Sequences) -> None:
        """Try on a few sequences whether what the network says of one depends on the others, and whether its step is the one we know.

        Args:
            sequences: Sequences; the first four are tried.

        Raises:
            TypeError: If the loss gives something else than a tensor.
            ValueError: If the network fails, mixes sequences or computes something else than its class says, or the loss couples them.
        """
        few = sequences.at(slice(0, _TRIED))
        together = self.hear(few)
        front = together.predictions.detach().movedim(self._axes[2], 0)
        if not front.isfinite().all():
            raise ValueError("predictions: some are NaN or infinite; all must be finite.")
        tolerance = _TOLERANCE.get(self.ear.dtype, 0.05)
        with torch.no_grad():
            alone = torch.cat([self.hear(few.at(slice(i, i + 1))).predictions.movedim(self._axes[2], 0) for i in range(len(few))])
            if not torch.allclose(alone, front, tolerance, tolerance):
                raise ValueError(
                    "model: predicts otherwise for a sequence alone than among others; must treat sequences one by one and make "
                    "no random draws (call model.eval() first). If it does neither, rounding grows in its states: try model.double()."
                )
            losses = self.losses(together.predictions, few)
            joint = self._loss(together.predictions, few.targets.movedim(0, self._axes[1]))
        # No absolute tolerance: the loss of a well-trained network is small, and so is what its sequences might share.
        scale = float(torch.maximum(joint.abs(), losses.abs().max()))
        if not any(abs(float(joint - whole)) <= tolerance * scale for whole in (losses.sum(), losses.mean())):
            shapes = tuple(together.predictions.shape), tuple(few.targets.movedim(0, self._axes[1]).shape)
            hint = f" Are predictions {shapes[0]} and targets {shapes[1]} broadcast?" if few.targets.is_floating_point() else ""
            raise ValueError(
                f"loss: of {len(few)} sequences together it is {joint.item():.6g}, but one by one they sum to "
                f"{losses.sum().item():.6g} and average {losses.mean().item():.6g}; must be their sum or mean (with weights: the sum)."
                + hint
                * (shapes[0] != shapes[1])
            )
        outputs = together.leaves[0].detach().cpu().double()
        ours = self.recurrence.scan(together.inputs, together.initial).outputs
        if not torch.allclose(outputs if self.ear.batch_first else outputs.transpose(0, 1), ours, tolerance, tolerance):
            raise ValueError(
                f"model: its {self.ear.name} does not compute what that class documents; must be no subclass that computes otherwise. "
                "If it is none, rounding grows in its states: try model.double()."
            )
