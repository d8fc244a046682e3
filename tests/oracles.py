"""Slow, obvious reference implementations, written from the equations and nothing else; autograd does the differentiating."""

from __future__ import annotations

import torch
from torch import Tensor

from lwcore.cells import ScalarGateCell


def step(cell: ScalarGateCell, x: Tensor, previous: Tensor) -> Tensor:
    """One step of the recurrence of Appendix B for one sequence: x (D,), previous (H,) -> (H,)."""
    hidden = cell.hidden_size
    pre = cell.weight_ih @ x + cell.weight_hh @ previous + cell.bias
    candidate = torch.tanh(pre[-hidden:])
    gate = cell.constant_gate if cell.constant_gate is not None else torch.sigmoid(pre[:-hidden])
    return (1 - gate) * previous + gate * candidate


def scan(cell: ScalarGateCell, inputs: Tensor, initial: Tensor | None = None) -> Tensor:
    """The states of a batch, sequence by sequence and step by step: (B, T, D) -> (B, T, H)."""
    batch = []
    for b, sequence in enumerate(inputs):
        state = torch.zeros(cell.hidden_size, dtype=inputs.dtype) if initial is None else initial[b]
        states = []
        for x in sequence:
            state = step(cell, x, state)
            states.append(state)
        batch.append(torch.stack(states))
    return torch.stack(batch)


def step_jacobian(cell: ScalarGateCell, x: Tensor, previous: Tensor) -> Tensor:
    """∂h_t/∂h_{t−1} by autograd: (H, H)."""
    return torch.autograd.functional.jacobian(lambda h: step(cell, x, h), previous)


def transport(cell: ScalarGateCell, inputs: Tensor, initial: Tensor, t: int, lag: int) -> Tensor:
    """M_{t,ℓ} = ∂h_t/∂h_{t−ℓ} of one sequence by autograd through the steps t−ℓ+1..t: inputs (T, D), initial (H,) -> (H, H)."""
    state = initial
    for x in inputs[: t - lag + 1]:
        state = step(cell, x, state)

    def onwards(h: Tensor) -> Tensor:
        for x in inputs[t - lag + 1 : t + 1]:
            h = step(cell, x, h)
        return h

    return torch.autograd.functional.jacobian(onwards, state.detach())
