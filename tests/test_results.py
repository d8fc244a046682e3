"""Result files are whole or not there."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from lwcore import results
from lwcore.config import Config
from tests.built_book import ROOT


@pytest.fixture
def dataset():
    config = Config.named("smoke")
    return xr.Dataset({"f": ("lag", np.arange(1000.0))}, attrs=results.provenance(config))


def test_what_is_saved_is_loaded(tmp_path, dataset):
    results.save(dataset, tmp_path / "deep" / "run.nc")
    xr.testing.assert_identical(results.load(tmp_path / "deep" / "run.nc"), dataset)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["run.nc"]
    assert Config.model_validate_json(dataset.attrs["configuration"]) == Config.named("smoke")
    assert "torch 2" in dataset.attrs["versions"]


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, dataset):
    path = tmp_path / "run.nc"
    results.save(dataset, path)
    before = path.read_bytes()

    def half_a_write(part):
        part.write_bytes(b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        results.write_atomically(path, half_a_write)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


@pytest.mark.parametrize("keep", [0, 10, 3000, -1])
def test_truncated_file_is_named(tmp_path, dataset, keep):
    path = tmp_path / "run.nc"
    results.save(dataset, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"run\.nc': not a whole result file"):
        results.load(path)


def test_every_bit_is_under_the_checksum(tmp_path, dataset):
    path = tmp_path / "run.nc"
    results.save(dataset, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run\.nc': not a whole result file \(it"):
            results.load(path, verified=True)


def test_file_without_a_checksum_may_be_looked_at_and_no_more(tmp_path, dataset):
    """As earlier versions wrote it; unless the list beside it has its line."""
    path = tmp_path / "run.nc"
    dataset.to_netcdf(path, engine="h5netcdf")
    xr.testing.assert_identical(results.load(path), dataset)
    with pytest.raises(ValueError, match="does not end with a checksum"):
        results.load(path, verified=True)
    whole = path.read_bytes()
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(whole).hexdigest()}  run.nc\n")
    xr.testing.assert_identical(results.load(path, verified=True), dataset)
    path.write_bytes(whole + b" ")
    with pytest.raises(ValueError, match="its checksum is not the one in SHA256SUMS: damaged"):
        results.load(path)


def test_recorded_runs_are_those_on_the_list():
    """Remade by ``sha256sum *.nc > SHA256SUMS`` in their folder."""
    folder = ROOT / "book" / "results"
    found = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(folder.glob("*.nc"))]
    assert (folder / results.MANIFEST).read_text().splitlines() == found


def test_full_disk_leaves_the_old_file_and_is_named(tmp_path, dataset, monkeypatch):
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


def test_other_files_are_named(tmp_path, dataset):
    with pytest.raises(FileNotFoundError, match="there is no such result file"):
        results.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ValueError, match="not a whole result file"):
        results.load(tmp_path / "text.nc")
    xr.Dataset({"f": 1.0}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="not a result of this package"):
        results.load(tmp_path / "foreign.nc")
