"""Dose and response: how many sequences it takes to learn across a lag, as the envelope is varied
inside one cell.

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
BATCH, EVERY, PATIENCE, CAP, HALF = 32, 50, 2000, 8000, 0.5
PATIENT = 40_000  # patience and cap of the part that is named so
FEWER = COUNTS[7:18:2]  # 45 to 1,448, tried where the largest number was not enough
TESTED = 512
GATES = (0.05, 0.1, 0.2, 0.34, 0.5, 0.7)
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": functools.partial(torch.optim.AdamW, lr=3e-3, weight_decay=1e-4),
    "sgd": functools.partial(torch.optim.SGD, lr=0.3),
}
Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Condition:
    """What is varied; `mixing` is the scale of recurrent weights that are held there, None where
    they are learned as they start."""

    cell: str
    gate: float
    task: str
    lag: int
    optimizer: str = "adamw"
    mixing: float | None = None


VARIED = [field.name for field in fields(Condition)]


@dataclass
class Task(ABC):
    """Sequences to learn across a lag: `sample` draws them, `loss` is what training descends,
    `share` what of the target is learned."""

    lag: int
    inputs, outputs, counts, reachable = 4, 1, COUNTS, 1.0

    @abstractmethod
    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw inputs (count, T, D) and targets; `fresh` ones are for tests, where there are not
        endlessly many."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error of the last steps."""
        return (outputs[:, -targets.shape[1] :, 0] - targets).square().mean()

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Share of the target's variance that is explained."""
        return 1 - (self.loss(outputs, targets) / targets.var()).item()


