"""Where each sequence is read out: told by its prediction's gradient, or refused."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.diagnose import diagnose
from lwcore.diagnose.data import Axes
from lwcore.diagnose.uses import Uses
from lwcore.signatures import ArgumentError
from tests.networks import close

LENGTH, COUNT, WIDTH = 12, 64, 6
REFUSED = "reads all sequences out at the same step"


def number_of_real_steps(x: Tensor) -> Tensor:
    return x[..., 1].sum(1).long()


def at_last_of_mask(x: Tensor) -> Tensor:
    return number_of_real_steps(x) - 1


def at_last_flag(x: Tensor) -> Tensor:
    return (torch.arange(LENGTH) * (x[..., 1] > 0.5)).argmax(1)


def at_length_column(x: Tensor) -> Tensor:
    return x[:, 0, 1].long() - 1


class ReadOut(nn.Module):
    """A recurrence or attention by hand, read out where a function of the inputs says."""

    def __init__(self, place, is_recurrent):
        super().__init__()
        self.place = place
        self.is_recurrent = is_recurrent
        self.read = nn.Linear(2, WIDTH)
        self.carry = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)
        self.eval()

    def states(self, x):
        read = self.read(x)
        if not self.is_recurrent:
            key = self.carry(read)
            return functional.scaled_dot_product_attention(read, key, key, is_causal=True)
        state = x.new_zeros(len(x), WIDTH)
        shown = []
        for step in read.unbind(1):
            state = torch.tanh(step + self.carry(state))
            shown.append(state)
        return torch.stack(shown, 1)

    def forward(self, x):
        states = self.states(x)
        return self.head(states[torch.arange(len(x)), self.place(x)])


class MeanOfMask(ReadOut):
    """The mean of the states of all real steps."""

    def forward(self, x):
        is_real = torch.arange(LENGTH) < number_of_real_steps(x)[:, None]
        total = (self.states(x) * is_real[..., None]).sum(1)
        return self.head(total / is_real.sum(1, keepdim=True).clamp(min=1))


def data(kind: str, n_short: int) -> tuple[Tensor, Tensor]:
    """Sequences of which some are short; a column says so, and behind is noise, or what was."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(COUNT, LENGTH, 2, generator=generator)
    lengths = torch.full((COUNT,), LENGTH)
    lengths[:n_short] = torch.randint(5, LENGTH - 1, (n_short,), generator=generator)
    is_real = torch.arange(LENGTH) < lengths[:, None]
    x[..., 1] = is_real.float()
    if kind == "flag":
        x[..., 1] = 0
        x[torch.arange(COUNT), lengths - 1, 1] = 1
    if kind == "length":
        x[..., 1] = lengths[:, None].float()
    if kind == "filled":
        last = x[torch.arange(COUNT), lengths - 1, 0]
        x[..., 0] = torch.where(is_real, x[..., 0], last[:, None] + 0.01 * torch.arange(LENGTH))
    return x, torch.randn(COUNT, 1, generator=generator)


@pytest.mark.parametrize("is_recurrent", [True, False])
@pytest.mark.parametrize(
    ("kind", "model", "place"),
    [
        ("noise", ReadOut, at_last_of_mask),
        ("filled", ReadOut, at_last_of_mask),
        ("flag", ReadOut, at_last_flag),
        ("length", ReadOut, at_length_column),
        ("noise", MeanOfMask, None),
    ],
)
def test_data_that_choose_their_readout_are_refused(kind, model, place, is_recurrent):
    """Their lags would be counted from the last step, at which nothing is read."""
    torch.manual_seed(0)
    network = model(place, is_recurrent)
    with pytest.raises(ArgumentError, match=REFUSED):
        diagnose(network, data(kind, n_short=2), source="target", progress=False)


def test_the_refusal_names_a_sequence_and_the_ways_out():
    torch.manual_seed(0)
    network = ReadOut(at_last_of_mask, is_recurrent=True)
    x, y = data("noise", 24)
    behind = LENGTH - int(number_of_real_steps(x)[0])
    with pytest.raises(ArgumentError, match=REFUSED) as refused:
        diagnose(network, (x, y), source="target", progress=False)
    told = str(refused.value)
    assert f"in 24 of {COUNT} sequences" in told
    assert f"the last steps ([{behind}] in sequence [0])" in told
    assert "pad on the left" in told
    assert "horizon=True" in told


@pytest.mark.parametrize("is_recurrent", [True, False])
def test_a_constant_step_behind_is_padding_and_lags_are_each_sequences_own(is_recurrent):
    """Against copies of the weights for each step, counted from where each is read out."""
    torch.manual_seed(0)
    network = ReadOut(at_last_of_mask, is_recurrent).double()
    x, y = (part.double() for part in data("noise", 24))
    x[..., 0] *= x[..., 1]
    uses = Uses(network.eval(), (x, y), axes=Axes.of(x, y), parameters=["read.weight"])
    uses.check(x, y)
    found = uses.read(x, y).lag_vectors(list(range(LENGTH)))

    copies = network.read.weight.detach().expand(LENGTH, -1, -1).clone().requires_grad_()
    own = torch.einsum("bti,toi->bto", x, copies) + network.read.bias
    network.read.forward = lambda _: own
    wanted = torch.zeros(LENGTH, copies[0].numel(), dtype=torch.float64)
    losses = (network(x) - y).square().mean(1)
    for loss, end in zip(losses, at_last_of_mask(x).tolist(), strict=True):
        (by_step,) = torch.autograd.grad(loss, copies, retain_graph=True)
        for step in range(end + 1):
            wanted[end - step] += by_step[step].flatten()
    close(found, wanted)


