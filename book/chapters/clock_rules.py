"""The rules of `book/registration_clock.md`: from trainings to exponents, ratios and verdicts.

Committed before the data were in. Nothing here is trained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from book.chapters import clock, dose
from book.chapters.exponents import dose_exponent, exponent_draws, seed_interval
from lwcore.stats import Interval

Verdict = Literal["supported", "refuted", "undecided"]
Ties = Literal["largest", "smallest"]

CONDITION = [*dose.VARIED, "arm"]
EQUIVALENT = 0.1  # an exponent of the data within this counts as none
SLOWER, BY_DATA, FIT = -0.1, 0.2, 0.9  # of the steps: exponent, slope in log n, R²


def boundary(
    counts: Sequence[int], half: Sequence[bool], of_ties: Ties = "largest"
) -> tuple[float, float]:
    """Find the number of sequences from which half is learned, as an interval.

    It is the boundary with the fewest exceptions, networks below it that reached the half and
    networks from it on that did not; of several the largest, as registered. The smallest is for
    asking how much hangs on that choice.

    Returns:
        The largest number below the boundary, 0 where there is none, and the smallest from it on,
        NaN where there is none.

    Examples:
        >>> boundary([16, 32, 64, 128], [False, True, True, True])
        (16.0, 32.0)
        >>> boundary([16, 32, 64, 128], [False, True, False, False])
        (128.0, nan)
        >>> boundary([16, 32, 64, 128], [False, False, True, False])
        (128.0, nan)
        >>> boundary([16, 32, 64, 128], [False, False, True, False], of_ties="smallest")
        (32.0, 64.0)
    """
    order = np.argsort(counts)
    sorted_counts, reached = np.asarray(counts)[order], np.asarray(half)[order]
    exceptions = [
        reached[:place].sum() + (~reached[place:]).sum() for place in range(len(reached) + 1)
    ]
    fewest = min(exceptions)
    tied = [place for place, number in enumerate(exceptions) if number == fewest]
    place = max(tied) if of_ties == "largest" else min(tied)
    low = float(sorted_counts[place - 1]) if place > 0 else 0.0
    high = float(sorted_counts[place]) if place < len(reached) else math.nan
    return low, high


def scaled(table: pd.DataFrame) -> pd.DataFrame:
    """Hold the scale of recurrent weights as numbers, NaN where none is set."""
    return table.astype({"mixing": float})


def responses(trained: pd.DataFrame, of_ties: Ties = "largest") -> pd.DataFrame:
    """Take the trainings of a condition and a seed together: one row each.

    Columns `low` and `high` hold the interval of n*, as `dose.searches` gives it; `steps` the
    median number of steps of the networks with at least twice as many sequences that reached the
    half, NaN where none did; `exceptions` how many networks lie on the wrong side of n*.
    """
    rows = []
    for key, group in scaled(trained).groupby([*CONDITION, "seed"], dropna=False):
        half = (group["end"] == "half").to_numpy()
        low, high = boundary(group["count"].tolist(), half.tolist(), of_ties)
        ample = half & (group["count"] >= 2 * high).to_numpy()
        above = (group["count"] >= high).to_numpy() if high == high else np.zeros(len(group), bool)
        rows.append(
            dict(zip([*CONDITION, "seed"], key, strict=True))
            | {"low": low, "high": high, "exceptions": int((above != half).sum())}
            | {"steps": group.loc[ample, "steps"].median() if ample.any() else math.nan}
        )
    return pd.DataFrame(rows)


def with_envelope(found: pd.DataFrame, start: pd.DataFrame) -> pd.DataFrame:
    """Add `log_envelope`, the logarithm of the exact envelope at the start of each row's network.

    The optimiser comes later, so that a start serves all rows of its cell, gate, scale and seed.
    """
    key = ["cell", "gate", "task", "lag", "mixing", "seed"]
    # where no scale is set a table holds None or NaN
    measured = start[[*key, "envelope"]].astype({"mixing": float}).drop_duplicates(key)
    joined = found.astype({"mixing": float}).merge(
        measured, on=key, how="left", validate="many_to_one"
    )
    if joined["envelope"].isna().any():
        raise ValueError("start: lacks the envelope of some rows")
    return joined.assign(log_envelope=np.log(joined["envelope"]))


def steps_as_response(found: pd.DataFrame) -> pd.DataFrame:
    """Put the steps in the place of the sequences; those not known lie above the cap."""
    known = found["steps"].notna()
    low = (found["steps"] - dose.EVERY).where(known, clock.CAP)
    return found.assign(low=low, high=found["steps"])


def explained(found: pd.DataFrame, regressor: NDArray[np.float64]) -> float:
    """Compute R² of a line for log steps over conditions and seeds whose steps are known."""
    known = found["steps"].notna().to_numpy()
    line = stats.linregress(regressor[known], np.log(found.loc[known, "steps"]))
    return float(line.rvalue**2)


def steps_by_data(trained: pd.DataFrame, found: pd.DataFrame) -> Interval:
    """Fit d log T / d log n to single networks with n ≥ 2 n*, with an intercept a condition."""
    rows = scaled(trained).merge(
        found[[*CONDITION, "seed", "high"]], on=[*CONDITION, "seed"], how="left"
    )
    rows = rows[(rows["end"] == "half") & (rows["count"] >= 2 * rows["high"])]
    slopes = {}
    for seed, own in rows.groupby("seed"):
        logs = np.log(own[["count", "steps"]])
        apart = logs - logs.groupby([own[name] for name in CONDITION], dropna=False).transform(
            "mean"
        )
        spread = (apart["count"] ** 2).sum()
        slopes[seed] = (apart["count"] * apart["steps"]).sum() / spread if spread else math.nan
    return student(np.array([slope for slope in slopes.values() if slope == slope]))


def student(values: NDArray[np.float64]) -> Interval:
    """Return the mean of one value a seed, with Student's interval of 95 %."""
    mean = float(values.mean())
    half_width = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return Interval(mean, mean - half_width, mean + half_width)


