"""Controls on a recorded run: what must not change a window, what must leave none, and what it
hangs on.

All are computed afresh from each sequence's numbers, which a run stores if its configuration says
``keep_numbers``.
"""

from __future__ import annotations

import itertools

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
    required,
    summary,
    window_of,
)

Array = NDArray[np.int64]


def invariances(results: xr.Dataset, rng: np.random.Generator) -> pd.DataFrame:
    """Count the windows that stay as they are when the numbers are rescaled or permuted, or the
    grid of N is refined.

    The windows are those of all views, noises, rates, rules and definitions, and of version 2 to
    the letter, at the run's budgets and of its first seed.

    Args:
        results: A run that kept its numbers.
        rng: Source of the permutation.

    Returns:
        For each control: windows compared, and windows that changed.
    """
    budgets = np.array(config_of(results).diagnostics.budgets)
    grid = np.geomspace(budgets[0], budgets[-1], 4 * len(budgets)).round().astype(int)
    refined = np.union1d(grid, budgets)
    order = rng.permutation(_numbers(results).sizes["sequence"])
    counts: dict[str, list[int]] = {}
    for model in results.model.values:
        numbers = _numbers(results.sel(model=model).isel(seed=0))
        needed = _needed(numbers)
        plain = _windows(needed, budgets)
        changed = {
            "statistic × 1,000,000": _windows(_needed(_rescaled(numbers, 1e6)), budgets),
            "statistic ÷ 1,000,000": _windows(_needed(_rescaled(numbers, 1e-6)), budgets),
            "four times as many numbers N": _windows(needed, refined).sel(budget=budgets),
            "sequences in another order": _windows(_needed(numbers.isel(sequence=order)), budgets),
        }
        for name, found in changed.items():
            sums = counts.setdefault(name, [0, 0])
            counts[name] = [sums[0] + plain.size, sums[1] + int((found != plain).sum())]
    table = pd.DataFrame.from_dict(counts, orient="index", columns=["windows", "changed"])
    return table.rename_axis("control")


def _needed(numbers: xr.Dataset) -> list[xr.DataArray]:
    """N(ℓ) in every way there is."""
    found = summary(numbers).assign(envelope=numbers.envelope).assign_attrs(numbers.attrs)
    ways = itertools.product([*({"rate": rate} for rate in RATES), LETTER], NOISES, RULES)
    return [required(found, noise=noise, rule=rule, **how) for how, noise, rule in ways]


def _windows(needed: list[xr.DataArray], budgets: Array) -> xr.DataArray:
    """Windows by every definition."""
    ways = itertools.product(needed, DEFINITIONS)
    return xr.concat([window_of(one, budgets, definition) for one, definition in ways], "way")


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
