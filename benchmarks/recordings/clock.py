"""A clock, not a quota? What the initial envelope sets: how much data learning takes, or how long.

The trainings of the experiment that `book/registration_clock.md` registers. Run
``python -m benchmarks.recordings.clock PART ...`` for what is missing of a part. It can be stopped
at any time and goes on from what is there; a unit of work takes some ten minutes.

==============  ===================================================================================
part            what is trained
==============  ===================================================================================
``clock``       MinGRU with both optimisers, ConstGate: the map of data by steps over six gates
``endless``     ConstGate from 16 starts in three arms, on data that never repeat
``mobility``    the same on finite data, from those starts that endless data can teach
``start``       before training: exact envelope, and what detects the lag
``order``       seven cells on recall over 15 and 30 steps, 4,096 sequences
``parameters``  regression inside three cells of five widths
==============  ===================================================================================
"""

import argparse
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import torch

from benchmarks.recordings import dose, stacked, visibility
from benchmarks.recordings.learners import TASKS, Learner, n_parameters
from benchmarks.recordings.stacked import ENDLESS, Member
from book.chapters.clock import (
    ARMS,
    CAP,
    CLOCK_ROWS,
    COUNTS,
    LAG,
    MIXINGS,
    SEEDS,
    recorded,
    starts,
)
from book.chapters.dose import GATES, OPTIMIZERS, VARIED, Condition
from lwcore.gradient import unit_length
from lwcore.network import keep_freed_memory
from lwcore.results import environment, write_atomically

FOLDER = Path("book/results/clock")
TAUGHT = 4  # seeds of six that endless data must teach, or the start is dropped in all arms
ORDER_CELLS = ("ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM", "MinGRU", "MinLSTM")
ORDER_LAGS, ORDER_COUNT = (15, 30), 4096
PARTS = ["clock", "endless", "mobility", "start", "order", "parameters"]
WIDTHS, PARAMETER_LAGS, PARAMETER_GATES = (16, 24, 32, 48, 64), (5, 10), (0.2, 0.5)
Row = dict[str, object]
Unit = tuple[Member, ...]


def clock_units(seed: int) -> Iterator[Unit]:
    """List the units of the clock: for each row every gate and every number of sequences."""
    for cell, optimizer in CLOCK_ROWS:
        conditions = [Condition(cell, gate, "recall", LAG, optimizer) for gate in GATES]
        pairs = itertools.product(conditions, COUNTS)
        yield tuple(Member(condition, "learned", count, seed) for condition, count in pairs)


def endless_units(seed: int) -> Iterator[Unit]:
    """List the units on endless data: all starts, for each arm."""
    for arm in ARMS:
        yield tuple(Member(start, arm, ENDLESS, seed) for start in starts())


def mobility_units(seed: int, folder: Path) -> Iterator[Unit]:
    """List the units on finite data: for each arm and scale every start that is left.

    Raises:
        FileNotFoundError: Part ``endless`` is not complete.
    """
    endless = recorded("endless", folder)
    if len(endless) < len(SEEDS["endless"]) * len(ARMS) * len(starts()):
        raise FileNotFoundError(f"{folder} lacks trainings of part 'endless'")
    taught = taught_starts(endless)
    for arm, mixing in itertools.product(ARMS, MIXINGS):
        left = [start for start in taught if start.mixing == mixing]
        if left:
            pairs = itertools.product(left, COUNTS)
            yield tuple(Member(start, arm, count, seed) for start, count in pairs)


def train_unit(unit: Unit) -> list[Row]:
    """Train the networks of a unit side by side; a row each."""
    keep_freed_memory()
    began = time.process_time()
    found = stacked.train(unit, CAP)
    seconds = (time.process_time() - began) / len(unit)
    rows = []
    for member, outcome in zip(unit, found, strict=True):
        named = asdict(member.condition) | {"arm": member.arm, "seed": member.seed}
        rows.append(named | {"count": member.count} | outcome | {"seconds": seconds})
    return rows


def start_conditions() -> list[Condition]:
    """List all that is measured before training: of the clock, of mobility and of the order."""
    clock = [Condition(cell, gate, "recall", LAG) for cell in ("MinGRU", "ConstGate")
             for gate in GATES]  # fmt: skip
    return clock + starts()


def order_conditions() -> list[Condition]:
    """List what the order between cells is asked of."""
    each = itertools.product(ORDER_LAGS, OPTIMIZERS, ORDER_CELLS, GATES)
    return [Condition(cell, gate, "recall", lag, optimizer) for lag, optimizer, cell, gate in each]


def parameter_conditions() -> list[tuple[Condition, int]]:
    """List conditions and widths of the part that counts parameters."""
    cells = ("ConstGate", "DiagGate", "LSTM")
    each = itertools.product(WIDTHS, PARAMETER_LAGS, PARAMETER_GATES, cells)
    return [(Condition(cell, gate, "regression", lag), width) for width, lag, gate, cell in each]


