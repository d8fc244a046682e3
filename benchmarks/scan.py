"""Time of a recurrence without recurrent weights, scanned in parallel over time (`make bench`).

Against its own steps in a row and against GRUs, on one thread, where a parallel scan gains by doing
few large operations in the place of many small ones.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.harness import Task, alone, medians, record
from benchmarks.steps import TorchLayer, step_of
from lwcore.cells import GRU, MinGRU, MinLSTM

BATCH, INPUT, HIDDEN = 8, 16, 64
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
ROUNDS = 3


def contestants(length: int) -> dict[str, dict[str, Task]]:
    """Scans, and training steps, of one length."""
    shape, inputs = (BATCH, length, INPUT, HIDDEN), torch.randn(BATCH, length, INPUT)
    kinds = MinGRU, MinLSTM, GRU
    layers: dict[str, nn.Module] = {kind.__name__: kind(INPUT, HIDDEN) for kind in kinds}
    layers["nn.GRU"] = TorchLayer(nn.GRU(INPUT, HIDDEN, batch_first=True))
    cell, by_steps = MinGRU(INPUT, HIDDEN), "MinGRU, by steps"

    def alone(scan: Callable[[Tensor], Tensor]) -> Task:
        return lambda: torch.no_grad()(scan)(inputs)

    scans = {name: alone(layer) for name, layer in layers.items()}
    steps = {name: step_of(layer, shape) for name, layer in layers.items()}
    return {
        "scan": scans | {by_steps: alone(cell.unrolled)},
        "training step": {**steps, by_steps: step_of(cell, shape, cell.unrolled)},
    }


def main() -> None:
    """Time, print and record."""
    alone()
    measured = {
        length: {what: medians(tasks, ROUNDS) for what, tasks in contestants(length).items()}
        for length in LENGTHS
    }
    for what in ("scan", "training step"):
        times = pd.DataFrame({length: found[what] for length, found in measured.items()}).T
        print(f"{what}, ms", (1e3 * times).round(1).to_string(), sep="\n")
    record("scan", {"shape": [BATCH, INPUT, HIDDEN], "rounds": ROUNDS, "seconds": measured})


if __name__ == "__main__":
    main()
