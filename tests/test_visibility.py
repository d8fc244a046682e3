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
from tests.networks import flat


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
    of_lag, whole = visibility.gradients(learner, condition, 4)
    posed = TASKS[task](15)
    inputs, targets = posed.sample(6, np.random.default_rng([4, 1]), fresh=True)
    if targets.is_floating_point():
        targets = targets.double()
    exact = learner.double()
    for n in range(6):
        outputs = exact(inputs[n : n + 1].double())
        expected = gradient(posed.loss(outputs, targets[n : n + 1]), exact.cell)
        size = expected.norm().item()
        torch.testing.assert_close(whole[n], expected, rtol=1e-9, atol=1e-12 * size)
    assert 0 < of_lag.norm() < whole.norm()


def gradient(loss, cell):
    return flat(torch.autograd.grad(loss, list(cell.parameters())))


def test_part_is_what_the_parameters_of_one_step_do():
    condition = Condition("DiagGate", 0.2, "recall", 10)
    learner = started(condition, 2)
    of_lag, _ = visibility.gradients(learner, condition, 2)
    task = TASKS["recall"](10)
    inputs, targets = task.sample(6, np.random.default_rng([2, 1]), fresh=True)
    rest = learner.double()
    first = copy.deepcopy(rest.cell)  # sees the first symbol, and nothing else
    for n in range(6):
        x = inputs[n : n + 1].double()
        state = first(x[:, :1])[:, -1]
        outputs = rest.out(rest.cell(x[:, 1:], state)[:, -1:])
        expected = gradient(task.loss(outputs, targets[n : n + 1]), first)
        torch.testing.assert_close(of_lag[n], expected, rtol=1e-9, atol=1e-12)


def test_visible_counts_the_sequences_of_a_normal_test():
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(40_000, 3, generator=draw, dtype=torch.float64)
    of_lag = noise + torch.tensor([0.1, 0, 0])
    whole = 5 * noise
    seen = visibility.visible(of_lag, whole)
    assert seen["needed"] == pytest.approx((stats.norm.ppf(0.9) * 5 / 0.1) ** 2, rel=0.2)
    assert seen["signal"] == pytest.approx(0.1 * 20_000**0.5, abs=4)
    nothing = visibility.visible(torch.zeros_like(whole[:8]), whole[:8])
    assert nothing["needed"] == np.inf


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
    conditions = [Condition("LSTM", gate, "recall", 10) for gate in (0.1, 0.2)]
    measured = []

    def measure(condition, seed):
        measured.append(condition)
        return [{"gate": condition.gate, "seed": seed}]

    for _ in range(2):
        visibility.record("start", measure, conditions, 1, SimpleNamespace(map=map))
    assert measured == conditions
    assert len((tmp_path / "start-1.csv").read_text().splitlines()) == 3


def test_envelope_is_that_of_the_gates_where_nothing_else_carries():
    def envelope(cell, mixing):
        condition = Condition(cell, 0.5, "recall", 10, mixing=mixing)
        return visibility.carried(condition, 3)[0]["envelope"]

    without_mixing = envelope("ConstGate", 0.0)
    assert without_mixing == pytest.approx(32 * 0.5**10, rel=1e-12)
    assert envelope("ConstGate", 1.0) > without_mixing

    inputs, _ = TASKS["recall"](10).sample(64, np.random.default_rng([3, 1]))
    learner = started(Condition("MinGRU", 0.5, "recall", 10, mixing=None), 3).double()
    # all steps but the first, at which the state is that of the lag
    keep = learner.cell.trace(inputs.double()).gates.keep[:, 1:]
    expected = keep.prod(1).sum(-1).mean().item()
    assert envelope("MinGRU", None) == pytest.approx(expected, rel=1e-12)
