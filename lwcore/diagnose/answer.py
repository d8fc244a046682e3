"""A diagnosis: what was measured, with its windows, its answer in words and its figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from lwcore import results
from lwcore.diagnose.inferred import SIGN_DRAWS, SIGNIFICANCE
from lwcore.inference import Definition
from lwcore.printing import Unit, legible, printed
from lwcore.signatures import Count, checked
from lwcore.window import learnability_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOUR = "#0173b2"
MOST = 1e9  # sequences: whatever needs more is out of everybody's reach
MOST_ROWS = 16  # of a table
_MOST_STRETCHES = 4  # of lags that are written out
_WIDTH = 80  # letters in a line of text
_ALWAYS = (  # below each table
    "Lag 0 is the last step that is read before a prediction. Counted from what is predicted, "
    "lag 7 is 8 steps back if that is the next step, and 7 + h steps if it is h steps on.",
    "Enough are N(ℓ) sequences: the lag's part, plus their mean's noise, has the right sign 9 "
    "times of 10, and 199 times of 200 from four times as many. It is not how many it takes to "
    "learn the lag. Square brackets are 95 % intervals, for all lags together.",
    "Found is a signal that stands out of the noise of its lag alone, in the sequences that were "
    "read. N(ℓ) counts the noise of the whole gradient, which is more.",
)
_LEFT = (
    "What the network has learned leaves almost no gradient, and the errors of one that has "
    "learned nothing show what it adds itself, too: source='target' asks for all there is to learn."
)
_MAY_BE_LEARNED = "A lag that does not show may still be learned: see the book's Chapter 8."


class Verdict(StrEnum):
    """Whether so many sequences are enough for a lag."""

    FOURFOLD = "yes, fourfold"  #: at least four times the upper end of N(ℓ)'s interval
    ENOUGH = "yes"  #: at least the upper end
    LIKELY = "likely"  #: at least N(ℓ)
    TOO_FEW = "not enough"  #: a signal is found, and N(ℓ) is more
    UNKNOWN = "none found, read more"  #: no signal is found, and too few were read to say more
    NO_SIGNAL = "none found"  #: no signal is found in as many or more
    NO_GRADIENT = "no gradient there"  #: this part of the gradient is exactly 0


ENOUGH = (Verdict.FOURFOLD, Verdict.ENOUGH, Verdict.LIKELY)
DETECTED = (*ENOUGH, Verdict.TOO_FEW)
Rows = Sequence[Any]  # of `lag_table`
MEANINGS = {
    Verdict.FOURFOLD: "four times as many as all of the interval asks for",
    Verdict.LIKELY: "enough by the best estimate, and not by all of its interval",
    Verdict.TOO_FEW: "a signal is found, and N(ℓ) is more",
    Verdict.UNKNOWN: "too few were read to say more; give diagnose more, by sequences=",
    Verdict.NO_SIGNAL: (
        "a signal that needs more sequences than were read would not show, nor one in the data "
        "that hardly gets through this network"
    ),
    Verdict.NO_GRADIENT: (
        "in all sequences this part of the gradient is exactly 0. No use of a parameter ends "
        "there, though a convolution may read there"
    ),
}


def lags_in_words(lags: Iterable[int]) -> str:
    """Write lags that increase: ``3, 6–9``; of many stretches the first ones and the last."""
    written = []
    for _, group in groupby(enumerate(lags), lambda pair: pair[1] - pair[0]):
        first, *more = [lag for _, lag in group]
        written.append(f"{first}–{more[-1]}" if more else str(first))
    if len(written) > _MOST_STRETCHES:
        written = [*written[: _MOST_STRETCHES - 1], f"… {written[-1]}"]
    return ", ".join(written)


@checked
def lag_table(data: xr.Dataset, n_sequences: Count) -> pd.DataFrame:
    """Return a row for each lag: the sequences N(ℓ) needed, their interval, are there enough.

    `needed` lies between `low` and `high`, a 95 % interval for all lags together, along the
    directions found (`ratio_bands` has how far off it is along others). Where no signal is found,
    noise made the direction: `low` is at most the sequences that were read, the others infinite.
    """
    is_found = data.detected.values.astype(bool)
    has_gradient = data.statistic.values.any(-1)
    low, high = data.required_interval.values
    table = pd.DataFrame({"needed": data.required.values, "low": low, "high": high}).clip(1)
    table.loc[~is_found, ["needed", "high"]] = np.inf
    table.loc[~is_found, "low"] = table.low.clip(upper=data.attrs["sequences_read"])
    table.loc[~has_gradient, "low"] = np.inf
    verdicts = {
        Verdict.NO_GRADIENT: ~has_gradient,
        Verdict.NO_SIGNAL: ~is_found & (table.low >= n_sequences),
        Verdict.UNKNOWN: ~is_found,
        Verdict.FOURFOLD: 4 * table.high <= n_sequences,
        Verdict.ENOUGH: table.high <= n_sequences,
        Verdict.LIKELY: table.needed <= n_sequences,
    }
    table["enough"] = np.select([*verdicts.values()], [*verdicts], Verdict.TOO_FEW)
    table.insert(0, "lag", data.lag.values)
    return table


def lags_not_looked_at(rows: Rows, length: int) -> list[int]:
    """Return the lags from 1 to length − 1 that no row has."""
    looked_at = {row.lag for row in rows}
    return [lag for lag in range(1, length) if lag not in looked_at]


@dataclass(frozen=True)
class Answer:
    """What a diagnosis says, in the order in which it is read."""

    first: str  # how far back, or which zero it is
    then: list[str]  # what the first line must not be taken for
    table: pd.DataFrame  # lag by lag
    sections: dict[str, list[str]]  # what the table's words mean, what was measured, how sure

    @classmethod
    def of(cls, data: xr.Dataset, n_sequences: int, window: tuple[int, int, int]) -> Answer:
        """Put into words what was measured, for some number of sequences and their window."""
        rows = [*lag_table(data, n_sequences).itertuples(index=False)]
        table = _table(rows, n_sequences)
        first = headline(data.attrs["source"], n_sequences, window, rows)
        if window[0] == 0:
            first += f": {kind_of_zero(rows, int(data.attrs['sequences_read']))}"
        sections = {
            "What the words mean": [*_legend(table)],
            "What was measured": [*_measured(data.attrs)],
            "How sure": [*_sure(data)],
        }
        return cls(f"{first}.", [*_then(rows, data.attrs, n_sequences)], table, sections)

    def text(self) -> str:
        """Return the answer for a terminal, in lines of 80 letters."""
        parts = [
            textwrap.fill(" ".join([self.first, *self.then]), _WIDTH),
            textwrap.indent(self.table.to_string(index=False), "  "),
        ]
        for heading, points in self.sections.items():
            lines = [heading]
            for point in points:
                lines += textwrap.wrap(
                    point, _WIDTH, initial_indent="  · ", subsequent_indent="    "
                )
            parts.append("\n".join(lines))
        return "\n\n".join(parts)


def headline(source: str, n_sequences: int, window: tuple[int, int, int], rows: Rows) -> str:
    """Say how far back so many sequences reach: without a gap first, and then at the furthest."""
    asked = "all there is" if source == "target" else "what is left"
    gradient = f"the gradient of {asked} to learn"
    longest, low, high = window
    furthest = _steps(longest)
    if (low, high) != (longest, longest):
        furthest += f" [{low}, {high}]"
    if longest == 0:
        return f"{n_sequences:,} sequences are enough for no lag of {gradient} (window: {furthest})"
    said = f"From {n_sequences:,} sequences {gradient} reaches back"
    of_these = ", of the lags looked at" if lags_not_looked_at(rows, longest) else ""
    together = [*takewhile(lambda row: row.enough in ENOUGH, rows)]
    if not together:
        gaps = [row.lag for row in rows if row.lag < longest and row.enough not in ENOUGH]
        return f"{said} {furthest} at the furthest, but not {lags_in_words(gaps)}{of_these}"
    near = together[-1].lag
    if near == longest:
        return f"{said} {furthest}{of_these}"
    return f"{said} {_steps(near)} without a gap, and {furthest} at the furthest{of_these}"


def _steps(lag: int) -> str:
    """Write how many steps a lag is back."""
    return "1 step" if lag == 1 else f"{lag} steps"


def kind_of_zero(rows: Rows, n_read: int) -> str:
    """Say why they are enough for no lag: one of four reasons, of the lags that have a gradient."""
    with_gradient = [row.lag for row in rows if row.enough != Verdict.NO_GRADIENT]
    unknown = [row.lag for row in rows if row.enough == Verdict.UNKNOWN]
    if not with_gradient:
        return (
            f"there is nothing to measure. At lags {lags_in_words(row.lag for row in rows)} the "
            "gradient is exactly 0, as where a model takes its whole window at once (normalising "
            "it does so) or from its end, looks back less far, or cuts the gradient, where what "
            "looks back is frozen, where the first of several inputs has no steps, or the axis is "
            "no time (for channels first, (B, C, T), say time_axis=2)"
        )
    if any(row.enough == Verdict.TOO_FEW for row in rows):
        return "a signal is found, and needs more"
    if unknown:
        return (
            "too few sequences were read to tell. No signal is found, and signals up to lag "
            f"{unknown[-1]} are not excluded"
        )
    lags = lags_in_words(with_gradient)
    return f"no signal is found at lags {lags} in the {n_read:,} that were read"


def _then(rows: Rows, attrs: dict[str, Any], n_sequences: int) -> Iterator[str]:
    """Yield what a reader of the first line must know."""
    gaps = lags_not_looked_at(rows, int(attrs["length"]))
    if gaps:
        yield (
            f"Lags {lags_in_words(gaps)} were not looked at: "
            f"lags=range({gaps[0]}, {gaps[-1] + 1}) does."
        )
    if attrs["source"] == "error":
        yield _LEFT
    n_read = int(attrs["sequences_read"])
    furthest = [row.needed for row in rows if np.isfinite(row.needed)]
    if max([n_sequences, *furthest]) > n_read:
        yield f"Numbers of sequences above {n_read:,} are extrapolated: so many were read."
    if not all(row.enough in ENOUGH for row in rows):
        yield _MAY_BE_LEARNED


def _table(rows: Rows, n_sequences: int) -> pd.DataFrame:
    """Return the lags in words, at most `MOST_ROWS` lines.

    Neighbours without a signal share a line, and where that leaves too many lines, all neighbours
    of one verdict do.
    """
    groups = groupby(rows, lambda row: (row.enough, row.lag if row.enough in DETECTED else 0))
    lines = [_line([*group]) for _, group in groups]
    if len(lines) > MOST_ROWS:
        lines = [_line([*group]) for _, group in groupby(rows, lambda row: row.enough)]
    if len(lines) > MOST_ROWS:
        first = lines[MOST_ROWS - 1][0]
        lines[MOST_ROWS - 1 :] = [(f"{first} and beyond", "by_lag() has each", "")]
    return pd.DataFrame(lines, columns=["lag", "N(ℓ)", f"are {n_sequences:,} enough?"])


def _line(group: Rows) -> tuple[str, str, str]:
    """Return the words of a line for some neighbours of one verdict."""
    verdict = group[0].enough
    lags = lags_in_words(row.lag for row in group)
    if verdict not in DETECTED:
        return lags, "–", str(verdict)
    if len(group) == 1:
        (row,) = group
        if row.needed > MOST:
            return lags, f"over {printed(MOST, unit=Unit.COUNT)}", str(verdict)
        return lags, printed(row.needed, row.low, row.high, unit=Unit.COUNT), str(verdict)
    needed = [min(row.needed, MOST) for row in group]
    least = printed(min(needed), unit=Unit.COUNT)
    return lags, f"{least} to {printed(max(needed), unit=Unit.COUNT)}", str(verdict)


def _legend(table: pd.DataFrame) -> Iterator[str]:
    """Yield what the table's words mean: what all answers say, and those that are in it alone."""
    yield from _ALWAYS
    words = table.iloc[:, 2].tolist()
    for word, meaning in MEANINGS.items():
        if word in words:
            yield f"{word.capitalize()}: {meaning}."
    if table.iloc[:, 1].str.contains(" to ").any():
        yield "A line for several lags has their smallest and largest number; by_lag() has each."


