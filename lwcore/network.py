"""A cell with a linear readout: its predictions, their loss, its gradient in h, and its descent.

Training is minibatch gradient descent on a fixed set of sequences, interruptible between any two
steps: seed and step number alone decide what a step does.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from lwcore.ambient import followable, gradients_followed, own_precision
from lwcore.cells import Cell
from lwcore.signatures import (
    Count,
    Index,
    NotNegative,
    Positive,
    Seed,
    checked,
    require,
    unchecked,
)
from lwcore.tasks import Sequences, check
from lwcore.trace import Trace


@checked
class Network(nn.Module):
    """Scalar regression at every step, ``ŷ_t = vᵀ h_t + b``, with the loss ``(ŷ_t − y_t)²``.

    Attributes:
        cell: The recurrence.
        weight: Readout v, (H,).
        bias: Readout b, a scalar.
    """

    def __init__(self, cell: Cell, generator: torch.Generator | None = None) -> None:
        """Put a readout on a cell: weights uniform on ±1/√H, a bias of 0."""
        super().__init__()
        self.cell = cell
        draws = torch.rand(cell.hidden_size, generator=generator, dtype=torch.float64)
        weight = (draws * 2 - 1) / cell.hidden_size**0.5
        self.weight = nn.Parameter(weight.to(cell.bias))
        self.bias = nn.Parameter(torch.zeros_like(self.weight[0]))

    @own_precision
    def readout(self, states: Float[Tensor, "B T H"]) -> Float[Tensor, "B T"]:
        """Return predictions ``ŷ_t = vᵀ h_t + b`` from the outputs h of the cell."""
        # Scans lie time-major in memory. Read in that order, no copy is made and kept for autograd.
        time_major = followable(states).transpose(0, 1)
        products = time_major.flatten(0, 1) @ self.weight
        by_step = products.view(time_major.shape[:-1])
        return by_step.t() + self.bias

    if TYPE_CHECKING:  # PyTorch's own says that it gives anything

        def __call__(self, inputs: Tensor) -> Tensor: ...  # noqa: D102

    def forward(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        """Return predictions from inputs, one number a step, each sequence scanned from zero."""
        return self.readout(self.cell(inputs))

    @checked
    def loss(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Return the mean squared error over steps and sequences."""
        return (self(inputs) - targets).square().mean()

    @torch.no_grad()
    @checked
    def residual(
        self, states: Float[Tensor, "B T H"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """Return the errors of the predictions, ``ŷ_t − y_t``, from the outputs h of the cell."""
        return self.readout(states) - targets

    @torch.no_grad()
    def loss_gradients(self, residual: Float[Tensor, "*B_T"]) -> Float[Tensor, "*B_T H"]:
        """Return ``δ_t = 2 (ŷ_t − y_t) v``, the gradient of each step's loss in its output h_t.

        Give it errors from `residual`, or noise in their place for a control that holds no signal.
        """
        return 2 * residual.unsqueeze(-1) * self.weight

    def observe(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> tuple[Trace, Float[Tensor, "B T H"]]:
        """Return the trace of a scan and its δ: all that Eq. (3) is made of.

        δ belongs to the sum of the losses over steps, not to their mean.
        """
        trace = self.cell.trace(inputs)
        return trace, self.loss_gradients(self.residual(trace.outputs, targets))


def keep_freed_memory() -> None:
    """Ask the C library to keep what this process frees, if it is glibc.

    A training step frees what the next one needs again, and memory fresh from the system costs as
    much as filling it: a quarter of a step at B = 128, T = 512, H = 128. `lw run` and workers of
    `process_pool` do so, `train` does not.
    """
    with suppress(AttributeError, OSError, TypeError):  # of another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-4, 0)  # M_MMAP_MAX of malloc.h: no separate mappings
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: no trimming


@dataclass
class Progress:
    """The state of a training between two steps, from which it goes on with the same numbers."""

    step: int = 0  # steps taken
    losses: list[float] = field(default_factory=list)  # minibatch loss of each
    network: dict[str, Any] = field(default_factory=dict)  # state dictionaries
    optimizer: dict[str, Any] = field(default_factory=dict)


def _batch_indices(seed: int, step: int, n_sequences: int, batch_size: int) -> np.ndarray:
    """Return the sequences of a step: every epoch a fresh permutation, in batches of equal size.

    A remainder sits an epoch out. Seed and step alone decide, also after an interruption.
    """
    epoch, batch = divmod(step, n_sequences // batch_size)
    first = batch * batch_size
    return _permutation(seed, epoch, n_sequences)[first : first + batch_size]


@functools.lru_cache
def _permutation(seed: int, epoch: int, n_sequences: int) -> np.ndarray:
    """Return the order of the sequences in an epoch, which all its steps share."""
    order = np.random.default_rng([seed, epoch]).permutation(n_sequences)
    order.setflags(write=False)
    return order


@checked
@gradients_followed()
def train(
    network: Network,
    sequences: Sequences,
    *,
    steps: Index,
    batch_size: Count,
    seed: Seed,
    optimizer: Literal["sgd", "adamw"] = "adamw",
    learning_rate: Positive = 1e-3,
    weight_decay: NotNegative = 0.0,
    clip: Positive | None = None,
    resume_from: Progress | None = None,
    on_step: Callable[[Progress], None] | None = None,
) -> list[float]:
    """Train a network in place on the mean squared error; return the minibatch loss of every step.

    Implements Eq. (1), by minibatches. Plain ``"sgd"`` is the paper's descent of version 2;
    ``"adamw"`` gives each parameter a learning rate of its own, and is what later versions use.

    Args:
        steps: Number of steps in all, those already taken with `resume_from` among them.
        seed: Sets the order of the sequences.
        weight_decay: Decoupled weight decay, of AdamW alone.
        clip: Largest 2-norm of the whole gradient; longer ones are scaled down to it.
        resume_from: What `on_step` was given after the last step taken.
        on_step: Called after every step with the state to resume from, whose tensors are live: copy
            or store them at once.

    Raises:
        ArgumentError: If sequences do not belong together, are fewer than a batch, or the network
            was made in inference mode.
        FloatingPointError: If the loss is not finite: training diverged.
    """
    check(*sequences)
    n_sequences = len(sequences.targets)
    allowed = f"at most the {n_sequences} sequences"
    require("batch_size", batch_size, batch_size <= n_sequences, allowed)
    parameters = list(network.parameters())

    descent: torch.optim.Optimizer
    if optimizer == "adamw":
        descent = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=weight_decay)
    else:
        descent = torch.optim.SGD(parameters, lr=learning_rate)
    start = resume_from or Progress()
    if resume_from is not None:
        # PyTorch refuses other names and shapes, but rounds: and goes on with other bits.
        for name, parameter in network.named_parameters():
            given = start.network.get(name, parameter)
            same_type = given.dtype == parameter.dtype
            require(f"resume_from.network.{name}", given, same_type, f"of {parameter.dtype}")
        network.load_state_dict(start.network)
        descent.load_state_dict(start.optimizer)

    losses = list(start.losses)
    for step in range(start.step, steps):
        batch = torch.tensor(_batch_indices(seed, step, n_sequences, batch_size))
        inputs = sequences.inputs[batch]
        targets = sequences.targets[batch]
        descent.zero_grad()
        # Arguments hold since the check above.
        loss = unchecked(Network.loss)(network, inputs, targets)
        if not math.isfinite(loss.item()):
            raise FloatingPointError(
                f"the loss is {loss.item()} at step {step}: training diverged; try a smaller "
                "learning_rate or a clip."
            )
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        descent.step()
        losses.append(loss.item())
        if on_step is not None:
            on_step(Progress(step + 1, losses, network.state_dict(), descent.state_dict()))
    return losses
