"""Tables of labelled arrays, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import xarray as xr

from lwcore.printing import Unit
from lwcore.signatures import checked, require
from lwcore.stats import span


@checked
def summary(
    quantities: Mapping[str, xr.DataArray],
    by: tuple[str, ...],
    unit: str | Mapping[str, str] = Unit.NUMBER,
) -> pd.DataFrame:
    """Return a table: a column for each quantity, a row for each value of some dimensions.

    Over all other dimensions a quantity is written as a `span`, a median and its range.

    Args:
        quantities: The columns' names, and the arrays.
        by: The dimensions that become rows.
        unit: One of `lwcore.printing.Unit` for all columns, or one for each that has one.

    Examples:
        >>> loss = xr.DataArray([[1, 2, 3], [4, 5, 9]], {"seed": [1, 2]}, ("seed", "step"))
        >>> summary({"loss": loss}, ("seed",), unit="count").loss.tolist()
        ['2 (range 1–3)', '5 (range 4–9)']
    """
    columns = {}
    for name, values in quantities.items():
        known = 0 < len(by) == len(set(by) & set(values.dims))
        dimensions = ", ".join(map(str, values.dims)) or "none"
        require("by", by, known, f"dimensions among {dimensions}, those of {name!r}, none twice")
        others = [dimension for dimension in values.dims if dimension not in by]
        own_unit = unit if isinstance(unit, str) else unit.get(name, Unit.NUMBER)
        texts = xr.apply_ufunc(
            span,
            values,
            own_unit,
            input_core_dims=[others, []],
            vectorize=True,
            output_dtypes=[object],  # texts of any length
        )
        columns[name] = texts.transpose(*by).to_series()
    return pd.DataFrame(columns)
