"""Tables of results: medians, with the least and the largest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.signatures import Reals, checked


@checked
def span(values: Reals, form: str = ".2f") -> str:
    """Numbers in words: their median, in brackets the least and the largest; NaN left out.

    Examples:
        >>> span([3.0, 1.0, 2.0])
        '2.00 (1.00 to 3.00)'
    """
    low, middle, high = np.nanquantile(np.asarray(values, float), [0, 0.5, 1])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


@checked
def summary(
    quantities: Mapping[str, xr.DataArray], by: tuple[str, ...], form: str = ".2f"
) -> pd.DataFrame:
    """A column for each quantity, a row for each value of some dimensions; the rest in a `span`.

    Examples:
        >>> loss = xr.DataArray([[1, 2, 3], [4, 5, 9]], {"seed": [1, 2]}, ("seed", "step"))
        >>> summary({"loss": loss}, ("seed",), form=".0f").loss.tolist()
        ['2 (1 to 3)', '5 (4 to 9)']
    """

    def column(values: xr.DataArray) -> pd.Series:
        rest = [dim for dim in values.dims if dim not in by]
        words = xr.apply_ufunc(span, values, form, input_core_dims=[rest, []], vectorize=True)
        return words.transpose(*by).to_series()

    return pd.DataFrame({name: column(values) for name, values in quantities.items()})


@checked
def training(results: xr.Dataset) -> pd.DataFrame:
    """How far training got: mean squared error on fresh sequences, over seeds, and as a share."""
    error = results.test_loss
    columns = {
        "least error": error.min("seed"),
        "largest error": error.max("seed"),
        "share of the variance": (error / results.target_variance).mean("seed"),
    }
    return pd.DataFrame({name: one.to_series() for name, one in columns.items()}).round(3)
