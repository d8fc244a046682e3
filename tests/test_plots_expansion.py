"""The figures of the appendices show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from lwcore import plots_expansion
from lwcore.window import mixture_envelope


def line(axes, label):
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return np.array(found.get_xdata(), float), np.array(found.get_ydata(), float)


def survey(rng):
    """Two models, three seeds, as `lwcore.expansion.survey` gives them."""
    names = ("model", "seed", "order", "lag")
    return xr.Dataset(
        {
            "error": (names, rng.uniform(0.01, 1, (2, 3, 3, 4))),
            "off_diagonal": (("model", "seed", "lag"), rng.uniform(size=(2, 3, 4))),
            "coupling": (("model", "seed"), rng.uniform(size=(2, 3))),
        },
        coords={"model": ["ConstGate", "DiagGate"], "order": ["zeroth", "first", "exact"], "lag": [1, 2, 3, 4]},
    )


def test_polynomial_shows_medians_and_a_guide_of_slope_two():
    figure = plots_expansion.polynomial([0.1, 1.0], {"GRU": np.array([[1.0, 2, 9], [3, 4, 5]])}, {4: np.array([1, 0.5, 0.1])})
    remainder, size = figure.axes
    assert line(remainder, "GRU")[1].tolist() == [2, 4]
    guide = line(remainder, "slope 2")[1]
    assert guide[1] / guide[0] == pytest.approx(100)
    assert line(size, "lag 4")[1].tolist() == [1, 0.5, 0.1]
    assert figure.number not in plt.get_fignums()


def test_errors_are_drawn_by_model_setting_and_order():
    rng = np.random.default_rng(0)
    models = [f"model {i}" for i in range(5)]
    wide = xr.concat([survey(rng).isel(model=0, drop=True) for _ in models], dim="model").assign_coords(model=models)
    figure = plots_expansion.errors({"one": wide, "two": wide + 0.1})
    assert [axes.get_title() for axes in figure.axes[:5]] == models
    drawn = figure.axes[2].lines
    assert np.allclose(drawn[1].get_ydata(), wide.error.sel(model="model 2", order="first").median("seed"))
    assert np.allclose(drawn[2].get_ydata(), (wide + 0.1).error.sel(model="model 2", order="zeroth").median("seed"))


def test_coupling_scales_the_lag():
    surveys = {name: survey(np.random.default_rng(i)) for i, name in enumerate("abcd")}
    collapsed, share = plots_expansion.coupling(surveys).axes
    of = surveys["d"].sel(model="DiagGate")
    assert np.allclose(collapsed.lines[7].get_xdata(), of.lag * float(of.coupling.median()))
    assert np.allclose(collapsed.lines[7].get_ydata(), of.error.sel(order="first").median("seed"))
    assert np.allclose(line(share, "DiagGate")[1], of.off_diagonal.median("seed"))


def test_rising_and_time_scales_draw_their_numbers():
    lags = [1, 2, 3]
    left, right = plots_expansion.rising(lags, {-1.0: ([1, 2, 3], [3, 2, 1], [1, 1, 1])}, {"exact": [4, 5, 6]}).axes
    assert line(left, "w = -1")[1].tolist() == [3, 2, 1]
    assert line(right, "exact")[1].tolist() == [4, 5, 6]
    tau = np.array([[1.0, 2.0], [2.0, 3.0]])
    spectrum, mixture = plots_expansion.time_scales({"trained": {"DiagGate": tau}}, lags, {"trained": np.ones((2, 3))}).axes
    assert [one.get_xdata().tolist() for one in spectrum.lines] == tau.tolist()
    assert [words.get_text() for words in spectrum.get_yticklabels()] == ["DiagGate, trained"]
    x, y = mixture.lines[1].get_data()
    assert np.allclose(y, np.median(mixture_envelope(x, tau), 0))


def test_matrices_share_one_scale_around_zero():
    one, two, bar = plots_expansion.matrices({"one": [[0.5, -2.0]], "two": [[0.25, 1.0]]}).axes
    assert one.images[0].get_clim() == two.images[0].get_clim() == (-2, 2)
    assert bar.get_ylabel() == "entry"
