"""Losses and inputs as readers give them: what is taken as it is, and what is refused by its name.

What a refusal names as the way out is tried, too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn
from torch.utils.data import DataLoader, IterableDataset

from lwcore.diagnose import diagnose
from lwcore.signatures import ArgumentError
from tests.networks import draw

LAGS, LENGTH = [1, 2, 3, 4], 10


class Attention(nn.Module):
    """One block of causal attention, of numbers or of tokens."""

    def __init__(self, width=1, outputs=1, tokens=0, hidden=8):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Embedding(tokens, hidden) if tokens else nn.Linear(width, hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.places = nn.Parameter(0.3 * torch.randn(LENGTH, hidden))
        self.head = nn.Linear(hidden, outputs or tokens)

    def seen(self, x):
        h = self.read(x) + self.places
        given = self.query(h), self.key(h), self.value(h)
        return h + functional.scaled_dot_product_attention(*given, is_causal=True)

    def forward(self, x):
        return self.head(self.seen(x))


def planted(count=80, lag=2):
    inputs = draw(count, LENGTH, 1).float()
    targets = inputs.roll(lag, 1)
    targets[:, :lag] = 0
    return inputs, targets


def tokens(count=80, lag=2, classes=7):
    inputs = torch.randint(classes, (count, LENGTH), generator=torch.Generator().manual_seed(0))
    return inputs, inputs.roll(lag, 1)


def diagnosed(model, batches=None, **options):
    how = {"lags": LAGS, "progress": False, "source": "target"} | options
    return diagnose(model.eval(), planted() if batches is None else batches, **how)


def numbers(model, batches=None, **options):
    """Each sequence's part of each lag, and its whole gradient."""
    data = diagnosed(model, batches, **options).data
    assert data.detected.sel(lag=2)
    return np.stack([data.statistic, data.projection])


def refused(message, model, batches=None, **options):
    with pytest.raises(ArgumentError, match=message):
        diagnosed(model, batches, **options)


def test_labels_that_are_ignored_are_left_out_of_language_models_losses():
    """As Hugging Face's have them: -100, whole sequences among them, with classes last or second.
    The oracle is cross-entropy over what is left, as a sum over sequences."""
    inputs, labels = tokens()
    labels[:, :2] = labels[::3, 6:] = labels[5] = -100
    model = Attention(tokens=7, outputs=7)

    class Second(Attention):
        def forward(self, x):
            return super().forward(x).mT

    def summed(predictions, targets):
        is_left = targets >= 0
        logs = predictions.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        return -logs[is_left].sum()

    wanted = numbers(model, (inputs, labels), loss=summed)
    np.testing.assert_allclose(numbers(model, (inputs, labels)), wanted, rtol=1e-4, atol=1e-7)
    for loss in (None, nn.CrossEntropyLoss(), functional.cross_entropy):
        found = numbers(Second(tokens=7, outputs=7), (inputs, labels), loss=loss)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)


def test_labels_that_are_not_shifted_or_no_classes_are_refused():
    inputs, labels = tokens()
    model = Attention(tokens=7, outputs=7)
    own = inputs.clone()
    own[::2, 5:] = -100
    refused(
        "the inputs of the same step.*labels of Hugging Face's are shifted", model, (inputs, own)
    )
    labels[:, 0] = -1
    refused("target .-1.*from 0 to 6.* with -100", model, (inputs, labels))

    def loss(p, y):
        return functional.cross_entropy(p.mT, y, ignore_index=-1, reduction="sum")

    numbers(model, (inputs, labels), loss=loss)
    numbers(model, (inputs, labels.where(labels >= 0, -100)))


class Several(Attention):
    """A model that gives several things."""

    def __init__(self, form):
        super().__init__(outputs=2)
        self.form = form

    def forward(self, x):
        mean, other = super().forward(x).split(1, -1)
        return {
            "tuple": (mean, other),  # a mean and a deviation, two quantiles, an output and states
            "named": {"mean": mean, "variance": other.exp()},
            "with states": (mean, self.seen(x)),
            "with its loss": {"loss": other.mean(), "logits": mean},
            "distribution": torch.distributions.Normal(mean, other.exp()),
        }[self.form]


