"""Models that say the time of each use of a parameter, and what `diagnose` makes of them.

A model's ``run(p, ...)`` takes its parameters by ``p(name, time)``. `diagnose` gets the model with
one copy of each; the oracle gives one copy for each time, so that autograd's gradient in a copy is
the part of the lag between the prediction and that time. Times are written down here by hand, by
the definition: the last input step that reaches what the parameter makes.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from lwcore.diagnose.measuring import _read, _undisturbed

STEPS, WIDTH, NEURONS = 7, 2, 3
NEVER = -1  # the time of what no step reaches


class Oracle(nn.Module):
    """A model with named parameters that are drawn, and a number a step."""

    SIZES: ClassVar[dict] = {}
    LEFT_OUT: tuple = ()  # used on what no step reaches

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(len(self.SIZES))
        shapes = {**self.SIZES, "out": (NEURONS, 1)}
        for name, shape in shapes.items():
            drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
            self.register_parameter(name, nn.Parameter(drawn / shape[0] ** 0.5))
        self.eval()

    def forward(self, *inputs):
        return self.run(lambda name, time: getattr(self, name), *inputs)

    def show(self, p, states):
        """Read each state out by a use of its own time."""
        return torch.stack([h @ p("out", t) for t, h in enumerate(states)], 1)


H = (NEURONS, NEURONS)
X = (WIDTH, NEURONS)


class Loop(Oracle):
    """A loop over the steps; `next_state` makes it of x_t and the one before."""

    START = 0.0

    def run(self, p, x):
        h, states = x.new_full((len(x), NEURONS), self.START), []
        for t in range(x.shape[1]):
            h = self.next_state(p, t, x[:, t], h)
            states.append(h)
        return self.show(p, states)


class Bare(Loop):
    """tanh(W x_t + U h + b) with bare matrices: U h is made of step t − 1, and no later one."""

    SIZES: ClassVar = {"W": X, "U": H, "b": (NEURONS,)}

    def next_state(self, p, t, x, h):
        return torch.tanh(x @ p("W", t) + h @ p("U", t - 1) + p("b", t))


class TwoUpdates(Loop):
    """Two updates of a state in one line: the second one's product has seen step t."""

    SIZES: ClassVar = {"W": X, "U": H, "V": H}

    def next_state(self, p, t, x, h):
        return torch.tanh(torch.tanh(x @ p("W", t) + h @ p("U", t - 1)) @ p("V", t))


class Behind(Loop):
    """U → relu → V → + W x: U and V act on what is known at t − 1; U is made anew in each step."""

    SIZES: ClassVar = {"W": X, "U": H, "V": H}
    START = 0.5  # no step reaches it

    def next_state(self, p, t, x, h):
        U = p("U", t - 1) * x.new_ones(())
        return torch.tanh(torch.relu(h @ U) @ p("V", t - 1) + x @ p("W", t))


class Gated(Loop):
    """A gate made of x_t: what it multiplies has the time t."""

    SIZES: ClassVar = {"Wz": X, "Uz": H, "W": X, "U": H}

    def next_state(self, p, t, x, h):
        z = torch.sigmoid(x @ p("Wz", t) + h @ p("Uz", t - 1))
        return (1 - z) * h + z * torch.tanh(x @ p("W", t) + (z * h) @ p("U", t))


class Cell(Loop):
    """A function of PyTorch that takes x_t and h: its weights have the time t."""

    SIZES: ClassVar = {"W": (3 * NEURONS, WIDTH), "U": (3 * NEURONS, NEURONS)}

    def next_state(self, p, t, x, h):
        return torch.gru_cell(x, h, p("W", t), p("U", t), None, None)


class Resets(Loop):
    """A first state that is learned, and put back where a flag says so; y_t is made before x_t."""

    SIZES: ClassVar = {**Bare.SIZES, "first": (NEURONS,)}
    LEFT_OUT = ("first",)
    next_state = Bare.next_state

    def run(self, p, x, done):
        first = p("first", NEVER)
        states = [first.expand(len(x), -1)]
        for t in range(x.shape[1] - 1):
            h = self.next_state(p, t, x[:, t], states[-1])
            states.append(torch.where(done[:, t, None] > 0, first, h))
        return torch.stack([h @ p("out", t - 1) for t, h in enumerate(states)], 1)


