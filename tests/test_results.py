"""Result files are whole or not there, and their numbers are under a checksum."""

import hashlib
import resource

import h5py
import numpy as np
import pytest
import xarray as xr

from lwcore import __version__, results
from lwcore.experiment.config import Config
from tests.built_book import ROOT

DAMAGED = r"run\.nc': not a whole result file"


@pytest.fixture
def dataset():
    numbers, lags = np.random.default_rng(0).normal(size=1000), np.arange(1000)
    smoke = Config.named("smoke")
    about = {"configuration": smoke.model_dump_json(), "fingerprint": smoke.fingerprint}
    made_from = about | results.environment()
    return xr.Dataset({"f": ("lag", numbers), "g": ("lag", lags > 3)}, {"lag": lags}, made_from)


@pytest.fixture
def path(dataset, tmp_path):
    """A stored result."""
    path = tmp_path / "deep" / "run.nc"
    results.save(dataset, path)
    return path


def test_what_is_saved_is_loaded_and_equal_datasets_make_equal_bytes(path, dataset):
    before = path.read_bytes()
    with path.open("rb") as opened:  # a reader keeps what there was
        xr.testing.assert_identical(results.load(path), dataset)
        results.save(results.load(path).drop_attrs(), path)
        assert opened.read() == before
    with pytest.raises(ValueError, match="with a configuration's fingerprint"):
        results.load(path)
    results.save(dataset, path)
    assert path.read_bytes() == before
    assert f"lwcore {__version__}, " in dataset.attrs["versions"]


@pytest.mark.parametrize("line", ["{0}  run.nc", "{1} *run.nc"])
def test_the_list_beside_a_file_vouches_for_every_byte(path, dataset, line):
    """As ``sha256sum`` writes it; of a file that older versions wrote, without a last line."""
    netcdf = path.read_bytes().rpartition(b"\nSHA-256")[0]
    path.write_bytes(netcdf + b"what HDF5 does not read")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    text = line.format(digest, digest.upper())
    path.with_name("SHA256SUMS").write_bytes(text.encode() + b"\n")
    xr.testing.assert_identical(results.load(path), dataset)
    path.write_bytes(netcdf + b"what HDF5 does not reaD")
    with pytest.raises(ValueError, match="its checksum is not the one in SHA256SUMS: damaged"):
        results.load(path)
    path.with_name("SHA256SUMS").write_text(f"{digest}  other.nc\n")
    xr.testing.assert_identical(results.load(path), dataset)


def test_a_list_in_another_form_is_refused_by_its_path(path):
    """Nothing that it says would be compared."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name("SHA256SUMS").write_text(f"SHA256 (run.nc) = {digest}")
    with pytest.raises(ValueError, match=r"SHA256SUMS': line 1 is not .*\(sha256sum \*\.nc"):
        results.load(path)


def test_full_disk_leaves_the_old_file_and_nothing_else_and_is_named(path, dataset):
    """By a limit on the size of files."""
    before, (soft, hard) = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) - 1, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*run\.nc'"):
            results.save(dataset, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_every_byte_is_under_a_checksum_and_no_part_is_taken_for_the_whole(path, dataset):
    """Numbers, labels and texts; and a file that some other program has written is read as well."""
    whole = path.read_bytes()
    for place in (0, whole.index(b"OHDR"), whole.index(b"learning_rate"), len(whole) - 9):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=DAMAGED):
            results.load(path)
    netcdf = whole.rpartition(b"\nSHA-256")[0]
    for part in (b"", whole[:3000], netcdf[:-1], whole[:-1], 2 * whole):
        path.write_bytes(part)
        with pytest.raises(ValueError, match=DAMAGED):
            results.load(path)
    path.write_bytes(netcdf)
    xr.testing.assert_identical(results.load(path), dataset)
    xr.testing.assert_identical(xr.load_dataset(path, engine="h5netcdf"), dataset)
    with h5py.File(path) as file:
        assert all(file[name].fletcher32 for name in ("f", "g", "lag"))


def test_recorded_runs_are_those_on_the_list_and_of_configurations_that_ship():
    """Remade by ``sha256sum *.nc > SHA256SUMS`` in their folder."""
    folder, found = ROOT / "book" / "results", []
    for path in sorted(folder.glob("*.nc")):
        found.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
        with h5py.File(path) as file:
            assert file.attrs["fingerprint"] == Config.named(path.stem).fingerprint
    assert (folder / results.MANIFEST).read_text().splitlines() == found
