"""Tables of labelled arrays, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from lwcore.printing import Unit
from lwcore.signatures import checked, floats, require
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
    _require_tables(quantities, by)
    units = {
        name: unit if isinstance(unit, str) else unit.get(name, Unit.NUMBER) for name in quantities
    }

    def column(name: str, values: xr.DataArray) -> pd.Series:
        rest = [dim for dim in values.dims if dim not in by]
        how: Any = {"vectorize": True, "output_dtypes": [object]}  # texts of any length
        words = xr.apply_ufunc(span, values, units[name], input_core_dims=[rest, []], **how)
        return words.transpose(*by).to_series()

    return pd.DataFrame({name: column(name, values) for name, values in quantities.items()})


def _require_tables(quantities: Mapping[str, xr.DataArray], by: tuple[str, ...]) -> None:
    """Refuse quantities that have no numbers, or no rows by some dimensions."""
    require("by", by, 0 < len(by) == len({*by}), "one dimension or more, none twice")
    for name, values in quantities.items():
        floats(f"quantities[{name!r}]", values.values)
        missing = [dimension for dimension in by if dimension not in values.dims]
        words = f"dimensions among {', '.join(map(str, values.dims)) or 'none'}, those of {name!r}"
        require("by", by, not missing, words)
        require(f"quantities[{name!r}]", values, values.size > 0, "one number or more")
