"""The answer of a diagnosis in words: one structure, which text, page and command line print."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.diagnose.advice import REACH, Suggestion, advice
from lwcore.diagnose.verdicts import (
    MEANINGS,
    MOST,
    NOT_LOOKED_AT,
    LagRow,
    Verdict,
    lag_rows,
    lags_not_looked_at,
    lines,
    span,
    spans,
    stretches,
)
from lwcore.printing import Unit, printed

SIGN_DRAWS = 1000  # draws of all sequences' signs, to see how often nothing shows something
EXPECTED = 10  # of these, at a level of 1 %
_WIDTH = 80  # letters in a line of text
_NO_NAMES = ("<lambda>", "loss", "loss_fn", "losses")  # of functions: they say nothing
_MOST_NAMES = 4  # of modules that are written out
_ALWAYS = (  # below each table
    "Lag 0 is the last step that is read before a prediction. Counted from what is predicted, "
    "lag 7 is 8 steps back if that is the next step, and 7 + h steps if it is h steps on.",
    "Detected is a signal above the noise of its lag alone. Enough are sequences that tell it in "
    "the noise of the whole gradient: with so many the lag's part of their mean gradient has the "
    "right sign 9 times of 10. It is not how many it takes to learn the lag.",
    "Square brackets are 95 % intervals, for all lags together.",
)


@dataclass(frozen=True)
class Answer:
    """What a diagnosis says, in the order in which it is read."""

    first: str  # how far back, and which zero it is
    then: list[str]  # the sequences that lags need, beside those there are
    table: pd.DataFrame  # lag by lag
    legend: list[str]  # what words in the table mean
    suggestions: list[Suggestion]
    measured: list[str]
    sure: list[str]

    @classmethod
    def of(cls, data: xr.Dataset, n_sequences: int, window: tuple[int, int, int]) -> Answer:
        """Put into words what was measured, for some number of sequences and their window."""
        rows = lag_rows(data, n_sequences)
        gaps = lags_not_looked_at(rows, int(data.attrs["length"]))
        table = _table(rows, gaps, n_sequences)
        return cls(
            first=_first(rows, gaps, data.attrs, n_sequences, window),
            then=[
                *_needed(rows, n_sequences),
                *_missing(gaps),
                *_read_with_care(data, n_sequences),
            ],
            table=table,
            legend=_legend(table, data.attrs["source"]),
            suggestions=advice(data, n_sequences),
            measured=_measured(data.attrs),
            sure=[*_sure(data, n_sequences)],
        )

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """Headings and their points, those with something to say alone."""
        can_do = [f"{one.do}. {one.because}." for one in self.suggestions]
        found = [("What you can do", can_do)] if can_do else []
        return [*found, ("What was measured", self.measured), ("How sure", self.sure)]

    def text(self) -> str:
        """Return the answer for a terminal, in lines of 80 letters."""
        parts = [
            textwrap.fill(" ".join([self.first, *self.then]), _WIDTH),
            "\n".join(_aligned(self.table)),
            "\n".join(_indented(line, "  ") for line in self.legend),
        ]
        for heading, points in self.sections:
            points = [_indented(point, "  · ") for point in points]
            parts.append("\n".join([heading, *points]))
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
        for heading, points in self.sections:
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


def reach_of(window: tuple[int, int, int], rows: Sequence[LagRow]) -> str:
    """Write a window and its interval. These are lags that were measured: none is rounded."""
    longest, low, high = window
    last = max((row.last for row in rows if row.first == longest), default=longest)
    noun = "step" if last == 1 else "steps"
    bracket = "" if (low, high) == (longest, last) else f" [{low}, {high}]"
    return f"{span(longest, last)} {noun}{bracket}"


def headline(
    source: str, n_sequences: int, window: tuple[int, int, int], rows: Sequence[LagRow]
) -> str:
    """Say for which lags of the gradient of which loss so many sequences are enough."""
    asked = "all there is" if source == "target" else "what is left"
    gradient = f"the gradient of {asked} to learn"
    reach = reach_of(window, rows)
    if window[0] == 0:
        return f"{n_sequences:,} sequences are enough for no lag of {gradient} ({reach})"
    return f"From {n_sequences:,} sequences {gradient} reaches back {reach}"


def kind_of_zero(
    rows: list[LagRow], n_sequences: int, n_read: int, looks_at_all: bool = True
) -> str:
    """Say why they are enough for no lag: one of five reasons, of the lags that have a gradient."""
    rows = [row for row in rows if row.verdict is not Verdict.NO_GRADIENT] or rows
    verdicts = {row.verdict for row in rows}
    lags = _lags(rows)
    if verdicts == {Verdict.NO_GRADIENT} and looks_at_all:
        return (
            f"there is nothing to measure. At {lags} the gradient is exactly 0, as where a model "
            "takes its whole window at once, looks back less far, or cuts the gradient on its way"
        )
    if verdicts == {Verdict.NO_GRADIENT}:
        return (
            f"there is nothing to measure at {lags}. There the gradient is exactly 0, as where a "
            "model looks back less far, only in larger steps, or cuts the gradient on its way"
        )
    if Verdict.TOO_FEW in verdicts:
        if min(row.needed for row in rows) > REACH * n_sequences:
            return "a signal is detected, but it drowns in the noise of the whole gradient"
        return "a signal is detected, and needs more"
    if Verdict.UNCLEAR in verdicts:
        furthest = max(row.last for row in rows if row.verdict is Verdict.UNCLEAR)
        return (
            "too few sequences were read to tell. No signal is detected, and signals up to lag "
            f"{furthest} are not excluded"
        )
    return (
        f"no signal is detected at {lags} in the {n_read:,} sequences that were read. One that "
        "needs more of them would not show"
    )


def _lags(rows: Sequence[LagRow]) -> str:
    """Write the lags of some rows for a sentence."""
    found = stretches(rows)
    first, last = found[0]
    if len(found) > 1:
        return f"lags {spans(found)}"
    return f"lag {first}" if first == last else f"lags {first} to {last}"


def _first(
    rows: list[LagRow],
    gaps: list[tuple[int, int]],
    attrs: dict[str, Any],
    n_sequences: int,
    window: tuple[int, int, int],
) -> str:
    """Say how far back the gradient reaches, and where that is no dependence."""
    said = headline(attrs["source"], n_sequences, window, rows)
    if window[0] == 0:
        n_read = int(attrs["sequences_read"])
        said += f": {kind_of_zero(rows, n_sequences, n_read, looks_at_all=not gaps)}"
    if int(attrs["beats_constant"]) == 0:
        no_better = "the model predicts no better than a constant"
        if any(row.is_detected for row in rows):
            said += f". That need not be a dependence in the data: {no_better}, and its errors "
            said += "show what it adds, too (ask with source='target')"
        else:
            said += f". But {no_better}: ask with source='target'"
    cut = [row for row in rows if row.verdict is Verdict.NO_GRADIENT]
    if cut and len(cut) < len(rows):
        said += f". At {_lags(cut)} there is no gradient at all"
    return f"{said}."


def _needed(rows: list[LagRow], n_sequences: int) -> Iterator[str]:
    """Yield the sequences that the telling lags need, beside those that there are."""
    enough = [row for row in rows if row.is_enough]
    wanting = [row for row in rows if row.verdict is Verdict.TOO_FEW]
    if enough:
        longest = enough[-1]
        needed = f"needs {_about(longest, n_sequences)}, and you have {n_sequences:,}."
        if len(enough) == 1:
            yield f"Lag {longest.lags} {needed}"
        else:
            yield f"They are {_enough_for(enough)} of the {len(rows)} lags looked at."
            yield f"Lag {longest.lags}, the longest, {needed}"
    if wanting:
        easiest = min(wanting, key=lambda row: row.needed)
        needed = f"needs {_about(easiest, n_sequences)}"
        if len(wanting) == 1:
            yield f"At one lag a signal is detected that needs more: lag {easiest.lags} {needed}."
        else:
            yield f"At {len(wanting)} lags a signal is detected that needs more."
            yield f"The easiest of them, lag {easiest.lags}, {needed}."


def _enough_for(enough: list[LagRow]) -> str:
    """Count the lags of which so many sequences are enough, and of which they likely are."""
    n_sure = sum(row.verdict is Verdict.ENOUGH for row in enough)
    n_likely = len(enough) - n_sure
    if n_sure and n_likely:
        return f"enough for {n_sure}, and likely for {n_likely} more,"
    return f"enough for {n_sure}" if n_sure else f"likely enough for {n_likely}"


def _about(row: LagRow, n_sequences: int) -> str:
    """Write a lag's number of sequences for a sentence: whole, and told from those there are."""
    if row.needed > MOST:
        return f"over {printed(MOST, unit=Unit.COUNT)} sequences"
    if row.needed >= 10:
        return f"{printed(row.needed, unit=Unit.COUNT, limits=(float(n_sequences),))} sequences"
    count = int(np.ceil(row.needed))
    return "1 sequence" if count == 1 else f"{count} sequences"


