"""Cells and numbers that the tests of the network half share: every cell, with and without layer
normalisation, couplings strong."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from lwcore.cells import GRU, LSTM, Cell, ConstGate, DiagGate, MinGRU, MinLSTM, SharedGate

FAMILIES = {
    "ConstGate": ConstGate,
    "SharedGate": SharedGate,
    "DiagGate": DiagGate,
    "GRU": GRU,
    "GRU-after": partial(GRU, reset="after"),
    "LSTM": LSTM,
    "MinGRU": MinGRU,
    "MinLSTM": MinLSTM,
}
EVERY = [f"{name}{suffix}" for name in FAMILIES for suffix in ("", "+norm")]
LINEAR = [kind for kind in EVERY if kind.startswith("Min")]
CELLS = [kind for kind in EVERY if kind not in LINEAR]  # those with recurrent weights
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def make(
    kind: str, seed: int = 0, input_size: int = 3, hidden_size: int = 4, **options: Any
) -> Cell:
    """A float64 cell with strong couplings and no parameter at a special value, so that a wrong
    term shows."""
    name, _, norm = kind.partition("+")
    generator = torch.Generator().manual_seed(seed)
    options = {
        "gate_init": 0.3,
        "gate_spread": 1.0,
        "dtype": torch.float64,
        "layernorm": norm == "norm",
    } | options
    cell = FAMILIES[name](input_size, hidden_size, generator=generator, **options)
    with torch.no_grad():
        for parameter_name, parameter in cell.named_parameters():
            if parameter_name.startswith(("bias", "norm")):
                parameter += 0.3 * torch.randn(
                    parameter.shape, generator=generator, dtype=torch.float64
                )
    return cell


def draw(*shape: int, seed: int = 1) -> Tensor:
    """Standard Gaussian float64 numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def initial_state(cell: Cell, state: Tensor) -> Any:
    """A state (B, S) as `forward` and `trace` take it: a pair for the LSTM."""
    return state if cell.state_size == cell.hidden_size else state.chunk(2, dim=-1)
