"""Targets made from transport maps: the functions that infinitely wide networks reach, and the finite networks that approximate them.

The companion's letters and the names here: v_w, v_u transport maps; ν̄_w, ν̄_u their suprema ``recurrent_bound`` and ``input_bound``;
F̃_t the target C&E Eq. (8). A neuron that starts at (w₀, u₀) is moved by ``c (v_w(w₀), v_u(u₀))/√m``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, generator, instance_of, integer_in, real_in
from lwcore.elman.activations import Activation, activation_named
from lwcore.elman.expectation import Estimate, mean_over_start, span
from lwcore.elman.gradients import stream_tangents
from lwcore.elman.network import ElmanNetwork, checked_inputs

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TransportMaps:
    """A pair of transport maps with their suprema. Implements C&E Eq. (9), of whose class it is a member.

    Attributes:
        recurrent: v_w, takes w₀ of shape (k,), returns shape (k,).
        inputs: v_u, takes u₀ of shape (k, d), returns shape (k, d).
        recurrent_bound: ``ν̄_w ≥ sup |v_w|``.
        input_bound: ν̄_u ≥ sup ‖v_u‖₂.
        directions: Vectors, shape (r, d), whose span holds all that v_u sees of u₀; None for all of u₀. Few of them let a mean over
            u₀ be an integral where d is large.
    """

    recurrent: Callable[[Array], Array]
    inputs: Callable[[Array], Array]
    recurrent_bound: float
    input_bound: float
    directions: Array | None = None

    def __post_init__(self) -> None:
        """Check the bounds."""
        for name in ("recurrent_bound", "input_bound"):
            real_in(name, getattr(self, name), "[0, inf)")
        for name in ("recurrent", "inputs"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} = {getattr(self, name)!r}: must be a function.")
        if self.directions is not None:
            finite_array("directions", self.directions, ndim=2)

    def at(self, parameters: Array) -> Array:
        """Return ``[v_w(W_ii), v_u(U_i)]`` for rows ``[W_ii, U_i]``, both of shape (m, 1 + d).

        Args:
            parameters: Rows ``[W_ii, U_i]``, shape (m, 1 + d).

        Returns:
            The rows.

        Raises:
            ValueError: If a map's value has the wrong shape or exceeds its bound.
        """
        moves = []
        for name, given, bound in (("recurrent", parameters[:, 0], self.recurrent_bound), ("inputs", parameters[:, 1:], self.input_bound)):
            value = finite_array(f"{name}(…)", getattr(self, name)(given))
            if value.shape != given.shape:
                raise ValueError(f"{name}(…) has shape {value.shape}: must be {given.shape}, as what it was given.")
            rows = value.reshape(len(parameters), -1)
            largest = float(np.sqrt(np.square(rows).sum(axis=1).max()))
            if largest > bound * (1 + 1e-12):
                raise ValueError(f"{name}(…) reaches a norm of {largest:.6g}: it must stay within its bound, {bound:.6g}.")
            moves.append(rows)
        return np.concatenate(moves, axis=1)

    def subspace(self, inputs: Array | None, dimension: int) -> Array:
        """Return an orthonormal basis, shape (d, r), of what inputs and v_u together see of u₀."""
        seen = np.eye(dimension) if self.directions is None else finite_array("directions", self.directions, ndim=2)
        return span(seen if inputs is None else np.concatenate([inputs.reshape(-1, dimension), seen]))


def transported(initial: ElmanNetwork, maps: TransportMaps) -> ElmanNetwork:
    """Return the network moved along the maps, ``Θ_i(0) + c_i (v_w, v_u)(Θ_i(0))/√m``. Implements C&E Eq. (20), C&E Remark 4.

    Args:
        initial: A network after symmetric initialisation.
        maps: The transport maps.

    Returns:
        The network, within ν̄_w/√m and ν̄_u/√m of its start in every neuron.
    """
    instance_of("initial", initial, ElmanNetwork)
    instance_of("maps", maps, TransportMaps)
    moves = initial.readout[:, None] * maps.at(initial.parameters) / initial.width**0.5
    return initial.at(initial.parameters + moves)


def transport_target(
    maps: TransportMaps,
    inputs: ArrayLike,
    *,
    alpha: float,
    activation: str | Activation = "tanh",
    tolerance: float = 1e-9,
    samples: int = 1 << 16,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Return the target that transport maps define. Implements C&E Eq. (8).

    By quadrature where the inputs and the directions of v_u span at most three dimensions, else by sampling; see
    `lwcore.elman.expectation`.

    Args:
        maps: The transport maps.
        inputs: Sequences, shape (n, T, d), of norms up to 1.
        alpha: Size α > 0 of the recurrent weights.
        activation: The activation σ, or its name.
        tolerance: Largest error at which the quadrature stops refining; a map with jumps may not reach it, which the error then shows.
        samples: Number of draws of u₀ where quadrature is not possible.
        rng: Source of randomness for them.

    Returns:
        F̃_1 … F̃_T, shape (n, T), with their errors.
    """
    instance_of("maps", maps, TransportMaps)
    if rng is not None:
        generator("rng", rng)
    real_in("tolerance", tolerance, "(0, inf)")
    integer_in("samples", samples, 64)
    sequences = checked_inputs(inputs)
    sigma, alpha = activation_named(activation), real_in("alpha", alpha, "(0, inf)")

    def summand(parameters: Array, weights: Array) -> Array:
        tangents = stream_tangents(parameters, maps.at(parameters), sequences, sigma)
        return np.stack([tangent @ weights for tangent in tangents], axis=1)

    basis = maps.subspace(sequences, sequences.shape[2])
    return mean_over_start(summand, basis, alpha, tolerance=tolerance, samples=samples, rng=rng)


def transport_norm(
    maps: TransportMaps,
    dimension: int,
    *,
    alpha: float,
    tolerance: float = 1e-9,
    samples: int = 1 << 16,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Return ``√(E‖v_u(u₀)‖² + E|v_w(w₀)|²)``, which the companion calls the norm of F̃_t in the kernel's space (C&E Section 3.2).

    It is an upper bound of that norm, which is the least over all maps that give the same function: at t = 1, for one, v_w changes nothing.
    `lwcore.elman.kernel.least_norm` bounds the norm from below.

    Args:
        maps: The transport maps.
        dimension: Dimension d of u₀.
        alpha: Size α > 0 of the recurrent weights.
        tolerance: Largest error of the mean square at which the quadrature stops refining.
        samples: Number of draws of u₀ where quadrature is not possible.
        rng: Source of randomness for them.

    Returns:
        The norm, with its error.
    """
    instance_of("maps", maps, TransportMaps)
    if rng is not None:
        generator("rng", rng)
    alpha, dimension = real_in("alpha", alpha, "(0, inf)"), integer_in("dimension", dimension, 1)
    tolerance, samples = real_in("tolerance", tolerance, "(0, inf)"), integer_in("samples", samples, 64)

    def summand(parameters: Array, weights: Array) -> Array:
        return np.array(weights @ np.square(maps.at(parameters)).sum(axis=1))

    square = mean_over_start(summand, maps.subspace(None, dimension), alpha, tolerance=tolerance, samples=samples, rng=rng)
    norm = np.sqrt(square.value)
    # half the square's error over the norm to first order, and never more than the square's root
    return Estimate(norm, np.minimum(np.sqrt(square.error), square.error / (2 * np.maximum(norm, 1e-300))), square.method)
