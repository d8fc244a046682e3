"""Descent against automatic differentiation; its projection and its records."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore.elman.descent import gradient_descent, projected
from lwcore.elman.network import symmetric_initialisation
from tests import elman_oracles as oracles
from tests.elman_oracles import double, sequences


def start(width):
    return symmetric_initialisation(width, 2, 0.5, np.random.default_rng(0))


def test_descent_is_equation_5():
    initial = start(6)
    x = sequences(3, 4, 2, seed=1)
    y = np.random.default_rng(2).standard_normal((3, 4))
    run = gradient_descent(initial, x, y, 0.05, 4)
    path = [double(initial.parameters)]
    risks = []
    for _ in range(4):
        rows = path[-1].clone().requires_grad_()
        risk = oracles.risk(rows, initial.readout, x, y, "tanh")
        risk.backward()
        risks.append(risk.item())
        path.append((rows - 0.05 * rows.grad).detach())
    before = torch.stack(path[:-1])
    np.testing.assert_allclose(run.network.parameters, path[-1], rtol=1e-10)
    np.testing.assert_allclose(run.average.parameters, before.mean(dim=0), rtol=1e-10)
    np.testing.assert_allclose(run.risks, risks, rtol=1e-10)
    moves = 6**0.5 * (before - path[0])
    of_w = moves[:, :, 0].abs().amax(dim=1)
    of_u = moves[:, :, 1:].norm(dim=2).amax(dim=1)
    np.testing.assert_allclose(run.recurrent_moves, of_w, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(run.input_moves, of_u, rtol=1e-8, atol=1e-15)


def test_projected_descent_stays_in_the_ball_and_reaches_its_edge():
    initial, x = start(30), sequences(5, 4, 2, seed=1)
    y = 3 * np.random.default_rng(2).standard_normal((5, 4))
    run = gradient_descent(initial, x, y, 0.1, 60, radii=(0.3, 0.5))
    assert run.recurrent_moves.max() == pytest.approx(0.3, rel=1e-9)
    assert run.input_moves.max() == pytest.approx(0.5, rel=1e-9)
    free = gradient_descent(initial, x, y, 0.1, 60)
    assert free.recurrent_moves.max() > 1
    assert free.risks.min() < run.risks.min() < run.risks[0]
    wide = gradient_descent(initial, x, y, 0.1, 60, radii=(1e3, 1e3))
    np.testing.assert_array_equal(wide.network.parameters, free.network.parameters)


@given(seed=st.integers(0, 2**31), radius=st.floats(0.1, 2))
def test_projection_is_the_nearest_point(seed, radius):
    """No other point of the ball makes an acute angle: that characterises a projection."""
    point, other = np.random.default_rng(seed).standard_normal((2, 5, 4))
    nearest = projected(point, radius, 2 * radius)
    inside = projected(other, radius, 2 * radius)
    assert np.abs(nearest[:, 0]).max() <= radius
    assert np.linalg.norm(nearest[:, 1:], axis=1).max() <= 2 * radius * (1 + 1e-15)
    products = (point - nearest) * (inside - nearest)
    of_w = products[:, 0]
    of_u = products[:, 1:].sum(axis=1)
    assert of_w.max() <= 1e-12
    assert of_u.max() <= 1e-12


def test_divergence_is_said():
    initial = symmetric_initialisation(20, 1, 0.5, np.random.default_rng(0), "relu")
    with pytest.raises(ValueError, match=r"step_size = 1e\+30: .* risk overflows at step \d+"):
        gradient_descent(initial, np.ones((1, 40, 1)), np.ones((1, 40)), 1e30, 5)
