"""What `diagnose` refuses: by name, with a way out, which is walked here."""

import re
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lwcore.diagnose import diagnose
from lwcore.signatures import ArgumentError
from tests.diagnosed import Attends, Recurrent, by_lag, last, route

STEPS = 8
DRAWN = torch.Generator().manual_seed(3)
INPUTS = torch.randn(60, STEPS, 2, generator=DRAWN)
TARGETS = torch.randn(60, STEPS, 1, generator=DRAWN)
ENDS = TARGETS[:, -1]
DATA = INPUTS, TARGETS
CLASSES = torch.randint(5, (60, STEPS), generator=DRAWN)


class Undecoded(Recurrent):
    """Gives states, which a head of the reader's decodes."""

    def forward(self, x):
        return self.rnn(x)[0]

    def decode(self, h, y=0):
        return self.show(h) - y


class Kept(Recurrent):
    """Keeps a state from batch to batch."""

    state = 0

    def forward(self, x):
        self.state += x.detach().sum()
        return super().forward(x) + self.state


class ReadOut(Attends):
    """Reads each sequence out at its last step that is not 0."""

    def forward(self, x):
        lengths = (x != 0).any(-1).sum(1)
        return super().forward(x)[torch.arange(len(x)), lengths - 1]


class Checkpointed(Attends):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


class Experts(Recurrent):
    """Sends steps to a layer by index."""

    def __init__(self):
        super().__init__()
        self.expert = nn.Linear(4, 4).eval()

    def forward(self, x):
        h = self.rnn(x)[0]
        chosen = x[..., 0] > 0
        made = torch.zeros_like(h).masked_scatter(chosen[..., None], self.expert(h[chosen]))
        return self.show(made)


class Mapped(Attends):
    """Uses a parameter in a function of its own, one sequence at a time."""

    def forward(self, x):
        return torch.vmap(lambda h: h @ self.show.weight.T)(self.read(x))


class Packs(Recurrent):
    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [STEPS] * len(x), batch_first=True)
        return self.show(self.rnn(packed)[1][-1])


class Scripted(Recurrent):
    def __init__(self):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that PyTorch gives scripts up
            self.show = torch.jit.trace(self.show, torch.zeros(1, 4), check_trace=False)


class Static(Recurrent):
    """Adds the features of a sequence to each of its steps."""

    def forward(self, x, features):
        return super().forward(x + features.sum(1)[:, None, None])[:, -1]


def closed():
    """A model that holds a function that holds it."""
    model = Recurrent()
    model.after = lambda y: y * model.show.out_features
    return model


def clipped(y):
    if y.requires_grad:
        y.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
    return y


def conditional(y):
    return torch.cond(y.sum() > 0, lambda y: y + 0, lambda y: y * 1, (y,))


def either(y):
    return {"mean": y, "variance": y.exp()}


def compared(p, y):
    return (p - p.mean(0)).square().mean()


def drawing(p, y):
    return ((p - y) * torch.rand_like(y)).square().sum()


def decayed(p, y):
    return functional.mse_loss(p, y) + 0.01 * net.show.weight.square().sum()


def only(*names):
    return {"parameters": [*names]}


def padded():
    inputs = INPUTS.clone()
    inputs[::2, 5:] = 0
    return inputs, ENDS


def described(width):
    return (INPUTS, torch.randn(60, width, generator=DRAWN)), ENDS


net, wide, text = Recurrent(), Recurrent(2, 5), Attends(tokens=5, outputs=5)
with torch.inference_mode():
    of_inference = Recurrent()
