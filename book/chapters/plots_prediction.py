"""Figures on what was learned: against what is left to see of it, and how many sequences that
took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lwcore.figures import COLOURS, MARKERS, canvas, signed

_SHARE = "share learned"


def left_over(ratio: xr.DataArray, share: xr.DataArray, results: xr.Dataset) -> Figure:
    """Draw how much of a lag's signal is left after training against the share learned, one point a
    network and lag."""
    figure, (axes,) = canvas(1, width=5.4, height=4)
    axes.axline((0, 1), (1, 0), color="grey", ls=":", lw=1, label="one less the share")
    _points(axes, share, ratio)
    axes.set(
        xlabel=_SHARE,
        ylabel="signal left, own error over target",
        ylim=(min(0.0, float(ratio.min()) - 0.05), None),
    )
    return signed(figure, results, axes)


def needed(
    took: xr.DataArray,
    against: Mapping[str, xr.DataArray],
    grid: Sequence[int],
    results: xr.Dataset,
) -> Figure:
    """Draw the number of sequences that each network took to learn its lag against several numbers,
    a panel each, all logarithmic.

    Args:
        took: Number of sequences (model, seed, lag); infinite where a half was never reached, drawn
            above a dotted line.
        against: What is drawn across, by the words below the panel.
        grid: The numbers of sequences that were tried, increasing.
        results: The sweep.

    Returns:
        The figure.
    """
    figure, panels = canvas(len(against), height=3.4, sharey=True)
    most, above = grid[-1], 1.7 * grid[-1]
    for axes, (words, across) in zip(panels, against.items(), strict=True):
        _points(axes, across, took.where(np.isfinite(took), above))
        axes.axhline(1.3 * most, color="grey", ls=":", lw=1)
        axes.set(xscale="log", yscale="log", xlabel=words)
        axes.minorticks_off()
        few = np.unique(across)
        if few.size <= took.sizes["lag"]:
            axes.set_xticks(few, few)
    panels[0].set_yticks([*grid, above], [*map(str, grid), f"> {most}"])
    panels[0].set_ylabel("sequences needed")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=5,
        columnspacing=1.2,
    )
    return signed(figure, results)


def _points(axes: Axes, x: xr.DataArray, y: xr.DataArray) -> None:
    """Draw a point for each network and lag, in the colour of its model."""
    for model in y.model.values:
        across, up = xr.broadcast(x.sel(model=model), y.sel(model=model))
        axes.plot(
            across.values.ravel(),
            up.values.ravel(),
            MARKERS[model],
            ms=4,
            alpha=0.7,
            color=COLOURS[model],
            label=model,
        )
