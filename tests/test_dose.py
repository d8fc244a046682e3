"""The registered experiment: tasks against perfect and blind guesses, its search, its data."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.svm import SVC

from book.chapters import dose, visibility
from tests.built_book import ROOT

REGISTRATION = "book/registration.md"


def test_half_of_the_adding_problem_is_half_of_what_is_far_away():
    task, rng = dose.Adding(20), np.random.default_rng(0)
    inputs, targets = task.sample(4000, rng)
    far, near = inputs[:, :5].prod(-1).sum(1), inputs[:, 5:].prod(-1).sum(1)
    assert inputs[:, :4, 1].sum(1).eq(1).all()
    assert inputs[:, 17:, 1].sum(1).eq(1).all()
    assert inputs[:, [0, 3, 17, 20], 1].any(0).all()
    guesses = (far + near, near, near + far * (1 - 0.5**0.5), far)
    shares = [task.share(guess[:, None, None], targets) for guess in guesses]
    assert shares[0] == pytest.approx(1)
    assert shares[1:] == pytest.approx([0, 0.5, 0], abs=0.05)


def test_regression_repeats_its_input():
    task = dose.Regression(5)
    inputs, targets = task.sample(300, np.random.default_rng(0))
    outputs = torch.zeros(300, 17, 1)
    assert task.share(outputs, targets) == pytest.approx(0, abs=0.01)
    outputs[:, 5:, 0] = inputs[:, :12, 0]
    assert task.share(outputs, targets) == 1


@pytest.mark.parametrize(("task", "classes"), [(dose.Recall(10), 4), (dose.Digits(15), 10)])
def test_shares_of_right_answers_begin_at_chance(task, classes):
    _, labels = task.sample(500, np.random.default_rng(0), fresh=True)

    def share(guess):
        return task.share(torch.nn.functional.one_hot(guess, classes)[:, None].float(), labels)

    best = (1 - 1 / classes) / (task.reachable - 1 / classes)
    assert share(labels) == pytest.approx(best)
    assert share(torch.randint(0, classes, (500,))) == pytest.approx(0, abs=0.08)


def test_a_symbol_is_seen_once_and_a_digit_where_it_should_be():
    inputs, symbols = dose.Recall(10).sample(50, np.random.default_rng(0))
    assert torch.equal(inputs[:, 0, :4].argmax(-1), symbols)
    assert inputs[:, 1:, 4].eq(0).all()
    images, labels = dose._digits()
    for lag, start in ((63, 0), (15, 48)):
        inputs, drawn = dose.Digits(lag).sample(20, np.random.default_rng(1))
        seen = inputs[:, start : start + 16, 0].numpy()
        for row, label in zip(seen, drawn.tolist(), strict=True):
            found = np.flatnonzero((images[:1200, 24:40] == row).all(1))
            assert label in labels[found]


def test_what_can_be_had_of_a_digit_is_what_a_support_vector_machine_gets():
    images, labels = dose._digits()
    machine = SVC(C=10).fit(images[:1200, 24:40], labels[:1200])
    score = machine.score(images[1200:, 24:40], labels[1200:])
    assert score == pytest.approx(dose.Digits.reachable, abs=0.005)


@pytest.mark.parametrize("cell", ["ConstGate", "DiagGate", "LSTM", "MinGRU"])
def test_a_seed_starts_from_one_draw_but_for_the_gates_and_mixing_is_held(cell):
    task = dose.Recall(10)
    few, many = (
        dose.Learner(dose.Condition(cell, gate, "recall", 10), task, 3) for gate in (0.1, 0.5)
    )
    other = dict(many.named_parameters())
    differ = [name for name, one in few.named_parameters() if not torch.equal(one, other[name])]
    assert differ == (["cell.bias"] if cell != "ConstGate" else [])
    kept = many.cell.trace(torch.zeros(2, 3, 5)).gates.keep[:, 0]
    assert kept.mean().item() == pytest.approx(0.5, abs=0.05)
    if cell == "ConstGate":
        held = dose.Learner(dose.Condition(cell, 0.2, "recall", 10, mixing=0.25), task, 1)
        weights = held.cell.weight_hh
        scales = torch.linalg.svdvals(weights.detach())
        assert scales.numpy() == pytest.approx(np.full(32, 0.25), rel=1e-5)
        assert not weights.requires_grad


@pytest.mark.parametrize("enough", [3, 4, 100, 4096, 5000])
def test_search_finds_the_least_number_that_is_enough(enough, monkeypatch):
    def train(condition, count, seed, *limits):
        end = "half" if count >= enough else "settled"
        row = {"count": count, "share": 0.0, "steps": 50, "end": end, "seconds": 1.0}
        return dose.asdict(condition) | {"seed": seed} | row

    monkeypatch.setattr(dose, "train", train)
    rows = dose.search(dose.Condition("LSTM", 0.1, "recall", 10), 1)
    found = dose.searches(pd.DataFrame(rows)).iloc[0]
    high = min((count for count in dose.COUNTS if count >= enough), default=np.nan)
    low = max((count for count in dose.COUNTS if count < enough), default=0)
    assert [found.low, found.high] == pytest.approx([low, high], nan_ok=True)
    assert found.seconds <= 7
    tried = [row["count"] for row in dose.retry(dose.Condition("LSTM", 0.1, "recall", 10), 1)]
    smaller = [count for count in (45, 91, 181, 362, 724, 1448) if count < enough]
    assert tried == dose.FEWER[: len(smaller) + 1]
    assert dose.FEWER[: len(smaller)] == smaller


def test_training_reaches_the_half_where_it_is_easy_and_not_from_too_little():
    easy = dose.Condition("DiagGate", 0.1, "recall", 10)
    enough, again, few = (dose.train(easy, count, 907) for count in (1024, 1024, 4))
    assert enough["end"] == "half"
    assert {**enough, "seconds": 0} == {**again, "seconds": 0}
    assert few["end"] == "settled"
    assert few["share"] < 0.5


def test_record_goes_on_from_what_is_there(tmp_path, monkeypatch):
    asked, given = [], set()

    def search(condition, seed, *limits):
        asked.append(condition)
        given.add(limits)
        row = {"count": 4096, "share": 0.1, "steps": 1, "end": "cap", "seconds": 0.0}
        return [dose.asdict(condition) | {"seed": seed} | row]

    monkeypatch.setattr(dose, "search", search)
    monkeypatch.setattr(dose, "retry", search)
    with ThreadPoolExecutor(1) as pool:
        for part, count in (("adamw", 150), ("mixing", 40), ("patient", 14), ("fewer", 190)):
            asked.clear()
            given.clear()
            dose.record(part, 1, pool, tmp_path)
            assert len(asked) == len(set(asked)) == count
            patient = part == "patient"  # whose searches are no others'
            assert given == {(dose.PATIENT, dose.PATIENT) if patient else ()}
            beside = patient or part == "fewer"
            file = tmp_path / (part if beside else ".") / f"{part}-1.csv"
            # two searches are missing
            file.write_text("\n".join(file.read_text().splitlines()[:-2]) + "\n")
            dose.record(part, 1, pool, tmp_path)
            assert len(asked) == count + 2
            assert len(pd.read_csv(file)) == count
    assert len(dose.searches(dose.trainings(tmp_path))) == 190


def test_data_are_younger_than_the_registration():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the history of the repository")
    first = git("log", "--diff-filter=A", "--format=%H", "--", REGISTRATION).stdout.split()[-1]
    folders = dose.FOLDER, dose.FOLDER / "patient", visibility.FOLDER
    recorded = [dose.trainings(ROOT / folder) for folder in folders]
    for revision in pd.concat(recorded).revision.unique():
        assert git("merge-base", "--is-ancestor", first, revision).returncode == 0
