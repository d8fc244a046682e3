"""The lag decomposition against autograd, and the matched statistic against its definition."""

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
    unit_length,
)
from lwcore.network import Network
from lwcore.transport import effective_rates, envelope
from tests import oracles
from tests.networks import EVERY, close, draw, make


def traced(kind, batch=3, steps=10):
    """A network, its trace on random sequences, the loss gradients, targets, and a direction."""
    network = Network(make(kind), torch.Generator().manual_seed(3))
    inputs, targets = draw(batch, steps, 3), draw(batch, steps, seed=4)
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    return network, *network.observe(inputs, targets), targets, direction


@pytest.mark.parametrize("kind", EVERY)
def test_gradient_is_autograds_by_lag_and_along_a_direction(kind):
    """Eq. (3), summed over lags and time, and Eq. (2), sequence by sequence, are autograd's
    gradient of Σ E_t through the step-by-step oracle; δ is left alone."""
    network, trace, delta, targets, direction = traced(kind)
    delta, parameters = delta.contiguous(), list(network.cell.parameters())
    before = delta.clone()
    along = projected_gradient(trace, delta, direction)
    states = oracles.scan(network.cell, trace.inputs)[..., :4]
    losses = (network.readout(states) - targets).square().sum(1)
    each = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    for found, gradient in zip(along, each, strict=True):
        pairs = zip(gradient, direction.values(), strict=True)
        close(found, sum((part * w).sum() for part, w in pairs))
    parts = lag_gradients(trace, delta)
    for part, gradients in zip(parts.values(), zip(*each, strict=True), strict=True):
        assert part.shape == (10, *gradients[0].shape)
        close(part.sum(0), sum(gradients))
    vectors = lag_vectors(trace, delta, [0, 2])
    close(vectors, torch.cat([part[[0, 2]].flatten(1) for part in parts.values()], dim=1))
    assert torch.equal(delta, before)


@pytest.mark.parametrize("kind", EVERY)
def test_lag_part_is_what_equation_3_says(kind):
    """With M by autograd: at each end point, and summed along a direction."""
    network, trace, delta, _, direction = traced(kind, batch=2, steps=8)
    vectors, lags, ends = immediate_sensitivity(trace, direction), [1, 4], range(4, 8)
    ours = total_transport(trace, delta, vectors, torch.tensor(lags), np.array(ends))
    for e, t in enumerate(ends):
        for i, lag in enumerate(lags):
            start = trace.history[1, 0]
            matrix = oracles.transport(network.cell, trace.inputs[1], start, t, lag)
            close(ours[1, e, i], delta[1, t] @ matrix[:4] @ vectors[1, t - lag])
    parts = lag_gradients(trace, delta, lags=[4])
    close(sum((parts[name][0] * direction[name]).sum() for name in parts), ours[..., 1].sum())


@pytest.mark.parametrize("kind", EVERY)
def test_total_sensitivity_holds_what_all_longer_lags_carry(kind):
    """With it a lag's part is the sum of all longer ones, which autograd has confirmed."""
    _, trace, delta, _, w = traced(kind, batch=2, steps=6)
    parts, tails = (
        total_transport(trace, delta, sensitivity, range(1, 6), [5])
        for sensitivity in (immediate_sensitivity(trace, w), total_sensitivity(trace, w))
    )
    close(tails, parts.flip(-1).cumsum(-1).flip(-1))


def test_transport_may_begin_at_a_later_end_point():
    _, trace, delta, *_ = traced("LSTM")
    whole = dict(transported(trace, delta, [0, 2, 9]))
    for first in (4, 9):
        for lag, rows in transported(trace, delta, [0, 2, 9], first):
            close(rows, whole[lag][:, max(first - lag, 0) :], atol=0)
    with pytest.raises(ValueError, match=r"^first = 10: must be one of the 10 steps\.$"):
        transported(trace, delta, [1], 10)


