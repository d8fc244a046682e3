"""Envelopes as mixtures of exponentials: whether time scales rebuild them, and whether either is a
power law."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from lwcore.signatures import require
from lwcore.window import mixture_envelope

# slopes within this factor count as one slope: a single exponential keeps to it over that very
# factor of lags
SAME_SLOPE = 1.5


def mixtures(results: xr.Dataset, spectrum: str, own_weights: bool = False) -> xr.DataArray:
    """Mixtures of exponentials at the lags of a run, ``f(ℓ) = Σ_q w_q exp(−ℓ/τ_q)``.

    Time scales τ are those of an order, `spectrum`. A neuron's own weight is the amplitude that the
    fit gives it along with τ; otherwise all weigh 1.
    """
    tau, rate = results.time_scale.sel(order=spectrum), results.rate.sel(order=spectrum)
    # a neuron that lets nothing through has no time scale, and no part in the envelope
    passes, weights = tau.notnull(), xr.ones_like(tau)
    if own_weights:
        weights = np.exp((np.log(rate.where(rate > 0)) + results.lag / tau).mean("lag"))
    return xr.apply_ufunc(
        lambda tau, weight: mixture_envelope(results.lag.values, tau, weight),
        tau.where(passes, 1.0),
        weights.where(passes, 0.0),
        input_core_dims=[["unit"], ["unit"]],
        output_core_dims=[["lag"]],
    ).assign_coords(lag=results.lag)


def local_slopes(
    lags: ArrayLike, envelope: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Local slopes ``d log f/d log ℓ`` between neighbouring lags, and the lags that they belong to.

    These are logarithmic means of two neighbours, at which an exponential has exactly the slope
    −ℓ/τ. Lags increase.
    """
    lag, f = np.asarray(lags, float), np.asarray(envelope, float)
    require("envelope", f, f > 0, "above 0")
    require("lags", lag, (np.diff(lag, prepend=0.0) > 0).all(), "above 0, and increase")
    apart = np.diff(np.log(lag))
    return np.diff(lag) / apart, np.diff(np.log(f)) / apart


def power_stretch(lags: ArrayLike, envelope: ArrayLike) -> tuple[float, float, float]:
    """Widest stretch of lags over which an envelope is a power law: its slopes are `SAME_SLOPE`.

    First and last lag of the stretch and the geometric mean of −slope there; NaN where no slope is
    below 0. A single exponential, whose slope is proportional to the lag, passes over a factor of
    `SAME_SLOPE` of lags; a power law must do better.
    """
    (at, slopes), best = local_slopes(lags, envelope), (float("nan"),) * 3
    for first in range(len(at)):
        for last in range(first, len(at)):
            inside = -slopes[first : last + 1]
            if inside.min() <= 0 or inside.max() > SAME_SLOPE * (1 + 1e-9) * inside.min():
                break
            if not at[last] / at[first] <= best[1] / best[0]:
                best = (float(at[first]), float(at[last]), float(np.exp(np.log(inside).mean())))
    return best
