"""When parameters are used and predictions are made, against copies of the parameters for each
step; what is refused because its times cannot be told."""

from __future__ import annotations

import copy
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lwcore.diagnose import diagnose
from lwcore.diagnose.repeats import count_repeats
from lwcore.diagnose.times import Bounds
from lwcore.diagnose.trials import PATTERN, Layout, Trials, last_steps, padding, padding_value
from lwcore.diagnose.uses import Uses
from lwcore.signatures import ArgumentError
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


class SeveralIterations(Stepped):
    """A recurrence that repeats each of its steps, from a state of zeros."""

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            for _ in range(2):
                state = torch.tanh(one.read(x[:, t]) + one.recur(state))
            shown.append(one.show(state))
        return torch.stack(shown, 1)


class Solver(Stepped):
    """A differential equation, of which each step takes two of a solver, as in liquid networks."""

    def __init__(self):
        super().__init__()
        self.mean, self.slope = nn.Parameter(torch.rand(HIDDEN)), nn.Parameter(torch.rand(HIDDEN))

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            inputs = one.read(x[:, t])
            for _ in range(2):
                state = 0.5 * state + torch.tanh(one.slope * (state - one.mean) + inputs)
            shown.append(one.show(state))
        return torch.stack(shown, 1)


class ForecastsOn(Stepped):
    """A recurrence that goes on with forecasts of its own, all made at the last step."""

    def __init__(self):
        super().__init__()
        self.show = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x, copies=None):
        own = copies or [self] * STEPS
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate([*own, own[-1], own[-1]]):
            inputs = x[:, t] if t < STEPS else shown[-1]
            state = torch.tanh(one.read(inputs) + one.recur(state))
            if t >= STEPS - 1:
                shown.append(one.show(state))
        return torch.stack(shown, 1)[..., 0]


class Dilated(Stepped):
    """A recurrence that goes on from the state of three steps before."""

    def forward(self, x, copies=None):
        states, shown = [x.new_zeros(len(x), HIDDEN)] * 3, []
        for t, one in enumerate(copies or [self] * STEPS):
            states.append(torch.tanh(one.read(x[:, t]) + one.recur(states[-3])))
            shown.append(one.show(states[-1]))
        return torch.stack(shown, 1)


class BeginsWithZeros(Stepped):
    """A recurrence that reads zeros first, and then the inputs, each one step late."""

    def forward(self, x, copies=None):
        own = copies or [self] * STEPS
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate([own[0], *own]):
            inputs = x[:, t - 1] if t else torch.zeros_like(x[:, 0])
            state = torch.tanh(one.read(inputs) + one.recur(state))
            shown.append(one.show(state))
        return torch.stack(shown[1:], 1)


class SkipsSteps(Stepped):
    """A recurrence whose state is kept in most steps, as an input says."""

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            updated = torch.tanh(one.read(x[:, t]) + one.recur(state))
            state = torch.where(x[:, t, :1] > 1, updated, state)
            shown.append(one.show(state))
        return torch.stack(shown, 1)


class Pointer(Stepped):
    """Shows what was read some steps before: as many as an input says."""

    def forward(self, x, copies=None):
        values = torch.tanh(self.rows("read", x, copies))
        places = torch.arange(STEPS) - (2 * x[..., 0]).abs().long()
        places = places.clamp(min=0)[..., None].expand(-1, -1, HIDDEN)
        return self.rows("show", values.gather(1, places), copies)


class SeesAPrefix(Attention):
    """Attention that sees the first four steps as a whole, and predicts the others."""

    def forward(self, x, copies=None):
        own = [self] * STEPS if copies is None else copies
        after = None if copies is None else [own[3]] * 3 + own[3:]
        mask = torch.ones(STEPS, STEPS).tril().bool()
        mask[:4, :4] = True
        h = self.rows("read", x, copies) + torch.stack([one.places[t] for t, one in enumerate(own)])
        for of_rows in (copies, after):
            parts = (self.rows(name, h, of_rows) for name in ("query", "key", "value"))
            h = h + functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        return self.rows("show", h[:, 4:], None if copies is None else copies[4:])


