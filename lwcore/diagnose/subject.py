"""The network under diagnosis: its recurrent module found, listened to, and each sequence's loss gradient taken where that module ends.

The reader's network is run as it is, in its own precision and layout, and never changed. A hook cuts the graph behind the recurrent module,
so that the gradient of the loss stops at its outputs: δ. Transport back from there is `Recurrence`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lwcore.diagnose.recurrence import SUPPORTED, Recurrence, Scan

SOURCES = ("error", "target")
_TRIED = 4  # sequences on which it is tried whether the network treats them one by one
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over the steps

Loss = Callable[[Tensor, Tensor], Tensor]
Head = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences with their axis in front, as they are stored.

    Attributes:
        inputs: What the network takes, shape (sequences, …).
        targets: What its loss takes, shape (sequences, …).
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.inputs)

    def at(self, index: Any) -> Sequences:
        """Choose sequences by an index of their axis."""
        return Sequences(self.inputs[index], self.targets[index])


@dataclass(frozen=True, eq=False)
class Heard:
    """What one pass of the network says.

    Attributes:
        predictions: In the network's own layout.
        inputs: What the recurrent module was given, shape (B, T, D), in float64.
        initial: The state it started from, shape (B, S), in float64.
        leaves: Its outputs and, where it returns them, its last states; the predictions' graph ends there.
    """

    predictions: Tensor
    inputs: Tensor
    initial: Tensor
    leaves: list[Tensor]


class Subject:
    """A network, its head and its loss.

    Attributes:
        module: The recurrent module.
        recurrence: Its step.
        loss_name: What the loss is, in words.
    """

    def __init__(self, model: nn.Module, head: Head | None, loss: Loss | None, batch: tuple[Tensor, Tensor]) -> None:
        """Find the recurrent module, learn the layout from a batch, and check that the network can be diagnosed.

        Args:
            model: A recurrent module, or a network that calls one once.
            head: For a recurrent module, what turns its outputs, in its own layout, into predictions; None if they are the predictions.
            loss: Loss of predictions and targets. None for the cross-entropy where targets are integers, the squared error where not.
            batch: Inputs and targets of one batch.

        Raises:
            TypeError: If model, inputs or predictions are not what they must be.
            ValueError: If there is not one recurrent module, it is not called once, dropout is at work, or sequences are mixed.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is a {type(model).__name__}: must be a torch.nn.Module.")
        self.model, self.head = model, head
        self.module = _recurrent(model)
        if head is not None and self.module is not model:
            raise ValueError(f"head: the {type(model).__name__} has its own; must be None unless model is a recurrent module itself.")
        self.recurrence = Recurrence.of(self.module)
        _check_mode(model)
        self.batch_first = bool(getattr(self.module, "batch_first", True))
        inputs, targets = batch
        if loss is None:
            classes = not targets.is_floating_point()
            self.loss: Loss = nn.functional.cross_entropy if classes else nn.functional.mse_loss
            self.loss_name = "cross-entropy" if classes else "mean squared error"
        else:
            self.loss, self.loss_name = loss, getattr(loss, "__name__", type(loss).__name__)
        first = next(iter(self.module.parameters()))
        self.dtype, self.device = first.dtype, first.device
        self.constant: tuple[Tensor, Tensor] | None = None
        self._find_axes(inputs, targets)
        self._check_one_by_one(self.front((inputs, targets)))

    def _find_axes(self, inputs: Tensor, targets: Tensor) -> None:
        """Find which axis counts the sequences in inputs, targets and predictions."""
        heard = self._hear(self._placed(inputs))
        batch, length = heard.inputs.shape[:2]
        layout = (batch, length) if self.batch_first else (length, batch)

        def axis(name: str, tensor: Tensor) -> int:
            if tuple(tensor.shape[:2]) == layout:
                return layout.index(batch) if batch != length else int(not self.batch_first)
            for candidate in (0, 1):
                if tensor.ndim > candidate and tensor.shape[candidate] == batch:
                    return candidate
            raise ValueError(f"{name} have shape {tuple(tensor.shape)}: no axis counts the {batch} sequences of the batch.")

        self._axes = axis("inputs", inputs), axis("targets", targets), axis("predictions", heard.predictions)

    def front(self, batch: tuple[Tensor, Tensor]) -> Sequences:
        """Bring a batch's axis of sequences to the front."""
        inputs, targets = batch
        return Sequences(self._placed(inputs).movedim(self._axes[0], 0), targets.to(self.device).movedim(self._axes[1], 0))

    def _placed(self, inputs: Tensor) -> Tensor:
        """Bring inputs to the network's device and, if they are real numbers, to its precision."""
        return inputs.to(self.device, self.dtype if inputs.is_floating_point() else inputs.dtype)

    def hear(self, sequences: Sequences) -> Heard:
        """Run the network on some sequences."""
        return self._hear(sequences.inputs.movedim(0, self._axes[0]))

    def _hear(self, inputs: Tensor) -> Heard:
        calls: list[tuple[Tensor, Tensor, list[Tensor]]] = []

        def listen(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
            read = given[0] if given else named["input" if not hasattr(module, "step") else "inputs"]
            state = given[1] if len(given) > 1 else named.get("hx", named.get("state"))
            outputs, rest = returned if isinstance(returned, tuple) else (returned, ())
            leaves = [part.detach().requires_grad_() for part in (outputs, *(rest if isinstance(rest, tuple) else (rest,)))]
            calls.append((*self._double(read, state), leaves))
            if not isinstance(returned, tuple):
                return leaves[0]
            return leaves[0], tuple(leaves[1:]) if isinstance(rest, tuple) else leaves[1]

        hook = self.module.register_forward_hook(listen, with_kwargs=True)
        try:
            with torch.enable_grad():
                predictions = self.model(inputs)
                if self.module is self.model:
                    predictions = calls[0][2][0]
                    predictions = predictions if self.head is None else self.head(predictions)
        finally:
            hook.remove()
        if len(calls) != 1:
            raise ValueError(
                f"model calls its {type(self.module).__name__} {len(calls)} times in a pass: must be once, on whole sequences."
            )
        if not isinstance(predictions, Tensor):
            raise TypeError(f"predictions are a {type(predictions).__name__}: must be a torch.Tensor.")
        return Heard(predictions, *calls[0])

    def _double(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        """Bring inputs to (B, T, D) and the initial state to (B, S), both in float64."""
        if not isinstance(inputs, Tensor) or inputs.ndim != 3:
            given = f"shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else f"a {type(inputs).__name__}"
            raise TypeError(
                f"inputs of the {type(self.module).__name__}: {given}; must be a tensor of three axes, sequences of equal length."
            )
        ours = (inputs if self.batch_first else inputs.transpose(0, 1)).detach().cpu().double()
        initial = ours.new_zeros(len(ours), self.recurrence.state_size)
        if state is not None:
            parts = [part.detach().cpu().double() for part in (state if isinstance(state, tuple | list) else (state,))]
            layers = [part if part.ndim == 3 else part.unsqueeze(0) for part in parts]  # (layers, B, H), of a cell (B, H)
            initial = torch.stack(layers, dim=1).permute(2, 0, 1, 3).flatten(1)
        return ours, initial

    def _loss_of(self, prediction: Tensor, sequence: Sequences) -> Tensor:
        """Give the loss of a batch of one sequence: prediction and target with their axis, of size one, in front."""
        loss = self.loss(prediction.movedim(0, self._axes[2]), sequence.targets.movedim(0, self._axes[1]))
        if not isinstance(loss, Tensor):
            raise TypeError(f"loss gave a {type(loss).__name__}: must give a torch.Tensor.")
        return loss.sum()

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
            delta[..., places.shown[places.layer == places.layer[-1]]] = parts[0] if self.batch_first else parts[0].transpose(0, 1)
        for last, where in zip(parts[1:], (places.shown, places.carried), strict=False):  # the last states h, c of every layer
            if last is not None:
                delta[:, -1, where] += last.transpose(0, 1).flatten(1)
        return scan, delta

    def _check_one_by_one(self, sequences: Sequences) -> None:
        """Try on a few sequences whether what the network says of one depends on the others, and whether its step is the one we know."""
        few = sequences.at(slice(0, _TRIED))
        together = self.hear(few)
        tolerance = _TOLERANCE.get(self.dtype, 0.05)
        with torch.no_grad():
            alone = torch.cat([self.hear(few.at(slice(i, i + 1))).predictions.movedim(self._axes[2], 0) for i in range(len(few))])
            if not torch.allclose(alone, together.predictions.movedim(self._axes[2], 0), tolerance, tolerance):
                raise ValueError(
                    "model: predicts otherwise for a sequence alone than among others; must treat sequences one by one and make "
                    "no random draws (call model.eval() first)."
                )
            losses = self.losses(together.predictions, few)
            joint = self.loss(together.predictions, few.targets.movedim(0, self._axes[1])).sum()
        # No absolute tolerance: the loss of a well-trained network is small, and so is what its sequences might share.
        scale = float(torch.maximum(joint.abs(), losses.abs().max()))
        if not any(abs(float(joint - whole)) <= tolerance * scale for whole in (losses.sum(), losses.mean())):
            raise ValueError(
                f"loss: of {len(few)} sequences together it is {joint.item():.6g}, but one by one they sum to "
                f"{losses.sum().item():.6g} and average {losses.mean().item():.6g}; must be their sum or mean (with weights: the sum)."
            )
        outputs = together.leaves[0].detach().cpu().double()
        ours = self.recurrence.scan(together.inputs, together.initial).outputs
        if not torch.allclose(outputs if self.batch_first else outputs.transpose(0, 1), ours, tolerance, tolerance):
            raise ValueError(f"model: its {type(self.module).__name__} does not compute what that class documents; is it a subclass?")


def _recurrent(model: nn.Module) -> nn.Module:
    """Find the one recurrent module of a network."""
    if isinstance(model, SUPPORTED):
        return model
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, SUPPORTED)]
    if len(found) != 1:
        names = ", ".join(name for name, _ in found) or "none"
        raise ValueError(
            f"model (a {type(model).__name__}) has {len(found)} recurrent modules ({names}): must have one torch.nn.LSTM, GRU or RNN, or "
            "one cell of lwcore.cells; or hand over the module itself with its head."
        )
    return found[0][1]


def _check_mode(model: nn.Module) -> None:
    """Refuse a network whose dropout or batch statistics are at work."""
    for name, module in model.named_modules():
        drops = (isinstance(module, nn.RNNBase) and module.dropout > 0) or (
            isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
        )
        if module.training and (drops or isinstance(module, nn.modules.batchnorm._BatchNorm)):
            what = "batch statistics" if not drops else "dropout"
            raise ValueError(f"model: {what} is at work in {name or type(module).__name__}; call model.eval() first.")
