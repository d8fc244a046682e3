"""The rules of `book/registration_repeat.md`: what decides its four hypotheses. Nothing is trained.

All rest on T, the steps to half of the task; a training that met its cap counts as having taken
that long. Seeds are the units, logarithms are natural, intervals are Student's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from book.chapters.clock_rules import Verdict
from book.chapters.repeat import OPEN
from lwcore.stats import Interval

Array = NDArray[np.float64]
MATTERS = float(np.log(1.5))  # a difference in log T


def student(values: Iterable[float]) -> Interval:
    """Return the mean over seeds with its 95 % interval."""
    found = np.array(list(values), float)
    error = found.std(ddof=1) / len(found) ** 0.5
    reach = float(stats.t.ppf(0.975, len(found) - 1) * error)
    mean = float(found.mean())
    return Interval(mean, mean - reach, mean + reach)


def chosen(trainings: pd.DataFrame, **wanted: object) -> pd.Series:
    """Select trainings by their columns, and return log T by seed."""
    is_wanted = pd.Series(True, trainings.index)
    for column, value in wanted.items():
        is_wanted &= trainings[column] == value
    return np.log(trainings[is_wanted].set_index("seed")["steps"].astype(float))


def gained(trainings: pd.DataFrame, **wanted: object) -> pd.Series:
    """Return L by seed, log T of fresh batches less that of batches used 20 times."""
    fresh = chosen(trainings, supply="fresh", **wanted)
    return fresh - chosen(trainings, supply="again", **wanted)


@dataclass(frozen=True)
class SpeedRow:
    """What H1 asks of one cell and optimiser: L where the gate is nearly shut, where it is open,
    and their difference."""

    cell: str
    optimizer: str
    shut: Interval
    open: Interval
    interaction: Interval

    def verdict(self) -> Verdict:
        """Judge this row alone."""
        if self.shut.high < MATTERS or self.interaction.high < MATTERS:
            return "refuted"
        gains = self.shut.low > MATTERS and self.interaction.low > MATTERS
        return "supported" if gains and self.open.high < MATTERS else "undecided"


def speed_row(trainings: pd.DataFrame) -> SpeedRow:
    """Compare fresh batches with repeated ones; `trainings` are of one cell and optimiser."""
    is_open = trainings["gate"] <= OPEN
    shut, opened = gained(trainings[~is_open]), gained(trainings[is_open])
    first = trainings.iloc[0]
    intervals = [student(values.dropna()) for values in (shut, opened, shut - opened)]
    return SpeedRow(first["cell"], first["optimizer"], *intervals)


def speed_verdict(rows: list[SpeedRow]) -> Verdict:
    """Judge H1: supported by four of five rows, nn.LSTM among them; refuted by two."""
    verdicts = {(row.cell, row.optimizer): row.verdict() for row in rows}
    found = list(verdicts.values())
    if found.count("refuted") >= 2:
        return "refuted"
    enough = found.count("supported") >= 4 and "refuted" not in found
    layer = verdicts.get(("nn.LSTM", "adamw"))
    return "supported" if enough and layer == "supported" else "undecided"


def gained_at_best_rates(trainings: pd.DataFrame) -> Interval:
    """Return L with each supply at its own best rate, chosen for a seed by the other seeds.

    Args:
        trainings: Of one cell, optimiser and gate, at several rates.
    """
    best = {}
    for supply, of_supply in trainings.groupby("supply"):
        table = np.log(of_supply.pivot_table("steps", "seed", "rate").dropna())
        best[supply] = {
            seed: table.loc[seed, table.drop(index=seed).mean().idxmin()] for seed in table.index
        }
    return student(best["fresh"][seed] - best["again"][seed] for seed in best["fresh"])


def rates_verdict(gain: Interval) -> Verdict:
    """Tell whether an advantage is left at each supply's own best rate."""
    if gain.low > MATTERS:
        return "supported"
    return "refuted" if gain.high < MATTERS else "undecided"


@dataclass(frozen=True)
class Clock:
    """What H2 asks.

    Attributes:
        slope: Of log f at the half in log f at the start.
        middle: Geometric mean of f at the half.
        opened_first: Share of trainings that had learned less than a quarter when f came to 0.1.
        reached: Share of trainings that reached the half.
        against_power: Log of the squared error on held-out gates, power law over line, of medians.
    """

    slope: Interval
    middle: float
    opened_first: float
    reached: float
    against_power: float

    def verdict(self) -> Verdict:
        """Judge H2."""
        slope_wrong = self.slope.low > 0.1 or self.slope.high < -0.1
        middle_wrong = not 0.1 <= self.middle <= 10
        if (
            slope_wrong
            or middle_wrong
            or self.opened_first < 0.5
            or self.against_power < -np.log(2)
        ):
            return "refuted"
        flat = self.slope.low > -0.05 and self.slope.high < 0.05
        about_one = 0.3 <= self.middle <= 3
        enough = self.reached >= 0.8 and self.opened_first >= 0.8
        holds = flat and about_one and enough and self.against_power > np.log(2)
        return "supported" if holds else "undecided"


