"""When parameters are used and predictions are made, against copies of the parameters for each
step; what is refused because its times cannot be told."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from lwcore.diagnose.uses import Uses
from tests.networks import draw

WIDTH, HIDDEN, STEPS = 3, 6, 9


class Stepped(nn.Module):
    """A model whose forward pass takes, if it is given, a copy of itself for each step.

    ``forward(x, copies)`` uses the parameters of ``copies[t]`` for what belongs to step t.
    """

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(WIDTH, HIDDEN)
        self.recur = nn.Linear(HIDDEN, HIDDEN)
        self.show = nn.Linear(HIDDEN, 1)

    def rows(self, name, h, copies):
        """Apply a layer to all steps at once, or each copy's own to its step."""
        if copies is None:
            return getattr(self, name)(h)
        rows = [getattr(one, name)(h[:, t]) for t, one in enumerate(copies)]
        return torch.stack(rows, 1)


class ByHand(Stepped):
    """The plain recurrence, which makes two uses in each step."""

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            state = torch.tanh(one.read(x[:, t]) + one.recur(state))
            shown.append(one.show(state))
        return torch.stack(shown, 1)


class ReadAtOnce(Stepped):
    """The same, whose inputs are read at once and before the loop."""

    def forward(self, x, copies=None):
        inputs = self.rows("read", x, copies)
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            state = torch.tanh(one.recur(state) + inputs[:, t])
            shown.append(state)
        return self.rows("show", torch.stack(shown, 1), copies)


class StartsLate(Stepped):
    """The same, whose state begins at the second step, and is read out at the last one."""

    def forward(self, x, copies=None):
        state = None
        copies = copies or [self] * STEPS
        for t, one in enumerate(copies):
            inputs = one.read(x[:, t])
            state = torch.tanh(inputs if state is None else one.recur(state) + inputs)
        return copies[-1].show(state)


class Normalised(Stepped):
    """The same, with a normalisation between the state and the input."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x, copies=None):
        state = torch.full((len(x), HIDDEN), 0.1).to(x)
        copies = copies or [self] * STEPS
        for t, one in enumerate(copies):
            state = torch.tanh(one.norm(one.recur(state)) + one.read(x[:, t]))
        return copies[-1].show(state)


class Gated(Stepped):
    """A gated recurrence, whose products are taken apart in each step."""

    def __init__(self):
        super().__init__()
        self.read, self.recur = nn.Linear(WIDTH, 3 * HIDDEN), nn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, x, copies=None):
        h, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            a, b, c = one.read(x[:, t]).chunk(3, -1)
            d, e, f = one.recur(h).chunk(3, -1)
            reset, update = torch.sigmoid(a + d), torch.sigmoid(b + e)
            h = (1 - update) * torch.tanh(c + reset * f) + update * h
            shown.append(one.show(h))
        return torch.stack(shown, 1)


class BurnIn(Stepped):
    """One of PyTorch's cells, whose first predictions are left out."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, HIDDEN)

    def forward(self, x, copies=None):
        state, shown = None, []
        for t, one in enumerate(copies or [self] * STEPS):
            state = one.cell(x[:, t], state)
            shown.append(one.show(state[0]))
        return torch.stack(shown, 1)[:, 3:]


class Attention(Stepped):
    """Two layers of attention of the same weights, with learned places."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.norm, self.places = nn.LayerNorm(HIDDEN), nn.Parameter(torch.randn(STEPS, HIDDEN))

    def forward(self, x, copies=None):
        own = [self] * STEPS if copies is None else copies
        places = torch.stack([one.places[t] for t, one in enumerate(own)])
        h = self.rows("norm", self.rows("read", x, copies) + places, copies)
        for _ in range(2):
            parts = (self.rows(name, h, copies) for name in ("query", "key", "value"))
            h = h + functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.rows("show", h, copies)


class Convolutions(Stepped):
    """Two causal convolutions, one of them dilated."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(WIDTH, HIDDEN, 3)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, 2, dilation=2)

    def convolved(self, name, h, copies):
        padded = functional.pad(h.mT, (2, 0))
        if copies is None:
            return getattr(self, name)(padded).mT
        rows = [getattr(one, name)(padded)[..., t] for t, one in enumerate(copies)]
        return torch.stack(rows, 1)

    def forward(self, x, copies=None):
        h = torch.tanh(self.convolved("first", x, copies))
        h = h + torch.tanh(self.convolved("second", h, copies))
        return self.rows("show", h, copies)


