"""Pictures of the envelope and of what is learned, from what `recordings.repeat` recorded."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.pyplot import get_cmap
from matplotlib.ticker import PercentFormatter

from book.chapters.repeat import HALF


def third_soonest(
    looks: pd.DataFrame, gates: tuple[float, ...]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield, for each start, a shade of grey and the looks at the third soonest of six seeds."""
    shades = get_cmap("gray")(np.linspace(0, 0.7, len(gates)))
    for gate, shade in zip(gates, shades, strict=True):
        by_seed = looks[looks["gate"] == gate].groupby("seed")
        ends = by_seed["step"].max().sort_values(kind="stable")
        yield to_hex(shade), by_seed.get_group(ends.index[(len(ends) - 1) // 2]).sort_values("step")


def draw_opening(axes: Axes, looks: pd.DataFrame, gates: tuple[float, ...]) -> None:
    """Draw the envelope along training from some starts, with a dot where half was learned."""
    for colour, line in third_soonest(looks, gates):
        axes.plot(line["step"], line["envelope"], color=colour, lw=1.5)
        last = line.iloc[-1]
        if last["share"] >= HALF:
            axes.plot(last["step"], last["envelope"], "o", color=colour, ms=6)
    axes.axhline(1, color="black", lw=0.7, ls=":")
    axes.text(0.97, 0.06, "dot: half learned", transform=axes.transAxes, ha="right")
    axes.set(yscale="log", xlabel="training step", ylabel="envelope over 20 steps")


def draw_learning(axes: Axes, looks: pd.DataFrame, gates: tuple[float, ...]) -> None:
    """Draw what was learned against the envelope, along training from some starts."""
    for colour, line in third_soonest(looks, gates):
        axes.plot(line["envelope"], line["share"], color=colour, lw=1.2)
        first, last = line.iloc[0], line.iloc[-1]
        start = first["envelope"], first["share"]
        axes.plot(*start, "o", color="black", ms=7, mfc="white", zorder=5)
        label = f"$s$ = {first['gate']:g}"
        axes.annotate(label, start, (0, -10), textcoords="offset points", ha="center", va="top")
        axes.plot(last["envelope"], last["share"], "o", color=colour, ms=7)
    axes.axvline(1, color="black", lw=0.7, ls=":")
    axes.axhline(HALF, color="black", lw=0.7, ls=":")
    axes.text(0.03, HALF + 0.02, "half learned", transform=axes.get_yaxis_transform())
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.set(xscale="log", xlabel="envelope over 20 steps", ylabel="recall learned (chance: 0 %)")
    axes.margins(x=0.1)
    axes.set_ylim(bottom=-0.15)
