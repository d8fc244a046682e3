"""The plain loops: their backward pass against the Jacobians, and several networks at once against each alone."""

from __future__ import annotations

import pytest
import torch

from lwcore.cells import compiled
from tests.networks import CELLS, draw, make


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr(compiled, "ENABLED", False)


@pytest.mark.parametrize("kind", CELLS)
def test_backward_is_the_recursion_with_the_jacobians(kind):
    """Adjoints of every pre-activation and of the initial state, against Eq. (3) with the one-step Jacobians as operators."""
    cell = make(kind)
    trace = cell.trace(draw(3, 9, 3))
    delta, of_rest = draw(3, 9, 4, seed=5), draw(3, cell.state_size - 4, seed=6)
    ours = trace.backward(delta, of_rest)
    adjoint = trace.backpropagate(delta, of_rest)
    for name, gradient in trace.cotangent(adjoint, slice(None)).items():
        torch.testing.assert_close(trace.gradients(ours)[name], gradient, rtol=1e-11, atol=1e-12)
    initial = trace.jacobian(0).pull(adjoint[:, 0].unsqueeze(-2)).squeeze(-2)
    torch.testing.assert_close(ours.initial, initial, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_networks_at_once_compute_what_each_does_alone(kind):
    cells = [make(kind, seed) for seed in range(3)]
    inputs, initial, weights = draw(3, 2, 7, 3), draw(3, 2, cells[0].state_size, seed=4), draw(3, 2, 7, 4, seed=5)
    names = [name for name, _ in cells[0].named_parameters()]
    stacked = {name: torch.stack([cell.get_parameter(name).detach() for cell in cells]).requires_grad_() for name in names}
    state = initial if cells[0].state_size == 4 else initial.chunk(2, dim=-1)
    outputs = torch.func.functional_call(cells[0], stacked, (inputs, state))
    together = torch.autograd.grad((outputs * weights).sum(), list(stacked.values()))
    for s, cell in enumerate(cells):
        of_cell = initial[s] if cell.state_size == 4 else initial[s].chunk(2, dim=-1)
        alone = cell(inputs[s], of_cell)
        torch.testing.assert_close(outputs[s], alone, rtol=1e-12, atol=1e-13)
        expected = torch.autograd.grad((alone * weights[s]).sum(), list(cell.parameters()))
        for ours, theirs in zip(together, expected, strict=True):
            torch.testing.assert_close(ours[s], theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_a_trace_made_by_compiled_loops_may_go_back_through_plain_ones(kind, monkeypatch):
    """Blocks lie in memory otherwise there, and both ways give the same."""
    cell, delta = make(kind), draw(2, 7, 4, seed=5)
    of_rest = draw(2, cell.state_size - 4, seed=6)
    found = []
    for scan in (False, True):
        monkeypatch.setattr(compiled, "ENABLED", scan)
        trace = cell.trace(draw(2, 7, 3))
        for back in (False, True):
            monkeypatch.setattr(compiled, "ENABLED", back)
            found.append(trace.gradients(trace.backward(delta, of_rest)))
    for other in found[1:]:
        for name, gradient in found[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-11, atol=1e-12)
