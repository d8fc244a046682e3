"""A run: a configuration, the networks it trains, what is measured on them, and the result.

When to use what: `run` trains and measures all networks of a `Config` and returns one dataset,
which `load` reads again later and whose configuration `config_of` returns. `networks`, `task_of`,
`fresh_sequences` and `traces` give the same networks, tasks and data one by one, to look at them in
a notebook. `run_member` trains and measures a single network. `process_pool` is an executor with
a process for each core.

A name is imported when it is first used: a configuration is read without PyTorch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lwcore.experiment.config import Config, config_of, shipped
    from lwcore.experiment.running import (
        fresh_sequences,
        networks,
        process_pool,
        run,
        run_member,
        task_of,
        traces,
    )
    from lwcore.results import load

__all__ = [
    "Config",
    "config_of",
    "fresh_sequences",
    "load",
    "networks",
    "process_pool",
    "run",
    "run_member",
    "shipped",
    "task_of",
    "traces",
]

_ELSEWHERE = {
    "Config": "lwcore.experiment.config",
    "config_of": "lwcore.experiment.config",
    "shipped": "lwcore.experiment.config",
    "load": "lwcore.results",
}


def __getattr__(name: str) -> Any:
    """Import a name from its module when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'lwcore.experiment' has no attribute {name!r}")
    module = importlib.import_module(_ELSEWHERE.get(name, "lwcore.experiment.running"))
    return getattr(module, name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
