"""Training: minibatch gradient descent on a fixed set of sequences, interruptible between any two steps."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from lwcore.arguments import instance_of, integer_in, one_of, real_in, sequence_of
from lwcore.ensemble import Ensemble
from lwcore.network import Network
from lwcore.tasks import Sequences

OPTIMIZERS = ("sgd", "adamw")
WARM_UP = 2  # steps taken before one is recorded: they make the optimiser's state and the libraries' workspaces


@functools.cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep what this process frees, for its next use; done once a process, by `fit`.

    A training step frees what the next one needs again, and memory fresh from the system costs as much as filling it: at B = 128, T = 512,
    H = 128 handing pages back and forth took a third to a half of a step.

    Returns:
        Whether there was such a library to ask (glibc).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    no_separate_mappings, no_trimming = (-4, 0), (-1, 2**31 - 1)  # M_MMAP_MAX, M_TRIM_THRESHOLD of malloc.h
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
    """Choose the sequences of a step: every epoch a fresh permutation, cut into batches of equal size.

    A function of seed and step alone, so that an interrupted run meets the same batches when it goes on.

    Args:
        seed: Seed of the order.
        step: Number of the step, from 0.
        n_sequences: Number of training sequences.
        batch_size: Number of sequences a step, at most `n_sequences`; a remainder smaller than this sits an epoch out.

    Returns:
        Indices, shape (batch_size,).
    """
    batches = n_sequences // batch_size
    epoch, place = divmod(step, batches)
    return _order(seed, epoch, n_sequences)[place * batch_size : (place + 1) * batch_size]


@functools.lru_cache
def _order(seed: int, epoch: int, n_sequences: int) -> np.ndarray:
    """Draw an epoch's permutation, which all its steps share."""
    order = np.random.default_rng([seed, epoch]).permutation(n_sequences)
    order.setflags(write=False)
    return order


def recordable(place: torch.device) -> bool:
    """Say whether steps on a device are recorded once and replayed: on CUDA."""
    return place.type == "cuda"


def device_of(name: str | torch.device) -> torch.device:
    """Find a device.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` and the like.

    Returns:
        The device.

    Raises:
        TypeError: If it is no name.
        ValueError: If there is none of that name here.
    """
    if not isinstance(name, str | torch.device):
        raise TypeError(f"device = {name!r}: must be a name such as 'cpu' or 'cuda', or a torch.device.")
    try:
        place = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device = {str(name)!r}: must be a device of PyTorch's ({error})") from None
    if place.type == "cuda" and not (place.index or 0) < torch.cuda.device_count():
        found = f"PyTorch {torch.__version__} finds {torch.cuda.device_count()} CUDA devices on this machine"
        raise ValueError(f"device = {str(name)!r}: {found}; must be another device, or a PyTorch built for CUDA on a machine with a GPU.")
    return place


def fit(
    network: Network,
    sequences: Sequences,
    *,
    seed: int,
    resume_from: Progress | None = None,
    on_step: Callable[[Progress], None] | None = None,
    **options: Any,
) -> list[float]:
    """Train a network in place on the mean squared error. Implements Eq. (1), by minibatches.

    Args:
        network: The network; its parameters are changed.
        sequences: Training inputs (sequences, T, D) and targets (sequences, T).
        seed: Seed of the order in which the sequences come.
        resume_from: State to go on from, as `on_step` received it.
        on_step: Called after every step with the state; the tensors in it are live, copy or store them at once.
        **options: As for `fit_together`.

    Returns:
        The minibatch loss of every step.
    """
    _checked_reports(None if resume_from is None else [resume_from], on_step)
    report = None if on_step is None else lambda states: on_step(states[0])
    before = None if resume_from is None else [resume_from]
    return fit_together([network], [sequences], seeds=[seed], resume_from=before, on_step=report, **options)[0]


def _checked_reports(resume_from: Any, on_step: Any) -> None:
    """Refuse states to go on from that are none, and what cannot be called."""
    for state in [] if resume_from is None else sequence_of("resume_from", resume_from):
        instance_of("resume_from", state, Progress)
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step = {on_step!r}: must be a function, or None.")


