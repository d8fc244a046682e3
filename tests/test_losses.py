"""Losses as they are given, and as if nothing had been learned: how often these make a lag."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from benchmarks import false_alarms
from lwcore.diagnose.inferred import count_false, detected
from lwcore.diagnose.losses import IGNORED, Untrained, usual_loss
from tests.diagnosed import Attends, by_lag, route

GENERATOR = torch.Generator().manual_seed(0)
COUNT, STEPS, CLASSES = 60, 5, 3


def drawn(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def untrained(loss, targets, width, start=None):
    """The loss of single sequences, (predictions, targets) → (B,), as if nothing were learned."""
    start = drawn(1, width) if start is None else start
    return Untrained(lambda p, y, _: loss(p, y), start, targets.split(16))


def tokens(logits, targets):
    rows = logits.unflatten(1, (STEPS, CLASSES)).mT
    return functional.cross_entropy(rows, targets, reduction="none").sum(1)


def masked(predictions, targets):
    """Squared errors where there is a number, with a weight for each sequence."""
    wanted, weights = targets.unbind(-1)
    return (weights * (predictions - wanted).square()).sum(1)


def labels(seed=0):
    """Classes of which a third of the sequences leave out the last steps."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(CLASSES, (COUNT, STEPS), generator=generator)
    found[::3, 3:] = IGNORED
    return found


def test_what_a_sequence_leaves_out_gets_no_pull():
    """Exactly; what it takes is pulled to its own target from the shares of those that take it."""
    targets = labels()
    is_taken = targets.ne(IGNORED)
    pulls = untrained(tokens, targets, STEPS * CLASSES).pulls(targets)
    pulls = pulls.unflatten(1, (STEPS, CLASSES))
    assert (pulls[~is_taken] == 0).all()
    hits = functional.one_hot(targets.clamp(min=0), CLASSES) * is_taken[..., None]
    shares = hits.sum(0) / is_taken.sum(0)[:, None]
    torch.testing.assert_close(pulls[is_taken], (shares - hits)[is_taken].double())


@given(st.integers(0, 10**6))
def test_weights_and_masks_leave_no_mean_pull_for_any_of_them(seed):
    """The best constant of squared errors is the weighted mean, from wherever it is sought."""
    generator = torch.Generator().manual_seed(seed)
    wanted = 50 + torch.randn(COUNT, STEPS, generator=generator, dtype=torch.float64)
    weights = torch.rand(COUNT, 1, generator=generator, dtype=torch.float64).expand(-1, STEPS)
    weights = weights * (torch.rand(COUNT, STEPS, generator=generator) < 0.7)
    targets = torch.stack([wanted, weights], -1)
    pulls = untrained(masked, targets, STEPS).pulls(targets)
    mean = (weights * wanted).sum(0) / weights.sum(0)
    torch.testing.assert_close(pulls, 2 * weights * (mean - wanted), rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_all_targets_are_the_same_nothing_pulls(dtype):
    """Not the rounding of their mean, either, which would point into one direction."""
    targets = drawn(COUNT, STEPS).to(dtype)
    targets[:, 2] = 0.1
    loss = lambda p, y: 0.1 * (p - y).abs().sum(1)  # noqa: E731
    pulls = untrained(loss, targets, STEPS, drawn(1, STEPS).to(dtype)).pulls(targets)
    assert pulls.any(0).tolist() == [True, True, False, True, True]


def test_a_loss_that_cannot_be_followed_is_taken_where_it_begins():
    """Binary cross-entropy of shares fails outside of [0, 1]."""
    targets = (drawn(COUNT, 2) > 1).double()
    start = torch.full((1, 2), 1e-9, dtype=torch.float64)
    loss = lambda p, y: functional.binary_cross_entropy(p, y, reduction="none").sum(1)  # noqa: E731
    pulls = untrained(loss, targets, 2, start).pulls(targets)
    assert pulls.isfinite().all()
    torch.testing.assert_close(pulls.sum(0) / pulls.abs().amax(0), torch.zeros(2).double())


@pytest.mark.parametrize(("source", "noise"), [("target", "one in 30"), ("error", "log-normal")])
def test_a_lag_that_is_not_there_is_detected_in_one_of_100_draws(source, noise, monkeypatch):
    monkeypatch.setattr(false_alarms, "DRAWS", 60)
    monkeypatch.setattr(false_alarms, "POOL", 80)
    own = false_alarms.parts("behind", 1)
    assert false_alarms.count(source, "behind", noise, 40, own, planted=False) <= 3
    assert false_alarms.count(source, "behind", "Gaussian", 60, own, planted=True) >= 30


def test_noise_is_as_large_as_where_all_errors_have_the_usual_size():
    rng = np.random.default_rng(0)
    statistic = 0.01 + 0.001 * rng.standard_normal((1, 40))
    sizes = np.full(40, 0.01)
    assert detected(statistic, sizes).tolist() == [True]
    sizes[0] = 1.0  # the one with an event, whose own number happens to be as small
    assert detected(statistic, sizes).tolist() == [False]
    assert detected(np.zeros((1, 40)), np.zeros(40)).tolist() == [False]
    assert count_false(rng.standard_normal((6, 40)), np.ones(40), rng) <= 25


def test_the_usual_loss_is_the_one_that_fits():
    real, whole = torch.zeros(4, 5), torch.zeros(4, 5, dtype=torch.int64)
    assert usual_loss((5,), real, "").__name__ == "mse_loss"
    assert usual_loss((5, 3), whole, "").__name__ == "cross_entropy"
    for shape, targets in (((5, 2), real), ((5,), whole), ((5, 5), whole)):
        with pytest.raises(ValueError, match="loss = 'None'"):
            usual_loss(shape, targets, "these shapes")


LENGTH = 8
DATA = drawn(COUNT, LENGTH, 2), drawn(COUNT, LENGTH, 1)


def parts(model, data=DATA, **how):
    return by_lag(route(model, data, **how), range(LENGTH))


def test_labels_that_are_ignored_are_left_out():
    """−100, whole sequences among them. The oracle sums cross-entropy over what is left."""
    inputs = torch.randint(7, (COUNT, LENGTH), generator=torch.Generator().manual_seed(0))
    wanted = inputs.roll(2, 1)
    wanted[:, :2] = wanted[::3, 6:] = wanted[5] = IGNORED

    def summed(predictions, targets):
        is_left = targets >= 0
        logs = predictions.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        return -logs[is_left].sum()

    last = Attends(tokens=7, outputs=7).double()
    second = Attends(tokens=7, outputs=7, after=lambda p: p.mT).double()
    by_hand = parts(last, (inputs, wanted), loss=summed)
    given = nn.CrossEntropyLoss(reduction="sum")
    for model, loss in ((last, None), (second, None), (second, given)):
        torch.testing.assert_close(parts(model, (inputs, wanted), loss=loss), by_hand)


def test_a_loss_takes_the_one_tensor_that_the_model_gives():
    wanted = parts(Attends().double())
    cached = Attends(after=lambda p: (p, "a cache")).double()
    for loss in (None, nn.MSELoss(), functional.mse_loss):
        assert torch.equal(parts(cached, loss=loss), wanted)
    torch.testing.assert_close(parts(cached, loss=nn.MSELoss(reduction="none")), LENGTH * wanted)
    sizes = route(cached, DATA).objective.error_sizes(torch.arange(COUNT))
    errors = (cached(DATA[0])[0] - DATA[1]).detach().flatten(1)
    np.testing.assert_allclose(sizes, 2 / LENGTH * errors.norm(dim=1))
