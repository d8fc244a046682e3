"""Base rates against Adam's own definition, and the split of the envelope."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from lwcore.adaptive import base_rates, split_envelope
from lwcore.network import Network
from tests.networks import CELLS, make


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


def test_split_adds_up():
    rate = xr.DataArray([[1.0, 2.0], [0.5, 0.0]], dims=("lag", "unit"))
    split = split_envelope(rate, xr.DataArray([3.0, 0.5], dims="unit"))
    assert split.f_gates.values.tolist() == [3.0, 0.5]
    assert split.f.values.tolist() == [4.0, 1.5]
    assert split.f_adapt.values.tolist() == [1.0, 1.0]