def fit_together(
    networks: Sequence[Network],
    sequences: Sequence[Sequences],
    *,
    steps: int,
    batch_size: int,
    seeds: Sequence[int],
    optimizer: Literal["sgd", "adamw"] = "adamw",
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    clip: float | None = None,
    chunk: int | None = None,
    device: str | torch.device = "cpu",
    report_every: int = 1,
    resume_from: Sequence[Progress] | None = None,
    on_step: Callable[[list[Progress]], None] | None = None,
) -> list[list[float]]:
    """Train networks of one shape in lockstep: each ends as `fit` would leave it, but their matrix products are done at once.

    On CUDA the third step is recorded as a graph, forward, backward, clipping and optimiser, and replayed from then on: a step is then a
    few copies and one launch, and the processor waits for the device once every `report_every` steps. This has been tested with a tape in
    the graph's place, on the processor, and not been run on a GPU; its cost model stands in CONTRIBUTING.md.

    Args:
        networks: The networks; their parameters are changed, and they are moved to the device.
        sequences: Each network's training inputs (sequences, T, D) and targets (sequences, T), all of one shape.
        steps: Number of optimiser steps in all, those already taken included; at least 0.
        batch_size: Sequences a step, from 1 to the number of sequences.
        seeds: For each network, the seed of the order in which its sequences come.
        optimizer: ``"sgd"`` (plain) or ``"adamw"``.
        learning_rate: The global learning rate μ, above 0.
        weight_decay: Decoupled weight decay, at least 0; used by AdamW only.
        clip: Largest allowed 2-norm of a network's whole gradient, above 0; None for no clipping.
        chunk: Steps kept for the backward pass at a time: see `Network.loss`.
        device: Where to train.
        report_every: Steps between looks at the losses and calls of `on_step`; step numbers divisible by it, and the last.
        resume_from: States to go on from, as `on_step` received them, all of one step.
        on_step: Called after those steps with the states; the tensors in them are live, copy or store them at once.

    Returns:
        Of each network, the minibatch loss of every step.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If there are not as many seeds and sequences as networks, or they do not fit together.
        FloatingPointError: If a loss is no longer finite. On CUDA steps have then been taken until the next report.
    """
    networks = [instance_of("network", network, Network) for network in sequence_of("networks", networks)]
    sequences, seeds = sequence_of("sequences", sequences), sequence_of("seeds", seeds)
    for given in sequences:
        instance_of("sequences", given, Sequences).check()
    _checked_reports(resume_from, on_step)
    if chunk is not None:
        integer_in("chunk", chunk, 1)
    if len({(given.inputs.shape, given.targets.shape) for given in sequences}) != 1 or not len(networks) == len(sequences) == len(seeds):
        counts = f"{len(networks)} networks, {len(sequences)} sets of sequences, {len(seeds)} seeds"
        raise ValueError(f"{counts}: must be as many of each, at least one, and the sequences of one shape.")
    integer_in("steps", steps, 0)
    for seed in seeds:
        integer_in("seed", seed, 0)
    total = len(sequences[0].targets)
    integer_in("batch_size", batch_size, 1, total)
    integer_in("report_every", report_every, 1)
    one_of("optimizer", optimizer, OPTIMIZERS)
    rate = real_in("learning_rate", learning_rate, "(0, inf)")
    decay = real_in("weight_decay", weight_decay, "[0, inf)")
    bound = None if clip is None else real_in("clip", clip, "(0, inf)")
    place = device_of(device)
    record = recordable(place)
    keep_freed_memory()
    ensemble = Ensemble([network.to(place) for network in networks])
    descents: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay, capturable=record)
        if optimizer == "adamw"
        else torch.optim.SGD(network.parameters(), lr=rate)
        for network in networks
    ]
    states = list(resume_from or [Progress() for _ in networks])
    if len({state.step for state in states}) != 1 or len(states) != len(networks):
        raise ValueError(f"resume_from: steps {[state.step for state in states]} given; must be the same step for each network.")
    for network, descent, state in zip(networks, descents, states, strict=resume_from is not None):
        if resume_from is not None:
            network.load_state_dict(state.network)
            groups = [group | ({"capturable": record} if optimizer == "adamw" else {}) for group in state.optimizer["param_groups"]]
            descent.load_state_dict(state.optimizer | {"param_groups": groups})
    data = [Sequences(given.inputs.to(place), given.targets.to(place)) for given in sequences]
    batch = [torch.stack([part[:batch_size] for part in parts]) for parts in zip(*data, strict=True)]
    latest = batch[1].new_zeros(len(networks))

    def step() -> None:  # no number in it may come from the device, and no tensor may move: it is recorded
        for descent in descents:
            descent.zero_grad()
        latest.copy_(ensemble.backward(batch[0], batch[1], chunk))
        if not record and not latest.isfinite().all():
            return
        for network, descent in zip(networks, descents, strict=True):
            if bound is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), bound)
            descent.step()

    take = _recorded(step, place) if record else step
    taken, losses = states[0].step, [list(state.losses) for state in states]
    while taken < steps:
        ahead = range(taken, min(taken - taken % report_every + report_every, steps))
        order = np.stack([[batch_indices(seed, number, total, batch_size) for number in ahead] for seed in seeds], axis=1)
        kept = latest.new_empty(len(ahead), len(networks))
        for chosen, row in zip(torch.from_numpy(order).to(place), kept, strict=True):
            for room, parts in zip(batch, zip(*data, strict=True), strict=True):
                for s, part in enumerate(parts):
                    torch.index_select(part, 0, chosen[s], out=room[s])
            take()
            row.copy_(latest)
        found = kept.tolist()
        for number, row_found in zip(ahead, found, strict=True):
            for s, loss in enumerate(row_found):
                if not math.isfinite(loss):
                    which = f"of network {s} " if len(networks) > 1 else ""
                    advice = "training diverged; try a smaller learning_rate or a clip."
                    raise FloatingPointError(f"the loss {which}is {loss} at step {number}: {advice}")
                losses[s].append(loss)
        taken = ahead.stop
        if on_step is not None:
            pairs = zip(losses, networks, descents, strict=True)
            on_step([Progress(taken, own, network.state_dict(), descent.state_dict()) for own, network, descent in pairs])
    return losses


def _recorded(step: Callable[[], None], place: torch.device) -> Callable[[], None]:
    """Take real steps on a stream beside at first, as PyTorch asks; then record one as a CUDA graph, and replay it from there on."""
    beside, graph, calls = torch.cuda.Stream(place), torch.cuda.CUDAGraph(), itertools.count()

    def take() -> None:
        call, here = next(calls), torch.cuda.current_stream(place)
        with torch.cuda.device(place):
            if call < WARM_UP:
                beside.wait_stream(here)
                with torch.cuda.stream(beside):
                    step()
                here.wait_stream(beside)
                return
            if call == WARM_UP:
                with torch.cuda.graph(graph):
                    step()
            graph.replay()

    return take
