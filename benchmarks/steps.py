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
    """Make a training step of a layer with a linear readout, by another scan if there is one."""
    batch, length, width, hidden = shape
    inputs = torch.randn(batch, length, width)
    targets = torch.randn(batch, length)
    readout = nn.Linear(hidden, 1)
    descent = torch.optim.AdamW([*layer.parameters(), *readout.parameters()], lr=1e-3)
    states_of = scan or layer

    def step() -> None:
        descent.zero_grad()
        outputs = readout(states_of(inputs)).squeeze(-1)
        (outputs - targets).square().mean().backward()
        descent.step()

    return step


def products_of(matrices: int, shape: Shape) -> Task:
    """Make a task of a step's matrix products and nothing else."""
    batch, length, width, hidden = shape
    n_rows = matrices * hidden
    n_states = batch * length
    state = torch.randn(batch, hidden)
    weight = torch.randn(hidden, n_rows)
    inputs = torch.randn(n_states, width)
    states = torch.randn(n_states, hidden)
    adjoints = torch.randn(n_states, n_rows)
    input_weight = torch.randn(width, n_rows)
    forward = torch.empty(batch, n_rows)
    backward = torch.empty(batch, hidden)

    def step() -> None:
        for _ in range(length):
            torch.mm(state, weight, out=forward)
            torch.mm(forward, weight.t(), out=backward)
        _ = inputs @ input_weight
        _ = adjoints.t() @ inputs  # gradients of both weights
        _ = adjoints.t() @ states

    return step


def contestants(shape: Shape) -> dict[str, Task]:
    """Make the tasks that are timed at one shape: PyTorch's layers, our cells, loops, products."""
    *_, width, hidden = shape
    tasks: dict[str, Task] = {}
    for layer_type in (nn.LSTM, nn.GRU):
        layer = layer_type(width, hidden, batch_first=True)
        states_of = functools.partial(lambda layer, inputs: layer(inputs)[0], layer)
        tasks[f"nn.{layer_type.__name__}"] = step_of(layer, shape, states_of)
    for kind, make in CELLS.items():
        tasks[kind] = step_of(make(width, hidden), shape)
        looped = make(width, hidden)
        tasks[f"{kind}, naive loop"] = step_of(looped, shape, looped.unrolled)
        tasks[f"{kind}, products"] = products_of(MATRICES[kind], shape)
    return tasks


def main() -> None:
    """Time all contestants at both shapes and the cells over sweeps of the sizes, and record."""
    alone()
    shapes = {}
    for name, (shape, rounds) in SHAPES.items():
        taken = medians(contestants(shape), rounds)
        shapes[name] = {"shape": shape, "rounds": rounds, "seconds": taken}
        print(name, shape, (1e3 * pd.Series(taken, name="ms")).round(1).to_string(), sep="\n")
    sweeps = []
    for size, sweep in SWEEPS.items():
        for shape in sweep:
            cells = {kind: step_of(make(*shape[2:]), shape) for kind, make in CELLS.items()}
            sweeps.append({"size": size, "shape": shape, "seconds": medians(cells, 5)})
    record("steps", {"shapes": shapes, "sweeps": sweeps})


if __name__ == "__main__":
    main()
