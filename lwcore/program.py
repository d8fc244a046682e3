"""The program ``lw``: what is done before anything is imported, which takes seconds.

Ctrl-C ends it with one line and status 130 whenever it comes. While libraries are imported it ends
at once: there is nothing to clean up, and an exception in the middle of an import may be turned
into another one, or lost. Where files are written, or processes work, it is a `KeyboardInterrupt`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = "Interrupted. `lw run` takes up what it has left unfinished."
STATUS = 130  # 128 and the number of the signal, as shells have it

was_interrupted = False  # by Ctrl-C, while that was an exception


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, end_at_once)
    try:
        from lwcore.cli import app
    except ModuleNotFoundError as error:
        if "lwcore[" not in str(error):  # a library that an extra brings
            raise
        sys.exit(str(error))
    app()


def end_at_once(_signal: int | None = None, _frame: FrameType | None = None) -> None:
    """End the process without another step of it; output of before is written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, or in the middle of a write
            continue
    with suppress(OSError):  # where nobody listens
        os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(STATUS)


@contextmanager
def interruptible() -> Iterator[None]:
    """Make Ctrl-C a `KeyboardInterrupt` for a while, so that what was begun is cleaned up.

    Nothing changes where the program is another one, which has its own way.
    """
    if signal.getsignal(signal.SIGINT) is not end_at_once:
        yield
        return
    signal.signal(signal.SIGINT, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, end_at_once)


def _raise(_signal: int, _frame: FrameType | None) -> None:
    """Raise, and remember it: a library may turn the exception into another."""
    global was_interrupted
    was_interrupted = True
    raise KeyboardInterrupt
