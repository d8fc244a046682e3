"""Time of effective rates: exact diagonals, and first order with the statistic (`make bench`).

The floor of the exact diagonals is their matrix products alone, in the same shapes.
"""

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
    """Make the two contestants: exact diagonals, and their matrix products alone."""
    trace = CELLS[kind](INPUT, hidden).trace(torch.randn(batch, steps, INPUT))
    end_points = torch.linspace(lags[-1], steps - 1, ends).long().tolist()
    rows = torch.randn(ends, hidden, hidden)
    jacobian = torch.randn(ends, hidden, hidden)
    product = torch.randn(ends, hidden, hidden)
    products_a_step = 2 if kind == "LSTM" else 1  # its state has two parts
    n_products = products_a_step * batch * lags[-1]

    def products() -> None:
        for _ in range(n_products):
            torch.bmm(rows, jacobian, out=product)

    def diagonals() -> object:
        return effective_rates(trace, lags, "exact", end_points)

    return {"exact": diagonals, "products": products}


def first(kind: str, hidden: int = 64, batch: int = 64, steps: int = 512, count: int = 128) -> Task:
    """Make a task of first-order rates and the statistic, streamed, at a number of lags."""
    cell = CELLS[kind](INPUT, hidden)
    trace = cell.trace(torch.randn(batch, steps, INPUT))
    delta = torch.randn(batch, steps, hidden)
    moved = trace.carried(immediate_sensitivity(trace, random_direction(cell)))
    signs = torch.randn(count, hidden).sign()
    aim = Aim(delta, moved, signs)
    lags = [2 * (number + 1) for number in range(count)]
    _ = trace.neurons  # computed now, not in the first call
    return lambda: lag_statistics(trace, [aim], lags, "first")


def main() -> None:
    """Time, print and record."""
    alone()
    streamed = medians({kind: first(kind) for kind in CELLS}, 5)
    diagonals = {kind: medians(exact(kind, 64, LAGS), 1) for kind in CELLS}
    table = pd.DataFrame(diagonals).T.assign(first=streamed)
    print("seconds", table.round(2).to_string(), sep="\n")
    sweeps = []
    for kind in CELLS:
        for lag in (30, 61, 122, 245):
            task = exact(kind, 64, [lag], ends=8)["exact"]
            duration = medians({"exact": task}, 3)["exact"]
            point = {"size": "L", "kind": kind, "lag": lag, "hidden": 64}
            sweeps.append(point | {"seconds": duration})
    record("transport", {"exact": diagonals, "first": streamed, "sweeps": sweeps})


if __name__ == "__main__":
    main()