class WithMemory(Attention):
    """Attention to three tokens that are learned, too: what these are used for has no lag."""

    def __init__(self):
        super().__init__()
        self.memory = nn.Parameter(torch.randn(3, HIDDEN))

    def forward(self, x, copies=None):
        read = torch.tanh(self.rows("read", x, copies))
        h = torch.cat([self.memory.expand(len(x), -1, -1), read], 1)
        own = None if copies is None else [self] * 3 + copies
        parts = (self.rows(name, h, own) for name in ("query", "key", "value"))
        h = h + functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.rows("show", h[:, 3:], copies)


KINDS = [
    BeginsWithZeros,
    Dilated,
    SkipsSteps,
    Pointer,
    SeesAPrefix,
    WithMemory,
    SeveralIterations,
    Solver,
    ForecastsOn,
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


class Rare(nn.Module):
    """A recurrence by hand of a number and of a rare flag, which is looked up in a table."""

    def __init__(self):
        super().__init__()
        self.table, self.read, self.recur = nn.Embedding(2, 4), nn.Linear(1, 4), nn.Linear(4, 4)
        self.show = nn.Linear(4, 1)

    def forward(self, x):
        state, shown = x.new_zeros(len(x), 4), []
        for step in x.unbind(1):
            inputs = self.read(step[:, :1]) + self.table(step[:, 1].long())
            state = torch.tanh(inputs + self.recur(state))
            shown.append(self.show(state))
        return torch.stack(shown, 1)


@pytest.mark.parametrize("length", [40, 130])
def test_times_of_uses_are_those_of_the_loop(length):
    """Of a flag that is set in one step of fifty, too, and where only some steps are tried."""
    torch.manual_seed(0)
    flag = (torch.rand(40, length, 1) < 0.02).float()
    inputs = torch.cat([draw(40, length, 1).float(), flag], -1)
    network = Uses(Rare().eval(), (inputs, inputs[..., :1]))
    network.check(inputs, inputs[..., :1])
    steps = [*range(length)]
    found = {site.name.split()[-1]: site.times.tolist() for site in network.sites}
    assert found["table.weight"] == steps
    by_layer = {name.partition(".")[0]: times for name, times in found.items()}
    assert by_layer["read"] == by_layer["show"] == steps
    assert [0, *by_layer["recur"]] == steps or by_layer["recur"] == steps[1:]


class Attending(nn.Module):
    """One layer of attention over inputs, tokens or not, with a mask of its own."""

    def __init__(self, outputs=1, mask=None):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Linear(1, 16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.show, self.places = nn.Linear(16, outputs), nn.Parameter(0.3 * torch.randn(20, 16))
        self.mask = torch.ones(20, 20).tril().bool() if mask is None else mask
        self.eval()

    def shown(self, x):
        h = self.read(x) + self.places
        parts = self.query(h), self.key(h), self.value(h)
        return h + functional.scaled_dot_product_attention(*parts, attn_mask=self.mask)

    def forward(self, x):
        return self.show(self.shown(x))


INPUTS = draw(200, 20, 1).float()
BEFORE = INPUTS.roll(5, 1).clone()
BEFORE[:, :5] = 0
SAID = {"source": "target", "progress": False}
PREFIX = torch.ones(20, 20).tril().bool()
PREFIX[:5, :5] = True


def detected(model, batch, **options):
    found = diagnose(model, batch, list(range(1, 13)), **{**SAID, **options}).data
    return found.lag.values[found.detected.values.astype(bool)].tolist()


def test_predictions_without_the_first_steps_are_made_when_they_are():
    found = detected(Attending(), (INPUTS, BEFORE[:, 5:]), head=lambda shown: shown[:, 5:])
    assert found == [5]


@pytest.mark.parametrize("n_late", [3, 5, 30])
def test_one_prediction_that_is_made_before_the_others_is_made_when_it_is(n_late):
    """At step 9, beside some at the last one; the input three steps before is its target."""

    class Beside(Attending):
        def __init__(self):
            super().__init__(n_late)
            self.early = nn.Linear(16, 1)

        def forward(self, x):
            shown = self.shown(x)
            return torch.cat([self.show(shown[:, -1]), self.early(shown[:, 9])], 1)

    targets = torch.cat([0.01 * draw(200, n_late, seed=4).float(), INPUTS[:, 6]], 1)
    assert 3 in detected(Beside().eval(), (INPUTS, targets))


def test_a_step_of_some_iterations_reaches_back_no_further():
    """The state is cut between the steps: all that is used for a prediction is used at its step."""

    class Cut(SeveralIterations):
        def forward(self, x):
            state, shown = x.new_zeros(len(x), HIDDEN), []
            for step in x.unbind(1):
                state = state.detach()
                for _ in range(2):
                    state = torch.tanh(self.read(step) + self.recur(state))
                shown.append(self.show(state))
            return torch.stack(shown, 1)

    inputs = draw(60, 20, WIDTH).float()
    with pytest.raises(ValueError, match="act at the step of the prediction alone"):
        detected(Cut().eval(), (inputs, inputs[..., :1]))


def test_several_tensors_have_no_usual_loss():
    """A mean and a variance look like a mean and a deviation, or two quantiles."""

    class Two(Attending):
        def forward(self, x):
            mean, spread = self.show(self.shown(x)).split(1, -1)
            return mean, functional.softplus(spread)

    with pytest.raises(ValueError, match=r"must be given, for the model gives several things"):
        detected(Two(2), (INPUTS, BEFORE))


class CarriesOn(nn.Module):
    """A recurrence whose state stays as it is behind each sequence, where inputs are 0."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read, self.recur, self.show = nn.Linear(1, 6), nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), 6), []
        for t, one in enumerate(copies or [self] * x.shape[1]):
            updated = torch.tanh(one.read(x[:, t]) + one.recur(state))
            state = torch.where(x[:, t] != 0, updated, state)
            shown.append(self.show(state))
        return torch.stack(shown, 1)[:, -1]


def test_lags_of_padded_sequences_are_from_the_last_step_that_is_not_padding():
    """Where a state is carried on to the last step, and read out there."""
    lengths = [9, 7, 12, 10] * 12
    inputs = draw(48, 12, 1) * (torch.arange(12) < torch.tensor(lengths)[:, None])[..., None]
    targets = draw(48, 1, seed=2)
    model = CarriesOn().double().eval()
    copies = [copy.deepcopy(model) for _ in range(12)]
    errors = (model(inputs[:4], copies) - targets[:4])[:, 0] ** 2
    wanted = torch.zeros(12, 6 * (1 + 1 + 6 + 1), dtype=torch.float64)
    for error, length in zip(errors, lengths, strict=False):
        for step in range(length):
            own = [*copies[step].read.parameters(), *copies[step].recur.parameters()]
            parts = torch.autograd.grad(error, own, retain_graph=True)
            wanted[length - 1 - step] += torch.cat([part.flatten() for part in parts])
    network = Uses(model, (inputs, targets), parameters=["read", "recur"])
    network.check(inputs, targets)
    found = network.read(inputs[:4], targets[:4]).lag_vectors(range(12))
    assert (found - wanted).norm() < 1e-10 * wanted.norm()


def test_sequences_that_are_read_out_at_their_own_end():
    """Padded with zeros, of lengths from 10 to 20: the lag is from the last step that is none."""
    lengths = torch.randint(10, 21, (200,), generator=torch.Generator().manual_seed(0))
    inputs = INPUTS * (torch.arange(20) < lengths[:, None])[..., None]
    targets = torch.stack([x[n - 6] for x, n in zip(inputs, lengths, strict=True)])

    class AtTheEnd(Attending):
        def forward(self, x):
            last = (x[..., 0] != 0).sum(1) - 1
            return self.show(self.shown(x)[torch.arange(len(x)), last])

    assert detected(AtTheEnd(), (inputs, targets)) == [5]
    network = Uses(AtTheEnd(), (inputs, targets))
    network.check(inputs, targets)
    reading = network.read(inputs[:20], targets[:20])
    missing = reading.lag_vectors(range(20)).sum(0) - reading.gradient()
    assert missing.norm() < 1e-5 * reading.gradient().norm()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(20, 20).bool(), r"all 20 predictions of a sequence move with all inputs.*mask"),
        (PREFIX, "the prediction of step 0 moves with the inputs up to step 4"),
    ],
)
def test_what_looks_ahead_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        detected(Attending(mask=mask), (INPUTS, BEFORE))


def test_a_network_that_takes_a_window_at_once_is_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 1)).eval()
    with pytest.raises(ValueError, match="act at the step of the prediction alone"):
        detected(model, (INPUTS, INPUTS[:, -6]))


class TakesTheWindow(nn.Module):
    """A recurrence of inputs less their mean, or less the last of them, or that is frozen."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(0)
        self.how, self.rnn, self.show = how, nn.GRU(1, 6, batch_first=True), nn.Linear(6, 1)
        self.rnn.requires_grad_(how != "frozen")
        self.embed = nn.Linear(1, 1) if how == "embedded" else nn.Identity()
        self.eval()

    def forward(self, x):
        level = {"mean": x.mean(1, keepdim=True), "last": x[:, -1:]}.get(self.how, 0)
        if self.how == "embedded":
            return self.show(torch.tanh(self.embed(x - x[:, -1:])).mean(1).expand(-1, 6))
        states = self.rnn(x - level)[0][:, -1]
        return self.show(states.detach() if self.how == "detached" else states)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("mean", "are inputs normalised over the window"),
        ("last", "or is its last value subtracted"),
        ("embedded", "or is its last value subtracted"),
        ("frozen", "rnn.weight_ih_l0, .* are frozen: name them in `parameters`"),
        ("detached", "is it cut on its way, by detach"),
    ],
)
def test_what_acts_at_the_step_of_the_prediction_alone_is_refused_with_its_reason(how, message):
    with pytest.raises(ValueError, match=message):
        detected(TakesTheWindow(how), (INPUTS, INPUTS[:, -3]))


