"""Derivatives of the network in closed form: of every output in every parameter, along one direction, and of the risk.

C&E Proposition 1 is a sum over the past. Its recursion, ``G_t = σ′(z_t) (W_ii G_{t−1} + [H_{t−1}, X_{t−1}])`` with ``G_t = ∂H_t/∂Θ_i``,
gives the same in one multiplication a step, for all neurons and sequences at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import instance_of
from lwcore.elman.activations import Activation
from lwcore.elman.network import ElmanNetwork, checked_inputs, checked_targets, parameters_like, scan

Array = NDArray[np.float64]


def hidden_gradients(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Return ``∂H_t^{(i)}/∂Θ_i`` for every sequence, step and neuron. Implements C&E Proposition 1 (and C&E Remark 2 for the ReLU).

    Implements C&E Eq. (7), the recursion of its proof, for the recurrent weight, too. A neuron's state does not depend on the parameters of
    another, so these are all derivatives there are.

    Args:
        network: The network.
        inputs: Sequences, shape (n, T, d), of norms up to 1.

    Returns:
        Derivatives, shape (n, T, m, 1 + d), the recurrent weight's first; a view of an array in which neurons come last.
    """
    instance_of("network", network, ElmanNetwork)
    return _collected(network, inputs, np.ones(network.width))


def output_gradients(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Return ``∂F_t/∂Θ_i = c_i/√m ∂H_t^{(i)}/∂Θ_i``, the random features of the kernel. Implements C&E Proposition 1 with C&E Eq. (3).

    Args:
        network: The network.
        inputs: Sequences, shape (n, T, d), of norms up to 1.

    Returns:
        Derivatives, shape (n, T, m, 1 + d), the recurrent weight's first; a view of an array in which neurons come last.
    """
    instance_of("network", network, ElmanNetwork)
    return _collected(network, inputs, network.readout / network.width**0.5)


def risk_gradient(network: ElmanNetwork, inputs: ArrayLike, targets: ArrayLike) -> tuple[float, Array]:
    """Return the empirical risk and its gradient.

    The gradient of C&E Eq. (1), with the factor 2 of the square, which the companion's proofs leave out (they descend on half the risk).
    The errors are carried back through time, so that nothing of the size of C&E Proposition 1 is stored.

    Args:
        network: The network.
        inputs: Sequences, shape (n, T, d), of norms up to 1.
        targets: Y_1 … Y_T, shape (n, T).

    Returns:
        The risk, and its gradient of shape (m, 1 + d).
    """
    instance_of("network", network, ElmanNetwork)
    sequences = checked_inputs(inputs, network.dimension)
    wanted = checked_targets(targets, sequences)
    risks, gradients = risk_gradients(network.parameters[None], network.readout[None], network.activation, sequences, wanted)
    return float(risks[0]), gradients[0]


def risk_gradients(parameters: Array, readouts: Array, activation: Activation, inputs: Array, targets: Array) -> tuple[Array, Array]:
    """Return the empirical risks of several networks of one width, and their gradients, as `risk_gradient` does for one.

    Args:
        parameters: Rows of each network, shape (s, m, 1 + d).
        readouts: Their readout weights, shape (s, m).
        activation: The activation σ.
        inputs: Sequences, shape (n, T, d).
        targets: Y_1 … Y_T, shape (n, T).

    Returns:
        Risks, shape (s,), and gradients, shape (s, m, 1 + d).
    """
    (count, width), (n, length, d) = readouts.shape, inputs.shape
    recurrent, by_step = parameters[..., 0], inputs.swapaxes(0, 1)
    pre = (by_step @ parameters[..., 1:].reshape(-1, d).T).reshape(length, n, count, width)
    states = np.zeros((1 + length, n, count, width))
    for step, z in enumerate(pre):
        z += recurrent * states[step]
        states[step + 1] = activation.value(z)
    slopes, signed = activation.slope_from(pre, states[1:]), states[1:] * readouts
    outputs = (signed[..., : width // 2] + signed[..., width // 2 :]).sum(axis=-1) / width**0.5  # partners first, as in `read`
    residuals = outputs - targets.T[..., None]  # (T, n, s)
    adjoints = residuals[..., None] * (2 / (n * width**0.5) * readouts)
    for step in reversed(range(length)):  # ∂R/∂z_t, with what arrives from the step behind
        if step + 1 < length:
            adjoints[step] += adjoints[step + 1] * recurrent
        adjoints[step] *= slopes[step]
    gradients = np.empty_like(parameters)
    gradients[..., 0] = np.einsum("tnsm,tnsm->sm", adjoints, states[:-1])
    gradients[..., 1:] = np.tensordot(adjoints, by_step, ((0, 1), (0, 1)))
    return np.square(residuals).sum(axis=0).mean(axis=0), gradients


def linear_model(initial: ElmanNetwork, parameters: ArrayLike, inputs: ArrayLike) -> Array:
    """Return the first-order model ``F^Lin_t = Σ_i ⟨∂F_t/∂Θ_i(0), Θ_i − Θ_i(0)⟩`` around an initialisation (C&E Section 3.1).

    It leaves out F_t(Θ(0)), which is 0 after a symmetric initialisation.

    Args:
        initial: The network at Θ(0).
        parameters: Θ, shape (m, 1 + d).
        inputs: Sequences, shape (n, T, d), of norms up to 1.

    Returns:
        F^Lin, shape (n, T).
    """
    instance_of("initial", initial, ElmanNetwork)
    sequences = checked_inputs(inputs, initial.dimension)
    direction = parameters_like(initial, parameters) - initial.parameters
    moved = stream_tangents(initial.parameters, direction, sequences, initial.activation)
    return np.stack([initial.read(tangent) for tangent in moved], axis=1)


def _collected(network: ElmanNetwork, inputs: ArrayLike, scale: Array) -> Array:
    """Return the gradients of all steps, each neuron's times its entry of the scale, shape (m,)."""
    sequences = checked_inputs(inputs, network.dimension)
    n, steps, dimension = sequences.shape
    gradients = np.empty((n, steps, 1 + dimension, network.width))
    for step, gradient in enumerate(stream_gradients(network.parameters, sequences, network.activation)):
        np.multiply(gradient, scale, out=gradients[:, step])
    return gradients.swapaxes(2, 3)


def stream_gradients(parameters: Array, inputs: Array, activation: Activation) -> Iterator[Array]:
    """Yield ``∂H_t/∂Θ`` for t = 1 … T, shape (n, 1 + d, m), in one array that the next step overwrites."""
    gradient = np.zeros((len(inputs), 1 + inputs.shape[2], len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        gradient *= parameters[:, 0]
        gradient[:, 0] += previous
        gradient[:, 1:] += inputs[:, step, :, None]
        gradient *= activation.slope_from(pre, state)[:, None]
        yield gradient


def stream_tangents(parameters: Array, direction: Array, inputs: Array, activation: Activation) -> Iterator[Array]:
    """Yield ``⟨∂H_t^{(i)}/∂Θ_i, V_i⟩`` for t = 1 … T, shape (n, m), where row i of the direction, shape (m, 1 + d), is V_i."""
    tangent = np.zeros((len(inputs), len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        tangent = parameters[:, 0] * tangent + direction[:, 0] * previous + inputs[:, step] @ direction[:, 1:].T
        tangent *= activation.slope_from(pre, state)
        yield tangent
