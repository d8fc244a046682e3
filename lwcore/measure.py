"""The one pipeline from a trained network to its learnability window: rates → statistic → tails → N(ℓ) → H_N.

A **probe** is one way to look at the lag-ℓ part of the gradient with one number a sequence. Its **view** says which:

* ``"zeroth"``, ``"first"``: the paper's matched statistic, Eq. (28), with rates of that order, along a random direction w;
* ``"whole"``: the lag's part of the gradient itself, ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, nothing left out, along the same random directions;
* ``"gradient"``: the same along the lag's own mean gradient, the direction in which this lag pulls the parameters.

A **source** says what makes the error: the network's own (``"error"``); the target alone, as if nothing had been learned yet
(``"target"``); or independent noise of the error's size, which carries nothing about the past (``"noise"``, the null control).

The independent unit is the sequence: each fresh sequence gives one number a source, probe and lag, averaged over all end points that
leave room for the longest lag. Signs and mean gradients come from one half of the sequences and the numbers from the other.

`observe` reads the numbers off the network; `inference.infer` turns them into windows.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import xarray as xr
from torch import Tensor
from torch.nn import functional

from lwcore.arguments import instance_of, integer_in, one_of, sequence_of
from lwcore.bptt import adjoints, immediate_sensitivity, random_direction, transported
from lwcore.cells import Trace
from lwcore.config import DiagnosticSettings
from lwcore.inference import infer
from lwcore.network import Network
from lwcore.tasks import Sequences
from lwcore.transport import default_ends, effective_rates, stream_rates

SOURCES = ("error", "target", "noise")
BATCH = 64  # sequences traced at a time, at the most: bounds memory, does not change the result beyond rounding
STATES = 2**20  # numbers B·T·H at a time, at the most; some hundred arrays of that size are held


def measure(network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Measure a network's rates, envelope, sample complexity and learnability window on fresh sequences.

    Args:
        network: A trained network; it is not changed. All is computed on a float64 copy.
        sequences: Sequences it was not trained on; inputs (S, T, D), targets (S, T).
        settings: What to measure.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        The variables of `inference.infer`, with the rates of `observe` and, where the settings say so, its numbers for the network's own
        error.
    """
    instance_of("network", network, Network)
    instance_of("sequences", sequences, Sequences)
    instance_of("settings", settings, DiagnosticSettings)
    integer_in("seed", seed, 0)
    observed = observe(network, sequences, settings, seed)
    measured = infer(observed, settings).assign(observed.drop_dims("sequence"))
    if not settings.keep_numbers:
        return measured
    return measured.assign(observed[["statistic", "projection"]].sel(source="error", drop=True).astype(np.float32))