class OfGaps(nn.Module):
    """A recurrence that takes logarithms of the gaps of times, or asserts that there are some."""

    def __init__(self, function):
        super().__init__()
        self.function, self.rnn, self.show = (
            function,
            nn.GRU(2, 6, batch_first=True),
            nn.Linear(6, 1),
        )

    def forward(self, x):
        gaps = torch.diff(x[..., 1:], dim=1, prepend=x[:, :1, 1:] - 1)
        return self.show(self.rnn(torch.cat([x[..., :1], self.function(gaps)], -1))[0])


def increasing(gaps):
    assert (gaps > 0).all(), "times must increase"
    return gaps


@pytest.mark.parametrize("function", [torch.log, torch.sqrt, increasing])
def test_a_model_that_looks_at_the_order_of_steps_is_refused_with_the_way_out(function):
    torch.manual_seed(0)
    times = (torch.rand(60, 20, 1) + 0.1).cumsum(1)
    inputs = torch.cat([INPUTS[:60], times], -1)
    with pytest.raises(ValueError, match="logarithms or roots of differences of steps"):
        detected(OfGaps(function).eval(), (inputs, BEFORE[:60]))


@pytest.mark.parametrize("read_at", [0, -1])
def test_a_column_that_never_changes_has_no_step(read_at):
    """The number of a shop is all that the target holds, wherever it is looked up."""

    class OfShops(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.shop, self.read = nn.Embedding(6, 4), nn.Linear(1, 4)
            self.rnn, self.show = nn.GRU(4, 6, batch_first=True), nn.Linear(10, 1)

        def forward(self, x):
            shop = self.shop(x[:, read_at, 1].long())
            states = self.rnn(self.read(x[..., :1]))[0][:, -1]
            return self.show(torch.cat([states, shop], -1))

    shops = torch.randint(6, (200, 1, 1), generator=torch.Generator().manual_seed(0)).float()
    inputs = torch.cat([INPUTS, shops.expand(-1, 20, -1)], -1)
    every = ["shop", "read", "rnn", "show"]
    assert detected(OfShops().eval(), (inputs, shops[:, 0] - 2.5), parameters=every) == []


class Clamped(Attending):
    """Predictions that are often at the end of their range."""

    def forward(self, x):
        return super().forward(x).clamp(0, 1)


class BeginsAlike(Attending):
    """A model whose first prediction is made of no input."""

    def forward(self, x):
        return super().forward(torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], 1))


