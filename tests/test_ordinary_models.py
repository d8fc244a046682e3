"""Thirteen models as users of common packages write them, each with the shortest call that works.

Inputs are what these users have: a tensor, a tuple or a dictionary. Each task has one known lag.
"""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import Dataset

from lwcore.diagnose import diagnose

COUNT, STEPS, LAG, VOCABULARY = 240, 12, 3, 6
GENERATOR = torch.Generator().manual_seed(0)


def drawn(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def later(values):
    """Values of LAG steps before."""
    found = values.roll(LAG, 1)
    found[:, :LAG] = 0
    return found


SERIES = drawn(COUNT, STEPS, 1)
TEXT = torch.randint(VOCABULARY, (COUNT, STEPS + 1), generator=GENERATOR)
TEXT[:, LAG + 1 :] = TEXT[:, : STEPS - LAG]  # the next token is that of LAG steps before
TOKENS = TEXT[:, :-1], TEXT[:, 1:]
CLASS = (SERIES[:, -1 - LAG, 0] > 0).long()


class Windows(Dataset):
    """Past, covariates, static features and future of each series, as of darts."""

    def __len__(self):
        return COUNT

    def __getitem__(self, place):
        past = SERIES[place]
        future = past[STEPS - 1 - LAG].expand(2, 1)
        return (past, past.flip(0), past[:1] ** 2), future


class BlockRNN(nn.Module):
    """darts: takes a tuple, and gives (B, output steps, targets, likelihood parameters)."""

    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.LSTM(2, 12, batch_first=True), nn.Linear(12, 2)

    def forward(self, x_in):
        past, covariates, _ = x_in
        states, _ = self.rnn(torch.cat([past, covariates], dim=2))
        return self.fc(states[:, -1]).view(len(past), 2, 1, 1)


class Encoder(nn.Module):
    """pytorch-forecasting: takes a dictionary."""

    def __init__(self):
        super().__init__()
        self.group, self.rnn = nn.Embedding(4, 3), nn.GRU(4, 12, batch_first=True)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        group = self.group(x["groups"])[:, None].expand(-1, x["encoder_cont"].shape[1], -1)
        states, _ = self.rnn(torch.cat([x["encoder_cont"], group], dim=-1))
        return {"prediction": self.out(states[:, -1])}


class DeepAR(nn.Module):
    """gluonts: gives a distribution."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 12, 2, batch_first=True, dropout=0.1)
        self.loc, self.scale = nn.Linear(12, 1), nn.Linear(12, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return torch.distributions.StudentT(5.0, self.loc(h), functional.softplus(self.scale(h)))


class LSTMFCN(nn.Module):
    """tsai: (B, channels, T), an LSTM beside convolutions, pooled over time."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 8, batch_first=True)
        self.conv = nn.Sequential(nn.Conv1d(1, 6, 3, padding="same"), nn.BatchNorm1d(6), nn.ReLU())
        self.fc = nn.Linear(14, 2)

    def forward(self, x):
        last = self.rnn(x.permute(0, 2, 1))[0][:, -1]
        return self.fc(torch.cat([last, self.conv(x).mean(-1)], dim=1))


class CRDNN(nn.Module):
    """speechbrain: convolutions over time and frequency that see a step ahead, an LSTM, CTC."""

    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.LeakyReLU())
        self.rnn, self.lin = nn.LSTM(12, 10, batch_first=True), nn.Linear(10, 4)

    def forward(self, feats):
        x = self.cnn(feats.unsqueeze(1)).permute(0, 2, 1, 3).flatten(2)
        return self.lin(self.rnn(x)[0]).log_softmax(-1)


def ctc(p, targets):
    tokens, lengths = targets
    steps = torch.full((len(p),), p.shape[1])
    return functional.ctc_loss(p.transpose(0, 1), tokens, steps, lengths, reduction="sum")


class Agent(nn.Module):
    """cleanrl: observations and resets, a state that a reset clears; targets and weights."""

    def __init__(self):
        super().__init__()
        self.encode, self.cell, self.critic = nn.Linear(1, 8), nn.LSTMCell(8, 12), nn.Linear(12, 1)

    def forward(self, obs, done):
        h = c = obs.new_zeros(len(obs), 12)
        values = []
        for x, d in zip(obs.unbind(1), done.unbind(1), strict=True):
            keep = (1 - d)[:, None]
            h, c = self.cell(torch.tanh(self.encode(x)), (keep * h, keep * c))
            values.append(self.critic(h))
        return torch.stack(values, 1)


