"""Runs: the same bits whatever happens to them on the way."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import xarray as xr

from lwcore import results
from lwcore.experiment import Config, load, run, run_member, running, surroundings
from lwcore.experiment.running import Stream
from lwcore.network import Network, Progress
from tests.networks import make


class Runs:
    """A pickle that would make a folder as soon as it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("marker", 0o700)


SMOKE = Config.named("smoke").replace(models=["ConstGate", "DiagGate"])
# Where what is measured has no part.
PLAIN = SMOKE.replace(measured=False, training={"steps": 20, "checkpoint_every": 5})
TRAIN = running.train


def made(folder, config=PLAIN, *arguments, **options):
    return run(config, *arguments, directory=folder, progress=False, **options)


def names(folder):
    return [path.name for path in folder.rglob("*")]


def partial_of(config, folder):
    """Where unfinished work stands."""
    return folder / f"{config.name}-{config.fingerprint}-{surroundings.fingerprint()}.partial"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run from beginning to end, and its file's bytes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return made(folder), (folder / "smoke.nc").read_bytes()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run of which all is measured, and its file."""
    folder = tmp_path_factory.mktemp("measured")
    return made(folder, SMOKE), folder / "smoke.nc"


def stopped_at(step, of, *arguments):
    """A run, or a training, that is interrupted behind a step."""

    def stopping(*arguments, on_step, **options):
        def stop(state):
            on_step(state)
            if state.step == step:
                raise KeyboardInterrupt

        return TRAIN(*arguments, on_step=stop, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "train", stopping)
        with pytest.raises(KeyboardInterrupt):
            of(*arguments)


def test_result_is_whole_says_what_made_it_and_is_not_made_again(measured, monkeypatch):
    dataset, path = measured
    monkeypatch.setattr(running, "run_member", None)  # would raise if called
    before = path.stat().st_mtime_ns
    stored = made(path.parent, SMOKE)
    xr.testing.assert_identical(stored, dataset)
    assert path.stat().st_mtime_ns == before
    sizes = {"model": 2, "seed": 2, "lag": 6, "noise": 2, "unit": 6}
    assert sizes.items() <= dict(stored.sizes).items()
    assert Config.model_validate_json(stored.attrs["configuration"]) == SMOKE
    assert all(variable.attrs["long_name"] for variable in stored.values())


def test_members_are_independent_and_differ_by_seed_but_not_in_their_data(measured):
    dataset, _ = measured
    alone = run_member(SMOKE, "DiagGate", 2)
    together = dataset.sel(model="DiagGate", seed=2)
    for name in ("loss", "signal"):
        np.testing.assert_array_equal(alone[name], together[name])
    assert (dataset.loss.sel(seed=1) != dataset.loss.sel(seed=2)).any("step").all()
    assert (dataset.target_variance.std("model") == 0).all()
    draws = {running._rng(seed, stream).random() for seed in (0, 1, 2) for stream in Stream}
    assert len(draws) == 3 * len(Stream)


def test_settings_arrive_where_they_are_used(monkeypatch):
    """And diagnostics are made on other sequences than training."""
    told = {"clip": 0.7, "weight_decay": 0.03, "learning_rate": 0.004, "optimizer": "sgd"}
    network = {"gate_init": 0.2, "gate_spread": 0.0}
    config = SMOKE.replace(training=told, network=network, task={"noise": 0.9})
    seen, drawn, sample = {}, [], running.tasks.sample

    def train(network, sequences, **options):
        seen.update(options, gate=network.cell.trace(sequences.inputs).gates.let_in.mean().item())
        return TRAIN(network, sequences, **options)

    def sampled(task, *arguments):
        drawn.append((task.noise, sample(task, *arguments)))
        return drawn[-1][1]

    monkeypatch.setattr(running, "train", train)
    monkeypatch.setattr(running.tasks, "sample", sampled)
    result = run_member(config, "DiagGate", 1)
    wanted = told | {"steps": 30, "batch_size": 16}
    assert {key: seen[key] for key in wanted} == wanted
    assert seen["gate"] == pytest.approx(0.2, abs=1e-6)
    (noise, training), (fresh_noise, fresh) = drawn
    assert (noise, fresh_noise) == (0.9, 0.9)
    assert (len(training.targets), len(fresh.targets)) == (64, 80)
    assert not torch.equal(training.inputs, fresh.inputs[:64])
    assert float(result.target_variance) == pytest.approx(fresh.targets.var(correction=0).item())


