"""Memory that one training step needs above what the process holds anyway, with and without recomputation in chunks of √T steps.

Run with ``make bench``. Each size is measured in a process of its own, by the largest resident set the system has seen.
"""

from __future__ import annotations

import math
import multiprocessing
import resource

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.harness import record
from lwcore.cells import DiagGate
from lwcore.network import Network

BATCH, INPUT, HIDDEN = 8, 16, 64
LENGTHS = (1024, 2048, 4096, 8192, 16384)


def step_memory(length: int, chunk: int | None) -> float:
    """Take two steps, a short one to warm up and the one that counts; give the growth of the largest resident set, in MB."""
    torch.set_num_threads(1)
    network = Network(DiagGate(INPUT, HIDDEN))
    inputs, targets = torch.randn(BATCH, length, INPUT), torch.randn(BATCH, length)
    network.loss(inputs[:, :8], targets[:, :8], 4).backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    network.loss(inputs, targets, chunk).backward()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    """Measure, print and record."""
    spawn = multiprocessing.get_context("spawn")
    measured = []
    for length in LENGTHS:
        for chunk in (None, math.isqrt(length)):
            with spawn.Pool(1) as pool:
                measured.append({"length": length, "chunk": chunk, "mb": pool.apply(step_memory, (length, chunk))})
    table = Table("T", "all kept, MB", "in chunks of √T, MB", box=None, header_style="bold")
    for whole, parts in zip(measured[::2], measured[1::2], strict=True):
        table.add_row(f"{whole['length']}", f"{whole['mb']:.1f}", f"{parts['mb']:.1f}")
    console = Console()
    console.print(f"DiagGate, B = {BATCH}, D = {INPUT}, H = {HIDDEN}: memory of a training step above that of the process")
    console.print(table)
    console.print(f"recorded in {record('memory', {'shape': [BATCH, INPUT, HIDDEN], 'measured': measured})}")


if __name__ == "__main__":
    main()
