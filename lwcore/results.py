"""Files of results: each is there whole or not at all, and says what it was made from.

Numbers in a file are under HDF5's checksums, which every HDF5 library verifies as it reads them. A
recorded file has a line in ``SHA256SUMS`` beside it, as `sha256sum` writes them, which vouches for
every byte.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import h5netcdf
import h5py
import xarray as xr

from lwcore.config import Config
from lwcore.signatures import checked, require

MANIFEST = "SHA256SUMS"
_PACKAGE = Path(__file__).parent


@checked
def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that a reader sees the old one, the new one, or none, and never a part.

    `write` is given the path of a temporary file beside it, which a process that is killed leaves.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        part.unlink(missing_ok=True)


@checked
def save(dataset: xr.Dataset, path: str | Path) -> None:
    """Store a dataset as netCDF, atomically; equal datasets make equal bytes."""
    encoding = {
        name: {"fletcher32": True, "zlib": True, "shuffle": True}
        for name, variable in dataset.variables.items()
        if variable.ndim and variable.dtype.kind in "biuf"
    }
    # In memory first: HDF5 does not fail cleanly on a full disk. Not by `to_netcdf`, which in a
    # Dask worker asks for a lock that it cannot have. HDF5's old format has no checksums of
    # structure.
    whole = io.BytesIO()
    with h5netcdf.File(whole, "w", libver="latest") as file:
        dataset.dump_to_store(xr.backends.H5NetCDFStore(file), encoding=encoding)
    write_atomically(Path(path), lambda part: part.write_bytes(whole.getvalue()))


@checked
def load(path: str | Path) -> xr.Dataset:
    """Result in a file, in memory; what is missing, damaged or another package's is refused."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path = {str(path)!r}: there is no such result file.")
    whole, manifest = path.read_bytes(), path.with_name(MANIFEST)
    lines = manifest.read_text(encoding="utf-8").splitlines() if manifest.is_file() else []
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    try:
        digest = hashlib.sha256(whole).hexdigest()
        if listed.get(path.name, digest) != digest:
            raise ValueError(f"its checksum is not the one in {MANIFEST}: damaged")
        with h5py.File(io.BytesIO(whole)) as file:  # h5netcdf fails untidily on damaged structure
            dict(file.attrs), list(file.values())
        dataset = xr.load_dataset(io.BytesIO(whole), engine="h5netcdf")
    except Exception as error:  # HDF5, h5py, h5netcdf and xarray each have errors of their own
        raise ValueError(f"path = {str(path)!r}: not a whole result file ({error}).") from error
    own = "a result of this package, with a configuration's fingerprint"
    require("path", str(path), "fingerprint" in dataset.attrs, own)
    return dataset


def revision() -> str:
    """Git revision of the code, ``-dirty`` if files differ; ``unknown`` without a checkout."""

    def git(*command: str) -> str:
        at = ["git", "-C", str(_PACKAGE), *command]
        found = subprocess.run(at, capture_output=True, encoding="utf-8", check=True)
        return found.stdout.strip()

    try:
        # another project's checkout, in which the package is installed, is not its revision
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@functools.cache  # the code that runs is the one that was there at the start
def code_fingerprint() -> str:
    """Eight hexadecimal digits of the package's code, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def _version(package: str) -> str:
    """A package's version by its metadata; by its module where a program was frozen without."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def environment() -> dict[str, str]:
    """What computes here: git revision, fingerprint of the code, versions of packages, machine."""
    packages = ("lwcore", "numba", "numpy", "scipy", "torch", "xarray")
    versions = (f"{package} {_version(package)}" for package in packages)
    return {
        "revision": revision(),
        "code": code_fingerprint(),
        "versions": ", ".join([f"python {platform.python_version()}", *versions]),
        "machine": f"{platform.system()} {platform.machine()}",
    }


@checked
def provenance(config: Config) -> dict[str, str]:
    """What a result is made from: the configuration, its fingerprint, and the environment."""
    stored = {"configuration": config.model_dump_json(), "fingerprint": config.fingerprint}
    return config.model_dump(include={"name", "description"}) | stored | environment()


@contextmanager
def bar(title: str, total: int, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Progress bar on standard error, or below a notebook's cell; called with the number done."""
    from rich.console import Console
    from rich.progress import Progress

    kernel = "ipykernel" in sys.modules  # where rich would ask for widgets
    console = Console(stderr=not kernel, force_jupyter=False, force_terminal=kernel or None)
    with Progress(console=console, disable=not show) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
