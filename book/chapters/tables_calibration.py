"""Tables of the chapter on calibration: how often each rule sees what is not there, as counted by
``make calibration``.

Entries are percentages with exact 95 % intervals, but where they say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import special

from book.chapters import controls
from lwcore.inference import LETTER, OPTIMISER, RULES, config_of, false_detections, probes, windows
from lwcore.stats import binomial


def by_rate(recorded: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Show in how many draws without any signal a window was read off, for every rule, noise and
    rate.

    Args:
        recorded: ``calibration.nc``.
        n_sequences: Number of sequences of a draw, one of those recorded.

    Returns:
        Percentages over rule, noise and rate, a column for each α.
    """
    hits = recorded.too_long.sel(truth="nothing", n_sequences=n_sequences).squeeze(
        "view", drop=True
    )
    return _table(hits, recorded.attrs["trials"], ("rule", "noise", "rate"), "alpha", "α = {:g}")


def by_size(recorded: xr.Dataset, rate: str = "mean") -> pd.DataFrame:
    """Show the same for one rate and several numbers of sequences.

    Args:
        recorded: ``calibration.nc``.
        rate: One of `inference.RATES`.

    Returns:
        Percentages over rule, noise and number of sequences, a column for each α.
    """
    hits = recorded.too_long.sel(truth="nothing", rate=rate).squeeze("view", drop=True)
    return _table(
        hits, recorded.attrs["trials"], ("rule", "noise", "n_sequences"), "alpha", "α = {:g}"
    )


def wrong_windows(recorded: xr.Dataset, n_sequences: int, rate: str = "mean") -> pd.DataFrame:
    """Show in how many draws with planted signals the window is too long, or too short, held
    against the truth in the whole's noise.

    Args:
        recorded: ``calibration.nc``.
        n_sequences: Number of sequences of a draw.
        rate: One of `inference.RATES`.

    Returns:
        Percentages over kind of error, rule and noise, a column for each α.
    """
    chosen = recorded.sel(truth="planted", n_sequences=n_sequences, rate=rate).squeeze(
        "view", drop=True
    )
    tables = {
        words: _table(
            chosen[name], recorded.attrs["trials"], ("rule", "noise"), "alpha", "α = {:g}"
        )
        for name, words in (("too_long", "too long"), ("too_short", "too short"))
    }
    return pd.concat(tables, names=["window"])


def networks(recorded: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Show the same for trained networks whose error is replaced by noise, all networks together.

    Args:
        recorded: ``calibration-networks.nc``.
        n_sequences: Number of sequences of a draw.

    Returns:
        Percentages over rule, noise and rate, a column for each view.
    """
    hits = recorded.too_long.sel(rate=["mean", "variance"], n_sequences=n_sequences).sum("model")
    trials = recorded.trials.sel(n_sequences=n_sequences).sum("model").item()
    return _table(hits, trials, ("rule", "noise", "rate"), "view", "{}")


def windows_with_error(
    results: xr.Dataset, n_sequences: int, rng: np.random.Generator, draws: int = 200
) -> pd.DataFrame:
    """Show the recorded windows along each lag's own gradient, and how often the same rule gives
    one where there is no signal.

    Args:
        results: A run that kept its numbers.
        n_sequences: N at which windows are read.
        rng: Source of the signs.
        draws: Draws of signs for each network.

    Returns:
        For each model: windows of its networks (least, median, largest, in steps), the level of the
            test, and the false windows of all its
        networks at any N, signs drawn at random.
    """
    level = config_of(results).diagnostics.significance
    own = probes(results, "gradient", "error")
    reach = windows(own, n_sequences, **OPTIMISER)
    rows = {}
    for model in results.model.values:
        found = reach.sel(model=model).values.ravel()
        numbers = (
            own.statistic.sel(model=model)
            .transpose("seed", "probe", "lag", "sequence")
            .values.astype(np.float64)
        )
        hits = sum(false_detections(one, level, rng, draws) for one in numbers)
        rows[model] = {
            "window (steps)": f"{np.median(found):.0f} ({found.min():.0f} to {found.max():.0f})",
            "level (%)": f"{100 * level:g}",
            "false windows (%)": _percent(hits, draws * len(numbers)),
        }
    return pd.DataFrame.from_dict(rows, "index").rename_axis("model")


def by_error(
    runs: dict[str, tuple[xr.Dataset, int]],
    errors: Sequence[float],
    rng: np.random.Generator,
    draws: int = 200,
) -> pd.DataFrame:
    """Show how often the plug-in rule sees a window at zeroth order where nothing is, against the
    error ε that N(ℓ) is asked for.

    Args:
        runs: Names, recorded runs that kept their numbers, and N at which windows are read.
        errors: ε, each in (0, 0.5); behind them stands 0.05 divided by the number of lags and
            directions.
        rng: Source of the signs.
        draws: Draws of signs for each network.

    Returns:
        For each run and ε, in percent: the chance of any false detection among so many independent
            ones; networks with a window though
        noise replaces the error, N(ℓ) to version 2's letter, where f stands twice, and with f
        counted once, by the sample's variance; and windows by the latter in draws of the signs of
        the sequences, there the mean over networks and its interval by Student's t.
    """
    rows = {}
    for name, (results, n_sequences) in runs.items():
        tests = results.sizes["lag"] * probes(results, "zeroth").sizes["probe"]
        asked = {f"{e:g}": e for e in errors} | {f"0.05/{tests}": 0.05 / tests}
        for words, error in asked.items():
            letter, once = (
                int(controls.believed(results, n_sequences, error, **how).any("probe").sum())
                for how in (LETTER, {"rate": "variance"})
            )
            chance = controls.believed_by_chance(results, error, rng, draws)
            rows[name, words] = {
                "1 − (1 − ε)ⁿ": f"{100 * (1 - (1 - error) ** tests):.1f}",
                "noise, letter of version 2": _percent(letter, chance.size),
                "noise, f once": _percent(once, chance.size),
                "signs at random, f once": _over_networks(chance.values.ravel() / draws),
            }
    return pd.DataFrame.from_dict(rows, "index").rename_axis(["run", "ε"])


def _table(
    hits: xr.DataArray, trials: int, rows: Sequence[str], column: str, words: str
) -> pd.DataFrame:
    """Lay counts out as percentages."""
    ordered = hits.sel(rule=list(RULES)).transpose(*rows, column)
    index = pd.MultiIndex.from_product(
        [ordered[name].values for name in rows], names=[name.partition("_")[0] for name in rows]
    )
    values: NDArray[np.int64] = ordered.values.reshape(len(index), -1)
    return pd.DataFrame(
        {
            words.format(label): [_percent(k, trials) for k in values[:, i]]
            for i, label in enumerate(ordered[column].values)
        },
        index=index,
    )


def _over_networks(shares: NDArray[np.float64]) -> str:
    """Write the mean of networks' shares in percent with its 95 % interval: a network is one
    sample, whatever was drawn from it."""
    half = shares.std(ddof=1) / np.sqrt(len(shares)) * special.stdtrit(len(shares) - 1, 0.975)
    return "{:.1f} ({:.1f}–{:.1f})".format(
        *100 * np.clip(shares.mean() + half * np.array([0, -1, 1]), 0, 1)
    )


def _percent(hits: int, trials: int) -> str:
    """Write a share in percent with its interval, whole numbers from 10 on."""
    _, low, high = binomial(hits, trials)
    share, least, largest = (
        f"{100 * x:.0f}" if x >= 0.1 else f"{100 * x:.1f}"
        for x in (hits / trials, float(low), float(high))
    )
    return f"{share} ({least}–{largest})"
