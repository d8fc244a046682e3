"""What a network's tangent kernel at the start would learn: the lazy regime, put to the test.

Ridge regression in the gradients of the outputs in all parameters, at the start. Part *Kernel* of
`book/registration_clock.md`: regression in ConstGate, DiagGate and LSTM, beside what the network
itself learns from the same sequences. Run
``python -m benchmarks.recordings.tangent_kernel`` for what is missing.
"""

import argparse
import functools
import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from benchmarks.recordings import learners
from benchmarks.recordings.dose import train as train_network
from benchmarks.recordings.learners import Learner
from book.chapters import dose
from book.chapters.clock import KERNEL_COUNTS as COUNTS
from book.chapters.clock import SEEDS
from book.chapters.dose import Condition
from lwcore.results import environment, write_atomically

FOLDER = Path("book/results/clock")
CELLS, LAGS, OUTPUTS = ("ConstGate", "DiagGate", "LSTM"), (5, 10, 20), 12
RIDGES = tuple(10.0**power for power in range(-7, -1))  # of the kernel's trace
CHUNK = 64  # sequences whose gradients are held at once


class LastOutputs(nn.Module):
    """A learner's outputs at the last steps of one sequence, step by step, as `vmap` needs it."""

    def __init__(self, learner: Learner) -> None:
        """Take over a learner's cell and readout."""
        super().__init__()
        self.cell, self.out = learner.cell, learner.out

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the last `OUTPUTS` outputs from inputs (T, D)."""
        state = inputs.new_zeros(self.cell.state_size)
        outputs = []
        for x in inputs:
            state = self.cell.step(x, state)
            outputs.append(self.out(state[: self.cell.hidden_size]))
        return torch.cat(outputs[-OUTPUTS:])


def features(model: LastOutputs, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute outputs, (B, O), and their gradients in all parameters, (B, O, P)."""
    parameters = dict(model.named_parameters())

    def outputs_of(given: dict[str, Tensor], one: Tensor) -> Any:
        found = functional_call(model, given, (one,))
        return found, found

    by_name, outputs = vmap(jacrev(outputs_of, has_aux=True), in_dims=(None, 0))(parameters, inputs)
    gradients = [by_name[name].flatten(2) for name in parameters]
    return outputs.detach(), torch.cat(gradients, dim=2).detach()


def kernel_shares(
    learner: Learner,
    task: learners.Task,
    train: learners.Data,
    tests: learners.Data,
    counts: tuple[int, ...],
) -> dict[int, float]:
    """Measure the best share over `RIDGES` that the kernel explains, for each number of sequences.

    Solves the primal problem: with features F of points and what the start leaves unexplained r,
    ``w = (FᵀF + c tr(FᵀF) I)⁻¹ Fᵀ r``. Sums are float64.
    """
    model = LastOutputs(learner)
    test_outputs, test_features = features_of_all(model, tests[0])
    shares = {}
    square, right, seen = None, None, 0
    for count in counts:
        for start in range(seen, count, CHUNK):
            chunk = slice(start, min(start + CHUNK, count))
            outputs, gradients = features(model, train[0][chunk])
            flat = gradients.flatten(0, 1)
            left = (train[1][chunk] - outputs).flatten()
            more_square, more_right = (flat.T @ flat).double(), (flat.T @ left).double()
            square = more_square if square is None else square + more_square
            right = more_right if right is None else right + more_right
        seen = count
        assert square is not None
        assert right is not None
        found = []
        for ridge in RIDGES:
            penalty = ridge * square.trace() * torch.eye(len(square), dtype=square.dtype)
            weights = torch.linalg.solve(square + penalty, right).to(test_features.dtype)
            predicted = test_outputs + test_features @ weights
            found.append(task.share(predicted.unsqueeze(-1), tests[1]))
        shares[count] = max(found)
    return shares


def features_of_all(model: LastOutputs, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `features` in chunks."""
    parts = [features(model, chunk) for chunk in inputs.split(CHUNK)]
    return torch.cat([one for one, _ in parts]), torch.cat([one for _, one in parts])


def conditions() -> list[Condition]:
    """List what is asked."""
    each = itertools.product(CELLS, LAGS, dose.GATES)
    return [Condition(cell, gate, "regression", lag) for cell, lag, gate in each]


def compare(condition: Condition, seed: int) -> dict[str, object]:
    """Measure what the kernel explains, and train the network on the same sequences."""
    torch.set_num_threads(1)
    task = learners.TASKS[condition.task](condition.lag)
    train = task.sample(COUNTS[-1], np.random.default_rng([seed, COUNTS[-1]]))
    tests = task.sample(learners.TESTED, np.random.default_rng([seed, 0]), fresh=True)
    shares = kernel_shares(Learner(condition, task, seed), task, train, tests, COUNTS)
    trained = train_network(condition, COUNTS[-1], seed)
    return trained | {f"kernel_{count}": share for count, share in shares.items()}


def main() -> None:
    """Record one seed after the other; a seed's file is written when it is complete."""
    options = argparse.ArgumentParser(description="Record what tangent kernels explain.")
    options.add_argument("--workers", type=int, default=os.cpu_count())
    options.add_argument("--folder", type=Path, default=FOLDER)
    chosen = options.parse_args()
    revision = environment()["revision"]
    with ProcessPoolExecutor(chosen.workers, initializer=os.nice, initargs=(19,)) as pool:
        for seed in SEEDS["kernel"]:
            path = chosen.folder / f"kernel-{seed}.csv"
            if path.exists():
                continue
            asked = conditions()
            rows = list(pool.map(compare, asked, [seed] * len(asked)))
            table = pd.DataFrame(rows).assign(revision=revision)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, functools.partial(table.to_csv, index=False))


if __name__ == "__main__":
    main()
