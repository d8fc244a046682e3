"""Slow, obvious reference implementations, written from the equations and nothing else.

They go through one sequence step by step, and autograd does the differentiating. D is the width of
the inputs, H the number of neurons, S the size of the state: H, and 2 H for an LSTM, whose state
is h and c.
"""

import torch
from torch import Tensor

from lwcore.cells import GRU, LSTM, Cell, MinGRU, MinLSTM


def normalised(cell: Cell, pre: Tensor) -> Tensor:
    """Apply layer normalisation by its definition, where the cell has one."""
    if not cell.layernorm:
        return pre
    centred = pre - pre.mean()
    variance = centred.square().mean()
    return cell.norm_weight * centred / torch.sqrt(variance + 1e-5) + cell.norm_bias


def step(cell: Cell, x: Tensor, previous: Tensor) -> Tensor:
    """Take one step of the recurrence of one sequence: x (D,), previous (S,) -> (S,).

    Eqs. (4)–(8), (15)–(18), (47)–(51); MinGRU and MinLSTM by Feng et al., 2024.
    """
    hidden = cell.hidden_size
    h = previous[:hidden]
    drive = cell.weight_ih @ x + cell.bias
    if isinstance(cell, MinGRU):
        return min_gru_step(cell, drive, h)
    if isinstance(cell, MinLSTM):
        return min_lstm_step(cell, drive, h)
    if isinstance(cell, LSTM):
        return lstm_step(cell, drive, h, c=previous[hidden:])
    if isinstance(cell, GRU):
        return gru_step(cell, drive, h)
    return tied_step(cell, drive, h, c=previous[-hidden:])


def tied_step(cell: Cell, drive: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """Take a step of a family whose gates its class names: what it keeps is 1 − what it lets in."""
    blocks = (drive + cell.weight_hh @ h).split(cell.rows)
    pre = dict(zip(cell.blocks, blocks, strict=True))
    candidate = torch.tanh(normalised(cell, pre["candidate"]))
    gate = torch.sigmoid(pre["let_in"]) if "let_in" in pre else cell.gate_init
    new_c = (1 - gate) * c + gate * candidate
    if "show" not in pre:
        return new_c
    return torch.cat([torch.sigmoid(pre["show"]) * torch.tanh(new_c), new_c])


def min_gru_step(cell: MinGRU, drive: Tensor, h: Tensor) -> Tensor:
    """Take a step of a MinGRU, whose gate sees the input only."""
    of_gate, of_candidate = drive.split(cell.hidden_size)
    z = torch.sigmoid(of_gate)
    return (1 - z) * h + z * normalised(cell, of_candidate)


def min_lstm_step(cell: MinLSTM, drive: Tensor, h: Tensor) -> Tensor:
    """Take a step of a MinLSTM, whose two gates are brought to the sum 1."""
    of_input, of_forget, of_candidate = drive.split(cell.hidden_size)
    i = torch.sigmoid(of_input)
    f = torch.sigmoid(of_forget)
    return f / (f + i) * h + i / (f + i) * normalised(cell, of_candidate)


def lstm_step(cell: LSTM, drive: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """Take a step of an LSTM; h and c are returned one after the other."""
    i, f, g, o = (drive + cell.weight_hh @ h).split(cell.hidden_size)
    new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(normalised(cell, g))
    new_h = torch.sigmoid(o) * torch.tanh(new_c)
    return torch.cat([new_h, new_c])


def gru_step(cell: GRU, drive: Tensor, h: Tensor) -> Tensor:
    """Take a step of a GRU, with its reset gate before or after the matrix product."""
    weight_r, weight_z, weight_g = cell.weight_hh.split(cell.hidden_size)
    drive_r, drive_z, drive_g = drive.split(cell.hidden_size)
    r = torch.sigmoid(drive_r + weight_r @ h)
    z = torch.sigmoid(drive_z + weight_z @ h)
    if cell.reset == "before":
        past = weight_g @ (r * h)
    else:
        past = r * (weight_g @ h + cell.bias_hh)
    return (1 - z) * h + z * torch.tanh(normalised(cell, drive_g + past))


def scan(cell: Cell, inputs: Tensor, initial: Tensor | None = None) -> Tensor:
    """Return the states of a batch, sequence by sequence: (B, T, D) -> (B, T, S)."""
    if initial is None:
        initial = inputs.new_zeros(len(inputs), cell.state_size)
    sequences = []
    for sequence, state in zip(inputs, initial, strict=True):
        states = []
        for x in sequence:
            state = step(cell, x, state)
            states.append(state)
        sequences.append(torch.stack(states))
    return torch.stack(sequences)


def step_jacobian(cell: Cell, x: Tensor, previous: Tensor) -> Tensor:
    """Return ∂s_t/∂s_{t−1} by autograd: (S, S)."""
    return torch.autograd.functional.jacobian(lambda s: step(cell, x, s), previous)


def transport(cell: Cell, inputs: Tensor, initial: Tensor, t: int, lag: int) -> Tensor:
    """Return M_{t,ℓ} = ∂s_t/∂s_{t−ℓ} of one sequence by autograd through the steps t−ℓ+1..t.

    Inputs (T, D), initial (S,) -> (S, S).
    """

    def run(state: Tensor, inputs: Tensor) -> Tensor:
        for x in inputs:
            state = step(cell, x, state)
        return state

    earlier, last = inputs[: t + 1].split([t - lag + 1, lag])
    state = run(initial, earlier).detach()
    return torch.autograd.functional.jacobian(lambda s: run(s, last), state)


def carried_block(cell: Cell, matrix: Tensor) -> Tensor:
    """Return the block of M whose diagonal the rates are: h → h, for the LSTM c → h."""
    return matrix[: cell.hidden_size, -cell.hidden_size :]
