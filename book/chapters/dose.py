"""Dose and response: how many sequences it takes to learn across a lag, as the envelope is varied inside one cell.

The experiment that `book/registration.md` registers. A *condition* is a cell, its initial gate, a task, an optimiser and, for frozen
recurrent weights, their scale; the envelope f₀ = H (1 − s)^ℓ is the dose. Per condition and seed the response is N½, the number of training
sequences from which half of what there is to learn is learned, found by bisection on a grid and so known up to a factor of √2.

Run ``python -m book.chapters.dose`` for all that is missing; it can be stopped at any time and goes on from what is there.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore import cells

HIDDEN = 32
COUNTS = [round(4 * 2 ** (k / 2)) for k in range(21)]  # 4 to 4,096 sequences
BATCH, EVERY, PATIENCE, CAP, HALF = 32, 50, 1000, 6000, 0.5
TESTED = 512
GATES = (0.05, 0.1, 0.2, 0.34, 0.5, 0.7)
RATES = {"adamw": 3e-3, "sgd": 0.3}


@dataclass(frozen=True)
class Condition:
    """What is varied; `mixing` is the scale of recurrent weights that are held there, None where they are learned as they start."""

    cell: str
    gate: float
    task: str
    lag: int
    optimizer: str = "adamw"
    mixing: float | None = None

    @property
    def log_envelope(self) -> float:
        """log f₀, the envelope at zeroth order and at the start."""
        return math.log(HIDDEN) + self.lag * math.log1p(-self.gate)


class Task:
    """Sequences to learn across a lag: `sample` draws them, `loss` is what training descends, `share` what of the target is learned."""

    inputs = 4
    outputs = 1

    def __init__(self, lag: int) -> None:
        """Fix the lag."""
        self.lag = lag

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw inputs (count, T, D) and targets."""
        raise NotImplementedError

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error of the last steps."""
        return (outputs[:, -targets.shape[1] :, 0] - targets).square().mean()

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Share of the target's variance that is explained."""
        return 1 - (self.loss(outputs, targets) / targets.var()).item()


class Regression(Task):
    """Repeat one input after a delay, at the last twelve steps."""

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw Gaussian inputs; targets (count, 12)."""
        inputs = torch.from_numpy(rng.standard_normal((count, self.lag + 12, self.inputs), np.float32))
        return inputs, inputs[:, : -self.lag, 0]


class Recall(Task):
    """Name the first of a row of symbols at the end; all that follows it is noise."""

    inputs, outputs = 5, 4

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw a marked symbol of four, and Gaussian distractors; targets (count,)."""
        symbols = rng.integers(0, 4, count)
        inputs = rng.standard_normal((count, self.lag + 1, 5), np.float32)
        inputs[:, :, 4] = inputs[:, 0] = 0
        inputs[np.arange(count), 0, symbols], inputs[:, 0, 4] = 2, 1
        return torch.from_numpy(inputs), torch.from_numpy(symbols)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy at the last step."""
        return functional.cross_entropy(outputs[:, -1], targets)

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Share of right answers above chance."""
        return (((outputs[:, -1].argmax(-1) == targets).double().mean() - 1 / self.outputs) / (1 - 1 / self.outputs)).item()


class Adding(Task):
    """Add the two marked numbers of a row: one among the first fifth, one among the last."""

    inputs = 2

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw uniform numbers and two marks; targets (count, 1)."""
        inputs = np.stack([rng.uniform(-1, 1, (count, self.lag + 1)), np.zeros((count, self.lag + 1))], axis=-1).astype(np.float32)
        fifth = max(1, (self.lag + 1) // 5)
        places = rng.integers(0, fifth, count), self.lag - rng.integers(0, fifth, count)
        for place in places:
            inputs[np.arange(count), place, 1] = 1
        return torch.from_numpy(inputs), torch.from_numpy((inputs[..., 0] * inputs[..., 1]).sum(1, keepdims=True))


class Digits(Recall):
    """Name a digit of which sixteen pixels come `lag` steps before the end, one a step, among pixels of other images."""

    inputs, outputs = 1, 10

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw images; the first two thirds are for training, and the draws of tests take the rest."""
        images, labels = _digits()
        half = len(images) * 2 // 3
        chosen = rng.permutation(half)[:count] if count != TESTED else half + rng.permutation(len(images) - half)[:count]
        inputs = images[rng.integers(0, len(images), (len(chosen), 64)), rng.integers(0, 64, (len(chosen), 64))]
        start = 63 - self.lag
        inputs[:, start : start + 16] = images[chosen, 24:40]
        return torch.from_numpy(inputs[..., None]), torch.from_numpy(labels[chosen])


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return (images[order] / 16).astype(np.float32), labels[order]


