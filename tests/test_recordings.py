"""Programs behind recorded data: each still makes what is recorded, and goes on where it stopped."""

import subprocess

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.recordings import clock, dose, stacked, tangent_kernel, visibility
from benchmarks.recordings.learners import TASKS, Learner, Regression
from book.chapters.dose import Condition
from tests.built_book import ROOT
from tests.networks import flat

RESULTS = ROOT / "book" / "results"


def condition_of(row):
    mixing = None if pd.isna(row["mixing"]) else row["mixing"]
    named = (row["cell"], row["gate"], row["task"], row["lag"], row["optimizer"])
    return Condition(*named, mixing=mixing)


@pytest.mark.parametrize("task", ["adding", "digits"])
def test_a_recorded_training_comes_out_again(task):
    recorded = pd.read_csv(RESULTS / "dose" / f"{'digits' if task == 'digits' else 'adamw'}-1.csv")
    quick = recorded[(recorded["task"] == task) & (recorded["cell"] == "DiagGate")]
    row = quick.sort_values("steps", kind="stable").iloc[0].to_dict()
    again = dose.train(condition_of(row), row["count"], 1)
    assert (again["steps"], again["end"]) == (row["steps"], row["end"])
    assert again["share"] == pytest.approx(row["share"], abs=0.002)


def test_a_recorded_start_comes_out_again():
    recorded = pd.read_csv(RESULTS / "clock" / "start-11.csv").iloc[0].to_dict()
    (again,) = clock.measure_start(condition_of(recorded), 11)
    for name in ("envelope", "signal", "needed", "size"):
        assert again[name] == pytest.approx(recorded[name], rel=1e-6)


def test_recorded_networks_of_a_stack_come_out_again_alone():
    recorded = pd.read_csv(RESULTS / "clock" / "clock-11.csv")
    row = recorded.sort_values("steps", kind="stable").iloc[0].to_dict()
    member = stacked.Member(condition_of(row), row["arm"], row["count"], 11)
    (again,) = stacked.train([member], clock.CAP)
    assert (again["steps"], again["end"]) == (row["steps"], row["end"])
    assert [again["share"], again["fitted"]] == pytest.approx([row["share"], row["fitted"]])


FILES = {
    "registration": ["dose/*.csv", "dose/patient/*.csv", "visibility/*.csv"],
    "registration_clock": ["clock/*.csv"],
    "registration_repeat": ["repeat/*.csv"],
}


@pytest.mark.parametrize("registration", FILES)
def test_data_are_younger_than_their_registration(registration):
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the history of the repository: git fetch --unshallow")
    page = f"book/{registration}.md"
    first = git("log", "--diff-filter=A", "--format=%H", "--", page).stdout.split()[-1]
    revisions = set()
    for pattern in FILES[registration]:
        for table in RESULTS.glob(pattern):
            if not table.name.startswith("looks-"):  # of trainings that another file names
                revisions |= set(pd.read_csv(table)["revision"])
    assert revisions
    for revision in revisions:
        assert git("merge-base", "--is-ancestor", first, revision).returncode == 0


def test_the_whole_is_the_gradient_of_each_sequence(monkeypatch):
    monkeypatch.setattr(visibility, "SEQUENCES", 6)
    condition = Condition("LSTM", 0.2, "regression", 15)
    task = Regression(15)
    learner = Learner(condition, task, 4)
    part, whole = visibility.gradients(learner, condition, 4)
    inputs, targets = task.sample(6, np.random.default_rng([4, 1]), fresh=True)
    exact = learner.double()
    for n in range(6):
        loss = task.loss(exact(inputs[n : n + 1].double()), targets[n : n + 1].double())
        expected = flat(torch.autograd.grad(loss, list(exact.cell.parameters())))
        size = expected.norm().item()
        torch.testing.assert_close(whole[n], expected, rtol=1e-9, atol=1e-12 * size)
    assert 0 < part.norm() < whole.norm()


def test_recall_has_no_signal_in_recurrent_weights(monkeypatch):
    monkeypatch.setattr(visibility, "SEQUENCES", 6)
    condition = Condition("ConstGate", 0.34, "recall", 20)
    learner = Learner(condition, TASKS["recall"](20), 11)
    part, whole = visibility.gradients(learner, condition, 11)
    sizes = [weights.numel() for weights in learner.cell.parameters()]
    _, recurrent, _ = part.split(sizes, dim=1)
    assert part.any()
    assert not recurrent.any()  # the state is zero when the symbol comes in
    assert whole.split(sizes, dim=1)[1].any()


def test_a_kernel_explains_what_the_dual_problem_says():
    task = Regression(5)
    learner = Learner(Condition("LSTM", 0.2, "regression", 5), task, 907, hidden=6).double()
    rng = np.random.default_rng(1)
    inputs, targets = map(torch.Tensor.double, task.sample(6, rng))
    test_inputs, test_targets = map(torch.Tensor.double, task.sample(8, rng))
    data = (inputs, targets), (test_inputs, test_targets)
    shares = tangent_kernel.kernel_shares(learner, task, *data, (3, 6))

    def outputs_and_gradients(sequences):
        outputs = learner(sequences)[:, -12:, 0].flatten()
        parameters = list(learner.parameters())
        rows = [flat(torch.autograd.grad(one, parameters, retain_graph=True)) for one in outputs]
        return outputs.detach(), torch.stack(rows)

    outputs, gradients = outputs_and_gradients(inputs)
    test_outputs, test_gradients = outputs_and_gradients(test_inputs)
    for count, share in shares.items():
        rows = gradients[: 12 * count]
        residuals = targets[:count].flatten() - outputs[: 12 * count]
        kernel = rows @ rows.T
        of_ridges = []
        for ridge in tangent_kernel.RIDGES:
            penalty = ridge * kernel.trace() * torch.eye(len(kernel), dtype=torch.float64)
            weights = rows.T @ torch.linalg.solve(kernel + penalty, residuals)
            errors = test_outputs + test_gradients @ weights - test_targets.flatten()
            of_ridges.append(1 - (errors.square().mean() / test_targets.var()).item())
        assert share == pytest.approx(max(of_ridges), abs=1e-6)
