"""The tangent kernel, and the functions that wide networks reach: targets of transport maps.

``κ_t(X, X′)`` is the inner product of the gradients of F_t at two inputs. After a symmetric start
it tends to a mean over one neuron's random start, w₀ = ±α with equal chances and u₀ ~ N(0, I_d).
Only the products ``u₀ᵀ X_t`` matter, so that the mean is an integral over the span of the inputs,
which may have three dimensions. The trapezoidal rule takes it: for analytic integrands under a
Gaussian weight its error falls exponentially in the number of nodes.

The companion's letters and the names here: v_w, v_u transport maps; ν̄_w, ν̄_u their suprema
``recurrent_bound`` and ``input_bound``; F̃_t the target. A neuron that starts at (w₀, u₀) is moved
by ``c (v_w(w₀), v_u(u₀))/√m``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

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
from lwcore.signatures import NotNegative, Positive, checked, require

Pair = tuple[Array, Array]
Summand = Callable[[Array, Array], Array]

HIGHEST_RANK = 3  # dimensions of the span up to which the trapezoidal rule is affordable
_REACH = 8.6  # beyond it lies less than 1e-16 of a Gaussian's mass
_MOST_NODES = 1_500_000
_STARTS = 1 << 10  # values of u₀ at a time, to stay in the cache
_CHUNK = 1 << 16  # numbers held at a time by one array, likewise


class Estimate(NamedTuple):
    """An integral, and by how much it changed when the step was last halved."""

    value: Array
    error: Array


@checked
def finite_kernel(
    network: ElmanNetwork, inputs: Sequences, others: Sequences | None = None
) -> Float[np.ndarray, "n k T"]:
    """The kernel of one network, ``Σ_i ⟨∂F_t(X)/∂Θ_i, ∂F_t(X′)/∂Θ_i⟩``.

    The left side of C&E Proposition 2 before its limit, at any parameters; X′ are `others` or
    `inputs` again.
    """
    first, second = pair = _pair(network.sequences(inputs), others)
    size = max(2, _CHUNK // ((len(first) + len(second)) * (1 + network.dimension)) // 2 * 2)
    different = network.width // network.repeats
    weights = np.square(network.readout) * (network.repeats / network.width)
    total = np.zeros((len(first), len(second), first.shape[1]))
    for start in range(0, different, size):  # memory does not grow with the width
        part = slice(start, min(start + size, different))
        total += _gram(network.parameters[part], weights[part], pair, network.sigma)
    return total


@checked
def limiting_kernel(
    inputs: Sequences,
    others: Sequences | None = None,
    *,
    alpha: Positive,
    activation: Named = "tanh",
    as_printed: bool = False,
    tolerance: Positive = 1e-9,
) -> Estimate:
    """The kernel in the limit of infinite width. Implements C&E Proposition 2.

    ``as_printed=True`` sums over k, ℓ = 1 … t − 1 as printed, which loses the input of the last
    step (at t = 1 all of the kernel), in place of 0 … t − 1, which is what finite kernels tend to.
    """
    pair, sigma = _pair(inputs, others), ACTIVATIONS[activation]

    def summand(parameters: Array, weights: Array) -> Array:
        return _gram(parameters, weights, pair, sigma, newest=not as_printed)

    return mean_over_start(summand, span(np.concatenate(pair)), alpha, tolerance)


@checked
@dataclass(frozen=True, eq=False)
class TransportMaps:
    """A pair of transport maps with their suprema. Implements C&E Eq. (9), a member of its class.

    The directions span what v_u sees of u₀, None for all: few keep a mean over u₀ an integral.
    """

    recurrent: Callable[..., Array]  # v_w, takes w₀ of shape (k,), returns shape (k,)
    inputs: Callable[..., Array]  # v_u, takes u₀ of shape (k, d), returns shape (k, d)
    recurrent_bound: NotNegative  # ν̄_w ≥ sup |v_w|
    input_bound: NotNegative  # ν̄_u ≥ sup ‖v_u‖₂
    directions: Float[np.ndarray, "r d"] | None = None

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

    def subspace(self, inputs: Array) -> Array:
        """An orthonormal basis, shape (d, r), of what inputs and v_u together see of u₀."""
        seen = np.eye(inputs.shape[-1]) if self.directions is None else self.directions
        return span(np.concatenate([inputs.reshape(-1, inputs.shape[-1]), seen]))


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
    """The target F̃_1 … F̃_T of transport maps, shape (n, T). Implements C&E Eq. (8).

    The inputs and the directions of v_u together span at most three dimensions.
    """
    sequences, sigma = np.asarray(inputs, float), ACTIVATIONS[activation]

    def summand(parameters: Array, weights: Array) -> Array:
        tangents = stream_tangents(parameters, maps.at(parameters), sequences, sigma)
        return np.stack([tangent @ weights for tangent in tangents], axis=1)

    return mean_over_start(summand, maps.subspace(sequences), alpha, tolerance)


def mean_over_start(summand: Summand, basis: Array, alpha: float, tolerance: float) -> Estimate:
    """The mean over w₀ = ±α and u₀ of a function that sees u₀ on a subspace, r ≤ 3 dimensions.

    The summand gives the weighted sum, of any shape, from rows ``[w₀, u₀]``, (2k, 1 + d), and
    weights, (2k,). The basis of the subspace, (d, r), is orthonormal. The step is halved until the
    error is within the tolerance; with jumps it may stay above, which the error then shows.
    """
    rank = basis.shape[1]
    require("dimensions that inputs span", rank, rank <= HIGHEST_RANK, f"{HIGHEST_RANK} at most")

    def total(nodes: Array, weights: Array) -> Array:
        parts = []
        for first in range(0, len(nodes), _STARTS):
            u = nodes[first : first + _STARTS] @ basis.T
            w, half = np.full((len(u), 1), alpha), weights[first : first + _STARTS] / 2
            parts.append(summand(np.block([[w, u], [-w, u]]), np.concatenate([half, half])))
        return functools.reduce(np.add, parts)

    step = 0.5
    fine = total(*trapezoid(rank, step))
    error = np.zeros_like(fine)
    while rank:
        coarse, step = fine, step / 2
        nodes, weights = trapezoid(rank, step, between=True)
        fine = coarse / 2**rank + total(nodes, weights)
        error = np.abs(fine - coarse)
        at_next_step = len(nodes) * 4**rank / (2**rank - 1)
        if error.max() <= tolerance or at_next_step > _MOST_NODES:
            break
    return Estimate(fine, error)


def trapezoid(rank: int, step: float, *, between: bool = False) -> tuple[Array, Array]:
    """Nodes, (k, r), and weights, (k,), of the trapezoidal rule under the law N(0, I_r).

    With ``between`` only the nodes that lie between those of twice the step.
    """
    reach = int(_REACH / step)
    count = 2 * reach + 1
    places = np.indices((count,) * rank).reshape(rank, count**rank).T - reach
    if between:
        places = places[(places % 2 == 1).any(axis=1)]
    nodes = step * places
    nodes = nodes[np.square(nodes).sum(axis=1) <= _REACH**2]
    density = np.exp(-0.5 * np.square(nodes).sum(axis=1)) / (2 * np.pi) ** (rank / 2)
    return nodes, step**rank * density


def span(vectors: Array) -> Array:
    """An orthonormal basis, shape (d, r), of what vectors, shape (..., d), span."""
    _, sizes, rows = np.linalg.svd(vectors.reshape(-1, vectors.shape[-1]), full_matrices=False)
    return rows[sizes > 1e-12 * max(sizes.max(initial=0.0), 1e-300)].T


def _pair(inputs: ArrayLike, others: ArrayLike | None) -> Pair:
    """Two sets of sequences of one length; the first twice without others."""
    first = np.asarray(inputs, float)
    if others is None:
        return first, first
    return first, shaped("others", others, (np.shape(others)[0], *first.shape[1:]))


def _gram(
    parameters: Array, weights: Array, pair: Pair, sigma: Activation, *, newest: bool = True
) -> Array:
    """Inner products ``Σ_i weights_i ⟨∂H_t^{(i)}(X), ∂H_t^{(i)}(X′)⟩``, shape (n, n′, T)."""
    first, second = pair
    together = first if second is first else np.concatenate(pair)
    n, steps = len(first), []
    for gradient in stream_gradients(parameters, together, sigma, newest=newest):
        left = (gradient[:n] * weights).reshape(n, -1)
        steps.append(left @ gradient[-len(second) :].reshape(len(second), -1).T)
    return np.stack(steps, axis=-1)
