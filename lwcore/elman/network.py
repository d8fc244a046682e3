"""The Elman network with a diagonal recurrent matrix: start, outputs, risk, derivatives.

Each neuron has one recurrent weight, d input weights and one hidden number; neurons meet only in
the readout. The companion's letters and the names here: m ``width``, d ``dimension`` of an input,
T ``length`` in steps, n sequences, X ``inputs`` of shape (n, T, d), Y ``targets`` of shape (n, T),
c ``readout``. Row i of ``parameters``, shape (m, 1 + d), is the companion's ``Θ_i = [W_ii, U_i]``.

Inputs have norm 1 at the most, as everywhere in the companion (its Section 2.1). Step t reads
``X_{t−1}``: entry t − 1 of the outputs is F_t.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import (
    finite_array,
    generator,
    instance_of,
    integer_in,
    one_of,
    real_array,
    real_in,
    sequence_of,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Activation:
    """A smooth bounded function with its derivatives and their suprema. Implements C&E Eq. (4)."""

    name: str
    value: Callable[[Array], Array]  # σ, any shape to the same shape
    slope_from: Callable[[Array, Array], Array]  # σ′ from z and h = σ(z), often the cheaper one
    curvature_from: Callable[[Array, Array], Array]  # σ″ from the same two
    bound: float  # σ₀ = sup |σ|, the supremum itself, not just an upper bound; so the next two
    slope_bound: float  # σ₁ = sup |σ′|
    curvature_bound: float  # σ₂ = sup |σ″|

    def slope(self, z: ArrayLike) -> Array:
        """Return σ′(z), of the shape of z."""
        z = real_array("z", z)
        return self.slope_from(z, self.value(z))

    def curvature(self, z: ArrayLike) -> Array:
        """Return σ″(z), of the shape of z."""
        z = real_array("z", z)
        return self.curvature_from(z, self.value(z))


# functions, and σ₀, σ₁, σ₂
TANH = Activation(  # σ″ is largest where tanh² = 1/3
    "tanh", np.tanh, lambda z, h: 1 - h * h, lambda z, h: -2 * h * (1 - h * h), 1, 1, 4 / 27**0.5
)
LOGISTIC = Activation(  # ½ + ½ tanh(z/2), which overflows nowhere: factors ¼ and ⅛ on the above
    "logistic",
    lambda z: 0.5 + 0.5 * np.tanh(0.5 * z),
    lambda z, h: h * (1 - h),
    lambda z, h: h * (1 - h) * (1 - 2 * h),
    *(1, 1 / 4, 1 / 108**0.5),
)
GAUSSIAN = Activation(  # exp(−z²), the usual one: the companion gives no formula
    "gaussian",
    lambda z: np.exp(-z * z),
    lambda z, h: -2 * z * h,
    lambda z, h: (4 * z * z - 2) * h,
    *(1, (2 / math.e) ** 0.5, 2),
)
RELU = Activation(  # outside C&E Eq. (4), with the derivative that C&E Remark 2 gives it
    "relu",
    lambda z: np.maximum(z, 0.0),
    lambda z, h: (z >= 0).astype(np.float64),
    lambda z, h: np.zeros_like(z),
    *(math.inf, 1, math.inf),
)
ACTIVATIONS = {activation.name: activation for activation in (TANH, LOGISTIC, GAUSSIAN, RELU)}


def activation_named(activation: str | Activation, *, smooth: bool = False) -> Activation:
    """Return an activation from its name in `ACTIVATIONS`, or as it came; a smooth one, if
    asked."""
    if not isinstance(activation, Activation):
        activation = ACTIVATIONS[one_of("activation", activation, ACTIVATIONS)]
    if smooth and not math.isfinite(activation.bound + activation.curvature_bound):
        allowed = "must have bounded value, slope and curvature (C&E Eq. (4))"
        raise ValueError(f"activation = {activation.name!r}: {allowed}.")
    return activation


@dataclass(frozen=True, eq=False)
class ElmanNetwork:
    """A diagonal Elman network; the activation may be given by its name."""

    parameters: Array  # rows [W_ii, U_i], (m, 1 + d); m is even, as C&E Definition 1 pairs neurons
    readout: Array  # c, (m,); not trained
    activation: Activation  # σ

    def __init__(
        self, parameters: ArrayLike, readout: ArrayLike, activation: str | Activation = "tanh"
    ) -> None:
        """Check and keep the arrays."""
        rows = finite_array("parameters", parameters, ndim=2)
        if even_width("parameters.shape[0]", len(rows)) and rows.shape[1] < 2:
            raise ValueError(f"parameters has shape {rows.shape}: must be (m, 1 + d), d ≥ 1.")
        object.__setattr__(self, "parameters", rows)
        object.__setattr__(self, "readout", shaped("readout", readout, rows.shape[:1]))
        object.__setattr__(self, "activation", activation_named(activation))

    @property
    def width(self) -> int:
        """Number m of neurons."""
        return len(self.parameters)

    @property
    def dimension(self) -> int:
        """Dimension d of an input."""
        return self.parameters.shape[1] - 1

    @property
    def repeats(self) -> int:
        """Copies of its first neurons: 2 at a symmetric start of which the half is even, else 1."""
        (first, second), (c, opposite) = np.split(self.parameters, 2), np.split(self.readout, 2)
        symmetric = np.array_equal(first, second) and np.array_equal(c, -opposite)
        return 1 + (len(first) % 2 == 0 and symmetric)

    def at(self, parameters: ArrayLike) -> ElmanNetwork:
        """Return the network with other parameters, shape (m, 1 + d), and the same readout."""
        rows = shaped("parameters", parameters, self.parameters.shape)
        return dataclasses.replace(self, parameters=rows)

    def hidden(self, inputs: ArrayLike) -> Array:
        """Return H_1 … H_T, shape (n, T, m). Implements C&E Eq. (2)."""
        sequences = checked_inputs(inputs, self.dimension)
        steps = scan(self.parameters, sequences, self.activation)
        return np.stack([state for _, _, state in steps], axis=1)

    def outputs(self, inputs: ArrayLike) -> Array:
        """Return F_1 … F_T, shape (n, T): 0, not almost 0, at the start. Implements C&E Eq. (3)."""
        sequences = checked_inputs(inputs, self.dimension)
        steps = scan(self.parameters, sequences, self.activation)
        return np.stack([self.read(state) for _, _, state in steps], axis=1)

    def read(self, states: Array) -> Array:
        """Return ``Σ_i c_i H^{(i)}/√m``, (..., m) -> (...), adding partners i and i + m/2 first."""
        if real_array("states", states).shape[-1:] != self.readout.shape:
            raise ValueError(f"states has shape {np.shape(states)}: must be (..., {self.width}).")
        halves = (states * self.readout).reshape(*states.shape[:-1], 2, -1)
        return (halves[..., 0, :] + halves[..., 1, :]).sum(axis=-1) / self.width**0.5


def symmetric_initialisation(
    width: int,
    dimension: int,
    alpha: float,
    rng: np.random.Generator,
    activation: str | Activation = "tanh",
) -> ElmanNetwork:
    """Draw a network whose second half repeats the first with the opposite readout.

    Implements C&E Definition 1. In the first half ``c_i = ±1`` and ``W_ii = ±α`` with equal chances
    and ``U_i ~ N(0, I_d)``, all independent. The output is 0 for every input.
    """
    generator("rng", rng)
    half = even_width("width", width) // 2
    dimension = integer_in("dimension", dimension, 1)
    alpha = real_in("alpha", alpha, "(0, inf)")
    readout, recurrent = rng.choice([-1.0, 1.0], half), rng.choice([-alpha, alpha], half)
    rows = np.column_stack([recurrent, rng.standard_normal((half, dimension))])
    return ElmanNetwork(np.tile(rows, (2, 1)), np.concatenate([readout, -readout]), activation)


def empirical_risk(network: ElmanNetwork, inputs: ArrayLike, targets: ArrayLike) -> float:
    """Return squared errors, summed over time, their mean over sequences. Implements C&E Eq.
    (1)."""
    instance_of("network", network, ElmanNetwork)
    sequences = checked_inputs(inputs, network.dimension)
    errors = network.outputs(sequences) - shaped("targets", targets, sequences.shape[:2])
    return float(np.square(errors).sum(axis=1).mean())


def hidden_gradients(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Return ``∂H_t^{(i)}/∂Θ_i``, shape (n, T, m, 1 + d), the recurrent weight's first.

    Implements C&E Proposition 1 (and C&E Remark 2 for the ReLU) by the recursion of its proof,
    ``G_t = σ′(z_t) (W_ii G_{t−1} + [H_{t−1}, X_{t−1}])``: one multiplication a step in the place of
    a sum over the past. Implements C&E Eq. (7), for the recurrent weight, too. A state does not
    depend on another neuron's parameters. In memory neurons come last.
    """
    instance_of("network", network, ElmanNetwork)
    sequences = checked_inputs(inputs, network.dimension)
    n, length, dimension = sequences.shape
    gradients = np.empty((n, length, 1 + dimension, network.width))
    stream = stream_gradients(network.parameters, sequences, network.activation)
    for step, gradient in enumerate(stream):
        gradients[:, step] = gradient
    return gradients.swapaxes(2, 3)


