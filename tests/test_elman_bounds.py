"""Constants and right-hand sides: the printed and the repaired formulas written out. That the repaired
ones hold is searched for where claims are judged."""

import dataclasses
import math
from typing import NamedTuple

import mpmath
import numpy as np
import pytest

from lwcore.elman.bounds import (
    Problem,
    approximation_bound,
    corollary_1,
    linearisation_bound,
    local_constants,
    network_approximation_bound,
    theorem_1,
    theorem_2,
)
from lwcore.elman.network import ACTIVATIONS
from tests.elman_oracles import SMOOTH

PROBLEM = Problem("tanh", 0.6, 5, 3, 0.3, 0.7, sequences=20, failure=0.1)


def suprema(name):
    sigma = ACTIVATIONS[name]
    return [mpmath.mpf(x) for x in (sigma.bound, sigma.slope_bound, sigma.curvature_bound)]


def printed(name, alpha_m, t, d, alpha):
    """Return L_t, β_t, Λ_t and γ_t from the companion's text, its four suits with them."""
    s0, s1, s2 = suprema(name)
    alpha = mpmath.mpf(alpha)
    alpha_m = mpmath.mpf(alpha_m)
    mu0 = mpmath.fsum((alpha_m * s1) ** k for k in range(t))
    mu1 = mpmath.fsum((k + 1) * (alpha_m * s1) ** k for k in range(t))
    lipschitz = mu0**2 * (s0**2 + 1) * s1**2
    club = s2 * (alpha * s1 * mu0 + 1) * mu1
    diamond = s1**2 * mu0**2 + s0 * s1 * mu0 * mu1
    heart = mu1 * (s1 + s2 + alpha * s1 * s2 * mu0)
    spade = s1**2 * mu0**2 + s0 * club
    beta = d * club + mpmath.sqrt(d) * (diamond + heart) + spade
    root_2 = mpmath.sqrt(2)
    big_lambda = root_2 * (s0 + 1 + alpha_m * lipschitz)
    gamma = root_2 * (lipschitz + alpha_m * beta)
    return lipschitz, beta, big_lambda, gamma


def repaired(name, alpha_m, t, d, alpha):
    """Norms carried step by step: ``g ← σ₁(α_m g + f)``, ``q ← σ₂(α_m g + f)² + σ₁(α_m q + 2 g)``
    with ``f = √(1 + σ₀²)``."""
    s0, s1, s2 = suprema(name)
    f = mpmath.sqrt(1 + s0**2)
    g = mpmath.mpf(0)
    q = mpmath.mpf(0)
    for _ in range(t):
        inner = alpha_m * g + f
        q = s2 * inner**2 + s1 * (alpha_m * q + 2 * g)
        g = s1 * inner
    return g, q, s0 + alpha_m * g, 2 * g + alpha_m * q


@pytest.mark.parametrize("written", [printed, repaired])
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("place", [(0.7, 1, 1, 0.5), (1.1, 7, 3, 0.9), (5.0, 400, 4, 0.3)])
def test_constants_are_the_formulas(written, name, place):
    alpha_m, t, d, alpha = place
    logs = local_constants(name, alpha_m, t, d, alpha=alpha, as_printed=written is printed)
    expected = [float(mpmath.log(constant)) for constant in written(name, *place)]
    np.testing.assert_allclose(logs, expected, rtol=1e-11, atol=1e-11)


class Pieces(NamedTuple):
    """What the theorems are made of, in plain floats."""

    big_l: float  # L_T
    summand: float  # B, the largest
    err: float
    factor: float  # of C&E Proposition 4


def pieces(problem, alpha_m, square, as_printed):
    """Return the pieces for squared radii."""
    constants_of = printed if as_printed else repaired
    constants = constants_of(
        problem.activation, alpha_m, problem.length, problem.dimension, problem.alpha
    )
    big_l, beta, big_lambda, gamma = map(float, constants)
    s0, s1, s2 = map(float, suprema(problem.activation))
    mu0 = sum((problem.alpha * s1) ** k for k in range(problem.length))
    summand = s1 * mu0 * (problem.input_bound + s0 * problem.recurrent_bound)
    if as_printed:
        factor = 2 * (s2 * big_lambda**2 + s1 * gamma)
        approximation = big_l * problem.norm
    else:
        factor = beta / 2
        approximation = 2 * summand
    union = math.sqrt(math.log(2 * problem.length * problem.sequences / problem.failure))
    err = approximation * union + (factor + 2 * beta) * square
    return Pieces(big_l, summand, err, factor)


