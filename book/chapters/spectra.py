"""Spectra of time scales: how broad they are; and the share learned along training."""

from __future__ import annotations

import numpy as np
import xarray as xr


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
