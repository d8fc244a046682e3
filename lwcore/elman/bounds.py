"""Constants of a neuron, and the right-hand sides of the approximation and convergence results.

The companion's letters and the names here: μ_{0,t}, μ_{1,t} ``log_mu``; L_t, β_t ``lipschitz`` and
``smoothness`` of ``Θ_i ↦ H_t``; Λ_t, γ_t the same of ``Θ_i ↦ W_ii H_t``; ``α_m ≥ |W_ii|``
``recurrent_bound``; σ₀, σ₁, σ₂ the suprema of an activation and its first two derivatives; m the
width, T the length, τ the steps of descent. Beyond the cut-off ``α_m σ₁ = 1`` all grow
exponentially with t, so everything is kept as a natural logarithm: products are sums here, and sums
are `log_sum`.

``as_printed=True`` gives a formula as it stands in the companion, ``as_printed=False`` a bound
whose proof closes, built on the constants that hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lwcore.elman.network import ACTIVATIONS, Activation, Radii, Smooth, Width
from lwcore.signatures import (
    Count,
    Finite,
    Int64Count,
    NotNegative,
    Positive,
    Share,
    checked,
    require,
)

_LOG_2 = math.log(2)


@checked
def log_mu(z: Positive, length: Count) -> tuple[float, float]:
    """Return the logarithms of ``μ_{0,t} = Σ_{k<t} z^k`` and ``μ_{1,t} = Σ_{k<t} (k + 1) z^k``.

    Implements C&E Eqs. (10) and (30), which are the same.
    """
    k = np.arange(length)
    log_powers = k * math.log(z)
    mu0 = np.logaddexp.reduce(log_powers)
    mu1 = np.logaddexp.reduce(log_powers + np.log1p(k))
    return float(mu0), float(mu1)


def log_sum(*terms: float) -> float:
    """Return the logarithm of a sum from the logarithms of its terms; nothing overflows."""
    return float(np.logaddexp.reduce(terms))


class LocalConstants(NamedTuple):
    """Logarithms of L_t, β_t, of a neuron's state, and of Λ_t, γ_t, of its weight times state."""

    log_lipschitz: float
    log_smoothness: float
    log_product_lipschitz: float
    log_product_smoothness: float


@checked
def local_constants(
    activation: Smooth,
    recurrent_bound: Positive,
    length: Count,
    dimension: Count,
    *,
    alpha: Positive | None = None,
    as_printed: bool = True,
) -> LocalConstants:
    """Return L_t, β_t, Λ_t and γ_t. Implements C&E Eq. (31), C&E Lemma 1 and C&E Lemma 2.

    The dimension and α, in places of α_m, enter the printed β_t alone. What holds differs thus:

    * L_t: printed is a bound on the *square* of the gradient's norm, too small where it is below 1.
    * β_t: two of the printed second derivatives are wrong, which surplus elsewhere covered where it
      was tried. What holds does not grow with d: the recursion of the Hessian, in Frobenius's norm.
    * Λ_t: ``σ₀ + α_m L_t``; the printed √2 (σ₀ + 1 + α_m L_t) is larger, but for too small an L_t.
    * γ_t: ``2 L_t + α_m β_t``; √2 (L_t + α_m β_t) has the mixed derivative once too few.
    """
    if as_printed:
        alpha_or_bound = recurrent_bound if alpha is None else alpha
        return _printed_constants(activation, recurrent_bound, length, dimension, alpha_or_bound)
    return _constants_that_hold(activation, recurrent_bound, length)


def _log_suprema(sigma: Activation) -> tuple[float, float, float]:
    return math.log(sigma.bound), math.log(sigma.slope_bound), math.log(sigma.curvature_bound)


