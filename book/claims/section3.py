"""Claims of Section 3: the gradient, lag by lag."""

from __future__ import annotations

import copy

import torch

from book.claims import cases
from book.claims.checks import measures
from book.claims.claim import Measured, exactly
from lwcore import train
from lwcore.gradient import (
    immediate_sensitivity,
    lag_gradients,
    projected_gradient,
    random_direction,
    total_sensitivity,
    transported,
)
from lwcore.network import Network
from lwcore.tasks import Sequences


@measures("a-step-follows-the-gradient")
def _() -> Measured:
    worst, inputs, targets = [], cases.draw(4, 12, 3), cases.draw(4, 12, seed=2)
    for cell in map(cases.cell, cases.FAMILIES):
        network = Network(cell, torch.Generator().manual_seed(3))
        errors = (network.readout(cell.unrolled(inputs)) - targets).square().sum(1).mean()
        gradient = torch.autograd.grad(errors, list(network.parameters()))
        moved = copy.deepcopy(network)
        train.fit(
            moved,
            Sequences(inputs, targets),
            steps=1,
            batch_size=4,
            seed=0,
            optimizer="sgd",
            learning_rate=12 * 0.01,
        )
        steps = (
            after.detach() - before.detach()
            for before, after in zip(network.parameters(), moved.parameters(), strict=True)
        )
        worst += [
            cases.relative(step, -0.01 * one) for step, one in zip(steps, gradient, strict=True)
        ]
    return exactly(max(worst))


@measures("gradient-is-a-sum-over-lags")
def _() -> Measured:
    worst = []
    for cell in cases.cells().values():
        inputs, errors = cases.draw(4, 12, 3), cases.draw(4, 12, 5, seed=2)
        names, parameters = zip(*cell.named_parameters(), strict=True)
        true = torch.autograd.grad((errors * cell.unrolled(inputs)).sum(), parameters)
        parts = lag_gradients(cell.trace(inputs), errors)
        worst += [
            cases.relative(parts[name].sum(0), one) for name, one in zip(names, true, strict=True)
        ]
    return exactly(max(worst))


@measures("immediate-not-total-derivative")
def _() -> tuple[Measured, Measured]:
    worst: dict[bool, list[float]] = {True: [], False: []}
    for cell in cases.cells().values():
        trace, errors = cases.scan(cell), cases.draw(4, 12, 5, seed=2)
        direction = random_direction(cell, torch.Generator().manual_seed(3))
        whole = projected_gradient(trace, errors, direction)
        for total, sensitivity in ((True, total_sensitivity), (False, immediate_sensitivity)):
            moved = sensitivity(trace, direction)
            carried = transported(trace, errors, range(trace.length))
            parts = torch.stack(
                [(rows * moved[:, : rows.shape[1]]).sum((1, 2)) for _, rows in carried]
            )
            worst[total].append(cases.relative(parts.sum(0), whole))
    return exactly(max(worst[True])), exactly(max(worst[False]))
