"""Listening to a reader's network: loss gradients behind the recurrent module, in any layout, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lwcore.diagnose.subject import Subject
from lwcore.network import Network
from tests.networks import draw, make
from tests.test_diagnose_recurrence import torch_module


class Net(nn.Module):
    """A network as people write them: an embedding, a recurrent module, a readout of outputs or last states."""

    def __init__(self, kind="LSTM", use="outputs", batch_first=True, dropout=0.0, tokens=None):
        super().__init__()
        self.embed = nn.Linear(2, 3, dtype=torch.float64) if tokens is None else nn.Embedding(tokens, 3, dtype=torch.float64)
        self.rnn = torch_module(kind, 2, batch_first=batch_first, dropout=dropout)
        self.fc = nn.Linear(8 if use == "both states" else 4, 5, dtype=torch.float64)
        self.use, self.batch_first = use, batch_first

    def forward(self, x):
        outputs, last = self.rnn(self.embed(x))
        if self.use == "every step":
            return self.fc(outputs)
        if self.use == "outputs":
            return self.fc(outputs[:, -1] if self.batch_first else outputs[-1])
        if self.use == "both states":  # of the LSTM: last layer's h and first layer's c
            return self.fc(torch.cat([last[0][-1], last[1][0]], -1))
        return self.fc((last[0] if isinstance(last, tuple) else last).mean(0))  # h of both layers


def of_recurrent(net, inputs, targets, loss):
    """Each sequence's gradient in the recurrent module's parameters, by autograd through the whole network."""
    parameters = list(net.rnn.parameters())
    axis = 0 if net.batch_first else 1
    rows = []
    for b in range(inputs.shape[axis]):
        target = targets[b : b + 1] if targets.ndim == 1 or axis == 0 else targets[:, b : b + 1]
        value = loss(net(inputs.narrow(axis, b, 1)), target).sum()
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)]))
    return torch.stack(rows)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("kind", "use"), [("LSTM", "outputs"), ("GRU", "states"), ("LSTM", "both states"), ("RNN-tanh", "states")])
def test_parts_of_a_classifier_add_up_to_its_gradient(kind, use, batch_first, reduction):
    net = Net(kind, use, batch_first).eval()
    inputs = draw(6, 9, 2) if batch_first else draw(9, 6, 2)
    targets = torch.arange(6) % 5
    loss = nn.CrossEntropyLoss(reduction=reduction)
    subject = Subject(net, None, loss, (inputs, targets))
    scan, delta = subject.read(subject.front((inputs, targets)))
    parts = sum(part for _, part in scan.lag_parts(delta, list(range(9))))
    torch.testing.assert_close(parts, of_recurrent(net, inputs, targets, loss), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("batch_first", [True, False])
def test_parts_with_a_loss_at_every_step(batch_first):
    net = Net("LSTM", "every step", batch_first).eval()
    shape = (6, 9) if batch_first else (9, 6)
    inputs, targets = draw(*shape, 2), draw(*shape, 5, seed=4)
    subject = Subject(net, None, None, (inputs, targets))
    assert subject.loss_name == "mean squared error"
    scan, delta = subject.read(subject.front((inputs, targets)))
    parts = sum(part for _, part in scan.lag_parts(delta, list(range(9))))
    torch.testing.assert_close(parts, of_recurrent(net, inputs, targets, nn.functional.mse_loss), rtol=1e-10, atol=1e-10)


def test_as_many_steps_as_sequences_is_no_riddle_for_a_bare_module():
    module = torch_module("GRU", 1)  # (T, B, D)
    inputs = draw(5, 5, 3)
    subject = Subject(module, lambda h: h[-1], nn.functional.mse_loss, (inputs, draw(5, 4, seed=2)))
    front = subject.front((inputs, draw(5, 4, seed=2)))
    torch.testing.assert_close(front.inputs, inputs.transpose(0, 1))


def test_tokens_and_single_precision_are_taken_as_they_are():
    net = Net(tokens=7).float().eval()
    tokens, targets = torch.randint(7, (6, 9), generator=torch.Generator().manual_seed(0)), torch.arange(6) % 5
    subject = Subject(net, None, None, (tokens, targets))
    assert subject.loss_name == "cross-entropy"
    scan, delta = subject.read(subject.front((tokens, targets)))
    parts = sum(part for _, part in scan.lag_parts(delta, list(range(9))))
    wanted = of_recurrent(net, tokens, targets, nn.functional.cross_entropy)
    torch.testing.assert_close(parts, wanted.double(), rtol=1e-4, atol=1e-6)
    assert net.rnn.weight_hh_l0.dtype == torch.float32


def test_the_packages_own_network_gives_its_own_loss_gradients():
    network = Network(make("LSTM")).double()
    inputs, targets = draw(5, 8, 3), draw(5, 8, seed=2)
    subject = Subject(network, None, lambda p, y: (p - y).square().sum(), (inputs, targets))
    _, delta = subject.read(subject.front((inputs, targets)))
    trace, wanted = network.observe(inputs, targets)
    torch.testing.assert_close(delta[..., :4], wanted)
    assert trace.hidden_size == 4
    assert not delta[..., 4:].any()


def test_the_target_alone_is_the_error_of_the_best_constant():
    """Squared error: δ = 2(ȳ − y) v/K; cross-entropy: the shares of the classes less the target's, through the readout."""
    net = Net("GRU", "outputs").eval()
    inputs, values, classes = draw(8, 6, 2), draw(8, 5, seed=3), torch.tensor([0, 1, 1, 2, 3, 4, 4, 4])
    for targets, pulls in (
        (values, 2 * (values.mean(0) - values) / 5),
        (classes, nn.functional.one_hot(classes, 5).double().mean(0) - nn.functional.one_hot(classes, 5)),
    ):
        subject = Subject(net, None, None, (inputs, targets))
        data = subject.front((inputs, targets))
        subject.set_constant([data.at(slice(0, 3)), data.at(slice(3, None))])
        _, delta = subject.read(data)
        torch.testing.assert_close(delta[:, -1, -4:], pulls @ net.fc.weight.detach())


