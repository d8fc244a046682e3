"""The tangent kernel, and the functions that wide networks reach: targets of transport maps.

``κ_t(X, X′)`` is the inner product of the gradients of F_t at two inputs; arrays of kernels have
shape (n, n′, T). After a symmetric start it tends to a mean over one neuron's random start, w₀ = ±α
with equal chances and u₀ ~ N(0, I_d). What is averaged meets u₀ in the products ``u₀ᵀ X_t`` alone,
so u₀ matters on the span of the inputs, which may have three dimensions. There the mean is an
integral, taken by the trapezoidal rule: for analytic integrands under a Gaussian weight its error
falls exponentially in the number of nodes. The two values of w₀ are summed.

The companion's letters and the names here: v_w, v_u transport maps; ν̄_w, ν̄_u their suprema
``recurrent_bound`` and ``input_bound``; F̃_t the target. A neuron that starts at (w₀, u₀) is moved
by ``c (v_w(w₀), v_u(u₀))/√m``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, flag, instance_of, real_in
from lwcore.elman.network import (
    Activation,
    ElmanNetwork,
    activation_named,
    checked_inputs,
    scan,
    shaped,
    stream_gradients,
    stream_tangents,
)

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
Summand = Callable[[Array, Array], Array]
Stream = Callable[[Array, Array, Activation], Iterator[Array]]

HIGHEST_RANK = 3  # dimensions of the span up to which the trapezoidal rule is affordable
_REACH = 8.6  # beyond it lies less than 1e-16 of a Gaussian's mass
_MOST_NODES = 1_500_000
_STARTS = 1 << 10  # values of u₀ at a time, to stay in the cache
_CHUNK = 1 << 16  # numbers held at a time by one array, likewise


class Estimate(NamedTuple):
    """An integral, and by how much it changed when the step was last halved."""

    value: Array
    error: Array


def finite_kernel(
    network: ElmanNetwork, inputs: ArrayLike, others: ArrayLike | None = None
) -> Array:
    """Return the kernel of one network, ``Σ_i ⟨∂F_t(X)/∂Θ_i, ∂F_t(X′)/∂Θ_i⟩``.

    The left side of C&E Proposition 2 before its limit, at any parameters. X′ are `others`, of the
    same length, or `inputs` again. Neurons are taken in chunks: memory does not grow with the
    width.
    """
    instance_of("network", network, ElmanNetwork)
    first, second = pair = checked_pair(inputs, others, network.dimension)
    size = max(2, _CHUNK // ((len(first) + len(second)) * (1 + network.dimension)) // 2 * 2)
    weights = np.square(network.readout) * (network.repeats / network.width)
    total = np.zeros((len(first), len(second), first.shape[1]))
    different = network.width // network.repeats
    for start in range(0, different, size):
        part = slice(start, min(start + size, different))
        chunk = network.parameters[part], weights[part], pair, network.activation
        total += _gram(*chunk, stream_gradients)
    return total


def limiting_kernel(
    inputs: ArrayLike,
    others: ArrayLike | None = None,
    *,
    alpha: float,
    activation: str | Activation = "tanh",
    as_printed: bool = False,
    tolerance: float = 1e-9,
) -> Estimate:
    """Return the kernel in the limit of infinite width. Implements C&E Proposition 2.

    ``as_printed=True`` sums over k, ℓ = 1 … t − 1 as printed, which loses the input of the last
    step (at t = 1 all of the kernel), in place of 0 … t − 1, which is what finite kernels tend to.
    The tolerance is that of `mean_over_start`.
    """
    stream = _older_gradients if flag("as_printed", as_printed) else stream_gradients
    pair, sigma = checked_pair(inputs, others), activation_named(activation)

    def summand(parameters: Array, weights: Array) -> Array:
        return _gram(parameters, weights, pair, sigma, stream)

    return mean_over_start(summand, span(np.concatenate(pair)), alpha, tolerance)


@dataclass(frozen=True, eq=False)
class TransportMaps:
    """A pair of transport maps with their suprema. Implements C&E Eq. (9), a member of its class.

    The directions, shape (r, d), span what v_u sees of u₀; few of them let a mean over u₀ be an
    integral where d is large. None stands for all of u₀.
    """

    recurrent: Callable[[Array], Array]  # v_w, takes w₀ of shape (k,), returns shape (k,)
    inputs: Callable[[Array], Array]  # v_u, takes u₀ of shape (k, d), returns shape (k, d)
    recurrent_bound: float  # ν̄_w ≥ sup |v_w|
    input_bound: float  # ν̄_u ≥ sup ‖v_u‖₂
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
        """Return ``[v_w(W_ii), v_u(U_i)]`` for rows ``[W_ii, U_i]``, both of shape (m, 1 + d)."""
        moves = []
        for name, given, bound in (
            ("recurrent", parameters[:, 0], self.recurrent_bound),
            ("inputs", parameters[:, 1:], self.input_bound),
        ):
            value = shaped(f"{name}(…)", getattr(self, name)(given), given.shape)
            moves.append(value.reshape(len(parameters), -1))
            largest = float(np.sqrt(np.square(moves[-1]).sum(axis=1).max()))
            if largest > bound * (1 + 1e-12):
                allowed = f"must stay within its bound, {bound:.6g}"
                raise ValueError(f"{name}(…) reaches a norm of {largest:.6g}: it {allowed}.")
        return np.concatenate(moves, axis=1)

    def subspace(self, inputs: Array) -> Array:
        """Return an orthonormal basis, shape (d, r), of what inputs and v_u together see of u₀."""
        d = inputs.shape[-1]
        seen = np.eye(d) if self.directions is None else np.asarray(self.directions, np.float64)
        return span(np.concatenate([inputs.reshape(-1, d), seen]))


def transported(initial: ElmanNetwork, maps: TransportMaps) -> ElmanNetwork:
    """Return the network moved along the maps, ``Θ_i(0) + c_i (v_w, v_u)(Θ_i(0))/√m``.

    Implements C&E Eq. (20), C&E Remark 4. Every neuron stays within ν̄_w/√m and ν̄_u/√m of its start.
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
) -> Estimate:
    """Return F̃_1 … F̃_T, shape (n, T). Implements C&E Eq. (8).

    The inputs and the directions of v_u together span at most three dimensions; the tolerance is
    that of `mean_over_start`.
    """
    instance_of("maps", maps, TransportMaps)
    sequences, sigma = checked_inputs(inputs), activation_named(activation)

    def summand(parameters: Array, weights: Array) -> Array:
        tangents = stream_tangents(parameters, maps.at(parameters), sequences, sigma)
        return np.stack([tangent @ weights for tangent in tangents], axis=1)

    return mean_over_start(summand, maps.subspace(sequences), alpha, tolerance)