def _missing(gaps: list[tuple[int, int]]) -> Iterator[str]:
    """Yield which lags were not looked at."""
    if gaps:
        first, last = gaps[0][0], gaps[-1][1]
        verb = "Lag {} was" if first == last else "Lags {} were"
        yield f"{verb.format(spans(gaps))} not looked at: lags=range({first}, {last + 1}) does."


def _read_with_care(data: xr.Dataset, n_sequences: int) -> Iterator[str]:
    """Yield what a reader of the first line must know."""
    if data.attrs["source"] == "error":
        yield (
            "That is what is left to learn. The network may look back further, as what it has "
            "learned leaves no gradient: source='target' asks how far."
        )
    n_read = int(data.attrs["sequences_read"])
    if n_sequences > n_read:
        yield f"{n_sequences:,} sequences are extrapolated: {n_read:,} were read."


def _table(rows: list[LagRow], gaps: list[tuple[int, int]], n_sequences: int) -> pd.DataFrame:
    """Return the lags in words, neighbours that say the same together."""
    found = lines(rows)
    if gaps:
        found.append((spans(gaps), "–", NOT_LOOKED_AT))
    return pd.DataFrame(found, columns=["lag", "sequences needed", f"are {n_sequences:,} enough?"])


def _legend(table: pd.DataFrame, source: str) -> list[str]:
    """Return what the table's words mean, those that are in it alone; what all answers say last."""
    found = []
    words = table.iloc[:, 2].tolist()
    for word, meaning in MEANINGS.items():
        if word in words:
            found.append(f"{word}: {meaning}")
            if word is Verdict.NO_SIGNAL and source == "error":
                found[-1] += ", or is learned already"
    if table.iloc[:, 0].str.contains("–|,").any():
        found.append(
            "A line for several lags shows the smallest number, or the smallest to the largest; "
            "by_lag() has each."
        )
    return [*found, *_ALWAYS]


