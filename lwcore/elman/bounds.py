"""Right-hand sides of the companion's approximation and convergence results.

A `Problem` holds what they share. Each result is a `Bound`: its terms by name, as natural logarithms, because beyond the cut-off ``α_m σ₁
= 1`` they grow exponentially with T. Width and radii are arguments; a radius left out is the least allowed, ν̄.

``as_printed=True`` gives a formula as it stands; ``as_printed=False`` one whose proof closes, built on the constants that hold
(`lwcore.elman.constants`). Where they differ, each function says how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from lwcore.arguments import flag, instance_of, integer_in, real_in
from lwcore.elman.activations import Activation
from lwcore.elman.constants import LocalConstants, local_constants, log_output_bound, log_sum, log_target_bound, smooth
from lwcore.elman.network import checked_radii, even_width

Radii = tuple[float, float]


@dataclass(frozen=True)
class Problem:
    """A learning problem: a target from the class C&E Eq. (9), and the data.

    Attributes:
        activation: A smooth activation, or its name.
        alpha: Size α > 0 of the recurrent weights at the start; the theorems ask for α < 1.
        length: Sequence length T ≥ 1.
        dimension: Dimension d ≥ 1 of an input.
        recurrent_bound: ν̄_w ≥ 0, supremum of the transport map v_w.
        input_bound: ν̄_u ≥ 0, supremum of ‖v_u‖; not both may be 0.
        sequences: Number n ≥ 1 of training sequences.
        failure: Probability δ in (0, 1) with which a bound may fail, over the random start.
    """

    activation: str | Activation
    alpha: float
    length: int
    dimension: int
    recurrent_bound: float
    input_bound: float
    sequences: int = 1
    failure: float = 0.05

    def __post_init__(self) -> None:
        """Check everything."""
        smooth(self.activation)
        for name, interval in (("alpha", "(0, inf)"), ("recurrent_bound", "[0, inf)"), ("input_bound", "[0, inf)"), ("failure", "(0, 1)")):
            real_in(name, getattr(self, name), interval)
        for name in ("length", "dimension", "sequences"):
            integer_in(name, getattr(self, name), 1)
        if not self.norm:
            raise ValueError("recurrent_bound = input_bound = 0: one must be above 0, else the target is 0.")

    @property
    def sigma(self) -> Activation:
        """The activation σ itself."""
        return smooth(self.activation)

    @property
    def norm(self) -> float:
        """``√(ν̄_w² + ν̄_u²)``."""
        return math.hypot(self.recurrent_bound, self.input_bound)

    @property
    def log_union(self) -> float:
        """``log √log(2nT/δ)``, for a bound that holds at all steps of all sequences at once."""
        return 0.5 * math.log(math.log(2 * self.sequences * self.length / self.failure))

    @property
    def log_summand(self) -> float:
        """Log of the largest size of a neuron's share in the target; the same as ``log y^max``."""
        return log_target_bound(self.activation, self.alpha, self.length, self.recurrent_bound, self.input_bound)

    def radii(self, radii: Radii | None) -> Radii:
        """Return projection radii after checking that they are at least (ν̄_w, ν̄_u), which they are by default."""
        if radii is None:
            return self.recurrent_bound, self.input_bound
        for i, (radius, least) in enumerate(zip(checked_radii(radii, "[0, inf)"), (self.recurrent_bound, self.input_bound), strict=True)):
            if not radius >= least:
                raise ValueError(f"radii[{i}] = {radius!r}: must be at least the transport map's bound, {least!r}.")
        return radii

    def constants(self, recurrent_bound: float, as_printed: bool) -> LocalConstants:
        """Return L_T, β_T, Λ_T and γ_T for recurrent weights up to α_m."""
        return local_constants(
            self.activation, recurrent_bound, self.length, self.dimension, alpha=self.alpha if as_printed else None, as_printed=as_printed
        )


class Bound(NamedTuple):
    """A right-hand side.

    Attributes:
        log_terms: Natural logarithm of each of its summands, by name.
    """

    log_terms: dict[str, float]

    @property
    def log(self) -> float:
        """Logarithm of the sum."""
        return log_sum(*self.log_terms.values())

    @property
    def value(self) -> float:
        """The sum; infinite where it overflows."""
        return math.exp(self.log) if self.log < 709 else math.inf


