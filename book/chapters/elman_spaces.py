"""Function spaces of C&E Section 3.2: the kernel of the target class, and the least norm that a
target's values allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.elman.kernel import mean_over_start, span
from lwcore.elman.network import ACTIVATIONS, stream_gradients

Array = NDArray[np.float64]


def class_kernel(
    inputs: ArrayLike, *, alpha: float, activation: str = "tanh", tolerance: float = 1e-9
) -> Array:
    """The reproducing kernel, (n, n, T), of the functions C&E Eq. (8) under the norm that the
    companion gives them.

    C&E Eq. (8) lets v_w depend on w₀ alone and v_u on u₀ alone, while the features of κ_t depend on
    both. Its functions, with the least ``√(E|v_w|² + E‖v_u‖²)`` as their norm, therefore have the
    kernel ``E_u⟨E_w φ_u, E_w φ′_u⟩ + E_w[E_u φ_w E_u φ′_w]`` of the features' partial means.
    """
    sequences, sigma = np.asarray(inputs, float), ACTIVATIONS[activation]

    def summand(parameters: Array, weights: Array) -> Array:
        """``E_u⟨E_w φ_u, E_w φ′_u⟩``, (n, n, T), and beside it E_u φ_w for both w₀, (n, 2, T)."""
        half, steps = weights[: len(weights) // 2] * 2, []  # weights of u₀
        for gradient in stream_gradients(parameters, sequences, sigma):
            signs = gradient.reshape(*gradient.shape[:2], 2, -1)
            mean = signs[:, 1:].mean(axis=2)
            inner = np.einsum("iku,jku,u->ij", mean, mean, half, optimize=True)
            steps.append(np.concatenate([inner, signs[:, 0] @ half], axis=1))
        return np.stack(steps, axis=-1)

    both = mean_over_start(summand, span(sequences), alpha, tolerance).value
    inner, means = np.split(both, [len(sequences)], axis=1)
    return np.asarray(inner + 0.5 * np.einsum("iwt,jwt->ijt", means, means))


def least_norm(kernel: ArrayLike, values: ArrayLike) -> float:
    """``√(fᵀ K⁻¹ f)``, the least norm of a function of a kernel's space that takes the values f,
    (n,), at n inputs: infinite where the kernel, (n, n), is singular and none takes them."""
    sizes, vectors = np.linalg.eigh(np.asarray(kernel, float))
    parts, seen = vectors.T @ np.asarray(values, float), sizes > 1e-12 * max(sizes[-1], 0.0)
    if np.linalg.norm(parts[~seen]) > 1e-6 * np.linalg.norm(parts):
        return float("inf")
    return float(np.sqrt(np.square(parts[seen]) @ (1 / sizes[seen])))
