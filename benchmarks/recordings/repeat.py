"""Repeat or renew: the experiment that `book/registration_repeat.md` registers.

A network of 32 neurons is trained until it has learned half of the task or to its cap; the share
learned is looked at every 20 steps, on 512 fresh sequences, without patience. What is varied is
where its batches come from (`supply`), where it starts, and how it descends.

Run ``python -m benchmarks.recordings.repeat [PART ...]`` for what is missing: a file is a part and
a seed, and is there whole or not at all.
"""

import argparse
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.recordings import mingru_descent
from benchmarks.recordings.learners import TASKS, Data, Learner, Task
from book.chapters.dose import Condition
from book.chapters.repeat import FOLDER, HALF, NEARLY_SHUT, OPEN, SEEDS
from lwcore import cells
from lwcore.results import environment, write_atomically
from lwcore.transport import effective_rates, envelope

LOOK = 20  # steps between two looks, and how often a batch is used under "again"
TESTED = 512
STAIRS = (0.05, 0.2, 0.27, 0.34, 0.42, 0.5, 0.6, 0.7, 0.8)
MEMORISED = 2000  # steps that come before, in the part on gates
COUNTS = tuple(4 * 2**k for k in range(10, -1, -1))  # 4,096 down to 4
Array = NDArray[np.float32]
Row = dict[str, object]


@dataclass(frozen=True)
class Arm:
    """A training.

    Attributes:
        cell: A family of `lwcore.cells`, or "nn.LSTM" for PyTorch's layer of 64 neurons.
        gate: Share of the state that the initial gate replaces. PyTorch's starts near 1/2; any
            other value shifts the biases of its forget and input gates to that share.
        optimizer: "adamw" or "sgd".
        rate: Learning rate.
        supply: "fresh" renews the batch at every step, "again" every 20 steps, "set" draws it from
            `count` sequences.
        count: Sequences of a set.
        task: A key of `TASKS`.
        lag: Steps across which it asks.
        batch: Sequences of a batch.
        beta2: Of AdamW's second moment.
        mark: Standard deviation of noise in recall's column that marks the first step.
        columns: Columns of noise beside the inputs, which start with zero weights.
        start: A row of `openings`, or "drawn".
        cap: Steps after which training ends in any case.
    """

    cell: str
    gate: float
    optimizer: str = "adamw"
    rate: float = 3e-3
    supply: str = "fresh"
    count: int = 0
    task: str = "recall"
    lag: int = 20
    batch: int = 32
    beta2: float = 0.999
    mark: float = 0.0
    columns: int = 0
    start: str = "drawn"
    cap: int = 12_000


def rows_of_speed() -> list[tuple[Arm, Arm]]:
    """List the five rows of H1: nearly shut, and open."""
    sgd = Arm("MinGRU", 0.34, "sgd", 0.3, cap=10_000)
    layer = Arm("nn.LSTM", 0.5, rate=1e-3, lag=30, cap=1500)
    shut = [Arm("MinGRU", NEARLY_SHUT), sgd, Arm("GRU", NEARLY_SHUT, cap=3000),
            Arm("LSTM", NEARLY_SHUT, cap=1500), layer]  # fmt: skip
    return [(arm, replace(arm, gate=1 / 30 if arm is layer else OPEN)) for arm in shut]


def _both(arms: Sequence[Arm], *counts: int) -> list[Arm]:
    """List each arm with fresh batches, with each used again and again, and on sets."""
    listed = []
    for arm in arms:
        listed += [arm, replace(arm, supply="again")]
        listed += [replace(arm, supply="set", count=count) for count in counts]
    return listed


