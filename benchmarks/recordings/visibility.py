"""Visibility of a lag, before and along training: from how many sequences on its part of the
gradient stands out of the noise of the whole; and the exact envelope at the start.

The secondary questions of `book/registration.md`. Of every fresh sequence's gradient, the part of
the lag and the whole are projected on one direction, the lag's mean gradient over other sequences:
the reading of the window that the book recommends, for a loss at any steps.

Run ``python -m benchmarks.recordings.visibility`` for all that is missing.
"""

import copy
import itertools
import os
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.recordings.dose import SEEDS, conditions, descended
from benchmarks.recordings.learners import TASKS, Learner
from book.chapters.dose import Condition
from lwcore.gradient import carry_back, first_loss, unit_length
from lwcore.inference import sequences_needed
from lwcore.results import environment, write_atomically
from lwcore.transport import effective_rates, envelope

FOLDER = Path("book/results/visibility")
SEQUENCES = 1024
Rows = list[dict[str, object]]
MOMENTS = (0, 25, 50, 100, 200, 400, 800, 1600, 3200)


def gradients(
    learner: Learner, condition: Condition, seed: int, nearest: int | None = None
) -> tuple[Float[Tensor, "B P"], Float[Tensor, "B P"]]:
    """Return gradients of fresh sequences in the cell's parameters: the lag's part, and the whole.

    Args:
        learner: A network, in whatever state of its training.
        condition: Gives the task and the lag.
        seed: Of the sequences.
        nearest: The parts of all lags from this one on up to the condition's, if given.
    """
    task = TASKS[condition.task](condition.lag)
    inputs, targets = task.sample(SEQUENCES, np.random.default_rng([seed, 1]), fresh=True)
    if targets.is_floating_point():
        targets = targets.double()
    learner = copy.deepcopy(learner).double()
    trace = learner.cell.trace(inputs.double())
    hidden = trace.outputs.detach().requires_grad_()
    summed_loss = len(inputs) * task.loss(learner.out(hidden), targets)  # each sequence's own
    (delta,) = torch.autograd.grad(summed_loss, hidden)
    part: Any = 0
    for lag in range(nearest or condition.lag, condition.lag + 1):
        first_end = max(first_loss(delta), lag)
        ((_, rows),) = carry_back(trace, delta, [lag], first_end)
        before_ends = slice(first_end - lag, trace.length - lag)
        part = part + trace.gathered_each(rows, before_ends)
    whole = trace.gathered_each(trace.backpropagate(delta))
    return part, whole


def visible(part: Float[Tensor, "B P"], whole: Float[Tensor, "B P"]) -> dict[str, object]:
    """Return a lag's signal, in standard errors of its mean, and N(ℓ).

    N(ℓ) is infinite where the mean is below 0. The first half of the sequences fixes the direction,
    the second gives the numbers.
    """
    half = len(part) // 2
    direction = unit_length(part[:half].mean(0))
    own = part[half:] @ direction
    noise = whole[half:] @ direction
    mean = own.mean().item()
    error = own.std().item() / len(own) ** 0.5
    scale = noise.std().item() / 2**0.5  # that of a stable law with α = 2
    needed = sequences_needed(mean, scale, 2.0)
    return {"signal": mean / error if error else 0.0, "needed": needed.item()}


def at_start(condition: Condition, seed: int) -> Rows:
    """Measure a lag's visibility before training."""
    torch.set_num_threads(1)
    learner = Learner(condition, TASKS[condition.task](condition.lag), seed)
    part, whole = gradients(learner, condition, seed)
    return [vars(condition) | {"seed": seed} | visible(part, whole)]


def carried(condition: Condition, seed: int) -> Rows:
    """Measure the exact envelope before training, to the last step.

    It counts all that comes back to a neuron, where f₀ counts what the gates keep.
    """
    torch.set_num_threads(1)
    task = TASKS[condition.task](condition.lag)
    inputs, _ = task.sample(64, np.random.default_rng([seed, 1]), fresh=True)
    learner = Learner(condition, task, seed).double()
    trace = learner.cell.trace(inputs.double())
    rates = effective_rates(trace, [condition.lag], ends=[trace.length - 1])
    return [vars(condition) | {"seed": seed, "envelope": envelope(rates).item()}]


def along(condition: Condition, seed: int) -> Rows:
    """Measure visibility and the share learned at `MOMENTS` of a training that does not stop.

    It is a training on 1,024 sequences.
    """
    rows = []
    for step, learner, share in descended(condition, SEQUENCES, seed):
        if step in MOMENTS:
            state = {"seed": seed, "step": step, "share": share()}
            part, whole = gradients(learner, condition, seed)
            rows.append(vars(condition) | state | visible(part, whole))
        if step == MOMENTS[-1]:
            break
    return rows


def record(
    name: str,
    measure: Callable[[Condition, int], Rows],
    asked: list[Condition],
    seed: int,
    pool: Executor,
) -> None:
    """Record the rows of all conditions for a seed, in a file that is there whole or not at all.

    Args:
        name: First part of the file's name.
        measure: Gives the rows of a condition and a seed.
        asked: The conditions.
    """
    path = FOLDER / f"{name}-{seed}.csv"
    if path.exists():
        return
    rows: Rows = []
    for rows_of_condition in pool.map(measure, asked, [seed] * len(asked)):
        rows += rows_of_condition
    table = pd.DataFrame(rows).assign(revision=environment()["revision"])
    write_atomically(path, lambda part: table.to_csv(part, index=False))


def main() -> None:
    """Record every part of the experiment before training, and the course of a few trainings.

    The course is that of two tasks, at one lag and two gates.
    """
    parts = {part: list(conditions(part)) for part in ("adamw", "mixing", "digits")}
    course = []
    for condition in parts["adamw"]:
        of_task = condition.task in ("regression", "recall")
        if of_task and condition.lag == 20 and condition.gate in (0.05, 0.34):
            course.append(condition)
    with ProcessPoolExecutor(initializer=os.nice, initargs=(19,)) as pool:
        for seed in SEEDS["adamw"]:
            for part in ("adamw", "digits"):  # the optimiser comes later
                if seed in SEEDS[part]:
                    record(f"start-{part}", at_start, parts[part], seed, pool)
            record("course", along, course, seed, pool)
            record("envelope", carried, [*itertools.chain(*parts.values())], seed, pool)


if __name__ == "__main__":
    main()
