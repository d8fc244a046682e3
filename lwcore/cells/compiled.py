"""Which of two runs a recurrence: the compiled `kernels`, or the plain `loops` on other devices and dtypes, and with `ENABLED` off.

They say the same, and are tested against each other.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor

from lwcore.cells import loops

ENABLED = os.environ.get("LWCORE_COMPILED", "1") != "0"


def usable(like: Tensor) -> bool:
    """Say whether the compiled loops can take a tensor.

    Args:
        like: The drive of a scan.

    Returns:
        True for float32 and float64 on the CPU, unless switched off.
    """
    return ENABLED and like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def recording(like: Tensor) -> bool:
    """Say whether what is done with a tensor goes into a CUDA graph, where nothing may wait for the device."""
    return like.is_cuda and torch.cuda.is_current_stream_capturing()


def run(name: str, *arguments: Tensor | float) -> Tensor:
    """Run a loop of `kernels`, or the one of the same name in `loops`.

    Args:
        name: Its name.
        *arguments: Its arguments; what is written in place is contiguous, blocks in `loops` lie side by side.

    Returns:
        What the loop returns, or nothing of interest.
    """
    (like, *_) = (argument for argument in arguments if isinstance(argument, Tensor))
    arguments = tuple(argument.detach() if isinstance(argument, Tensor) else argument for argument in arguments)
    if not usable(like):
        return getattr(loops, name)(*arguments)
    from lwcore.cells import kernels  # here, as not everyone who knows cells runs one, and Numba's import takes half a second

    number = np.float32 if like.dtype == torch.float32 else np.float64
    result = getattr(kernels, name)(*(a.contiguous().numpy() if isinstance(a, Tensor) else number(a) for a in arguments))
    return like if result is None else torch.from_numpy(result)
