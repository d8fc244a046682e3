"""A cell with a linear readout: its predictions, their loss, its gradient in h, and its descent.

Training is minibatch gradient descent on a fixed set of sequences, interruptible between any two
steps.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    Int64Count,
    NotNegative,
    Positive,
    Seed,
    bare,
    checked,
    require,
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
        """A readout whose weights are uniform on ±1/√H."""
        super().__init__()
        self.cell = cell
        uniform = torch.rand(cell.hidden_size, generator=generator, dtype=torch.float64) * 2 - 1
        self.weight = nn.Parameter((uniform / cell.hidden_size**0.5).to(cell.bias))
        self.bias = nn.Parameter(torch.zeros_like(self.weight[0]))

    @own_precision
    def readout(self, states: Float[Tensor, "B T H"]) -> Float[Tensor, "B T"]:
        """Predictions from h."""
        # scans lie time-major in memory: so no copy is made and kept
        major = followable(states).transpose(0, 1)
        return (major.flatten(0, 1) @ self.weight).view(major.shape[:-1]).t() + self.bias

    if TYPE_CHECKING:  # PyTorch's own says that it gives anything

        def __call__(self, inputs: Tensor) -> Tensor: ...  # noqa: D102

    def forward(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        """Predictions from inputs."""
        return self.readout(self.cell(inputs))

    @checked
    def loss(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """The mean squared error over steps and sequences."""
        return (self(inputs) - targets).square().mean()

    @torch.no_grad()
    @checked
    def residual(
        self, states: Float[Tensor, "B T H"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """The errors of the predictions, ``ŷ_t − y_t``."""
        return self.readout(states) - targets

    @torch.no_grad()
    def loss_gradients(self, residual: Float[Tensor, "*B_T"]) -> Float[Tensor, "*B_T H"]:
        """``δ_t = 2 (ŷ_t − y_t) v`` of errors, or of noise in their place for a null control."""
        return 2 * residual.unsqueeze(-1) * self.weight

    def observe(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> tuple[Trace, Float[Tensor, "B T H"]]:
        """The trace of a scan, and δ of the summed loss: all that Eq. (3) is made of."""
        trace = self.cell.trace(inputs)
        return trace, self.loss_gradients(self.residual(trace.outputs, targets))


# Parameters of mallopt, of malloc.h, and what glibc begins with.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_DEFAULTS = {_MMAP_MAX: 65_536, _TRIM_THRESHOLD: 128 * 1024}
_KEEPING = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1}  # no separate mappings, no trimming


def keep_freed_memory() -> bool:
    """Ask the C library to keep what this process frees; return whether it could be asked.

    A training step frees what the next one needs again, and memory fresh from the system costs as
    much as filling it: a quarter of a step at B = 128, T = 512, H = 128. The process holds what it
    has freed from then on: call this in a program of your own. `fit` does not.
    """
    return _tell_allocator(_KEEPING)


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory for a while, until nobody wants it any more; then give it back."""
    with _keepers.lock:
        _keepers.count += 1
        keep_freed_memory()
    try:
        yield
    finally:
        with _keepers.lock:
            _keepers.count -= 1
            if not _keepers.count and _tell_allocator(_DEFAULTS):
                ctypes.CDLL(None).malloc_trim(0)


class _Keepers:
    """How many threads want freed memory kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0


_keepers = _Keepers()


def _tell_allocator(settings: dict[int, int]) -> bool:
    """Set parameters of the C library's allocator, where it is glibc's."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all(mallopt(*setting) for setting in settings.items())


@dataclass
class Progress:
    """The state between two steps: with it training goes on from where it was."""

    step: int = 0  # steps taken
    losses: list[float] = field(default_factory=list)  # minibatch loss of each
    network: dict[str, Any] = field(default_factory=dict)  # state dictionaries
    optimizer: dict[str, Any] = field(default_factory=dict)


@checked
def batch_indices(
    seed: Seed, step: Seed, n_sequences: Int64Count, batch_size: Int64Count
) -> np.ndarray:
    """The sequences of a step: every epoch a fresh permutation, in batches of equal size.

    A remainder sits an epoch out. Seed and step alone decide, so that an interrupted run meets the
    same batches when it goes on.
    """
    words = f"at most the {n_sequences} sequences"
    require("batch_size", batch_size, batch_size <= n_sequences, words)
    epoch, place = divmod(step, n_sequences // batch_size)
    return _order(seed, epoch, n_sequences)[place * batch_size : (place + 1) * batch_size]


@functools.lru_cache
def _order(seed: int, epoch: int, n_sequences: int) -> np.ndarray:
    """An epoch's permutation, which all its steps share."""
    order = np.random.default_rng([seed, epoch]).permutation(n_sequences)
    order.setflags(write=False)
    return order


@checked
@gradients_followed()
def fit(
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
    """Training in place on the mean squared error; the minibatch loss of every step.

    Implements Eq. (1), by minibatches. `steps` counts those already taken, too; `seed` sets the
    order of the sequences; AdamW alone has the decoupled `weight_decay`; `clip` bounds the 2-norm
    of the whole gradient. After every step `on_step` gets the state to resume from, whose tensors
    are live: copy or store them at once.
    """
    check(*sequences)
    total = len(sequences.targets)
    require("batch_size", batch_size, batch_size <= total, f"at most the {total} sequences")
    parameters = list(network.parameters())
    trainable = not any(part.is_inference() for part in parameters)
    words = "one that was made outside of torch.inference_mode()"
    require("network", type(network.cell).__name__, trainable, words)
    decay = {"weight_decay": weight_decay} if optimizer == "adamw" else {}
    kind: Any = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer]
    descent = kind(parameters, lr=learning_rate, **decay)
    state = resume_from or Progress()
    if resume_from is not None:
        network.load_state_dict(state.network)
        descent.load_state_dict(state.optimizer)
    losses = list(state.losses)
    for step in range(state.step, steps):
        chosen = torch.tensor(bare(batch_indices)(seed, step, total, batch_size))
        descent.zero_grad()
        loss = bare(Network.loss)(network, *(part[chosen] for part in sequences))
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
