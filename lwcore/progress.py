"""The progress bar that long computations share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(title: str, total: int, unit: str, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Draw a bar on standard error, in a notebook in the cell's output.

    Args:
        title: What is going on.
        total: How many there are to do.
        unit: Of what.
        show: Whether to draw anything.

    Yields:
        A function to be called with the number just done.
    """
    # Under a Jupyter kernel rich would ask for widgets, and the book takes anything on standard error for a fault: plain text on
    # standard output.
    kernel = "ipykernel" in sys.modules
    console = Console(stderr=not kernel, force_jupyter=False, force_terminal=kernel or None)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not show) as drawn:
        task = drawn.add_task(title, total=total)
        yield lambda done: drawn.advance(task, done)
