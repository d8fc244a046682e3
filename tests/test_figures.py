"""A figure on a telephone: the same panels in one column, with letters that can be read."""

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import xarray as xr
from matplotlib.lines import Line2D
from matplotlib.text import Text
from narrow_figures import SIZE, split

from lwcore.figures import _with_narrowed, canvas, legend_above, narrowed, panels

VALUES = xr.DataArray(
    np.random.default_rng(0).random((2, 3, 5, 4)),
    {"model": ["GRU", "LSTM"], "order": ["zeroth", "first", "exact"], "lag": [1, 2, 4, 8]},
    ("model", "order", "seed", "lag"),
)


def test_a_narrowed_figure_is_one_column_of_labelled_panels_whose_letters_can_be_read():
    figure = panels(VALUES, "lag", col="order", ylabel="envelope")
    figure.axes[0].set_xlabel(
        said := "a label longer than a narrow panel is wide, $(1 - s)^{\\ell}$"
    )
    size = figure.get_size_inches().tolist()
    narrow = narrowed(figure)
    narrow.canvas.draw()
    places = [axes.get_window_extent() for axes in narrow.axes]
    assert all(upper.y0 > lower.y1 and upper.x0 == lower.x0 for upper, lower in pairwise(places))
    assert {axes.get_ylabel() for axes in narrow.axes} == {"envelope"}
    assert all(axes.get_yticklabels()[1].get_visible() for axes in narrow.axes)
    letters = [one for one in narrow.findobj(Text) if one.get_visible() and one.get_text()]
    for text in letters:  # in a window of 390 pixels
        assert text.get_fontsize() * 342 / (72 * narrow.get_figwidth()) >= 8
    assert narrow.get_tightbbox().width <= narrow.get_figwidth(), (
        "nothing is cut off, and nothing widens the picture"
    )
    assert {"GRU", "LSTM"} <= {one.get_text() for one in letters}
    assert figure.get_size_inches().tolist() == size
    assert narrow.axes[0].get_xlabel().replace("\n", " ") == said
    assert said[said.index("$") :] in narrow.axes[0].get_xlabel(), "no formula is broken"


def test_a_narrow_legend_shows_the_markers_of_points_with_error_bars():
    figure, axes = canvas(2)
    axes[0].errorbar([1, 2], [1, 2], [0.1, 0.1], fmt="D", label="GRU")
    legend_above(figure, axes[0])
    (legend,) = narrowed(figure).legends
    assert "D" in [line.get_marker() for line in legend.findobj(Line2D)]


def test_a_picture_in_a_notebook_comes_apart_into_the_wide_and_the_narrow_one():
    figure = panels(VALUES, "lag", col="order")
    wide, narrow = split(_with_narrowed(figure))
    for one in (wide, narrow):
        (whole,) = ElementTree.fromstring(one).iter("{http://www.w3.org/2000/svg}svg")
        assert whole.get("display") is None
    widths = [float(SIZE.search(one)[1]) for one in (wide, narrow)]
    assert widths[1] < 300 < widths[0]
    assert split(wide) == (wide, "")