class FromTheNumberZero(Stepped):
    """A linear recurrence whose state begins as the number 0."""

    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(HIDDEN))

    def forward(self, x, copies=None):
        state, shown = 0, []
        for t, one in enumerate(copies or [self] * STEPS):
            state = one.decay * state + one.read(x[:, t])
            shown.append(one.show(state))
        return torch.stack(shown, 1)


class LearnedStart(Stepped):
    """A recurrence with a learned first state, whose recurrent weights are zero so far."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(HIDDEN))
        nn.init.zeros_(self.recur.weight)

    def forward(self, x, copies=None):
        copies = copies or [self] * STEPS
        state, shown = copies[0].first.expand(len(x), -1), []
        for t, one in enumerate(copies):
            state = torch.tanh(one.read(x[:, t]) + one.recur(state)) + 0.5 * state
            shown.append(one.show(state))
        return torch.stack(shown, 1)


class TokenShift(Stepped):
    """A mixture of each input with the one before, as RWKV has it."""

    def __init__(self):
        super().__init__()
        self.mix, self.decay = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(HIDDEN))

    def forward(self, x, copies=None):
        past = functional.pad(x, (0, 0, 1, 0))[:, :-1]
        own = copies or [self] * STEPS
        if copies is None:
            inputs = self.read(self.mix * x + (1 - self.mix) * past)
        else:
            mixed = [o.mix * x[:, t] + (1 - o.mix) * past[:, t] for t, o in enumerate(own)]
            inputs = torch.stack([o.read(m) for o, m in zip(own, mixed, strict=True)], 1)
        state, shown = torch.zeros_like(inputs[:, 0]), []
        for t, one in enumerate(own):
            state = torch.sigmoid(one.decay) * state + inputs[:, t]
            shown.append(one.show(state))
        return torch.stack(shown, 1)


KINDS = [
    ByHand,
    ReadAtOnce,
    StartsLate,
    Normalised,
    Gated,
    BurnIn,
    Attention,
    Convolutions,
    FromTheNumberZero,
    LearnedStart,
    TokenShift,
]


def parts_by_copies(model, inputs, targets):
    """Each lag's gradient: what the error of step t owes to the copy of step t − ℓ."""
    copies = [copy.deepcopy(model) for _ in range(STEPS)]
    names = [name for name, _ in model.named_parameters()]
    own = [[dict(one.named_parameters())[name] for name in names] for one in copies]
    predictions = model(inputs, copies)
    errors = (predictions - targets) ** 2 / predictions[0].numel()
    rows = errors[:, None] if errors.ndim == 2 else errors
    parts = torch.zeros(STEPS, sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    for place in range(rows.shape[1]):
        end = STEPS - rows.shape[1] + place
        for step in range(end + 1):
            owed = torch.autograd.grad(
                rows[:, place].sum(),
                own[step],
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            parts[end - step] += torch.cat([part.flatten() for part in owed]).double()
    return parts


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("kind", KINDS)
def test_each_lags_gradient_is_that_of_copies_of_the_parameters(kind, dtype, most):
    torch.manual_seed(0)
    model, inputs = kind().to(dtype).eval(), draw(30, STEPS, WIDTH).to(dtype)
    with torch.no_grad():
        targets = draw(*model(inputs).shape, seed=2).to(dtype)
    network = Uses(model, (inputs, targets))
    network.check(inputs, targets)
    found = network.read(inputs[:6], targets[:6]).lag_vectors(range(STEPS))
    wanted = parts_by_copies(model, inputs[:6], targets[:6])
    assert float((found - wanted).norm(dim=1).max() / wanted.norm()) <= most
