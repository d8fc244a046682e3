"""Runs: the same bits whatever happens to them on the way."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import xarray as xr

from lwcore import experiment, results, unfinished
from lwcore.experiment import Config, Stream, _rng, load, run, run_member
from lwcore.unfinished import folder_of

SMOKE = Config.named("smoke").but(models=["ConstGate", "DiagGate"])


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """What a test puts in the place of training must not stay for other tests."""
    monkeypatch.delenv("LWCORE_NETWORKS", raising=False)


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
    assert dict(stored.sizes) == dict(dataset.sizes) | {"model": 2, "seed": 2, "lag": 6, "noise": 2, "unit": 6}
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
    """Trained, they have the run's error on its fresh sequences; untrained, they are copies in float64 that have not moved."""
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
    assert not np.array_equal(dataset.loss.sel(model="ConstGate", seed=1), dataset.loss.sel(model="ConstGate", seed=2))
    variance = dataset.target_variance
    assert (variance.sel(model="ConstGate") == variance.sel(model="DiagGate")).all()


def test_settings_arrive_where_they_are_used(monkeypatch):
    """What training, the cell and the task are given, and that diagnostics are made on other sequences than training."""
    changes = {
        "training": SMOKE.training.model_copy(update={"clip": 0.7, "weight_decay": 0.03, "learning_rate": 0.004, "optimizer": "sgd"}),
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
    wanted = {"steps": 30, "batch_size": 16, "clip": 0.7, "weight_decay": 0.03, "learning_rate": 0.004, "optimizer": "sgd"}
    assert {key: seen[key] for key in wanted} == wanted
    assert seen["gate"] == pytest.approx(0.2, abs=1e-6)
    assert [task.noise for task, _ in drawn] == [0.9, 0.9]
    assert [len(sequences.targets) for _, sequences in drawn] == [64, 80]
    assert not torch.equal(drawn[0][1].inputs, drawn[1][1].inputs[:64])
    np.testing.assert_allclose(result.target_variance, drawn[1][1].targets.var(correction=0), rtol=1e-6)


def test_test_loss_is_the_mean_squared_error_on_fresh_sequences(monkeypatch):
    kept = {}
    original = experiment.measure

    def keep(network, sequences, *rest):
        kept.update(network=network, sequences=sequences)
        return original(network, sequences, *rest)

    monkeypatch.setattr(experiment, "measure", keep)
    result = run_member(SMOKE, "DiagGate", 2)
    with torch.no_grad():
        error = kept["network"](kept["sequences"].inputs) - kept["sequences"].targets
    assert float(result.test_loss) == pytest.approx(error.square().mean().item(), rel=1e-5)


def test_divergence_names_the_member(tmp_path):
    wild = SMOKE.model_copy(update={"training": SMOKE.training.model_copy(update={"optimizer": "sgd", "learning_rate": 1e6})})
    with pytest.raises(FloatingPointError, match=r"ConstGate, seed 1: the loss is (nan|inf) at step \d+: training diverged"):
        run(wild, directory=tmp_path, progress=False)
    assert not (tmp_path / "smoke.nc").exists()


def test_failure_cancels_what_has_not_begun(tmp_path):
    """One worker, four members, the first of which fails: the others are not trained."""
    wild = SMOKE.model_copy(update={"training": SMOKE.training.model_copy(update={"optimizer": "sgd", "learning_rate": 1e6})})
    with ThreadPoolExecutor(1) as pool, pytest.raises(FloatingPointError):
        run(wild, pool, directory=tmp_path, progress=False)
    assert len(list(tmp_path.rglob("*.nc"))) == 0


def test_folder_that_cannot_be_made_is_known_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(experiment, "run_member", None)  # would raise another error if called
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=f"directory = '{place}': is no folder"):
            run(SMOKE, directory=place, progress=False)