def measure_start(condition: Condition, seed: int) -> list[Row]:
    """Measure a start: its exact envelope, and N(ℓ), signal and size of the lag's gradient.

    The size is the mean along the lag's own direction, without the noise that N(ℓ) sets it against.
    """
    (row,) = visibility.carried(condition, seed)
    learner = Learner(condition, TASKS[condition.task](condition.lag), seed)
    part, whole = visibility.gradients(learner, condition, seed)
    half = len(part) // 2
    direction = unit_length(part[:half].mean(0))
    size = (part[half:] @ direction).mean().item()
    return [row | visibility.visible(part, whole) | {"size": size}]


def train_ordered(condition: Condition, seed: int) -> list[Row]:
    """Measure a start, then train it once on `ORDER_COUNT` sequences as in the dose experiment."""
    (start,) = measure_start(condition, seed)
    return [start | dose.train(condition, ORDER_COUNT, seed)]


def search_width(condition: Condition, width: int, seed: int) -> list[Row]:
    """Search for the least number of sequences from which a network of some width learns half."""
    rows = dose.search(condition, seed, hidden=width)
    size = {"width": width, "parameters": n_parameters(condition, width)}
    return [row | size for row in rows]


def taught_starts(endless: pd.DataFrame) -> list[Condition]:
    """Choose the starts from which endless data teach `TAUGHT` of the six seeds, held or not.

    The wide arm has no say: it is a control of the two that are compared.
    """
    compared = endless[endless["arm"].isin(["learned", "fixed"])]
    half = compared.assign(half=compared["end"] == "half")
    seeds = half.groupby(["gate", "mixing", "arm"])["half"].sum()
    least = seeds.groupby(["gate", "mixing"]).min()
    return [one for one in starts() if least[one.gate, one.mixing] >= TAUGHT]


@dataclass(frozen=True)
class Work:
    """A call that can be made alone, and the keys of the rows that it gives."""

    call: Callable[[], list[Row]]
    keys: frozenset[tuple[str, ...]]


def work(part: str, seed: int, folder: Path = FOLDER) -> list[Work]:
    """List all work of a part for a seed."""
    if part == "parameters":
        listed = []
        for condition, width in parameter_conditions():
            call = functools.partial(search_width, condition, width, seed)
            listed.append(Work(call, frozenset([_key(asdict(condition) | {"width": width})])))
        return listed
    if part in ("start", "order"):
        conditions = start_conditions() if part == "start" else order_conditions()
        measure = measure_start if part == "start" else train_ordered
        return [
            Work(functools.partial(measure, one, seed), frozenset([_key(asdict(one))]))
            for one in conditions
        ]
    if part == "mobility":
        units = mobility_units(seed, folder)
    else:
        units = clock_units(seed) if part == "clock" else endless_units(seed)
    listed = []
    for unit in units:
        keys = [_key(asdict(m.condition) | {"arm": m.arm, "count": m.count}) for m in unit]
        listed.append(Work(functools.partial(train_unit, unit), frozenset(keys)))
    return listed


def _key(row: Row) -> tuple[str, ...]:
    """Name a row of a seed's file by what was varied, as text, since a file holds text.

    A search tries several numbers of sequences: its rows have one name, without a number.
    """
    names = [*VARIED, "width", "arm"]
    if isinstance(row.get("arm"), str):
        names.append("count")
    values = [row.get(name) for name in names]
    return tuple("" if value is None or value != value else str(value) for value in values)


def record(part: str, seed: int, pool: Executor, folder: Path = FOLDER) -> None:
    """Do what is missing of a part for a seed; its file is written anew when a unit ends."""
    path = folder / f"{part}-{seed}.csv"
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    there = {_key(row) for row in rows}
    done = [one for one in work(part, seed, folder) if one.keys <= there]
    missing = [one for one in work(part, seed, folder) if not one.keys <= there]
    whole = frozenset().union(*(one.keys for one in done))
    rows = [row for row in rows if _key(row) in whole]
    revision = environment()["revision"]
    submitted = [pool.submit(one.call) for one in missing]
    for future in as_completed(submitted):
        rows += [row | {"revision": revision} for row in future.result()]
        table = pd.DataFrame(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, functools.partial(table.to_csv, index=False))


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line, and do one part after the other, all seeds of each."""
    options = argparse.ArgumentParser(description="Record the experiment on clock and quota.")
    options.add_argument("parts", nargs="*", default=PARTS, metavar="PART")
    options.add_argument("--workers", type=int, default=os.cpu_count())
    options.add_argument("--folder", type=Path, default=FOLDER)
    chosen = options.parse_args(words)
    torch.set_num_threads(1)
    with ProcessPoolExecutor(chosen.workers, initializer=os.nice, initargs=(19,)) as pool:
        for part in chosen.parts:
            for seed in SEEDS[part]:
                record(part, seed, pool, chosen.folder)


if __name__ == "__main__":
    main()
