"""Learnability windows of gated recurrent networks: the paper's equations as functions.

The law of the noise, detection and window (`stable`, `detection`, `window`, `stats`, `elman`) need
no PyTorch; the networks (`tasks`, `cells`, `trace`, `network`, `transport`, `gradient`) do.
`experiment` runs a configuration from training to results, `diagnose` measures your own network.

A module of ``lwcore.__all__`` is imported when it is first named: after ``import lwcore`` write
``lwcore.stable.fit``. Modules below these, as ``lwcore.elman.bounds``, are imported by name.
"""

# ruff: noqa: F822 - `__getattr__` knows what `__all__` names
import importlib
from types import ModuleType

__version__ = "0.1.0"

__all__ = [
    "cells",
    "cli",
    "detection",
    "diagnose",
    "elman",
    "experiment",
    "figures",
    "gradient",
    "inference",
    "network",
    "printing",
    "results",
    "signatures",
    "stable",
    "stats",
    "tasks",
    "trace",
    "transport",
    "window",
]


def __getattr__(name: str) -> ModuleType:
    """Import a module of the package when it is first named."""
    if name not in __all__:
        raise AttributeError(f"module 'lwcore' has no attribute {name!r}")
    try:
        return importlib.import_module(f"lwcore.{name}")
    except ModuleNotFoundError as error:
        # Who only asks whether there is such a module (`hasattr`, `help`) expects this error.
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    """Return the names of the modules, for completion."""
    return [*__all__, "__version__"]
