"""Pictures of repeated and renewed batches, from what `benchmarks.recordings.repeat` recorded."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.pyplot import get_cmap

from book.chapters.repeat import HALF
from lwcore.figures import SHADES

FRESH, AGAIN, SET = SHADES[3], SHADES[0], SHADES[7]


def draw_opening(axes: Axes, looks: pd.DataFrame, gates: tuple[float, ...]) -> None:
    """Draw the envelope along training from some starts, with a dot where half was learned.

    Of each start the seed that took the median number of steps, of two in the middle the sooner.
    """
    colours = get_cmap("gray")(np.linspace(0, 0.7, len(gates)))
    for gate, colour in zip(gates, colours, strict=True):
        by_seed = looks[looks["gate"] == gate].groupby("seed")
        ends = by_seed["step"].max().sort_values(kind="stable")
        line = by_seed.get_group(ends.index[(len(ends) - 1) // 2]).sort_values("step")
        axes.plot(line["step"], line["envelope"], color=to_hex(colour), lw=1.5)
        last = line.iloc[-1]
        if last["share"] >= HALF:
            axes.plot(last["step"], last["envelope"], "o", color=to_hex(colour), ms=6)
    axes.axhline(1, color="black", lw=0.7, ls=":")
    axes.text(0.97, 0.06, "dot: half learned", transform=axes.transAxes, ha="right")
    axes.set(yscale="log", xlabel="training step", ylabel="envelope over 20 steps")


def draw_steps(axes: Axes, trainings: pd.DataFrame, cap: float) -> None:
    """Draw the steps to half against the envelope at the start, by where batches come from.

    Small points are seeds, lines join medians over gates, diamonds are medians of one or two gates,
    and triangles met the cap.
    """
    styles = {"fresh": (FRESH, "new at every step"), "again": (AGAIN, "used 20 times"),
              "set": (SET, "from 256 sequences")}  # fmt: skip
    for supply, (colour, label) in styles.items():
        own = trainings[trainings["supply"] == supply]
        for end, marker in (("half", "o"), ("cap", "^")):
            some = own[own["end"] == end]
            axes.plot(some["envelope"], some["steps"], marker, color=colour, ms=3, alpha=0.5)
        middle = own.groupby("gate")[["envelope", "steps"]].median()
        style = "-" if len(middle) > 2 else "D"  # two starts are no line
        axes.plot(middle["envelope"], middle["steps"], style, color=colour, ms=6, label=label)
    axes.axhline(cap, color="grey", lw=0.6)
    axes.set(xscale="log", yscale="log", xlabel="envelope at the start")
    axes.set_ylabel("steps to half of the task")
    axes.invert_xaxis()
    axes.legend(frameon=False)
