"""Runs that were recorded in parts, seed by seed, and are read as one."""

from pathlib import Path
from typing import Any

import xarray as xr

from lwcore.experiment.config import Config
from lwcore.results import load
from lwcore.signatures import require

_OF_A_PART = ("name", "description", "seeds")  # all else must be the same in every part


def load_together(*paths: str | Path) -> xr.Dataset:
    """Read recorded runs that differ in their seeds alone, and put these side by side.

    The result has the first run's name and description, and a configuration with the seeds of all.
    What the parts were made from, such as revision, versions and fingerprint, is kept for each:
    joined by " and ", in their order, where it differs.

    Raises:
        ValueError: A setting differs, a seed stands in two parts, or a number that is no seed's
            own differs between them. The message names it.
    """
    parts = [load(path) for path in paths]
    configs = [Config.stored(part.attrs) for part in parts]
    names = [config.name for config in configs]
    _require_same_settings(configs)
    seeds = [seed for config in configs for seed in config.seeds]
    repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    require("paths", names, not repeated, f"of different seeds (in two of them: {repeated})")
    _require_same_outside_seeds(parts, names)
    # what has no axis of seeds is the same in all
    combine: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    together = xr.concat(parts, "seed", join="exact", combine_attrs="override", **combine)
    whole = configs[0].but(seeds=seeds)
    together.attrs = _provenance(parts) | {
        "name": whole.name,
        "description": whole.description,
        "configuration": whole.model_dump_json(),
    }
    return together


def _require_same_settings(configs: list[Config]) -> None:
    """Refuse configurations that differ in more than name, description and seeds."""
    settings = [config.model_dump(exclude=set(_OF_A_PART)) for config in configs]
    first, *others = settings
    for config, other in zip(configs[1:], others, strict=True):
        differing = sorted(key for key in first if first[key] != other[key])
        words = f"runs of one configuration but for seeds (they differ in {', '.join(differing)})"
        require("paths", [configs[0].name, config.name], not differing, words)


def _require_same_outside_seeds(parts: list[xr.Dataset], names: list[str]) -> None:
    """Refuse parts that differ in a variable without an axis of seeds, or that lack one."""
    first, *others = parts
    for name, other in zip(names[1:], others, strict=True):
        together = sorted(map(str, set(first.variables) ^ set(other.variables)))
        require("paths", [names[0], name], not together, f"with equal variables, not {together}")
        for variable in first.variables:
            if "seed" in first[variable].dims:
                continue
            same = first[variable].identical(other[variable])
            words = f"runs that agree outside their seeds (they differ in {variable})"
            require("paths", [names[0], name], same, words)


def _provenance(parts: list[xr.Dataset]) -> dict[str, str]:
    """Return each attribute of the parts: once where they agree, else joined in their order."""
    kept = {}
    for key in parts[0].attrs:
        values = [str(part.attrs[key]) for part in parts]
        kept[str(key)] = " and ".join(dict.fromkeys(values))
    return kept
