"""Claims of Section 3: the gradient, lag by lag."""

from __future__ import annotations

import copy

import torch

from book.claims import cases
from book.claims.claim import Chapter, Kind, Measured, as_stated, at_most, exactly, rather
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

chapter = Chapter("livi", Kind.IDENTITY)


@chapter.claim(
    "a-step-follows-the-gradient",
    "Eq. (1)",
    "A step of training subtracts from the parameters the learning rate times the gradient of the "
    "losses summed over time.",
    as_stated(
        "largest difference between a step of plain gradient descent as the training loop takes "
        "it and one by autograd, relative to the "
        "step, over six networks; the loop averages over the T steps, so that its learning rate "
        "is T times that of the sum",
        at_most(1e-10),
    ),
    code="lwcore.train.fit",
)
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


@chapter.claim(
    "gradient-is-a-sum-over-lags",
    "Eqs. (2) and (3)",
    "The gradient of a sequence's loss is a sum over lags, each part carried back by the product "
    "of the Jacobians in between.",
    as_stated(
        "largest difference between the sum of the lag parts and autograd's gradient, relative, "
        "over twelve cells",
        at_most(1e-10),
    ),
    code="lwcore.gradient.lag_gradients",
)
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


@chapter.claim(
    "immediate-not-total-derivative",
    "Eq. (3), as the author's code for later versions reads it",
    "The sensitivity of the lagged step to the parameters may be taken as its full derivative "
    "through time.",
    as_stated(
        "largest difference of the sum over lags from the whole gradient, relative, over twelve "
        "cells",
        at_most(1e-10),
    ),
    rather(
        "the previous state is to be held fixed: with the immediate derivative the sum is the "
        "gradient",
        "the same",
        at_most(1e-10),
    ),
    code=("lwcore.gradient.immediate_sensitivity", "lwcore.gradient.total_sensitivity"),
    counterexample=(
        "Any cell, two steps: the derivative through time at the last step holds "
        "the part of lag 1, which is counted twice."
    ),
    fair=(
        "The sensitivity of the lagged step is its immediate derivative, with the previous "
        "state held fixed."
    ),
    paper="code",
)
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
