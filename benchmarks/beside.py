"""This revision beside an earlier one, in one run: training steps, exact diagonals, and first order with the statistic.

``python -m benchmarks.beside [REVISION]``, by default 48216a8. The earlier package is taken out of git into a folder of its own, and
imported by a second process with its own benchmarks, which make contestants by the same names; it works only while this one waits.
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
    """Give a function that makes contestants of an earlier revision, from expressions over its benchmarks `steps` and `transport`."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", revision, "lwcore", "benchmarks"], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        command = [sys.executable, "-c", SERVER]
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            numbers = itertools.count()

            def ask(line: str) -> None:
                print(line, file=process.stdin, flush=True)
                if process.stdout is None or process.stdout.readline() != "done\n":
                    raise RuntimeError(f"revision {revision} could not do: {line}")

            def make(expression: str) -> Task:
                ask(expression)
                return functools.partial(ask, str(next(numbers)))

            yield make


def main(revision: str = "48216a8") -> None:
    """Time, print and record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    table = Table("cell", "what", "now, ms", f"{revision}, ms", "now over then", box=None, header_style="bold")
    measured = []
    with earlier(revision) as make:
        for kind, cell in steps.CELLS.items():
            tasks: dict[str, tuple[int, Task, Task]] = {}
            for name, (shape, rounds) in steps.SHAPES.items():
                *_, inputs, hidden = shape
                then = make(f"steps.step_of(steps.CELLS[{kind!r}]({inputs}, {hidden}), {shape})")
                tasks[f"training step, {name}"] = rounds, steps.step_of(cell(inputs, hidden), shape), then
            exact = f"transport.exact({kind!r}, 64, {LAGS})['exact']"
            tasks["exact diagonals"] = 1, transport.exact(kind, 64, LAGS)["exact"], make(exact)
            tasks["first order and statistic"] = 5, transport.first(kind), make(f"transport.first({kind!r})")
            for what, (rounds, ours, theirs) in tasks.items():
                seconds = medians(alternate({"now": ours, "then": theirs}, rounds))
                measured.append({"kind": kind, "what": what, "seconds": seconds})
                ms = {when: f"{1e3 * taken:.1f}" for when, taken in seconds.items()}
                table.add_row(kind, what, *ms.values(), f"{seconds['now'] / seconds['then']:.2f}")
    console = Console(width=120)
    console.print(table)
    console.print(f"recorded in {record('beside', {'revision': revision, 'measured': measured})}")


if __name__ == "__main__":
    main(*sys.argv[1:])
