"""Figures made lighter: drawn, they are the same pictures."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
import vl_convert
from light_figures import lighten
from scipy import ndimage


def a_line(axes):
    axes.plot(np.random.default_rng(0).normal(size=5000).cumsum())
    axes.set(xlabel="step $t$", title="curves: $\\sqrt{x}$")


def points(axes):
    for x, y in np.random.default_rng(0).normal(size=(2, 2, 500)):
        axes.scatter(x, y, alpha=0.5)


def bars_and_a_clip(axes):
    axes.fill_between([1, 2, 3], [1, 3, 2], alpha=0.3, hatch="//")
    axes.errorbar([1, 2, 3], [1, 2, 3], yerr=0.2, marker="o")
    axes.set(yscale="log", xlim=(1.5, 2.5))


def pixels(picture):
    """A picture as another library draws it, at twice its size."""
    return plt.imread(io.BytesIO(vl_convert.svg_to_png(picture, scale=2)))


@pytest.mark.parametrize("draw", [a_line, points, bars_and_a_clip])
def test_a_lighter_picture_looks_the_same_and_is_not_made_lighter_again(tmp_path, draw):
    with plt.style.context("default", after_reset=True):  # whatever other tests have set
        figure, axes = plt.subplots()
        draw(axes)
        figure.savefig(tmp_path / "picture.svg")
        plt.close(figure)
    before = (tmp_path / "picture.svg").read_text()
    after = lighten(before)
    assert lighten(after) == after
    assert len(after) < 0.65 * len(before)
    assert np.ptp(pixels(before)) > 0.5
    moved = np.abs(pixels(after) - pixels(before))
    assert moved.mean() < 1e-4
    assert ndimage.uniform_filter(moved, (8, 8, 1)).max() < 0.05, "no letter, point or clip is gone"
