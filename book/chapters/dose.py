"""Dose and response: how many sequences it takes to learn across a lag, as the envelope of one cell
is varied.

The experiment that `book/registration.md` registers. A *condition* is a cell, its initial gate, a
task, an optimiser and, for frozen recurrent weights, their scale; the envelope f₀ = H (1 − s)^ℓ is
the dose. Per condition and seed the response is N½, the number of training sequences from which
half of what there is to learn is learned, found by bisection on a grid and so known up to a factor
of √2.

Run ``python -m book.chapters.dose`` for all that is missing; it can be stopped at any time and goes
on from what is there.
"""

import argparse
import functools
import itertools
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore import cells
from lwcore.results import environment, write_atomically

FOLDER = Path("book/results/dose")
SEEDS = {"adamw": range(1, 7), "sgd": range(1, 7), "mixing": range(1, 7), "digits": range(1, 4)}
# Added when seeds 1 and 2 had been seen, in folders of their own: more steps, and fewer sequences.
SEEDS |= {"patient": range(1, 4), "fewer": range(1, 7)}

HIDDEN = 32
COUNTS = [round(4 * 2 ** (k / 2)) for k in range(21)]  # 4 to 4,096 sequences
BATCH = 32
EVERY = 50  # steps between two looks at the share learned
PATIENCE = 2000  # steps without a better share after which training ends
CAP = 8000  # steps after which it ends in any case
HALF = 0.5  # the share at which it has reached its goal
PATIENT = 40_000  # patience and cap of the part that is named so
FEWER = COUNTS[7:18:2]  # 45 to 1,448, tried where the largest number was not enough
TESTED = 512
CELLS = ("ConstGate", "DiagGate", "LSTM", "MinGRU")
GATES = (0.05, 0.1, 0.2, 0.34, 0.5, 0.7)
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": functools.partial(torch.optim.AdamW, lr=3e-3, weight_decay=1e-4),
    "sgd": functools.partial(torch.optim.SGD, lr=0.3),
}
Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Condition:
    """What is varied in the experiment.

    Attributes:
        cell: Name of a family of `lwcore.cells`.
        gate: Share of the state that the initial gate replaces in a step, s.
        task: A key of `TASKS`.
        lag: Steps across which the task asks, ℓ.
        optimizer: A key of `OPTIMIZERS`.
        mixing: Scale at which the recurrent weights are held; None where they are learned.
    """

    cell: str
    gate: float
    task: str
    lag: int
    optimizer: str = "adamw"
    mixing: float | None = None


VARIED = [field.name for field in fields(Condition)]


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
    counts = COUNTS[:17]  # up to 1,024
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


