"""Starts from given time scales: what a network without gate weights forgets, and that nothing else
differs from a plain run."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from book.chapters import starts
from book.chapters.spectra import learned_share
from lwcore import cells
from lwcore.config import Config
from lwcore.experiment import run
from lwcore.inference import probes, windows
from lwcore.network import Network
from lwcore.transport import effective_rates
from lwcore.window import time_scales

CONFIG = Config.named("smoke").but(
    models=["DiagGate"], training={"steps": 20, "snapshots": [0, 20]}
)


@pytest.mark.parametrize("cell", ["DiagGate", "GRU", "LSTM"])
def test_neurons_forget_as_they_are_told(cell):
    generator = torch.Generator().manual_seed(0)
    network = Network(
        getattr(cells, cell)(3, 6, gate_spread=0.0, generator=generator, dtype=torch.float64),
        generator,
    )
    before = copy.deepcopy(network.state_dict())
    asked = np.geomspace(0.5, 300, 6)
    starts.spread_gates(network, asked)
    trace = network.cell.trace(torch.randn(4, 20, 3, generator=generator, dtype=torch.float64))
    rates = effective_rates(trace, [1, 3, 7], "zeroth", [19]).mean((0, 1))
    np.testing.assert_allclose(time_scales([1, 3, 7], rates.numpy()), asked, rtol=1e-9)
    if cell == "LSTM":
        np.testing.assert_allclose(trace.gates.let_in, 1 - trace.gates.keep)
    changed = [
        name for name, value in network.state_dict().items() if not torch.equal(value, before[name])
    ]
    assert changed == ["cell.bias"]
    own = {"DiagGate": slice(0, 6), "GRU": slice(6, 12), "LSTM": slice(0, 12)}[cell]
    kept = np.setdiff1d(np.arange(len(before["cell.bias"])), np.arange(own.start, own.stop))
    assert torch.equal(network.cell.bias.detach()[kept], before["cell.bias"][kept])
    starts.spread_gates(network, 5.0)
    assert len(set(network.cell.bias[own].abs().tolist())) == 1


def test_bad_starts_are_refused():
    network = Network(cells.DiagGate(3, 6))
    with pytest.raises(ValueError, match=r"time_scales contains 0\.0: every entry must be above 0"):
        starts.spread_gates(network, [1, 2, 0.0, 1, 1, 1])
    with pytest.raises(
        ValueError,
        match=r"time_scales has shape \(2,\): must hold one entry, or one for each of the 6 neurons",
    ):
        starts.spread_gates(network, [1, 2])
    with pytest.raises(ValueError, match="a SharedGate has no gate for every neuron"):
        starts.spread_gates(Network(cells.SharedGate(3, 6)), 2.0)


@pytest.fixture(scope="module")
def runs():
    return starts.run_from(
        CONFIG, {"plain": -1 / np.log(1 - CONFIG.network.gate_init), "slow": 50.0}
    )


def test_start_at_the_plain_time_scale_is_the_plain_run(runs):
    plain = run(CONFIG, progress=False)
    for name in ("loss", "learned", "rate", "statistic"):
        if name in plain:
            np.testing.assert_allclose(
                runs[name].sel(start="plain"), plain[name], rtol=1e-3, atol=1e-5
            )
    assert not np.allclose(runs.loss.sel(start="slow"), plain.loss, rtol=1e-3)
    assert runs.attrs["fingerprint"] == plain.attrs["fingerprint"]


def test_comparison_is_seed_by_seed(runs):
    table = starts.compare(runs, 512)
    assert table.loc["plain", "more than plain"] == "+0.00 (+0.00 to +0.00)"
    share = learned_share(runs.isel(snapshot=-1, model=0))
    gain = (share.sel(start="slow") - share.sel(start="plain")).values
    assert (
        table.loc["slow", "more than plain"]
        == f"{gain.mean():+.2f} ({gain.min():+.2f} to {gain.max():+.2f})"
    )
    window = (
        windows(
            probes(runs.isel(model=0), "gradient", "error"), 512, noise="whole", rate="variance"
        )
        .mean("probe")
        .sel(start="slow")
    )
    assert (
        table.loc["slow", "the optimiser's window"]
        == f"{window.mean():.0f} ({window.min():.0f} to {window.max():.0f})"
    )
