"""The number of sequences that a single lag takes to be learned, from a sweep over both."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

LEARNED = 0.5  # a lag counts as learned if at least this share of its coefficient is recovered


def single_lag_share(results: xr.Dataset) -> xr.DataArray:
    """Learned over planted coefficient of a sweep's one delay (model, seed, lag, sequences)."""
    ratio = (results.learned / results.planted).sel(delay=results.lag).drop_vars("delay")
    return ratio.transpose("model", "seed", "lag", "sequences").sortby(["lag", "sequences"])


def sequences_needed(share: xr.DataArray) -> xr.DataArray:
    """Number of sequences N(ℓ) at which the mean share over seeds crosses a half.

    The share (…, seed, sequences) is made to rise with N by monotone regression and is interpolated
    on log N. N(ℓ) is infinite where a half is never reached, and the smallest of the grid where it
    is reached there already.
    """
    log_n = np.log(share.sequences.values.astype(float))

    def crossing(means: NDArray[np.float64]) -> float:
        rising = isotonic_regression(means).x
        after = int(np.argmax(rising >= LEARNED))
        if rising[-1] < LEARNED:
            return np.inf
        around = slice(max(after - 1, 0), after + 1)
        return float(np.exp(np.interp(LEARNED, rising[around], log_n[around])))

    means = share.mean("seed")
    return xr.apply_ufunc(crossing, means, input_core_dims=[["sequences"]], vectorize=True)


def ease(share: xr.DataArray) -> xr.DataArray:
    """Ease of learning −log N(ℓ) of every single network (model, seed, lag), for ranks.

    It is −∞ where a half is never reached.
    """
    each = sequences_needed(share.rename(seed="network").expand_dims("seed")).rename(network="seed")
    return -xr.apply_ufunc(np.log, each).transpose("model", "seed", "lag")
