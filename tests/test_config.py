"""Configurations: what ships is valid, and what does not fit is refused by name."""

import re

import pytest
from pydantic import ValidationError

from lwcore.config import Config, shipped

SMOKE = Config.named("smoke")


def test_shipped_configurations_are_valid_and_named_like_their_files():
    assert {"quick", "smoke", "single-lag"} <= set(shipped())
    for name in shipped():
        config = Config.named(name)
        assert config.name == name
        assert Config.model_validate_json(config.model_dump_json()) == config


def test_a_changed_configuration_keeps_the_rest_and_has_another_fingerprint():
    live = Config.named("live")
    other = live.but(seeds=(1,), network={"gate_init": 0.05, "layernorm": True})
    changed = {"gate_init": 0.05, "layernorm": True}
    assert other.network.model_dump() == live.network.model_dump() | changed
    assert (other.seeds, other.task, live.network.gate_init) == ((1,), live.task, 0.3)
    others = [other, live.but(task={"noise": 0.31}), live.but(description="x")]
    assert len({live.but().fingerprint, *(one.fingerprint for one in others)}) == 4
    assert live.but().fingerprint == live.fingerprint
    assert SMOKE.but(diagnostics={"ends": 8}).diagnostics.ends == 8  # all that there is room for


def test_a_file_says_what_it_changes_in_its_base(tmp_path):
    """Within sections; and its axes span a grid, in their order."""
    path = tmp_path / "mine.toml"
    axes = "disturbed = [{label = 'no', changes.task.noise = 0.0}, {label = 1, changes = {}}]"
    models = "cells = [{label = 3, changes.models = ['GRU']}]"
    path.write_text(f"base = 'smoke'\nname = 'mine'\n[task]\nnoise = 0.2\n[axes]\n{models}\n{axes}")
    config = Config.named(str(path))
    assert config.task == SMOKE.but(task={"noise": 0.2}).task
    points = config.points()
    assert list(points) == [(3, "no"), (3, 1)]
    assert [point.task.noise for point in points.values()] == [0.0, 0.2]
    assert {point.models for point in points.values()} == {("GRU",)}
    assert SMOKE.points() == {(): SMOKE}
    assert "[task]\nlength = 16\n" in str(SMOKE)
    assert ("[axes]" in str(config), "[axes]" in str(SMOKE)) == (True, False)


def axis(*changes):
    """The axis of a sweep, whose labels are all alike."""
    return {"axes": {"a": [{"label": 1, "changes": one} for one in changes]}}


WRONG = {  # values of a setting, none of which is taken
    "task": {"lenght": [16], "lags": [[4, 4], [0, 4]], "noise": [float("nan"), float("inf")]},
    "network": {"gate_init": [1.0]},
    "training": {"steps": [-1], "learning_rate": [-0.1], "snapshots": [[5, 5], [-1, 5]]},
    "diagnostics": {
        "error": [0.5],
        "budgets": [[64, 8], [0, 0]],
        "orders": [["exact", "exact"], []],
    },
}


@pytest.mark.parametrize(("section", "setting"), [(a, b) for a, of in WRONG.items() for b in of])
def test_wrong_values_are_refused_by_name(section, setting):
    for value in WRONG[section][setting]:
        with pytest.raises(ValidationError, match=rf"\n{section}\.{setting}\b"):
            SMOKE.but(**{section: {setting: value}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {"length": 8}}, "diagnostics.lags = (1, 2, 3, 4, 6, 8): must be below the leng"),
        ({"task": {"lags": [1, 16]}}, "task.lags = (1, 16): must be below the length of 16"),
        ({"training": {"batch_size": 65}}, "= 65: must be at most 64, the training sequences"),
        ({"training": {"snapshots": [0, 31]}}, "= (0, 31): must be at most 30, the steps"),
        ({"diagnostics": {"ends": 9}}, "ends = 9: must be at most 8, behind the longest lag"),
        ({"seeds": [1, 1]}, "anything twice"),
        ({"seeds": []}, "at least 1 item"),
        ({"seeds": [-1]}, "seeds.0\n  Input should be greater than or equal to 0"),
        ({"seeds": [2**63]}, f"seeds.0\n  Input should be less than {2**63}"),
        ({"name": "../up"}, "should match pattern"),
        ({"name": "a\n"}, "should match pattern"),
        ({"name": 300 * "x"}, "at most 100"),
        ({"axes": {"a": []}}, "at least 1 item"),
        ({"axes": {"a": [{"lable": 1, "changes": {}}]}}, "axes.a.0.lable\n  Extra inputs"),
        ({"axes": {"a": [{"label": [1], "changes": {}}]}}, "axes.a.0.label"),
        (axis({}, {}), "axes.a = [1, 1]: must be labels, none twice"),
        ({"axes": {"lag": [{"label": 1, "changes": {}}]}}, "axes = ['lag']: must be named otherwi"),
        (axis({"task": {"lags": [5]}}), "coefficients = (0.8, 0.4): must be one for each of 1"),
        (axis({"self": 3}), "self\n  Extra inputs"),
        (axis({"name": {"b": 1}}), "name\n  Input should be a valid string"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(changes, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        SMOKE.but(**changes)
