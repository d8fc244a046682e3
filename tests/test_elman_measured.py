"""Measuring functions of the companion's chapters, against closed forms, brute force and
simulation."""

import dataclasses
import math

import numpy as np
import pytest

from book.chapters.elman_measured import needed, parts, study
from lwcore.elman.bounds import Problem, theorem_1
from lwcore.elman.kernel import transported
from lwcore.elman.network import linear_model

PROBLEM = Problem("tanh", 0.6, 3, 2, 0.4, 0.6, sequences=2)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("motion", ["turning", "steady"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_targets_are_means_over_wide_networks(motion, dimension):
    case = study(dataclasses.replace(PROBLEM, dimension=dimension), rng(), motion=motion)
    own = rng(1)
    starts = [case.start(100_000, own) for _ in range(3)]
    ends = [transported(start, case.maps).parameters for start in starts]
    outputs = [linear_model(*both, case.inputs) for both in zip(starts, ends, strict=True)]
    found = np.abs(np.array(outputs) - case.targets)
    # no neuron's share exceeds the summand's bound
    assert found.max() < 6 * np.exp(case.problem.log_summand) / 100_000**0.5
    assert np.abs(case.targets).max() > 20 * found.max()
    assert case.target_error < 1e-7


@pytest.mark.parametrize("printed", [True, False])
def test_needed_width_and_steps_give_the_risk(printed):
    problem = dataclasses.replace(PROBLEM, activation="logistic")
    log_width, log_steps = needed(problem, 0.02, as_printed=printed)
    width, steps = 2 * round(math.exp(log_width) / 2), round(math.exp(log_steps))
    found = theorem_1(problem, width, steps, as_printed=printed)
    assert found.value == pytest.approx(0.02, rel=2e-3)
    assert np.exp(parts(found)) == pytest.approx([0.01, 0.01], rel=4e-3)
