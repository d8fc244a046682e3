"""Figures of spectra of time scales: along training, over a sweep, and behind an intervention."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from book.chapters.spectra import learned_share, quantile, width
from book.chapters.starts import WINDOWS
from lwcore.figures import COLOURS, MARKERS, SHADES, band, canvas, legend_above, model_band, signed
from lwcore.inference import probes, windows

_TITLES = {"zeroth": "zeroth order, gates alone", "exact": "exact diagonal"}
_LEVELS = {0.1: ":", 0.5: "-", 0.9: "--"}
_OPTIMISERS = {"sgd": "--", "adamw": "-"}
_SHADES = (SHADES[5], SHADES[9], SHADES[6], "0.35")  # no cell has these


def quantiles_along(results: xr.Dataset) -> Figure:
    """Draw quantiles of the time scales against training steps, gates alone and exactly, for every
    cell whose gates are learned."""
    models = [model for model in results.model.values if model != "ConstGate"]
    figure, panels = canvas(2 * len(models), width=8.6, height=5, rows=2, sharex=True, sharey="row")
    for axes, (order, model) in zip(
        panels, [(order, model) for order in _TITLES for model in models], strict=True
    ):
        tau = results.course_time_scale.sel(model=model, order=order)
        for level, style in _LEVELS.items():
            at_level = quantile(tau, level)
            band(
                axes,
                tau.snapshot,
                at_level.where(np.isfinite(at_level)),
                color=COLOURS[model],
                ls=style,
            )
        for lag in results.task_lag.values:
            axes.axhline(lag, color="grey", lw=0.4)
        axes.set(yscale="log", title=model if order == "zeroth" else None)
        _steps(axes, results, named=order == "exact")
    for axes, title in zip(panels[:: len(models)], _TITLES.values(), strict=True):
        axes.set_ylabel(f"τ (steps)\n{title}")
    panels[0].legend(
        [Line2D([], [], color="grey", ls=s) for s in _LEVELS.values()],
        [f"{level:.0%}" for level in _LEVELS],
        fontsize=8,
    )
    return signed(figure, results)


def widths_along(results: xr.Dataset) -> Figure:
    """Draw the width of the spectra, and below it how much of the task is learned, against training
    steps."""
    figure, panels = canvas(3, width=8.6, height=3.3)
    spread = width(results.course_time_scale)
    for model in results.model.values:
        for axes, order in zip(panels, _TITLES, strict=False):
            model_band(axes, spread.snapshot, spread.sel(model=model, order=order), model)
        model_band(panels[2], results.snapshot, learned_share(results).sel(model=model), model)
    for axes, title in zip(panels, [*_TITLES.values(), "what is learned"], strict=True):
        axes.set_title(title)
        _steps(axes, results)
    panels[0].set_ylabel("width of the spectrum (decades)")
    panels[2].set_ylabel("share of the task learned")
    legend_above(figure, panels[0])
    return signed(figure, results)


def trajectories(sweep: xr.Dataset, gate_spread: float = 0.1) -> Figure:
    """Draw the width of the zeroth-order spectrum against how much of the task is learned, along
    training, one panel a task.

    Args:
        sweep: The sweep `spectra`.
        gate_spread: Where to cut the sweep.

    Returns:
        The figure: if what is learned determined the width, the optimisers' curves of a cell would
            coincide.
    """
    models = [model for model in sweep.model.values if model != "SharedGate"]
    figure, panels = canvas(sweep.sizes["task"], width=8.6, height=3.4, sharey=True)
    spread = width(sweep.course_time_scale.sel(order="zeroth", gate_spread=gate_spread))
    share = learned_share(sweep.sel(gate_spread=gate_spread))
    for axes, task in zip(panels, sweep.task.values, strict=True):
        for model in models:
            for optimizer, style in _OPTIMISERS.items():
                x, y = (a.sel(model=model, task=task, optimizer=optimizer) for a in (share, spread))
                _bars(
                    axes, x.median("seed"), y, color=COLOURS[model], ls=style, marker=MARKERS[model]
                )
        axes.set(title=f"{task} task", xlabel="share of the task learned", xlim=(-0.05, 1.05))
    panels[0].set_ylabel("width, zeroth order (decades)")
    for model in models:
        panels[0].plot([], [], MARKERS[model], color=COLOURS[model], label=model)
    for optimizer, style in _OPTIMISERS.items():
        panels[0].plot([], [], ls=style, color="grey", label=optimizer)
    legend_above(figure, panels[0])
    return signed(figure, sweep)


def widths_over(sweep: xr.Dataset) -> Figure:
    """Draw the width of every spectrum behind training over initial gate spread, task and
    optimiser; grey, the width at the start."""
    models = [model for model in sweep.model.values if model != "SharedGate"]
    figure, panels = canvas(2 * len(models), width=8.6, height=5, rows=2, sharex=True, sharey="row")
    spread = width(sweep.course_time_scale)
    places = np.arange(sweep.sizes["gate_spread"])
    for axes, (order, model) in zip(
        panels, [(order, model) for order in _TITLES for model in models], strict=True
    ):
        one = spread.sel(model=model, order=order)
        start = one.isel(snapshot=0)
        band(
            axes,
            xr.DataArray(places, dims="gate_spread"),
            start.drop_vars("gate_spread"),
            color="grey",
            ls=":",
        )
        for shift, (optimizer, style) in zip((-0.06, 0.06), _OPTIMISERS.items(), strict=True):
            for task, shade in zip(sweep.task.values, _SHADES, strict=False):
                end = one.sel(optimizer=optimizer, task=task).isel(snapshot=-1)
                line = {
                    "color": shade,
                    "ls": style,
                    "marker": "o",
                    "mfc": "white" if optimizer == "sgd" else shade,
                }
                _bars(axes, places + shift, end, label=f"{optimizer}, {task}", **line)
        axes.set(
            xticks=places,
            xticklabels=[f"{value:g}" for value in sweep.gate_spread.values],
            title=model if order == "zeroth" else None,
        )
        if order == "exact":
            axes.set_xlabel("initial gate spread")
    for axes, title in zip(panels[:: len(models)], _TITLES.values(), strict=True):
        axes.set_ylabel(f"width (decades)\n{title}")
    legend_above(figure, panels[0])
    return signed(figure, sweep)


def intervention(runs: xr.Dataset) -> Figure:
    """Draw what the start of the spectrum changes: width along training, exact envelope, what is
    learned, and two windows.

    Args:
        runs: One model's networks, as `starts.run_from` gives them.

    Returns:
        The figure, one colour a start.
    """
    figure, panels = canvas(6, width=8.6, height=5.4, rows=2)
    spread, share = width(runs.course_time_scale.sel(order="zeroth")), learned_share(runs)
    for start, shade in zip(runs.start.values, _SHADES, strict=False):
        one: dict[str, Any] = {"color": shade, "label": str(start), "marker": "o", "ms": 3}
        band(panels[0], runs.snapshot, spread.sel(start=start), **one)
        band(panels[1], runs.snapshot, share.sel(start=start), **one)
        band(
            panels[2], runs.task_lag, runs.course_learned.sel(start=start).isel(snapshot=-1), **one
        )
        band(panels[3], runs.lag, runs.envelope.sel(start=start, order="exact"), **one)
        for axes, (_, view, how) in zip(panels[4:], WINDOWS, strict=True):
            found = windows(probes(runs.sel(start=start), view, "error"), **how)
            band(axes, found.budget, found, **one)
    planted = runs.planted.isel(start=0, model=0, seed=0).sel(delay=runs.task_lag.values)
    panels[2].plot(planted.delay, planted, "_", color="grey", ms=12, label="planted")
    for axes, title in zip(
        panels[:2], ("width, zeroth order (decades)", "share of the task learned"), strict=True
    ):
        axes.set(title=title, xlabel="training step")
    panels[2].set(title="learned, delay by delay", xlabel="delay (steps)")
    panels[3].set(title="exact envelope", xlabel="lag ℓ (steps)", yscale="log")
    for axes, (title, *_) in zip(panels[4:], WINDOWS, strict=True):
        axes.set(
            title=f"window, {title}",
            xlabel="sequences N",
            xscale="log",
            ylim=(-1, float(runs.lag[-1]) * 1.06),
        )
    legend_above(figure, panels[2])
    return signed(figure, runs)


def _bars(axes: Axes, x: xr.DataArray | np.ndarray, y: xr.DataArray, **line: Any) -> None:
    """Draw medians over seeds, and bars from the least to the largest."""
    middle = y.median("seed")
    axes.errorbar(
        x, middle, [middle - y.min("seed"), y.max("seed") - middle], ms=4, elinewidth=0.8, **line
    )


def _steps(axes: Axes, results: xr.Dataset, named: bool = True) -> None:
    """Space training steps by their logarithm, with room for step 0."""
    first, last = int(results.snapshot[1]), int(results.snapshot[-1])
    axes.set_xscale("symlog", linthresh=first)
    powers = [10**k for k in range(len(str(last))) if 10**k >= first]
    axes.set_xticks([0, *powers], ["0", *(f"$10^{len(str(power)) - 1}$" for power in powers)])
    axes.tick_params(axis="x", which="minor", length=0)
    axes.set(xlabel="training step" if named else None, xlim=(0, last))
