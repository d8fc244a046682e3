"""Time and memory of the effective rates, on one thread: exact diagonals, first order with the
statistic, growth with L and H.

Run with ``make bench``. The floor of the exact diagonals is their matrix products alone, in the
same shapes.
"""

from __future__ import annotations

import resource
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.harness import alternate, medians, record
from benchmarks.steps import CELLS
from lwcore.gradient import Aim, immediate_sensitivity, lag_statistics, random_direction
from lwcore.transport import effective_rates

INPUT = 16


def exact(
    kind: str, hidden: int, lags: list[int], ends: int = 50, batch: int = 16, steps: int = 500
) -> dict[str, Callable[[], object]]:
    """Make the two contestants: exact diagonals, and their matrix products alone."""
    cell = CELLS[kind](INPUT, hidden)
    trace = cell.trace(torch.randn(batch, steps, INPUT))
    spread = torch.linspace(lags[-1], steps - 1, ends).long().tolist()
    rows, jacobians, out = (torch.randn(ends, hidden, hidden) for _ in range(3))
    a_step = 2 if kind == "LSTM" else 1

    def products() -> None:
        for _ in range(a_step * batch * lags[-1]):
            torch.bmm(rows, jacobians, out=out)

    return {"exact": lambda: effective_rates(trace, lags, "exact", spread), "products": products}


def first(
    kind: str, hidden: int = 64, batch: int = 64, steps: int = 512, count: int = 128
) -> Callable[[], object]:
    """Make the contestant that computes first-order rates and the statistic, streamed."""
    cell = CELLS[kind](INPUT, hidden)
    trace = cell.trace(torch.randn(batch, steps, INPUT))
    delta, lags = torch.randn(batch, steps, hidden), list(range(2, 2 * count + 2, 2))
    moved, signs = (
        trace.carried(immediate_sensitivity(trace, random_direction(cell))),
        torch.randn(count, hidden).sign(),
    )
    _ = trace.neurons
    return lambda: lag_statistics(trace, [Aim(delta, moved, signs)], lags, "first")


def peak_memory() -> float:
    """Give the most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Time, print and record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lags = [4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 200, 245]
    console = Console(width=120)
    streamed = medians(alternate({kind: first(kind) for kind in CELLS}, 5))
    memory = {"first": peak_memory()}
    shown = Table(
        "rates",
        "exact, s",
        "their products, s",
        "first order and statistic, s",
        box=None,
        header_style="bold",
    )
    diagonals = {}
    for kind in CELLS:
        diagonals[kind] = medians(alternate(exact(kind, 64, lags), 1))
        shown.add_row(
            kind,
            f"{diagonals[kind]['exact']:.2f}",
            f"{diagonals[kind]['products']:.2f}",
            f"{streamed[kind]:.2f}",
        )
    memory["exact"] = peak_memory()
    console.print(
        "exact: H = 64, T = 500, 16 sequences, 50 end points, 12 lags up to 245; first order: B = "
        "64, T = 512, H = 64, 128 lags"
    )
    console.print(shown)
    console.print(
        f"most memory held: {memory['first']:.0f} MB (first order), {memory['exact']:.0f} MB "
        "(exact)"
    )
    sweeps = []
    for kind in CELLS:
        for last in (30, 61, 122, 245):
            taken = medians(alternate({"exact": exact(kind, 64, [last], ends=8)["exact"]}, 3))[
                "exact"
            ]
            sweeps.append({"size": "L", "kind": kind, "lag": last, "hidden": 64, "seconds": taken})
        for hidden in (16, 32, 64, 128):
            taken = medians(alternate({"exact": exact(kind, hidden, [61], ends=8)["exact"]}, 3))[
                "exact"
            ]
            sweeps.append(
                {"size": "H", "kind": kind, "lag": 61, "hidden": hidden, "seconds": taken}
            )
    path = record(
        "transport", {"exact": diagonals, "first": streamed, "memory_mb": memory, "sweeps": sweeps}
    )
    console.print(f"recorded in {path}")


if __name__ == "__main__":
    main()