def _measured(attrs: dict[str, Any]) -> Iterator[str]:
    """Yield whose gradient was measured, of which loss, on what."""
    measured = attrs["measured_parameters"]
    every = attrs["all_parameters"]
    whose = f"all {every:,} parameters"
    if measured < every:
        left_out = f"{every - measured:,} ({attrs['left_out_names']})"
        whose = f"{measured:,} of {every:,} parameters; left out: {left_out}"
    yield f"{attrs['network']}: {whose}."
    how = "as it is (source='error'): what the network has learned leaves almost none."
    if attrs["source"] == "target":
        how = "as if nothing had been learned yet (source='target'), with the weights as they are."
    yield f"The loss is {attrs['loss']}, {how}"
    yield f"{attrs['measured_on'].capitalize()}."
    yield (
        "The part at lag 3 is the gradient by way of the parameters' use 3 steps before lag 0. A "
        "convolution's kernel reads further back than the step of its use."
    )


def _sure(data: xr.Dataset) -> Iterator[str]:
    """Yield what speaks for the numbers, and against them: what is special to these first."""
    attrs = data.attrs
    if attrs["caveats"]:
        yield attrs["caveats"]
    n_ends, n_drawn = attrs["end_points"], attrs["end_points_drawn"]
    if n_drawn < n_ends:
        yield f"Of {n_ends:,} steps with a loss, {n_drawn:,} were drawn in each sequence."
    false = printed(float(data.false_windows), unit=Unit.HITS, trials=SIGN_DRAWS)
    yield (
        "Control: with each sequence's sign drawn at random there is nothing to find. A signal is "
        f"found in {false} draws, and at most {SIGNIFICANCE * SIGN_DRAWS:.0f} are expected."
    )
    yield (
        "Sequences are taken to be independent. Pieces of one series that overlap, or are much "
        "alike, show lags that are not there."
    )
    yield "A signal at one lag may come from another: at 16 from copies of copies 8 steps before."
    yield "Half of the sequences gave the directions. Others give others: compare seed=1."