class Diagonal(Loop):
    """A linear recurrence in complex numbers."""

    SIZES: ClassVar = {"W": X, "decay": (NEURONS,), "shift": (1,)}

    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.complex(self.W.detach(), self.W.detach().flip(0)))

    def next_state(self, p, t, x, h):
        return h * torch.exp(1j * p("decay", t - 1)) + x.cdouble() @ p("W", t) + p("shift", t)

    def show(self, p, states):
        return super().show(p, [h.real + h.imag for h in states])


class Copied(Oracle):
    """A weight of the state with a copy for each sequence, made once before the loop, as in SRU."""

    SIZES: ClassVar = {"W": X, "v": (NEURONS,)}

    def run(self, p, x):
        h, states, copies = x.new_zeros(len(x), NEURONS), [], {}
        for t in range(x.shape[1]):
            v = p("v", t - 1)
            if id(v) not in copies:
                copies[id(v)] = v.expand(len(x), -1)
            h = torch.tanh(x[:, t] @ p("W", t) + h * copies[id(v)])
            states.append(h)
        return self.show(p, states)


class Attention(Oracle):
    """Two layers of causal attention."""

    SIZES: ClassVar = {"W": X, "q1": H, "k1": H, "v1": H, "q2": H, "k2": H, "v2": H}

    def run(self, p, x):
        steps = range(x.shape[1])
        h = torch.stack([x[:, t] @ p("W", t) for t in steps], 1)
        mask = torch.ones(len(steps), len(steps), dtype=torch.bool).triu(1)
        for layer in "12":
            made = []
            for name in "qkv":
                made.append(torch.stack([h[:, t] @ p(name + layer, t) for t in steps], 1))
            q, k, v = made
            h = h + torch.softmax((q @ k.mT).masked_fill(mask, -torch.inf), -1) @ v
        return self.show(p, h.unbind(1))


class Convolutions(Oracle):
    """Two causal convolutions: what a kernel makes of steps t − 2, t − 1 and t has the time t."""

    SIZES: ClassVar = {"a": (NEURONS, WIDTH, 3), "b": (NEURONS, NEURONS, 2)}

    def run(self, p, x):
        def causal(h, name, width):
            padded = functional.pad(h, (width - 1, 0))
            columns = []
            for t in range(x.shape[1]):
                columns.append(functional.conv1d(padded[..., t : t + width], p(name, t)))
            return torch.cat(columns, -1)

        h = torch.relu(causal(torch.relu(causal(x.mT, "a", 3)), "b", 2))
        return self.show(p, h.mT.unbind(1))


class Translator(Oracle):
    """An encoder of steps 0 to 3, and a decoder of its own that goes on from its state."""

    SIZES: ClassVar = {"We": (9, 2), "Ue": (9, 3), "Wd": (9, 2), "Ud": (9, 3)}
    READ = 4

    def run(self, p, x):
        h, states = x.new_zeros(len(x), NEURONS), []
        for t in range(x.shape[1]):
            part = "e" if t < self.READ else "d"
            h = torch.gru_cell(x[:, t], h, p("W" + part, t), p("U" + part, t), None, None)
            if part == "d":
                states.append(h @ p("out", t))
        return torch.stack(states, 1)


class Shops(Oracle):
    """A state that is learned, and a category of each sequence, which is known at all steps."""

    SIZES: ClassVar = {"W": (9, 2), "U": (9, 3), "first": (NEURONS,), "shop": (4, NEURONS)}
    LEFT_OUT = ("first", "shop")

    def run(self, p, x, shop):
        h, states = p("first", NEVER).expand(len(x), -1), []
        for t in range(x.shape[1]):
            h = torch.gru_cell(x[:, t], h, p("W", t), p("U", t))
            states.append(h + functional.embedding(shop, p("shop", NEVER)))
        return self.show(p, states)


class Ahead(Oracle):
    """Frames that see one step ahead: the last two have the same time."""

    SIZES: ClassVar = {"W": (2 * WIDTH, NEURONS), "U": H}

    def run(self, p, x):
        last = x.shape[1] - 1
        h, states = x.new_zeros(len(x), NEURONS), []
        for t in range(last + 1):
            seen = torch.cat([x[:, t], x[:, min(t + 1, last)]], -1)
            h = torch.tanh(seen @ p("W", min(t + 1, last)) + h @ p("U", t))
            states.append(h)
        return torch.stack([h @ p("out", min(t + 1, last)) for t, h in enumerate(states)], 1)


