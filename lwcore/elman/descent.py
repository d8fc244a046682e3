"""Gradient descent on the empirical risk, free or projected onto a max-norm ball."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lwcore.elman.network import Array, BoundedInputs, ElmanNetwork, Radii, shaped
from lwcore.signatures import FiniteReals, Int64Count, Positive, checked, require


@checked
def risk_gradient(
    network: ElmanNetwork, inputs: BoundedInputs, targets: FiniteReals
) -> tuple[float, Float[np.ndarray, "m p"]]:
    """Return the empirical risk and its gradient in all rows ``[W_ii, U_i]``.

    It has the factor 2 of the square in C&E Eq. (1), which the companion's proofs leave out. Errors
    are carried back through time, so that nothing of the size of C&E Proposition 1 is stored.
    """
    by_step = network.sequences(inputs).swapaxes(0, 1)  # (T, n, d)
    length, n = by_step.shape[:2]
    wanted_outputs = shaped("targets", targets, (n, length))
    return _risk_gradient(network, by_step, wanted_outputs)


def _risk_gradient(
    network: ElmanNetwork, by_step: Array, wanted_outputs: Array
) -> tuple[float, Array]:
    """Return risk and gradient for inputs (T, n, d) and targets (n, T), infinite or NaN perhaps."""
    length, n = by_step.shape[:2]
    recurrent = network.parameters[:, 0]
    of_inputs = network.parameters[:, 1:]

    # Forward: pre-activations z_t and states, from H_0 = 0.
    pre = by_step @ of_inputs.T
    states = np.zeros((1 + length, n, network.width))
    for step, z in enumerate(pre):
        z += recurrent * states[step]
        states[step + 1] = network.sigma.value(z)
    slopes = network.sigma.slope_from(pre, states[1:])

    # Backward: ∂R/∂z_t, with what arrives from the step behind.
    residuals = network.read(states[1:]) - wanted_outputs.T  # (T, n)
    weights = 2 / (n * network.width**0.5) * network.readout
    adjoints = residuals[..., None] * weights
    for step in reversed(range(length)):
        if step + 1 < length:
            adjoints[step] += adjoints[step + 1] * recurrent
        adjoints[step] *= slopes[step]

    gradient = np.empty_like(network.parameters)
    gradient[:, 0] = np.einsum("tnm,tnm->m", adjoints, states[:-1])
    gradient[:, 1:] = np.tensordot(adjoints, by_step, ((0, 1), (0, 1)))
    over_time = np.square(residuals).sum(axis=0)
    return float(over_time.mean()), gradient


@dataclass(frozen=True, eq=False)
class Descent:
    """A run of gradient descent from Θ(0); its arrays hold s = 0 … τ − 1, shape (τ,)."""

    network: ElmanNetwork  # at the last iterate, Θ(τ)
    average: ElmanNetwork  # at the mean of Θ(0) … Θ(τ − 1), as in C&E Corollary 1
    risks: Array  # at Θ(s); the least is on the left of C&E Theorem 1 and C&E Theorem 2
    recurrent_moves: Array  # √m max_i |W_ii(s) − W_ii(0)|, the least ρ_w that holds the iterate
    input_moves: Array  # √m max_i ‖U_i(s) − U_i(0)‖₂, the same for ρ_u


@checked
def gradient_descent(
    initial: ElmanNetwork,
    inputs: BoundedInputs,
    targets: FiniteReals,
    step_size: Positive,
    steps: Int64Count,
    *,
    radii: Radii | None = None,
) -> Descent:
    """Descend on the empirical risk from an initial network, freely or projected.

    Implements C&E Eq. (5) and the max-norm projected descent of C&E Section 2.3. C&E Theorem 1 and
    C&E Corollary 1 are about projected descent, C&E Theorem 2 about free descent.

    Args:
        step_size: Half the η of C&E Theorem 1, whose proof descends on half of C&E Eq. (1).
        radii: (ρ_w, ρ_u), which keep each W_ii within ρ_w/√m and each U_i within ρ_u/√m of its
            start; free descent if None.

    Raises:
        ArgumentError: If the risk overflows: the step size is too large.
    """
    require("radii", radii, radii is None or min(radii) > 0, "above 0")
    start = initial.parameters
    root_m = initial.width**0.5
    network = copy(initial)
    by_step = network.sequences(inputs).swapaxes(0, 1)
    wanted_outputs = shaped("targets", targets, by_step.shape[1::-1])
    move = np.zeros_like(start)  # Θ(s) − Θ(0)
    total = np.zeros_like(start)
    risks = np.empty(steps)
    recurrent_moves = np.empty(steps)
    input_moves = np.empty(steps)
    with np.errstate(over="ignore", invalid="ignore"):  # said in words
        for s in range(steps):
            network.parameters = start + move
            risk, gradient = _risk_gradient(network, by_step, wanted_outputs)
            is_finite = bool(np.isfinite(risk) and np.isfinite(gradient).all())
            require("step_size", step_size, is_finite, f"smaller: the risk overflows at step {s}")
            risks[s] = risk
            recurrent_moves[s] = root_m * np.abs(move[:, 0]).max()
            input_moves[s] = root_m * np.linalg.norm(move[:, 1:], axis=1).max()
            total += network.parameters
            move = move - step_size * gradient
            if radii is not None:
                rho_w, rho_u = radii
                move = projected(move, rho_w / root_m, rho_u / root_m)
    return Descent(
        network=initial.at(start + move),
        average=initial.at(total / steps),
        risks=risks,
        recurrent_moves=recurrent_moves,
        input_moves=input_moves,
    )


def projected(move: Array, recurrent_radius: float, input_radius: float) -> Array:
    """Return the nearest displacement whose rows lie in the two balls, radii not divided by √m."""
    of_u = move[..., 1:]
    lengths = np.linalg.norm(of_u, axis=-1, keepdims=True)
    shrunk_u = of_u * (input_radius / np.maximum(lengths, input_radius))
    clipped_w = np.clip(move[..., :1], -recurrent_radius, recurrent_radius)
    return np.concatenate([clipped_w, shrunk_u], axis=-1)
