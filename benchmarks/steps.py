"""Time of one training step, forward + backward + AdamW, on one thread: our cells against a per-step autograd loop and PyTorch's LSTM.

Run with ``make bench``. Only ratios within one run mean anything; rounds alternate between the contestants, so that a slow minute of the
machine hits all of them, and the median round counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lwcore.cells import ConstGate, DiagGate, ScalarGateCell, SharedGate

BATCH, STEPS, INPUT, HIDDEN = 32, 256, 16, 64
ROUNDS = 15


class NaiveLoop(nn.Module):
    """A scalar-gate recurrence as one would first write it: a Python loop, differentiated by autograd."""

    def __init__(self, cell: ScalarGateCell) -> None:
        """Take over a cell's parameters."""
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Tensor) -> Tensor:
        """Scan (B, T, D) to (B, T, H)."""
        cell, hidden = self.cell, self.cell.hidden_size
        state = inputs.new_zeros(len(inputs), hidden)
        states = []
        for x in inputs.unbind(1):
            pre = x @ cell.weight_ih.t() + state @ cell.weight_hh.t() + cell.bias
            gate = cell.constant_gate if cell.constant_gate is not None else torch.sigmoid(pre[:, :-hidden])
            state = (1 - gate) * state + gate * torch.tanh(pre[:, -hidden:])
            states.append(state)
        return torch.stack(states, 1)


class TorchLSTM(nn.Module):
    """PyTorch's LSTM, its states alone."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.layer = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scan (B, T, D) to (B, T, H)."""
        states, _ = self.layer(inputs)
        return states


def step_of(layer: nn.Module) -> Callable[[], None]:
    """Make a function that takes one training step of a layer with a linear readout."""
    inputs, targets = torch.randn(BATCH, STEPS, INPUT), torch.randn(BATCH, STEPS)
    readout = nn.Linear(HIDDEN, 1)
    descent = torch.optim.AdamW([*layer.parameters(), *readout.parameters()], lr=1e-3)

    def step() -> None:
        descent.zero_grad()
        (readout(layer(inputs)).squeeze(-1) - targets).square().mean().backward()
        descent.step()

    return step


def main() -> None:
    """Time all contestants and print the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kinds: tuple[type[ConstGate | SharedGate | DiagGate], ...] = (ConstGate, SharedGate, DiagGate)
    contestants = {kind.__name__: step_of(kind(INPUT, HIDDEN)) for kind in kinds}
    contestants |= {f"{kind.__name__}, naive loop": step_of(NaiveLoop(kind(INPUT, HIDDEN))) for kind in kinds}
    contestants["nn.LSTM"] = step_of(TorchLSTM())
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, step in contestants.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    median = {name: statistics.median(rounds) for name, rounds in times.items()}
    table = Table("one training step", "median, ms", "over nn.LSTM", "naive loop over it", box=None, header_style="bold")
    for name, seconds in median.items():
        naive = median.get(f"{name}, naive loop")
        table.add_row(name, f"{1e3 * seconds:.1f}", f"{seconds / median['nn.LSTM']:.2f}", f"{naive / seconds:.2f}" if naive else "")
    console = Console()
    console.print(
        f"B = {BATCH}, T = {STEPS}, D = {INPUT}, H = {HIDDEN}, float32, one thread, torch {torch.__version__}, median of {ROUNDS} rounds"
    )
    console.print(table)


if __name__ == "__main__":
    main()
