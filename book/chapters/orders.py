"""How far each order of transport holds, and what a closed form gets wrong that leaves one of its
terms out.

An approximation of the effective learning rates is judged against the exact diagonal, lag by lag.
Its error is ``Σ |μ − μ_exact|`` over ``Σ |μ_exact|``, both sums over sequences, end points and
neurons: a ratio of sums, because single exact rates pass through zero; and since ``|f − f_exact| ≤
error · f_exact``, it bounds the envelope's error.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import ArrayLike

from lwcore.cells import GRU, LSTM, Cell
from lwcore.trace import Trace
from lwcore.transport import effective_rates, envelope, exact_rates_and_share, reset_rates, split

_WORDS = {"zeroth": "zeroth order", "first": "first order", "paper_v2": "(26) as printed"}
ORDERS = tuple(_WORDS)


@torch.no_grad()
def compare_orders(
    traces: Mapping[tuple[str, int], Trace],
    lags: Sequence[int],
    ends: Sequence[int] | None = None,
    *,
    orders: Sequence[str] = ("zeroth", "first"),
    slips: Mapping[str, Callable[[Trace], Trace]] | None = None,
) -> xr.Dataset:
    """Measure approximations of the effective learning rates against the exact diagonal of the
    transport.

    Args:
        traces: A trace of each network, by model and seed, as `experiment.traces` gives them: all
            seeds of every model.
        lags: As for `effective_rates`.
        ends: As for `effective_rates`.
        orders: Approximations: ``"zeroth"``, ``"first"``, and for a GRU ``"paper_v2"``, Eq. (26) as
            printed.
        slips: More of them, by name: first order, read off an altered trace.

    Returns:
        By model, seed, order (``"exact"`` among them) and lag: ``error``, as above; ``missed``, how
        far the rates are from first order, relative to the first-order correction (NaN where that
        is 0); ``rises``, the share of (sequence, end point, neuron) whose ``|μ|`` is larger than at
        the lag before (NaN at the first); and by sequence besides, ``envelope``, f(ℓ). By model,
        seed and lag: ``off_diagonal``, the share of the transport beside its diagonal. By model and
        seed: ``coupling``, the mean of ``‖R_t‖_F / ‖A_t‖_F``.
    """
    if not traces:
        raise ValueError("traces = {}: must hold at least one.")
    missing = set(itertools.product(*zip(*traces, strict=True))) - set(traces)
    if missing:
        raise ValueError(
            f"traces holds {list(traces)}: must hold all seeds of every model, {sorted(missing)}, "
            "too."
        )
    steps, names = list(lags), [*orders, *(slips or {}), "exact"]
    measured: dict[tuple[str, int], xr.Dataset] = {}
    for key, trace in traces.items():
        rates = {order: effective_rates(trace, steps, order, ends) for order in ("zeroth", "first")}
        rates["exact"], beside = exact_rates_and_share(trace, steps, ends)
        if "paper_v2" in orders:
            rates["paper_v2"] = rates["first"] + reset_rates(trace, steps, ends)
        rates |= {
            name: effective_rates(alter(trace), steps, "first", ends)
            for name, alter in (slips or {}).items()
        }
        exact, correction = envelope(rates["exact"]), envelope(rates["first"] - rates["zeroth"])
        sizes = [rates[name].abs() for name in names]
        grown = [(size.diff(dim=2) > 0).to(size.dtype).mean((0, 1, 3)) for size in sizes]
        kept, mixing = (torch.linalg.matrix_norm(part) for part in split(trace, slice(1, None)))
        variables: dict[str, Any] = {
            "error": (
                ("order", "lag"),
                [(envelope(rates[name] - rates["exact"]) / exact).numpy() for name in names],
            ),
            "missed": (
                ("order", "lag"),
                [(envelope(rates[name] - rates["first"]) / correction).numpy() for name in names],
            ),
            "rises": (("order", "lag"), [np.append(np.nan, share.numpy()) for share in grown]),
            "envelope": (
                ("order", "sequence", "lag"),
                [size.sum(-1).mean(1).numpy() for size in sizes],
            ),
            "off_diagonal": ("lag", beside.mean((0, 1)).numpy()),
            "coupling": float((mixing / kept).mean()),
        }
        measured[key] = xr.Dataset(variables, coords={"order": names, "lag": steps})
    models, seeds = (
        list(dict.fromkeys(model for model, _ in traces)),
        list(dict.fromkeys(seed for _, seed in traces)),
    )
    by_model: list[xr.Dataset] = [
        xr.concat([measured[model, seed] for seed in seeds], "seed") for model in models
    ]
    return xr.concat(by_model, "model").assign_coords(model=models, seed=seeds)


def passing_lag(error: xr.DataArray, level: float = 0.1) -> xr.DataArray:
    """Find the first lag at which an error passes a level; NaN where it never does."""
    return error.lag.where(error > level).min("lag")


def without_output_gate(trace: Trace) -> Trace:
    """Leave the output gate's way into the state out of an LSTM's Jacobian: ``O_t = 0``, as if
    there were no U_o."""
    altered = _misread(trace, LSTM)
    altered.recurrence.block("show").zero_()
    return altered


def product_of_diagonals(trace: Trace) -> Trace:
    """Take the diagonal of a product to be the product of diagonals, in the way through a GRU's
    reset gate (reset before the product).

    With U_r replaced by its diagonal, ``diag(U_g diag(h_{t−1} r') U_r) = diag(U_g) h_{t−1} r'
    diag(U_r)``.
    """
    altered = _misread(trace, GRU)
    if altered.recurrence.reset == "after":
        raise ValueError(
            'trace: a GRU with reset="after" has no such sum; must be one with reset="before".'
        )
    weights = altered.recurrence.block("reset")
    weights.copy_(weights.diagonal().diag())
    return altered


def without_norm(trace: Trace) -> Trace:
    """Leave the Jacobian of layer normalisation out of the candidate's: the identity in its
    place."""
    altered = _misread(trace, Cell)
    if not altered.recurrence.layernorm:
        raise ValueError(
            f"trace is of a {type(altered.recurrence).__name__} without layer normalisation: must "
            "have one to leave out."
        )
    altered.recurrence.layernorm = False
    return altered


def _misread(trace: Trace, kind: type[Cell]) -> Trace:
    """Have Jacobians read off a copy of the cell, which can be altered, at the gates and states of
    the right one."""
    cell = trace.recurrence
    if not isinstance(cell, kind):
        raise TypeError(f"trace is of a {type(cell).__name__}: must be of {kind.__name__}.")
    altered: Any = copy.deepcopy(cell)
    altered.gates = cell.gates
    return replace(trace, recurrence=altered)


def span(values: ArrayLike, form: str = ".0f", never: str = "none") -> str:
    """Write a measurement over networks: its median and, in brackets where they differ, the least
    and the largest.

    NaN counts as beyond all numbers, and is written as `never`. For example ``"12 (9 to 15)"``.
    """
    numbers = np.asarray(values, float)
    ordered = np.sort(np.where(np.isnan(numbers), np.inf, numbers), axis=None)
    words = [
        format(value, form) if np.isfinite(value) else never
        for value in (np.median(ordered), ordered[0], ordered[-1])
    ]
    return words[0] if words[1] == words[2] else f"{words[0]} ({words[1]} to {words[2]})"


def reach(
    compared: Mapping[str, xr.Dataset], at: Sequence[int], level: float = 0.1
) -> pd.DataFrame:
    """Tabulate how far orders of transport reach, a column for each setting that `compare_orders`
    measured.

    Lags at which an order passes the level; and at the lags `at`, errors and off-diagonal shares in
    percent, each as by `span`.
    """
    columns = {}
    for name, data in compared.items():
        for lag in at:
            if lag not in data.lag:
                raise ValueError(
                    f"at = {lag}: must be among the lags measured, {data.lag.values.tolist()}."
                )
        errors = {
            words: data.error.sel(order=order)
            for order, words in _WORDS.items()
            if order in data.order
        }
        columns[name] = (
            {
                f"{words} passes {level:.0%} at lag": span(passing_lag(error, level))
                for words, error in errors.items()
            }
            | {
                f"error of {words} at lag {lag} (%)": span(100 * error.sel(lag=lag))
                for words, error in errors.items()
                for lag in at
            }
            | {
                f"off-diagonal share at lag {lag} (%)": span(100 * data.off_diagonal.sel(lag=lag))
                for lag in at
            }
        )
    return pd.DataFrame(columns)
