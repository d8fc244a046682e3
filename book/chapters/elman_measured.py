"""What is measured against the companion's bounds: errors over random starts, the worst point of a
ball, risks along descent. A `Study` is a `Problem` with everything in it made concrete."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from book.claims.claim import Measured, estimate, share
from lwcore.elman.bounds import Bound, Problem, Radii, log_sum, theorem_1
from lwcore.elman.descent import Descent, gradient_descent, projected
from lwcore.elman.kernel import TransportMaps, transport_target, transported
from lwcore.elman.network import (
    Activation,
    ElmanNetwork,
    linear_model,
    scan,
    stream_gradients,
    symmetric_initialisation,
)

Array = NDArray[np.float64]

_BLOCK = 32  # sequences whose targets are computed at a time, to stay in the cache


@dataclass(frozen=True, eq=False)
class Study:
    """A learning problem with its data."""

    problem: Problem  # as the bounds see it
    maps: TransportMaps  # that make the target
    inputs: Array  # (n, T, d)
    targets: Array  # F̃_1 … F̃_T, (n, T)
    target_error: float  # far beyond the cut-off it may be as large as the targets themselves

    def start(self, width: int, rng: np.random.Generator) -> ElmanNetwork:
        """A network of some width, drawn after C&E Definition 1."""
        of = self.problem
        return symmetric_initialisation(width, of.dimension, of.alpha, rng, of.activation)


def turning(recurrent_bound: float, input_bound: float, dimension: int = 2) -> TransportMaps:
    """Transport maps ``v_w = ν̄_w sign w`` and ``v_u = ν̄_u (cos u₁, sin u₁)``, for d = 1 its first
    entry."""
    return TransportMaps(
        lambda w: recurrent_bound * np.sign(w),
        lambda u: input_bound * _circle(u[:, 0])[:, :dimension],
        recurrent_bound,
        input_bound,
    )


def steady(recurrent_bound: float, input_bound: float, dimension: int = 2) -> TransportMaps:
    """Transport maps that pull all neurons one way, ``v_w = ν̄_w`` and ``v_u = ν̄_u (1, 0)``."""
    return TransportMaps(
        lambda w: np.full_like(w, recurrent_bound),
        lambda u: np.broadcast_to(input_bound * np.eye(1, dimension), u.shape),
        recurrent_bound,
        input_bound,
    )


def sequences(n: int, length: int, dimension: int, seed: int) -> Array:
    """Inputs of norm 1 in random directions, shape (n, T, d)."""
    drawn = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def failures(ratios: ArrayLike, failure: float) -> Measured:
    """The share of starts at which something is beyond its bound, over the δ that is allowed."""
    found = share(int(np.sum(np.greater(ratios, 1))), np.size(ratios))
    return estimate(found.value / failure, (found.low / failure, found.high / failure), n=found.n)


def study(
    problem: Problem, rng: np.random.Generator, *, motion: str = "turning", tolerance: float = 1e-8
) -> Study:
    """A problem's inputs, drawn, and its targets, C&E Eq. (8), for `turning` or `steady` maps.

    The inputs of turning maps have random directions (for d = 1 they are uniform on [−1, 1]), those
    of steady ones lie within 34 degrees of (1, 0), so that everything pulls one way. d is 1 or 2.
    """
    d, size = problem.dimension, (problem.sequences, problem.length)
    maps = {"turning": turning, "steady": steady}[motion](*problem.radii, d)
    if motion == "turning":
        angles = rng.uniform(-np.pi, np.pi, size)
        inputs = angles[..., None] / np.pi if d == 1 else _circle(angles)
    else:
        inputs = _circle(rng.uniform(-0.6, 0.6, size))[..., :d]
    how: Any = {"alpha": problem.alpha, "activation": problem.activation, "tolerance": tolerance}
    blocks = np.split(inputs, range(_BLOCK, len(inputs), _BLOCK))
    values, errors = zip(*(transport_target(maps, block, **how) for block in blocks), strict=True)
    return Study(problem, maps, inputs, np.concatenate(values), float(np.concatenate(errors).max()))


def approximation_errors(
    case: Study, widths: Sequence[int], starts: int, rng: np.random.Generator
) -> xr.DataArray:
    """What the transported network and its linear model miss of the target, (error, m, start).

    ``"one input"``, ``|F^Lin − F̃|`` at the last step of the first sequence; and, the largest over
    all steps and sequences, ``"transport"``, ``|F^Lin − F̃|``, ``"linearisation"``, ``|F −
    F^Lin|``, and ``"network"``, ``|F − F̃|``. Tests C&E Proposition 3, 4 and 5.
    """
    found = np.empty((4, len(widths), starts))
    for k, s in np.ndindex(found.shape[1:]):
        initial = case.start(widths[k], rng)
        end = transported(initial, case.maps)
        linear = linear_model(initial, end.parameters, case.inputs)
        output, missed = end.outputs(case.inputs), np.abs(linear - case.targets)
        worst = missed, np.abs(output - linear), np.abs(output - case.targets)
        found[:, k, s] = missed[0, -1], *(array.max() for array in worst)
    names = ["one input", "transport", "linearisation", "network"]
    return xr.DataArray(found, {"error": names, "m": list(widths)}, ("error", "m", "start"))


def worst_in_ball(
    initial: ElmanNetwork, sequence: ArrayLike, radii: Radii, *, error: bool = True
) -> float:
    """The largest ``|F_T − F^Lin_T|``, or ``|F_T|``, found in the ball around a start. Tests C&E
    Proposition 4 and the first part of 6.

    Neurons share nothing but the readout, so the largest sum is the sum of each neuron's largest
    summand: each climbs by itself, from its start pushed four ways, and keeps the best it has seen.
    """
    inputs = np.asarray(sequence, float)[None]
    balls = [radius / initial.width**0.5 for radius in radii]
    pushes = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]
    start, readout = np.tile(initial.parameters, (4, 1)), np.tile(initial.readout, 4)
    at_start, first = _last_step(start, inputs, initial.sigma)
    moved, best = np.zeros_like(start), np.full(len(start), -np.inf)
    moved[:, :2] = balls * np.repeat(pushes, initial.width, axis=0)
    for _ in range(40):
        state, uphill = _last_step(start + moved, inputs, initial.sigma)
        gain = state - at_start
        if error:
            gain, uphill = gain - np.sum(first * moved, axis=1), uphill - first
        best = np.maximum(best, readout * gain)
        uphill = readout[:, None] * uphill
        for part, ball in zip(np.split(uphill, [1], axis=1), balls, strict=True):
            length = np.linalg.norm(part, axis=1, keepdims=True)
            part *= 0.5 * ball / np.maximum(length, 1e-300)
        moved = projected(moved + uphill, *balls)
    return float(best.reshape(4, -1).max(axis=0).sum() / initial.width**0.5)


def descents(
    case: Study, width: int, steps: int, starts: int, rng: np.random.Generator, free: float = 0
) -> list[Descent]:
    """Descents from several starts, as in C&E Theorem 1: projected onto the ball of the radii (ν̄_w,
    ν̄_u), with the step size 1/(T√τ); or free, with the step size given."""
    starts_at, data = [case.start(width, rng) for _ in range(starts)], (case.inputs, case.targets)
    radii, eta = case.problem.radii, 1 / (case.problem.length * steps**0.5)
    how: dict[str, Any] = {"step_size": free} if free else {"step_size": eta, "radii": radii}
    return [gradient_descent(one, *data, steps=steps, **how) for one in starts_at]


def parts(bound: Bound) -> tuple[float, float]:
    """Logarithms of the parts of C&E Theorem 1 that shrink with the number of steps, and with the
    width."""
    first, second, *late = bound.log_terms.values()  # "initial distance" and "gradient"
    return log_sum(first, second), log_sum(*late)


def needed(problem: Problem, risk: float, *, as_printed: bool = True) -> tuple[float, float]:
    """Logarithms of the width and the steps at which C&E Eq. (18) promises a risk, half of it from
    each; by bisection, since α_m falls with the width."""
    half = math.log(risk / 2)

    def terms(log_width: float) -> tuple[float, float]:
        width = 2 * round(math.exp(log_width) / 2)
        return parts(theorem_1(problem, width, 1, as_printed=as_printed))

    low, high = math.log(2), 350.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if terms(middle)[1] > half else (low, middle)
    return high, max(0.0, 2 * (terms(high)[0] - half))


def _circle(angles: Array) -> Array:
    """Return points on the unit circle, (...) -> (..., 2)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _last_step(parameters: Array, inputs: Array, activation: Activation) -> tuple[Array, Array]:
    """Return H_T, shape (m,), and its derivatives, shape (m, 1 + d), for one sequence."""
    *_, (_, _, state) = scan(parameters, inputs, activation)
    *_, gradient = stream_gradients(parameters, inputs, activation)
    return state[0], gradient[0].T