def _printed_constants(
    activation: Smooth, recurrent_bound: float, length: int, dimension: int, alpha: float
) -> LocalConstants:
    """Return the constants as printed. All names are logarithms, those of suits the companion's."""
    sigma = ACTIVATIONS[activation]
    s0, s1, s2 = _log_suprema(sigma)
    a = math.log(alpha)
    a_m = math.log(recurrent_bound)
    mu0, mu1 = log_mu(recurrent_bound * sigma.slope_bound, length)
    features = math.log(sigma.bound**2 + 1)  # of H and X, ‖[H, X]‖²
    d = math.log(dimension)
    root_d = d / 2
    root_2 = _LOG_2 / 2
    slope = 2 * s1 + 2 * mu0  # (σ₁ μ₀)²

    # L_t and β_t
    lipschitz = 2 * mu0 + features + 2 * s1
    club = s2 + log_sum(a + s1 + mu0, 0) + mu1
    diamond = log_sum(slope, s0 + s1 + mu0 + mu1)
    heart = mu1 + log_sum(s1, s2, a + s1 + s2 + mu0)
    spade = log_sum(slope, s0 + club)
    smoothness = log_sum(d + club, root_d + diamond, root_d + heart, spade)

    # Λ_t and γ_t
    product_lipschitz = root_2 + log_sum(s0, 0, a_m + lipschitz)
    product_smoothness = root_2 + log_sum(lipschitz, a_m + smoothness)
    return LocalConstants(lipschitz, smoothness, product_lipschitz, product_smoothness)


def _constants_that_hold(activation: Smooth, recurrent_bound: float, length: int) -> LocalConstants:
    """Return constants whose proofs close, see `local_constants`. All names are logarithms."""
    sigma = ACTIVATIONS[activation]
    s0, s1, s2 = _log_suprema(sigma)
    a_m = math.log(recurrent_bound)
    mu0, _ = log_mu(recurrent_bound * sigma.slope_bound, length)
    features = math.log(sigma.bound**2 + 1)  # of H and X, ‖[H, X]‖²

    lipschitz = mu0 + features / 2 + s1
    # β_t sums, over the steps k, what the Hessian gains there times what is left of it at t: the
    # curvature σ₂ of the step's own pre-activation, and the mixed derivative of weight and state.
    powers = np.arange(length) * (a_m + s1)
    mu0_after = np.logaddexp.accumulate(powers)[::-1]  # μ_{0,t−k}
    curved = powers + s2 + features + 2 * mu0_after
    mixed = powers[:-1] + _LOG_2 + 2 * s1 + features / 2 + mu0_after[1:]
    summands = np.concatenate([curved, mixed])
    smoothness = float(np.logaddexp.reduce(summands))

    product_lipschitz = log_sum(s0, a_m + lipschitz)
    product_smoothness = log_sum(_LOG_2 + lipschitz, a_m + smoothness)
    return LocalConstants(lipschitz, smoothness, product_lipschitz, product_smoothness)


@checked
def log_output_bound(log_lipschitz: Finite, radii: Radii) -> float:
    """Return ``log F^max = log(L_T √(ρ_w² + ρ_u²))``, of a bound on every output within the radii.

    Implements C&E Proposition 6, first part. With the printed L_T of the logistic it fails.
    """
    size = math.hypot(*radii)
    if size == 0:
        return -math.inf
    return log_lipschitz + math.log(size)


