"""The visibility of a lag in the registered experiment's tasks: its parts against autograd and a
lag that carries nothing."""

import copy
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from book.chapters import dose, visibility
from book.chapters.dose import TASKS, Condition, Learner


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(visibility, "SEQUENCES", 6)


def started(condition, seed):
    return Learner(condition, TASKS[condition.task](condition.lag), seed)


@pytest.mark.parametrize("cell", ["ConstGate", "LSTM", "MinGRU"])
@pytest.mark.parametrize("task", ["regression", "recall", "adding", "digits"])
def test_whole_is_the_gradient_of_each_sequence(cell, task):
    condition = Condition(cell, 0.2, task, 15)
    learner = started(condition, 4)
    part, whole = visibility.gradients(learner, condition, 4)
    asked, exact = TASKS[task](15), learner.double()
    inputs, targets = asked.sample(6, np.random.default_rng([4, 1]), fresh=True)
    targets = targets.double() if targets.is_floating_point() else targets
    for at in range(6):
        one = slice(at, at + 1)
        loss = asked.loss(exact(inputs[one].double()), targets[one])
        flat = gradient(loss, exact.cell)
        torch.testing.assert_close(whole[at], flat, rtol=1e-9, atol=1e-12 * flat.norm().item())
    assert 0 < part.norm() < whole.norm()


def gradient(loss, cell):
    by_name = torch.autograd.grad(loss, list(cell.parameters()))
    return torch.cat([part.flatten() for part in by_name])


def test_part_is_what_the_parameters_of_one_step_do():
    condition, asked = Condition("DiagGate", 0.2, "recall", 10), TASKS["recall"](10)
    learner = started(condition, 2)
    part, _ = visibility.gradients(learner, condition, 2)
    inputs, targets = asked.sample(6, np.random.default_rng([2, 1]), fresh=True)
    rest = learner.double()
    first = copy.deepcopy(rest.cell)  # sees the first symbol, and nothing else
    for at in range(6):
        one = slice(at, at + 1)
        states = rest.cell(inputs[one, 1:].double(), first(inputs[one, :1].double())[:, -1])
        loss = asked.loss(rest.out(states[:, -1:]), targets[one])
        torch.testing.assert_close(part[at], gradient(loss, first), rtol=1e-9, atol=1e-12)


def test_visible_counts_the_sequences_of_a_normal_test():
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(40_000, 3, generator=draw, dtype=torch.float64)
    part, whole = noise + torch.tensor([0.1, 0, 0]), 5 * noise
    found = visibility.visible(part, whole)
    assert found["needed"] == pytest.approx((stats.norm.ppf(0.9) * 5 / 0.1) ** 2, rel=0.2)
    assert found["signal"] == pytest.approx(0.1 * 20_000**0.5, abs=4)
    assert visibility.visible(torch.zeros_like(whole[:8]), whole[:8])["needed"] == np.inf


def test_its_course_is_the_training_of_the_experiment(monkeypatch):
    monkeypatch.setattr(visibility, "MOMENTS", (0, 5, 50))
    condition = Condition("MinGRU", 0.1, "recall", 10)
    rows = visibility.along(condition, 3)
    trained = itertools.islice(dose.descended(condition, 6, 3), 51)
    expected = [(step, share()) for step, _, share in trained if step in (0, 5, 50)]
    assert [(row["step"], row["share"]) for row in rows] == expected
    start = visibility.at_start(condition, 3)[0]
    assert rows[0] == start | {"step": 0, "share": expected[0][1]}


def test_a_file_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setattr(visibility, "FOLDER", tmp_path)
    asked, conditions = [], [Condition("LSTM", gate, "recall", 10) for gate in (0.1, 0.2)]

    def of(condition, seed):
        asked.append(condition)
        return [{"gate": condition.gate, "seed": seed}]

    for _ in range(2):
        visibility.record("start", of, conditions, 1, SimpleNamespace(map=map))
    assert asked == conditions
    assert len((tmp_path / "start-1.csv").read_text().splitlines()) == 3


def test_envelope_is_that_of_the_gates_where_nothing_else_carries():
    alone, mixed, learned = (
        Condition(cell, 0.5, "recall", 10, mixing=mixing)
        for cell, mixing in (("ConstGate", 0.0), ("ConstGate", 1.0), ("MinGRU", None))
    )
    found = [visibility.carried(one, 3)[0]["envelope"] for one in (alone, mixed, learned)]
    assert found[0] == pytest.approx(32 * 0.5**10, rel=1e-12)
    assert found[1] > found[0]
    inputs, _ = TASKS["recall"](10).sample(64, np.random.default_rng([3, 1]))
    # all steps but the first, at which the state is that of the lag
    keep = started(learned, 3).double().cell.trace(inputs.double()).gates.keep[:, 1:]
    assert found[2] == pytest.approx(keep.prod(1).sum(-1).mean().item(), rel=1e-12)