MODELS = [Bare, TwoUpdates, Behind, Gated, Cell, Resets, Attention, Convolutions]
MODELS += [Translator, Ahead, Diagonal, Shops, Copied]


def inputs_of(model, count=40):
    """Return inputs and targets that fit a model."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(count, STEPS, WIDTH, generator=generator, dtype=torch.float64)
    targets = torch.randn(count, STEPS, 1, generator=generator, dtype=torch.float64)
    if isinstance(model, Bare):
        inputs[:, 0] = 1  # as a token with which all sequences begin
    if isinstance(model, Translator):
        return inputs, targets[:, model.READ :]
    if isinstance(model, Resets):
        done = (torch.rand(count, STEPS, generator=generator) < 0.2).double()
        return (inputs, done), targets
    if isinstance(model, Shops):
        return (inputs, torch.arange(count) % 4), targets
    return inputs, targets


def end_of(model, place):
    """Return the time of a prediction, by hand."""
    if isinstance(model, Translator):
        return place + model.READ
    if isinstance(model, Resets):
        return place - 1
    return min(place + 1, STEPS - 1) if isinstance(model, Ahead) else place


def in_reals(part):
    """Return a tensor in a line, with the real and the imaginary part of each complex number."""
    return (torch.view_as_real(part) if part.is_complex() else part).flatten()


def oracle(model, data):
    """Return, by lag, the gradient of the mean squared error of each sequence, summed over these."""
    inputs, targets = data
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    copies = {}

    def one_for_each_time(name, time):
        own = getattr(model, name).detach()
        return copies.setdefault((name, time), own.clone().requires_grad_())

    predictions = model.run(one_for_each_time, *inputs)
    parts = {}
    for place in range(predictions.shape[1]):
        missed = (predictions[:, place] - targets[:, place]).square().sum() / targets.shape[1]
        every = [*copies.values()]
        gradients = torch.autograd.grad(missed, every, retain_graph=True, allow_unused=True)
        for (name, time), gradient in zip(copies, gradients, strict=True):
            if gradient is None or time < 0:
                continue
            lag = end_of(model, place) - time
            own = parts.setdefault(lag, {})
            own[name] = own.get(name, 0) + gradient
    vectors = []
    for lag in range(STEPS):
        zeros = {name: torch.zeros_like(part) for name, part in model.named_parameters()}
        for name in model.LEFT_OUT:
            del zeros[name]
        own = {**zeros, **parts.get(lag, {})}
        vectors.append(torch.cat([in_reals(own[name]) for name in zeros]))
    return torch.stack(vectors)


def as_it_is(part):
    """Return what is given."""
    return part


def last(states):
    """Return what is there at the last step."""
    return states[:, -1]


class Recurrent(nn.Module):
    """A layer of PyTorch's and a readout; `before` and `after` change what goes in and comes out."""

    def __init__(
        self, width=2, outputs=1, kind="GRU", size=4, layers=1, before=as_it_is, after=as_it_is
    ):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.rnn = getattr(nn, kind)(width, size, layers, batch_first=True)
            self.show = nn.Linear(size, outputs)
        self.before, self.after = before, after
        self.eval()

    def forward(self, x):
        return self.after(self.show(self.rnn(self.before(x))[0]))


class Attends(nn.Module):
    """A layer of attention, with a mask or without, of numbers or of tokens."""

    def __init__(self, causal=True, outputs=1, width=2, tokens=0, after=as_it_is):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.read = nn.Embedding(tokens, 4) if tokens else nn.Linear(width, 4)
            self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
            self.show = nn.Linear(4, outputs)
        self.causal, self.after = causal, after
        self.eval()

    def forward(self, x):
        h = self.read(x)
        parts = self.query(h), self.key(h), self.value(h)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return self.after(self.show(h + mixed))


def route(model, data, **how):
    """Return the route by which `diagnose` reads a model, or raise what refuses it."""
    with _undisturbed(data):
        return _read(model, data, 1024, **how)


def by_lag(network, lags=range(STEPS)):
    """Return the parts of the gradient at lags, summed over all sequences."""
    data = network.data
    return network.read(data.inputs, data.targets).lag_vectors([*lags])