@pytest.mark.parametrize("kind", [Clamped, BeginsAlike])
def test_predictions_that_do_not_always_move_are_no_reason_to_refuse(kind):
    assert detected(kind(), (INPUTS, BEFORE)) == [5]


def test_a_clip_that_acts_on_few_sequences_is_refused():
    """On the two whose targets are far off."""

    class ClipsFew(Attending):
        def forward(self, x):
            shown = self.shown(x)
            if shown.requires_grad:
                shown.register_hook(lambda g: g.clamp(-1, 1))
            return self.show(shown)

    targets = BEFORE.clone()
    targets[[50, 61]] *= 3000
    with pytest.raises(ValueError, match="parts of the loss one by one miss"):
        detected(ClipsFew(), (INPUTS, targets), source="error")


def test_gradients_that_are_clipped_on_their_way_are_refused():
    class Clipped(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.show = nn.GRUCell(1, 8), nn.Linear(8, 1)

        def forward(self, x):
            h, shown = x.new_zeros(len(x), 8), []
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h)
                if h.requires_grad:
                    h.register_hook(lambda g: g / (g.norm(dim=-1, keepdim=True) + 1e-9))
                shown.append(self.show(h))
            return torch.stack(shown, 1)

    with pytest.raises(ValueError, match=r"parts of the loss one by one miss .* a hook that clips"):
        detected(Clipped().eval(), (INPUTS, BEFORE))


