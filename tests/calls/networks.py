"""Good calls: Cells, transport, gradients, tasks and training."""

from __future__ import annotations

CALLS: list = []
