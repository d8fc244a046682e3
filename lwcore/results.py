"""Files of results: each is there whole or not at all, and says what it was made from.

Numbers in a file are under HDF5's checksums, which every HDF5 library verifies as it reads them.
Texts are not: labels and the configuration among them. So a file ends with a line of its own,
behind all that HDF5 reads, with the SHA-256 of every byte before; `load` compares. A recorded file
has a line in ``SHA256SUMS`` beside it, too, as ``sha256sum *.nc`` writes them.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import platform
import random
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

import h5netcdf
import h5py
import xarray as xr

from lwcore import __version__
from lwcore.signatures import checked, require

MANIFEST = "SHA256SUMS"
_SEAL = b"\nSHA-256 of every byte before this line: "
_LISTED = re.compile(r"([0-9a-fA-F]{64}) [ *]([^/\\]+)")  # a line of a list: digest and name
_PACKAGE = Path(__file__).parent


@checked
def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that a reader sees the old one, the new one, or none, and never a part.

    `write` is given the path of a temporary file beside it, which a process that is killed leaves.
    """
    require("path", str(path), bool(path.name), "the path of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with suppress(OSError):  # a read-only file system refuses to remove what is not there
            temporary.unlink()


@checked
def save(dataset: xr.Dataset, path: str | Path) -> None:
    """Store a dataset as netCDF, atomically, with its seal; equal datasets make equal bytes."""
    content = to_bytes(dataset)
    write_atomically(Path(path), lambda temporary: temporary.write_bytes(content))


@checked
def load(path: str | Path) -> xr.Dataset:
    """Read a result into memory, with its checksums verified.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or no result of this package.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path = {str(path)!r}: there is no such result file.")
    content = path.read_bytes()
    listed = _listed_digests(path)
    try:
        digest = hashlib.sha256(content).hexdigest()
        if listed - {digest}:
            raise ValueError(f"its checksum is not the one in {MANIFEST}: damaged")
        dataset = from_bytes(content)
    except Exception as error:  # HDF5, h5py, h5netcdf and xarray each have errors of their own
        raise ValueError(f"path = {str(path)!r}: not a whole result file ({error}).") from error
    is_own = "fingerprint" in dataset.attrs
    requirement = "a result of this package, with a configuration's fingerprint"
    require("path", str(path), is_own, requirement)
    return dataset


def to_bytes(dataset: xr.Dataset) -> bytes:
    """Return what a dataset's file holds: netCDF, and the line that vouches for it.

    Arrays of numbers are compressed, with a checksum for each block.
    """
    encoding = {}
    for name, variable in dataset.variables.items():
        if variable.ndim and variable.dtype.kind in "biuf":
            encoding[name] = {"fletcher32": True, "zlib": True, "shuffle": True}
    # In memory first: HDF5 does not fail cleanly on a full disk. Not by `to_netcdf`, which in a
    # Dask worker asks for a lock that it cannot have. HDF5's old format has no checksums of
    # structure.
    memory = io.BytesIO()
    with h5netcdf.File(memory, "w", libver="latest") as file:
        dataset.dump_to_store(xr.backends.H5NetCDFStore(file), encoding=encoding)
    netcdf = memory.getvalue()
    return netcdf + _SEAL + _sealing_digest(netcdf)


def from_bytes(content: bytes) -> xr.Dataset:
    """Return the dataset of a file's content; a ValueError or HDF5's error says it is damaged.

    A file without the last line is read as well: older versions wrote none.
    """
    netcdf, seal, digest = content.rpartition(_SEAL)
    if not seal:
        netcdf = content
    elif digest != _sealing_digest(netcdf):
        raise ValueError("its bytes are not those that its last line vouches for: damaged")
    # Read once by h5py: h5netcdf fails untidily on damaged structure.
    with h5py.File(io.BytesIO(netcdf)) as file:
        dict(file.attrs)
        list(file.values())
    return xr.load_dataset(io.BytesIO(netcdf), engine="h5netcdf")


def _sealing_digest(netcdf: bytes) -> bytes:
    """Return the SHA-256 digest of some bytes, as the last line of a file ends with it."""
    return hashlib.sha256(netcdf).hexdigest().encode() + b"\n"


def _listed_digests(path: Path) -> set[str]:
    """Return the SHA-256 digests that the list beside a file has for it: one, as a rule, or none.

    It has the form of ``sha256sum *.nc``; another is refused, because it would not be compared.
    """
    manifest = path.with_name(MANIFEST)
    if not manifest.exists():
        return set()
    digests = set()
    text = os.fsdecode(manifest.read_bytes())
    for number, line in enumerate(text.splitlines(), start=1):
        entry = _LISTED.fullmatch(line)
        if entry is None:
            raise ValueError(
                f"path = {str(manifest)!r}: line {number} is not a digest and the name of a file "
                f"beside it, {line[:80]!r}. Write the list anew (sha256sum *.nc > {MANIFEST})."
            )
        digest, name = entry.groups()
        if name == path.name:
            digests.add(digest.lower())
    return digests


@functools.cache  # that of the code that runs: a commit that follows changes nothing of it
def revision() -> str:
    """Return the Git revision of the code, ``-dirty`` if files differ; ``unknown`` without one."""

    def git(*command: str) -> str:
        whole_command = ["git", "-C", str(_PACKAGE), *command]
        done = subprocess.run(whole_command, capture_output=True, encoding="utf-8", check=True)
        return done.stdout.strip()

    try:
        # another project's checkout, in which the package is installed, is not its revision
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@functools.cache  # the code that runs is the one that was there at the start
def code_fingerprint() -> str:
    """Return eight hexadecimal digits of the package's Python files, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def versions() -> str:
    """Return the versions of Python, of this package and of those that its numbers come from."""
    known = [f"python {platform.python_version()}", f"lwcore {__version__}"]
    for package in ("numba", "numpy", "scipy", "torch", "xarray"):
        known.append(f"{package} {metadata.version(package)}")
    return ", ".join(known)


def environment() -> dict[str, str]:
    """Return what computes here: git revision, fingerprint of the code, versions, machine."""
    return {
        "revision": revision(),
        "code": code_fingerprint(),
        "versions": versions(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


@contextmanager
def bar(title: str, total: int, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on standard error, or below a notebook's cell.

    Yields a function that is called with the number of pieces that are newly done.
    """
    # rich draws from Python's random numbers when it is first imported, and these are the reader's
    state = random.getstate()
    from rich.console import Console
    from rich.progress import Progress

    random.setstate(state)
    kernel = "ipykernel" in sys.modules  # where rich would ask for widgets
    console = Console(stderr=not kernel, force_jupyter=False, force_terminal=kernel or None)
    with Progress(console=console, disable=not show) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
