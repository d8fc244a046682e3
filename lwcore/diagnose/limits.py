"""The time that a diagnosis may take before it can be foretold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from lwcore.signatures import require


@contextmanager
def trials_limited(model: nn.Module, limit_minutes: int | None) -> Iterator[None]:
    """Refuse further passes of a model once its trials have taken longer than is allowed."""
    if limit_minutes is None:
        yield
        return
    end = time.monotonic() + 60 * limit_minutes

    def refuse_if_late(*_: Any) -> None:
        words = (
            "above what trials take before there is a forecast (fewer `sequences`, shorter ones, "
            "or another limit)"
        )
        require("limit_minutes", limit_minutes, time.monotonic() <= end, words)

    hook = model.register_forward_pre_hook(refuse_if_late)
    try:
        yield
    finally:
        hook.remove()