def test_any_executor_gives_the_same_bits_and_no_resume_starts_anew(undisturbed, tmp_path):
    partial = folder_of(SMOKE, tmp_path)
    unfinished.begin(partial, "")
    (partial / "ConstGate-1.nc").write_bytes(b"left by another day")
    with ThreadPoolExecutor(2) as pool:
        run(SMOKE, pool, resume=False, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()


def test_members_are_independent_of_one_another(undisturbed):
    alone = run_member(SMOKE, "DiagGate", 2)
    together = undisturbed[0].sel(model="DiagGate", seed=2)
    np.testing.assert_array_equal(alone.loss, together.loss)
    np.testing.assert_array_equal(alone.signal, together.signal)


@pytest.mark.slow
def test_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    """SIGKILL in the middle of a training, with a checkpoint written and some members done."""
    longer = SMOKE.but(models=["ConstGate"], training={"steps": 300, "checkpoint_every": 20})
    program = (
        "import sys; from lwcore.experiment import Config, run; "
        "run(Config.model_validate_json(sys.argv[1]), directory=sys.argv[2], progress=False)"
    )
    command = [sys.executable, "-c", program, longer.model_dump_json(), str(tmp_path / "killed")]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    partial = folder_of(longer, tmp_path / "killed")
    deadline = time.monotonic() + 120
    while process.poll() is None and not ((partial / "ConstGate-1.nc").exists() and (partial / "ConstGate-2.checkpoint").exists()):
        assert time.monotonic() < deadline, "the run got nowhere"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "smoke.nc").exists()
    left = {p.name for p in partial.iterdir()}
    steps_taken = []
    original = experiment.run_member

    def watched(config, model, seed, partial, advance, **rest):
        return original(config, model, seed, partial, lambda n: (steps_taken.append(n), advance(n)), **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "run_member", watched)
        run(longer, directory=tmp_path / "killed", progress=False)
    assert max(steps_taken) == 300, "a finished member was trained again"
    assert any(1 < n < 300 for n in steps_taken), f"no checkpoint was used; the kill had left {left}"
    run(longer, directory=tmp_path / "whole", progress=False)
    assert (tmp_path / "killed" / "smoke.nc").read_bytes() == (tmp_path / "whole" / "smoke.nc").read_bytes()
    assert [p.name for p in (tmp_path / "killed").iterdir()] == ["smoke.nc"]


@pytest.mark.parametrize("content", ["tensor", "bit"])
def test_damaged_checkpoint_is_named_set_aside_and_not_used(undisturbed, tmp_path, content):
    path = tmp_path / "ConstGate-1.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run_member(SMOKE, "ConstGate", 1, tmp_path, _stop_at(15))
    whole = bytearray(path.read_bytes())
    if content == "tensor":
        torch.save({"step": torch.zeros(3)}, path)
        whole = results.sealed(path.read_bytes())
    else:
        whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.warns(UserWarning, match=r"(?s)1\.checkpoint cannot be read \(.*\)\. It was moved to ConstGate-1\.checkpoint\.damaged;"):
        alone = run_member(SMOKE, "ConstGate", 1, tmp_path)
    assert (tmp_path / "ConstGate-1.checkpoint.damaged").read_bytes() == whole
    np.testing.assert_array_equal(alone.loss, undisturbed[0].loss.sel(model="ConstGate", seed=1))


def _stop_at(step):
    """Interrupt a training behind a step."""
    taken = []

    def advance(count):
        taken.append(count)
        if sum(taken) >= step:
            raise KeyboardInterrupt

    return advance


def test_snapshots_are_the_network_on_the_way(tmp_path):
    """Those of a run that is cut short at each step and goes on, against trainings that end there."""
    settings = SMOKE.training.model_copy(update={"snapshots": (0, 5, 20, 30), "checkpoint_every": 10})
    watched = SMOKE.model_copy(update={"training": settings})
    whole = experiment._train(watched, "DiagGate", 1)
    assert list(whole.snapshots) == [0, 5, 20, 30]
    for step, state in whole.snapshots.items():
        other = SMOKE.model_copy(update={"training": settings.model_copy(update={"steps": step, "snapshots": ()})})
        for name, value in experiment._train(other, "DiagGate", 1).network.state_dict().items():
            torch.testing.assert_close(state[name], value, rtol=0, atol=0)

    for cut in (12, 27):
        with pytest.raises(KeyboardInterrupt):
            experiment._train(watched, "DiagGate", 1, tmp_path, _stop_at(cut))
    resumed = experiment._train(watched, "DiagGate", 1, tmp_path)
    assert resumed.losses == whole.losses
    assert list(resumed.snapshots) == [0, 5, 20, 30]
    for step, state in whole.snapshots.items():
        for name, value in state.items():
            assert torch.equal(resumed.snapshots[step][name], value)
    moments = [one.optimizer["state"][0]["exp_avg_sq"] for one in (whole, resumed)]
    assert torch.equal(*moments)


