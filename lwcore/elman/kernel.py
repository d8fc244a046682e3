"""The tangent kernel, and the functions that wide networks reach: targets of transport maps.

``κ_t(X, X′)`` is the inner product of the gradients of F_t at two inputs. After a symmetric start
it tends to a mean over one neuron's random start, w₀ = ±α with equal chances and u₀ ~ N(0, I_d).
Only the products ``u₀ᵀ X_t`` matter, so that the mean is an integral over the span of the inputs,
which may have three dimensions. The trapezoidal rule takes it: for analytic integrands under a
Gaussian weight its error falls exponentially in the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lwcore.elman.network import (
    ACTIVATIONS,
    Activation,
    Array,
    BoundedInputs,
    ElmanNetwork,
    Named,
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
def finite_kernel(network: ElmanNetwork, inputs: BoundedInputs) -> Float[np.ndarray, "n n T"]:
    """Return the kernel of one network at all pairs of inputs and all steps.

    It is ``Σ_i ⟨∂F_t(X)/∂Θ_i, ∂F_t(X′)/∂Θ_i⟩``, of which `limiting_kernel` is the limit.
    """
    sequences = network.sequences(inputs)
    n, _, d = sequences.shape
    # A few neurons at a time, an even number, so that memory does not grow with the width.
    n_pairs_at_once = _CHUNK // (2 * n * (1 + d)) // 2
    n_at_once = max(2, 2 * n_pairs_at_once)
    n_different = network.width // network.repeats
    rows = network.parameters[:n_different]
    weights = np.square(network.readout) * (network.repeats / network.width)
    total: Any = 0.0
    for first in range(0, n_different, n_at_once):
        some = slice(first, first + n_at_once)
        gram = _gram(rows[some], weights[:n_different][some], sequences, network.sigma)
        total = total + gram
    return total


@checked
def limiting_kernel(
    inputs: BoundedInputs,
    *,
    alpha: Positive,
    activation: Named = "tanh",
    as_printed: bool = False,
    tolerance: Positive = 1e-9,
) -> Estimate:
    """Return the kernel in the limit of infinite width, (n, n, T). Implements C&E Proposition 2.

    Args:
        alpha: α, the size of the recurrent weights at the start.
        as_printed: Whether to sum over k, ℓ = 1 … t − 1 as printed, which loses the input of the
            last step (at t = 1 all of the kernel), in place of 0 … t − 1, which finite kernels tend
            to.
        tolerance: The largest change of the integral with which halving its step ends.
    """
    sequences = floats("inputs", inputs)
    sigma = ACTIVATIONS[activation]

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
        """Return the moves ``[v_w(W_ii), v_u(U_i)]`` of rows ``[W_ii, U_i]``.

        Raises:
            ArgumentError: If a map returns another shape, or a move beyond its bound.
        """
        w = parameters[:, 0]
        u = parameters[:, 1:]
        of_w = shaped("recurrent(…)", self.recurrent(w), w.shape)
        of_u = shaped("inputs(…)", self.inputs(u), u.shape)
        sizes = (float(np.abs(of_w).max()), float(np.linalg.norm(of_u, axis=1).max()))
        bounds = (self.recurrent_bound, self.input_bound)
        holds = np.less_equal(sizes, np.multiply(bounds, 1 + 1e-12))  # but for rounding
        require("largest norms of moves", sizes, holds.all(), f"within their bounds, {bounds}")
        return np.column_stack([of_w, of_u])


@checked
def transported(initial: ElmanNetwork, maps: TransportMaps) -> ElmanNetwork:
    """Return the network moved along the maps, ``Θ_i(0) + c_i (v_w, v_u)(Θ_i(0))/√m``.

    Implements C&E Eq. (20), C&E Remark 4: moves of up to ν̄_w/√m and ν̄_u/√m.
    """
    start = initial.parameters
    moves = initial.readout[:, None] * maps.at(start) / initial.width**0.5
    return initial.at(start + moves)


@checked
def transport_target(
    maps: TransportMaps,
    inputs: BoundedInputs,
    *,
    alpha: Positive,
    activation: Named = "tanh",
    tolerance: Positive = 1e-9,
) -> Estimate:
    """Return the target F̃_1 … F̃_T of transport maps, (n, T), d at most 3. Implements C&E Eq. (8).

    It is what infinitely wide networks reach if every neuron moves as the maps say. The other
    arguments are those of `limiting_kernel`.
    """
    sequences = floats("inputs", inputs)
    sigma = ACTIVATIONS[activation]

    def summand(parameters: Array, weights: Array) -> Array:
        by_step = []
        for tangent in stream_tangents(parameters, maps.at(parameters), sequences, sigma):
            by_step.append(tangent @ weights)
        return np.stack(by_step, axis=1)

    # Maps may look at all of u₀, not only along the inputs: so along every axis.
    return mean_over_start(summand, np.eye(sequences.shape[-1]), alpha, tolerance)


def mean_over_start(
    summand: Callable[[Array, Array], Array], seen: Array, alpha: float, tolerance: float
) -> Estimate:
    """Return the mean of a function over one neuron's random start, w₀ = ±α and u₀ ~ N(0, I_d).

    The step of the trapezoidal rule is halved until the integral changes by no more than the
    tolerance; with jumps it may change by more to the end, which the error then shows.

    Args:
        summand: Returns the weighted sum of the function, of any shape, from rows ``[w₀, u₀]``,
            (2k, 1 + d), and weights, (2k,).
        seen: Vectors, (..., d), along which alone the function sees u₀. They span at most three
            dimensions.
    """
    vectors = seen.reshape(-1, seen.shape[-1])
    _, sizes, rows = np.linalg.svd(vectors, full_matrices=False)
    basis = rows[sizes > 1e-12 * sizes.max()]
    rank = len(basis)
    require("dimensions that inputs span", rank, rank <= 3, "3 at most: more cost too much")

    def total(nodes: Array, weights: Array) -> Array:
        """Sum over nodes, each with both signs of w₀."""
        sum_so_far: Any = 0.0
        for first in range(0, len(nodes), _STARTS):
            some = slice(first, first + _STARTS)
            u = nodes[some] @ basis
            w = np.full((len(u), 1), alpha)
            both_signs = np.block([[w, u], [-w, u]])
            half = weights[some] / 2
            with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
                part = summand(both_signs, np.concatenate([half, half]))
            is_finite = bool(np.isfinite(part).all())
            require("alpha", alpha, is_finite, "smaller: derivatives leave the range of a float")
            sum_so_far = sum_so_far + part
        return sum_so_far

    step = 0.5
    value = total(*trapezoid(rank, step))
    error = np.zeros_like(value)
    if rank == 0:  # nothing to integrate
        return Estimate(value, error)
    while True:
        coarse = value
        step = step / 2
        nodes, weights = trapezoid(rank, step)
        # Nodes at even multiples of the step are those of the step before. Each of them now stands
        # for a cell of a 2^rank-th of the volume.
        is_new = (nodes / step % 2).any(axis=1)
        value = coarse / 2**rank + total(nodes[is_new], weights[is_new])
        error = np.abs(value - coarse)
        if error.max() <= tolerance or len(nodes) * 2**rank > _MOST_NODES:
            return Estimate(value, error)


def trapezoid(rank: int, step: float) -> tuple[Array, Array]:
    """Return nodes, (k, r), and weights, (k,), of the trapezoidal rule under the law N(0, I_r)."""
    reach = int(_REACH / step)
    count = 2 * reach + 1
    grid = np.indices((count,) * rank, dtype=np.float64)
    nodes = step * (grid.reshape(rank, count**rank).T - reach)
    squares = np.square(nodes).sum(axis=1)
    is_within = squares <= _REACH**2
    density = np.exp(-0.5 * squares[is_within]) / (2 * np.pi) ** (rank / 2)
    return nodes[is_within], step**rank * density


def _gram(
    parameters: Array, weights: Array, inputs: Array, sigma: Activation, *, newest: bool = True
) -> Array:
    """Return the products ``Σ_i weights_i ⟨∂H_t^{(i)}(X), ∂H_t^{(i)}(X′)⟩``, shape (n, n, T).

    A step's gradients are used before the next overwrites them: only products are kept.
    """
    n = len(inputs)
    by_step = []
    for gradient in stream_gradients(parameters, inputs, sigma, newest=newest):
        features = gradient.reshape(n, -1)
        weighted = (gradient * weights).reshape(n, -1)
        by_step.append(weighted @ features.T)
    return np.stack(by_step, axis=-1)
