"""What was recorded of the experiment that `book/registration_repeat.md` registers.

`benchmarks.recordings.repeat` makes it.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

FOLDER = Path("book/results/repeat")
SEEDS = range(31, 37)
LATER_SEEDS = range(51, 57)  # of the two rows with a longer cap, registered after the rest
HALF = 0.5
OPEN, NEARLY_SHUT = 0.1, 0.5  # gates at which the envelope starts at 3.9 and at 3e-5


def recorded(part: str, folder: Path = FOLDER, seeds: Iterable[int] = SEEDS) -> pd.DataFrame:
    """Read what is there of a part, all seeds."""
    paths = [folder / f"{part}-{seed}.csv" for seed in seeds]
    tables = [pd.read_csv(path) for path in paths if path.exists()]
    if not tables:
        raise FileNotFoundError(f"{folder} has nothing of {part}")
    return pd.concat(tables, ignore_index=True)