def test_any_executor_gives_the_same_bits_and_no_resume_starts_anew(undisturbed, tmp_path):
    partial = partial_of(PLAIN, tmp_path)
    partial.mkdir()
    (partial / "0-ConstGate-1.nc").write_bytes(b"left by another day")
    with ThreadPoolExecutor(2) as pool:
        made(tmp_path, PLAIN, pool, resume=False)
    assert (tmp_path / "smoke.nc").read_bytes() == undisturbed[1]
    assert names(tmp_path) == ["smoke.nc"]


def test_workers_with_other_code_are_refused_and_one_that_sees_no_folder_keeps_nothing(tmp_path):
    gone = tmp_path / "gone" / "a.checkpoint"
    job = (PLAIN, "ConstGate", 1, gone)
    with pytest.raises(RuntimeError, match=r"computes other bits .* and python 3"):
        running._run_on_worker("other", *job)
    running._run_on_worker(surroundings.fingerprint(), *job)
    assert names(tmp_path) == []


def test_damaged_member_is_computed_anew_and_a_damaged_result_is_for_the_reader(
    undisturbed, tmp_path
):
    path = tmp_path / "smoke.nc"
    partial = partial_of(PLAIN, tmp_path)
    partial.mkdir()
    (partial / "0-ConstGate-1.nc").write_bytes(b"damaged")
    words = r"ConstGate-1\.nc': not a whole result file .* What it held is computed anew"
    with pytest.warns(UserWarning, match=words):
        made(tmp_path)
    assert path.read_bytes() == undisturbed[1]
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"smoke\.nc': not a whole result file"):
        made(tmp_path)
    assert path.read_bytes() == b"damaged"


def test_snapshots_are_the_network_on_the_way(tmp_path):
    """Those of a training that is cut short and goes on, against trainings that end there."""

    def trained(config, checkpoint=None):
        network = running._start(config, "DiagGate", 1)
        return running._train(network, config, "DiagGate", 1, checkpoint), network.state_dict()

    watched = SMOKE.replace(training={"snapshots": [0, 20, 30], "checkpoint_every": 10})
    whole, snapshots = trained(watched)[0]
    path = tmp_path / "a.checkpoint"
    stopped_at(27, trained, watched, path)
    assert running.load_checkpoint(path)[0].step == 20
    resumed, again = trained(watched, path)[0]
    assert resumed.losses == whole.losses
    assert list(snapshots) == list(again) == [0, 20, 30]
    for step, state in snapshots.items():
        ending_there = trained(SMOKE.replace(training={"steps": step}))[1]
        for name, value in state.items():
            assert torch.equal(again[step][name], value)
            assert torch.equal(ending_there[name], value)
    moments = [one.optimizer["state"][0]["exp_avg_sq"] for one in (whole, resumed)]
    assert torch.equal(*moments)


def test_course_and_numbers_are_stored_when_asked_for(measured):
    asked = SMOKE.replace(training={"snapshots": [0, 30]}, diagnostics={"keep_numbers": True})
    result = run_member(asked, "DiagGate", 1)
    plain = measured[0].sel(model="DiagGate", seed=1)
    assert not {"statistic", "retention"} & set(plain.variables)
    np.testing.assert_array_equal(result.signal, plain.signal)
    numbers, signal = result.statistic, plain.signal.sel(source="error")
    np.testing.assert_allclose(numbers.mean("sequence"), signal, rtol=1e-4, atol=1e-9)
    assert result.retention.sel(snapshot=0).values == pytest.approx(0.7, abs=0.02)
    assert (result.course_learned.sel(snapshot=30) > result.course_learned.sel(snapshot=0)).all()
    assert (result.base_rate > 1).all()


@pytest.mark.parametrize("changed", ["code", "arithmetic"])
def test_a_result_that_something_else_made_is_returned_and_that_is_said(
    undisturbed, tmp_path, changed
):
    older = undisturbed[0].assign_attrs({changed: "of another day"})
    results.save(older, tmp_path / "smoke.nc")
    words = (
        rf"smoke\.nc was made by something else .*\({changed} of another day, here .*--no-resume"
    )
    with pytest.warns(UserWarning, match=words):
        xr.testing.assert_identical(made(tmp_path), older)


def test_unfinished_work_of_other_code_is_named_and_neither_used_nor_removed(
    undisturbed, tmp_path, monkeypatch
):
    stopped_at(15, made, tmp_path)
    (left,) = tmp_path.iterdir()
    monkeypatch.setattr(surroundings, "fingerprint", lambda: "00000000")
    words = rf"{left.name} is left from .* other code .* is not used"
    with pytest.warns(UserWarning, match=words):
        made(tmp_path)
    assert (tmp_path / "smoke.nc").read_bytes() == undisturbed[1]
    assert left.is_dir()


