"""Visibility of a lag, before and along training: the number of sequences at which its part of the
gradient stands out of the noise of the whole; and the exact envelope at the start.

The secondary questions of `book/registration.md`. Of every fresh sequence's gradient, the part of
the lag and the whole are projected on one direction, the lag's mean gradient over other sequences:
the reading of the window that the book recommends, for a loss at any steps.

Run ``python -m book.chapters.visibility`` for all that is missing.
"""

import copy
import os
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from book.chapters.dose import SEEDS, TASKS, Condition, Learner, conditions, descended
from lwcore.gradient import first_loss, transported, unit_length
from lwcore.inference import sequences_needed
from lwcore.results import environment, write_atomically
from lwcore.transport import effective_rates, envelope

FOLDER = Path("book/results/visibility")
SEQUENCES = 1024
Rows = list[dict[str, object]]
MOMENTS = (0, 25, 50, 100, 200, 400, 800, 1600, 3200)


def gradients(
    learner: Learner, condition: Condition, seed: int
) -> tuple[Float[Tensor, "B P"], Float[Tensor, "B P"]]:
    """Gradients of fresh sequences in the cell's parameters: the part of the lag, and the whole."""
    asked, lag = TASKS[condition.task](condition.lag), condition.lag
    inputs, targets = asked.sample(SEQUENCES, np.random.default_rng([seed, 1]), fresh=True)
    learner = copy.deepcopy(learner).double()
    trace = learner.cell.trace(inputs.double())
    hidden = trace.outputs.detach().requires_grad_()
    goal = targets.double() if targets.is_floating_point() else targets
    loss = len(inputs) * asked.loss(learner.out(hidden), goal)  # each sequence's own, summed
    (delta,) = torch.autograd.grad(loss, hidden)
    first = max(first_loss(delta), lag)
    ((_, rows),) = transported(trace, delta, [lag], first)
    part = trace.gathered_each(rows, slice(first - lag, trace.length - lag))
    return part, trace.gathered_each(trace.backpropagate(delta))


def visible(part: Float[Tensor, "B P"], whole: Float[Tensor, "B P"]) -> dict[str, object]:
    """A lag's signal, in standard errors of its mean, and N(ℓ), infinite where that is below 0.

    The first half of the sequences fixes the direction.
    """
    half = len(part) // 2
    direction = unit_length(part[:half].mean(0))
    own, noise = part[half:] @ direction, whole[half:] @ direction
    mean, error = own.mean().item(), own.std().item() / len(own) ** 0.5
    needed = sequences_needed(mean, noise.std().item() / 2**0.5, 2.0)  # a stable scale, α = 2
    return {"signal": mean / error if error else 0.0, "needed": needed.item()}


def at_start(condition: Condition, seed: int) -> Rows:
    """A lag's visibility before training."""
    torch.set_num_threads(1)
    learner = Learner(condition, TASKS[condition.task](condition.lag), seed)
    return [vars(condition) | {"seed": seed} | visible(*gradients(learner, condition, seed))]


def carried(condition: Condition, seed: int) -> Rows:
    """The exact envelope before training, to the last step: of all that comes back to a neuron,
    where f₀ counts what the gates keep."""
    torch.set_num_threads(1)
    asked = TASKS[condition.task](condition.lag)
    inputs, _ = asked.sample(64, np.random.default_rng([seed, 1]), fresh=True)
    trace = Learner(condition, asked, seed).double().cell.trace(inputs.double())
    rates = effective_rates(trace, [condition.lag], ends=[trace.length - 1])
    return [vars(condition) | {"seed": seed, "envelope": envelope(rates).item()}]


def along(condition: Condition, seed: int) -> Rows:
    """Visibility and the share learned, along a training on 1,024 sequences that does not stop."""
    rows = []
    for step, learner, share in descended(condition, SEQUENCES, seed):
        if step in MOMENTS:
            state = {"seed": seed, "step": step, "share": share()}
            found = visible(*gradients(learner, condition, seed))
            rows.append(vars(condition) | state | found)
        if step == MOMENTS[-1]:
            break
    return rows


def record(
    name: str, of: Callable[..., Rows], asked: list[Condition], seed: int, pool: Executor
) -> None:
    """Rows of all conditions for a seed, in a file that is there whole or not at all."""
    path = FOLDER / f"{name}-{seed}.csv"
    if not path.exists():
        rows = [row for found in pool.map(of, asked, [seed] * len(asked)) for row in found]
        table = pd.DataFrame(rows).assign(revision=environment()["revision"])
        write_atomically(path, lambda part: table.to_csv(part, index=False))


def main() -> None:
    """Every part of the experiment before training, and its course at one lag and two gates."""
    course = [one for one in conditions("adamw") if one.lag == 20 and one.gate in (0.05, 0.34)]
    course = [one for one in course if one.task in ("regression", "recall")]
    with ProcessPoolExecutor(initializer=os.nice, initargs=(19,)) as pool:
        for seed in SEEDS["adamw"]:
            for part in ("adamw", "digits"):  # the optimiser comes later
                if seed in SEEDS[part]:
                    record(f"start-{part}", at_start, list(conditions(part)), seed, pool)
            record("course", along, course, seed, pool)
            every = [one for part in ("adamw", "mixing", "digits") for one in conditions(part)]
            record("envelope", carried, every, seed, pool)


if __name__ == "__main__":
    main()