at_end, hooked, itself = Recurrent(after=last), Recurrent(), Recurrent()
itself.rnn.__deepcopy__ = lambda memo: itself.rnn
hooked.show.weight.register_hook(torch.neg)
mixing = Recurrent(before=lambda x: (x - x.mean(0)) / x.std(0))
undecoded, unmasked = Undecoded(), Attends(causal=False)
branching = Attends(after=conditional)
pad = nn.ConstantPad1d((1, 0), 0.0)
convolutions = nn.Sequential(pad, nn.Conv1d(6, 4, 2), nn.ReLU(), pad, nn.Conv1d(4, 1, 2)).eval()
CHANNELS = torch.randn(60, 6, STEPS, generator=DRAWN), ENDS
LAST = INPUTS, ENDS
TOKENS = INPUTS, CLASSES
FEW = torch.randn(60, 3, STEPS, generator=DRAWN), TARGETS[:, :3]
EXPERTS = only("rnn", "expert", "show")
MSE = {"loss": nn.MSELoss()}
ENTROPY = {"loss": nn.CrossEntropyLoss()}
CLASSES_SAID = {"loss": lambda p, y: functional.cross_entropy(p.mT, y)}
SHORTER = INPUTS, TARGETS[:, 1:]
BUT_ONE = {"head": lambda y: y[:, :-1]}
LAMBDA = {"head": lambda h: undecoded.show(h)}
AT_LAST = {"head": lambda y: y[..., -1]}
SCORED = only("rnn", "show") | {"loss": undecoded.decode, "source": "target"}
LABELS = CLASSES, CLASSES.where(INPUTS[..., 0] > -1, -100)
NEXT = CLASSES[:, :-1], CLASSES[:, 1:]

