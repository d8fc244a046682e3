"""What a diagnosis found, in numbers, in words and in one picture."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from lwcore import results
from lwcore.arguments import integer_in, one_of
from lwcore.diagnose import words
from lwcore.window import learnability_window

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 8  # of the stored numbers of sequences in a table, at the most


class Window(NamedTuple):
    """A window and the interval around it, in steps: that of the lags measured, along the directions found.

    Attributes:
        steps: The window, 0 where no lag is visible.
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

    def window(self, n_sequences: int, definition: str = "supremum", reading: str = "variance") -> Window:
        """Read the window off for a number of sequences.

        Args:
            n_sequences: N, at least 1.
            definition: ``"supremum"``, the longest visible lag, or ``"first_passage"``, the longest up to which all measured lags are.
            reading: ``"variance"``, or ``"stable"`` for N(ℓ) with the tails of a stable law; the interval is that of noise with a variance.

        Returns:
            The window, with its interval.

        Raises:
            ValueError: If the measurement was broken off before there was a window.
        """
        integer_in("n_sequences", n_sequences, 1)
        one_of("definition", definition, ("supremum", "first_passage"))
        one_of("reading", reading, ("variance", "stable"))
        if not self.complete:
            raise ValueError("window: the measurement was broken off before any sequence had given its numbers.")
        needed, interval, detected = self.data.required, self.data.required_interval, self.data.detected.astype(bool)
        candidates = (
            needed.sel(reading=reading).where(detected, np.inf),
            interval.sel(bound="high").where(detected, np.inf),
            interval.sel(bound="low"),
        )
        lags = self.data.lag.values.tolist()
        return Window(*(int(learnability_window(lags, n.values, [n_sequences], definition=definition)[0]) for n in candidates))

    def table_budgets(self) -> list[int]:
        """Choose numbers of sequences N for a table: some of those stored, and the one that the summary speaks of."""
        budgets = self.data.budget.values
        chosen = budgets[np.unique(np.linspace(0, len(budgets) - 1, _SHOWN).round().astype(int))].tolist()
        return sorted({*chosen, int(self.data.attrs["n_sequences"])})

    def __str__(self) -> str:
        """What was found, in a few sentences."""
        return textwrap.fill(" ".join(words.sentences(self)), 84)

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return words.page(self)

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
