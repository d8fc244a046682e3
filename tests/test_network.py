"""The readout's loss gradient against autograd."""

from __future__ import annotations

import gc

import pytest
import torch

from lwcore.network import Network
from tests.networks import CELLS, draw, make


def test_loss_gradients_are_the_derivative_of_each_steps_loss():
    network = Network(make("DiagGate"), torch.Generator().manual_seed(2))
    states, targets = draw(2, 5, 4).requires_grad_(), draw(2, 5, seed=3)
    expected = torch.autograd.grad((network.readout(states) - targets).square().sum(), states)[0]
    ours = network.loss_gradients(network.residual(states, targets))
    torch.testing.assert_close(ours, expected, rtol=1e-13, atol=1e-14)


def test_loss_is_the_mean_over_steps_and_sequences():
    network = Network(make("DiagGate"), torch.Generator().manual_seed(2))
    inputs, targets = draw(2, 5, 3), draw(2, 5, seed=3)
    errors = [
        (network(inputs)[b, t] - targets[b, t]).item() ** 2 for b in range(2) for t in range(5)
    ]
    assert abs(network.loss(inputs, targets).item() - sum(errors) / 10) < 1e-13


def test_observation_holds_the_trace_and_its_loss_gradients():
    network = Network(make("LSTM"), torch.Generator().manual_seed(2))
    inputs, targets = draw(2, 5, 3), draw(2, 5, seed=3)
    trace, delta = network.observe(inputs, targets)
    assert torch.equal(trace.outputs, network.cell.trace(inputs).outputs)
    assert torch.equal(
        delta, network.loss_gradients(network.readout(trace.outputs) - targets).detach()
    )


@pytest.mark.parametrize("kind", CELLS)
def test_memory_kept_for_the_backward_pass(kind):
    """At most gates + 2 numbers a neuron, step and sequence, one more under layer normalisation;
    and the inputs with a one behind them."""
    network = Network(make(kind, hidden_size=16))
    inputs, targets = draw(2, 64, 3), draw(2, 64, seed=3)
    most = 16 * (len(network.cell.weight_hh) / 16 + 2 + network.cell.layernorm) + 3 + 1
    # a prediction, its error, a spread
    assert _kept_for_backward(network, inputs, targets) / (2 * 64) <= most + 3


def _kept_for_backward(network, inputs, targets):
    """Count the numbers kept between forward and backward, by autograd or by anything in Python,
    beside data and parameters."""
    gc.freeze()  # what is there already is not looked at
    before, saved = (
        {
            tensor.untyped_storage().data_ptr()
            for tensor in (inputs, targets, *network.parameters())
        },
        {},
    )

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network.loss(inputs, targets)
    gc.collect()
    kept = saved | _living()
    gc.unfreeze()
    loss.backward()
    return sum(size for pointer, size in kept.items() if pointer not in before) // 8


def _living():
    """Bytes of every tensor storage that Python or autograd can reach since the others were frozen,
    by address."""
    found = {}
    for thing in gc.get_objects():
        if type(thing) in (torch.Tensor, torch.nn.Parameter) and thing.device.type == "cpu":
            found[thing.untyped_storage().data_ptr()] = thing.untyped_storage().nbytes()
    return found
