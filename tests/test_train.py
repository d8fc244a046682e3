"""Training: the update rule, the order of batches, and going on after an interruption."""

from __future__ import annotations

import copy
import platform

import numpy as np
import pytest
import torch

from lwcore import experiment
from lwcore.network import Network
from lwcore.signatures import ArgumentError
from lwcore.tasks import Sequences
from lwcore.train import batch_indices, fit, keep_freed_memory
from tests import oracles
from tests.networks import draw, make


def setting(kind="DiagGate"):
    """A float64 network and sequences whose target it can learn in part."""
    inputs = draw(16, 8, 3, seed=5)
    targets = torch.cat([torch.zeros(16, 2, dtype=torch.float64), inputs[:, :-2, 0]], dim=1)
    return Network(make(kind), torch.Generator().manual_seed(2)), Sequences(inputs, targets)


def test_one_step_of_sgd_is_equation_1():
    """θ − μ ∇E with the gradient by autograd through the step-by-step oracle."""
    network, data = setting()
    before = {n: p.detach().clone() for n, p in network.named_parameters()}
    loss = (network.readout(oracles.scan(network.cell, data.inputs)) - data.targets).square().mean()
    gradient = dict(zip(before, torch.autograd.grad(loss, list(network.parameters())), strict=True))
    losses = fit(network, data, steps=1, batch_size=16, seed=0, optimizer="sgd", learning_rate=0.1)
    assert losses == [pytest.approx(loss.item(), rel=1e-12)]
    for name, p in network.named_parameters():
        torch.testing.assert_close(
            p.detach(), before[name] - 0.1 * gradient[name], rtol=1e-12, atol=1e-14
        )


def test_first_step_of_adamw_is_the_sign_of_the_gradient_and_the_decay():
    """Adam's first step is −μ g/(|g| + ϵ), after the weights have shrunk by μ λ (Loshchilov and
    Hutter)."""
    network, data = setting()
    before = {n: p.detach().clone() for n, p in network.named_parameters()}
    loss = (network.readout(oracles.scan(network.cell, data.inputs)) - data.targets).square().mean()
    gradient = dict(zip(before, torch.autograd.grad(loss, list(network.parameters())), strict=True))
    fit(
        network,
        data,
        steps=1,
        batch_size=16,
        seed=0,
        optimizer="adamw",
        learning_rate=0.1,
        weight_decay=0.3,
    )
    for name, p in network.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.3) - 0.1 * gradient[name] / (
            gradient[name].abs() + 1e-8
        )
        torch.testing.assert_close(p.detach(), expected, rtol=1e-9, atol=1e-11)


def test_clipping_bounds_the_step():
    network, data = setting()
    before = torch.cat([p.detach().flatten().clone() for p in network.parameters()])
    fit(
        network, data, steps=1, batch_size=16, seed=0, optimizer="sgd", learning_rate=1.0, clip=1e-3
    )
    moved = torch.cat([p.detach().flatten() for p in network.parameters()]) - before
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_loss_falls():
    network, data = setting()
    losses = fit(network, data, steps=300, batch_size=16, seed=0, learning_rate=0.02)
    assert np.mean(losses[-20:]) < 0.5 * losses[0]


def test_every_epoch_meets_every_sequence_once():
    for epoch in range(3):
        met = np.concatenate([batch_indices(4, 3 * epoch + place, 12, 4) for place in range(3)])
        assert sorted(met) == list(range(12))
    assert not np.array_equal(batch_indices(4, 0, 12, 12), batch_indices(4, 1, 12, 12))
    assert not np.array_equal(batch_indices(4, 0, 12, 12), batch_indices(5, 0, 12, 12))


@pytest.mark.parametrize("kind", ["DiagGate", "LSTM+norm", "MinGRU"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_interrupted_training_ends_with_the_same_bits(optimizer, kind, tmp_path):
    """By way of a file, in which state dictionaries on the way stand, too."""
    options = {
        "steps": 20,
        "batch_size": 5,
        "seed": 3,
        "optimizer": optimizer,
        "learning_rate": 0.05,
        "weight_decay": 0.01,
        "clip": 0.5,
    }
    whole, data = setting(kind)
    expected = fit(whole, data, **options)
    first, _ = setting(kind)
    path, begun = tmp_path / "a.checkpoint", {0: copy.deepcopy(first.state_dict())}
    fit(
        first,
        data,
        **options | {"steps": 7},
        on_step=lambda state: experiment.save_checkpoint(path, state, begun),
    )
    state, snapshots = experiment.load_checkpoint(path)
    assert (state.step, state.losses, list(snapshots)) == (7, expected[:7], [0])
    assert all(torch.equal(value, begun[0][name]) for name, value in snapshots[0].items())
    # other weights: all must come from the checkpoint
    second = Network(make(kind, seed=99), torch.Generator().manual_seed(99))
    assert fit(second, data, **options, resume_from=state) == expected
    for ours, theirs in zip(second.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_divergence_is_reported():
    network, data = setting()
    with pytest.raises(FloatingPointError, match="training diverged"):
        fit(network, data, steps=500, batch_size=16, seed=0, optimizer="sgd", learning_rate=1e150)
    assert all(p.isfinite().all() for p in network.parameters()), "the step was taken all the same"


def test_sequences_that_do_not_belong_together_are_refused():
    network, (inputs, targets) = setting()
    for wrong in ((inputs, targets[:10]), (inputs, targets[:, :1]), (inputs[0], targets[0])):
        with pytest.raises(ArgumentError, match=r"^(inputs|targets) = .* shape \(S, T"):
            fit(network, Sequences(*wrong), steps=1, batch_size=4, seed=0)
    with pytest.raises(ArgumentError, match=r"^targets = .*must be finite"):
        fit(
            network,
            Sequences(inputs, targets.masked_fill(torch.arange(128).view(16, 8) == 3, torch.nan)),
            steps=1,
            batch_size=4,
            seed=0,
        )


def test_bad_input_is_named_before_any_step():
    network, data = setting()
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(ArgumentError, match=r"^batch_size = 17: must be at most the 16"):
        fit(network, data, steps=1, batch_size=17, seed=0)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_freed_memory_is_kept_where_the_c_library_can():
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
