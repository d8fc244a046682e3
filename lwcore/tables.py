"""Tables of results."""

from __future__ import annotations

import pandas as pd
import xarray as xr


def training(results: xr.Dataset) -> pd.DataFrame:
    """Show how far training got.

    Returns:
        For each model: mean squared error on fresh sequences, least and largest over seeds, and as
            a share of the target's variance.
    """
    error = results.test_loss
    share = (error / results.target_variance).mean("seed")
    columns = {
        "least error": error.min("seed"),
        "largest error": error.max("seed"),
        "share of the variance": share,
    }
    models = pd.Index(results.model.values, name="model")
    return pd.DataFrame(
        {name: column.values for name, column in columns.items()}, index=models
    ).round(3)
