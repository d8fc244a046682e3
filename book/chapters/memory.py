"""Memory capacity of trained networks: what the best linear readouts of the state recover of each
past input (Jaeger 2001).

``python -m book.chapters.memory FOLDER`` measures copies of the checkpoints that ``lw run
capacity`` keeps while it runs, and records their sums.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from lwcore import experiment
from lwcore.config import Config
from lwcore.signatures import Count, FiniteReals, checked

RECORD = Path("book/results/memory.csv")
DELAYS = 160  # the longest of what was learned, too


@checked
def memory_capacity(states: FiniteReals, driver: FiniteReals, delays: Count) -> NDArray[np.float64]:
    """Shares m_k of the variance of ``driver[:, t − k]`` that states (S, T, H) explain, k from 0.

    Readouts are fitted to half of the sequences and tested on the others. Over all k the shares
    add up to at most H.
    """
    h, u = np.asarray(states, float)[:, delays:], np.asarray(driver, float)
    h = np.concatenate([h, np.ones_like(h[..., :1])], -1)  # readouts add a constant
    past = np.stack([u[:, delays - k : u.shape[1] - k] for k in range(delays + 1)], -1)
    (x, fresh), (y, truth) = (np.array_split(one, 2) for one in (h, past))
    readout = np.linalg.lstsq(x.reshape(-1, x.shape[-1]), y.reshape(-1, delays + 1), rcond=None)[0]
    return 1 - ((truth - fresh @ readout) ** 2).mean((0, 1)) / (truth**2).mean((0, 1))


def main(folder: Path) -> None:
    """Measure all networks over 1,024 sequences that they were not trained on."""
    rows = []
    for number, (at, config) in enumerate(Config.named("capacity").points().items()):
        for (model, seed), network in experiment.networks(config, trained=False).items():
            stored, _ = experiment.load_checkpoint(folder / f"{number}-{model}-{seed}.checkpoint")
            network.load_state_dict(stored.network)
            inputs = experiment.fresh_sequences(config, seed, 1024).inputs
            driver = inputs.numpy() @ experiment.task_of(config, seed).direction
            with torch.no_grad():
                shares = memory_capacity(network.cell(inputs).numpy(), driver, DELAYS)
            rows.append([*at, model, seed, shares.sum()])
    columns = ["width", "delays", "model", "seed", "capacity"]
    pd.DataFrame(rows, columns=columns).to_csv(RECORD, index=False, float_format="%.4f")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