def approximation_bound(problem: Problem, width: int, *, as_printed: bool = True) -> Bound:
    """Bound ``|F̃_T − F^Lin_T|`` at one input. Implements C&E Proposition 3.

    As printed, ``2 B √(log(1/δ)/m)`` with ``B = μ_{0,T}(ασ₁) σ₁ (ν̄_u + σ₀ ν̄_w)``, for the best point of the ball, which may change with
    input and step. The proof looks at the transported point, where two sides count: ``2 B √(log(2/δ)/m)`` (it has a further √2, from a
    loose use of Hoeffding's inequality). C&E Proposition 5 needs one point for all inputs and steps, so it is the second that it rests
    on.

    Args:
        problem: The problem.
        width: Number m of neurons, even.
        as_printed: False for the transported point.

    Returns:
        The bound, met with probability 1 − δ.
    """
    instance_of("problem", problem, Problem)
    flag("as_printed", as_printed)
    width = even_width("width", width)
    chances = math.log((1 if as_printed else 2) / problem.failure)
    return Bound({"approximation": math.log(2) + problem.log_summand + 0.5 * math.log(chances / width)})


def linearisation_bound(problem: Problem, width: int, radii: Radii | None = None, *, as_printed: bool = True) -> Bound:
    """Bound ``|F_T − F^Lin_T|`` at every Θ within the radii. Implements C&E Proposition 4.

    As printed, ``2 (Λ_T² σ₂ + γ_T σ₁) (ρ_w² + ρ_u²)/√m``, the displacement at its largest. Smoothness of the state itself gives
    ``β_T (ρ_w² + ρ_u²)/(2√m)`` at once, without Λ_T and γ_T (``as_printed=False``): Taylor's remainder, neuron by neuron.

    Args:
        problem: The problem.
        width: Number m of neurons, even.
        radii: (ρ_w, ρ_u), such that ``|W_ii − W_ii(0)| ≤ ρ_w/√m`` and ``‖U_i − U_i(0)‖ ≤ ρ_u/√m``; None for (ν̄_w, ν̄_u).
        as_printed: False for the direct bound.

    Returns:
        The bound, which holds surely.
    """
    instance_of("problem", problem, Problem)
    flag("as_printed", as_printed)
    width, (rho_w, rho_u) = even_width("width", width), problem.radii(radii)
    error = _linearisation(problem, problem.alpha + rho_w / width**0.5, as_printed)
    return Bound({"linearisation": error + 2 * math.log(math.hypot(rho_w, rho_u)) - 0.5 * math.log(width)})


def network_approximation_bound(problem: Problem, width: int, *, as_printed: bool = True) -> Bound:
    """Bound ``|F̃_t − F_t|`` of the transported network at all steps of all sequences. Implements C&E Proposition 5.

    Its first term, with ``log(2nT/δ)``, is what the union of two-sided bounds gives. The second is that of `linearisation_bound`.

    Args:
        problem: The problem.
        width: Number m of neurons, even.
        as_printed: False for the linearisation error that needs no Λ_T and γ_T.

    Returns:
        The bound, met with probability 1 − δ.
    """
    instance_of("problem", problem, Problem)
    flag("as_printed", as_printed)
    width = even_width("width", width)
    first = math.log(2) + problem.log_summand + problem.log_union - 0.5 * math.log(width)
    return Bound({"approximation": first, **linearisation_bound(problem, width, as_printed=as_printed).log_terms})


