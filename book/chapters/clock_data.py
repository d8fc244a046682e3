"""Figures of the experiment on clock and quota."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from book.chapters import clock

COLOURS = {  # of the rows of the clock, told apart in both themes
    ("MinGRU", "adamw"): "#0072B2",
    ("MinGRU", "sgd"): "#D55E00",
    ("ConstGate", "adamw"): "#009E73",
}
FALL = 1e-3  # of the envelope, at which a growth is told


def draw_row(axes: Axes, found: pd.DataFrame, color: str, label: str, aside: float) -> None:
    """Draw n* of a row of the clock against the cut of its envelope.

    A point is a gate: the median over seeds, of two in the middle the larger, in a bar that is the
    range. It is open where n* is no more than the fewest sequences tried. Where the median is not
    known, words say so at the upper edge, apart from the line.

    Args:
        axes: Where to draw, with logarithmic scales.
        found: A row of cell and optimiser, with the envelope of its starts.
        color: Colour of the row.
        label: Name of the row in the legend.
        aside: Factor that moves the points sideways, off those of other rows.
    """
    upper_edge = 2.0 * clock.COUNTS[-1]
    by_gate = found.groupby("gate")
    log_envelope = by_gate["log_envelope"].median()
    cut = aside * np.exp(log_envelope.max() - log_envelope)
    seeds = by_gate["high"].apply(lambda values: sorted(values.fillna(upper_edge)))
    middle = seeds.map(lambda values: values[len(values) // 2])
    known = middle < upper_edge
    fewest = middle == clock.COUNTS[0]
    axes.plot(cut[known], middle[known], color=color, label=label)
    axes.vlines(cut[known], seeds[known].map(min), seeds[known].map(max), lw=1, color=color)
    for chosen, face in ((known & ~fewest, color), (fewest, "white")):
        points = cut[chosen], middle[chosen]
        axes.plot(*points, marker="o", ls="", ms=6, mfc=face, color=color)
    for x in cut[~known]:
        words = "n* not\ndetermined"
        axes.text(x, upper_edge, words, color=color, ha="right", va="center", fontsize=9)
