"""How much the data grew for how large a cut of the envelope, in the registered experiment.

In each row of cell, task, lag and optimiser, and for each seed, the mildest gate from which half
was learned is the *anchor*. Beside it stand the networks of the same seed with a stronger gate: by
how many powers of ten their envelope is smaller at the start, and by how many more sequences they
needed. No law is supposed. The theory's weakest reading, Eq. (34) with noise that does not shrink,
is that the data grow by as many powers of ten as the envelope is cut.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from book.chapters.dose import COUNTS, COUNTS_OF_DIGITS, HIDDEN
from lwcore.stats import Interval, student

# in colours that are told apart in both themes
COLOURS = {"recall": "#D55E00", "adding": "#0072B2", "regression": "#009E73", "digits": "#CC79A7"}
MOST = ("adding", "recall", "regression")  # tasks of six seeds
ROW = ["task", "lag", "cell", "optimizer"]
START = ["cell", "gate", "task", "lag", "mixing", "seed"]


def envelopes(searches: pd.DataFrame, exact: pd.DataFrame) -> pd.DataFrame:
    """Add the envelope at the start to searches, in decades: of the gates alone, and exact.

    Args:
        searches: As `book.chapters.dose.searches` gives them.
        exact: Exact envelopes, as `book.chapters.visibility` records them. They were measured
            before training, and so serve both optimisers.
    """
    # Where no scale is set a table holds None or NaN: as floats both are NaN, and fit.
    searches = searches.astype({"mixing": float})
    measured = exact.astype({"mixing": float})[[*START, "envelope"]].drop_duplicates(START)
    joined = searches.merge(measured, on=START, how="left", validate="many_to_one")
    kept = joined["lag"] * np.log10(1 - joined["gate"])
    of_gates = math.log10(HIDDEN) + kept
    return joined.assign(gates=of_gates, exact=np.log10(joined["envelope"]))


def cuts(searches: pd.DataFrame) -> pd.DataFrame:
    """Compare every network with the anchor of its row and seed.

    Args:
        searches: With their envelopes, as `envelopes` gives them.

    Returns:
        A row for each gate stronger than the anchor's, in decades: `cut` and `cut_exact`, by which
        the envelope is smaller; `growth`, by which the sequences grew, NaN where half was not
        learned; and `room`, by which they can grow until the search ends at its largest number. A
        row and seed without anchor is left out.
    """
    rows = []
    for (task, *_), group in searches.groupby([*ROW, "seed"]):
        largest = (COUNTS_OF_DIGITS if task == "digits" else COUNTS)[-1]
        doses = group.sort_values("gate")
        learned = doses[doses["high"].notna()]
        if learned.empty:
            continue
        anchor = learned.iloc[0]
        stronger = doses[doses["gate"] > anchor["gate"]]
        rows.append(
            stronger.assign(
                cut=anchor["gates"] - stronger["gates"],
                cut_exact=anchor["exact"] - stronger["exact"],
                growth=np.log10(stronger["high"] / anchor["high"]),
                room=np.log10(largest / anchor["high"]),
            )
        )
    return pd.concat(rows, ignore_index=True)


def strongest(compared: pd.DataFrame) -> pd.DataFrame:
    """Select, in each row and seed, the strongest gate from which half was learned."""
    learned = compared[compared["growth"].notna()]
    return learned.loc[learned.groupby([*ROW, "seed"])["gate"].idxmax()]


def over_seeds(table: pd.DataFrame, column: str) -> Interval:
    """Average a column in decades within each seed; return the factor, with its 95 % interval.

    Seeds are the units: their rows are averaged first, and Student's interval is taken over them.
    """
    means = table.groupby("seed")[column].mean()
    return Interval(*(10.0 ** np.array(student(means))))


def learned_or_more(compared: pd.DataFrame) -> pd.DataFrame:
    """Bound the growth from below: what did not learn counts as needing the most that was tried."""
    return compared.assign(growth=compared["growth"].fillna(compared["room"]))


def searched_again(searches: pd.DataFrame, retried: pd.DataFrame) -> pd.DataFrame:
    """Put searches begun again in the place of those before, where they found a number."""
    key = [*START, "optimizer"]
    before = searches.astype({"mixing": float})
    enough = retried[retried["high"].notna()].astype({"mixing": float})
    kept = before.merge(enough[key], on=key, how="left", indicator=True)
    kept = kept[kept["_merge"] == "left_only"].drop(columns="_merge")
    return pd.concat([kept, enough], ignore_index=True)


def draw_growth(axes: Axes, compared: pd.DataFrame, column: str) -> None:
    """Draw the growth of the data against a cut of the envelope, both in decades.

    A point is the median over seeds of a row at one gate. Where fewer than half of the seeds
    learned, a triangle stands above the wedge. The line is the theory's weakest reading.
    """
    most_drawn, place_of_triangles = 3.5, 4.0
    proportion = np.array([0.0, most_drawn])
    axes.fill_between(proportion, proportion, most_drawn, color="0.85", lw=0)
    axes.plot(proportion, proportion, color="0.45", lw=1.2)
    for task, colour in COLOURS.items():
        own = compared[compared["task"] == task]
        conditions = own.groupby([*ROW, "gate"])
        cut = conditions[column].median()
        growth = conditions["growth"].median()
        most_learned = conditions["growth"].count() >= conditions.size() / 2
        learned = cut[most_learned]
        not_learned = cut[~most_learned]
        axes.plot(learned, growth[most_learned], "o", ms=4, alpha=0.6, mew=0, color=colour)
        above = np.full(len(not_learned), place_of_triangles)
        axes.plot(not_learned, above, "^", ms=5, mfc="none", color=colour)
    axes.set(xlim=(0, 10.5), ylim=(-1.3, 4.4))
    decades = range(0, 11, 2)
    axes.set_xticks(decades, ["1", *(f"$10^{{{decade}}}$" for decade in decades[1:])])
    axes.set_yticks(range(-1, 4), ["÷ 10", "the same", "× 10", "× 100", "× 1,000"])


def held_over_learned(searches: pd.DataFrame) -> pd.DataFrame:
    """Compare ConstGate with its recurrent weights held as they start, and with them learned.

    Both start from the same network to the last bit (ρ = 1), on the same data.

    Returns:
        A row for each task, gate and seed: `ratio`, the logarithm of the sequences held over those
        learned. Gates at which a search of either found no number are left out.
    """
    by_adam = searches["optimizer"] == "adamw"
    of_cell = searches[by_adam & (searches["cell"] == "ConstGate")]
    held = of_cell[of_cell["mixing"] == 1.0]
    learned = of_cell[of_cell["mixing"].isna()]
    both = held.merge(learned, on=["task", "lag", "gate", "seed"], suffixes=("", "_learned"))
    both = both.assign(ratio=np.log(both["high"] / both["high_learned"]))
    by_gate = both.groupby(["task", "gate"])["ratio"]
    in_all_seeds = by_gate.transform(lambda ratio: ratio.notna().all())
    return both[in_all_seeds]