def test_directions_have_length_one_whatever_their_size():
    vectors = draw(3, 7) * torch.tensor([[1.0], [1e-250], [0.0]], dtype=torch.float64)
    found = unit_length(vectors)
    close(found.norm(dim=1), torch.tensor([1.0, 1, 0], dtype=torch.float64))
    close(found[1], 1e250 * vectors[1] / (1e250 * vectors[1]).norm())
    close(unit_length(vectors.expand(2, 3, 7))[1], found)
    direction = random_direction(make("DiagGate"), torch.Generator().manual_seed(0))
    assert sum(d.square().sum() for d in direction.values()).item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_statistic_is_its_definition_by_loops(kind):
    """Eqs. (27)–(28), entry by entry; streamed or not, at each order."""
    _, trace, delta, _, direction = traced(kind)
    lags, ends, signs = [1, 4], [4, 9], torch.sign(draw(2, 4, seed=5))
    moved = trace.carried(immediate_sensitivity(trace, direction))
    signs[0, 1] = 0  # of a neuron whose mean is exactly 0
    for order in ("zeroth", "first", "exact"):
        rates = effective_rates(trace, lags, order, ends)
        ours = matched_statistic(rates, alignment(delta, moved, lags, ends), signs)
        aims = [Aim(delta, moved, signs), Aim(2 * delta, moved, -signs)]
        found = lag_statistics(trace, aims, lags, order, ends)
        close(found, torch.stack([ours, -2 * ours]), atol=1e-14)
    for i, lag in enumerate(lags):
        terms = [
            signs[i, q] * rates[:, e, i, q] * delta[:, t, q] * moved[:, t - lag, q]
            for e, t in enumerate(ends)
            for q in range(4)
        ]
        close(ours[:, i], sum(terms) / len(ends), atol=1e-14)


def test_factorisation_is_exact_where_rates_and_alignments_are_independent():
    """Eqs. (29), (30): of rates that do not fluctuate E T = f m̄, by neuron and lag; and each part
    by its definition."""
    steady = draw(1, 1, 3, 4).expand(2, 5, 3, 4).abs()
    alignments, signs = draw(2, 5, 3, 4, seed=2), draw(3, 4, seed=3).sign()
    found, weights = factorise(steady, alignments, signs), steady[0, 0]
    means = alignments.mean((0, 1)) * signs
    close(found.statistic, matched_statistic(steady, alignments, signs).mean(0))
    close(found.envelope, weights.sum(1))
    close(found.alignment, (weights * means).sum(1) / weights.sum(1))
    close(found.statistic, found.envelope * found.alignment)
    moving = steady * draw(2, 5, 3, 4, seed=4)
    apart = factorise(moving, alignments * moving.sign(), signs)
    close(apart.envelope, envelope(moving))
    assert ((apart.statistic - apart.envelope * apart.alignment).abs() > 1e-3).all()


def test_what_does_not_belong_to_the_trace_is_refused():
    _, trace, delta, _, direction = traced("LSTM")
    moved = immediate_sensitivity(trace, direction)
    for wrong in (random_direction(make("ConstGate")), {}, direction | {"extra": moved}):
        with pytest.raises(ValueError, match=r"^direction = .* must be of the shapes of the"):
            immediate_sensitivity(trace, wrong)
    with pytest.raises((TypeError, ValueError, RuntimeError), match="float"):
        immediate_sensitivity(trace, {name: part.float() for name, part in direction.items()})
    with pytest.raises(ValueError, match=r"^direction\['bias'\] = .* must be finite"):
        immediate_sensitivity(trace, direction | {"bias": direction["bias"] * torch.nan})
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


def test_first_loss_is_where_the_first_sequence_has_one():
    delta = torch.zeros(2, 5, 3)
    assert first_loss(delta) == 4
    delta[1, 3, 2] = -1.0
    assert first_loss(delta) == 3
    delta[0, 1, 0] = 1.0
    assert first_loss(delta) == 1
