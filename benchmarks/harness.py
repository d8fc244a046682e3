"""What benchmarks share: rounds that alternate between contestants, and a record for the book.

Only ratios within one run mean anything. Rounds alternate, so that a slow minute of the machine
hits all contestants.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from lwcore import results
from lwcore.network import keep_freed_memory

RECORDS = Path("book/results/bench")
Task = Callable[[], object]


def alone() -> None:
    """Give everybody one thread, one start of random numbers, and memory kept as in training."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()


def seconds(task: Task) -> float:
    """Return the duration of one call."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def medians(tasks: Mapping[str, Task], rounds: int) -> dict[str, float]:
    """Return the median seconds of each contestant: one call each to warm up, then round by round.

    Within a round everybody has one turn, so that all see the same state of the machine.
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            duration = seconds(task)
            if number > 0:  # not the one to warm up
                times[name].append(duration)
    return {name: statistics.median(durations) for name, durations in times.items()}


def record(name: str, measured: Mapping[str, Any]) -> None:
    """Store plain numbers, texts, lists and dictionaries as JSON, with what they ran on.

    The speed of a matrix product, measured now, says how much of the machine there was.
    """
    left = torch.randn(1024, 1024)
    right = torch.randn(1024, 1024)
    product = medians({"product": lambda: torch.mm(left, right)}, 15)["product"]
    environment = results.environment() | {
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "gemm_gflops": 2e-9 * 1024**3 / product,
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{name}.json"
    text = json.dumps({"environment": environment, **measured}, indent=1, ensure_ascii=False)
    results.write_atomically(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))
    print(f"recorded in {path}")
