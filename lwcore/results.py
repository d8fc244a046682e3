"""Results on disk: netCDF files that carry their configuration, versions and revision, and are either whole or not there.

A file ends with its seal, a line with the SHA-256 of all bytes before it, which HDF5 does not look at. It is verified before anything is
parsed, so that damage anywhere in a file is found, and never reaches the libraries that would have to make sense of it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import os
import platform
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path
from typing import Protocol

import h5netcdf
import xarray as xr

_PACKAGE = Path(__file__).parent

_SEAL = b"\nsha256 "
_SEAL_LENGTH = len(_SEAL) + 64 + 1  # hexadecimal digits and the end of the line
_SEALED = "SHA-256 of all bytes before it, in the last line of the file"
MANIFEST = "SHA256SUMS"


def write_atomically(path: Path, write: Callable[[Path], object], scratch: Path | None = None) -> None:
    """Write a file so that a reader sees the old one, the new one, or none, and never a part.

    Args:
        path: Where the file is to be; its folder is made if need be.
        write: Writes the file at the path it is given.
        scratch: A folder on the same disk in which it is written, and where a killed process may leave a part; beside the file if None.

    Raises:
        OSError: If it cannot be written; the error names the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = (scratch or path.parent) / f".{path.name}.{uuid.uuid4().hex}.part"
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
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


def check_folder(name: str, path: Path) -> None:
    """Check that a folder is there or can be made, before the work that is to be kept in it.

    Args:
        name: Name of the argument, for the message.
        path: The folder.

    Raises:
        ValueError: If it, or a folder that it should lie in, is something else.
    """
    there = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    if not os.path.isdir(there):
        below = "" if there == path else f", for {str(there)!r} is none"
        raise ValueError(f"{name} = {str(path)!r}: is no folder and cannot be made one{below}; must be a folder, or a new one's name.")


def sealed(content: bytes) -> bytes:
    """Put the seal behind some bytes.

    Args:
        content: What the file is to hold.

    Returns:
        The file.
    """
    return content + _SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n"


def unsealed(whole: bytes) -> bytes:
    """Verify the seal of a file and take it off.

    Args:
        whole: The file.

    Returns:
        What it holds.

    Raises:
        ValueError: If it has no seal at its end, or another one than it should.
    """
    content, seal = whole[:-_SEAL_LENGTH], whole[-_SEAL_LENGTH:]
    if not seal.startswith(_SEAL):
        raise ValueError("it does not end with a checksum: cut off, or not written here")
    if sealed(content) != whole:
        raise ValueError("its checksum does not fit: damaged")
    return content


def save(dataset: xr.Dataset, path: str | Path, scratch: Path | None = None) -> None:
    """Store a dataset as netCDF, atomically and sealed.

    Args:
        dataset: The results.
        path: Where; its folder is made if need be.
        scratch: As for `write_atomically`.
    """
    smaller = {name: {"zlib": True, "shuffle": True} for name, variable in dataset.data_vars.items() if variable.ndim}
    whole = io.BytesIO()  # in memory first: HDF5 does not fail cleanly on a full disk
    with h5netcdf.File(whole, "w") as file:  # not `to_netcdf`, which in a Dask worker asks the scheduler for a lock that it cannot have
        dataset.assign_attrs(checksum=_SEALED).dump_to_store(xr.backends.H5NetCDFStore(file), encoding=smaller)
    write_atomically(Path(path), lambda part: part.write_bytes(sealed(whole.getvalue())), scratch)


def load(path: str | Path, verified: bool = False) -> xr.Dataset:
    """Read a result file into memory, after its checksum has been verified.

    A file without a seal, as earlier versions wrote it, is verified by its line in the list ``SHA256SUMS`` beside it, which `sha256sum`
    writes. Where there is no such line either it can still be looked at, but a computation that goes on from it must not trust it.

    Args:
        path: A file that `save` wrote.
        verified: Refuse a file that cannot be verified.

    Returns:
        The dataset.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a whole result file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path = {str(path)!r}: there is no such result file.")
    whole = path.read_bytes()
    has_seal, listed = whole[-_SEAL_LENGTH:].startswith(_SEAL), _listed(path)
    try:
        if not has_seal and listed and listed != hashlib.sha256(whole).hexdigest():
            raise ValueError(f"its checksum is not the one in {MANIFEST}: damaged")
        content = unsealed(whole) if has_seal or (verified and not listed) else whole
        dataset = xr.load_dataset(io.BytesIO(content), engine="h5netcdf")
        if not has_seal and "checksum" in dataset.attrs:
            raise ValueError("it should end with a checksum, and does not: cut off")
    except Exception as error:  # HDF5, its two wrappers and xarray each have errors of their own for what they cannot read
        raise ValueError(f"path = {str(path)!r}: not a whole result file ({error}).") from error
    if "fingerprint" not in dataset.attrs:
        raise ValueError(f"path = {str(path)!r}: a netCDF file, but not a result of this package (it has no configuration).")
    dataset.attrs.pop("checksum", None)  # of the file, and wrong as soon as anything is done with the dataset
    return dataset


def reusable(path: Path) -> xr.Dataset | None:
    """Read a result file to go on from, if there is one; what is not whole, or cannot be verified, is set aside with a warning.

    Args:
        path: Where it would be.

    Returns:
        The dataset, or None where it has to be computed.
    """
    try:
        return load(path, verified=True)
    except FileNotFoundError:
        return None
    except ValueError as error:
        set_aside(path, str(error))
        return None


def set_aside(path: Path, reason: str) -> Path:
    """Move a damaged file out of the way, and warn.

    Args:
        path: The file.
        reason: What is wrong with it, in a sentence that names it.

    Returns:
        Where it is now: beside, with ``.damaged`` behind its name, and a number if that is taken.
    """
    names = itertools.chain([f"{path.name}.damaged"], (f"{path.name}.damaged-{number}" for number in itertools.count(2)))
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    path.rename(aside)
    warnings.warn(f"{reason} It was moved to {aside.name}; what it held is computed anew.", stacklevel=2)
    return aside


def _listed(path: Path) -> str | None:
    """The SHA-256 that the list beside a file gives for it, if any."""
    manifest = path.with_name(MANIFEST)
    lines = manifest.read_text(encoding="utf-8").splitlines() if manifest.is_file() else []
    return next((digest for digest, _, name in (line.partition("  ") for line in lines) if name == path.name), None)


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


@functools.cache  # the code that runs is the one that was there at the start
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
