"""Tasks with a single lag, over a grid of lags and numbers of training sequences: where learning
begins.

``share`` is the share learned (model, seed, lag, sequences). The measured N(ℓ) is the number of
sequences at which it crosses a half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from book.chapters.agreement import LEARNED
from lwcore.inference import probes, required
from lwcore.stats import bootstrap


def single_lag_share(results: xr.Dataset) -> xr.DataArray:
    """Give the share of its one planted coefficient that each network of a sweep has recovered.

    Args:
        results: ``learned`` and ``planted`` over ``lag``, ``sequences``, ``model``, ``seed`` and
            ``delay``.

    Returns:
        Share learned (model, seed, lag, sequences).
    """
    ratio = (results.learned / results.planted).sel(delay=results.lag)
    return (
        ratio.drop_vars("delay")
        .transpose("model", "seed", "lag", "sequences")
        .sortby(["lag", "sequences"])
    )


def settled_table(results: xr.Dataset) -> pd.DataFrame:
    """Show for each number of sequences how far training had settled, and how much of the loss it
    removed by memorising.

    Args:
        results: A sweep, with ``still_falling``, ``final_loss``, ``test_loss`` and
            ``target_variance``.

    Returns:
        Percent by which the training loss fell over the last tenth of the steps, median and largest
        over networks and lags; and the medians of the training and of the test loss in percent of
        the target's variance.
    """
    others = [dim for dim in results.still_falling.dims if dim != "sequences"]
    falling, size = 100 * results.still_falling, results.target_variance / 100
    columns = {
        "still falling, median %": falling.median(others),
        "still falling, largest %": falling.max(others),
        "training loss, median %": (results.final_loss / size).median(others),
        "test loss, median %": (results.test_loss / size).median(others),
    }
    table = pd.DataFrame(
        {words: column.values for words, column in columns.items()}, results.sequences.values
    )
    return table.rename_axis("sequences N").sort_index().round(1)


def end_table(results: xr.Dataset, row: str) -> pd.DataFrame:
    """Show how training ended, medians over seeds: the share learned, and the training and the test
    loss.

    Args:
        results: Trained networks over ``model``, ``seed`` and one more dimension, each on a task
            with a single lag, with ``learned``, ``planted``, ``final_loss``, ``test_loss`` and
            ``target_variance``.
        row: The third dimension.

    Returns:
        For each value of that dimension and each model the share in percent and, in brackets, the
        two losses in percent of the target's variance.
    """
    share = (results.learned / results.planted).where(results.planted != 0).mean("delay")
    losses = (
        results.final_loss / results.target_variance,
        results.test_loss / results.target_variance,
    )
    middles = [(100 * one).median("seed") for one in (share, *losses)]
    words = xr.apply_ufunc(
        lambda s, a, b: f"{round(s)} ({a:.0f}, {b:.0f})", *middles, vectorize=True
    )
    return words.transpose(row, "model").to_pandas().rename_axis(columns=None)


def at_task(start: xr.Dataset) -> xr.Dataset:
    """Keep of networks measured on single-lag tasks what was measured at the task's own lag.

    Args:
        start: Measurements over ``task``, the task's lag, and ``lag``, the lag measured.

    Returns:
        The same with one dimension ``lag`` for both.
    """
    return start.sel(lag=start.task).drop_vars("lag").rename(task="lag").sortby("lag")


def sequences_needed(share: xr.DataArray) -> xr.DataArray:
    """Measure N(ℓ): the number of training sequences at which the mean share over seeds crosses a
    half.

    The share is made to rise with N by monotone regression and is interpolated on log N.

    Args:
        share: Share learned (…, seed, sequences); numbers of sequences increasing.

    Returns:
        Number of sequences; infinite where a half is never reached, and the smallest of the grid
        where it is reached there already.
    """
    log_n = np.log(share.sequences.values.astype(float))

    def crossing(means: NDArray[np.float64]) -> float:
        rising = isotonic_regression(means).x
        after = int(np.argmax(rising >= LEARNED))
        if rising[-1] < LEARNED:
            return np.inf
        return float(
            np.exp(
                log_n[0]
                if after == 0
                else np.interp(LEARNED, rising[after - 1 : after + 1], log_n[after - 1 : after + 1])
            )
        )

    return xr.apply_ufunc(
        crossing, share.mean("seed"), input_core_dims=[["sequences"]], vectorize=True
    )


def ease(share: xr.DataArray) -> xr.DataArray:
    """Give −log N(ℓ) of every single network, for ranks: the larger, the fewer sequences it took;
    −∞ where a half is never reached.

    Args:
        share: Share learned (model, seed, lag, sequences).

    Returns:
        The measured −log N(ℓ) (model, seed, lag).
    """
    each = sequences_needed(share.rename(seed="network").expand_dims("seed")).rename(network="seed")
    return -xr.apply_ufunc(np.log, each).transpose("model", "seed", "lag")


def frontier(share: xr.DataArray) -> xr.Dataset:
    """Measure N(ℓ) of each model, with intervals that resample seeds.

    Args:
        share: Share learned (model, seed, lag, sequences).

    Returns:
        ``needed``, ``needed_low`` and ``needed_high`` (model, lag), and the grid's numbers of
        sequences.
    """

    def needed(pick: NDArray[np.intp]) -> xr.DataArray:
        return sequences_needed(share.isel(seed=pick)).transpose("model", "lag")

    found = needed(np.arange(share.sizes["seed"])).to_dataset(name="needed")
    _, low, high = bootstrap(needed, share.sizes["seed"])
    found = found.assign(needed_low=(("model", "lag"), low), needed_high=(("model", "lag"), high))
    return found.assign_coords(sequences=share.sequences)


def needed_table(found: xr.Dataset) -> pd.DataFrame:
    """Show the measured N(ℓ) with its interval, for each lag and model; an end outside the grid as
    > or ≤ its last number."""
    first, last = found.sequences.values[[0, -1]]

    def word(number: float) -> str:
        return (
            f"> {last}" if number > last else f"≤ {first}" if number <= first else f"{number:.0f}"
        )

    def cell(number: float, low: float, high: float) -> str:
        return (
            word(number)
            if word(low) == word(high)
            else f"{word(number)} ({word(low)} to {word(high)})"
        )

    words = xr.apply_ufunc(cell, found.needed, found.needed_low, found.needed_high, vectorize=True)
    return (
        words.transpose("lag", "model").to_pandas().rename_axis(index="lag (steps)", columns=None)
    )


def predicted_needed(start: xr.Dataset, view: str, source: str, **how: Any) -> xr.DataArray:
    """Give the N(ℓ) that untrained networks predict, by the plug-in rule, median over probes.

    Args:
        start: Measurements at the task's lag, from `at_task`.
        view: View of the probes.
        source: What makes the error.
        how: For `inference.required`.

    Returns:
        Number of sequences (model, seed, lag).
    """
    log_needed: xr.DataArray = xr.apply_ufunc(
        np.log, required(probes(start, view, source), rule="plug-in", **how)
    )
    return xr.apply_ufunc(np.exp, log_needed.median("probe"))
