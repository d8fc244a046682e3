"""Time of a training step: our cells, loops over their equations, PyTorch's layers (`make bench`).

A step is forward, backward and AdamW. The matrix products alone, in the same shapes, are the floor:
those of the scan, of the way back, and of the weights.
"""

import functools
from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.harness import Task, alone, medians, record
from lwcore.cells import GRU, LSTM, Cell, ConstGate, DiagGate, SharedGate

Shape = tuple[int, int, int, int]  # B, T, D, H
SHAPES: dict[str, tuple[Shape, int]] = {  # with the number of rounds
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


def step_of(
    layer: nn.Module, shape: Shape, scan: Callable[[Tensor], Tensor] | None = None
) -> Callable[[], None]:
    """A training step of a layer with a linear readout, by another scan if there is one."""
    batch, length, width, hidden = shape
    inputs, targets = torch.randn(batch, length, width), torch.randn(batch, length)
    readout = nn.Linear(hidden, 1)
    descent = torch.optim.AdamW([*layer.parameters(), *readout.parameters()], lr=1e-3)

    def step() -> None:
        descent.zero_grad()
        (readout((scan or layer)(inputs)).squeeze(-1) - targets).square().mean().backward()
        descent.step()

    return step


def products_of(matrices: int, shape: Shape) -> Task:
    """A step's matrix products and nothing else."""
    batch, length, width, hidden = shape
    rows, every = matrices * hidden, batch * length
    state, weight = torch.randn(batch, hidden), torch.randn(hidden, rows)
    inputs, states, adjoints = (torch.randn(every, size) for size in (width, hidden, rows))
    drive, before, after = (
        torch.randn(width, rows),
        torch.empty(batch, rows),
        torch.empty(batch, hidden),
    )

    def step() -> None:
        for _ in range(length):
            torch.mm(state, weight, out=before)
            torch.mm(before, weight.t(), out=after)
        _ = inputs @ drive, adjoints.t() @ inputs, adjoints.t() @ states

    return step


def main() -> None:
    """Time all contestants at both shapes and the cells over sweeps of the sizes, and record."""
    alone()
    shapes, sweeps = {}, []
    for name, (shape, rounds) in SHAPES.items():
        *_, width, hidden = shape
        tasks: dict[str, Task] = {}
        for layer in (nn.LSTM, nn.GRU):
            theirs = layer(width, hidden, batch_first=True)
            states = functools.partial(lambda layer, inputs: layer(inputs)[0], theirs)
            tasks[f"nn.{layer.__name__}"] = step_of(theirs, shape, states)
        for kind, make in CELLS.items():
            naive = make(width, hidden)
            tasks[kind] = step_of(make(width, hidden), shape)
            tasks[f"{kind}, naive loop"] = step_of(naive, shape, naive.unrolled)
            tasks[f"{kind}, products"] = products_of(MATRICES[kind], shape)
        taken = medians(tasks, rounds)
        shapes[name] = {"shape": shape, "rounds": rounds, "seconds": taken}
        print(name, shape, (1e3 * pd.Series(taken, name="ms")).round(1).to_string(), sep="\n")
    for size, sweep in SWEEPS.items():
        for shape in sweep:
            cells = {kind: step_of(make(*shape[2:]), shape) for kind, make in CELLS.items()}
            sweeps.append({"size": size, "shape": shape, "seconds": medians(cells, 5)})
    record("steps", {"shapes": shapes, "sweeps": sweeps})


if __name__ == "__main__":
    main()
