"""What a reader of a diagnosis can do, where its numbers say something about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import xarray as xr

from lwcore.diagnose.verdicts import LagRow, Verdict, lag_rows, lags_not_looked_at, spans
from lwcore.signatures import Count, checked

REACH = 30  # times the sequences there are: more are not worth asking for


class Suggestion(NamedTuple):
    """Something to do, and what was measured that speaks for it."""

    do: str
    because: str


@checked
def advice(data: xr.Dataset, n_sequences: Count | None = None) -> list[Suggestion]:
    """Return how to ask again, given what a diagnosis measured.

    Designs of networks are not advised: where such advice was tried, it foresaw fewer outcomes than
    the number of steps from input to loss did. See the chapter on a reader's own network.
    """
    count = int(data.attrs["n_sequences"]) if n_sequences is None else n_sequences
    rows = lag_rows(data, count)
    return [*_measure_again(data, rows), *_more_sequences(rows, count)]


def _measure_again(data: xr.Dataset, rows: list[LagRow]) -> Iterator[Suggestion]:
    """Yield how to ask `diagnose` again, where the answer was that nothing is seen."""
    verdicts = {row.verdict for row in rows}
    if Verdict.ENOUGH in verdicts or verdicts == {Verdict.NO_GRADIENT}:
        return
    gaps = lags_not_looked_at(rows, int(data.attrs["length"]))
    if gaps:
        first, last = gaps[0][0], gaps[-1][1]
        yield Suggestion(
            f"Look at the other lags: lags=range({first}, {last + 1})",
            f"lags {spans(gaps)} were not looked at",
        )
    if data.attrs["source"] == "error":
        because = "what the network has learned leaves no gradient"
        if int(data.attrs["beats_constant"]) == 0:
            because = "the model predicts no better than a constant, and such errors tell little"
        yield Suggestion("Ask again with source='target', as if nothing had been learned", because)


def _more_sequences(rows: list[LagRow], n_sequences: int) -> Iterator[Suggestion]:
    """Yield from how many more sequences a longer lag can be detected, if they can be had."""
    enough = [row.last for row in rows if row.verdict is Verdict.ENOUGH]
    wanting = [row for row in rows if row.verdict is Verdict.TOO_FEW]
    longest = max(enough, default=0)
    farther = []
    for row in wanting:
        if row.first > longest and row.needed <= REACH * n_sequences:
            farther.append(row)
    if farther:
        nearest = min(farther, key=lambda row: row.needed)
        yield Suggestion(
            f"Take more sequences to detect lag {nearest.lags}",
            f"it needs {nearest.sequences}, and you have {n_sequences:,}",
        )
    if not enough and not wanting and any(row.verdict is Verdict.UNCLEAR for row in rows):
        yield Suggestion(
            "Give diagnose more sequences to read, and sequences=… as many",
            "those that were read neither detect a signal nor exclude one",
        )