class Block(nn.Module):
    """minGPT: causal attention behind a mask in a buffer."""

    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads
        self.register_buffer("bias", torch.tril(torch.ones(STEPS, STEPS)))
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x):
        count, steps, width = x.shape
        parts = self.qkv(self.first(x)).split(width, 2)
        shape = count, steps, self.heads, width // self.heads
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1) / math.sqrt(shape[-1])
        scores = scores.masked_fill(self.bias[:steps, :steps] == 0, -torch.inf).softmax(-1)
        x = x + self.proj((scores @ v).transpose(1, 2).reshape(count, steps, width))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    """minGPT: gives logits, and a loss if it gets targets. transformers: a dictionary."""

    def __init__(self, is_dictionary=False):
        super().__init__()
        self.is_dictionary = is_dictionary
        self.wte, self.wpe = nn.Embedding(VOCABULARY, 16), nn.Embedding(STEPS, 16)
        self.blocks = nn.Sequential(Block(16, 2), Block(16, 2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, VOCABULARY, bias=False)

    def forward(self, input_ids, targets=None):
        places = torch.arange(input_ids.shape[1])
        logits = self.head(self.norm(self.blocks(self.wte(input_ids) + self.wpe(places))))
        if self.is_dictionary:
            return {"logits": logits, "past_key_values": None}
        loss = None
        if targets is not None:
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


class S4D(nn.Module):
    """S4D: a learned kernel for all steps, applied by a Fourier transform."""

    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(1, 8), nn.Linear(8, 1)
        self.log_rate = nn.Parameter(torch.rand(8, generator=GENERATOR) - 1)
        self.mix = nn.Conv1d(8, 8, 1)

    def forward(self, x):
        u = self.enc(x).mT
        kernel = torch.exp(-self.log_rate.exp()[:, None] * torch.arange(STEPS))
        product = torch.fft.rfft(u, n=2 * STEPS) * torch.fft.rfft(kernel, n=2 * STEPS)
        y = torch.fft.irfft(product, n=2 * STEPS)[..., :STEPS]
        return self.dec(self.mix(functional.gelu(y)).mT)


class Mamba(nn.Module):
    """Mamba: a selective scan behind a short causal convolution; tied embeddings."""

    def __init__(self, width=8, states=4):
        super().__init__()
        self.states, self.embed = states, nn.Embedding(VOCABULARY, width)
        self.inp, self.conv = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 3, groups=width)
        self.select, self.rate = nn.Linear(width, 1 + 2 * states), nn.Linear(1, width)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, states + 1.0).repeat(width, 1)))
        self.out = nn.Linear(width, width)

    def forward(self, tokens):
        u = self.embed(tokens)
        x, z = self.inp(u).chunk(2, -1)
        x = functional.silu(self.conv(functional.pad(x.mT, (2, 0))).mT)
        rate, b, c = self.select(x).split([1, self.states, self.states], -1)
        rate = functional.softplus(self.rate(rate))
        decay = torch.exp(rate[..., None] * -self.log_a.exp())
        added = rate[..., None] * b[:, :, None] * x[..., None]
        h, shown = torch.zeros_like(added[:, 0]), []
        for t in range(tokens.shape[1]):
            h = decay[:, t] * h + added[:, t]
            shown.append((h * c[:, t, None]).sum(-1))
        return (u + self.out(torch.stack(shown, 1) * functional.silu(z))) @ self.embed.weight.T


class TCN(nn.Module):
    """A TCN: (B, C, T), dilated convolutions with weight normalisation, cut at the end."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList()
        for width, dilation in ((1, 1), (8, 2)):
            conv = nn.Conv1d(width, 8, 3, padding=2 * dilation, dilation=dilation)
            self.convs.append(weight_norm(conv))
        self.lin = nn.Linear(8, 2)

    def forward(self, x):
        for conv in self.convs:
            x = torch.relu(conv(x)[:, :, :STEPS])
        return self.lin(x[:, :, -1])


class Spike(torch.autograd.Function):
    """snntorch: a step with a surrogate gradient."""

    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return (u > 0).to(u)

    @staticmethod
    def backward(ctx, gradient):
        (u,) = ctx.saved_tensors
        return gradient / (1 + (math.pi * u).square())


class Spiking(nn.Module):
    """snntorch: (T, B, features), spikes and potentials of all steps."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 30), nn.Linear(30, 2)

    def forward(self, x):
        near, far = x.new_zeros(x.shape[1], 30), x.new_zeros(x.shape[1], 2)
        spikes, potentials = [], []
        for step in x:
            near = 0.9 * near + self.first(step) - (near > 1).to(near).detach()
            far = 0.9 * far + self.second(Spike.apply(near - 1))
            spikes.append(Spike.apply(far - 1))
            potentials.append(far)
        return torch.stack(spikes), torch.stack(potentials)


