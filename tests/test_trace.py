"""A trace's Jacobians and immediate derivatives against autograd through the oracle, of the paper's
cells and of a reader's own loop."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lwcore.gradient import lag_gradients, projected_gradient
from lwcore.trace import Trace
from lwcore.transport import effective_rates, step_jacobian
from tests import oracles
from tests.networks import EVERY, close, draw, few_examples, flat, make


@pytest.mark.parametrize("kind", EVERY)
@few_examples
@given(seed=st.integers(0, 2**31), hidden=st.integers(1, 6), batch=st.integers(1, 3))
def test_step_jacobian_is_the_same_three_ways(kind, seed, hidden, batch):
    """Eqs. (9)–(11), (19)–(22), (48), (50), (52): closed form, autodiff of the cell's step,
    autodiff of the oracle's."""
    cell = make(kind, seed, hidden_size=hidden)
    initial = draw(batch, cell.state_size, seed=seed + 2)
    trace = Trace.scan(cell, draw(batch, 3, 3, seed=seed + 1), initial)
    ours = trace.jacobian(slice(None)).dense()
    close(ours, trace.jacobian(slice(None), closed=False).dense())
    close(step_jacobian(trace, 1), ours[:, 1])
    close(ours[0, 2], oracles.step_jacobian(cell, trace.inputs[0, 2], trace.previous[0, 2]))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("kind", EVERY)
def test_operators_equal_dense_matrices(kind, closed):
    """The one interface, by both implementations; and condensed."""
    cell = make(kind)
    trace = cell.trace(draw(2, 6, 3))
    for steps in (torch.tensor([1, 3, 4]), slice(2, 5), 4):
        operator = trace.jacobian(steps, closed=closed)
        dense = operator.dense()
        close(dense, trace.jacobian(steps).dense())
        for n_rows in (1, 5):
            rows = draw(*dense.shape[:-2], n_rows, cell.state_size)
            close(operator.pull(rows), rows @ dense)

    of_one_sequence = trace.jacobian(torch.arange(6), 1, closed=closed)
    rows = draw(5, cell.state_size).expand(6, -1, -1)
    condensed = of_one_sequence.condensed()
    close(condensed(slice(2, 5), rows[2:5]), of_one_sequence.pull(rows)[2:5])


SHOWN = [0, 2, 4]
CARRIED = [4, 1, 3]


class Loop(nn.Module):
    """A recurrence of a reader's own: two linear layers, a state whose parts are neither shown nor
    carried in order."""

    state_size = 5
    shown = SHOWN
    carried = CARRIED

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inward = nn.Linear(3, 5).double()
        self.within = nn.Linear(5, 5, bias=False).double()

    def step(self, x, kept, seen=None):
        drive = self.inward(x) + self.within(kept if seen is None else seen)
        return 0.8 * kept + 0.2 * torch.sin(drive) * kept.roll(1, -1)


def onwards(loop, state, inputs):
    """Return the states (…, n, S) of a loop, from a state on, in a way that autograd follows."""
    states = []
    for x in inputs.unbind(-2):
        state = loop.step(x, state)
        states.append(state)
    return torch.stack(states, dim=-2)


def test_gradients_and_transport_of_a_loop_are_those_of_autograd():
    """By lag, and along a direction; and exact rates."""
    loop = Loop()
    trace = Trace.scan(loop, draw(2, 6, 3), draw(2, 5, seed=2))
    states = onwards(loop, trace.history[:, 0], trace.inputs)
    close(trace.states, states.detach())
    delta = draw(2, 6, 3, seed=5)
    loss = (states[..., SHOWN] * delta).sum()
    gradients = torch.autograd.grad(loss, list(loop.parameters()))
    by_lag = lag_gradients(trace, delta)
    for of_lags, gradient in zip(by_lag.values(), gradients, strict=True):
        close(of_lags.sum(0), gradient)
    direction = {name: draw(*tensor.shape) for name, tensor in trace.parameters.items()}
    along = flat(gradients) @ flat(direction.values())
    close(projected_gradient(trace, delta, direction).sum(), along)

    def last_state(state):
        return onwards(loop, state, trace.inputs[0, 2:])[-1]

    jacobian = torch.autograd.functional.jacobian(last_state, trace.previous[0, 2])
    rates = effective_rates(trace, [4], ends=[5])
    close(rates[0, 0, 0], jacobian[SHOWN, CARRIED])