def _measured(attrs: dict[str, Any]) -> list[str]:
    """Return whose gradient was measured, of which loss, on what."""
    name = "a function of yours" if attrs["loss"] in _NO_NAMES else attrs["loss"]
    how = "as it is (source='error'): what the network has learned leaves no gradient."
    if attrs["source"] == "target":
        how = "as if nothing had been learned yet (source='target'), with the weights as they are."
    read = attrs["measured_on"]
    unit = "The part at lag 3 is the gradient by way of the parameters' use 3 steps before lag 0."
    found = [
        _whose_gradient(attrs),
        f"The loss is {name}, {how}",
        f"{read[0].upper()}{read[1:]}.",
    ]
    kernels = attrs.get("kernels", "")  # which former files lack
    if kernels:
        found.append(
            f"A convolution looks back by its own kernel within a lag, here{_modules(kernels)}: "
            "what it reads may be further back than its lag."
        )
    return [*found, unit]


def _whose_gradient(attrs: dict[str, Any]) -> str:
    """Say how many parameters were measured, and how many were left out."""
    measured = int(attrs["measured_parameters"])
    every = int(attrs["all_parameters"])
    if measured == every:
        return f"{attrs['network']}: all {every:,} parameters."
    left_out = f"{every - measured:,}{_modules(attrs['left_out_names'])}"
    if attrs.get("route") == "recurrence":
        left_out += ", which act within a step"
    return f"{attrs['network']}: {measured:,} of {every:,} parameters; left out: {left_out}."


def _modules(names: str) -> str:
    """Write the modules that hold some parameters, or how many these are."""
    owners = list(dict.fromkeys(name.partition(".")[0] for name in names.split(", ") if name))
    if not owners:
        return ""
    listed = ", ".join(owners) if len(owners) <= _MOST_NAMES else f"{len(owners)} modules"
    return f" ({listed})"


def _sure(data: xr.Dataset, n_sequences: int) -> Iterator[str]:
    """Yield what speaks for the numbers, and against them: what is special to these first."""
    attrs = data.attrs
    if attrs["caveats"]:
        yield attrs["caveats"]
    if not _noise_has_a_variance(data):
        yield (
            "A few sequences make most of the noise, and intervals hold less often than they say: "
            "take more sequences."
        )
    n_ends, n_drawn = int(attrs["end_points"]), int(attrs["end_points_drawn"])
    if n_drawn < n_ends:
        yield f"Of {n_ends:,} steps with a loss, {n_drawn:,} were drawn in each sequence."
    without = attrs["without_gradient"]
    if without:
        yield f"{without.count(', ') + 1} of the measured parameters get no gradient."
    false = printed(float(data.false_windows), unit=Unit.HITS, trials=SIGN_DRAWS)
    yield (
        "False alarms: with each sequence's sign drawn at random, a lag is detected in "
        f"{false} draws. At most {EXPECTED} are expected."
    )
    yield (
        "Sequences are taken to be independent. Pieces of one series that overlap, or are much "
        "alike, show lags that are not there."
    )
    yield "A signal at one lag may come from another: at 16 from copies of copies 8 steps before."
    yield "Half of the sequences gave the directions. Others give others: compare seed=1."


def _noise_has_a_variance(data: xr.Dataset) -> bool:
    """Say whether means of sequences concentrate as they do where the noise has a variance."""
    exponent = float(data.exponent.median())
    alpha = float(data.tail_index.median())
    # with a variance 2, up to chance; NaN where so few sequences do not tell
    concentrates = np.isnan(exponent) or 1 <= exponent <= 4
    return bool(concentrates and not alpha <= 1)
