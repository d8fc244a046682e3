"""The lag decomposition against autograd, and the matched statistic against its definition."""

import numpy as np
import pytest
import torch

from lwcore.gradient import (
    Aim,
    alignment,
    carry_back,
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
    unit_length,
)
from lwcore.network import Network
from lwcore.transport import effective_rates
from tests import oracles
from tests.networks import EVERY, close, draw, flat, make


def traced(kind, batch=3, steps=10):
    """Return a network, its trace on random sequences, δ, the targets, and a direction."""
    network = Network(make(kind), torch.Generator().manual_seed(3))
    inputs = draw(batch, steps, 3)
    targets = draw(batch, steps, seed=4)
    trace, delta = network.observe(inputs, targets)
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    return network, trace, delta, targets, direction


def gradients_by_autograd(network, inputs, targets):
    """Return each sequence's gradient of Σ E_t through the step-by-step oracle, (B, P)."""
    parameters = list(network.cell.parameters())
    states = oracles.scan(network.cell, inputs)[..., :4]
    losses = (network.readout(states) - targets).square().sum(1)
    of_sequences = []
    for loss in losses:
        of_sequences.append(flat(torch.autograd.grad(loss, parameters, retain_graph=True)))
    return torch.stack(of_sequences)


@pytest.mark.parametrize("kind", EVERY)
def test_gradient_is_autograds_by_lag_and_along_a_direction(kind):
    """Eq. (3), summed over lags and time, and Eq. (2), sequence by sequence; δ is left alone."""
    network, trace, delta, targets, direction = traced(kind)
    delta = delta.contiguous()
    before = delta.clone()
    expected = gradients_by_autograd(network, trace.inputs, targets)
    along = projected_gradient(trace, delta, direction)
    close(along, expected @ flat(direction.values()))
    by_lag = lag_gradients(trace, delta)
    for name, parameter in network.cell.named_parameters():
        assert by_lag[name].shape == (10, *parameter.shape)
    close(flat(tensor.sum(0) for tensor in by_lag.values()), expected.sum(0))
    chosen = torch.cat([tensor[[0, 2]].flatten(1) for tensor in by_lag.values()], dim=1)
    close(lag_vectors(trace, delta, [0, 2]), chosen)
    assert torch.equal(delta, before)


@pytest.mark.parametrize("kind", EVERY)
def test_lag_part_is_what_equation_3_says(kind):
    """With M by autograd: at each end point, and summed along a direction."""
    network, trace, delta, _, direction = traced(kind, batch=2, steps=8)
    lags = [1, 4]
    ends = range(4, 8)
    vectors = immediate_sensitivity(trace, direction)
    ours = total_transport(trace, delta, vectors, torch.tensor(lags), np.array(ends))
    start = trace.history[1, 0]
    for e, t in enumerate(ends):
        for i, lag in enumerate(lags):
            matrix = oracles.transport(network.cell, trace.inputs[1], start, t, lag)
            expected = delta[1, t] @ matrix[:4] @ vectors[1, t - lag]
            close(ours[1, e, i], expected)
    (of_lag_4,) = lag_vectors(trace, delta, lags=[4])
    close(of_lag_4 @ flat(direction.values()), ours[..., 1].sum())


@pytest.mark.parametrize("kind", EVERY)
def test_total_sensitivity_holds_what_all_longer_lags_carry(kind):
    """With it a lag's part is the sum of all longer ones, which autograd has confirmed."""
    _, trace, delta, _, w = traced(kind, batch=2, steps=6)
    lags = range(1, 6)
    immediate = total_transport(trace, delta, immediate_sensitivity(trace, w), lags, [5])
    total = total_transport(trace, delta, total_sensitivity(trace, w), lags, [5])
    close(total, immediate.flip(-1).cumsum(-1).flip(-1))


def test_transport_may_begin_at_a_later_end_point():
    _, trace, delta, *_ = traced("LSTM")
    whole = dict(carry_back(trace, delta, [0, 2, 9]))
    for first in (4, 9):
        for lag, rows in carry_back(trace, delta, [0, 2, 9], first):
            close(rows, whole[lag][:, max(first - lag, 0) :], atol=0)
    with pytest.raises(ValueError, match=r"^first = 10: must be one of the 10 steps\.$"):
        carry_back(trace, delta, [1], 10)


