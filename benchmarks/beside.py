"""This revision beside an earlier one, in one run: training steps, exact diagonals, and first order
with the statistic.

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

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import steps, transport
from benchmarks.harness import alternate, medians, record
from lwcore.cells import Cell
from lwcore.train import keep_freed_memory

Task = Callable[[], object]
LAGS = [4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 200, 245]

# A line is an expression, which makes a contestant, or the number of one, which is run.
SERVER = """
import sys, torch
from benchmarks import steps, transport
from lwcore.train import keep_freed_memory
torch.set_num_threads(1)
torch.manual_seed(0)
keep_freed_memory()
made = []
for line in sys.stdin:
    if line.strip().isdigit():
        made[int(line)]()
    else:
        made.append(eval(line))
    print("done", flush=True)
"""


@contextmanager
def earlier(revision: str) -> Iterator[Callable[[str], Task]]:
    """Give a function that makes contestants of an earlier revision, from expressions over its
    benchmarks `steps` and `transport`."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", revision, "lwcore", "benchmarks"], check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        command = [sys.executable, "-c", SERVER]
        with subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def step(cell: Callable[[int, int], Cell], shape: steps.Shape) -> Task:
    """Make a training step of ours."""
    return steps.step_of(cell(*shape[2:]), shape)


def contestants(
    kind: str, cell: Callable[[int, int], Cell]
) -> Iterator[tuple[str, int, Callable[[], Task], str]]:
    """Name what is timed of a cell, with the number of rounds, a function that makes ours, and an
    expression that makes theirs."""
    for name, (shape, rounds) in steps.SHAPES.items():
        *_, inputs, hidden = shape
        ours = functools.partial(step, cell, shape)
        yield (
            f"training step, {name}",
            rounds,
            ours,
            f"steps.step_of(steps.CELLS[{kind!r}]({inputs}, {hidden}), {shape})",
        )
    exact = f"transport.exact({kind!r}, 64, {LAGS})['exact']"
    yield "exact diagonals", 1, lambda: transport.exact(kind, 64, LAGS)["exact"], exact
    yield (
        "first order and statistic",
        5,
        lambda: transport.first(kind),
        f"transport.first({kind!r})",
    )


def main(revision: str = "48216a8") -> None:
    """Time, print and record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    table = Table(
        "cell", "what", "now, ms", f"{revision}, ms", "now over then", box=None, header_style="bold"
    )
    measured = []
    with earlier(revision) as make:
        for kind, cell in steps.CELLS.items():
            for what, rounds, ours, theirs in contestants(kind, cell):
                # One at a time, from fresh memory: what others leave behind decides whether large
                # arrays are mapped anew at every step.
                tasks = {"now": ours(), "then": make(theirs)}
                for _ in range(min(3, rounds)):
                    alternate(tasks, 0)
                seconds = medians(alternate(tasks, rounds))
                measured.append({"kind": kind, "what": what, "seconds": seconds})
                ms = {when: f"{1e3 * taken:.1f}" for when, taken in seconds.items()}
                table.add_row(kind, what, *ms.values(), f"{seconds['now'] / seconds['then']:.2f}")
    console = Console(width=120)
    console.print(table)
    console.print(f"recorded in {record('beside', {'revision': revision, 'measured': measured})}")


if __name__ == "__main__":
    main(*sys.argv[1:])
