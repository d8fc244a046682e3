"""How far each order of transport holds, and what a closed form gets wrong that leaves one of its terms out.

An approximation of the effective learning rates is judged against the exact diagonal, lag by lag: its error is the 1-norm over neurons of
what it misses, over the 1-norm of the exact rates, each averaged over sequences and end points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import torch
import xarray as xr

from lwcore.arguments import lag_list, one_of, real_in
from lwcore.cells import GRUTrace, LSTMTrace, Trace
from lwcore.transport import effective_rates, envelope, off_diagonal_share

_WORDS = {"zeroth": "zeroth order", "first": "first order", "paper_v2": "(26) as printed"}
ORDERS = tuple(_WORDS)


@torch.no_grad()
def compare_orders(
    traces: Sequence[Trace],
    lags: Sequence[int],
    ends: Sequence[int] | None = None,
    *,
    orders: Sequence[str] = ("zeroth", "first"),
    slips: Mapping[str, Callable[[Trace], Trace]] | None = None,
) -> xr.Dataset:
    """Measure approximations of the effective learning rates against the exact diagonal of the transport.

    Args:
        traces: A trace of each network, at least one.
        lags: Lags ℓ, strictly increasing, each in 1..T−1.
        ends: End points t, strictly increasing, each in max(lags)..T−1; all of them if None.
        orders: Approximations: ``"zeroth"``, ``"first"``, and for a GRU ``"paper_v2"``, Eq. (26) as printed.
        slips: More of them, by name: first order, read off an altered trace.

    Returns:
        By network, order (``"exact"`` among them) and lag: ``envelope``, f(ℓ); ``error``, the relative error of the rates; ``missed``, how
        far they are from first order, relative to the first-order correction (NaN where that is 0). By network and lag:
        ``off_diagonal``, the share of the transport beside its diagonal.

    Raises:
        ValueError: If there are no traces.
    """
    for order in orders:
        one_of("orders", order, ORDERS)
    if not traces:
        raise ValueError("traces = []: must hold at least one.")
    steps = lag_list("lags", lags)
    names = [*orders, *(slips or {}), "exact"]
    measured: dict[str, list] = {"envelope": [], "error": [], "missed": [], "off_diagonal": []}
    for trace in traces:
        rates = {order: effective_rates(trace, steps, order, ends) for order in ("zeroth", "first", "exact")}
        if "paper_v2" in orders:
            rates["paper_v2"] = effective_rates(trace, steps, "first", ends, "paper_v2")
        rates |= {name: effective_rates(alter(trace), steps, "first", ends) for name, alter in (slips or {}).items()}
        size = {name: envelope(values) for name, values in rates.items()}
        correction = envelope(rates["first"] - rates["zeroth"])
        measured["envelope"].append([size[name].tolist() for name in names])
        measured["error"].append([(envelope(rates[name] - rates["exact"]) / size["exact"]).tolist() for name in names])
        measured["missed"].append([(envelope(rates[name] - rates["first"]) / correction).tolist() for name in names])
        measured["off_diagonal"].append(off_diagonal_share(trace, steps, ends).mean((0, 1)).tolist())
    dims = ("network", "order", "lag")
    variables = {name: (dims if name != "off_diagonal" else ("network", "lag"), values) for name, values in measured.items()}
    return xr.Dataset(variables, coords={"order": names, "lag": steps})


def passing_lag(error: xr.DataArray, level: float = 0.1) -> xr.DataArray:
    """Find the first lag at which an error passes a level.

    Args:
        error: Errors, with a dimension ``lag``.
        level: The level, above 0.

    Returns:
        The lag, along the other dimensions; NaN where the error stays at or below the level.
    """
    return error.lag.where(error > real_in("level", level, "(0, inf)")).min("lag")


def without_output_gate(trace: Trace) -> Trace:
    """Leave the output gate's way into the state out of an LSTM's Jacobian: ``O_t = 0``.

    Args:
        trace: A trace of an LSTM.

    Returns:
        The trace with ``U_o = 0``, its states unchanged.

    Raises:
        TypeError: If it is not the trace of an LSTM.
    """
    if not isinstance(trace, LSTMTrace):
        raise TypeError(f"trace is a {type(trace).__name__}: must be an LSTMTrace.")
    weight = trace.parameters["weight_hh"].clone()
    weight[3 * trace.hidden_size :] = 0
    return replace(trace, parameters=trace.parameters | {"weight_hh": weight})


def product_of_diagonals(trace: Trace) -> Trace:
    """Take the diagonal of a product to be the product of diagonals, in the way through a GRU's reset gate (reset before the product).

    Args:
        trace: A trace of a GRU.

    Returns:
        The trace with ``U_r`` replaced by its diagonal, its states unchanged: then
        ``diag(U_g diag(h_{t−1} r') U_r) = diag(U_g) h_{t−1} r' diag(U_r)``.

    Raises:
        TypeError: If it is not the trace of a GRU.
        ValueError: If its reset comes after the product, where there is no such sum.
    """
    if not isinstance(trace, GRUTrace):
        raise TypeError(f"trace is a {type(trace).__name__}: must be a GRUTrace.")
    if "bias_hh" in trace.parameters:
        raise ValueError('trace: a GRU with reset="after" has no such sum; must be one with reset="before".')
    weight, hidden = trace.parameters["weight_hh"].clone(), trace.hidden_size
    weight[:hidden] = weight[:hidden].diagonal().diag()
    return replace(trace, parameters=trace.parameters | {"weight_hh": weight})


def without_norm(trace: Trace) -> Trace:
    """Leave the Jacobian of layer normalisation out of the candidate's: the identity in its place.

    Args:
        trace: A trace of a cell with layer normalisation.

    Returns:
        The trace, its states unchanged.

    Raises:
        ValueError: If the cell has no layer normalisation.
    """
    if trace.norm is None:
        raise ValueError(f"trace is a {type(trace).__name__} without layer normalisation: there is nothing to leave out.")
    return replace(trace, normalised=None, inverse=None)


def span(values: xr.DataArray, digits: int = 0) -> str:
    """Write a measurement over networks: its median, with the least and the largest in brackets.

    Args:
        values: One value a network.
        digits: Digits after the point, at least 0.

    Returns:
        For example ``"12 (9–15)"``.
    """
    middle, least, largest = (f"{float(v):.{digits}f}" for v in (values.median(), values.min(), values.max()))
    return f"{middle} ({least}–{largest})"


def reach(compared: Mapping[str, xr.Dataset], at: Sequence[int], level: float = 0.1) -> pd.DataFrame:
    """Tabulate how far orders of transport reach.

    Args:
        compared: For each setting, what `compare_orders` gives.
        at: Lags, among those measured, at which errors and off-diagonal shares are shown.
        level: The error that an order must not pass, above 0.

    Returns:
        A column for each setting. Lags at which an order passes the level are listed network by network, errors and shares are in percent.
    """
    table = {}
    for name, data in compared.items():
        orders = [order for order in ORDERS if order in data.order]
        passing = {order: passing_lag(data.error.sel(order=order), level) for order in orders}
        column = {
            f"{_WORDS[order]} passes {level:.0%} at lag": ", ".join("none" if lag.isnull() else f"{int(lag)}" for lag in lags)
            for order, lags in passing.items()
        }
        column |= {
            f"error of {_WORDS[order]} at lag {lag} (%)": span(100 * data.error.sel(order=order, lag=lag)) for order in orders for lag in at
        }
        table[name] = column | {f"off-diagonal share at lag {lag} (%)": span(100 * data.off_diagonal.sel(lag=lag)) for lag in at}
    return pd.DataFrame(table)
