"""The recurrences of the paper, written out once more: what a neuron keeps of its past apart from
what the weights read of it.

One step takes the previous state twice, as what is *kept* and as what is *seen* through the
recurrent matrices; the recurrence puts the same state into both. Differentiated in the first, a
step gives the retention A_t, in the second the mixing R_t, and J_t is their sum. Automatic
differentiation does the rest: none of the closed forms of `lwcore.cells` is used, nor its `step`.
"""

import functools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.functional import jvp
from torch.func import jacrev, vmap
from torch.nn import functional

from book.claims import cases
from lwcore.cells import GRU, LSTM, Cell, ConstGate
from lwcore.trace import Trace
from lwcore.transport import Order, effective_rates, reset_rates

PAPER = ("ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM")
LAG = 6  # at which many products compete


def step(cell: Cell, x: Tensor, kept: Tensor, seen: Tensor) -> Tensor:
    """Take one step of one sequence. Writes out Eqs. (4)–(8), (15)–(18), (47), (49) and (51).

    Args:
        cell: The cell; its parameters are used, and its layer normalisation if it has one.
        x: The input, shape (D,).
        kept: The previous state, where neurons keep it, shape (S,).
        seen: The previous state, where the recurrent matrices meet it, shape (S,).

    Returns:
        The next state, shape (S,).
    """
    size = cell.hidden_size
    of_input = cell.weight_ih @ x + cell.bias
    if isinstance(cell, LSTM):
        return _lstm_step(cell, of_input, kept, seen)
    if isinstance(cell, GRU):
        return _gru_step(cell, of_input, kept, seen)
    pre = of_input + cell.weight_hh @ seen
    # a constant, one number for all neurons, or one each
    s = cell.gate_init if isinstance(cell, ConstGate) else torch.sigmoid(pre[:-size])
    candidate = torch.tanh(_normalised(cell, pre[-size:]))
    return (1 - s) * kept + s * candidate


def _lstm_step(cell: LSTM, of_input: Tensor, kept: Tensor, seen: Tensor) -> Tensor:
    """Take a step of an LSTM, whose states are h and c, one behind the other."""
    size = cell.hidden_size
    pre = of_input + cell.weight_hh @ seen[:size]
    i, f, g, o = pre.split(size)
    candidate = torch.tanh(_normalised(cell, g))
    c = torch.sigmoid(f) * kept[size:] + torch.sigmoid(i) * candidate
    h = torch.sigmoid(o) * torch.tanh(c)
    return torch.cat([h, c])


def _gru_step(cell: GRU, of_input: Tensor, kept: Tensor, seen: Tensor) -> Tensor:
    """Take a step of a GRU, whose reset gate stands before or after the recurrent matrix."""
    size = cell.hidden_size
    reset_weights, update_weights, candidate_weights = cell.weight_hh.split(size)
    x_reset, x_update, x_candidate = of_input.split(size)
    r = torch.sigmoid(x_reset + reset_weights @ seen)
    z = torch.sigmoid(x_update + update_weights @ seen)
    if cell.reset == "after":
        of_past = r * (candidate_weights @ seen + cell.bias_hh)
    else:
        of_past = candidate_weights @ (r * seen)
    candidate = torch.tanh(_normalised(cell, x_candidate + of_past))
    return (1 - z) * kept + z * candidate


def outputs(cell: Cell, inputs: Tensor) -> Tensor:
    """Run the recurrence from a zero state over inputs (B, T, D): h, shape (B, T, H)."""
    step_of_batch = vmap(lambda x, state: step(cell, x, state, state))
    state = inputs.new_zeros(len(inputs), cell.state_size)
    path = []
    for x in inputs.unbind(1):
        state = step_of_batch(x, state)
        path.append(state[:, : cell.hidden_size])
    return torch.stack(path, dim=1).detach()


def parts(cell: Cell, trace: Trace) -> tuple[Tensor, Tensor]:
    """Differentiate every step of a trace that the cell made.

    Returns retention A and mixing R, each (B, T, S, S).
    """
    of_step = jacrev(lambda x, kept, seen: step(cell, x, kept, seen), argnums=(1, 2))
    of_trace = vmap(vmap(of_step))
    retention, mixing = of_trace(trace.inputs, trace.previous, trace.previous)
    return retention.detach(), mixing.detach()


