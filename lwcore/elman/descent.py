"""Gradient descent on the empirical risk, free or projected onto a max-norm ball around the initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import instance_of, integer_in, real_in, sequence_of
from lwcore.elman.gradients import risk_gradients
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
    return gradient_descents([instance_of("initial", initial, ElmanNetwork)], inputs, targets, step_size, steps, radii=radii)[0]


def gradient_descents(
    initials: Sequence[ElmanNetwork],
    inputs: ArrayLike,
    targets: ArrayLike,
    step_size: float,
    steps: int,
    *,
    radii: tuple[float, float] | None = None,
) -> list[Descent]:
    """Descend from several starts at once, each as by `gradient_descent`, whose other arguments are the same.

    Args:
        initials: Networks of one width, with one activation.
        inputs: Sequences.
        targets: Targets.
        step_size: η.
        steps: τ.
        radii: Projection radii, or None.

    Returns:
        The runs.

    Raises:
        ValueError: As `gradient_descent`, or if the networks differ in width or activation.
    """
    starts = [instance_of("initials", one, ElmanNetwork) for one in sequence_of("initials", initials)]
    if len({(one.parameters.shape, one.activation.name) for one in starts}) != 1:
        raise ValueError(f"initials: {len(starts)} networks; must be one or more, of one width, dimension and activation.")
    first, activation = np.stack([one.parameters for one in starts]), starts[0].activation
    readouts, root = np.stack([one.readout for one in starts]), starts[0].width ** 0.5
    sequences = checked_inputs(inputs, starts[0].dimension)
    wanted = checked_targets(targets, sequences)
    step_size, steps = real_in("step_size", step_size, "(0, inf)"), integer_in("steps", steps, 1)
    ball = None if radii is None else [radius / root for radius in checked_radii(radii, "(0, inf)")]
    moved, total = np.zeros_like(first), np.zeros_like(first)
    record = np.empty((3, steps, len(starts)))
    for s in range(steps):
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            risk, gradient = risk_gradients(first + moved, readouts, activation, sequences, wanted)
        if not (np.isfinite(risk).all() and np.isfinite(gradient).all()):
            raise ValueError(f"step_size = {step_size!r}: the risk or its gradient overflows at step {s}; take a smaller one.")
        record[:, s] = risk, *(root * row_norms(part).max(axis=-1) for part in (moved[..., :1], moved[..., 1:]))
        total += first + moved
        moved = moved - step_size * gradient
        if ball is not None:
            moved = projected(moved, *ball)
    ends, means = first + moved, total / steps
    return [Descent(one.at(ends[k]), one.at(means[k]), *record[..., k]) for k, one in enumerate(starts)]


def projected(moved: Array, recurrent_radius: float, input_radius: float) -> Array:
    """Return the nearest displacement, shape (..., m, 1 + d), whose rows lie in the two balls, radii not divided by √m."""
    near = moved.copy()
    np.clip(moved[..., 0], -recurrent_radius, recurrent_radius, out=near[..., 0])
    near[..., 1:] *= np.minimum(1.0, input_radius / np.maximum(row_norms(moved[..., 1:]), input_radius))[..., None]
    return near


def row_norms(rows: Array) -> Array:
    """Return the Euclidean norm of each row, shape (..., k) -> (...)."""
    return np.sqrt(np.einsum("...k,...k->...", rows, rows))