@dataclass(frozen=True)
class ClockRow:
    """What the rule of the clock asks of one row of cell and optimiser."""

    cell: str
    optimizer: str
    sequences: Interval  # exponent of n* in the exact envelope
    steps: Interval  # exponent of the steps in it
    r2_envelope: float
    r2_write: float  # of the same line in log s
    by_data: Interval  # d log T / d log n
    below_grid: float  # share of conditions whose n* lies below the smallest number
    at_cap: float  # share of networks that met the cap

    def verdict(self) -> Verdict:
        """Judge this row alone."""
        inside = self.sequences.low >= -EQUIVALENT and self.sequences.high <= EQUIVALENT
        outside = self.sequences.high < -EQUIVALENT or self.sequences.low > EQUIVALENT
        flat = abs(self.by_data.value) <= BY_DATA
        outside |= self.by_data.low > BY_DATA or self.by_data.high < -BY_DATA
        slower = True
        if self.cell == "MinGRU":
            slower = self.steps.high < SLOWER
            slower &= self.r2_envelope >= FIT and self.r2_envelope > self.r2_write
            outside |= self.steps.low > SLOWER
        if outside:
            return "refuted"
        return "supported" if inside and flat and slower else "undecided"


def clock_rows(
    trained: pd.DataFrame, start: pd.DataFrame, rng: np.random.Generator
) -> list[ClockRow]:
    """Fit every row of the clock."""
    rows = []
    for cell, optimizer in clock.CLOCK_ROWS:
        own = trained[(trained["cell"] == cell) & (trained["optimizer"] == optimizer)]
        found = with_envelope(responses(own), start)
        row = ClockRow(
            cell,
            optimizer,
            sequences=dose_exponent(found, rng),
            steps=dose_exponent(steps_as_response(found), rng),
            r2_envelope=explained(found, found["log_envelope"].to_numpy()),
            r2_write=explained(found, np.log(found["gate"].to_numpy())),
            by_data=steps_by_data(own, found),
            below_grid=float((found["low"] == 0).mean()),
            at_cap=float((own["end"] == "cap").mean()),
        )
        rows.append(row)
    return rows


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Join the verdicts of rows: supported if all are, refuted if one is."""
    if "refuted" in verdicts:
        return "refuted"
    return "supported" if all(one == "supported" for one in verdicts) else "undecided"


@dataclass(frozen=True)
class Mobility:
    """What the rule of mobility asks."""

    exponents: dict[clock.Arm, Interval]  # of n*, by arm
    difference: Interval  # fixed minus learned
    ratio: float  # of n*, fixed over learned, at the smallest envelope that is left
    closed_by_width: Interval  # part of the gap that the wide arm closes

    def verdict(self) -> Verdict:
        """Judge the hypothesis that what can move decides."""
        if self.difference.low > -0.15 or self.ratio <= 1:
            return "refuted"
        steeper = self.difference.value <= -0.3 and self.difference.high < -0.15
        return "supported" if steeper and self.ratio >= 4 else "undecided"

    def rival(self) -> Literal["mobility", "number of parameters", "undecided"]:
        """Judge whether mobility counts or the number of trained parameters."""
        if self.closed_by_width.value < 0.25 and self.closed_by_width.high < 0.5:
            return "mobility"
        if self.closed_by_width.value > 0.75 and self.closed_by_width.low > 0.5:
            return "number of parameters"
        return "undecided"


def log_middle(found: pd.DataFrame) -> pd.Series:
    """Take the logarithm of n*: its upper end, 8,192 above the grid."""
    return np.log(found["high"].fillna(2 * clock.COUNTS[-1]))


def mobility(trained: pd.DataFrame, start: pd.DataFrame, seed: int = 0) -> Mobility:
    """Fit the arms and compare them; seeds are drawn alike in all arms."""
    found = with_envelope(responses(trained), start)
    arms = {arm: found[found["arm"] == arm] for arm in clock.ARMS}
    drawn = {arm: exponent_draws(own, np.random.default_rng(seed)) for arm, own in arms.items()}
    n_seeds = found["seed"].nunique()
    exponents = {arm: seed_interval(values, n_seeds) for arm, values in drawn.items()}
    difference = seed_interval(drawn["fixed"] - drawn["learned"], n_seeds)
    logs = found.assign(log_sequences=log_middle(found)).pivot_table(
        "log_sequences", ["mixing", "gate", "seed"], "arm"
    )
    envelopes = found.groupby(["mixing", "gate"])["log_envelope"].mean()
    smallest = envelopes.idxmin()
    gap = logs.loc[smallest, "fixed"].mean() - logs.loc[smallest, "learned"].mean()
    by_seed = logs.groupby("seed").mean()
    closed = (by_seed["fixed"] - by_seed["wide"]) / (by_seed["fixed"] - by_seed["learned"])
    return Mobility(exponents, difference, math.exp(gap), student(closed.to_numpy()))
