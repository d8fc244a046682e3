"""Means over a neuron's random start: w₀ = ±α with equal chances and u₀ ~ N(0, I_d).

What is averaged meets u₀ only in the products ``u₀ᵀ X_t``, so u₀ matters on the span of the inputs alone. Where that has few dimensions
the mean is an integral, taken by the trapezoidal rule: for analytic integrands under a Gaussian weight its error falls exponentially in
the number of nodes. Elsewhere u₀ is drawn within the span and the error is estimated from the spread of batches. The two values of w₀ are
always summed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HIGHEST_RANK = 3  # dimensions of the span up to which the trapezoidal rule is affordable
_REACH = 8.6  # beyond it lies less than 1e-16 of a Gaussian's mass
_MOST_NODES = 1_500_000
_BATCHES = 32
_CHUNK = 1 << 10  # values of u₀ at a time, to stay in the cache


class Estimate(NamedTuple):
    """A mean with its error.

    Attributes:
        value: The mean.
        error: Its error, of the same shape: for quadrature the change when the step was last halved (the value is that of the finer rule),
            for sampling the standard error.
        method: ``"quadrature"`` or ``"sampling"``.
    """

    value: Array
    error: Array
    method: str


Summand = Callable[[Array, Array], Array]


def span(vectors: Array) -> Array:
    """Return an orthonormal basis, shape (d, r), of the space that some vectors, shape (..., d), span."""
    flat = vectors.reshape(-1, vectors.shape[-1])
    _, sizes, rows = np.linalg.svd(flat, full_matrices=False)
    return rows[sizes > 1e-12 * max(sizes.max(initial=0.0), 1e-300)].T


def mean_over_start(
    summand: Summand, basis: Array, alpha: float, *, tolerance: float, samples: int, rng: np.random.Generator | None
) -> Estimate:
    """Average over w₀ and u₀ a function that sees u₀ on a subspace only.

    Args:
        summand: Takes parameters ``[w₀, u₀]``, shape (2k, 1 + d), the k values of u₀ with w₀ = α and again with −α, and weights, shape
            (2k,); returns the weighted sum over them, any shape.
        basis: Orthonormal basis of the subspace, shape (d, r).
        alpha: Size α of w₀.
        tolerance: Largest error of the quadrature at which the step is no longer halved.
        samples: Number of values of u₀ where r > 3.
        rng: Source of randomness where r > 3.

    Returns:
        The mean.

    Raises:
        ValueError: If r > 3 and there is no source of randomness.
    """
    rank = basis.shape[1]
    if rank > HIGHEST_RANK:
        if rng is None:
            raise ValueError(
                f"rng = None: the inputs span {rank} dimensions, more than {HIGHEST_RANK}, so u₀ is drawn: must be a NumPy generator."
            )
        size = -(-samples // _BATCHES)
        draws = (rng.standard_normal((size, rank)) for _ in range(_BATCHES))
        batches = np.stack([_sum(summand, basis, alpha, nodes, np.full(size, 1 / size)) for nodes in draws])
        return Estimate(batches.mean(axis=0), batches.std(axis=0, ddof=1) / _BATCHES**0.5, "sampling")
    step = 0.5
    fine = _sum(summand, basis, alpha, *trapezoid(rank, step))
    error = np.zeros_like(fine)
    while rank:
        coarse, step = fine, step / 2
        nodes, weights = trapezoid(rank, step, between=True)
        fine = coarse / 2**rank + _sum(summand, basis, alpha, nodes, weights)
        error = np.abs(fine - coarse)
        if error.max() <= tolerance or len(nodes) * 4**rank / (2**rank - 1) > _MOST_NODES:  # more than that at the next step
            break
    return Estimate(fine, error, "quadrature")


def trapezoid(rank: int, step: float, *, between: bool = False) -> tuple[Array, Array]:
    """Return nodes, shape (k, r), and weights, shape (k,), of the trapezoidal rule under the law N(0, I_r); the weights sum to 1.

    Those that lie between the nodes of twice the step, if asked, and no others; with the sum over the rest halved in every dimension, they
    make the whole.
    """
    axis = np.arange(-int(_REACH / step), int(_REACH / step) + 1)
    places = np.stack(np.meshgrid(*[axis] * rank, indexing="ij"), axis=-1).reshape(-1, rank) if rank else np.zeros((1, 0), dtype=int)
    if between:
        places = places[(places % 2 == 1).any(axis=1)]
    nodes = step * places
    square = np.square(nodes).sum(axis=1)
    within = square <= _REACH**2
    return nodes[within], (step / np.sqrt(2 * np.pi)) ** rank * np.exp(-0.5 * square[within])


def _sum(summand: Summand, basis: Array, alpha: float, nodes: Array, weights: Array) -> Array:
    """Return the weighted sum over all nodes and both signs of w₀, in chunks."""
    return functools.reduce(np.add, (summand(*chunk) for chunk in starts(basis, alpha, nodes, weights)))


def starts(basis: Array, alpha: float, nodes: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield parameters ``[w₀, u₀]`` and weights, chunk by chunk: some values of u₀ with w₀ = α, then the same with −α."""
    for first in range(0, len(nodes), _CHUNK):
        u = nodes[first : first + _CHUNK] @ basis.T
        w = np.full((len(u), 1), alpha)
        half = weights[first : first + _CHUNK] / 2
        yield np.block([[w, u], [-w, u]]), np.concatenate([half, half])