@pytest.mark.parametrize("as_printed", [True, False])
@pytest.mark.parametrize("name", SMOOTH)
def test_propositions_and_theorem_1_are_the_formulas(name, as_printed):
    """C&E Propositions 3 to 5, C&E Eqs. (18), (19) and C&E Corollary 1."""
    problem = dataclasses.replace(PROBLEM, activation=name)
    m = 200
    tau = 400
    t = 5
    form = {"as_printed": as_printed}
    nu = problem.norm**2

    def theorem(rho):
        rho_w, rho_u = rho
        square = rho_w**2 + rho_u**2
        of_ball = pieces(problem, 0.6 + rho_w / m**0.5, square, as_printed)
        phi = of_ball.big_l * square**0.5 + of_ball.summand
        of_distance, of_gradient = (1 / 2, 1 / 2) if as_printed else (1 / 4, 1)
        by_steps = of_distance * nu + of_gradient * of_ball.big_l**2 * phi**2
        return t / tau**0.5 * by_steps + t * phi / m**0.5 * of_ball.err

    def is_value(bound, expected):
        assert bound.value == pytest.approx(expected, rel=1e-11)

    is_value(theorem_1(problem, m, tau, (0.5, 0.9), **form), theorem((0.5, 0.9)))
    of_target = pieces(problem, 0.6 + 0.3 / m**0.5, nu, as_printed)
    linearisation = of_target.factor * nu / m**0.5
    is_value(linearisation_bound(problem, m, **form), linearisation)
    price = 3 * linearisation / m**0.5 if as_printed else 6 * t * linearisation**2
    is_value(corollary_1(problem, m, tau, **form), 4 * theorem(problem.radii) + price)
    sides = 1 if as_printed else 2
    at_one_input = 2 * of_target.summand * math.sqrt(math.log(sides / 0.1) / m)
    is_value(approximation_bound(problem, m, **form), at_one_input)
    at_all = 2 * of_target.summand * math.sqrt(math.log(2 * 20 * t / 0.1) / m)
    is_value(network_approximation_bound(problem, m, **form), at_all + linearisation)


@pytest.mark.parametrize("name", SMOOTH)
def test_printed_plan_is_the_text(name):
    """C&E Theorem 2."""
    problem = dataclasses.replace(PROBLEM, activation=name)
    epsilon = 0.02
    t = 5
    nu = problem.norm**2
    big_l, summand, *_ = pieces(problem, 0.8, 0.0, True)
    radius = big_l * nu / epsilon**0.5
    err = pieces(problem, 0.8, 2 * radius**2, True).err
    phi = big_l * radius * 2**0.5 + summand
    step = epsilon / (2 * t**2 * big_l**2 * phi**2)
    width = (err**2 + radius**2) / (2 * epsilon)
    steps = nu / ((2**0.5 + 1) ** 2 * step * epsilon)
    expected = radius, step, width, steps, 9 * epsilon / 4
    np.testing.assert_allclose(np.exp(theorem_2(problem, epsilon)), expected, rtol=1e-11)


def test_repaired_plan_meets_what_its_proof_asks_for():
    """Each inequality that the repaired proof of C&E Theorem 2 uses, from the plan's own
    numbers."""
    epsilon = 0.02
    t = 5
    radius, step, width, steps, risk = np.exp(theorem_2(PROBLEM, epsilon, as_printed=False))
    big_l, summand, err, _ = pieces(PROBLEM, 0.8, 2 * radius**2, False)
    phi = big_l * radius * 2**0.5 + summand
    q = err * (t / width) ** 0.5
    assert radius / width**0.5 <= math.sqrt(2 * epsilon)
    assert q <= math.sqrt(2 * epsilon)
    length = step * (t * big_l * phi) ** 2
    assert length <= epsilon / 2 * (1 + 1e-9)
    spread = math.sqrt(PROBLEM.norm**2 / (4 * step * steps) + q**2 / 4 + length)
    assert (q / 2 + spread) ** 2 <= risk * (1 + 1e-9)
    assert risk == pytest.approx(5.174 * epsilon, rel=1e-3)
    # no neuron leaves before τ₀
    assert 2 * step * big_l * t**0.5 * steps * (q / 2 + spread) < radius


def test_bounds_survive_lengths_at_which_they_overflow():
    problem = Problem("tanh", 0.9, 3000, 2, 5.0, 1.0)
    for as_printed in (True, False):
        bound = theorem_1(problem, 4, 100, as_printed=as_printed)
        assert 1e4 < bound.log < math.inf
        assert bound.value == math.inf
