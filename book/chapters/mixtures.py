"""Envelopes as mixtures of exponentials: whether time scales rebuild them, and whether either is a
power law."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from book.chapters.spectra import ranges
from lwcore.signatures import require
from lwcore.window import mixture_envelope

# slopes within this factor count as one slope: a single exponential keeps to it over that very
# factor of lags
SAME_SLOPE = 1.5
RIGHT = 0.2  # a relative error up to this counts as right


def mixtures(results: xr.Dataset, spectrum: str, own_weights: bool = False) -> xr.DataArray:
    """Rebuild envelopes from spectra, ``f(ℓ) = Σ_q w_q exp(−ℓ/τ_q)``.

    Args:
        results: A measured run.
        spectrum: Order at which the time scales are taken.
        own_weights: Weigh each neuron by the amplitude that the fit gives it along with τ;
            otherwise all alike, w = 1.

    Returns:
        The mixture at the lags of the run.
    """
    tau, rate = results.time_scale.sel(order=spectrum), results.rate.sel(order=spectrum)
    # a neuron that lets nothing through has no time scale, and no part in the envelope
    passes = tau.notnull()
    weights = (
        np.exp((np.log(rate.where(rate > 0)) + results.lag / tau).mean("lag"))
        if own_weights
        else xr.ones_like(tau)
    )
    return xr.apply_ufunc(
        lambda tau, weight: mixture_envelope(results.lag.values, tau, weight),
        tau.where(passes, 1.0),
        weights.where(passes, 0.0),
        input_core_dims=[["unit"], ["unit"]],
        output_core_dims=[["lag"]],
    ).assign_coords(lag=results.lag)


def relative_error(mixture: xr.DataArray, measured: xr.DataArray) -> xr.DataArray:
    """Give by how much a mixture misses a measured envelope, scaled to it at the shortest lag: −1
    for all gone, 0 for right."""
    return mixture / mixture.isel(lag=0) * measured.isel(lag=0) / measured - 1


def local_slopes(lags: ArrayLike, envelope: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Give ``d log f/d log ℓ`` between neighbouring lags.

    Args:
        lags: Lags ℓ > 0, increasing, at least two.
        envelope: f > 0 there.

    Returns:
        The lags to which the slopes belong, logarithmic means of two neighbours, at which an
        exponential has exactly the slope −ℓ/τ; and the slopes.
    """
    lag, f = np.asarray(lags, float), np.asarray(envelope, float)
    require("envelope", f, f > 0, "above 0")
    require("lags", lag, lag > 0, "above 0")
    if lag.shape != f.shape or lag.size < 2 or not (np.diff(lag) > 0).all():
        raise ValueError(
            f"lags has shape {lag.shape} and envelope {f.shape}: must be the same, of two or more "
            "lags that increase."
        )
    apart = np.diff(np.log(lag))
    return np.diff(lag) / apart, np.diff(np.log(f)) / apart


def power_stretch(
    lags: ArrayLike, envelope: ArrayLike, factor: float = SAME_SLOPE
) -> tuple[float, float, float]:
    """Find the widest stretch of lags over which an envelope is a power law: its local slopes stay
    within a factor of one another.

    Args:
        lags: As for `local_slopes`.
        envelope: As for `local_slopes`.
        factor: How far apart the largest and the least slope may be, above 1. A single exponential,
            whose slope is proportional to the lag, passes over a stretch of this same factor; a
            power law must do better.

    Returns:
        First and last lag of the stretch and the geometric mean of −slope there; NaN where no slope
        is below 0.
    """
    at, slopes = local_slopes(lags, envelope)
    return _widest_stretch(at, -slopes, factor)


def exponential_stretch(
    lags: ArrayLike, envelope: ArrayLike, factor: float = SAME_SLOPE
) -> tuple[float, float, float]:
    """Find the widest stretch of lags over which an envelope is an exponential: its rates of decay
    stay within a factor of one another.

    Args:
        lags: As for `local_slopes`.
        envelope: As for `local_slopes`.
        factor: How far apart the largest and the least rate may be, above 1. A power law, whose
            rate is inversely proportional to the lag, passes over a stretch of this same factor; an
            exponential must do better.

    Returns:
        First and last lag of the stretch and the geometric mean of the time scale ``−dℓ/d log f``
        there, in steps; NaN where f never falls.
    """
    at, slopes = local_slopes(lags, envelope)
    first, last, rate = _widest_stretch(at, -slopes / at, factor)
    return first, last, 1 / rate


def _widest_stretch(
    at: np.ndarray, values: np.ndarray, factor: float
) -> tuple[float, float, float]:
    """Find the longest stretch, by the ratio of its ends, over which values above 0 stay within a
    factor; and their geometric mean."""
    best = (float("nan"),) * 3
    for first in range(len(at)):
        for last in range(first, len(at)):
            inside = values[first : last + 1]
            if inside.min() <= 0 or inside.max() > factor * (1 + 1e-9) * inside.min():
                break
            if not at[last] / at[first] <= best[1] / best[0]:
                best = (float(at[first]), float(at[last]), float(np.exp(np.log(inside).mean())))
    return best


