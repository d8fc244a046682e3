"""What goes wrong with a network or data, one row each: the message names the argument, what was given, and what is allowed."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

from lwcore.diagnose import AxesWarning, checkpoint, diagnose
from tests.networks import draw
from tests.test_diagnose import Net, planted

X, Y = planted(60)  # (60, 16, 1) and (60, 1)
CLASSES = (Y[:, 0] > 0).long()


def net(**options):
    return Net(**({"outputs": 1} | options))


def poisoned():
    model = net()
    with torch.no_grad():
        model.rnn.weight_hh_l0[0, 0] = torch.nan
    return model


class FixedState(Net):
    """Starts from a state made for one size of batch."""

    def __init__(self, count):
        super().__init__(outputs=1)
        self.state = torch.zeros(1, count, 8), torch.zeros(1, count, 8)

    def forward(self, x):
        return self.fc(self.rnn(x, self.state)[0][:, -1])


class Packs(Net):
    """Packs what it reads."""

    def forward(self, x):
        packed = pack_padded_sequence(x, torch.full((len(x),), x.shape[1]), batch_first=True)
        return self.fc(self.rnn(packed)[1][0][-1])


class Words(Net):
    """Has an embedding of five words."""

    def __init__(self):
        super().__init__(outputs=2)
        self.embed = nn.Embedding(5, 1)

    def forward(self, x):
        return super().forward(self.embed(x))


class StepsFirst(nn.Module):
    """Reads (T, B, D), as modules do unless told otherwise."""

    def __init__(self, every_step=False):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.fc, self.every_step = nn.LSTM(1, 4), nn.Linear(4, 1), every_step

    def forward(self, x):
        outputs = self.rnn(x)[0]
        return self.fc(outputs if self.every_step else outputs[-1])


def fails_at(number):
    for k, pair in enumerate(zip(X.split(20), Y.split(20), strict=True)):
        if k == number:
            raise KeyError("lost")
        yield pair


def bare(**options):
    torch.manual_seed(0)
    return nn.LSTM(1, 4, **({"batch_first": True} | options))


ROWS = {
    "not a module": ({"model": lambda x: x}, r"model is a function: must be a torch\.nn\.Module"),
    "a class, not an instance": ({"model": nn.LSTM}, "model is a type: must be"),
    "NaN weights": ({"model": poisoned()}, r"model: 1 of 256 entries of rnn\.weight_hh_l0 are NaN or infinite; all must be finite"),
    "a dataset": ({"batches": TensorDataset(X, Y)}, r"batches is a TensorDataset.*must give batches; use DataLoader\(dataset"),
    "a tensor": ({"batches": X}, "batches is a Tensor: must give pairs"),
    "a packed batch": (
        {"batches": [(pack_padded_sequence(X, torch.full((60,), 16), batch_first=True), Y)]},
        r"batches\[0\] holds a PackedSequence: inputs must be a tensor",
    ),
    "one packed pair": (
        {"batches": (pack_padded_sequence(X, torch.full((60,), 16), batch_first=True), Y)},
        "PackedSequence.*must be a tensor",
    ),
    "packed inside": ({"model": Packs(outputs=1)}, "inputs of the LSTM: a PackedSequence; must be a tensor of three axes"),
    "batches that raise": ({"batches": fails_at(1)}, r"batches: raised KeyError \('lost'\) at batch 1; must give pairs"),
    "batches that raise at once": ({"batches": fails_at(0)}, "at batch 0; must give pairs"),
    "inputs alone": ({"batches": [X]}, r"batches\[0\] is \(Tensor\): must be a pair of tensors"),
    "a number": ({"batches": 3}, "batches is a int: must give pairs of inputs and targets"),
    "sequences of several lengths": (
        {"batches": [(X[:30], Y[:30]), (X[30:, 1:], Y[30:])]},
        r"batches\[1\]: inputs of a sequence are \(15, 1\).*in the first batch \(16, 1\).*must be equally long",
    ),
    "NaN in inputs": (
        {"batches": (X.index_fill(1, torch.tensor([0]), torch.nan), Y)},
        r"batches\[0\]: 60 of 960 inputs are NaN or infinite; all must be finite",
    ),
    "no batch": ({"batches": []}, "batches: there are none"),
    "an empty batch": ({"batches": [(X[:0], Y[:0])]}, r"batches\[0\]: inputs have shape \(0, 16, 1\); must hold at least one sequence"),
    "an empty batch later": ({"batches": [(X, Y), (X[:0], Y[:0])]}, r"batches\[1\]: inputs have shape \(0, 16, 1\)"),
    "a number for targets": ({"batches": [(X, torch.tensor(1.0))]}, r"targets have shape \(\); must hold at least one"),
    "words for targets": ({"batches": (X.numpy(), np.array(["a"] * 60))}, r"batches\[0\]: must hold numbers"),
    "fewer targets": ({"batches": (X, Y[:50])}, r"targets have shape \(50, 1\): no axis counts the 60 sequences"),
    "other types later": ({"batches": [(X, Y), (X, CLASSES)]}, r"must have the axes|batches\[1\]: targets of a sequence are"),
    "too wide": ({"batches": (X.expand(-1, -1, 3), Y)}, r"model: fails on inputs of shape \(60, 16, 3\).*Expected 1, got 3"),
    "no axis of numbers": ({"batches": (X[..., 0], Y)}, r"inputs of the LSTM: shape \(60, 16\); must be a tensor of three axes"),
    "integers without an embedding": ({"batches": (X.long(), Y)}, r"fails on inputs .*int64.*must be inputs\.float\(\)"),
    "words beyond an embedding": (
        {"model": Words(), "batches": (torch.full((60, 16), 5), CLASSES)},
        "model: fails.*out of range.*below its num_embeddings",
    ),
    "a state of a fixed size": ({"model": FixedState(60)}, r"fails on inputs of shape \(4, 16, 1\).*does it keep a state of a fixed batch"),
    "a state of a wrong size": ({"model": FixedState(7)}, r"model: fails on inputs of shape \(60, 16, 1\).*Expected hidden"),
    "one axis too few in targets": (
        {"batches": (X, Y[:, 0])},
        r"predictions \(60, 1\) and targets \(60,\): they would be broadcast; must have the same shape. Here targets.reshape\(60, 1\)",
    ),
    "the same with a loss of one's own": (
        {"batches": (X, Y[:, 0]), "loss": lambda p, y: (p - y).square().mean()},
        r"must be their sum or mean.*Are predictions \(4, 1\) and targets \(4,\) broadcast\?",
    ),
    "the same with an nn loss": ({"batches": (X, Y[:, 0]), "loss": nn.HuberLoss()}, "they would be broadcast; must have the same shape"),
    "no head": ({"model": bare()}, r"predictions \(60, 16, 4\) and targets \(60, 1\).*is a head missing"),
    "no head for classes": (
        {"model": bare(), "batches": (X, CLASSES)},
        r"predictions \(60, 16, 4\) and targets \(60,\): .*is a head missing",
    ),
    "a head that fails": ({"model": bare(), "head": nn.Linear(5, 1)}, "head: fails on inputs of shape"),
    "steps first, sequences given first": (
        {"model": StepsFirst()},
        r"no axis counts the 16 sequences .* read as 16 sequences of 60 steps of 1 number\. The LSTM has batch_first=False",
    ),
    "an axis too many in classes": (
        {"model": net(outputs=2), "batches": (X, CLASSES[:, None]), "loss": nn.CrossEntropyLoss()},
        r"loss \(CrossEntropyLoss\) of predictions \(60, 2\) and targets \(60, 1\): targets must be classes, integers of shape \(60,\), "
        r"or probabilities in the shape of the predictions\. Here targets\.reshape\(60,\) would do\.$",
    ),
    "the same with no loss named": (
        {"model": net(outputs=2), "batches": (X, CLASSES[:, None])},
        r"loss \(cross-entropy\) .* targets \(60, 1\): .*Here targets\.reshape\(60,\) would do\.$",
    ),
    "the same from files": (
        {"model": net(outputs=2), "batches": (X, CLASSES[:, None]), "loss": checkpoint.loss_of},
        r"targets \(60, 1\), .*must be classes, integers of shape \(60,\), .*Here targets\.reshape\(60,\) would do\..*--every-step",
    ),
    "classes that are no integers": (
        {"model": net(outputs=2), "batches": (X, CLASSES.float()), "loss": nn.CrossEntropyLoss()},
        r"targets \(60,\): targets must be classes, integers .* Here targets\.long\(\) would do\.$",
    ),
    "classes on the last axis": (
        {
            "model": bare(),
            "head": nn.Linear(4, 3),
            "batches": (X, torch.zeros(60, 16, dtype=torch.long)),
            "loss": nn.functional.cross_entropy,
        },
        r"predictions \(60, 16, 3\) and targets \(60, 16\): .* shape \(60, 3\).* Here predictions\.movedim\(-1, 1\) would do",
    ),
    "a class for a loss": ({"loss": nn.CrossEntropyLoss}, r"loss = CrossEntropyLoss, a class: must be .*instance.*CrossEntropyLoss\(…\)"),
    "a class for a head": ({"model": bare(), "head": nn.Linear}, "head = Linear, a class: must be"),
    "classes beyond the predictions": ({"model": net(outputs=2), "batches": (X, CLASSES + 1)}, "loss: fails on predictions.*out of bounds"),
    "a loss without pull": ({"loss": lambda p, y: 0 * (p - y).square().mean()}, "gradient is 0 for every one of 60 sequences"),
    "a target that never changes": ({"batches": (X, 0 * Y), "source": "target"}, "all targets are the same.*source must be 'error'"),
    "one step": ({"batches": (X[:, :1], Y)}, "read as 60 sequences of 1 step of 1 number; must have at least 2 steps"),
    "few sequences": ({"batches": (X[:39], Y[:39])}, "hold 39 sequences, .* read as 39 sequences of 16 steps of 1 number; at least 40"),
    "a lag as long as a sequence": ({"lags": [1, 16]}, r"lags\[1\] = 16: must be an integer from 1 to 15"),
    "a lag twice": ({"lags": [1, 3, 3]}, r"lags = \[1, 3, 3\]: must be strictly increasing"),
    "half a lag": ({"lags": [1.5]}, r"lags\[0\] = 1\.5: must be an integer from 1"),
    "lag 0": ({"lags": [0, 1]}, r"lags\[0\] = 0: must be an integer from 1"),
    "no lags": ({"lags": []}, r"lags = \[\]: must name at least one lag"),
    "one lag without a list": ({"lags": 3}, "lags = 3: must be a sequence"),
    "negative sequences": ({"sequences": -5}, "sequences = -5: must be an integer from 40 up"),
    "half a sequence": ({"sequences": 50.5}, "sequences = 50.5: must be an integer from 40 up"),
    "no sequences to train on": ({"n_sequences": 0}, "n_sequences = 0: must be an integer from 1 up"),
    "a negative seed": ({"seed": -1}, "seed = -1: must be an integer from 0 to"),
    "a huge seed": ({"seed": 2**64}, "seed = 18446744073709551616: must be an integer from 0 to"),
    "unsorted budgets": ({"budgets": [4, 2]}, r"budgets = \[4, 2\]: must be strictly increasing"),
    "budgets from 0": ({"budgets": [0, 2]}, r"budgets\[0\] = 0: must be an integer from 1 up"),
    "no budgets": ({"budgets": []}, r"budgets = \[\]: must name at least one number"),
    "a word for a loss": ({"loss": "mse"}, "loss = 'mse': must be a function"),
    "another source": ({"source": "noise"}, "source = 'noise': must be one of 'error', 'target'"),
    "no chance of a false detection": ({"significance": 0}, r"significance = 0: must lie in \(0, 1\)"),
    "an error of a half": ({"error": 0.5}, r"error = 0\.5: must lie in \(0, 0\.5\)"),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_wrong_is_named_with_what_is_allowed(row):
    change, message = ROWS[row]
    given = {"model": net(), "batches": (X, Y), "progress": False} | change
    with pytest.raises((ValueError, TypeError)) as caught:
        diagnose(given.pop("model"), given.pop("batches"), given.pop("lags", None), **given)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_are_refused_before_data_are_read():
    def never():
        raise AssertionError("read")
        yield

    for change in ({"lags": [2, 1]}, {"budgets": [2, 1]}, {"seed": -1}, {"sequences": 1}, {"source": "x"}):
        with pytest.raises(ValueError, match="must be"):
            diagnose(net(), never(), progress=False, **change)


@pytest.mark.parametrize(
    ("model", "batches", "read_as"),
    [
        (net(), zip(X.split(1), Y.split(1), strict=True), "60 sequences of 16 steps of 1 number"),
        (Words(), (torch.arange(960).reshape(60, 16) % 5, CLASSES), "60 sequences of 16 steps of 1 number"),
        (net(), (X[:, :2], Y), "60 sequences of 2 steps of 1 number"),
        (net(), (X.numpy()[::-1], Y.numpy()[::-1]), "60 sequences of 16 steps of 1 number"),
        (StepsFirst(), (X.transpose(0, 1), Y), "60 sequences of 16 steps of 1 number"),
        (net(outputs=2), DataLoader(TensorDataset(X, CLASSES), batch_size=7), "60 sequences of 16 steps of 1 number"),
    ],
)
def test_what_is_unusual_but_right_is_read_and_says_how(model, batches, read_as):
    found = diagnose(model.eval(), batches, [1], progress=False)
    assert found.data.attrs["measured_on"].startswith(f"read as {read_as}: ")
    assert f"measured on: read as {read_as}" in found._repr_html_()
    str(found)


@pytest.mark.parametrize(
    ("swapped", "shape", "loader", "warned"),
    [
        (False, (60, 100), None, True),  # fewer sequences than steps, and nothing else says which is which
        (False, (60, 100), 60, False),  # the loader does
        (True, (60, 100), 60, True),  # and here it says otherwise
        (True, (100, 60), None, True),
        (False, (100, 60), None, False),
    ],
)
def test_axes_that_may_be_swapped_are_warned_of(swapped, shape, loader, warned):
    inputs = draw(*shape, 1).float()
    batches = (inputs, inputs) if loader is None else DataLoader(TensorDataset(inputs, inputs), batch_size=loader)
    model = StepsFirst(every_step=True) if swapped else nn.Sequential(bare())
    count, length = shape[::-1] if swapped else shape
    head = None
    if not swapped:
        model, head = model[0], lambda outputs: outputs[..., :1]
    expected = pytest.warns(AxesWarning, match=f"read as {count} sequences of {length} steps of 1 number, for the LSTM has batch_first=")
    with expected if warned else nullcontext():
        diagnose(model, batches, [1], head=head, progress=False)


def test_a_warning_of_axes_can_be_silenced_by_its_name():
    inputs = draw(50, 60, 1).float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AxesWarning)
        diagnose(bare(), (inputs, inputs), [1], head=lambda outputs: outputs[..., :1], progress=False)


def test_rounding_that_chaos_enlarges_is_named_and_double_precision_is_the_cure():
    chaotic, (inputs, targets) = Net("RNN", outputs=1, hidden=64).eval(), planted(60, length=24)
    with torch.no_grad():
        chaotic.rnn.weight_hh_l0.mul_(10)
    with pytest.raises(ValueError, match=r"rounding grows in its states: try model\.double\(\)"):
        diagnose(chaotic, (inputs, targets), [1, 2], progress=False)
    assert diagnose(chaotic.double(), (inputs.double(), targets.double()), [1, 2], progress=False).complete
