"""Kernels against gradients, SciPy's quadrature and simulation; transport maps, the target they
make, and its norm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from book.chapters.elman_spaces import class_kernel, least_norm
from lwcore.elman.kernel import (
    TransportMaps,
    finite_kernel,
    limiting_kernel,
    span,
    transport_target,
    transported,
    trapezoid,
)
from lwcore.elman.network import linear_model, output_gradients, symmetric_initialisation
from tests.elman_oracles import SMOOTH, sequences


def path(sigma, w, u, x):
    """States and derivatives of one neuron with one input, in plain floats: yields (H_t, ∂_w H_t,
    ∂_u H_t)."""
    h = g_w = g_u = 0.0
    for value in x:
        pre = w * h + u * value
        slope = sigma.slope(pre)
        g_w, g_u, h = (
            slope * (w * g_w + h),
            slope * (w * g_u + value),
            float(sigma.value(np.array(pre))),
        )
        yield h, g_w, g_u


def legendre():
    """Nodes and weights for a Gaussian mean by Gauss and Legendre's rule; Gauss and Hermite's has
    lost four digits with 120 nodes here."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return 9 * nodes, 9 * weights * stats.norm.pdf(9 * nodes)


@pytest.mark.parametrize("name", SMOOTH)
def test_limiting_kernel_by_adaptive_quadrature(name):
    """C&E Proposition 2 with sums from 0, for one-dimensional inputs, by SciPy's quad over u₀."""
    x, other = sequences(2, 3, 1, seed=0, norm=0.9)[..., 0] * [[1, 0.5, 0.7], [0.3, 1, 0.9]]
    ours = limiting_kernel(x[None, :, None], other[None, :, None], alpha=0.8, activation=name)
    sigma = symmetric_initialisation(2, 1, 0.8, np.random.default_rng(0), name).sigma
    for t in range(3):

        def integrand(u, w, t=t):
            (_, a, b), (_, c, d) = list(path(sigma, w, u, x))[t], list(path(sigma, w, u, other))[t]
            return (a * c + b * d) * stats.norm.pdf(u)

        expected = np.mean(
            [
                integrate.quad(integrand, -9, 9, args=(w,), epsabs=1e-12, limit=300)[0]
                for w in (0.8, -0.8)
            ]
        )
        assert ours.value[0, 0, t] == pytest.approx(expected, abs=1e-9)
        assert ours.error[0, 0, t] < 1e-9


# in 44 each half is even, and need be done once
@pytest.mark.parametrize(("width", "moved"), [(38, False), (44, False), (44, True)])
@pytest.mark.parametrize("name", SMOOTH)
def test_finite_kernel_is_the_gram_matrix_of_gradients_whatever_the_chunks(
    name, width, moved, monkeypatch
):
    rng, x, other = np.random.default_rng(0), sequences(3, 5, 2, 1), sequences(2, 5, 2, 2)
    network = symmetric_initialisation(width, 2, 0.8, rng, name)
    assert network.repeats == (1 if width == 38 else 2)
    if moved:
        network = network.at(
            network.parameters + 0.1 * rng.standard_normal(network.parameters.shape)
        )
        assert network.repeats == 1
    expected = np.einsum(
        "itmp,jtmp->ijt", output_gradients(network, x), output_gradients(network, other)
    )
    np.testing.assert_allclose(finite_kernel(network, x, other), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        finite_kernel(network, x), finite_kernel(network, x, x), rtol=1e-12, atol=1e-14
    )
    monkeypatch.setattr("lwcore.elman.kernel._CHUNK", 60)  # four neurons at a time
    np.testing.assert_allclose(finite_kernel(network, x, other), expected, rtol=1e-12, atol=1e-14)


