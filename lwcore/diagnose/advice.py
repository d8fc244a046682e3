"""What a reader of a diagnosis can do, where its numbers say something about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr

from lwcore.diagnose.verdicts import (
    LagRow,
    Verdict,
    lag_rows,
    lags_not_looked_at,
    spans,
    stretches,
)
from lwcore.printing import Unit, printed
from lwcore.signatures import Count, checked
from lwcore.stats import bootstrap

QUANTILE = 0.95  # of |projection|, where clipping is tried
DROPPED = 0.05  # of the detected lags' summed signal, what a cut may cost at the most
REACH = 30  # times the sequences there are: more are not worth asking for


class Suggestion(NamedTuple):
    """Something to do, and what was measured that speaks for it.

    `is_design` says that it changes the network or its training. Of such changes the outcomes were
    counted, see `RECORD`.
    """

    do: str
    because: str
    is_design: bool = False


class Record(NamedTuple):
    """How many outcomes of changes the advice foresaw, and how many a plain count did."""

    outcomes: int
    foreseen: int
    by_counting_steps: int


# Five changes on two data sets, see the chapter that measures a reader's own network; a test holds
# these numbers against the recorded outcomes.
RECORD = Record(outcomes=10, foreseen=3, by_counting_steps=6)


@checked
def advice(data: xr.Dataset, n_sequences: Count | None = None) -> list[Suggestion]:
    """Return what can be done, given what a diagnosis measured: nothing of it has been tried.

    A change about which the numbers say nothing is left out. Intervals, of 95 %, take the lags that
    were detected as given.
    """
    count = int(data.attrs["n_sequences"]) if n_sequences is None else n_sequences
    rows = lag_rows(data, count)
    found = [*_measure_again(data, rows), *_more_sequences(rows, count)]
    designs = [_gates(data, rows, count), _clipping(data)]
    if any(row.verdict is Verdict.ENOUGH for row in rows):
        designs.insert(1, _cut(data, rows))  # else there is no signal that a cut could keep
    return found + [design for design in designs if design is not None]


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


def _gates(data: xr.Dataset, rows: list[LagRow], n_sequences: int) -> Suggestion | None:
    """Say whether detected lags would, at best, be seen if as much arrived as of the first lag.

    A lag's N(ℓ) would fall by (f(ℓ)/f(1))² if only its own signal grew. But the noise of the whole
    gradient grows with all that arrives, by how much was not measured: a gain is never promised.
    """
    if "envelope" not in data or not data.envelope[0] > 0:
        return None
    arriving = data.envelope.values / float(data.envelope[0])
    lowest = data.required_interval.values[0]
    gaining = []
    share = 1.0  # of what arrives from the first lag, at the furthest that would gain
    for row, arrives, low in zip(rows, arriving.tolist(), lowest.tolist(), strict=True):
        # where N(ℓ) may be small as it is, more sequences tell, and no other gates
        is_hidden = row.is_detected and low > n_sequences
        if is_hidden and arrives <= np.sqrt(n_sequences / low):
            gaining.append(row)
            share = arrives
    if not gaining:
        return None
    first, furthest = rows[0].first, gaining[-1].first
    named = f"lag {furthest}"
    if len(gaining) > 1:
        named = f"lags {spans(stretches((row.first, row.last) for row in gaining))}"
    return Suggestion(
        f"Keep more of the past, by gates or otherwise: that may help at {named}, unless the noise "
        "grows as much",
        f"a signal was detected there, and {printed(share, unit=Unit.SHARE)} of what arrives from "
        f"lag {first} arrives from lag {furthest}",
        is_design=True,
    )


def _cut(data: xr.Dataset, rows: list[LagRow]) -> Suggestion | None:
    """Say where the shortest gradient ends that surely loses no more than `DROPPED`."""
    first = np.array([row.first for row in rows])
    last = np.array([row.last for row in rows])
    detected = data.detected.values.astype(bool)
    if not detected.any():
        return None
    # what was measured stands for the lags nearest to it that were not
    between = (first[1:] + last[:-1]) / 2
    n_represented = np.diff([first[0] - 0.5, *between, last[-1] + 0.5])
    n_measured = last - first + 1
    parts = data.statistic.values * (n_represented / n_measured)[:, None]

    def lost_beyond(drawn: np.ndarray) -> np.ndarray:
        means = parts[:, drawn].mean(-1)
        return (means.sum() - means.cumsum()) / means[detected].sum()

    lost = bootstrap(lost_beyond, parts.shape[-1], draws=500)
    place = int((lost.high <= DROPPED).argmax())  # nothing that was measured is beyond the last
    if place >= len(rows) - 1:
        return None  # no cut is known to cost so little
    share, low, high = (end[place] for end in lost)
    limit = printed(DROPPED, unit=Unit.SHARE)
    return Suggestion(
        f"Cut backpropagation, or the context, behind lag {last[place]}: costs at most {limit} of "
        "the signal",
        f"beyond it there is {printed(share, low, high, unit=Unit.SHARE)}",
        is_design=True,
    )


def _saved_by_clipping(data: xr.Dataset) -> tuple[float, float] | None:
    """Return what N(ℓ) is divided by, the median of the detected lags, as ends of an interval.

    N(ℓ) is computed anew with each sequence's gradient limited along w(ℓ).
    """
    whole = data.projection.values
    part = data.statistic.values
    limit = np.quantile(np.abs(whole), QUANTILE, axis=-1, keepdims=True)
    has_noise = whole.std(-1) > 0  # that clipping could lessen
    chosen = data.detected.values.astype(bool) & (limit[:, 0] > 0) & has_noise
    if not chosen.any():
        return None
    whole, part, limit = whole[chosen], part[chosen], limit[chosen]
    limited = np.clip(whole, -limit, limit)
    # A lag's part of what is clipped: at the least what clipping leaves with it less that without
    # it; at the most, where other directions make the norm, the part times the sequence's weight.
    # By the latter alone, clipping would seem to help with Gaussian noise.
    weight = limit / np.maximum(np.abs(whole), limit)
    without_part = np.clip(whole - part, -limit, limit)
    parts = np.stack([limited - without_part, weight * part])

    def compared(drawn: np.ndarray) -> np.ndarray:
        kept = parts[..., drawn].mean(-1) / part[:, drawn].mean(-1)
        noise = limited[:, drawn].std(-1) / whole[:, drawn].std(-1)
        return np.median((kept / noise) ** 2, axis=-1)

    ends = bootstrap(compared, whole.shape[-1], draws=500)
    return float(ends.low[0]), float(ends.high[1])


def _clipping(data: xr.Dataset) -> Suggestion | None:
    """Say that clipping saves sequences, where it surely does."""
    saved = _saved_by_clipping(data)
    if saved is None or not saved[0] > 1:
        return None
    low, high = (printed(end) for end in saved)
    largest = printed(1 - QUANTILE, unit=Unit.SHARE)
    return Suggestion(
        f"Clip each sequence's gradient before averaging, the largest {largest} of them",
        f"sequences needed are divided by {low} to {high}",
        is_design=True,
    )