class Rounded(torch.autograd.Function):
    """Whole numbers, whose gradient is taken as if they had not been rounded."""

    @staticmethod
    def forward(ctx, x):
        return x.round(decimals=1)

    @staticmethod
    def backward(ctx, grad):
        return grad


class OnceDifferentiable(torch.autograd.Function):
    """A square without a second derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Limited(torch.autograd.Function):
    """What it is given; its gradient is limited."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1e-4, 1e-4)


class WithAFunction(nn.Module):
    """A gated loop with a function of the reader's own on its states, or on a parameter."""

    def __init__(self, function, of="states"):
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.show = nn.GRUCell(1, 6), nn.Linear(6, 1)
        self.free = nn.Parameter(torch.ones(6))
        self.function, self.of = function, of
        self.eval()

    def forward(self, x):
        state, shown = x.new_zeros(len(x), 6), []
        for step in x.unbind(1):
            state = self.cell(step, state)
            scale = self.free
            if self.of == "states":
                state = self.function.apply(state)
            else:
                scale = self.function.apply(scale)
            shown.append(self.show(state * scale))
        return torch.stack(shown, 1)


@pytest.mark.parametrize("function", [Rounded, OnceDifferentiable])
def test_all_lags_are_the_gradient_that_a_function_of_ones_own_gives(function):
    """As autograd has it, whatever it makes of the function: that is what a training follows."""
    model, inputs, targets = WithAFunction(function), INPUTS[:40, :9], BEFORE[:40, :9]
    network = Uses(model, (inputs, targets))
    network.check(inputs, targets)
    found = network.read(inputs[:6], targets[:6]).lag_vectors(range(9)).sum(0)
    errors = (model(inputs[:6]) - targets[:6]).square().flatten(1).mean(1).sum()
    wanted = torch.autograd.grad(errors, list(model.parameters()))
    flat = torch.cat([part.flatten() for part in wanted]).double()
    assert float((found - flat).norm() / flat.norm()) <= 1e-6


@pytest.mark.parametrize(
    ("function", "of", "message"),
    [
        (Limited, "states", "parts of the loss one by one miss"),
        (Rounded, "free", "parameters = 'free': must be .* or in a function of your own"),
        (OnceDifferentiable, "free", "parameters = 'free': must be .* in a function of your own"),
    ],
)
def test_a_function_of_ones_own_that_cannot_be_followed_is_refused(function, of, message):
    with pytest.raises(ValueError, match=message):
        detected(WithAFunction(function, of), (INPUTS, BEFORE), parameters=["cell", "free"])


def test_a_model_is_left_as_it_was():
    class SetsItselfUp(Attending):
        def __init__(self):
            super().__init__()
            self.shift, self.seen = nn.Parameter(torch.zeros(16)), 0
            self.register_buffer("done", torch.tensor(0))

        def forward(self, x):
            h = self.shown(x)
            if self.done == 0:
                self.shift.data = -h.mean((0, 1)).detach()
                self.done.fill_(1)
            self.seen += 1
            return self.show(h + self.shift)

    model = SetsItselfUp().eval()
    before = {name: part.clone() for name, part in model.state_dict().items()}
    with pytest.warns(UserWarning, match=r"The model changed .*shift.* they are put back"):
        assert detected(model, (INPUTS, BEFORE)) == [5]
    assert all(torch.equal(before[name], part) for name, part in model.state_dict().items())
    assert model.seen == 0