def test_finite_kernels_scatter_around_the_limit_by_the_central_limit_theorem():
    """Means over 200 starts agree with the limit within 4 standard errors, and the scatter falls as
    1/√m."""
    x, rng = sequences(2, 4, 2, seed=3), np.random.default_rng(4)
    limit, scatter = limiting_kernel(x, alpha=0.8), []
    for width in (40, 640):
        draws = np.stack(
            [finite_kernel(symmetric_initialisation(width, 2, 0.8, rng), x) for _ in range(200)]
        )
        error = draws.std(axis=0, ddof=1)
        assert (np.abs(draws.mean(axis=0) - limit.value) < 4 * error / 200**0.5).all()
        scatter.append(error)
    # √16, up to the error of two standard deviations
    np.testing.assert_allclose(scatter[0] / scatter[1], 4, rtol=0.35)


def test_printed_sum_misses_the_last_input():
    """C&E Proposition 2 as printed is 0 at t = 1, where finite kernels tend to ``X₀·X₀′
    E[σ′σ′]``."""
    x = sequences(2, 3, 2, seed=5)
    printed, limit = limiting_kernel(x, alpha=0.8, as_printed=True), limiting_kernel(x, alpha=0.8)
    finite = finite_kernel(symmetric_initialisation(200_000, 2, 0.8, np.random.default_rng(6)), x)
    assert not printed.value[..., 0].any()
    np.testing.assert_allclose(finite, limit.value, atol=0.02)
    diagonal = np.arange(2)
    assert (limit.value[diagonal, diagonal] - printed.value[diagonal, diagonal] > 0.1).all()


def test_printed_sum_is_the_sum_it_says():
    """The double sum over k, ℓ ≥ 1 written out at the nodes of an independent rule."""
    x = np.array([0.9, -0.5, 0.7])
    nodes, weights = legendre()
    sigma = symmetric_initialisation(2, 1, 0.8, np.random.default_rng(0)).sigma
    total = 0.0
    for u, weight in zip(nodes, weights, strict=True):
        for w in (0.8, -0.8):
            h = [0.0]
            for value in x:
                h.append(np.tanh(w * h[-1] + u * value))
            slopes = [sigma.slope(w * h[s] + u * x[s]) for s in range(3)]
            parts = [
                w**k * np.prod(slopes[3 - 1 - k : 3]) * np.array([x[3 - k - 1], h[3 - k - 1]])
                for k in range(1, 3)
            ]
            total += weight / 2 * np.square(np.sum(parts, axis=0)).sum()
    printed = limiting_kernel(x[None, :, None], alpha=0.8, as_printed=True)
    assert printed.value[0, 0, 2] == pytest.approx(total, abs=1e-10)


def test_inputs_are_integrated_over_the_space_they_span_and_no_larger_one():
    """Inputs of four dimensions in a plane, and tilted by a hair into the rest."""
    plane = sequences(2, 3, 2, seed=7, norm=0.9)
    turned = np.concatenate([plane, np.zeros_like(plane)], axis=-1) @ stats.ortho_group.rvs(
        4, random_state=8
    )
    np.testing.assert_allclose(
        limiting_kernel(turned, alpha=0.8).value, limiting_kernel(plane, alpha=0.8).value, atol=1e-9
    )
    with pytest.raises(ValueError, match="dimensions that inputs span = 4: must be 3 at most"):
        limiting_kernel(turned + 1e-9 * sequences(2, 3, 4, seed=9), alpha=0.8)


def test_three_dimensions_are_integrated_and_the_error_is_an_upper_bound():
    x = sequences(2, 3, 3, seed=10)
    ours = limiting_kernel(x, alpha=0.8)
    finite = np.stack(
        [
            finite_kernel(symmetric_initialisation(40_000, 3, 0.8, np.random.default_rng(s)), x)
            for s in range(10)
        ]
    )
    assert ours.error.max() < 1e-6
    assert (
        np.abs(finite.mean(axis=0) - ours.value) < 5 * finite.std(axis=0, ddof=1) / 10**0.5
    ).all()


