"""Tables and figures of the experiment on clock and quota."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from book.chapters import clock
from book.claims.claim import consequence
from lwcore.printing import Numbers, printed
from lwcore.stats import Interval

ARM_TITLES = {"learned": "learned", "fixed": "held", "wide": "held, wide"}
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
    known, a triangle stands at the upper edge, apart from the line.

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
    for chosen, marker, face in (
        (known & ~fewest, "o", color),
        (fewest, "o", "white"),
        (~known, "^", "white"),
    ):
        points = cut[chosen], middle[chosen]
        axes.plot(*points, marker, ms=6, mfc=face, color=color)


def arms_table(found: pd.DataFrame, exponents: Mapping[str, Interval]) -> pd.DataFrame:
    """Tabulate, for each arm of mobility, the data that it needs.

    Args:
        found: Trainings of ``mobility`` with the envelope of their starts, a row for each start,
            arm and seed.
        exponents: The exponent of n* in the envelope, by arm.

    Returns:
        A row for each arm: the growth of n* as the envelope falls a thousandfold, the share of
        networks whose n* is at most the smallest number tried, and median and range of n* where the
        envelope is largest and smallest.
    """
    by_start = found.groupby(["mixing", "gate"])["log_envelope"].mean()
    ends = {"largest": by_start.idxmax(), "smallest": by_start.idxmin()}
    rows = {}
    for arm, title in ARM_TITLES.items():
        own = found[found["arm"] == arm]
        words = {
            "data, thousandfold": thousandfold_fall(exponents[arm]),
            f"n* ≤ {clock.COUNTS[0]}": printed((own["low"] == 0).mean(), unit="share"),
        }
        for name, (mixing, gate) in ends.items():
            at_end = own[(own["mixing"] == mixing) & (own["gate"] == gate)]
            words[f"n*, {name} envelope"] = _spread(at_end["high"])
        rows[title] = words
    return pd.DataFrame(rows).T


def _spread(values: pd.Series) -> str:
    """Say median and range over seeds of numbers that may not be known."""
    known = values.sort_values(na_position="last")
    words = [f"{one:,.0f}" if one == one else "not reached" for one in known]
    if words[0] == words[-1]:
        return f"{words[0]} in every seed"
    return f"{words[len(words) // 2]} (range {words[0]} to {words[-1]})"
