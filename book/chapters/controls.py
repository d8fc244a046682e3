"""Controls on a recorded run: what must not change a window, what must leave none, and what it
hangs on.

All are computed afresh from each sequence's numbers, which a run stores if its configuration says
``keep_numbers``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from lwcore.inference import (
    DEFINITIONS,
    LETTER,
    NOISES,
    RATES,
    RULES,
    config_of,
    detected,
    false_detections,
    probes,
    required,
    summary,
    window_of,
)
from lwcore.stats import Interval, binomial

Array = NDArray[np.int64]


def invariances(
    results: xr.Dataset, rng: np.random.Generator, models: list[str] | None = None
) -> pd.DataFrame:
    """Count the windows that stay as they are when the numbers are rescaled or permuted, or the
    grid of N is refined.

    The windows are those of all views, noises, rates, rules and definitions, and of version 2 to
    the letter, at the run's budgets and of its first seed.

    Args:
        results: A run that kept its numbers.
        rng: Source of the permutation.
        models: Some of its models; all if None.

    Returns:
        For each control: windows compared, and windows that changed.
    """
    budgets = np.array(config_of(results).diagnostics.budgets)
    refined = np.unique(
        [*np.geomspace(budgets[0], budgets[-1], 4 * len(budgets)).round().astype(int), *budgets]
    )
    order = rng.permutation(_numbers(results).sizes["sequence"])
    controls: dict[str, tuple[Callable[[xr.Dataset], xr.Dataset], Array]] = {
        "statistic × 1,000,000": (lambda numbers: _rescaled(numbers, 1e6), budgets),
        "statistic ÷ 1,000,000": (lambda numbers: _rescaled(numbers, 1e-6), budgets),
        "four times as many numbers N": (lambda numbers: numbers, refined),
        "sequences in another order": (lambda numbers: numbers.isel(sequence=order), budgets),
    }
    counts = dict.fromkeys(controls, np.zeros(2, int))
    for model in models or results.model.values.tolist():
        numbers = _numbers(results.sel(model=model).isel(seed=0))
        plain = _all_windows(numbers, budgets)
        for name, (change, at) in controls.items():
            differs = _all_windows(change(numbers), at).sel(budget=budgets) != plain
            counts[name] = counts[name] + [differs.size, int(differs.sum())]
    return pd.DataFrame.from_dict(
        counts, orient="index", columns=["windows", "changed"]
    ).rename_axis("control")


def nulls(
    results: xr.Dataset, rng: np.random.Generator, level: float = 0.05, draws: int = 8
) -> pd.DataFrame:
    """Count the null controls without a window, where the chance of any false detection in a
    network and view is held at a level.

    Two nulls: independent noise in the place of the error, one draw a network; and the measured
    numbers with the sign of each sequence drawn at random, which keeps their tails and their
    dependence between lags and directions.

    Args:
        results: A run that kept its numbers.
        rng: Source of the signs.
        level: The level, in (0, 1).
        draws: Draws of signs for each network, at least 1.

    Returns:
        For each null and view: draws, draws without a window, and their share in percent with its
            95 % Clopper–Pearson interval.
    """
    statistic = _numbers(results).statistic.transpose("model", "seed", "probe", "lag", "sequence")
    rows = []
    for view in dict.fromkeys(results.view.values):
        found = detected(probes(results, view, "noise"), level).any(("probe", "lag"))
        rows.append(("noise in the place of the error", view, found.size, int((~found).sum())))
        networks = (
            statistic.isel(probe=np.flatnonzero(results.view == view))
            .stack(network=("model", "seed"))
            .transpose("network", ...)
        )
        seen = sum(false_detections(numbers, level, rng, draws) for numbers in networks.values)
        rows.append(
            (
                "signs of the sequences at random",
                view,
                found.size * draws,
                found.size * draws - seen,
            )
        )
    table = (
        pd.DataFrame(rows, columns=["null", "view", "draws", "without a window"])
        .set_index(["null", "view"])
        .sort_index(level=0, sort_remaining=False)
    )
    table["% (95 % interval)"] = [_share(int(k), int(n)) for n, k in table.itertuples(index=False)]
    return table


def other_directions(results: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Compare the run's two random directions w: how much hangs on the draw?

    Args:
        results: A run with at least two directions.
        n_sequences: N at which windows are compared.

    Returns:
        For each view along random directions and each noise: in how many networks both directions
            give the same window (supremum,
        tested), the median over networks of the larger window and of the smaller, in steps, and the
        median ratio of the larger N(ℓ) to the smaller over the lags that both detect.
    """
    rows = []
    for view in ("zeroth", "first", "whole"):
        for noise in NOISES:
            needed = required(probes(results, view, "error"), noise=noise, rate="variance")
            pair = window_of(needed, n_sequences).isel(probe=[0, 1])
            ratio = abs(xr.apply_ufunc(np.log, needed).isel(probe=[0, 1]).diff("probe")).values
            both = np.isfinite(ratio)
            rows.append(
                {
                    "view": view,
                    "noise": noise,
                    "same window": f"{int((pair.diff('probe') == 0).sum())} of {pair.size // 2}",
                    "larger window": float(pair.max("probe").median()),
                    "smaller window": float(pair.min("probe").median()),
                    "ratio of N(ℓ)": round(float(np.exp(np.median(ratio[both]))), 2)
                    if both.any()
                    else np.nan,
                }
            )
    return pd.DataFrame(rows).set_index(["view", "noise"])


