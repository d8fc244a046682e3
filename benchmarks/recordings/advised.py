"""Five changes on two real data sets, each alone.

Fixed before the first outcome. ``keep``: the forget gates' bias is 3 larger; ``cut``: the gradient
ends `CUT` steps back; ``more``: a loss at the end of each row of a digit, at each pixel of a patch;
``clip``: sequences' gradients are limited to the 95 % quantile of a batch; ``near``: four pixels of
a digit a step, a patch in strips of 2 pixels. The chapter says what was expected of them.

Run ``python -m benchmarks.recordings.advised``: 3 minutes.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits, load_sample_images
from torch import Tensor, nn

from book.chapters.advised import CHANGES
from lwcore.diagnose.recurrent import Layers, as_steps
from lwcore.results import write_atomically
from lwcore.trace import Trace

N = 1198  # sequences to train on
CUT = {"digits": 10, "photographs": 7}  # steps back, as advised
HIDDEN = 32
EPOCHS = 10
BATCH = 128


class Reader(nn.Module):
    """An LSTM that predicts at the last step, or at several; its gradient may end before.

    Attributes:
        pixels: Numbers read in a step.
        cut: Steps back at which the gradient ends; 64 are all.
        ends: The steps at which it predicts.
    """

    def __init__(self, data: str, change: str) -> None:
        """Start as PyTorch starts, changed in one respect."""
        super().__init__()
        digits = data == "digits"
        self.pixels = 4 if digits and change == "near" else 1
        self.cut = CUT[data] if change == "cut" else 64
        self.ends = slice(-1, None)
        if change == "more":
            every = 8 if digits else 1  # a row of a digit, a pixel of a patch
            self.ends = slice(every - 1, None, every)
        self.rnn = nn.LSTM(self.pixels, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, 10 if digits else 1)
        if change == "keep":
            forget_bias = self.rnn.get_parameter("bias_hh_l0").data[HIDDEN : 2 * HIDDEN]
            forget_bias += 3

    def forward(self, x: Tensor) -> Tensor:
        """Return predictions, (B, ends, outputs)."""
        x = x.unflatten(1, (-1, self.pixels))
        state = None
        start = x.shape[1] - 1 - self.cut
        if start > 0:
            _, state = self.rnn(x[:, :start])
            state = [part.detach() for part in state]
            x = x[:, start:]
        outputs, _ = self.rnn(x, state)
        return self.out(outputs[:, self.ends])


def posed(data: str, change: str, seed: int) -> tuple[Reader, Tensor, Tensor]:
    """Return a network with a change; images, those to train on in front; and what is asked of it.

    Args:
        data: ``"digits"`` or ``"photographs"``.
        change: One of `CHANGES`.
        seed: Seed of the network's start. Data are the same for all.
    """
    x, y = _digits() if data == "digits" else _photographs(in_strips=change == "near")
    torch.manual_seed(seed)
    net = Reader(data, change).eval()
    return net, x, y[:, net.ends]


def _digits() -> tuple[Tensor, Tensor]:
    """Return images of digits, a pixel a step, in random order, and their labels at every step."""
    images, labels = map(torch.tensor, load_digits(return_X_y=True))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return images[order].float() / 16, labels[order, None].expand(-1, 64)


def _photographs(in_strips: bool) -> tuple[Tensor, Tensor]:
    """Return patches of two photographs, a pixel a step, and the pixel that follows each.

    The first photograph is to train on, the second for the test.
    """
    grey = torch.tensor(np.mean(load_sample_images().images, -1) / 255).float()
    patches = grey.unfold(1, 8, 8).unfold(2, 8, 8).flatten(1, 2)  # 8 by 8 pixels
    order = torch.randperm(patches.shape[1], generator=torch.Generator().manual_seed(0))
    patches = patches[:, order[:N]].flatten(0, 1)
    if in_strips:
        patches = patches.unflatten(2, (4, 2)).transpose(1, 2)
    pixels = patches.flatten(1)
    return pixels[:, :-1], pixels[:, 1:]


RECORDED = Path("book/results/advised.csv")


def losses(predicted: Tensor, asked: Tensor) -> Tensor:
    """Return the loss of each sequence: cross-entropy, or squared error."""
    if asked.is_floating_point():
        return (predicted[..., 0] - asked).square().mean(1)
    return nn.functional.cross_entropy(predicted.mT, asked, reduction="none").mean(1)


def trained(data: str, change: str, seed: int) -> float:
    """Train a network, and return what is left at the last step, of images not seen.

    That is the share of digits misread, or the squared error.
    """
    net, x, y = posed(data, change, seed)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    mix = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(N, generator=mix).split(BATCH):
            images = x[chosen]
            asked = y[chosen]
            weight = _clipping(net, images, asked) if change == "clip" else torch.ones(())
            optimizer.zero_grad()
            (weight * losses(net(images), asked)).mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
    with torch.no_grad():
        last = net(x[N:])[:, -1]
    asked = y[N:, -1]
    if data == "digits":
        wrong = last.argmax(1) != asked
    else:
        wrong = (last[:, 0] - asked).square()
    return wrong.double().mean().item()


def _clipping(net: Reader, images: Tensor, asked: Tensor) -> Tensor:
    """Return weights that limit each sequence's gradient to the 95 % quantile of the batch."""
    steps = images.unflatten(1, (-1, net.pixels))
    states = net.rnn(steps)[0].detach().requires_grad_()
    total = losses(net.out(states[:, net.ends]), asked).sum()
    (seen,) = torch.autograd.grad(total, states)
    recurrence = as_steps(Layers(net.rnn), [(states[:, 0], states[:, 0])])
    initial = torch.zeros(len(images), recurrence.state_size, dtype=torch.float64)
    trace = Trace.scan(recurrence, steps.double(), initial)
    delta = torch.zeros_like(trace.states)
    delta[..., :HIDDEN] = seen.double()  # a state is h beside c
    gradients = trace.gathered_each(trace.backpropagate(delta))
    size = gradients.norm(dim=-1).float()
    return (size.quantile(0.95) / size).clamp(max=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = []
    for data, change, seed in product(CUT, CHANGES, range(5)):
        rows.append((data, change, seed, trained(data, change, seed)))
    table = pd.DataFrame(rows, columns=["data", "change", "seed", "error"])
    write_atomically(RECORDED, lambda part: table.to_csv(part, index=False))
