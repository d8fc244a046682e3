"""Training from outside: a network at several steps of it, and its optimiser's base rates."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor

from lwcore.config import DiagnosticSettings
from lwcore.inference import described
from lwcore.network import Network
from lwcore.signatures import Index, checked, require
from lwcore.tasks import DelayedRegression, Sequences, recovered_coefficients
from lwcore.transport import effective_rates
from lwcore.window import time_scales

# Enough for means over sequences and steps, little enough to be looked at in every snapshot.
SEQUENCES = 64
NEARLY = 0.05  # a retention this near to 0 or 1 counts as saturated


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
    part = Sequences(*(s[:SEQUENCES].double() for s in sequences))
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
