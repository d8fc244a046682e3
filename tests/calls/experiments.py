"""Good calls: Configurations, runs, measurements and figures."""

from __future__ import annotations

CALLS: list = []
