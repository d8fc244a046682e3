"""Memory capacity, against delay lines and a leaky integrator, whose shares have a closed form."""

import numpy as np
import pytest

from book.chapters.memory import memory_capacity

U = np.random.default_rng(0).standard_normal((400, 80))


def scan(step, width):
    states, h = [], np.zeros((len(U), width))
    for u in U.T:
        h = step(h, u)
        states.append(h)
    return np.stack(states, 1)


def shift(h, u):
    return np.column_stack([u, h[:, :-1]])


def test_a_delay_line_holds_as_many_inputs_as_it_has_neurons_however_they_are_mixed():
    states, mixed = scan(shift, 6), np.random.default_rng(1).standard_normal((6, 6))
    for h in (states, states @ mixed):
        m = memory_capacity(h, U[..., None], 20)[:, 0]
        np.testing.assert_allclose(m[:6], 1, atol=1e-12)
        np.testing.assert_allclose(m[6:], 0, atol=0.01)
        assert m.sum() == pytest.approx(6, abs=0.05)


def test_a_leaky_integrator_spreads_one_input_over_geometric_shares():
    states = 7 + scan(lambda h, u: 0.8 * h + u[:, None], 1)  # a constant is no memory
    m = memory_capacity(states, U[..., None], 20)[:, 0]
    np.testing.assert_allclose(m, 0.36 * 0.64 ** np.arange(21), atol=0.02)


def test_what_many_neurons_explain_by_chance_does_not_add_up():
    generator = np.random.default_rng(2)
    sums = [
        memory_capacity(generator.standard_normal((60, 80, 40)), inputs, 20).sum()
        for inputs in generator.standard_normal((30, 60, 80, 5))
    ]  # without the adjustment each were 40 × 105 / 3600 = 1.2
    assert abs(np.mean(sums)) < 4 * np.std(sums) / np.sqrt(30) < 0.4


def test_inputs_share_the_neurons():
    other = np.random.default_rng(3).standard_normal(U.shape)
    states = np.concatenate([scan(shift, 4), other[:, :, None]], -1)
    m = memory_capacity(states, np.stack([U, other], -1), 20)
    np.testing.assert_allclose(m[:4, 0], 1, atol=1e-12)
    assert m[0, 1] == pytest.approx(1, abs=1e-12)
    assert m.sum() == pytest.approx(5, abs=0.1)
