"""Spectra of time scales: how broad, what made them so, and whether an envelope is the mixture of exponentials that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from lwcore.arguments import finite_array, lag_list, real_in, require
from lwcore.window import mixture_envelope

SAME_SLOPE = 1.5  # slopes within this factor count as one slope: a single exponential keeps to it over that very factor of lags
RIGHT = 0.2  # a relative error up to this counts as right


def quantile(time_scale: xr.DataArray, level: float) -> xr.DataArray:
    """Give a quantile of the time scales over neurons; it may be infinite, and neurons without a time scale (NaN) do not count."""
    return 1 / (1 / time_scale).quantile(1 - real_in("level", level, "[0, 1]"), "unit").drop_vars("quantile")


def width(time_scale: xr.DataArray) -> xr.DataArray:
    """Measure how broad a spectrum is: the decades from its 10 % to its 90 % quantile.

    Args:
        time_scale: τ over ``unit`` and other dimensions, steps.

    Returns:
        log₁₀(τ₉₀/τ₁₀), at least 0; infinite where more than a tenth of the neurons do not forget.
    """
    ratio = quantile(time_scale, 0.9) / quantile(time_scale, 0.1)
    return xr.apply_ufunc(np.log10, ratio).assign_attrs(long_name="width of the spectrum", units="decades")


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Say along training how much of the task is learned, ``Σ c_k ĉ_k / Σ c_k²``: 1 for a perfect predictor, 0 for one that ignores it."""
    planted = results.planted.sel(delay=results.task_lag.values).rename(delay="task_lag")
    return (results.course_learned * planted).sum("task_lag") / (planted**2).sum("task_lag")


def variance_shares(values: xr.DataArray, factors: Sequence[str]) -> xr.DataArray:
    """Split the variance of a full grid among its factors, by analysis of variance.

    Args:
        values: One value a point of the grid, and other dimensions, each place of which is analysed by itself.
        factors: The dimensions of the grid.

    Returns:
        Shares over ``source``: each factor's main effect, and ``"interactions"`` of any order; they add up to 1. NaN where nothing varies.

    Raises:
        ValueError: If a factor is no dimension, or a value is missing.
    """
    for factor in factors:
        if factor not in values.dims:
            raise ValueError(f"factors = {list(factors)}: {factor!r} must be one of the dimensions {', '.join(map(str, values.dims))}.")
    finite_array("values", values.values)
    centred = values - values.mean(factors)
    main = [(centred.mean([other for other in factors if other != factor]) ** 2).mean(factor) for factor in factors]
    total = (centred**2).mean(factors)
    # What rounding leaves where all values are equal is no variance.
    shares = (xr.concat([*main, total - sum(main)], "source") / total).where(total > 1e-24 * (values**2).mean(factors))
    return shares.assign_coords(source=[*factors, "interactions"])


def width_shares(sweep: xr.Dataset, factors: Sequence[str] = ("optimizer", "gate_spread", "task")) -> pd.DataFrame:
    """Say which of a sweep's axes explain how broad the spectra are behind training.

    Returns:
        For each model and order: percent of the variance of `width` that each source explains; mean over seeds, each seed's grid analysed
        by itself, with the least and the largest.
    """
    last = sweep.course_time_scale.isel(snapshot=-1).sel(order=["zeroth", "exact"])
    shares = 100 * variance_shares(width(last), factors)
    columns = {source: ranges(shares.sel(source=source), "{:.0f}") for source in shares.source.values}
    # A network with one gate for all neurons has no width at zeroth order, and so nothing to explain.
    return pd.DataFrame(columns)[lambda table: table["interactions"] != ""].rename(columns=lambda source: f"% {source}")


def ranges(values: xr.DataArray, form: str, over: str = "seed", centre: Callable[..., xr.DataArray] = xr.DataArray.mean) -> pd.Series:
    """Write values as their mean over seeds with the least and the largest; empty where one is NaN."""
    parts = [centre(values, over), values.min(over), values.max(over)]
    written = [part.to_series() for part in parts]
    return pd.Series(
        ["" if np.isnan(m) else f"{form.format(m)} ({form.format(a)} to {form.format(b)})" for m, a, b in zip(*written, strict=True)],
        written[0].index,
    )


def lining_up(time_scale: xr.DataArray, lags: Sequence[int]) -> xr.DataArray:
    """Measure whether time scales sit at a task's lags.

    Between two lags τ has a phase, 0 at one and 1 at the next, linear in log τ; the measure is the mean of cos(2π phase).

    Args:
        time_scale: τ over ``unit`` and other dimensions, steps.
        lags: The task's lags, at least two.

    Returns:
        1 where all τ sit at lags, −1 halfway between, about 0 ± 1/√(2n) where n time scales ignore them; those outside the lags do not
        count, and without any the result is NaN.
    """
    knots = np.log(lag_list("lags", lags))
    phase = xr.apply_ufunc(lambda tau: np.interp(np.log(tau), knots, np.arange(len(knots)), np.nan, np.nan), time_scale)
    return np.cos(2 * np.pi * phase).mean("unit")


