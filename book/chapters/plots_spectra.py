"""Figures of the chapter on GRU and LSTM: spectra of time scales network by network, and factors
that weigh neurons differently.

Every function takes a dataset as `lwcore.experiment.run` returns it and gives a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
import xarray as xr
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from book.chapters.spectra import split_envelope
from book.chapters.tables_spectra import head_factor
from lwcore.figures import COLOURS, canvas, legend_above, model_band, signed

_DENSITY: Any = {"log_scale": True, "cut": 0, "warn_singular": False}
_TITLES = {"zeroth": "zeroth order", "first": "first order", "exact": "exact diagonal"}


def networks(results: xr.Dataset, orders: Sequence[str] = ("zeroth", "exact")) -> Figure:
    """Draw the density of log τ of every network, a line each, with a tick for every neuron, at
    several orders.

    Args:
        results: A run, with the models to show.
        orders: Orders of transport, a row of panels each.

    Returns:
        The figure.
    """
    models = results.model.values
    figure, panels = canvas(
        len(models) * len(orders), height=2.3 * len(orders) + 0.4, rows=len(orders)
    )
    keys = [(order, model) for order in orders for model in models]
    for axes, (order, model) in zip(panels, keys, strict=True):
        shown = results.time_scale.sel(order=order)
        for tau in shown.sel(model=model).transpose("seed", "unit").values:
            kept = tau[np.isfinite(tau)]
            sns.kdeplot(x=kept, ax=axes, color=COLOURS[model], lw=1.2, **_DENSITY)
            # one broken line: many paths are a heavy picture
            ticks = np.stack([kept, kept, np.full_like(kept, np.nan)], axis=1).ravel()
            heights = np.tile([0, 0.05, np.nan], len(kept))
            axes.plot(
                ticks,
                heights,
                color=COLOURS[model],
                alpha=0.25,
                lw=1.2,
                transform=axes.get_xaxis_transform(),
                label="_neurons",
            )
        every = shown.values[np.isfinite(shown.values)]
        axes.set(
            xlabel="time scale τ (steps)",
            ylabel="density of log τ" if model == models[0] else "",
            yticks=[],
        )
        axes.set_xlim(every.min() / 1.1, every.max() * 1.1)
        axes.set_title(f"{model}, {_TITLES[order]}", fontsize=9)
        _plain_ticks(axes.xaxis)
    return signed(figure, results)


def reshaping(results: xr.Dataset) -> Figure:
    """Draw what a factor of each neuron's own does to the envelope's shape: the envelope with over
    that without, relative to lag 1.

    Returns:
        The figure: base rates of the optimiser at zeroth order and with exact rates; the LSTM's
            head factor at zeroth order. A line at 1
        is a factor that only rescales.
    """
    figure, panels = canvas(3, height=3.4, sharey=True)
    for axes, order in zip(panels, ("zeroth", "exact"), strict=False):
        split = split_envelope(results.rate.sel(order=order), results.base_rate)
        ratio = split.f / split.f_gates
        for model in results.model.values:
            model_band(axes, ratio.lag, (ratio / ratio.isel(lag=0)).sel(model=model), model)
        axes.set_title(f"base rates, {_TITLES[order]}", fontsize=9)
    rate = results.rate.sel(model="LSTM", order="zeroth")
    ratio = rate.sum("unit") / (rate / head_factor(results)).sum("unit")
    model_band(panels[2], ratio.lag, ratio / ratio.isel(lag=0), "LSTM")
    panels[2].set_title("head factor, zeroth order", fontsize=9)
    for axes in panels:
        axes.axhline(1, color="grey", ls=":", lw=1)
        axes.set(xlabel="lag ℓ (steps)", xscale="log", yscale="log")
        _plain_ticks(axes.xaxis)
    _plain_ticks(panels[0].yaxis)
    panels[0].set_ylabel("f with / f without, relative to lag 1")
    legend_above(figure, panels[0])
    return signed(figure, results)


def _plain_ticks(axis: Axis) -> None:
    """Write a logarithmic axis' numbers out, the closer the shorter the axis."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(
        LogLocator(
            subs=(1, 1.5, 2, 3, 5, 7) if high / low < 10 else (1, 3) if high / low < 1e4 else (1,)
        )
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
