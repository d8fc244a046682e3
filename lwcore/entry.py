"""Where the command ``lw`` begins: before anything slow is imported, so that Ctrl-C meanwhile ends it with a word, not with a traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130  # the exit status of what SIGINT has ended, by the custom of shells


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where whoever started the command wants it ignored
        signal.signal(signal.SIGINT, leave)
    from lwcore.cli import app

    app()


def leave(signum: int, frame: FrameType | None) -> None:
    """End at once. An exception would be shown, or caught, by whatever is being imported.

    Args:
        signum: The signal.
        frame: Where the program was.
    """
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def interruptible() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on: for work that is to be left in order."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
