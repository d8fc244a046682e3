"""Runs that were recorded in parts, seed by seed, and are read as one."""

import itertools
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
    joined by " and ", in their order, where it differs. Parts may have been recorded by versions
    of the package that keep other variables: those that a part lacks are left out, and named in
    the attribute ``left_out``. A number that one part keeps once, and another for each network, is
    kept for each network.

    Raises:
        ValueError: A setting differs, a seed stands in two parts, or a number that is no seed's
            own differs between them. The message names it.
    """
    parts = [load(path) for path in paths]
    configs = [Config.stored(part.attrs) for part in parts]
    names = [config.name for config in configs]
    _require_same_settings(configs)
    seeds = list(itertools.chain.from_iterable(config.seeds for config in configs))
    repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    require("paths", names, not repeated, f"of different seeds (in two of them: {repeated})")
    variables = [set(map(str, part.data_vars)) for part in parts]
    in_all = sorted(set.intersection(*variables))
    left_out = sorted(set.union(*variables).difference(in_all))
    alike = [_laid_out_alike(part[in_all], parts) for part in parts]
    _require_same_outside_seeds(alike, names)
    # what has no axis of seeds is the same in all
    combine: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    together = xr.concat(alike, "seed", join="exact", combine_attrs="override", **combine)
    whole = configs[0].replace(seeds=seeds)
    together.attrs = _provenance(parts) | {
        "name": whole.name,
        "description": whole.description,
        "configuration": whole.model_dump_json(),
    }
    if left_out:
        together.attrs["left_out"] = ", ".join(left_out)
    return together


def _laid_out_alike(part: xr.Dataset, parts: list[xr.Dataset]) -> xr.Dataset:
    """Give each variable the axes that it has in the part that has most, in their order."""
    laid_out = {}
    for name, variable in part.data_vars.items():
        fullest = max((other[name] for other in parts), key=lambda array: array.ndim)
        missing = [dim for dim in fullest.dims if dim not in variable.dims]
        with_all_dims = variable.expand_dims({dim: part[dim] for dim in missing})
        laid_out[name] = with_all_dims.transpose(*fullest.dims)
    return part.assign(laid_out)


def _require_same_settings(configs: list[Config]) -> None:
    """Refuse configurations that differ in more than name, description and seeds."""
    first, *others = configs
    expected = first.model_dump(exclude=set(_OF_A_PART))
    for config in others:
        settings = config.model_dump(exclude=set(_OF_A_PART))
        differing = sorted(key for key in expected if expected[key] != settings[key])
        requirement = (
            f"runs of one configuration but for seeds (they differ in {', '.join(differing)})"
        )
        require("paths", [first.name, config.name], not differing, requirement)


def _require_same_outside_seeds(parts: list[xr.Dataset], names: list[str]) -> None:
    """Refuse parts that differ in a coordinate, or in a variable without an axis of seeds."""
    first, *others = parts
    for name, other in zip(names[1:], others, strict=True):
        coordinates = sorted(map(str, set(first.coords) ^ set(other.coords)))
        requirement = f"with equal coordinates (not both have {', '.join(coordinates)})"
        require("paths", [names[0], name], not coordinates, requirement)
        for variable in first.variables:
            if "seed" in first[variable].dims:
                continue
            same = first[variable].equals(other[variable])
            requirement = f"runs that agree outside their seeds (they differ in {variable})"
            require("paths", [names[0], name], same, requirement)


def _provenance(parts: list[xr.Dataset]) -> dict[str, str]:
    """Return each attribute of the parts: once where they agree, else joined in their order."""
    kept = {}
    for key in parts[0].attrs:
        values = [str(part.attrs[key]) for part in parts]
        kept[str(key)] = " and ".join(dict.fromkeys(values))
    return kept
