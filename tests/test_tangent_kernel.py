"""Tangent kernels: features by autograd, ridge regression by its dual problem."""

import numpy as np
import pytest
import torch

from book.chapters import dose, tangent_kernel
from book.chapters.tangent_kernel import LastOutputs

CONDITIONS = [dose.Condition(cell, 0.2, "regression", 5) for cell in tangent_kernel.CELLS]


def learner_of(condition):
    return dose.Learner(condition, dose.Regression(5), 907, hidden=6).double()


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.cell)
def test_features_are_the_gradients_of_each_output(condition):
    learner = learner_of(condition)
    inputs = dose.Regression(5).sample(3, np.random.default_rng(0))[0].double()
    outputs, found = tangent_kernel.features(LastOutputs(learner), inputs)
    whole = learner(inputs)[:, -12:, 0]
    assert outputs.numpy() == pytest.approx(whole.detach().numpy(), rel=1e-10)
    for sequence in range(3):
        for place in (0, 7, 11):
            one = whole[sequence, place]
            gradients = torch.autograd.grad(one, list(learner.parameters()), retain_graph=True)
            expected = torch.cat([gradient.flatten() for gradient in gradients])
            difference = (found[sequence, place] - expected).abs().max()
            assert difference < 1e-12


def test_shares_are_those_of_the_dual_problem():
    task, learner = dose.Regression(5), learner_of(CONDITIONS[1])
    rng = np.random.default_rng(1)
    train, tests = ([part.double() for part in task.sample(n, rng)] for n in (20, 30))
    shares = tangent_kernel.kernel_shares(learner, task, train, tests, (8, 20))
    model = LastOutputs(learner)
    outputs, gradients = tangent_kernel.features(model, train[0])
    test_outputs, test_gradients = tangent_kernel.features(model, tests[0])
    for count, share in shares.items():
        flat = gradients[:count].flatten(0, 1)
        kernel = flat @ flat.T
        left = (train[1][:count] - outputs[:count]).flatten()
        best = -np.inf
        for ridge in tangent_kernel.RIDGES:
            penalty = ridge * kernel.trace() * torch.eye(len(kernel), dtype=torch.float64)
            solved = torch.linalg.solve(kernel + penalty, left)
            predicted = test_outputs + test_gradients @ (flat.T @ solved)
            best = max(best, 1 - ((predicted - tests[1]).square().mean() / tests[1].var()).item())
        assert share == pytest.approx(best, abs=1e-6)
    assert shares[20] > shares[8]
