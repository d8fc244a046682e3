"""Configurations: what ships is valid, and what does not fit is refused by name."""

from __future__ import annotations

import copy
import re
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

import lwcore
from lwcore.config import Config, Sweep, shipped

SMOKE = tomllib.loads((Path(lwcore.__file__).parent / "configs" / "smoke.toml").read_text())


def changed(path, value):
    """The smoke configuration with one entry changed."""
    data = copy.deepcopy(SMOKE)
    *sections, key = path.split(".")
    target = data
    for section in sections:
        target = target[section]
    target[key] = value
    return data


def test_shipped_configurations_are_valid_and_named_like_their_files():
    assert {"quick", "smoke"} <= set(shipped())
    assert {"single-lag", "single-lag-start"} <= set(shipped("sweeps"))
    for kind, names in ((Config, shipped()), (Sweep, shipped("sweeps"))):
        for name in names:
            assert kind.named(name).name == name


def test_fingerprint_changes_with_any_entry():
    plain = Config.model_validate(SMOKE).fingerprint
    assert Config.model_validate(copy.deepcopy(SMOKE)).fingerprint == plain
    for path, value in (
        ("task.noise", 0.31),
        ("seeds", [1, 3]),
        ("training.steps", 31),
        ("description", "x"),
    ):
        assert Config.model_validate(changed(path, value)).fingerprint != plain


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("task.lenght", 16, "task.lenght\n  Extra inputs are not permitted"),
        ("task.length", 8, "diagnostics.lags = (1, 2, 3, 4, 6, 8): must be below the length of 8"),
        ("task.lags", [1, 16], "task.lags = (1, 16): must be below the length of 16"),
        ("task.lags", [4, 4], "strictly increasing"),
        ("task.lags", [0, 4], "greater than 0"),
        ("task.coefficients", [0.5], "task.coefficients = (0.5,): must be one for each of 2 lags"),
        ("task.noise", float("nan"), "finite number"),
        ("network.gate_init", 1.0, "less than 1"),
        ("training.batch_size", 65, "batch_size = 65: must be at most 64, the training sequences"),
        ("training.optimizer", "adam", "'sgd' or 'adamw'"),
        ("training.steps", 1.5, "valid integer"),
        ("training.steps", -1, "greater than or equal to 0"),
        ("training.snapshots", [0, 31], "snapshots = (0, 31): must be at most 30, the steps"),
        ("training.snapshots", [5, 5], "strictly increasing"),
        ("training.snapshots", [-1, 5], "greater than or equal to 0"),
        ("diagnostics.ends", 9, "ends = 9: must be at most 8, behind the longest lag"),
        ("diagnostics.error", 0.5, "less than 0.5"),
        ("diagnostics.budgets", [64, 8], "strictly increasing"),
        ("diagnostics.orders", ["exact", "exact"], "anything twice"),
        ("models", ["VanillaRNN"], "'DiagGate', 'GRU' or 'LSTM'"),
        ("seeds", [1, 1], "anything twice"),
        ("seeds", [], "at least 1 item"),
        ("seeds", [-1], "seeds.0\n  Input should be greater than or equal to 0"),
        ("diagnostics.budgets", [0, 0], "diagnostics.budgets.0\n"),
        ("diagnostics.orders", [], "at least 1 item"),
        ("name", "../up", "should match pattern"),
    ],
)
def test_bad_entries_are_refused_by_name(path, value, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        Config.model_validate(changed(path, value))


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"name = 'nope': must be one of live, .*quick, .*smoke"):
        Config.named("nope")


def test_a_changed_configuration_keeps_the_rest_and_is_checked():
    live = Config.named("live")
    other = live.but(seeds=(1,), network={"gate_init": 0.05, "layernorm": True})
    assert other.network.model_dump() == live.network.model_dump() | {
        "gate_init": 0.05,
        "layernorm": True,
    }
    assert (other.seeds, other.task, live.network.gate_init) == ((1,), live.task, 0.3)
    with pytest.raises(ValidationError, match="less than 1"):
        live.but(network={"gate_init": 2})
    with pytest.raises(ValidationError, match="Extra inputs"):
        live.but(networks={"gate_init": 0.1})


SWEEP = {
    "name": "grid",
    "description": "",
    "base": "smoke",
    "axes": {"lag": [{"label": 1, "changes": {"task": {"noise": 0.1}}}]},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bass": "smoke"}, "Extra inputs are not permitted"),
        ({"base": "nope"}, "name = 'nope': must be one of"),
        ({"axes": {}}, "at least 1 item"),
        ({"axes": {"lag": []}}, "at least 1 item"),
        (
            {"axes": {"lag": [{"label": 1, "changes": {}}, {"label": 1, "changes": {}}]}},
            "labels, none twice",
        ),
        (
            {"axes": {"lag": [{"label": 1, "changes": {"task": {"lags": [99]}}}]}},
            "1 lags|does not fit",
        ),
        ({"axes": {"lag": [{"label": 1, "changes": {"tsk": {"lags": [2]}}}]}}, "tsk"),
    ],
)
def test_bad_sweeps_are_refused_by_name(changes, message):
    Sweep.model_validate(SWEEP)
    with pytest.raises(ValidationError, match=message):
        Sweep.model_validate(SWEEP | changes)
