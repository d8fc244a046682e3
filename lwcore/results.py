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
import tempfile
import uuid
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path

import h5netcdf
import h5py
import xarray as xr

from lwcore.config import Config, Sweep

MANIFEST = "SHA256SUMS"
_PACKAGE = Path(__file__).parent


def write_atomically(
    path: Path, write: Callable[[Path], object], scratch: Path | None = None
) -> None:
    """Write a file so that a reader sees the old one, the new one, or none, and never a part.

    `write` is given the path of a temporary file in `scratch`, a folder on the same disk, or else
    beside `path`. A process that is killed leaves that file there. An OSError names `path`.
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
    """Check that a file, with one of some endings, can be written where an argument says."""
    wrong = f"{name} = {str(path)!r}: "
    if endings is not None and path.suffix[1:].lower() not in endings:
        allowed = ", ".join(f".{ending}" for ending in sorted(endings))
        raise ValueError(f"{wrong}must end in one of {allowed}.")
    if path.is_dir():
        raise ValueError(f"{wrong}is a folder; must be a file.")
    if not path.parent.is_dir():
        missing = str(path.parent)
        raise ValueError(f"{wrong}there is no folder {missing!r}; must be in one that exists.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(
            f"{wrong}must be in a folder that can be written to ({error.strerror})."
        ) from None


def save(dataset: xr.Dataset, path: str | Path, scratch: Path | None = None) -> None:
    """Store a dataset as netCDF, atomically, numbers and structure under HDF5's checksums.

    Equal datasets make equal bytes. The temporary file is in `scratch`, as for `write_atomically`.
    """
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
    write_atomically(Path(path), lambda part: part.write_bytes(whole.getvalue()), scratch)


def load(path: str | Path) -> xr.Dataset:
    """Read a result file into memory, after its line in ``SHA256SUMS`` beside it, if it has one,
    was verified.

    A FileNotFoundError or a ValueError says whether the file is missing, damaged, or another
    package's.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path = {str(path)!r}: there is no such result file.")
    whole, listed = path.read_bytes(), _listed(path)
    try:
        if listed not in (None, hashlib.sha256(whole).hexdigest()):
            raise ValueError(f"its checksum is not the one in {MANIFEST}: damaged")
        with h5py.File(io.BytesIO(whole)) as file:  # h5netcdf fails untidily on damaged structure
            dict(file.attrs), list(file.values())
        dataset = xr.load_dataset(io.BytesIO(whole), engine="h5netcdf")
    except Exception as error:  # HDF5, h5py, h5netcdf and xarray each have errors of their own
        raise ValueError(f"path = {str(path)!r}: not a whole result file ({error}).") from error
    if "fingerprint" not in dataset.attrs:
        raise ValueError(
            f"path = {str(path)!r}: a netCDF file, but not a result of this package (it has no "
            "configuration)."
        )
    dataset.attrs.pop("checksum", None)  # what earlier versions say of the file's last line
    return dataset


def _listed(path: Path) -> str | None:
    """SHA-256 of a file by the list beside it, if that has a line for it."""
    manifest = path.with_name(MANIFEST)
    lines = manifest.read_text(encoding="utf-8").splitlines() if manifest.is_file() else []
    digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return digests.get(path.name)


def revision() -> str:
    """Git revision of the code, with ``-dirty`` where files differ; ``unknown`` without a
    checkout."""
    git = functools.partial(subprocess.run, capture_output=True, text=True, check=True)
    at = ["git", "-C", str(_PACKAGE)]
    try:
        # A package installed inside some other project's checkout is not of that project's
        # revision.
        git([*at, "ls-files", "--error-unmatch", "__init__.py"])
        found = git([*at, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


@functools.cache  # the code that runs is the one that was there at the start
def code_fingerprint() -> str:
    """Eight hexadecimal digits of the package's code, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def environment() -> dict[str, str]:
    """What computes here: git revision, fingerprint of the code, versions of packages, machine."""
    packages = ("lwcore", "numba", "numpy", "scipy", "torch", "xarray")
    versions = (f"{package} {metadata.version(package)}" for package in packages)
    return {
        "revision": revision(),
        "code": code_fingerprint(),
        "versions": ", ".join([f"python {platform.python_version()}", *versions]),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def provenance(config: Config | Sweep) -> dict[str, str]:
    """What a result is made from: the configuration, its fingerprint, and the environment."""
    return {
        "name": config.name,
        "description": config.description,
        "configuration": config.model_dump_json(),
        "fingerprint": config.fingerprint,
    } | environment()