def test_rules_and_spans():
    for rank in range(4):
        nodes, weights = trapezoid(rank, 0.5)
        assert weights.sum() == pytest.approx(1, rel=1e-14)
        np.testing.assert_allclose((nodes * weights[:, None]).T @ nodes, np.eye(rank), atol=1e-12)
        np.testing.assert_allclose(weights @ nodes**4, 3 * np.ones(rank), atol=1e-11)
    (all_nodes, all_weights), (new, new_weights) = (
        trapezoid(2, 0.25, between=between) for between in (False, True)
    )
    assert len(new) + len(trapezoid(2, 0.5)[0]) == len(all_nodes)
    np.testing.assert_allclose(
        trapezoid(2, 0.5)[1].sum() / 4 + new_weights.sum(), all_weights.sum(), rtol=1e-14
    )
    assert span(np.zeros((2, 3, 4))).shape == (4, 0)
    basis = span(np.outer([1.0, -2.0, 3.0], [0.6, 0.8, 0.0]))
    np.testing.assert_allclose(np.abs(basis[:, 0]), [0.6, 0.8, 0.0], atol=1e-14)


def test_kernel_of_an_odd_network_is_odd():
    """Why it is not universal without a constant input: for tanh κ_t(X, −X′) = −κ_t(X, X′), so
    every function of its space is odd."""
    x, other = sequences(2, 4, 2, seed=11), sequences(3, 4, 2, seed=12)
    odd, even = (
        limiting_kernel(x, sign * other, alpha=0.8, activation="tanh").value for sign in (-1, 1)
    )
    np.testing.assert_allclose(odd, -even, atol=1e-12)
    odd, even = (
        limiting_kernel(x, sign * other, alpha=0.8, activation="logistic").value for sign in (-1, 1)
    )
    # at t = 1 for the logistic, too
    np.testing.assert_allclose(odd[..., 0], -even[..., 0], atol=1e-12)
    assert np.abs(odd[..., 3] + even[..., 3]).max() > 0.01


def smooth_maps(dimension=2):
    """Maps that depend on all of their arguments, within ν̄_w = 0.5 and ν̄_u = 1."""
    return TransportMaps(
        lambda w: 0.5 * np.sin(2 * w + 0.3),
        lambda u: np.cos(u + 0.5) / dimension**0.5,
        recurrent_bound=0.5,
        input_bound=1.0,
    )


def test_target_is_the_mean_over_starts_and_the_linear_model_tends_to_it():
    """C&E Eq. (8) against F^Lin at transported networks: unbiased, and within a Gaussian's
    scatter."""
    x, maps = sequences(3, 4, 2, seed=13), smooth_maps()
    target = transport_target(maps, x, alpha=0.8)
    assert target.error.max() < 1e-9
    rng, draws = np.random.default_rng(14), []
    for _ in range(60):
        initial = symmetric_initialisation(1000, 2, 0.8, rng)
        draws.append(linear_model(initial, transported(initial, maps).parameters, x))
    draws = np.stack(draws)
    assert (
        np.abs(draws.mean(axis=0) - target.value) < 4.5 * draws.std(axis=0, ddof=1) / 60**0.5
    ).all()


def test_constant_maps_need_no_directions():
    x = np.concatenate([sequences(2, 3, 1, seed=15), np.zeros((2, 3, 5))], axis=-1)
    shift = np.array([0.6, 0.8, 0, 0, 0, 0])
    maps = TransportMaps(
        np.zeros_like,
        lambda u: np.broadcast_to(shift, u.shape),
        0.0,
        1.0,
        directions=np.zeros((1, 6)),
    )
    line = TransportMaps(np.zeros_like, lambda u: np.full_like(u, 0.6), 0.0, 1.0)
    np.testing.assert_allclose(
        transport_target(maps, x, alpha=0.8).value,
        transport_target(line, x[..., :1], alpha=0.8).value,
        atol=1e-9,
    )
    with pytest.raises(ValueError, match="inputs span = 6"):
        transport_target(TransportMaps(maps.recurrent, maps.inputs, 0.0, 1.0), x, alpha=0.8)