def batch(*shape):
    return draw(*shape), torch.arange(shape[0]) % 4


def test_networks_that_cannot_be_diagnosed_are_explained():
    pair = batch(6, 9, 2)
    with pytest.raises(TypeError, match="model is a function"):
        Subject(lambda x: x, None, None, pair)
    with pytest.raises(ValueError, match=r"has 0 recurrent modules \(none\)"):
        Subject(nn.Linear(2, 3), None, None, pair)
    two = nn.ModuleDict({"one": nn.GRU(2, 3), "two": nn.GRU(3, 3)})
    with pytest.raises(ValueError, match=r"2 recurrent modules \(one, two\)"):
        Subject(two, None, None, pair)
    with pytest.raises(ValueError, match="has its own"):
        Subject(Net().eval(), nn.Identity(), None, pair)
    with pytest.raises(ValueError, match=r"dropout is at work in rnn; call model\.eval"):
        Subject(Net(dropout=0.5), None, None, pair)
    with pytest.raises(ValueError, match="batch statistics is at work"):
        Subject(nn.ModuleList([nn.GRU(2, 3), nn.BatchNorm1d(3)]), None, None, pair)
    with pytest.raises(TypeError, match="tensor of three axes"):
        Subject(nn.GRU(2, 3, batch_first=True), None, None, (torch.randn(9, 2), torch.zeros(9)))


class Twice(Net):
    """Calls its module step by step."""

    def forward(self, x):
        first, state = self.rnn(self.embed(x[:, :1]))
        return self.fc(self.rnn(self.embed(x[:, 1:]), state)[0][:, -1] + first[:, -1])


class Mixing(Net):
    """Lets sequences see one another."""

    def forward(self, x):
        y = super().forward(x)
        return y - y.mean(0)


class Odd(nn.GRU):
    """Is not what it says."""

    def forward(self, x, hx=None):
        outputs, last = super().forward(x, hx)
        return 2 * outputs, last


def test_what_the_gradient_by_lag_does_not_hold_for_is_refused():
    pair = batch(6, 9, 2)
    with pytest.raises(ValueError, match="calls its LSTM 2 times"):
        Subject(Twice().eval(), None, None, pair)
    with pytest.raises(ValueError, match="one by one"):
        Subject(Mixing().eval(), None, None, pair)
    with pytest.raises(ValueError, match="documents"):
        Subject(Odd(2, 4, batch_first=True), lambda h: h[:, -1], None, batch(6, 9, 2))
    with pytest.raises(ValueError, match="must be their sum or mean"):
        Subject(Net().eval(), None, nn.CrossEntropyLoss(weight=torch.arange(1.0, 6.0).double()), pair)
    with pytest.raises(TypeError, match="loss gave a float"):
        Subject(Net().eval(), None, lambda p, y: 0.0, pair)
    dropped = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5)).double()
    with pytest.raises(ValueError, match=r"no random draws \(call model.eval"):
        Subject(torch_module("GRU", batch_first=True), lambda h: dropped(h[:, -1]), None, batch(6, 9, 3))
    constant = Subject(torch_module("GRU", batch_first=True), lambda h: h[:, -1].detach(), None, batch(6, 9, 3))
    with pytest.raises(ValueError, match="does not depend"):
        constant.read(constant.front(batch(6, 9, 3)))
