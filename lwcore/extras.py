"""Which extra of the package brings a library that is not installed.

``pip install lwcore`` brings what the theory needs. A module that needs more says, where a library
is missing, how to install it.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import FrameType, ModuleType

BRINGS = {
    "numba": "networks",
    "torch": "networks",
    "h5netcdf": "diagnose",
    "h5py": "diagnose",
    "pandas": "diagnose",
    "rich": "diagnose",
    "xarray": "diagnose",
    "pydantic": "run",
    "threadpoolctl": "run",
    "typer": "run",
    "matplotlib": "figures",
    "seaborn": "figures",
    "distributed": "cluster",
}


class NameTheExtra(MetaPathFinder):
    """The last finder to be asked for a module: it is asked only where no other has found it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Refuse a library that this package imports, with the extra that brings it."""
        if name not in BRINGS or not _imported_by_this_package(sys._getframe(1)):
            return
        extra = BRINGS[name]
        raise ModuleNotFoundError(
            f"{name} is not installed, which this part of lwcore needs. "
            f"Install it with: pip install 'lwcore[{extra}]'",
            name=name,
        )


def name_missing_extras() -> None:
    """Say from now on which extra brings what is missing."""
    if not any(isinstance(finder, NameTheExtra) for finder in sys.meta_path):
        sys.meta_path.append(NameTheExtra())


def _imported_by_this_package(frame: FrameType | None) -> bool:
    """Tell whether the code that imports is of this package: other libraries try what they may."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("lwcore.")
