"""A diagnosis: what was measured of a network, with its windows, its answer and its figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from lwcore import results
from lwcore.diagnose.answer import (
    DETECTED,
    MOST,
    Answer,
    LagRow,
    Verdict,
    by_lag,
    headline,
    lag_rows,
    lags_not_looked_at,
)
from lwcore.inference import Definition
from lwcore.printing import legible
from lwcore.signatures import Count, checked
from lwcore.window import learnability_window

__all__ = ["Diagnosis", "Window"]

_COLOUR = "#0173b2"

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Window(NamedTuple):
    """A window in steps, 0 where so many sequences are enough for no lag, and its interval."""

    steps: int
    low: int
    high: int

    def __str__(self) -> str:
        """The interval in brackets."""
        return f"{self.steps} [{self.low}, {self.high}]"


@checked
@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The learnability window of a network, read off what was measured: `data`.

    Printed, or shown by a notebook, it is its `answer`.
    """

    data: xr.Dataset

    @property
    def n_sequences(self) -> int:
        """The number of sequences that the answer is for, where no other is named."""
        return int(self.data.attrs["n_sequences"])

    @checked
    def window(self, n_sequences: Count, definition: Definition = "supremum") -> Window:
        """Return H_N over the detected lags; its interval is that of noise with a variance.

        A band of lags counts as its first one; the interval ends with the last lag of a band.
        ``definition="supremum"`` is the longest lag for which they are enough, ``"first_passage"``
        the longest up to which they are for all measured ones.
        """
        low, high = self.data.required_interval.values
        curves = np.stack([self.data.required, high, low])
        curves[:2, ~self.data.detected.values.astype(bool)] = np.inf
        lags = [row.first for row in self.rows]
        windows = learnability_window(lags, curves, [n_sequences], definition=definition)
        steps, least, most = np.reshape(windows, -1).tolist()
        last_of = {row.first: row.last for row in self.rows}
        return Window(steps, least, last_of.get(most, most))

    def by_lag(self) -> pd.DataFrame:
        """Return the numbers of each lag: sequences needed, interval, are there enough.

        A row is a lag, or the lags from `lag` to `lag_to` together.
        """
        return by_lag(self.rows)

    @property
    def rows(self) -> list[LagRow]:
        """What the answer says of each lag."""
        return lag_rows(self.data, self.n_sequences)

    @checked
    def answer(self, n_sequences: Count | None = None) -> Answer:
        """Return what was found in words, for so many sequences, or for those that there are."""
        count = self.n_sequences if n_sequences is None else int(n_sequences)
        return Answer.of(self.data, count, self.window(count))

    def __str__(self) -> str:
        """Return the answer as text, in signs that standard output can write."""
        return legible(self.answer().text())

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the answer, and below it all numbers, folded."""
        folds = {
            "Every lag": self.by_lag().to_html(index=False),
            "All numbers": self.data._repr_html_(),
        }
        parts = [self.answer().html()]
        for words, content in folds.items():
            parts.append(f"<details><summary>{words}</summary>{content}</details>")
        content = "\n".join(parts)
        return f'<div class="diagnosis">{content}</div>'

    def plot(self) -> Figure:
        """Draw the answer: N(ℓ) beside the sequences that there are, and the window against N.

        A filled dot is a lag for which these are enough, an open one a lag that needs more, a
        cross at the upper edge one without a signal; grey are lags that were not looked at. On the
        right the dashed line is the longest lag up to which they are enough for all.
        """
        from lwcore.figures import canvas, done  # imports Matplotlib, which measuring does without

        figure, (left, right) = canvas(2)
        self._draw_lags(left)
        self._draw_windows(right)
        count = self.n_sequences
        source = self.data.attrs["source"]
        figure.suptitle(headline(source, count, self.window(count), self.rows))
        return done(figure, trim=False)

    def _draw_lags(self, axes: Axes) -> None:
        """Draw N(ℓ) with its interval, and which lags are detected."""
        data = self.data
        rows = self.rows
        needed, low, high = np.clip([data.required, *data.required_interval], 1, MOST)
        is_detected = data.detected.values.astype(bool)
        needed = np.where(is_detected, needed, MOST)  # no number: at the upper edge
        spans = data.lag[is_detected], low[is_detected], high[is_detected]
        axes.vlines(*spans, color=_COLOUR, alpha=0.3, lw=2)
        verdicts = np.array([str(row.verdict) for row in rows])
        for verdict in Verdict:
            chosen = verdicts == verdict
            marker = "o" if verdict in DETECTED else "x"
            face = "white" if verdict is Verdict.TOO_FEW else _COLOUR
            points = data.lag[chosen], needed[chosen]
            axes.plot(*points, marker, ms=4, color=_COLOUR, markerfacecolor=face, clip_on=False)
        marks = []
        for marker, face in (("o", "grey"), ("o", "white"), ("x", "grey")):
            marks += axes.plot([], [], marker, ms=4, color="grey", markerfacecolor=face)
        meanings = ["these are enough", "needs more sequences", "no signal found"]
        axes.legend(marks, meanings, fontsize=8)
        for first, last in lags_not_looked_at(rows, int(data.attrs["length"])):
            axes.axvspan(first - 0.5, last + 0.5, color="grey", alpha=0.12, lw=0, zorder=0)
        axes.axhline(self.n_sequences, color="grey", ls="--", lw=1)
        axes.set(xscale="log", yscale="log", ylim=(1, MOST))
        axes.set(xlabel="lag ℓ (steps)", ylabel="sequences needed N(ℓ)")

    def _draw_windows(self, axes: Axes) -> None:
        """Draw the window against the number of sequences, by both definitions."""
        budgets = [2**k for k in range(21)]
        passage = [self.window(n, "first_passage").steps for n in budgets]
        longest, low, high = np.transpose([self.window(n) for n in budgets])
        axes.step(budgets, passage, where="post", color=_COLOUR, ls="--")
        axes.step(budgets, longest, where="post", color=_COLOUR)
        axes.fill_between(budgets, low, high, color=_COLOUR, alpha=0.15, lw=0, step="post")
        axes.set(xscale="log", xlabel="number of sequences N")
        axes.set_ylabel("learnability window $H_N$ (steps)")

    def save(self, path: str | Path) -> None:
        """Store the dataset as netCDF; ``Diagnosis(results.load(path))`` has it back."""
        results.save(self.data, path)
