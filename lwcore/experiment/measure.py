"""Measurement of a network: one number a sequence, source, probe and lag, and what is kept of it.

A *source* says what makes the error: the network's own error, the target alone (as if it had
learned nothing), or noise (a control that holds no signal). A *probe* looks at the lag-ℓ part of
the gradient along one direction of parameter space; its *view* is the paper's matched statistic
at zeroth or first order, or a random direction, or the lag's own mean gradient.

The independent unit is the sequence, averaged over all end points that leave room for the longest
lag. Signs and mean gradients come from one half of the sequences and the numbers from the other.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
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
    carry_back,
    immediate_sensitivity,
    lag_statistics,
    random_direction,
    unit_length,
)
from lwcore.inference import described, signal_and_noise
from lwcore.network import Network
from lwcore.signatures import Index, Seed, checked, require, unchecked
from lwcore.tasks import DelayedRegression, Sequences, check, recovered_coefficients
from lwcore.trace import Direction, Trace
from lwcore.transport import Order, effective_rates, envelope
from lwcore.window import time_scales

Source = Literal["error", "target", "noise"]
PAPER: tuple[Order, ...] = ("zeroth", "first")  # views with the paper's statistic, by order
BATCH = 64  # sequences traced at a time, at the most: changes the result by rounding alone
STATES = 2**20  # numbers B·T·H at a time, at the most; some hundred arrays of that size are held
# Enough for means over sequences and steps, little enough to be looked at in every snapshot.
SNAPSHOT = 64
_LEARNED = "coefficient of the delayed input in the network's output"
_RETENTION = "mean share of its state that a neuron keeps in a step"
_TIME_SCALE = "time scale τ of a neuron"
_ENVELOPE = "envelope f(ℓ), per unit of global learning rate"


@checked
def measure(
    network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: Seed
) -> xr.Dataset:
    """Measure what a network's N(ℓ) and windows follow from, on sequences it was not trained on.

    Returns the variables of `inference.signal_and_noise`, the rates of `observe` and, where the
    settings say so, the numbers of `observe` for the network's own error, in float32.
    """
    observed = observe(network, sequences, settings, seed)
    measured = signal_and_noise(observed).assign(observed.drop_dims("sequence"))
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
    """Measure effective rates and, for each sequence, lag statistics and projected gradients.

    Runs on a float64 copy of the network. `measure` keeps what inference needs of this; take
    `observe` for the numbers of single sequences. The dimensions:

    * ``order``, ``lag``, ``unit`` (a neuron): of the rates, their envelope and time scales.
    * ``source``, ``probe``, ``lag``, ``sequence``: of ``statistic``, the lag's part, and
      ``projection``, the whole gradient along the same direction.

    Args:
        sequences: Fresh sequences; the first half gives the signs, the second the numbers.
        seed: Seed of the random directions and of the noise.
        sources: What makes the errors.
    """
    check(*sequences)
    network = copy.deepcopy(network).double()
    generator = torch.Generator().manual_seed(seed)
    directions = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    half = len(sequences.targets) // 2
    for_signs = Sequences(sequences.inputs[:half], sequences.targets[:half])
    for_numbers = Sequences(sequences.inputs[half:], sequences.targets[half:])
    # Noise has the spread of the network's own errors.
    with torch.no_grad():
        noise = (network(for_numbers.inputs.double()) - for_numbers.targets).std().item()
    lags = list(settings.lags)
    batches_of = partial(_batches, network, lags, directions, sources, noise, generator)

    as_vectors = [torch.cat([part.flatten() for part in w.values()]) for w in directions]
    fixed = _signs_and_directions(batches_of(for_signs), torch.stack(as_vectors))
    by_batch = []
    for batch in batches_of(for_numbers):
        weight = len(batch.trace.inputs) / len(for_numbers.targets)
        by_batch.append((*_mean_rates(batch, settings, weight), *_numbers(batch, fixed)))
    *of_rates, statistics, projections = zip(*by_batch, strict=True)
    rate, f, negative = (torch.stack(shares).sum(0).numpy() for shares in of_rates)

    dims = ("source", "probe", "lag", "sequence")
    of_lag = torch.cat(statistics, -1).numpy()
    of_whole = torch.cat(projections, -1).numpy()
    data = described(
        {
            "rate": (("order", "lag", "unit"), rate, "mean absolute effective rate"),
            "envelope": (("order", "lag"), f, _ENVELOPE),
            "negative": (("order", "lag"), negative, "share of rates below 0"),
            "time_scale": (("order", "unit"), time_scales(lags, rate), _TIME_SCALE),
            "statistic": (dims, of_lag, "the lag's part, one number a sequence"),
            "projection": (dims, of_whole, "the whole gradient along the same direction"),
        }
    )
    data.time_scale.attrs["units"] = "steps"

    # The paper's views and the whole gradient see each random direction, "gradient" the lag's own.
    views = [view for view in (*PAPER, "whole") for _ in directions] + ["gradient"]
    about_views = {"long_name": "how the probe looks at the lag's part of the gradient"}
    return data.assign_coords(
        order=list(settings.orders),
        lag=("lag", lags, {"long_name": "lag ℓ", "units": "steps"}),
        source=list(sources),
        view=("probe", views, about_views),
    )


class _Batch(NamedTuple):
    """Some sequences, scanned, with errors of every source, 0 before the first end point.

    Gradients are with respect to the cell's parameters, in one row for each sequence.
    """

    trace: Trace
    errors: Float[Tensor, "source B T"]
    unit: Float[Tensor, " H"]  # δ of an error of 1
    moved: list[Float[Tensor, "B T H"]]  # sensitivities along each random direction
    lags: list[int]

    @property
    def ends(self) -> list[int]:
        """All end points that leave room for the longest lag; every lag takes the same."""
        return list(range(self.lags[-1], self.trace.length))

    @property
    def loss_gradients(self) -> Float[Tensor, "source B T H"]:
        """δ of every source, the loss gradients in the outputs: errors times `unit`."""
        return self.errors.unsqueeze(-1) * self.unit

    def gathered(
        self, rows: Float[Tensor, "source B steps S"], steps: slice = slice(None)
    ) -> Float[Tensor, "source B P"]:
        """Return the gradient of every sequence, averaged over end points."""
        for_each_source = vmap(lambda of_source: self.trace.gathered_each(of_source, steps))
        return for_each_source(rows) / len(self.ends)

    def lag_gradients(self) -> Iterator[Float[Tensor, "source B P"]]:
        """Yield the part of each lag; an error of 1 is carried back for all sources."""
        # Transport is linear in the error: so it runs once, and each source multiplies its rows.
        first = self.lags[-1]
        unit = self.unit.expand_as(self.trace.outputs)
        at_ends = self.errors[..., first:, None]
        for lag, rows in carry_back(self.trace, unit, self.lags, first):
            steps = slice(first - lag, self.trace.length - lag)
            yield self.gathered(at_ends * rows, steps)


def _batches(
    network: Network,
    lags: list[int],
    directions: list[Direction],
    sources: Sequence[Source],
    noise: float,
    generator: torch.Generator,
    sequences: Sequences,
) -> Iterator[_Batch]:
    """Yield batches of sequences that fit into memory; `noise` is the spread of its source."""
    count, length = sequences.targets.shape
    n_at_once = max(1, min(BATCH, STATES // (length * network.cell.hidden_size)))
    unit = network.loss_gradients(torch.ones((), dtype=torch.float64))
    for start in range(0, count, n_at_once):
        inputs = sequences.inputs[start : start + n_at_once].double()
        targets = sequences.targets[start : start + n_at_once].double()
        trace = network.cell.trace(inputs)
        random = torch.randn(targets.shape, generator=generator, dtype=torch.float64)
        by_source = {
            "error": network.residual(trace.outputs, targets),
            "target": -targets,
            "noise": noise * random,
        }
        errors = torch.stack([by_source[source] for source in sources])
        errors[..., : lags[-1]] = 0.0
        moved = [trace.carried(immediate_sensitivity(trace, w)) for w in directions]
        yield _Batch(trace, errors, unit, moved, lags)


def _mean_rates(
    batch: _Batch, settings: DiagnosticSettings, weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a batch's share in the mean size of rates, their envelope, and how many are negative.

    End points are spread evenly from the last.
    """
    ends = batch.ends
    evenly = [ends[-1 - k * len(ends) // settings.ends] for k in reversed(range(settings.ends))]
    size = []
    envelopes = []
    negative = []
    for order in settings.orders:
        rates = effective_rates(batch.trace, batch.lags, order, evenly)
        size.append(rates.abs().mean((0, 1)))
        envelopes.append(envelope(rates))
        negative.append((rates < 0).double().mean((0, 1, 3)))
    return (
        weight * torch.stack(size),
        weight * torch.stack(envelopes),
        weight * torch.stack(negative),
    )


class _SignsAndDirections(NamedTuple):
    """What one half of the sequences fixes before the other is looked at."""

    signs: Float[Tensor, "look lag H"]  # Eq. (28)'s sgn E[a], by source and random direction
    directions: Float[Tensor, "source lag w P"]  # random ones, and the lag's own mean gradient
    upwards: Float[Tensor, "source lag w"]  # signs of the lag's mean part along each of them


def _signs_and_directions(
    batches: Iterable[_Batch], random: Float[Tensor, "direction P"]
) -> _SignsAndDirections:
    """Return signs and directions, of alignments and gradients added up over batches."""
    alignments = []
    gradients = []
    for batch in batches:
        aligned = []
        for delta in batch.loss_gradients:
            for moved in batch.moved:
                # One lag at a time: the alignments of all would not fit into memory.
                for lag in batch.lags:
                    at_lag = unchecked(alignment)(delta, moved, [lag], batch.ends)
                    aligned.append(at_lag.sum((0, 1)))
        alignments.append(torch.cat(aligned).unflatten(0, (-1, len(batch.lags))))
        of_lags = [part.sum(1) for part in batch.lag_gradients()]
        gradients.append(torch.stack(of_lags, dim=1))
    signs = torch.stack(alignments).sum(0).sign()
    mean_gradient = torch.stack(gradients).sum(0).unsqueeze(2)  # but for a factor
    own = unit_length(mean_gradient)
    n_sources, n_lags = mean_gradient.shape[:2]
    directions = torch.cat([random.expand(n_sources, n_lags, -1, -1), own], dim=2)
    upwards = (directions * mean_gradient).sum(-1).sign()
    return _SignsAndDirections(signs, directions, upwards)


def _numbers(batch: _Batch, fixed: _SignsAndDirections) -> tuple[Tensor, Tensor]:
    """Return statistics and projected whole gradients of every sequence, (source, probe, lag, B).

    The letters of the sums: s a source, b a sequence, p a parameter, l a lag, w a direction.
    """
    deltas = batch.loss_gradients
    aims: list[Aim] = []
    for delta, moved in itertools.product(deltas, batch.moved):
        signs = fixed.signs[len(aims)]
        aims.append(Aim(delta, moved, signs))
    statistics = []
    for order in PAPER:
        of_aims = lag_statistics(batch.trace, aims, batch.lags, order, batch.ends)
        statistics.append(of_aims.mT.unflatten(0, (len(deltas), -1)))

    # The exact part of each lag along every direction, with the sign that its mean has there.
    exact = []
    for place, part in enumerate(batch.lag_gradients()):
        along = torch.einsum("sbp,swp->swb", part, fixed.directions[:, place])
        exact.append(fixed.upwards[:, place].unsqueeze(-1) * along)
    statistics.append(torch.stack(exact, dim=2))

    adjoints = torch.stack([batch.trace.backpropagate(delta) for delta in deltas])
    gradients = batch.gathered(adjoints)
    whole = torch.einsum("sbp,slwp->swlb", gradients, fixed.directions)
    # Each of the paper's views has the random directions, and not the lag's own.
    along_random = whole[:, : len(batch.moved)]
    projections = [*([along_random] * len(PAPER)), whole]
    return torch.cat(statistics, dim=1), torch.cat(projections, dim=1)


@torch.no_grad()
@checked
def course(
    network: Network,
    snapshots: Mapping[Index, dict[str, Any]],
    sequences: Sequences,
    task: DelayedRegression,
    settings: DiagnosticSettings,
) -> xr.Dataset:
    """Measure a network as it was at several steps of its training, on the first fresh sequences.

    Returns, for each snapshot, what is learned of each delay, retention (1 − s or f), time
    scales and envelopes.

    Args:
        snapshots: State dictionaries by the number of training steps taken.
    """
    require("snapshots", dict(snapshots), len(snapshots), "at least one")
    first = Sequences(*(values[:SNAPSHOT].double() for values in sequences))
    network = copy.deepcopy(network).double()
    at_snapshots = []
    for state in snapshots.values():
        network.load_state_dict(state)
        at_snapshots.append(_measure_now(network, first, task, settings))
    data = xr.concat(at_snapshots, "snapshot", combine_attrs="override")
    data.course_time_scale.attrs["units"] = "steps"
    about_delays = {"long_name": "delay in the target", "units": "steps"}
    return data.assign_coords(
        snapshot=("snapshot", list(snapshots), {"long_name": "training steps taken"}),
        task_lag=("task_lag", list(task.lags), about_delays),
        order=list(settings.orders),
        lag=list(settings.lags),
    )


def _measure_now(
    network: Network, sequences: Sequences, task: DelayedRegression, settings: DiagnosticSettings
) -> xr.Dataset:
    """Measure a network as it is now, with the rates of the last step alone: see `course`."""
    trace = network.cell.trace(sequences.inputs)
    predictions = network.readout(trace.outputs)
    learned = recovered_coefficients(task, sequences, predictions, task.lags)
    kept = trace.neurons.retention
    sizes = []
    for order in settings.orders:
        rates = effective_rates(trace, settings.lags, order, [trace.length - 1])
        sizes.append(rates.abs().mean((0, 1)))
    size = np.stack(sizes)
    variables: Any = {
        "course_learned": ("task_lag", learned, _LEARNED),
        "retention": ("unit", kept.mean((0, 1)), _RETENTION),
        "course_time_scale": (("order", "unit"), time_scales(settings.lags, size), _TIME_SCALE),
        "course_envelope": (("order", "lag"), size.sum(-1), _ENVELOPE),
    }
    return described(variables)


@checked
def base_rates(network: Network, optimizer: dict[str, Any]) -> Float[Tensor, " H"]:
    """Return base rates Λ of neurons: the mean of ``1/(√v̂ + ϵ)`` over the parameters of their rows.

    v̂ is the bias-corrected second moment of Adam, and Λ how much larger Adam makes a neuron's
    learning rate; per unit of global learning rate. Without second moments, as of plain descent, Λ
    is 1. A gate that all neurons share belongs to none of them, nor does the layer normalisation.

    Args:
        optimizer: The optimiser's state dictionary, with the network's parameters in one group.
    """
    groups = optimizer.get("param_groups", ())
    require("optimizer", list(optimizer), len(groups) == 1, "of an optimiser, with one group")
    hidden = network.cell.hidden_size
    parts = []
    for index, (name, parameter) in enumerate(network.named_parameters()):
        if name not in ("cell.weight_ih", "cell.weight_hh", "cell.bias"):
            continue
        state = optimizer["state"].get(index, {})
        if "exp_avg_sq" not in state:
            return torch.ones(hidden, dtype=torch.float64)
        correction = 1 - groups[0]["betas"][1] ** float(state["step"])
        moment = state["exp_avg_sq"].double() / correction  # v̂
        base = 1 / (moment.sqrt() + groups[0]["eps"])
        parts.append(base.reshape(len(parameter), -1))
    rows = torch.cat(parts, dim=1).mean(1)
    # Rows of blocks with a row for each neuron stand last; a shared gate's row stands before them.
    own = len(rows) // hidden * hidden
    return rows[-own:].unflatten(0, (-1, hidden)).mean(0).cpu()