def output_gradients(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Return ``∂F_t/∂Θ_i = c_i/√m ∂H_t^{(i)}/∂Θ_i``, the kernel's features, shape (n, T, m, 1 +
    d)."""
    gradients = hidden_gradients(network, inputs)
    gradients *= (network.readout / network.width**0.5)[:, None]
    return gradients


def linear_model(initial: ElmanNetwork, parameters: ArrayLike, inputs: ArrayLike) -> Array:
    """Return ``F^Lin_t = Σ_i ⟨∂F_t/∂Θ_i(0), Θ_i − Θ_i(0)⟩``, (n, T); F_t(Θ(0)) = 0 is left out."""
    instance_of("initial", initial, ElmanNetwork)
    sequences = checked_inputs(inputs, initial.dimension)
    direction = initial.at(parameters).parameters - initial.parameters
    moved = stream_tangents(initial.parameters, direction, sequences, initial.activation)
    return np.stack([initial.read(tangent) for tangent in moved], axis=1)


def scan(
    parameters: Array, inputs: Array, activation: Activation
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield ``H_{t−1}``, the pre-activation and ``H_t`` for t = 1 … T, each of shape (n, m).

    The two halves of the neurons are multiplied apart: products of one shape round alike, so that
    equal neurons keep equal bits. m is even.
    """
    recurrent, (first, second) = parameters[:, 0], np.split(parameters[:, 1:], 2)
    state = np.zeros((len(inputs), len(parameters)))
    for now in inputs.swapaxes(0, 1):
        pre = np.concatenate([now @ first.T, now @ second.T], axis=1)
        pre += recurrent * state
        previous, state = state, activation.value(pre)
        yield previous, pre, state


