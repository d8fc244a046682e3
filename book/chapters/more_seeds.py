"""Runs that were recorded in parts, seed by seed, and are read as one."""

from pathlib import Path

import xarray as xr

from lwcore.experiment.config import Config
from lwcore.results import load
from lwcore.signatures import require

_OF_A_PART = {"name", "description", "seeds"}  # all else must be the same in every part


def load_together(*paths: str | Path) -> xr.Dataset:
    """Read recorded runs that differ in their seeds alone, and put these side by side.

    The result has the first run's attributes, and a configuration with the seeds of all. Parts may
    have been recorded by versions of the package that keep other variables: those that a part lacks
    are left out. A number that one part keeps once, and another for each network, is kept for each.

    Raises:
        ValueError: A setting differs, a seed stands in two parts, or a number that is no seed's
            own differs between them.
    """
    parts = [load(path) for path in paths]
    configs = [Config.stored(part.attrs) for part in parts]
    settings = [config.model_dump(exclude=_OF_A_PART) for config in configs]
    names = [config.name for config in configs]
    seeds = [seed for config in configs for seed in config.seeds]
    require(
        "paths", names, all(one == settings[0] for one in settings), "runs of one configuration"
    )
    require("paths", names, len(set(seeds)) == len(seeds), "of different seeds")
    in_all = set.intersection(*(set(part.data_vars) for part in parts))
    alike = []
    for part in parts:
        laid_out = {name: _with_all_axes(part, name, parts) for name in sorted(map(str, in_all))}
        alike.append(part.assign(laid_out)[sorted(laid_out)])
    together = xr.concat(  # what has no axis of seeds must be the same in all
        alike,
        "seed",
        data_vars="minimal",
        coords="minimal",
        compat="equals",
        join="exact",
        combine_attrs="override",
    )
    whole = configs[0].replace(seeds=seeds)
    return together.assign_attrs(configuration=whole.model_dump_json())


def _with_all_axes(part: xr.Dataset, name: str, parts: list[xr.Dataset]) -> xr.DataArray:
    """Give a variable the axes that it has in the part that has most, in their order."""
    fullest = max((other[name] for other in parts), key=lambda array: array.ndim)
    missing = [dim for dim in fullest.dims if dim not in part[name].dims]
    with_all = part[name].expand_dims({dim: part[dim] for dim in missing})
    return with_all.transpose(*fullest.dims)