def test_course_and_numbers_are_stored_when_asked_for(undisturbed):
    asked = SMOKE.but(training={"snapshots": [0, 30]}, diagnostics={"keep_numbers": True})
    result = run_member(asked, "DiagGate", 1)
    plain = undisturbed[0].sel(model="DiagGate", seed=1)
    assert not {"statistic", "retention"} & set(plain.variables)
    np.testing.assert_array_equal(result.signal, plain.signal)
    np.testing.assert_allclose(result.statistic.mean("sequence"), plain.signal.sel(source="error"), rtol=1e-4, atol=1e-9)
    assert result.statistic.dtype == np.float32
    assert result.retention.sel(snapshot=0).values == pytest.approx(0.7, abs=0.02)
    assert float(result.course_loss.sel(snapshot=30)) < float(result.course_loss.sel(snapshot=0))
    assert (result.base_rate > 1).all()


def test_a_network_is_trained_once_where_it_can_be_kept(tmp_path, monkeypatch):
    config = SMOKE.but(models=["DiagGate"], seeds=[1])
    two, other = config.but(models=["ConstGate", "DiagGate"]), config.but(training={"steps": 3})
    monkeypatch.setenv("LWCORE_NETWORKS", str(tmp_path))
    steps, fit = [], experiment.train.fit
    monkeypatch.setattr(experiment.train, "fit", lambda *a, **k: steps.append(k["steps"]) or fit(*a, **k))
    first, again, another = (experiment.networks(one)["DiagGate", 1] for one in (config, two, other))
    kept = run(two, progress=False)
    assert steps == [config.training.steps, config.training.steps, 3]
    monkeypatch.delenv("LWCORE_NETWORKS")
    plain = experiment.networks(config)["DiagGate", 1]
    xr.testing.assert_identical(kept, run(two, progress=False))
    for a, b, c, d in zip(*(network.parameters() for network in (first, again, plain, another)), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)
        assert not torch.equal(a, d)


def test_networks_can_be_measured_as_they_start():
    start = run_member(SMOKE.but(training={"steps": 0}), "GRU", 1)
    assert start.sizes["step"] == 0
    assert "base_rate" not in start
    assert float(start.test_loss) > 0.8 * float(start.target_variance)


def test_damaged_member_is_named_set_aside_and_computed_anew(undisturbed, tmp_path):
    one = SMOKE.but(models=["ConstGate"], seeds=[1])
    unfinished.begin(folder_of(one, tmp_path), "")
    member = folder_of(one, tmp_path) / "ConstGate-1.nc"
    run_member(one, "ConstGate", 1, member.parent)
    whole = bytearray(member.read_bytes())
    whole[5000] ^= 4
    member.write_bytes(whole)
    with pytest.warns(UserWarning, match=r"ConstGate-1\.nc': not a whole result file \(its checksum does not fit: damaged\)"):
        result = run(one, directory=tmp_path, progress=False)
    np.testing.assert_array_equal(result.signal.squeeze(), undisturbed[0].signal.sel(model="ConstGate", seed=1))


def test_damaged_or_unverified_result_is_set_aside_and_made_anew(tmp_path):
    one = SMOKE.but(models=["ConstGate"], seeds=[1])
    run(one, directory=tmp_path, progress=False)
    path = tmp_path / "smoke.nc"
    whole = path.read_bytes()
    for number, damaged in enumerate((whole[: len(whole) // 2], whole[:-73]), 1):
        path.write_bytes(damaged)
        with pytest.warns(
            UserWarning, match=rf"smoke\.nc': not a whole result file .* It was moved to smoke\.nc\.damaged{f'-{number}' * (number > 1)};"
        ):
            run(one, directory=tmp_path, progress=False)
        assert path.read_bytes() == whole
    assert (tmp_path / "smoke.nc.damaged-2").read_bytes() == whole[:-73]


def test_full_disk_is_named_leaves_nothing_half_and_the_run_goes_on(tmp_path, undisturbed):
    """A limit on the size of files, which the members fit and the result does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((undisturbed[1] / "smoke.nc").stat().st_size - 1, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*smoke\.nc'"):
            run(SMOKE, directory=tmp_path, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (partial,) = tmp_path.iterdir()
    assert {path.suffix for path in partial.iterdir()} == {".nc", ".lock", ".json"}
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "_train", lambda *_, **__: taken.append(1))
        run(SMOKE, directory=tmp_path, progress=False)
    assert taken == []
    assert (tmp_path / "smoke.nc").read_bytes() == (undisturbed[1] / "smoke.nc").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["smoke.nc"]


def test_one_thread_is_used_and_the_number_restored(monkeypatch):
    before = torch.get_num_threads()
    used = []
    monkeypatch.setattr(experiment.train, "fit", lambda *_, **__: used.append(torch.get_num_threads()) or [0.0])
    torch.set_num_threads(2)
    try:
        run_member(SMOKE, "ConstGate", 1)
        assert used == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
