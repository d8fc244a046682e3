"""A trace's Jacobians and immediate derivatives against autograd through the oracle, of the paper's
cells and of a reader's own loop."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lwcore.gradient import (
    immediate_sensitivity,
    lag_gradients,
    projected_gradient,
    random_direction,
    total_transport,
)
from lwcore.trace import Trace
from lwcore.transport import effective_rates, step_jacobian
from tests import oracles
from tests.networks import EVERY, close, draw, make


@pytest.mark.parametrize("kind", EVERY)
@given(seed=st.integers(0, 2**31), hidden=st.integers(1, 6), batch=st.integers(1, 3))
def test_step_jacobian_is_the_same_three_ways(kind, seed, hidden, batch):
    """Eqs. (9)–(11), (19)–(22), (48), (50), (52): closed form, autodiff of the cell's step,
    autodiff of the oracle's."""
    cell = make(kind, seed, hidden_size=hidden)
    initial = draw(batch, cell.state_size, seed=seed + 2)
    trace = Trace.of(cell, draw(batch, 3, 3, seed=seed + 1), initial)
    ours = trace.jacobian(slice(None)).dense()
    close(ours, trace.jacobian(slice(None), closed=False).dense())
    close(step_jacobian(trace, 1), ours[:, 1])
    close(ours[0, 2], oracles.step_jacobian(cell, trace.inputs[0, 2], trace.previous[0, 2]))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
@pytest.mark.parametrize("kind", EVERY)
def test_operators_equal_dense_matrices(kind, dtype, tolerance):
    """The one interface, by both implementations, in both dtypes; and condensed."""
    cell = make(kind).to(dtype)
    trace, near = cell.trace(draw(2, 6, 3).to(dtype)), {"rtol": tolerance, "atol": tolerance / 10}
    for closed in (True, False):
        for steps in (torch.tensor([1, 3, 4]), slice(2, 5), 4):
            operator = trace.jacobian(steps, closed=closed)
            dense = operator.dense()
            close(dense, trace.jacobian(steps).dense(), **near)
            for count in (1, 5):
                rows = draw(*dense.shape[:-2], count, cell.state_size).to(dtype)
                close(operator.pull(rows), rows @ dense, **near)
        operator, rows = (
            trace.jacobian(torch.arange(6), 1, closed=closed),
            rows[:1].expand(6, 5, -1),
        )
        close(operator.condensed()(slice(2, 5), rows[2:5]), operator.pull(rows)[2:5], **near)


def flat(parts):
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("kind", EVERY)
def test_immediate_derivatives_hold_the_state_before_fixed(kind):
    """Bᵀλ of each sequence against autograd of the oracle's single steps, and ⟨λ, B w⟩ = ⟨Bᵀλ,
    w⟩."""
    cell = make(kind)
    trace, rows = cell.trace(draw(2, 5, 3)), draw(2, 3, cell.state_size, seed=9)
    direction = random_direction(cell, torch.Generator().manual_seed(8))
    back, moved = trace.gathered_each(rows, slice(1, 4)), immediate_sensitivity(trace, direction)
    for b in range(2):
        alone = [oracles.step(cell, trace.inputs[b, t], trace.previous[b, t]) for t in (1, 2, 3)]
        loss = (torch.stack(alone) * rows[b]).sum()
        close(back[b], flat(torch.autograd.grad(loss, list(cell.parameters()))))
        close(back[b] @ flat(direction.values()), (rows[b] * moved[b, 1:4]).sum())


class Loop(nn.Module):
    """A recurrence of a reader's own: two linear layers, a state whose parts are neither shown nor
    carried in order."""

    state_size, shown, carried = 5, [0, 2, 4], [4, 1, 3]

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inward, self.within = nn.Linear(3, 5).double(), nn.Linear(5, 5, bias=False).double()

    def step(self, x, kept, seen=None):
        drive = self.inward(x) + self.within(kept if seen is None else seen)
        return 0.8 * kept + 0.2 * torch.sin(drive) * kept.roll(1, -1)


def test_a_loop_of_ones_own_is_traced_as_a_cell_is():
    """Pulls, exact rates, transport, and the gradient by lag and along a direction: all against
    autograd through the loop."""
    loop, inputs, delta = Loop(), draw(2, 6, 3), draw(2, 6, 3, seed=5)
    trace = Trace.of(loop, inputs, draw(2, 5, seed=2))
    assert (trace.length, trace.hidden_size) == (6, 3)
    assert list(trace.parameters) == ["inward.weight", "inward.bias", "within.weight"]

    def onwards(state, first, sequences=slice(None)):
        states = [state]
        for x in inputs[sequences, first:].unbind(-2):
            states.append(loop.step(x, states[-1]))
        return torch.stack(states[1:], dim=-2)

    states = onwards(trace.history[:, 0], 0)
    close(trace.states, states.detach())
    loss = (states[..., [0, 2, 4]] * delta).sum()
    gradients = torch.autograd.grad(loss, list(loop.parameters()))
    for part, gradient in zip(lag_gradients(trace, delta).values(), gradients, strict=True):
        close(part.sum(0), gradient)
    direction = {name: draw(*part.shape) for name, part in trace.parameters.items()}
    along = flat(gradients) @ flat(direction.values())
    close(projected_gradient(trace, delta, direction).sum(), along)

    short, long = (
        torch.autograd.functional.jacobian(
            lambda s, t=t: onwards(s, t, 0)[-1], trace.previous[0, t]
        )
        for t in (5, 2)
    )
    close(trace.jacobian(5, 0).pull(draw(2, 5)), draw(2, 5) @ short)
    rates = effective_rates(trace, [4], ends=[5])[0, 0, 0]
    close(rates, long[[0, 2, 4], [4, 1, 3]])
    vectors = draw(2, 6, 5, seed=8)
    whole = total_transport(trace, delta, vectors, [4], [5])[0, 0, 0]
    close(whole, delta[0, 5] @ long[[0, 2, 4]] @ vectors[0, 1])