# name: model, data, options, words of the refusal, and what it says to do: another model, other
# options, or other data with a model and options
REFUSED = {
    "no causal mask": (unmasked, DATA, {}, "later inputs", Attends()),
    "nor but one": (unmasked, SHORTER, BUT_ONE, "later inputs", Attends()),
    "horizon": (unmasked, DATA, {}, "horizon=True", {"horizon": True, "time_axis": 1}),
    "no horizon": (Attends(), DATA, {"horizon": True}, "made at steps 0 to 7", {}),
    "mixed": (mixing, DATA, {}, "mixes sequences", net),
    "state kept": (Kept(), DATA, {}, "keeps no state", net),
    "hook": (Recurrent(after=clipped), DATA, only("rnn"), "Does a hook change gradients", net),
    "hook of a parameter": (hooked, DATA, {}, r"remove\(\) hooks", net),
    "random": (Recurrent(after=functional.dropout), DATA, {}, "training=self.training", net),
    "no gradient": (Recurrent(after=Tensor.detach), DATA, {}, "torch.no_grad()", net),
    "training": (Recurrent().train(), DATA, {}, "model.eval\\(\\)", net),
    "made in a mode": (of_inference, DATA, {}, "outside of torch.inference_mode", net),
    "read out early": (ReadOut(), padded(), {}, "pad on the left", Attends(after=last)),
    "conditions": (branching, DATA, {}, "onditions (of|must be) Python", Attends()),
    "experts": (Experts(), DATA, EXPERTS, "=\\['rnn', 'show'\\]", only("rnn", "show")),
    "a function of one's own": (Mapped(), DATA, {}, "torch.vmap", Attends()),
    "packed": (Packs(), LAST, {}, "leave out pack_padded_sequence", at_end),
    "channels": (convolutions, CHANNELS, AT_LAST, "time_axis=2", AT_LAST | {"time_axis": 2}),
    "few steps": (Recurrent(STEPS), FEW, {}, "time_axis=1", {"time_axis": 1}),
    "variates": (Attends(causal=False, after=last), LAST, {}, "time_axis=1", {"time_axis": 1}),
    "scripted": (Scripted(), DATA, {}, "before scripting", net),
    "closure": (closed(), DATA, {}, "Write a method", net),
    "features": (Static(), described(STEPS), {}, "another width", (described(9), Static(), {})),
    "not copied": (Recurrent(after=(y for y in ())), DATA, {}, "cannot be deep-copied", net),
    "several": (Recurrent(after=either), DATA, {}, "head=lambda out: out.0., out.'logits'", net),
    "a loss that compares": (net, DATA, {"loss": compared}, "compare sequences", MSE),
    "a loss that draws": (net, DATA, {"loss": drawing}, "Does it draw", MSE),
    "a loss with parameters": (net, DATA, {"loss": decayed}, "leave a weight decay out", MSE),
    "a class": (net, DATA, {"loss": nn.MSELoss}, "Give an instance", MSE),
    "classes second": (Recurrent(2, STEPS), TOKENS, ENTROPY, "axis has the classes", CLASSES_SAID),
    "real targets": (wide, TOKENS, MSE, "p\\.mT", CLASSES_SAID),
    "not shifted": (text, LABELS, {}, "Hugging Face's are shifted", (NEXT, text, {})),
    "no class": (wide, (INPUTS, CLASSES - 1), {}, "out of bounds", (TOKENS, wide, {})),
    "another shape": (net, (INPUTS, ENDS[:, 0]), MSE, "fails on", (LAST, at_end, MSE)),
    "not finite": (net, (INPUTS.log(), TARGETS), {}, "finite", (DATA, net, {})),
    "a head with parameters": (undecoded, DATA, LAMBDA, "net\\.decode", {"head": undecoded.decode}),
    "a loss that decodes": (undecoded, DATA, SCORED, "head=net", {"head": undecoded.decode}),
    "masked": (net, (INPUTS, np.ma.array(TARGETS, mask=TARGETS > 2)), {}, "mask", (DATA, net, {})),
    "sparse": (net, (INPUTS.to_sparse(), TARGETS), {}, "dense", (DATA, net, {})),
    "first": (Static(), ((ENDS, INPUTS), ENDS), {}, "first of", (described(9), Static(), {})),
    "itself": (itself, DATA, {}, "__deepcopy__", net),
    "apart": (net, [DATA, (INPUTS, ENDS[:9])], {}, "as many targets", ([DATA], net, {})),
    "triples": (net, [(*DATA, TARGETS)], {}, "b\\[:-1\\], b\\[-1\\]", ([DATA], net, {})),
    "inputs alone": (net, INPUTS, {}, "\\(inputs, targets\\)", (DATA, net, {})),
    "lengths": (net, [DATA, [x[:, 1:] for x in DATA]], {}, "longest of all", ([DATA], net, {})),
    "few sequences": (net, (INPUTS[:9], TARGETS[:9]), {}, "40 sequences", (DATA, net, {})),
    "no such name": (net, DATA, only("lstm"), "rnn.weight_ih_l0", only("rnn")),
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
    else:
        data, model, how = way_out
    assert route(model, data, **how).chosen


@pytest.mark.parametrize(
    ("model", "data", "how"),
    [
        (Recurrent(before=lambda x: x.flip(1), after=last), LAST, {"time_axis": 1}),
        (nn.Sequential(nn.Flatten(), nn.Linear(STEPS, 1)).eval(), (INPUTS[..., :1], ENDS), {}),
    ],
)
def test_a_window_that_is_taken_at_once_has_nothing_to_measure(model, data, how):
    found = diagnose(model, data, progress=False, **how)
    assert "there is nothing to measure" in found.answer().first
    assert not found.data.statistic.any()


def test_a_checkpointed_model_is_read_as_it_is_without():
    one, two = (by_lag(route(kind(), DATA), range(STEPS)) for kind in (Checkpointed, Attends))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def test_a_model_of_many_classes_reads_few_sequences_at_once():
    found = route(Attends(outputs=5000), TOKENS)
    assert found.at_once * STEPS * 5000 <= 2**21


def test_arrays_lists_and_tensors_that_a_loader_fills_again_are_taken():
    reversed_view = np.ascontiguousarray(INPUTS.numpy()[::-1])[::-1]
    assert torch.equal(route(net, [[reversed_view, TARGETS]]).data.first, INPUTS)
    buffer = torch.empty_like(INPUTS[:20])
    refilled = ((buffer.copy_(some), TARGETS[:20]) for some in INPUTS.split(20))
    assert torch.equal(route(net, refilled).data.first, INPUTS)
