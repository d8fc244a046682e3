"""What a diagnosis found, in numbers, in words and in one picture."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from lwcore import results
from lwcore.arguments import integer_in, one_of
from lwcore.detection import sample_complexity
from lwcore.inference import holm
from lwcore.window import learnability_window

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.95  # coverage of all intervals
SIGN_DRAWS = 1000  # draws of all sequences' signs, to see how often nothing shows something
HELD = "in simulations 92 to 96 % held the truth along these, 17 to 82 % that along the mean directions of endless data"
_USUAL = (
    1.0,
    4.0,
)  # exponents p of noise with a variance, 2 up to chance; beyond, a few sequences make the noise


class Window(NamedTuple):
    """A window in steps, 0 where no lag is visible, and its interval: what the bands leave for certain, and what they cannot exclude."""

    steps: int
    low: int
    high: int

    def __str__(self) -> str:
        """Write the interval in brackets."""
        return f"{self.steps} [{self.low}, {self.high}]"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The learnability window of a network.

    It is a thin cover: all that was measured is in `data`, an `xarray.Dataset` whose variables say in ``long_name`` what they are, and
    whose attributes say how they were measured. Windows are read off where they are asked for. In a notebook it shows itself.
    """

    data: xr.Dataset

    @property
    def interrupted(self) -> bool:
        """Whether the measurement was broken off, and covers fewer sequences than it should."""
        return bool(self.data.attrs["interrupted"])

    def required(self, rate: str = "variance") -> NDArray[np.float64]:
        """Compute N(ℓ) at each lag, by the sample's variance, or, ``rate="mean"``, by a stable law of the median α."""
        if one_of("rate", rate, ("variance", "mean")) == "variance":
            return np.asarray(self.data.required)
        alpha, scale = float(self.data.tail_index.median()), self.data.tail_scale.values
        if not alpha > 1:  # means do not concentrate at all, and no number of sequences will do
            return np.full(len(scale), np.inf)
        signal = np.where(scale > 0, self.data.signal, 0.0)
        return sample_complexity(1.0, signal, np.where(scale > 0, scale, 1.0), alpha, self.data.attrs["error"])

    def window(self, n_sequences: int, definition: str = "supremum", rate: str = "variance") -> Window:
        """Read the window off for a number of sequences, over the lags that are detected.

        ``definition="supremum"`` is the longest visible lag, ``"first_passage"`` the longest up to which all measured lags are. The
        interval is that of noise with a variance, whatever the `rate`.
        """
        integer_in("n_sequences", n_sequences, 1)
        low, high = self.data.required_interval.transpose("bound", "lag").values
        lags, detected = self.data.lag.values.tolist(), self.data.detected.values.astype(bool)
        needed = np.stack([np.where(detected, self.required(rate), np.inf), np.where(detected, high, np.inf), low])
        return Window(*learnability_window(lags, needed, [n_sequences], definition=definition)[:, 0].tolist())

    def table(self) -> pd.DataFrame:
        """List windows for some numbers of sequences, with that of the summary among them."""
        numbers = sorted({*(8**k for k in range(7)), int(self.data.attrs["n_sequences"])})
        columns = {
            "sequences N": [f"{n:,}" for n in numbers],
            "every measured lag visible up to": [str(self.window(n, "first_passage")) for n in numbers],
            "longest visible lag": [str(self.window(n)) for n in numbers],
            "with stable tails": [str(self.window(n, rate="mean").steps) for n in numbers],
        }
        return pd.DataFrame(columns).set_index("sequences N")

    def facts(self) -> pd.Series:
        """List what was measured besides."""
        data, last = self.data, self.data.isel(lag=-1)
        tau, p = (data[name].values[np.isfinite(data[name])] for name in ("time_scale", "goodness_of_fit"))
        scales = ", ".join(f"{t:.3g}" for t in np.quantile(tau, [0.1, 0.5, 0.9])) if len(tau) else "none"
        false = stats.binomtest(int(data.false_windows), SIGN_DRAWS)
        low, high = false.proportion_ci(LEVEL)
        exponent = f"{data.exponent.median():.1f}" if data.exponent.median() >= _USUAL[0] else "none, for they do not"
        return pd.Series(
            {name: data.attrs[name] for name in ("network", "loss", "measured_on")}
            | {
                "time scales τ of 10 %, 50 %, 90 % of the neurons": scales,
                f"envelope f(ℓ), at lag {data.lag[0]:d} and at lag {last.lag:d}": f"{data.envelope[0]:.3g}, {last.envelope:.3g}",
                "share of the transport beside its diagonal there": f"{data.off_diagonal[0]:.2f}, {last.off_diagonal:.2f}",
                "tail index α of the whole gradient along a lag's direction": f"{data.tail_index.min():.2f} to {data.tail_index.max():.2f}",
                "exponent with which means of sequences concentrate": f"{exponent} (median; 2 for noise with a variance)",
                "lags at which a stable law does not fit those numbers": f"{holm(p[None], 1 - LEVEL).sum()} of {len(p)} (Holm, 5 %)",
                "false windows: any lag seen with each sequence's sign at random": f"{false.statistic:.1%} ({low:.1%} to {high:.1%})",
                "intervals": f"for all lags together, along the directions found: {HELD}; another seed finds other directions",
            }
        )

    def __str__(self) -> str:
        """Say what was found, in a few sentences. Only measured lags are spoken of."""
        data, attrs, n = self.data, self.data.attrs, int(self.data.attrs["n_sequences"])
        lags, numbers, seen = data.lag.values, data.sizes["sequence"], int(data.detected.sum())
        past = "the loss" if attrs["source"] == "error" else "the loss, as if nothing had been learned yet,"
        said = [f"Interrupted: {numbers:,} sequences gave numbers."] if self.interrupted else []
        said += [
            f"In {n:,} sequences the longest lag that the gradient of {past} shows is {self.window(n)} steps, and every measured lag is",
            f"shown up to {self.window(n, 'first_passage')} (0: none; in brackets {100 * LEVEL:.0f} % intervals).",
            f"Of {len(lags)} lags measured, {lags[0]} to {lags[-1]}, {seen} are detected in the {numbers:,} sequences that gave numbers;",
            f"a lag is shown if it is and N(ℓ) ≤ {n:,}.",
        ]
        if data.tail_index.median() <= 1 or not _USUAL[0] <= data.exponent.median() <= _USUAL[1]:
            said.append(
                "Beware: a few sequences make most of the noise, so that intervals hold less often than they say; take more sequences."
            )
        return textwrap.fill(" ".join([*said, attrs["measured_on"].partition(":")[0].capitalize() + "."]), 84)

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        tables = self.table().to_html() + self.facts().to_frame().to_html(header=False)
        more = f"<details><summary>All numbers</summary>{self.data._repr_html_()}</details>"
        return f'<div class="diagnosis"><p>{html.escape(str(self))}</p>{tables}{more}</div>'

    def plot(self) -> Figure:
        """Draw what was measured in one picture."""
        from lwcore.diagnose import figure as plots_diagnosis  # import Matplotlib, which measuring does without

        return plots_diagnosis.diagnosis(self)

    def save(self, path: str | Path) -> None:
        """Store the dataset as netCDF."""
        results.save(self.data, path)

    @classmethod
    def load(cls, path: str | Path) -> Diagnosis:
        """Read a diagnosis that `save` has stored."""
        data = results.load(path)
        if "measured_on" not in data.attrs:
            raise ValueError(f"path = {str(path)!r}: holds {data.attrs.get('name', 'something')!r}, not a diagnosis.")
        return cls(data)
