"""Time of effective rates: exact diagonals, and first order with the statistic (`make bench`).

The floor of the exact diagonals is their matrix products alone, in the same shapes.
"""

import itertools

import pandas as pd
import torch

from benchmarks.harness import Task, alone, medians, record
from benchmarks.steps import CELLS
from lwcore.gradient import Aim, immediate_sensitivity, lag_statistics, random_direction
from lwcore.transport import effective_rates

INPUT = 16
LAGS = [4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 200, 245]


def exact(
    kind: str, hidden: int, lags: list[int], ends: int = 50, batch: int = 16, steps: int = 500
) -> dict[str, Task]:
    """The two contestants: exact diagonals, and their matrix products alone."""
    trace = CELLS[kind](INPUT, hidden).trace(torch.randn(batch, steps, INPUT))
    spread = torch.linspace(lags[-1], steps - 1, ends).long().tolist()
    rows, jacobians, out = (torch.randn(ends, hidden, hidden) for _ in range(3))
    a_step = 2 if kind == "LSTM" else 1

    def products() -> None:
        for _ in range(a_step * batch * lags[-1]):
            torch.bmm(rows, jacobians, out=out)

    return {"exact": lambda: effective_rates(trace, lags, "exact", spread), "products": products}


def first(kind: str, hidden: int = 64, batch: int = 64, steps: int = 512, count: int = 128) -> Task:
    """First-order rates and the statistic, streamed."""
    cell = CELLS[kind](INPUT, hidden)
    trace = cell.trace(torch.randn(batch, steps, INPUT))
    delta, lags = torch.randn(batch, steps, hidden), list(range(2, 2 * count + 2, 2))
    moved = trace.carried(immediate_sensitivity(trace, random_direction(cell)))
    signs = torch.randn(count, hidden).sign()
    _ = trace.neurons
    return lambda: lag_statistics(trace, [Aim(delta, moved, signs)], lags, "first")


def main() -> None:
    """Time, print and record."""
    alone()
    streamed = medians({kind: first(kind) for kind in CELLS}, 5)
    diagonals = {kind: medians(exact(kind, 64, LAGS), 1) for kind in CELLS}
    table = pd.DataFrame(diagonals).T.assign(first=streamed)
    print("seconds", table.round(2).to_string(), sep="\n")
    sweeps = []
    for kind, lag in itertools.product(CELLS, (30, 61, 122, 245)):
        task = {"exact": exact(kind, 64, [lag], ends=8)["exact"]}
        point = {"size": "L", "kind": kind, "lag": lag, "hidden": 64}
        sweeps.append(point | {"seconds": medians(task, 3)["exact"]})
    record("transport", {"exact": diagonals, "first": streamed, "sweeps": sweeps})


if __name__ == "__main__":
    main()
