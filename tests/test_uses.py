"""Any causal model: what parameters used at each time give, against autograd and recurrences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lwcore.diagnose import diagnose, recurrent
from lwcore.diagnose.repeats import count_repeats
from lwcore.diagnose.uses import Uses
from tests.networks import close, draw, flat


class Attention(nn.Module):
    """One block of causal attention, by hand."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.read = nn.Linear(width, hidden)
        self.places = nn.Embedding(64, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        shown = self.read(x)
        h = self.norm(shown + self.places(torch.arange(x.shape[1])))
        given = self.query(h), self.key(h), self.value(h)
        seen = functional.scaled_dot_product_attention(*given, is_causal=True)
        return self.head(torch.tanh(shown + seen))


class Transformer(nn.Module):
    """PyTorch's own encoder layer, which flattens sequences within steps."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.read, self.head = nn.Linear(width, hidden), nn.Linear(hidden, 1)
        self.layer = nn.TransformerEncoderLayer(hidden, 2, 12, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.head(self.layer(self.read(x), mask, is_causal=True))


class Loop(nn.Module):
    """A loop over one of PyTorch's cells."""

    def __init__(self, cell=nn.GRUCell, width=3, hidden=8):
        super().__init__()
        self.cell, self.head = cell(width, hidden), nn.Linear(hidden, 1)

    def forward(self, x):
        state, shown = None, []
        for step in x.unbind(1):
            state = self.cell(step, state)
            shown.append(state[0] if isinstance(state, tuple) else state)
        return self.head(torch.stack(shown, 1))


class Hand(nn.Module):
    """A recurrence of plain parameters, with an initial state and a decay made anew every step."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.W, self.U = (nn.Parameter(0.3 * torch.randn(n, hidden)) for n in (width, hidden))
        self.h0, self.decay = (nn.Parameter(torch.randn(hidden)) for _ in range(2))
        self.out = nn.Parameter(torch.randn(hidden))

    def forward(self, x):
        state, shown = self.h0.expand(len(x), -1), []
        for t in range(x.shape[1]):
            kept = torch.exp(-functional.softplus(self.decay)) * state
            state = kept + torch.tanh(x[:, t] @ self.W + state @ self.U)
            shown.append(state)
        return torch.stack(shown, 1) @ self.out


class Zero(Hand):
    """The same, its recurrent weights 0 at the start: their uses move nothing yet."""

    def __init__(self, width=3, hidden=8):
        super().__init__(width, hidden)
        nn.init.zeros_(self.U)


class MinGRU(nn.Module):
    """Gate and candidate of the input alone, of all steps at once; then a loop."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.gate, self.candidate = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        gate, candidate = torch.sigmoid(self.gate(x)), self.candidate(x)
        state, shown = torch.zeros_like(gate[:, 0]), []
        for t in range(x.shape[1]):
            state = (1 - gate[:, t]) * state + gate[:, t] * candidate[:, t]
            shown.append(state)
        return self.head(torch.stack(shown, 1))


class Convolution(nn.Module):
    """Causal convolutions, one cut and one padded before, between steps flattened."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.cut = nn.Conv1d(width, hidden, 3, padding=4, dilation=2)
        self.padded = nn.Conv1d(hidden, hidden, 3, groups=hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.relu(self.cut(x.mT)[..., : x.shape[1]])
        h = self.padded(functional.pad(h, (2, 0))).mT
        return self.head(h.reshape(-1, h.shape[-1])).reshape(*x.shape[:2], 1)


class LSTM(nn.Module):
    """A recurrent module, whose gates start open."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.rnn, self.head = nn.LSTM(width, hidden, batch_first=True), nn.Linear(hidden, 1)
        nn.init.constant_(self.rnn.bias_ih_l0[hidden : 2 * hidden], 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class Stack(nn.Module):
    """Two recurrent modules, one above the other."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.below = nn.LSTM(width, hidden, 2, batch_first=True)
        self.above = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.above(self.below(x)[0])[0])


MODELS = (Attention, Transformer, Loop, Hand, Zero, MinGRU, Convolution, Stack)


def made(kind, *args, **options):
    torch.manual_seed(0)
    return kind(*args, **options).double().eval()


def read(model, inputs, targets, **options):
    network = Uses(model, (inputs, targets), **options)
    network.check(inputs, targets)
    return network.read(inputs, targets)


def series(count=200, length=12, shift=1):
    """Pieces of one long series, each a few steps on from the last."""
    whole = draw(count * shift + length, 1, 1)[:, 0].float()
    return torch.stack([whole[shift * i : shift * i + length] for i in range(count)])


@pytest.mark.parametrize("kind", MODELS)
def test_all_lags_together_are_autograds_gradient(kind):
    """Of each sequence along a direction, and of all as a vector."""
    model, inputs, targets = made(kind), draw(6, 9, 3), draw(6, 9, 1, seed=2)
    targets = targets[..., 0] if issubclass(kind, Hand) else targets
    reading, lags = read(model, inputs, targets), range(9)
    vectors = reading.lag_vectors(lags)
    w = torch.randn(vectors.shape[1], dtype=torch.float64)
    along, whole = reading.band_numbers(w.expand(9, -1), [[lag] for lag in lags])
    each = []
    for x, y in zip(inputs.split(1), targets.split(1), strict=True):
        loss = functional.mse_loss(model(x), y)
        each.append(flat(torch.autograd.grad(loss, list(model.parameters()))))
    wanted = torch.stack(each)
    close(vectors.sum(0), wanted.sum(0))
    close(along.sum(0), wanted @ w)
    close(whole, (wanted @ w).expand(9, -1))


class Decay(nn.Module):
    """A step with two parts of a state, one a matrix."""

    def __init__(self, width=3, hidden=2):
        super().__init__()
        self.key, self.value = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.rate = nn.Parameter(torch.tensor(0.7))

    def forward(self, x, state):
        start = x.new_zeros(len(x), 2), x.new_zeros(len(x), 2, 2)
        total, memory = start if state is None else state
        key, value = torch.tanh(self.key(x)), self.value(x + memory.sum((1, 2))[:, None])
        memory = self.rate * memory + key[:, :, None] * value[:, None]
        return total + memory.sum(1), memory


class Twice(nn.GRUCell):
    """A step that uses its parameters twice."""

    def forward(self, x, state):
        return super().forward(x, super().forward(x, state))


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.RNNCell, nn.LSTMCell, Decay, Twice])
def test_both_routes_agree(cell, monkeypatch):
    """A recurrence read off its trace, four steps at a time, and off the uses of its parameters."""
    monkeypatch.setattr(recurrent, "_STEPS", 4)
    model, inputs, targets = made(Loop, cell, hidden=2), draw(6, 9, 3), draw(6, 9, 1, seed=2)
    lags = [1, 2, 5, 8]
    module = recurrent.step_of(model, inputs)
    assert module is model.cell
    loop = recurrent.Loop(model, (inputs, targets), module=module)
    loop.check(inputs, targets)
    one = loop.read(inputs, targets)
    two = read(model, inputs, targets, parameters=["cell"])
    bands = [[lag] for lag in lags]
    vectors = one.band_vectors(bands)
    close(two.band_vectors(bands), vectors)
    found, wanted = (reading.band_numbers(vectors, bands) for reading in (two, one))
    close(found, wanted)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(LSTM, {}), (Loop, {}), (Loop, {"cell": Decay, "hidden": 2}), (Attention, {}), (MinGRU, {})],
)
def test_the_window_ends_at_a_planted_lag(kind, options):
    """In an untrained model, all that targets hold being the inputs of 7 steps before; of noise
    there is none. A recurrence, a loop over a cell or over a step that is named, and two without."""
    inputs, model = draw(400, 16, 3).float(), made(kind, **{"hidden": 16} | options).float()
    targets = inputs[..., :1].roll(7, 1)
    targets[:, :7] = 0
    how = {"source": "target", "progress": False, "step": model.cell if options else None}
    planted, noise = (
        diagnose(model, (inputs, of), [2, 5, 7, 9, 12], **how)
        for of in (targets, draw(400, 16, 1, seed=3).float())
    )
    assert planted.window(int(planted.data.required.sel(lag=7)) + 1).steps == 7
    assert noise.window(10**6).steps == 0


class Odd(nn.Module):
    """A model that is not causal, or hides a use of its parameters, in a way of its own."""

    def __init__(self, how):
        super().__init__()
        self.how, self.read, self.head = how, nn.Linear(1, 8), nn.Linear(8, 1)
        self.mix, self.free = nn.LSTM(8, 8, batch_first=True), nn.Parameter(torch.ones(8))
        self.back = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.pool = nn.Linear(8, 8)

    def forward(self, x):
        h = self.read(x)
        if self.how == "reversed":
            h = self.mix(h.flip(1))[0].flip(1)
        elif self.how == "two directions":
            h = self.back(h)[0].unflatten(-1, (2, 8)).sum(-2)
        elif self.how == "pooled":
            h = h + self.pool(h.mean(1))[:, None]
        elif self.how == "start":
            h = h + self.pool(h[:, 0])[:, None]
        elif self.how == "pairs":
            h = h + self.pool(h.unflatten(1, (-1, 2)).sum(2)).repeat_interleave(2, 1)
        elif self.how == "short":
            return self.head(self.mix(h[:, :-1])[0][:, -1])
        elif self.how == "hidden":
            h = self.mix(h)[0] * torch.as_tensor(Hidden.apply(self.free))
        elif self.how == "in place":
            h = h.clone().mul_(self.free)
        return self.head(h)


class Hidden(torch.autograd.Function):
    """Twice a parameter, unseen by what follows PyTorch's functions."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("reversed", "not all with the first.* run from the last step to the first"),
        ("two directions", "all 12 predictions .* move with all inputs.* or run in two directions"),
        ("pooled", "all 12 predictions of a sequence move with all inputs.*mask missing"),
        ("pairs", "the prediction of step 0 moves with the inputs up to step 1"),
        ("hidden", "parameters = 'free': must be parameters .* in a function of your own"),
        ("in place", r"mul_\(\) of a parameter': must be one that writes no parameter in place"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_by_name(how, message):
    inputs, targets = draw(60, 12, 1), draw(60, 12, 1, seed=2)
    model = made(Odd, how)
    every = [name for name, _ in model.named_parameters()]
    with pytest.raises(ValueError, match=message):
        diagnose(model, (inputs, targets), parameters=every, progress=False)
    if how == "hidden":  # the others can be looked at
        rest = ["read", "mix", "head"]
        found = diagnose(model, (inputs, targets), [1], parameters=rest, progress=False)
        assert found.data.left_out_names.startswith("free, ")


def test_a_use_is_when_its_value_is_made():
    """Of the first step in all others, and of predictions that leave out the last one."""
    inputs, targets = draw(60, 12, 1), draw(60, 12, 1, seed=2)
    first = Uses(made(Odd, "start"), (inputs, targets), parameters=["pool"])
    first.check(inputs, targets)
    assert [site.times.tolist() for site in first.sites] == [[0]]
    short = Uses(made(Odd, "short"), (inputs, targets[:, -1]), parameters=["mix", "head"])
    short.check(inputs, targets[:, -1])
    assert short.end_steps == [10]


def test_frozen_parameters_do_not_count():
    """They are left out and named; a recurrence that holds some is read by its uses."""
    model, batch = made(LSTM), (draw(60, 9, 3), draw(60, 9, 1, seed=2))
    model.rnn.bias_hh_l0.requires_grad_(False)
    names = [name for name, part in model.named_parameters() if part.requires_grad]
    one, two = (diagnose(model, batch, [1, 2], parameters=p, progress=False) for p in (None, names))
    np.testing.assert_array_equal(one.data.statistic, two.data.statistic)
    assert one.data.left_out_names == "rnn.bias_hh_l0"
    for part in model.parameters():
        part.requires_grad_(False)
    with pytest.raises(ValueError, match="must be names of one parameter or more, or None if some"):
        diagnose(model, batch, progress=False)
    kept = {name: part.clone() for name, part in model.state_dict().items()}
    assert diagnose(model, batch, [1], parameters=["rnn"], progress=False).data.statistic.any()
    assert all(torch.equal(kept[name], part) for name, part in model.state_dict().items())
    assert not any(part.requires_grad for part in model.parameters())


def test_losses_over_unequal_counts_are_sums():
    """A mean over the steps that are not ignored, of which sequences have different numbers."""
    model, inputs = made(Loop, width=1), draw(60, 6, 1)
    model.head = nn.Linear(8, 3).double().eval()
    targets = torch.randint(3, (60, 6), generator=torch.Generator().manual_seed(0))
    targets[:30, 3:] = targets[0] = -100

    def summed(predictions, targets):
        return functional.cross_entropy(predictions.mT, targets, reduction="sum")

    class Mean(nn.CrossEntropyLoss):
        def forward(self, predictions, targets):
            return super().forward(predictions.mT, targets)

    for options in ({}, {"parameters": ["cell"]}):
        one, two = (
            diagnose(model, (inputs, targets), [1, 2], loss=loss, progress=False, **options)
            for loss in (Mean(), summed)
        )
        torch.testing.assert_close(one.data.statistic.values, two.data.statistic.values)


def test_a_result_names_what_would_mislead():
    """Repeated data, and a look back beside the recurrence."""
    assert [count_repeats(series(shift=s).double().numpy()) for s in (1, 6, 7)] == [199, 199, 0]
    coins = (draw(400, 16, 1) > 0).double().numpy()
    assert count_repeats(coins) == 0
    model = nn.Sequential(Convolution(1), nn.Flatten(2)).eval()
    inputs = series()
    with pytest.warns(UserWarning, match="199 sequences repeat half or more of another one"):
        found = diagnose(model.float(), (inputs, inputs), [1, 2], progress=False)
    assert "199 sequences repeat" in found.data.caveats


class Aside(nn.Module):
    """A recurrence with means over the past before or behind it."""

    def __init__(self, where):
        super().__init__()
        self.where, self.rnn, self.head = where, nn.GRU(1, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        x = x.cumsum(1) if self.where == "before" else x
        h = self.rnn(x)[0]
        return self.head(h.cumsum(1) if self.where == "behind" else h)


@pytest.mark.parametrize(
    ("where", "route"), [("before", "uses"), ("behind", "uses"), ("nowhere", "recurrence")]
)
def test_a_look_back_beside_the_recurrence_is_noticed(where, route):
    """A prediction is later than the states that it is made of, or these are not made of the inputs
    of their steps: parameters are read by their uses."""
    inputs = draw(60, 12, 1).float()
    found = diagnose(made(Aside, where).float(), (inputs, inputs), [1], progress=False)
    assert found.data.route == route
