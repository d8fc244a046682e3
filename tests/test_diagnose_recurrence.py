"""The generic transport against autograd through the real modules: gradients by lag, rates, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lwcore.bptt import lag_vectors
from lwcore.cells import LSTM
from lwcore.diagnose.recurrence import Recurrence, first_end
from lwcore.transport import exact_rates_and_share
from tests.networks import CELLS, draw, initial_state, make

MODULES = [(kind, layers) for kind in ("LSTM", "GRU", "RNN-tanh", "RNN-relu") for layers in (1, 2, 3)]


def torch_module(kind, layers=1, hidden=4, seed=0, **options):
    """A float64 module of PyTorch's with strong couplings."""
    torch.manual_seed(seed)
    name, _, nonlinearity = kind.partition("-")
    options |= {"nonlinearity": nonlinearity} if nonlinearity else {}
    module = getattr(nn, name)(3, hidden, layers, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 1.8
    return module


def own_gradients(module, run, delta_h):
    """Each sequence's gradient of Σ δ·h by autograd through time, (B, P)."""
    return torch.stack(
        [
            torch.cat([g.flatten() for g in torch.autograd.grad((run()[b] * delta_h[b]).sum(), list(module.parameters()))])
            for b in range(len(delta_h))
        ]
    )


def delta_of(recurrence, delta_h):
    """δ in the whole state from δ in the last layer's outputs."""
    delta = delta_h.new_zeros(*delta_h.shape[:2], recurrence.state_size)
    delta[..., recurrence.shown[recurrence.layer == recurrence.layer[-1]]] = delta_h
    return delta


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("kind", "layers"), MODULES)
def test_lag_parts_add_up_to_autograds_gradient(kind, layers, batch_first, bias):
    module = torch_module(kind, layers, batch_first=batch_first, bias=bias)
    inputs, delta_h = draw(2, 7, 3), draw(2, 7, 4, seed=2)
    recurrence = Recurrence.of(module)
    scan = recurrence.scan(inputs, torch.zeros(2, recurrence.state_size, dtype=torch.float64))

    def run():
        return module(inputs)[0] if batch_first else module(inputs.transpose(0, 1))[0].transpose(0, 1)

    torch.testing.assert_close(scan.outputs, run().detach(), rtol=0, atol=1e-12)
    delta = delta_of(recurrence, delta_h)
    wanted = own_gradients(module, run, delta_h)
    parts = dict(scan.lag_parts(delta, list(range(7))))
    torch.testing.assert_close(sum(parts.values()), wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(scan.whole_gradient(delta), wanted, rtol=1e-10, atol=1e-10)
    direction = draw(wanted.shape[1], seed=3)
    for lag, rows, times in scan.lag_adjoints(delta, [1, 4]):
        torch.testing.assert_close(scan.mean_gradient(rows, times), parts[lag].mean(0), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(scan.along(rows, times, direction), parts[lag] @ direction, rtol=1e-10, atol=1e-10)
    some = dict(scan.lag_parts(delta, [2, 5]))
    assert all(torch.equal(some[lag], parts[lag]) for lag in (2, 5))


@pytest.mark.parametrize("kind", CELLS)
def test_cells_of_the_package_agree_with_their_closed_forms(kind):
    cell = make(kind)
    inputs, delta_h, initial = draw(3, 8, 3), draw(3, 8, 4, seed=2), draw(3, cell.state_size, seed=3)
    trace = cell.trace(inputs, initial_state(cell, initial))
    recurrence = Recurrence.of(cell)
    scan = recurrence.scan(inputs, initial)
    torch.testing.assert_close(scan.outputs, trace.outputs, rtol=1e-12, atol=1e-12)
    parts = torch.stack([part.sum(0) for _, part in scan.lag_parts(delta_of(recurrence, delta_h), [0, 1, 3, 7])])
    torch.testing.assert_close(parts, lag_vectors(trace, delta_h, [0, 1, 3, 7]), rtol=1e-9, atol=1e-11)
    rates, shares = zip(*scan.rates([1, 3, 5], [5, 7]), strict=True)
    for ours, theirs in zip(exact_rates_and_share(trace, [1, 3, 5], [5, 7]), (rates, shares), strict=True):
        torch.testing.assert_close(torch.stack(theirs, 2), ours, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN-tanh"])
def test_rates_of_a_stack_are_the_diagonal_of_autograds_jacobian(kind):
    """∂(h of both layers at t)/∂(carried states of both layers at t−ℓ), through PyTorch's own module."""
    module, lag, t = torch_module(kind, 2, batch_first=True), 3, 5
    inputs = draw(1, 7, 3)
    recurrence = Recurrence.of(module)
    scan = recurrence.scan(inputs, torch.zeros(1, recurrence.state_size, dtype=torch.float64))
    start = scan.history[0, t - lag + 1]

    def onwards(carried):
        state = start.index_put((recurrence.carried,), carried).unflatten(0, (2, -1, 4))  # (layer, part, H)
        parts = tuple(state[:, part : part + 1].contiguous() for part in range(state.shape[1]))
        _, last = module(inputs[:, t - lag + 1 : t + 1], parts if len(parts) > 1 else parts[0])
        return (last[0] if isinstance(last, tuple) else last)[:, 0].flatten()

    block = torch.autograd.functional.jacobian(onwards, start[recurrence.carried])
    ((rates, shares),) = scan.rates([lag], [t])
    torch.testing.assert_close(rates[0, 0], block.diagonal(), rtol=1e-9, atol=1e-12)
    beside = block - torch.diag(block.diagonal())
    torch.testing.assert_close(shares[0, 0], beside.norm() / block.norm(), rtol=1e-9, atol=0)


def test_a_state_that_starts_elsewhere_carries_on():
    module = torch_module("LSTM", 2, batch_first=True)
    inputs, h, c = draw(2, 5, 3), draw(2, 2, 4, seed=3), draw(2, 2, 4, seed=4)
    recurrence = Recurrence.of(module)
    initial = torch.stack([h, c], 1).permute(2, 0, 1, 3).flatten(1)
    torch.testing.assert_close(recurrence.scan(inputs, initial).outputs, module(inputs, (h, c))[0].detach(), rtol=0, atol=1e-12)


def test_first_end_is_where_losses_begin():
    delta = torch.zeros(2, 5, 3)
    assert first_end(delta) == 4
    delta[1, 2, 0] = 1e-300
    delta = delta.double()
    delta[1, 2, 0] = 1e-300
    assert first_end(delta) == 2


def test_what_has_no_single_direction_or_state_is_refused():
    with pytest.raises(ValueError, match="bidirectional"):
        Recurrence.of(nn.LSTM(1, 2, bidirectional=True))
    with pytest.raises(ValueError, match="proj_size = 1"):
        Recurrence.of(nn.LSTM(1, 2, proj_size=1))
    with pytest.raises(TypeError, match=r"Linear.*must be a torch\.nn\.LSTM"):
        Recurrence.of(nn.Linear(1, 2))


def test_the_module_is_left_as_it_is():
    cell = LSTM(2, 3)
    before = {name: value.clone() for name, value in cell.state_dict().items()}
    Recurrence.of(cell).parameters["weight_hh"].zero_()
    assert all(torch.equal(before[name], value) for name, value in cell.state_dict().items())
    assert cell.weight_hh.dtype == torch.float32
