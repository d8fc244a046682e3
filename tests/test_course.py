"""A network looked at on the way: against its gates, its own predictions, and rates computed
elsewhere."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from lwcore.config import DiagnosticSettings
from lwcore.course import course
from lwcore.network import Network
from lwcore.tasks import DelayedRegression, sample
from lwcore.transport import effective_rates
from lwcore.window import time_scales
from tests.networks import CELLS, make

SETTINGS = DiagnosticSettings(sequences=80, lags=[1, 2, 5], ends=3, directions=1, budgets=[100])
TASK = DelayedRegression(20, [1, 3], [0.7, 0.5], 0.3, [1.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", CELLS)
def test_snapshots_are_measured_one_by_one(kind):
    network = Network(make(kind, hidden_size=5), torch.Generator().manual_seed(1))
    sequences = sample(TASK, 80, np.random.default_rng(0))
    before = copy.deepcopy(network.state_dict())
    later = {name: 1.3 * value for name, value in before.items()}
    result = course(network, {0: before, 7: later}, sequences, TASK, SETTINGS)
    assert result.snapshot.values.tolist() == [0, 7]
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    for step, state in ((0, before), (7, later)):
        one = copy.deepcopy(network).double()
        one.load_state_dict(state)
        inputs, targets = (part[:64].double() for part in sequences)
        trace = one.cell.trace(inputs)
        at = result.sel(snapshot=step)
        kept = trace.gates.keep.expand(64, 20, 5).reshape(-1, 5)
        np.testing.assert_allclose(at.retention, kept.mean(0), rtol=1e-9)
        np.testing.assert_allclose(at.retention_spread, kept.std(0), rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(at.saturated, ((kept < 0.05) | (kept > 0.95)).double().mean(0))
        assert float(at.course_loss) == pytest.approx(one.loss(inputs, targets).item())
        with torch.no_grad():
            outputs = one(inputs)
        by_hand = [(outputs[:, lag:] * inputs[:, :-lag, 0]).mean() for lag in (1, 3)]
        np.testing.assert_allclose(at.course_learned, by_hand, rtol=1e-9)
        for order in SETTINGS.orders:
            rates = effective_rates(trace, [1, 2, 5], order, [19]).abs().mean((0, 1))
            np.testing.assert_allclose(
                at.course_envelope.sel(order=order), rates.sum(-1), rtol=1e-9
            )
            np.testing.assert_allclose(
                at.course_time_scale.sel(order=order),
                time_scales([1, 2, 5], rates.numpy()),
                rtol=1e-9,
            )
