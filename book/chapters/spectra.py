"""Spectra of time scales: how broad, what made them so, and whether they sit at the lags of the
task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import xarray as xr

LEAST = 0.05  # share of a task below which nothing counts as learned


def quantile(time_scale: xr.DataArray, level: float) -> xr.DataArray:
    """Give a quantile of the time scales over neurons; it may be infinite, and neurons without a
    time scale (NaN) do not count."""
    return 1 / (1 / time_scale).quantile(1 - level, "unit").drop_vars("quantile")


def width(time_scale: xr.DataArray) -> xr.DataArray:
    """Measure how broad a spectrum is: the decades from its 10 % to its 90 % quantile.

    Args:
        time_scale: τ over ``unit`` and other dimensions, steps.

    Returns:
        log₁₀(τ₉₀/τ₁₀), at least 0; infinite where more than a tenth of the neurons do not forget.
    """
    ratio = quantile(time_scale, 0.9) / quantile(time_scale, 0.1)
    return xr.apply_ufunc(np.log10, ratio).assign_attrs(
        long_name="width of the spectrum", units="decades"
    )


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Say along training how much of the task is learned, ``Σ c_k ĉ_k / Σ c_k²``: 1 for a perfect
    predictor, 0 for one that ignores it."""
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
    """Split the variance of a full grid among its factors, by analysis of variance.

    Args:
        values: One value a point of the grid, and other dimensions, each place of which is analysed
            by itself.
        factors: The dimensions of the grid.

    Returns:
        Shares over ``source``: each factor's main effect, and ``"interactions"`` of any order; they
            add up to 1. NaN where nothing varies.
    """
    for factor in factors:
        if factor not in values.dims:
            raise ValueError(
                f"factors = {list(factors)}: {factor!r} must be one of the dimensions "
                f"{', '.join(map(str, values.dims))}."
            )
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


def width_shares(
    sweep: xr.Dataset, factors: Sequence[str] = ("optimizer", "gate_spread", "task")
) -> pd.DataFrame:
    """Say which of a sweep's axes explain how broad the spectra are behind training.

    Returns:
        For each model and order: percent of the variance of `width` that each source explains; mean
            over seeds, each seed's grid analysed
        by itself, with the least and the largest. In brackets, what a main effect explains on
        average where nothing but chance is at work.
    """
    last = sweep.course_time_scale.isel(snapshot=-1).sel(order=["zeroth", "exact"])
    shares = 100 * variance_shares(width(last), factors)
    columns = {
        source: ranges(shares.sel(source=source), "{:.0f}") for source in shares.source.values
    }
    # A network with one gate for all neurons has no width at zeroth order, and so nothing to
    # explain.
    table = pd.DataFrame(columns)[lambda table: table["interactions"] != ""]
    points = math.prod(last.sizes[factor] for factor in factors)
    chance = {
        factor: f" ({100 * (last.sizes[factor] - 1) / (points - 1):.0f})" for factor in factors
    }
    return table.rename(columns=lambda source: f"% {source}{chance.get(source, '')}")


def learning_and_optimiser(sweep: xr.Dataset) -> pd.Series:
    """Say how much of the variance of the gates' width a regression explains on what was learned,
    on the optimiser, and on both.

    Args:
        sweep: The sweep `spectra`; its networks are taken together, but for those with one gate for
            all neurons, which have no width.

    Returns:
        Shares of the variance of the zeroth-order `width` behind training: ``"share learned"``,
        ``"optimiser"`` and ``"both"``.
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


def at_equal_share(sweep: xr.Dataset, gate_spread: float = 0.1) -> pd.DataFrame:
    """Compare the optimisers' spectra at the same share of the task learned: where SGD ends, and
    where AdamW passes that share.

    Args:
        sweep: The sweep `spectra`.
        gate_spread: Where to cut it.

    Returns:
        For each model and task: share of the task that SGD learns, width of its zeroth-order
            spectrum behind training, and AdamW's width
        where it has learned as much, interpolated between snapshots; mean over seeds, least and
        largest. Left out where a seed of SGD learns less than `LEAST` of the task, and where
        nothing has a width.
    """
    if gate_spread not in sweep.gate_spread:
        raise ValueError(
            f"gate_spread = {gate_spread}: must be one of {sweep.gate_spread.values.tolist()}."
        )
    cut = sweep.sel(gate_spread=gate_spread)
    share, spread = learned_share(cut), width(cut.course_time_scale.sel(order="zeroth"))
    plain, adaptive = ({"optimizer": name} for name in ("sgd", "adamw"))
    reached = share.sel(plain).isel(snapshot=-1)
    as_much = xr.apply_ufunc(
        lambda at, shares, widths: np.interp(at, np.maximum.accumulate(shares), widths),
        reached,
        share.sel(adaptive),
        spread.sel(adaptive),
        input_core_dims=[[], ["snapshot"], ["snapshot"]],
        vectorize=True,
    )
    enough = (reached.min("seed") >= LEAST) & (spread.max(("seed", "snapshot", "optimizer")) > 0)
    columns = {
        "learned by SGD": reached,
        "width, SGD": spread.sel(plain).isel(snapshot=-1),
        "width, AdamW": as_much,
    }
    return pd.DataFrame(
        {
            name: ranges(value.where(enough).transpose("model", "task", "seed"), "{:.2f}")
            for name, value in columns.items()
        }
    )[lambda table: table["learned by SGD"] != ""]


def ranges(
    values: xr.DataArray,
    form: str,
    over: str = "seed",
    centre: Callable[..., xr.DataArray] = xr.DataArray.mean,
) -> pd.Series:
    """Write values as their mean over seeds with the least and the largest; empty where one is
    NaN."""
    parts = [centre(values, over), values.min(over), values.max(over)]
    written = [part.to_series() for part in parts]
    return pd.Series(
        [
            "" if np.isnan(m) else f"{form.format(m)} ({form.format(a)} to {form.format(b)})"
            for m, a, b in zip(*written, strict=True)
        ],
        written[0].index,
    )


def lining_up(time_scale: xr.DataArray, lags: Sequence[int]) -> xr.DataArray:
    """Measure whether time scales sit at a task's lags.

    Between two lags τ has a phase, 0 at one and 1 at the next, linear in log τ; the measure is the
    mean of cos(2π phase).

    Args:
        time_scale: τ over ``unit`` and other dimensions, steps.
        lags: The task's lags, at least two.

    Returns:
        1 where all τ sit at lags, −1 halfway between, about 0 ± 1/√(2n) where n time scales ignore
        them; those outside the lags do not count, and without any the result is NaN.
    """
    knots = np.log(list(lags))
    phase = xr.apply_ufunc(
        lambda tau: np.interp(np.log(tau), knots, np.arange(len(knots)), np.nan, np.nan), time_scale
    )
    return np.cos(2 * np.pi * phase).mean("unit")