def reconstruction(results: xr.Dataset) -> pd.DataFrame:
    """Say how well mixtures of exponentials rebuild envelopes, shape by shape (scaled at the
    shortest lag).

    Returns:
        For each model, order of the spectrum and order of the envelope: the last lag up to which
            the error stays within `RIGHT`, and
        mixture over envelope at the longest lag, with all neurons alike and with their own weights;
        median over seeds, least and largest.
    """
    rows = {}
    for spectrum, order in (("zeroth", "zeroth"), ("exact", "exact"), ("zeroth", "exact")):
        measured = results.envelope.sel(order=order, drop=True)
        columns = {}
        for name, own in (("alike", False), ("own weights", True)):
            error = relative_error(mixtures(results, spectrum, own).drop_vars("order"), measured)
            right = (abs(error) <= RIGHT).cumprod("lag").astype(bool)
            columns[f"right to, {name}"] = ranges(
                right.lag.where(right).max("lag"), "{:.0f}", centre=xr.DataArray.median
            )
            columns[f"at the end, {name}"] = ranges(
                1 + error.isel(lag=-1), "{:.2f}", centre=xr.DataArray.median
            )
        rows[spectrum, order] = pd.DataFrame(columns)
    return (
        pd.concat(rows, names=["spectrum", "envelope"])
        .swaplevel("envelope", "model")
        .swaplevel("spectrum", "model")
        .sort_index(
            level="model",
            sort_remaining=False,
            key=lambda names: names.map(list(results.model.values).index),
        )
    )


def power_ranges(results: xr.Dataset) -> pd.DataFrame:
    """Say over which lags envelopes, and the mixtures that the same spectra make, are power laws.

    Returns:
        For each model and order: factor between first and last lag of the widest `power_stretch`,
            and −slope there, for the measured
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
        columns[f"{name}: factor of lags"] = ranges(
            found[1] / found[0], "{:.1f}", centre=xr.DataArray.median
        )
        columns[f"{name}: β"] = ranges(found[2], "{:.2f}", centre=xr.DataArray.median)
    return pd.DataFrame(columns)


def closer_to_power(rates: xr.DataArray) -> xr.DataArray:
    """Say whether curves are closer to a power law than to an exponential: by least squares on log
    f, in log ℓ and in ℓ.

    Args:
        rates: Curves over ``lag``; values that are not above 0 do not count.

    Returns:
        1 or 0 over the other dimensions; NaN where nothing is left.
    """
    height: xr.DataArray = xr.apply_ufunc(np.log, rates.where(rates > 0))
    lag = rates.lag.astype(float)
    missed = [
        height.assign_coords(lag=at).polyfit("lag", 1, full=True).polyfit_residuals
        for at in (np.log(lag), lag)
    ]
    return (missed[0] < missed[1]).where(height.notnull().any("lag"))


def shapes(results: xr.Dataset) -> pd.DataFrame:
    """Say what is closer to a power law than to an exponential: envelopes, the mixtures that the
    same spectra make, or single neurons.

    Returns:
        For each model and order: in how many seeds the envelope is, before training and behind it,
            in how many the mixture with own weights
        is; and the percent of neurons whose own rates are, mean over seeds, least and largest.
    """
    orders = ["zeroth", "exact"]
    start = results.course_envelope.sel(order=orders, snapshot=0)
    measured = results[["envelope", "rate"]].sel(order=orders)
    mixed = xr.concat([mixtures(results, order, own_weights=True) for order in orders], "order")
    columns = {}
    for name, curves in (
        ("before training", start),
        ("envelope", measured.envelope),
        ("mixture", mixed),
    ):
        counted = (
            closer_to_power(curves).transpose("model", "order", "seed").sum("seed").to_series()
        )
        columns[name] = counted.map(lambda seeds: f"{seeds:.0f} of {results.sizes['seed']}")
    columns["% of neurons"] = ranges(
        100 * closer_to_power(measured.rate).mean("unit").transpose("model", "order", "seed"),
        "{:.0f}",
    )
    return pd.DataFrame(columns)


def bumps(results: xr.Dataset) -> pd.DataFrame:
    """Say how far envelopes rise at the task's lags: f there over the power law through the two
    lags around.

    Returns:
        For each model and task lag, at the exact order: 1 where the envelope is smooth; median over
            seeds, least and largest. A task lag
        at an end of the measured ones is left out.
    """
    height: xr.DataArray = xr.apply_ufunc(np.log, results.envelope.sel(order="exact", drop=True))
    height = height.assign_coords(lag=np.log(results.lag))
    columns = {}
    for lag in np.intersect1d(results.task_lag, results.lag[1:-1]):
        around = height.drop_sel(lag=np.log(lag)).interp(lag=np.log(lag))
        above: xr.DataArray = xr.apply_ufunc(np.exp, height.sel(lag=np.log(lag)) - around)
        columns[f"lag {lag}"] = ranges(above, "{:.2f}", centre=xr.DataArray.median)
    return pd.DataFrame(columns)
