"""Starts from given time scales: what a network without gate weights forgets."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from book.chapters import starts
from lwcore import cells
from lwcore.network import Network
from lwcore.transport import effective_rates
from lwcore.window import time_scales


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
    with pytest.raises(ValueError, match=r"shape of time_scales = \(2,\): must be \(\) or \(6,\)"):
        starts.spread_gates(network, [1, 2])
    with pytest.raises(ValueError, match=r"SharedGate'?: must be of a kind with a gate for every"):
        starts.spread_gates(Network(cells.SharedGate(3, 6)), 2.0)
