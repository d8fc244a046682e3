"""The figures on prediction show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from lwcore import plots_prediction
from lwcore.agreement import compare
from lwcore.config import Config
from lwcore.frontier import frontier
from lwcore.prediction import STRATA

MODELS, LAGS, NUMBERS = ["GRU", "LSTM"], [3, 6, 12], [32, 64, 128, 256]


@pytest.fixture
def share():
    values = np.random.default_rng(0).random((2, 3, 3))
    return xr.DataArray(values, {"model": MODELS, "seed": [1, 2, 3], "lag": LAGS}, ["model", "seed", "lag"])


@pytest.fixture
def scores(share):
    noise = xr.DataArray(np.random.default_rng(1).random((4, *share.shape)), dims=("predictor", *share.dims))
    return (
        (share + noise)
        .transpose("predictor", ...)
        .assign_coords(
            predictor=["plain lag", "N", "N", "N"],
            source=("predictor", ["–", "target", "error", "target"]),
            stage=("predictor", ["–", "after", "after", "before"]),
        )
    )


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


def test_the_predictor_after_training_is_drawn_by_ranks(share, scores):
    figure = plots_prediction.against(scores, share, {"words": ("N", "target")}, recorded(share))
    (axes,) = figure.axes
    assert axes.get_title() == "words"
    x = np.concatenate([line.get_xdata() for model in MODELS for line in lines(axes, model)])
    y = np.concatenate([line.get_ydata() for model in MODELS for line in lines(axes, model)])
    assert sorted(x) == list(range(1, 19))
    by_rank = share.values.ravel()[np.argsort(scores[1].values.ravel())]
    np.testing.assert_allclose(y[np.argsort(x)], by_rank)


def test_every_predictor_has_a_point_and_the_baseline_a_line(share, scores):
    compared = compare(scores, share, STRATA)
    figure = plots_prediction.predictors(compared, recorded(share), ["within lags", "all pairs"])
    for axes, stratum in zip(figure.axes, ("within lags", "all pairs"), strict=True):
        one = compared.value.sel(statistic="rank correlation", stratum=stratum)
        assert axes.get_title().replace("\n", " ") == stratum
        drawn = [container[0].get_xdata()[0] for container in axes.containers]
        assert sorted(drawn) == pytest.approx(sorted(one.values[1:]))
        (baseline,) = [line for line in axes.lines if line.get_color() == "grey"]
        assert baseline.get_xdata()[0] == one[0]
    assert signed(figure)


def test_frontiers_leave_the_grid_where_nothing_was_learned(share):
    numbers = xr.DataArray(NUMBERS, dims="sequences", coords={"sequences": NUMBERS})
    lag = xr.DataArray(LAGS, dims="lag", coords={"lag": LAGS})
    needed = 15.0 * lag + 0 * share.isel(lag=0, drop=True)
    learned = (0.5 + np.log2(numbers / needed.where(lag < 12, 1e6)) / 30).transpose(*share.dims, "sequences")
    figure = plots_prediction.frontiers(learned, frontier(learned), {"predicted": 2 * needed}, recorded(share))
    panel, other, blank = figure.axes[:3]
    assert (panel.get_title(), other.get_title(), blank.axison) == ("GRU", "LSTM", False)
    (measured,) = [container for container in panel.containers if container.get_label() == "measured"]
    assert measured[0].get_xdata()[:2] == pytest.approx([45, 90])
    assert measured[0].get_xdata()[2] > panel.get_xlim()[1]
    (predicted,) = lines(panel, "predicted")
    assert predicted.get_xdata() == pytest.approx([90, 180, 360])
    assert predicted.get_ydata().tolist() == LAGS
    assert signed(figure)
