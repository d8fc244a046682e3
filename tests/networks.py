"""Cells and numbers that the tests of the network half share: every cell, with and without layer
normalisation, and with strong couplings.
"""

from functools import partial

import hypothesis
import torch
from torch import Tensor

from lwcore.cells import GRU, Cell, gated

# every family that the package defines, and none that a test does
KINDS = [kind for kind in Cell.__subclasses__() if kind.__module__ == gated.__name__]
FAMILIES = {kind.__name__: kind for kind in KINDS} | {"GRU-after": partial(GRU, reset="after")}
EVERY = []
for _name in FAMILIES:
    EVERY += [_name, f"{_name}+norm"]
CELLS = [name for name in EVERY if not name.startswith("Min")]  # those with recurrent weights
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)
# of a property that is tried of every family
few_examples = hypothesis.settings(max_examples=hypothesis.settings().max_examples // 4)


def make(
    kind: str, seed: int = 0, input_size: int = 3, hidden_size: int = 4, gate_init: float = 0.3
) -> Cell:
    """Make a float64 cell with strong couplings, none of a special value: a wrong term shows."""
    family, _, norm = kind.partition("+")
    generator = torch.Generator().manual_seed(seed)
    cell = FAMILIES[family](
        input_size,
        hidden_size,
        gate_init=gate_init,
        gate_spread=1.0,
        generator=generator,
        dtype=torch.float64,
        layernorm=norm == "norm",
    )
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            if name.startswith(("bias", "norm")):
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter += 0.3 * noise
    return cell


def draw(*shape: int, seed: int = 1) -> Tensor:
    """Draw standard Gaussian float64 numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def flat(gradients) -> Tensor:
    """Return gradients of all parameters as one vector."""
    return torch.cat([gradient.flatten() for gradient in gradients])
