"""Tasks with a single lag, over a grid of lags and numbers of training sequences: where learning begins, and where it was predicted to.

``share`` is the share learned (model, seed, lag, sequences). The measured N(ℓ) is the number of sequences at which it crosses a half, the
measured window H_N follows from it by Eq. (36), as the predicted one does.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from lwcore.agreement import LEARNED, compare, hits
from lwcore.arguments import one_of
from lwcore.inference import probes
from lwcore.labelled import array_with, dataset_with
from lwcore.prediction import predictors
from lwcore.seeds import interval, resamples
from lwcore.window import learnability_window

STRATA: dict[str, tuple[str, ...]] = {
    "all points": (),
    "at each number": ("sequences",),
    "within lags and numbers": ("lag", "sequences"),
}


def single_lag_share(results: xr.Dataset) -> xr.DataArray:
    """Give the share of its one planted coefficient that each network of a sweep has recovered.

    Args:
        results: ``learned`` and ``planted`` over ``lag``, ``sequences``, ``model``, ``seed`` and ``delay``.

    Returns:
        Share learned (model, seed, lag, sequences).
    """
    dataset_with("results", results, "learned", "planted", "lag", "sequences", "delay")
    ratio = (results.learned / results.planted).sel(delay=results.lag)
    return ratio.drop_vars("delay").transpose("model", "seed", "lag", "sequences").sortby(["lag", "sequences"])


def settled_table(results: xr.Dataset) -> pd.DataFrame:
    """Show for each number of sequences how far training had settled, and how much of the loss it removed by memorising.

    Args:
        results: A sweep, with ``still_falling``, ``final_loss``, ``test_loss`` and ``target_variance``.

    Returns:
        Percent by which the training loss fell over the last tenth of the steps, median and largest over networks and lags; and the medians
        of the training and of the test loss in percent of the target's variance.
    """
    dataset_with("results", results, "still_falling", "final_loss", "test_loss", "target_variance", "sequences")
    others = [dim for dim in results.still_falling.dims if dim != "sequences"]
    falling, size = 100 * results.still_falling, results.target_variance / 100
    columns = {
        "still falling, median %": falling.median(others),
        "still falling, largest %": falling.max(others),
        "training loss, median %": (results.final_loss / size).median(others),
        "test loss, median %": (results.test_loss / size).median(others),
    }
    table = pd.DataFrame({words: column.values for words, column in columns.items()}, results.sequences.values)
    return table.rename_axis("sequences N").sort_index().round(1)


def at_task(start: xr.Dataset) -> xr.Dataset:
    """Keep of networks measured on single-lag tasks what was measured at the task's own lag.

    Args:
        start: Measurements over ``task``, the task's lag, and ``lag``, the lag measured.

    Returns:
        The same with one dimension ``lag`` for both.
    """
    dataset_with("start", start, "task", "lag")
    return start.sel(lag=start.task).drop_vars("lag").rename(task="lag").sortby("lag")


def sequences_needed(share: xr.DataArray) -> xr.DataArray:
    """Measure N(ℓ): the number of training sequences at which the mean share over seeds crosses a half.

    The share is made to rise with N by monotone regression and is interpolated on log N.

    Args:
        share: Share learned (…, seed, sequences); numbers of sequences increasing.

    Returns:
        Number of sequences; infinite where a half is never reached, and the smallest of the grid where it is reached there already.
    """
    array_with("share", share, "seed", "sequences")
    log_n = np.log(share.sequences.values.astype(float))

    def crossing(means: NDArray[np.float64]) -> float:
        rising = isotonic_regression(means).x
        after = int(np.argmax(rising >= LEARNED))
        if rising[-1] < LEARNED:
            return np.inf
        return float(np.exp(log_n[0] if after == 0 else np.interp(LEARNED, rising[after - 1 : after + 1], log_n[after - 1 : after + 1])))

    return xr.apply_ufunc(crossing, share.mean("seed"), input_core_dims=[["sequences"]], vectorize=True)


def ease(share: xr.DataArray) -> xr.DataArray:
    """Give −log N(ℓ) of every single network, for ranks: the larger, the fewer sequences it took; −∞ where a half is never reached.

    Args:
        share: Share learned (model, seed, lag, sequences).

    Returns:
        The measured −log N(ℓ) (model, seed, lag).
    """
    array_with("share", share, "model", "seed", "lag", "sequences")
    each = sequences_needed(share.rename(seed="network").expand_dims("seed")).rename(network="seed")
    return -xr.apply_ufunc(np.log, each).transpose("model", "seed", "lag")


def frontier(share: xr.DataArray) -> xr.Dataset:
    """Measure N(ℓ) and the window H_N, with intervals that resample seeds. Implements Eq. (36) on what was learned.

    Args:
        share: Share learned (model, seed, lag, sequences).

    Returns:
        ``needed`` (model, lag), ``window`` (model, sequences), in steps, 0 where no lag was learned, each with ``_low`` and ``_high``.
    """
    array_with("share", share, "model", "seed", "lag", "sequences")
    picks, weights = resamples(share.sizes["seed"])
    lags, numbers = share.lag.values, share.sequences.values
    needed = [sequences_needed(share.isel(seed=pick)).transpose("model", "lag").values for pick in (np.arange(share.sizes["seed"]), *picks)]
    windows = [learnability_window(lags, one, numbers) for one in needed]
    found: dict[str, tuple[tuple[str, str], ArrayLike]] = {}
    for name, dim, values in (("needed", "lag", needed), ("window", "sequences", windows)):
        low, high = interval(np.array(values[1:], float), weights, share.sizes["seed"])
        found |= {name + end: (("model", dim), value) for end, value in (("", values[0]), ("_low", low), ("_high", high))}
    return xr.Dataset(found, {"model": share.model.values, "lag": lags, "sequences": numbers})


def needed_table(found: xr.Dataset) -> pd.DataFrame:
    """Show the measured N(ℓ) with its interval, for each lag and model; an end outside the grid as > or ≤ its last number."""
    dataset_with("found", found, "needed", "needed_low", "needed_high", "sequences")
    first, last = found.sequences.values[[0, -1]]

    def word(number: float) -> str:
        return f"> {last}" if number > last else f"≤ {first}" if number <= first else f"{number:.0f}"

    def cell(number: float, low: float, high: float) -> str:
        return word(number) if word(low) == word(high) else f"{word(number)} ({word(low)} to {word(high)})"

    words = xr.apply_ufunc(cell, found.needed, found.needed_low, found.needed_high, vectorize=True)
    return words.transpose("lag", "model").to_pandas().rename_axis(index="lag (steps)", columns=None)


def window_table(found: xr.Dataset) -> pd.DataFrame:
    """Show the measured window H_N with its interval, in steps, for each number of sequences and model."""
    dataset_with("found", found, "window", "window_low", "window_high", "sequences")
    words = xr.apply_ufunc(
        lambda h, low, high: f"{h:.0f} ({low:.0f} to {high:.0f})", found.window, found.window_low, found.window_high, vectorize=True
    )
    return words.transpose("sequences", "model").to_pandas().rename_axis(index="sequences N", columns=None)


def predicted_needed(start: xr.Dataset, view: str, noise: str, reading: str, source: str) -> xr.DataArray:
    """Give the N(ℓ) that untrained networks predict, by the plug-in rule, median over probes.

    Args:
        start: Measurements at the task's lag, from `at_task`.
        view: View of the probes.
        noise: ``"lag"`` or ``"total"``.
        reading: One of `inference.READINGS`.
        source: What makes the error.

    Returns:
        Number of sequences (model, seed, lag).
    """
    dataset_with("start", start, "view", "required", "source")
    chosen = probes(start, view).required
    for name, value, known in (
        ("noise", noise, start.noise_definition),
        ("reading", reading, start.reading),
        ("source", source, start.source),
    ):
        one_of(name, value, dict.fromkeys(known.values.tolist()))
    return np.exp(np.log(chosen.sel(rule="plug-in", noise_definition=noise, reading=reading, source=source, drop=True)).median("probe"))


def grid_scores(start: xr.Dataset, share: xr.DataArray) -> xr.DataArray:
    """Spread predictions over the grid: how far N exceeds what is needed, on a logarithmic scale.

    A predicted N(ℓ) gives log N − log N(ℓ), 0 where learning should begin. Envelopes and signal/scale ratios, which name no number, give
    log N + 2 log f, by Eq. (38) with p = 2. Three need no measurement: N over the lag, the baseline; plain lag; and N alone.

    Args:
        start: Measurements at the task's lag, from `at_task`.
        share: Share learned (model, seed, lag, sequences).

    Returns:
        Scores (predictor, model, seed, lag, sequences).
    """
    dataset_with("start", start, "envelope", "required", "signal", "scale", "lag", "view", "source")
    array_with("share", share, "model", "seed", "lag", "sequences")
    single = predictors(start, "before").transpose("predictor", "model", "seed", "lag")
    log_n = np.log(share.sequences)
    plain, measured = single.isel(predictor=slice(1)), single.isel(predictor=slice(1, None))
    with np.errstate(divide="ignore"):
        ratio = measured.predictor.str.startswith("signal")
        weight = xr.where(measured.predictor.str.startswith("N:"), 1, 2)
        height = xr.where(ratio, np.log(measured.clip(0)), measured)
    trivial = {"N over the lag": log_n - np.log(-plain), "plain lag": plain + 0 * log_n, "N alone": log_n + 0 * plain}
    made = [one.assign_coords(predictor=[name]) for name, one in trivial.items()]
    return xr.concat([*made, log_n + weight * height], "predictor").transpose("predictor", *share.dims)


def hit_table(scores: xr.DataArray, share: xr.DataArray) -> pd.DataFrame:
    """Show at how many points ``N(ℓ) ≤ N`` and being learned go together, beside the best constant answer.

    Args:
        scores: From `grid_scores`; only predictors that name a number are shown.
        share: Share learned (model, seed, lag, sequences).

    Returns:
        Percent of the points with an interval over seeds, the best first. The last row is the more frequent of "all" and "none".
    """
    array_with("scores", scores, "predictor", "seed")
    array_with("share", share, "seed")
    numbers = scores.isel(predictor=np.flatnonzero(scores.predictor.str.startswith("N:")))
    found = 100 * compare(numbers, share, {"all": ()}, {"right": hits}).squeeze()
    rows = {
        (name, source): f"{value:.0f} ({low:.0f} to {high:.0f})"
        for name, source, value, low, high in sorted(
            zip(*(found[part].values for part in ("predictor", "source", "value", "low", "high")), strict=True), key=lambda row: -row[2]
        )
    }
    learned = float(100 * (share >= LEARNED).mean())
    rows["always the same answer", "–"] = f"{max(learned, 100 - learned):.0f}"
    return pd.DataFrame({"right (% of points)": rows}).rename_axis(["predictor", "error from"])
