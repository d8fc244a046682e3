"""What a reader of a diagnosis can do, where its numbers say something about it."""

from __future__ import annotations

from typing import NamedTuple

import xarray as xr

from lwcore.diagnose.verdicts import Verdict, lag_rows, lags_not_looked_at, spans
from lwcore.signatures import Count, checked

MOST_READ = 1024  # sequences, if no other number is given
REACH = 30  # times the sequences there are: more are not worth asking for


class Suggestion(NamedTuple):
    """Something to do, and what was measured that speaks for it."""

    do: str
    because: str


@checked
def advice(data: xr.Dataset, n_sequences: Count | None = None) -> list[Suggestion]:
    """Return how to ask again, where so many sequences are enough for no lag.

    Designs of networks are not advised: where such advice was tried, it foresaw fewer outcomes than
    the number of steps from input to loss did. See the chapter on a reader's own network.
    """
    count = int(data.attrs["n_sequences"]) if n_sequences is None else n_sequences
    rows = lag_rows(data, count)
    # of lags without a gradient no number of sequences tells more
    verdicts = {row.verdict for row in rows} - {Verdict.NO_GRADIENT}
    if any(row.is_enough for row in rows) or not verdicts:
        return []
    found = []
    gaps = lags_not_looked_at(rows, int(data.attrs["length"]))
    bands = [(row.first, row.last) for row in rows if row.first != row.last]
    hidden = "were looked at in bands, where others hide one alone"
    for stretches, because in ((gaps, "were not looked at"), (bands, hidden)):
        if stretches:
            first, last = stretches[0][0], stretches[-1][1]
            ask = f"Look at them one by one: lags=range({first}, {last + 1})"
            found.append(Suggestion(ask, f"Lags {spans(stretches)} {because}"))
    if data.attrs["source"] == "error":
        because = "What the network has learned leaves no gradient"
        if int(data.attrs["beats_constant"]) == 0:
            because = "The model predicts no better than a constant, and such errors tell little"
        ask = "Ask again with source='target', as if nothing had been learned"
        found.append(Suggestion(ask, because))
    n_read = int(data.attrs["sequences_read"])
    asks_for_all = count >= n_read  # else more were read than are asked about
    is_untold = Verdict.UNCLEAR in verdicts or asks_for_all
    if verdicts <= {Verdict.UNCLEAR, Verdict.NO_SIGNAL} and is_untold:
        ask = f"Give diagnose more than these {n_read:,} sequences"
        if n_read >= MOST_READ:
            ask += ", and say how many by sequences=…"
        because = "One that needs more of them would not show"
        if Verdict.UNCLEAR in verdicts:
            because = "Those that were read neither detect a signal nor exclude one"
        found.append(Suggestion(ask, because))
    return found
