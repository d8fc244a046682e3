"""What is a reader's stays as it was: whatever model, hooks, loss and data hold or write to."""

from __future__ import annotations

import importlib
import itertools
import random
import re
from collections import OrderedDict, deque

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from lwcore.diagnose import diagnose
from lwcore.diagnose.ownership import is_own
from lwcore.signatures import ArgumentError
from tests.networks import draw

CALLS: list[int] = []
COUNT = 0


class Meter:
    """An object of a reader's own."""

    def __init__(self):
        self.total, self.n, self.array = torch.zeros(3), 0, np.zeros(2)

    def update(self):
        self.n += 1
        self.total += 1
        self.array += 1


class Noted(nn.Module):
    """Attention of one head, which keeps notes of its calls in every way."""

    of_class: list[int] = []  # noqa: RUF012
    n_calls = 0

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read, self.head = nn.Linear(1, 8), nn.Linear(8, 1)
        self.array, self.nested = np.zeros(1), {"of": {"calls": 0, "list": []}}
        self.meter, self.meters, self.queue = Meter(), (Meter(),), deque([1], 5)
        self.rng, self.draws = np.random.default_rng(0), random.Random(0)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        global COUNT
        COUNT += 1
        CALLS.append(1)
        self.array += len(x)
        self.nested["of"]["calls"] += 1
        self.nested["of"]["list"].append(1)
        self.meter.update()
        self.meters[0].update()
        self.queue.append(2)
        self.of_class.append(1)
        type(self).n_calls += 1
        self.rng.random(), self.draws.random()
        self.late = self.seen + 1
        self.seen += 1
        h = self.read(x)
        return self.head(h + functional.scaled_dot_product_attention(h, h, h, is_causal=True))

    def notes(self):
        """All that it has noted, as one text."""
        meters = [(m.n, m.total.tolist(), m.array.tolist()) for m in (self.meter, *self.meters)]
        states = self.rng.bit_generator.state, self.draws.getstate()
        own = self.array.tolist(), self.nested, [*self.queue], int(self.seen)
        return repr((COUNT, CALLS, self.of_class, self.n_calls, meters, states, own, [*vars(self)]))


def planted(count=60, length=8):
    inputs = draw(count, length, 1).float()
    return inputs, inputs.roll(2, 1)


def diagnosed(model, batches, **options):
    return diagnose(model.eval(), batches, [1, 2, 3], progress=False, **options)


def test_nothing_that_a_model_notes_is_left_behind():
    model = Noted()
    before = model.notes()
    with pytest.warns(UserWarning, match="changed seen while it ran"):
        diagnosed(model, planted())
    assert model.notes() == before


@pytest.mark.parametrize("fails", [False, True])
def test_lists_that_hooks_write_to_are_as_before(fails):
    """Of modules and of parameters, in closures, and also where the diagnosis is refused."""
    model, outputs, gradients, count = Noted(), [], [7], 0

    def note(*_):
        nonlocal count
        count += 1
        outputs.append(_[-1].detach())

    model.head.register_forward_hook(note)
    model.read.weight.register_hook(gradients.append)
    loss = (lambda p, y: (p.std(0) * y).sum()) if fails else nn.MSELoss()
    if fails:
        with pytest.raises(ArgumentError):
            diagnosed(model, planted(), loss=loss)
    else:
        with pytest.warns(UserWarning, match="changed seen"):
            diagnosed(model, planted(), loss=loss)
    assert (outputs, gradients, count) == ([], [7], 0)


class Metered(nn.Module):
    """A squared error with a meter and a learned scale."""

    def __init__(self):
        super().__init__()
        self.count, self.meter, self.scale = 0, Meter(), nn.Parameter(torch.ones(()))
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, predictions, targets):
        loss = self.scale * functional.mse_loss(predictions, targets)
        self.count += 1
        self.meter.update()
        self.mean += loss.detach()
        return loss


def test_meters_of_losses_and_heads_are_as_before():
    class Head(nn.Module):
        calls = 0

        def forward(self, h):
            self.calls += 1
            return h

    loss, head, log = Metered(), Head(), []
    model = nn.Sequential(nn.GRU(1, 3, batch_first=True))

    def logged(predictions, targets):
        log.append(len(targets))
        return loss(predictions[0][..., :1], targets)

    found = diagnosed(model, planted(), loss=logged, head=lambda given: (head(given[0]), 0))
    assert found.data.statistic.any()
    assert (loss.count, loss.meter.n, loss.meter.total.sum(), float(loss.mean)) == (0, 0, 0, 0)
    assert (log, head.calls, vars(head)["training"], loss.scale.grad) == ([], 0, True, None)


