"""What the benchmarks share: rounds that alternate between contestants, and a record of each run
for the book.

Only ratios within one run mean anything. Rounds alternate, so that a slow minute of the machine
hits all contestants.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from lwcore import results

RECORDS = Path("book/results/bench")


def seconds(task: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def alternate(
    contestants: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Time all contestants, in seconds: one call each to warm up, then round by round."""
    for task in contestants.values():
        task()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, task in contestants.items():
            times[name].append(seconds(task))
    return times


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """Take each contestant's median round."""
    return {name: statistics.median(rounds) for name, rounds in times.items()}


def gemm_rate(rows: int = 1024) -> float:
    """Measure the rate of a large single-precision matrix product on this thread, in GFLOP/s."""
    one, other = torch.randn(rows, rows), torch.randn(rows, rows)
    out = torch.empty(rows, rows)
    times = alternate({"product": lambda: torch.mm(one, other, out=out)}, 15)
    return 2e-9 * rows**3 / medians(times)["product"]


def record(name: str, measured: Mapping[str, Any]) -> Path:
    """Store a run as JSON, with what it ran on.

    Args:
        name: Name of the benchmark.
        measured: Plain numbers, texts, lists and dictionaries.

    Returns:
        The file.
    """
    environment = results.environment() | {
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "gemm_gflops": gemm_rate(),
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{name}.json"
    text = json.dumps({"environment": environment, **measured}, indent=1, ensure_ascii=False)
    results.write_atomically(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))
    return path
