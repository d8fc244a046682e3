"""Listening to a reader's network: its recurrent module found, and what that is given and gives in a pass.

The network is run as it is, in its own precision and layout, and never changed. A hook cuts the graph behind the recurrent module, so that
the gradient of a loss stops at its outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lwcore.diagnose.recurrence import SUPPORTED, Recurrence

Head = Callable[[Tensor], Tensor]


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


class Listener:
    """A network with an ear at its recurrent module.

    Attributes:
        module: The recurrent module.
        recurrence: Its step.
        batch_first: Whether the module takes (B, T, D), not (T, B, D).
    """

    def __init__(self, model: nn.Module, head: Head | None) -> None:
        """Find the recurrent module.

        Args:
            model: A recurrent module, or a network that calls one once.
            head: For a recurrent module, what turns its outputs, in its own layout, into predictions; None if they are the predictions.

        Raises:
            TypeError: If model is not a module.
            ValueError: If there is not one recurrent module, dropout is at work, or weights are not finite.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is a {type(model).__name__}: must be a torch.nn.Module.")
        self.model, self.head, self.module = model, head, _recurrent(model)
        if head is not None and self.module is not model:
            raise ValueError(f"head: the {type(model).__name__} has its own; must be None unless model is a recurrent module itself.")
        self.recurrence = Recurrence.of(self.module)
        _check_mode(model)
        for name, weights in model.named_parameters():
            if bad := int((~weights.isfinite()).sum()):
                raise ValueError(f"model: {bad} of {weights.numel()} entries of {name} are NaN or infinite; all must be finite.")
        first = next(self.module.parameters())
        self.dtype, self.device = first.dtype, first.device
        self.batch_first = bool(getattr(self.module, "batch_first", True))
        self._passed: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """Class of the recurrent module."""
        return type(self.module).__name__

    def hint(self) -> str:
        """Say what is often behind shapes that do not fit."""
        hints = ""
        if self.module is self.model and self.head is None:
            hints += f" A bare {self.name} predicts its outputs, at every step: is a head missing, as in head=lambda outputs: …?"
        if not self.batch_first:
            hints += (
                f" The {self.name} has batch_first=False and reads (T, B, D): is the axis of sequences in front? Then batch_first=True."
            )
        return hints

    def hear(self, inputs: Tensor) -> Heard:
        """Run the network.

        Args:
            inputs: What it takes, in its own layout.

        Returns:
            What was heard.

        Raises:
            TypeError: If the recurrent module is not given a tensor of three axes, or the network does not return a tensor.
            ValueError: If the network fails, or does not call the module once.
        """
        inputs = inputs.to(self.device, self.dtype if inputs.is_floating_point() else inputs.dtype)
        calls: list[tuple[Any, Any, Any]] = []

        def listen(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
            read = given[0] if given else named["input" if not hasattr(module, "step") else "inputs"]
            state = given[1] if len(given) > 1 else named.get("hx", named.get("state"))
            outputs, rest = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, ())
            leaves = [part.detach().requires_grad_() for part in (outputs, *(rest if isinstance(rest, tuple) else (rest,)))]
            calls.append((read, state, leaves))
            if not isinstance(returned, tuple):
                return leaves[0]
            return leaves[0], tuple(leaves[1:]) if isinstance(rest, tuple) else leaves[1]

        def check(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            read = given[0] if given else next(iter(named.values()), None)
            if not isinstance(read, Tensor) or read.ndim != 3:
                raise _NotSequencesError(f"shape {tuple(read.shape)}" if isinstance(read, Tensor) else f"a {type(read).__name__}")

        hooks = (
            self.module.register_forward_pre_hook(check, with_kwargs=True),
            self.module.register_forward_hook(listen, with_kwargs=True),
        )
        try:
            with torch.enable_grad():
                predictions = self.model(inputs)
                if self.module is self.model:
                    predictions = calls[0][2][0]
                    predictions = predictions if self.head is None else self.head(predictions)
        except _NotSequencesError as error:
            raise TypeError(f"inputs of the {self.name}: {error}; must be a tensor of three axes, sequences of equal length.") from None
        except Exception as error:
            raise ValueError(self._failed(inputs, error, "head" if calls and self.module is self.model else "model")) from error
        finally:
            for hook in hooks:
                hook.remove()
        if len(calls) != 1:
            raise ValueError(f"model calls its {self.name} {len(calls)} times in a pass: must be once, on whole sequences.")
        if not isinstance(predictions, Tensor):
            raise TypeError(f"predictions are a {type(predictions).__name__}: must be a torch.Tensor.")
        self._passed = tuple(inputs.shape)
        read, state, leaves = calls[0]
        return Heard(predictions, *self._double(read, state), leaves)

    def _failed(self, inputs: Tensor, error: Exception, who: str) -> str:
        """Say on what a network failed, and what may be behind it."""
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        said = f"{who}: fails on inputs of shape {tuple(inputs.shape)}, {inputs.dtype} ({reason.rstrip('.')})."
        if self._passed is not None and self._passed != tuple(inputs.shape):
            return (
                f"{said} It took {self._passed}; must take any number of sequences: does it keep a state of a fixed batch size? "
                "Make that in forward, for as many as there are."
            )
        if not inputs.is_floating_point():
            said += (
                f" Integers are for an nn.Embedding in front, below its num_embeddings; must be inputs.float() for the {self.name} itself."
            )
        return said + self.hint()

    def _double(self, inputs: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """Bring inputs to (B, T, D) and the initial state to (B, S), both in float64."""
        ours = (inputs if self.batch_first else inputs.transpose(0, 1)).detach().cpu().double()
        initial = ours.new_zeros(len(ours), self.recurrence.state_size)
        if state is not None:
            parts = [part.detach().cpu().double() for part in (state if isinstance(state, tuple | list) else (state,))]
            layers = [part if part.ndim == 3 else part.unsqueeze(0) for part in parts]  # (layers, B, H), of a cell (B, H)
            initial = torch.stack(layers, dim=1).permute(2, 0, 1, 3).flatten(1)
        return ours, initial


class _NotSequencesError(Exception):
    """The recurrent module is given something else than equally long sequences."""


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