@checked
@dataclass(frozen=True)
class Problem:
    """A learning problem: a target from the class C&E Eq. (9), and the data."""

    activation: Smooth
    alpha: Positive  # α, size of the recurrent weights at the start; the theorems ask for α < 1
    length: Count  # T
    dimension: Count  # d, of an input
    recurrent_bound: NotNegative  # ν̄_w, supremum of the transport map v_w
    input_bound: NotNegative  # ν̄_u, supremum of ‖v_u‖
    sequences: Int64Count = 1  # n, of training
    failure: Share = 0.05  # δ, probability that a bound fails, over the random start

    def __post_init__(self) -> None:
        """Refuse a target that is 0."""
        require("√(recurrent_bound² + input_bound²)", self.norm, self.norm > 0, "above 0")

    @property
    def norm(self) -> float:
        """The size of the target, ``‖ν̄‖ = √(ν̄_w² + ν̄_u²)``."""
        return math.hypot(self.recurrent_bound, self.input_bound)

    @property
    def log_union(self) -> float:
        """``log √log(2nT/δ)``, for a bound on all steps of all sequences at once."""
        return 0.5 * math.log(math.log(2 * self.sequences * self.length / self.failure))

    @property
    def log_summand(self) -> float:
        """Log of the largest share of a neuron in the target, ``σ₁ μ_{0,T}(α σ₁) (ν̄_u + σ₀ ν̄_w)``.

        Also ``log y^max``, a bound on all targets: implements C&E Proposition 6, second part.
        """
        sigma = ACTIVATIONS[self.activation]
        size = sigma.slope_bound * (self.input_bound + sigma.bound * self.recurrent_bound)
        mu0, _ = log_mu(self.alpha * sigma.slope_bound, self.length)
        return math.log(size) + mu0

    @property
    def radii(self) -> tuple[float, float]:
        """The least radii that a projection may have, (ν̄_w, ν̄_u)."""
        return self.recurrent_bound, self.input_bound

    def constants(self, recurrent_bound: float, as_printed: bool) -> LocalConstants:
        """Return L_T, β_T, Λ_T and γ_T of this problem for recurrent weights up to α_m."""
        return local_constants(
            self.activation,
            recurrent_bound,
            self.length,
            self.dimension,
            alpha=self.alpha,
            as_printed=as_printed,
        )


class Bound(NamedTuple):
    """A right-hand side: the natural logarithm of each of its summands, by name."""

    log_terms: dict[str, float]

    @property
    def log(self) -> float:
        """Natural logarithm of the sum, finite also where the sum itself overflows."""
        return log_sum(*self.log_terms.values())

    @property
    def value(self) -> float:
        """The sum; infinite where it overflows."""
        return math.exp(self.log) if self.log < 709 else math.inf


@checked
def approximation_bound(problem: Problem, width: Width, *, as_printed: bool = True) -> Bound:
    """Return a bound on ``|F̃_T − F^Lin_T|`` at one input with probability 1 − δ.

    Implements C&E Proposition 3. As printed, ``2 B √(log(1/δ)/m)`` with B = exp(`log_summand`), for
    the best point of the ball, which may change with input and step. The proof looks at the
    transported point, where two sides count, ``2 B √(log(2/δ)/m)``.
    """
    sides = 1 if as_printed else 2
    log_chances = math.log(sides / problem.failure)
    root = 0.5 * math.log(log_chances / width)
    return Bound({"approximation": _LOG_2 + problem.log_summand + root})


@checked
def linearisation_bound(problem: Problem, width: Width, *, as_printed: bool = True) -> Bound:
    """Return a bound on ``|F_T − F^Lin_T|`` within the least radii. Implements C&E Proposition 4.

    As printed, ``2 (Λ_T² σ₂ + γ_T σ₁) ‖ν̄‖²/√m``, the displacement at its largest. Taylor's
    remainder, neuron by neuron, gives ``β_T ‖ν̄‖²/(2√m)`` at once (``as_printed=False``).
    """
    alpha_m = problem.alpha + problem.recurrent_bound / width**0.5
    log_square = 2 * math.log(problem.norm)  # of ‖ν̄‖²
    error = _errors(problem, alpha_m, log_square, as_printed)["linearisation"]
    return Bound({"linearisation": error - 0.5 * math.log(width)})


@checked
def network_approximation_bound(
    problem: Problem, width: Width, *, as_printed: bool = True
) -> Bound:
    """Return a bound on ``|F̃_t − F_t|`` of the transported network at all steps of all sequences.

    Implements C&E Proposition 5, which holds with probability 1 − δ: the union of two-sided bounds,
    and `linearisation_bound`, printed or not.
    """
    approximation = _LOG_2 + problem.log_summand + problem.log_union - 0.5 * math.log(width)
    linearisation = linearisation_bound(problem, width, as_printed=as_printed).log_terms
    return Bound({"approximation": approximation, **linearisation})


