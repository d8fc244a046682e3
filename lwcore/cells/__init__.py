"""The recurrences of the paper, one file a family; each offers a scan and a trace of it."""

from lwcore.cells.base import Cell
from lwcore.cells.gru import GRU, GRUTrace
from lwcore.cells.jacobian import AutodiffJacobian, NeuronFactors, StepJacobian
from lwcore.cells.lstm import LSTM, LSTMTrace
from lwcore.cells.scalar_gates import ConstGate, DiagGate, ScalarGateCell, SharedGate
from lwcore.cells.trace import Trace

__all__ = [
    "GRU",
    "LSTM",
    "AutodiffJacobian",
    "Cell",
    "ConstGate",
    "DiagGate",
    "GRUTrace",
    "LSTMTrace",
    "NeuronFactors",
    "ScalarGateCell",
    "SharedGate",
    "StepJacobian",
    "Trace",
]
