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
    """The mean over w₀ = ±0.8 and a Gaussian u₀, by SciPy's adaptive rule."""

    def weighted(u, w):
        return summand(w, u) * stats.norm.pdf(u)

    how = {"epsabs": 1e-12, "limit": 300}
    return sum(integrate.quad(weighted, -9, 9, (w,), **how)[0] for w in (0.8, -0.8)) / 2


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
    sigma, options = ACTIVATIONS[name], {"alpha": 0.8, "activation": name}
    for first in (0, 1):
        ours = limiting_kernel(x[..., None], **options, as_printed=first == 1)
        expected = mean(lambda w, u, k=first: np.dot(*(echo(sigma, w, u, one, k) for one in x)))
        assert ours.value[0, 1, -1] == pytest.approx(expected, abs=1e-9)
        assert ours.error.max() < 1e-9
    of = maps()
    target = transport_target(of, x[..., None], **options)
    expected = mean(lambda w, u: [of.recurrent(w), of.inputs(u)] @ echo(sigma, w, u, x[1]))
    assert target.value[1, -1] == pytest.approx(expected, abs=1e-9)
    assert target.error.max() < 1e-9


def test_integral_is_over_the_space_that_inputs_span_and_no_larger_one():
    """Three directions together are those of every pair; none is a point; four are refused."""
    x = sequences(3, 1, 3, seed=7) * np.array([0.4, -0.2, 0.3])[:, None]
    turned = np.pad(x, ((0, 0), (0, 0), (0, 1))) @ stats.ortho_group.rvs(4, random_state=8)
    together = limiting_kernel(turned, alpha=0.8, tolerance=1e-6)
    assert together.error.max() < 1e-6
    for pair in ([0, 1], [1, 2], [0, 2]):
        apart = limiting_kernel(x[pair], alpha=0.8).value
        np.testing.assert_allclose(together.value[np.ix_(pair, pair)], apart, atol=1e-9)
    options = {"alpha": 0.8, "activation": "logistic"}
    silent, sigma = limiting_kernel(np.zeros((1, 2, 1)), **options), ACTIVATIONS["logistic"]
    expected = [np.sum(echo(sigma, w, 0.0, [0, 0]) ** 2) for w in (0.8, -0.8)]
    assert silent.value[0, 0] == pytest.approx([0, np.mean(expected)])
    assert not silent.error.any()
    with pytest.raises(ValueError, match="dimensions that inputs span = 4: must be 3 at most"):
        limiting_kernel(0.5 * sequences(2, 3, 4, seed=9), alpha=0.8)


# in 44 each half is even, and need be done once
@pytest.mark.parametrize(("width", "moved"), [(38, False), (44, False), (44, True)])
def test_finite_kernel_is_the_gram_matrix_of_gradients(width, moved, monkeypatch):
    rng, x = np.random.default_rng(0), sequences(3, 5, 2, seed=1)
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
    w, u, c = initial.parameters[:, 0], initial.parameters[:, 1:], initial.readout
    orders = np.column_stack([0.5 * np.sin(2 * w + 0.3), np.cos(u + 0.5) / 2**0.5])
    expected = initial.parameters + c[:, None] * orders / 20**0.5
    np.testing.assert_allclose(transported(initial, maps(2)).parameters, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("recurrent", "words"),
    [
        (np.ones_like, r"norms of moves = \(1.0, 0.0\): must be within their bounds, \(0.5, 1.0\)"),
        (lambda w: w[:2], r"recurrent\(…\).shape = \(2,\): must be"),
    ],
)
def test_maps_that_break_their_word_are_refused(recurrent, words):
    broken = TransportMaps(recurrent, np.zeros_like, 0.5, 1.0)
    with pytest.raises(ValueError, match=words):
        transport_target(broken, sequences(2, 3, 2, seed=0), alpha=0.5)
