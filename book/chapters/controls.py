"""Controls on a recorded run: what must not change a window.

Windows are computed afresh from each sequence's numbers, which a run stores if its configuration
says ``keep_numbers``.
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
from lwcore.signatures import require


def invariances(results: xr.Dataset, rng: np.random.Generator) -> pd.DataFrame:
    """Counts of windows, and of those that change when numbers are rescaled or permuted, or the
    grid of N is refined.

    The windows are those of all views, noises, rates, rules and definitions, and of version 2 to
    the letter, at the run's budgets and of its first seed.
    """
    words = "a run that kept its numbers: keep_numbers in its diagnostics"
    require("results", list(results), "statistic" in results, words)
    numbers = results[["envelope", "statistic", "projection"]].isel(seed=0).astype(float)
    budgets = np.array(config_of(results).diagnostics.budgets)
    finer = np.geomspace(budgets[0], budgets[-1], 4 * len(budgets)).round().astype(int)
    grid = np.union1d(finer, budgets)
    order = rng.permutation(numbers.sizes["sequence"])
    rows: dict[str, list[int]] = {}
    for model in results.model.values:
        one = numbers.sel(model=model)
        needed = _needed(one)
        plain = _windows(needed, budgets)
        changed = {
            "statistic × 1,000,000": _windows(_needed(rescaled(one, 1e6)), budgets),
            "statistic ÷ 1,000,000": _windows(_needed(rescaled(one, 1e-6)), budgets),
            "four times as many numbers N": _windows(needed, grid).sel(budget=budgets),
            "sequences in another order": _windows(_needed(one.isel(sequence=order)), budgets),
        }
        for name, found in changed.items():
            row = rows.setdefault(name, [0, 0])
            row[:] = row[0] + plain.size, row[1] + int((found != plain).sum())
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["windows", "changed"])
    return table.rename_axis("control")


def rescaled(numbers: xr.Dataset, factor: float) -> xr.Dataset:
    """Numbers in another unit of the gradient."""
    return numbers.assign(factor * numbers[["statistic", "projection"]])


def _needed(numbers: xr.Dataset) -> list[xr.DataArray]:
    """N(ℓ) in every way there is."""
    found = summary(numbers).assign(envelope=numbers.envelope).assign_attrs(numbers.attrs)
    ways = itertools.product([*({"rate": rate} for rate in RATES), LETTER], NOISES, RULES)
    return [required(found, noise=noise, rule=rule, **how) for how, noise, rule in ways]


def _windows(needed: list[xr.DataArray], budgets: NDArray[np.int64]) -> xr.DataArray:
    """Windows by every definition."""
    ways = itertools.product(needed, DEFINITIONS)
    return xr.concat([window_of(one, budgets, definition) for one, definition in ways], "way")
