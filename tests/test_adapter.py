"""A reader's network as the core sees it, against autograd through the real module; what is refused
of networks, batches and files."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence

from lwcore.diagnose import diagnose
from lwcore.diagnose.data import Axes
from lwcore.diagnose.recurrent import Layers, Recurrent
from lwcore.gradient import carry_back
from lwcore.trace import Trace
from lwcore.transport import effective_rates, exact_rates_and_share
from tests.networks import close, draw, flat


def torch_module(kind, layers=1, **options):
    """A float64 module of PyTorch's with strong couplings."""
    torch.manual_seed(0)
    name, _, nonlinearity = kind.partition("-")
    options |= {"nonlinearity": nonlinearity} if nonlinearity else {}
    options = {"batch_first": True} | options
    module = getattr(nn, name)(3, 4, layers, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 1.8
    return module


def traced(module, inputs):
    """A stack as the core has it, and its trace from the state 0."""
    stack = Layers(copy.deepcopy(module).requires_grad_(False))
    return stack, Trace.scan(stack, inputs, inputs.new_zeros(len(inputs), stack.state_size))


def parts_by_lag(module, inputs, delta):
    """Each sequence's and lag's part, (B, T, P): every step has parameters of its own, and autograd
    says what each end owes to which."""
    length, (names, own) = inputs.shape[1], zip(*module.named_parameters(), strict=True)
    parts = inputs.new_zeros(len(inputs), length, len(flat(own)))
    for part, sequence, pulls in zip(parts, inputs, delta, strict=True):
        copies = [[p.detach().clone().requires_grad_() for p in own] for _ in range(length)]
        state = ()
        for t in range(length):
            given = dict(zip(names, copies[t], strict=True))
            output, last = functional_call(module, given, (sequence[None, t : t + 1], *state))
            state = (last,)
            for lag in range(t + 1):
                loss = output[0, 0] @ pulls[t]
                part[lag] += flat(torch.autograd.grad(loss, copies[t - lag], retain_graph=True))
    return parts


@pytest.mark.parametrize(
    ("kind", "layers", "bias"),
    [
        ("LSTM", 1, True),
        ("LSTM", 3, False),
        ("GRU", 1, True),
        ("GRU", 2, True),
        ("RNN-relu", 2, False),
    ],
)
def test_every_lags_part_is_autograds(kind, layers, bias):
    """Of each sequence, along all parameters; one layer by its closed form."""
    module, inputs = torch_module(kind, layers, bias=bias), draw(2, 6, 3)
    delta = draw(2, 6, 4, seed=2)
    delta[:, 0] = 0  # no loss at the first step
    wanted, (stack, trace) = parts_by_lag(module, inputs, delta), traced(module, inputs)
    close(trace.outputs[..., -4:], module(inputs)[0].detach())
    rows = torch.zeros_like(trace.states)
    rows[..., stack.shown[-4:]] = delta
    for lag, at_lag in carry_back(trace, rows, range(6)):
        found = trace.gathered_each(at_lag, slice(0, 6 - lag))
        close(found, wanted[:, lag])
    whole = trace.gathered_each(trace.backpropagate(rows))
    close(whole, wanted.sum(1))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_rates_of_a_stack_are_the_diagonal_of_autograds_jacobian(kind):
    """∂(h of both layers at t)/∂(carried states of both at t−ℓ), through PyTorch's own module."""
    module, lag, t, inputs = torch_module(kind, 2), 3, 5, draw(1, 7, 3)
    stack, trace = traced(module, inputs)
    start = trace.history[0, t - lag + 1]

    def onwards(carried):
        state = start.index_put((stack.carried,), carried).unflatten(0, (2, -1, 1, 4))
        parts = tuple(part.contiguous() for part in state.unbind(1))
        _, last = module(inputs[:, t - lag + 1 : t + 1], parts if len(parts) > 1 else parts[0])
        return (last[0] if isinstance(last, tuple) else last).flatten()

    block = torch.autograd.functional.jacobian(onwards, start[stack.carried])
    rates, share = exact_rates_and_share(trace, [1, lag], [3, 4, t])
    close(rates[0, -1, 1], block.diagonal())
    beside = (block - torch.diag(block.diagonal())).norm() / block.norm()
    close(share[0, -1, 1], beside)
    with pytest.raises(ValueError, match="must be a cell, for orders but the exact one"):
        effective_rates(trace, [1], "zeroth")


class Whole(nn.Module):
    """A network as people write them: a front, a start, a stack, a readout of outputs or states."""

    def __init__(self, kind="LSTM", use="outputs", batch_first=True):
        super().__init__()
        self.embed = nn.Embedding(7, 3) if use == "tokens" else nn.Linear(2, 3)
        self.rnn = torch_module(kind, 2, batch_first=batch_first)
        self.fc = nn.Linear(8 if use == "both states" else 4, 5)
        self.start = draw(2, 1, 4, seed=7) if use == "outputs" else None
        self.use, self.batch_first = use, batch_first
        self.double().eval()

    def forward(self, x):
        assert x.shape[int(self.batch_first)] in (6, 9)  # it takes no other length
        given = ()
        if self.start is not None:
            h = self.start.expand(-1, x.shape[0 if self.batch_first else 1], -1).contiguous()
            given = ((h, 0.5 * h),) if isinstance(self.rnn, nn.LSTM) else (h,)
        outputs, last = self.rnn(self.embed(x), *given)
        if self.use in ("every step", "tokens"):
            return self.fc(outputs)
        if self.use == "outputs":
            return self.fc(outputs[:, -1] if self.batch_first else outputs[-1])
        if self.use == "both states":  # of the LSTM: last layer's h and first layer's c
            return self.fc(torch.cat([last[0][-1], last[1][0]], -1))
        return self.fc(last.mean(0))  # h of both layers


@pytest.mark.parametrize(
    ("kind", "use", "batch_first", "reduction"),
    [
        ("LSTM", "outputs", True, "mean"),
        ("GRU", "outputs", False, "sum"),
        ("GRU", "states", True, "none"),
        ("LSTM", "both states", False, "mean"),
        ("LSTM", "every step", False, "mean"),
        ("LSTM", "tokens", True, "mean"),
    ],
)
def test_parts_add_up_to_each_sequences_gradient(kind, use, batch_first, reduction):
    # as many steps as sequences in one case: only `batch_first` tells them apart
    net, inputs = Whole(kind, use, batch_first), draw(6, 6 if use == "every step" else 9, 2)
    targets, loss = torch.arange(6) % 5, nn.CrossEntropyLoss(reduction=reduction)
    if use in ("every step", "tokens"):
        targets, loss = draw(*inputs.shape[:2], 5, seed=4), nn.MSELoss()
    if use == "tokens":
        inputs = torch.arange(54).reshape(6, 9) % 7

    def laid_out(x):
        return x if batch_first or x.ndim < 2 else x.transpose(0, 1)

    batch = laid_out(inputs), laid_out(targets)
    axes = Axes.of(*batch, batch_first)
    front = axes.front(*batch)
    adapter = Recurrent(net, front, loss=loss, axes=axes)
    adapter.check(*front)
    trace, delta = adapter.read(*front)
    own = trace.gathered_each(trace.backpropagate(delta))
    for found, x, y in zip(own, inputs.split(1), targets.split(1), strict=True):
        total = loss(net(laid_out(x)), laid_out(y)).sum()
        wanted = flat(torch.autograd.grad(total, list(net.rnn.parameters())))
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def test_the_target_alone_is_the_error_of_the_best_constant():
    """Squared error: δ = 2(ȳ − y) v/K; cross-entropy: the shares of the classes less the target's,
    through the readout."""
    net, inputs, values = Whole("GRU"), draw(8, 6, 2), draw(8, 5, seed=3)
    classes = torch.tensor([0, 1, 1, 2, 3, 4, 4, 4])
    of_class = nn.functional.one_hot(classes, 5).double()
    squared = 2 * (values.mean(0) - values) / 5
    for targets, pulls in ((values, squared), (classes, of_class.mean(0) - of_class)):
        adapter = Recurrent(net, (inputs, targets))
        adapter.forget(inputs, targets)
        _, delta = adapter.read(inputs, targets)
        torch.testing.assert_close(delta[:, -1, -4:], pulls @ net.fc.weight.detach())


X = draw(60, 16, 1, seed=5).float()
Y = X[:, -4]


def bare(**options):
    return nn.LSTM(1, 4, **({"batch_first": True} | options)).eval()


class Calls(nn.Module):
    """Calls its module in a way of its own."""

    def __init__(self, how="once", kind="LSTM", hidden=8):
        super().__init__()
        torch.manual_seed(0)
        self.how, self.fc = how, nn.Linear(hidden, 1)
        self.rnn = getattr(nn, kind)(1, hidden, batch_first=True)
        self.train(how == "training")

    def forward(self, x):
        if self.how == "packed":
            packed = pack_padded_sequence(x, torch.full((len(x),), x.shape[1]), batch_first=True)
            return self.fc(self.rnn(packed)[1][0][-1])
        if self.how == "twice":
            first, state = self.rnn(x[:, :1])
            return self.fc(self.rnn(x[:, 1:], state)[0][:, -1] + first[:, -1])
        outputs = self.fc(self.rnn(x)[0][:, -1])
        return outputs - outputs.mean(0) if self.how == "mixing" else outputs


class Odd(nn.LSTM):
    """Is not what it says."""

    def forward(self, x, hx=None):
        outputs, last = super().forward(x, hx)
        return 2 * outputs, last


def scaled(model, factor):
    """A network whose recurrent weights are multiplied."""
    model.rnn.weight_hh_l0.data.mul_(factor)
    return model


def coupled(predictions, targets):
    return 1e-6 * ((predictions - predictions.mean()) - (targets - targets.mean())).square().mean()


class Gap(nn.Module):
    """A step that takes the time since the one before, too."""

    def __init__(self):
        super().__init__()
        self.own, self.decay = nn.GRUCell(1, 4), nn.Parameter(torch.zeros(4))

    def forward(self, x, state, gap):
        return self.own(x, state * torch.exp(-gap * self.decay.exp()))


class Gaps(nn.Module):
    """A loop over such a step."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = Gap(), nn.Linear(4, 1)

    def forward(self, x):
        state = x.new_zeros(len(x), 4)
        for step in x.unbind(1):
            state = self.cell(step, state, torch.ones(len(x), 1))
        return self.out(state)


GAPS = Gaps().eval()
ODD, IDLE = Odd(1, 1, batch_first=True).eval(), bare()
IDLE.unused = nn.Linear(1, 1).eval()
drops = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))
STATES = {"head": lambda out: out[0][:, -1, :1]}
ROWS = [
    ({"model": Calls("training")}, r"model.training = True: must be False: call model\.eval\(\)"),
    ({"model": nn.Identity().eval()}, "parameters = None: must be names of one parameter or more"),
    ({"model": IDLE, "step": IDLE.unused, **STATES}, "step = 'Linear': must be called once a step"),
    (
        {"model": GAPS, "step": GAPS.cell},
        "step = 'Gap': must be .* and nothing else. .* name its parameters in `parameters`",
    ),
    ({"model": bare(bidirectional=True)}, "do not fit squared errors"),
    ({"model": bare(bidirectional=True), **STATES}, "bidirectional = True: must be False"),
    ({"model": bare(proj_size=1), **STATES}, "proj_size = 'above 0': must be 0"),
    ({"model": bare(), "head": lambda out: drops(out[0][:, -1])}, "must be one without random"),
    ({"model": Calls("packed")}, "'packed': must be sequences that are padded and not packed"),
    ({"model": Calls("mixing")}, "a sequence alone as among others. Else sequences are mixed"),
    (
        {"model": scaled(Calls(), torch.nan)},
        "'NaN or infinite in rnn.weight_hh_l0': must be finite",
    ),
    ({"model": scaled(Calls("once", "RNN", 64), 20)}, r"may grow .*: try model\.double\(\)"),
    ({"loss": coupled}, "must be the sum of what these have alone"),
    ({"loss": nn.MSELoss, "model": Calls()}, "'MSELoss': must be a function, not a class"),
    ({"loss": nn.MSELoss(), "batches": (X, Y[:, 0])}, r"predictions \(B, 1\) and targets \(B,\)"),
    (
        {"batches": (X, torch.full((60,), 7))},
        "do not fit cross-entropy. Are they counts, or two classes",
    ),
    ({"batches": (X, Y > 0)}, "do not fit cross-entropy"),
    ({"batches": (X.numpy(), Y.numpy().astype(np.uint64))}, "torch.uint64': must be real or whole"),
    ({"batches": (X, Y + 0j)}, "torch.complex64': must be real or whole numbers"),
    ({"seed": 2**70}, "seed = .*: must be below 2"),
    ({"model": bare(batch_first=False), **STATES}, "with batch_first=True. For a model of"),
    ({"batch_first": False}, r"first axes of targets = \(60, 1\): must be 16 in one"),
    ({"time_axis": 0}, r"time_axis = 0: must be an axis of inputs \(60, 16, 1\) beside"),
    ({"batches": (X[:39], Y[:39])}, "read as 39 sequences of 16 steps of width 1': must be at"),
    ({"sequences": 39}, "sequences = 39: must be a whole number, 40 or above"),
    ({"batches": []}, r"batches = \[\]: must be one pair or more"),
    ({"batches": [X]}, r"batches = 'list of Tensor': must be a pair of tensors"),
    ({"batches": [{"x": X, "y": Y}]}, r"\[0\] = 'dict': must be a pair .* make one of it, as by"),
    ({"batches": [(X, Y), (X[:, 1:], Y)]}, "must be one for all: pad sequences to the longest"),
    ({"batches": (X / 0, Y)}, r"inputs in batches\[0\] = 'NaN or infinite .*: must be finite"),
    ({"loss": lambda p, y: 0 * (p - y).sum()}, "must be one whose gradient is not always 0"),
    ({"model": bare(), "head": lambda out: 0 * Y[: len(out[0])]}, "must be ones that inputs move"),
    ({"batches": (X, 0 * Y), "source": "target"}, "must be 'error' where all targets are the same"),
    ({"lags": [1, 16]}, r"lags = \[1, 16\]: must be below the number of steps, 16"),
]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(("change", "message"), ROWS)
def test_what_would_be_nonsense_is_refused_by_name(change, message):
    given = {"model": Calls(), "batches": (X, Y), "progress": False} | change
    with pytest.raises(ValueError, match=message):
        diagnose(given.pop("model"), given.pop("batches"), **given)


def test_sequences_are_where_batch_first_says():
    """Of a layer that reads steps first, of as many sequences as steps."""
    inputs = draw(48, 48, 1).float()
    time_first, first = bare(batch_first=False), bare()
    first.load_state_dict(time_first.state_dict())
    how = {"head": lambda out: out[0][..., :1], "progress": False}
    one = diagnose(first, (inputs, inputs), [1, 2], **how)
    swapped = inputs.transpose(0, 1)
    two = diagnose(time_first, (swapped, swapped), [1, 2], batch_first=False, **how)
    np.testing.assert_allclose(one.data.statistic, two.data.statistic, rtol=1e-4, atol=1e-9)


def test_a_part_that_is_not_what_its_class_does_is_read_by_its_uses():
    """A layer whose outputs are doubled, and one that is called twice in a pass."""
    for model, options in ((ODD, STATES), (Calls("twice"), {})):
        found = diagnose(model, (X, Y), [1, 2], progress=False, **options)
        assert found.data.route == "uses"
