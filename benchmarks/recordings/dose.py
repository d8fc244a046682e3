"""The trainings of the experiment that `book/registration.md` registers.

Run ``python -m benchmarks.recordings.dose`` for all that is missing; it can be stopped at any time
and goes on from what is there.
"""

import argparse
import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from benchmarks.recordings.learners import BATCH, CELLS, DESCENTS, TASKS, TESTED, Learner
from book.chapters.dose import (
    COUNTS,
    EVERY,
    FOLDER,
    GATES,
    HALF,
    HIDDEN,
    OPTIMIZERS,
    VARIED,
    Condition,
    searches,
    trainings,
)
from lwcore.results import environment, write_atomically

SEEDS = {"adamw": range(1, 7), "sgd": range(1, 7), "mixing": range(1, 7), "digits": range(1, 4)}
# Added when seeds 1 and 2 had been seen, in folders of their own: more steps, and fewer sequences.
SEEDS |= {"patient": range(1, 4), "fewer": range(1, 7)}

PATIENCE = 2000  # steps without a better share after which training ends
CAP = 8000  # steps after which it ends in any case
PATIENT = 40_000  # patience and cap of the part that is named so
FEWER = COUNTS[7:18:2]  # 45 to 1,448, tried where the largest number was not enough


def descended(
    condition: Condition, count: int, seed: int, hidden: int = HIDDEN
) -> Iterator[tuple[int, Learner, Callable[[], float]]]:
    """Train on `count` sequences without end.

    Yields before the first step and after each: the number of steps, the network, and a function
    that returns the share it has learned.
    """
    torch.set_num_threads(1)
    task = TASKS[condition.task](condition.lag)
    rng = np.random.default_rng([seed, count])
    inputs, targets = task.sample(count, rng)
    test_rng = np.random.default_rng([seed, 0])
    test_inputs, test_targets = task.sample(TESTED, test_rng, fresh=True)
    learner = Learner(condition, task, seed, hidden)
    parameters = [p for p in learner.parameters() if p.requires_grad]
    descent = DESCENTS[condition.optimizer](parameters)

    def share() -> float:
        with torch.no_grad():
            return task.share(learner(test_inputs), test_targets)

    n_sequences = len(inputs)
    for step in itertools.count():
        yield step, learner, share
        batch = rng.choice(n_sequences, min(BATCH, n_sequences), replace=False)
        chosen = torch.from_numpy(batch)
        descent.zero_grad()
        task.loss(learner(inputs[chosen]), targets[chosen]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        descent.step()


def train(
    condition: Condition,
    count: int,
    seed: int,
    patience: int = PATIENCE,
    cap: int = CAP,
    hidden: int = HIDDEN,
) -> dict[str, object]:
    """Train until half is learned, or no more is, or the cap is met; return a row of what came out.

    Args:
        count: Number of training sequences.
        patience: Steps without a better share after which no more is learned.
        cap: Steps after which training ends in any case.
        hidden: Number of neurons.
    """
    best = -math.inf
    best_step = 0
    start = time.process_time()
    for step, _, share in descended(condition, count, seed, hidden):
        if step == 0 or step % EVERY != 0:
            continue
        reached = share()
        if reached > best + 0.005:
            best = reached
            best_step = step
        if best >= HALF or step - best_step >= patience or step == cap:
            break
    if best >= HALF:
        end = "half"
    elif step - best_step >= patience:
        end = "settled"
    else:
        end = "cap"
    seconds = time.process_time() - start
    outcome = {"count": count, "share": best, "steps": step, "end": end, "seconds": seconds}
    return asdict(condition) | {"seed": seed} | outcome


def search(
    condition: Condition,
    seed: int,
    patience: int = PATIENCE,
    cap: int = CAP,
    hidden: int = HIDDEN,
) -> list[dict[str, object]]:
    """Bisect the grid for the least number of sequences from which half is learned.

    Supposes that more never teach less. Returns a row for each training; one with most sequences is
    always among them, to see how many steps half takes where they abound.
    """
    counts = TASKS[condition.task].counts
    too_few = -1  # places in the grid
    enough = len(counts)
    place = len(counts) - 1
    rows = []
    while enough - too_few > 1:
        row = train(condition, counts[place], seed, patience, cap, hidden)
        rows.append(row)
        if row["end"] == "half":
            enough = place
        else:
            too_few = place
        place = (too_few + enough) // 2
    return rows


def retry(condition: Condition, seed: int) -> list[dict[str, object]]:
    """Train on smaller numbers of sequences, from the least up, until one reaches the half."""
    most = TASKS[condition.task].counts[-1]
    rows: list[dict[str, object]] = []
    for count in FEWER:
        if count >= most:
            break
        row = train(condition, count, seed)
        rows.append(row)
        if row["end"] == "half":
            break
    return rows


def conditions(part: str, seed: int = 0, folder: Path = FOLDER) -> Iterator[Condition]:
    """List the conditions of a part of the experiment.

    Args:
        part: A key of `SEEDS`.
        seed: Of ``"fewer"``, the seed whose searches beyond the grid are tried again.
        folder: Where these searches are recorded.
    """
    if part in OPTIMIZERS:
        yield from _conditions_of_optimizer(part)
    elif part == "mixing":
        tasks = ("recall", "adding")
        scales = (0.0, 0.25, 0.5, 0.75, 1.0)
        gates = (0.05, 0.2, 0.34, 0.5)
        for task, mixing, gate in itertools.product(tasks, scales, gates):
            yield Condition("ConstGate", gate, task, 20, mixing=mixing)
    elif part == "patient":
        for gate in (0.1, 0.2):
            yield Condition("ConstGate", gate, "recall", 20, mixing=0.0)
        for cell, gate, optimizer in itertools.product(("MinGRU", "LSTM"), GATES[3:], OPTIMIZERS):
            yield Condition(cell, gate, "recall", 20, optimizer)
    elif part == "fewer":
        done = searches(trainings(folder))
        beyond = done[done["high"].isna() & (done["seed"] == seed)]
        known = beyond[VARIED].replace({np.nan: None})
        for values in known.itertuples(index=False, name=None):
            yield Condition(*values)
    elif part == "digits":
        for lag, cell, gate in itertools.product((63, 15), CELLS, GATES):
            yield Condition(cell, gate, "digits", lag)


def _conditions_of_optimizer(optimizer: str) -> Iterator[Condition]:
    """List the conditions of the main parts: tasks, lags, cells and gates under one optimiser."""
    asked = [
        *(("regression", lag, CELLS[:-1]) for lag in (5, 10, 20)),
        *(("recall", lag, CELLS) for lag in (10, 20, 40)),
        ("adding", 20, CELLS),
    ]
    for task, lag, own_cells in asked:
        for cell, gate in itertools.product(own_cells, GATES):
            yield Condition(cell, gate, task, lag, optimizer)


def record(part: str, seed: int, pool: Executor, folder: Path = FOLDER) -> None:
    """Do what is missing of a part for a seed; its file is written anew when a search ends.

    Parts that were added when data had been seen have folders of their own.
    """
    name = f"{part}-{seed}.csv"
    path = folder / part / name if part in ("patient", "fewer") else folder / name
    work = retry if part == "fewer" else search
    limits = (PATIENT, PATIENT) if part == "patient" else ()
    rows = pd.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    done = {tuple(str(row[name]) for name in VARIED) for row in rows}
    revision = environment()["revision"]
    futures = []
    for condition in conditions(part, seed, folder):
        key = tuple("" if value is None else str(value) for value in astuple(condition))
        if key not in done:
            futures.append(pool.submit(work, condition, seed, *limits))
    for future in as_completed(futures):
        rows += [row | {"revision": revision} for row in future.result()]
        write_atomically(path, functools.partial(pd.DataFrame(rows).to_csv, index=False))


def main() -> None:
    """Read the command line, and do one seed of every part before the next."""
    options = argparse.ArgumentParser(description="Record the registered experiment.")
    options.add_argument("parts", nargs="*", default=list(SEEDS))
    options.add_argument("--workers", type=int, default=os.cpu_count())
    options.add_argument("--folder", type=Path, default=FOLDER)
    chosen = options.parse_args()
    with ProcessPoolExecutor(chosen.workers, initializer=os.nice, initargs=(19,)) as pool:
        for seed, part in itertools.product(range(1, 7), chosen.parts):
            if seed in SEEDS[part]:
                record(part, seed, pool, chosen.folder)


if __name__ == "__main__":
    main()
