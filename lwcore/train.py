"""Training: minibatch gradient descent on a fixed set of sequences, interruptible between any two
steps."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from lwcore.arguments import instance_of, integer_in, one_of, real_in
from lwcore.network import Network
from lwcore.tasks import Sequences

OPTIMIZERS = ("sgd", "adamw")


@functools.cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep what this process frees, for its next use; done once a process, by
    `fit`; say whether it could be asked.

    A training step frees what the next one needs again, and memory fresh from the system costs as
    much as filling it: at B = 128, T = 512, H = 128 handing pages back and forth took a third to a
    half of a step.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # M_MMAP_MAX, M_TRIM_THRESHOLD of malloc.h
    no_separate_mappings, no_trimming = (-4, 0), (-1, 2**31 - 1)
    return bool(mallopt(*no_separate_mappings) and mallopt(*no_trimming))


@dataclass
class Progress:
    """All that training needs to go on from where it was: the state between two steps.

    Attributes:
        step: Number of steps taken.
        losses: The minibatch loss of each step taken.
        network: State dictionary of the network.
        optimizer: State dictionary of the optimiser.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    network: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)


def batch_indices(seed: int, step: int, n_sequences: int, batch_size: int) -> np.ndarray:
    """Choose the sequences of a step: every epoch a fresh permutation, cut into batches of equal
    size; a remainder sits an epoch out.

    A function of seed and step alone, so that an interrupted run meets the same batches when it
    goes on.
    """
    epoch, place = divmod(step, n_sequences // batch_size)
    return _order(seed, epoch, n_sequences)[place * batch_size : (place + 1) * batch_size]


@functools.lru_cache
def _order(seed: int, epoch: int, n_sequences: int) -> np.ndarray:
    """Draw an epoch's permutation, which all its steps share."""
    order = np.random.default_rng([seed, epoch]).permutation(n_sequences)
    order.setflags(write=False)
    return order


def fit(
    network: Network,
    sequences: Sequences,
    *,
    steps: int,
    batch_size: int,
    seed: int,
    optimizer: Literal["sgd", "adamw"] = "adamw",
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    clip: float | None = None,
    resume_from: Progress | None = None,
    on_step: Callable[[Progress], None] | None = None,
) -> list[float]:
    """Train a network in place on the mean squared error, and give the minibatch loss of every
    step. Implements Eq. (1), by minibatches.

    Args:
        network: The network; its parameters are changed.
        sequences: Training inputs (sequences, T, D) and targets (sequences, T).
        steps: Number of optimiser steps in all, those already taken included.
        batch_size: Sequences a step.
        seed: Seed of the order in which the sequences come.
        optimizer: ``"sgd"`` (plain) or ``"adamw"``.
        learning_rate: The global learning rate μ.
        weight_decay: Decoupled weight decay; used by AdamW only.
        clip: Largest allowed 2-norm of the whole gradient; None for no clipping.
        resume_from: State to go on from, as `on_step` received it.
        on_step: Called after every step with the state; the tensors in it are live, copy or store
            them at once.

    Raises:
        FloatingPointError: If the loss is no longer finite.
    """
    instance_of("network", network, Network)
    instance_of("sequences", sequences, Sequences).check()
    integer_in("steps", steps, 0)
    integer_in("seed", seed, 0)
    total = len(sequences.targets)
    integer_in("batch_size", batch_size, 1, total)
    one_of("optimizer", optimizer, OPTIMIZERS)
    rate, decay = (
        real_in("learning_rate", learning_rate, "(0, inf)"),
        real_in("weight_decay", weight_decay, "[0, inf)"),
    )
    bound = None if clip is None else real_in("clip", clip, "(0, inf)")
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step = {on_step!r}: must be a function, or None.")
    keep_freed_memory()
    parameters = list(network.parameters())
    descent: torch.optim.Optimizer = (
        torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
        if optimizer == "adamw"
        else torch.optim.SGD(parameters, lr=rate)
    )
    state = Progress()
    if resume_from is not None:
        state = instance_of("resume_from", resume_from, Progress)
        network.load_state_dict(state.network)
        descent.load_state_dict(state.optimizer)
    losses = list(state.losses)
    for step in range(state.step, steps):
        chosen = torch.tensor(batch_indices(seed, step, total, batch_size))
        descent.zero_grad()
        loss = network.loss(sequences.inputs[chosen], sequences.targets[chosen])
        if not math.isfinite(loss.item()):
            raise FloatingPointError(
                f"the loss is {loss.item()} at step {step}: training diverged; try a smaller "
                "learning_rate or a clip."
            )
        loss.backward()
        if bound is not None:
            torch.nn.utils.clip_grad_norm_(parameters, bound)
        descent.step()
        losses.append(loss.item())
        if on_step is not None:
            on_step(Progress(step + 1, losses, network.state_dict(), descent.state_dict()))
    return losses