def stream_gradients(parameters: Array, inputs: Array, activation: Activation) -> Iterator[Array]:
    """Yield ``∂H_t/∂Θ``, shape (n, 1 + d, m), in one array that the next step overwrites."""
    gradient = np.zeros((len(inputs), 1 + inputs.shape[2], len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        gradient *= parameters[:, 0]
        gradient[:, 0] += previous
        gradient[:, 1:] += inputs[:, step, :, None]
        gradient *= activation.slope_from(pre, state)[:, None]
        yield gradient


def stream_tangents(
    parameters: Array, direction: Array, inputs: Array, activation: Activation
) -> Iterator[Array]:
    """Yield ``⟨∂H_t^{(i)}/∂Θ_i, V_i⟩``, shape (n, m), V_i row i of the direction, (m, 1 + d)."""
    tangent = np.zeros((len(inputs), len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        newest = direction[:, 0] * previous + inputs[:, step] @ direction[:, 1:].T
        tangent = (parameters[:, 0] * tangent + newest) * activation.slope_from(pre, state)
        yield tangent


def even_width(name: str, value: int) -> int:
    """Return a width after checking that it is even and positive."""
    if integer_in(name, value, 2) % 2:
        raise ValueError(f"{name} = {value}: must be even, as C&E Definition 1 pairs neurons.")
    return int(value)


def checked_radii(
    radii: Sequence[float], recurrent: str = "(0, inf)", inputs: str = "(0, inf)"
) -> tuple[float, float]:
    """Return two radii, ρ_w and ρ_u, after checking that each lies in its interval."""
    if len(pair := sequence_of("radii", radii)) != 2:
        raise ValueError(f"radii = {radii!r}: must be two, of recurrent and of input weights.")
    return real_in("radii[0]", pair[0], recurrent), real_in("radii[1]", pair[1], inputs)


def shaped(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return a finite array after checking that it has a shape."""
    array = finite_array(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: must be {shape}.")
    return array


def checked_inputs(inputs: ArrayLike, dimension: int | None = None, name: str = "inputs") -> Array:
    """Return input sequences, shape (n, T, d), after checking that no norm exceeds 1."""
    array = finite_array(name, inputs, ndim=3)
    if dimension not in (None, array.shape[2]):
        raise ValueError(f"{name} has shape {array.shape}: must be (n, T, {dimension}).")
    largest = float(np.sqrt(np.square(array).sum(axis=2).max()))
    if largest > 1 + 1e-12:  # rounding
        allowed = "must be of norms up to 1, as in the companion; divide by the largest"
        raise ValueError(f"{name} has a vector of norm {largest:.6g}: {allowed}.")
    return array
