"""Configurations: what ships is valid, and what does not fit is refused by name."""

import re

import pytest
from pydantic import ValidationError

from lwcore.experiment import config
from lwcore.experiment.config import Config, TrainingSettings, shipped
from tests.built_book import variables_in

SMOKE = Config.named("smoke")


def test_shipped_configurations_are_valid_and_named_like_their_files():
    assert {"quick", "smoke", "single-lag"} <= set(shipped())
    for name in shipped():
        config = Config.named(name)
        assert config.name == name
        assert Config.model_validate_json(config.model_dump_json()) == config


def test_a_changed_configuration_keeps_the_rest_and_has_another_fingerprint():
    live = Config.named("live")
    other = live.replace(seeds=(1,), network={"gate_init": 0.05, "layernorm": True})
    changed = {"gate_init": 0.05, "layernorm": True}
    assert other.network.model_dump() == live.network.model_dump() | changed
    assert (other.seeds, other.task, live.network.gate_init) == ((1,), live.task, 0.3)
    others = [other, live.replace(task={"noise": 0.31}), live.replace(description="x")]
    assert len({live.fingerprint, *(one.fingerprint for one in others)}) == 4
    assert live.replace().fingerprint == live.fingerprint


def test_a_file_says_what_it_changes_in_its_base(tmp_path):
    """Within sections; and its axes span a grid, in their order."""
    path = tmp_path / "mine.toml"
    axes = "disturbed = [{label = 0, changes.task.noise = 0.0}, {label = 1.5, changes = {}}]"
    models = "cells = [{label = 3, changes.models = ['GRU']}]"
    path.write_text(f"base = 'smoke'\nname = 'mine'\n[task]\nnoise = 0.2\n[axes]\n{models}\n{axes}")
    mine = Config.named(str(path))
    assert mine.task == SMOKE.replace(task={"noise": 0.2}).task
    points = mine.points()
    assert list(points) == [(3, 0), (3, 1.5)]
    assert [point.task.noise for point in points.values()] == [0.0, 0.2]
    assert {point.models for point in points.values()} == {("GRU",)}
    assert SMOKE.points() == {(): SMOKE}


def test_a_base_is_looked_for_beside_the_file_that_names_it(tmp_path, monkeypatch):
    """Whatever else of that name is where one stands; also by several steps."""
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "root.toml").write_text("base = 'smoke'\nname = 'right'")
    (deep / "child.toml").write_text("base = 'root.toml'\nmodels = ['GRU']")
    (tmp_path / "root.toml").write_text("base = 'smoke'\nname = 'wrong'")
    (tmp_path / "grandchild.toml").write_text("base = 'deep/child.toml'\nseeds = [7]")
    monkeypatch.chdir(tmp_path)
    assert Config.named("grandchild.toml") == SMOKE.replace(name="right", seeds=[7], models=["GRU"])


class LaterTraining(TrainingSettings):
    """Settings that have got one more."""

    momentum: float = 0.0


class LaterConfig(Config):
    """A configuration of a later version."""

    training: LaterTraining
    threads: int = 1


def test_a_stored_configuration_of_another_version_is_read_or_its_version_is_named():
    """Settings that came later have their default in what was stored before."""
    later = LaterConfig.model_validate(SMOKE.model_dump())
    assert LaterConfig.model_validate_json(SMOKE.model_dump_json()) == later
    assert later.replace(training={"steps": 7}).training.momentum == 0
    other = later.replace(training={"momentum": 0.9})
    assert other.fingerprint != later.fingerprint
    attributes = {"configuration": other.model_dump_json(), "versions": "lwcore 9"}
    with pytest.raises(ValueError, match=r"made by lwcore 9, is not one(?s:.*)training\.momentum"):
        Config.stored(attributes)
    with pytest.raises(ValueError, match="holds no configuration"):
        Config.stored({})


def test_no_axis_may_have_a_name_that_a_result_has(small_member):
    """Held against all that a run can store, as the reference lists it; none without need."""
    data = small_member.data_vars
    assert variables_in("experiments") == {name: {*value.dims} for name, value in data.items()}
    everything = {*small_member.variables, *small_member.dims}
    always = set(config._IN_EVERY_RESULT.split())
    assert everything | {"model", "seed"} == always.union(config._IN_MEASURED_RESULTS.split())
    for name in everything:
        with pytest.raises(ValidationError, match=rf"axes = '{name}': must be named otherwise"):
            SMOKE.replace(training={"snapshots": [0]}, axes={name: [{"label": 1, "changes": {}}]})


@pytest.fixture(scope="module")
def small_member():
    """A member with all that can be measured and kept."""
    from lwcore.experiment import run_member

    keeps = {"training": {"snapshots": [0]}, "diagnostics": {"keep_numbers": True}}
    return run_member(SMOKE.replace(**keeps), "DiagGate", 1)


def axis(*points):
    """The axis of a sweep: labels, and what they change."""
    return {"axes": {"a": [{"label": label, "changes": changes} for label, changes in points]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {"length": 8}}, "diagnostics.lags = (1, 2, 3, 4, 6, 8): must be below the leng"),
        ({"training": {"batch_size": 65}}, "= 65: must be at most 64, the training sequences"),
        ({"diagnostics": {"ends": 9}}, "ends = 9: must be at most 8, behind the longest lag"),
        ({"task": {"coefficients": [1.0]}}, "coefficients = (1.0,): must be one for each of 2"),
        (axis((1, {}), (1.0, {})), "must be labels of one kind, text or numbers, none twice"),
        (axis((1, {"task": {"lags": [5]}})), "= (0.8, 0.4): must be one for each of 1"),
        (axis((1, {"axes": {}, "seeds": [1]})), "not of axes, which all share"),
        (axis((1, {"diagnostics": {"directions": 1}}), (2, {})), "must be the same at all"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(changes, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        SMOKE.replace(**changes)
