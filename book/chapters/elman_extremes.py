"""The largest derivatives of a neuron's state, by direct search, to hold against C&E Lemma 1 and
C&E Lemma 2.

First and second derivatives come from the recursions ``G_t = σ′ A_t`` and ``Q_t = σ″ A_t A_tᵀ + σ′
(W Q_{t−1} + e_w G_{t−1}ᵀ + G_{t−1} e_wᵀ)`` with ``A_t = W G_{t−1} + [H_{t−1}, X_{t−1}]``, for many
neurons at once, each with a sequence of its own. From the best of many random draws SciPy's
L-BFGS-B climbs, neuron and sequence together. What it finds is attained, so it lies below the
supremum or at it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from lwcore.elman.network import ACTIVATIONS, Activation

Array = NDArray[np.float64]

QUANTITIES = ("lipschitz", "smoothness", "product_lipschitz", "product_smoothness")
_FARTHEST = 6.0  # size of an input weight's coordinates: slopes and curvatures have died out there
_STEP = 1e-6  # of the differences by which the search climbs


class Extreme(NamedTuple):
    """The largest derivative found, and where.

    Attributes:
        value: Its size.
        parameters: The neuron's ``[W, U]``, shape (1 + d,).
        inputs: The sequence, shape (T, d).
    """

    value: float
    parameters: Array
    inputs: Array


def derivatives(
    parameters: Array, inputs: Array, activation: Activation
) -> tuple[Array, Array, Array]:
    """Return H_T with its first and second derivatives, for k neurons with a sequence each.

    Parameters ``[W, U]``, shape (k, 1 + d), and sequences, shape (k, T, d), give H_T, shape (k,),
    its gradients and its Hessians.
    """
    count, size = parameters.shape
    state, gradient, hessian = (
        np.zeros(count),
        np.zeros((count, size)),
        np.zeros((count, size, size)),
    )
    w = parameters[:, 0]
    for step in range(inputs.shape[1]):
        pre = w * state + np.einsum("kd,kd->k", parameters[:, 1:], inputs[:, step])
        inner = w[:, None] * gradient + np.column_stack([state, inputs[:, step]])
        hessian *= w[:, None, None]
        hessian[:, 0] += gradient
        hessian[:, :, 0] += gradient
        state = activation.value(pre)
        slope, curvature = activation.slope_from(pre, state), activation.curvature_from(pre, state)
        hessian = (
            slope[:, None, None] * hessian
            + curvature[:, None, None] * inner[:, :, None] * inner[:, None, :]
        )
        gradient = slope[:, None] * inner
    return state, gradient, hessian


def size_of(quantity: str, parameters: Array, inputs: Array, activation: Activation) -> Array:
    """Return ‖∂H_T‖, ‖∂²H_T‖, ‖∂(W H_T)‖ or ‖∂²(W H_T)‖ (the spectral norm of a Hessian), shape
    (k,)."""
    state, gradient, hessian = derivatives(parameters, inputs, activation)
    if quantity.startswith("product"):
        w = parameters[:, 0]
        hessian = w[:, None, None] * hessian
        hessian[:, 0] += gradient
        hessian[:, :, 0] += gradient
        gradient = w[:, None] * gradient
        gradient[:, 0] += state
    if quantity.endswith("lipschitz"):
        return np.linalg.norm(gradient, axis=1)
    return np.abs(np.linalg.eigvalsh(hessian)).max(axis=1)


def largest(
    quantity: str,
    activation: str,
    recurrent_bound: float,
    length: int,
    dimension: int = 1,
    *,
    seed: int = 0,
    draws: int = 16384,
    climbs: int = 8,
) -> Extreme:
    """Search all neurons with ``|W| ≤ α_m`` and all sequences of norms up to 1 for the largest
    derivative.

    The best of the random draws are climbed from.
    """
    sigma, bound = ACTIVATIONS[activation], recurrent_bound

    def unpacked(columns: Array) -> tuple[Array, Array]:
        rows = columns.T
        inputs = rows[:, 1 + dimension :].reshape(-1, length, dimension)
        return rows[:, : 1 + dimension], inputs / np.maximum(
            np.linalg.norm(inputs, axis=2, keepdims=True), 1
        )

    def objective(columns: Array) -> Array:
        return -size_of(quantity, *unpacked(columns), sigma)

    def with_slope(point: Array) -> tuple[float, Array]:
        here, ahead, behind = np.split(objective(point[:, None] + steps), [1, 1 + point.size])
        return here[0], (ahead - behind) / (2 * _STEP)

    ends = np.array([bound] + [_FARTHEST] * dimension + [1.0] * (length * dimension))
    steps = _STEP * np.column_stack([np.zeros_like(ends), np.eye(ends.size), -np.eye(ends.size)])
    points = ends[:, None] * np.random.default_rng(seed).uniform(-1, 1, (ends.size, draws))
    # extremes mostly have inputs of norm 1
    points[1 + dimension :] = np.clip(2 * points[1 + dimension :], -1, 1)
    best = points[:, np.argsort(objective(points))[:climbs]]
    box = list(zip(-ends, ends, strict=True))
    found = min(
        (
            optimize.minimize(with_slope, start, jac=True, method="L-BFGS-B", bounds=box)
            for start in best.T
        ),
        key=lambda one: one.fun,
    )
    parameters, inputs = unpacked(found.x[:, None])
    return Extreme(float(-found.fun), parameters[0], inputs[0])
