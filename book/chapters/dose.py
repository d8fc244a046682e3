"""Dose and response: how many sequences it takes to learn across a lag, as the envelope of one cell
is varied.

The experiment that `book/registration.md` registers. A *condition* is a cell, its initial gate, a
task, an optimiser and, for frozen recurrent weights, their scale; the envelope f₀ = H (1 − s)^ℓ is
the dose. Per condition and seed the response is N½, the number of training sequences from which
half of what there is to learn is learned, found by bisection on a grid and so known up to a factor
of √2.

Tasks and networks are in `benchmarks.recordings.learners`; ``python -m benchmarks.recordings.dose``
trained them.
"""

from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

FOLDER = Path("book/results/dose")

HIDDEN = 32
COUNTS = [round(4 * 2 ** (k / 2)) for k in range(21)]  # 4 to 4,096 sequences
COUNTS_OF_DIGITS = COUNTS[:17]  # up to 1,024
EVERY = 50  # steps between two looks at the share learned
HALF = 0.5  # the share at which it has reached its goal
GATES = (0.05, 0.1, 0.2, 0.34, 0.5, 0.7)
OPTIMIZERS = ("adamw", "sgd")


@dataclass(frozen=True)
class Condition:
    """What is varied in the experiment.

    Attributes:
        cell: Name of a family of `lwcore.cells`.
        gate: Share of the state that the initial gate replaces in a step, s.
        task: ``"regression"``, ``"recall"``, ``"adding"`` or ``"digits"``.
        lag: Steps across which the task asks, ℓ.
        optimizer: One of `OPTIMIZERS`.
        mixing: Scale at which the recurrent weights are held; None where they are learned.
    """

    cell: str
    gate: float
    task: str
    lag: int
    optimizer: str = "adamw"
    mixing: float | None = None


VARIED = [field.name for field in fields(Condition)]


def trainings(folder: Path = FOLDER) -> pd.DataFrame:
    """Read all trainings that are recorded, a row each."""
    return pd.concat(map(pd.read_csv, sorted(folder.glob("*.csv"))), ignore_index=True)


def searches(trained: pd.DataFrame) -> pd.DataFrame:
    """Take the trainings of a search together, a row a search.

    N½ lies above ``low`` and is not above ``high``, NaN where no number was enough. Share, end and
    steps are those of the training with most sequences.
    """
    half = trained["end"] == "half"
    marked = trained.assign(high=trained["count"].where(half), low=trained["count"].where(~half))
    by_search = marked.sort_values("count").groupby([*VARIED, "seed"], dropna=False)
    summed = by_search.agg(
        low=("low", "max"),
        high=("high", "min"),
        share=("share", "last"),
        end=("end", "last"),
        steps=("steps", "last"),
        met_cap=("end", lambda ends: (ends == "cap").mean()),
        seconds=("seconds", "sum"),
    )
    return summed.fillna({"low": 0.0}).reset_index()
