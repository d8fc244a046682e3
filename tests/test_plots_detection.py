"""The figure of measured exponents shows what was measured."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lwcore.aggregation import MeasuredExponent
from lwcore.plots_detection import exponents


def test_exponents_stand_where_they_were_measured():
    shifts = np.array([0.2, 0.1])
    measured = {
        ("mean", 1.5): MeasuredExponent(3.1, (2.8, 3.5), np.array([8, 64]), shifts),
        ("mean", 2.0): MeasuredExponent(2.0, (1.9, 2.1), np.array([8, 64]), shifts),
        ("median", 1.5): MeasuredExponent(2.02, (1.9, 2.2), np.array([8, 64]), shifts),
    }
    figure = exponents(measured)
    axes = figure.axes[0]
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert figure.number not in plt.get_fignums()
    bars = {container.get_label(): container for container in axes.containers}
    assert set(bars) == {"mean", "median"}
    line, _, (segments,) = bars["mean"]
    assert line.get_ydata() == pytest.approx([3.1, 2.0])
    assert [tuple(segment[:, 1]) for segment in segments.get_segments()] == [pytest.approx((2.8, 3.5)), pytest.approx((1.9, 2.1))]
    curves = {curve.get_label(): curve for curve in axes.lines}
    stable = curves["α/(α − 1)"]
    assert np.interp(1.5, stable.get_xdata(), stable.get_ydata()) == pytest.approx(3, abs=0.01)
