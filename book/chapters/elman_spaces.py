"""Function spaces of C&E Section 3.2: the target class with its kernel, the norm of a target, and
the least norm its values allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.elman.kernel import Estimate, TransportMaps, mean_over_start, span
from lwcore.elman.network import ACTIVATIONS, stream_gradients

Array = NDArray[np.float64]


def class_kernel(
    inputs: ArrayLike,
    others: ArrayLike | None = None,
    *,
    alpha: float,
    activation: str = "tanh",
    tolerance: float = 1e-9,
) -> Estimate:
    """Return the reproducing kernel of the functions C&E Eq. (8) under the norm that the companion
    gives them, shape (n, n′, T).

    C&E Eq. (8) lets v_w depend on w₀ alone and v_u on u₀ alone, while the features of κ_t depend on
    both. Its functions, with the least ``√(E|v_w|² + E‖v_u‖²)`` as their norm, therefore have the
    kernel ``E_u⟨E_w φ_u, E_w φ′_u⟩ + E_w[E_u φ_w E_u φ′_w]`` of the features' partial means; it is
    κ_t only where those are the features themselves, as at t = 1. Its error is that of the first
    part and, for the second, that of the means it is made of.
    """
    first, second = (np.asarray(inputs if x is None else x, float) for x in (inputs, others))
    sigma, n, together = ACTIVATIONS[activation], len(first), np.concatenate([first, second])

    def summand(parameters: Array, weights: Array) -> Array:
        """Return E_u⟨E_w φ_u, E_w φ′_u⟩, shape (n + n′, n + n′, T), and beside it E_u φ_w for both
        w₀, shape (n + n′, 2, T)."""
        half = weights[: len(weights) // 2] * 2  # of u₀
        steps = []
        for gradient in stream_gradients(parameters, together, sigma):
            signs = gradient.reshape(*gradient.shape[:2], 2, -1)
            mean = signs[:, 1:].mean(axis=2)
            inner = (mean * half).reshape(len(together), -1) @ mean.reshape(len(together), -1).T
            steps.append(np.concatenate([inner, signs[:, 0] @ half], axis=1))
        return np.stack(steps, axis=-1)

    both = mean_over_start(summand, span(together), alpha, tolerance)
    (inner, means), (inner_error, mean_error) = (
        np.split(part, [len(together)], axis=1) for part in both
    )
    value = inner[:n, n:] + 0.5 * np.einsum("iwt,jwt->ijt", means[:n], means[n:])
    products = [
        np.einsum("iwt,jwt->ijt", a[:n], b[n:])
        for a, b in ((np.abs(means), mean_error), (mean_error, np.abs(means)))
    ]
    return Estimate(value, inner_error[:n, n:] + 0.5 * sum(products))


def transport_norm(
    maps: TransportMaps, dimension: int, *, alpha: float, tolerance: float = 1e-9
) -> Estimate:
    """Return ``√(E‖v_u(u₀)‖² + E|v_w(w₀)|²)``, which the companion calls the norm of F̃_t in the
    kernel's space.

    It is an upper bound of that norm, which is the least over all maps that give the same function:
    at t = 1, for one, v_w changes nothing. `least_norm` bounds the norm from below. The tolerance
    is for the mean square.
    """
    basis = maps.subspace(np.zeros((1, dimension)))

    def summand(parameters: Array, weights: Array) -> Array:
        return np.array(weights @ np.square(maps.at(parameters)).sum(axis=1))

    square = mean_over_start(summand, basis, alpha, tolerance)
    norm = np.sqrt(square.value)
    # half the square's error over the norm to first order, and never more than the square's root
    return Estimate(
        norm, np.minimum(np.sqrt(square.error), square.error / (2 * np.maximum(norm, 1e-300)))
    )


def least_norm(kernel: ArrayLike, values: ArrayLike) -> float:
    """Return ``√(fᵀ K⁻¹ f)``, the least norm of a function of a kernel's space that takes the
    values f, shape (n,), at n inputs.

    A lower bound on the norm of any one such function, to hold against that of C&E Section 3.2.
    Infinite where the kernel, shape (n, n), is singular and no function of its space takes these
    values.
    """
    matrix, f = np.asarray(kernel, float), np.asarray(values, float)
    if matrix.shape != (f.size, f.size):
        raise ValueError(
            f"kernel has shape {matrix.shape}: must be {(f.size, f.size)}, for the {f.size} values."
        )
    eigenvalues, vectors = np.linalg.eigh(matrix)
    parts = vectors.T @ f
    seen = eigenvalues > 1e-12 * max(eigenvalues.max(), 0.0)
    if np.linalg.norm(parts[~seen]) > 1e-6 * np.linalg.norm(f):
        return float("inf")
    return float(np.sqrt(np.square(parts[seen]) @ (1 / eigenvalues[seen])))
