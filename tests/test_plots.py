"""Every figure draws from a small run, with named axes and a line for every model."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from lwcore import plots
from lwcore.experiment import Config, run


@pytest.fixture(scope="module")
def small():
    return run(Config.named("smoke"), progress=False)


FIGURES = [
    "training",
    "envelopes",
    "orders",
    "windows",
    "definitions",
    "optimiser",
    "scaling",
    "spectra",
    "cancellation",
    "null_control",
    "learned",
    "summary",
]


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_complete(small, name):
    figure = getattr(plots, name)(small)
    assert figure.number not in plt.get_fignums(), "left on pyplot's list, a notebook would show it twice"
    for axes in figure.axes:
        assert axes.get_xlabel(), "a panel without a name for its abscissa"
        assert axes.lines or axes.collections
    assert any(axes.get_ylabel() for axes in figure.axes)
    assert "run “smoke”: T = 16, H = 6, 30 steps, 2 seeds" in figure.get_supxlabel()
    figure.canvas.draw()


def test_training_curve_ends_at_the_last_step(small):
    line = plots.training(small).axes[0].lines[0]
    assert line.get_xdata()[0] == 1
    assert line.get_xdata()[-1] == 30
    last = small.loss.sel(model="ConstGate").isel(step=slice(-20, None)).mean("step").median("seed")
    assert line.get_ydata()[-1] == pytest.approx(float(last))


def test_training_curve_of_a_long_run_is_thinned_and_nothing_else(small):
    long = xr.concat([small.loss * (1 + k / 100) for k in range(100)], "step")
    lines = plots.training(small.drop_vars("loss").assign(loss=long)).axes[0].lines
    steps, drawn = lines[0].get_data()
    mean = long.sel(model="ConstGate").rolling(step=20, min_periods=1).mean().median("seed").values
    assert len(steps) == 600
    assert (steps[0], steps[-1]) == (1, long.sizes["step"])
    assert np.ptp(np.diff(steps)) <= 1
    assert drawn == pytest.approx(mean[steps.astype(int) - 1])


def test_order_that_was_not_measured_is_named(small):
    zeroth = small.sel(order=["zeroth"])
    with pytest.raises(ValueError, match="order = 'first': must be one of 'zeroth'"):
        plots.envelopes(zeroth)
    plots.summary(zeroth)


def test_lines_are_medians_over_seeds(small):
    figure = plots.envelopes(small, order="exact")
    drawn = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    for model in ("ConstGate", "SharedGate", "DiagGate"):
        assert drawn[model] == pytest.approx(small.envelope.sel(model=model, order="exact").median("seed").values)


def test_every_public_function_is_tried():
    public = {n for n, f in vars(plots).items() if callable(f) and getattr(f, "__module__", "") == plots.__name__ and not n.startswith("_")}
    assert public == {*FIGURES, "use_book_style"}


def test_style_is_transparent():
    with mpl.rc_context():
        plots.use_book_style()
        assert mpl.rcParams["figure.facecolor"] == "none"
