"""Gradient descent on the empirical risk, free or projected onto a max-norm ball around the initialisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import instance_of, integer_in, real_in
from lwcore.elman.gradients import risk_gradient
from lwcore.elman.network import ElmanNetwork, checked_inputs, checked_radii, checked_targets

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Descent:
    """A run of gradient descent from Θ(0).

    Attributes:
        network: The network at the last iterate, Θ(τ).
        average: The network at the mean of Θ(0) … Θ(τ − 1), as in C&E Corollary 1.
        risks: Risk at Θ(0) … Θ(τ − 1), shape (τ,).
        recurrent_moves: ``√m max_i |W_ii(s) − W_ii(0)|``, the least radius ρ_w that holds the iterate, s = 0 … τ − 1, shape (τ,).
        input_moves: ``√m max_i ‖U_i(s) − U_i(0)‖₂``, the same for ρ_u, shape (τ,).
    """

    network: ElmanNetwork
    average: ElmanNetwork
    risks: Array
    recurrent_moves: Array
    input_moves: Array

    @property
    def least_risk(self) -> float:
        """The least risk of Θ(0) … Θ(τ − 1), on the left of C&E Theorem 1 and C&E Theorem 2."""
        return float(self.risks.min())

    def exit_time(self, recurrent_radius: float, input_radius: float) -> int | None:
        """Return the first s at which an iterate has left the ball, τ_exit in the proof of C&E Theorem 2; None if none has.

        Args:
            recurrent_radius: λ_w > 0.
            input_radius: λ_u > 0.

        Returns:
            The number of steps, or None.
        """
        out_w = self.recurrent_moves > real_in("recurrent_radius", recurrent_radius, "(0, inf)")
        out_u = self.input_moves > real_in("input_radius", input_radius, "(0, inf)")
        left = np.flatnonzero(out_w | out_u)
        return int(left[0]) if left.size else None


def gradient_descent(
    initial: ElmanNetwork,
    inputs: ArrayLike,
    targets: ArrayLike,
    step_size: float,
    steps: int,
    *,
    radii: tuple[float, float] | None = None,
) -> Descent:
    """Descend on the empirical risk, C&E Eq. (1). Implements C&E Eq. (5) and the max-norm projected descent of Section 2.3.

    Args:
        initial: The network at Θ(0).
        inputs: Sequences, shape (n, T, d), of norms up to 1.
        targets: Y_1 … Y_T, shape (n, T).
        step_size: η > 0. The companion's proofs descend on half of C&E Eq. (1): their η is half of it here.
        steps: Number τ ≥ 1 of steps.
        radii: Projection radii (ρ_w, ρ_u), both above 0; None for no projection. Each W_ii stays within ρ_w/√m and each U_i within ρ_u/√m
            of its start.

    Returns:
        The run.

    Raises:
        ValueError: If an argument is out of range, or the risk grows beyond all numbers (the step size is then too large).
    """
    instance_of("initial", initial, ElmanNetwork)
    sequences = checked_inputs(inputs, initial.dimension)
    wanted = checked_targets(targets, sequences)
    step_size, steps = real_in("step_size", step_size, "(0, inf)"), integer_in("steps", steps, 1)
    ball = None if radii is None else [radius / initial.width**0.5 for radius in checked_radii(radii, "(0, inf)")]
    network, total = initial, np.zeros_like(initial.parameters)
    record = np.empty((3, steps))
    for s in range(steps):
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            risk, gradient = risk_gradient(network, sequences, wanted)
        if not (np.isfinite(risk) and np.isfinite(gradient).all()):
            raise ValueError(f"step_size = {step_size!r}: the risk or its gradient overflows at step {s}; take a smaller one.")
        moved = network.parameters - initial.parameters
        record[:, s] = risk, *(initial.width**0.5 * row_norms(part).max() for part in (moved[:, :1], moved[:, 1:]))
        total += network.parameters
        moved = moved - step_size * gradient
        network = initial.at(initial.parameters + (moved if ball is None else projected(moved, *ball)))
    return Descent(network, initial.at(total / steps), *record)


def projected(moved: Array, recurrent_radius: float, input_radius: float) -> Array:
    """Return the nearest displacement, shape (m, 1 + d), whose rows lie in the two balls, radii not divided by √m."""
    scale = np.minimum(1.0, input_radius / np.maximum(row_norms(moved[:, 1:]), input_radius))
    return np.column_stack([np.clip(moved[:, 0], -recurrent_radius, recurrent_radius), moved[:, 1:] * scale[:, None]])


def row_norms(rows: Array) -> Array:
    """Return the Euclidean norm of each row, shape (m, k) -> (m,)."""
    return np.sqrt(np.square(rows).sum(axis=1))
