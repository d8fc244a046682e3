"""Figures say what the numbers are: lines and bands, read back from what was drawn."""

import numpy as np
import pytest
import xarray as xr

from lwcore.figures import COLOURS, band, canvas, panels

VALUES = xr.DataArray(
    np.random.default_rng(0).random((2, 3, 5, 4)),
    {"model": ["GRU", "LSTM"], "order": ["zeroth", "first", "exact"], "lag": [1, 2, 4, 8]},
    ("model", "order", "seed", "lag"),
)


def heights(drawn):
    """Lower and upper edge of a band at each place."""
    points = drawn.get_paths()[0].vertices
    return [[end(points[points[:, 0] == x, 1]) for x in VALUES.lag.values] for end in (min, max)]


def test_panels_show_medians_and_bands_over_what_is_not_named():
    figure = panels(VALUES, "lag", col="order", yscale="log")
    assert [axes.get_title() for axes in figure.axes] == VALUES.order.values.tolist()
    for axes, order in zip(figure.axes, VALUES.order.values, strict=True):
        assert axes.get_yscale() == "log"
        lines = [line for line in axes.lines if len(line.get_xdata())]
        for line, drawn, model in zip(lines, axes.collections, VALUES.model.values, strict=True):
            one = VALUES.sel(model=model, order=order)
            assert line.get_color() == COLOURS[model]
            np.testing.assert_allclose(line.get_ydata(), one.median("seed"))
            ends = [one.min("seed"), one.max("seed")]
            np.testing.assert_allclose(heights(drawn), ends, rtol=1e-6)


@pytest.mark.parametrize(("quartiles", "ends"), [(False, [0, 1]), (True, [0.25, 0.75])])
def test_bands_are_those_of_what_is_not_named(quartiles, ends):
    _, (axes,) = canvas(1)
    one = VALUES.sel(model="GRU", order="exact")
    band(axes, VALUES.lag, one, quartiles=quartiles)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), one.median("seed"))
    np.testing.assert_allclose(heights(axes.collections[0]), one.quantile(ends, "seed"))
