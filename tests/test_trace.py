"""A trace's Jacobians and immediate derivatives against autograd through the oracle, of the paper's
cells and of a reader's own loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lwcore.gradient import lag_gradients, total_transport
from lwcore.trace import Trace
from lwcore.transport import effective_rates, step_jacobian
from tests import oracles
from tests.networks import EVERY, draw, make


@pytest.mark.parametrize("kind", EVERY)
@given(seed=st.integers(0, 2**31), hidden=st.integers(1, 6), batch=st.integers(1, 3))
def test_step_jacobian_is_the_same_three_ways(kind, seed, hidden, batch):
    """Eqs. (9)–(11), (19)–(22), (48), (50), (52): closed form, autodiff of the cell's step,
    autodiff of the oracle's."""
    cell = make(kind, seed, hidden_size=hidden)
    initial = draw(batch, cell.state_size, seed=seed + 2)
    trace = Trace.of(cell, draw(batch, 3, 3, seed=seed + 1), initial)
    ours = trace.jacobian(slice(None)).dense()
    torch.testing.assert_close(
        ours, trace.jacobian(slice(None), closed=False).dense(), rtol=1e-10, atol=1e-12
    )
    torch.testing.assert_close(step_jacobian(trace, 1), ours[:, 1], rtol=1e-12, atol=1e-14)
    expected = oracles.step_jacobian(cell, trace.inputs[0, 2], trace.previous[0, 2])
    torch.testing.assert_close(ours[0, 2], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_step_jacobian_is_the_quotient_of_differences(kind):
    """Central ones: autograd is not asked."""
    cell = make(kind)
    trace, eye = cell.trace(draw(2, 4, 3)), 1e-5 * torch.eye(cell.state_size, dtype=torch.float64)
    inputs, previous = trace.inputs[:, 2:3], trace.previous[:, 2:3]
    slopes = (cell.step(inputs, previous + eye) - cell.step(inputs, previous - eye)) / 2e-5
    torch.testing.assert_close(step_jacobian(trace, 2), slopes.detach().mT, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
@pytest.mark.parametrize("kind", EVERY)
def test_operators_equal_dense_matrices(kind, dtype, tolerance):
    """The one interface, by both implementations, in both dtypes; and condensed."""
    cell = make(kind).to(dtype)
    trace = cell.trace(draw(2, 6, 3).to(dtype))
    for steps in (torch.tensor([1, 3, 4]), slice(2, 5), 4):
        for closed in (True, False):
            operator = trace.jacobian(steps, closed=closed)
            dense = operator.dense()
            rows = draw(*dense.shape[:-2], 5, cell.state_size).to(dtype)
            assert operator.pull(rows).dtype == dtype
            torch.testing.assert_close(
                operator.pull(rows), rows @ dense, rtol=tolerance, atol=tolerance / 10
            )
        torch.testing.assert_close(
            dense, trace.jacobian(steps).dense(), rtol=tolerance, atol=tolerance / 10
        )
    rows = draw(6, 5, cell.state_size).to(dtype)
    for closed in (True, False):
        operator = trace.jacobian(torch.arange(6), 1, closed=closed)
        found = operator.condensed()(slice(2, 5), rows[2:5])
        torch.testing.assert_close(
            found, operator.pull(rows)[2:5], rtol=tolerance, atol=tolerance / 10
        )


@pytest.mark.parametrize("kind", EVERY)
def test_neurons_are_the_diagonals_of_the_dense_jacobian(kind):
    trace = make(kind).trace(draw(2, 6, 3))
    dense, neurons = trace.jacobian(slice(None)).dense(), trace.neurons
    carried = dense[..., -4:, -4:].diagonal(dim1=-2, dim2=-1)
    if neurons.head is None:
        torch.testing.assert_close(
            neurons.retention + neurons.mixing, carried, rtol=1e-11, atol=1e-13
        )
        return
    torch.testing.assert_close(neurons.retention, carried, rtol=1e-12, atol=0)
    shown = dense[..., :4, 4:].diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(neurons.head * neurons.retention, shown, rtol=1e-12, atol=1e-14)
    through_cell = dense[..., 4:, :4].diagonal(dim1=-2, dim2=-1)[:, 1:] * neurons.head[:, :-1]
    torch.testing.assert_close(neurons.mixing[:, 1:], through_cell, rtol=1e-11, atol=1e-13)
    through_both = dense[..., :4, :4].diagonal(dim1=-2, dim2=-1)[:, 1:] * neurons.head[:, :-1]
    torch.testing.assert_close(
        neurons.lead[:, 1:] + neurons.head[:, 1:] * neurons.mixing[:, 1:],
        through_both,
        rtol=1e-11,
        atol=1e-13,
    )


@pytest.mark.parametrize("kind", EVERY)
def test_moved_and_gathered_are_the_immediate_derivative(kind):
    """B_t w against autograd of one step with the previous state held fixed, and ⟨λ, B w⟩ = ⟨Bᵀλ,
    w⟩."""
    cell = make(kind)
    trace = cell.trace(draw(2, 5, 3))
    direction = {
        name: draw(*p.shape, seed=i) for i, (name, p) in enumerate(cell.named_parameters())
    }
    moved = trace.moved(direction)
    for b in range(2):
        for t in range(5):

            def one_step(*parameters, b=b, t=t):
                other = make(kind)
                for name, parameter in zip(direction, parameters, strict=True):
                    delattr(other, name)
                    setattr(other, name, parameter)
                return oracles.step(other, trace.inputs[b, t], trace.previous[b, t])

            _, expected = torch.autograd.functional.jvp(
                one_step, tuple(trace.parameters.values()), tuple(direction.values())
            )
            torch.testing.assert_close(moved[b, t], expected, rtol=1e-11, atol=1e-12)
    adjoint = draw(2, 3, cell.state_size, seed=9)
    back = trace.gathered(adjoint, slice(1, 4))
    torch.testing.assert_close(
        sum((back[n] * direction[n]).sum() for n in back),
        (adjoint * moved[:, 1:4]).sum(),
        rtol=1e-11,
        atol=0,
    )


@pytest.mark.parametrize("kind", EVERY)
def test_backpropagation_is_autograds(kind):
    """Eq. (3)'s λ against the gradient of a weighted sum of outputs in what is added to every
    state; the caller's are left alone."""
    cell = make(kind)
    trace, delta = cell.trace(draw(2, 7, 3)), draw(2, 7, 4, seed=5)
    added = torch.zeros_like(trace.states).requires_grad_()
    for b in range(2):
        state = trace.history[b, 0]
        for t in range(7):
            state = oracles.step(cell, trace.inputs[b, t], state) + added[b, t]
            (state[:4] @ delta[b, t]).backward(retain_graph=True)
    before = delta.clone()
    torch.testing.assert_close(trace.backpropagate(delta), added.grad, rtol=1e-10, atol=1e-12)
    assert torch.equal(delta, before)


def test_gradients_whose_sum_overflows_are_finite():
    trace = make("ConstGate").trace(draw(2, 5, 3))
    assert trace.backpropagate(torch.full_like(trace.outputs, 1e307))[:, -1].eq(1e307).all()


class Loop(nn.Module):
    """A recurrence of a reader's own: two linear layers, a state whose parts are neither shown nor
    carried in order."""

    state_size, shown, carried = 5, [0, 2, 4], [4, 1, 3]

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inward, self.within = nn.Linear(3, 5).double(), nn.Linear(5, 5, bias=False).double()

    def step(self, x, kept, seen=None):
        return 0.8 * kept + 0.2 * torch.sin(
            self.inward(x) + self.within(kept if seen is None else seen)
        ) * kept.roll(1, -1)


def test_a_loop_of_ones_own_is_traced_as_a_cell_is():
    """Pulls, B w and its transpose, exact rates and the gradient by lag: all against autograd
    through the loop."""
    loop, inputs, delta = Loop(), draw(2, 6, 3), draw(2, 6, 3, seed=5)
    states = [draw(2, 5, seed=2)]
    for x in inputs.unbind(1):
        states.append(loop.step(x, states[-1]))
    history = torch.stack(states, dim=1)
    trace = Trace(loop, inputs, history.detach())
    assert (trace.length, trace.hidden_size, list(trace.parameters)) == (
        6,
        3,
        ["inward.weight", "inward.bias", "within.weight"],
    )
    gradients = torch.autograd.grad(
        (history[:, 1:, [0, 2, 4]] * delta).sum(), list(loop.parameters())
    )
    for part, gradient in zip(lag_gradients(trace, delta).values(), gradients, strict=True):
        torch.testing.assert_close(part.sum(0), gradient, rtol=1e-10, atol=1e-12)

    def onwards(state, first):
        for t in range(first, 6):
            state = loop.step(inputs[0, t], state)
        return state

    short, long = (
        torch.autograd.functional.jacobian(lambda s, t=t: onwards(s, t), trace.previous[0, t])
        for t in (5, 2)
    )
    torch.testing.assert_close(
        trace.jacobian(5, 0).pull(draw(2, 5)), draw(2, 5) @ short, rtol=1e-12, atol=1e-13
    )
    rates = effective_rates(trace, [4], ends=[5])[0, 0, 0]
    torch.testing.assert_close(rates, long[[0, 2, 4], [4, 1, 3]], rtol=1e-10, atol=1e-12)
    direction, weights = (
        {name: draw(*part.shape, seed=7) for name, part in trace.parameters.items()},
        draw(2, 6, 5, seed=8),
    )
    moved = trace.moved(direction)
    expected = oracles.slope(loop, direction, lambda: loop.step(inputs, trace.previous))
    torch.testing.assert_close(moved, expected, rtol=1e-7, atol=1e-9)
    along = sum((part * direction[name]).sum() for name, part in trace.gathered(weights).items())
    torch.testing.assert_close(along, (weights * moved).sum(), rtol=1e-11, atol=0)
    whole = total_transport(trace, delta, moved, [4], [5])[0, 0, 0]
    torch.testing.assert_close(
        whole, delta[0, 5] @ long[[0, 2, 4]] @ moved[0, 1], rtol=1e-10, atol=1e-13
    )