def test_directions_have_length_one_whatever_their_size():
    sizes = torch.tensor([[1.0], [1e-250], [0.0]], dtype=torch.float64)
    vectors = draw(3, 7)
    expected = vectors / vectors.norm(dim=1, keepdim=True)
    close(unit_length(vectors * sizes)[:2], expected[:2])
    assert not unit_length(vectors * sizes)[2].any()
    direction = random_direction(make("DiagGate"), torch.Generator().manual_seed(0))
    assert flat(direction.values()).norm().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_statistic_is_its_definition_by_loops(kind):
    """Eqs. (27)–(28), entry by entry; streamed or not, at each order."""
    _, trace, delta, _, direction = traced(kind)
    lags = [1, 4]
    ends = [4, 9]
    signs = torch.sign(draw(2, 4, seed=5))
    signs[0, 1] = 0  # of a neuron whose mean is exactly 0
    moved = trace.carried(immediate_sensitivity(trace, direction))
    aims = [Aim(delta, moved, signs), Aim(2 * delta, moved, -signs)]
    rates = effective_rates(trace, lags, "first", ends)
    ours = matched_statistic(rates, alignment(delta, moved, lags, ends), signs)
    streamed = lag_statistics(trace, aims, lags, "first", ends)
    close(streamed, torch.stack([ours, -2 * ours]), atol=1e-14)
    for i, lag in enumerate(lags):
        total = 0.0
        for e, t in enumerate(ends):
            for q in range(4):
                aligned = delta[:, t, q] * moved[:, t - lag, q]
                total = total + signs[i, q] * rates[:, e, i, q] * aligned
        close(ours[:, i], total / len(ends), atol=1e-14)


def test_factorisation_is_exact_where_rates_and_alignments_are_independent():
    """Eqs. (29), (30): of rates that do not fluctuate E T = f m̄, by neuron and lag; and each part
    by its definition."""
    steady = draw(1, 1, 3, 4).expand(2, 5, 3, 4).abs()
    alignments = draw(2, 5, 3, 4, seed=2)
    signs = draw(3, 4, seed=3).sign()
    sides = factorise(steady, alignments, signs)
    weights = steady[0, 0]
    means = alignments.mean((0, 1)) * signs
    close(sides.statistic, matched_statistic(steady, alignments, signs).mean(0))
    close(sides.envelope, weights.sum(1))
    close(sides.alignment, (weights * means).sum(1) / weights.sum(1))
    close(sides.statistic, sides.envelope * sides.alignment)

    moving = steady * draw(2, 5, 3, 4, seed=4)
    dependent = factorise(moving, alignments * moving.sign(), signs)
    close(dependent.envelope, moving.abs().sum(-1).mean((0, 1)))
    gap = dependent.statistic - dependent.envelope * dependent.alignment
    assert (gap.abs() > 1e-3).all()


def test_what_does_not_belong_to_the_trace_is_refused():
    _, trace, delta, _, direction = traced("LSTM")
    moved = immediate_sensitivity(trace, direction)
    numbers = torch.ones(2, 3, 1, 4)
    signs = torch.tensor([[1.0, -1.0, 0.0, torch.nan]])
    with pytest.raises(ValueError, match=r"^direction = .* must be of the shapes"):
        immediate_sensitivity(trace, {})
    with pytest.raises(ValueError, match=r"^lags = .* whole numbers from 0 to 9"):
        lag_gradients(trace, delta, [3, 10])
    with pytest.raises(ValueError, match=r"^ends = \[3\]: must be from 4"):
        total_transport(trace, delta, moved, [1, 4], [3])
    with pytest.raises(ValueError, match=r"^rates = .* at least one"):
        matched_statistic(numbers[:, :0], numbers[:, :0], torch.ones(1, 4))
    with pytest.raises(ValueError, match=r"^signs = .*: must be -1, 0 or 1"):
        matched_statistic(numbers, numbers, signs)


def test_first_loss_is_where_the_first_sequence_has_one():
    delta = torch.zeros(2, 5, 3)
    assert first_loss(delta) == 4
    delta[1, 3, 2] = -1.0
    assert first_loss(delta) == 3
    delta[0, 1, 0] = 1.0
    assert first_loss(delta) == 1
