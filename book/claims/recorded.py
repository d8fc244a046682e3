"""What the claims on experiments read off recorded runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

from book.chapters.five_laws import FiveLaws, fit_laws

SCALAR = ["ConstGate", "SharedGate"]
GATED = ["DiagGate", "GRU", "LSTM"]
EXPANSIONS = ["zeroth", "first"]  # the two orders in which the paper's Section 6 can be read


def numbers(*arrays: xr.DataArray) -> list[float]:
    """List the entries of arrays, one a network; NaN is left out."""
    flat = np.concatenate([values.values.ravel() for values in arrays])
    return [float(value) for value in flat[~np.isnan(flat)]]


def log(values: xr.DataArray) -> xr.DataArray:
    """Take the natural logarithm."""
    found: xr.DataArray = xr.apply_ufunc(np.log, values)
    return found


def remaining(run: xr.Dataset, lag: int) -> xr.DataArray:
    """Give what is left of the envelope at a lag, as a share of that at the first lag measured
    (model, seed, order)."""
    return run.envelope.sel(lag=lag, drop=True) / run.envelope.isel(lag=0, drop=True)


def fits(run: xr.Dataset, models: Iterable[str], orders: Iterable[str]) -> list[FiveLaws]:
    """Fit the decay laws to the envelope of every network of some models at some orders."""
    lags = run.lag.values
    return [
        fit_laws(lags, run.envelope.sel(model=model, order=order, seed=seed))
        for model in models
        for order in orders
        for seed in run.seed
    ]


def lead(window: xr.DataArray, model: str = "DiagGate") -> xr.DataArray:
    """Give by how many steps a model's window is longer than the longer one of the two cells with a
    single gate."""
    return window.sel(model=model, drop=True) - window.sel(model=SCALAR).max("model")
