"""Sweeps: every point is the run it says, and a killed sweep goes on."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from pydantic import ValidationError

from lwcore import sweep as sweeping
from lwcore.config import Config, Sweep, shipped
from lwcore.experiment import run
from lwcore.results import load
from lwcore.sweep import run_sweep

SETTINGS = {
    "name": "grid",
    "description": "for tests",
    "base": "smoke",
    "changes": {"models": ["ConstGate"], "training": {"steps": 20}},
    "axes": {
        "delay_of_task": [{"label": lag, "changes": {"task": {"lags": [lag], "coefficients": [1.0]}}} for lag in (2, 5)],
        "sequences": [{"label": n, "changes": {"training": {"sequences": n}}} for n in (64, 16, 32)],
    },
}
GRID = Sweep.model_validate(SETTINGS)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    return run_sweep(GRID, directory=folder), folder


def test_every_point_is_the_run_it_says(swept):
    result, folder = swept
    assert [path.name for path in folder.iterdir()] == ["grid.nc"]
    xr.testing.assert_identical(load(folder / "grid.nc"), result)
    assert result.sequences.values.tolist() == [64, 16, 32], "in the order of the axis"
    for lag in (2, 5):
        for count in (64, 16, 32):
            config = Config.named("smoke").but(
                models=["ConstGate"], task={"lags": [lag], "coefficients": [1.0]}, training={"sequences": count, "steps": 20}
            )
            alone = run(config, progress=False, measured=False)
            point = result.sel(delay_of_task=lag, sequences=count)
            np.testing.assert_array_equal(point.learned, alone.learned)
            np.testing.assert_array_equal(point.test_loss, alone.test_loss)
            np.testing.assert_allclose(point.final_loss, alone.loss[..., -2:].mean("step"))
            np.testing.assert_allclose(point.still_falling, 1 - alone.loss[..., -2:].mean("step") / alone.loss[..., -4:-2].mean("step"))
    assert "step" not in result.dims
    assert Sweep.model_validate_json(result.attrs["configuration"]) == GRID


def test_killed_sweep_goes_on_and_ends_with_the_same_bits(swept, tmp_path, monkeypatch):
    original, left = sweeping.run, []

    def dies(*arguments, **options):
        if len(left) == 4:
            raise KeyboardInterrupt
        left.append(arguments[0])
        return original(*arguments, **options)

    monkeypatch.setattr(sweeping, "run", dies)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(GRID, directory=tmp_path)
    assert not (tmp_path / "grid.nc").exists()
    monkeypatch.setattr(sweeping, "run", original)
    trained = []
    monkeypatch.setattr(
        "lwcore.experiment.run_member", lambda *a, f=sweeping.run.__globals__["run_member"], **k: (trained.append(a), f(*a, **k))[1]
    )
    run_sweep(GRID, directory=tmp_path)
    assert len(trained) == 2 * 2, "two points of two seeds were left"
    assert (tmp_path / "grid.nc").read_bytes() == (swept[1] / "grid.nc").read_bytes()


def test_result_of_another_sweep_is_not_overwritten_unasked(swept, tmp_path):
    (tmp_path / "grid.nc").write_bytes((swept[1] / "grid.nc").read_bytes())
    other = Sweep.model_validate(SETTINGS | {"description": "another"})
    with pytest.raises(FileExistsError, match="another sweep of the same name"):
        run_sweep(other, directory=tmp_path)
    points = []
    run_sweep(GRID, directory=tmp_path, advance=points.append)
    assert points == [6]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bass": "smoke"}, "Extra inputs are not permitted"),
        ({"base": "nope"}, "name = 'nope': must be one of"),
        ({"axes": {}}, "at least 1 item"),
        ({"axes": {"lag": []}}, "at least one"),
        ({"axes": {"lag": [{"label": 1, "changes": {}}, {"label": 1, "changes": {}}]}}, "none of them twice"),
        ({"axes": {"lag": [{"label": 1, "changes": {"task": {"lags": [99]}}}]}}, "1 lags|does not fit"),
        ({"axes": {"lag": [{"label": 1, "changes": {"tsk": {"lags": [2]}}}]}}, "tsk"),
    ],
)
def test_bad_sweeps_are_refused_by_name(changes, message):
    with pytest.raises(ValidationError, match=message):
        Sweep.model_validate(SETTINGS | changes)


def test_shipped_sweeps_are_valid_and_named_like_their_files():
    assert {"single-lag", "single-lag-start"} <= set(shipped("sweeps"))
    for name in shipped("sweeps"):
        assert Sweep.named(name).name == name
