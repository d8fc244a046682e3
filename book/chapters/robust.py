"""Robust averages of the numbers measured at real gradients, one number a sequence.

Two noises, as in `inference`: ``"own"``, the numbers are the lag's own part of the gradient;
``"whole"``, they are the whole gradient along the same direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters.resampling import ESTIMATORS, ONE_NUMBER, concentration, resampled, spread
from lwcore.inference import probes
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

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


def study(results: xr.Dataset, view: str, noise: str, rng: np.random.Generator) -> xr.Dataset:
    """Estimators compared on a run's numbers, with stable numbers of the fitted α as a control.

    By network: the fitted ``alpha``, the exponent p ``implied`` by it, and by ``estimator`` the
    ``exponent`` measured and the ``control``, so measured on ten sets of as many stable numbers
    (medians over probes and every fifth lag, and over sets); likewise the `largest` number. By
    probe and lag, too: ``bias``, location less mean, its standard error, and ``deviation`` of one
    number.
    """
    samples, looked_at = numbers(results, view, noise), probes(results, view, "error")
    n = samples.sizes["sequence"]
    # at 1 means do not concentrate at all
    alpha = looked_at.alpha.sel(noise=noise, drop=True).median("probe").fillna(1.0).clip(1.01, 2)
    # from the longest lag down; enough for an exponent
    few = samples.isel(lag=slice(None, None, -5)).stack(column=("probe", "lag"))
    core: Any = {"output_core_dims": [["column", "sequence"]], "vectorize": True}
    control = xr.apply_ufunc(lambda a: SymmetricStable(a).sample((10, n), rng), alpha, **core)
    exponent, on_stable = (
        -1 / _over_sequences(lambda x: concentration(x, rng), data).median("column")
        for data in (few, control)
    )

    def locate(x: Array) -> Array:
        found = resampled(x, ONE_NUMBER, rng)
        # from the mean of the same resample: what the two share is no bias
        away = found - found[..., :1, :]
        error = away.std(-1) * (ONE_NUMBER / n) ** 0.5
        return np.stack([away.mean(-1), error, spread(found) * ONE_NUMBER**0.5], -1)

    located = _over_sequences(locate, samples, "quantity").drop_vars("lag")
    if samples.sizes["lag"] == 1:
        located = located.isel(lag=[0] * results.sizes["lag"])
    located = located.assign_coords(lag=results.lag)
    variables = {
        "alpha": alpha,
        "implied": alpha / (alpha - 1),
        "exponent": exponent,
        "control": on_stable,
        "largest": largest(few).median("column"),
        "largest_control": largest(control).median("column"),
    }
    for i, name in enumerate(("bias", "bias_error", "deviation")):
        variables[name] = located[..., i]
    return xr.Dataset(variables)


def _over_sequences(
    function: Callable[[Array], Array], samples: xr.DataArray, *more: str
) -> xr.DataArray:
    """A function along the sequences that gives one value, or several, for each estimator."""
    core: Any = {"input_core_dims": [["sequence"]], "output_core_dims": [["estimator", *more]]}
    found = xr.apply_ufunc(function, samples, **core)
    return found.assign_coords(estimator=list(ESTIMATORS))
