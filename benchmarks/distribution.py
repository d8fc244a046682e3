"""What a member costs and what travels for it: processor time of training and measuring, bytes
there and back, and Dask's own share.

Run with ``python -m benchmarks.distribution``; some two minutes. Times are of the processor, one
thread. A member of ``paper-v6`` is put together from parts that can be measured: training steps
with an eighth of its batch, and diagnostics of a few of its sequences, for the cheapest cell and
the dearest.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from distributed import Client, LocalCluster
from rich.console import Console

from benchmarks.harness import record
from lwcore import experiment, results
from lwcore.config import Config, Model

JOBS = 1000
STEPS = 2
SEQUENCES = 32  # of the diagnostics of paper-v6
CELLS: tuple[Model, ...] = ("ConstGate", "LSTM")  # of paper-v6: the cheapest and the dearest


def of_dask() -> dict[str, float]:
    """Time jobs that do nothing on two workers; the scheduler runs in this process."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        workers = client.get_executor()
        list(workers.map(float, range(100)))
        processor, clock = time.process_time(), time.perf_counter()
        list(workers.map(float, range(JOBS)))
        return {
            "processor_ms_a_job": 1e3 * (time.process_time() - processor) / JOBS,
            "ms_a_job": 1e3 * (time.perf_counter() - clock) / JOBS,
        }


def member(config: Config, model: Model) -> tuple[float, dict[str, int]]:
    """Do a member: processor seconds, and bytes of the job, of what comes back, of the stored
    member and of its last checkpoint."""
    with tempfile.TemporaryDirectory() as room:
        one, path = config.but(models=(model,), seeds=config.seeds[:1]), Path(room, "member.nc")
        job = (one, model, config.seeds[0], True, path.with_suffix(".checkpoint"))
        start = time.process_time()
        data = experiment.run_member(*job)
        results.save(data, path)
        spent = time.process_time() - start
        return spent, {
            "job": len(pickle.dumps((experiment.run_member, *job))),
            "back": len(pickle.dumps(data)),
            "stored": path.stat().st_size,
        }


def checkpoint_bytes(config: Config, model: str) -> int:
    """Size of a checkpoint: weights, the optimiser's two moments, and the snapshots."""
    network = experiment.networks(
        config.but(models=(model,), seeds=config.seeds[:1]), trained=False
    )[model, config.seeds[0]]
    weights = sum(4 * p.numel() for p in network.parameters())
    return weights * (3 + len(config.training.snapshots))


def of_paper_v6() -> dict[str, Any]:
    """Measure the parts of a member of ``paper-v6``, cell by cell, and put them together."""
    config = Config.named("paper-v6")
    share = config.training.batch_size // 64
    parts = {}
    for model in CELLS:
        steps = {}
        for count in (0, STEPS):
            few = config.but(
                training={"sequences": 64, "batch_size": 64, "steps": count, "snapshots": ()}
            )
            start = time.process_time()
            experiment.networks(few.but(models=(model,), seeds=config.seeds[:1]))
            steps[count] = time.process_time() - start
        step = share * (steps[STEPS] - steps[0]) / STEPS
        few = config.but(
            training={"sequences": 1, "batch_size": 1, "steps": 0, "snapshots": ()},
            diagnostics={"sequences": SEQUENCES},
        )
        look, size = member(few, model)
        sequence = look / SEQUENCES
        seconds = config.training.steps * step + config.diagnostics.sequences * sequence
        parts[model] = {
            "step": step,
            "sequence": sequence,
            "seconds": seconds,
            "checkpoint": checkpoint_bytes(config, model),
            **size,
        }
        Console().print(model, parts[model])
    return {
        "members": len(config.members),
        "checkpoints": config.training.steps // config.training.checkpoint_every,
        "cells": parts,
    }


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    quick = Config.named("quick")
    # the first one in a process reads compiled loops and builds tables
    member(quick, quick.models[0])
    cells = {}
    for model in quick.models:
        seconds, size = member(quick, model)
        cells[model] = {"seconds": seconds, "checkpoint": checkpoint_bytes(quick, model), **size}
    found = {
        "dask": of_dask(),
        "quick": {
            "checkpoints": quick.training.steps // quick.training.checkpoint_every,
            "cells": cells,
        },
    }
    Console().print(found)
    Console().print(f"recorded in {record('distribution', found | {'paper-v6': of_paper_v6()})}")


if __name__ == "__main__":
    main()
