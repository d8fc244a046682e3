"""The tangent kernel of the network: at a finite width, and in the limit of many neurons.

``κ_t(X, X′)`` is the inner product of the gradients of F_t at two inputs. After a symmetric initialisation it tends to a mean over one
neuron's random start; C&E Proposition 2 prints that mean with sums from 1 where its own C&E Proposition 1 has them from 0.

Arrays of kernels have shape (n, n′, T): first input, second input, step t = 1 … T.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, flag, generator, instance_of, integer_in, real_in
from lwcore.elman.activations import Activation, activation_named
from lwcore.elman.expectation import HIGHEST_RANK, Estimate, mean_over_start, span
from lwcore.elman.gradients import stream_gradients
from lwcore.elman.network import ElmanNetwork, checked_inputs, scan

Array = NDArray[np.float64]

_CHUNK = 1 << 16  # numbers held at a time by one array: half a megabyte stays in the cache


def finite_kernel(network: ElmanNetwork, inputs: ArrayLike, others: ArrayLike | None = None) -> Array:
    """Return the kernel of one network, ``Σ_i ⟨∂F_t(X)/∂Θ_i, ∂F_t(X′)/∂Θ_i⟩``.

    The left side of C&E Proposition 2 before its limit, at any parameters. Neurons are taken in chunks: memory does not grow with the
    width.

    Args:
        network: The network.
        inputs: Sequences X, shape (n, T, d), of norms up to 1.
        others: Sequences X′ of the same length, shape (n′, T, d); None for the same as `inputs`.

    Returns:
        Kernel, shape (n, n′, T).
    """
    instance_of("network", network, ElmanNetwork)
    first, second = _pair(inputs, others, network.dimension)
    size = max(2, _CHUNK // ((len(first) + len(second)) * (1 + network.dimension)) // 2 * 2)
    weights = np.square(network.readout) * (network.repeats / network.width)
    total, different = np.zeros((len(first), len(second), first.shape[1])), network.width // network.repeats
    for start in range(0, different, size):
        part = slice(start, min(start + size, different))
        total += _weighted(network.parameters[part], weights[part], first, second, network.activation)
    return total


def limiting_kernel(
    inputs: ArrayLike,
    others: ArrayLike | None = None,
    *,
    alpha: float,
    activation: str | Activation = "tanh",
    as_printed: bool = False,
    tolerance: float = 1e-9,
    samples: int = 1 << 16,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Return the kernel in the limit of infinite width. Implements C&E Proposition 2.

    By quadrature where all inputs together span at most three dimensions, else by sampling; see `lwcore.elman.expectation`.

    Args:
        inputs: Sequences X, shape (n, T, d), of norms up to 1.
        others: Sequences X′ of the same length, shape (n′, T, d); None for the same as `inputs`.
        alpha: Size α > 0 of the recurrent weights.
        activation: The activation σ, or its name.
        as_printed: Whether to sum over k, ℓ = 1 … t − 1 as printed, which loses the input of the last step (at t = 1 all of the kernel),
            in place of 0 … t − 1, which is what the finite kernels tend to.
        tolerance: Largest error at which the quadrature stops refining.
        samples: Number of draws of u₀ where quadrature is not possible.
        rng: Source of randomness for them.

    Returns:
        Kernel of shape (n, n′, T), with its error.
    """
    if rng is not None:
        generator("rng", rng)
    flag("as_printed", as_printed)
    real_in("tolerance", tolerance, "(0, inf)")
    first, second = _pair(inputs, others, None)
    sigma, alpha = activation_named(activation), real_in("alpha", alpha, "(0, inf)")
    integer_in("samples", samples, 64)

    def summand(parameters: Array, weights: Array) -> Array:
        return _weighted(parameters, weights, first, second, sigma, skip_last=as_printed)

    basis = span(np.concatenate([first, second]))
    return mean_over_start(summand, basis, alpha, tolerance=tolerance, samples=samples, rng=rng)


