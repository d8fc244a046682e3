"""The figure of mixtures: the lines drawn are the numbers computed."""

from __future__ import annotations

import numpy as np
import xarray as xr

from lwcore.config import Config
from lwcore.experiment import run
from lwcore.mixtures import mixtures
from lwcore.plots_mixtures import reconstructions


def heights(axes):
    return [np.asarray(line.get_ydata(), float) for line in axes.lines]


def test_reconstructions_show_measured_and_mixture():
    results = run(Config.named("smoke").but(models=["ConstGate", "DiagGate"], training={"steps": 2, "snapshots": [0, 2]}), progress=False)
    lag = xr.DataArray(np.asarray(results.lag, float), dims="lag")
    results["envelope"] = 0 * results.envelope + np.exp(-lag / 3)
    panels = reconstructions(results).axes
    np.testing.assert_allclose(heights(panels[0])[0], np.exp(-lag / 3))
    mixed = mixtures(results, "exact", own_weights=True).sel(model="DiagGate").median("seed")
    assert any(len(y) == len(lag) and np.allclose(y, mixed) for y in heights(panels[1]))
    middle = np.diff(lag) / np.diff(np.log(lag))
    np.testing.assert_allclose(heights(panels[2])[0], -middle / 3)