def transport(cell: Cell, trace: Trace, end: int, lag: int) -> Tensor:
    """Differentiate the state at the end point in the one a lag before: ``M_{t,ℓ}``, (B, S, S).

    It goes through all steps between.
    """

    def through(state: Tensor, inputs: Tensor) -> Tensor:
        for x in inputs:
            state = step(cell, x, state, state)
        return state

    first = end - lag + 1
    start = trace.previous[:, first]
    inputs = trace.inputs[:, first : end + 1]
    return vmap(jacrev(through))(start, inputs).detach()


class Differentiated(NamedTuple):
    """A cell, a trace of it, and what automatic differentiation finds of every step.

    Attributes:
        cell: The cell.
        trace: The trace, B = 4 sequences of T = 12 steps.
        kept: Retention A, shape (B, T, S, S).
        mixing: Mixing R, shape (B, T, S, S).
    """

    cell: Cell
    trace: Trace
    kept: Tensor
    mixing: Tensor


@functools.cache
def sample(family: str, hidden_size: int | None = None) -> list[Differentiated]:
    """Draw six cells of a kind and differentiate them.

    They have one to six neurons if no number is given.
    """
    samples = []
    for seed in range(6):
        cell = cases.cell(family, seed, hidden_size=hidden_size or 1 + seed)
        trace = cases.scan(cell, seed=100 + seed)
        retention, mixing = parts(cell, trace)
        samples.append(Differentiated(cell, trace, retention, mixing))
    return samples


def every(hidden_size: int | None = None) -> list[Differentiated]:
    """Give the samples of the paper's five kinds, one after the other."""
    samples: list[Differentiated] = []
    for family in PAPER:
        samples += sample(family, hidden_size)
    return samples


def rates(trace: Trace, order: Order, lag: int = LAG) -> Tensor:
    """Ask the package for rates μ at one lag, at the last end point: shape (B, H)."""
    return effective_rates(trace, [lag], order, [trace.length - 1])[:, 0, 0]


def reset(trace: Trace, lag: int = LAG) -> Tensor:
    """Ask it for what Eq. (26) adds to a GRU's rates, there, too: shape (B, H)."""
    return reset_rates(trace, [lag], [trace.length - 1])[:, 0, 0]


def product(kept: Tensor, mixing: Tensor, lag: int = LAG) -> tuple[Tensor, Tensor]:
    """Expand the product over the last steps, ``P(ε) = ∏ (A + εR)``, to first order in ε.

    Args:
        kept: A, shape (B, T, S, S), the oldest step first.
        mixing: R, of the same shape.
        lag: ℓ, the number of steps.

    Returns:
        P(0) and its derivative L_P, each (B, S, S).
    """

    def dial(epsilon: Tensor) -> Tensor:
        steps = kept[:, -lag:] + epsilon * mixing[:, -lag:]
        oldest, *newer = steps.unbind(1)
        whole = oldest
        for jacobian in newer:
            whole = jacobian @ whole
        return whole

    zero = kept.new_zeros(())
    constant, linear = jvp(dial, zero, zero + 1)
    return constant, linear


def block(cell: Cell, matrices: Tensor) -> Tensor:
    """Cut the block out of (..., S, S) whose diagonal the rates are.

    It is h from the earlier h, for the LSTM h from the earlier c.
    """
    return matrices[..., : cell.hidden_size, -cell.hidden_size :]


def diagonal(cell: Cell, matrices: Tensor) -> Tensor:
    """Take the diagonal of `block`: (..., S, S) -> (..., H)."""
    return block(cell, matrices).diagonal(dim1=-2, dim2=-1)


def beside(matrices: Tensor) -> Tensor:
    """Put zeros on the diagonal of (..., H, H)."""
    return matrices - torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))


def _normalised(cell: Cell, pre: Tensor) -> Tensor:
    """Normalise the candidate's pre-activation over the neurons, where the cell does."""
    if not cell.layernorm:
        return pre
    return functional.layer_norm(pre, pre.shape, cell.norm_weight, cell.norm_bias)
