"""The progress bar of long computations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn


@contextmanager
def bar(title: str, total: int, unit: str, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Bar on standard error, in a notebook in the cell's output; called with the number done."""
    kernel = "ipykernel" in sys.modules  # where rich would ask for widgets
    console = Console(stderr=not kernel, force_jupyter=False, force_terminal=kernel or None)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, console=console, disable=not show) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