def test_transported_is_remark_4():
    initial, maps = symmetric_initialisation(20, 2, 0.8, np.random.default_rng(17)), smooth_maps()
    moved = transported(initial, maps)
    for i in range(20):
        w, u, c = initial.parameters[i, 0], initial.parameters[i, 1:], initial.readout[i]
        assert moved.parameters[i, 0] == pytest.approx(
            w + c * 0.5 * np.sin(2 * w + 0.3) / 20**0.5, rel=1e-14
        )
        np.testing.assert_allclose(
            moved.parameters[i, 1:], u + c * np.cos(u + 0.5) / 2**0.5 / 20**0.5, rtol=1e-13
        )


def test_least_norm_lies_below_the_norm_of_the_maps_and_meets_it_for_a_kernel_section():
    """C&E Section 3.2 calls √(E‖v‖²) the norm. It bounds it; v_w changes nothing at t = 1, so there
    it is too large."""
    x = sequences(6, 3, 2, seed=18)
    kernel = limiting_kernel(x, alpha=0.8).value
    # E cos²(u + ½) = (1 + e⁻² cos 1)/2, and the mean over both w₀
    smooth = (1 + np.exp(-2) * np.cos(1)) / 2
    smooth += np.square(0.5 * np.sin([1.9, -1.3])).mean()
    for maps, norm in (
        (smooth_maps(), smooth**0.5),
        (TransportMaps(np.sign, np.zeros_like, 1.0, 0.0), 1.0),
    ):
        values = transport_target(maps, x, alpha=0.8).value
        for t in range(3):
            assert least_norm(kernel[..., t], values[:, t]) <= norm + 1e-6
    np.testing.assert_allclose(values[:, 0], 0, atol=1e-12)
    # the section at X itself
    assert least_norm(kernel[..., 1], kernel[0, :, 1]) == pytest.approx(
        kernel[0, 0, 1] ** 0.5, rel=1e-8
    )
    assert least_norm(np.diag([1.0, 0.0]), [1.0, 1.0]) == np.inf
    assert least_norm(np.diag([4.0, 0.0]), [1.0, 0.0]) == pytest.approx(0.5)


def test_class_kernel_is_the_kernel_of_partial_means():
    """Equal to κ_t at t = 1, smaller from t = 2 on; at one input by sums over the two w₀ and an
    independent rule for u₀."""
    x = sequences(3, 3, 1, seed=19, norm=0.9) * np.array([1, 0.6, 0.8])[:, None]
    ours, full = class_kernel(x, alpha=0.8), limiting_kernel(x, alpha=0.8).value
    np.testing.assert_allclose(ours[..., 0], full[..., 0], atol=1e-9)
    assert (np.linalg.eigvalsh((full - ours)[..., 2])[-1] > 1e-3).all()
    assert (np.linalg.eigvalsh((full - ours)[..., 2]) > -1e-9).all()
    nodes, weights = legendre()
    sigma = symmetric_initialisation(2, 1, 0.8, np.random.default_rng(0)).sigma
    # (3, w, u, 2)
    features = np.array(
        [
            [[list(path(sigma, w, u, seq))[2][1:] for u in nodes] for w in (0.8, -0.8)]
            for seq in x[..., 0]
        ]
    )
    inner = np.einsum(
        "iu,ju,u->ij", features[..., 1].mean(axis=1), features[..., 1].mean(axis=1), weights
    )
    means = features[..., 0] @ weights
    np.testing.assert_allclose(ours[..., 2], inner + means @ means.T / 2, atol=1e-9)


@pytest.mark.parametrize(
    ("recurrent", "words"),
    [
        (np.ones_like, r"norms of moves = \(1.0, 0.0\): must be within their bounds, \(0.5, 1.0\)"),
        (lambda w: w[:2], r"recurrent\(…\).shape = \(2,\): must be"),
    ],
)
def test_maps_that_break_their_word_are_refused(recurrent, words):
    maps = TransportMaps(recurrent, np.zeros_like, 0.5, 1.0)
    with pytest.raises(ValueError, match=words):
        transport_target(maps, sequences(2, 3, 2, seed=0), alpha=0.5)
