"""The answer of a diagnosis in words: one structure, which text, page and command line print."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.diagnose.inferred import SIGN_DRAWS, SIGNIFICANCE
from lwcore.printing import Unit, printed
from lwcore.signatures import Count, checked

LEAST = 1.0  # sequence, that any lag needs
MOST = 1e9  # sequences: whatever needs more is out of everybody's reach
MOST_ROWS = 16  # of a table
_MOST_STRETCHES = 4  # of lags that are written out
_WIDTH = 80  # letters in a line of text
_NO_NAMES = ("<lambda>", "loss", "loss_fn", "losses")  # of functions: they say nothing
_FEW = 10  # sequences, as many of which would make the same noise
_ALWAYS = (  # below each table
    "Lag 0 is the last step that is read before a prediction. Counted from what is predicted, "
    "lag 7 is 8 steps back if that is the next step, and 7 + h steps if it is h steps on.",
    "Found is a signal above the noise of its lag alone. Enough are N(ℓ) sequences, which detect "
    "it in the noise of the whole gradient: the lag's part of their mean gradient has the right "
    "sign 9 times of 10. Take four times as many to be fairly sure. It is not how many it takes to "
    "learn the lag.",
    "Square brackets are 95 % intervals, for all lags together.",
)
_MAY_BE_LEARNED = (
    "A lag that does not show may still be learned: see the chapter “How a lag is learned that the "
    "gradient does not show”."
)


class Verdict(StrEnum):
    """Whether so many sequences are enough for a lag."""

    ENOUGH = "yes"
    LIKELY = "likely"
    TOO_FEW = "not enough"
    UNKNOWN = "unknown, read more"
    NO_SIGNAL = "none found"
    NO_GRADIENT = "no gradient there"


DETECTED = (Verdict.ENOUGH, Verdict.LIKELY, Verdict.TOO_FEW)
NOT_LOOKED_AT = "not looked at"
MEANINGS = {
    Verdict.LIKELY: "enough by the best estimate, and not by all of its interval",
    Verdict.TOO_FEW: "a signal is found, and it needs more sequences",
    Verdict.UNKNOWN: "no signal is found, and the sequences that were read exclude none",
    Verdict.NO_SIGNAL: (
        "no signal is found. One that needs more sequences than were read would not show, nor "
        "one in the data that hardly gets through this network"
    ),
    Verdict.NO_GRADIENT: "in all sequences this part of the gradient is exactly 0",
}


class LagRow(NamedTuple):
    """A lag, or a band of lags together, with the sequences N(ℓ) needed and what they mean.

    `needed` lies between `low` and `high`, a 95 % interval for all lags together. Of lags where no
    signal is found both are infinite, and `low` is no more than the sequences that were read.
    """

    first: int
    last: int
    needed: float
    low: float
    high: float
    verdict: Verdict

    @property
    def is_detected(self) -> bool:
        """Whether a signal was found."""
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

    Where no signal is found, noise has made the direction along which the lag was measured, and
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


@dataclass(frozen=True)
class Answer:
    """What a diagnosis says, in the order in which it is read."""

    first: str  # how far back, or which zero it is
    then: list[str]  # the sequences that lags need, and what the first line must not be taken for
    table: pd.DataFrame  # lag by lag
    legend: list[str]  # what words in the table mean
    sections: dict[str, list[str]]  # what to do, what was measured, how sure it is

    @classmethod
    def of(cls, data: xr.Dataset, n_sequences: int, window: tuple[int, int, int]) -> Answer:
        """Put into words what was measured, for some number of sequences and their window."""
        rows = lag_rows(data, n_sequences)
        gaps = lags_not_looked_at(rows, int(data.attrs["length"]))
        sections = {
            "What you can do": [*_advice(rows, data.attrs, n_sequences)],
            "What was measured": [*_measured(data.attrs)],
            "How sure": [*_sure(data)],
        }
        table = _table(rows, gaps, n_sequences)
        return cls(
            first=_first(rows, data.attrs, n_sequences, window),
            then=[*_then(rows, gaps, data.attrs, n_sequences)],
            table=table,
            legend=[*_legend(table)],
            sections={heading: points for heading, points in sections.items() if points},
        )

    def text(self) -> str:
        """Return the answer for a terminal, in lines of 80 letters."""
        parts = [
            textwrap.fill(" ".join([self.first, *self.then]), _WIDTH),
            "\n".join(_aligned(self.table)),
            "\n".join(_indented(line, "  ") for line in self.legend),
        ]
        for heading, points in self.sections.items():
            parts.append("\n".join([heading, *(_indented(point, "  · ") for point in points)]))
        return "\n\n".join(parts)

    def html(self) -> str:
        """Return the answer for a notebook."""
        then = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.then)
        legend = "<br>".join(html.escape(line) for line in self.legend)
        found = [
            f"<p><strong>{html.escape(self.first)}</strong></p>{then}",
            self.table.to_html(index=False),
            f"<p><small>{legend}</small></p>",
        ]
        for heading, points in self.sections.items():
            items = "".join(f"<li>{html.escape(point)}</li>" for point in points)
            found.append(f"<p><strong>{html.escape(heading)}</strong></p><ul>{items}</ul>")
        return "\n".join(found)


def _indented(text: str, lead: str) -> str:
    """Fold a text into lines that begin below its first letter."""
    return textwrap.fill(text, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _aligned(table: pd.DataFrame) -> Iterator[str]:
    """Yield a table's rows, each column begun at one place."""
    rows = [table.columns.tolist(), *table.to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  " + "   ".join(cells).rstrip()


def headline(
    source: str, n_sequences: int, window: tuple[int, int, int], rows: Sequence[LagRow]
) -> str:
    """Say how far back so many sequences reach: without a gap first, and then at the furthest.

    These are lags that were measured: none is rounded.
    """
    asked = "all there is" if source == "target" else "what is left"
    gradient = f"the gradient of {asked} to learn"
    longest, low, high = window
    last = max((row.last for row in rows if row.first == longest), default=longest)
    bracket = "" if (low, high) == (longest, last) else f" [{low}, {high}]"
    furthest = f"{_steps(longest, last)}{bracket}"
    if longest == 0:
        return f"{n_sequences:,} sequences are enough for no lag of {gradient} ({furthest})"
    said = f"From {n_sequences:,} sequences {gradient} reaches back"
    skipped = lags_not_looked_at(rows, longest)
    of_these = ", of the lags looked at" if skipped else ""
    together = [*takewhile(lambda row: row.is_enough, rows)]
    if together and together[-1].first == longest:
        return f"{said} {furthest}{of_these}"
    if together:
        near = _steps(together[-1].first, together[-1].last)
        return f"{said} {near} without a gap, and {furthest} at the furthest{of_these}"
    return f"{said} {furthest} at the furthest, and has gaps from lag {rows[0].first} on{of_these}"


def _steps(first: int, last: int) -> str:
    """Write how many steps a lag, or a band of them, is back."""
    return f"{span(first, last)} {'step' if last == 1 else 'steps'}"


def kind_of_zero(rows: Sequence[LagRow], n_read: int) -> str:
    """Say why they are enough for no lag: one of four reasons, of the lags that have a gradient."""
    with_gradient = [row for row in rows if row.verdict is not Verdict.NO_GRADIENT]
    if not with_gradient:
        return (
            f"there is nothing to measure. At {_lags(rows)} the gradient is exactly 0, as where a "
            "model takes its whole window at once, looks back less far, or cuts the gradient"
        )
    verdicts = {row.verdict for row in with_gradient}
    if Verdict.TOO_FEW in verdicts:
        return "a signal is found, and needs more"
    if Verdict.UNKNOWN in verdicts:
        furthest = max(row.last for row in rows if row.verdict is Verdict.UNKNOWN)
        return (
            "too few sequences were read to tell. No signal is found, and signals up to lag "
            f"{furthest} are not excluded"
        )
    return f"no signal is found at {_lags(with_gradient)} in the {n_read:,} that were read"


def _lags(rows: Sequence[LagRow]) -> str:
    """Write the lags of some rows for a sentence."""
    written = spans(stretches(rows))
    return f"lag {written}" if written.isdecimal() else f"lags {written}"


def _first(
    rows: Sequence[LagRow],
    attrs: dict[str, Any],
    n_sequences: int,
    window: tuple[int, int, int],
) -> str:
    """Say how far back the gradient reaches, or why not, and where there is none."""
    said = headline(attrs["source"], n_sequences, window, rows)
    if window[0] == 0:
        said += f": {kind_of_zero(rows, int(attrs['sequences_read']))}"
    cut = [row for row in rows if row.verdict is Verdict.NO_GRADIENT]
    if cut and len(cut) < len(rows):
        said += f". At {_lags(cut)} there is no gradient at all"
        if attrs.get("route") == "uses":
            said += ": no use of a parameter ends there, though a convolution may read there"
    return f"{said}."


def _then(
    rows: Sequence[LagRow],
    gaps: Sequence[tuple[int, int]],
    attrs: dict[str, Any],
    n_sequences: int,
) -> Iterator[str]:
    """Yield what the telling lags need, and what a reader of the first line must know."""
    enough = [row for row in rows if row.is_enough]
    if enough:
        furthest = enough[-1]
        needed = _about(furthest.needed, n_sequences)
        yield f"They are enough for {_lags(enough)}: {len(enough)} of {len(rows)} looked at."
        yield f"The furthest needs {needed}, and you have {n_sequences:,}."
    wanting = [row for row in rows if row.verdict is Verdict.TOO_FEW]
    if wanting:
        easiest = min(wanting, key=lambda row: row.needed)
        needed = _about(easiest.needed, n_sequences)
        if len(wanting) > 1:
            needed = f"the easiest, {_lags([easiest])}, {needed}"
        yield f"At {_lags(wanting)} a signal is found that needs more: {needed}."
    if gaps:
        first, last = gaps[0][0], gaps[-1][1]
        verb = "Lag {} was" if first == last else "Lags {} were"
        yield f"{verb.format(spans(gaps))} not looked at: lags=range({first}, {last + 1}) does."
    if attrs["source"] == "error":
        yield (
            "What the network has learned leaves no gradient, and the errors of one that has "
            "learned nothing show what it adds itself, too: source='target' asks for all there is "
            "to learn."
        )
    n_read = int(attrs["sequences_read"])
    if n_sequences > n_read:
        yield f"{n_sequences:,} sequences are extrapolated: {n_read:,} were read."
    if len(enough) < len(rows):
        yield _MAY_BE_LEARNED


def _about(needed: float, n_sequences: int) -> str:
    """Write a lag's number of sequences for a sentence: whole, and told from those there are."""
    if needed > MOST:
        return f"over {printed(MOST, unit=Unit.COUNT)} sequences"
    if needed >= 10:
        return f"{printed(needed, unit=Unit.COUNT, limits=(float(n_sequences),))} sequences"
    count = int(np.ceil(needed))
    return "1 sequence" if count == 1 else f"{count} sequences"


def _table(
    rows: Sequence[LagRow], gaps: Sequence[tuple[int, int]], n_sequences: int
) -> pd.DataFrame:
    """Return the lags in words, neighbours that say the same together."""
    found = lines(rows)
    if gaps:
        found.append((spans(gaps), "–", NOT_LOOKED_AT))
    return pd.DataFrame(found, columns=["lag", "sequences needed", f"are {n_sequences:,} enough?"])


def _legend(table: pd.DataFrame) -> Iterator[str]:
    """Yield what the table's words mean, those that are in it alone; what all answers say last."""
    words = table.iloc[:, 2].tolist()
    for word, meaning in MEANINGS.items():
        if word in words:
            yield f"{word}: {meaning}"
    if table.iloc[:, 1].str.contains(" to ").any():
        yield "A line for several lags has their smallest and largest number; by_lag() has each."
    yield from _ALWAYS


def _advice(rows: Sequence[LagRow], attrs: dict[str, Any], n_sequences: int) -> Iterator[str]:
    """Yield how to ask again, where so many sequences are enough for no lag.

    Designs of networks are not advised: where such advice was tried, it foresaw fewer outcomes than
    the number of steps from input to loss did. See the chapter on a reader's own network.
    """
    # of lags without a gradient no number of sequences tells more
    verdicts = {row.verdict for row in rows} - {Verdict.NO_GRADIENT}
    if any(row.is_enough for row in rows) or not verdicts:
        return
    if any(row.first != row.last for row in rows):
        yield "Look at lags one by one, by lags=: in a band others hide one alone."
    n_read = int(attrs["sequences_read"])
    if Verdict.TOO_FEW not in verdicts and (Verdict.UNKNOWN in verdicts or n_sequences >= n_read):
        yield (
            f"Give diagnose more than these {n_read:,} sequences, and say how many by sequences=…: "
            "a signal may need them."
        )


def _measured(attrs: dict[str, Any]) -> Iterator[str]:
    """Yield whose gradient was measured, of which loss, on what."""
    yield _whose_gradient(attrs)
    name = "a function of yours" if attrs["loss"] in _NO_NAMES else attrs["loss"]
    how = "as it is (source='error'): what the network has learned leaves no gradient."
    if attrs["source"] == "target":
        how = "as if nothing had been learned yet (source='target'), with the weights as they are."
    yield f"The loss is {name}, {how}"
    read = attrs["measured_on"]
    yield f"{read[0].upper()}{read[1:]}."
    if attrs.get("route") == "uses":  # which former files lack
        yield (
            "A lag is counted from the last step that a use reads: a convolution's kernel reads "
            "further back."
        )
    yield "The part at lag 3 is the gradient by way of the parameters' use 3 steps before lag 0."


def _whose_gradient(attrs: dict[str, Any]) -> str:
    """Say how many parameters were measured, and how many were left out."""
    measured = int(attrs["measured_parameters"])
    every = int(attrs["all_parameters"])
    if measured == every:
        return f"{attrs['network']}: all {every:,} parameters."
    left_out = f"{every - measured:,} ({attrs['left_out_names']})"
    if attrs.get("route") == "recurrence":
        left_out += ", which act within a step"
    return f"{attrs['network']}: {measured:,} of {every:,} parameters; left out: {left_out}."


def _sure(data: xr.Dataset) -> Iterator[str]:
    """Yield what speaks for the numbers, and against them: what is special to these first."""
    attrs = data.attrs
    if attrs["caveats"]:
        yield attrs["caveats"]
    if _is_of_few(data):
        yield (
            "A few sequences make most of the noise. Intervals hold less often than they say, and "
            "lags that are not there are found more often than once in 100: take more sequences."
        )
    n_ends, n_drawn = int(attrs["end_points"]), int(attrs["end_points_drawn"])
    if n_drawn < n_ends:
        yield f"Of {n_ends:,} steps with a loss, {n_drawn:,} were drawn in each sequence."
    without = attrs["without_gradient"]
    if without:
        yield f"{without.count(', ') + 1} of the measured parameters get no gradient."
    false = printed(float(data.false_windows), unit=Unit.HITS, trials=SIGN_DRAWS)
    yield (
        "False alarms: with each sequence's sign drawn at random, a signal is found in "
        f"{false} draws. At most {SIGNIFICANCE * SIGN_DRAWS:.0f} are expected."
    )
    yield (
        "Sequences are taken to be independent. Pieces of one series that overlap, or are much "
        "alike, show lags that are not there."
    )
    yield "A signal at one lag may come from another: at 16 from copies of copies 8 steps before."
    yield "Half of the sequences gave the directions. Others give others: compare seed=1."


def _is_of_few(data: xr.Dataset) -> bool:
    """Say whether few sequences make most of the noise: rare events, or means without a limit."""
    if "error_size" in data:  # which former files lack
        squares = data.error_size.values**2
        n_effective = squares.sum() ** 2 / max((squares**2).sum(), 1e-300)
        # a third of all where errors are Gaussian
        if n_effective < min(_FEW, len(squares) / 5):
            return True
    exponent = float(data.exponent.median())
    # means of sequences concentrate with 2, up to chance, where the noise has a variance; NaN where
    # so few sequences do not tell
    concentrates = np.isnan(exponent) or 1 <= exponent <= 4
    return not concentrates or float(data.tail_index.median()) <= 1
