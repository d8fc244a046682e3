"""What a diagnosis found, in numbers, in words and in one picture."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from lwcore import results
from lwcore.arguments import integer_in, one_of
from lwcore.inference import holm
from lwcore.window import learnability_window

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 8  # rows of a table, at the most
_LEVEL = 0.05  # at which tails are called other than stable


class Window(NamedTuple):
    """A window and the interval around it, in steps.

    Attributes:
        steps: The window.
        low: Lower end: what the bands around all lags leave for certain.
        high: Upper end: what they cannot exclude.
    """

    steps: int
    low: int
    high: int

    def __str__(self) -> str:
        """The window, and its interval in brackets."""
        return f"{self.steps} [{self.low}, {self.high}]"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The learnability window of a network.

    It is a thin cover: all that was measured is in `data`, a plain `xarray.Dataset` whose variables say in ``long_name`` and ``units`` what
    they are, and whose attributes say how they were measured. In a notebook it shows itself.

    Attributes:
        data: The measurements.
    """

    data: xr.Dataset

    @property
    def interrupted(self) -> bool:
        """Whether the measurement was broken off, and covers fewer sequences than it should."""
        return bool(self.data.attrs["interrupted"])

    @property
    def complete(self) -> bool:
        """Whether there are numbers to read a window from; false where an interrupt has left only the transport."""
        return "required" in self.data

    def window(self, n_sequences: int, definition: str = "supremum") -> Window:
        """Read the window off for a number of sequences.

        Args:
            n_sequences: N, at least 1.
            definition: ``"supremum"``, the longest visible lag, or ``"first_passage"``, the longest up to which all measured lags are.

        Returns:
            The window, with its interval.

        Raises:
            ValueError: If the measurement was broken off before there was a window.
        """
        integer_in("n_sequences", n_sequences, 1)
        one_of("definition", definition, ("supremum", "first_passage"))
        if not self.complete:
            raise ValueError("window: the measurement was broken off before any sequence had given its numbers.")
        needed, interval, detected = self.data.required, self.data.required_interval, self.data.detected.astype(bool)
        candidates = (
            needed.sel(reading="variance").where(detected, np.inf),
            interval.sel(bound="high").where(detected, np.inf),
            interval.sel(bound="low"),
        )
        lags = self.data.lag.values.tolist()
        return Window(*(int(learnability_window(lags, n.values, [n_sequences], definition=definition)[0]) for n in candidates))

    def table_budgets(self) -> list[int]:
        """Choose some of the stored numbers of sequences N, for a table."""
        budgets = self.data.budget.values
        return budgets[np.unique(np.linspace(0, len(budgets) - 1, _SHOWN).round().astype(int))].tolist()

    def __str__(self) -> str:
        """What was found, in a few sentences."""
        return textwrap.fill(" ".join(self._sentences()), 84)

    def _sentences(self) -> list[str]:
        """Say what was found."""
        data, attrs = self.data, self.data.attrs
        lags = data.lag.values
        if not self.complete:
            return [f"Interrupted before any window could be measured; the transport of {attrs['network']} is there."]
        n = int(attrs["n_sequences"])
        longest, passage = self.window(n), self.window(n, "first_passage")
        past = "the loss" if attrs["source"] == "error" else "the loss, as if nothing had been learned yet,"
        level, farthest = 100 * float(attrs["level"]), lags[-1]
        start = f"The gradient of {past} shows {n:,} sequences"
        around = f"{longest.low} to {longest.high}"
        if passage.steps:
            found = (
                f"{start} every measured lag up to {passage.steps} ({level:.0f} % interval {passage.low} to {passage.high}), "
                f"and none beyond {longest.steps} ({around}), of {farthest} steps."
            )
        elif longest.steps:
            found = f"{start} lags up to {longest.steps} of {farthest} steps ({level:.0f} % interval {around}), but not the shortest."
        else:
            found = f"{start} no lag; up to {longest.high} of {farthest} steps cannot be excluded."
        sentences = [found]
        if self.interrupted:
            sentences.insert(0, f"Interrupted: {data.sizes['sequence']} sequences have given numbers.")
        if not data.detected.all():
            unseen = int((~data.detected.astype(bool)).sum())
            sentences.append(f"At {unseen} of {len(lags)} lags the {data.sizes['sequence']} sequences measured show no signal at all.")
        return sentences

    def _facts(self) -> list[tuple[str, str]]:
        """List what was measured besides, a name and a value each."""
        data = self.data
        tau = data.time_scale.values[np.isfinite(data.time_scale.values)]
        lag = data.lag.values
        places = sorted({0, len(lag) // 2, len(lag) - 1})
        facts = [("network", data.attrs["network"]), ("loss", data.attrs["loss"]), ("measured on", data.attrs["measured_on"])]
        if len(tau):
            low, middle, high = np.quantile(tau, [0.1, 0.5, 0.9])
            facts.append(("time scales τ, 10 %, 50 %, 90 % of neurons", f"{low:.3g}, {middle:.3g}, {high:.3g} steps"))
        facts.append(("envelope f(ℓ)", ", ".join(f"{float(data.envelope[i]):.3g} at lag {lag[i]}" for i in places)))
        facts.append(
            ("share of the transport beside its diagonal", ", ".join(f"{float(data.off_diagonal[i]):.2f} at {lag[i]}" for i in places))
        )
        if self.complete:
            total = data.sel(noise_definition="total")
            alpha = total.tail_index.values
            p = total.goodness_of_fit.values[np.isfinite(total.goodness_of_fit.values)]
            rejected = int(holm(p[None], _LEVEL).sum())
            facts.append(
                ("tail index α of the whole gradient along a lag's direction", f"{np.nanmin(alpha):.2f} to {np.nanmax(alpha):.2f}")
            )
            exponent = float(total.exponent.median())
            facts.append(("exponent with which means of sequences concentrate, 2 for noise with a variance", f"{exponent:.1f} (median)"))
            facts.append(("lags at which a stable law does not fit those numbers", f"{rejected} of {len(p)} (Holm, {100 * _LEVEL:.0f} %)"))
        return facts

    def _repr_html_(self) -> str:
        """Show it in a notebook: sentences, windows, facts, and the dataset folded away."""
        first, *rest = map(html.escape, self._sentences())
        parts = [f"<p><strong>{first}</strong> {' '.join(rest)}</p>"]
        if self.complete:
            head = ("sequences N", "all lags visible up to", "longest visible lag", "with stable tails")
            rows = []
            for n in self.table_budgets():
                stable = int(self.data.window.sel(budget=n, reading="stable", definition="supremum"))
                rows.append((f"{n:,}", str(self.window(n, "first_passage")), str(self.window(n)), str(stable)))
            parts.append(_table(head, rows, f"Window in steps, with {100 * float(self.data.attrs['level']):.0f} % interval"))
        facts = "".join(f"<li>{html.escape(name)}: {html.escape(value)}</li>" for name, value in self._facts())
        parts.append(f"<ul>{facts}</ul>")
        parts.append(f"<details><summary>All numbers</summary>{self.data._repr_html_()}</details>")
        return f'<div class="diagnosis">{"".join(parts)}</div>'

    def plot(self) -> Figure:
        """Draw what was measured in one picture.

        Returns:
            The figure.
        """
        from lwcore import plots_diagnosis  # import Matplotlib, which measuring does without

        return plots_diagnosis.diagnosis(self.data)

    def save(self, path: str | Path) -> None:
        """Store the dataset as netCDF.

        Args:
            path: Where.
        """
        results.save(self.data, path)

    @classmethod
    def load(cls, path: str | Path) -> Diagnosis:
        """Read a diagnosis that `save` has stored.

        Args:
            path: The file.

        Returns:
            The diagnosis.

        Raises:
            ValueError: If the file holds something else.
        """
        data = results.load(path)
        if "measured_on" not in data.attrs:
            raise ValueError(f"path = {str(path)!r}: holds {data.attrs.get('name', 'something')!r}, not a diagnosis.")
        return cls(data)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str) -> str:
    """Write an HTML table."""

    def row(cells: tuple[str, ...], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return (
        f'<table class="dataframe"><caption>{html.escape(caption)}</caption><thead>{row(head, "th")}</thead><tbody>{body}</tbody></table>'
    )
