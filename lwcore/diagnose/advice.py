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
    last_lags,
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
    designs = [gates(data, count), clipping(data)]
    if any(row.verdict is Verdict.ENOUGH for row in rows):
        designs.insert(1, cut(data))  # else there is no signal that a cut could keep
    return found + [design for design in designs if design is not None]


def _measure_again(data: xr.Dataset, rows: list[LagRow]) -> Iterator[Suggestion]:
    """Yield how to ask `diagnose` again, where the answer was that nothing is seen."""
    verdicts = {row.verdict for row in rows}
    if Verdict.ENOUGH in verdicts or verdicts == {Verdict.NO_GRADIENT}:
        return
    if gaps := lags_not_looked_at(data):
        first, last = gaps[0][0], gaps[-1][1]
        yield Suggestion(
            f"Look at the other lags: lags=range({first}, {last + 1})",
            f"lags {spans(gaps)} were not looked at",
        )
    if data.attrs["source"] == "error":
        is_no_better = int(data.attrs.get("beats_constant", 1)) == 0
        yield Suggestion(
            "Ask again with source='target', as if nothing had been learned",
            "the model predicts no better than a constant, and such errors tell little"
            if is_no_better
            else "what the network has learned leaves no gradient",
        )


def _more_sequences(rows: list[LagRow], n_sequences: int) -> Iterator[Suggestion]:
    """Yield from how many more sequences a longer lag can be detected, if they can be had."""
    enough = [row.last for row in rows if row.verdict is Verdict.ENOUGH]
    wanting = [row for row in rows if row.verdict is Verdict.TOO_FEW]
    within_reach = [row for row in wanting if row.needed <= REACH * n_sequences]
    farther = [row for row in within_reach if row.first > max(enough, default=0)]
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


def gates(data: xr.Dataset, n_sequences: int) -> Suggestion | None:
    """Say whether detected lags would, at best, be seen if as much arrived as of the first lag.

    A lag's N(ℓ) would fall by (f(ℓ)/f(1))² if only its own signal grew. But the noise of the whole
    gradient grows with all that arrives, by how much was not measured: a gain is never promised.
    """
    if "envelope" not in data or not data.envelope[0] > 0:
        return None
    lags = data.lag.values
    left = data.envelope.values / float(data.envelope[0])
    lowest = data.required_interval.values[0]
    # where N(ℓ) may be small as it is, more sequences tell, and no other gates
    hidden = data.detected.values.astype(bool) & (lowest > n_sequences)
    gains = hidden & (left <= np.sqrt(n_sequences / lowest))
    if not gains.any():
        return None
    furthest = int(np.flatnonzero(gains)[-1])
    arrives = printed(float(left[furthest]), unit=Unit.SHARE)
    strong = stretches(zip(lags[gains].tolist(), last_lags(data)[gains].tolist(), strict=True))
    named = f"lag {lags[furthest]}" if gains.sum() == 1 else f"lags {spans(strong)}"
    return Suggestion(
        f"Keep more of the past, by gates or otherwise: that may help at {named}, unless the noise "
        "grows as much",
        f"a signal was detected there, and {arrives} of what arrives from lag {lags[0]} arrives "
        f"from lag {lags[furthest]}",
        is_design=True,
    )


def cut(data: xr.Dataset) -> Suggestion | None:
    """Say where the shortest gradient ends that surely loses no more than `DROPPED`."""
    lags, last, seen = data.lag.values, last_lags(data), data.detected.values.astype(bool)
    if not seen.any():
        return None
    # what was measured stands for the lags nearest to it that were not
    between = (lags[1:] + last[:-1]) / 2
    represented = np.diff([lags[0] - 0.5, *between, last[-1] + 0.5])
    parts = data.statistic.values * (represented / (last - lags + 1))[:, None]

    def beyond(drawn: np.ndarray) -> np.ndarray:
        means = parts[:, drawn].mean(-1)
        return (means.sum() - means.cumsum()) / means[seen].sum()

    lost = bootstrap(beyond, parts.shape[-1], draws=500)
    place = int((lost.high <= DROPPED).argmax())  # nothing that was measured is beyond the last
    if place >= len(lags) - 1:
        return None  # no cut is known to cost so little
    share, low, high = (end[place] for end in lost)
    limit = printed(DROPPED, unit=Unit.SHARE)
    return Suggestion(
        f"Cut backpropagation, or the context, behind lag {last[place]}: costs at most {limit} of "
        "the signal",
        f"beyond it there is {printed(share, low, high, unit=Unit.SHARE)}",
        is_design=True,
    )


class Clipped(NamedTuple):
    """What limiting every sequence's gradient along a lag's direction does, as 95 % ends."""

    fewer: tuple[float, float]  # what N(ℓ) is divided by, the median of the detected lags
    kept: tuple[float, float]  # the share of the signal that is left


def clipped(data: xr.Dataset) -> Clipped | None:
    """Compute N(ℓ) of the detected lags anew, with gradients of sequences limited along w(ℓ)."""
    whole, part, seen = (data[name].values for name in ("projection", "statistic", "detected"))
    limit = np.quantile(np.abs(whole), QUANTILE, axis=-1, keepdims=True)
    varies = whole.std(-1) > 0  # else there is no noise that clipping could lessen
    chosen = seen.astype(bool) & (limit[:, 0] > 0) & varies
    if not chosen.any():
        return None
    whole, part, limit = whole[chosen], part[chosen], limit[chosen]
    # A lag's part of what is clipped: at the least what clipping leaves with it less that without
    # it; at the most, where other directions make the norm, the part times the sequence's weight.
    # By the latter alone, clipping would seem to help with Gaussian noise.
    limited, weight = np.clip(whole, -limit, limit), limit / np.maximum(np.abs(whole), limit)
    parts = np.stack([limited - np.clip(whole - part, -limit, limit), weight * part])

    def compared(drawn: np.ndarray) -> np.ndarray:
        kept = parts[..., drawn].mean(-1) / part[:, drawn].mean(-1)
        noise = limited[:, drawn].std(-1) / whole[:, drawn].std(-1)
        return np.median([(kept / noise) ** 2, kept], axis=-1)

    ends = bootstrap(compared, whole.shape[-1], draws=500)
    (low, left), (high, most) = ends.low[:, 0], ends.high[:, 1]
    return Clipped((float(low), float(high)), (float(left), float(most)))


def clipping(data: xr.Dataset) -> Suggestion | None:
    """Say that clipping saves sequences, where it surely does."""
    change = clipped(data)
    if change is None or not change.fewer[0] > 1:
        return None
    low, high = (printed(end) for end in change.fewer)
    largest = printed(1 - QUANTILE, unit=Unit.SHARE)
    return Suggestion(
        f"Clip each sequence's gradient before averaging, the largest {largest} of them",
        f"sequences needed are divided by {low} to {high}",
        is_design=True,
    )
