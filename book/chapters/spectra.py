"""Spectra of time scales: how broad they are, and what made them so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.signatures import require


def quantile(time_scale: xr.DataArray, level: float) -> xr.DataArray:
    """A quantile of time scales over neurons; it may be infinite, and NaN does not count."""
    return 1 / (1 / time_scale).quantile(1 - level, "unit").drop_vars("quantile")


def width(time_scale: xr.DataArray) -> xr.DataArray:
    """Width of a spectrum of time scales τ over ``unit``: log₁₀(τ₉₀/τ₁₀), in decades.

    It is infinite where more than a tenth of the neurons do not forget.
    """
    ratio = quantile(time_scale, 0.9) / quantile(time_scale, 0.1)
    return xr.apply_ufunc(np.log10, ratio).assign_attrs(
        long_name="width of the spectrum", units="decades"
    )


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Share of the task learned along training, ``Σ c_k ĉ_k / Σ c_k²``: 1 if it is perfect."""
    planted = results.planted.sel(delay=results.task_lag.values).rename(delay="task_lag")
    return (results.course_learned * planted).sum("task_lag") / (planted**2).sum("task_lag")


def split_envelope(rate: xr.DataArray, base_rate: xr.DataArray) -> xr.Dataset:
    """Split the envelope into what gates carry and what the optimiser's base rates add.

    Later versions of the paper write ``f = f_gates + f_adapt``: ``f_gates = Σ_q |Γ^(q)|``, per unit
    of global learning rate, is the envelope as elsewhere; f is ``Σ_q |Λ^(q) Γ^(q)|``, with base
    rates Λ as from `lwcore.course.base_rates`.
    """
    gates, whole = rate.sum("unit"), (base_rate * rate).sum("unit")
    return xr.Dataset({"f_gates": gates, "f_adapt": whole - gates, "f": whole})


def variance_shares(values: xr.DataArray, factors: Sequence[str]) -> xr.DataArray:
    """Analysis of variance of a full grid: each factor's main effect, and all interactions.

    Shares over ``source`` add up to 1; they are NaN where nothing varies. Each place along the
    other dimensions is analysed by itself.
    """
    require("factors", list(factors), set(factors) <= set(values.dims), f"among {values.dims}")
    centred = values - values.mean(factors)
    main = [
        (centred.mean([other for other in factors if other != factor]) ** 2).mean(factor)
        for factor in factors
    ]
    total = (centred**2).mean(factors)
    # What rounding leaves where all values are equal is no variance.
    shares = (xr.concat([*main, total - sum(main)], "source") / total).where(
        total > 1e-24 * (values**2).mean(factors)
    )
    return shares.assign_coords(source=[*factors, "interactions"])


def learning_and_optimiser(sweep: xr.Dataset) -> pd.Series:
    """Regression of the gates' width on the share learned, on the optimiser, and on both.

    Shares of the variance explained at the end of training, over all networks of the sweep but
    those with one gate for all neurons, which have no width.
    """
    end = sweep.isel(snapshot=-1)
    spread = width(end.course_time_scale.sel(order="zeroth"))
    wide = spread.max([dim for dim in spread.dims if dim != "model"]) > 1e-6
    y, learned = xr.broadcast(spread.sel(model=wide), learned_share(end).sel(model=wide))
    adaptive = (y.optimizer == "adamw").broadcast_like(y).transpose(*y.dims)
    columns = {"share learned": [learned], "optimiser": [adaptive], "both": [learned, adaptive]}
    found = {}
    for name, by in columns.items():
        design = np.column_stack([np.ones(y.size), *(one.values.ravel() for one in by)])
        left = y.values.ravel() - design @ np.linalg.lstsq(design, y.values.ravel())[0]
        found[name] = 1 - float(left.var() / y.values.var())
    return pd.Series(found)