def shuffled_lags(
    results: xr.Dataset, n_sequences: int, rng: np.random.Generator, draws: int = 50
) -> pd.DataFrame:
    """Give every lag another lag's N(ℓ): does the window know the order of the lags?

    Args:
        results: A run.
        n_sequences: N at which windows are read.
        rng: Source of the permutations.
        draws: Number of permutations.

    Returns:
        For each view and definition of the window (tested, noise of the lag, f counted once):
        median window over networks and probes, median with shuffled lags, in steps, and the share
        of networks and probes in percent whose window is longer than the median of their own
        shuffled ones.
    """
    orders = [rng.permutation(results.sizes["lag"]) for _ in range(draws)]
    rows = []
    for view in dict.fromkeys(results.view.values):
        needed = required(probes(results, view, "error"), rate="variance").transpose(..., "lag")
        for definition in DEFINITIONS:
            real = window_of(needed, n_sequences, definition).values
            mixed = np.stack(
                [
                    window_of(
                        needed.copy(data=needed.values[..., o]), n_sequences, definition
                    ).values
                    for o in orders
                ]
            )
            typical = np.median(mixed, axis=0)
            rows.append(
                (
                    view,
                    definition,
                    np.median(real),
                    np.median(mixed),
                    round(100 * float((real > typical).mean())),
                )
            )
    columns = ["view", "definition", "window", "window, lags shuffled", "% longer than shuffled"]
    return pd.DataFrame(rows, columns=columns).set_index(["view", "definition"])


def _all_windows(numbers: xr.Dataset, budgets: Array) -> xr.DataArray:
    """Compute windows in every way there is."""
    found = summary(numbers).assign(envelope=numbers.envelope).assign_attrs(numbers.attrs)
    ways = itertools.product([*({"rate": rate} for rate in RATES), LETTER], NOISES, RULES)
    needed = [required(found, noise=noise, rule=rule, **how) for how, noise, rule in ways]
    return xr.concat(
        [window_of(one, budgets, definition) for one in needed for definition in DEFINITIONS], "way"
    )


def _numbers(results: xr.Dataset) -> xr.Dataset:
    """Take what `summary` reads, and the envelope, in double precision."""
    if "statistic" not in results:
        raise ValueError(
            "results: this run has not kept its numbers; set keep_numbers in its diagnostics."
        )
    return results[["envelope", "statistic", "projection"]].astype(float)


def _rescaled(numbers: xr.Dataset, factor: float) -> xr.Dataset:
    """Change the unit of the statistic and of the gradient."""
    return numbers.assign(
        statistic=factor * numbers.statistic, projection=factor * numbers.projection
    )


def _share(successes: int, trials: int) -> str:
    """Write a share in percent with its exact interval."""
    return Interval(*(100 * end for end in binomial(successes, trials))).words(1)[0]
