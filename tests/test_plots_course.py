"""Figures of spectra: the lines drawn are the numbers computed."""

from __future__ import annotations

import numpy as np
import pytest

from lwcore import plots_course as plots
from lwcore.config import Config, Sweep
from lwcore.experiment import run
from lwcore.spectra import learned_share, quantile, width
from lwcore.starts import run_from
from lwcore.sweep import run_sweep

SHORT = Config.named("smoke").but(models=["ConstGate", "DiagGate"], training={"steps": 6, "snapshots": [0, 3, 6]})


@pytest.fixture(scope="module")
def results():
    return run(SHORT, progress=False)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    changes = {"models": ["SharedGate", "DiagGate", "GRU", "LSTM"], "training": {"steps": 4, "snapshots": [0, 4]}}
    weights = {"short": [0.9, 0.0], "long": [0.0, 0.9]}
    axes = {
        "optimizer": [{"label": name, "changes": {"training": {"optimizer": name}}} for name in ("sgd", "adamw")],
        "gate_spread": [{"label": value, "changes": {"network": {"gate_spread": value}}} for value in (0.1, 1.0)],
        "task": [{"label": name, "changes": {"task": {"lags": [2, 5], "coefficients": w}}} for name, w in weights.items()],
    }
    grid = Sweep.model_validate({"name": "grid", "description": "", "base": "smoke", "changes": changes | {"seeds": [1]}, "axes": axes})
    return run_sweep(grid, directory=tmp_path_factory.mktemp("sweep"))


def heights(axes):
    return [np.asarray(line.get_ydata(), float) for line in axes.lines]


def test_quantiles_and_widths_along_training(results):
    panels = plots.quantiles_along(results).axes
    assert [axes.get_title() for axes in panels] == ["DiagGate", ""], "a gate that is not learned has no course"
    tau = results.course_time_scale.sel(model="DiagGate")
    for axes, order in zip(panels, ("zeroth", "exact"), strict=True):
        drawn = heights(axes)
        for level in (0.1, 0.5, 0.9):
            wanted = quantile(tau.sel(order=order), level).median("seed")
            assert any(len(y) == 3 and np.allclose(y, wanted) for y in drawn)
    zeroth, _, learned = plots.widths_along(results).axes
    np.testing.assert_allclose(heights(zeroth)[1], width(tau.sel(order="zeroth")).median("seed"))
    np.testing.assert_allclose(heights(learned)[0], learned_share(results).sel(model="ConstGate").median("seed"))


def test_sweep_is_drawn_point_by_point(sweep):
    spread = width(sweep.course_time_scale).isel(seed=0)
    for axes, task in zip(plots.trajectories(sweep).axes, ("short", "long"), strict=True):
        assert axes.get_title() == f"{task} task"
        one = spread.sel(task=task, gate_spread=0.1, order="zeroth", model="GRU", optimizer="sgd")
        assert any(np.allclose(y, one) for y in heights(axes) if len(y) == 2)
    panels = plots.widths_over(sweep).axes
    one = spread.sel(order="exact", model="LSTM", optimizer="adamw", task="long").isel(snapshot=-1)
    assert any(np.allclose(y, one) for y in heights(panels[5]) if len(y) == 2)


def test_intervention_has_a_line_a_start():
    runs = run_from(SHORT.but(models=["DiagGate"]), {"fast": 1.0, "slow": 40.0})
    panels = plots.intervention(runs).axes
    assert all({"fast", "slow"} <= set(axes.get_legend_handles_labels()[1]) for axes in panels)
    np.testing.assert_allclose(heights(panels[3])[1], runs.envelope.sel(start="slow", order="exact").median("seed").squeeze())
