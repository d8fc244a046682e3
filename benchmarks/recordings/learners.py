"""The tasks and the networks of the experiment on dose and response: see `book.chapters.dose`."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from book.chapters.dose import COUNTS, COUNTS_OF_DIGITS, HIDDEN, Condition
from lwcore import cells

BATCH = 32
TESTED = 512
CELLS = ("ConstGate", "DiagGate", "LSTM", "MinGRU")
DESCENTS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": functools.partial(torch.optim.AdamW, lr=3e-3, weight_decay=1e-4),
    "sgd": functools.partial(torch.optim.SGD, lr=0.3),
}
Data = tuple[Tensor, Tensor]


@dataclass
class Task(ABC):
    """Sequences to learn across a lag.

    `sample` draws them, `loss` is what training descends, `share` what of the target is learned.
    `inputs` and `outputs` are widths, `counts` the numbers of sequences that a search tries, and
    `reachable` the share of right answers that can be had.
    """

    lag: int
    inputs = 4
    outputs = 1
    counts = COUNTS
    reachable = 1.0

    @abstractmethod
    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw inputs (count, T, D) and targets.

        Args:
            fresh: Whether they are for tests, where there are not endlessly many.
        """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error of the last steps."""
        n_steps = targets.shape[1]
        last = outputs[:, -n_steps:, 0]
        return (last - targets).square().mean()

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the share of the target's variance that is explained."""
        left = self.loss(outputs, targets) / targets.var()
        return 1 - left.item()


class Regression(Task):
    """Repeat one input after a delay, at the last twelve steps."""

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw Gaussian inputs; targets (count, 12)."""
        drawn = rng.standard_normal((count, self.lag + 12, self.inputs), np.float32)
        inputs = torch.from_numpy(drawn)
        return inputs, inputs[:, : -self.lag, 0]


class Recall(Task):
    """Name the first of a row of symbols at the end; all that follows it is noise."""

    inputs = 5  # four symbols, and the mark
    outputs = 4

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw a marked symbol of four, and Gaussian distractors; targets (count,)."""
        symbols = rng.integers(0, 4, count)
        inputs = rng.standard_normal((count, self.lag + 1, 5), np.float32)
        inputs[:, 0] = 0
        inputs[np.arange(count), 0, symbols] = 2
        inputs[:, :, 4] = 0
        inputs[:, 0, 4] = 1
        return torch.from_numpy(inputs), torch.from_numpy(symbols)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy at the last step."""
        return functional.cross_entropy(outputs[:, -1], targets)

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the share of right answers above chance, of those that can be had."""
        right = (outputs[:, -1].argmax(-1) == targets).double().mean().item()
        chance = 1 / self.outputs
        return (right - chance) / (self.reachable - chance)


class Adding(Task):
    """Add the two marked numbers of a row: one among the first fifth, one among the last."""

    inputs = 2

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw uniform numbers and two marks; targets (count, 1)."""
        inputs = np.zeros((count, self.lag + 1, 2), np.float32)
        inputs[..., 0] = rng.uniform(-1, 1, inputs.shape[:2])
        fifth = max(1, (self.lag + 1) // 5)
        early = rng.integers(0, fifth, count)
        late = self.lag - rng.integers(0, fifth, count)
        inputs[np.arange(count), early, 1] = 1
        inputs[np.arange(count), late, 1] = 1
        targets = inputs.prod(-1).sum(1, keepdims=True)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the share of the far number's variance that is explained.

        The near number makes the other half of the sum's variance, and is taken for known.
        """
        return 2 * super().share(outputs, targets) - 1


class Digits(Recall):
    """Name a digit of which sixteen pixels come `lag` steps before the end.

    They come one a step, among pixels of other images.
    """

    inputs = 1
    outputs = 10
    counts = COUNTS_OF_DIGITS
    reachable = 0.86  # right answers of a support vector machine (C = 10), from 1,200 images

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw images; 1,200 are for training, the other 597 for tests."""
        images, labels = _digits()
        first, last = (1200, len(images)) if fresh else (0, 1200)
        chosen = first + rng.permutation(last - first)[:count]
        size = (len(chosen), 64)
        other_images = rng.integers(0, len(images), size)
        pixels = rng.integers(0, 64, size)
        inputs = images[other_images, pixels]
        start = 63 - self.lag
        inputs[:, start : start + 16] = images[chosen, 24:40]
        return torch.from_numpy(inputs[..., None]), torch.from_numpy(labels[chosen])


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images, 64 pixels from 0 to 1 each, and labels, always in the same order."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return (images[order] / 16).astype(np.float32), labels[order]


TASKS: dict[str, type[Task]] = {
    task.__name__.lower(): task for task in (Regression, Recall, Adding, Digits)
}


class Learner(nn.Module):
    """A cell with a linear readout.

    For one seed all gates start on the same draw, and differ by their bias alone.
    """

    def __init__(self, condition: Condition, task: Task, seed: int, hidden: int = HIDDEN) -> None:
        """Draw the start."""
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        family = getattr(cells, condition.cell)
        self.cell = family(task.inputs, hidden, gate_init=condition.gate, generator=generator)
        self.out = nn.Linear(hidden, task.outputs)
        with torch.no_grad():
            drawn = torch.randn(self.out.weight.shape, generator=generator)
            self.out.weight.copy_(drawn / hidden**0.5)
            self.out.bias.zero_()
            if condition.mixing is not None:
                self.cell.weight_hh.mul_(condition.mixing).requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Give an output at every step."""
        return self.out(self.cell(inputs))


def n_parameters(condition: Condition, hidden: int = HIDDEN) -> int:
    """Count the parameters that are trained."""
    learner = Learner(condition, TASKS[condition.task](condition.lag), 0, hidden)
    return sum(p.numel() for p in learner.parameters() if p.requires_grad)
