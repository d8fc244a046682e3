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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
import xarray as xr
from torch import Tensor

from lwcore.bptt import adjoints, alignment, immediate_sensitivity, lag_statistic, random_direction, transported
from lwcore.cells import Trace
from lwcore.config import DiagnosticSettings
from lwcore.inference import infer
from lwcore.network import Network
from lwcore.tasks import Sequences
from lwcore.transport import default_ends, effective_rates

SOURCES = ("error", "target", "noise")
BATCH = 64  # sequences traced at a time: bounds memory, does not change the result beyond rounding


def measure(network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Measure a network's rates, envelope, sample complexity and learnability window on fresh sequences.

    Args:
        network: A trained network; it is not changed. All is computed on a float64 copy.
        sequences: Sequences it was not trained on; inputs (S, T, D), targets (S, T).
        settings: What to measure.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        The variables of `inference.infer`, with the rates of `observe`.
    """
    observed = observe(network, sequences, settings, seed)
    return infer(observed, settings).assign(observed.drop_dims("sequence"))


def observe(network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Read rates and, one number a sequence, statistics and projected gradients off a network.

    Args:
        network: A trained network; it is not changed.
        sequences: Sequences it was not trained on.
        settings: What to measure.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        ``rate`` (order, lag, unit), the mean of |μ|; ``negative`` (order, lag), the share of rates below 0; ``statistic`` and
        ``projection`` (source, probe, lag, sequence): the lag's part as the probe sees it, and the whole gradient, all lags together,
        along the probe's direction.
    """
    sequences.check()
    network = copy.deepcopy(network).double()
    generator = torch.Generator().manual_seed(seed)
    randoms = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    lags = list(settings.lags)
    half = len(sequences.targets) // 2
    for_signs, for_numbers = Sequences(*(s[:half] for s in sequences)), Sequences(*(s[half:] for s in sequences))
    with torch.no_grad():
        spread = (network(for_numbers.inputs.double()) - for_numbers.targets).std().item()

    def read(part: Sequences) -> Iterator[tuple[Trace, list[Tensor]]]:
        """Trace a part of the sequences batch by batch, with δ of every source."""
        for start in range(0, len(part.targets), BATCH):
            inputs, targets = (s[start : start + BATCH].double() for s in part)
            trace = network.cell.trace(inputs)
            noise = spread * torch.randn(targets.shape, generator=generator, dtype=torch.float64)
            yield trace, [network.loss_gradients(error) for error in (network.residual(trace.outputs, targets), -targets, noise)]

    batches = [[_expect(trace, delta, randoms, lags) for delta in gradients] for trace, gradients in read(for_signs)]
    aims = [_Aim.of([batch[s] for batch in batches], randoms) for s in range(len(SOURCES))]

    rates, statistics, projections = [], [], []
    for trace, gradients in read(for_numbers):
        ends = _spread_out(default_ends(trace, lags), settings.ends)
        rates.append(torch.stack([effective_rates(trace, lags, order, ends) for order in settings.orders]))
        numbers = [_numbers(trace, delta, randoms, aim, lags) for delta, aim in zip(gradients, aims, strict=True)]
        statistics.append(torch.stack([statistic for statistic, _ in numbers]))
        projections.append(torch.stack([projection for _, projection in numbers]))
    compared = torch.cat(rates, dim=1)  # (order, sequence, end, lag, H)
    dims = ("source", "probe", "lag", "sequence")
    return xr.Dataset(
        {
            "rate": (("order", "lag", "unit"), compared.abs().mean((1, 2)).numpy(), {"long_name": "mean absolute effective rate"}),
            "negative": (("order", "lag"), (compared < 0).double().mean((1, 2, 4)).numpy(), {"long_name": "share of rates below 0"}),
            "statistic": (dims, torch.cat(statistics, -1).numpy()),
            "projection": (dims, torch.cat(projections, -1).numpy()),
        },
        coords={
            "order": list(settings.orders),
            "lag": ("lag", lags, {"long_name": "lag ℓ", "units": "steps"}),
            "source": list(SOURCES),
            "view": (
                "probe",
                [view for view in ("zeroth", "first", "whole") for _ in randoms] + ["gradient"],
                {"long_name": "how the probe looks at the lag's part of the gradient"},
            ),
        },
    )


@dataclass(frozen=True, eq=False)
class _Aim:
    """What the first half of the sequences fixes for one source, before the second half is looked at.

    Attributes:
        signs: Eq. (28)'s ``sgn E[a]`` along each random direction, shape (direction, lag, H).
        own: The lags' mean gradients, scaled to unit length: a direction w for each lag.
        upwards: The sign of the lag's mean part along each random direction, shape (direction, lag).
    """

    signs: Tensor
    own: list[dict[str, Tensor]]
    upwards: Tensor

    @classmethod
    def of(cls, batches: list[tuple[Tensor, list[dict[str, Tensor]]]], randoms: list[dict[str, Tensor]]) -> Self:
        """Add up what `_expect` has found in each batch."""
        signs = torch.stack([alignments for alignments, _ in batches]).sum(0).sign()
        pulls = [pull for _, pull in batches]
        own = [_unit({name: torch.stack([batch[i][name] for batch in pulls]).sum(0) for name in pulls[0][i]}) for i in range(len(pulls[0]))]
        return cls(signs, own, torch.stack([torch.stack([_inner(w, pull) for pull in own]).sign() for w in randoms]))


def _expect(trace: Trace, delta: Tensor, randoms: list[dict[str, Tensor]], lags: list[int]) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Sums over a batch: of the alignments along each random direction (direction, lag, H), and of each lag's parameter gradient."""
    ends = default_ends(trace, lags)
    moved = (immediate_sensitivity(trace, w) for w in randoms)
    alignments = torch.stack([alignment(delta, trace.carried(m), lags, ends).sum((0, 1)) for m in moved])
    length, first = trace.length, ends[0]
    pulls = [trace.cotangent(rows[:, first - lag :], slice(first - lag, length - lag)) for lag, rows in transported(trace, delta, lags)]
    return alignments, pulls


def _numbers(trace: Trace, delta: Tensor, randoms: list[dict[str, Tensor]], aim: _Aim, lags: list[int]) -> tuple[Tensor, Tensor]:
    """One number a sequence for every probe and lag, and the whole gradient along the same directions, each (probe, lag, B)."""
    ends = default_ends(trace, lags)
    count = len(ends)
    moved = [immediate_sensitivity(trace, w) for w in randoms]
    moved_own = [immediate_sensitivity(trace, w) for w in aim.own]
    paper = [
        lag_statistic(trace, delta, m, signs, lags, order).t()
        for order in ("zeroth", "first")
        for m, signs in zip(moved, aim.signs, strict=True)
    ]
    whole, own = [], []
    for i, (lag, rows) in enumerate(transported(trace, delta, lags)):
        carried, steps = rows[:, -count:], slice(ends[0] - lag, trace.length - lag)
        whole.append(torch.stack([u[i] * _per_sequence(carried, m[:, steps]) for u, m in zip(aim.upwards, moved, strict=True)]) / count)
        own.append(_per_sequence(carried, moved_own[i][:, steps]) / count)
    statistic = torch.cat([torch.stack(paper), torch.stack(whole, dim=1), torch.stack(own).unsqueeze(0)])

    at_ends = torch.zeros_like(delta)
    at_ends[:, ends] = delta[:, ends] / count
    back = adjoints(trace, at_ends)
    along_random = torch.stack([_per_sequence(back, m).expand(len(lags), -1) for m in moved])
    along_own = torch.stack([_per_sequence(back, m) for m in moved_own]).unsqueeze(0)
    return statistic, torch.cat([along_random, along_random, along_random, along_own])


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
