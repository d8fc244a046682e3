"""Recurrent cells: one gated cell, `Cell`, and the seven recurrences that are settings of it.

When to use what: `ConstGate`, `SharedGate` and `DiagGate` are the paper's cells with one gate for
all steps, one gate a step, and one gate a neuron; `GRU` and `LSTM` are PyTorch's (`from_torch`
takes their weights); `MinGRU` and `MinLSTM` have gates that do not see the state, for which the
paper's expansion is exact. `lwcore.cells.gated` defines them, `lwcore.cells.kernels` holds their
compiled scans.
"""

from lwcore.cells.gated import (
    GRU,
    LSTM,
    Cell,
    ConstGate,
    DiagGate,
    GatedJacobian,
    Gates,
    MinGRU,
    MinLSTM,
    SharedGate,
)

__all__ = [
    "GRU",
    "LSTM",
    "Cell",
    "ConstGate",
    "DiagGate",
    "GatedJacobian",
    "Gates",
    "MinGRU",
    "MinLSTM",
    "SharedGate",
]