def theorem_1(problem: Problem, width: int, steps: int, radii: Radii | None = None, *, as_printed: bool = True) -> Bound:
    """Bound the least risk of projected descent with ``η = 1/(T√τ)``. Implements C&E Eqs. (18) and (19), C&E Theorem 1.

    As printed, ``T/√τ (‖ν̄‖²/2 + L²φ²/2) + Tφ err/√m`` with ``φ = F^max + y^max``. Its proof descends on half the risk C&E Eq. (1);
    descent on the risk itself, C&E Eq. (5), has twice the gradient, and the same proof gives ``T/√τ (‖ν̄‖²/4 + L²φ²) + Tφ err/√m``
    (``as_printed=False``). In err the printed first term is ``L_T ‖ν̄‖ √log(2nT/δ)``, where C&E Proposition 5 has ``2 μ_{0,T} σ₁ (ν̄_u +
    σ₀ ν̄_w) √log(2nT/δ)``.

    Args:
        problem: The problem, with α in (0, 1).
        width: Number m of neurons, even.
        steps: Number τ ≥ 1 of steps.
        radii: Projection radii (ρ_w, ρ_u), at least (ν̄_w, ν̄_u); None for these.
        as_printed: False for the bound on descent as C&E Eq. (1) and C&E Eq. (5) have it.

    Returns:
        The bound, met with probability 1 − δ.
    """
    instance_of("problem", problem, Problem)
    flag("as_printed", as_printed)
    _inside(problem)
    width, steps, (rho_w, rho_u) = even_width("width", width), integer_in("steps", steps, 1), problem.radii(radii)
    alpha_m = problem.alpha + rho_w / width**0.5
    log_l = problem.constants(alpha_m, as_printed).log_lipschitz
    log_phi = log_sum(log_output_bound(log_l, rho_w, rho_u), problem.log_summand)
    early = math.log(problem.length) - 0.5 * math.log(steps)
    late = math.log(problem.length) + log_phi - 0.5 * math.log(width)
    errors = _errors(problem, alpha_m, 2 * math.log(math.hypot(rho_w, rho_u)), as_printed)
    return Bound(
        {
            "initial distance": early + 2 * math.log(problem.norm) - math.log(2 if as_printed else 4),
            "gradient": early + 2 * log_l + 2 * log_phi - (math.log(2) if as_printed else 0),
            **{name: late + term for name, term in errors.items()},
        }
    )


def parts(bound: Bound) -> tuple[float, float]:
    """Return the logarithms of the two parts of C&E Theorem 1: what shrinks with the number of steps, and what shrinks with the width."""
    early = ("initial distance", "gradient")
    kinds = early, [name for name in bound.log_terms if name not in early]
    steps, width = (log_sum(*(bound.log_terms[name] for name in kind)) for kind in kinds)
    return steps, width


def corollary_1(problem: Problem, width: int, steps: int, radii: Radii | None = None, *, as_printed: bool = True) -> Bound:
    """Bound the risk at the average iterate of projected descent. Implements C&E Corollary 1.

    Four times the bound of C&E Theorem 1, and the price of going to the linearised model and back. As printed, that price is
    ``6 (Λ_T² σ₂ + γ_T σ₁) (ρ_w² + ρ_u²)/m``. The linearisation error enters squared and at every step: it is ``6 T`` times the square of
    C&E Proposition 4's bound (``as_printed=False``).

    Args:
        problem: The problem, with α in (0, 1).
        width: Number m of neurons, even.
        steps: Number τ ≥ 2 of steps.
        radii: Projection radii (ρ_w, ρ_u), at least (ν̄_w, ν̄_u); None for these.
        as_printed: False for the repaired price and the bounds that hold.

    Returns:
        The bound, met with probability 1 − δ.
    """
    instance_of("problem", problem, Problem)
    flag("as_printed", as_printed)
    first = theorem_1(problem, width, integer_in("steps", steps, 2), radii, as_printed=as_printed)
    once = linearisation_bound(problem, width, radii, as_printed=as_printed).log
    if as_printed:
        price = math.log(3) + once - 0.5 * math.log(width)
    else:
        price = math.log(6 * problem.length) + 2 * once
    return Bound({name: math.log(4) + term for name, term in first.log_terms.items()} | {"there and back": price})


class TrainingPlan(NamedTuple):
    """What C&E Theorem 2 asks for and promises, as natural logarithms.

    Attributes:
        log_radius: log λ, the distance (times √m) that no neuron leaves before the last step.
        log_step_size: log η, the largest step size.
        log_width: log m, the least width.
        log_steps: log τ₀, the number of steps after which to stop.
        log_risk: Logarithm of the promised least risk.
    """

    log_radius: float
    log_step_size: float
    log_width: float
    log_steps: float
    log_risk: float