class Drawing(Dataset):
    """A dataset that draws from generators of its own, counts, and keeps what it has made."""

    def __init__(self, inputs, targets):
        self.pair, self.n, self.cache = (inputs, targets), 0, {}
        self.rng, self.old = np.random.default_rng(0), np.random.RandomState(0)
        self.draws, self.own = random.Random(0), torch.Generator().manual_seed(0)

    def __len__(self):
        return len(self.pair[0])

    def __getitem__(self, i):
        self.n += 1
        noise = self.rng.random() + self.old.rand() + self.draws.random()
        self.cache[i] = self.pair[0][i] + noise + torch.rand((), generator=self.own)
        return self.cache[i], self.pair[1][i]

    def state(self):
        old = self.old.get_state()[1].tolist()
        states = self.rng.bit_generator.state, old, self.draws.getstate(), self.own.get_state()
        return repr((self.n, self.cache, states[:3], states[3].tolist()))


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: DataLoader(data, 20)])
def test_a_dataset_goes_on_as_if_it_had_not_been_read(wrap):
    data = Drawing(*planted())
    before = data.state()
    diagnosed(nn.GRU(1, 1, batch_first=True), wrap(data), head=lambda given: given[0])
    assert data.state() == before


class Overwriting(nn.Module):
    """A model that writes to its inputs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.GRU(1, 4, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x *= 0.5
        return self.head(self.rnn(x)[0])


@pytest.mark.parametrize("form", [lambda part: part, lambda part: part.numpy()])
def test_inputs_that_a_model_writes_to_are_its_own_copies(form):
    """It sees the same ones in every pass, as it would in training."""
    inputs, targets = planted()
    before = inputs.clone()
    model = Overwriting()
    found = diagnosed(model, (form(inputs), form(targets)))
    assert torch.equal(inputs, before)
    plain = nn.Sequential(model.rnn).eval()
    head = lambda given: model.head(given[0])  # noqa: E731
    halved = diagnosed(plain, (0.5 * inputs, targets), head=head)
    np.testing.assert_allclose(found.data.statistic, halved.data.statistic, rtol=1e-4, atol=1e-9)


class Makers(OrderedDict):
    """Classes by name, of which each look makes an object, as libraries of models keep them."""

    def __getitem__(self, name):
        return super().__getitem__(name)()

    def get(self, name):
        raise AssertionError("nobody asks by this")

    def __setitem__(self, name, maker):
        if name in self:
            raise KeyError("written once")
        super().__setitem__(name, maker)


MAKERS = Makers(tanh=nn.Tanh, silu=nn.SiLU)


class Made(nn.Module):
    """A network whose activation a registry of its module makes; it writes to the registry."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        if "new" not in MAKERS:
            MAKERS["new"] = nn.ReLU
        return self.head(MAKERS["tanh"](self.rnn(x)[0]))


def test_a_container_that_makes_things_at_each_look_keeps_its_entries():
    x = draw(64, 8, 1)
    diagnose(Made().eval(), (x, x.roll(2, 1)), [1, 2], progress=False)
    held = {name: OrderedDict.__getitem__(MAKERS, name) for name in MAKERS}
    assert held == {"tanh": nn.Tanh, "silu": nn.SiLU}


def test_what_is_installed_in_any_folder_is_no_readers_own(tmp_path, monkeypatch):
    """As by ``pip install --target``, or by a distribution of Linux."""
    for folder in ("target", "dist-packages", "own"):
        (tmp_path / folder / f"of_{folder[:4]}").mkdir(parents=True)
        (tmp_path / folder / f"of_{folder[:4]}" / "__init__.py").write_text("x = {}")
        monkeypatch.syspath_prepend(tmp_path / folder)
    (tmp_path / "target" / "of_targ-1.0.dist-info").mkdir()
    for name in ("of_targ", "of_dist", "of_own"):
        importlib.import_module(name)
    assert [is_own(name) for name in ("of_targ", "of_dist", "of_own")] == [False, False, True]


class Slotted:
    """An object with a counter in a slot."""

    __slots__ = ("numbers",)

    def __init__(self):
        self.numbers = itertools.count()


class Iterating(nn.Module):
    """A GRU that takes the next of some iterator in each pass."""

    def __init__(self, held, take):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = nn.GRU(1, 4, batch_first=True), nn.Linear(4, 1)
        self.held, self.take = held, take

    def forward(self, x):
        self.take(self.held)
        return self.head(self.rnn(x)[0])


@pytest.mark.parametrize(
    ("held", "take", "named"),
    [
        (itertools.cycle([1, 2]), next, "held (cycle)"),
        ((place for place in range(10**6)), next, "held (generator)"),
        (iter([1] * 10**5), next, "held (list_iterator)"),
        ([itertools.count()], lambda held: next(held[0]), "held (count)"),
        (Slotted(), lambda held: next(held.numbers), "held.numbers (count)"),
    ],
)
def test_an_iterator_that_cannot_be_put_back_is_refused_before_it_is_moved(held, take, named):
    model = Iterating(held, take).eval()
    with pytest.raises(ArgumentError, match=re.escape(named)):
        diagnose(model, planted(), [1, 2], progress=False)
    assert model.held is held
    assert repr(getattr(held, "numbers", held)) in (repr(held), "count(0)")
    first = take(held)
    assert first in (0, 1)


def test_batches_may_come_from_a_generator_and_a_counter_stays_as_it_was():
    inputs, targets = planted()
    model = Iterating(itertools.count(7), next).eval()
    halves = ((inputs[place::2], targets[place::2]) for place in (0, 1))
    diagnose(model, halves, [1, 2], source="target", progress=False)
    assert next(model.held) == 7
