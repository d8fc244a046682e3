"""Memory capacity of trained networks: what the best linear readouts of the state recover of past
inputs (Jaeger 2001).

``python -m benchmarks.recordings.memory FOLDER`` measures copies of the checkpoints that ``lw run
capacity`` keeps while it runs, and records the sum for the one combination of inputs that the
target is made of, and for all inputs.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import linalg

from lwcore import experiment
from lwcore.experiment import running
from lwcore.experiment.config import Config
from lwcore.signatures import Count, FiniteReals, checked

RECORD = Path("book/results/memory.csv")
DELAYS = 160  # the longest of what was learned, too


@checked
def memory_capacity(states: FiniteReals, inputs: FiniteReals, delays: Count) -> NDArray[np.float64]:
    """Return shares m (delay, input) of the variance of past inputs that the states hold.

    A share is an adjusted R² of ``inputs[:, t − k]``: what readouts of the states explain by chance
    adds nothing to the sum. That is at most H (Jaeger 2001).

    Args:
        states: (S, T, H).
        inputs: (S, T, D), white and independent.
        delays: The longest delay k; delays begin with 0.
    """
    h = np.asarray(states, float)[:, delays:]
    u = np.asarray(inputs, float)
    with_constant = np.concatenate([h, np.ones_like(h[..., :1])], -1)
    basis = linalg.orth(with_constant.reshape(-1, with_constant.shape[-1]))
    samples, rank = basis.shape
    shares = []
    for k in range(delays + 1):
        past = u[:, delays - k : u.shape[1] - k].reshape(samples, -1)
        total = (past**2).sum(0)
        explained = ((basis.T @ past) ** 2).sum(0)
        left = total - explained
        shares.append(1 - left / (samples - rank) / (total / samples))
    return np.stack(shares)


def main(folder: Path) -> None:
    """Measure all networks over 1,024 sequences that they were not trained on.

    Args:
        folder: Where copies of the run's checkpoints are.
    """
    rows = []
    for number, (labels, config) in enumerate(Config.named("capacity").points().items()):
        for (model, seed), network in experiment.networks(config, trained=False).items():
            stored, _ = running.load_checkpoint(folder / f"{number}-{model}-{seed}.checkpoint")
            network.load_state_dict(stored.network)
            inputs = experiment.fresh_sequences(config, seed, 1024).inputs
            direction = torch.as_tensor(experiment.task_of(config, seed).direction)
            driver = inputs @ direction[:, None]
            with torch.no_grad():
                states = network.cell(inputs).numpy()
            of_driver = memory_capacity(states, driver.numpy(), DELAYS).sum()
            of_inputs = memory_capacity(states, inputs.numpy(), DELAYS).sum()
            rows.append([*labels, model, seed, of_driver, of_inputs])
    columns = ["width", "delays", "model", "seed", "driver", "inputs"]
    pd.DataFrame(rows, columns=columns).to_csv(RECORD, index=False, float_format="%.4f")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
