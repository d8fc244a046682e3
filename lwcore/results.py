"""Results on disk: netCDF files that carry their configuration, versions and revision, and are either whole or not there."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path
from typing import Protocol

import xarray as xr

_PACKAGE = Path(__file__).parent


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that a reader sees the old one, the new one, or none, and never a part.

    Args:
        path: Where the file is to be; its folder is made if need be.
        write: Writes the file at the path it is given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_writable(name: str, path: Path, endings: Collection[str] | None = None) -> None:
    """Check that a file can be written, before the work of which it is to hold the result.

    Args:
        name: Name of the argument, for the message.
        path: Where the file is to be; its folder must exist.
        endings: Allowed endings, without the dot; None for any.

    Raises:
        ValueError: If it cannot.
    """
    if endings is not None and path.suffix[1:].lower() not in endings:
        raise ValueError(f"{name} = {str(path)!r}: must end in one of {', '.join(f'.{ending}' for ending in sorted(endings))}.")
    if path.is_dir():
        raise ValueError(f"{name} = {str(path)!r}: is a folder; must be a file.")
    if not path.parent.is_dir():
        raise ValueError(f"{name} = {str(path)!r}: there is no folder {str(path.parent)!r}; must be in one that exists.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(f"{name} = {str(path)!r}: must be in a folder that can be written to ({error.strerror}).") from None


def save(dataset: xr.Dataset, path: str | Path) -> None:
    """Store a dataset as netCDF, atomically.

    Args:
        dataset: The results.
        path: Where; its folder is made if need be.
    """
    smaller = {name: {"zlib": True, "shuffle": True} for name, variable in dataset.data_vars.items() if variable.ndim}
    whole = bytes(dataset.to_netcdf(engine="h5netcdf", encoding=smaller))  # in memory first: HDF5 does not fail cleanly on a full disk
    write_atomically(Path(path), lambda part: part.write_bytes(whole))


def load(path: str | Path) -> xr.Dataset:
    """Read a result file into memory.

    Args:
        path: A file that `save` wrote.

    Returns:
        The dataset.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a whole result file.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"path = {str(path)!r}: there is no such result file.")
    try:
        dataset = xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"path = {str(path)!r}: not a whole result file ({error}).") from error
    if "fingerprint" not in dataset.attrs:
        raise ValueError(f"path = {str(path)!r}: a netCDF file, but not a result of this package (it has no configuration).")
    return dataset


def revision() -> str:
    """Name the git revision of the code.

    Returns:
        The commit, with ``-dirty`` when tracked files differ from it; ``unknown`` outside a checkout.
    """
    git = ["git", "-C", str(_PACKAGE)]
    try:
        # A package installed inside some other project's checkout is not of that project's revision.
        subprocess.run([*git, "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, check=True)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def code_fingerprint() -> str:
    """Identify the code of the package, committed or not: unfinished work is only continued by the very code that began it.

    Returns:
        Eight hexadecimal digits.
    """
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def environment() -> dict[str, str]:
    """Say what computes here.

    Returns:
        Git revision, a fingerprint of the code, package versions and machine type.
    """
    packages = ("lwcore", "numba", "numpy", "scipy", "torch", "xarray")
    return {
        "revision": revision(),
        "code": code_fingerprint(),
        "versions": ", ".join([f"python {platform.python_version()}", *(f"{p} {metadata.version(p)}" for p in packages)]),
        "machine": f"{platform.system()} {platform.machine()}",
    }


class Described(Protocol):
    """What a result can be made from: a configuration or a sweep."""

    name: str
    description: str

    @property
    def fingerprint(self) -> str:
        """Digits that change with any setting."""

    def model_dump_json(self) -> str:
        """Write all settings as JSON."""


def provenance(config: Described) -> dict[str, str]:
    """Say what a result was made from: attributes for the dataset.

    Args:
        config: The configuration of the run, or the sweep.

    Returns:
        Configuration, its fingerprint, and the environment.
    """
    return {
        "name": config.name,
        "description": config.description,
        "configuration": config.model_dump_json(),
        "fingerprint": config.fingerprint,
    } | environment()
