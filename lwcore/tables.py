"""Tables of labelled arrays, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from lwcore.printing import Unit
from lwcore.signatures import checked
from lwcore.stats import span


@checked
def summary(
    quantities: Mapping[str, xr.DataArray],
    by: tuple[str, ...],
    unit: str | Mapping[str, str] = Unit.NUMBER,
) -> pd.DataFrame:
    """Return a table: a column for each quantity, a row for each value of some dimensions.

    All other dimensions are written as a `span`, a median and its range.

    `unit` is one for all columns, or one for each column that has one.

    Examples:
        >>> loss = xr.DataArray([[1, 2, 3], [4, 5, 9]], {"seed": [1, 2]}, ("seed", "step"))
        >>> summary({"loss": loss}, ("seed",), unit="count").loss.tolist()
        ['2 (range 1–3)', '5 (range 4–9)']
    """
    units = {
        name: unit if isinstance(unit, str) else unit.get(name, Unit.NUMBER) for name in quantities
    }

    def column(name: str, values: xr.DataArray) -> pd.Series:
        rest = [dim for dim in values.dims if dim not in by]
        how: Any = {"vectorize": True, "output_dtypes": [object]}  # texts of any length
        words = xr.apply_ufunc(span, values, units[name], input_core_dims=[rest, []], **how)
        return words.transpose(*by).to_series()

    return pd.DataFrame({name: column(name, values) for name, values in quantities.items()})
