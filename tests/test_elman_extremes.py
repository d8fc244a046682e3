"""Largest derivatives: the recursions against automatic differentiation, the search against suprema
that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from book.chapters.elman_extremes import QUANTITIES, derivatives, largest, size_of
from lwcore.elman.bounds import local_constants
from lwcore.elman.network import ACTIVATIONS
from tests import elman_oracles as oracles
from tests.elman_oracles import SMOOTH, double


def cases(dimension=2, length=4, count=5):
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, 1 + dimension)), rng.uniform(
        -0.7, 0.7, (count, length, dimension)
    )


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_autodiffs(name):
    parameters, inputs = cases()
    state, gradient, hessian = derivatives(parameters, inputs, ACTIVATIONS[name])
    for k in range(len(parameters)):
        theta, x = double(parameters[k]), double(inputs[k])

        def of(p, x=x):
            return oracles.neuron(p, x, name)

        assert state[k] == pytest.approx(of(theta).item(), abs=1e-14)
        assert gradient[k] == pytest.approx(
            torch.autograd.functional.jacobian(of, theta).numpy(), abs=1e-13
        )
        assert hessian[k] == pytest.approx(
            torch.autograd.functional.hessian(of, theta).numpy(), abs=1e-12
        )


@pytest.mark.parametrize("name", SMOOTH)
def test_sizes_of_products_are_autodiffs(name):
    parameters, inputs = cases()
    first, second = (
        size_of(quantity, parameters, inputs, ACTIVATIONS[name]) for quantity in QUANTITIES[2:]
    )
    for k in range(len(parameters)):
        theta, x = double(parameters[k]), double(inputs[k])

        def of(p, x=x):
            return p[0] * oracles.neuron(p, x, name)

        assert first[k] == pytest.approx(
            torch.autograd.functional.jacobian(of, theta).norm().item()
        )
        assert second[k] == pytest.approx(
            torch.linalg.matrix_norm(torch.autograd.functional.hessian(of, theta), 2).item()
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_search_finds_suprema_of_one_step(name):
    """At T = 1 the state is σ(ux): slope σ₁ and curvature σ₂ at |x| = 1."""
    sigma = ACTIVATIONS[name]
    assert largest("lipschitz", name, 0.5, 1).value == pytest.approx(sigma.slope_bound, rel=1e-4)
    assert largest("smoothness", name, 0.5, 1).value == pytest.approx(
        sigma.curvature_bound, rel=1e-3
    )


def test_extreme_is_attained_where_it_says():
    found = largest("product_smoothness", "tanh", 0.7, 3, 2)
    assert np.linalg.norm(found.inputs, axis=1).max() <= 1 + 1e-12
    assert abs(found.parameters[0]) <= 0.7
    assert size_of(
        "product_smoothness", found.parameters[None], found.inputs[None], ACTIVATIONS["tanh"]
    )[0] == pytest.approx(found.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_repaired_constants_are_not_exceeded(name, quantity):
    value = largest(quantity, name, 0.9, 3).value
    assert value <= math.exp(
        getattr(local_constants(name, 0.9, 3, 1, as_printed=False), f"log_{quantity}")
    )


def test_search_exceeds_two_printed_constants_of_the_logistic():
    for quantity in ("lipschitz", "product_smoothness"):
        printed = math.exp(getattr(local_constants("logistic", 0.05, 2, 1), f"log_{quantity}"))
        assert largest(quantity, "logistic", 0.05, 2).value > 1.5 * printed
