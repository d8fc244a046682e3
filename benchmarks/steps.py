"""Time of one training step, forward + backward + AdamW, on one thread: our cells against a loop
over `step` and PyTorch's layers.

Run with ``make bench``. The limit beside the ratio to `nn.LSTM` is 1.5 times the share of its
recurrent matrices, at least a half. The share of the matrix-product rate compares a step with its
matrix products alone, in the same shapes and on the same thread: those of the scan, of the way
back, and of the weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.harness import alternate, medians, record
from lwcore.cells import GRU, LSTM, Cell, ConstGate, DiagGate, SharedGate
from lwcore.train import keep_freed_memory

Shape = tuple[int, int, int, int]  # B, T, D, H
# with the number of rounds
SHAPES: dict[str, tuple[Shape, int]] = {
    "small": ((32, 256, 16, 64), 15),
    "large": ((128, 512, 16, 128), 9),
}
SWEEPS: dict[str, list[Shape]] = {
    "T": [(32, t, 16, 64) for t in (64, 128, 256, 512, 1024)],
    "B": [(b, 256, 16, 64) for b in (8, 16, 32, 64, 128)],
    "H": [(32, 256, 16, h) for h in (16, 32, 64, 128, 256)],
}
CELLS: dict[str, Callable[[int, int], Cell]] = {
    "ConstGate": ConstGate,
    "SharedGate": SharedGate,
    "DiagGate": DiagGate,
    "GRU": GRU,
    "LSTM": LSTM,
}
MATRICES = {"ConstGate": 1, "SharedGate": 1, "DiagGate": 2, "GRU": 3, "LSTM": 4}


class TorchLayer(nn.Module):
    """A layer of PyTorch, its states alone."""

    def __init__(self, layer: nn.RNNBase) -> None:
        """Take a layer."""
        super().__init__()
        self.layer = layer

    def forward(self, inputs: Tensor) -> Tensor:
        """Scan (B, T, D) to (B, T, H)."""
        states, _ = self.layer(inputs)
        return states


def step_of(
    layer: nn.Module, shape: Shape, scan: Callable[[Tensor], Tensor] | None = None
) -> Callable[[], None]:
    """Make a function that takes one training step of a layer with a linear readout, by another
    scan if there is one."""
    batch, steps, inputs_size, hidden = shape
    inputs, targets = torch.randn(batch, steps, inputs_size), torch.randn(batch, steps)
    readout = nn.Linear(hidden, 1)
    descent = torch.optim.AdamW([*layer.parameters(), *readout.parameters()], lr=1e-3)

    def step() -> None:
        descent.zero_grad()
        (readout((scan or layer)(inputs)).squeeze(-1) - targets).square().mean().backward()
        descent.step()

    return step


def loop_of(cell: Cell, shape: Shape) -> Callable[[], None]:
    """Make one that runs a cell as one would first write it: a loop over its equations,
    differentiated by autograd."""
    return step_of(cell, shape, cell.unrolled)


def products_of(matrices: int, shape: Shape) -> Callable[[], None]:
    """Make a function that does a step's matrix products and nothing else."""
    batch, steps, inputs_size, hidden = shape
    rows = matrices * hidden
    state, weight, pre, back = (
        torch.randn(batch, hidden),
        torch.randn(hidden, rows),
        torch.empty(batch, rows),
        torch.empty(batch, hidden),
    )
    inputs, states, adjoints = (
        torch.randn(batch * steps, size) for size in (inputs_size, hidden, rows)
    )
    drive, of_inputs, of_states = (
        torch.empty(batch * steps, rows),
        torch.empty(rows, inputs_size),
        torch.empty(rows, hidden),
    )
    input_weight = torch.randn(inputs_size, rows)

    def step() -> None:
        for _ in range(steps):
            torch.mm(state, weight, out=pre)
            torch.mm(pre, weight.t(), out=back)
        torch.mm(inputs, input_weight, out=drive)
        torch.mm(adjoints.t(), inputs, out=of_inputs)
        torch.mm(adjoints.t(), states, out=of_states)

    return step


def operations(matrices: int, shape: Shape) -> float:
    """Count the floating-point operations of those matrix products."""
    batch, steps, inputs_size, hidden = shape
    return 2.0 * batch * steps * matrices * hidden * (3 * hidden + 2 * inputs_size)


def compare(shape: Shape, rounds: int) -> dict[str, float]:
    """Time all contestants at one shape: median seconds by name."""
    *_, inputs_size, hidden = shape
    contestants = {kind: step_of(make(inputs_size, hidden), shape) for kind, make in CELLS.items()}
    contestants |= {
        f"{kind}, naive loop": loop_of(make(inputs_size, hidden), shape)
        for kind, make in CELLS.items()
    }
    contestants |= {f"{kind}, products": products_of(MATRICES[kind], shape) for kind in CELLS}
    for layer in (nn.LSTM, nn.GRU):
        contestants[f"nn.{layer.__name__}"] = step_of(
            TorchLayer(layer(inputs_size, hidden, batch_first=True)), shape
        )
    return medians(alternate(contestants, rounds))


def table(name: str, shape: Shape, median: dict[str, float]) -> Table:
    """Lay out a comparison."""
    sizes = ", ".join(f"{letter} = {size}" for letter, size in zip("BTDH", shape, strict=True))
    columns = (
        "one training step",
        "ms",
        "over nn.LSTM",
        "limit",
        "naive loop over it",
        "GFLOP/s",
        "share of products' rate",
    )
    result = Table(
        *columns, title=f"{name}: {sizes}, float32, one thread", box=None, header_style="bold"
    )
    for kind, matrices in MATRICES.items():
        taken = median[kind]
        result.add_row(
            kind,
            f"{1e3 * taken:.1f}",
            f"{taken / median['nn.LSTM']:.2f}",
            f"{1.5 * max(matrices / 4, 0.5):.2f}",
            f"{median[f'{kind}, naive loop'] / taken:.2f}",
            f"{1e-9 * operations(matrices, shape) / taken:.0f}",
            f"{median[f'{kind}, products'] / taken:.2f}",
        )
    for kind in ("nn.LSTM", "nn.GRU"):
        result.add_row(kind, f"{1e3 * median[kind]:.1f}", f"{median[kind] / median['nn.LSTM']:.2f}")
    return result


def main() -> None:
    """Time all contestants at both shapes and the cells over sweeps of the sizes; print and
    record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()  # as training does; it serves all contestants
    console, shapes, sweeps = Console(width=120), {}, []
    for name, (shape, rounds) in SHAPES.items():
        median = compare(shape, rounds)
        shapes[name] = {"shape": shape, "rounds": rounds, "seconds": median}
        console.print(table(name, shape, median))
    for size, sweep in SWEEPS.items():
        for shape in sweep:
            *_, inputs_size, hidden = shape
            contestants = {
                kind: step_of(make(inputs_size, hidden), shape) for kind, make in CELLS.items()
            }
            sweeps.append(
                {"size": size, "shape": shape, "seconds": medians(alternate(contestants, 5))}
            )
    console.print(f"recorded in {record('steps', {'shapes': shapes, 'sweeps': sweeps})}")


if __name__ == "__main__":
    main()
