"""The learnability window of your own network, trained elsewhere, on your own data.

In three lines::

    from lwcore.diagnose import diagnose
    found = diagnose(net.eval(), loader, loss=torch.nn.CrossEntropyLoss())
    found  # or print it, draw it with ``found.plot()``, take ``found.data``
"""

import inspect
import sys
import types
from typing import Any

from lwcore.diagnose.measuring import diagnose, parts_by_lag
from lwcore.diagnose.report import Diagnosis, Window

__all__ = ["Diagnosis", "Window", "diagnose", "parts_by_lag"]


class _Module(types.ModuleType):
    """This package, which ``from lwcore import diagnose`` gives: called, it is its function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Diagnosis:
        """`diagnose`."""
        return diagnose(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(diagnose)


sys.modules[__name__].__class__ = _Module