class Window(NamedTuple):
    """A window in steps, 0 where so many sequences are enough for no lag, and its interval."""

    steps: int
    low: int
    high: int


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The learnability window of a network, read off what was measured: `data`.

    Printed, or shown by a notebook, it is its `answer`. For `data` see :ref:`api-diagnose-data`.
    """

    data: xr.Dataset

    @property
    def n_sequences(self) -> int:
        """The number of sequences that the answer is for, where no other is named."""
        return int(self.data.attrs["n_sequences"])

    @checked
    def window(self, n_sequences: Count, definition: Definition = "supremum") -> Window:
        """Return H_N over the detected lags, and its interval, for noise that has a variance.

        ``"supremum"`` is the longest lag for which they are enough; where gaps before it matter
        take ``"first_passage"``, the longest up to which they are for all measured lags.
        """
        low, high = self.data.required_interval.values
        curves = np.stack([self.data.required, high, low])
        curves[:2, ~self.data.detected.values.astype(bool)] = np.inf
        lags = self.data.lag.values
        windows = learnability_window(lags, curves, [n_sequences], definition=definition)
        return Window(*np.reshape(windows, -1).tolist())

    def by_lag(self) -> pd.DataFrame:
        """Return the numbers of each lag: sequences needed, interval, are there enough."""
        return lag_table(self.data, self.n_sequences)

    @checked
    def answer(self, n_sequences: Count | None = None) -> Answer:
        """Return what was found in words, for so many sequences, by default `n_sequences`."""
        count = n_sequences or self.n_sequences
        return Answer.of(self.data, count, self.window(count))

    def __str__(self) -> str:
        """Return the answer as text, in signs that standard output can write."""
        return legible(self.answer().text())

    __repr__ = __str__

    def plot(self) -> Figure:
        """Draw the answer: N(ℓ) beside the sequences that there are, and the window against N.

        A filled dot is a lag for which these are enough, an open one a lag that needs more, a
        cross at the upper edge one without a signal.
        """
        from lwcore.figures import canvas, done  # imports Matplotlib, which measuring does without

        figure, (left, right) = canvas(2)
        self._draw_lags(left)
        self._draw_windows(right)
        figure.legend(loc="outside lower center", ncols=4)
        figure.suptitle(textwrap.fill(self.answer().first))
        return done(figure)

    def _draw_lags(self, axes: Axes) -> None:
        """Draw N(ℓ) with its interval, and where signals are found."""
        table = self.by_lag()
        is_enough = table.enough.isin(ENOUGH)
        is_found = table.enough.isin(DETECTED)
        numbers = table[["lag", "needed", "low", "high"]].clip(1, MOST)  # no number: at the edge
        axes.vlines("lag", "low", "high", "silver", data=numbers[is_found], label="interval")
        kinds = {
            "these are enough": (is_enough, "o", _COLOUR),
            "needs more sequences": (is_found & ~is_enough, "o", "white"),
            "no signal found": (~is_found, "x", _COLOUR),
        }
        for words, (chosen, marker, face) in kinds.items():
            (dots,) = axes.plot("lag", "needed", marker, data=numbers[chosen], label=words)
            dots.set(color=_COLOUR, markerfacecolor=face, clip_on=False)
        axes.axhline(self.n_sequences, color="grey", ls="--")
        axes.loglog()
        axes.set(ylim=(1, MOST), xlabel="lag ℓ (steps)", ylabel="sequences needed N(ℓ)")

    def _draw_windows(self, axes: Axes) -> None:
        """Draw the window, with its interval, against the number of sequences."""
        budgets = sorted({self.n_sequences, *(2**k for k in range(21))})
        longest, low, high = np.transpose([self.window(n) for n in budgets])
        axes.step(budgets, longest, where="post", color=_COLOUR)
        axes.fill_between(budgets, low, high, color=_COLOUR, alpha=0.15, step="post")
        axes.set(xscale="log", xlabel="number of sequences N", ylabel="window $H_N$ (steps)")

    def save(self, path: str | Path) -> None:
        """Store the dataset as netCDF; ``Diagnosis(results.load(path))`` has it back."""
        results.save(self.data, path)