def observe(
    network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int, sources: Collection[str] = SOURCES
) -> xr.Dataset:
    """Read rates and, one number a sequence, statistics and projected gradients off a network.

    Args:
        network: A trained network; it is not changed.
        sequences: Sequences it was not trained on.
        settings: What to measure.
        seed: Seed of the directions and of the null control's noise.
        sources: What makes the error: some of ``"error"``, ``"target"`` and ``"noise"``.

    Returns:
        ``rate`` (order, lag, unit), the mean of ``|μ|``; ``negative`` (order, lag), the share of rates below 0; ``statistic`` and
        ``projection`` (source, probe, lag, sequence): the lag's part as the probe sees it, and the whole gradient, all lags together,
        along the probe's direction.
    """
    instance_of("network", network, Network)
    instance_of("sequences", sequences, Sequences)
    instance_of("settings", settings, DiagnosticSettings)
    integer_in("seed", seed, 0)
    for source in sequence_of("sources", sources):
        one_of("sources", source, SOURCES)
    sequences.check()
    network = copy.deepcopy(network).double()
    generator = torch.Generator().manual_seed(seed)
    randoms = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    lags = list(settings.lags)
    half = len(sequences.targets) // 2
    for_signs, for_numbers = Sequences(*(s[:half] for s in sequences)), Sequences(*(s[half:] for s in sequences))
    with torch.no_grad():
        spread = (network(for_numbers.inputs.double()) - for_numbers.targets).std().item()

    def read(part: Sequences) -> Iterator[tuple[Trace, Tensor]]:
        """Trace a part of the sequences batch by batch, with the errors of the sources, (source, B, T)."""
        at_once = max(1, min(BATCH, STATES // (part.targets.shape[1] * network.cell.hidden_size)))
        for start in range(0, len(part.targets), at_once):
            inputs, targets = (s[start : start + at_once].double() for s in part)
            trace = network.cell.trace(inputs)
            noise = spread * torch.randn(targets.shape, generator=generator, dtype=torch.float64)
            errors = {"error": network.residual(trace.outputs, targets), "target": -targets, "noise": noise}
            yield trace, torch.stack([errors[source] for source in sources])

    # Loss gradients of all sources and times are this vector times an error; transport is linear, so that it is carried back once.
    pull = network.loss_gradients(torch.ones((), dtype=torch.float64))
    aim = _Aim.of([_expect(trace, errors, pull, randoms, lags) for trace, errors in read(for_signs)], randoms)

    rates, statistics, projections = [], [], []
    for trace, errors in read(for_numbers):
        ends = _spread_out(default_ends(trace, lags), settings.ends)
        rates.append(torch.stack([effective_rates(trace, lags, order, ends) for order in settings.orders]))
        statistic, projection = _numbers(trace, errors, pull, randoms, aim, lags)
        statistics.append(statistic)
        projections.append(projection)
    compared = torch.cat(rates, dim=1)  # (order, sequence, end, lag, H)
    dims = ("source", "probe", "lag", "sequence")
    return xr.Dataset(
        {
            "rate": (("order", "lag", "unit"), compared.abs().mean((1, 2)).numpy(), {"long_name": "mean absolute effective rate"}),
            "negative": (("order", "lag"), (compared < 0).double().mean((1, 2, 4)).numpy(), {"long_name": "share of rates below 0"}),
            "statistic": (dims, torch.cat(statistics, -1).numpy(), {"long_name": "the lag's part, one number a sequence"}),
            "projection": (dims, torch.cat(projections, -1).numpy(), {"long_name": "the whole gradient along the same direction"}),
        },
        coords={
            "order": list(settings.orders),
            "lag": ("lag", lags, {"long_name": "lag ℓ", "units": "steps"}),
            "source": list(sources),
            "view": (
                "probe",
                [view for view in ("zeroth", "first", "whole") for _ in randoms] + ["gradient"],
                {"long_name": "how the probe looks at the lag's part of the gradient"},
            ),
        },
    )


@dataclass(frozen=True, eq=False)
class _Aim:
    """What the first half of the sequences fixes, before the second half is looked at.

    Attributes:
        signs: Eq. (28)'s ``sgn E[a]`` along each random direction, shape (source, direction, lag, H).
        own: The lags' mean gradients, scaled to unit length: for each source a direction w for each lag.
        upwards: The sign of the lag's mean part along each random direction, shape (source, direction, lag).
    """

    signs: Tensor
    own: list[list[dict[str, Tensor]]]
    upwards: Tensor

    @classmethod
    def of(cls, batches: list[tuple[Tensor, list[list[dict[str, Tensor]]]]], randoms: list[dict[str, Tensor]]) -> Self:
        """Add up what `_expect` has found in each batch."""
        signs = torch.stack([alignments for alignments, _ in batches]).sum(0).sign()
        own = [
            [
                _unit({name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]})
                for parts in zip(*of_source, strict=True)
            ]
            for of_source in zip(*(pulls for _, pulls in batches), strict=True)
        ]
        upwards = torch.stack([torch.stack([torch.stack([_inner(w, pull) for pull in pulls]) for w in randoms]) for pulls in own])
        return cls(signs, own, upwards.sign())


def _expect(
    trace: Trace, errors: Tensor, pull: Tensor, randoms: list[dict[str, Tensor]], lags: list[int]
) -> tuple[Tensor, list[list[dict[str, Tensor]]]]:
    """Add up, over a batch, alignments along each random direction (source, direction, lag, H), and each source's and lag's gradient."""
    ends = default_ends(trace, lags)
    first, length, at_ends = ends[0], trace.length, errors[:, :, ends]
    moved = [trace.carried(immediate_sensitivity(trace, w)) for w in randoms]
    alignments = [[torch.einsum("sbe,beh->sh", at_ends, m[:, first - lag : length - lag]) for lag in lags] for m in moved]
    pulls: list[list[dict[str, Tensor]]] = [[] for _ in errors]
    for lag, rows in transported(trace, pull.expand_as(trace.outputs), lags, first):
        for of_source, error in zip(pulls, at_ends, strict=True):
            of_source.append(trace.cotangent(error.unsqueeze(-1) * rows, slice(first - lag, length - lag)))
    return pull * torch.stack([torch.stack(of_direction) for of_direction in alignments]).movedim(2, 0), pulls


def _numbers(
    trace: Trace, errors: Tensor, pull: Tensor, randoms: list[dict[str, Tensor]], aim: _Aim, lags: list[int]
) -> tuple[Tensor, Tensor]:
    """One number a sequence for every source, probe and lag, and the whole gradient along the same directions: (source, probe, lag, B)."""
    ends = default_ends(trace, lags)
    first, length, at_ends = ends[0], trace.length, errors[:, :, ends] / len(ends)
    pulls = pull.expand_as(trace.outputs)
    moved = torch.stack([immediate_sensitivity(trace, w) for w in randoms])
    moved_own = [[immediate_sensitivity(trace, w) for w in of_source] for of_source in aim.own]

    paper = errors.new_empty(2, *aim.upwards.shape, errors.shape[1])  # (order, source, direction, lag, B)
    carried = torch.stack([trace.carried(m) for m in moved])
    for order, at_order in zip(("zeroth", "first"), paper, strict=True):
        for part, at_lags in stream_rates(trace, lags, order, ends, weights=pulls[:, ends]):
            for i, (lag, rates) in enumerate(zip(lags, at_lags, strict=True)):
                aligned = rates.value() * carried[:, part, first - lag : length - lag]
                at_order[:, :, i, part] = torch.einsum("sbe,dbeh,sdh->sdb", at_ends[:, part], aligned, aim.signs[:, :, i])

    whole, own = [], []
    for i, (lag, rows) in enumerate(transported(trace, pulls, lags, first)):
        steps = slice(first - lag, length - lag)
        whole.append(aim.upwards[..., i, None] * torch.einsum("sbe,beh,dbeh->sdb", at_ends, rows, moved[:, :, steps]))
        along = torch.stack([(rows * of_source[i][:, steps]).sum(-1) for of_source in moved_own])
        own.append((at_ends * along).sum(-1))
    statistic = torch.cat([paper[0], paper[1], torch.stack(whole, dim=2), torch.stack(own, dim=1).unsqueeze(1)], dim=1)

    projections = []
    for error, of_source in zip(at_ends, moved_own, strict=True):
        back = adjoints(trace, functional.pad(error, (first, 0)).unsqueeze(-1) * pulls)
        along_random = torch.stack([_per_sequence(back, m).expand(len(lags), -1) for m in moved])
        along_own = torch.stack([_per_sequence(back, m) for m in of_source]).unsqueeze(0)
        projections.append(torch.cat([along_random, along_random, along_random, along_own]))
    return statistic, torch.stack(projections)


def _per_sequence(left: Tensor, right: Tensor) -> Tensor:
    """Inner products over steps and neurons of two (B, steps, H) arrays, shape (B,)."""
    return torch.einsum("beh,beh->b", left, right)


def _inner(left: dict[str, Tensor], right: dict[str, Tensor]) -> Tensor:
    """Inner product of two vectors in parameter space."""
    return torch.stack([(left[name] * right[name]).sum() for name in left]).sum()


def _unit(vector: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scale a vector in parameter space to unit length; zero stays zero."""
    length = _inner(vector, vector).sqrt()
    return {name: part / length if length > 0 else part for name, part in vector.items()}


def _spread_out(ends: list[int], count: int) -> list[int]:
    """Choose end points, evenly spaced up to the last one."""
    return [ends[-1 - i * len(ends) // count] for i in range(count)][::-1]
