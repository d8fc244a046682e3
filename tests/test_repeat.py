"""Repeat or renew: the compiled descent is PyTorch's, and the rules say what made data deserve."""

import hashlib
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from torch import nn

from benchmarks.recordings import mingru_descent, repeat
from benchmarks.recordings.learners import DESCENTS, TASKS, Learner
from benchmarks.recordings.repeat import Arm
from book.chapters import repeat_rules
from book.chapters.dose import Condition

SEED = 990  # not of the experiment
SEEDS = repeat.SEEDS
RESULTS = Path(__file__).parents[1] / "book/results/repeat"


@pytest.mark.parametrize(("optimizer", "task"), [("adamw", "recall"), ("sgd", "adding")])
def test_the_compiled_descent_is_pytorchs(optimizer, task):
    arm = Arm("MinGRU", 0.3, optimizer, 3e-3 if optimizer == "adamw" else 0.3, task=task, lag=7)
    asked = TASKS[task](7)
    network = repeat.drawn(arm, SEED)
    alone = Learner(Condition("MinGRU", 0.3, task, 7), asked, SEED)
    descent = DESCENTS[optimizer](alone.parameters())
    (inputs, targets), index = next(repeat.batches(arm, np.random.default_rng(0)))
    network.descend((inputs, targets), index)
    for chosen in index:
        descent.zero_grad()
        asked.loss(alone(inputs[chosen]), targets[chosen]).backward()
        nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
        descent.step()
    expected, _ = mingru_descent.pack(alone)
    assert network.vector == pytest.approx(expected, abs=1e-5)
    outputs = network.outputs(inputs)[:, 0]
    assert outputs.numpy() == pytest.approx(alone(inputs)[:, -1].detach().numpy(), abs=1e-5)


def test_the_envelope_is_the_exact_one():
    arm = Arm("MinGRU", 0.3, lag=7)
    inputs, _ = repeat.sample(arm, 16, np.random.default_rng(0))
    followed = repeat.Followed(arm, TASKS["recall"](7), SEED)
    assert repeat.drawn(arm, SEED).envelope(inputs) == pytest.approx(
        followed.envelope(inputs), 1e-5
    )


def trainings(log_steps, spread, rng, **columns):
    """Make a training a seed, of log T about a number."""
    steps = np.exp(log_steps + spread * rng.standard_normal(len(SEEDS)))
    return pd.DataFrame(columns | {"seed": list(SEEDS), "steps": steps, "end": "half"})


def speeds(shut, opened):
    """Make one row of H1: L nearly shut, and L open."""
    tables = []
    rng = np.random.default_rng(0)
    for gate, gain in ((0.5, shut), (0.1, opened)):
        for supply, log_steps in (("again", 6.0), ("fresh", 6.0 + gain)):
            named = {"cell": "GRU", "optimizer": "adamw", "gate": gate, "supply": supply}
            tables.append(trainings(log_steps, 0.15, rng, **named))
    return repeat_rules.speed_row(pd.concat(tables))


@pytest.mark.parametrize(("shut", "verdict"), [(1.5, "supported"), (0.0, "refuted")])
def test_speed(shut, verdict):
    row = speeds(shut, opened=0.0)
    assert row.verdict() == verdict
    rows = [replace(row, cell=cell) for cell in ("MinGRU", "DiagGate", "GRU", "LSTM", "nn.LSTM")]
    assert repeat_rules.speed_verdict(rows) == verdict


def stairs(law, at_half=lambda start: 0.7):
    """Make trainings from several gates whose T follows a law of ln(1/f₀)."""
    rng = np.random.default_rng(3)
    tables = []
    for gate in repeat.STAIRS:
        start = 32 * (1 - gate) ** 20
        table = trainings(np.log(law(-np.log(start))), 0.2, rng, gate=gate, envelope=start)
        noise = np.exp(0.2 * rng.standard_normal(len(table)))
        tables.append(table.assign(envelope_at_end=at_half(start) * noise, share_then=0.1))
    return repeat_rules.clock(pd.concat(tables))


def line(depth):
    """Return steps in a line with ln(1/f₀)."""
    return np.maximum(261 + 151 * depth, 250)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [({"law": line}, "supported"),
     ({"law": lambda depth: 380 * np.exp(0.087 * depth)}, "refuted"),
     ({"law": line, "at_half": lambda start: start**0.5}, "refuted")],
)  # fmt: skip
def test_clock(changes, verdict):
    assert stairs(**changes).verdict() == verdict


def test_recorded_files_are_those_that_were_digested():
    lines = (RESULTS / "SHA256SUMS").read_text().splitlines()
    digests = {name: digest for digest, name in (line.split() for line in lines)}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RESULTS.glob("*.csv")
    }
    assert found == digests


@pytest.mark.parametrize("part", ["clock-again", "columns", "gates", "rivals"])
def test_a_recorded_training_comes_out_again(part):
    """Batches drawn from a set, used again, or renewed; and a start from where another ended."""
    rows = pd.read_csv(RESULTS / f"{part}-31.csv").query("cell == 'MinGRU'")
    row = rows.sort_values("steps", kind="stable").iloc[0]
    (arm,) = (arm for arm in repeat.arms_of(part) if is_of(row, arm))
    again, _ = repeat.train(arm, 31)
    assert (again["steps"], again["end"]) == (row["steps"], row["end"])
    assert again["envelope"] == pytest.approx(row["envelope"], rel=1e-3)


def is_of(row, arm):
    """Say whether a row is of a training."""
    return all(row[name] == value for name, value in asdict(arm).items())
