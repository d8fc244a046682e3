"""Training: the update rule, the order of batches, and going on after an interruption."""

import copy

import numpy as np
import pytest
import torch

from lwcore.experiment import running
from lwcore.network import Network, Progress, _batch_indices, train
from lwcore.signatures import ArgumentError
from lwcore.tasks import Sequences
from tests import oracles
from tests.networks import draw, make

SETTINGS = {"steps": 1, "batch_size": 16, "seed": 0, "learning_rate": 0.1}


def setting(kind="DiagGate", seed=0):
    """A float64 network and sequences whose target it can learn in part."""
    inputs = draw(16, 8, 3, seed=5)
    data = Sequences(inputs, torch.nn.functional.pad(inputs[:, :-2, 0], (2, 0)))
    return Network(make(kind, seed), torch.Generator().manual_seed(seed)), data


# θ − μ ∇E, Eq. (1). Adam's first step is −μ g/(|g| + ϵ), after the weights have shrunk by μ λ
# (Loshchilov and Hutter).
FIRST = {
    "sgd": lambda theta, g: theta - 0.1 * g,
    "adamw": lambda theta, g: theta * (1 - 0.1 * 0.3) - 0.1 * g / (g.abs() + 1e-8),
}


@pytest.mark.parametrize("optimizer", FIRST)
@pytest.mark.parametrize("clip", [None, 1e-3])
def test_first_step_is_that_of_the_update_rule(optimizer, clip):
    """With the gradient by autograd through the step-by-step oracle, bounded by `clip`."""
    network, data = setting()
    before = [p.detach().clone() for p in network.parameters()]
    loss = (network.readout(oracles.scan(network.cell, data.inputs)) - data.targets).square().mean()
    gradient = torch.autograd.grad(loss, list(network.parameters()))
    if clip is not None:
        norm = torch.cat([part.flatten() for part in gradient]).norm()
        gradient = [part * clip / (norm + 1e-6) for part in gradient]
    options = SETTINGS | {"optimizer": optimizer, "weight_decay": 0.3, "clip": clip}
    assert train(network, data, **options) == [pytest.approx(loss.item(), rel=1e-12)]
    for p, theta, g in zip(network.parameters(), before, gradient, strict=True):
        torch.testing.assert_close(p.detach(), FIRST[optimizer](theta, g), rtol=1e-9, atol=1e-11)


def test_every_epoch_meets_every_sequence_once():
    for epoch in range(3):
        met = np.concatenate([_batch_indices(4, 3 * epoch + place, 14, 4) for place in range(3)])
        assert len(set(met)) == len(met) == 12
    first = _batch_indices(4, 0, 12, 12)
    assert sorted(first) == list(range(12))
    assert not np.array_equal(first, _batch_indices(4, 1, 12, 12))
    assert not np.array_equal(first, _batch_indices(5, 0, 12, 12))


@pytest.mark.parametrize("kind", ["LSTM+norm", "MinGRU"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_interrupted_training_ends_with_the_same_bits(optimizer, kind, tmp_path):
    """By way of a file."""
    options = {"batch_size": 5, "seed": 3, "optimizer": optimizer, "weight_decay": 0.01}
    options |= {"steps": 20, "learning_rate": 0.05, "clip": 0.5}
    whole, data = setting(kind)
    expected = train(whole, data, **options)
    first, _ = setting(kind)
    path = tmp_path / "a.checkpoint"

    def save(state):
        running.save_checkpoint(path, state, {})

    train(first, data, **options | {"steps": 7}, on_step=save)
    state, _ = running.load_checkpoint(path)
    assert (state.step, state.losses) == (7, expected[:7])
    second, _ = setting(kind, seed=99)  # all must come from the checkpoint
    assert train(second, data, **options, resume_from=state) == expected
    assert all(map(torch.equal, second.parameters(), whole.parameters()))


def test_divergence_is_reported():
    network, data = setting()
    with pytest.raises(FloatingPointError, match="training diverged"):
        train(
            network, data, **SETTINGS | {"steps": 500, "optimizer": "sgd", "learning_rate": 1e150}
        )
    assert all(p.isfinite().all() for p in network.parameters()), "the step was taken all the same"


def test_bad_input_is_named_before_any_step():
    network, (inputs, targets) = setting()
    before = copy.deepcopy(network.state_dict())
    hole = targets.clone()
    hole[3, 5] = torch.nan
    for wrong, message in {
        (inputs, targets[:, :1]): r"^(inputs|targets) = .* shape \(B, T",
        (inputs, hole): "^targets = .*must be finite",
        (inputs[:15], targets[:15]): "^batch_size = 16: must be at most the 15",
    }.items():
        with pytest.raises(ArgumentError, match=message):
            train(network, Sequences(*wrong), **SETTINGS)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_state_that_was_rounded_is_refused():
    network, data = setting()
    kept = []
    train(network, data, **SETTINGS | {"steps": 3}, on_step=lambda state: kept.append(vars(state)))
    good = copy.deepcopy(kept[-1])
    rounded = {name: value.float() for name, value in good["network"].items()}
    words = r"^resume_from\.network\.weight = .*: must be of torch\.float64"
    with pytest.raises(ArgumentError, match=words):
        train(network, data, **SETTINGS, resume_from=Progress(**good | {"network": rounded}))
