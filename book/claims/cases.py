"""The small cells on which the identities are checked: all five families, couplings strong, no
parameter at a special value."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from lwcore.cells import GRU, LSTM, Cell, ConstGate, DiagGate, SharedGate
from lwcore.trace import Trace

FAMILIES: dict[str, Callable[..., Cell]] = {
    "ConstGate": ConstGate,
    "SharedGate": SharedGate,
    "DiagGate": DiagGate,
    "GRU": GRU,
    "GRU, reset after": partial(GRU, reset="after"),
    "LSTM": LSTM,
}


def cell(
    family: str,
    seed: int = 0,
    *,
    layernorm: bool = False,
    input_size: int = 3,
    hidden_size: int = 5,
) -> Cell:
    """Make a float64 cell of `FAMILIES` in which a wrong term shows.

    Its gates are spread out, its biases and its normalisation drawn at random.
    """
    generator = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = {
        "gate_init": 0.3,
        "gate_spread": 1.0,
        "dtype": torch.float64,
        "layernorm": layernorm,
        "generator": generator,
    }
    new_cell = FAMILIES[family](input_size, hidden_size, **options)
    for name, parameter in new_cell.named_parameters():
        if name.startswith(("bias", "norm")):
            nn.init.normal_(parameter.data, mean=0.1, std=0.3, generator=generator)
    return new_cell


def cells(**options: int) -> dict[str, Cell]:
    """Make a cell of every family, with and without layer normalisation, by name.

    Options are those of `cell`.
    """
    by_name = {}
    for family in FAMILIES:
        by_name[family] = cell(family, **options)
        by_name[f"{family}, LayerNorm"] = cell(family, layernorm=True, **options)
    return by_name


def draw(*shape: int, seed: int = 1) -> Tensor:
    """Draw standard Gaussian float64 numbers of a shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scan(made: Cell, sequences: int = 4, length: int = 12, seed: int = 1) -> Trace:
    """Scan Gaussian sequences, B of them and T steps long."""
    return made.trace(draw(sequences, length, made.input_size, seed=seed))


def relative(found: ArrayLike, true: ArrayLike) -> float:
    """Compare two tensors or arrays of one shape: the largest difference over the largest true
    entry, which is not zero."""
    expected = np.asarray(true)
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())
