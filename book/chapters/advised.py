"""Five changes on two real data sets, each alone: ``python -m book.chapters.advised``, 3 minutes.

Fixed before the first outcome. ``keep``: the forget gates' bias is 3 larger; ``cut``: the gradient
ends `CUT` steps back; ``more``: a loss at the end of each row of a digit, at each pixel of a patch;
``clip``: sequences' gradients are limited to the 95 % quantile of a batch; ``near``: four pixels of
a digit a step, a patch in strips of 2 pixels. The chapter says what was expected of them.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits, load_sample_images
from torch import Tensor, nn

from lwcore.diagnose.recurrent import Recurrent
from lwcore.printing import printed
from lwcore.results import write_atomically
from lwcore.stats import student

N, CUT = 1198, {"digits": 10, "photographs": 7}  # sequences to train on; steps back, as advised
CHANGES = ["none", "keep", "cut", "more", "clip", "near"]


class Reader(nn.Module):
    """An LSTM that predicts at the last step, or at several; its gradient may end before."""

    def __init__(self, data: str, change: str) -> None:
        """PyTorch's start, changed."""
        super().__init__()
        self.pixels = 4 if (data, change) == ("digits", "near") else 1
        self.cut, every = CUT[data] if change == "cut" else 64, 8 if data == "digits" else 1
        self.ends = slice(every - 1, None, every) if change == "more" else slice(-1, None)
        self.rnn = nn.LSTM(self.pixels, 32, batch_first=True)
        self.out = nn.Linear(32, 10 if data == "digits" else 1)
        self.rnn.get_parameter("bias_hh_l0").data[32:64] += 3 * (change == "keep")

    def forward(self, x: Tensor) -> Tensor:
        """Predictions, (B, ends, outputs)."""
        x, state = x.unflatten(1, (-1, self.pixels)), None
        if (start := x.shape[1] - 1 - self.cut) > 0:
            state, x = [part.detach() for part in self.rnn(x[:, :start])[1]], x[:, start:]
        return self.out(self.rnn(x, state)[0][:, self.ends])


def posed(data: str, change: str, seed: int) -> tuple[Reader, Tensor, Tensor]:
    """A network with a change; images, those to train on in front; what it is asked of each."""
    mix = torch.Generator().manual_seed(0)
    if data == "digits":
        images, labels = map(torch.tensor, load_digits(return_X_y=True))
        order = torch.randperm(len(labels), generator=mix)
        x, y = images[order].float() / 16, labels[order, None].expand(-1, 64)
    else:  # one photograph to train on, the other one for the test
        grey = torch.tensor(np.mean(load_sample_images().images, -1) / 255).float()
        patches = grey.unfold(1, 8, 8).unfold(2, 8, 8).flatten(1, 2)
        patches = patches[:, torch.randperm(patches.shape[1], generator=mix)[:N]].flatten(0, 1)
        if change == "near":
            patches = patches.unflatten(2, (4, 2)).transpose(1, 2)
        x, y = patches.flatten(1)[:, :-1], patches.flatten(1)[:, 1:]
    torch.manual_seed(seed)
    net = Reader(data, change).eval()
    return net, x, y[:, net.ends]


# Committed before the first outcome, in the order of `CHANGES`, "none" left out.
BY_DIAGNOSIS = {
    "digits": ["helps", "–", "–", "–", "helps"],
    "photographs": ["helps", "–", "–", "hurts", "–"],
}
BY_STEPS = ["–", "hurts", "helps", "–", "helps"]
RECORDED = Path(__file__).parents[1] / "results" / "advised.csv"


def outcomes(recorded: pd.DataFrame) -> pd.DataFrame:
    """Return what each way of advice expected of each change, and what it did: ``it``.

    A change helps or hurts where the interval of the ratio of recorded errors, over seeds, excludes
    1.
    """
    errors = recorded.pivot(index=["data", "change"], columns="seed")["error"]
    rows = []
    for data, expected in BY_DIAGNOSIS.items():
        for change, by_diagnosis, by_steps in zip(CHANGES[1:], expected, BY_STEPS, strict=True):
            ratio = errors.loc[data, change] / errors.loc[data, "none"]
            ends = student(np.log(ratio))
            it = "helps" if ends.high < 0 else "hurts" if ends.low > 0 else "–"
            words = printed(*np.exp(ends).tolist())
            rows.append((data, change, by_diagnosis, by_steps, it, words))
    names = ["data", "change", "by diagnosis", "by steps", "it", "error ratio"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


def losses(predicted: Tensor, asked: Tensor) -> Tensor:
    """The loss of each sequence: cross-entropy, or squared error."""
    if asked.is_floating_point():
        return (predicted[..., 0] - asked).square().mean(1)
    return nn.functional.cross_entropy(predicted.mT, asked, reduction="none").mean(1)


def trained(data: str, change: str, seed: int) -> float:
    """What is left at the last step, of images not seen: the share misread, or squared error."""
    net, x, y = posed(data, change, seed)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    mix, weight = torch.Generator().manual_seed(seed), torch.ones(())
    for some in (part for _ in range(10) for part in torch.randperm(N, generator=mix).split(128)):
        batch = x[some], y[some]
        if change == "clip":
            read = Recurrent(net, batch, loss=losses).read(*batch)
            gradients = read.trace.gathered_each(read.trace.backpropagate(read.delta))
            size = gradients.norm(dim=-1).float()
            weight = (size.quantile(0.95) / size).clamp(max=1)
        optimizer.zero_grad()
        (weight * losses(net(batch[0]), batch[1])).mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        last, asked = net(x[N:])[:, -1], y[N:, -1]
    wrong = last.argmax(1) != asked if data == "digits" else (last[:, 0] - asked).square()
    return wrong.double().mean().item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = [(*one, trained(*one)) for one in product(CUT, CHANGES, range(5))]
    table = pd.DataFrame(rows, columns=["data", "change", "seed", "error"])
    write_atomically(RECORDED, lambda part: table.to_csv(part, index=False))
