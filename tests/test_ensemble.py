"""Networks trained together against each trained alone."""

from __future__ import annotations

import copy
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lwcore import train
from lwcore.cells import compiled
from lwcore.ensemble import Ensemble
from lwcore.network import Network
from lwcore.tasks import Sequences
from lwcore.train import Progress, fit, fit_together
from tests.networks import draw, make

OPTIONS = {"batch_size": 4, "learning_rate": 0.05, "weight_decay": 0.01, "clip": 0.05}


def members(kind, count=3):
    """Networks of one kind, and sequences of their own, to be learnt in orders of their own."""
    networks = [Network(make(kind, seed), torch.Generator().manual_seed(seed)) for seed in range(count)]
    sequences = [Sequences(draw(10, 7, 3, seed=20 + s), draw(10, 7, seed=30 + s)) for s in range(count)]
    return networks, sequences, list(range(5, 5 + count))


def alone(kind, **options):
    networks, sequences, seeds = members(kind)
    losses = [fit(*each, seed=seed, **OPTIONS | options) for *each, seed in zip(networks, sequences, seeds, strict=True)]
    return losses, networks


def assert_same(ours, theirs, tolerance):
    for one, other in zip(ours, theirs, strict=True):
        for parameter, expected in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(parameter, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("enabled", "tolerance"), [(True, 0), (False, 1e-9)])
@pytest.mark.parametrize(("kind", "optimizer"), [("GRU+norm", "sgd"), ("LSTM", "adamw")])
def test_members_end_as_they_would_alone(kind, optimizer, enabled, tolerance, monkeypatch):
    """The same bits from the compiled loops; the same to rounding from batched products. Clipping acts on each by itself."""
    monkeypatch.setattr(compiled, "ENABLED", enabled)
    losses, expected = alone(kind, optimizer=optimizer, steps=6)
    networks, sequences, seeds = members(kind)
    together = fit_together(networks, sequences, seeds=seeds, optimizer=optimizer, steps=6, report_every=4, **OPTIONS)
    np.testing.assert_allclose(together, losses, rtol=tolerance)
    assert_same(networks, expected, tolerance)
    assert len({row[0] for row in together}) == 3


@pytest.mark.parametrize("enabled", [True, False])
def test_chunks_change_no_step(enabled, monkeypatch):
    monkeypatch.setattr(compiled, "ENABLED", enabled)
    losses, expected = alone("LSTM+norm", steps=4)
    networks, sequences, seeds = members("LSTM+norm")
    together = fit_together(networks, sequences, seeds=seeds, steps=4, chunk=3, **OPTIONS)
    np.testing.assert_allclose(together, losses, rtol=1e-9)
    assert_same(networks, expected, 1e-9)


def test_interrupted_training_goes_on_with_all_members(monkeypatch):
    monkeypatch.setattr(compiled, "ENABLED", False)
    whole, sequences, seeds = members("GRU")
    expected = fit_together(whole, sequences, seeds=seeds, steps=7, **OPTIONS)
    kept: list[list[Progress]] = []
    first, _, _ = members("GRU")
    fit_together(first, sequences, seeds=seeds, steps=5, report_every=3, on_step=lambda s: kept.append(copy.deepcopy(s)), **OPTIONS)
    assert [states[0].step for states in kept] == [3, 5]
    second = [Network(make("GRU", seed=90 + s)) for s in range(3)]
    assert fit_together(second, sequences, seeds=seeds, steps=7, resume_from=kept[0], **OPTIONS) == expected
    assert_same(second, whole, 0)
    kept[0][1].step = 2
    with pytest.raises(ValueError, match=r"resume_from: steps \[3, 2, 3\]"):
        fit_together(second, sequences, seeds=seeds, steps=7, resume_from=kept[0], **OPTIONS)


