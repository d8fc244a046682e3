"""Good calls of stable laws, detection and windows."""

from __future__ import annotations

CALLS: list = []
