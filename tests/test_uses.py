"""Any causal model: what parameters used at each time give, against autograd and recurrences."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from lwcore.diagnose import diagnose
from lwcore.uses import Uses
from tests.networks import draw


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
            kept = torch.sigmoid(self.decay) * state
            state = kept + torch.tanh(x[:, t] @ self.W + state @ self.U)
            shown.append(state)
        return torch.stack(shown, 1) @ self.out


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


class Stack(nn.Module):
    """Two recurrent modules, one above the other."""

    def __init__(self, width=3, hidden=8):
        super().__init__()
        self.below = nn.LSTM(width, hidden, 2, batch_first=True)
        self.above = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.above(self.below(x)[0])[0])


MODELS = (Attention, Transformer, Loop, Hand, MinGRU, Convolution, Stack)


def made(kind, *args, **options):
    torch.manual_seed(0)
    return kind(*args, **options).double().eval()


def read(model, inputs, targets, **options):
    network = Uses(model, (inputs, targets), **options)
    network.check(inputs, targets)
    return network.read(inputs, targets)


def flat(gradients):
    return torch.cat([part.flatten() for part in gradients])


@pytest.mark.parametrize("kind", MODELS)
def test_all_lags_together_are_autograds_gradient(kind):
    """Of each sequence along a direction, and of all as a vector."""
    model, inputs, targets = made(kind), draw(6, 9, 3), draw(6, 9, 1, seed=2)
    targets = targets[..., 0] if kind is Hand else targets
    reading, lags = read(model, inputs, targets), range(9)
    vectors = reading.lag_vectors(lags)
    w = torch.randn(vectors.shape[1], dtype=torch.float64)
    along, whole = reading.numbers(w.expand(9, -1), lags)
    each = []
    for x, y in zip(inputs.split(1), targets.split(1), strict=True):
        loss = functional.mse_loss(model(x), y)
        each.append(flat(torch.autograd.grad(loss, list(model.parameters()))))
    wanted = torch.stack(each)
    torch.testing.assert_close(vectors.sum(0), wanted.sum(0), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(along.sum(0), wanted @ w, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(whole, (wanted @ w).expand(9, -1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [Attention, Loop, MinGRU])
def test_the_window_ends_at_a_planted_lag(kind):
    """In an untrained model, all that the targets hold being the inputs of 7 steps before."""
    inputs = draw(400, 16, 3).float()
    targets = inputs[..., :1].roll(7, 1)
    targets[:, :7] = 0
    model = made(kind, hidden=16).float()
    found = diagnose(
        model, (inputs, targets), [2, 5, 7, 9, 12], parameters=None, source="target", progress=False
    )
    enough = int(found.data.required.sel(lag=7)) + 1
    assert found.window(enough).steps == 7
    noise = torch.randn(400, 16, 1)
    found = diagnose(model, (inputs, noise), [2, 5, 7, 9, 12], source="target", progress=False)
    assert found.window(10**6).steps == 0