def mean_over_start(
    summand: Summand, basis: Array, alpha: float, tolerance: float = 1e-9
) -> Estimate:
    """Average over w₀ = ±α and u₀ a function that sees u₀ on a subspace of r ≤ 3 dimensions.

    The summand takes parameters ``[w₀, u₀]``, shape (2k, 1 + d), k values of u₀ with w₀ = α and
    again with −α, and weights, shape (2k,), and returns the weighted sum, of any shape. The basis
    of the subspace, shape (d, r), is orthonormal. The step is halved until the error is within the
    tolerance; a function with jumps may not reach it, which the error then shows.
    """
    alpha = real_in("alpha", alpha, "(0, inf)")
    tolerance = real_in("tolerance", tolerance, "(0, inf)")
    if (rank := basis.shape[1]) > HIGHEST_RANK:
        raise ValueError(f"inputs span {rank} dimensions: must be {HIGHEST_RANK} at most.")

    def total(nodes: Array, weights: Array) -> Array:
        chunks = _starts(basis, alpha, nodes, weights)
        return functools.reduce(np.add, (summand(*chunk) for chunk in chunks))

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
    """Return nodes, (k, r), and weights, (k,), of the trapezoidal rule under the law N(0, I_r).

    The weights sum to 1. With ``between`` only the nodes that lie between those of twice the step;
    with the sum over the rest halved in every dimension, they make the whole.
    """
    reach = int(_REACH / step)
    count = 2 * reach + 1
    places = np.indices((count,) * rank).reshape(rank, count**rank).T - reach
    if between:
        places = places[(places % 2 == 1).any(axis=1)]
    nodes = step * places
    square = np.square(nodes).sum(axis=1)
    within = square <= _REACH**2
    weights = (step / np.sqrt(2 * np.pi)) ** rank * np.exp(-0.5 * square[within])
    return nodes[within], weights


def span(vectors: Array) -> Array:
    """Return an orthonormal basis, shape (d, r), of what vectors, shape (..., d), span."""
    _, sizes, rows = np.linalg.svd(vectors.reshape(-1, vectors.shape[-1]), full_matrices=False)
    return rows[sizes > 1e-12 * max(sizes.max(initial=0.0), 1e-300)].T


def checked_pair(inputs: ArrayLike, others: ArrayLike | None, dimension: int | None = None) -> Pair:
    """Return both sets of sequences, checked and of one length; the first twice without others."""
    first = checked_inputs(inputs, dimension)
    if others is None:
        return first, first
    second = checked_inputs(others, first.shape[2], "others")
    if first.shape[1] != second.shape[1]:
        allowed = f"must be as long as those of inputs, {first.shape[1]} steps"
        raise ValueError(f"others has shape {second.shape}: its sequences {allowed}.")
    return first, second


def _starts(basis: Array, alpha: float, nodes: Array, weights: Array) -> Iterator[Pair]:
    """Yield parameters ``[w₀, u₀]`` and weights: values of u₀ with w₀ = α, the same with −α."""
    for first in range(0, len(nodes), _STARTS):
        u = nodes[first : first + _STARTS] @ basis.T
        w = np.full((len(u), 1), alpha)
        half = weights[first : first + _STARTS] / 2
        yield np.block([[w, u], [-w, u]]), np.concatenate([half, half])


def _gram(
    parameters: Array, weights: Array, pair: Pair, sigma: Activation, stream: Stream
) -> Array:
    """Return ``Σ_i weights_i ⟨∂H_t^{(i)}(X), ∂H_t^{(i)}(X′)⟩``, shape (n, n′, T)."""
    first, second = pair
    together = first if second is first else np.concatenate(pair)
    n, steps = len(first), []
    for gradient in stream(parameters, together, sigma):
        left = (gradient[:n] * weights).reshape(n, -1)
        steps.append(left @ gradient[-len(second) :].reshape(len(second), -1).T)
    return np.stack(steps, axis=-1)


def _older_gradients(parameters: Array, inputs: Array, activation: Activation) -> Iterator[Array]:
    """Yield the gradients of C&E Proposition 1 without the summand k = 0, shape (n, 1 + d, m)."""
    before = np.zeros((len(inputs), 1 + inputs.shape[2], len(parameters)))
    states = scan(parameters, inputs, activation)
    gradients = stream_gradients(parameters, inputs, activation)
    for (_, pre, state), gradient in zip(states, gradients, strict=True):
        yield parameters[:, 0] * before * activation.slope_from(pre, state)[:, None]
        before[:] = gradient