def test_windows_that_were_scaled_one_by_one_are_seen_to_overlap_and_padding_is_not():
    series = draw(400, 1, seed=3)[:, 0].numpy()
    windows = np.stack([series[i : i + 20] for i in range(100)])
    scaled = (windows - windows.mean(1, keepdims=True)) / windows.std(1, keepdims=True)
    assert count_repeats(scaled[..., None]) == 99
    apart = draw(100, 20, 1, seed=4)
    apart[:, :12] = 0
    real = ~padding(apart, padding_value(apart)).numpy()
    assert count_repeats(apart.numpy(), real) == 0


def test_a_layout_is_where_equal_sequences_are_equal():
    """Around or within other rows, and not where a size is that of the sequences by chance."""
    pair = draw(2, 4, 3)
    values = pair[list(PATTERN)]
    assert Layout.of(values) == (0, 1, 1)
    assert Layout.of(values.flatten(0, 1)) == (0, 1, 4)
    assert Layout.of(values.transpose(0, 1).flatten(0, 1)) == (0, 4, 1)
    assert Layout.of(draw(len(PATTERN), 3)) is None
    trials = Trials(draw(10, 6, 2))
    one, two = trials.pair()
    assert bool((one != two).any(-1).all())


class Patches(nn.Module):
    """Attention over patches of several steps, read out at once or at the end of each patch."""

    def __init__(self, length, size, each=False):
        super().__init__()
        torch.manual_seed(0)
        self.size, self.each = size, each
        n_patches = length // size
        self.read, self.query = nn.Linear(size, 8), nn.Linear(8, 8)
        self.show = nn.Linear(8, 1) if each else nn.Linear(8 * n_patches, 2)
        self.mask = torch.ones(n_patches, n_patches).tril().bool()
        self.eval()

    def forward(self, x):
        h = self.read(x.reshape(len(x), -1, self.size))
        seen = functional.scaled_dot_product_attention(self.query(h), h, h, attn_mask=self.mask)
        return self.show(h + seen) if self.each else self.show((h + seen).flatten(1))


@pytest.mark.parametrize(("length", "size"), [(60, 4), (120, 8), (336, 16)])
@pytest.mark.parametrize("each", [False, True])
def test_patches_of_long_sequences_are_used_where_they_end(length, size, each):
    """Rows are at every so many steps, of which not all are tried at first."""
    inputs = draw(48, length, 1).float()
    model = Patches(length, size, each)
    with torch.no_grad():
        targets = draw(*model(inputs).shape, seed=2).float()
    network = Uses(model, (inputs, targets))
    network.check(inputs, targets)
    ends = [*range(size - 1, length, size)]
    times = {site.name: site.times.tolist() for site in network.sites}
    assert times["linear() of read.weight, read.bias"] == ends
    assert times["linear() of query.weight, query.bias"] == ends
    assert network.end_steps == (ends if each else [length - 1])


def test_patches_of_sequences_that_are_too_long_to_try_each_step_are_refused():
    inputs = draw(48, 1200, 1).float()
    with pytest.raises(ValueError, match="steps of a sequence = 1200: must be at most 1024 where"):
        detected(Patches(1200, 16), (inputs, inputs[:, 2, :].expand(-1, 2)))


def test_rounding_of_a_value_that_is_near_zero_by_chance_moves_nothing():
    """A sum in which all cancels for the first sequence, rounded otherwise from row to row."""
    pair = draw(2, 9, 1).float()
    pair[0, 4] = 1e-6

    def values(inputs):
        rounding = 1e-8 * (torch.arange(len(inputs)) > 1)
        return [(inputs[:, 4, 0] + rounding)[:, None]]

    (times,) = last_steps(values, [pair], 1)
    assert times.low.tolist() == [4]


class MostlyClosed(Stepped):
    """The plain recurrence, which a gate lets take a share of its steps alone."""

    def __init__(self, share):
        super().__init__()
        self.threshold = float(torch.distributions.Normal(0, 1).icdf(torch.tensor(1 - share)))

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            is_open = x[:, t, :1] > self.threshold
            shown.append(one.show(self.shown(state, x[:, t], is_open, one)))
            state = torch.where(is_open, torch.tanh(one.read(x[:, t]) + one.recur(state)), state)
        return torch.stack(shown, 1)

    def shown(self, state, x, is_open, one):
        return torch.where(is_open, torch.tanh(one.read(x) + one.recur(state)), state)


