"""The cells against a step-by-step recurrence, against autograd and against PyTorch's own layers, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lwcore.cells import GRU, LSTM, ConstGate, DiagGate
from tests import oracles
from tests.networks import CELLS, draw, initial_state, make


@pytest.mark.parametrize("kind", CELLS)
@given(seed=st.integers(0, 2**31), batch=st.integers(1, 3), steps=st.integers(1, 5), hidden=st.integers(1, 5))
def test_forward_is_the_recurrence(kind, seed, batch, steps, hidden):
    cell = make(kind, seed, hidden_size=hidden)
    inputs, initial = draw(batch, steps, 3, seed=seed + 1), draw(batch, cell.state_size, seed=seed + 2)
    expected = oracles.scan(cell, inputs, initial)
    state = initial_state(cell, initial)
    torch.testing.assert_close(cell(inputs, state), expected[..., :hidden], rtol=1e-11, atol=1e-12)
    trace = cell.trace(inputs, state)
    torch.testing.assert_close(trace.states, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(trace.outputs, expected[..., :hidden], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(cell.step(inputs[:, 0], initial), expected[:, 0], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(cell.unrolled(inputs, state), expected[..., :hidden], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_backward_passes_gradcheck(kind):
    cell = make(kind)
    names = [name for name, _ in cell.named_parameters()]

    def scan(inputs: Tensor, initial: Tensor, *parameters: Tensor) -> Tensor:
        state = initial_state(cell, initial)
        return torch.func.functional_call(cell, dict(zip(names, parameters, strict=True)), (inputs, state))

    variables = [draw(2, 3, 3), draw(2, cell.state_size, seed=2), *(p.detach().clone() for p in cell.parameters())]
    assert torch.autograd.gradcheck(scan, [v.requires_grad_() for v in variables], eps=1e-6, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("kind", CELLS)
def test_backward_equals_autograd_through_the_oracle(kind):
    cell = make(kind)
    inputs, weights = draw(3, 12, 3), draw(3, 12, 4, seed=3)
    hand_written = torch.autograd.grad((cell(inputs) * weights).sum(), list(cell.parameters()))
    through_time = torch.autograd.grad((oracles.scan(cell, inputs)[..., :4] * weights).sum(), list(cell.parameters()))
    for ours, theirs in zip(hand_written, through_time, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


def test_backward_notices_that_the_parameters_have_changed():
    cell = make("DiagGate")
    loss = cell(draw(2, 5, 3)).sum()
    with torch.no_grad():
        cell.weight_hh.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


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
                moved = make(kind)
                for name, parameter in zip(direction, parameters, strict=True):
                    delattr(moved, name)
                    setattr(moved, name, parameter)
                return oracles.step(moved, trace.inputs[b, t], trace.previous[b, t])

            parameters = tuple(p.detach() for p in cell.parameters())
            _, expected = torch.autograd.functional.jvp(one_step, parameters, tuple(direction.values()))
            torch.testing.assert_close(tangent[b, t], expected, rtol=1e-11, atol=1e-12)
    adjoint = draw(2, 3, cell.state_size, seed=9)
    back = trace.cotangent(adjoint, slice(1, 4))
    torch.testing.assert_close(sum((back[n] * direction[n]).sum() for n in back), (adjoint * tangent[:, 1:4]).sum(), rtol=1e-11, atol=0)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "layer"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_weights_of_torch_layers_give_their_outputs(kind, layer, bias, batch_first):
    torch.manual_seed(0)
    theirs = layer(3, 4, bias=bias, batch_first=batch_first, dtype=torch.float64)
    ours = kind.from_torch(theirs)
    inputs, initial = draw(2, 50, 3), draw(2, ours.state_size)
    parts = [part.unsqueeze(0).contiguous() for part in initial.split(4, dim=-1)]
    arguments = inputs if batch_first else inputs.transpose(0, 1)
    expected, _ = theirs(arguments, tuple(parts) if len(parts) == 2 else parts[0])
    expected = expected if batch_first else expected.transpose(0, 1)
    torch.testing.assert_close(ours(inputs, initial_state(ours, initial)), expected, rtol=1e-13, atol=1e-14)


def test_layers_that_are_more_than_one_recurrence_are_refused():
    for layer in (nn.LSTM(3, 4, num_layers=2), nn.LSTM(3, 4, bidirectional=True), nn.LSTM(3, 4, proj_size=2)):
        with pytest.raises(ValueError, match="must have one layer, one direction and no projection"):
            LSTM.from_torch(layer)
    with pytest.raises(ValueError, match="num_layers=2"):
        GRU.from_torch(nn.GRU(3, 4, num_layers=2))


@pytest.mark.parametrize(("kind", "gates"), [("DiagGate", ["gate"]), ("SharedGate", ["gate"]), ("ConstGate", ["gate"])])
def test_scalar_gates_start_where_they_are_told(kind, gates):
    for spread, tolerance in ((0.0, 1e-12), (0.1, 0.05)):
        cell = type(make(kind))(3, 4, gate_init=0.05, gate_spread=spread, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        trace = cell.trace(draw(2, 50, 3))
        for name in gates:
            gate = torch.as_tensor(getattr(trace, name), dtype=torch.float64)
            torch.testing.assert_close(gate, torch.full_like(gate, 0.05), rtol=0, atol=tolerance)


def test_gru_and_lstm_start_replacing_the_same_share():
    """z = i = 1 − f = gate_init; reset and output gate half open."""
    options = {"gate_init": 0.05, "gate_spread": 0.0, "dtype": torch.float64}
    gru, lstm = GRU(3, 4, **options).trace(draw(2, 9, 3)), LSTM(3, 4, **options).trace(draw(2, 9, 3))
    expected = {0.05: [gru.update_gate, lstm.input_gate], 0.95: [lstm.forget_gate], 0.5: [gru.reset_gate, lstm.output_gate]}
    for value, gates in expected.items():
        for gate in gates:
            torch.testing.assert_close(gate, torch.full_like(gate, value), rtol=0, atol=1e-12)


def test_input_weights_start_with_variance_one_over_d():
    cell = DiagGate(400, 300, generator=torch.Generator().manual_seed(0), gate_spread=0.5)
    count = 300 * 400
    assert cell.weight_ih[300:].var().item() == pytest.approx(1 / 400, rel=5 * (2 / count) ** 0.5)
    assert cell.weight_ih[:300].var().item() == pytest.approx(0.25 / 400, rel=5 * (2 / count) ** 0.5)


@pytest.mark.parametrize(("kind", "layer"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_uniform_initialisation_is_that_of_torch(kind, layer):
    """Each parameter's moments are those of the imported layer, which has drawn its own."""
    torch.manual_seed(0)
    options = {"reset": "after"} if kind is GRU else {}
    ours, theirs = kind(200, 100, init="uniform", **options), kind.from_torch(layer(200, 100))
    reference = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        for block, other in zip(parameter.split(100), reference[name].split(100), strict=True):
            spread = 5 / block.numel() ** 0.5
            assert block.abs().max() <= other.abs().max() * (1 + 10 / block.numel())
            assert block.std().item() == pytest.approx(other.std().item(), rel=2 * spread)
            assert abs(block.mean().item()) < spread * block.std().item()


