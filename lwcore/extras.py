"""Which extra of the package brings a library that is not installed.

``pip install lwcore`` brings what the theory needs. A module that needs more says, where a library
is missing, how to install all that it needs.
"""

import sys
from collections.abc import Iterator, Sequence
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
NEEDS = {
    "diagnose": "diagnose",
    "inference": "diagnose",
    "results": "diagnose",
    "tables": "diagnose",
    "cli": "run",
    "experiment": "run",
    "figures": "figures",
}
EACH_BRINGS_THOSE_BEFORE = ("networks", "diagnose", "run", "figures", "cluster")


class NameTheExtra:
    """The last finder to be asked for a module: it is asked only where no other has found it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Refuse a library that this package imports, with the extra that brings it."""
        if name not in BRINGS:
            return
        importing = list(_importing_modules(sys._getframe(1)))
        if not importing or not importing[0].startswith("lwcore."):
            return  # another library tries what it may
        needed = [BRINGS[name]]
        for module in importing:
            if module.startswith("lwcore."):
                own_part = module.split(".")[1]
                needed.append(NEEDS.get(own_part, "networks"))
        extra = max(needed, key=EACH_BRINGS_THOSE_BEFORE.index)
        raise ModuleNotFoundError(
            f"{name} is not installed, which this part of lwcore needs. "
            f"Install it with: pip install 'lwcore[{extra}]'",
            name=name,
        )


def name_missing_extras() -> None:
    """Say from now on which extra brings what is missing."""
    known = {type(finder).__name__ for finder in sys.meta_path}
    if NameTheExtra.__name__ not in known:
        sys.meta_path.append(NameTheExtra())


def _importing_modules(frame: FrameType | None) -> Iterator[str]:
    """Yield the modules whose code is running, from the one that imports to the outermost."""
    while frame is not None:
        # the name of a module that runs as the program is "__main__", its specification's is not
        spec = frame.f_globals.get("__spec__")
        name = spec.name if spec is not None else frame.f_globals.get("__name__", "")
        if name.partition(".")[0] != "importlib" and name != "_frozen_importlib":
            yield name
        frame = frame.f_back
