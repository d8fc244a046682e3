"""The figure of the first page: what a smaller envelope costs, and what is learned of a delay."""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from book.chapters import anchored

# where the name of a task stands, in decades
_PLACES = {
    "recall": (7.4, 1.5),
    "adding": (9.2, 0.9),
    "regression": (4.8, -0.5),
    "digits": (7.9, -0.1),
}


def draw_growth(axes: Axes, compared: pd.DataFrame) -> None:
    """Draw the growth of the data against the cut of the exact envelope, with its tasks named.

    Args:
        axes: Where to draw.
        compared: Networks beside their anchors, as `anchored.cuts` gives them.
    """
    anchored.draw_growth(axes, compared, "cut_exact")
    axes.set(xlabel="initial envelope smaller by a factor of", ylabel="data needed to learn half")
    axes.text(0.2, 3.25, "Eq. (34), if noise\nstays constant", fontsize=9)
    axes.text(4.4, 2.75, "△ most seeds did not learn", fontsize=9)
    for task, place in _PLACES.items():
        axes.text(*place, task, color=anchored.COLOURS[task], weight="bold")


def draw_learned(axes: Axes, share: xr.DataArray) -> None:
    """Draw the share of each delay that networks learned: medians, and their range.

    Args:
        axes: Where to draw.
        share: Shares, from 0 to 1, by model, seed and lag.
    """
    per_cent = 100 * share.stack(network=("model", "seed"))
    middle = per_cent.median("network").values
    least, most = per_cent.min("network").values, per_cent.max("network").values
    rows = np.arange(len(middle))[::-1]
    axes.barh(rows, middle, color="#56B4E9")
    axes.hlines(rows, least, most, color="black", lw=1.2)
    for row, value, end in zip(rows, middle, most, strict=True):
        axes.text(end + 2, row, f"{value:.0f} %", va="center")
    axes.set_yticks(rows, share["lag"].values)
    axes.set(xlim=(0, 130), xlabel="share of the delay learned (%)", ylabel="delay (steps)")