@pytest.mark.parametrize("kind", CELLS)
def test_trace_keeps_the_weights_it_was_made_with(kind):
    cell = make(kind)
    trace = cell.trace(draw(2, 5, 3))
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(2)
    unchanged = make(kind).trace(draw(2, 5, 3))
    torch.testing.assert_close(trace.jacobian(3).dense(), unchanged.jacobian(3).dense(), rtol=0, atol=0)


def test_initialisation_is_orthogonal_and_reproducible():
    for kind in CELLS:
        one, two = make(kind, seed=5), make(kind, seed=5)
        for ours, theirs in zip(one.parameters(), two.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    for block in make("LSTM").weight_hh.split(4):
        torch.testing.assert_close(block @ block.t(), torch.eye(4, dtype=torch.float64))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"gate_init = 1: must lie in \(0, 1\)"):
        ConstGate(3, 4, gate_init=1)
    with pytest.raises(ValueError, match="hidden_size = 0"):
        DiagGate(3, 0)
    with pytest.raises(ValueError, match="init = 'zeros': must be one of 'orthogonal', 'uniform'"):
        LSTM(3, 4, init="zeros")
    with pytest.raises(ValueError, match="reset = 'never'"):
        GRU(3, 4, reset="never")
    cell = make("DiagGate")
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
    with pytest.raises(ValueError, match=r"state has 1 part\(s\): must be 2 tensors"):
        make("LSTM")(draw(2, 5, 3), draw(2, 4))
    with pytest.raises(TypeError, match="state = 3: must be a sequence"):
        cell(draw(2, 5, 3), 3)
    with pytest.raises(ValueError, match="state: some entries are NaN"):
        cell(draw(2, 5, 3), draw(2, 4) * torch.nan)
    with pytest.raises(TypeError, match="layernorm = 'no': must be True or False"):
        GRU(3, 4, layernorm="no")
    with pytest.raises(ValueError, match=r"dtype = torch\.int64: must be a floating torch\.dtype"):
        GRU(3, 4, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"layer is a GRU: must be a torch\.nn\.LSTM"):
        LSTM.from_torch(nn.GRU(3, 4))
    damaged = draw(2, 5, 3)
    damaged[1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match="inputs: 1 of 30 entries are NaN or infinite"):
        cell(damaged)
    with pytest.raises(TypeError, match="inputs is a list"):
        cell([[1.0]])