def mixtures(results: xr.Dataset, spectrum: str, own_weights: bool = False) -> xr.DataArray:
    """Rebuild envelopes from spectra, ``f(ℓ) = Σ_q w_q exp(−ℓ/τ_q)``.

    Args:
        results: A measured run.
        spectrum: Order at which the time scales are taken.
        own_weights: Weigh each neuron by the amplitude that the fit gives it along with τ; otherwise all alike, w = 1.

    Returns:
        The mixture at the lags of the run.
    """
    tau, rate = results.time_scale.sel(order=spectrum), results.rate.sel(order=spectrum)
    passes = tau.notnull()  # a neuron that lets nothing through has no time scale, and no part in the envelope
    weights = np.exp((np.log(rate.where(rate > 0)) + results.lag / tau).mean("lag")) if own_weights else xr.ones_like(tau)
    return xr.apply_ufunc(
        lambda tau, weight: mixture_envelope(results.lag.values, tau, weight),
        tau.where(passes, 1.0),
        weights.where(passes, 0.0),
        input_core_dims=[["unit"], ["unit"]],
        output_core_dims=[["lag"]],
    ).assign_coords(lag=results.lag)


def relative_error(mixture: xr.DataArray, measured: xr.DataArray) -> xr.DataArray:
    """Give by how much a mixture misses a measured envelope, scaled to it at the shortest lag: −1 for all gone, 0 for right."""
    return mixture / mixture.isel(lag=0) * measured.isel(lag=0) / measured - 1


def local_slopes(lags: ArrayLike, envelope: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Give ``d log f/d log ℓ`` between neighbouring lags.

    Args:
        lags: Lags ℓ > 0, increasing, at least two.
        envelope: f > 0 there.

    Returns:
        The lags to which the slopes belong, logarithmic means of two neighbours, at which an exponential has exactly the slope −ℓ/τ; and
        the slopes.
    """
    lag, f = finite_array("lags", lags, ndim=1), finite_array("envelope", envelope, ndim=1)
    require("envelope", f, f > 0, "above 0")
    apart = np.diff(np.log(lag))
    return np.diff(lag) / apart, np.diff(np.log(f)) / apart


def power_stretch(lags: ArrayLike, envelope: ArrayLike, factor: float = SAME_SLOPE) -> tuple[float, float, float]:
    """Find the widest stretch of lags over which an envelope is a power law: its local slopes stay within a factor of one another.

    Args:
        lags: As for `local_slopes`.
        envelope: As for `local_slopes`.
        factor: How far apart the largest and the least slope may be, above 1. A single exponential, whose slope is proportional to the
            lag, passes over a stretch of this same factor; a power law must do better.

    Returns:
        First and last lag of the stretch and the geometric mean of −slope there; NaN where no slope is below 0.
    """
    allowed = real_in("factor", factor, "(1, inf)")
    at, slopes = local_slopes(lags, envelope)
    best = (float("nan"),) * 3
    for first in range(len(at)):
        for last in range(first, len(at)):
            steep = -slopes[first : last + 1]
            if steep.min() <= 0 or steep.max() > allowed * (1 + 1e-9) * steep.min():
                break
            if not at[last] / at[first] <= best[1] / best[0]:
                best = (float(at[first]), float(at[last]), float(np.exp(np.log(steep).mean())))
    return best


def reconstruction(results: xr.Dataset) -> pd.DataFrame:
    """Say how well mixtures of exponentials rebuild envelopes, shape by shape (scaled at the shortest lag).

    Returns:
        For each model, order of the spectrum and order of the envelope: the last lag up to which the error stays within `RIGHT`, and
        mixture over envelope at the longest lag, with all neurons alike and with their own weights; median over seeds, least and largest.
    """
    rows = {}
    for spectrum, order in (("zeroth", "zeroth"), ("exact", "exact"), ("zeroth", "exact")):
        measured = results.envelope.sel(order=order, drop=True)
        columns = {}
        for name, own in (("alike", False), ("own weights", True)):
            error = relative_error(mixtures(results, spectrum, own).drop_vars("order"), measured)
            right = (abs(error) <= RIGHT).cumprod("lag").astype(bool)
            columns[f"right to lag, {name}"] = ranges(right.lag.where(right).max("lag"), "{:.0f}", centre=xr.DataArray.median)
            columns[f"at the longest lag, {name}"] = ranges(1 + error.isel(lag=-1), "{:.2g}", centre=xr.DataArray.median)
        rows[spectrum, order] = pd.DataFrame(columns)
    return (
        pd.concat(rows, names=["spectrum", "envelope"])
        .swaplevel("envelope", "model")
        .swaplevel("spectrum", "model")
        .sort_index(level="model", sort_remaining=False, key=lambda names: names.map(list(results.model.values).index))
    )


def power_ranges(results: xr.Dataset) -> pd.DataFrame:
    """Say over which lags envelopes, and the mixtures that the same spectra make, are power laws.

    Returns:
        For each model and order: factor between first and last lag of the widest `power_stretch`, and −slope there, for the measured
        envelope and for the mixture with own weights; median over seeds, least and largest.
    """
    orders = ["zeroth", "exact"]
    mixed = xr.concat([mixtures(results, order, own_weights=True) for order in orders], "order")
    columns = {}
    for name, f in (("envelope", results.envelope.sel(order=orders)), ("mixture", mixed)):
        found = xr.apply_ufunc(
            lambda values: np.array(power_stretch(results.lag.values, values)),
            f,
            input_core_dims=[["lag"]],
            output_core_dims=[["of"]],
            vectorize=True,
        ).transpose("of", "model", "order", "seed")
        columns[f"{name}: factor of lags"] = ranges(found[1] / found[0], "{:.1f}", centre=xr.DataArray.median)
        columns[f"{name}: β"] = ranges(found[2], "{:.2f}", centre=xr.DataArray.median)
    return pd.DataFrame(columns)