class Tape(TorchDispatchMode):
    """What a CUDA graph is, on the processor: the operations of a step, done again on the same tensors, whatever Python would say now.

    As there, an operation whose number Python would have to read cannot be recorded. Unlike there, what is recorded is done at once, and
    so the first replay does nothing.
    """

    def __init__(self):
        super().__init__()
        self.calls, self.replays = [], 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert torch.Tag.data_dependent_output not in function.tags, f"{function} waits for the device"
        result = function(*args, **kwargs or {})
        self.calls.append((function, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self):
        self.replays += 1
        for function, args, kwargs, result in self.calls if self.replays > 1 else ():
            again = function(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Stream:
    """A stream that is the only one."""

    def __init__(self, place):
        pass

    def wait_stream(self, other):
        pass


@pytest.fixture
def tapes(monkeypatch):
    """Let steps be recorded and replayed on the processor; the tapes made."""
    made = []
    monkeypatch.setattr(compiled, "ENABLED", False)
    monkeypatch.setattr(compiled, "recording", lambda like: True)
    monkeypatch.setattr(train, "recordable", lambda place: True)
    monkeypatch.setattr(sys.modules["torch.optim.adam"], "_get_capturable_supported_devices", lambda *_, **__: ["cpu"])
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "device", lambda place: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: made.append(Tape()) or made[-1])
    monkeypatch.setattr(torch.cuda, "graph", lambda tape: tape)
    return made


@pytest.mark.parametrize(("kind", "optimizer", "chunk"), [("GRU", "sgd", None), ("LSTM+norm", "adamw", 3)])
def test_a_step_may_be_recorded_and_replayed(kind, optimizer, chunk, tapes, request):
    """New batches reach it, state goes on from step to step, and it reads no number back."""
    networks, sequences, seeds = members(kind)
    kept: list[list[Progress]] = []
    options = OPTIONS | {"optimizer": optimizer, "chunk": chunk, "seeds": seeds}
    together = fit_together(networks, sequences, steps=9, report_every=4, on_step=lambda s: kept.append(copy.deepcopy(s)), **options)
    assert [tape.replays for tape in tapes] == [9 - train.WARM_UP]
    again = [Network(make(kind, seed=90 + s)) for s in range(3)]
    resumed = fit_together(again, sequences, steps=9, resume_from=kept[0], **options)
    request.getfixturevalue("monkeypatch").undo()
    losses, expected = alone(kind, optimizer=optimizer, steps=9)
    tolerance = 1e-9 if optimizer == "sgd" else 1e-4  # AdamW counts its steps on the device in single precision
    for found, ended in ((together, networks), (resumed, again)):
        np.testing.assert_allclose(found, losses, rtol=tolerance)
        assert_same(ended, expected, tolerance)


def test_divergence_names_the_network_and_its_step(monkeypatch):
    networks, sequences, seeds = members("DiagGate")
    sequences[1] = Sequences(sequences[1].inputs, sequences[1].targets * 1e160)
    with pytest.raises(FloatingPointError, match=r"the loss of network 1 is inf at step 0: training diverged"):
        fit_together(networks, sequences, seeds=seeds, steps=9, report_every=5, **OPTIONS)
    assert all(parameter.isfinite().all() for network in networks for parameter in network.parameters())


def test_networks_that_do_not_belong_together_are_refused():
    networks, sequences, seeds = members("ConstGate")
    for other in (Network(make("DiagGate")), Network(make("ConstGate", hidden_size=5)), Network(make("ConstGate", gate_init=0.4))):
        with pytest.raises(ValueError, match="2 given; must be at least one, all of one cell, shape and dtype"):
            Ensemble([networks[0], other])
    with pytest.raises(ValueError, match="0 given"):
        Ensemble([])
    with pytest.raises(ValueError, match="3 networks, 3 sets of sequences, 2 seeds"):
        fit_together(networks, sequences, seeds=seeds[:2], steps=1, **OPTIONS)
    sequences[1] = Sequences(*(part[:9] for part in sequences[1]))
    with pytest.raises(ValueError, match="of one shape"):
        fit_together(networks, sequences, seeds=seeds, steps=1, **OPTIONS)


@pytest.mark.parametrize(("device", "message"), [("cuda:9", "finds . CUDA devices"), ("abacus", "device = 'abacus'")])
def test_a_device_that_is_not_there_is_named(device, message):
    networks, sequences, seeds = members("ConstGate")
    with pytest.raises(ValueError, match=message):
        fit_together(networks, sequences, seeds=seeds, steps=1, device=device, **OPTIONS)


@pytest.mark.parametrize(("kind", "count", "chunk"), [("DiagGate", 1, None), ("LSTM+norm", 3, 3)])
def test_a_step_stays_on_its_device(kind, count, chunk, monkeypatch):
    """On tensors without numbers, where any with numbers among them would be refused."""
    monkeypatch.setattr(compiled, "recording", lambda like: True)
    networks, _, _ = members(kind, count)
    ensemble = Ensemble([network.to("meta") for network in networks])
    losses = ensemble.backward(*(torch.empty(count, 4, 7, *size, dtype=torch.float64, device="meta") for size in ((3,), ())), chunk)
    gradients = [parameter.grad for network in networks for parameter in network.parameters()]
    assert {tensor.device.type for tensor in (losses, *gradients)} == {"meta"}
    assert losses.shape == (count,)
