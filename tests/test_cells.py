"""The cells against a step-by-step recurrence and against autograd, in float64."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lwcore.cells import ConstGate, DiagGate, ScalarGateCell, SharedGate
from tests import oracles

CELLS = [ConstGate, SharedGate, DiagGate]


def make(kind: type[ScalarGateCell], seed: int = 0, input_size: int = 3, hidden_size: int = 4, **options: float) -> ScalarGateCell:
    """A float64 cell with strong couplings, so that a wrong term shows."""
    generator = torch.Generator().manual_seed(seed)
    options = {"gate_init": 0.3, "gate_spread": 1.0} | options
    cell = kind(input_size, hidden_size, generator=generator, dtype=torch.float64, **options)
    with torch.no_grad():
        cell.bias += 0.3 * torch.randn(cell.bias.shape, generator=generator, dtype=torch.float64)
    return cell


def draw(*shape: int, seed: int = 1) -> Tensor:
    """Standard Gaussian float64 numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", CELLS)
@given(seed=st.integers(0, 2**31), batch=st.integers(1, 3), steps=st.integers(1, 6), hidden=st.integers(1, 5))
def test_forward_is_the_recurrence(kind, seed, batch, steps, hidden):
    cell = make(kind, seed, hidden_size=hidden)
    inputs, initial = draw(batch, steps, 3, seed=seed + 1), draw(batch, hidden, seed=seed + 2)
    expected = oracles.scan(cell, inputs, initial)
    torch.testing.assert_close(cell(inputs, initial), expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(cell.trace(inputs, initial).states, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", CELLS)
def test_backward_passes_gradcheck(kind):
    cell = make(kind)
    names = [name for name, _ in cell.named_parameters()]

    def scan(inputs: Tensor, initial: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(cell, dict(zip(names, parameters, strict=True)), (inputs, initial))

    variables = [draw(2, 5, 3), draw(2, 4, seed=2), *(p.detach().clone() for p in cell.parameters())]
    assert torch.autograd.gradcheck(scan, [v.requires_grad_() for v in variables], eps=1e-6, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("kind", CELLS)
def test_backward_equals_autograd_through_the_oracle(kind):
    cell = make(kind)
    inputs, weights = draw(3, 12, 3), draw(3, 12, 4, seed=3)
    hand_written = torch.autograd.grad((cell(inputs) * weights).sum(), list(cell.parameters()))
    through_time = torch.autograd.grad((oracles.scan(cell, inputs) * weights).sum(), list(cell.parameters()))
    for ours, theirs in zip(hand_written, through_time, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_tangent_and_cotangent_are_the_immediate_derivative(kind):
    """B_t w against autograd of one step with the previous state held fixed, and ⟨λ, B w⟩ = ⟨Bᵀλ, w⟩."""
    cell = make(kind)
    trace = cell.trace(draw(2, 5, 3))
    direction = {name: draw(*p.shape, seed=i) for i, (name, p) in enumerate(cell.named_parameters())}
    tangent = trace.tangent(direction)
    for b in range(2):
        for t in range(5):

            def one_step(*parameters, b=b, t=t):
                moved = SimpleNamespace(hidden_size=4, constant_gate=cell.constant_gate, **dict(zip(direction, parameters, strict=True)))
                return oracles.step(moved, trace.inputs[b, t], trace.previous[b, t])

            parameters = tuple(p.detach() for p in cell.parameters())
            _, expected = torch.autograd.functional.jvp(one_step, parameters, tuple(direction.values()))
            torch.testing.assert_close(tangent[b, t], expected, rtol=1e-12, atol=1e-13)
    adjoint = draw(2, 5, 4, seed=9)
    back = trace.cotangent(adjoint, slice(0, 5))
    torch.testing.assert_close(sum((back[n] * direction[n]).sum() for n in back), (adjoint * tangent).sum(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_gates_start_where_they_are_told(kind):
    for spread, tolerance in ((0.0, 1e-12), (0.1, 0.05)):
        cell = kind(3, 4, gate_init=0.05, gate_spread=spread, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        gate = torch.as_tensor(cell.trace(draw(2, 50, 3)).gate, dtype=torch.float64)
        torch.testing.assert_close(gate, torch.full_like(gate, 0.05), rtol=0, atol=tolerance)


def test_input_weights_start_with_variance_one_over_d():
    cell = DiagGate(400, 300, generator=torch.Generator().manual_seed(0), gate_spread=0.5)
    count = 300 * 400
    assert cell.weight_ih[300:].var().item() == pytest.approx(1 / 400, rel=5 * (2 / count) ** 0.5)
    assert cell.weight_ih[:300].var().item() == pytest.approx(0.25 / 400, rel=5 * (2 / count) ** 0.5)


@pytest.mark.parametrize("kind", CELLS)
def test_trace_keeps_the_weights_it_was_made_with(kind):
    cell = make(kind)
    trace = cell.trace(draw(2, 5, 3))
    before = trace.jacobian(3).dense().clone()
    with torch.no_grad():
        cell.weight_hh.mul_(2)
    torch.testing.assert_close(trace.jacobian(3).dense(), before, rtol=0, atol=0)


def test_initialisation_is_orthogonal_and_reproducible():
    one, two = make(DiagGate, seed=5), make(DiagGate, seed=5)
    torch.testing.assert_close(one.weight_hh, two.weight_hh, rtol=0, atol=0)
    candidate = one.weight_hh[-4:]
    torch.testing.assert_close(candidate @ candidate.t(), torch.eye(4, dtype=torch.float64))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"gate_init = 1: must lie in \(0, 1\)"):
        ConstGate(3, 4, gate_init=1)
    with pytest.raises(ValueError, match="hidden_size = 0"):
        DiagGate(3, 0)
    cell = make(DiagGate)
    with pytest.raises(ValueError, match=r"inputs has shape \(2, 5, 7\)"):
        cell(draw(2, 5, 7))
    with pytest.raises(ValueError, match=r"inputs has shape \(0, 5, 3\)"):
        cell(draw(0, 5, 3))
    with pytest.raises(ValueError, match="dtype"):
        cell(draw(2, 5, 3).float())
    with pytest.raises(ValueError, match=r"state has shape \(3, 4\)"):
        cell(draw(2, 5, 3), draw(3, 4))
    with pytest.raises(ValueError, match=r"state has .* dtype torch\.float32"):
        cell(draw(2, 5, 3), draw(2, 4).float())
    damaged = draw(2, 5, 3)
    damaged[1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match="inputs: 1 of 30 entries are NaN or infinite"):
        cell(damaged)
    with pytest.raises(TypeError, match="inputs is a list"):
        cell([[1.0]])
