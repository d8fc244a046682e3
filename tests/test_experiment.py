"""Runs: the same bits whatever happens to them on the way."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import xarray as xr
from threadpoolctl import threadpool_info, threadpool_limits

from lwcore import experiment, results
from lwcore.experiment import Config, Stream, Sweep, _rng, load, run, run_member

SMOKE = Config.named("smoke").but(models=["ConstGate", "DiagGate"])


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
    assert dict(stored.sizes) == dict(dataset.sizes) | {
        "model": 2,
        "seed": 2,
        "lag": 6,
        "noise": 2,
        "unit": 6,
    }
    assert Config.model_validate_json(stored.attrs["configuration"]) == SMOKE
    for name, variable in stored.items():
        assert variable.attrs["long_name"], name


def test_second_run_does_nothing(undisturbed, monkeypatch):
    dataset, folder = undisturbed
    before = (folder / "smoke.nc").stat()
    monkeypatch.setattr(experiment, "run_member", None)  # would raise if called
    xr.testing.assert_identical(run(SMOKE, directory=folder, progress=False), dataset)
    assert (folder / "smoke.nc").stat() == before


def test_result_of_another_configuration_is_not_overwritten_unasked(undisturbed, tmp_path):
    other = SMOKE.model_copy(update={"seeds": (1,), "models": ("ConstGate",)})
    before = (undisturbed[1] / "smoke.nc").read_bytes()
    (tmp_path / "smoke.nc").write_bytes(before)
    with pytest.raises(FileExistsError, match=r"smoke\.nc holds another configuration"):
        run(other, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == before
    assert run(other, resume=False, directory=tmp_path, progress=False).sizes["seed"] == 1
    assert load(tmp_path / "smoke.nc").attrs["fingerprint"] == other.fingerprint


def test_networks_in_memory_are_those_of_the_run(undisturbed):
    """Trained, they have the run's error on its fresh sequences; untrained, they are copies in
    float64 that have not moved."""
    one = SMOKE.model_copy(update={"seeds": (2,)})
    trained, untrained = experiment.networks(one), experiment.networks(one, trained=False)
    assert list(trained) == one.members
    fresh = experiment.fresh_sequences(one, 2)
    assert fresh.targets.shape == (SMOKE.diagnostics.sequences, SMOKE.task.length)
    assert experiment.fresh_sequences(one, 2, 7).targets.shape[0] == 7
    for (model, seed), network in trained.items():
        stored = undisturbed[0].sel(model=model, seed=seed)
        assert network.loss(*fresh).item() == pytest.approx(float(stored.test_loss), rel=1e-5)
        scanned = experiment.traces(one, trained, 7)[model, seed]
        torch.testing.assert_close(scanned.states, network.cell.trace(fresh.inputs[:7]).states)
        at_start = untrained[model, seed]
        assert at_start.weight.dtype == torch.float64
        assert at_start.loss(*fresh).item() > network.loss(*fresh).item()


def test_seeds_and_streams_are_all_different():
    draws = [_rng(seed, stream).random() for seed in (0, 1, 2) for stream in Stream]
    assert len(set(draws)) == len(draws)


def test_members_differ_by_seed_and_share_data_between_models(undisturbed):
    dataset = undisturbed[0]
    assert not np.array_equal(
        dataset.loss.sel(model="ConstGate", seed=1), dataset.loss.sel(model="ConstGate", seed=2)
    )
    variance = dataset.target_variance
    assert (variance.sel(model="ConstGate") == variance.sel(model="DiagGate")).all()


def test_settings_arrive_where_they_are_used(monkeypatch):
    """What training, the cell and the task are given, and that diagnostics are made on other
    sequences than training."""
    changes = {
        "training": SMOKE.training.model_copy(
            update={"clip": 0.7, "weight_decay": 0.03, "learning_rate": 0.004, "optimizer": "sgd"}
        ),
        "network": SMOKE.network.model_copy(update={"gate_init": 0.2, "gate_spread": 0.0}),
        "task": SMOKE.task.model_copy(update={"noise": 0.9}),
    }
    seen, drawn = {}, []
    original_fit, original_sample = experiment.train.fit, experiment.tasks.sample

    def fit(network, sequences, **options):
        trace = network.cell.trace(sequences.inputs)
        seen.update(options, gate=trace.gates.let_in.mean().item(), batch=sequences)
        return original_fit(network, sequences, **options)

    def sample(task, count, rng):
        drawn.append((task, original_sample(task, count, rng)))
        return drawn[-1][1]

    monkeypatch.setattr(experiment.train, "fit", fit)
    monkeypatch.setattr(experiment.tasks, "sample", sample)
    result = run_member(SMOKE.model_copy(update=changes), "DiagGate", 1)
    wanted = {
        "steps": 30,
        "batch_size": 16,
        "clip": 0.7,
        "weight_decay": 0.03,
        "learning_rate": 0.004,
        "optimizer": "sgd",
    }
    assert {key: seen[key] for key in wanted} == wanted
    assert seen["gate"] == pytest.approx(0.2, abs=1e-6)
    assert [task.noise for task, _ in drawn] == [0.9, 0.9]
    assert [len(sequences.targets) for _, sequences in drawn] == [64, 80]
    assert not torch.equal(drawn[0][1].inputs, drawn[1][1].inputs[:64])
    np.testing.assert_allclose(
        result.target_variance, drawn[1][1].targets.var(correction=0), rtol=1e-6
    )


def test_divergence_names_the_member(tmp_path):
    wild = SMOKE.model_copy(
        update={
            "training": SMOKE.training.model_copy(update={"optimizer": "sgd", "learning_rate": 1e6})
        }
    )
    with pytest.raises(
        FloatingPointError,
        match=r"ConstGate, seed 1: the loss is (nan|inf) at step \d+: training diverged",
    ):
        run(wild, directory=tmp_path, progress=False)
    assert not (tmp_path / "smoke.nc").exists()


def test_folder_that_cannot_be_made_is_known_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(experiment, "run_member", None)  # would raise another error if called
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=f"(File exists|Not a directory): '{place}"):
            run(SMOKE, directory=place, progress=False)


def test_any_executor_gives_the_same_bits_and_no_resume_starts_anew(undisturbed, tmp_path):
    """Threads; the worker of a Dask cluster that does not see the folder is one for which it is not
    there."""
    (left := partial_of(SMOKE, tmp_path) / "smoke-ConstGate-1.nc").parent.mkdir()
    left.write_bytes(b"left by another day")
    with ThreadPoolExecutor(2) as pool:
        run(SMOKE, pool, resume=False, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["smoke.nc"]


def test_what_a_worker_has_done_is_stored_here(tmp_path, monkeypatch):
    """One worker, and the second member fails: the first is kept, the others have not begun."""
    original, begun = experiment._elsewhere, []

    def fails(code, job):
        begun.append(job[2])
        if job[2] == 2:
            raise FloatingPointError("diverged")
        return original(code, job)

    monkeypatch.setattr(experiment, "_elsewhere", fails)
    with ThreadPoolExecutor(1) as pool, pytest.raises(FloatingPointError):
        run(SMOKE.but(seeds=[1, 2, 3, 4, 5]), pool, directory=tmp_path, progress=False)
    assert begun[:2] == [1, 2]
    assert len(begun) <= 4, "what waits in the executor's own queue cannot be cancelled"
    assert [path.name for path in tmp_path.rglob("*.nc")] == ["smoke-ConstGate-1.nc"]


def test_workers_with_other_code_are_refused():
    with pytest.raises(RuntimeError, match="another version of lwcore"):
        experiment._elsewhere("other", (SMOKE, "ConstGate", 1, True, None))


def test_members_are_independent_of_one_another(undisturbed):
    alone = run_member(SMOKE, "DiagGate", 2)
    together = undisturbed[0].sel(model="DiagGate", seed=2)
    np.testing.assert_array_equal(alone.loss, together.loss)
    np.testing.assert_array_equal(alone.signal, together.signal)


def partial_of(config, folder):
    """Where unfinished work stands."""
    return folder / f"{config.name}-{config.fingerprint}-{results.code_fingerprint()}.partial"


PROGRAM = """
import sys
from lwcore.experiment import Config, run
run(Config.model_validate_json(sys.argv[1]), directory=sys.argv[2], progress=False)
"""


@pytest.mark.slow
def test_crashed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    """SIGKILL in the middle of a training, with a checkpoint written and a member done."""
    longer = SMOKE.but(models=["ConstGate"], training={"steps": 300, "checkpoint_every": 20})
    command = [sys.executable, "-c", PROGRAM, longer.model_dump_json(), tmp_path / "killed"]
    partial = partial_of(longer, tmp_path / "killed")
    member, checkpoint = partial / "smoke-ConstGate-1.nc", partial / "smoke-ConstGate-2.checkpoint"
    with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        while not (member.exists() and checkpoint.exists()):
            assert process.poll() is None
            time.sleep(0.002)
        process.kill()
    assert not (tmp_path / "killed" / "smoke.nc").exists()
    state, _ = experiment.load_checkpoint(checkpoint)
    begun, fit = [], experiment.train.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            experiment.train,
            "fit",
            lambda *a, **k: begun.append(k["resume_from"].step) or fit(*a, **k),
        )
        run(longer, directory=tmp_path / "killed", progress=False)
    assert begun == [state.step]
    run(longer, directory=tmp_path / "whole", progress=False)
    assert (tmp_path / "killed" / "smoke.nc").read_bytes() == (
        tmp_path / "whole" / "smoke.nc"
    ).read_bytes()
    assert [p.name for p in (tmp_path / "killed").iterdir()] == ["smoke.nc"]


@pytest.mark.parametrize("content", [b"", b"half", "other", "bytes"])
def test_damaged_checkpoint_is_named_and_not_used(undisturbed, tmp_path, content):
    path = tmp_path / "smoke-ConstGate-1.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run_member(SMOKE, "ConstGate", 1, True, path, _stop_at(15))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2 :: 100] = b"?" * len(whole[len(whole) // 2 :: 100])
    if content == "other":
        torch.save({"step": torch.zeros(3)}, path)
    else:
        path.write_bytes(whole if content == "bytes" else content)
    with pytest.warns(
        UserWarning,
        match=r"(?s)1\.checkpoint cannot be read \(.*\)\. What it held is computed anew",
    ):
        alone = run_member(SMOKE, "ConstGate", 1, True, path)
    np.testing.assert_array_equal(alone.loss, undisturbed[0].loss.sel(model="ConstGate", seed=1))


def test_damaged_member_is_computed_anew_and_a_damaged_result_is_for_the_reader(
    undisturbed, tmp_path
):
    (member := partial_of(SMOKE, tmp_path) / "smoke-ConstGate-1.nc").parent.mkdir()
    member.write_bytes(b"damaged")
    with pytest.warns(
        UserWarning,
        match=r"ConstGate-1\.nc': not a whole result file .* What it held is computed anew",
    ):
        run(SMOKE, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()
    (tmp_path / "smoke.nc").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"smoke\.nc': not a whole result file"):
        run(SMOKE, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == b"damaged"


def test_a_folder_that_goes_while_a_member_is_trained_stops_nothing(undisturbed, tmp_path):
    """Another process has stored the same result, and removed what both had kept."""
    partial = partial_of(SMOKE, tmp_path)

    measure, result = experiment.measure, (undisturbed[1] / "smoke.nc").read_bytes()

    def meanwhile(*arguments):
        (tmp_path / "smoke.nc").write_bytes(result)
        shutil.rmtree(partial, ignore_errors=True)
        return measure(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "measure", meanwhile)
        dataset = run(SMOKE, directory=tmp_path, progress=False)
    xr.testing.assert_identical(dataset, undisturbed[0])
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["smoke.nc"]


def _stop_at(step):
    """Interrupt a training behind a step."""
    taken = []

    def advance(count):
        taken.append(count)
        if sum(taken) >= step:
            raise KeyboardInterrupt

    return advance


def test_snapshots_are_the_network_on_the_way(tmp_path):
    """Those of a run that is cut short at each step and goes on, against trainings that end
    there."""
    settings = SMOKE.training.model_copy(
        update={"snapshots": (0, 5, 20, 30), "checkpoint_every": 10}
    )
    watched = SMOKE.model_copy(update={"training": settings})
    _, whole, snapshots = experiment.train_member(watched, "DiagGate", 1)
    assert list(snapshots) == [0, 5, 20, 30]
    for step, state in snapshots.items():
        other = SMOKE.model_copy(
            update={"training": settings.model_copy(update={"steps": step, "snapshots": ()})}
        )
        for name, value in experiment.train_member(other, "DiagGate", 1)[0].state_dict().items():
            torch.testing.assert_close(state[name], value, rtol=0, atol=0)

    path = tmp_path / "a.checkpoint"
    for cut in (12, 27):
        with pytest.raises(KeyboardInterrupt):
            experiment.train_member(watched, "DiagGate", 1, path, _stop_at(cut))
    _, resumed, again = experiment.train_member(watched, "DiagGate", 1, path)
    assert resumed.losses == whole.losses
    assert list(again) == [0, 5, 20, 30]
    for step, state in snapshots.items():
        for name, value in state.items():
            assert torch.equal(again[step][name], value)
    moments = [one.optimizer["state"][0]["exp_avg_sq"] for one in (whole, resumed)]
    assert torch.equal(*moments)


def test_course_and_numbers_are_stored_when_asked_for(undisturbed):
    asked = SMOKE.but(training={"snapshots": [0, 30]}, diagnostics={"keep_numbers": True})
    result = run_member(asked, "DiagGate", 1)
    plain = undisturbed[0].sel(model="DiagGate", seed=1)
    assert not {"statistic", "retention"} & set(plain.variables)
    np.testing.assert_array_equal(result.signal, plain.signal)
    np.testing.assert_allclose(
        result.statistic.mean("sequence"), plain.signal.sel(source="error"), rtol=1e-4, atol=1e-9
    )
    assert result.statistic.dtype == np.float32
    assert result.retention.sel(snapshot=0).values == pytest.approx(0.7, abs=0.02)
    assert float(result.course_loss.sel(snapshot=30)) < float(result.course_loss.sel(snapshot=0))
    assert (result.base_rate > 1).all()


def test_networks_can_be_measured_as_they_start():
    start = run_member(SMOKE.but(training={"steps": 0}), "GRU", 1)
    assert start.sizes["step"] == 0
    assert "base_rate" not in start
    assert float(start.test_loss) > 0.8 * float(start.target_variance)


def test_full_disk_is_named_leaves_nothing_half_and_the_run_goes_on(tmp_path, undisturbed):
    """A limit on the size of files, which the members fit and the result does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, ((undisturbed[1] / "smoke.nc").stat().st_size - 1, hard)
    )
    try:
        with pytest.raises(OSError, match=r"File too large: '.*smoke\.nc'"):
            run(SMOKE, directory=tmp_path, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (partial,) = tmp_path.iterdir()
    assert {path.suffix for path in partial.iterdir()} == {".nc", ".checkpoint"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "train_member", None)  # would raise if called
        run(SMOKE, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["smoke.nc"]


def test_one_thread_is_used_by_every_library_and_the_numbers_restored(monkeypatch):
    def threads():
        return {one["filepath"]: one["num_threads"] for one in threadpool_info()}

    used = []
    monkeypatch.setattr(experiment.train, "fit", lambda *_, **__: used.append(threads()) or [0.0])
    with threadpool_limits(2):
        before = threads()
        run_member(SMOKE, "ConstGate", 1)
        assert set(used[0].values()) == {1}
        assert threads() == before
        assert 2 in before.values()


GRID = Sweep.model_validate(
    {
        "name": "grid",
        "description": "for tests",
        "base": "smoke",
        "changes": {"models": ["ConstGate"], "training": {"steps": 20}},
        "axes": {
            "delay_of_task": [
                {"label": lag, "changes": {"task": {"lags": [lag], "coefficients": [1.0]}}}
                for lag in (2, 5)
            ],
            "sequences": [
                {"label": n, "changes": {"training": {"sequences": n}}} for n in (64, 16, 32)
            ],
        },
    }
)


def test_a_sweep_is_the_runs_at_its_points(tmp_path, monkeypatch):
    """Interrupted on its way, and gone on with: the points that were done are not done again."""
    original, begun = experiment.train_member, []

    def dies(*arguments, **options):
        begun.append(arguments)
        if len(begun) == 9:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(experiment, "train_member", dies)
    with pytest.raises(KeyboardInterrupt):
        run(GRID, directory=tmp_path, progress=False)
    result = run(GRID, directory=tmp_path, progress=False)
    assert len(begun) == 1 + 2 * 2 * 3
    assert [path.name for path in tmp_path.iterdir()] == ["grid.nc"]
    xr.testing.assert_identical(load(tmp_path / "grid.nc"), result)
    xr.testing.assert_identical(run(GRID, directory=tmp_path, progress=False), result)
    assert result.sequences.values.tolist() == [64, 16, 32], "in the order of the axis"
    assert "step" not in result.dims
    assert Sweep.model_validate_json(result.attrs["configuration"]) == GRID
    for (lag, count), config in GRID.points().items():
        assert (config.task.lags, config.training.sequences) == ((lag,), count)
        alone = run_member(config, "ConstGate", 1, measured=False)
        point = result.sel(delay_of_task=lag, sequences=count, seed=1, model="ConstGate")
        np.testing.assert_array_equal(point.learned, alone.learned)
        np.testing.assert_array_equal(point.test_loss, alone.test_loss)
        last, before = alone.loss[-2:].mean(), alone.loss[-4:-2].mean()
        np.testing.assert_allclose(point.final_loss, last)
        np.testing.assert_allclose(point.still_falling, 1 - last / before)
    other = GRID.model_copy(update={"description": "another"})
    with pytest.raises(FileExistsError, match="another configuration of the same name"):
        run(other, directory=tmp_path, progress=False)
