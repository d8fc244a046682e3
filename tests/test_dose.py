"""The registered experiment: its tasks against perfect and blind guesses, and its networks."""

import numpy as np
import pytest
import torch

from benchmarks.recordings import learners
from book.chapters import dose


def test_half_of_the_adding_problem_is_half_of_what_is_far_away():
    task = learners.Adding(20)
    inputs, targets = task.sample(4000, np.random.default_rng(0))
    far = inputs[:, :5].prod(-1).sum(1)
    near = inputs[:, 5:].prod(-1).sum(1)
    guesses = (far + near, near, near + far * (1 - 0.5**0.5), far)
    shares = [task.share(guess[:, None, None], targets) for guess in guesses]
    assert shares[0] == pytest.approx(1)
    assert shares[1:] == pytest.approx([0, 0.5, 0], abs=0.05)


def test_regression_repeats_its_input():
    task = learners.Regression(5)
    inputs, targets = task.sample(300, np.random.default_rng(0))
    outputs = torch.zeros(300, 17, 1)
    assert task.share(outputs, targets) == pytest.approx(0, abs=0.01)
    outputs[:, 5:, 0] = inputs[:, :12, 0]
    assert task.share(outputs, targets) == 1


@pytest.mark.parametrize(("task", "classes"), [(learners.Recall(10), 4), (learners.Digits(15), 10)])
def test_shares_of_right_answers_begin_at_chance(task, classes):
    _, labels = task.sample(500, np.random.default_rng(0), fresh=True)

    def share(guess):
        return task.share(torch.nn.functional.one_hot(guess, classes)[:, None].float(), labels)

    best = (1 - 1 / classes) / (task.reachable - 1 / classes)
    assert share(labels) == pytest.approx(best)
    guesses = torch.randint(classes, (500,), generator=torch.Generator().manual_seed(0))
    assert share(guesses) == pytest.approx(0, abs=0.08)


@pytest.mark.parametrize("cell", ["ConstGate", "LSTM"])
def test_a_seed_starts_from_one_draw_but_for_the_gates_and_mixing_is_held(cell):
    task = learners.Recall(10)
    few, many = (
        learners.Learner(dose.Condition(cell, gate, "recall", 10), task, 3) for gate in (0.1, 0.5)
    )
    other = dict(many.named_parameters())
    differ = [name for name, one in few.named_parameters() if not torch.equal(one, other[name])]
    assert differ == (["cell.bias"] if cell != "ConstGate" else [])
    kept = many.cell.trace(torch.zeros(2, 3, 5)).gates.keep[:, 0]
    assert kept.mean().item() == pytest.approx(0.5, abs=0.05)
    if cell == "ConstGate":
        held = learners.Learner(dose.Condition(cell, 0.2, "recall", 10, mixing=0.25), task, 1)
        weights = held.cell.weight_hh
        scales = torch.linalg.svdvals(weights.detach())
        assert scales.numpy() == pytest.approx(np.full(32, 0.25), rel=1e-5)
        assert not weights.requires_grad