def descended(
    condition: Condition, count: int, seed: int, hidden: int = HIDDEN
) -> Iterator[tuple[int, Learner, Callable[[], float]]]:
    """Train on `count` sequences without end.

    Yields before the first step and after each: the number of steps, the network, and a function
    that returns the share it has learned.
    """
    torch.set_num_threads(1)
    task = TASKS[condition.task](condition.lag)
    rng = np.random.default_rng([seed, count])
    inputs, targets = task.sample(count, rng)
    test_rng = np.random.default_rng([seed, 0])
    test_inputs, test_targets = task.sample(TESTED, test_rng, fresh=True)
    learner = Learner(condition, task, seed, hidden)
    parameters = [p for p in learner.parameters() if p.requires_grad]
    descent = OPTIMIZERS[condition.optimizer](parameters)

    def share() -> float:
        with torch.no_grad():
            return task.share(learner(test_inputs), test_targets)

    n_sequences = len(inputs)
    for step in itertools.count():
        yield step, learner, share
        batch = rng.choice(n_sequences, min(BATCH, n_sequences), replace=False)
        chosen = torch.from_numpy(batch)
        descent.zero_grad()
        task.loss(learner(inputs[chosen]), targets[chosen]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        descent.step()


def train(
    condition: Condition,
    count: int,
    seed: int,
    patience: int = PATIENCE,
    cap: int = CAP,
    hidden: int = HIDDEN,
) -> dict[str, object]:
    """Train until half is learned, or no more is, or the cap is met; return a row of what came out.

    Args:
        count: Number of training sequences.
        patience: Steps without a better share after which no more is learned.
        cap: Steps after which training ends in any case.
        hidden: Number of neurons.
    """
    best = -math.inf
    best_step = 0
    start = time.process_time()
    for step, _, share in descended(condition, count, seed, hidden):
        if step == 0 or step % EVERY != 0:
            continue
        reached = share()
        if reached > best + 0.005:
            best = reached
            best_step = step
        if best >= HALF or step - best_step >= patience or step == cap:
            break
    if best >= HALF:
        end = "half"
    elif step - best_step >= patience:
        end = "settled"
    else:
        end = "cap"
    seconds = time.process_time() - start
    outcome = {"count": count, "share": best, "steps": step, "end": end, "seconds": seconds}
    return asdict(condition) | {"seed": seed} | outcome


def search(
    condition: Condition,
    seed: int,
    patience: int = PATIENCE,
    cap: int = CAP,
    hidden: int = HIDDEN,
) -> list[dict[str, object]]:
    """Bisect the grid for the least number of sequences from which half is learned.

    Supposes that more never teach less. Returns a row for each training; one with most sequences is
    always among them, to see how many steps half takes where they abound.
    """
    counts = TASKS[condition.task].counts
    too_few = -1  # places in the grid
    enough = len(counts)
    place = len(counts) - 1
    rows = []
    while enough - too_few > 1:
        row = train(condition, counts[place], seed, patience, cap, hidden)
        rows.append(row)
        if row["end"] == "half":
            enough = place
        else:
            too_few = place
        place = (too_few + enough) // 2
    return rows


def retry(condition: Condition, seed: int) -> list[dict[str, object]]:
    """Train on smaller numbers of sequences, from the least up, until one reaches the half."""
    most = TASKS[condition.task].counts[-1]
    rows: list[dict[str, object]] = []
    for count in FEWER:
        if count >= most:
            break
        row = train(condition, count, seed)
        rows.append(row)
        if row["end"] == "half":
            break
    return rows


def conditions(part: str, seed: int = 0, folder: Path = FOLDER) -> Iterator[Condition]:
    """List the conditions of a part of the experiment.

    Args:
        part: A key of `SEEDS`.
        seed: Of ``"fewer"``, the seed whose searches beyond the grid are tried again.
        folder: Where these searches are recorded.
    """
    if part in OPTIMIZERS:
        yield from _conditions_of_optimizer(part)
    elif part == "mixing":
        tasks = ("recall", "adding")
        scales = (0.0, 0.25, 0.5, 0.75, 1.0)
        gates = (0.05, 0.2, 0.34, 0.5)
        for task, mixing, gate in itertools.product(tasks, scales, gates):
            yield Condition("ConstGate", gate, task, 20, mixing=mixing)
    elif part == "patient":
        for gate in (0.1, 0.2):
            yield Condition("ConstGate", gate, "recall", 20, mixing=0.0)
        for cell, gate, optimizer in itertools.product(("MinGRU", "LSTM"), GATES[3:], OPTIMIZERS):
            yield Condition(cell, gate, "recall", 20, optimizer)
    elif part == "fewer":
        done = searches(trainings(folder))
        beyond = done[done["high"].isna() & (done["seed"] == seed)]
        known = beyond[VARIED].replace({np.nan: None})
        for values in known.itertuples(index=False, name=None):
            yield Condition(*values)
    elif part == "digits":
        for lag, cell, gate in itertools.product((63, 15), CELLS, GATES):
            yield Condition(cell, gate, "digits", lag)


def _conditions_of_optimizer(optimizer: str) -> Iterator[Condition]:
    """List the conditions of the main parts: tasks, lags, cells and gates under one optimiser."""
    asked = [
        *(("regression", lag, CELLS[:-1]) for lag in (5, 10, 20)),
        *(("recall", lag, CELLS) for lag in (10, 20, 40)),
        ("adding", 20, CELLS),
    ]
    for task, lag, own_cells in asked:
        for cell, gate in itertools.product(own_cells, GATES):
            yield Condition(cell, gate, task, lag, optimizer)


def trainings(folder: Path = FOLDER) -> pd.DataFrame:
    """Read all trainings that are recorded, a row each."""
    return pd.concat(map(pd.read_csv, sorted(folder.glob("*.csv"))), ignore_index=True)


def searches(trained: pd.DataFrame) -> pd.DataFrame:
    """Take the trainings of a search together, a row a search.

    N½ lies above ``low`` and is not above ``high``, NaN where no number was enough. Share, end and
    steps are those of the training with most sequences.
    """
    half = trained["end"] == "half"
    marked = trained.assign(high=trained["count"].where(half), low=trained["count"].where(~half))
    by_search = marked.sort_values("count").groupby([*VARIED, "seed"], dropna=False)
    summed = by_search.agg(
        low=("low", "max"),
        high=("high", "min"),
        share=("share", "last"),
        end=("end", "last"),
        steps=("steps", "last"),
        met_cap=("end", lambda ends: (ends == "cap").mean()),
        seconds=("seconds", "sum"),
    )
    return summed.fillna({"low": 0.0}).reset_index()


def record(part: str, seed: int, pool: Executor, folder: Path = FOLDER) -> None:
    """Do what is missing of a part for a seed; its file is written anew when a search ends.

    Parts that were added when data had been seen have folders of their own.
    """
    name = f"{part}-{seed}.csv"
    path = folder / part / name if part in ("patient", "fewer") else folder / name
    work = retry if part == "fewer" else search
    limits = (PATIENT, PATIENT) if part == "patient" else ()
    rows = pd.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    done = {tuple(str(row[name]) for name in VARIED) for row in rows}
    revision = environment()["revision"]
    futures = []
    for condition in conditions(part, seed, folder):
        key = tuple("" if value is None else str(value) for value in astuple(condition))
        if key not in done:
            futures.append(pool.submit(work, condition, seed, *limits))
    for future in as_completed(futures):
        rows += [row | {"revision": revision} for row in future.result()]
        write_atomically(path, functools.partial(pd.DataFrame(rows).to_csv, index=False))


def main() -> None:
    """Read the command line, and do one seed of every part before the next."""
    options = argparse.ArgumentParser(description="Record the registered experiment.")
    options.add_argument("parts", nargs="*", default=list(SEEDS))
    options.add_argument("--workers", type=int, default=os.cpu_count())
    options.add_argument("--folder", type=Path, default=FOLDER)
    chosen = options.parse_args()
    with ProcessPoolExecutor(chosen.workers, initializer=os.nice, initargs=(19,)) as pool:
        for seed, part in itertools.product(range(1, 7), chosen.parts):
            if seed in SEEDS[part]:
                record(part, seed, pool, chosen.folder)


if __name__ == "__main__":
    main()
