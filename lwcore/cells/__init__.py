"""The recurrences of the paper, each with its trace, its one-step Jacobian and its hand-written backward pass."""

from lwcore.cells.base import Cell, StepJacobian, Trace
from lwcore.cells.scalar_gates import ConstGate, DiagGate, ScalarGateCell, SharedGate

__all__ = ["Cell", "ConstGate", "DiagGate", "ScalarGateCell", "SharedGate", "StepJacobian", "Trace"]
