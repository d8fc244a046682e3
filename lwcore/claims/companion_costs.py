"""Claims of the companion on memory, and on how width and steps grow with length, sequences, error and dimension."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import optimize

from lwcore.claims import companion_cases as cases
from lwcore.claims.claim import Chapter, Kind, Measured, as_stated, at_least, at_most, exactly, over, rather, when, within
from lwcore.elman import (
    ACTIVATIONS,
    Problem,
    limiting_kernel,
    local_constants,
    risk_gradient,
    symmetric_initialisation,
    theorem_1,
    theorem_2,
)
from lwcore.elman.bounds import parts
from lwcore.elman.cutoff import memory

chapter = Chapter("cayci", Kind.THEOREM)

_DOUBLING = "log of the memory constant μ₀μ₁ at 4000 steps over that at 2000: 2 if it grows exponentially, 1 if it stays"


def _doubling(ratio: float) -> float:
    """What doubling the length does to log μ_T."""
    return memory(ratio, 4000) / memory(ratio, 2000)


@chapter.claim(
    "short-memory-keeps-constants-bounded",
    "Section 1.1; Eq. (10)",
    "Below the cut-off, where the largest recurrent weight times the largest slope is below 1, the memory constant stays bounded "
    "however long the sequence.",
    as_stated(
        "memory constant over the sum 1/(1 − z)³ of its series, up to 100 000 steps, z = 0.1 to 0.999; the largest", at_most(1 + 1e-9)
    ),
    code="lwcore.elman.log_mu",
)
def _() -> Measured:
    ratios = (0.1, 0.5, 0.9, 0.99, 0.999)
    return exactly(math.exp(max(memory(z, length) + 3 * math.log1p(-z) for z in ratios for length in (1, 10, 1000, 100_000))))


@chapter.claim(
    "long-memory-makes-constants-explode",
    "Section 1.1; Theorem 1 (informal)",
    "At the cut-off and beyond, the memory constant grows exponentially with the length.",
    as_stated(_DOUBLING + "; the least of z = 1, 1.05, 1.2 and 2", at_least(1.8)),
    when("beyond the cut-off, not at it", "the same; the least of z = 1.05, 1.2 and 2", at_least(1.8)),
    code="lwcore.elman.log_mu",
    counterexample="At the cut-off μ₀ = T and μ₁ = T (T + 1)/2: the memory constant is T² (T + 1)/2.",
    fair="Beyond the cut-off the constant grows exponentially; at the cut-off, as the cube of the length.",
)
def _() -> tuple[Measured, Measured]:
    found = [_doubling(z) for z in (1.0, 1.05, 1.2, 2.0)]
    return exactly(min(found)), exactly(min(found[1:]))


@chapter.claim(
    "cutoff-at-the-largest-slope",
    "Remark 1",
    "The memory constant is bounded for recurrent weights below the activation's largest slope σ₁, as printed, and grows "
    "exponentially from there on.",
    as_stated(_DOUBLING + "; least of three activations at α = 2 σ₁ (Gaussian: 1.1 σ₁)", at_least(1.8)),
    rather(
        "the cut-off is 1/σ₁, as the sentence before and Remark 5 have it",
        "the ratio 5 % beyond 1/σ₁ less that 5 % below it, least of three activations",
        at_least(0.8),
    ),
    code="lwcore.elman.log_mu",
    counterexample="Logistic, σ₁ = 1/4, α = 1/2: the memory constant stays below 1/(1 − 1/8)³ = 1.49.",
    fair="The cut-off is the inverse of the largest slope; the printed condition has lost the inverse.",
)
def _() -> tuple[Measured, Measured]:
    slopes = {name: ACTIVATIONS[name].slope_bound for name in cases.SMOOTH}
    printed = min(_doubling(factor * slopes[name] ** 2) for name, factor in (("tanh", 2.0), ("logistic", 2.0), ("gaussian", 1.1)))
    return exactly(printed), exactly(_doubling(1.05) - _doubling(0.95))


@chapter.claim(
    "cutoff-of-free-descent",
    "Theorem 2 (informal)",
    "Without projection the memory constant stays bounded if the recurrent weight of the start alone is below the cut-off.",
    as_stated(_DOUBLING + "; tanh, α = 0.95, target error 0.02", at_most(1.1)),
    when(
        "if the target error ε is so small that α + √(2ε) is below the cut-off, too", "the same at a target error of 0.0005", at_most(1.1)
    ),
    code="lwcore.elman.log_mu",
    counterexample="tanh, α = 0.95, ε = 0.02: the full theorem has α + √(2ε) = 1.15, beyond the cut-off 1.",
    fair="The weight that counts is α + √(2ε), as in the full Theorem 2.",
)
def _() -> tuple[Measured, Measured]:
    return exactly(_doubling(0.95 + math.sqrt(2 * 0.02))), exactly(_doubling(0.95 + math.sqrt(2 * 0.0005)))


@chapter.claim(
    "gradients-explode-beyond-the-cutoff",
    "Remark 5",
    "Beyond the cut-off the gradient of the risk grows exponentially with the length.",
    as_stated(
        "growth per step, from 20 to 40 steps, of the logarithm of the risk's squared gradient in networks of 2000 neurons (median "
        "of nine starts; target only at "
        "the last step); least over three activations 1.2 and 1.5 times the cut-off, after an impulse, at constant and at random inputs",
        at_least(0.01),
    ),
    when(
        "for tanh after an impulse, in the mean over infinitely many neurons",
        "growth per step, from 10 to 20 steps, of the logarithm of the limiting kernel; least of 1.2 and 1.5 times the cut-off",
        at_least(0.01),
    ),
    code=("lwcore.elman.risk_gradient", "lwcore.elman.limiting_kernel"),
    counterexample="Logistic, 1.2 times its cut-off (α = 4.8), an impulse: the limiting kernel falls from 0.003 after 10 steps to "
    "below 0.0005 after 40. "
    "tanh, α = 1.5, an impulse, 2000 neurons: the squared gradient falls to 0.0002 of itself from 20 to 40 steps.",
    fair="Beyond the cut-off the bound on the gradient grows exponentially; whether the gradient does depends on whether neurons "
    "stay where the slope is largest.",
    seen="The condition of the second reading was found by looking at which gradients grow.",
)
def _() -> tuple[Measured, Measured]:
    growth = []
    for name in cases.SMOOTH:
        for excess in (1.2, 1.5):
            alpha = excess / ACTIVATIONS[name].slope_bound
            for x in (np.eye(1, 40)[..., None], np.ones((1, 40, 1)), np.random.default_rng(5).uniform(-1, 1, (1, 40, 1))):
                rng, squares = np.random.default_rng(0), []
                for _ in range(9):
                    start = symmetric_initialisation(2000, 1, alpha, rng, name)
                    squares.append([np.square(risk_gradient(start, x[:, :t], np.eye(t)[-1:])[1]).sum() for t in (20, 40)])
                growth.append(float(np.log(np.median(squares, axis=0)) @ [-1, 1]) / 20)
    impulse = np.eye(1, 20)[..., None]
    mean = [limiting_kernel(impulse, alpha=excess, tolerance=1e-3).value[0, 0] for excess in (1.2, 1.5)]
    return exactly(min(growth)), exactly(min(math.log(one[19] / one[9]) / 10 for one in mean))


def _cost(problem: Problem, error: float = 0.01, excess: float = 0.0) -> tuple[float, float]:
    """Logarithms of width and steps at which Theorem 1 promises the error, half of it each, for recurrent weights up to α + excess."""
    # the largest recurrent weight is held fixed while the width varies, as in Remark 5
    radii = max(problem.recurrent_bound, excess * 2**0.5), problem.input_bound
    early, late = parts(theorem_1(problem, 2, 1, radii))
    wanted = math.log(error / 2)
    return 2 * (late - wanted) + math.log(2), 2 * (early - wanted)


def _problem(activation: str, length: int) -> Problem:
    """A problem without recurrent transport, α = 0.5."""
    return Problem(activation, 0.5, length, 2, 0.0, 1.0, sequences=100)


@chapter.claim(
    "width-and-steps-polynomial-below-the-cutoff",
    "Section 1.1; Remark 5",
    "Below the cut-off the width and the steps at which Theorem 1 promises a given risk grow only polynomially with the length.",
    as_stated(
        "exponent of the length from 1000 to 4000 steps; median, least and largest of both and three activations, α = 0.5", at_most(3)
    ),
    code="lwcore.elman.theorem_1",
)
def _() -> Measured:
    return over(
        ((b - a) / math.log(4)) for n in cases.SMOOTH for a, b in zip(_cost(_problem(n, 1000)), _cost(_problem(n, 4000)), strict=True)
    )


@chapter.claim(
    "width-and-steps-beyond-the-cutoff",
    "Remark 5",
    "If recurrent weights go beyond the cut-off, the width and the steps at which Theorem 1 promises a given risk grow "
    "exponentially with the length.",
    as_stated(
        "log of width or steps at 4000 steps of length over that at 2000; median, least and largest of both and three activations, z = 1.1",
        within(1.8, 2.2),
    ),
    code="lwcore.elman.theorem_1",
)
def _() -> Measured:
    found = []
    for name in cases.SMOOTH:
        excess = 1.1 / ACTIVATIONS[name].slope_bound - 0.5
        found += [b / a for a, b in zip(*(_cost(_problem(name, length), excess=excess) for length in (2000, 4000)), strict=True)]
    return over(found)


@chapter.claim(
    "steps-free-of-length",
    "Section 1.1",
    "The number of steps with which projected descent is shown to reach a given risk depends on the length through the memory "
    "constant alone.",
    as_stated(
        "exponent of the length, from 1000 to 4000, in the steps of Theorem 1 below the cut-off; median, least and largest of three "
        "activations",
        within(-0.1, 0.1),
    ),
    rather("it grows as the square of the length", "the same exponent", within(1.9, 2.1)),
    rather(
        "it does not depend on it if the error allowed grows with the length, as the risk sums over time",
        "the same with the error proportional to the length",
        within(-0.1, 0.1),
    ),
    code="lwcore.elman.theorem_1",
    counterexample="Theorem 1's first term is T/√τ times a constant below the cut-off: twice the length asks for four times the steps.",
    fair="τ of the order of poly(μ_T) T²/ε² suffices, or poly(μ_T)/ε² for the error per step of the sequence.",
)
def _() -> tuple[Measured, Measured, Measured]:
    def exponent(name: str, grows: bool) -> float:
        ends = [_cost(_problem(name, length), 1e-5 * (length if grows else 1000))[1] for length in (1000, 4000)]
        return (ends[1] - ends[0]) / math.log(4)

    fixed = over(exponent(name, False) for name in cases.SMOOTH)
    return fixed, fixed, over(exponent(name, True) for name in cases.SMOOTH)


@chapter.claim(
    "radii-in-the-overview",
    "Theorem 1 (informal)",
    "The part of the guarantee that shrinks with the steps is in proportion to the norm of the radii, the part that shrinks with "
    "the width to its square.",
    as_stated(
        "exponents of the radius in the two parts of the full Theorem 1, less 1 and 2; median, least and largest over three activations",
        within(-0.05, 0.05),
    ),
    rather("they grow with the square and the cube of the radii", "the same exponents less 2 and 3", within(-0.05, 0.05)),
    code="lwcore.elman.theorem_1",
    counterexample="Eq. (18): its first part has the square of the bound on outputs, L ‖ρ‖, its second that bound times ‖ρ‖² from "
    "the linearisation.",
    fair="The order is ‖ρ‖² T/√τ + ‖ρ‖³ T √log(2nT/δ)/√m, unless the powers of the radii are counted among the constants.",
)
def _() -> tuple[Measured, Measured]:
    found = []
    for name in cases.SMOOTH:
        near, far = (np.array(parts(theorem_1(_problem(name, 5), 2, 1, (1e-9, radius)))) for radius in (1e6, 1e8))
        found += list((far - near) / math.log(100) - [1, 2])
    return over(found), over(np.array(found) - 1)


@chapter.claim(
    "width-logarithmic-in-sequences",
    "Section 1.1; Remark 6",
    "The width at which a given risk is promised grows no faster than the logarithm of the number of training sequences.",
    as_stated(
        "growth of the width from 10 to 10⁸ sequences over that of log(2nT/δ), Theorems 1 and 2, three activations; the largest",
        at_most(1 + 1e-9),
    ),
    code=("lwcore.elman.theorem_1", "lwcore.elman.theorem_2"),
)
def _() -> Measured:
    found = []
    for name in cases.SMOOTH:
        few, many = (dataclasses.replace(_problem(name, 5), sequences=n) for n in (10, 10**8))
        for widths in ([_cost(one)[0] for one in (few, many)], [theorem_2(one, 0.01).log_width for one in (few, many)]):
            found.append(widths[1] - widths[0] - 2 * (many.log_union - few.log_union))
    return exactly(math.exp(max(found)))


@chapter.claim(
    "projection-saves-one-over-error",
    "Section 1.1; Remark 1",
    "Projection lowers the steps and the width that suffice from the order of 1/ε³ to that of 1/ε², ε the risk wanted.",
    as_stated(
        "exponent of 1/ε without projection less that with it, ε near 10⁻⁹; median, least and largest of width and steps, three "
        "activations",
        within(0.95, 1.05),
    ),
    code=("lwcore.elman.theorem_1", "lwcore.elman.theorem_2"),
)
def _() -> Measured:
    found = []
    for name in cases.SMOOTH:
        problem, errors = Problem(name, 0.5, 5, 2, 0.4, 0.6, sequences=10), (1e-9, 1e-10)
        free = np.array([(plan.log_width, plan.log_steps) for plan in (theorem_2(problem, error) for error in errors)])
        held = np.array([(_width(problem, error), _cost(problem, error)[1]) for error in errors])
        found += list((np.diff(free, axis=0) - np.diff(held, axis=0))[0] / math.log(10))
    return over(found)


def _width(problem: Problem, error: float) -> float:
    """Log of the least width at which the terms of Theorem 1 that shrink with it make half the error, α_m = α + ρ_w/√m included."""

    def above(log_width: float) -> float:
        width = 2 * round(math.exp(log_width) / 2)
        return parts(theorem_1(problem, width, 1))[1] - math.log(error / 2)

    return float(optimize.brentq(above, math.log(10), 200.0, xtol=1e-9))


@chapter.claim(
    "bounds-sharp-in-dimension",
    "abstract",
    "The bound on the width is sharp in the dimension of the inputs.",
    as_stated(
        "exponent of the dimension, from 10⁴ to 10⁶, in the width of Theorem 1; median, least and largest of three activations",
        at_most(0.1),
    ),
    rather(
        "the width need not grow with the dimension: the state is smooth with a constant that is free of it",
        "largest curvature found by search over that constant, dimensions 1, 4 and 8, three activations",
        at_most(1),
    ),
    code=("lwcore.elman.theorem_1", "lwcore.elman.local_constants"),
    counterexample="The printed β_t sums bounds on single second derivatives, d² of them, though the Hessian in the input weights is a "
    "combination of products of the inputs, each of Frobenius norm 1 at the most: at t = 1 it is σ″ X Xᵀ.",
    fair="The bound on the width is logarithmic in the number of sequences; that it grows with the dimension is due to the estimate "
    "of the Hessian.",
    slow=True,
)
def _() -> tuple[Measured, Measured]:
    exponents, ratios = [], []
    for name in cases.SMOOTH:
        widths = [_cost(dataclasses.replace(_problem(name, 5), dimension=d))[0] for d in (10**4, 10**6)]
        exponents.append((widths[1] - widths[0]) / math.log(100))
        for dimension in (1, 4, 8):
            place = 0.8, 3, dimension
            free = local_constants(name, 0.8, 3, 1, as_printed=False).log_smoothness
            ratios.append(cases.largest(cases.curvature, name, place, starts=16) / math.exp(free))
    return over(exponents), exactly(max(ratios))
