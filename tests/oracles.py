"""Slow, obvious reference implementations, written from the equations and nothing else; autograd
does the differentiating."""

import torch
from torch import Tensor

from lwcore.cells import GRU, LSTM, Cell, ConstGate, MinGRU, MinLSTM


def normalised(cell: Cell, pre: Tensor) -> Tensor:
    """Layer normalisation by its definition, where the cell has one."""
    if not cell.layernorm:
        return pre
    centred = pre - pre.mean()
    return cell.norm_weight * centred / torch.sqrt(centred.square().mean() + 1e-5) + cell.norm_bias


def step(cell: Cell, x: Tensor, previous: Tensor) -> Tensor:
    """One step of the recurrence for one sequence: x (D,), previous (S,) -> (S,). Eqs. (4)–(8),
    (15)–(18), (47)–(51); Feng et al., 2024."""
    hidden = cell.hidden_size
    h, drive = previous[:hidden], cell.weight_ih @ x + cell.bias
    if isinstance(cell, MinGRU):
        z = torch.sigmoid(drive[:hidden])
        return (1 - z) * h + z * normalised(cell, drive[hidden:])
    if isinstance(cell, MinLSTM):
        i, f = torch.sigmoid(drive[: 2 * hidden]).split(hidden)
        return f / (f + i) * h + i / (f + i) * normalised(cell, drive[2 * hidden :])
    weight = cell.weight_hh
    if isinstance(cell, LSTM):
        i, f, g, o = (drive + weight @ h).split(hidden)
        new = torch.sigmoid(i) * torch.tanh(normalised(cell, g))
        c = torch.sigmoid(f) * previous[hidden:] + new
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c])
    if isinstance(cell, GRU):
        (w_r, w_z, w_g), (d_r, d_z, d_g) = weight.split(hidden), drive.split(hidden)
        r, z = torch.sigmoid(d_r + w_r @ h), torch.sigmoid(d_z + w_z @ h)
        past = w_g @ (r * h) if cell.reset == "before" else r * (w_g @ h + cell.bias_hh)
        return (1 - z) * h + z * torch.tanh(normalised(cell, d_g + past))
    pre = drive + weight @ h
    candidate = torch.tanh(normalised(cell, pre[-hidden:]))
    gate = cell.gate_init if isinstance(cell, ConstGate) else torch.sigmoid(pre[:-hidden])
    return (1 - gate) * h + gate * candidate


def scan(cell: Cell, inputs: Tensor, initial: Tensor | None = None) -> Tensor:
    """The states of a batch, sequence by sequence and step by step: (B, T, D) -> (B, T, S)."""
    states = [inputs.new_zeros(len(inputs), cell.state_size) if initial is None else initial]
    for x in inputs.unbind(1):
        each = zip(x, states[-1], strict=True)
        states.append(torch.stack([step(cell, *sequence) for sequence in each]))
    return torch.stack(states[1:], dim=1)


def step_jacobian(cell: Cell, x: Tensor, previous: Tensor) -> Tensor:
    """∂s_t/∂s_{t−1} by autograd: (S, S)."""
    return torch.autograd.functional.jacobian(lambda s: step(cell, x, s), previous)


def transport(cell: Cell, inputs: Tensor, initial: Tensor, t: int, lag: int) -> Tensor:
    """M_{t,ℓ} = ∂s_t/∂s_{t−ℓ} of one sequence by autograd through the steps t−ℓ+1..t: inputs (T,
    D), initial (S,) -> (S, S)."""

    def run(s: Tensor, part: Tensor) -> Tensor:
        for x in part:
            s = step(cell, x, s)
        return s

    first, rest = inputs[: t + 1].split([t - lag + 1, lag])
    state = run(initial, first).detach()
    return torch.autograd.functional.jacobian(lambda s: run(s, rest), state)


def carried_block(cell: Cell, matrix: Tensor) -> Tensor:
    """The block of M whose diagonal the rates are: h → h, for the LSTM c → h."""
    return matrix[: cell.hidden_size, -cell.hidden_size :]
