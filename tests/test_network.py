"""The readout's loss and its gradients against autograd."""

import pytest
import torch

from lwcore.network import Network
from tests.networks import draw, make


def test_loss_gradients_are_the_derivative_of_each_steps_loss():
    network = Network(make("LSTM"), torch.Generator().manual_seed(2))
    network.bias.data.fill_(0.3)
    inputs, targets = draw(2, 5, 3), draw(2, 5, seed=3)
    states = network.cell(inputs).detach().requires_grad_()
    errors = states @ network.weight + network.bias - targets
    assert network.loss(inputs, targets).item() == pytest.approx(errors.square().mean().item())
    trace, delta = network.observe(inputs, targets)
    assert torch.equal(trace.outputs, states)
    expected = torch.autograd.grad(errors.square().sum(), states)[0]
    torch.testing.assert_close(delta, expected, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(network.residual(states, targets), errors.detach())