TASKS: dict[str, type[Task]] = {"regression": Regression, "recall": Recall, "adding": Adding, "digits": Digits}


class Learner(nn.Module):
    """A cell with a linear readout; for one seed all gates start on the same draw, and differ by their bias alone."""

    def __init__(self, condition: Condition, task: Task, seed: int) -> None:
        """Draw the start."""
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.cell = getattr(cells, condition.cell)(task.inputs, HIDDEN, gate_init=condition.gate, generator=draw)
        self.out = nn.Linear(HIDDEN, task.outputs)
        with torch.no_grad():
            self.out.weight.copy_(torch.randn(self.out.weight.shape, generator=draw) / HIDDEN**0.5)
            self.out.bias.zero_()
            if condition.mixing is not None:
                self.cell.weight_hh.mul_(condition.mixing).requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Give an output at every step."""
        return self.out(self.cell(inputs))


def train(condition: Condition, count: int, seed: int) -> dict[str, float | int | str]:
    """Train until half is learned, or no more is (no better share within `PATIENCE` steps), or the cap is met."""
    task, rng = TASKS[condition.task](condition.lag), np.random.default_rng([seed, count])
    inputs, targets = task.sample(count, rng)
    tests = task.sample(TESTED, np.random.default_rng([seed, 0]))
    learner = Learner(condition, task, seed)
    parameters = [p for p in learner.parameters() if p.requires_grad]
    rate = RATES[condition.optimizer]
    descent = torch.optim.AdamW(parameters, lr=rate, weight_decay=1e-4) if condition.optimizer == "adamw" else torch.optim.SGD(parameters, lr=rate)
    best, at, start = -math.inf, 0, time.process_time()
    for step in range(1, CAP + 1):
        chosen = torch.from_numpy(rng.choice(len(inputs), min(BATCH, len(inputs)), replace=False))
        descent.zero_grad()
        task.loss(learner(inputs[chosen]), targets[chosen]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        descent.step()
        if step % EVERY == 0:
            with torch.no_grad():
                share = task.share(learner(tests[0]), tests[1])
            if share > best + 0.005:
                best, at = share, step
            if best >= HALF or step - at >= PATIENCE:
                break
    end = "half" if best >= HALF else "settled" if step - at >= PATIENCE else "cap"
    return {"count": count, "share": best, "steps": step, "end": end, "seconds": time.process_time() - start}


def search(condition: Condition, seed: int) -> dict[str, object]:
    """Bisect the grid for the least number of sequences from which half is learned, supposing that more never teach less."""
    torch.set_num_threads(1)
    low, high, tried = -1, len(COUNTS), []
    while high - low > 1:
        middle = (low + high) // 2 if high < len(COUNTS) or low >= 0 else len(COUNTS) // 2
        tried.append(train(condition, COUNTS[middle], seed))
        low, high = (low, middle) if tried[-1]["end"] == "half" else (middle, high)
    if tried[-1]["count"] != COUNTS[-1] and not any(one["count"] == COUNTS[-1] for one in tried):
        tried.append(train(condition, COUNTS[-1], seed))  # how many steps half takes where sequences abound
    return asdict(condition) | {"seed": seed, "low": COUNTS[low] if low >= 0 else 0, "high": COUNTS[high] if high < len(COUNTS) else None, "tried": tried}
