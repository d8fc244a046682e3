"""Runs: the same bits whatever happens to them on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import xarray as xr

from lwcore import experiment
from lwcore.experiment import Config, load, run, run_member

SMOKE = Config.named("smoke")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run from beginning to end, and its folder."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return run(SMOKE, directory=folder, progress=False), folder


def test_result_is_stored_whole_with_its_provenance(undisturbed):
    dataset, folder = undisturbed
    assert [p.name for p in folder.iterdir()] == ["smoke.nc"]
    stored = load(folder / "smoke.nc")
    xr.testing.assert_identical(stored, dataset)
    assert dict(stored.sizes) == dict(dataset.sizes) | {"model": 3, "seed": 2, "lag": 6, "budget": 3, "unit": 6}
    assert Config.model_validate_json(stored.attrs["configuration"]) == SMOKE
    for name, variable in stored.items():
        assert variable.attrs["long_name"], name


def test_second_run_does_nothing(undisturbed, monkeypatch):
    dataset, folder = undisturbed
    before = (folder / "smoke.nc").stat()
    monkeypatch.setattr(experiment, "run_member", None)  # would raise if called
    xr.testing.assert_identical(run(SMOKE, directory=folder, progress=False), dataset)
    assert (folder / "smoke.nc").stat() == before


def test_run_without_a_folder_gives_the_same(undisturbed):
    xr.testing.assert_identical(run(SMOKE, progress=False), undisturbed[0])


def test_changed_configuration_is_run_anew(undisturbed):
    _, folder = undisturbed
    other = SMOKE.model_copy(update={"seeds": (1,), "models": ("ConstGate",)})
    assert run(other, directory=folder / "other", progress=False).sizes["seed"] == 1
    (folder / "copy").mkdir()
    (folder / "copy" / "smoke.nc").write_bytes((folder / "smoke.nc").read_bytes())
    assert run(other, directory=folder / "copy", progress=False).sizes["seed"] == 1
    assert load(folder / "copy" / "smoke.nc").attrs["fingerprint"] == other.fingerprint


def test_any_executor_gives_the_same_bits(undisturbed, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        run(SMOKE, pool, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()


def test_members_are_independent_of_one_another(undisturbed):
    alone = run_member(SMOKE, "DiagGate", 2)
    together = undisturbed[0].sel(model="DiagGate", seed=2)
    np.testing.assert_array_equal(alone.loss, together.loss)
    np.testing.assert_array_equal(alone.window, together.window)


def test_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    """SIGKILL in the middle of a training, with a checkpoint written and some members done."""
    longer = SMOKE.model_copy(update={"training": SMOKE.training.model_copy(update={"steps": 600, "checkpoint_every": 20})})
    program = (
        "import sys; from lwcore.experiment import Config, run; "
        "run(Config.model_validate_json(sys.argv[1]), directory=sys.argv[2], progress=False)"
    )
    command = [sys.executable, "-c", program, longer.model_dump_json(), str(tmp_path / "killed")]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    partial = tmp_path / "killed" / f"smoke-{longer.fingerprint}.partial"
    while process.poll() is None and not ((partial / "ConstGate-1.nc").exists() and list(partial.glob("*.checkpoint"))):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "smoke.nc").exists()
    left = {p.name for p in partial.iterdir()}
    steps_taken = []
    original = experiment.run_member

    def watched(config, model, seed, partial, advance):
        return original(config, model, seed, partial, lambda n: (steps_taken.append(n), advance(n)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "run_member", watched)
        run(longer, directory=tmp_path / "killed", progress=False)
    assert max(steps_taken) == 600, "a finished member was trained again"
    assert any(1 < n < 600 for n in steps_taken), f"no checkpoint was used; the kill had left {left}"
    run(longer, directory=tmp_path / "whole", progress=False)
    assert (tmp_path / "killed" / "smoke.nc").read_bytes() == (tmp_path / "whole" / "smoke.nc").read_bytes()
    assert [p.name for p in (tmp_path / "killed").iterdir()] == ["smoke.nc"]


def test_no_resume_starts_anew(undisturbed, tmp_path):
    partial = tmp_path / f"smoke-{SMOKE.fingerprint}.partial"
    partial.mkdir()
    (partial / "ConstGate-1.nc").write_bytes(b"left by another day")
    run(SMOKE, resume=False, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()


def test_unreadable_checkpoint_is_named_and_left_out(undisturbed, tmp_path):
    (tmp_path / "ConstGate-1.checkpoint").write_bytes(b"not a checkpoint")
    with pytest.warns(UserWarning, match=r"ConstGate-1\.checkpoint cannot be read"):
        alone = run_member(SMOKE, "ConstGate", 1, tmp_path)
    np.testing.assert_array_equal(alone.loss, undisturbed[0].loss.sel(model="ConstGate", seed=1))


def test_truncated_member_is_named(tmp_path):
    run_member(SMOKE, "ConstGate", 1, tmp_path)
    whole = (tmp_path / "ConstGate-1.nc").read_bytes()
    (tmp_path / "ConstGate-1.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"ConstGate-1\.nc': not a whole result file"):
        run_member(SMOKE, "ConstGate", 1, tmp_path)


def test_threads_are_left_as_they_were():
    before = torch.get_num_threads()
    run_member(SMOKE, "ConstGate", 1)
    assert torch.get_num_threads() == before