class Regression(Task):
    """Repeat one input after a delay, at the last twelve steps."""

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw Gaussian inputs; targets (count, 12)."""
        drawn = rng.standard_normal((count, self.lag + 12, self.inputs), np.float32)
        inputs = torch.from_numpy(drawn)
        return inputs, inputs[:, : -self.lag, 0]


class Recall(Task):
    """Name the first of a row of symbols at the end; all that follows it is noise."""

    inputs, outputs = 5, 4

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
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
        """Share of right answers above chance, of those that can be had."""
        right = (outputs[:, -1].argmax(-1) == targets).double().mean().item()
        return (right - 1 / self.outputs) / (self.reachable - 1 / self.outputs)


class Adding(Task):
    """Add the two marked numbers of a row: one among the first fifth, one among the last."""

    inputs = 2

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw uniform numbers and two marks; targets (count, 1)."""
        inputs = np.zeros((count, self.lag + 1, 2), np.float32)
        inputs[..., 0] = rng.uniform(-1, 1, inputs.shape[:2])
        fifth = max(1, (self.lag + 1) // 5)
        for place in (rng.integers(0, fifth, count), self.lag - rng.integers(0, fifth, count)):
            inputs[np.arange(count), place, 1] = 1
        targets = inputs.prod(-1).sum(1, keepdims=True)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    def share(self, outputs: Tensor, targets: Tensor) -> float:
        """Share of the far number's variance that is explained, once the near one, which makes the
        other half of the sum's, is known."""
        return 2 * super().share(outputs, targets) - 1


class Digits(Recall):
    """Name a digit of which sixteen pixels come `lag` steps before the end, one a step, among
    pixels of other images."""

    inputs, outputs = 1, 10
    counts = COUNTS[:17]  # up to 1,024
    reachable = 0.86  # right answers of a support vector machine (C = 10), from 1,200 images

    def sample(self, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
        """Draw images; 1,200 are for training, the other 597 for tests."""
        images, labels = _digits()
        first, last = (1200, len(images)) if fresh else (0, 1200)
        chosen = first + rng.permutation(last - first)[:count]
        size, start = (len(chosen), 64), 63 - self.lag
        inputs = images[rng.integers(0, len(images), size), rng.integers(0, 64, size)]
        inputs[:, start : start + 16] = images[chosen, 24:40]
        return torch.from_numpy(inputs[..., None]), torch.from_numpy(labels[chosen])


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return (images[order] / 16).astype(np.float32), labels[order]


TASKS: dict[str, type[Task]] = {
    task.__name__.lower(): task for task in (Regression, Recall, Adding, Digits)
}


class Learner(nn.Module):
    """A cell with a linear readout; for one seed all gates start on the same draw, and differ by
    their bias alone."""

    def __init__(self, condition: Condition, task: Task, seed: int, hidden: int = HIDDEN) -> None:
        """Draw the start."""
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.cell = getattr(cells, condition.cell)(
            task.inputs, hidden, gate_init=condition.gate, generator=draw
        )
        self.out = nn.Linear(hidden, task.outputs)
        with torch.no_grad():
            self.out.weight.copy_(torch.randn(self.out.weight.shape, generator=draw) / hidden**0.5)
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
    """Train on `count` sequences without end: after each step, and before the first, the number of
    steps, the network, and the share it has learned, asked for by a call."""
    torch.set_num_threads(1)
    task, rng = TASKS[condition.task](condition.lag), np.random.default_rng([seed, count])
    inputs, targets = task.sample(count, rng)
    tests = task.sample(TESTED, np.random.default_rng([seed, 0]), fresh=True)
    learner = Learner(condition, task, seed, hidden)
    parameters = [p for p in learner.parameters() if p.requires_grad]
    descent = OPTIMIZERS[condition.optimizer](parameters)

    def share() -> float:
        with torch.no_grad():
            return task.share(learner(tests[0]), tests[1])

    for step in itertools.count():
        yield step, learner, share
        chosen = torch.from_numpy(rng.choice(len(inputs), min(BATCH, len(inputs)), replace=False))
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
    """Train until half is learned, or no more is (no better share for so many steps), or the cap is
    met."""
    best, at, start = -math.inf, 0, time.process_time()
    for step, _, share in descended(condition, count, seed, hidden):
        if step and step % EVERY == 0:
            if (reached := share()) > best + 0.005:
                best, at = reached, step
            if best >= HALF or step - at >= patience or step == cap:
                break
    end = "half" if best >= HALF else "settled" if step - at >= patience else "cap"
    seconds = time.process_time() - start
    found = {"count": count, "share": best, "steps": step, "end": end, "seconds": seconds}
    return asdict(condition) | {"seed": seed} | found


def search(
    condition: Condition,
    seed: int,
    patience: int = PATIENCE,
    cap: int = CAP,
    hidden: int = HIDDEN,
) -> list[dict[str, object]]:
    """Bisect the grid for the least number of sequences from which half is learned, supposing that
    more never teach less.

    Gives a row for each training; one with most sequences is always among them, to see how many
    steps half takes where they abound.
    """
    counts = TASKS[condition.task].counts
    low, high, tried, place = -1, len(counts), {}, len(counts) - 1
    while high - low > 1:
        tried[place] = train(condition, counts[place], seed, patience, cap, hidden)
        low, high = (low, place) if tried[place]["end"] == "half" else (place, high)
        place = (low + high) // 2
    return [*tried.values()]


def retry(condition: Condition, seed: int) -> list[dict[str, object]]:
    """Train on smaller numbers of sequences, from the least up, until one reaches the half."""
    rows: list[dict[str, object]] = []
    for count in (one for one in FEWER if one < TASKS[condition.task].counts[-1]):
        rows.append(train(condition, count, seed))
        if rows[-1]["end"] == "half":
            break
    return rows


def conditions(part: str, seed: int = 0, folder: Path = FOLDER) -> Iterator[Condition]:
    """List the conditions of a part of the experiment; of ``"fewer"``, those of a seed's searches
    beyond the grid."""
    every = ["ConstGate", "DiagGate", "LSTM", "MinGRU"]
    if part in OPTIMIZERS:
        asked = [("regression", lag, every[:-1]) for lag in (5, 10, 20)]
        asked += [("recall", lag, every) for lag in (10, 20, 40)] + [("adding", 20, every)]
        for task, lag, some in asked:
            yield from (Condition(cell, gate, task, lag, part) for cell in some for gate in GATES)
    elif part == "mixing":
        for task, mixing, gate in itertools.product(
            ("recall", "adding"), (0.0, 0.25, 0.5, 0.75, 1.0), (0.05, 0.2, 0.34, 0.5)
        ):
            yield Condition("ConstGate", gate, task, 20, mixing=mixing)
    elif part == "patient":
        yield from (Condition("ConstGate", gate, "recall", 20, mixing=0.0) for gate in (0.1, 0.2))
        for cell, gate, optimizer in itertools.product(("MinGRU", "LSTM"), GATES[3:], OPTIMIZERS):
            yield Condition(cell, gate, "recall", 20, optimizer)
    elif part == "fewer":
        found = searches(trainings(folder))
        beyond = found[found["high"].isna() & (found["seed"] == seed)]
        known = beyond[VARIED].replace({np.nan: None}).itertuples(index=False, name=None)
        yield from itertools.starmap(Condition, known)
    elif part == "digits":
        for lag, cell, gate in itertools.product((63, 15), every, GATES):
            yield Condition(cell, gate, "digits", lag)


def trainings(folder: Path = FOLDER) -> pd.DataFrame:
    """Read all trainings that are recorded, a row each."""
    return pd.concat(map(pd.read_csv, sorted(folder.glob("*.csv"))), ignore_index=True)


def searches(trained: pd.DataFrame) -> pd.DataFrame:
    """Take the trainings of a search together: N½ lies above ``low`` and is not above ``high``, NaN
    where no number was enough.

    Share, end and steps are those of the training with most sequences.
    """
    half = trained["end"] == "half"
    marked = trained.assign(high=trained["count"].where(half), low=trained["count"].where(~half))
    found = marked.sort_values("count").groupby([*VARIED, "seed"], dropna=False).agg(
        low=("low", "max"), high=("high", "min"), share=("share", "last"),
        end=("end", "last"), steps=("steps", "last"),
        met_cap=("end", lambda ends: (ends == "cap").mean()), seconds=("seconds", "sum"),
    )  # fmt: skip
    return found.fillna({"low": 0.0}).reset_index()


def record(part: str, seed: int, pool: Executor, folder: Path = FOLDER) -> None:
    """Do what is missing of a part for a seed; its file is written anew when a search ends."""
    limits = (PATIENT, PATIENT) if part == "patient" else ()
    beside, work = part in ("patient", "fewer"), retry if part == "fewer" else search
    path = folder / (part if beside else ".") / f"{part}-{seed}.csv"
    rows = pd.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    done = {tuple(str(row[name]) for name in VARIED) for row in rows}
    revision, found = environment()["revision"], []
    for one in conditions(part, seed, folder):
        if tuple("" if value is None else str(value) for value in astuple(one)) not in done:
            found.append(pool.submit(work, one, seed, *limits))
    for future in as_completed(found):
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