@pytest.mark.parametrize(
    ("form", "head"),
    [
        ("tuple", lambda out: out[0]),
        ("named", lambda out: out["mean"]),
        ("with states", lambda out: out[0]),
        ("with its loss", lambda out: out["logits"]),
        ("distribution", lambda out: out.loc),
    ],
)
def test_of_several_things_none_is_guessed(form, head):
    refused("head=lambda out: out.0., out.'logits'.*loss=", Several(form))
    numbers(Several(form), head=head)


@pytest.mark.parametrize("form", ["tuple", "named"])
def test_a_loss_of_several_things_is_taken(form):
    """The likelihood of a Gaussian by its mean and variance, or by its mean and deviation."""

    def loss(given, y):
        mean, other = given if form == "tuple" else given.values()
        return functional.gaussian_nll_loss(mean, y, other.exp() if form == "tuple" else other)

    numbers(Several(form), loss=loss)


def test_a_loss_takes_all_that_the_model_gives_or_the_one_tensor_in_it():
    """As logits and a cache: a reader's function may take both, PyTorch's losses take the tensor."""

    class Cached(Attention):
        def forward(self, x):
            return super().forward(x), "a cache"

    wanted = numbers(Attention())
    for loss in (None, nn.MSELoss(), lambda p, y: functional.mse_loss(p[0], y)):
        np.testing.assert_array_equal(numbers(Cached(), loss=loss), wanted)


def test_whole_targets_of_one_number_are_no_classes():
    inputs, targets = planted()
    counts = (targets > 0).long()
    refused("Are they counts, or two classes", Attention(), (inputs, counts))
    binary = functional.binary_cross_entropy_with_logits
    numbers(Attention(), (inputs, counts), loss=lambda p, y: binary(p, y.float()))
    numbers(Attention(), (inputs, counts), loss=lambda p, y: functional.mse_loss(p, y.float()))


class Diagonal(nn.Module):
    """A recurrence of complex numbers, whose complex parameter comes first or last."""

    def __init__(self, order):
        super().__init__()
        torch.manual_seed(0)
        held = {"inward": torch.randn(4, dtype=torch.cfloat), "decay": torch.rand(4) - 1}
        for name in order:
            self.register_parameter(name, nn.Parameter(held[name]))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        kept = torch.exp(torch.complex(-self.decay.exp(), torch.ones(4)))
        state, shown = 0, []
        for step in x.unbind(1):
            state = kept * state + step * self.inward
            shown.append(torch.cat([state.real, state.imag], -1))
        return self.head(torch.stack(shown, 1))


def test_inputs_are_given_as_they_are_if_the_model_takes_them():
    """Whatever the type of its first parameter is: complex, float64 or bfloat16."""
    orders = ("inward", "decay"), ("decay", "inward")
    one, two = (diagnosed(Diagonal(order)).data.required for order in orders)
    np.testing.assert_allclose(one, two, rtol=1e-3)

    class Tempered(Attention):
        def __init__(self, dtype):
            super().__init__()
            own = nn.Parameter(torch.ones((), dtype=dtype))
            self._parameters = {"temperature": own, **self._parameters}

        def forward(self, x):
            return super().forward(x) * self.temperature.to(x.dtype)

    wanted = diagnosed(Tempered(torch.float32)).data.required
    for dtype in (torch.float64, torch.bfloat16):
        found = diagnosed(Tempered(dtype)).data.required
        np.testing.assert_allclose(found, wanted, rtol=0.01)

    class Half(Attention):
        def __init__(self):
            super().__init__(tokens=7, outputs=7)
            self.read.bfloat16()

        def seen(self, x):
            h = self.read(x).float() + self.places
            given = self.query(h), self.key(h), self.value(h)
            return h + functional.scaled_dot_product_attention(*given, is_causal=True)

    numbers(Half(), tokens())


