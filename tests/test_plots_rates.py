"""The figures of the LSTM and GRU chapters show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lwcore import plots_rates
from lwcore.orders import compare_orders
from lwcore.transport import step_jacobian
from tests.networks import draw, make


@pytest.fixture(scope="module")
def compared():
    those = [make("GRU", seed).trace(draw(2, 9, 3, seed=seed)) for seed in range(3)]
    return {"strong": compare_orders(those, [1, 2, 5], orders=("zeroth", "first", "paper_v2"))}


def line(axes, label):
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return np.array(found.get_ydata(), float)


def test_blocks_are_the_matrix():
    matrix = step_jacobian(make("LSTM").trace(draw(1, 5, 3)), 3)[0]
    figure = plots_rates.blocks(matrix, {(0, 1): "shown"}, ("h", "c"))
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
    left, right = plots_rates.time_scales({"strong": retention}, compared).axes
    assert line(left, "strong") == pytest.approx(-1 / np.log(retention.numpy()))
    exact = compared["strong"].envelope.sel(order="exact").median("network")
    assert line(right, "strong, exact") == pytest.approx((exact / exact[0]).values)
    assert left.get_xlabel()
    assert right.get_ylabel()


@pytest.mark.parametrize("name", ["errors", "envelopes"])
def test_lines_are_medians_over_networks(compared, name):
    figure = getattr(plots_rates, name)(compared)
    assert figure.number not in plt.get_fignums()
    (axes,) = figure.axes
    data = compared["strong"]
    values = data.error if name == "errors" else data.envelope / data.envelope.sel(order="exact", drop=True)
    for order, label in (("zeroth", "zeroth order"), ("first", "first order"), ("paper_v2", "(26) as printed")):
        drawn, expected = line(axes, label), values.sel(order=order).median("network").values
        shown = np.isfinite(drawn)
        assert drawn[shown] == pytest.approx(expected[shown])
        assert shown.sum() == (2 if (name, order) == ("errors", "first") else 3), "an error of rounding is not drawn"
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_cross_terms_are_drawn_with_equal_axes():
    right, wrong = draw(5, 4), draw(5, 4, seed=2)
    one, two = plots_rates.cross_terms({"a": (right, wrong), "b": (wrong, right)}).axes
    dots = next(line for line in one.lines if line.get_marker() == "o")
    assert np.array(dots.get_xdata()) == pytest.approx(right.flatten().numpy())
    assert one.get_xlim() == one.get_ylim()
    assert two.get_title() == "b"
