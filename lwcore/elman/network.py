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
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from lwcore.reals import read
from lwcore.signatures import (
    FiniteReals,
    Int64Count,
    NotNegative,
    Positive,
    Range,
    are_finite,
    checked,
    floats,
    require,
)

Array = NDArray[np.float64]


Named = Literal["tanh", "logistic", "gaussian", "relu"]
Smooth = Literal["tanh", "logistic", "gaussian"]


def _are_short(inputs: Any) -> bool:
    vectors = read(inputs)
    with np.errstate(over="ignore"):
        squared_norms = np.square(vectors).sum(axis=-1)
    return vectors.ndim == 3 and are_finite(vectors) and bool((squared_norms <= 1 + 2e-12).all())


def _are_rows(parameters: Any) -> bool:
    rows = read(parameters)
    return rows.ndim == 2 and are_finite(rows) and len(rows) % 2 == 0 < rows.shape[1] - 1


# Bounds hold for widths that no machine could draw.
Width = Annotated[int, Range("an even whole number, 2 or above", lambda m: m >= 2 and m % 2 == 0)]
Radii = tuple[NotNegative, NotNegative]  # of recurrent and of input weights
# As in the companion's Section 2.1, but for rounding.
BoundedInputs = Annotated[
    ArrayLike, Range("a finite array of shape (n, T, d), of norms up to 1", _are_short)
]
# C&E Definition 1 pairs neurons.
ParameterRows = Annotated[
    ArrayLike, Range("a finite array of shape (m, 1 + d), m even, d at least 1", _are_rows)
]


@dataclass(frozen=True)
class Activation:
    """An activation σ, its slope, and the suprema on which all constants rest.

    Implements C&E Eq. (4). The theorems hold for the smooth ones, and not for the ReLU.
    """

    value: Callable[[Array], Array]  # σ, any shape to the same shape
    slope_from: Callable[[Array, Array], Array]  # σ′ from z and h = σ(z), often the cheaper one
    bound: float  # σ₀ = sup |σ|, the supremum itself, not just an upper bound; so the next two
    slope_bound: float  # σ₁ = sup |σ′|
    curvature_bound: float  # σ₂ = sup |σ″|

    def slope(self, z: Array) -> Array:
        """Return σ′(z), for those who have no h = σ(z) yet; `slope_from` takes both."""
        return self.slope_from(z, self.value(z))


ACTIVATIONS = {
    "tanh": Activation(
        value=np.tanh,
        slope_from=lambda z, h: 1 - h * h,
        bound=1,
        slope_bound=1,
        curvature_bound=4 / 27**0.5,  # σ″ is largest where tanh² = 1/3
    ),
    # ½ + ½ tanh(z/2) overflows nowhere: factors ¼ and ⅛ on the above
    "logistic": Activation(
        value=lambda z: 0.5 + 0.5 * np.tanh(0.5 * z),
        slope_from=lambda z, h: h * (1 - h),
        bound=1,
        slope_bound=1 / 4,
        curvature_bound=1 / 108**0.5,
    ),
    # exp(−z²), the usual one: the companion gives no formula
    "gaussian": Activation(
        value=lambda z: np.exp(-z * z),
        slope_from=lambda z, h: -2 * z * h,
        bound=1,
        slope_bound=(2 / math.e) ** 0.5,
        curvature_bound=2,
    ),
    # outside C&E Eq. (4), with the derivative that C&E Remark 2 gives it
    "relu": Activation(
        value=lambda z: np.maximum(z, 0.0),
        slope_from=lambda z, h: np.where(z < 0, 0.0, 1.0),
        bound=math.inf,
        slope_bound=1,
        curvature_bound=math.inf,
    ),
}


@checked
class ElmanNetwork:
    """A diagonal Elman network with a readout that is not trained.

    Every neuron sees the input and its own past, ``H_t = σ(W_ii H_{t−1} + U_i · X_{t−1})``, and
    none of the others; the output is ``F_t = Σ_i c_i H_t^{(i)}/√m``.
    """

    def __init__(
        self, parameters: ParameterRows, readout: FiniteReals, activation: Named = "tanh"
    ) -> None:
        """Take rows ``[W_ii, U_i]`` and c: `symmetric_initialisation` draws both."""
        self.parameters = floats("parameters", parameters)
        self.width = len(self.parameters)
        self.dimension = self.parameters.shape[1] - 1
        self.readout = shaped("readout", readout, (self.width,))
        self.activation = activation
        self.sigma = ACTIVATIONS[activation]

    @property
    def repeats(self) -> int:
        """Copies of its first neurons, 2 at a symmetric start of which the half is even, else 1."""
        first, second = np.split(self.parameters, 2)
        c, opposite = np.split(self.readout, 2)
        is_symmetric = np.array_equal(first, second) and np.array_equal(c, -opposite)
        return 2 if is_symmetric and len(first) % 2 == 0 else 1

    def at(self, parameters: ParameterRows) -> ElmanNetwork:
        """Return the network with other parameters of the same shape, and the same readout."""
        rows = shaped("parameters", parameters, self.parameters.shape)
        return ElmanNetwork(rows, self.readout, self.activation)

    def sequences(self, inputs: BoundedInputs) -> Float[np.ndarray, "n T d"]:
        """Return inputs as an array; refuse vectors of another dimension than the network reads."""
        return shaped("inputs", inputs, (*np.shape(inputs)[:2], self.dimension))

    @checked
    def hidden(self, inputs: BoundedInputs) -> Float[np.ndarray, "n T m"]:
        """Return the hidden states H_1 … H_T, from H_0 = 0. Implements C&E Eq. (2)."""
        steps = scan(self.parameters, self.sequences(inputs), self.sigma)
        return np.stack([state for _, _, state in steps], axis=1)

    @checked
    def outputs(self, inputs: BoundedInputs) -> Float[np.ndarray, "n T"]:
        """Return the outputs F_1 … F_T: 0, not almost 0, at the start. Implements C&E Eq. (3)."""
        return self.read(self.hidden(inputs))

    def read(self, states: Float[np.ndarray, "... m"]) -> Array:
        """Return the readout ``Σ_i c_i H^{(i)}/√m`` of hidden states or their tangents."""
        # Partners i and i + m/2 first: where they are opposite, nothing is left of rounding.
        halves = (states * self.readout).reshape(*states.shape[:-1], 2, -1)
        pairs = halves[..., 0, :] + halves[..., 1, :]
        return pairs.sum(axis=-1) / self.width**0.5