@checked
def theorem_1(
    problem: Problem,
    width: Width,
    steps: Count,
    radii: Radii | None = None,
    *,
    as_printed: bool = True,
) -> Bound:
    """Return a bound on the least risk of projected descent, with probability 1 − δ.

    Implements C&E Eqs. (18) and (19), C&E Theorem 1, for α in (0, 1) and a step size of
    ``η = 1/(T√τ)``. As printed, with ``φ = F^max
    + y^max``, it is ``T/√τ (‖ν̄‖²/2 + L²φ²/2) + Tφ err/√m``, of descent on half the risk C&E Eq.
    (1). On the risk itself, C&E Eq. (5), with twice the gradient, the same proof gives ``T/√τ
    (‖ν̄‖²/4 + L²φ²) + Tφ err/√m``. The first term of err has ``L_T ‖ν̄‖``, printed, where C&E
    Proposition 5 has ``2 μ_{0,T} σ₁ (ν̄_u + σ₀ ν̄_w)``.

    Args:
        steps: τ, the steps of descent.
        radii: (ρ_w, ρ_u) of the projection; the least that hold the target if None.
    """
    require("problem.alpha", problem.alpha, problem.alpha < 1, "in (0, 1)")
    radii = radii or problem.radii
    rho_w, rho_u = radii
    is_enough = rho_w >= problem.recurrent_bound and rho_u >= problem.input_bound
    require("radii", radii, is_enough, f"at least {problem.radii}, as the target asks")
    alpha_m = problem.alpha + rho_w / width**0.5
    log_l = problem.constants(alpha_m, as_printed).log_lipschitz
    log_phi = log_sum(log_output_bound(log_l, radii), problem.log_summand)
    log_t = math.log(problem.length)
    by_steps = log_t - 0.5 * math.log(steps)  # T/√τ
    by_width = log_t + log_phi - 0.5 * math.log(width)  # Tφ/√m
    # What ‖ν̄‖² and L²φ² are divided by.
    log_divisor_of_distance = _LOG_2 if as_printed else math.log(4)
    log_divisor_of_gradient = _LOG_2 if as_printed else 0.0
    log_distance = 2 * math.log(problem.norm)
    terms = {
        "initial distance": by_steps + log_distance - log_divisor_of_distance,
        "gradient": by_steps + 2 * log_l + 2 * log_phi - log_divisor_of_gradient,
    }
    log_square = 2 * math.log(math.hypot(*radii))
    for name, error in _errors(problem, alpha_m, log_square, as_printed).items():
        terms[name] = by_width + error
    return Bound(terms)


@checked
def corollary_1(problem: Problem, width: Width, steps: Count, *, as_printed: bool = True) -> Bound:
    """Return a bound on the risk at the average iterate of τ ≥ 2 steps of projected descent.

    Implements C&E Corollary 1: four times the bound of C&E Theorem 1, and the price of going to the
    linear model and back, printed as ``6 (Λ_T² σ₂ + γ_T σ₁) ‖ν̄‖²/m``. But the linearisation error
    enters squared and at every step: ``6 T`` times the square of C&E Proposition 4's bound.
    """
    require("steps", steps, steps >= 2, "2 or above")
    log_linearisation = linearisation_bound(problem, width, as_printed=as_printed).log
    if as_printed:
        log_price = math.log(3) + log_linearisation - 0.5 * math.log(width)
    else:
        log_price = math.log(6 * problem.length) + 2 * log_linearisation
    terms = {}
    for name, term in theorem_1(problem, width, steps, as_printed=as_printed).log_terms.items():
        terms[name] = math.log(4) + term
    terms["there and back"] = log_price
    return Bound(terms)


