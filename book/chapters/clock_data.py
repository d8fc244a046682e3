"""Tables and figures of the experiment on clock and quota."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from book.chapters import clock
from book.claims.claim import consequence
from lwcore.printing import Numbers, printed
from lwcore.stats import Interval

COLOURS = {  # of the rows of the clock, told apart in both themes
    ("MinGRU", "adamw"): "#0072B2",
    ("MinGRU", "sgd"): "#D55E00",
    ("ConstGate", "adamw"): "#009E73",
}
FALL = 1e-3  # of the envelope, at which a growth is told


def thousandfold_fall(exponent: Interval) -> str:
    """Say by which factor a response grows as the envelope falls a thousandfold."""
    value, low, high = map(float, exponent)
    return printed(*consequence(Numbers(value, low, high), FALL), unit="factor")


def draw_row(axes: Axes, found: pd.DataFrame, color: str, label: str, aside: float) -> None:
    """Draw n* of a row of the clock against the cut of its envelope.

    A point is a gate: the median over seeds, of two in the middle the larger, in a bar that is the
    range. It is open where n* is no more than the fewest sequences tried. Where the median is not
    known, a question mark stands at the upper edge, apart from the line.

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
    for chosen, marker, size, face in (
        (known & ~fewest, "o", 6, color),
        (fewest, "o", 6, "white"),
        (~known, "$?$", 10, color),
    ):
        points = cut[chosen], middle[chosen]
        axes.plot(*points, marker=marker, ls="", ms=size, mfc=face, color=color)