def arms_of(part: str) -> list[Arm]:
    """List the trainings of a part, for one seed."""
    rows = rows_of_speed()
    base, sgd, gru, lstm, layer = (shut for shut, _ in rows)
    if part == "speed-mingru":
        return _both([*rows[0], *rows[1]], 256)
    if part.startswith("speed-"):
        chosen = {"speed-gru": 2, "speed-lstm": 3, "speed-layer": 4}[part]
        return _both(rows[chosen])
    if part == "longer":
        return _both([replace(arm, cap=6000) for arm in (*rows[3], *rows[4])])
    if part in ("clock", "clock-again"):
        supply, count = ("set", 256) if part == "clock" else ("again", 0)
        return [replace(base, gate=gate, supply=supply, count=count) for gate in STAIRS]
    if part == "gates":
        listed = []
        for arm in (replace(base, cap=8000), replace(sgd, cap=8000)):
            listed += [replace(arm, start=start) for start in OPENINGS]
        opened = replace(base, gate=OPEN, cap=8000)
        return listed + [replace(opened, start=start) for start in ("drawn", "whole", "put back")]
    if part == "columns":
        adding = Arm("MinGRU", 0.2, task="adding", cap=3000)
        plain = [adding, replace(adding, optimizer="sgd", rate=0.3)]
        noisy = [replace(arm, columns=15) for arm in plain]
        return [replace(arm, supply="set", count=n) for arm in plain + noisy for n in COUNTS]
    if part == "rivals":
        rates = [replace(base, rate=rate) for rate in (1e-2, 3e-2, 1e-1)]
        quick = replace(base, beta2=0.9)
        large = replace(base, batch=128, cap=3000)
        marked = replace(base, gate=0.34, mark=0.1)
        near = replace(base, task="adding")
        listed = _both([*rates, replace(sgd, rate=1.0, cap=5000), quick, large, marked, near])
        return [*listed, replace(base, supply="set", count=4096)]
    if part == "rates-gated":
        return _both([replace(gru, rate=1e-2), replace(lstm, rate=1e-2)])
    return _both([replace(layer, rate=1e-2)])  # "rates-layer"


PARTS = ("speed-mingru", "speed-gru", "speed-lstm", "speed-layer", "clock", "gates", "rivals",
         "columns", "rates-gated", "rates-layer", "clock-again", "longer")  # fmt: skip


def sample(arm: Arm, count: int, rng: np.random.Generator, fresh: bool = False) -> Data:
    """Draw sequences of an arm's task, with noise in the mark's column or beside the inputs."""
    inputs, targets = TASKS[arm.task](arm.lag).sample(count, rng, fresh)
    if arm.mark:
        inputs[:, 1:, 4] = arm.mark * torch.from_numpy(
            rng.standard_normal((count, arm.lag), np.float32)
        )
    if arm.columns:
        noise = rng.standard_normal((*inputs.shape[:2], arm.columns), np.float32)
        inputs = torch.cat([inputs, torch.from_numpy(noise)], dim=-1)
    return inputs, targets


def batches(arm: Arm, rng: np.random.Generator) -> Iterator[tuple[Data, NDArray[np.int64]]]:
    """Yield sequences, and which of them the next `LOOK` steps use, (steps, batch)."""
    if arm.supply == "set":
        data = sample(arm, arm.count, rng)
        size = min(arm.batch, arm.count)
        while True:
            yield data, np.stack([rng.choice(arm.count, size, replace=False) for _ in range(LOOK)])
    if arm.supply == "again":
        index = np.tile(np.arange(arm.batch), (LOOK, 1))
        while True:
            yield sample(arm, arm.batch, rng), index
    index = np.arange(LOOK * arm.batch).reshape(LOOK, arm.batch)
    while True:
        yield sample(arm, LOOK * arm.batch, rng), index


class Network(Protocol):
    """What is trained."""

    def descend(self, data: Data, index: NDArray[np.int64]) -> None:
        """Take some steps."""

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the last outputs, (B, 1, O)."""

    def envelope(self, inputs: torch.Tensor) -> float:
        """Return the exact envelope over all steps of some sequences."""

    def norm(self) -> float:
        """Return the norm of all parameters but the readout's."""


class Compiled:
    """A MinGRU with its readout."""

    def __init__(self, arm: Arm, vector: Array, shape: mingru_descent.Shape) -> None:
        """Take a start."""
        self.arm, self.vector, self.shape = arm, vector.copy(), shape
        self.moments = np.zeros((2, len(vector)), np.float32)
        self.n_steps = 0

    def descend(self, data: Data, index: NDArray[np.int64]) -> None:
        """Take some steps."""
        inputs, targets = data
        betas = (0.9, self.arm.beta2) if self.arm.optimizer == "adamw" else (0.0, 0.0)
        labels = targets.reshape(-1).numpy().astype(np.float32)
        mingru_descent.descend(self.vector, self.moments, self.n_steps, self.shape, inputs.numpy(),
                               labels, index, self.arm.rate, 1e-4, betas)  # fmt: skip
        self.n_steps += len(index)

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the last outputs, (B, 1, O)."""
        found = mingru_descent.predict(self.vector, self.shape, inputs.numpy())
        return torch.from_numpy(found).unsqueeze(1)

    def envelope(self, inputs: torch.Tensor) -> float:
        """Return the exact envelope over all steps of some sequences."""
        return mingru_descent.exact_envelope(self.vector, self.shape, inputs.numpy())

    def norm(self) -> float:
        """Return the norm of all parameters but the readout's."""
        readout = self.shape.masks()["readout"]
        return float(np.linalg.norm(self.vector[~readout]))


