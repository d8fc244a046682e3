"""Result files are whole or not there, and their numbers are under a checksum."""

import hashlib
import io
import resource

import h5py
import numpy as np
import pytest
import xarray as xr

from lwcore import __version__, experiment, results
from lwcore.experiment.config import Config
from tests.built_book import ROOT

DAMAGED = r"run\.nc': not a whole result file"


@pytest.fixture
def dataset():
    numbers, lags = np.random.default_rng(0).normal(size=1000), np.arange(1000)
    made_from = experiment.provenance(Config.named("smoke"))
    return xr.Dataset({"f": ("lag", numbers), "g": ("lag", lags > 3)}, {"lag": lags}, made_from)


@pytest.fixture
def path(dataset, tmp_path):
    """A stored result."""
    path = tmp_path / "deep" / "run.nc"
    results.save(dataset, path)
    return path


def test_what_is_saved_is_loaded_and_equal_datasets_make_equal_bytes(path, dataset):
    before = path.read_bytes()
    xr.testing.assert_identical(results.load(path), dataset)
    results.save(results.load(path), path)
    assert path.read_bytes() == before
    assert Config.model_validate_json(dataset.attrs["configuration"]) == Config.named("smoke")
    assert f"lwcore {__version__}, " in dataset.attrs["versions"]


@pytest.mark.parametrize("line", ["{0}  run.nc", "{1} *run.nc", "{0}  other.nc\r\n{0}  run.nc\r"])
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


@pytest.mark.parametrize("line", ["{0}  ./run.nc", "SHA256 (run.nc) = {0}", "\ufeff{0}  run.nc"])
def test_a_list_in_another_form_is_refused_by_its_path(path, line):
    """Nothing that it says would be compared."""
    content = line.format(hashlib.sha256(path.read_bytes()).hexdigest())
    path.with_name("SHA256SUMS").write_text(content, encoding="utf-8")
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


def test_every_bit_of_a_number_is_under_a_checksum(path):
    """In each variable's stored bytes, and in the headers that say where they are; and no part of a
    file is taken for the whole."""
    whole = path.read_bytes()
    places = [*range(48), whole.index(b"OHDR"), whole.index(b"FRHP")]
    with h5py.File(io.BytesIO(whole)) as file:
        for name in ("f", "g", "lag"):
            assert file[name].fletcher32
            stored = file[name].id
            for chunk in map(stored.get_chunk_info, range(stored.get_num_chunks())):
                places += range(chunk.byte_offset, chunk.byte_offset + chunk.size, 97)
    assert len(places) > 10
    flipped = (whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in places)
    for damaged in (*flipped, b"", b"hello", whole[:10], whole[:3000], whole[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=DAMAGED):
            results.load(path)


def test_labels_and_texts_are_under_a_checksum_too(path, dataset):
    """They have none of HDF5's; and a file that some other program has written is read as well."""
    texts = dataset.assign_coords(probe=["first probe", "second"]).assign_attrs(said="nothing else")
    results.save(texts, path)
    whole = path.read_bytes()
    for text in (b"first probe", b"nothing else", b'"learning_rate":'):
        place = whole.index(text)
        with h5py.File(io.BytesIO(damaged := spoil(whole, place))) as file:
            assert file.attrs["said"], "HDF5 notices nothing"
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{DAMAGED}.*its last line vouches for: damaged"):
            results.load(path)
    sealed = len(whole) - whole.index(b"\nSHA-256")
    for damaged in (whole[:-1], spoil(whole, len(whole) - 9), 2 * whole):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=DAMAGED):
            results.load(path)
    path.write_bytes(whole[:-sealed])
    xr.testing.assert_identical(results.load(path), texts)
    xr.testing.assert_identical(xr.load_dataset(path, engine="h5netcdf"), texts)


def spoil(whole, place):
    """Flip one bit."""
    return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]


def test_recorded_runs_are_those_on_the_list_and_of_configurations_that_ship():
    """Remade by ``sha256sum *.nc > SHA256SUMS`` in their folder."""
    folder, found = ROOT / "book" / "results", []
    for path in sorted(folder.glob("*.nc")):
        found.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
        with h5py.File(path) as file:
            assert file.attrs["fingerprint"] == Config.named(path.stem).fingerprint
    assert (folder / results.MANIFEST).read_text().splitlines() == found
