"""The Elman network whose recurrent matrix is diagonal, its symmetric random initialisation, and the empirical risk.

Each neuron has one recurrent weight, d input weights and one hidden number; neurons meet only in the readout. The companion's letters and
the names here: m ``width`` (neurons), d ``dimension`` (of an input), T ``length`` (in steps), n sequences, X ``inputs`` of shape (n, T, d),
Y ``targets`` of shape (n, T), c ``readout``. Row i of ``parameters``, shape (m, 1 + d), is the companion's ``Θ_i = [W_ii, U_i]``.

Inputs have norm 1 at the most, as everywhere in the companion (its Section 2.1). Step t reads ``X_{t−1}``: entry t − 1 of the outputs is
F_t.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import finite_array, generator, instance_of, integer_in, real_array, real_in, sequence_of
from lwcore.elman.activations import Activation, activation_named

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ElmanNetwork:
    """A diagonal Elman network, C&E Eqs. (2) and (3).

    Attributes:
        parameters: One row ``[W_ii, U_i]`` for each neuron, shape (m, 1 + d); m is even, as C&E Definition 1 pairs neurons.
        readout: Readout weights c, shape (m,). They are not trained.
        activation: The activation σ, or its name.
    """

    parameters: Array
    readout: Array
    activation: Activation

    def __init__(self, parameters: ArrayLike, readout: ArrayLike, activation: str | Activation = "tanh") -> None:
        """Check and keep the arrays."""
        rows, weights = finite_array("parameters", parameters, ndim=2), finite_array("readout", readout, ndim=1)
        even_width("parameters.shape[0]", len(rows))
        if rows.shape[1] < 2:
            raise ValueError(f"parameters has shape {rows.shape}: must hold the recurrent weight and an input weight or more in each row.")
        if weights.shape != rows.shape[:1]:
            raise ValueError(f"readout has shape {weights.shape}: must hold one weight for each of the {len(rows)} neurons.")
        for name, value in (("parameters", rows), ("readout", weights), ("activation", activation_named(activation))):
            object.__setattr__(self, name, value)

    @property
    def width(self) -> int:
        """Number m of neurons."""
        return len(self.parameters)

    @property
    def dimension(self) -> int:
        """Dimension d of an input."""
        return self.parameters.shape[1] - 1

    @property
    def recurrent_weights(self) -> Array:
        """The diagonal W_ii, shape (m,)."""
        return self.parameters[:, 0]

    @property
    def input_weights(self) -> Array:
        """The matrix U, shape (m, d)."""
        return self.parameters[:, 1:]

    @property
    def repeats(self) -> int:
        """How many copies of its first neurons the network is: 2 at a symmetric start, if half of the width is even, else 1."""
        (first, second), (signs, opposite) = np.split(self.parameters, 2), np.split(self.readout, 2)
        return 1 + (len(first) % 2 == 0 and np.array_equal(first, second) and np.array_equal(signs, -opposite))

    def at(self, parameters: ArrayLike) -> ElmanNetwork:
        """Return the network with other parameters, shape (m, 1 + d), and the same readout."""
        return dataclasses.replace(self, parameters=parameters_like(self, parameters))

    def hidden(self, inputs: ArrayLike) -> Array:
        """Return the hidden states. Implements C&E Eq. (2).

        Args:
            inputs: Sequences, shape (n, T, d), of norms up to 1.

        Returns:
            H_1 … H_T, shape (n, T, m).
        """
        sequences = checked_inputs(inputs, self.dimension)
        return np.stack([state for _, _, state in scan(self.parameters, sequences, self.activation)], axis=1)

    def outputs(self, inputs: ArrayLike) -> Array:
        """Return the outputs. Implements C&E Eq. (3).

        Two neurons with the same state and opposite readout cancel exactly, so a symmetric initialisation gives 0, not almost 0.

        Args:
            inputs: Sequences, shape (n, T, d), of norms up to 1.

        Returns:
            F_1 … F_T, shape (n, T).
        """
        sequences = checked_inputs(inputs, self.dimension)
        return np.stack([self.read(state) for _, _, state in scan(self.parameters, sequences, self.activation)], axis=1)

    def read(self, states: Array) -> Array:
        """Return ``Σ_i c_i H^{(i)} / √m`` of states, shape (..., m) -> (...), adding partners i and i + m/2 first.

        Args:
            states: Shape (..., m).

        Returns:
            Shape (...).

        Raises:
            ValueError: If the last dimension is not the network's width.
        """
        if real_array("states", states).shape[-1:] != self.readout.shape:
            raise ValueError(f"states has shape {np.shape(states)}: must end with the {self.width} neurons.")
        halves = (states * self.readout).reshape(*states.shape[:-1], 2, -1)
        return (halves[..., 0, :] + halves[..., 1, :]).sum(axis=-1) / self.width**0.5


def symmetric_initialisation(
    width: int, dimension: int, alpha: float, rng: np.random.Generator, activation: str | Activation = "tanh"
) -> ElmanNetwork:
    """Draw a network whose second half repeats the first with the opposite readout. Implements C&E Definition 1.

    In the first half ``c_i = ±1`` and ``W_ii = ±α`` with equal chances and ``U_i ~ N(0, I_d)``, all independent. The output is 0 for
    every input.

    Args:
        width: Number m ≥ 2 of neurons, even.
        dimension: Dimension d ≥ 1 of an input.
        alpha: Size α > 0 of the recurrent weights; the companion's theorems take it from (0, 1).
        rng: Source of randomness.
        activation: The activation σ, or its name.

    Returns:
        The network.

    Raises:
        ValueError: If the width is odd or another argument out of range.
    """
    generator("rng", rng)
    half = even_width("width", width) // 2
    dimension, alpha = integer_in("dimension", dimension, 1), real_in("alpha", alpha, "(0, inf)")
    readout, recurrent = rng.choice([-1.0, 1.0], half), rng.choice([-alpha, alpha], half)
    rows = np.column_stack([recurrent, rng.standard_normal((half, dimension))])
    return ElmanNetwork(np.concatenate([rows, rows]), np.concatenate([readout, -readout]), activation)


def empirical_risk(network: ElmanNetwork, inputs: ArrayLike, targets: ArrayLike) -> float:
    """Return the mean over sequences of the squared errors summed over time. Implements C&E Eq. (1).

    Args:
        network: The network.
        inputs: Sequences, shape (n, T, d), of norms up to 1.
        targets: Y_1 … Y_T, shape (n, T).

    Returns:
        The risk, 0 or more.
    """
    instance_of("network", network, ElmanNetwork)
    sequences = checked_inputs(inputs, network.dimension)
    return float(np.square(network.outputs(sequences) - checked_targets(targets, sequences)).sum(axis=1).mean())


def scan(parameters: Array, inputs: Array, activation: Activation) -> Iterator[tuple[Array, Array, Array]]:
    """Run the recurrence C&E Eq. (2) step by step, in memory that does not grow with the length.

    The two halves of the neurons are multiplied apart: products of one shape round alike, so equal neurons keep equal bits.

    Args:
        parameters: Rows ``[W_ii, U_i]``, shape (m, 1 + d), m even.
        inputs: Sequences, shape (n, T, d).
        activation: The activation σ.

    Yields:
        ``H_{t−1}``, the pre-activation and ``H_t`` for t = 1 … T, each of shape (n, m).
    """
    recurrent, (first, second) = parameters[:, 0], np.split(parameters[:, 1:], 2)
    state = np.zeros((len(inputs), len(parameters)))
    for step in range(inputs.shape[1]):
        now = inputs[:, step]
        pre = np.concatenate([now @ first.T, now @ second.T], axis=1)
        pre += recurrent * state
        previous, state = state, activation.value(pre)
        yield previous, pre, state


def even_width(name: str, value: int) -> int:
    """Return a width after checking that it is even and positive."""
    width = integer_in(name, value, 2)
    if width % 2:
        raise ValueError(f"{name} = {width}: must be even, as the symmetric initialisation pairs neurons (C&E Definition 1).")
    return width


def checked_radii(radii: Sequence[float], interval: str) -> tuple[float, float]:
    """Return two radii, ρ_w and ρ_u, as a pair after checking that each lies in an interval."""
    pair = sequence_of("radii", radii)
    if len(pair) != 2:
        raise ValueError(f"radii = {radii!r}: must be two, for the recurrent and for the input weights.")
    return real_in("radii[0]", pair[0], interval), real_in("radii[1]", pair[1], interval)


def checked_inputs(inputs: ArrayLike, dimension: int | None = None, *, name: str = "inputs") -> Array:
    """Return input sequences as an array, shape (n, T, d), after checking their dimension and that no norm exceeds 1."""
    array = finite_array(name, inputs, ndim=3)
    if dimension is not None and array.shape[2] != dimension:
        raise ValueError(f"{name} has shape {array.shape}: must be (n, T, {dimension}), the last that of what the network reads.")
    largest = float(np.sqrt(np.square(array).sum(axis=2).max()))
    if largest > 1 + 1e-12:  # rounding
        raise ValueError(
            f"{name} has a vector of norm {largest:.6g}: must be of norms up to 1, as in the companion; divide by the largest."
        )
    return array


def checked_targets(targets: ArrayLike, inputs: Array) -> Array:
    """Return targets as an array after checking that there is one for each sequence and step."""
    array = finite_array("targets", targets, ndim=2)
    if array.shape != inputs.shape[:2]:
        raise ValueError(f"targets has shape {array.shape}: must be {inputs.shape[:2]}, one for each sequence and step.")
    return array


def parameters_like(network: ElmanNetwork, parameters: ArrayLike) -> Array:
    """Return an array of the shape of a network's parameters after checking that it is one."""
    array = finite_array("parameters", parameters, ndim=2)
    if array.shape != network.parameters.shape:
        raise ValueError(f"parameters has shape {array.shape}: must be {network.parameters.shape}, as the network's parameters.")
    return array
