"""A forecaster as its owner writes it: an example of what `diagnose` says to who trains one."""

import numpy as np
import torch
from torch import Tensor, nn

DAY = 24  # hours
HOURS = 72  # that the forecaster reads
HOUSES = 400  # of which half are to train on


class Forecaster(nn.Module):
    """Predicts the next hour from the hours before it, with a GRU."""

    def __init__(self, keep: float = 0.0, inputs: int = 1, hidden: int = 16) -> None:
        """Start as PyTorch does, with more bias in the gate that keeps."""
        super().__init__()
        self.rnn = nn.GRU(inputs, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)
        bias = self.rnn.get_parameter("bias_hh_l0")
        with torch.no_grad():
            bias[hidden : 2 * hidden] += keep

    def forward(self, hours: Tensor) -> Tensor:
        """Return the next hour's load, (B, 1)."""
        states, _ = self.rnn(hours)
        return self.out(states[:, -1])


class Convolutions(nn.Module):
    """Predicts the next hour from the last 31, with four causal convolutions."""

    dilations = 1, 2, 4, 8

    def __init__(self, channels: int = 16) -> None:
        """Start as PyTorch starts its layers."""
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(1 if dilation == 1 else channels, channels, 3, dilation=dilation)
            for dilation in self.dilations
        )
        self.out = nn.Linear(channels, 1)

    def forward(self, hours: Tensor) -> Tensor:
        """Return the next hour's load, (B, 1)."""
        found = hours.mT
        for layer, dilation in zip(self.layers, self.dilations, strict=True):
            padded = nn.functional.pad(found, (2 * dilation, 0))
            found = torch.relu(layer(padded))
        return self.out(found[..., -1])


def loads() -> tuple[Tensor, Tensor]:
    """Return three days of hourly load of made-up houses, and the hour that follows.

    An hour is like the same hour a day before, and like the hour before it, with noise.
    """
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((HOUSES, 10 * DAY + HOURS + 1))
    series = noise.copy()
    for hour in range(DAY, series.shape[1]):
        day_before = series[:, hour - DAY]
        hour_before = series[:, hour - 1]
        series[:, hour] = 0.7 * day_before + 0.2 * hour_before + noise[:, hour]
    load = torch.tensor(series[:, -HOURS - 1 :], dtype=torch.float32)
    load = load / load.std()
    return load[:, :-1, None], load[:, -1:]


def fit(net: nn.Module, inputs: Tensor, targets: Tensor, epochs: int, seed: int = 0) -> nn.Module:
    """Train a network with Adam, and return it ready to predict.

    The loss is the squared error for numbers, and the cross-entropy for classes.
    """
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    mix = torch.Generator().manual_seed(seed)
    net.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(inputs), generator=mix).split(64):
            predicted = net(inputs[chosen])
            asked = targets[chosen]
            if asked.is_floating_point():
                loss = nn.functional.mse_loss(predicted, asked)
            else:
                loss = nn.functional.cross_entropy(predicted.mT, asked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()
