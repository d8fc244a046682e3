"""A network at steps of its training against its gates, predictions and rates computed elsewhere,
and base rates against Adam's own definition."""

import copy

import numpy as np
import pytest
import torch

from lwcore.experiment.config import DiagnosticSettings
from lwcore.experiment.measure import base_rates, course
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
    states = {0: copy.deepcopy(network.state_dict())}
    states[7] = {name: 1.3 * value for name, value in states[0].items()}
    result = course(network, states, sequences, TASK, SETTINGS)
    assert all(torch.equal(states[0][name], now) for name, now in network.state_dict().items())
    inputs = sequences.inputs[:64].double()
    for step, state in states.items():
        snapshot = result.sel(snapshot=step)
        network.load_state_dict(state)
        trace = network.cell.trace(inputs)
        outputs = network(inputs).detach()
        kept = trace.gates.keep.expand(64, 20, 5).reshape(-1, 5)
        np.testing.assert_allclose(snapshot.retention, kept.mean(0), rtol=1e-9)
        learned = [(outputs[:, lag:] * inputs[:, :-lag, 0]).mean() for lag in (1, 3)]
        np.testing.assert_allclose(snapshot.course_learned, learned, rtol=1e-9)
        rates = effective_rates(trace, [1, 2, 5], "first", [19]).abs().mean((0, 1)).numpy()
        of_order = snapshot.sel(order="first")
        tau = time_scales([1, 2, 5], rates)
        np.testing.assert_allclose(of_order.course_envelope, rates.sum(-1), rtol=1e-9)
        np.testing.assert_allclose(of_order.course_time_scale, tau, rtol=1e-9)


@pytest.mark.parametrize("kind", CELLS)
def test_base_rate_is_the_mean_over_a_neurons_rows(kind):
    """v̂ by hand, row by row; a gate that is shared belongs to nobody."""
    network = Network(make(kind, hidden_size=3))
    generator = torch.Generator().manual_seed(3)
    descent = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.95), eps=1e-4)
    second_moments = dict.fromkeys(dict(network.named_parameters()), 0.0)
    for _ in range(4):
        for name, parameter in network.named_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).double()
            square = parameter.grad.numpy() ** 2
            second_moments[name] = 0.95 * second_moments[name] + 0.05 * square
        descent.step()
    rates = []
    for name in ("weight_ih", "weight_hh", "bias"):
        v_hat = second_moments[f"cell.{name}"] / (1 - 0.95**4)
        rates.append(1 / (np.sqrt(v_hat) + 1e-4))
    rows = np.column_stack(rates)
    n_shared = len(rows) % 3  # rows of a shared gate, which stand first
    expected = [rows[n_shared + neuron :: 3].mean() for neuron in range(3)]
    np.testing.assert_allclose(base_rates(network, descent.state_dict()), expected, rtol=1e-6)
    plain = torch.optim.SGD(network.parameters(), lr=0.1).state_dict()
    assert base_rates(network, plain).tolist() == [1, 1, 1]
