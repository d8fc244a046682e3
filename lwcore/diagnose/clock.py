"""The time that a diagnosis takes, beside the limit that a reader sets."""

from __future__ import annotations

import time
from typing import NamedTuple

from lwcore.signatures import require


class Clock(NamedTuple):
    """When a diagnosis began, and how many minutes it may take."""

    began: float
    limit_minutes: int | None = None

    @classmethod
    def start(cls, limit_minutes: int | None = None) -> Clock:
        """Begin now."""
        return cls(time.monotonic(), limit_minutes)

    def refuse_late(self) -> None:
        """Refuse to go on where trials and checks alone have taken as long as all may take."""
        self.refuse(
            self.minutes_in(0.0),
            "above what trials take before there is a forecast (fewer `sequences`, shorter ones, "
            "or another limit)",
        )

    def refuse(self, minutes: float, requirement: str) -> None:
        """Refuse what takes more minutes than the limit."""
        is_below = self.limit_minutes is None or minutes <= self.limit_minutes
        require("limit_minutes", self.limit_minutes, is_below, requirement)

    def minutes_in(self, seconds: float) -> float:
        """Return how many minutes it will have taken in so many seconds."""
        return (time.monotonic() - self.began + seconds) / 60
