"""What is measured against the companion's bounds: errors over random starts, the worst point of a
ball, risks along descent. A `Study` is a `Problem` with everything in it made concrete."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from book.claims.claim import Measured, estimate, share
from lwcore.elman.bounds import Bound, Problem, log_sum, theorem_1
from lwcore.elman.descent import Descent, gradient_descent
from lwcore.elman.kernel import TransportMaps, transport_target
from lwcore.elman.network import (
    ElmanNetwork,
    symmetric_initialisation,
)

Array = NDArray[np.float64]

_BLOCK = 32  # sequences whose targets are computed at a time, to stay in the cache


@dataclass(frozen=True, eq=False)
class Study:
    """A learning problem with its data: a `Problem` in which everything is made concrete."""

    problem: Problem  # as the bounds see it
    maps: TransportMaps  # that make the target
    inputs: Array  # (n, T, d)
    targets: Array  # F̃_1 … F̃_T, (n, T)
    target_error: float  # far beyond the cut-off it may be as large as the targets themselves

    def start(self, width: int, rng: np.random.Generator) -> ElmanNetwork:
        """Draw a network of some width after C&E Definition 1."""
        return symmetric_initialisation(
            width, self.problem.dimension, self.problem.alpha, rng, self.problem.activation
        )


def turning(recurrent_bound: float, input_bound: float, dimension: int = 2) -> TransportMaps:
    """Return transport maps ``v_w = ν̄_w sign w`` and ``v_u = ν̄_u (cos u₁, sin u₁)``.

    For d = 1 v_u is the first entry.
    """
    return TransportMaps(
        lambda w: recurrent_bound * np.sign(w),
        lambda u: input_bound * _circle(u[:, 0])[:, :dimension],
        recurrent_bound,
        input_bound,
    )


def steady(recurrent_bound: float, input_bound: float, dimension: int = 2) -> TransportMaps:
    """Return maps that pull all neurons one way, ``v_w = ν̄_w`` and ``v_u = ν̄_u (1, 0)``."""
    return TransportMaps(
        lambda w: np.full_like(w, recurrent_bound),
        lambda u: np.broadcast_to(input_bound * np.eye(1, dimension), u.shape),
        recurrent_bound,
        input_bound,
    )


def sequences(n: int, length: int, dimension: int, seed: int) -> Array:
    """Draw inputs of norm 1 in random directions, shape (n, T, d)."""
    drawn = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def failures(ratios: ArrayLike, failure: float) -> Measured:
    """Return the share of starts at which something is beyond its bound, over the δ allowed.

    Args:
        ratios: Of what is bounded over its bound, one a start.
        failure: δ.
    """
    n_beyond = int(np.sum(np.greater(ratios, 1)))
    beyond = share(n_beyond, np.size(ratios))
    interval = (beyond.low / failure, beyond.high / failure)
    return estimate(beyond.value / failure, interval, n=beyond.n)


def study(
    problem: Problem, rng: np.random.Generator, *, motion: str = "turning", tolerance: float = 1e-8
) -> Study:
    """Draw a problem's inputs, and compute its targets, C&E Eq. (8), for one of two maps.

    The inputs of turning maps have random directions (for d = 1 they are uniform on [−1, 1]), those
    of steady ones lie within 34 degrees of (1, 0), so that everything pulls one way.

    Args:
        problem: What the bounds see; d is 1 or 2.
        motion: ``"turning"`` or ``"steady"``, the maps that make the target.
        tolerance: Error of the targets, below which their integrals are cut off.
    """
    d = problem.dimension
    size = (problem.sequences, problem.length)
    if motion == "turning":
        maps = turning(*problem.radii, d)
        angles = rng.uniform(-np.pi, np.pi, size)
        inputs = angles[..., None] / np.pi if d == 1 else _circle(angles)
    else:
        maps = steady(*problem.radii, d)
        angles = rng.uniform(-0.6, 0.6, size)
        inputs = _circle(angles)[..., :d]
    targets = []
    errors = []
    for block in np.split(inputs, range(_BLOCK, len(inputs), _BLOCK)):
        target, error = transport_target(
            maps,
            block,
            alpha=problem.alpha,
            activation=problem.activation,
            tolerance=tolerance,
        )
        targets.append(target)
        errors.append(error)
    largest_error = float(np.concatenate(errors).max())
    return Study(problem, maps, inputs, np.concatenate(targets), largest_error)


def descents(
    case: Study, width: int, steps: int, starts: int, rng: np.random.Generator, free: float = 0
) -> list[Descent]:
    """Descend from several starts, as in C&E Theorem 1, or freely.

    As in the theorem: projected onto the ball of the radii (ν̄_w, ν̄_u), with the step size 1/(T√τ).

    Args:
        steps: Number of steps τ.
        free: If above 0, the step size of a descent without projection.
    """
    problem = case.problem
    options: dict[str, Any] = {"steps": steps}
    if free:
        options["step_size"] = free
    else:
        options["step_size"] = 1 / (problem.length * steps**0.5)
        options["radii"] = problem.radii
    initial = [case.start(width, rng) for _ in range(starts)]
    return [gradient_descent(start, case.inputs, case.targets, **options) for start in initial]


def parts(bound: Bound) -> tuple[float, float]:
    """Return logarithms of two parts of C&E Theorem 1.

    The first part shrinks with the number of steps, the second with the width.
    """
    initial_distance, gradient, *of_width = bound.log_terms.values()
    return log_sum(initial_distance, gradient), log_sum(*of_width)


def needed(problem: Problem, risk: float, *, as_printed: bool = True) -> tuple[float, float]:
    """Return logarithms of the width and the steps at which C&E Eq. (18) promises a risk.

    Half of the risk comes from each. By bisection, since α_m falls with the width.
    """
    log_half = math.log(risk / 2)

    def log_parts(log_width: float) -> tuple[float, float]:
        """Return both parts of the risk after one step, at an even width."""
        width = 2 * round(math.exp(log_width) / 2)
        return parts(theorem_1(problem, width, 1, as_printed=as_printed))

    low = math.log(2)
    high = 350.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        _, of_width = log_parts(middle)
        if of_width > log_half:
            low = middle
        else:
            high = middle
    of_steps, _ = log_parts(high)  # falls with the root of their number
    return high, max(0.0, 2 * (of_steps - log_half))


def _circle(angles: Array) -> Array:
    """Return points on the unit circle, (...) -> (..., 2)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)