class Layer(nn.Module):
    """PyTorch's own LSTM of 64 neurons with a readout, as drawn or with shifted gate biases."""

    def __init__(self, arm: Arm, task: Task, seed: int) -> None:
        """Draw the start."""
        super().__init__()
        torch.manual_seed(seed)
        self.cell = nn.LSTM(task.inputs, 64, batch_first=True)
        self.out = nn.Linear(64, task.outputs)
        odds = np.log(arm.gate / (1 - arm.gate))
        bias = self.cell.get_parameter("bias_ih_l0")
        with torch.no_grad():
            bias[:64] += odds  # lets in
            bias[64:128] -= odds  # keeps

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Give an output at every step."""
        hidden, _ = self.cell(inputs)
        outputs: torch.Tensor = self.out(hidden)
        return outputs


class Followed:
    """A network that autograd differentiates."""

    def __init__(self, arm: Arm, task: Task, seed: int) -> None:
        """Draw the start, and make the optimiser."""
        self.task = task
        is_layer = arm.cell == "nn.LSTM"
        self.network = Layer(arm, task, seed) if is_layer else Learner(_condition(arm), task, seed)
        self.parameters = list(self.network.parameters())
        decay = 0.0 if is_layer else 1e-4  # without it AdamW is Adam
        betas = (0.9, arm.beta2)
        self.optimizer = torch.optim.AdamW(self.parameters, arm.rate, betas, weight_decay=decay)

    def descend(self, data: Data, index: NDArray[np.int64]) -> None:
        """Take some steps."""
        inputs, targets = data
        for chosen in torch.from_numpy(index):
            self.optimizer.zero_grad()
            self.task.loss(self.network(inputs[chosen]), targets[chosen]).backward()
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the last outputs, (B, 1, O)."""
        with torch.no_grad():
            return self.network(inputs)[:, -1:]

    def envelope(self, inputs: torch.Tensor) -> float:
        """Return the exact envelope over all steps of some sequences."""
        cell = self.network.cell
        if isinstance(cell, nn.LSTM):
            cell = cells.LSTM.from_torch(cell)
        trace = cell.trace(inputs[:16])
        rates = effective_rates(trace, [trace.length - 1], ends=[trace.length - 1])
        return envelope(rates).item()

    def norm(self) -> float:
        """Return the norm of all parameters but the readout's."""
        squares = [p.detach().square().sum() for p in self.network.cell.parameters()]
        return float(sum(squares) ** 0.5)


def _condition(arm: Arm) -> Condition:
    """Name what `Learner` draws a start by."""
    return Condition(arm.cell, arm.gate, arm.task, arm.lag, arm.optimizer)


def drawn(arm: Arm, seed: int) -> Compiled:
    """Draw a MinGRU at its start. Columns of noise get zero weights: it computes what it did."""
    task = TASKS[arm.task](arm.lag)
    vector, shape = mingru_descent.pack(Learner(_condition(arm), task, seed))
    if arm.columns:
        n_weights = shape.inputs * 2 * shape.hidden
        blank = np.zeros(arm.columns * 2 * shape.hidden, np.float32)
        vector = np.concatenate([vector[:n_weights], blank, vector[n_weights:]])
        shape = shape._replace(inputs=shape.inputs + arm.columns)
    return Compiled(arm, vector, shape)


# What may be carried over from a network that came before, to fresh data and a new readout.
OPENINGS = ("drawn", "whole", "gates", "gate biases", "candidates", "put back", "shifted",
            "fresh noise", "large steps")  # fmt: skip


@functools.lru_cache(maxsize=4)
def _before(arm: Arm, seed: int, how: str) -> Compiled:
    """Train a network on labels that have nothing to do with the inputs.

    Args:
        arm: Without a start of its own.
        how: "memorise" 256 sequences in 2,000 steps; "fresh noise" for as many steps; "large
            steps" on fresh noise, a hundred of them at thirty times the rate.
    """
    network = drawn(arm, seed)
    rng = np.random.default_rng([seed, 256, 7])
    if how == "memorise":
        supplied = replace(arm, supply="set", count=256)
    else:
        supplied = replace(arm, supply="fresh")
    if how == "large steps":
        network.arm = replace(arm, rate=30 * arm.rate)
    n_steps = 100 if how == "large steps" else MEMORISED
    for data, index in batches(supplied, rng):
        inputs, targets = data
        if how == "memorise" and network.n_steps == 0:
            labels = targets[torch.from_numpy(rng.permutation(len(targets)))]
        elif how != "memorise":
            labels = torch.from_numpy(rng.integers(0, 4, len(targets)))
        network.descend((inputs, labels), index)
        if network.n_steps == n_steps:
            return network
    raise AssertionError


