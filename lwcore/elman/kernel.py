"""The tangent kernel, and the functions that wide networks reach: targets of transport maps.

``κ_t(X, X′)`` is the inner product of the gradients of F_t at two inputs. After a symmetric start
it tends to a mean over one neuron's random start, w₀ = ±α with equal chances and u₀ ~ N(0, I_d).
Only the products ``u₀ᵀ X_t`` matter, so that the mean is an integral over the span of the inputs,
which may have three dimensions. The trapezoidal rule takes it: for analytic integrands under a
Gaussian weight its error falls exponentially in the number of nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lwcore.elman.network import (
    ACTIVATIONS,
    Activation,
    Array,
    ElmanNetwork,
    Named,
    Sequences,
    shaped,
    stream_gradients,
    stream_tangents,
)
from lwcore.signatures import NotNegative, Positive, checked, floats, require

_REACH = 8.6  # beyond it lies less than 1e-16 of a Gaussian's mass
_MOST_NODES = 1_500_000
_STARTS = 1 << 10  # values of u₀ at a time, to stay in the cache
_CHUNK = 1 << 16  # numbers held at a time by one array, likewise


class Estimate(NamedTuple):
    """An integral, and by how much it changed when the step was last halved."""

    value: Array
    error: Array


@checked
def finite_kernel(network: ElmanNetwork, inputs: Sequences) -> Float[np.ndarray, "n n T"]:
    """The kernel of one network, ``Σ_i ⟨∂F_t(X)/∂Θ_i, ∂F_t(X′)/∂Θ_i⟩``, of all pairs of inputs.

    The left side of C&E Proposition 2 before its limit, at any parameters.
    """
    sequences = network.sequences(inputs)
    n, _, d = sequences.shape
    size = max(2, _CHUNK // (2 * n * (1 + d)) // 2 * 2)  # memory does not grow with the width
    different = network.width // network.repeats
    weights = np.square(network.readout) * (network.repeats / network.width)
    parts = (slice(first, min(first + size, different)) for first in range(0, different, size))
    each = (_gram(network.parameters[p], weights[p], sequences, network.sigma) for p in parts)
    return functools.reduce(np.add, each)


@checked
def limiting_kernel(
    inputs: Sequences,
    *,
    alpha: Positive,
    activation: Named = "tanh",
    as_printed: bool = False,
    tolerance: Positive = 1e-9,
) -> Estimate:
    """The kernel in the limit of infinite width, (n, n, T). Implements C&E Proposition 2.

    ``as_printed=True`` sums over k, ℓ = 1 … t − 1 as printed, which loses the input of the last
    step (at t = 1 all of the kernel), in place of 0 … t − 1, which is what finite kernels tend to.
    """
    sequences, sigma = floats("inputs", inputs), ACTIVATIONS[activation]

    def summand(parameters: Array, weights: Array) -> Array:
        return _gram(parameters, weights, sequences, sigma, newest=not as_printed)

    return mean_over_start(summand, sequences, alpha, tolerance)


@checked
@dataclass(frozen=True, eq=False)
class TransportMaps:
    """Transport maps with their suprema. Implements C&E Eq. (9), a member of its class."""

    recurrent: Callable[..., Array]  # v_w, takes w₀ of shape (k,), returns shape (k,)
    inputs: Callable[..., Array]  # v_u, takes u₀ of shape (k, d), returns shape (k, d)
    recurrent_bound: NotNegative  # ν̄_w ≥ sup |v_w|
    input_bound: NotNegative  # ν̄_u ≥ sup ‖v_u‖₂

    def at(self, parameters: Array) -> Array:
        """Moves ``[v_w(W_ii), v_u(U_i)]`` of rows ``[W_ii, U_i]``."""
        w, u = parameters[:, 0], parameters[:, 1:]
        of_w = shaped("recurrent(…)", self.recurrent(w), w.shape)
        of_u = shaped("inputs(…)", self.inputs(u), u.shape)
        sizes = float(np.abs(of_w).max()), float(np.linalg.norm(of_u, axis=1).max())
        bounds = self.recurrent_bound, self.input_bound
        holds = np.less_equal(sizes, np.multiply(bounds, 1 + 1e-12))
        require("largest norms of moves", sizes, holds.all(), f"within their bounds, {bounds}")
        return np.column_stack([of_w, of_u])


@checked
def transported(initial: ElmanNetwork, maps: TransportMaps) -> ElmanNetwork:
    """The network moved along the maps, ``Θ_i(0) + c_i (v_w, v_u)(Θ_i(0))/√m``.

    Implements C&E Eq. (20), C&E Remark 4. Every neuron stays within ν̄_w/√m and ν̄_u/√m of its start.
    """
    moves = initial.readout[:, None] * maps.at(initial.parameters) / initial.width**0.5
    return initial.at(initial.parameters + moves)


@checked
def transport_target(
    maps: TransportMaps,
    inputs: Sequences,
    *,
    alpha: Positive,
    activation: Named = "tanh",
    tolerance: Positive = 1e-9,
) -> Estimate:
    """The target F̃_1 … F̃_T of transport maps, (n, T), d at most 3. Implements C&E Eq. (8)."""
    sequences, sigma = floats("inputs", inputs), ACTIVATIONS[activation]

    def summand(parameters: Array, weights: Array) -> Array:
        tangents = stream_tangents(parameters, maps.at(parameters), sequences, sigma)
        return np.stack([tangent @ weights for tangent in tangents], axis=1)

    return mean_over_start(summand, np.eye(sequences.shape[-1]), alpha, tolerance)


def mean_over_start(
    summand: Callable[[Array, Array], Array], seen: Array, alpha: float, tolerance: float
) -> Estimate:
    """The mean over w₀ = ±α and u₀ of a function that sees u₀ along vectors, (..., d), alone.

    The summand gives the weighted sum, of any shape, from rows ``[w₀, u₀]``, (2k, 1 + d), and
    weights, (2k,). The vectors span at most three dimensions. The step is halved until the error is
    within the tolerance; with jumps it may stay above, which the error then shows.
    """
    _, sizes, rows = np.linalg.svd(seen.reshape(-1, seen.shape[-1]), full_matrices=False)
    basis = rows[sizes > 1e-12 * sizes.max()]
    rank = len(basis)
    require("dimensions that inputs span", rank, rank <= 3, "3 at most: more cost too much")

    def total(nodes: Array, weights: Array) -> Array:
        parts = []
        for first in range(0, len(nodes), _STARTS):
            u = nodes[first : first + _STARTS] @ basis
            w, half = np.full((len(u), 1), alpha), weights[first : first + _STARTS] / 2
            parts.append(summand(np.block([[w, u], [-w, u]]), np.concatenate([half, half])))
        return functools.reduce(np.add, parts)

    step = 0.5
    value = total(*trapezoid(rank, step))
    error = np.zeros_like(value)
    while rank:
        coarse, step = value, step / 2
        nodes, weights = trapezoid(rank, step)
        new = (nodes / step % 2).any(axis=1)  # all others are nodes of the step before, too
        value = coarse / 2**rank + total(nodes[new], weights[new])
        error = np.abs(value - coarse)
        if error.max() <= tolerance or len(nodes) * 2**rank > _MOST_NODES:
            break
    return Estimate(value, error)


def trapezoid(rank: int, step: float) -> tuple[Array, Array]:
    """Nodes, (k, r), and weights, (k,), of the trapezoidal rule under the law N(0, I_r)."""
    reach = int(_REACH / step)
    count = 2 * reach + 1
    grid = np.indices((count,) * rank, dtype=np.float64)
    nodes = step * (grid.reshape(rank, count**rank).T - reach)
    nodes = nodes[np.square(nodes).sum(axis=1) <= _REACH**2]
    density = np.exp(-0.5 * np.square(nodes).sum(axis=1)) / (2 * np.pi) ** (rank / 2)
    return nodes, step**rank * density


def _gram(
    parameters: Array, weights: Array, inputs: Array, sigma: Activation, *, newest: bool = True
) -> Array:
    """Inner products ``Σ_i weights_i ⟨∂H_t^{(i)}(X), ∂H_t^{(i)}(X′)⟩``, shape (n, n, T)."""
    n, steps = len(inputs), []
    for gradient in stream_gradients(parameters, inputs, sigma, newest=newest):
        steps.append((gradient * weights).reshape(n, -1) @ gradient.reshape(n, -1).T)
    return np.stack(steps, axis=-1)
