"""Checks of labelled arrays at the door: that measured numbers hold what a function reads, before
it reads any."""

from __future__ import annotations

from typing import Any

import xarray as xr

from lwcore.arguments import instance_of


def dataset_with(name: str, value: Any, *variables: str) -> xr.Dataset:
    """Return `value` after checking that it is a dataset that holds some variables, coordinates or
    dimensions.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.
        *variables: Names of what it must hold.

    Returns:
        The dataset.

    Raises:
        TypeError: If it is no dataset.
        ValueError: If one of them is missing.
    """
    dataset = instance_of(name, value, xr.Dataset)
    missing = [
        variable
        for variable in variables
        if variable not in dataset.variables and variable not in dataset.dims
    ]
    if missing:
        raise ValueError(
            f"{name} holds {', '.join(map(str, dataset.variables)) or 'nothing'}: must hold "
            f"{', '.join(missing)}, too."
        )
    return dataset


def array_with(name: str, value: Any, *dims: str) -> xr.DataArray:
    """Return `value` after checking that it is a labelled array of numbers with some dimensions,
    none of them empty.

    Args:
        name: Name of the argument, for the message.
        value: The value to check.
        *dims: Dimensions that it must have.

    Returns:
        The array.

    Raises:
        TypeError: If it is no labelled array, or not one of real numbers or truth values.
        ValueError: If a dimension is missing, or it is empty.
    """
    array = instance_of(name, value, xr.DataArray)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}: must be made of real numbers.")
    if not set(dims) <= set(array.dims) or array.size == 0:
        sizes = ", ".join(f"{dim} {size}" for dim, size in array.sizes.items())
        raise ValueError(
            f"{name} has the dimensions ({sizes}): must have {', '.join(dims) or 'entries'}, none "
            "of them 0."
        )
    return array
