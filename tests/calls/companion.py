"""Good calls: The companion's network, and diagnoses."""

from __future__ import annotations

CALLS: list = []
