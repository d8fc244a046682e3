"""What a reader gives to be diagnosed is refused by name, and with the way out, where it is wrong."""

from __future__ import annotations

import itertools
import re
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from lwcore.diagnose import diagnose
from lwcore.signatures import ArgumentError
from tests.networks import draw

LOADER = "torch.utils.data.DataLoader(pairs, 32) makes batches"


class Net(nn.Module):
    """A GRU with a linear layer behind it."""

    def __init__(self, width=1):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = nn.GRU(width, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class Strict(Net):
    """A network that takes inputs (B, T, D) alone."""

    def forward(self, x):
        assert x.ndim == 3
        return super().forward(x)


class Tokens(Net):
    """A network of tokens."""

    def __init__(self):
        super().__init__(4)
        self.embedding = nn.Embedding(9, 4)

    def forward(self, x):
        return super().forward(self.embedding(x))


def planted(count=60, length=12, width=1):
    inputs = draw(count, length, width).float()
    return inputs, inputs[..., :1].roll(2, 1)


def refused(model, batches, *args, **options):
    """Return the words with which a diagnosis is refused."""
    with pytest.raises(ArgumentError) as caught:
        diagnose(model.eval(), batches, *args, progress=False, **options)
    return str(caught.value)


class Items(Dataset):
    """A dataset of which a function makes the items."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 60

    def __getitem__(self, place):
        return self.make(place)


def missing(place):
    if place == 40:
        raise KeyError("patient 40")
    return torch.zeros(12, 1), torch.zeros(12, 1)


def ragged(place):
    return torch.zeros(6 + place % 6, 1), torch.zeros(12, 1)


class Endless(Dataset):
    """A dataset that does not say how long it is."""

    def __getitem__(self, place):
        return missing(0)


class Broken(IterableDataset):
    """A dataset that cannot be iterated."""

    def __iter__(self):
        raise OSError("disk gone")


def one_and_an_error():
    yield planted()
    raise OSError("disk gone")


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        (lambda: Items(missing), ["batches[0] cannot be read", "KeyError: 'patient 40'"]),
        (lambda: DataLoader(Items(missing), 16), ["batches[2] cannot be read", "patient 40"]),
        (lambda: DataLoader(Items(missing), 60, num_workers=1), ["patient 40"]),
        (lambda: Items(ragged), ["batches[0] cannot be read", "pad sequences to the longest"]),
        (lambda: DataLoader(Items(ragged), 8), ["batches[0]", "pad sequences to the longest"]),
        (
            lambda: Items(lambda place: None if place == 3 else missing(0)),
            ["items of the dataset = 'None for some'"],
        ),
        (lambda: DataLoader(Items(lambda _: None)), ["batches[0] cannot be read", "NoneType"]),
        (Endless, ["batches", "no len()"]),
        (Broken, ["OSError: disk gone"]),
        (lambda: (b for b in one_and_an_error()), ["batches[1] cannot be read", "disk gone"]),
    ],
)
def test_an_error_of_the_data_says_where_it_was_read(batches, said):
    words = refused(Net(), batches(), sequences=1000)
    assert [part for part in said if part not in words] == []


def singles(count, length, width):
    return [*zip(*planted(count, length, width), strict=True)]


@pytest.mark.parametrize(
    "form", [list, iter, lambda pairs: [(x.numpy(), y.numpy()) for x, y in pairs]]
)
@pytest.mark.parametrize("lags", ["auto", [1, 5, 8], [1]])
@pytest.mark.parametrize(("kind", "length", "width"), [(Net, 12, 3), (Strict, 12, 3), (Net, 60, 8)])
def test_single_pairs_are_told_from_batches_before_lags_are_looked_at(
    kind, length, width, lags, form
):
    words = refused(kind(width), form(singles(64, length, width)), lags)
    assert words.startswith("batches = ")
    assert LOADER in words


def test_single_pairs_of_tokens_of_one_number_a_step_and_with_labels_are_told_from_batches():
    tokens = torch.randint(0, 9, (64, 13))
    assert LOADER in refused(Tokens(), [(row[:-1], row[1:]) for row in tokens])
    assert LOADER in refused(Net(), singles(64, 12, 1))
    x, y = planted(64, 12, 3)
    assert LOADER in refused(Net(3), [*zip(x, y[:, -1], strict=True)])
    assert LOADER in refused(Net(3), [(row, 1.0) for row in x])


class OfRows(nn.Module):
    """A network of sequences of single numbers, (B, T)."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x[..., None])


class Windows(nn.Module):
    """A layer over the whole window, which takes any number of axes in front."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(12, 12)

    def forward(self, x):
        return self.layer(x).tanh()


def test_sequences_of_single_numbers_are_no_single_pairs():
    inputs, targets = (part[..., 0] for part in planted())
    found = diagnose(OfRows().eval(), (inputs, targets[..., None]), [1, 2], progress=False)
    assert found.data.sizes["sequence"] == 30
    assert "DataLoader" not in refused(Windows(), (inputs, targets), [1, 2])
    assert "12" in refused(OfRows(), (inputs, targets[..., None]), [12])


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        (lambda x, y: {"x": x, "y": y}, "(d['x'], d['y'])"),
        (lambda x, y: {"train": DataLoader(TensorDataset(x, y), 8)}, "d['train']"),
        (lambda x, y: x, "(inputs, targets)"),
        (lambda x, y: x.numpy(), "(inputs, targets)"),
        (lambda x, y: (x, y.tolist()), "torch.as_tensor(targets)"),
        (lambda x, y: [x, y, x], "a list of such pairs"),
        (lambda x, y: "data.pt", "not the name of a file"),
    ],
)
def test_what_holds_no_batches_is_refused_as_a_whole(batches, said):
    words = refused(Net(), batches(*planted()))
    assert words.startswith("batches = ")
    assert said in words


def test_texts_are_no_losses_and_no_lists():
    words = refused(Net(), planted(), loss="mse")
    assert words.startswith("loss = 'mse': must be a function of predictions and targets")
    words = refused(Net(), planted(), parameters="rnn")
    assert words == "parameters = 'rnn': must be a list of names, ['rnn']."


def test_parameters_that_are_not_finite_are_named_before_predictions():
    model = Net()
    with torch.no_grad():
        model.rnn.weight_hh_l0[0, 0] = torch.nan
    assert refused(model, planted(), [1]).startswith(
        "parameters = 'NaN or infinite in rnn.weight_hh_l0': must be finite"
    )


@pytest.mark.parametrize("place", [0, 17, 59])
def test_a_prediction_that_is_not_finite_says_of_which_sequence(place):
    inputs, targets = planted()
    inputs[place, 3] = 100

    class Dividing(Net):
        def forward(self, x):
            return super().forward(x) / (x < 50)

    model = Dividing()
    model.register_buffer("mask", torch.tensor([-torch.inf]))  # which is no sign of a fault
    words = refused(model, (inputs, targets), [1])
    assert words.startswith(f"predictions = 'NaN or infinite for sequence [{place}]'")


class Odd(Exception):
    """An error that cannot be told."""

    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Odd(), "Odd: no words"),
        (MemoryError(), "MemoryError: no words"),
        (RecursionError("deep"), "RecursionError: deep"),
        (RuntimeError("CUDA out of memory. Tried a batch of this size"), "out of memory"),
        (RuntimeError("out of luck"), "RuntimeError: out of luck"),
        (RuntimeError("Expected hidden size (1, 32, 4), got [1, 2, 4]"), "any number of sequences"),
        (TypeError("forward() missing 1 required positional argument: 'h'"), "wrap it"),
    ],
)
def test_an_error_of_a_model_is_told_with_no_cause_that_it_does_not_have(error, said):
    class Failing(Net):
        def forward(self, x):
            raise error

    words = refused(Failing(), planted(), [1])
    assert re.match(r"model \(Failing\) fails on 2 sequences", words)
    assert said in words
    is_of_shapes = "wrap it" in said or "number of" in said
    assert ("any number of sequences" in words) == is_of_shapes


def test_numbers_of_numpy_are_single_pairs_too():
    words = refused(Net(3), [(np.zeros((12, 3)), np.zeros(())) for _ in range(64)], [1])
    assert LOADER in words


@pytest.mark.parametrize(
    "form",
    [
        lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
        lambda x: x.astype(x.dtype.newbyteorder()),
        lambda x: np.broadcast_to(x, x.shape),
    ],
)
def test_arrays_that_are_flipped_or_not_to_be_written_are_read_as_any_others(form):
    inputs, targets = (part.numpy() for part in planted())
    plain = diagnose(Net().eval(), (inputs, targets), [1, 2], progress=False)
    found = diagnose(Net().eval(), (form(inputs), form(targets)), [1, 2], progress=False)
    np.testing.assert_array_equal(found.data.statistic, plain.data.statistic)


def test_trials_that_take_longer_than_the_limit_are_ended(monkeypatch):
    """By a clock that goes on for ten seconds at each look: six of them are a minute."""
    model = Net()
    clock = itertools.count(0, 10)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    words = refused(model, planted(), [1], limit_minutes=1)
    assert words.startswith("limit_minutes = 1: must be above what trials take")
    assert next(clock) < 200
    assert not model._forward_pre_hooks
