"""Between the cells' tensors and the kernels' arrays.

The plain loops in the cell files say the same as `kernels`, step by step in PyTorch; they are what the kernels are tested against, and
what runs on other devices, other dtypes, and where `ENABLED` is off.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor

from lwcore.cells.jacobian import Adjoints

ENABLED = os.environ.get("LWCORE_COMPILED", "1") != "0"


def usable(like: Tensor) -> bool:
    """Say whether the compiled loops can take a tensor.

    Args:
        like: The drive of a scan.

    Returns:
        True for float32 and float64 on the CPU, unless switched off.
    """
    return ENABLED and like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def array(tensor: Tensor) -> np.ndarray:
    """Look at a tensor as a contiguous array, copied only if it is not contiguous."""
    return tensor.detach().contiguous().numpy()


def time_major(tensor: Tensor) -> np.ndarray:
    """Look at a batch-first tensor as a time-major array, copied only if it does not lie in memory that way."""
    return array(tensor.transpose(0, 1))


def norm_arrays(weight: Tensor | None, normalised: Tensor | None, inverse: Tensor | None, like: Tensor) -> list[np.ndarray]:
    """Look at what backward passes need of the layer normalisation, and make room for the adjoints behind it.

    Args:
        weight: The weight, (H,), or None where there is no layer normalisation, as for the next two.
        normalised: Normalised pre-activations, (B, T, H).
        inverse: One over the spread, (B, T, 1).
        like: A tensor of the right dtype.

    Returns:
        The three, time-major, and the room; all empty where there is no layer normalisation.
    """
    if weight is None or normalised is None or inverse is None:
        return [array(like.new_empty(shape)) for shape in ((0,), (0, 0, 0), (0, 0), (0, 0, 0))]
    return [array(weight), time_major(normalised), time_major(inverse[..., 0]), array(torch.empty_like(normalised.transpose(0, 1)))]


def adjoints(pre: tuple[Tensor, ...], raw: np.ndarray, *initial: np.ndarray) -> Adjoints:
    """Gather what a backward pass has left: blocks, adjoints behind the norm (time-major, or empty), and λ of the initial state's parts."""
    behind = torch.from_numpy(raw).transpose(0, 1) if raw.size else None
    return Adjoints(pre, behind, torch.cat([torch.from_numpy(part) for part in initial], dim=-1))
