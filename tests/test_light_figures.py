"""Figures made lighter: drawn, they are the same pictures."""

import io

import matplotlib.pyplot as plt
import numpy as np
import vl_convert
from light_figures import lighten
from scipy import ndimage


def draw(line, points, bars):
    line.plot(np.random.default_rng(0).normal(size=5000).cumsum())
    line.set(xlabel="step $t$", title="curves: $\\sqrt{x}$")
    for x, y in np.random.default_rng(0).normal(size=(2, 2, 500)):
        points.scatter(x, y, alpha=0.5)
    bars.fill_between([1, 2, 3], [1, 3, 2], alpha=0.3, hatch="//")
    bars.errorbar([1, 2, 3], [1, 2, 3], yerr=0.2, marker="o")
    bars.set(yscale="log", xlim=(1.5, 2.5))


def pixels(picture):
    """A picture as another library draws it, at twice its size."""
    return plt.imread(io.BytesIO(vl_convert.svg_to_png(picture, scale=2)))


def test_a_lighter_picture_looks_the_same_and_is_not_made_lighter_again(tmp_path):
    with plt.style.context("default", after_reset=True):  # whatever other tests have set
        figure, panels = plt.subplots(1, 3, figsize=(12, 4))
        draw(*panels)
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
