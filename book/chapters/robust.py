"""Numbers measured at real gradients, one a sequence, and how far the farthest lies.

Two noises, as in `inference`: ``"own"``, the numbers are the lag's own part of the gradient;
``"whole"``, they are the whole gradient along the same direction.
"""

from __future__ import annotations

import xarray as xr

from lwcore.inference import probes

CASES = {
    "the paper's statistic": ("zeroth", "own"),
    "the lag's part of the gradient": ("whole", "own"),
    "inside the whole gradient": ("whole", "whole"),
    "inside it, along the lag's own gradient": ("gradient", "whole"),
}


def numbers(results: xr.Dataset, view: str, noise: str) -> xr.DataArray:
    """Numbers of a run that kept them, by model, seed, probe, lag and sequence.

    Of the whole gradient along a random direction, the same at all lags, there is one lag.
    """
    found = probes(results, view)["statistic" if noise == "own" else "projection"].astype(float)
    return found.isel(lag=[0]) if noise == "whole" and view == "whole" else found


def largest(samples: xr.DataArray) -> xr.DataArray:
    """Distance of the farthest number from the mean of all sequences, in standard deviations."""
    return abs(samples - samples.mean("sequence")).max("sequence") / samples.std("sequence")