def test_said_to_be_made_at_the_last_step_predictions_are_taken_so():
    torch.manual_seed(0)
    network = ReadOut(at_last_of_mask, is_recurrent=True)
    found = diagnose(network, data("noise", 24), horizon=True, source="target", progress=False)
    assert found.data.lag.max() == LENGTH - 1


class Delayed(ReadOut):
    """Reads the state of two steps before, and the last input beside it."""

    def forward(self, x):
        return self.head(self.states(x)[:, -3]) + x[:, -1:, 0]


class Thresholded(ReadOut):
    """Takes in a step only where its first number is above 0."""

    def states(self, x):
        state = x.new_zeros(len(x), WIDTH)
        for step, given in zip(self.read(x).unbind(1), x.unbind(1), strict=True):
            new = torch.tanh(step + self.carry(state))
            state = torch.where(given[:, :1] > 0, new, state)
        return state[:, None]

    def forward(self, x):
        return self.head(self.states(x)[:, 0])


@pytest.mark.parametrize("model", [Delayed, Thresholded])
def test_a_models_own_delay_and_steps_that_a_gate_skips_are_no_readout(model):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(400, LENGTH, 2, generator=generator)
    found = diagnose(
        model(None, is_recurrent=True), (x, x[:, -5, :1]), source="target", progress=False
    )
    assert found.data.attrs["route"] == "uses"


class Events(nn.Module):
    """A decayed sum of what events add; where none happens, nothing carries a gradient."""

    def __init__(self, at_each_step):
        super().__init__()
        self.at_each_step = at_each_step
        self.read = nn.Linear(2, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, 1)
        self.eval()

    def forward(self, x):
        added = torch.relu(self.read(x))
        age = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        kept = torch.where(age >= 0, 0.9 ** age.abs(), 0.0).to(x)
        shown = self.head(torch.tanh(kept @ added))
        return shown if self.at_each_step else shown[:, -1]


@pytest.mark.parametrize("at_each_step", [True, False])
def test_steps_without_an_event_at_the_end_are_no_padding(at_each_step):
    """Against copies of the weight for each step, counted from the step of the prediction."""
    torch.manual_seed(0)
    network = Events(at_each_step).double()
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(COUNT, LENGTH, 2, generator=generator, dtype=torch.float64)
    x[torch.rand(COUNT, LENGTH, generator=generator) > 0.25] = 0
    x[:, 0] = x[4:, 3] = x[:4, -1] = 1.0
    x[:4, 1:-1] = 0  # a gap as long as any stretch at the end
    y = torch.randn(network(x).shape, generator=generator, dtype=torch.float64)
    uses = Uses(network, (x, y), axes=Axes.of(x, y), parameters=["read.weight"])
    uses.check(x, y)
    found = uses.read(x, y).lag_vectors(list(range(LENGTH)))

    copies = network.read.weight.detach().expand(LENGTH, -1, -1).clone().requires_grad_()
    network.read.forward = lambda given: torch.einsum("bti,toi->bto", given, copies)
    errors = (network(x) - y).square().reshape(COUNT, -1)
    ends = range(LENGTH) if at_each_step else [LENGTH - 1]
    wanted = torch.zeros(LENGTH, copies[0].numel(), dtype=torch.float64)
    for end, error in zip(ends, errors.mT, strict=True):
        (by_step,) = torch.autograd.grad(error.sum() / len(ends), copies, retain_graph=True)
        for step in range(end + 1):
            wanted[end - step] += by_step[step].flatten()
    close(found, wanted)


class TextCNN(nn.Module):
    """Convolutions of tokens, of which the largest value over steps is read out."""

    def __init__(self, channels):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.convolutions = nn.ModuleList(nn.Conv1d(16, channels, size) for size in (3, 4, 5))
        self.head = nn.Linear(3 * channels, 1)
        self.eval()

    def forward(self, tokens):
        shown = self.embedding(tokens).mT
        largest = [torch.relu(conv(shown)).amax(-1) for conv in self.convolutions]
        return self.head(torch.cat(largest, 1))


def test_a_maximum_over_steps_that_misses_the_last_ones_in_a_few_sequences_is_no_readout():
    """Where it misses them in more sequences, it is refused, and horizon=True is a way out."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 50, (200, 30), generator=generator)
    labels = torch.randn(200, 1, generator=generator)
    data = tokens, labels
    found = diagnose(TextCNN(100), data, source="target", progress=False)
    assert found.data.attrs["route"] == "uses"
    torch.manual_seed(0)
    with pytest.raises(ArgumentError, match=REFUSED):
        diagnose(TextCNN(32), data, source="target", progress=False)
    diagnose(TextCNN(32), data, horizon=True, source="target", progress=False)
