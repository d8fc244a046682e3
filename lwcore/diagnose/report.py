"""What a diagnosis says: windows with their intervals, tables, words and figures of its numbers."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from lwcore import results
from lwcore.diagnose.advice import advice
from lwcore.inference import Definition
from lwcore.signatures import Count, checked
from lwcore.window import learnability_window

LEVEL = 0.95  # coverage of all intervals
SIGN_DRAWS = 1000  # draws of all sequences' signs, to see how often nothing shows something
Rate = Literal["variance", "mean"]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Window(NamedTuple):
    """A window in steps, 0 where no lag is visible, and its interval."""

    steps: int
    low: int
    high: int

    def __str__(self) -> str:
        """The interval in brackets."""
        return f"{self.steps} [{self.low}, {self.high}]"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The learnability window of a network, read off what was measured: `data`."""

    data: xr.Dataset

    @checked
    def window(
        self, n_sequences: Count, definition: Definition = "supremum", rate: Rate = "variance"
    ) -> Window:
        """H_N over the detected lags; its interval is that of noise with a variance.

        ``definition="supremum"`` is the longest visible lag, ``"first_passage"`` the longest up to
        which all measured lags are. N(ℓ) is by the sample's variance, or, ``rate="mean"``, by a
        stable law of the median α.
        """
        low, high = self.data.required_interval.values
        needed = self.data.required if rate == "variance" else self.data.required_if_stable
        curves = np.stack([needed, high, low])
        curves[:2, ~self.data.detected.values.astype(bool)] = np.inf
        lags = self.data.lag.values.tolist()
        found = learnability_window(lags, curves, [n_sequences], definition=definition)
        return Window(*found[:, 0].tolist())

    def table(self) -> pd.DataFrame:
        """Windows for some numbers of sequences, with that of the summary among them."""
        numbers = sorted({*(8**k for k in range(7)), int(self.data.attrs["n_sequences"])})
        read = 2 * self.data.sizes["sequence"]  # in both halves
        columns = {
            "every measured lag visible up to": [self.window(n, "first_passage") for n in numbers],
            "longest visible lag": [self.window(n) for n in numbers],
            "with stable tails": [self.window(n, rate="mean").steps for n in numbers],
            "extrapolated": ["yes" if n > read else "" for n in numbers],
        }
        index = pd.Index([f"{n:,}" for n in numbers], name="sequences N")
        return pd.DataFrame(columns, index).map(str)

    def __str__(self) -> str:
        """What was found, in a few sentences. Only measured lags are spoken of."""
        data, attrs, lags = self.data, self.data.attrs, self.data.lag.values
        n, count = int(attrs["n_sequences"]), data.sizes["sequence"]
        untrained = ", as if nothing had been learned yet," * (attrs["source"] == "target")
        beyond = "These are extrapolated, to more sequences than were read. " * (n > 2 * count)
        exponent, alpha = float(data.exponent.median()), float(data.tail_index.median())
        told = f"of {exponent:.1f}" if exponent > 0 else "that cannot be told"
        # with a variance 2, up to chance; NaN where so few sequences do not tell
        concentrates = np.isnan(exponent) or 1 <= exponent <= 4
        beware = (
            "Beware: a few sequences make most of the noise, and intervals hold less often than "
            "they say; take more sequences. "
        ) * (alpha <= 1 or not concentrates)
        said = (
            f"In {n:,} sequences the longest lag that the gradient of the loss{untrained} shows is "
            f"{self.window(n)} steps, and every measured lag is shown up to "
            f"{self.window(n, 'first_passage')} (0: none; in brackets {LEVEL:.0%} intervals, along "
            f"the directions found in other sequences). {beyond}Of "
            f"{len(lags)} lags measured, {lags[0]} to {lags[-1]}, {int(data.detected.sum())} are "
            f"detected in the {count:,} sequences that gave numbers; a lag is shown if it is and "
            f"N(ℓ) ≤ {n:,}. With each sequence's sign at random, any lag is shown in "
            f"{data.false_windows / SIGN_DRAWS:.1%} of draws. Means of sequences concentrate with "
            f"an exponent {told} (2 for noise with a variance); the tail index is {alpha:.2f}. "
            f"{beware}{attrs['measured_on'].partition(':')[0].capitalize()}. "
            f"{attrs.get('aside', '')}"
        )
        advised = (f"{one}: {says} ({why})." for one, why, says in advice(data).itertuples())
        return "\n\n".join(textwrap.fill(one, 80) for one in (said, *advised))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        more = f"<details><summary>All numbers</summary>{self.data._repr_html_()}</details>"
        words = "\n".join(f"<p>{html.escape(one)}</p>" for one in str(self).split("\n\n"))
        return f'<div class="diagnosis">{words}{self.table().to_html()}{more}</div>'

    def plot(
        self, axes: Sequence[Axes] | None = None, label: str | None = None, color: str = "#0173b2"
    ) -> Figure:
        """N(ℓ), a dot where a lag is detected, else a cross, and H_N, dashed the first passage."""
        from lwcore.figures import canvas, done  # imports Matplotlib, which measuring does without

        left, right = canvas(2)[1] if axes is None else axes
        data, seen = self.data, self.data.detected.values.astype(bool)
        budgets = [2**k for k in range(21)]
        needed, low, high = np.clip([data.required, *data.required_interval], 1, 1e9)
        left.vlines(data.lag, low, high, color=color, alpha=0.3, lw=2)
        for shown, marker in ((seen, "o"), (~seen, "x")):
            left.plot(data.lag[shown], needed[shown], marker, ms=4, color=color)
        marks = [left.plot([], [], marker, ms=4, color="grey")[0] for marker in "ox"]
        left.legend(marks, ["detected", "not detected"], fontsize=8, loc="lower right")
        left.axhline(data.attrs["n_sequences"], color="grey", ls="--", lw=1)
        left.set(xscale="log", yscale="log", ylim=(1, 1e9))
        left.set(xlabel="lag ℓ (steps)", ylabel="sequences needed N(ℓ)")
        passage = [self.window(n, "first_passage").steps for n in budgets]
        steps, low, high = np.transpose([self.window(n) for n in budgets])
        right.step(budgets, passage, where="post", color=color, ls="--")
        right.step(budgets, steps, where="post", color=color, label=label)
        right.fill_between(budgets, low, high, color=color, alpha=0.15, lw=0, step="post")
        right.set(xscale="log", xlabel="number of sequences N")
        right.set_ylabel("learnability window $H_N$ (steps)")
        figure: Any = left.figure
        return done(figure, *([right] if label else []), trim=False)

    def save(self, path: str | Path) -> None:
        """Store the dataset as netCDF; ``Diagnosis(results.load(path))`` has it back."""
        results.save(self.data, path)