def opened(arm: Arm, seed: int) -> Compiled:
    """Make the start of a MinGRU: drawn, or with parts of a network that came before."""
    plain = replace(arm, start="drawn")
    network = drawn(plain, seed)
    if arm.start == "drawn":
        return network
    how = arm.start if arm.start in ("fresh noise", "large steps") else "memorise"
    before = _before(replace(plain, cap=0), seed, how)
    masks = network.shape.masks()
    if arm.start in ("gates", "gate biases", "candidates"):
        taken = masks[arm.start]
    elif arm.start == "shifted":
        taken = np.zeros_like(masks["gates"])
    else:
        taken = ~masks["readout"]
    inputs, _ = sample(arm, 256, np.random.default_rng([seed, 1]), fresh=True)
    goal = (before if arm.start == "shifted" else network).envelope(inputs)
    network.vector[taken] = before.vector[taken]
    if arm.start in ("shifted", "put back"):
        _shift_to(network, goal, inputs)
    return network


def _shift_to(network: Compiled, goal: float, inputs: torch.Tensor) -> None:
    """Shift all gate biases by one number, so that the envelope is what it should be."""
    places = network.shape.masks()["gate biases"]
    biases = network.vector[places]
    low, high = -12.0, 12.0
    for _ in range(40):
        middle = (low + high) / 2
        network.vector[places] = biases + np.float32(middle)
        if network.envelope(inputs) > goal:
            low = middle
        else:
            high = middle


def train(arm: Arm, seed: int) -> tuple[Row, list[Row]]:
    """Train a network; return what came out, and what was seen at every look."""
    torch.set_num_threads(1)
    began = time.process_time()
    task = TASKS[arm.task](arm.lag)
    inputs, targets = sample(arm, TESTED, np.random.default_rng([seed, 0]), fresh=True)
    some = inputs[:64]
    is_compiled = arm.cell == "MinGRU"
    network: Network = opened(arm, seed) if is_compiled else Followed(arm, task, seed)
    supplies = batches(arm, np.random.default_rng([seed, arm.count, 99]))
    first = network.envelope(some)
    opens_at, share_then = float("nan"), float("nan")
    seen: list[Row] = []
    for step in range(0, arm.cap + 1, LOOK):
        share = task.share(network.outputs(inputs), targets)
        carried = network.envelope(some) if is_compiled else float("nan")
        seen.append({"step": step, "share": share, "envelope": carried})
        if carried >= 0.1 and opens_at != opens_at:
            opens_at, share_then = step, share
        if share >= HALF or step == arm.cap:
            break
        network.descend(*next(supplies))
    end = "half" if share >= HALF else "cap"
    row = {"seed": seed, "steps": step, "end": end, "share": share, "envelope": first,
           "envelope_at_end": network.envelope(some), "opens_at": opens_at,
           "share_then": share_then, "norm": network.norm(),
           "seconds": time.process_time() - began}  # fmt: skip
    return asdict(arm) | row, [asdict(arm) | {"seed": seed} | look for look in seen]


def record(part: str, seed: int, folder: Path = FOLDER) -> None:
    """Do a part for a seed, unless its file is there. Sets get smaller until one fails."""
    path = folder / f"{part}-{seed}.csv"
    if path.exists():
        return
    rows: list[Row] = []
    looks: list[Row] = []
    failed: set[Arm] = set()
    for arm in arms_of(part):
        condition = replace(arm, count=0)
        if part == "columns" and condition in failed:
            continue
        row, seen = train(arm, seed)
        if row["end"] == "cap":
            failed.add(condition)
        rows.append(row)
        looks += seen
    folder.mkdir(parents=True, exist_ok=True)
    revision = environment()["revision"]
    if part == "clock":
        table = pd.DataFrame(looks)[["gate", "supply", "seed", "step", "share", "envelope"]]
        write_atomically(
            folder / f"looks-{seed}.csv",
            functools.partial(table.to_csv, index=False, float_format="%.4g"),
        )
    table = pd.DataFrame(rows).assign(revision=revision)
    write_atomically(path, functools.partial(table.to_csv, index=False))


def main(words: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    """Read the command line, and do one part after the other, all seeds of each."""
    options = argparse.ArgumentParser(description="Record the experiment on repeated batches.")
    options.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART")
    options.add_argument("--folder", type=Path, default=FOLDER)
    options.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    chosen = options.parse_args(words)
    for part in chosen.parts:
        for seed in chosen.seeds:
            record(part, seed, chosen.folder)
            say(f"{time.strftime('%H:%M:%S')} {part} {seed} {time.process_time():.0f} s")


if __name__ == "__main__":
    main()
