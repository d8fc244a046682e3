"""Tables of labelled arrays, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping

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
    _require_tables(quantities, by)
    columns = {}
    for name, values in quantities.items():
        own_unit = unit if isinstance(unit, str) else unit.get(name, Unit.NUMBER)
        columns[name] = _column_of_spans(values, by, own_unit)
    return pd.DataFrame(columns)


def _column_of_spans(values: xr.DataArray, by: tuple[str, ...], unit: str) -> pd.Series:
    """Return the median and range over all dimensions but some, as texts."""
    others = [dimension for dimension in values.dims if dimension not in by]
    texts = xr.apply_ufunc(
        span,
        values,
        unit,
        input_core_dims=[others, []],
        vectorize=True,
        output_dtypes=[object],  # texts of any length
    )
    return texts.transpose(*by).to_series()


def _require_tables(quantities: Mapping[str, xr.DataArray], by: tuple[str, ...]) -> None:
    """Refuse quantities that have no numbers, or no rows by some dimensions."""
    require("by", by, 0 < len(by) == len({*by}), "one dimension or more, none twice")
    for name, values in quantities.items():
        label = f"quantities[{name!r}]"
        floats(label, values.values)
        known = set(by) <= set(values.dims)
        dimensions = ", ".join(map(str, values.dims)) or "none"
        require("by", by, known, f"dimensions among {dimensions}, those of {name!r}")
        require(label, values, values.size > 0, "one number or more")