def class_kernel(
    inputs: ArrayLike, others: ArrayLike | None = None, *, alpha: float, activation: str | Activation = "tanh", tolerance: float = 1e-9
) -> Estimate:
    """Return the reproducing kernel of the functions C&E Eq. (8), under the norm that the companion gives them.

    C&E Eq. (8) lets v_w depend on w₀ alone and v_u on u₀ alone, while the features of κ_t depend on both. Its functions, with the least
    ``√(E|v_w|² + E‖v_u‖²)`` as their norm, therefore have the kernel ``E_u⟨E_w φ_u, E_w φ′_u⟩ + E_w[E_u φ_w E_u φ′_w]`` of the features'
    partial means; it is κ_t only where those are the features themselves, as at t = 1.

    Args:
        inputs: Sequences X, shape (n, T, d), of norms up to 1, spanning at most three dimensions together with `others`.
        others: Sequences X′ of the same length, shape (n′, T, d); None for the same as `inputs`.
        alpha: Size α > 0 of the recurrent weights.
        activation: The activation σ, or its name.
        tolerance: Largest error at which the quadrature stops refining.

    Returns:
        Kernel of shape (n, n′, T), with the error of its first part and, for the second, that of the means it is made of.

    Raises:
        ValueError: If the inputs span more dimensions, or another argument is not allowed.
    """
    real_in("tolerance", tolerance, "(0, inf)")
    first, second = _pair(inputs, others, None)
    sigma, alpha = activation_named(activation), real_in("alpha", alpha, "(0, inf)")
    together = np.concatenate([first, second])
    basis, n = span(together), len(first)
    if basis.shape[1] > HIGHEST_RANK:
        raise ValueError(f"inputs span {basis.shape[1]} dimensions: at most {HIGHEST_RANK} are possible here.")

    def summand(parameters: Array, weights: Array) -> Array:
        """Return E_u⟨E_w φ_u, E_w φ′_u⟩, shape (n + n′, n + n′, T), and beside it E_u φ_w for both w₀, shape (n + n′, 2, T)."""
        half = weights[: len(weights) // 2] * 2  # of u₀
        steps = []
        for gradient in stream_gradients(parameters, together, sigma):
            signs = gradient.reshape(*gradient.shape[:2], 2, -1)
            mean = signs[:, 1:].mean(axis=2)
            inner = (mean * half).reshape(len(together), -1) @ mean.reshape(len(together), -1).T
            steps.append(np.concatenate([inner, signs[:, 0] @ half], axis=1))
        return np.stack(steps, axis=-1)

    both = mean_over_start(summand, basis, alpha, tolerance=real_in("tolerance", tolerance, "(0, inf)"), samples=0, rng=None)
    (inner, means), (inner_error, mean_error) = (np.split(part, [len(together)], axis=1) for part in both[:2])
    rows, columns = slice(0, n), slice(n, None)
    value = inner[rows, columns] + 0.5 * np.einsum("iwt,jwt->ijt", means[rows], means[columns])
    error = inner_error[rows, columns] + 0.5 * (
        np.einsum("iwt,jwt->ijt", np.abs(means[rows]), mean_error[columns])
        + np.einsum("iwt,jwt->ijt", mean_error[rows], np.abs(means[columns]))
    )
    return Estimate(value, error, both.method)


def least_norm(kernel: ArrayLike, values: ArrayLike) -> float:
    """Return the least norm that a function of a kernel's space can have if it takes given values at given inputs.

    ``√(fᵀ K⁻¹ f)``: a lower bound on the norm of any one such function, to hold against the ``√(E|v_w|² + E‖v_u‖²)`` of C&E Section 3.2.

    Args:
        kernel: Kernel at the inputs, shape (n, n), positive definite.
        values: Values there, shape (n,).

    Returns:
        The norm; infinite where the kernel is singular and no function of its space takes these values.

    Raises:
        ValueError: If the kernel's shape does not fit the values.
    """
    matrix, f = finite_array("kernel", kernel, ndim=2), finite_array("values", values, ndim=1)
    if matrix.shape != (f.size, f.size):
        raise ValueError(f"kernel has shape {matrix.shape}: must be {(f.size, f.size)}, for the {f.size} values.")
    eigenvalues, vectors = np.linalg.eigh(matrix)
    parts = vectors.T @ f
    seen = eigenvalues > 1e-12 * max(eigenvalues.max(), 0.0)
    if np.linalg.norm(parts[~seen]) > 1e-6 * np.linalg.norm(f):
        return float("inf")
    return float(np.sqrt(np.square(parts[seen]) @ (1 / eigenvalues[seen])))


def _weighted(parameters: Array, weights: Array, first: Array, second: Array, activation: Activation, skip_last: bool = False) -> Array:
    """Return ``Σ_i weights_i ⟨∂H_t^{(i)}(X), ∂H_t^{(i)}(X′)⟩``, shape (n, n′, T); without each gradient's newest summand if asked."""
    together = first if second is first else np.concatenate([first, second])
    stream = _older_gradients(parameters, together, activation) if skip_last else stream_gradients(parameters, together, activation)
    n, steps = len(first), []
    for gradient in stream:
        left = (gradient[:n] * weights).reshape(n, -1)
        steps.append(left @ gradient[-len(second) :].reshape(len(second), -1).T)
    return np.stack(steps, axis=-1)


def _older_gradients(parameters: Array, inputs: Array, activation: Activation) -> Iterator[Array]:
    """Yield the gradients of C&E Proposition 1 without the summand k = 0, shape (n, 1 + d, m)."""
    before = np.zeros((len(inputs), 1 + inputs.shape[2], len(parameters)))
    for (_, pre, state), gradient in zip(
        scan(parameters, inputs, activation), stream_gradients(parameters, inputs, activation), strict=True
    ):
        yield parameters[:, 0] * before * activation.slope_from(pre, state)[:, None]
        before[:] = gradient


def _pair(inputs: ArrayLike, others: ArrayLike | None, dimension: int | None) -> tuple[Array, Array]:
    """Return both sets of sequences, checked and of one length."""
    first = checked_inputs(inputs, dimension)
    second = first if others is None else checked_inputs(others, first.shape[2], name="others")
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"others has shape {second.shape}: its sequences must be as long as those of inputs, {first.shape[1]} steps.")
    return first, second
