"""This revision beside an earlier one, in one run: training steps, exact diagonals, the statistic.

``python -m benchmarks.beside [REVISION]``, by default 48216a8. The earlier package is taken out of
git into a folder of its own, and imported by a second process with its own benchmarks, which make
contestants by the same names; it works only while this one waits.
"""

from __future__ import annotations

import functools
import io
import itertools
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pandas as pd

from benchmarks import steps, transport
from benchmarks.harness import Task, alone, medians, record
from lwcore.cells import Cell

# A line is an expression, which makes a contestant, or the number of one, which is run.
SERVER = """
import sys, torch
from benchmarks import steps, transport
try:
    from lwcore.network import keep_freed_memory
except ImportError:  # until it moved
    from lwcore.train import keep_freed_memory
torch.set_num_threads(1)
torch.manual_seed(0)
keep_freed_memory()
contestants = []
for line in sys.stdin:
    if line.strip().isdigit():
        contestants[int(line)]()
    else:
        contestants.append(eval(line))
    print("done", flush=True)
"""


@contextmanager
def earlier(revision: str) -> Iterator[Callable[[str], Task]]:
    """Give a function that makes contestants of an earlier revision, from expressions."""
    packing = ["git", "archive", revision, "lwcore", "benchmarks"]
    packed = subprocess.run(packing, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        with subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            numbers = itertools.count()

            def ask(line: str) -> None:
                print(line, file=process.stdin, flush=True)
                if process.stdout is None or process.stdout.readline() != "done\n":
                    raise RuntimeError(f"revision {revision} could not do: {line}")

            def make(expression: str) -> Task:
                ask(expression)
                return functools.partial(ask, str(next(numbers)))

            yield make


class Contest(NamedTuple):
    """What is timed of a cell: now, and in the earlier revision."""

    name: str
    rounds: int
    make_ours: Callable[[], Task]
    theirs: str  # an expression that makes the same task


def contests(kind: str, cell: Callable[[int, int], Cell]) -> Iterator[Contest]:
    """Yield the contests of one family of cells."""
    for name, (shape, rounds) in steps.SHAPES.items():
        *_, width, hidden = shape
        theirs = f"steps.step_of(steps.CELLS[{kind!r}]({width}, {hidden}), {shape})"
        make_ours = functools.partial(_step_of, cell, shape)
        yield Contest(f"training step, {name}", rounds, make_ours, theirs)
    exact = f"transport.exact({kind!r}, 64, {transport.LAGS})['exact']"
    yield Contest(
        "exact diagonals", 1, lambda: transport.exact(kind, 64, transport.LAGS)["exact"], exact
    )
    statistic = f"transport.first({kind!r})"
    yield Contest("first order and statistic", 5, lambda: transport.first(kind), statistic)


def _step_of(cell: Callable[[int, int], Cell], shape: steps.Shape) -> Task:
    """Make a training step of a cell of the widths of a shape."""
    *_, width, hidden = shape
    return steps.step_of(cell(width, hidden), shape)


def main(revision: str = "48216a8") -> None:
    """Time, print and record."""
    alone()
    measured = []
    rows = {}
    with earlier(revision) as make:
        for kind, cell in steps.CELLS.items():
            for contest in contests(kind, cell):
                # One at a time, from fresh memory: what others leave behind decides whether large
                # arrays are mapped anew at every step.
                tasks = {"now": contest.make_ours(), "then": make(contest.theirs)}
                if contest.rounds > 1:
                    medians(tasks, 2)  # not counted
                taken = medians(tasks, contest.rounds)
                measured.append({"kind": kind, "what": contest.name, "seconds": taken})
                rows[kind, contest.name] = taken
    table = 1e3 * pd.DataFrame(rows).T
    print(f"ms, now and at {revision}", table.assign(ratio=table.now / table.then).round(2))
    record("beside", {"revision": revision, "measured": measured})


if __name__ == "__main__":
    main(*sys.argv[1:])
