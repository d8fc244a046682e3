"""Activations and network against the equations written out and automatic differentiation."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore.elman.descent import risk_gradient
from lwcore.elman.network import (
    ACTIVATIONS,
    ElmanNetwork,
    empirical_risk,
    hidden_gradients,
    linear_model,
    output_gradients,
    symmetric_initialisation,
)
from tests import elman_oracles as oracles
from tests.elman_oracles import SIGMA, SMOOTH, double, sequences, states


@pytest.mark.parametrize("name", SMOOTH)
def test_activation_has_its_suprema(name):
    sigma = ACTIVATIONS[name]
    z = torch.linspace(-6, 6, 40_001).double().requires_grad_()
    (slope,) = torch.autograd.grad(SIGMA[name](z).sum(), z, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    far_values = sigma.value(np.array([-1e3, 0.0, 1e3]))
    assert np.abs(far_values).max() == pytest.approx(sigma.bound, rel=1e-6)
    assert slope.abs().max().item() == pytest.approx(sigma.slope_bound, rel=1e-6)
    assert curvature.abs().max().item() == pytest.approx(sigma.curvature_bound, rel=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(
    seed=st.integers(0, 2**31),
    half=st.integers(1, 3),
    dimension=st.integers(1, 3),
    length=st.integers(1, 5),
)
def test_network_and_derivatives_are_the_equations(name, seed, half, dimension, length):
    """C&E Eqs. (1) to (3) and C&E Proposition 1, at parameters that are not symmetric."""
    rng = np.random.default_rng(seed)
    rows, direction = rng.standard_normal((2, 2 * half, 1 + dimension))
    readout = rng.standard_normal(2 * half)
    y = rng.standard_normal((3, length))
    x = sequences(3, length, dimension, seed)
    network = ElmanNetwork(rows, readout, name)

    def outputs(parameters):
        return oracles.outputs(parameters, readout, x, name)

    of_first_sequence = double(x[0]).expand(2 * half, -1, -1)
    expected = states(double(rows), of_first_sequence, name)
    np.testing.assert_allclose(network.hidden(x)[0].T, expected, rtol=1e-11, atol=1e-13)
    expected = outputs(double(rows))
    np.testing.assert_allclose(network.outputs(x), expected, rtol=1e-11, atol=1e-13)

    gradients = torch.autograd.functional.jacobian(outputs, double(rows)).numpy()
    np.testing.assert_allclose(output_gradients(network, x), gradients, rtol=1e-9, atol=1e-13)
    weights = (readout / len(rows) ** 0.5)[:, None]
    weighted = hidden_gradients(network, x) * weights
    np.testing.assert_allclose(weighted, gradients, rtol=1e-9, atol=1e-13)
    expected = np.einsum("ntmp,mp->nt", gradients, direction)
    linear = linear_model(network, rows + direction, x)
    np.testing.assert_allclose(linear, expected, rtol=1e-9, atol=1e-12)

    leaf = double(rows).requires_grad_()
    expected = oracles.risk(leaf, readout, x, y, name)
    expected.backward()
    risk, gradient = risk_gradient(network, x, y)
    assert risk == pytest.approx(empirical_risk(network, x, y), rel=1e-12)
    assert risk == pytest.approx(expected.item(), rel=1e-11)
    np.testing.assert_allclose(gradient, leaf.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("width", [2, 34, 1002])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_symmetric_start_gives_exactly_zero(name, width):
    """Not one bit of output, whatever the shape of the products: odd halves are rounded apart."""
    for dimension, n, length in ((1, 1, 1), (2, 3, 7), (5, 16, 4), (17, 2, 9)):
        rng = np.random.default_rng(width + dimension)
        x = sequences(n, length, dimension, 1)
        network = symmetric_initialisation(width, dimension, 0.8, rng, name)
        assert not network.outputs(x).any()
    assert network.hidden(x).any()


def test_symmetric_start_has_the_stated_law():
    """C&E Definition 1."""
    network = symmetric_initialisation(20_000, 3, 0.7, np.random.default_rng(0))
    first, second = np.split(network.parameters, 2)
    c, opposite = np.split(network.readout, 2)
    assert (first == second).all()
    assert (c == -opposite).all()
    drawn = np.column_stack([c, first / [0.7, 1, 1, 1]])
    np.testing.assert_array_equal(np.abs(drawn[:, :2]), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), np.eye(5), atol=0.07)
