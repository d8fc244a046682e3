"""Convert runs that were recorded when N(ℓ) and windows were stored: what is left is what they are
computed from.

``.venv/bin/python book/results/convert.py FOLDER`` converts the files of a folder in place, and
lists them in its ``SHA256SUMS``. A file is written only if the package gives back every detection
and window that it held exactly, and every N(ℓ) to rounding. Files in the new layout are left as
they are.

The standard deviation of the whole gradient was not stored. It follows from the N(ℓ) that was
computed from it, ``N = (C σ/Δ)²`` with ``σ = deviation/√2``, and is NaN where the mean Δ is not
positive, so that N(ℓ) is infinite.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from pathlib import Path

import numpy as np
import xarray as xr

from lwcore.detection import sample_complexity
from lwcore.inference import LETTER, NOISES, RATES, config_of, detected, required, windows
from lwcore.results import MANIFEST, load, save

READINGS = {rate: {"rate": rate} for rate in RATES} | {"letter_v2": LETTER}
WORDS = {"noise_definition": "noise", "reading": "rate"}
NAMES = {"noise": list(NOISES)}


def converted(old: xr.Dataset) -> xr.Dataset:
    """Rename, leave out what is computed now, and add the deviations and the number of
    sequences."""
    if "required" not in old:  # counts of calibration; no table shows version 2's letter of them
        return old.drop_sel(reading="letter_v2").rename(WORDS).assign_coords(NAMES)
    settings = config_of(old).diagnostics
    count = settings.sequences - settings.sequences // 2
    needed = old.required.sel(
        rule="plug-in", reading="variance", noise_definition="total", drop=True
    )
    whole = old.signal * np.sqrt(2 * needed / sample_complexity(1.0, 1.0, 1.0, 2.0, settings.error))
    deviation = xr.concat(
        [old.signal_error * np.sqrt(count), whole.where(np.isfinite(whole))], "noise"
    ).assign_coords(NAMES)
    kept = old.drop_vars(["required", "window", "detected"]).drop_dims(
        ["reading", "rule", "definition", "budget"]
    )
    kept = kept.rename(noise_definition="noise").assign_coords(NAMES)
    return kept.assign(
        deviation=deviation.assign_attrs(long_name="standard deviation of one sequence's number"),
        n_measured=xr.DataArray(count, attrs={"long_name": "number of sequences measured"}),
    )


def verify(old: xr.Dataset, new: xr.Dataset) -> float:
    """Compare all that the old file held with what is computed now; give the largest relative
    difference of N(ℓ)."""
    xr.testing.assert_equal(detected(new).transpose(*old.detected.dims), old.detected)
    largest = 0.0
    for (name, how), (before, noise), rule in itertools.product(
        READINGS.items(), zip(old.noise_definition.values, NOISES, strict=True), old.rule.values
    ):
        at = {"reading": name, "noise_definition": before, "rule": rule}
        stored = old[["required", "window"]].sel(at, drop=True)
        needed = (
            required(new, noise=noise, rule=rule, **how).transpose(*stored.required.dims).values
        )
        np.testing.assert_allclose(needed, stored.required.values, rtol=1e-12)
        finite = np.isfinite(needed)
        largest = max(
            largest,
            float(abs(needed[finite] / stored.required.values[finite] - 1).max(initial=0.0)),
        )
        for definition in old.definition.values:
            found = windows(new, definition=definition, noise=noise, rule=rule, **how)
            expected = stored.window.sel(definition=definition, drop=True)
            xr.testing.assert_equal(found.transpose(*expected.dims), expected)
    return largest


def main(folder: Path) -> None:
    """Convert a folder's files."""
    for path in sorted(folder.glob("*.nc")):
        old = load(path)
        if "noise_definition" not in old.dims:
            continue
        new, before = converted(old), path.stat().st_size
        largest = verify(old, new) if "required" in old else 0.0
        save(new, path)
        print(
            f"{path.name}: {before:,} to {path.stat().st_size:,} bytes; N(ℓ) within {largest:.0e}"
        )
    listed = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.glob("*.nc"))
    )
    if (folder / MANIFEST).exists():
        (folder / MANIFEST).write_text("".join(listed))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
