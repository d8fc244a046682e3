"""Activations, the network against the recurrence written out, the exact zero at the start."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from lwcore.elman.network import ACTIVATIONS, ElmanNetwork, empirical_risk, symmetric_initialisation
from tests import elman_oracles as oracles
from tests.elman_oracles import SMOOTH, double, sequences


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives_are_autodiffs(name):
    # not at 0, where the ReLU has a kink
    z = torch.linspace(-6, 6, 402, dtype=torch.float64, requires_grad=True)
    value = oracles.SIGMA[name](z)
    slope = torch.autograd.grad(value.sum(), z, create_graph=True)[0]
    curvature = torch.autograd.grad(slope.sum(), z)[0] if name != "relu" else torch.zeros_like(z)
    sigma, x, h = ACTIVATIONS[name], z.detach().numpy(), value.detach().numpy()
    np.testing.assert_allclose(sigma.value(x), h, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(sigma.slope(x), slope.detach(), rtol=1e-9, atol=1e-15)
    bent = sigma.curvature_from(x, h)
    np.testing.assert_allclose(bent, curvature.detach(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", SMOOTH)
def test_bounds_are_the_suprema(name):
    """Neither exceeded nor missed: the largest value found by a search equals the constant."""
    sigma = ACTIVATIONS[name]
    for function, bound in (
        (sigma.value, sigma.bound),
        (sigma.slope, sigma.slope_bound),
        (lambda z: sigma.curvature_from(z, sigma.value(z)), sigma.curvature_bound),
    ):
        grid = np.linspace(-40, 40, 160_001)
        best = grid[np.abs(function(grid)).argmax()]
        found = optimize.minimize_scalar(
            lambda z, f=function: -abs(f(np.array(z))),
            bounds=(best - 1e-3, best + 1e-3),
            method="bounded",
        )
        assert max(-found.fun, np.abs(function(grid)).max()) == pytest.approx(bound, rel=1e-12)


def test_extreme_pre_activations_are_finite():
    z = np.array([-1e300, -1e3, 1e3, 1e300])
    with np.errstate(over="ignore"):  # z * z
        for name in SMOOTH:
            assert np.isfinite(ACTIVATIONS[name].value(z)).all()


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(
    seed=st.integers(0, 2**31),
    half=st.integers(1, 3),
    dimension=st.integers(1, 3),
    length=st.integers(1, 4),
)
def test_outputs_and_risk_are_the_equations(name, seed, half, dimension, length):
    """C&E Eq. (1), (2) and (3) at parameters that are not symmetric."""
    rng = np.random.default_rng(seed)
    network = ElmanNetwork(
        rng.standard_normal((2 * half, 1 + dimension)), rng.standard_normal(2 * half), name
    )
    x, y = sequences(2, length, dimension, seed), rng.standard_normal((2, length))
    parameters, readout = double(network.parameters), double(network.readout)
    for j in range(2):
        for t in range(1, length + 1):
            states = [oracles.neuron(theta, double(x[j]), name, t) for theta in parameters]
            np.testing.assert_allclose(
                network.hidden(x)[j, t - 1], torch.stack(states), rtol=1e-12, atol=1e-14
            )
            expected = oracles.output(parameters, readout, double(x[j]), name, t)
            np.testing.assert_allclose(
                network.outputs(x)[j, t - 1], expected, rtol=1e-11, atol=1e-13
            )
    assert empirical_risk(network, x, y) == pytest.approx(
        float(oracles.risk(parameters, readout, double(x), y, name)), rel=1e-11
    )


@pytest.mark.parametrize("width", [2, 6, 10, 34, 250, 1002, 4096])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_symmetric_start_gives_exactly_zero(name, width):
    """C&E Definition 1: not one bit of output, whatever the shape of the products (the halves'
    length is odd for most widths)."""
    for dimension, n, length in ((1, 1, 1), (2, 3, 7), (5, 16, 4), (17, 2, 9)):
        network = symmetric_initialisation(
            width, dimension, 0.8, np.random.default_rng(width + dimension), name
        )
        assert not network.outputs(sequences(n, length, dimension, seed=1)).any()
    assert network.hidden(sequences(40, 2, 17, seed=1)).any()


def test_symmetric_start_has_the_stated_law():
    network = symmetric_initialisation(20_000, 3, 0.7, np.random.default_rng(0))
    first, second = np.split(network.parameters, 2)
    assert (first == second).all()
    assert (np.split(network.readout, 2)[0] == -np.split(network.readout, 2)[1]).all()
    assert set(network.readout) == {-1.0, 1.0}
    assert set(network.parameters[:, 0]) == {-0.7, 0.7}
    half = 10_000
    for signs in (
        network.readout[:half],
        first[:, 0] / 0.7,
        network.readout[:half] * first[:, 0] / 0.7,
    ):
        assert abs(signs.mean()) < 5 / half**0.5
    covariance = np.cov(first, rowvar=False)
    np.testing.assert_allclose(covariance, np.diag([0.49, 1, 1, 1]), atol=5 * (2 / half) ** 0.5)
