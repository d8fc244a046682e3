"""The figures on prediction show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from lwcore import plots_prediction
from lwcore.config import Config

MODELS, LAGS = ["GRU", "LSTM"], [3, 6, 12]


@pytest.fixture
def share():
    values = np.random.default_rng(0).random((2, 3, 3))
    return xr.DataArray(values, {"model": MODELS, "seed": [1, 2, 3], "lag": LAGS}, ["model", "seed", "lag"])


def recorded(share):
    return xr.Dataset({"share": share}, attrs={"configuration": Config.named("smoke").model_dump_json(), "revision": "abc"})


def signed(figure):
    assert figure.number not in plt.get_fignums()
    return figure.get_supxlabel().startswith("run “smoke”: T = ") and figure.get_supxlabel().endswith("; revision abc")


def lines(axes, label):
    return [line for line in axes.lines if line.get_label() == label]


def test_what_is_left_is_drawn_against_what_was_learned(share):
    figure = plots_prediction.left_over(1 - share, share, recorded(share))
    (axes,) = figure.axes
    (points,) = lines(axes, "GRU")
    np.testing.assert_allclose(points.get_ydata(), 1 - points.get_xdata())
    np.testing.assert_allclose(np.sort(points.get_xdata()), np.sort(share.sel(model="GRU").values.ravel()))
    assert signed(figure)


def test_what_was_never_learned_is_drawn_above_the_grid(share):
    took = (100 * share).where(share.lag < 12, np.inf)
    figure = plots_prediction.needed(took, {"lag": share.lag + 0 * share, "twice": 2 * took}, [32, 64, 128], recorded(share))
    plain, twice = figure.axes
    (points,) = lines(plain, "LSTM")
    assert sorted(points.get_xdata()) == sorted(3 * LAGS)
    expected = took.sel(model="LSTM").values.ravel()
    assert sorted(y for y in points.get_ydata() if y < 128) == pytest.approx(sorted(expected[np.isfinite(expected)]))
    assert (points.get_ydata() > plain.lines[-1].get_ydata()[0]).sum() == 3
    assert [label.get_text() for label in plain.get_yticklabels()] == ["32", "64", "128", "> 128"]
    (points,) = lines(twice, "GRU")
    inside = np.isfinite(points.get_xdata())
    np.testing.assert_allclose(points.get_ydata()[inside], points.get_xdata()[inside] / 2)
    assert signed(figure)
