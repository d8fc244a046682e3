"""A reader's network as the core sees it, against autograd through the real module; and what is
refused."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

from lwcore import transport
from lwcore.adapter import Adapter, Layers
from lwcore.diagnose import diagnose
from lwcore.gradient import lag_gradients, transported
from lwcore.network import Network
from lwcore.trace import Trace
from lwcore.transport import effective_rates, exact_rates_and_share
from tests.networks import CELLS, draw, make
from tests.test_diagnose import Net, planted

MODULES = [
    (kind, layers) for kind in ("LSTM", "GRU", "RNN-tanh", "RNN-relu") for layers in (1, 2, 3)
]


def torch_module(kind, layers=1, hidden=4, **options):
    """A float64 module of PyTorch's with strong couplings."""
    torch.manual_seed(0)
    name, _, nonlinearity = kind.partition("-")
    options |= {"nonlinearity": nonlinearity} if nonlinearity else {}
    module = getattr(nn, name)(3, hidden, layers, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 1.8
    return module


def copied(module):
    """A copy for an adapter to keep."""
    return copy.deepcopy(module).requires_grad_(False)


def parts_by_lag(module, inputs, delta):
    """Each sequence's and lag's part, (B, T, P): every step has parameters of its own, and autograd
    says what each end owes to which."""
    length = inputs.shape[1]
    parts = torch.zeros(
        len(inputs), length, sum(p.numel() for p in module.parameters()), dtype=inputs.dtype
    )
    for b in range(len(inputs)):
        copies = [
            {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}
            for _ in range(length)
        ]
        state, outputs = None, []
        for t in range(length):
            output, state = functional_call(
                module, copies[t], (inputs[b : b + 1, t : t + 1], *([state] if t else []))
            )
            outputs.append(output[0, 0])
        for t in range(length):
            for lag in range(t + 1):
                own = list(copies[t - lag].values())
                parts[b, lag] += torch.cat(
                    [
                        g.flatten()
                        for g in torch.autograd.grad(
                            outputs[t] @ delta[b, t], own, retain_graph=True
                        )
                    ]
                )
    return parts


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kind", "layers"), MODULES)
def test_every_lags_part_is_autograds(kind, layers, bias):
    """Of each sequence, along all parameters; together they are what `backward` leaves in the
    module's own parameters."""
    module, inputs, delta = (
        torch_module(kind, layers, batch_first=True, bias=bias),
        draw(2, 6, 3),
        draw(2, 6, 4, seed=2),
    )
    delta[:, 0] = 0  # no loss at the first step
    wanted = parts_by_lag(module, inputs, delta)
    recurrence = Layers(copied(module))
    trace = Trace.of(recurrence, inputs, torch.zeros(2, recurrence.state_size, dtype=torch.float64))
    torch.testing.assert_close(
        trace.outputs[..., -4:], module(inputs)[0].detach(), rtol=0, atol=1e-13
    )
    rows = torch.zeros_like(trace.states)
    rows[..., recurrence.shown[-4:]] = delta
    for lag, at_lag in transported(trace, rows, range(6)):
        torch.testing.assert_close(
            trace.gathered_each(at_lag, slice(0, 6 - lag)), wanted[:, lag], rtol=1e-10, atol=1e-12
        )
    torch.testing.assert_close(
        trace.gathered_each(trace.backpropagate(rows)), wanted.sum(1), rtol=1e-10, atol=1e-12
    )
    (module(inputs)[0] * delta).sum().backward()
    parts = lag_gradients(trace, rows)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parts[name].sum(0), parameter.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_closed_forms_are_autodiffs(kind):
    module, inputs = torch_module(kind, batch_first=True), draw(2, 6, 3)
    recurrence = Layers(copied(module))
    trace = Trace.of(recurrence, inputs, draw(2, recurrence.state_size, seed=3))
    steps = slice(0, 6)
    torch.testing.assert_close(
        trace.jacobian(steps).dense(),
        trace.jacobian(steps, closed=False).dense(),
        rtol=0,
        atol=1e-13,
    )


@pytest.mark.parametrize("entries", [2**23, 0])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN-tanh"])
def test_rates_of_a_stack_are_the_diagonal_of_autograds_jacobian(kind, entries, monkeypatch):
    """∂(h of both layers at t)/∂(carried states of both layers at t−ℓ), through PyTorch's own
    module; with Jacobians kept or not."""
    monkeypatch.setattr(transport, "_CONDENSED_ENTRIES", entries)
    module, lag, t, inputs = torch_module(kind, 2, batch_first=True), 3, 5, draw(1, 7, 3)
    recurrence = Layers(copied(module))
    trace = Trace.of(recurrence, inputs, torch.zeros(1, recurrence.state_size, dtype=torch.float64))
    start = trace.history[0, t - lag + 1]

    def onwards(carried):
        # (layer, part, H)
        state = start.index_put((recurrence.carried,), carried).unflatten(0, (2, -1, 4))
        parts = tuple(state[:, part : part + 1].contiguous() for part in range(state.shape[1]))
        _, last = module(inputs[:, t - lag + 1 : t + 1], parts if len(parts) > 1 else parts[0])
        return (last[0] if isinstance(last, tuple) else last)[:, 0].flatten()

    block = torch.autograd.functional.jacobian(onwards, start[recurrence.carried])
    rates, share = exact_rates_and_share(trace, [1, lag], [3, 4, t])
    torch.testing.assert_close(rates[0, -1, 1], block.diagonal(), rtol=1e-9, atol=1e-12)
    beside = (block - torch.diag(block.diagonal())).norm() / block.norm()
    torch.testing.assert_close(share[0, -1, 1], beside, rtol=1e-9, atol=0)
    with pytest.raises(ValueError, match="must be a cell, for orders but the exact one"):
        effective_rates(trace, [1], "zeroth")


class Whole(nn.Module):
    """A network as people write them: a front, a recurrent module, a readout of outputs or last
    states."""

    def __init__(self, kind="LSTM", use="outputs", batch_first=True, tokens=None):
        super().__init__()
        self.embed = (
            nn.Linear(2, 3, dtype=torch.float64)
            if tokens is None
            else nn.Embedding(tokens, 3, dtype=torch.float64)
        )
        self.rnn = torch_module(kind, 2, batch_first=batch_first)
        self.fc = nn.Linear(8 if use == "both states" else 4, 5, dtype=torch.float64)
        self.start = draw(2, 1, 4, seed=7) if use == "outputs" else None
        self.use, self.batch_first = use, batch_first

    def forward(self, x):
        count = x.shape[0 if self.batch_first else 1]
        start = (
            ()
            if self.start is None
            else (self.start.to(self.fc.weight).expand(-1, count, -1).contiguous(),)
        )
        start = ((*start, 0.5 * start[0]),) if start and isinstance(self.rnn, nn.LSTM) else start
        outputs, last = self.rnn(self.embed(x), *start)
        if self.use == "every step":
            return self.fc(outputs)
        if self.use == "outputs":
            return self.fc(outputs[:, -1] if self.batch_first else outputs[-1])
        if self.use == "both states":  # of the LSTM: last layer's h and first layer's c
            return self.fc(torch.cat([last[0][-1], last[1][0]], -1))
        return self.fc((last[0] if isinstance(last, tuple) else last).mean(0))  # h of both layers


@pytest.mark.parametrize(
    ("kind", "use", "batch_first", "reduction"),
    [
        ("LSTM", "outputs", True, "mean"),
        ("GRU", "outputs", False, "sum"),
        ("GRU", "states", True, "none"),
        ("LSTM", "both states", False, "mean"),
        ("RNN-tanh", "states", True, "sum"),
        ("LSTM", "every step", False, "mean"),
        ("LSTM", "tokens", True, "mean"),
    ],
)
def test_parts_add_up_to_each_sequences_gradient(kind, use, batch_first, reduction):
    net = Whole(kind, use, batch_first, tokens=7 if use == "tokens" else None).eval()
    tolerance, generator = {"rtol": 1e-10, "atol": 1e-10}, torch.Generator().manual_seed(0)
    inputs, targets, loss = (
        draw(6, 9, 2),
        torch.arange(6) % 5,
        nn.CrossEntropyLoss(reduction=reduction),
    )
    if use == "every step":
        targets, loss = draw(6, 9, 5, seed=4), nn.functional.mse_loss
    if use == "tokens":
        net, inputs, tolerance = (
            net.float(),
            torch.randint(7, (6, 9), generator=generator),
            {"rtol": 1e-4, "atol": 1e-6},
        )
    swap = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1) if x.ndim > 1 else x)
    batch = swap(inputs), swap(targets)
    adapter = Adapter(net, batch, loss=loss)
    front = adapter.sequences_first(*batch)
    adapter.check(*front)
    trace, delta = adapter.read(*front)
    own = trace.gathered_each(trace.backpropagate(delta)).to(net.fc.weight)
    for b in range(6):
        total = loss(net(swap(inputs[b : b + 1])), swap(targets[b : b + 1])).sum()
        wanted = torch.cat(
            [g.flatten() for g in torch.autograd.grad(total, list(net.rnn.parameters()))]
        )
        torch.testing.assert_close(own[b], wanted, **tolerance)


