"""Kernels and targets against gradients and SciPy's quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

from lwcore.elman.kernel import (
    TransportMaps,
    finite_kernel,
    limiting_kernel,
    transport_target,
    transported,
)
from lwcore.elman.network import ACTIVATIONS, output_gradients, symmetric_initialisation
from tests.elman_oracles import SMOOTH, echo, sequences


def mean(summand):
    """Return the mean over w₀ = ±0.8 and a Gaussian u₀, by SciPy's adaptive rule."""

    def weighted(u, w):
        return summand(w, u) * stats.norm.pdf(u)

    positive, _ = integrate.quad(weighted, -9, 9, (0.8,), epsabs=1e-12, limit=300)
    negative, _ = integrate.quad(weighted, -9, 9, (-0.8,), epsabs=1e-12, limit=300)
    return (positive + negative) / 2


def maps(dimension=1):
    """Maps that depend on all of their arguments."""
    return TransportMaps(
        lambda w: 0.5 * np.sin(2 * w + 0.3), lambda u: np.cos(u + 0.5) / dimension**0.5, 0.5, 1.0
    )


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("length", [1, 3])
def test_limits_are_integrals(name, length):
    """C&E Proposition 2, its sums from 0 and as printed, and C&E Eq. (8)."""
    x = np.array([[0.9, -0.5, 0.7], [-0.3, 1.0, 0.8]])[:, :length]
    sigma = ACTIVATIONS[name]
    options = {"alpha": 0.8, "activation": name}
    for first in (0, 1):

        def product(w, u, first=first):
            return echo(sigma, w, u, x[0], first) @ echo(sigma, w, u, x[1], first)

        kernel = limiting_kernel(x[..., None], **options, as_printed=first == 1)
        assert kernel.value[0, 1, -1] == pytest.approx(mean(product), abs=1e-9)
        assert kernel.error.max() < 1e-9

    moves = maps()

    def moved(w, u):
        return [moves.recurrent(w), moves.inputs(u)] @ echo(sigma, w, u, x[1])

    target = transport_target(moves, x[..., None], **options)
    assert target.value[1, -1] == pytest.approx(mean(moved), abs=1e-9)
    assert target.error.max() < 1e-9


def test_integral_is_over_the_space_that_inputs_span_and_no_larger_one():
    """Three directions together are those of every pair."""
    x = sequences(3, 1, 3, seed=7) * np.array([0.4, -0.2, 0.3])[:, None]
    in_four_dimensions = np.pad(x, ((0, 0), (0, 0), (0, 1)))
    turned = in_four_dimensions @ stats.ortho_group.rvs(4, random_state=8)
    together = limiting_kernel(turned, alpha=0.8, tolerance=1e-6)
    assert together.error.max() < 1e-6
    for pair in ([0, 1], [1, 2], [0, 2]):
        apart = limiting_kernel(x[pair], alpha=0.8).value
        np.testing.assert_allclose(together.value[np.ix_(pair, pair)], apart, atol=1e-9)
    with pytest.raises(ValueError, match="inputs span = 4: must be 3 at most"):
        limiting_kernel(0.5 * sequences(2, 3, 4, seed=9), alpha=0.8)


def test_inputs_of_zero_leave_a_sum_over_two_signs():
    sigma = ACTIVATIONS["logistic"]
    silent = limiting_kernel(np.zeros((1, 2, 1)), alpha=0.8, activation="logistic")
    squares = []
    for w in (0.8, -0.8):
        gradient = echo(sigma, w, 0.0, [0, 0])
        squares.append(gradient @ gradient)
    assert silent.value[0, 0] == pytest.approx([0, np.mean(squares)])
    assert not silent.error.any()


# in 44 each half is even, and need be done once
@pytest.mark.parametrize(("width", "moved"), [(38, False), (44, False), (44, True)])
def test_finite_kernel_is_the_gram_matrix_of_gradients(width, moved, monkeypatch):
    rng = np.random.default_rng(0)
    x = sequences(3, 5, 2, seed=1)
    network = symmetric_initialisation(width, 2, 0.8, rng)
    if moved:
        off = 0.1 * rng.standard_normal(network.parameters.shape)
        network = network.at(network.parameters + off)
    assert network.repeats == (2 if width == 44 and not moved else 1)
    gradients = output_gradients(network, x)
    expected = np.einsum("itmp,jtmp->ijt", gradients, gradients)
    for chunk in (1 << 16, 60):  # all neurons, or four, at a time
        monkeypatch.setattr("lwcore.elman.kernel._CHUNK", chunk)
        np.testing.assert_allclose(finite_kernel(network, x), expected, rtol=1e-12, atol=1e-14)


def test_transported_network_is_remark_4():
    initial = symmetric_initialisation(20, 2, 0.8, np.random.default_rng(17))
    w = initial.parameters[:, 0]
    u = initial.parameters[:, 1:]
    c = initial.readout[:, None]
    moves = np.column_stack([0.5 * np.sin(2 * w + 0.3), np.cos(u + 0.5) / 2**0.5])
    expected = initial.parameters + c * moves / 20**0.5
    np.testing.assert_allclose(transported(initial, maps(2)).parameters, expected, rtol=1e-13)
