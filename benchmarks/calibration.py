"""How often windows are wrong: rules of detection on drawn numbers.

``python -m benchmarks.calibration`` records it.
"""

import itertools
from pathlib import Path

import numpy as np
import xarray as xr
from rich.progress import track

from benchmarks.planted import PLANTED, counts, draw
from lwcore import results
from lwcore.experiment.config import DiagnosticSettings

FOLDER = Path(__file__).parents[1] / "book" / "results" / "trust"
ALPHAS = (1.2, 1.5, 1.8, 2.0)
SIZES = (64, 256, 1024)
TRIALS = 1000
AT_ONCE = 50
SIGNIFICANCE = 0.05  # a level at which a thousand trials can tell right from wrong
TRUTHS = {"nothing": (0.0,) * len(PLANTED), "planted": PLANTED}


def drawn() -> xr.Dataset:
    """Count on numbers drawn from stable laws."""
    settings = DiagnosticSettings(
        sequences=32,
        lags=(1,),
        ends=1,
        directions=1,
        orders=("exact",),
        significance=SIGNIFICANCE,
        budgets=(1,),
    )
    cases = list(itertools.product(TRUTHS, ALPHAS, SIZES))
    parts = []
    for number, (truth, alpha, n) in enumerate(track(cases, "drawn numbers")):
        rng = np.random.default_rng([number, 20])
        means = TRUTHS[truth]
        true_window = sum(mean >= 1 for mean in means)
        batches = []
        for _ in range(TRIALS // AT_ONCE):
            numbers = draw(alpha, n, AT_ONCE, rng, means)
            batches.append(counts(numbers, settings, true_window))
        total = _total(batches)
        parts.append(total.expand_dims(truth=[truth], alpha=[alpha], n_sequences=[n]))
    return _combined(parts).assign_attrs(trials=TRIALS)


def _total(batches: list[xr.Dataset]) -> xr.Dataset:
    """Return the sum of counts of several batches of trials."""
    return sum(batches[1:], batches[0])


def _combined(parts: list[xr.Dataset]) -> xr.Dataset:
    """Return counts of several cases as one data set."""
    combined = xr.combine_by_coords(parts, combine_attrs="drop")
    assert isinstance(combined, xr.Dataset)
    return combined


def main() -> None:
    """Measure and record."""
    data = drawn()
    attributes = {"name": "calibration", "significance": SIGNIFICANCE, "fingerprint": "calibration"}
    attributes = data.attrs | attributes | results.environment()
    results.save(data.assign_attrs(attributes), FOLDER / "calibration.nc")


if __name__ == "__main__":
    main()