def test_inputs_of_numpy_become_what_most_parameters_are():
    inputs, targets = planted()
    wanted = numbers(Attention())
    wide = inputs.double().numpy(), targets.double().numpy()
    np.testing.assert_allclose(numbers(Attention(), wide), wanted, rtol=1e-3, atol=1e-6)
    double = diagnosed(Attention().double(), (inputs, targets.double())).data
    np.testing.assert_allclose(double.statistic, wanted[0], rtol=1e-3, atol=1e-5)
    assert diagnosed(Attention().bfloat16()).data.required.sel(lag=2) < 60


def test_losses_that_take_parameters_draw_or_keep_a_state_are_refused():
    model = Attention()

    def decayed(p, y):
        decay = sum(part.square().sum() for part in model.parameters())
        return functional.mse_loss(p, y) + 0.01 * decay

    refused(
        "takes places, read.weight.*Leave out .* weight decay, which has no lag",
        model,
        loss=decayed,
    )
    refused("another value the second time.*draw at random", model, loss=noisy)

    class Running(nn.Module):
        mean = None

        def forward(self, p, y):
            loss = functional.mse_loss(p, y)
            self.mean = (
                loss.detach() if self.mean is None else 0.9 * self.mean + 0.1 * loss.detach()
            )
            return loss / self.mean

    refused("one that changed mean': must be one that keeps no state", model, loss=Running())
    numbers(model, loss=lambda p, y: functional.mse_loss(p, y))


def focal(p, y):
    """A focal loss of one's own, with classes second."""
    logs = functional.log_softmax(p, 1).gather(1, y[:, None]).squeeze(1)
    return -((1 - logs.exp()) ** 2 * logs).mean()


def test_a_loss_of_ones_own_that_takes_steps_for_classes_is_refused():
    """Where there are as many classes as steps, nothing else tells the two apart."""
    model, batch = Attention(tokens=LENGTH, outputs=LENGTH), tokens(classes=LENGTH)
    refused(
        "classes second': must be one that has classes where the model", model, batch, loss=focal
    )
    wanted = numbers(model, batch, loss=lambda p, y: focal(p.mT, y))

    class Second(Attention):
        def forward(self, x):
            return super().forward(x).mT

    own = numbers(Second(tokens=LENGTH, outputs=LENGTH), batch, loss=focal)
    np.testing.assert_allclose(own, wanted, rtol=1e-4, atol=1e-7)
    together = lambda p, y: functional.mse_loss(p.softmax(-1).cumsum(1).mean(-1), y / 9.0)  # noqa: E731
    diagnosed(model, batch, loss=together)


def noisy(p, y):
    return ((p - y) * torch.rand_like(y)).square().sum()


def test_logits_by_an_embeddings_weights_are_made_in_the_model():
    class Hidden(Attention):
        def forward(self, x):
            return self.seen(x)

    class Tied(Hidden):
        def forward(self, x):
            return functional.linear(self.seen(x), self.read.weight)

    model = Hidden(tokens=7)

    def tied(h, y):
        return functional.cross_entropy(functional.linear(h, model.read.weight).mT, y)

    refused("takes read.weight': .* make logits in the model", model, tokens(), loss=tied)
    one = numbers(model, tokens(), loss=tied, parameters=["query", "key", "value", "places"])
    own = Tied(tokens=7)
    two = numbers(own, tokens(), parameters=["query", "key", "value", "places"])
    assert one.shape == two.shape
    numbers(own, tokens())


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(
    "loss",
    [
        lambda p, y: functional.mse_loss(p[1:] - p[:-1], y[1:] - y[:-1]),
        lambda p, y: functional.mse_loss(p - p.mean(0), y) + p.std(0).sum(),
        lambda p, y: functional.mse_loss(p - p.mean(0), y),
    ],
)
def test_losses_that_compare_sequences_are_refused(loss):
    refused("compare sequences", Attention(), loss=loss)


