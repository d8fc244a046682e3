"""Closed-form derivatives against C&E Proposition 1 written out and against autodiff; descent, its
projection and its records."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore.elman.descent import gradient_descent, projected, risk_gradient
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
from tests.elman_oracles import double, sequences


def proposition_1(theta, states, x, t, sigma):
    """C&E Proposition 1 as printed, for one neuron: theta (1 + d,), states H_0 … H_T, x (T, d)."""
    w, u = theta[0], theta[1:]

    def slope(s):
        return sigma.slope(w * states[s] + u @ x[s])

    total = np.zeros_like(theta)
    for k in range(t):
        product = np.prod([slope(t - 1 - s) for s in range(k + 1)])
        total += w**k * product * np.concatenate([[states[t - k - 1]], x[t - k - 1]])
    return total


def random_network(seed, width, dimension, name):
    rng = np.random.default_rng(seed)
    return ElmanNetwork(
        rng.standard_normal((width, 1 + dimension)), rng.standard_normal(width), name
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(seed=st.integers(0, 2**31), dimension=st.integers(1, 3), length=st.integers(1, 5))
def test_gradients_are_proposition_1_and_autodiff(name, seed, dimension, length):
    network, x = random_network(seed, 4, dimension, name), sequences(2, length, dimension, seed)
    ours, outputs, states = (
        hidden_gradients(network, x),
        output_gradients(network, x),
        network.hidden(x),
    )
    assert ours.shape == (2, length, 4, 1 + dimension)
    for j in range(2):
        for t in range(1, length + 1):
            for i, theta in enumerate(network.parameters):
                path = np.concatenate([[0.0], states[j, :, i]])
                np.testing.assert_allclose(
                    ours[j, t - 1, i],
                    proposition_1(theta, path, x[j], t, network.sigma),
                    rtol=1e-9,
                    atol=1e-13,
                )
            derivative = torch.autograd.functional.jacobian(
                lambda p, j=j, t=t: oracles.output(
                    p, double(network.readout), double(x[j]), name, t
                ),
                double(network.parameters),
            )
            np.testing.assert_allclose(outputs[j, t - 1], derivative, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(
    seed=st.integers(0, 2**31),
    dimension=st.integers(1, 3),
    length=st.integers(1, 4),
    n=st.integers(1, 3),
)
def test_risk_gradient_is_autodiffs(name, seed, dimension, length, n):
    network, x = random_network(seed, 4, dimension, name), sequences(n, length, dimension, seed)
    y = np.random.default_rng(seed + 1).standard_normal((n, length))
    risk, gradient = risk_gradient(network, x, y)
    parameters = double(network.parameters).requires_grad_()
    expected = oracles.risk(parameters, double(network.readout), double(x), y, name)
    expected.backward()
    assert risk == pytest.approx(expected.item(), rel=1e-11)
    np.testing.assert_allclose(gradient, parameters.grad, rtol=1e-9, atol=1e-12)
    residuals = network.outputs(x) - y  # and the chain rule through C&E Proposition 1
    np.testing.assert_allclose(
        gradient,
        2 / n * np.einsum("nt,ntmp->mp", residuals, output_gradients(network, x)),
        rtol=1e-9,
        atol=1e-12,
    )


def test_linear_model_is_the_gradient_times_the_displacement_and_misses_at_second_order():
    initial, x = (
        symmetric_initialisation(40, 2, 0.8, np.random.default_rng(0)),
        sequences(3, 6, 2, seed=1),
    )
    direction = np.random.default_rng(2).standard_normal(initial.parameters.shape)
    linear = linear_model(initial, initial.parameters + direction, x)
    np.testing.assert_allclose(
        linear,
        np.einsum("ntmp,mp->nt", output_gradients(initial, x), direction),
        rtol=1e-10,
        atol=1e-13,
    )
    sizes = np.array([1e-2, 1e-3])
    missed = [
        np.abs(initial.at(initial.parameters + s * direction).outputs(x) - s * linear).max()
        for s in sizes
    ]
    assert np.log10(missed[0] / missed[1]) == pytest.approx(2, abs=0.05)


def test_descent_is_equation_5():
    initial, x = (
        symmetric_initialisation(6, 2, 0.5, np.random.default_rng(0)),
        sequences(3, 4, 2, seed=1),
    )
    y = np.random.default_rng(2).standard_normal((3, 4))
    run = gradient_descent(initial, x, y, 0.05, 4)
    path = [double(initial.parameters)]
    for _ in range(4):
        parameters = path[-1].clone().requires_grad_()
        oracles.risk(parameters, double(initial.readout), double(x), y, "tanh").backward()
        path.append((parameters - 0.05 * parameters.grad).detach())
    np.testing.assert_allclose(run.network.parameters, path[-1], rtol=1e-10)
    np.testing.assert_allclose(
        run.average.parameters, torch.stack(path[:-1]).mean(dim=0), rtol=1e-10
    )
    np.testing.assert_allclose(
        run.risks, [empirical_risk(initial.at(p.numpy()), x, y) for p in path[:-1]], rtol=1e-10
    )
    moved = torch.stack(path[:-1]) - path[0]
    np.testing.assert_allclose(
        run.recurrent_moves, 6**0.5 * moved[:, :, 0].abs().amax(dim=1), rtol=1e-8, atol=1e-15
    )
    np.testing.assert_allclose(
        run.input_moves, 6**0.5 * moved[:, :, 1:].norm(dim=2).amax(dim=1), rtol=1e-8, atol=1e-15
    )
    assert run.least_risk == run.risks.min() < run.risks[0]


def test_projected_descent_stays_in_the_ball_and_reaches_its_edge():
    initial, x = (
        symmetric_initialisation(30, 2, 0.5, np.random.default_rng(0)),
        sequences(5, 4, 2, seed=1),
    )
    y = 3 * np.random.default_rng(2).standard_normal((5, 4))
    run = gradient_descent(initial, x, y, 0.1, 60, radii=(0.3, 0.5))
    assert run.recurrent_moves.max() == pytest.approx(0.3, rel=1e-9)
    assert run.input_moves.max() == pytest.approx(0.5, rel=1e-9)
    free = gradient_descent(initial, x, y, 0.1, 60)
    assert free.recurrent_moves.max() > 1
    assert free.least_risk < run.least_risk < run.risks[0]
    wide = gradient_descent(initial, x, y, 0.1, 60, radii=(1e3, 1e3))
    np.testing.assert_array_equal(wide.network.parameters, free.network.parameters)


@given(seed=st.integers(0, 2**31), radius=st.floats(0.1, 2))
def test_projection_is_the_nearest_point(seed, radius):
    """Against every other point of the ball: the obtuse angle that characterises a projection onto
    a convex set."""
    rng = np.random.default_rng(seed)
    point, other = rng.standard_normal((2, 5, 4))
    nearest, inside = projected(point, radius, radius), projected(other, radius, radius)
    assert np.abs(nearest[:, 0]).max() <= radius
    assert np.linalg.norm(nearest[:, 1:], axis=1).max() <= radius * (1 + 1e-15)
    for part in (slice(0, 1), slice(1, None)):
        angles = ((point - nearest)[:, part] * (inside - nearest)[:, part]).sum(axis=1)
        assert (angles <= 1e-12).all()


def test_inputs_of_another_dimension_are_refused():
    initial = symmetric_initialisation(4, 2, 0.5, np.random.default_rng(0))
    for reads in (initial.outputs, lambda x: gradient_descent(initial, x, np.ones((1, 2)), 0.1, 2)):
        with pytest.raises(ValueError, match=r"inputs.shape = \(1, 2, 3\): must be \(1, 2, 2\)"):
            reads(np.full((1, 2, 3), 0.5))
    with pytest.raises(ValueError, match=r"parameters.shape = \(4, 4\): must be \(4, 3\)"):
        linear_model(initial, np.ones((4, 4)), np.full((1, 2, 2), 0.5))


def test_divergence_is_said():
    initial = symmetric_initialisation(20, 1, 0.5, np.random.default_rng(0), "relu")
    with pytest.raises(ValueError, match=r"step_size = 1e\+30: .* risk overflows at step \d+"):
        gradient_descent(initial, np.ones((1, 40, 1)), np.ones((1, 40)), 1e30, 5)
