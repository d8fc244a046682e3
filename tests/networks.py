"""Cells and numbers that the tests of the network half share: every cell, with and without layer
normalisation, couplings strong."""

from functools import partial

import torch
from torch import Tensor

from lwcore.cells import GRU, LSTM, Cell, ConstGate, DiagGate, MinGRU, MinLSTM, SharedGate

KINDS = (ConstGate, SharedGate, DiagGate, GRU, LSTM, MinGRU, MinLSTM)
FAMILIES = {kind.__name__: kind for kind in KINDS} | {"GRU-after": partial(GRU, reset="after")}
EVERY = [f"{name}{suffix}" for name in FAMILIES for suffix in ("", "+norm")]
CELLS = [kind for kind in EVERY if not kind.startswith("Min")]  # those with recurrent weights
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


def make(
    kind: str, seed: int = 0, input_size: int = 3, hidden_size: int = 4, gate_init: float = 0.3
) -> Cell:
    """A float64 cell with strong couplings and no parameter at a special value, so that a wrong
    term shows."""
    name, _, norm = kind.partition("+")
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64, "layernorm": norm == "norm"}
    cell = FAMILIES[name](input_size, hidden_size, gate_init=gate_init, gate_spread=1.0, **options)
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            if name.startswith(("bias", "norm")):
                parameter += 0.3 * torch.randn(
                    parameter.shape, generator=generator, dtype=torch.float64
                )
    return cell


def draw(*shape: int, seed: int = 1) -> Tensor:
    """Standard Gaussian float64 numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def flat(gradients) -> Tensor:
    """Gradients of all parameters as one vector."""
    return torch.cat([part.flatten() for part in gradients])
