"""The Elman network with a diagonal recurrent matrix: start, outputs, risk, derivatives.

Neurons meet only in the readout. The companion's letters and the names here: m ``width``, d
``dimension`` of an input, T ``length`` in steps, n sequences, X ``inputs``, Y ``targets``, c
``readout``. Row i of ``parameters`` is ``Θ_i = [W_ii, U_i]``, p = 1 + d numbers. Step t reads
``X_{t−1}``: entry t − 1 of the outputs is F_t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from beartype.door import is_bearable
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from lwcore.reals import read
from lwcore.signatures import (
    FiniteReals,
    Int64Count,
    NotNegative,
    Positive,
    checked,
    floats,
    kind,
    require,
)

Array = NDArray[np.float64]


def _array(words: str, holds: Callable[[Array], Any]) -> Any:
    """A type of finite real arrays for which something more holds."""
    return kind(FiniteReals, f"a finite array of shape {words}", lambda x: holds(read(x)))


Named = Literal["tanh", "logistic", "gaussian", "relu"]
Smooth = Literal["tanh", "logistic", "gaussian"]
if TYPE_CHECKING:
    Width = int
    Radii = tuple[float, float]
    Sequences = ArrayLike
    Rows = ArrayLike
else:
    # Bounds hold for widths that no machine could draw.
    Width = kind(
        Integral,
        "an even whole number, 2 or above and up to 10^300",
        lambda m: 2 <= m <= 10**300 and m % 2 == 0,
    )
    Radii = kind(
        tuple,
        "two finite numbers, 0 or above, of recurrent and of input weights",
        lambda pair: len(pair) == 2 and all(is_bearable(radius, NotNegative) for radius in pair),
    )
    Sequences = _array(  # as in the companion's Section 2.1, but for rounding
        "(n, T, d), of norms up to 1",
        lambda x: x.ndim == 3 and (np.square(x).sum(axis=-1) <= 1 + 2e-12).all(),
    )
    Rows = _array(  # C&E Definition 1 pairs neurons
        "(m, 1 + d), m even, d at least 1",
        lambda rows: rows.ndim == 2 and len(rows) % 2 == 0 < rows.shape[1] - 1,
    )


@dataclass(frozen=True)
class Activation:
    """A smooth bounded function, its slope, and the suprema. Implements C&E Eq. (4)."""

    value: Callable[[Array], Array]  # σ, any shape to the same shape
    slope_from: Callable[[Array, Array], Array]  # σ′ from z and h = σ(z), often the cheaper one
    bound: float  # σ₀ = sup |σ|, the supremum itself, not just an upper bound; so the next two
    slope_bound: float  # σ₁ = sup |σ′|
    curvature_bound: float  # σ₂ = sup |σ″|

    def slope(self, z: Array) -> Array:
        """σ′(z)."""
        return self.slope_from(z, self.value(z))


ACTIVATIONS = {  # functions, and σ₀, σ₁, σ₂
    # σ″ is largest where tanh² = 1/3
    "tanh": Activation(np.tanh, lambda z, h: 1 - h * h, 1, 1, 4 / 27**0.5),
    # ½ + ½ tanh(z/2) overflows nowhere: factors ¼ and ⅛ on the above
    "logistic": Activation(
        lambda z: 0.5 + 0.5 * np.tanh(0.5 * z), lambda z, h: h * (1 - h), 1, 1 / 4, 1 / 108**0.5
    ),
    # exp(−z²), the usual one: the companion gives no formula
    "gaussian": Activation(
        lambda z: np.exp(-z * z), lambda z, h: -2 * z * h, 1, (2 / math.e) ** 0.5, 2
    ),
    # outside C&E Eq. (4), with the derivative that C&E Remark 2 gives it
    "relu": Activation(
        lambda z: np.maximum(z, 0.0), lambda z, h: np.where(z < 0, 0.0, 1.0), math.inf, 1, math.inf
    ),
}


@checked
class ElmanNetwork:
    """A diagonal Elman network with a readout that is not trained."""

    def __init__(self, parameters: Rows, readout: FiniteReals, activation: Named = "tanh") -> None:
        """Take rows ``[W_ii, U_i]`` and c."""
        self.parameters = floats("parameters", parameters)
        self.width, self.dimension = len(self.parameters), self.parameters.shape[1] - 1
        self.readout = shaped("readout", readout, (self.width,))
        self.activation, self.sigma = activation, ACTIVATIONS[activation]

    @property
    def repeats(self) -> int:
        """Copies of its first neurons: 2 at a symmetric start of which the half is even, else 1."""
        (first, second), (c, opposite) = np.split(self.parameters, 2), np.split(self.readout, 2)
        symmetric = np.array_equal(first, second) and np.array_equal(c, -opposite)
        return 1 + (len(first) % 2 == 0 and symmetric)

    def at(self, parameters: Rows) -> ElmanNetwork:
        """The network with other parameters of the same shape."""
        rows = shaped("parameters", parameters, self.parameters.shape)
        return ElmanNetwork(rows, self.readout, self.activation)

    def sequences(self, inputs: Sequences) -> Float[np.ndarray, "n T d"]:
        """Inputs as an array of vectors of the dimension that the network reads."""
        return shaped("inputs", inputs, (*np.shape(inputs)[:2], self.dimension))

    @checked
    def hidden(self, inputs: Sequences) -> Float[np.ndarray, "n T m"]:
        """Hidden states H_1 … H_T. Implements C&E Eq. (2)."""
        steps = scan(self.parameters, self.sequences(inputs), self.sigma)
        return np.stack([state for _, _, state in steps], axis=1)

    @checked
    def outputs(self, inputs: Sequences) -> Float[np.ndarray, "n T"]:
        """Outputs F_1 … F_T: 0, not almost 0, at the start. Implements C&E Eq. (3)."""
        return self.read(self.hidden(inputs))

    def read(self, states: Float[np.ndarray, "... m"]) -> Array:
        """Readout ``Σ_i c_i H^{(i)}/√m``, which adds partners i and i + m/2 first."""
        halves = (states * self.readout).reshape(*states.shape[:-1], 2, -1)
        return (halves[..., 0, :] + halves[..., 1, :]).sum(axis=-1) / self.width**0.5


@checked
def symmetric_initialisation(
    width: Width,
    dimension: Int64Count,
    alpha: Positive,
    rng: np.random.Generator,
    activation: Named = "tanh",
) -> ElmanNetwork:
    """A random network whose second half repeats the first with the opposite readout.

    Implements C&E Definition 1: independent ``c_i = ±1``, ``W_ii = ±α`` and ``U_i ~ N(0, I_d)``.
    """
    require("width", width, width < 2**63, "below 2^63, to be drawn")
    half = width // 2
    readout, recurrent = rng.choice([-1.0, 1.0], half), rng.choice([-alpha, alpha], half)
    rows = np.column_stack([recurrent, rng.standard_normal((half, dimension))])
    return ElmanNetwork(np.tile(rows, (2, 1)), np.concatenate([readout, -readout]), activation)


@checked
def empirical_risk(network: ElmanNetwork, inputs: Sequences, targets: FiniteReals) -> float:
    """Squared errors, summed over time, in the mean over sequences. Implements C&E Eq. (1)."""
    outputs = network.outputs(inputs)
    errors = outputs - shaped("targets", targets, outputs.shape)
    return float(np.square(errors).sum(axis=1).mean())


@checked
def hidden_gradients(network: ElmanNetwork, inputs: Sequences) -> Float[np.ndarray, "n T m p"]:
    """Derivatives ``∂H_t^{(i)}/∂Θ_i`` of states, the recurrent weight's first.

    Implements C&E Proposition 1 (and C&E Remark 2 for the ReLU) by the recursion of its proof,
    ``G_t = σ′(z_t) (W_ii G_{t−1} + [H_{t−1}, X_{t−1}])``. Implements C&E Eq. (7), for the recurrent
    weight, too.
    """
    steps = stream_gradients(network.parameters, network.sequences(inputs), network.sigma)
    return np.stack([now.copy() for now in steps], axis=1).swapaxes(2, 3)


@checked
def output_gradients(network: ElmanNetwork, inputs: Sequences) -> Float[np.ndarray, "n T m p"]:
    """Derivatives ``∂F_t/∂Θ_i = c_i/√m ∂H_t^{(i)}/∂Θ_i`` of outputs, the kernel's features."""
    return hidden_gradients(network, inputs) * (network.readout / network.width**0.5)[:, None]


