"""The lag decomposition against autograd, and the matched statistic against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lwcore.gradient import (
    Aim,
    alignment,
    factorise,
    first_loss,
    immediate_sensitivity,
    lag_gradients,
    lag_statistics,
    lag_vectors,
    matched_statistic,
    projected_gradient,
    random_direction,
    total_sensitivity,
    total_transport,
    transported,
)
from lwcore.network import Network
from lwcore.transport import effective_rates, envelope, stream_rates
from tests import oracles
from tests.networks import EVERY, draw, make


def traced(kind, batch=3, steps=10):
    """A network, its trace on random sequences, and the loss gradients."""
    network = Network(make(kind), torch.Generator().manual_seed(3))
    inputs, targets = draw(batch, steps, 3), draw(batch, steps, seed=4)
    trace = network.cell.trace(inputs)
    return network, trace, network.loss_gradients(network.residual(trace.outputs, targets)), targets


@pytest.mark.parametrize("kind", EVERY)
def test_lag_parts_add_up_to_the_gradient(kind):
    """Eq. (3), summed over lags and time, is autograd's gradient of Σ E_t through the step-by-step
    oracle."""
    network, trace, delta, targets = traced(kind)
    parts = lag_gradients(trace, delta)
    loss = (
        (network.readout(oracles.scan(network.cell, trace.inputs)[..., :4]) - targets)
        .square()
        .sum()
    )
    expected = dict(
        zip(parts, torch.autograd.grad(loss, list(network.cell.parameters())), strict=True)
    )
    for name, part in parts.items():
        assert part.shape == (10, *expected[name].shape)
        torch.testing.assert_close(part.sum(0), expected[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_one_lag_is_what_equation_3_says(kind):
    """The lag-3 part along a direction, with M_{t,3} by autograd and B from the trace."""
    network, trace, delta, _ = traced(kind, batch=1, steps=6)
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    sensitivity = immediate_sensitivity(trace, direction)
    expected = sum(
        delta[0, t]
        @ oracles.transport(network.cell, trace.inputs[0], trace.history[0, 0], t, 3)[:4]
        @ sensitivity[0, t - 3]
        for t in range(3, 6)
    )
    part = lag_gradients(trace, delta, lags=[3])
    along = sum((part[name][0] * direction[name]).sum() for name in part)
    torch.testing.assert_close(along, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kind", EVERY)
def test_total_transport_is_the_product_by_autograd(kind):
    network, trace, delta, _ = traced(kind, batch=2, steps=8)
    vectors, lags, ends = draw(2, 8, network.cell.state_size, seed=6), [1, 4], [4, 6, 7]
    ours = total_transport(trace, delta, vectors, lags, ends)
    for b in range(2):
        for e, t in enumerate(ends):
            for i, lag in enumerate(lags):
                matrix = oracles.transport(
                    network.cell, trace.inputs[b], trace.history[b, 0], t, lag
                )
                torch.testing.assert_close(
                    ours[b, e, i],
                    delta[b, t] @ matrix[:4] @ vectors[b, t - lag],
                    rtol=1e-10,
                    atol=1e-13,
                )


@pytest.mark.parametrize("kind", EVERY)
def test_projected_gradient_is_each_sequences_own(kind):
    network, trace, delta, targets = traced(kind)
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    ours = projected_gradient(trace, delta, direction)
    for b in range(3):
        loss = (network(trace.inputs[b : b + 1]) - targets[b : b + 1]).square().sum()
        gradient = torch.autograd.grad(loss, list(network.cell.parameters()))
        expected = sum((g * w).sum() for g, w in zip(gradient, direction.values(), strict=True))
        torch.testing.assert_close(ours[b], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_total_sensitivity_is_the_derivative_of_the_scan(kind):
    """Against the derivative of the whole oracle scan as a central difference quotient."""
    cell = make(kind)
    inputs, direction = draw(2, 6, 3), random_direction(cell, torch.Generator().manual_seed(8))
    expected = oracles.slope(cell, direction, lambda: oracles.scan(cell, inputs))
    torch.testing.assert_close(
        total_sensitivity(cell.trace(inputs), direction), expected, rtol=1e-6, atol=1e-8
    )


def test_total_sensitivity_makes_a_lag_the_sum_of_all_longer_ones():
    network, trace, delta, _ = traced("GRU")
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    sensitivities = immediate_sensitivity(trace, direction), total_sensitivity(trace, direction)
    parts, tails = (
        total_transport(trace, delta, sensitivity, range(1, 10), [9])
        for sensitivity in sensitivities
    )
    torch.testing.assert_close(tails, parts.flip(-1).cumsum(-1).flip(-1), rtol=1e-10, atol=1e-13)


def test_transport_may_begin_at_a_later_end_point():
    _, trace, delta, _ = traced("LSTM")
    whole = dict(transported(trace, delta, [0, 2, 9]))
    for first in (4, 9):
        for lag, rows in transported(trace, delta, [0, 2, 9], first):
            torch.testing.assert_close(
                rows, whole[lag][:, max(first - lag, 0) :], rtol=1e-12, atol=0
            )
    with pytest.raises(ValueError, match=r"^first = 10: must be one of the 10 steps\.$"):
        transported(trace, delta, [1], 10)


def test_lag_vectors_hold_every_parameter():
    network, trace, delta, _ = traced("LSTM")
    vectors, parts = lag_vectors(trace, delta, [0, 2]), lag_gradients(trace, delta, [0, 2])
    assert vectors.shape == (2, sum(p.numel() for p in network.cell.parameters()))
    assert vectors[1].square().sum().item() == pytest.approx(
        sum(part[1].square().sum().item() for part in parts.values())
    )


def test_random_direction_is_a_unit_vector():
    direction = random_direction(make("DiagGate"), torch.Generator().manual_seed(0))
    assert sum(d.square().sum() for d in direction.values()).item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_statistic_is_its_definition_by_loops(kind):
    """Eqs. (27)–(28), entry by entry; streamed or not, at each order."""
    network, trace, delta, _ = traced(kind)
    lags, ends = [1, 4], [4, 9]
    sensitivity = trace.carried(
        immediate_sensitivity(
            trace, random_direction(network.cell, torch.Generator().manual_seed(8))
        )
    )
    signs = torch.sign(draw(2, 4, seed=5))
    signs[0, 1] = 0  # of a neuron whose mean is exactly 0
    for order in ("zeroth", "first", "exact"):
        rates = effective_rates(trace, lags, order=order, ends=ends)
        ours = matched_statistic(rates, alignment(delta, sensitivity, lags, ends), signs)
        aims = [Aim(delta, sensitivity, signs), Aim(2 * delta, sensitivity, -signs)]
        found = lag_statistics(trace, aims, lags, order, ends)
        torch.testing.assert_close(found, torch.stack([ours, -2 * ours]), rtol=1e-11, atol=1e-14)
    rates = effective_rates(trace, lags, order="exact", ends=ends)
    for b in range(3):
        for i, lag in enumerate(lags):
            terms = [
                signs[i, q] * rates[b, e, i, q] * delta[b, t, q] * sensitivity[b, t - lag, q]
                for e, t in enumerate(ends)
                for q in range(4)
            ]
            torch.testing.assert_close(
                ours[b, i], torch.stack(terms).sum() / len(ends), rtol=1e-12, atol=1e-14
            )


def test_direction_of_another_cell_is_refused():
    _, trace, _, _ = traced("DiagGate")
    right = random_direction(make("DiagGate"), torch.Generator().manual_seed(0))
    for wrong in (random_direction(make("ConstGate")), {}, right | {"extra": right["bias"]}):
        with pytest.raises(ValueError, match=r"^direction = .* must be of the shapes of the"):
            immediate_sensitivity(trace, wrong)
    with pytest.raises((TypeError, ValueError, RuntimeError), match="float"):
        immediate_sensitivity(trace, {name: part.float() for name, part in right.items()})
    right["bias"][0] = float("nan")
    with pytest.raises(ValueError, match=r"^direction\['bias'\] = .* must be finite"):
        immediate_sensitivity(trace, right)


def test_statistic_is_a_mean_over_any_number_of_end_points():
    # (B, ends, lags, H)
    rates, alignments = (torch.arange(48.0).reshape(2, 3, 2, 4) + start for start in (0, 1))
    signs = torch.tensor([[1.0, -1, 1, 0], [-1, 1, 0, 1]])
    expected = (rates * alignments * signs).sum(-1).mean(1)
    torch.testing.assert_close(matched_statistic(rates, alignments, signs), expected)


def test_factorisation_is_exact_where_rates_and_alignments_are_independent():
    """Eqs. (29), (30): of rates that do not fluctuate E T = f m̄, by neuron and lag; and each part
    by its definition."""
    steady, alignments, signs = (
        draw(1, 1, 3, 4).expand(2, 5, 3, 4).abs(),
        draw(2, 5, 3, 4, seed=2),
        draw(3, 4, seed=3).sign(),
    )
    found = factorise(steady, alignments, signs)
    torch.testing.assert_close(
        found.statistic, matched_statistic(steady, alignments, signs).mean(0), rtol=1e-12, atol=0
    )
    torch.testing.assert_close(found.envelope, envelope(steady), rtol=1e-12, atol=0)
    torch.testing.assert_close(
        found.statistic, found.envelope * found.alignment, rtol=1e-10, atol=1e-14
    )
    for lag in range(3):
        weights = steady[0, 0, lag] / steady[0, 0, lag].sum()
        mean = sum(weights[q] * signs[lag, q] * alignments[:, :, lag, q].mean() for q in range(4))
        torch.testing.assert_close(found.alignment[lag], mean, rtol=1e-12, atol=1e-14)
    moving = steady * draw(2, 5, 3, 4, seed=4)
    apart = factorise(moving, alignments * moving.sign(), signs)
    assert ((apart.statistic - apart.envelope * apart.alignment).abs() > 1e-3).all()


def test_what_does_not_belong_to_the_trace_is_refused():
    network, trace, delta, _ = traced("LSTM")
    moved = immediate_sensitivity(
        trace, random_direction(network.cell, torch.Generator().manual_seed(8))
    )
    for wrong in (delta[:1], delta[:, 1:], delta * torch.nan):
        with pytest.raises(ValueError, match=r"^loss_gradients = "):
            lag_gradients(trace, wrong)
    for lags in ([-1], [2, 2], [1.5], [3, 10]):
        with pytest.raises(ValueError, match=r"^lags = .* must be whole numbers from 0 to 9 that"):
            lag_gradients(trace, delta, lags)
    for wrong in (moved[:1], moved[:, 1:], moved[..., 1:]):
        with pytest.raises(ValueError, match=r"^sensitivity = "):
            total_transport(trace, delta, wrong, [1, 4], [5])
    with pytest.raises(ValueError, match=r"^ends = \[3\]: must be from 4, the longest lag, to 9"):
        total_transport(trace, delta, moved, [1, 4], [3])
    with pytest.raises(ValueError, match=r"^rates = .* must be of at least one"):
        matched_statistic(torch.zeros(2, 0, 4, 5), torch.zeros(2, 0, 4, 5), torch.zeros(4, 5))
    assert torch.equal(
        total_transport(trace, delta, moved, torch.tensor([1, 4]), np.array([5, 7])),
        total_transport(trace, delta, moved, [1, 4], [5, 7]),
    )


def test_what_is_streamed_does_not_grow_with_the_number_of_lags():
    """A few sequences at a lag; the exact diagonals a sequence at a time."""
    trace = traced("DiagGate", batch=6, steps=40)[1]
    for order in ("zeroth", "first", "exact"):
        groups = [
            (part, [rates.mantissa.shape for rates in at_lags])
            for part, at_lags in stream_rates(trace, [1, 9], torch.arange(9, 40), order)
        ]
        assert all(len(shape) == 3 for _, shapes in groups for shape in shapes)
        if order == "exact":
            assert [part for part, _ in groups] == [slice(i, i + 1) for i in range(6)]


def test_first_loss_is_where_the_first_sequence_has_one():
    delta = torch.zeros(2, 5, 3)
    assert first_loss(delta) == 4
    delta[1, 3, 2] = -1.0
    assert first_loss(delta) == 3
    delta[0, 1, 0] = 1.0
    assert first_loss(delta) == 1
