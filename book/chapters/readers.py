"""Two networks as their owners write them: a language model of characters, and a forecaster.

Both are tiny, and trained in seconds: examples of what `diagnose` says to somebody who trains one.
"""

from pydoc_data.topics import topics

import numpy as np
import torch
from torch import Tensor, nn

LETTERS = 32  # characters in a sequence
TRAINED = 3000  # sequences of text
UNSEEN = 400
DAY = 24  # hours
HOURS = 72  # that the forecaster reads
HOUSES = 400  # of which half are to train on


class LanguageModel(nn.Module):
    """Predicts the next character from those before it: two layers of causal attention."""

    def __init__(self, characters: int, width: int = 32) -> None:
        """Start as PyTorch starts its layers."""
        super().__init__()
        self.letter = nn.Embedding(characters, width)
        self.place = nn.Embedding(LETTERS, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.next = nn.Linear(width, characters)

    def forward(self, text: Tensor) -> Tensor:
        """Return scores of the next character, (B, T, characters)."""
        steps = text.shape[1]
        hidden = self.letter(text) + self.place.weight[:steps]
        mask = nn.Transformer.generate_square_subsequent_mask(steps)
        return self.next(self.layers(hidden, mask, is_causal=True))


class Forecaster(nn.Module):
    """Predicts the next hour from the hours before it, with a GRU."""

    def __init__(self, keep: float = 0.0, inputs: int = 1, hidden: int = 16) -> None:
        """Start as PyTorch starts its layers, with more in the bias of the gate that keeps."""
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


def text() -> tuple[Tensor, Tensor, int]:
    """Return pieces of Python's documentation, the characters that follow, and their number.

    A piece that shares half of its characters in a row with one before it is left out: sequences
    have to be independent.
    """
    documentation = " ".join(topics[name] for name in sorted(topics))
    letters = " ".join(documentation.split()).lower()
    length = LETTERS + 1
    half = LETTERS // 2
    starts = np.random.default_rng(0).permutation(len(letters) // length) * length
    seen: set[str] = set()  # runs of characters, half as long as a piece
    pieces: list[str] = []
    for start in starts.tolist():
        piece = letters[start : start + length]
        runs = {piece[place : place + half] for place in range(half + 2)}
        if seen.isdisjoint(runs):
            pieces.append(piece)
            seen |= runs
        if len(pieces) == TRAINED + UNSEEN:
            break
    alphabet = {letter: code for code, letter in enumerate(sorted(set(letters)))}
    codes = torch.tensor([[alphabet[letter] for letter in piece] for piece in pieces])
    return codes[:, :-1], codes[:, 1:], len(alphabet)


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
