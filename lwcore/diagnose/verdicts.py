"""What a diagnosis says of each lag: how many sequences it needs, and whether there are so many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.printing import Unit, printed
from lwcore.signatures import Count, checked

LEAST = 1.0  # sequence, that any lag needs
MOST = 1e9  # sequences: whatever needs more is out of everybody's reach
MOST_ROWS = 16  # of a table in which each lag that was detected has a row of its own
MOST_STRETCHES = 4  # of lags that are written out


class Verdict(StrEnum):
    """Whether so many sequences are enough to detect a lag."""

    ENOUGH = "yes"
    TOO_FEW = "no"
    UNCLEAR = "cannot be told"
    NO_SIGNAL = "no signal found"
    NO_GRADIENT = "no gradient there"


DETECTED = (Verdict.ENOUGH, Verdict.TOO_FEW)
NOT_LOOKED_AT = "not looked at"
MEANINGS = {
    Verdict.UNCLEAR: "no signal was detected, and your sequences do not exclude one",
    Verdict.NO_SIGNAL: "no signal was detected, and a signal would need more sequences than yours",
    Verdict.NO_GRADIENT: "in all sequences this part of the gradient is exactly 0",
}


class LagRow(NamedTuple):
    """A lag, or a band of lags together, with the sequences N(ℓ) needed and what they mean.

    `needed` lies between `low` and `high`, a 95 % interval for all lags together; of lags without a
    signal `low` is the least number that is not excluded, and the other two are infinite.
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
    def is_out_of_reach(self) -> bool:
        """Whether it needs more sequences than anybody has."""
        return (self.needed if self.is_detected else self.low) > MOST

    @property
    def lags(self) -> str:
        """The lags in words."""
        return span(self.first, self.last)

    @property
    def sequences(self) -> str:
        """The sequences needed, in the convention for numbers."""
        if self.verdict is Verdict.NO_GRADIENT:
            return "–"
        if self.is_out_of_reach:
            return f"over {printed(MOST, unit=Unit.COUNT)}"
        if not self.is_detected:
            return at_least(self.low)
        return printed(self.needed, self.low, self.high, unit=Unit.COUNT)


def at_least(count: float) -> str:
    """Print a lower bound of a number of sequences, rounded down."""
    if count <= LEAST:
        return "–"
    bound = min(count, MOST)
    place = 10 ** max(0, int(np.log10(bound)) - 1)
    return f"at least {printed(float(np.floor(bound / place) * place), unit=Unit.COUNT)}"


def span(first: int, last: int) -> str:
    """Write a lag, or a stretch of them."""
    return str(first) if first == last else f"{first}–{last}"


def spans(stretches: Sequence[tuple[int, int]]) -> str:
    """Write stretches of lags: ``3, 6–9``; of many the first ones and the last."""
    written = [span(first, last) for first, last in stretches]
    if len(written) > MOST_STRETCHES:
        written = [*written[: MOST_STRETCHES - 1], f"… {written[-1]}"]
    return ", ".join(written)


def stretches(bands: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join bands of lags that follow each other."""
    found: list[tuple[int, int]] = []
    for first, last in bands:
        if found and first == found[-1][1] + 1:
            first = found.pop()[0]
        found.append((first, last))
    return found


@checked
def lag_rows(data: xr.Dataset, n_sequences: Count) -> list[LagRow]:
    """Return a row for each lag or band that was looked at, from the shortest on."""
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
            verdict = Verdict.ENOUGH if count <= n_sequences else Verdict.TOO_FEW
        elif has_gradient[place]:
            verdict = Verdict.UNCLEAR if low <= n_sequences else Verdict.NO_SIGNAL
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

    Neighbours without a signal share a line, and so do those that are out of everybody's reach.
    Where that leaves too many lines, the lags of an octave, 9 to 16, share one, and the line counts
    those that can be detected.
    """
    groups = list(_stretches(rows))
    if len(groups) > MOST_ROWS:
        groups = list(_octaves(rows))
    return [_line(group) for group in groups]


def _stretches(rows: Sequence[LagRow]) -> Iterator[list[LagRow]]:
    """Yield detected lags one by one, and neighbours that have nothing of their own to say."""
    group: list[LagRow] = []
    for row in rows:
        if group and not _belong_together(group[-1], row):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _belong_together(before: LagRow, row: LagRow) -> bool:
    """Say whether a lag and the one before it can share a line."""
    if row.first != before.last + 1:
        return False
    kinds = {before.verdict, row.verdict}
    if Verdict.NO_GRADIENT not in kinds and before.is_out_of_reach and row.is_out_of_reach:
        return True
    return len(kinds) == 1 and not row.is_detected


def _octaves(rows: Sequence[LagRow]) -> Iterator[list[LagRow]]:
    """Yield the lags 1, 2, 3 to 4, 5 to 8, and so on; a band belongs where it begins."""
    by_octave: dict[int, list[LagRow]] = {}
    for row in rows:
        by_octave.setdefault((row.first - 1).bit_length(), []).append(row)
    yield from by_octave.values()


def _line(group: Sequence[LagRow]) -> tuple[str, str, str]:
    """Return the words of a line for some rows."""
    first, last = group[0].first, group[-1].last
    if len(group) == 1:
        (row,) = group
        together = " together" * (row.is_detected and row.first != row.last)
        return row.lags + together, row.sequences, str(row.verdict)
    verdicts = {row.verdict for row in group}
    enough = _together(group) if len(verdicts) > 1 else str(group[0].verdict)
    return span(first, last), _needed_together(group), enough


def _needed_together(group: Sequence[LagRow]) -> str:
    """Return the sequences that several lags need: least and most, or the least not excluded."""
    if all(row.is_out_of_reach for row in group):
        return group[0].sequences
    detected = [row.needed for row in group if row.is_detected]
    if not detected:
        return at_least(min(row.low for row in group))
    if max(detected) > MOST:
        return at_least(min(detected))
    least, most = (printed(end, unit=Unit.COUNT) for end in (min(detected), max(detected)))
    return least if least == most else f"{least} to {most}"


def _together(group: Sequence[LagRow]) -> str:
    """Return what lags of several verdicts have to say together."""
    count = sum(row.verdict is Verdict.ENOUGH for row in group)
    if count:
        return f"yes for {count} of {len(group)}"
    if all(row.is_out_of_reach for row in group):
        return str(Verdict.TOO_FEW)
    is_unclear = any(row.verdict is Verdict.UNCLEAR for row in group)
    return str(Verdict.UNCLEAR if is_unclear else Verdict.TOO_FEW)
