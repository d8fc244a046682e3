"""The figures of transport show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from lwcore import plots_transport
from lwcore.orders import compare_orders
from lwcore.transport import step_jacobian
from lwcore.window import mixture_envelope
from tests.networks import draw, make


@pytest.fixture(scope="module")
def compared():
    those = {("GRU", seed): make("GRU", seed).trace(draw(2, 9, 3, seed=seed)) for seed in range(3)}
    return {"strong": compare_orders(those, [1, 2, 5], orders=("zeroth", "first", "paper_v2"))}


def points(axes, label):
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return np.array(found.get_xdata(), float), np.array(found.get_ydata(), float)


def test_blocks_are_the_matrix():
    matrix = step_jacobian(make("LSTM").trace(draw(1, 5, 3)), 3)[0]
    figure = plots_transport.blocks(matrix, {(0, 1): "shown"}, ("h", "c"))
    assert figure.number not in plt.get_fignums()
    axes, scale = figure.axes
    (mesh,) = [c for c in axes.collections if hasattr(c, "get_coordinates")]
    assert np.asarray(mesh.get_array()).reshape(8, 8) == pytest.approx(matrix.numpy())
    assert mesh.get_clim()[1] == pytest.approx(matrix.abs().max().item())
    assert [text.get_text() for text in axes.texts] == ["shown"]
    assert axes.texts[0].get_position()[0] == 6
    assert axes.get_ylim() == (8, 0), "row 0 on top"
    assert scale.get_ylabel()


def test_time_scales_lie_on_their_curve(compared):
    retention = make("GRU").trace(draw(2, 9, 3)).neurons.retention.mean((0, 1))
    left, right = plots_transport.time_scales({"strong": retention}, compared).axes
    assert points(left, "strong")[1] == pytest.approx(-1 / np.log(retention.numpy()))
    exact = compared["strong"].envelope.sel(order="exact").mean("sequence")[0].median("seed")
    assert points(right, "strong, exact")[1] == pytest.approx((exact / exact[0]).values)
    assert left.get_xlabel()
    assert right.get_ylabel()


@pytest.mark.parametrize("name", ["errors", "envelopes"])
def test_lines_are_medians_over_networks(compared, name):
    figure = getattr(plots_transport, name)(compared)
    assert figure.number not in plt.get_fignums()
    (axes,) = figure.axes
    data = compared["strong"]
    f = data.envelope.mean("sequence")
    values = data.error if name == "errors" else f / f.sel(order="exact", drop=True)
    for order, label in (("zeroth", "zeroth order"), ("first", "first order"), ("paper_v2", "(26) as printed")):
        drawn, expected = points(axes, label)[1], values.sel(order=order)[0].median("seed").values
        shown = np.isfinite(drawn)
        assert drawn[shown] == pytest.approx(expected[shown])
        assert shown.sum() == (2 if (name, order) == ("errors", "first") else 3), "an error of rounding is not drawn"
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_cross_terms_are_drawn_with_equal_axes():
    right, wrong = draw(5, 4), draw(5, 4, seed=2)
    one, two = plots_transport.cross_terms({"a": (right, wrong), "b": (wrong, right)}).axes
    dots = next(line for line in one.lines if line.get_marker() == "o")
    assert np.array(dots.get_xdata()) == pytest.approx(right.flatten().numpy())
    assert one.get_xlim() == one.get_ylim()
    assert two.get_title() == "b"


def survey(rng):
    """Two models, three seeds, as `compare_orders` gives them."""
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
    figure = plots_transport.polynomial([0.1, 1.0], {"GRU": np.array([[1.0, 2, 9], [3, 4, 5]])}, {4: np.array([1, 0.5, 0.1])})
    remainder, size = figure.axes
    assert points(remainder, "GRU")[1].tolist() == [2, 4]
    guide = points(remainder, "slope 2")[1]
    assert guide[1] / guide[0] == pytest.approx(100)
    assert points(size, "lag 4")[1].tolist() == [1, 0.5, 0.1]
    assert figure.number not in plt.get_fignums()


def test_errors_are_drawn_by_model_setting_and_order():
    rng = np.random.default_rng(0)
    models = [f"model {i}" for i in range(5)]
    wide = xr.concat([survey(rng).isel(model=0, drop=True) for _ in models], dim="model").assign_coords(model=models)
    figure = plots_transport.errors_by_cell({"one": wide, "two": wide + 0.1})
    assert [axes.get_title() for axes in figure.axes[:5]] == models
    drawn = figure.axes[2].lines
    assert np.allclose(drawn[1].get_ydata(), wide.error.sel(model="model 2", order="first").median("seed"))
    assert np.allclose(drawn[2].get_ydata(), (wide + 0.1).error.sel(model="model 2", order="zeroth").median("seed"))


def test_coupling_scales_the_lag():
    surveys = {name: survey(np.random.default_rng(i)) for i, name in enumerate("abcd")}
    collapsed, share = plots_transport.coupling(surveys).axes
    of = surveys["d"].sel(model="DiagGate")
    assert np.allclose(collapsed.lines[7].get_xdata(), of.lag * float(of.coupling.median()))
    assert np.allclose(collapsed.lines[7].get_ydata(), of.error.sel(order="first").median("seed"))
    assert np.allclose(points(share, "DiagGate")[1], of.off_diagonal.median("seed"))


def test_rising_and_time_scales_draw_their_numbers():
    lags = [1, 2, 3]
    left, right = plots_transport.rising(lags, {-1.0: ([1, 2, 3], [3, 2, 1], [1, 1, 1])}, {"exact": [4, 5, 6]}).axes
    assert points(left, "w = -1")[1].tolist() == [3, 2, 1]
    assert points(right, "exact")[1].tolist() == [4, 5, 6]
    tau = np.array([[1.0, 2.0], [2.0, 3.0]])
    spectrum, mixture = plots_transport.spectra({"trained": {"DiagGate": tau}}, lags, {"trained": np.ones((2, 3))}).axes
    assert [one.get_xdata().tolist() for one in spectrum.lines] == tau.tolist()
    assert [words.get_text() for words in spectrum.get_yticklabels()] == ["DiagGate, trained"]
    x, y = mixture.lines[1].get_data()
    assert np.allclose(y, np.median(mixture_envelope(x, tau), 0))


def test_matrices_share_one_scale_around_zero():
    one, two, bar = plots_transport.matrices({"one": [[0.5, -2.0]], "two": [[0.25, 1.0]]}).axes
    assert one.images[0].get_clim() == two.images[0].get_clim() == (-2, 2)
    assert bar.get_ylabel() == "entry"
