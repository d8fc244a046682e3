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
    size, weights, sigma = cell.hidden_size, cell.weight_hh, torch.sigmoid
    of_input = cell.weight_ih @ x + cell.bias
    if isinstance(cell, LSTM):
        i, f, g, o = (of_input + weights @ seen[:size]).split(size)
        c = sigma(f) * kept[size:] + sigma(i) * torch.tanh(_normalised(cell, g))
        return torch.cat([sigma(o) * torch.tanh(c), c])
    if isinstance(cell, GRU):
        of_reset, of_update, own = weights.split(size)
        x_reset, x_update, x_own = of_input.split(size)
        r, z = sigma(x_reset + of_reset @ seen), sigma(x_update + of_update @ seen)
        behind = r * (own @ seen + cell.bias_hh) if cell.reset == "after" else own @ (r * seen)
        return (1 - z) * kept + z * torch.tanh(_normalised(cell, x_own + behind))
    pre = of_input + weights @ seen
    # a constant, one number for all neurons, or one each
    s = cell.gate_init if isinstance(cell, ConstGate) else sigma(pre[:-size])
    return (1 - s) * kept + s * torch.tanh(_normalised(cell, pre[-size:]))


def outputs(cell: Cell, inputs: Tensor) -> Tensor:
    """Run the recurrence from a zero state over inputs (B, T, D): h, shape (B, T, H)."""
    state, found = inputs.new_zeros(len(inputs), cell.state_size), []
    for x in inputs.unbind(1):
        state = vmap(lambda one, s: step(cell, one, s, s))(x, state)
        found.append(state[:, : cell.hidden_size])
    return torch.stack(found, dim=1).detach()


def parts(cell: Cell, trace: Trace) -> tuple[Tensor, Tensor]:
    """Differentiate every step of a trace that the cell made: retention A and mixing R, each (B, T,
    S, S)."""
    both = vmap(vmap(jacrev(lambda x, kept, seen: step(cell, x, kept, seen), argnums=(1, 2))))
    kept, mixed = both(trace.inputs, trace.previous, trace.previous)
    return kept.detach(), mixed.detach()


def transport(cell: Cell, trace: Trace, end: int, lag: int) -> Tensor:
    """Differentiate the state at the end point in the one a lag before, through all steps between:
    ``M_{t,ℓ}``, shape (B, S, S)."""

    def through(state: Tensor, inputs: Tensor) -> Tensor:
        for x in inputs:
            state = step(cell, x, state, state)
        return state

    window = slice(end - lag + 1, end + 1)
    return vmap(jacrev(through))(trace.previous[:, window.start], trace.inputs[:, window]).detach()


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
    """Draw six cells of a kind, of one to six neurons if no number is given, and differentiate
    them."""
    found = []
    for seed in range(6):
        cell = cases.cell(family, seed, hidden_size=hidden_size or 1 + seed)
        trace = cases.scan(cell, seed=100 + seed)
        found.append(Differentiated(cell, trace, *parts(cell, trace)))
    return found


def every(hidden_size: int | None = None) -> list[Differentiated]:
    """Give the samples of the paper's five kinds, one after the other."""
    return [one for family in PAPER for one in sample(family, hidden_size)]


def rates(trace: Trace, order: Order, lag: int = LAG) -> Tensor:
    """Ask the package for rates μ at one lag, at the last end point: shape (B, H)."""
    return effective_rates(trace, [lag], order, [trace.length - 1])[:, 0, 0]


def reset(trace: Trace, lag: int = LAG) -> Tensor:
    """Ask it for what Eq. (26) adds to a GRU's rates, there, too: shape (B, H)."""
    return reset_rates(trace, [lag], [trace.length - 1])[:, 0, 0]


def product(kept: Tensor, mixing: Tensor, lag: int = LAG) -> tuple[Tensor, Tensor]:
    """Expand the product over the last steps, ``P(ε) = ∏ (A + εR)``, to first order, by
    differentiating it in ε.

    Args:
        kept: A, shape (B, T, S, S), the oldest step first.
        mixing: R, of the same shape.
        lag: ℓ, the number of steps.

    Returns:
        P(0) and its derivative L_P, each (B, S, S).
    """

    def dial(epsilon: Tensor) -> Tensor:
        oldest, *rest = (kept[:, -lag:] + epsilon * mixing[:, -lag:]).unbind(1)
        return functools.reduce(lambda product, newer: newer @ product, rest, oldest)

    zero = kept.new_zeros(())
    constant, linear = jvp(dial, zero, zero + 1)
    return constant, linear


def block(cell: Cell, matrices: Tensor) -> Tensor:
    """Cut the block out of (..., S, S) whose diagonal the rates are: h from the earlier h, for the
    LSTM h from the earlier c."""
    return matrices[..., : cell.hidden_size, -cell.hidden_size :]


def diagonal(cell: Cell, matrices: Tensor) -> Tensor:
    """Take the diagonal of `block`: (..., S, S) -> (..., H)."""
    return block(cell, matrices).diagonal(dim1=-2, dim2=-1)


def beside(matrices: Tensor) -> Tensor:
    """Put zeros on the diagonal of (..., H, H)."""
    return matrices - torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))


def _normalised(cell: Cell, pre: Tensor) -> Tensor:
    """Normalise the candidate's pre-activation over the neurons, where the cell does."""
    return (
        functional.layer_norm(pre, pre.shape, cell.norm_weight, cell.norm_bias)
        if cell.layernorm
        else pre
    )