class TrainingPlan(NamedTuple):
    """What C&E Theorem 2 asks for and promises, as natural logarithms."""

    log_radius: float  # of λ, the distance (times √m) that no neuron leaves before the last step
    log_step_size: float  # of η, the largest
    log_width: float  # of m, the least
    log_steps: float  # of τ₀, after which to stop
    log_risk: float  # of the least risk that is promised


@checked
def theorem_2(problem: Problem, error: Positive, *, as_printed: bool = True) -> TrainingPlan:
    """Return what descent without projection asks for and promises, for an error ε and α < 1.

    Implements C&E Theorem 2. Implements C&E Eqs. (26) and (28), the promise and the steps.

    As printed, the promise is ``9ε/4``, with ``λ = L_T ‖ν̄‖²/√ε``. Three steps of its proof do not
    close: λ lacks √T, and neurons leave the printed radius before τ₀; ``Σ_t |error_t|`` is taken
    for the root of the risk; and ``(√R − √ε/2)² ≥ R − ε/4`` fails for every R > ε/4. Mended, m has
    ``T err²`` for err², and the best step ``R ≤ (√½ + √((1 + √2)²/4 + 1))² ε = 5.17 ε``, for
    descent on C&E Eq. (1) itself.
    """
    require("problem.alpha", problem.alpha, problem.alpha < 1, "in (0, 1)")
    log_error = math.log(error)
    log_t = math.log(problem.length)
    log_norm = math.log(problem.norm)
    root_2 = math.sqrt(2)
    if as_printed:
        log_missing_t = 0.0
        promise = 9 / 4
    else:
        log_missing_t = log_t
        promise = (math.sqrt(0.5) + math.sqrt((1 + root_2) ** 2 / 4 + 1)) ** 2
    alpha_m = problem.alpha + math.sqrt(2 * error)
    log_l = problem.constants(alpha_m, as_printed).log_lipschitz

    # λ, φ, η, then err² and with it m
    log_radius = log_l + 2 * log_norm - 0.5 * log_error + log_missing_t / 2
    log_phi = log_sum(log_l + log_radius + _LOG_2 / 2, problem.log_summand)
    log_step = log_error - _LOG_2 - 2 * (log_t + log_l + log_phi)
    log_square = 2 * log_radius + _LOG_2
    errors = _errors(problem, alpha_m, log_square, as_printed)
    log_squared_errors = 2 * log_sum(*errors.values()) + log_missing_t
    log_width = log_sum(log_squared_errors, 2 * log_radius) - _LOG_2 - log_error

    # τ₀, and the promised risk
    log_steps = 2 * log_norm - 2 * math.log(root_2 + 1) - log_step - log_error
    log_risk = log_error + math.log(promise)
    return TrainingPlan(log_radius, log_step, log_width, log_steps, log_risk)


def _errors(
    problem: Problem, alpha_m: float, log_square: float, as_printed: bool
) -> dict[str, float]:
    """Return the logarithms of the terms of C&E Eq. (19), err, for a ``log(ρ_w² + ρ_u²)``."""
    constants = problem.constants(alpha_m, as_printed)
    sigma = ACTIVATIONS[problem.activation]
    if as_printed:
        approximation = constants.log_lipschitz + math.log(problem.norm) - _LOG_2
        products = 2 * constants.log_product_lipschitz + math.log(sigma.curvature_bound)
        bent = constants.log_product_smoothness + math.log(sigma.slope_bound)
        linearisation = _LOG_2 + log_sum(products, bent)
    else:
        approximation = problem.log_summand
        linearisation = constants.log_smoothness - _LOG_2  # as in C&E Proposition 4
    return {
        "approximation": _LOG_2 + approximation + problem.log_union,
        "linearisation": linearisation + log_square,
        "change of features": _LOG_2 + constants.log_smoothness + log_square,
    }