@pytest.mark.parametrize("kind", CELLS)
def test_cells_of_the_package_are_read_as_they_read_themselves(kind):
    network = Network(make(kind)).double()
    inputs, targets = draw(5, 8, 3), draw(5, 8, seed=2)
    adapter = Adapter(network, (inputs, targets), loss=lambda p, y: (p - y).square().sum())
    adapter.check(inputs, targets)
    trace, delta = adapter.read(inputs, targets)
    own, wanted = network.observe(inputs, targets)
    torch.testing.assert_close(trace.history, own.history)
    torch.testing.assert_close(delta, own.lifted(wanted))


def test_the_target_alone_is_the_error_of_the_best_constant():
    """Squared error: δ = 2(ȳ − y) v/K; cross-entropy: the shares of the classes less the target's,
    through the readout."""
    net = Whole("GRU", "outputs").eval()
    inputs, values, classes = (
        draw(8, 6, 2),
        draw(8, 5, seed=3),
        torch.tensor([0, 1, 1, 2, 3, 4, 4, 4]),
    )
    for targets, pulls in (
        (values, 2 * (values.mean(0) - values) / 5),
        (
            classes,
            nn.functional.one_hot(classes, 5).double().mean(0) - nn.functional.one_hot(classes, 5),
        ),
    ):
        adapter = Adapter(net, (inputs, targets))
        _, delta = adapter.read(inputs, adapter.forget(inputs, targets))
        torch.testing.assert_close(delta[:, -1, -4:], pulls @ net.fc.weight.detach())