@checked
def symmetric_initialisation(
    width: Width,
    dimension: Int64Count,
    alpha: Positive,
    rng: np.random.Generator,
    activation: Named = "tanh",
) -> ElmanNetwork:
    """Draw a random network whose second half repeats the first with the opposite readout.

    Its outputs are exactly 0. Implements C&E Definition 1: independent ``c_i = ±1``, ``W_ii = ±α``
    and ``U_i ~ N(0, I_d)``.
    """
    half = width // 2
    readout = rng.choice([-1.0, 1.0], half)
    recurrent = rng.choice([-alpha, alpha], half)
    rows = np.column_stack([recurrent, rng.standard_normal((half, dimension))])
    return ElmanNetwork(np.tile(rows, (2, 1)), np.concatenate([readout, -readout]), activation)


@checked
def empirical_risk(network: ElmanNetwork, inputs: BoundedInputs, targets: FiniteReals) -> float:
    """Return the squared errors, summed over time and averaged over sequences.

    Implements C&E Eq. (1).
    """
    outputs = network.outputs(inputs)
    wanted_outputs = shaped("targets", targets, outputs.shape)
    over_time = np.square(outputs - wanted_outputs).sum(axis=1)
    return float(over_time.mean())


@checked
def hidden_gradients(network: ElmanNetwork, inputs: BoundedInputs) -> Float[np.ndarray, "n T m p"]:
    """Return the derivatives ``∂H_t^{(i)}/∂Θ_i`` of states, the recurrent weight's first.

    Implements C&E Proposition 1 (and C&E Remark 2 for the ReLU) by the recursion of its proof,
    ``G_t = σ′(z_t) (W_ii G_{t−1} + [H_{t−1}, X_{t−1}])``. Implements C&E Eq. (7), for the recurrent
    weight, too.
    """
    steps = stream_gradients(network.parameters, network.sequences(inputs), network.sigma)
    by_step = [gradient.copy() for gradient in steps]
    return np.stack(by_step, axis=1).swapaxes(2, 3)


@checked
def output_gradients(network: ElmanNetwork, inputs: BoundedInputs) -> Float[np.ndarray, "n T m p"]:
    """Return the derivatives of outputs, ``∂F_t/∂Θ_i = c_i/√m ∂H_t^{(i)}/∂Θ_i``.

    Their inner products over neurons are the tangent kernel, `lwcore.elman.kernel.finite_kernel`.
    """
    of_states = hidden_gradients(network, inputs)
    weights = network.readout / network.width**0.5
    return of_states * weights[:, None]


@checked
def linear_model(
    initial: ElmanNetwork, parameters: ParameterRows, inputs: BoundedInputs
) -> Float[np.ndarray, "n T"]:
    """Return the outputs of the network's linear model around a start at which they are 0.

    ``F^Lin_t = Σ_i ⟨∂F_t/∂Θ_i(0), Θ_i − Θ_i(0)⟩``, with the given parameters as Θ.
    """
    start = initial.parameters
    move = initial.at(parameters).parameters - start
    tangents = stream_tangents(start, move, initial.sequences(inputs), initial.sigma)
    return np.stack([initial.read(tangent) for tangent in tangents], axis=1)


def shaped(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return an argument as an array; refuse it if it has another shape."""
    array = floats(name, value)
    require(f"{name}.shape", array.shape, array.shape == shape, str(shape))
    return array


def scan(
    parameters: Array, inputs: Array, activation: Activation
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield for every step the states before, pre-activations, and states after it, (n, m) each.

    The two halves of the neurons are multiplied apart: products of one shape round alike, so that
    equal neurons keep equal bits.
    """
    recurrent = parameters[:, 0]
    first, second = np.split(parameters[:, 1:], 2)
    state = np.zeros((len(inputs), len(parameters)))
    for x in inputs.swapaxes(0, 1):
        pre = np.concatenate([x @ first.T, x @ second.T], axis=1)
        pre += recurrent * state
        previous = state
        state = activation.value(pre)
        yield previous, pre, state


def stream_gradients(
    parameters: Array, inputs: Array, activation: Activation, *, newest: bool = True
) -> Iterator[Array]:
    """Yield the derivatives ``∂H_t/∂Θ``, (n, 1 + d, m), in one array that the next step overwrites.

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
    """Yield the tangents ``⟨∂H_t^{(i)}/∂Θ_i, V_i⟩``, (n, m), along the rows V_i of a direction.

    Takes a p-th of the memory of `stream_gradients`.
    """
    tangent = np.zeros((len(inputs), len(parameters)))
    for step, (previous, pre, state) in enumerate(scan(parameters, inputs, activation)):
        newest = direction[:, 0] * previous + inputs[:, step] @ direction[:, 1:].T
        carried = parameters[:, 0] * tangent
        tangent = (carried + newest) * activation.slope_from(pre, state)
        yield tangent