class RarelySeesItsStep(MostlyClosed):
    """Shows the state before, which always moves, and this step's input where the gate is open."""

    def forward(self, x, copies=None):
        state, shown = x.new_zeros(len(x), HIDDEN), []
        for t, one in enumerate(copies or [self] * STEPS):
            shown.append(one.show(state + (x[:, t, :1] > self.threshold) * x[:, t, 1:2]))
            state = torch.tanh(one.read(x[:, t]) + one.recur(state))
        return torch.stack(shown, 1)


class FeedsOnWhatWasKept(MostlyClosed):
    """Keeps what it read last, and adds up what it makes of that, from nothing on."""

    def forward(self, x, copies=None):
        kept = total = x.new_zeros(len(x), HIDDEN)
        shown = []
        for t, one in enumerate(copies or [self] * STEPS):
            kept = torch.where(x[:, t, :1] > self.threshold, one.read(x[:, t]), kept)
            total = total + torch.tanh(one.recur(kept))
            shown.append(one.show(total))
        return torch.stack(shown, 1)


@pytest.mark.parametrize("share", [0.3, 0.1, 0.01])
@pytest.mark.parametrize("kind", [MostlyClosed, RarelySeesItsStep, FeedsOnWhatWasKept])
def test_steps_behind_a_gate_that_is_mostly_closed_are_right_or_refused(kind, share):
    """Open in three steps of ten it is right, against copies of the parameters; of a hundred, not.

    What is refused in between hangs on the draws; what is not is right.
    """
    torch.manual_seed(0)
    model, inputs = kind(share).double().eval(), draw(100, STEPS, WIDTH)
    with torch.no_grad():
        targets = draw(*model(inputs).shape, seed=2)
    network = Uses(model, (inputs, targets))
    if share < 0.1:
        with pytest.raises(ArgumentError, match=r"gate|move"):
            network.check(inputs, targets)
        return
    with nullcontext() if share > 0.1 else suppress(ArgumentError):
        network.check(inputs, targets)
        found = network.read(inputs[:20], targets[:20]).lag_vectors(range(STEPS))
        wanted = parts_by_copies(model, inputs[:20], targets[:20])
        assert float((found - wanted).norm(dim=1).max() / wanted.norm()) <= 1e-10


class RarelyAtTheEnd(RarelySeesItsStep):
    """The same, read out at the end alone."""

    def forward(self, x, copies=None):
        return super().forward(x, copies)[:, -1]


@pytest.mark.parametrize("share", [0.03, 0.01])
def test_a_last_step_that_is_read_in_few_sequences_is_found(share):
    """The step before moves the one prediction always, and each time tells an earlier end."""
    torch.manual_seed(0)
    model, inputs = RarelyAtTheEnd(share).eval(), draw(400, STEPS, WIDTH).float()
    assert bool((inputs[:, -1, 0] > model.threshold).any())
    for seed in range(8):
        network = Uses(model, (inputs, draw(400, 1, seed=2).float()))
        network.trials.generator.manual_seed(seed)
        with suppress(ArgumentError):  # what is seldom moved may be refused later
            network.check(*network.batch)
        assert network.end_steps == [STEPS - 1]


@pytest.mark.parametrize("kind", ["values", "joins"])
def test_a_last_step_that_was_seen_rarely_is_not_sure(kind):
    """Rows that go evenly are; of others each must have been seen in twenty pairs of sequences."""
    steps = np.array([0, 1, 1, 3, 4, 5, 6, 7, 8])
    seen = np.full(9, 20)
    n_behind = int(kind == "values")
    assert Bounds((0,), steps, steps, seen).are_sure(9, n_behind)
    for row in range(9):
        fewer = seen - (np.arange(9) == row)
        assert not Bounds((0,), steps, steps, fewer).are_sure(9, n_behind)
        assert Bounds((0,), np.arange(9), np.arange(9), fewer).are_sure(9, n_behind)
    # the last row at the step of the one before it, as where a gate was closed at the last step
    early = np.minimum(np.arange(9), 7)
    assert not Bounds((0,), early, early, seen - 1).are_sure(9, 1)
