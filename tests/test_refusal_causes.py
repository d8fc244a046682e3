"""What a refusal names as the likely cause: the one that is there is among them."""

import pytest
import torch
from torch import nn

from lwcore.diagnose import diagnose
from tests.networks import draw


class Reader(nn.Module):
    """A GRU with a readout of its last state; subclasses do something to steps or states."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.out = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)
        self.eval()

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


class Reservoir(nn.Module):
    """A recurrence whose weights are buffers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("inward", torch.randn(1, 8))
        self.register_buffer("onward", 0.2 * torch.randn(8, 8))
        self.out = nn.Linear(8, 1)
        self.eval()

    def forward(self, x):
        state = x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            state = torch.tanh(step @ self.inward + state @ self.onward)
        return self.out(state)


class Reversed(Reader):
    def forward(self, x):
        return super().forward(x.flip(1))


class Longest(nn.Module):
    """A loop as long as the longest sequence, of steps that are not 0."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.out = nn.GRUCell(1, 8), nn.Linear(8, 1)
        self.eval()

    def forward(self, x):
        lengths = (x[..., 0] != 0).sum(1)
        state = x.new_zeros(len(x), 8)
        for step in range(int(lengths.max())):
            is_there = (lengths > step)[:, None]
            state = torch.where(is_there, self.cell(x[:, step], state), state)
        return self.out(state)


class Maximum(Reader):
    def forward(self, x):
        return self.out(self.rnn(x)[0].amax(1))


class Masked(Reader):
    """A mean over the steps that a flag names."""

    def forward(self, x):
        flag = x[..., 1:]
        states = self.rnn(x[..., :1])[0]
        return self.out((states * flag).sum(1) / flag.sum(1))


class Noisy(Reader):
    def forward(self, x):
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(x.shape, generator=generator)
        return super().forward(x + 0.5 * noise)


INPUTS = draw(60, 8, 1).float()


def shortened():
    """Some sequences end 3 steps before others."""
    inputs = INPUTS.clone()
    inputs[:, 5:] = 0
    inputs[::20, 5:] = 1
    return inputs


def flagged():
    """Inputs beside a flag that is 1 in one step of each sequence."""
    flags = torch.zeros_like(INPUTS)
    places = torch.arange(len(INPUTS))
    flags[places, places % INPUTS.shape[1]] = 1
    return torch.cat([INPUTS, flags], -1)


@pytest.mark.parametrize(
    ("model", "inputs", "cause"),
    [
        (Reservoir, INPUTS, "a reservoir in buffers"),
        (Reversed, INPUTS, "Does it reverse or sort steps"),
        (Longest, shortened(), "keep the state behind an end by torch.where"),
        (Maximum, INPUTS, "a maximum over steps"),
        (Masked, flagged(), r"mask\.sum\(1\)\.clamp\(min=1\)"),
        (Noisy, INPUTS, "noise of a fixed seed"),
    ],
)
def test_the_cause_is_among_those_that_are_named(model, inputs, cause):
    with pytest.raises(ValueError, match=cause):
        diagnose(model(), (inputs, INPUTS[:, -3]), [1, 2], progress=False)


def test_channels_first_is_named_where_lags_exceed_the_second_axis():
    with pytest.raises(ValueError, match=r"below the number of steps, 2.*time_axis=2"):
        diagnose(Reader(), (draw(60, 2, 12).float(), INPUTS[:, -1]), range(1, 9), progress=False)


def test_an_exported_model_is_to_be_given_as_it_was_before():
    exported = torch.export.export(Reservoir(), (INPUTS[:4],)).module()
    with pytest.raises(ValueError, match="give the model before the export"):
        diagnose(exported, (INPUTS, INPUTS[:, -1]), [1, 2], progress=False)
