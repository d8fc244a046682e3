"""Whose a module is: the reader's own, of Python's library, or of one that is installed."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path

# Modules of Python's whose objects go on by themselves, or are shared by all of a program. What
# such an object notes of that may not be set back.
_LIVE = (
    "asyncio",
    "builtins",
    "concurrent",
    "contextlib",
    "importlib",
    "logging",
    "multiprocessing",
    "socket",
    "subprocess",
    "threading",
)


def is_own(module: str | None) -> bool:
    """Say whether a module is a reader's own: neither installed, nor Python's, nor of this one."""
    if module == "__main__":
        return True
    if module is None or module.partition(".")[0] == "lwcore":
        return False
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None or path.startswith(sysconfig.get_path("stdlib")):
        return False
    top = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None) or path
    file = Path(top)
    folder = file.parent.parent if file.stem == "__init__" else file.parent
    return not _is_installation(folder)


@functools.cache
def _is_installation(folder: Path) -> bool:
    """Say whether packages are installed in a folder, as in site-packages."""
    if folder.name in ("site-packages", "dist-packages"):
        return True
    return any(folder.glob("*.dist-info"))


def is_of_library(module: str | None) -> bool:
    """Say whether a module is of Python's library, and its objects hold still."""
    top = (module or "").partition(".")[0]
    return top in sys.stdlib_module_names and top not in _LIVE
