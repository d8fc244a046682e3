"""Result files are whole or not there, and their numbers are under a checksum."""

from __future__ import annotations

import errno
import hashlib
import io
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from lwcore import results
from lwcore.config import Config
from tests.built_book import ROOT


@pytest.fixture
def dataset():
    numbers = {
        "f": ("lag", np.random.default_rng(0).normal(size=1000)),
        "g": ("lag", np.arange(1000) > 3),
    }
    return xr.Dataset(numbers, {"lag": np.arange(1000)}, results.provenance(Config.named("smoke")))


def test_what_is_saved_is_loaded_and_equal_datasets_make_equal_bytes(tmp_path, dataset):
    path = tmp_path / "deep" / "run.nc"
    results.save(dataset, path)
    before = path.read_bytes()
    xr.testing.assert_identical(results.load(path), dataset)
    results.save(results.load(path), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["run.nc"]
    assert Config.model_validate_json(dataset.attrs["configuration"]) == Config.named("smoke")
    assert "torch 2" in dataset.attrs["versions"]


def test_failed_write_leaves_the_old_file_and_nothing_else_and_is_named(
    tmp_path, dataset, monkeypatch
):
    path = tmp_path / "run.nc"
    results.save(dataset, path)
    before = path.read_bytes()

    def full(part, content):
        with part.open("wb") as file:
            file.write(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*run\.nc'"):
        results.save(dataset, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


@pytest.mark.parametrize("keep", [0, 10, 3000, -1])
def test_truncated_file_is_named(tmp_path, dataset, keep):
    path = tmp_path / "run.nc"
    results.save(dataset, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"run\.nc': not a whole result file"):
        results.load(path)


def test_every_bit_of_a_number_is_under_a_checksum(tmp_path, dataset):
    """In each variable's stored bytes, and in the headers that say where they are."""
    path = tmp_path / "run.nc"
    results.save(dataset, path)
    whole = path.read_bytes()
    with h5py.File(io.BytesIO(whole)) as file:
        chunks = [
            file[name].id.get_chunk_info(k)
            for name in ("f", "g", "lag")
            for k in range(file[name].id.get_num_chunks())
        ]
    places = [
        p for chunk in chunks for p in range(chunk.byte_offset, chunk.byte_offset + chunk.size, 97)
    ]
    assert len(chunks) >= 3
    for place in (
        *places,
        *(k for name in (b"OHDR", b"FADB", b"FRHP") if (k := whole.find(name)) >= 0),
    ):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run\.nc': not a whole result file"):
            results.load(path)


def test_the_list_beside_a_file_vouches_for_every_byte(tmp_path, dataset):
    """Also of a file of an earlier version, behind whose end by HDF5 a line with its checksum
    stands."""
    path = tmp_path / "run.nc"
    results.save(dataset.assign_attrs(checksum="SHA-256 of all bytes before it"), path)
    whole = path.read_bytes() + b"\nsha256 " + 64 * b"0" + b"\n"
    path.write_bytes(whole)
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(whole).hexdigest()}  run.nc\n")
    xr.testing.assert_identical(results.load(path), dataset)
    path.write_bytes(whole[:-1] + b" ")
    with pytest.raises(ValueError, match="its checksum is not the one in SHA256SUMS: damaged"):
        results.load(path)


def test_recorded_runs_are_those_on_the_list():
    """Remade by ``sha256sum *.nc > SHA256SUMS`` in their folder."""
    folder = ROOT / "book" / "results"
    found = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(folder.glob("*.nc"))
    ]
    assert (folder / results.MANIFEST).read_text().splitlines() == found


def test_other_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such result file"):
        results.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ValueError, match="not a whole result file"):
        results.load(tmp_path / "text.nc")
    xr.Dataset({"f": 1.0}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="must be a result of this package"):
        results.load(tmp_path / "foreign.nc")
