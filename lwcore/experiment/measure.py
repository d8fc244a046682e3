"""Measurement of a network: one number a sequence, source, probe and lag, and what is kept of it.

A probe looks at the lag-ℓ part of the gradient along one direction, a source says what makes the
error: see `book/notation.md`. The independent unit is the sequence, averaged over all end points
that leave room for the longest lag. Signs and mean gradients come from one half of the sequences
and the numbers from the other. Time scales and base rates are followed along its training, too.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap

from lwcore.experiment.config import DiagnosticSettings
from lwcore.gradient import (
    Aim,
    alignment,
    immediate_sensitivity,
    lag_statistics,
    random_direction,
    transported,
    unit_length,
)
from lwcore.inference import described, summary
from lwcore.network import Network
from lwcore.signatures import Index, Seed, bare, checked, require
from lwcore.tasks import DelayedRegression, Sequences, recovered_coefficients
from lwcore.trace import Trace
from lwcore.transport import Order, effective_rates, envelope
from lwcore.window import time_scales

Source = Literal["error", "target", "noise"]
PAPER: tuple[Order, ...] = ("zeroth", "first")  # views with the paper's statistic, by order
BATCH = 64  # sequences traced at a time, at the most: changes the result by rounding alone
STATES = 2**20  # numbers B·T·H at a time, at the most; some hundred arrays of that size are held
# Enough for means over sequences and steps, little enough to be looked at in every snapshot.
SNAPSHOT = 64
NEARLY = 0.05  # a retention this near to 0 or 1 counts as saturated


@checked
def measure(
    network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: Seed
) -> xr.Dataset:
    """What a network's N(ℓ) and windows follow from, on sequences it was not trained on.

    The variables of `inference.summary`, the rates of `observe` and, where the settings say so, its
    numbers for the network's own error.
    """
    observed = observe(network, sequences, settings, seed)
    measured = summary(observed).assign(observed.drop_dims("sequence"))
    if settings.keep_numbers:
        own = observed[["statistic", "projection"]].sel(source="error", drop=True)
        measured = measured.assign(own.astype(np.float32))
    return measured


@checked
def observe(
    network: Network,
    sequences: Sequences,
    settings: DiagnosticSettings,
    seed: Seed,
    sources: Sequence[Source] = get_args(Source),
) -> xr.Dataset:
    """Rates, and statistics and projected gradients, one number a sequence, of a float64 copy.

    The seed is that of the random directions and of the null control's noise.
    """
    for name, values in sequences._asdict().items():
        require(f"sequences.{name}", values, bool(values.isfinite().all()), "finite")
    network, lags = copy.deepcopy(network).double(), list(settings.lags)
    generator = torch.Generator().manual_seed(seed)
    directions = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    count, length = sequences.targets.shape
    halves = (slice(0, count // 2), slice(count // 2, count))
    for_signs, for_numbers = (Sequences(*(s[half] for s in sequences)) for half in halves)
    with torch.no_grad():
        spread = (network(for_numbers.inputs.double()) - for_numbers.targets).std().item()
    unit = network.loss_gradients(torch.ones((), dtype=torch.float64))

    def read(part: Sequences) -> Iterator[_Batch]:
        """Batches of sequences, with the errors of every source."""
        at_once = max(1, min(BATCH, STATES // (length * network.cell.hidden_size)))
        for start in range(0, len(part.targets), at_once):
            x, y = (s[start : start + at_once].double() for s in part)
            trace = network.cell.trace(x)
            noise = spread * torch.randn(y.shape, generator=generator, dtype=torch.float64)
            every = {"error": network.residual(trace.outputs, y), "target": -y, "noise": noise}
            errors = torch.stack([every[source] for source in sources])
            errors[..., : lags[-1]] = 0.0
            moved = [trace.carried(immediate_sensitivity(trace, w)) for w in directions]
            yield _Batch(trace, errors, unit, moved, lags, list(range(lags[-1], length)))

    flat = [torch.cat([part.flatten() for part in w.values()]) for w in directions]
    fixed, averages, numbers = _fixed(read(for_signs), torch.stack(flat)), [], []
    for batch in read(for_numbers):
        evenly = (i * len(batch.ends) // settings.ends for i in range(settings.ends))
        ends, share = [batch.ends[-1 - i] for i in evenly][::-1], len(batch.trace.inputs)
        of_orders = [effective_rates(batch.trace, lags, o, ends) for o in settings.orders]
        means = (
            torch.stack([mu.abs().mean((0, 1)) for mu in of_orders]),
            torch.stack([envelope(mu) for mu in of_orders]),
            torch.stack([(mu < 0).double().mean((0, 1, 3)) for mu in of_orders]),
        )
        averages.append([share / len(for_numbers.targets) * mean for mean in means])
        numbers.append(_numbers(batch, fixed))
    rate, f, negative = (torch.stack(parts).sum(0).numpy() for parts in zip(*averages, strict=True))
    statistic, projection = (torch.cat(parts, -1).numpy() for parts in zip(*numbers, strict=True))
    dims = ("source", "probe", "lag", "sequence")
    data = described(
        {
            "rate": (("order", "lag", "unit"), rate, "mean absolute effective rate"),
            "envelope": (("order", "lag"), f, "envelope f(ℓ), per unit of global learning rate"),
            "negative": (("order", "lag"), negative, "share of rates below 0"),
            "time_scale": (("order", "unit"), time_scales(lags, rate), "time scale τ of a neuron"),
            "statistic": (dims, statistic, "the lag's part, one number a sequence"),
            "projection": (dims, projection, "the whole gradient along the same direction"),
        }
    )
    data.time_scale.attrs["units"] = "steps"
    views = [view for view in (*PAPER, "whole") for _ in directions] + ["gradient"]
    words = {"long_name": "how the probe looks at the lag's part of the gradient"}
    return data.assign_coords(
        order=list(settings.orders),
        lag=("lag", lags, {"long_name": "lag ℓ", "units": "steps"}),
        source=list(sources),
        view=("probe", views, words),
    )


class _Batch(NamedTuple):
    """Some sequences, scanned, with errors of every source, 0 before the first end point."""

    trace: Trace
    errors: Float[Tensor, "source B T"]
    unit: Float[Tensor, " H"]  # δ of an error of 1
    moved: list[Float[Tensor, "B T H"]]  # along each random direction
    lags: list[int]
    ends: list[int]

    @property
    def loss_gradients(self) -> Float[Tensor, "source B T H"]:
        """δ of every source."""
        return self.errors.unsqueeze(-1) * self.unit

    def gathered(
        self, rows: Float[Tensor, "source B n S"], steps: slice = slice(None)
    ) -> Float[Tensor, "source B P"]:
        """Gradients of every sequence, averaged over end points."""
        return vmap(lambda one: self.trace.gathered_each(one, steps))(rows) / len(self.ends)

    def lag_gradients(self) -> Iterator[Float[Tensor, "source B P"]]:
        """The part of each lag; an error of 1 is carried back for all sources, which is linear."""
        first, unit = self.ends[0], self.unit.expand_as(self.trace.outputs)
        for lag, rows in transported(self.trace, unit, self.lags, first):
            steps = slice(first - lag, self.trace.length - lag)
            yield self.gathered(self.errors[..., first:, None] * rows, steps)


class _Fixed(NamedTuple):
    """What one half of the sequences fixes before the other is looked at."""

    signs: Float[Tensor, "look lag H"]  # Eq. (28)'s sgn E[a], by source and random direction
    directions: Float[Tensor, "source lag w P"]  # random ones, and the lag's own mean gradient
    upwards: Float[Tensor, "source lag w"]  # signs of the lag's mean part along each of them


def _fixed(batches: Iterable[_Batch], random: Float[Tensor, "direction P"]) -> _Fixed:
    """Signs and directions, of alignments and gradients added up over batches."""
    signs, gradients = [], []
    for batch in batches:
        # one lag at a time: the alignments of all would not fit into memory
        each = itertools.product(batch.loss_gradients, batch.moved, batch.lags)
        aligned = [
            bare(alignment)(delta, moved, [lag], batch.ends).sum((0, 1))
            for delta, moved, lag in each
        ]
        signs.append(torch.cat(aligned).unflatten(0, (-1, len(batch.lags))))
        gradients.append(torch.stack([part.sum(1) for part in batch.lag_gradients()], dim=1))
    total = torch.stack(gradients).sum(0).unsqueeze(2)
    own = unit_length(total)
    directions = torch.cat([random.expand(*total.shape[:2], -1, -1), own], dim=2)
    upwards = (directions * total).sum(-1).sign()
    return _Fixed(torch.stack(signs).sum(0).sign(), directions, upwards)


def _numbers(batch: _Batch, fixed: _Fixed) -> tuple[Tensor, Tensor]:
    """Statistics and whole gradients of every sequence, both (source, probe, lag, B)."""
    deltas, by_source = batch.loss_gradients, (len(batch.errors), -1)
    looks = itertools.product(deltas, batch.moved)
    aims = [Aim(*look, signs) for look, signs in zip(looks, fixed.signs, strict=True)]
    paper = [
        lag_statistics(batch.trace, aims, batch.lags, order, batch.ends).mT.unflatten(0, by_source)
        for order in PAPER
    ]
    at_lags = zip(
        batch.lag_gradients(), fixed.directions.unbind(1), fixed.upwards.unbind(1), strict=True
    )
    exact = torch.stack(
        [up.unsqueeze(-1) * torch.einsum("sbp,swp->swb", part, w) for part, w, up in at_lags], dim=2
    )
    gradients = batch.gathered(torch.stack([batch.trace.backpropagate(d) for d in deltas]))
    whole = torch.einsum("sbp,slwp->swlb", gradients, fixed.directions)
    random = whole[:, : len(batch.moved)]
    return torch.cat([*paper, exact], dim=1), torch.cat([random, random, whole], dim=1)


@torch.no_grad()
@checked
def course(
    network: Network,
    snapshots: Mapping[Index, dict[str, Any]],
    sequences: Sequences,
    task: DelayedRegression,
    settings: DiagnosticSettings,
) -> xr.Dataset:
    """A network as it was at several steps of its training, on the first of fresh sequences.

    Snapshots are state dictionaries by the number of steps taken; a neuron's retention is the
    diagonal part of its one-step Jacobian, 1 − s or f.
    """
    require("snapshots", dict(snapshots), len(snapshots), "at least one")
    part = Sequences(*(s[:SNAPSHOT].double() for s in sequences))
    network, found, over = copy.deepcopy(network).double(), [], (0, 1)
    for state in snapshots.values():
        network.load_state_dict(state)
        trace = network.cell.trace(part.inputs)
        predictions, kept = network.readout(trace.outputs), trace.neurons.retention
        learned = recovered_coefficients(task, part, predictions, task.lags)
        near = ((kept < NEARLY) | (kept > 1 - NEARLY)).double().mean(over)
        lags, last = settings.lags, [trace.length - 1]
        of_orders = (effective_rates(trace, lags, order, last) for order in settings.orders)
        rates = np.stack([mu.abs().mean(over) for mu in of_orders])
        tau, f, words = time_scales(lags, rates), rates.sum(-1), "coefficient of the delayed input"
        mean = "mean share of its state that a neuron keeps in a step"
        unit = "envelope f(ℓ), per unit of global learning rate"
        values: dict[str, tuple[Any, Any, str]] = {
            "course_learned": ("task_lag", learned, f"{words} in the network's output"),
            "retention": ("unit", kept.mean(over), mean),
            "saturated": ("unit", near, f"share of steps at which it is within {NEARLY} of 0 or 1"),
            "course_time_scale": (("order", "unit"), tau, "time scale τ of a neuron"),
            "course_envelope": (("order", "lag"), f, unit),
        }
        found.append(described(values))
    data = xr.concat(found, "snapshot", combine_attrs="override")
    data.course_time_scale.attrs["units"] = "steps"
    attributes = {"long_name": "delay in the target", "units": "steps"}
    return data.assign_coords(
        snapshot=("snapshot", list(snapshots), {"long_name": "training steps taken"}),
        task_lag=("task_lag", list(task.lags), attributes),
        order=list(settings.orders),
        lag=list(settings.lags),
    )


@checked
def base_rates(network: Network, optimizer: dict[str, Any]) -> Float[Tensor, " H"]:
    """Base rates Λ of neurons: the mean of ``1/(√v̂ + ϵ)`` over the parameters of a neuron's rows.

    v̂ is the bias-corrected second moment of Adam, of whose state dictionary it is read, with the
    network's parameters in one group. Λ is per unit of global learning rate; 1 without second
    moments. A row that all neurons share, SharedGate's gate, belongs to none of them, and neither
    does the layer normalisation.
    """
    groups = optimizer.get("param_groups", ())
    require("optimizer", list(optimizer), len(groups) == 1, "of an optimiser, with one group")
    hidden, parts = network.cell.hidden_size, []
    for index, (name, parameter) in enumerate(network.named_parameters()):
        if name in ("cell.weight_ih", "cell.weight_hh", "cell.bias"):
            state = optimizer["state"].get(index, {})
            if "exp_avg_sq" not in state:
                return torch.ones(hidden, dtype=torch.float64)
            correction = 1 - groups[0]["betas"][1] ** float(state["step"])
            moment = state["exp_avg_sq"].double() / correction
            parts.append((1 / (moment.sqrt() + groups[0]["eps"])).reshape(len(parameter), -1))
    rows = torch.cat(parts, dim=1).mean(1)
    own = len(rows) // hidden * hidden
    return rows[-own:].unflatten(0, (-1, hidden)).mean(0).cpu()
