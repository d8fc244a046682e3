"""Tangent kernels: features by autograd, ridge regression by its dual problem."""

import numpy as np
import pytest
import torch

from book.chapters import dose, tangent_kernel
from book.chapters.tangent_kernel import LastOutputs
from tests.networks import flat

CONDITIONS = [dose.Condition(cell, 0.2, "regression", 5) for cell in tangent_kernel.CELLS]


def learner_of(condition):
    return dose.Learner(condition, dose.Regression(5), 907, hidden=6).double()


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.cell)
def test_features_are_the_gradients_of_each_output(condition):
    learner = learner_of(condition)
    parameters = list(learner.parameters())
    inputs, _ = dose.Regression(5).sample(3, np.random.default_rng(0))
    outputs, features = tangent_kernel.features(LastOutputs(learner), inputs.double())
    expected = learner(inputs.double())[:, -12:, 0]
    assert outputs.numpy() == pytest.approx(expected.detach().numpy(), rel=1e-10)
    for sequence in range(3):
        for place in (0, 7, 11):
            output = expected[sequence, place]
            gradient = flat(torch.autograd.grad(output, parameters, retain_graph=True))
            difference = features[sequence, place] - gradient
            assert difference.abs().max() < 1e-12


def test_shares_are_those_of_the_dual_problem():
    task = dose.Regression(5)
    learner = learner_of(CONDITIONS[1])
    rng = np.random.default_rng(1)

    def sample(n):
        inputs, targets = task.sample(n, rng)
        return inputs.double(), targets.double()

    inputs, targets = sample(20)
    test_inputs, test_targets = sample(30)
    shares = tangent_kernel.kernel_shares(
        learner, task, (inputs, targets), (test_inputs, test_targets), (8, 20)
    )
    model = LastOutputs(learner)
    outputs, gradients = tangent_kernel.features(model, inputs)
    test_outputs, test_gradients = tangent_kernel.features(model, test_inputs)
    for count, share in shares.items():
        rows = gradients[:count].flatten(0, 1)
        residuals = (targets[:count] - outputs[:count]).flatten()
        kernel = rows @ rows.T
        of_ridges = []
        for ridge in tangent_kernel.RIDGES:
            penalty = ridge * kernel.trace() * torch.eye(len(kernel), dtype=torch.float64)
            weights = rows.T @ torch.linalg.solve(kernel + penalty, residuals)
            errors = test_outputs + test_gradients @ weights - test_targets
            unexplained = errors.square().mean() / test_targets.var()
            of_ridges.append(1 - unexplained.item())
        assert share == pytest.approx(max(of_ridges), abs=1e-6)
    assert shares[20] > shares[8]
