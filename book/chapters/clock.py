"""The design of the experiment that `book/registration_clock.md` registers, and its data.

``python -m benchmarks.recordings.clock`` trained it.
"""

import itertools
from pathlib import Path
from typing import Literal

import pandas as pd

from book.chapters.dose import Condition

Arm = Literal["learned", "fixed", "wide"]

CAP = 60_000
COUNTS = (16, 32, 64, 128, 256, 1024, 4096)
LAG = 20
CLOCK_ROWS = (("MinGRU", "adamw"), ("MinGRU", "sgd"), ("ConstGate", "adamw"))
ARMS: tuple[Arm, ...] = ("learned", "fixed", "wide")
MIXINGS, MOBILITY_GATES = (1.0, 0.9, 0.75, 0.5), (0.05, 0.1, 0.2, 0.34)
KERNEL_COUNTS = (1024, 4096)
SEEDS = {part: range(11, 17) for part in ("clock", "endless", "mobility", "start")}
SEEDS |= {part: range(7, 10) for part in ("order", "parameters", "kernel")}


def recorded(part: str, folder: Path) -> pd.DataFrame:
    """Read all rows of a part, seed by seed, from the folder where its files are.

    Raises:
        FileNotFoundError: A seed of the part is not recorded.
    """
    tables = [pd.read_csv(folder / f"{part}-{seed}.csv") for seed in SEEDS[part]]
    return pd.concat(tables, ignore_index=True)


def starts() -> list[Condition]:
    """List the starts of the mobility part: ConstGate of 16 scales and gates."""
    pairs = itertools.product(MIXINGS, MOBILITY_GATES)
    return [Condition("ConstGate", gate, "recall", LAG, mixing=mixing) for mixing, gate in pairs]