X, Y = planted(60)  # (60, 16, 1) and (60, 1)


def bare(**options):
    return nn.LSTM(1, 4, **({"batch_first": True} | options))


class Calls(Net):
    """Calls its module in a way of its own."""

    def __init__(self, how):
        super().__init__(outputs=1)
        self.how, self.norm = how, nn.BatchNorm1d(8)

    def forward(self, x):
        if self.how == "packed":
            packed = pack_padded_sequence(x, torch.full((len(x),), x.shape[1]), batch_first=True)
            return self.fc(self.rnn(packed)[1][0][-1])
        if self.how == "twice":
            first, state = self.rnn(x[:, :1])
            return self.fc(self.rnn(x[:, 1:], state)[0][:, -1] + first[:, -1])
        outputs = self.fc(self.rnn(x)[0][:, -1])
        return outputs - outputs.mean(0)  # sequences see one another


class Odd(nn.LSTM):
    """Is not what it says."""

    def forward(self, x, hx=None):
        outputs, last = super().forward(x, hx)
        return 2 * outputs, last


def poisoned():
    model = Net(outputs=1)
    model.rnn.weight_hh_l0.data[0, 0] = torch.nan
    return model.eval()


def chaotic():
    model = Net("RNN", outputs=1, hidden=64)
    model.rnn.weight_hh_l0.data.mul_(20)
    return model.eval()


def coupled(predictions, targets):
    return 1e-6 * ((predictions - predictions.mean()) - (targets - targets.mean())).square().mean()


weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))
classes = {"model": Net(outputs=2).eval(), "batches": (X, (Y[:, 0] > 0).long())}
drops = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))
ROWS = {
    "not a module": ({"model": lambda x: x}, "model = <function .*: must be Module"),
    "no recurrent module": (
        {"model": nn.Linear(1, 1)},
        r"recurrent modules of model = \[\]: must be one nn.LSTM",
    ),
    "two recurrent modules": (
        {"model": nn.ModuleDict({"a": bare(), "b": bare()})},
        r"recurrent modules of model = \['a', 'b'\]: must be one",
    ),
    "two directions": (
        {"model": bare(bidirectional=True)},
        "bidirectional=True.*: must be of one direction",
    ),
    "projections": ({"model": bare(proj_size=1)}, "proj_size=1.*: must be .* without projections"),
    "dropout on": (
        {"model": bare(num_layers=2, dropout=0.5)},
        r"dropout .* = \['LSTM'\]: must be .*call model\.eval\(\) first",
    ),
    "batch statistics on": (
        {"model": Calls("mixing")},
        r"batch statistics .* = \['norm'\]: must be .*call model\.eval\(\) first",
    ),
    "dropout in the head": (
        {"model": bare(), "head": lambda h: drops(h[:, -1])},
        r"without random draws \(call model\.eval\(\) first\)",
    ),
    "called twice": (
        {"model": Calls("twice").eval()},
        "calls of the LSTM = 2: must be one in a pass",
    ),
    "packed inside": (
        {"model": Calls("packed").eval()},
        "inputs of the LSTM = 'PackedSequence': must be a tensor of three axes",
    ),
    "sequences mixed": (
        {"model": Calls("mixing").eval()},
        "must be one that predicts for a sequence alone as among others",
    ),
    "not what its class says": (
        {"model": Odd(1, 1, batch_first=True), "head": lambda h: h[:, -1]},
        "must be one that computes what that class documents",
    ),
    "weights that are NaN": ({"model": poisoned()}, "model = 'Net': must be .* no NaN"),
    "chaos in single precision": (
        {"model": chaotic()},
        r"rounding grows in its states: try model\.double\(\)",
    ),
    "a weighted mean": (
        classes | {"loss": weighted},
        r"must be the sum of what 4 sequences have alone, .* or the mean",
    ),
    "a small loss that couples": (
        {"loss": coupled},
        "must be the sum of what 4 sequences have alone",
    ),
    "targets that are broadcast": (
        {"batches": (X, Y[:, 0])},
        r"predictions \(4, 1\) and targets \(4,\) broadcast\?",
    ),
    "swapped axes": (
        {"model": bare(batch_first=False), "head": lambda h: h[-1, :, :1]},
        r"axes of targets = \(60, 1\): must be 16 in one: .* of 60 steps \(are axes swapped",
    ),
    "few sequences": (
        {"batches": (X[:39], Y[:39])},
        "read as 39 sequences of 16 steps of width 1': must be at least 40",
    ),
    "no batch": ({"batches": []}, r"batches = \[\]: must be one pair or more"),
    "inputs alone": ({"batches": [X]}, r"batches\[0\] = 'Tensor': must be a pair of tensors"),
    "several lengths": (
        {"batches": [(X[:30], Y[:30]), (X[30:, 1:], Y[30:])]},
        "must be one for all: equally long sequences",
    ),
    "inputs that are NaN": (
        {"batches": (X.index_fill(1, torch.tensor([0]), torch.nan), Y)},
        r"batches\[0\] = 'NaN or infinite somewhere': must be finite",
    ),
    "a loss without pull": (
        {"loss": lambda p, y: 0 * (p - y).square().mean()},
        "loss = '<lambda>': must be one whose gradient is not always 0",
    ),
    "a head that cuts the graph": (
        {"model": bare(), "head": lambda h: h[:, -1, :1].detach()},
        "loss = 'mse_loss': must be one of what the recurrent module gives",
    ),
    "a target that never changes": (
        {"batches": (X, 0 * Y), "source": "target"},
        "source = 'target': must be 'error' where all targets are the same",
    ),
    "a lag as long as a sequence": (
        {"lags": [1, 16]},
        r"lags = \[1, 16\]: must be below the number of steps, 16",
    ),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("row", ROWS)
def test_what_would_be_nonsense_is_refused_by_name(row):
    change, message = ROWS[row]
    given = {"model": Net(outputs=1).eval(), "batches": (X, Y), "progress": False} | change
    with pytest.raises(ValueError, match=message):
        diagnose(given.pop("model"), given.pop("batches"), **given)


@pytest.mark.parametrize(
    ("batch_first", "shape", "loader", "warned"),
    [
        # fewer sequences than steps, and nothing else says which is which
        (True, (60, 100), None, True),
        (True, (60, 100), 60, False),  # the loader does
        (False, (60, 100), 60, True),  # and here it says otherwise
        (False, (100, 60), None, True),
        (True, (100, 60), None, False),
    ],
)
def test_axes_that_may_be_swapped_are_warned_of(batch_first, shape, loader, warned):
    inputs = draw(*shape, 1).float()
    batches = (
        (inputs, inputs)
        if loader is None
        else DataLoader(TensorDataset(inputs, inputs), batch_size=loader)
    )
    count, length = shape if batch_first else shape[::-1]
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", UserWarning)
        diagnose(
            bare(batch_first=batch_first),
            batches,
            [1],
            head=lambda outputs: outputs[..., :1],
            progress=False,
        )
    read = (
        f"read as {count} sequences of {length} steps, for the LSTM has batch_first={batch_first}"
    )
    assert [read in str(note.message) for note in noted] == [True] * warned
