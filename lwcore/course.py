"""How gates, time scales and what is learned change along training: a network looked at in
snapshots."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr

from lwcore import window
from lwcore.arguments import instance_of, integer_in
from lwcore.config import DiagnosticSettings
from lwcore.network import Network
from lwcore.tasks import DelayedRegression, Sequences, recovered_coefficients
from lwcore.transport import default_ends, effective_rates

# enough for means over sequences and steps, little enough to be done at every snapshot
SEQUENCES = 64
NEARLY = 0.05  # a retention this near to 0 or 1 counts as saturated


@torch.no_grad()
def course(
    network: Network,
    snapshots: Mapping[int, dict[str, Any]],
    sequences: Sequences,
    task: DelayedRegression,
    settings: DiagnosticSettings,
) -> xr.Dataset:
    """Measure a network as it was at several steps of its training, on the first of fresh sequences
    of its task.

    Snapshots are state dictionaries by the number of steps taken; the settings say lags and orders
    of the rates.

    Returns:
        Over ``snapshot``, the number of steps taken: loss, coefficients learned at the task's
            delays, mean, spread and saturation of each
        neuron's retention (the diagonal part of its one-step Jacobian, 1 − s or f), and time scales
        and envelope at every order.
    """
    instance_of("network", network, Network)
    instance_of("sequences", sequences, Sequences)
    instance_of("settings", settings, DiagnosticSettings)
    instance_of("task", task, DelayedRegression)
    sequences.check()
    for step in instance_of("snapshots", snapshots, Mapping):
        integer_in("snapshots", step, 0)
    integer_in("number of snapshots", len(snapshots), 1)
    part = Sequences(*(s[:SEQUENCES].double() for s in sequences))
    looked_at = copy.deepcopy(network).double()
    found = []
    for state in snapshots.values():
        looked_at.load_state_dict(state)
        trace = looked_at.cell.trace(part.inputs)
        predictions = looked_at.readout(trace.outputs)
        kept = trace.neurons.retention
        ends = default_ends(trace, settings.lags)[-1:]
        rates = np.stack(
            [
                effective_rates(trace, settings.lags, order, ends).abs().mean((0, 1)).numpy()
                for order in settings.orders
            ]
        )
        found.append(
            {
                "course_loss": ((), (predictions - part.targets).square().mean().item()),
                "course_learned": (
                    ("task_lag",),
                    recovered_coefficients(task, part, predictions, task.lags).numpy(),
                ),
                "retention": (("unit",), kept.mean((0, 1)).numpy()),
                "retention_spread": (("unit",), kept.std((0, 1)).numpy()),
                "saturated": (
                    ("unit",),
                    ((kept < NEARLY) | (kept > 1 - NEARLY)).double().mean((0, 1)).numpy(),
                ),
                "course_time_scale": (("order", "unit"), window.time_scales(settings.lags, rates)),
                "course_envelope": (("order", "lag"), rates.sum(-1)),
            }
        )
    names = {
        "course_loss": "mean squared error on fresh sequences",
        "course_learned": "coefficient of the delayed input in the network's output",
        "retention": "mean over sequences and steps of the share of its state that a neuron keeps in a step",
        "retention_spread": "standard deviation of that share over sequences and steps",
        "saturated": f"share of sequences and steps at which it is within {NEARLY} of 0 or 1",
        "course_time_scale": "time scale τ of a neuron",
        "course_envelope": "envelope f(ℓ), per unit of global learning rate",
    }
    data = xr.concat([xr.Dataset(one) for one in found], "snapshot")
    for name, meaning in names.items():
        data[name].attrs = {"long_name": meaning} | (
            {"units": "steps"} if name == "course_time_scale" else {}
        )
    return data.assign_coords(
        snapshot=("snapshot", list(snapshots), {"long_name": "training steps taken"}),
        task_lag=(
            "task_lag",
            list(task.lags),
            {"long_name": "delay in the target", "units": "steps"},
        ),
        order=list(settings.orders),
        lag=list(settings.lags),
    )