@checked
def linear_model(
    initial: ElmanNetwork, parameters: Rows, inputs: Sequences
) -> Float[np.ndarray, "n T"]:
    """Outputs ``F^Lin_t = Σ_i ⟨∂F_t/∂Θ_i(0), Θ_i − Θ_i(0)⟩`` near a start at which they are 0."""
    direction = initial.at(parameters).parameters - initial.parameters
    sequences = initial.sequences(inputs)
    moved = stream_tangents(initial.parameters, direction, sequences, initial.sigma)
    return np.stack([initial.read(tangent) for tangent in moved], axis=1)


def shaped(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """An argument as an array of a shape."""
    array = floats(name, value)
    require(f"{name}.shape", array.shape, array.shape == shape, str(shape))
    return array


def scan(
    parameters: Array, inputs: Array, activation: Activation
) -> Iterator[tuple[Array, Array, Array]]:
    """States before, pre-activations and states after every step, each of shape (n, m).

    The two halves of the neurons are multiplied apart: products of one shape round alike, so that
    equal neurons keep equal bits.
    """
    recurrent, (first, second) = parameters[:, 0], np.split(parameters[:, 1:], 2)
    state = np.zeros((len(inputs), len(parameters)))
    for now in inputs.swapaxes(0, 1):
        pre = np.concatenate([now @ first.T, now @ second.T], axis=1)
        pre += recurrent * state
        previous, state = state, activation.value(pre)
        yield previous, pre, state


def stream_gradients(
    parameters: Array, inputs: Array, activation: Activation, *, newest: bool = True
) -> Iterator[Array]:
    """Derivatives ``∂H_t/∂Θ``, (n, 1 + d, m), in one array that the next step overwrites.

    Without `newest` the summand k = 0 of C&E Proposition 1, a step's own input, is left out.
    """
    gradient = np.zeros((len(inputs), 1 + inputs.shape[2], len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        slope = activation.slope_from(pre, state)[:, None]
        gradient *= parameters[:, 0]
        older = None if newest else gradient * slope
        gradient[:, 0] += previous
        gradient[:, 1:] += inputs[:, step, :, None]
        gradient *= slope
        yield gradient if older is None else older


def stream_tangents(
    parameters: Array, direction: Array, inputs: Array, activation: Activation
) -> Iterator[Array]:
    """Tangents ``⟨∂H_t^{(i)}/∂Θ_i, V_i⟩``, (n, m), along the rows V_i of a direction."""
    tangent = np.zeros((len(inputs), len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        newest = direction[:, 0] * previous + inputs[:, step] @ direction[:, 1:].T
        tangent = (parameters[:, 0] * tangent + newest) * activation.slope_from(pre, state)
        yield tangent
