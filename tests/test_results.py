"""Result files are whole or not there."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from lwcore import results
from lwcore.config import Config


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


def test_other_files_are_named(tmp_path, dataset):
    with pytest.raises(FileNotFoundError, match="there is no such result file"):
        results.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ValueError, match="not a whole result file"):
        results.load(tmp_path / "text.nc")
    xr.Dataset({"f": 1.0}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="not a result of this package"):
        results.load(tmp_path / "foreign.nc")
