"""What is measured against the companion's bounds: errors over random starts, the worst point of a
ball, risks along descent.

A `Study` is a `Problem` with everything in it made concrete: transport maps, inputs and targets. A
`Scaling` holds one error for each of several sizes and random starts, with the slope of its
logarithm and an interval from a bootstrap over the starts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from book.claims.claim import Measured, estimate, share
from lwcore.elman.bounds import Bound, Problem, Radii, log_sum, theorem_1
from lwcore.elman.descent import Descent, gradient_descent, projected
from lwcore.elman.kernel import (
    TransportMaps,
    finite_kernel,
    limiting_kernel,
    transport_target,
    transported,
)
from lwcore.elman.network import (
    Activation,
    ElmanNetwork,
    linear_model,
    scan,
    stream_gradients,
    symmetric_initialisation,
)
from lwcore.signatures import require

Array = NDArray[np.float64]

_BLOCK = 32  # sequences whose targets are computed at a time, to stay in the cache


class Slope(NamedTuple):
    """Slope of the logarithm of an error against the logarithm of a size, with an interval.

    Attributes:
        value: The slope of the mean over starts, by least squares.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Scaling:
    """An error at several sizes and for several random starts.

    Attributes:
        sizes: What grows: widths, numbers of sequences, lengths, shape (k,), positive.
        samples: The error, shape (k, starts), positive.
    """

    sizes: Array
    samples: Array

    def __post_init__(self) -> None:
        """Check shapes and signs."""
        for name in ("sizes", "samples"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), float))
        if self.samples.ndim != 2 or self.sizes.shape != self.samples.shape[:1]:
            raise ValueError(
                f"samples has shape {self.samples.shape}: must be (k, starts) for the "
                f"{self.sizes.shape} sizes."
            )
        for name in ("sizes", "samples"):
            require(name, getattr(self, name), getattr(self, name) > 0, "above 0")

    @property
    def mean(self) -> Array:
        """Mean over starts, shape (k,)."""
        return self.samples.mean(axis=1)

    def quantile(self, share: float) -> Array:
        """Return a quantile over starts, shape (k,)."""
        return np.quantile(self.samples, share, axis=1)

    def slope(self, rng: np.random.Generator, level: float = 0.95, resamples: int = 2000) -> Slope:
        """Return d log(mean) / d log(size), with an interval by resampling the starts of each size
        apart."""
        tail = (1 - level) / 2
        drawn = rng.integers(self.samples.shape[1], size=(resamples, *self.samples.shape))
        means = np.take_along_axis(self.samples[None], drawn, axis=2).mean(axis=2)
        x = np.log(self.sizes) - np.log(self.sizes).mean()
        low, high = np.quantile(np.log(means) @ x / (x @ x), [tail, 1 - tail])
        return Slope(float(np.log(self.mean) @ x / (x @ x)), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Study:
    """A learning problem with its data.

    Attributes:
        problem: The problem, as the bounds see it.
        maps: Transport maps that make the target.
        inputs: Sequences, shape (n, T, d), of norm 1 at every step.
        targets: F̃_1 … F̃_T, shape (n, T).
        target_error: The largest error of the targets. Far beyond the cut-off no quadrature
            resolves the few neurons that count, and it may be as large as the targets themselves.
    """

    problem: Problem
    maps: TransportMaps
    inputs: Array
    targets: Array
    target_error: float

    def start(self, width: int, rng: np.random.Generator) -> ElmanNetwork:
        """Draw a network of some width, after C&E Definition 1."""
        return symmetric_initialisation(
            width, self.problem.dimension, self.problem.alpha, rng, self.problem.activation
        )


def turning(recurrent_bound: float, input_bound: float, dimension: int = 2) -> TransportMaps:
    """Transport maps ``v_w = ν̄_w sign w`` and ``v_u = ν̄_u (cos u₁, sin u₁)``, for d = 1 its first
    entry."""
    return TransportMaps(
        lambda w: recurrent_bound * np.sign(w),
        lambda u: input_bound * _circle(u[:, 0])[:, :dimension],
        recurrent_bound,
        input_bound,
        directions=np.eye(1, dimension),
    )


def steady(recurrent_bound: float, input_bound: float, dimension: int = 2) -> TransportMaps:
    """Transport maps that pull all neurons one way, ``v_w = ν̄_w`` and ``v_u = ν̄_u (1, 0)``."""
    return TransportMaps(
        lambda w: np.full_like(w, recurrent_bound),
        lambda u: np.broadcast_to(input_bound * np.eye(1, dimension), u.shape),
        recurrent_bound,
        input_bound,
        directions=np.zeros((1, dimension)),
    )


def sequences(n: int, length: int, dimension: int, seed: int) -> Array:
    """Inputs of norm 1 in random directions, shape (n, T, d)."""
    drawn = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def cone(n: int, length: int, rng: np.random.Generator) -> Array:
    """Inputs of norm 1 in the plane, within 34 degrees of its first axis, shape (n, T, 2)."""
    return _circle(rng.uniform(-0.6, 0.6, (n, length)))


def failures(ratios: ArrayLike, failure: float) -> Measured:
    """The share of starts at which something is beyond its bound, over the δ that is allowed."""
    beyond = np.asarray(ratios) > 1
    found = share(beyond.sum(), beyond.size)
    ends = found.low / failure, found.high / failure
    return estimate(found.value / failure, ends, n=found.n)


def study(
    problem: Problem, rng: np.random.Generator, *, motion: str = "turning", tolerance: float = 1e-8
) -> Study:
    """A problem's inputs, drawn, and its targets, C&E Eq. (8), for `turning` or `steady` maps.

    The inputs of turning maps have random directions (for d = 1 they are uniform on [−1, 1]), those
    of steady ones lie in a `cone`, so that everything pulls one way. d is 1 or 2.
    """
    d, size = problem.dimension, (problem.sequences, problem.length)
    require("problem.dimension", d, d in (1, 2), "1 or 2 here")
    maps = {"turning": turning, "steady": steady}[motion](*problem.radii, d)
    if motion == "turning":
        angles = rng.uniform(-np.pi, np.pi, size)
        inputs = angles[..., None] / np.pi if d == 1 else _circle(angles)
    else:
        inputs = cone(*size, rng)[..., :d]
    blocks = [
        transport_target(
            maps, part, alpha=problem.alpha, activation=problem.activation, tolerance=tolerance
        )
        for part in np.split(inputs, range(_BLOCK, len(inputs), _BLOCK))
    ]
    targets = np.concatenate([one.value for one in blocks])
    return Study(problem, maps, inputs, targets, max(float(one.error.max()) for one in blocks))


def kernel_convergence(
    widths: Sequence[int],
    starts: int,
    inputs: ArrayLike,
    rng: np.random.Generator,
    *,
    alpha: float,
    activation: str = "tanh",
) -> dict[str, Scaling]:
    """Measure how far kernels of finite networks are from the limit. Tests C&E Proposition 2.

    Root mean square over pairs of inputs and steps of the distance to the limit, with its sums from
    0 and from 1 as printed.
    """
    sequences = np.asarray(inputs, float)
    limits = {
        name: limiting_kernel(
            sequences, alpha=alpha, activation=activation, as_printed=name == "as printed"
        ).value
        for name in ("sums from 0", "as printed")
    }
    kernels = [
        [
            finite_kernel(
                symmetric_initialisation(width, sequences.shape[2], alpha, rng, activation),
                sequences,
            )
            for _ in range(starts)
        ]
        for width in widths
    ]
    distances = {
        name: np.square(np.array(kernels) - limit).mean(axis=(2, 3, 4)) ** 0.5
        for name, limit in limits.items()
    }
    return {
        name: Scaling(np.array(widths, float), distance) for name, distance in distances.items()
    }


def approximation_errors(
    case: Study, widths: Sequence[int], starts: int, rng: np.random.Generator
) -> dict[str, Scaling]:
    """Measure what the transported network and its linear model miss of the target. Tests C&E
    Proposition 3, 4 and 5.

    ``"one input"``, ``|F^Lin − F̃|`` at the last step of the first sequence; and, the largest over
    all steps and sequences, ``"transport"``, ``|F^Lin − F̃|``, ``"linearisation"``, ``|F −
    F^Lin|``, and ``"network"``, ``|F − F̃|``.
    """
    names = ("one input", "transport", "linearisation", "network")
    found = np.empty((len(names), len(widths), starts))
    for k, width in enumerate(widths):
        for s in range(starts):
            initial = case.start(width, rng)
            end = transported(initial, case.maps)
            linear, output = (
                linear_model(initial, end.parameters, case.inputs),
                end.outputs(case.inputs),
            )
            missed = np.abs(linear - case.targets)
            worst = (missed, np.abs(output - linear), np.abs(output - case.targets))
            found[:, k, s] = missed[0, -1], *(array.max() for array in worst)
    return {
        name: Scaling(np.array(widths, float), samples)
        for name, samples in zip(names, found, strict=True)
    }


def worst_in_ball(
    initial: ElmanNetwork, sequence: ArrayLike, radii: Radii, *, error: bool = True, steps: int = 40
) -> float:
    """Search the ball around a start for the largest ``|F_T − F^Lin_T|`` or ``|F_T|``. Tests C&E
    Proposition 4 and the first part of 6.

    Neurons share nothing but the readout, so the largest sum is the sum of each neuron's largest
    summand: each climbs by itself, from its start pushed four ways, and keeps the best it has seen.
    The result is reached by a point of the ball; no larger one is excluded. It is the same for both
    signs of F, because the two neurons of a pair change places.

    With ``error`` it is the linearisation error, else the output; radii are not divided by √m.
    """
    inputs = np.asarray(sequence, float)[None]
    balls = [radius / initial.width**0.5 for radius in radii]
    # all climbs at once
    start, readout = (
        np.concatenate([array] * len(_PUSHES)) for array in (initial.parameters, initial.readout)
    )
    at_start, first = _last_step(start, inputs, initial.sigma)
    moved, best = np.zeros_like(start), np.full(len(start), -np.inf)
    moved[:, :2] = balls * np.repeat(_PUSHES, initial.width, axis=0)
    sizes = np.array([balls[0], *[balls[1]] * initial.dimension])
    for _ in range(steps):
        state, gradient = _last_step(start + moved, inputs, initial.sigma)
        gain, uphill = state - at_start, gradient
        if error:
            gain, uphill = gain - np.sum(first * moved, axis=1), uphill - first
        best = np.maximum(best, readout * gain)
        uphill = readout[:, None] * uphill
        lengths = np.column_stack(
            [
                np.abs(uphill[:, :1]),
                np.repeat(
                    np.linalg.norm(uphill[:, 1:], axis=1)[:, None], initial.dimension, axis=1
                ),
            ]
        )
        moved = projected(moved + 0.5 * sizes * uphill / np.maximum(lengths, 1e-300), *balls)
    return float(best.reshape(len(_PUSHES), -1).max(axis=0).sum() / initial.width**0.5)


_PUSHES = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


def descents(
    case: Study,
    width: int,
    steps: int,
    starts: int,
    rng: np.random.Generator,
    *,
    step_size: float | None = None,
    project: bool = True,
) -> list[Descent]:
    """Descend from several starts. Tests C&E Theorem 1, C&E Corollary 1 and C&E Theorem 2.

    The step size is 1/(T√τ) by default, as in C&E Theorem 1; the ball of the projection has the
    radii (ν̄_w, ν̄_u).
    """
    eta = 1 / (case.problem.length * steps**0.5) if step_size is None else step_size
    radii = case.problem.radii if project else None
    initials = [case.start(width, rng) for _ in range(starts)]
    return [
        gradient_descent(initial, case.inputs, case.targets, eta, steps, radii=radii)
        for initial in initials
    ]


def exit_time(run: Descent, radius: float) -> int | None:
    left = np.flatnonzero(np.maximum(run.recurrent_moves, run.input_moves) > radius)
    return int(left[0]) if left.size else None


def parts(bound: Bound) -> tuple[float, float]:
    """Logarithms of the parts of C&E Theorem 1 that shrink with the number of steps, and with the
    width."""
    first, second, *late = bound.log_terms.values()  # "initial distance" and "gradient"
    return log_sum(first, second), log_sum(*late)


class Need(NamedTuple):
    """What C&E Theorem 1 asks for before it promises a risk, half of it from each."""

    log_width: float
    log_steps: float


def needed(problem: Problem, risk: float, *, as_printed: bool = True) -> Need:
    """C&E Eq. (18), solved for the width and the steps by bisection: α_m falls with the width."""
    half = math.log(risk / 2)

    def terms(log_width: float) -> tuple[float, float]:
        width = 2 * round(math.exp(log_width) / 2)
        return parts(theorem_1(problem, width, 1, as_printed=as_printed))

    low, high = math.log(2), 350.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if terms(middle)[1] > half else (low, middle)
    return Need(high, max(0.0, 2 * (terms(high)[0] - half)))


def _circle(angles: Array) -> Array:
    """Return points on the unit circle, (...) -> (..., 2)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _last_step(parameters: Array, inputs: Array, activation: Activation) -> tuple[Array, Array]:
    """Return H_T, shape (m,), and its derivatives, shape (m, 1 + d), for one sequence."""
    *_, (_, _, state) = scan(parameters, inputs, activation)
    *_, gradient = stream_gradients(parameters, inputs, activation)
    return state[0], gradient[0].T