def test_a_loss_whose_gradient_knows_no_targets_is_none_as_if_untrained():
    """A model that gives its own loss of each step; with the error it is read."""

    class Own(Attention):
        def forward(self, x):
            return (super().forward(x[..., :1]) - x[..., 1:]).square()

    inputs, targets = planted()
    batch = torch.cat([inputs, targets], -1), targets
    refused("source = 'target': must be 'error'", Own(), batch, loss=lambda p, _: p.mean())
    found = numbers(Own(), batch, loss=lambda p, _: p.mean(), source="error")
    wanted = numbers(Attention(), (inputs, targets), source="error")
    np.testing.assert_allclose(found[0, 1], wanted[0, 1], rtol=1e-3, atol=1e-5)


class Given(Attention):
    """Attention with a fault of its own."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        if fault == "zero head":
            nn.init.zeros_(self.head.weight)
        if fault == "hook":
            for part in self.parameters():
                part.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
        if fault == "logged":
            for part in self.parameters():
                part.register_hook(lambda _: None)

    def forward(self, x):
        if self.fault == "outlier":
            x = x / x.abs().amax().clamp(min=10)
        given = super().forward(x)
        if self.fault == "mean":
            return given.square().mean()
        if self.fault == "argmax":
            return (given > 0).long()
        if self.fault == "packed":
            full = torch.full((len(x),), LENGTH)
            return rnn.pack_padded_sequence(given, full, batch_first=True)
        return given


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("zero head", "the same for all inputs': must be ones that inputs move: is the last layer"),
        ("mean", "one number for a batch': must be those of each sequence. Is it the loss"),
        ("argmax", "torch.int64': must be numbers with gradients"),
        ("packed", "a PackedSequence': must be .*pad_packed_sequence"),
        ("hook", "parameters = 'places, .*': must be parameters without hooks that change grad"),
        ("outlier", "sequence alone as among others.* a scale or a normalisation over the batch"),
    ],
)
def test_the_cause_is_named(fault, message):
    inputs, targets = planted()
    inputs[50, 3] = 40.0
    refused(message, Given(fault), (inputs, targets))


def test_hooks_that_only_look_and_packed_predictions_that_are_padded_are_read():
    wanted = numbers(Attention())
    np.testing.assert_array_equal(numbers(Given("logged")), wanted)
    head = lambda out: rnn.pad_packed_sequence(out, batch_first=True)[0]  # noqa: E731
    np.testing.assert_allclose(numbers(Given("packed"), head=head), wanted, rtol=1e-4, atol=1e-7)


def test_ensembles_by_vmap_are_written_as_loops():
    class Members(nn.Module):
        def __init__(self, by_vmap):
            super().__init__()
            torch.manual_seed(0)
            self.by_vmap = by_vmap
            self.inward = nn.Parameter(torch.randn(3, 1, 8))
            self.within = nn.Parameter(torch.randn(3, 8, 8))
            self.out = nn.Parameter(torch.randn(3, 8, 1))

        def forward(self, x):
            def member(inward, within, out):
                h = x @ inward
                seen = functional.scaled_dot_product_attention(h @ within, h, h, is_causal=True)
                return (h + seen) @ out

            held = self.inward, self.within, self.out
            if self.by_vmap:
                return torch.vmap(member)(*held).mean(0)
            return torch.stack([member(*own) for own in zip(*held, strict=True)]).mean(0)

    refused("not within torch.vmap.*write a loop in its place", Members(True))
    assert diagnosed(Members(False)).data.statistic.any()


def test_what_is_made_of_all_steps_names_the_parameter_and_not_its_victims():
    """A learned kernel by a Fourier transform, and biases behind all keys."""

    class Fourier(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.read, self.head = nn.Linear(1, 8), nn.Linear(8, 1)
            self.kernel = nn.Parameter(torch.randn(8, LENGTH))

        def forward(self, x):
            h = self.read(x).mT
            product = torch.fft.rfft(h, 2 * LENGTH) * torch.fft.rfft(self.kernel, 2 * LENGTH)
            return self.head(torch.fft.irfft(product, 2 * LENGTH)[..., :LENGTH].mT)

    inputs, targets = planted()
    refused("of kernel: 1 of .*Fourier.* without it", Fourier())
    double = Fourier().double(), (inputs.double(), targets.double())
    numbers(*double, parameters=["read", "head"])

    class Biased(Attention):
        def __init__(self):
            super().__init__()
            self.mix = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True)

        def seen(self, x):
            h = self.read(x) + self.places
            mask = torch.full((LENGTH, LENGTH), -torch.inf).triu(1)
            return h + self.mix(h, h, h, attn_mask=mask)[0]

    refused("of mix.bias_.: .*put behind data .add_bias_kv", Biased())
    rest = ["read", "places", "head", "mix.in_proj_weight", "mix.in_proj_bias", "mix.out_proj"]
    numbers(Biased(), parameters=rest)


def test_models_that_are_not_made_yet_are_refused():
    lazy = nn.Sequential(nn.LazyLinear(1), Attention())
    refused("parameters = '0.weight, 0.bias': must be made: run a lazy model once", lazy)
    lazy(planted()[0][:2])
    numbers(lazy)
    refused("must be made: .* on the device meta", Attention().to("meta"))


def test_missing_numbers_are_told_apart_and_may_be_filled():
    inputs, targets = planted()
    is_missing = draw(*inputs.shape, seed=3) > 1.5
    holes = inputs.masked_fill(is_missing, torch.nan), targets.masked_fill(is_missing, torch.nan)
    refused(
        r"inputs in batches\[0\] = .* a further column of the inputs",
        Attention(),
        (holes[0], targets),
    )
    refused(r"targets in batches\[0\] = .* give the loss", Attention(), (inputs, holes[1]))
    known = 1 - is_missing.float()
    filled = torch.cat([holes[0].nan_to_num(), known], -1)
    numbers(Attention(width=2), (filled, targets))

    def loss(p, y):
        return (y[..., 1:] * (p - y[..., :1]).square()).sum()

    numbers(Attention(), (inputs, torch.cat([holes[1].nan_to_num(), known], -1)), loss=loss)


def test_batches_that_are_none_are_told_what_to_do():
    inputs, targets = planted()
    padded = [(inputs[:40], targets[:40]), (inputs[40:, :8], targets[40:, :8])]
    refused(
        "pad sequences to the longest of all, and not to that of their batch", Attention(), padded
    )
    pairs = [*zip(inputs, targets, strict=True)]

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(pairs)

    wanted = numbers(Attention())
    for single in (pairs, Stream()):
        refused("of 1 steps .*Of single pairs, .*DataLoader.pairs, 32. makes", Attention(), single)
        np.testing.assert_array_equal(numbers(Attention(), DataLoader(single, 32)), wanted)
    series = draw(900, 1).float()
    one = series[None], series[None]
    refused("read as 1 sequences of 900 .*Cut a long series, .*into windows", Attention(), one)
    windows = series.unflatten(0, (-1, LENGTH))
    later = torch.cat([series[:2], series[:-2]]).unflatten(0, (-1, LENGTH))
    numbers(Attention(), (windows, later))


def test_large_inputs_are_told_where_no_lag_is_detected():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.rnn, self.head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    inputs = 100 + 20 * draw(80, LENGTH, 1).float()
    targets = (inputs[:, -3] - 100) / 20
    told = "Inputs are as large as 1"
    assert told in diagnosed(Recurrent(), (inputs, targets)).data.caveats
    scaled = diagnosed(Recurrent(), ((inputs - 100) / 20, targets))
    assert told not in scaled.data.caveats
    assert scaled.data.detected.any()
