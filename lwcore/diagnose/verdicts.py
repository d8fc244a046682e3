"""What a diagnosis says of each lag: how many sequences it needs, and whether there are so many."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.printing import Unit, printed
from lwcore.signatures import Count, checked

LEAST = 1.0  # sequence, that any lag needs
MOST = 1e9  # sequences: whatever needs more is out of everybody's reach
MOST_ROWS = 16  # of a table
_MOST_STRETCHES = 4  # of lags that are written out


class Verdict(StrEnum):
    """Whether so many sequences are enough for a lag."""

    ENOUGH = "yes"
    LIKELY = "likely"
    TOO_FEW = "not enough"
    UNKNOWN = "unknown, read more"
    NO_SIGNAL = "none detected"
    NO_GRADIENT = "no gradient there"


DETECTED = (Verdict.ENOUGH, Verdict.LIKELY, Verdict.TOO_FEW)
NOT_LOOKED_AT = "not looked at"
MEANINGS = {
    Verdict.LIKELY: "enough by the best estimate, and not by all of its interval",
    Verdict.TOO_FEW: "a signal is detected, and it needs more sequences",
    Verdict.UNKNOWN: "no signal is detected, and the sequences that were read exclude none",
    Verdict.NO_SIGNAL: (
        "no signal is detected. One that needs more sequences than were read would not show, nor "
        "one in the data that hardly gets through this network"
    ),
    Verdict.NO_GRADIENT: "in all sequences this part of the gradient is exactly 0",
}


class LagRow(NamedTuple):
    """A lag, or a band of lags together, with the sequences N(ℓ) needed and what they mean.

    `needed` lies between `low` and `high`, a 95 % interval for all lags together. Of lags where no
    signal is detected both are infinite, and `low` is no more than the sequences that were read.
    """

    first: int
    last: int
    needed: float
    low: float
    high: float
    verdict: Verdict

    @property
    def is_detected(self) -> bool:
        """Whether a signal was detected."""
        return self.verdict in DETECTED

    @property
    def is_enough(self) -> bool:
        """Whether there are as many sequences as it needs, by the best estimate."""
        return self.verdict in (Verdict.ENOUGH, Verdict.LIKELY)

    @property
    def sequences(self) -> str:
        """The sequences needed, in the convention for numbers."""
        if not self.is_detected:
            return "–"
        if self.needed > MOST:
            return f"over {printed(MOST, unit=Unit.COUNT)}"
        return printed(self.needed, self.low, self.high, unit=Unit.COUNT)


def span(first: int, last: int) -> str:
    """Write a lag, or a stretch of them."""
    return str(first) if first == last else f"{first}–{last}"


def spans(stretches: Sequence[tuple[int, int]]) -> str:
    """Write stretches of lags: ``3, 6–9``; of many the first ones and the last."""
    written = [span(first, last) for first, last in stretches]
    if len(written) > _MOST_STRETCHES:
        written = [*written[: _MOST_STRETCHES - 1], f"… {written[-1]}"]
    return ", ".join(written)


def stretches(rows: Sequence[LagRow]) -> list[tuple[int, int]]:
    """Return the first and the last lag of each stretch of neighbours."""
    found: list[tuple[int, int]] = []
    for row in rows:
        first = row.first
        if found and found[-1][1] + 1 == first:
            first, _ = found.pop()
        found.append((first, row.last))
    return found


@checked
def lag_rows(data: xr.Dataset, n_sequences: Count) -> list[LagRow]:
    """Return a row for each lag or band that was looked at, from the shortest on.

    Where no signal is detected, noise has made the direction along which the lag was measured, and
    a bound along it says little of others. So none is taken to exclude more than was read.
    """
    n_read = float(data.attrs["sequences_read"])
    lows, highs = np.clip(data.required_interval.values, LEAST, None).tolist()
    needed = np.clip(data.required.values, LEAST, None).tolist()
    detected = data.detected.values.tolist()
    has_gradient = data.statistic.values.any(-1).tolist()
    firsts = data.lag.values.tolist()
    lasts = data.lag_to.values.tolist() if "lag_to" in data else firsts
    rows: list[LagRow] = []
    for place, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        low, high, count = lows[place], highs[place], needed[place]
        if detected[place]:
            verdict = Verdict.TOO_FEW
            if count <= n_sequences:
                verdict = Verdict.ENOUGH if high <= n_sequences else Verdict.LIKELY
        elif has_gradient[place]:
            low = min(low, n_read)
            verdict = Verdict.NO_SIGNAL if low >= n_sequences else Verdict.UNKNOWN
            count = high = np.inf
        else:
            verdict = Verdict.NO_GRADIENT
            low = count = high = np.inf
        rows.append(LagRow(first, last, count, low, high, verdict))
    return rows


def by_lag(rows: Sequence[LagRow]) -> pd.DataFrame:
    """Return the rows as numbers, with a column for the verdict."""
    table = pd.DataFrame(rows, columns=["lag", "lag_to", "needed", "low", "high", "enough"])
    table["enough"] = table["enough"].map(str)
    return table


def lags_not_looked_at(rows: Sequence[LagRow], length: int) -> list[tuple[int, int]]:
    """Return the first and the last lag of each stretch of 1 to length − 1 that no row covers."""
    gaps: list[tuple[int, int]] = []
    following = 1  # the first lag that no row has yet
    for row in rows:
        if row.first > following:
            gaps.append((following, row.first - 1))
        following = row.last + 1
    if following < length:
        gaps.append((following, length - 1))
    return gaps


def lines(rows: Sequence[LagRow]) -> list[tuple[str, str, str]]:
    """Return what a small table says: lags, sequences needed, and whether there are so many.

    Neighbours without a signal share a line, and where that leaves too many lines, all neighbours
    of one verdict do.
    """
    groups = _groups(rows, joins_detected=False)
    if len(groups) > MOST_ROWS:
        groups = _groups(rows, joins_detected=True)
    if len(groups) <= MOST_ROWS:
        return [_line(group) for group in groups]
    found = [_line(group) for group in groups[: MOST_ROWS - 1]]
    begins = groups[MOST_ROWS - 1][0].first
    found.append((f"{begins} and beyond", "by_lag() has each", ""))
    return found


def _groups(rows: Sequence[LagRow], joins_detected: bool) -> list[list[LagRow]]:
    """Gather neighbours of one verdict that share a line."""
    groups: list[list[LagRow]] = []
    for row in rows:
        may_join = joins_detected or not row.is_detected
        if may_join and groups:
            before = groups[-1][-1]
            if before.verdict is row.verdict and before.last + 1 == row.first:
                groups[-1].append(row)
                continue
        groups.append([row])
    return groups


def _line(group: Sequence[LagRow]) -> tuple[str, str, str]:
    """Return the words of a line for some neighbours of one verdict."""
    row = group[0]
    lags = span(row.first, group[-1].last)
    if len(group) == 1:
        is_band = row.is_detected and row.first != row.last
        return f"{lags} together" if is_band else lags, row.sequences, str(row.verdict)
    if not row.is_detected:
        return lags, row.sequences, str(row.verdict)
    needed = [min(one.needed, MOST) for one in group]
    least = printed(min(needed), unit=Unit.COUNT)
    most = printed(max(needed), unit=Unit.COUNT)
    return lags, least if least == most else f"{least} to {most}", str(row.verdict)
