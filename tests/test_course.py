"""A network at steps of its training against its gates, predictions and rates computed elsewhere,
and base rates against Adam's own definition."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from lwcore.config import DiagnosticSettings
from lwcore.course import base_rates, course
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


def adam(network, gradients, betas=(0.9, 0.95), eps=1e-4):
    """An optimiser that has seen some gradients."""
    descent = torch.optim.AdamW(network.parameters(), lr=0.01, betas=betas, eps=eps)
    for gradient in gradients:
        for parameter, g in zip(network.parameters(), gradient, strict=True):
            parameter.grad = g
        descent.step()
    return descent


@pytest.mark.parametrize("kind", CELLS)
def test_base_rate_is_the_mean_over_a_neurons_rows(kind):
    """v̂ by hand, neuron by neuron and row by row; a gate that is shared belongs to nobody."""
    network = Network(make(kind, hidden_size=3))
    generator = torch.Generator().manual_seed(3)
    gradients = [
        [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in network.parameters()]
        for _ in range(4)
    ]
    found = base_rates(network, adam(network, gradients).state_dict())
    names = [name for name, _ in network.named_parameters()]
    rows = len(network.cell.bias)
    expected = []
    for neuron in range(3):
        entries = []
        own = range(rows % 3 + neuron, rows, 3)
        for name in ("cell.weight_ih", "cell.weight_hh", "cell.bias"):
            second = 0.0
            for gradient in gradients:
                second = 0.95 * second + 0.05 * gradient[names.index(name)].double().numpy() ** 2
            values = 1 / (np.sqrt(second / (1 - 0.95**4)) + 1e-4)
            entries += [np.ravel(values[row]) for row in own]
        expected.append(np.concatenate(entries).mean())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_plain_descent_has_one_base_rate():
    network = Network(make("GRU", hidden_size=3))
    state = torch.optim.SGD(network.parameters(), lr=0.1).state_dict()
    assert base_rates(network, state).tolist() == [1, 1, 1]
