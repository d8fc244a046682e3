"""The readout's loss gradient against autograd."""

from __future__ import annotations

import torch

from lwcore.network import Network
from tests.networks import draw, make


def test_loss_gradients_are_the_derivative_of_each_steps_loss():
    network = Network(make("DiagGate"), torch.Generator().manual_seed(2))
    states, targets = draw(2, 5, 4).requires_grad_(), draw(2, 5, seed=3)
    expected = torch.autograd.grad((network.readout(states) - targets).square().sum(), states)[0]
    ours = network.loss_gradients(network.residual(states, targets))
    torch.testing.assert_close(ours, expected, rtol=1e-13, atol=1e-14)


def test_loss_is_the_mean_over_steps_and_sequences():
    network = Network(make("DiagGate"), torch.Generator().manual_seed(2))
    inputs, targets = draw(2, 5, 3), draw(2, 5, seed=3)
    errors = [(network(inputs)[b, t] - targets[b, t]).item() ** 2 for b in range(2) for t in range(5)]
    assert abs(network.loss(inputs, targets).item() - sum(errors) / 10) < 1e-13


def test_observation_holds_the_trace_and_its_loss_gradients():
    network = Network(make("LSTM"), torch.Generator().manual_seed(2))
    inputs, targets = draw(2, 5, 3), draw(2, 5, seed=3)
    trace, delta = network.observe(inputs, targets)
    assert torch.equal(trace.outputs, network.cell.trace(inputs).outputs)
    assert torch.equal(delta, network.loss_gradients(network.readout(trace.outputs) - targets).detach())
