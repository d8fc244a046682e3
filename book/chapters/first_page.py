"""The first page's left picture: detecting a lag, and learning it."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import special

from book.chapters import dose
from lwcore.figures import SHADES

MEASURED = 512  # sequences behind the recorded `signal`, its mean in standard errors
KEY = ["cell", "gate", "task", "lag", "seed"]
TOP = 1e12
CURVES = {
    "whole": (SHADES[0], "detect it in the noise\nof the whole gradient\n(up to {top}) ↑"),
    "own": (SHADES[2], "detect the lag in its own noise"),
    "learn": (SHADES[1], "learn half of the number: {first} → {last}"),
}


def detected_and_learned(folder: Path) -> pd.DataFrame:
    """Read sequences needed before training, in both noises, and to learn half.

    MinGRU, the adding problem over 21 steps, AdamW, of the first registered experiment. In its own
    noise a lag needs (z × deviation / mean)² sequences, at an error of 10 %.

    Returns:
        A row a gate and seed: `envelope`, `whole`, `own` and `learn`.
    """
    visible = folder / "visibility"
    start = pd.concat(map(pd.read_csv, sorted(visible.glob("start-adamw-*.csv"))))
    exact = pd.concat(map(pd.read_csv, sorted(visible.glob("envelope-*.csv"))))
    exact = exact[exact["mixing"].isna()].drop_duplicates(KEY)
    found = dose.searches(dose.trainings(folder / "dose"))
    found = found[found["mixing"].isna() & (found["optimizer"] == "adamw")]
    both = start.merge(exact[[*KEY, "envelope"]], on=KEY, validate="one_to_one")
    both = both.merge(found[[*KEY, "high"]], on=KEY, validate="one_to_one")
    both = both[(both["cell"] == "MinGRU") & (both["task"] == "adding")]
    quantile = special.ndtri(0.9)
    own = quantile**2 * MEASURED / both["signal"] ** 2
    own = own.where(both["signal"] > 0, np.inf)
    learned = both["high"].fillna(np.inf)
    return both.assign(whole=both["needed"], own=own, learn=learned)


def draw_sequences(axes: Axes, table: pd.DataFrame) -> None:
    """Draw what `detected_and_learned` gives: medians over seeds, and their range."""
    by_gate = table.groupby("gate")
    x = by_gate["envelope"].median()
    medians = by_gate[list(CURVES)].median()
    digit, power = f"{medians['whole'].max():.0e}".split("e+")
    top = f"{digit}·10" + power.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    learn = medians["learn"]
    words = {"top": top, "first": f"{learn.iloc[0]:.0f}", "last": f"{learn.iloc[-1]:.0f}"}
    places = {"whole": (1e-4, 3e9), "own": (0.2, 600), "learn": (0.2, 1.5)}
    for name, (colour, label) in CURVES.items():
        axes.plot(x, medians[name], "o-", ms=5, color=colour)
        axes.vlines(x, by_gate[name].min(), by_gate[name].max(), lw=1, color=colour)
        axes.text(*places[name], label.format(**words), color=colour, va="center", fontsize=9)
    axes.set(xscale="log", yscale="log", xlim=(40, 2e-10), ylim=(0.3, TOP))
    axes.set_xticks([10, 1e-2, 1e-5, 1e-8])
    axes.set_yticks([1, 1e3, 1e6, 1e9, 1e12])
    axes.minorticks_off()
    axes.set(xlabel="envelope f before training (smaller →)", ylabel="number of sequences")
    axes.set_title(
        "Adding: as f falls, detection (blue) takes ever\n"
        "more sequences, learning rises less than fivefold",
        fontsize=10,
    )