class Seq2Seq(nn.Module):
    """An encoder, and a decoder of its own that is given the last target."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, 12), nn.Embedding(VOCABULARY, 12)
        self.encoder, self.decoder = (nn.GRU(12, 12, batch_first=True) for _ in range(2))
        self.out = nn.Linear(12, VOCABULARY)

    def forward(self, src, trg):
        _, hidden = self.encoder(self.source(src))
        shown = []
        for t in range(trg.shape[1] - 1):
            state, hidden = self.decoder(self.target(trg[:, t])[:, None], hidden)
            shown.append(self.out(state[:, 0]))
        return torch.stack(shown, 1)


def copied():
    """Source and target: the first token to predict stands LAG steps before the source's end."""
    source = torch.randint(VOCABULARY, (COUNT, STEPS), generator=GENERATOR)
    target = torch.cat([torch.zeros(COUNT, 1, dtype=torch.int64), source[:, -1 - LAG, None]], 1)
    return (source, target), target[:, 1:]


def weighted(p, targets):
    y, weight = targets
    return (weight * (p - y).square()).sum()


GROUPED = {"encoder_cont": SERIES, "groups": torch.arange(COUNT) % 4}
WEIGHTED = SERIES[:, -1 - LAG], torch.rand(COUNT, 1, generator=GENERATOR)
SPOKEN = torch.randint(1, 4, (COUNT, 1), generator=GENERATOR), torch.ones(COUNT).long()
NOTED = torch.rand(COUNT, STEPS, 1, generator=GENERATOR)
RESETS = (torch.rand(COUNT, STEPS, generator=GENERATOR) < 0.05).float()
FEATURES = drawn(COUNT, STEPS, 4)
EVENTS = (torch.rand(STEPS, COUNT, 10, generator=GENERATOR) < 0.3).float()
ENCODED = {"input_ids": TOKENS[0]}
CHANNELS_FIRST = SERIES.mT.contiguous()

# the model, what its users have, and what they say besides
MODELS = {
    "darts": (BlockRNN, Windows, {}),
    "pytorch-forecasting": (Encoder, lambda: (GROUPED, WEIGHTED), {"loss": weighted}),
    "gluonts": (
        DeepAR,
        lambda: (SERIES, later(SERIES)),
        {
            "head": lambda d: torch.stack([d.loc, d.scale]),
            "loss": lambda p, y: -torch.distributions.StudentT(5.0, *p).log_prob(y).mean(),
        },
    ),
    "tsai": (LSTMFCN, lambda: (CHANNELS_FIRST, CLASS), {"time_axis": 2}),
    "speechbrain": (CRDNN, lambda: (FEATURES, SPOKEN), {"loss": ctc}),
    "cleanrl": (Agent, lambda: ((SERIES, RESETS), (later(SERIES), NOTED)), {"loss": weighted}),
    "transformers": (lambda: GPT(is_dictionary=True), lambda: (ENCODED, TOKENS[1]), {}),
    "minGPT": (GPT, lambda: TOKENS, {}),
    "S4D": (S4D, lambda: (SERIES, later(SERIES)), {"parameters": ["enc", "mix", "dec"]}),
    "Mamba": (Mamba, lambda: TOKENS, {}),
    "TCN": (TCN, lambda: (CHANNELS_FIRST, CLASS), {"time_axis": 2}),
    "seq2seq": (Seq2Seq, copied, {}),
}


def diagnosed(kind, **how):
    torch.manual_seed(1)
    make, batches, _ = MODELS[kind]
    return diagnose(make().eval(), batches(), source="target", progress=False, **how)


@pytest.mark.parametrize("kind", MODELS)
def test_an_ordinary_model_runs_as_it_is_and_its_lag_is_detected(kind):
    # the kernel of a convolution that is used 2 steps back reads 2 to 4 steps back; which word each
    # utterance says is no matter of its features
    lags = {"TCN": {2}, "speechbrain": set()}.get(kind, {LAG})
    found = diagnosed(kind, **MODELS[kind][2]).data
    detected = {*found.lag.values[found.detected].tolist()}
    assert detected >= lags
    assert bool(detected) == bool(lags)
    assert ("see 1 step" in found.caveats) == (kind == "speechbrain")


def test_a_spiking_network_is_read_by_its_first_weights():
    """With all weights too: its potentials are heavy then, and a planted lag drowns."""
    classes = (EVENTS[-1 - LAG, :, :6].sum(-1) > 1.5).long()

    def loss(potentials, y):
        return functional.cross_entropy(potentials.sum(0), y)

    torch.manual_seed(2)
    how = {"head": lambda out: out[1], "loss": loss, "parameters": ["first"], "progress": False}
    found = diagnose(Spiking().eval(), (EVENTS, classes), batch_first=False, **how)
    assert found.data.statistic.any("sequence").all()


BESIDES = [(kind, option) for kind, (_, _, how) in MODELS.items() for option in how]


@pytest.mark.parametrize(("kind", "option"), BESIDES)
def test_what_is_said_besides_is_needed_and_named_by_the_refusal(kind, option):
    rest = {name: value for name, value in MODELS[kind][2].items() if name != option}
    with pytest.raises(ValueError, match=rf"\b{option}\b"):
        diagnosed(kind, **rest)
