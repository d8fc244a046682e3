"""The readout's loss and its gradients against autograd, and what a backward pass keeps."""

import pytest
import torch

from lwcore.network import Network
from tests.networks import CELLS, draw, make


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


@pytest.mark.parametrize("kind", CELLS)
def test_memory_kept_for_the_backward_pass(kind):
    """At most m + 2 numbers a neuron, step and sequence, for m gates and the candidate, one more
    under layer normalisation; and the inputs with a one behind them."""
    network = Network(make(kind, hidden_size=16))
    inputs = draw(2, 64, 3)
    targets = draw(2, 64, seed=3)
    bytes_kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        bytes_kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network.loss(inputs, targets)
    for tensor in (inputs, targets, *network.parameters()):
        bytes_kept.pop(tensor.untyped_storage().data_ptr(), None)
    numbers_a_step = sum(bytes_kept.values()) / 8 / (2 * 64)
    n_blocks = len(network.cell.weight_hh) / 16  # gates and candidate
    of_neurons = 16 * (n_blocks + 2 + network.cell.layernorm)
    of_inputs = 3 + 1
    of_loss = 3  # a prediction, its error, a spread
    assert numbers_a_step <= of_neurons + of_inputs + of_loss
