"""What `diagnose` refuses: by name, with a way out, which is walked here."""

import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lwcore.diagnose import diagnose
from lwcore.diagnose.contract import Rows
from lwcore.signatures import ArgumentError
from tests.diagnosed import route

STEPS = 8
DRAWN = torch.Generator().manual_seed(3)
INPUTS = torch.randn(60, STEPS, 2, generator=DRAWN)
TARGETS = torch.randn(60, STEPS, 1, generator=DRAWN)
ENDS = TARGETS[:, -1]
DATA = INPUTS, TARGETS
TOKENS = torch.randint(5, (60, STEPS), generator=DRAWN)


class Net(nn.Module):
    """A GRU with a readout at each step; subclasses do something to inputs or predictions."""

    def __init__(self, width=2, outputs=1):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.show = nn.GRU(width, 4, batch_first=True), nn.Linear(4, outputs)
        self.eval()

    def forward(self, x):
        return self.show(self.rnn(x)[0])


class Last(Net):
    def forward(self, x):
        return super().forward(x)[:, -1]


class Attends(nn.Module):
    """A layer of attention, with a mask or without."""

    def __init__(self, causal=True, outputs=1):
        super().__init__()
        torch.manual_seed(0)
        self.read, self.show, self.causal = nn.Linear(2, 4), nn.Linear(4, outputs), causal
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.eval()

    def forward(self, x):
        h = self.read(x)
        parts = self.query(h), self.key(h), self.value(h)
        return self.show(h + functional.scaled_dot_product_attention(*parts, is_causal=self.causal))


class Pooled(Attends):
    """Attention without a mask, read out at the last step: a window of variates may be such."""

    def forward(self, x):
        return super().forward(x)[:, -1]


class Normed(Net):
    def forward(self, x):
        return super().forward((x - x.mean(0)) / x.std(0))


class Kept(Net):
    """Keeps its state from batch to batch."""

    state = None

    def forward(self, x):
        state = None if self.state is None else self.state[:, : len(x)]
        h, self.state = self.rnn(x, state)
        return self.show(h)


class Clipped(Net):
    def forward(self, x):
        h = self.rnn(x)[0]
        if h.requires_grad:
            h.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
        return self.show(h)


class Reversed(Net):
    def forward(self, x):
        return super().forward(x.flip(1))[:, -1]


class Cut(Net):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


class ReadOut(Attends):
    """Reads each sequence out at its last step that is not 0."""

    def forward(self, x):
        lengths = (x != 0).any(-1).sum(1)
        return super().forward(x)[torch.arange(len(x)), lengths - 1]


def padded():
    inputs = INPUTS.clone()
    inputs[::2, 5:] = 0
    return inputs, ENDS


class Masked(Attends):
    """Reads all sequences out at the last step."""

    def forward(self, x):
        return super().forward(x)[:, -1]


class Checkpointed(Net):
    def forward(self, x):
        def read(x):
            h = x.new_zeros(len(x), 4)
            out = []
            for step in x.unbind(1):
                h = torch.tanh(step @ self.rnn.weight_ih_l0[:4].T + h @ self.rnn.weight_hh_l0[:4].T)
                out.append(h)
            return torch.stack(out, 1)

        return self.show(self.kept(read, x))

    def kept(self, read, x):
        return checkpoint(read, x, use_reentrant=False)


class Plain(Checkpointed):
    def kept(self, read, x):
        return read(x)


class Conditional(Attends):
    def forward(self, x):
        y = super().forward(x)
        return torch.cond(x.sum() > 0, lambda y: y + 0, lambda y: y * 1, (y,))


class Convolved(nn.Module):
    """A long convolution by Fourier transform, as of an S4 layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read, self.show, self.mix = nn.Linear(2, 4), nn.Linear(4, 1), nn.Linear(4, 4)
        self.kernel = nn.Parameter(torch.randn(STEPS, 4) / STEPS)
        self.eval()

    def forward(self, x):
        n = 2 * STEPS
        u = self.read(x)
        spectrum = torch.fft.rfft(u, n, dim=1) * torch.fft.rfft(self.kernel, n, dim=0)
        return self.show(u + self.mix(torch.fft.irfft(spectrum, n, dim=1)[:, :STEPS]))


class Experts(Net):
    """Sends steps to a layer by index."""

    def __init__(self):
        super().__init__()
        self.expert = nn.Linear(4, 4).eval()

    def forward(self, x):
        h = self.rnn(x)[0]
        chosen = x[..., 0] > 0
        return self.show(
            torch.zeros_like(h).masked_scatter(chosen[..., None], self.expert(h[chosen]))
        )


class Packs(Last):
    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [STEPS] * len(x), batch_first=True)
        return self.show(self.rnn(packed)[1][-1])


class Channels(nn.Module):
    """A causal convolution over channels first."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.show = nn.Conv1d(6, 4, 2), nn.Conv1d(4, 4, 2), nn.Linear(4, 1)
        self.eval()

    def forward(self, x):
        h = torch.relu(self.one(functional.pad(x, (1, 0))))
        h = torch.relu(self.two(functional.pad(h, (1, 0))))
        return self.show(h[..., -1])


CHANNELS = torch.randn(60, 6, STEPS, generator=DRAWN), ENDS
FEW = torch.randn(60, 3, STEPS, generator=DRAWN), TARGETS[:, :3]


class Scripted(Net):
    def __init__(self):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that PyTorch gives scripts up
            self.show = torch.jit.trace(self.show, torch.zeros(1, 4), check_trace=False)


class Holds(Net):
    """Holds what cannot be copied."""

    def __init__(self):
        super().__init__()
        self.waiting = iter(open(__file__))  # noqa: SIM115


