"""The figures of the detection chapter show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lwcore import bounds, stable
from lwcore.aggregation import MeasuredExponent
from lwcore.plots_detection import divergences, errors, expansion, exponents, fits, information


def test_exponents_stand_where_they_were_measured():
    shifts = np.array([0.2, 0.1])
    measured = {
        ("mean", 1.5): MeasuredExponent(3.1, (2.8, 3.5), np.array([8, 64]), shifts),
        ("mean", 2.0): MeasuredExponent(2.0, (1.9, 2.1), np.array([8, 64]), shifts),
        ("median", 1.5): MeasuredExponent(2.02, (1.9, 2.2), np.array([8, 64]), shifts),
    }
    assert str(measured["mean", 1.5]) == "3.10 (2.80 to 3.50)"
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


def curve(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return np.array(line.get_xdata(), float), np.array(line.get_ydata(), float)


def test_divergences_are_the_exact_ones_and_the_dots_end_the_range():
    one, share, many = divergences([1.5, 2.0], 0.1, 1.5).axes
    h, kl = curve(one, "α = 1.5")
    np.testing.assert_allclose(kl, stable.SymmetricStable(1.5).kl(2 * h))
    (dot,) = [line for line in share.lines if line.get_marker() == "o"]
    assert dot.get_xdata()[0] == pytest.approx(bounds.lan_range(1.5))
    assert dot.get_ydata()[0] == pytest.approx(0.95)
    n, everything = curve(many, "all N values")
    np.testing.assert_allclose(everything / n, everything[0])
    assert (curve(many, "(32) as printed")[1] >= everything).all()


def test_expansions_are_drawn_by_rate():
    rng = np.random.default_rng(0)
    simulated = {(rate, n): bounds.lan_expansion(1.5, n, rng, rate=rate, replicates=20) for rate in ("optimal", "paper_v2") for n in (3, 9)}
    spread, left = expansion(simulated).axes
    n, drawn = curve(spread, "r = √N")
    assert n.tolist() == [3, 9]
    assert drawn[1] == simulated["optimal", 9].log_ratio.std()
    assert curve(left, "r = N$^{1/α}$ (version 2)")[1][0] == pytest.approx(np.sqrt(np.mean(simulated["paper_v2", 3].remainder ** 2)))


def test_errors_lie_above_fano_and_information_below_one_bit():
    told, wrong = errors(0.3, 1.5, most=300).axes
    assert curve(told, "all N values")[1].max() <= 1
    n, fano = curve(wrong, "Fano's bound")
    assert (n % 2 == 1).all()
    for test in ("mean", "median", "likelihood"):
        drawn = curve(wrong, test)[1]
        np.testing.assert_allclose(drawn, bounds.detection_error(n, 0.3, 1.0, 1.5, test))
        assert (drawn >= fano).all()


def test_information_of_the_median_is_below_that_of_the_likelihood():
    (axes,) = information(np.array([1.2, 2.0])).axes
    (_, best), (_, median) = curve(axes, "likelihood: $I_α$"), curve(axes, "median: 4p(0)²")
    assert best[1] == pytest.approx(0.5)
    assert median[1] == pytest.approx(1 / np.pi)  # of a Gaussian of variance 2
    assert (median < best).all()


def test_fits_show_the_distance_of_the_characteristic_functions():
    sample = np.random.default_rng(0).standard_normal(500)
    law = stable.StableFit(2.0, 0.7, 0.1, (1.9, 2.0), "ecf", True, "")
    (axes,) = fits({"Gaussian": sample}, {"Gaussian": law}).axes
    u, gap = axes.lines[0].get_data()
    assert gap == pytest.approx([np.cos(v * (sample - 0.1) / 0.7).mean() - np.exp(-(v**2)) for v in u], abs=1e-12)
    (band,) = axes.collections
    assert np.abs(band.get_paths()[0].vertices[:, 1]).max() < 2 * np.sqrt(0.5 / 500) * 1.001