def test_a_sweep_is_the_runs_at_its_points(tmp_path):
    """In the order of its axes; what a point with other lags and widths has not measured is NaN."""
    near = {
        "diagnostics": {"lags": [1, 2]},
        "task": {"lags": [1, 3]},
        "network": {"hidden_size": 3},
    }
    reach = [{"label": "all", "changes": {}}, {"label": "near", "changes": near}]
    counts = [{"label": n, "changes": {"training": {"sequences": n}}} for n in (64, 16)]
    watched = {"training": {"steps": 4, "snapshots": [0, 4]}, "models": ["GRU"], "seeds": [1]}
    grid = SMOKE.replace(name="grid", **watched, axes={"reach": reach, "sequences": counts})
    whole = made(tmp_path, grid)
    assert names(tmp_path) == ["grid.nc"]
    xr.testing.assert_identical(load(tmp_path / "grid.nc"), whole)
    assert whole.sequences.values.tolist() == [64, 16]
    assert "step" not in whole.dims
    assert Config.model_validate_json(whole.attrs["configuration"]) == grid
    for (label, count), config in grid.points().items():
        assert config.training.sequences == count
        member = run_member(config, "GRU", 1).drop_dims("step")
        part = whole.sel(reach=label, sequences=count, model="GRU", seed=1)
        for name, variable in member.data_vars.items():
            own = {dim: member[dim].values for dim in variable.dims}
            np.testing.assert_array_equal(part[name].sel(own), variable)
            assert np.isfinite(part[name]).sum() == np.isfinite(variable).sum()


def test_another_configurations_result_is_overwritten_only_if_that_is_asked_for(
    undisturbed, tmp_path, monkeypatch
):
    """Whether it was there at the start or came meanwhile; then what was computed is kept."""
    path = tmp_path / "smoke.nc"
    made(tmp_path, PLAIN.replace(seeds=[3], models=["ConstGate"]))
    other = path.read_bytes()
    path.unlink()

    def train(*arguments, **options):
        path.write_bytes(other)
        return TRAIN(*arguments, **options)

    monkeypatch.setattr(running, "train", train)
    with pytest.raises(FileExistsError, match=r"holds another configuration.*--no-resume"):
        made(tmp_path)
    with pytest.raises(FileExistsError, match=r"holds another configuration.*--no-resume"):
        made(tmp_path)
    assert path.read_bytes() == other
    path.unlink()
    monkeypatch.setattr(running, "run_member", None)  # would raise if called
    made(tmp_path)
    assert path.read_bytes() == undisturbed[1]
    monkeypatch.undo()
    path.write_bytes(other)
    made(tmp_path, resume=False)
    assert path.read_bytes() == undisturbed[1]
    assert names(tmp_path) == ["smoke.nc"]


def test_a_checkpoint_is_read_as_it_was_or_refused_and_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.checkpoint"
    state = Progress(3, [1.0], Network(make("DiagGate")).state_dict(), {})
    running.save_checkpoint(path, state, {}, "a member")
    whole = path.read_bytes()
    found, _ = running.load_checkpoint(path, "a member")
    assert all(torch.equal(found.network[key], state.network[key]) for key in state.network)
    place = whole.index(state.network["weight"].numpy().tobytes())
    flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    for damaged in (flipped, whole[:-40], whole[:place], b"half", pickle.dumps(Runs())):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"a\.checkpoint cannot be read"):
            running.load_checkpoint(path)
    torch.save([Runs()], path)
    with pytest.raises(ValueError, match="cannot be read"):
        running.load_checkpoint(path)
    assert not (tmp_path / "marker").exists()


def test_a_file_under_the_name_of_another_member_is_named_and_not_used(tmp_path):
    """Another seed's, which has the same shapes."""
    partial = partial_of(PLAIN, tmp_path)
    partial.mkdir()
    results.save(run_member(PLAIN, "ConstGate", 1), partial / "0-ConstGate-2.nc")
    run_member(PLAIN, "DiagGate", 1, partial / "0-DiagGate-2.checkpoint")
    with pytest.warns(UserWarning, match="What it held is computed anew") as warned:
        found = made(tmp_path, PLAIN)
    assert len(warned) == 2
    for model in PLAIN.models:
        expected = run_member(PLAIN, model, 2).loss
        np.testing.assert_array_equal(found.loss.sel(model=model, seed=2), expected)
