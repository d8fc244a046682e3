"""How far each order of transport holds, and closed forms without the normalisation's Jacobian.

An approximation of the effective learning rates is judged against the exact diagonal, lag by lag.
Its error is ``Σ |μ − μ_exact|`` over ``Σ |μ_exact|``, both sums over sequences, end points and
neurons: a ratio of sums, because single exact rates pass through zero; and since ``|f − f_exact| ≤
error · f_exact``, it bounds the envelope's error.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import ArrayLike

from lwcore.trace import Trace
from lwcore.transport import effective_rates, envelope, exact_rates_and_share, split


@torch.no_grad()
def compare_orders(
    traces: Mapping[tuple[str, int], Trace],
    lags: Sequence[int],
    ends: Sequence[int] | None = None,
) -> xr.Dataset:
    """Approximations of the rates against the exact diagonal, of traces by model and seed.

    All seeds of every model are given, as by `experiment.traces`. By model, seed, order
    (``"exact"`` among them) and lag: ``error``, as above, and ``envelope``, f(ℓ). By model, seed
    and lag: ``off_diagonal``, the share of the transport beside its diagonal. By model and seed:
    ``coupling``, the mean of ``‖R_t‖_F / ‖A_t‖_F``.
    """
    measured: dict[tuple[str, int], xr.Dataset] = {}
    for key, trace in traces.items():
        rates = {order: effective_rates(trace, lags, order, ends) for order in ("zeroth", "first")}
        rates["exact"], beside = exact_rates_and_share(trace, lags, ends)
        f = {order: envelope(mu) for order, mu in rates.items()}
        missed = [envelope(mu - rates["exact"]) / f["exact"] for mu in rates.values()]
        kept, mixing = (torch.linalg.matrix_norm(part) for part in split(trace, slice(1, None)))
        variables: dict[str, Any] = {
            "error": (("order", "lag"), torch.stack(missed)),
            "envelope": (("order", "lag"), torch.stack([*f.values()])),
            "off_diagonal": ("lag", beside.mean((0, 1))),
            "coupling": float((mixing / kept).mean()),
        }
        measured[key] = xr.Dataset(variables, {"order": list(rates), "lag": list(lags)})
    models, seeds = (list(dict.fromkeys(part)) for part in zip(*traces, strict=True))
    by_model = [xr.concat([measured[m, seed] for seed in seeds], "seed") for m in models]
    return xr.concat(by_model, "model").assign_coords(model=models, seed=seeds)


def without_norm(trace: Trace) -> Trace:
    """A trace whose Jacobians leave out that of layer normalisation, the identity in its place.

    Gates and states stay those of the network.
    """
    cell = trace.recurrence
    altered: Any = copy.deepcopy(cell)
    altered.gates, altered.layernorm = cell.gates, False
    return replace(trace, recurrence=altered)


def span(values: ArrayLike, form: str = ".0f", never: str = "none") -> str:
    """A median over networks and, where they differ, the least and largest: ``"12 (9 to 15)"``.

    NaN counts as beyond all numbers, and is written as `never`.
    """
    numbers = np.asarray(values, float)
    ordered = np.sort(np.where(np.isnan(numbers), np.inf, numbers), axis=None)
    words = [
        format(value, form) if np.isfinite(value) else never
        for value in (np.median(ordered), ordered[0], ordered[-1])
    ]
    return words[0] if words[1] == words[2] else f"{words[0]} ({words[1]} to {words[2]})"