def compared(p, y):
    return (p - p.mean(0)).square().mean()


def only(*names):
    return {"parameters": [*names]}


net = Net()
LAST = INPUTS, ENDS
CUT_SHORT = [DATA, (INPUTS[:, 1:], TARGETS[:, 1:])]
CLASSES_SAID = {"loss": lambda p, y: functional.cross_entropy(p.mT, y)}
MSE = {"loss": nn.MSELoss()}

# name: model, data, options, words of the refusal, and what it says to do: another model, other
# options, or other data with a model and options
REFUSED = {
    "no causal mask": (Attends(False), DATA, {}, "later inputs", Attends()),
    "horizon": (Attends(False), DATA, {}, "horizon=True", {"horizon": True, "time_axis": 1}),
    "no horizon": (Attends(), DATA, {"horizon": True}, "made at steps 0 to 7", {}),
    "mixed": (Normed(), DATA, {}, "mixes sequences", Net()),
    "state kept": (Kept(), DATA, {}, "keeps no state", Net()),
    "hook": (Clipped(), DATA, {"parameters": ["rnn"]}, "Does a hook change gradients", Net()),
    "no gradient": (Cut(), DATA, {}, "torch.no_grad()", Net()),
    "training": (Net().train(), DATA, {}, "model.eval\\(\\)", Net()),
    "read out early": (ReadOut(), padded(), {}, "pad on the left", Masked()),
    "conditions": (Conditional(), DATA, {}, "onditions (of|must be) Python", Attends()),
    "kernel": (Convolved(), DATA, {}, "=\\['read', 'show', 'mix'\\]", only("read", "show", "mix")),
    "experts": (
        Experts(),
        DATA,
        only("rnn", "expert", "show"),
        "=\\['rnn', 'show'\\]",
        only("rnn", "show"),
    ),
    "packed": (Packs(), LAST, {}, "leave out pack_padded_sequence", Last()),
    "channels": (Channels(), CHANNELS, {}, "time_axis=2", {"time_axis": 2}),
    "few steps": (Net(STEPS), FEW, {}, "time_axis=1", {"time_axis": 1}),
    "attention of variates": (Pooled(False), LAST, {}, "time_axis=1", {"time_axis": 1}),
    "scripted": (Scripted(), DATA, {}, "before scripting", Net()),
    "not copied": (Holds(), DATA, {}, "cannot be deep-copied", Net()),
    "a loss that compares": (Net(), DATA, {"loss": compared}, "compare sequences", MSE),
    "a class": (Net(), DATA, {"loss": nn.MSELoss}, "not a class", MSE),
    "classes second": (Net(2, 5), (INPUTS, TOKENS), MSE, "p\\.mT", CLASSES_SAID),
    "another shape": (Net(), (INPUTS, ENDS[:, 0]), MSE, "fails on", (LAST, Last(), MSE)),
    "not finite": (Net(), (INPUTS.log(), TARGETS), {}, "finite", (DATA, Net(), {})),
    "a head with parameters": (
        net,
        DATA,
        {"head": lambda p: net.show(p.expand(-1, -1, 4))},
        "net\\.decode",
        None,
    ),
    "triples": (Net(), [(*DATA, TARGETS)], {}, "b\\[:-1\\], b\\[-1\\]", ([DATA], Net(), {})),
    "inputs alone": (Net(), INPUTS, {}, "\\(inputs, targets\\)", (DATA, Net(), {})),
    "lengths": (Net(), CUT_SHORT, {}, "longest of all", ([DATA, DATA], Net(), {})),
    "few sequences": (Net(), (INPUTS[:9], TARGETS[:9]), {}, "40 sequences", (DATA, Net(), {})),
    "no such name": (Net(), DATA, only("lstm"), "rnn.weight_ih_l0", only("rnn")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do_and_that_works(name):
    model, data, how, words, way_out = REFUSED[name]
    with pytest.raises(ArgumentError) as caught:
        route(model, data, **how)
    assert re.search(words, " ".join(str(caught.value).split())), str(caught.value)
    if isinstance(way_out, nn.Module):
        model = way_out
    elif isinstance(way_out, dict):
        how = way_out
    elif way_out is not None:
        data, model, how = way_out
    if way_out is not None:
        assert route(model, data, **how).chosen


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (Reversed(), (INPUTS, ENDS)),
        (nn.Sequential(nn.Flatten(), nn.Linear(STEPS, 1)).eval(), (INPUTS[..., :1], ENDS)),
    ],
)
def test_a_window_that_is_taken_at_once_has_nothing_to_measure(model, data):
    found = diagnose(model, data, time_axis=1, progress=False)
    assert "there is nothing to measure" in found.answer().first
    assert not found.data.statistic.any()


@pytest.mark.parametrize(
    ("lags", "words"), [([0, 1], "from 1 on"), ([3, 2], "increase"), ([9], "to 7")]
)
def test_lags_that_are_none_are_refused(lags, words):
    with pytest.raises(ArgumentError, match=words):
        diagnose(Net(), DATA, lags, progress=False)


def test_a_checkpointed_model_is_read_as_it_is_without():
    one, two = (route(kind(), DATA).read(*part(DATA)).gradient() for kind in (Checkpointed, Plain))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def part(data):
    return Rows([data[0][:8]]), Rows([data[1][:8]])


def test_arrays_of_numpy_and_lists_of_a_loader_are_taken():
    reversed_view = np.ascontiguousarray(INPUTS.numpy()[::-1])[::-1].astype(np.float64)
    found = route(Net(), [[reversed_view, TARGETS]])
    assert torch.equal(found.data.first, INPUTS)
