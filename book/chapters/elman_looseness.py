"""How loose the companion's bounds are: each right-hand side beside what was measured on its left,
for one problem, width and steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from book.chapters.elman_extremes import QUANTITIES, largest
from book.chapters.elman_measured import Study, approximation_errors, descents, worst_in_ball
from lwcore.elman import bounds
from lwcore.elman.bounds import log_output_bound
from lwcore.elman.network import empirical_risk

Array = NDArray[np.float64]

_FORMS = (True, False)  # as printed, and as its proof closes

LETTERS = dict(
    zip(QUANTITIES, ("Lemma 1, L", "Lemma 1, β", "Lemma 2, Λ", "Lemma 2, γ"), strict=True)
)


class Comparison(NamedTuple):
    """A bound and what it bounds.

    Attributes:
        log_bounds: Logarithms of the right-hand side as printed and of the one whose proof closes.
        measured: The left-hand side, one value for each start, or one alone where no start enters,
            shape (starts,).
    """

    log_bounds: Sequence[float]
    measured: Array

    @property
    def log_ratios(self) -> tuple[float, float]:
        """Logarithms of both bounds over the largest of the measured values; below 0 where the
        bound was exceeded."""
        most = math.log(self.measured.max())
        printed, repaired = self.log_bounds
        return printed - most, repaired - most


def compare(
    case: Study, width: int, rng: np.random.Generator, *, starts: int = 40, searches: int = 3
) -> dict[str, Comparison]:
    """Compare every bound without descent with a measurement. Tests C&E Lemma 1 and 2 and C&E
    Proposition 3, 4, 5 and 6.

    Constants are searched with one input dimension (more can only raise them) and ``α_m = α +
    ν̄_w/√m``. C&E Proposition 3 is measured where its proof looks, at the transported network; C&E
    Proposition 4 and the first part of 6 at the worst point found in the ball, for the first
    sequence.

    Of each result a comparison, by its name; ν̄_w, ν̄_u > 0.
    """
    problem, radii = case.problem, (case.problem.recurrent_bound, case.problem.input_bound)
    alpha_m = problem.alpha + radii[0] / width**0.5
    constants = [problem.constants(alpha_m, printed) for printed in _FORMS]
    found: dict[str, Comparison] = {}
    for quantity, name in LETTERS.items():
        extreme = largest(quantity, problem.activation, alpha_m, problem.length)
        found[name] = Comparison(
            [getattr(c, f"log_{quantity}") for c in constants], np.array([extreme.value])
        )

    errors = approximation_errors(case, [width], starts, rng)
    ball = [case.start(width, rng) for _ in range(searches)]
    worst, outputs = (
        np.array([worst_in_ball(initial, case.inputs[0], radii, error=e) for initial in ball])
        for e in (True, False)
    )
    approximation, linearisation, whole = (
        [bound(problem, width, as_printed=printed).log for printed in _FORMS]
        for bound in (
            bounds.approximation_bound,
            bounds.linearisation_bound,
            bounds.network_approximation_bound,
        )
    )
    found["Prop. 3"] = Comparison(approximation, errors["one input"].samples[0])
    found["Prop. 4"] = Comparison(linearisation, worst)
    found["Prop. 5"] = Comparison(whole, errors["network"].samples[0])
    found["Prop. 6, output"] = Comparison(
        [log_output_bound(c.log_lipschitz, *radii) for c in constants], outputs
    )
    found["Prop. 6, target"] = Comparison(
        [problem.log_summand] * 2, np.abs(case.targets).reshape(-1)
    )
    return found


def compare_descent(
    case: Study, width: int, steps: int, rng: np.random.Generator, *, runs: int = 3
) -> dict[str, Comparison]:
    """Compare the bounds on projected descent with its risks. Tests C&E Theorem 1 and C&E Corollary
    1.

    The least risk and the risk at the average iterate after τ ≥ 2 steps of the size that the
    theorem asks for; α < 1.
    """
    descended = descents(case, width, steps, runs, rng)
    averages = np.array(
        [empirical_risk(run.average, case.inputs, case.targets) for run in descended]
    )
    theorem, corollary = (
        [bound(case.problem, width, steps, as_printed=printed).log for printed in _FORMS]
        for bound in (bounds.theorem_1, bounds.corollary_1)
    )
    return {
        "Theorem 1": Comparison(theorem, np.array([run.least_risk for run in descended])),
        "Corollary 1": Comparison(corollary, averages),
    }


def parts(bound: bounds.Bound) -> tuple[float, float]:
    """Return the logarithms of the parts of C&E Theorem 1 that shrink with the number of steps, and
    with the width."""
    early = ("initial distance", "gradient")
    kinds = early, [name for name in bound.log_terms if name not in early]
    steps, width = (bounds.log_sum(*(bound.log_terms[name] for name in kind)) for kind in kinds)
    return steps, width


class Need(NamedTuple):
    """What C&E Theorem 1 asks for before it promises a risk.

    Attributes:
        log_width: Logarithm of the width m at which the terms in 1/√m come to half that risk.
        log_steps: Logarithm of the number τ of steps at which the terms in 1/√τ come to the other
            half.
    """

    log_width: float
    log_steps: float


def needed(problem: bounds.Problem, risk: float, *, as_printed: bool = True) -> Need:
    """Solve C&E Eq. (18) for the width and the steps, half the risk for each.

    The width is exact to a tenth of a percent: α_m falls as it grows.
    """
    half = math.log(risk / 2)

    def terms(log_width: float) -> tuple[float, float]:
        width = 2 * round(math.exp(log_width) / 2)
        return parts(bounds.theorem_1(problem, width, 1, as_printed=as_printed))

    low, high = math.log(2), 350.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if terms(middle)[1] > half else (low, middle)
    return Need(high, max(0.0, 2 * (terms(high)[0] - half)))
