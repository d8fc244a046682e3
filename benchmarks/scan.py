"""Time of a recurrence without recurrent weights, scanned in parallel over time, against its own
steps in a row and against GRUs.

Run with ``make bench``; on one thread, where a parallel scan gains by doing few large operations in
the place of many small ones. Two times each: of the scan alone, and of a whole training step
(forward, backward, AdamW).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.harness import alternate, medians, record
from benchmarks.steps import TorchLayer, loop_of, step_of
from lwcore.cells import GRU, MinGRU, MinLSTM
from lwcore.train import keep_freed_memory

BATCH, INPUT, HIDDEN = 8, 16, 64
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
ROUNDS = 3


def contestants(length: int) -> dict[str, dict[str, Callable[[], object]]]:
    """Make them for one length: scans, and training steps."""
    shape, inputs = (BATCH, length, INPUT, HIDDEN), torch.randn(BATCH, length, INPUT)
    layers: dict[str, nn.Module] = {
        kind.__name__: kind(INPUT, HIDDEN) for kind in (MinGRU, MinLSTM, GRU)
    }
    layers["nn.GRU"] = TorchLayer(nn.GRU(INPUT, HIDDEN, batch_first=True))
    cell = MinGRU(INPUT, HIDDEN)

    def alone(scan: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.no_grad()(scan)(inputs)

    scans = {name: alone(layer) for name, layer in layers.items()}
    steps: dict[str, Callable[[], object]] = {
        name: step_of(layer, shape) for name, layer in layers.items()
    }
    by_steps = "MinGRU, by steps"
    return {
        "scan": scans | {by_steps: alone(cell.unrolled)},
        "training step": steps | {by_steps: loop_of(cell, shape)},
    }


def main() -> None:
    """Time, print and record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    console, measured = Console(width=120), {}
    for length in LENGTHS:
        measured[length] = {
            what: medians(alternate(tasks, ROUNDS)) for what, tasks in contestants(length).items()
        }
    for what, first in measured[LENGTHS[0]].items():
        table = Table(
            "T", *(f"{name}, ms" for name in first), title=what, box=None, header_style="bold"
        )
        for length, seconds in measured.items():
            table.add_row(
                f"{length:,}", *(f"{1e3 * taken:.1f}" for taken in seconds[what].values())
            )
        console.print(table)
    found = {"shape": [BATCH, INPUT, HIDDEN], "rounds": ROUNDS, "seconds": measured}
    console.print(f"recorded in {record('scan', found)}")


if __name__ == "__main__":
    main()