def theorem_2(problem: Problem, error: float, *, as_printed: bool = True) -> TrainingPlan:
    """Return step size, width, number of steps and promised risk of descent without projection. Implements C&E Theorem 2.

    Implements C&E Eqs. (26) and (28), the promise and the number of steps.

    As printed, the promise is ``9ε/4``, with ``λ = L_T ‖ν̄‖²/√ε``. Three steps of its proof do not close: λ has lost the proof's √T, and
    neurons do leave the printed radius before τ₀; ``Σ_t |error_t|`` is taken for the root of the risk, which costs another √T in the width;
    and ``(√R − √ε/2)² ≥ R − ε/4`` fails for every R > ε/4. With these mended (``as_printed=False``), m has ``T err²`` in the place of
    err²; then ``q = err √(T/m) ≤ √(2ε)`` and ``η T²L²φ² ≤ ε/2`` give ``mean (√R − q/2)² ≤ ‖ν̄‖²/(4ητ₀) + ε``, so that the best step has
    ``R ≤ (√½ + √((1 + √2)²/4 + 1))² ε = 5.17 ε``, for descent on C&E Eq. (1) itself. C&E Eq. (27) has √ε/2 in the place of ``q/2 ≤ √(ε/2)``
    and ε/2 in the place of ε, as it leaves out the steps' own length; from it as it stands follows 3.61 ε.

    Args:
        problem: The problem, with α in (0, 1).
        error: Target error ε > 0.
        as_printed: False for the repaired version.

    Returns:
        The plan.
    """
    instance_of("problem", problem, Problem)
    flag("as_printed", as_printed)
    _inside(problem)
    log_error = math.log(real_in("error", error, "(0, inf)"))
    alpha_target = problem.alpha + math.sqrt(2 * error)
    log_l = problem.constants(alpha_target, as_printed).log_lipschitz
    length = math.log(problem.length)
    log_radius = log_l + 2 * math.log(problem.norm) - 0.5 * log_error + (0 if as_printed else length / 2)
    log_phi = log_sum(log_l + log_radius + 0.5 * math.log(2), problem.log_summand)
    log_step = log_error - math.log(2) - 2 * (length + log_l + log_phi)
    errors = log_sum(*_errors(problem, alpha_target, 2 * log_radius + math.log(2), as_printed).values())
    log_width = log_sum(2 * errors + (0 if as_printed else length), 2 * log_radius) - math.log(2) - log_error
    log_steps = 2 * math.log(problem.norm) - 2 * math.log(math.sqrt(2) + 1) - log_step - log_error
    factor = 9 / 4 if as_printed else (math.sqrt(0.5) + math.sqrt((1 + math.sqrt(2)) ** 2 / 4 + 1)) ** 2
    return TrainingPlan(log_radius, log_step, log_width, log_steps, log_error + math.log(factor))


def _errors(problem: Problem, alpha_m: float, log_square: float, as_printed: bool) -> dict[str, float]:
    """Return the terms of C&E Eq. (19), as logarithms, from the logarithm of ρ_w² + ρ_u²."""
    constants = problem.constants(alpha_m, as_printed)
    approximation = constants.log_lipschitz + math.log(problem.norm) if as_printed else math.log(2) + problem.log_summand
    return {
        "approximation": approximation + problem.log_union,
        "linearisation": _linearisation(problem, alpha_m, as_printed) + log_square,
        "change of features": math.log(2) + constants.log_smoothness + log_square,
    }


def _linearisation(problem: Problem, alpha_m: float, as_printed: bool) -> float:
    """Return the logarithm of what stands before ``(ρ_w² + ρ_u²)/√m`` in C&E Proposition 4."""
    constants, sigma = problem.constants(alpha_m, as_printed), problem.sigma
    if not as_printed:
        return constants.log_smoothness - math.log(2)
    products = 2 * constants.log_product_lipschitz + math.log(sigma.curvature_bound)
    return math.log(2) + log_sum(products, constants.log_product_smoothness + math.log(sigma.slope_bound))


def _inside(problem: Problem) -> None:
    """Check that α lies in (0, 1), for the theorems."""
    real_in("alpha", problem.alpha, "(0, 1)")
