"""The kernel along time, before, at and beyond the cut-off ``α σ₁ = 1``: its bound, its limit, and
what networks have of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lwcore.elman.bounds import local_constants, log_mu
from lwcore.elman.kernel import finite_kernel, limiting_kernel
from lwcore.elman.network import symmetric_initialisation

Array = NDArray[np.float64]


class KernelGrowth(NamedTuple):
    """``κ_t(X, X) = ‖∂F_t‖²`` for one sequence of scalars, t = 1 … T.

    Attributes:
        log_bound: Logarithm of L_t², the square of the Lipschitz constant that holds, at α_m = α,
            shape (T,).
        limit: The limit of infinite width, shape (T,).
        error: Its error, shape (T,).
        networks: Kernels of finite networks, shape (starts, T).
    """

    log_bound: Array
    limit: Array
    error: Array
    networks: Array


def kernel_growth(
    activation: str,
    alpha: float,
    length: int,
    rng: np.random.Generator,
    *,
    inputs: str = "impulse",
    width: int = 10_000,
    starts: int = 20,
) -> KernelGrowth:
    """Follow the kernel of one sequence along time. Tests C&E Remark 5.

    The inputs are an ``"impulse"``, a 1 and then nothing, or ``"random"``, uniform on [−1, 1].
    """
    impulse = inputs == "impulse"
    sequence = (np.eye(1, length) if impulse else rng.uniform(-1, 1, (1, length)))[..., None]
    bound = [
        2 * local_constants(activation, alpha, t, 1, as_printed=False).log_lipschitz
        for t in range(1, length + 1)
    ]
    limit = limiting_kernel(sequence, alpha=alpha, activation=activation, tolerance=1e-6)
    networks = [
        finite_kernel(symmetric_initialisation(width, 1, alpha, rng, activation), sequence)[0, 0]
        for _ in range(starts)
    ]
    return KernelGrowth(np.array(bound), limit.value[0, 0], limit.error[0, 0], np.array(networks))


def memory(ratio: float, length: int) -> float:
    """Return ``log μ_T = log μ_{0,T}(α_m σ₁) μ_{1,T}(α_m σ₁)``, the companion's measure of memory.
    Implements C&E Remark 5."""
    return math.fsum(log_mu(ratio, length))