def held_out_errors(depth: Array, steps: Array) -> tuple[float, float]:
    """Return mean squared errors in log T on held-out gates: of a line, and of a power law.

    Every other gate is held out in turn. The line is fitted by relative errors.

    Args:
        depth: ln(1/f₀) of each gate, rising.
        steps: T of each gate.
    """
    errors = np.zeros(2)
    for fold in (0, 1):
        held = np.arange(len(depth)) % 2 == fold
        basis = np.stack([np.ones_like(depth), depth], axis=1)
        fitted = basis[~held] / steps[~held, None]
        line = np.linalg.lstsq(fitted, np.ones(len(fitted)), rcond=None)[0]
        power = np.linalg.lstsq(basis[~held], np.log(steps[~held]), rcond=None)[0]
        by_line = np.log(np.maximum(basis[held] @ line, 1))
        goal = np.log(steps[held])
        errors += [((by_line - goal) ** 2).sum(), ((basis[held] @ power - goal) ** 2).sum()]
    line_error, power_error = errors / len(depth)
    return float(line_error), float(power_error)


def clock(trainings: pd.DataFrame) -> Clock:
    """Read H2 off trainings on one kind of supply from several gates."""
    small = trainings[(trainings["envelope"] < 0.03)]
    learned = small[small["end"] == "half"]
    slopes = [
        np.polyfit(np.log(of_seed["envelope"]), np.log(of_seed["envelope_at_end"]), 1)[0]
        for _, of_seed in learned.groupby("seed")
    ]
    below_one = trainings[trainings["envelope"] < 1]
    steps = below_one.pivot_table("steps", "gate", "seed").to_numpy()
    depth = -np.log(below_one.groupby("gate")["envelope"].median().to_numpy())

    line, power = held_out_errors(depth, np.median(steps, axis=1))
    return Clock(
        student(slopes),
        float(np.exp(np.log(learned["envelope_at_end"]).mean())),
        float((learned["share_then"] < 0.25).mean()),
        len(learned) / len(small),
        float(np.log(power / line)),
    )


@dataclass(frozen=True)
class GateRow:
    """What H3 asks of one optimiser: how much sooner fresh data teach, by what was carried over.

    Attributes:
        optimizer: Which.
        whole: log T from the drawn start less log T with the whole cell.
        carried: The same with other starts, less half of `whole`.
        gains: The same of each start, nothing taken off.
    """

    optimizer: str
    whole: Interval
    carried: dict[str, Interval]
    gains: dict[str, Interval]

    def verdict(self) -> Verdict:
        """Judge this optimiser alone."""
        gates, other, back = (self.carried[one] for one in ("gates", "candidates", "put back"))
        opposite = gates.high < 0 or other.low > 0 or back.low > 0
        if opposite or self.whole.high < MATTERS:
            return "refuted"
        through_gates = gates.low > 0 and other.high < 0 and back.high < 0
        return "supported" if through_gates and self.whole.low > np.log(2) else "undecided"


def gate_row(trainings: pd.DataFrame) -> GateRow:
    """Compare starts; `trainings` are of one gate and optimiser."""
    drawn = chosen(trainings, start="drawn")
    names = [name for name in trainings["start"].unique() if name != "drawn"]
    gain = {name: drawn - chosen(trainings, start=name) for name in names}
    carried = {name: student(one - gain["whole"] / 2) for name, one in gain.items()}
    gains = {name: student(one) for name, one in gain.items()}
    optimizer = trainings.iloc[0]["optimizer"]
    return GateRow(optimizer, student(gain["whole"]), carried, gains)


def gates_verdict(rows: list[GateRow]) -> Verdict:
    """Judge H3 over both optimisers: supported by both, refuted by either."""
    verdicts = [row.verdict() for row in rows]
    if "refuted" in verdicts:
        return "refuted"
    return "supported" if verdicts == ["supported"] * 2 else "undecided"


@dataclass(frozen=True)
class ColumnRow:
    """What H4 asks of one optimiser: by what noise columns multiply data and steps, as logs."""

    optimizer: str
    data: Interval
    steps: Interval

    def verdict(self) -> Verdict:
        """Judge this optimiser alone."""
        slower = self.steps.low > MATTERS or self.steps.high < -MATTERS
        if self.data.high < np.log(3) or slower:
            return "refuted"
        as_fast = self.steps.low > -MATTERS and self.steps.high < MATTERS
        return "supported" if self.data.low > np.log(3) and as_fast else "undecided"


def least(trainings: pd.DataFrame) -> pd.Series:
    """Return log n* by seed: the least number, going down, before the first that teaches nothing.

    Twice the largest where that does not teach either.
    """
    found = {}
    for seed, of_seed in trainings.groupby("seed"):
        falling = of_seed.sort_values("count", ascending=False)
        number = 2 * falling["count"].max()
        for _, row in falling.iterrows():
            if row["end"] != "half":
                break
            number = row["count"]
        found[seed] = np.log(float(number))
    return pd.Series(found)


def column_row(trainings: pd.DataFrame) -> ColumnRow:
    """Compare trainings of one optimiser and gate with and without columns of noise."""
    noisy = trainings[trainings["columns"] > 0]
    plain = trainings[trainings["columns"] == 0]
    most = trainings["count"].max()
    steps = chosen(noisy, count=most) - chosen(plain, count=most)
    data = least(noisy) - least(plain)
    return ColumnRow(trainings.iloc[0]["optimizer"], student(data), student(steps))
