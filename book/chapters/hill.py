"""Hill's (1975) estimator of the tail index."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def hill(
    samples: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return α and the ends of its 95 % interval, ``1/α = mean log(d_i/d_{k+1})`` over the ``k =
    ⌈√n⌉`` largest deviations d.

    Deviations are from the median, along the first axis. Far enough out a stable law is a power
    law, of which this is the likeliest α, with the standard error ``α/√k``; near α = 2 the k
    largest still belong to the bell, and α comes out too high.

    Examples:
        >>> alpha, low, high = hill(np.array([*range(-8, 9), 40.0, -50.0]))
        >>> print(f"{alpha:.3f}, {low:.3f} to {high:.3f}")
        1.257, 0.155 to 2.360
    """
    deviations = np.sort(np.abs(samples - np.median(samples, axis=0)), axis=0)[::-1]
    k = math.ceil(math.sqrt(len(deviations)))
    alpha = 1 / np.mean(np.log(deviations[:k] / deviations[k]), axis=0)
    return alpha, alpha * (1 - 1.959964 / math.sqrt(k)), alpha * (1 + 1.959964 / math.sqrt(k))
