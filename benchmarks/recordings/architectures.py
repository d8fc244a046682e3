"""Windows of architectures that nobody here wrote: one task, about as many parameters each.

The question: from how many sequences, N(ℓ), does the gradient of each show each lag, before and
along training, and what is then learned? This design stood before the first number.

*Task.* One series of independent standard normal inputs, 48 steps long. The target is the sum of
the inputs 4, 12 and 24 steps back, over √3, so that its variance is 1; the loss is the squared
error of the last 16 steps, at which every lag up to 32 can be looked at.

*Networks.* `ARCHITECTURES`, of 3,000 parameters within 10 %, of which an echo-state network learns
those of its readout alone. All start as their packages start them.

*Training.* AdamW (rate 0.003, gradients clipped at the norm 1), `MOMENTS[-1]` steps, batches of 32
of 1,024 sequences, the same for all architectures of a seed.

*Numbers.* At each of `MOMENTS`, on 1,024 fresh sequences, `diagnose` gives N(ℓ) at `LAGS` with
``source="target"``: as if nothing had been learned. Before training it gives N(ℓ) with
``source="error"``, too. A lag that is not detected counts as one without any N(ℓ), infinite. Of
the three delays `shares` says what is learned. Where `diagnose` refuses an architecture, its own
words are kept, and nothing is trained.

*Null.* 100 draws each of five architectures, ``source="target"``: another start, 128 sequences, and
targets that are independent of the inputs, so that no lag should be shown.

Steps, widths and the length were chosen with seeds that are not recorded, 98 and 99, by what six of
the architectures learn. Tries of the code with these printed some N(ℓ); nothing was chosen by them.
There are five seeds, and not three as planned: three decide no claim of this book. That was changed
when the first had been seen, before the others.

sLSTM and LTC were refused at first; `diagnose` reads both since. sLSTM was measured then, as the
others had been. LTC is left out, for its cost: a diagnosis of 64 sequences takes 140 s.

The recorded rows of SRU take its recurrent weights as used at the first step alone: at lag 32,
which no page uses, their N(ℓ) is wrong. Today's `diagnose` refuses minGRU and minLSTM in single
precision; in double precision it gives what is recorded at all delays.

Beside these: parameters, seconds of processor time that `diagnose` and one epoch of training take,
and by how much `diagnose` raises the peak of memory above that of training.

Run ``python -m benchmarks.recordings.architectures`` for all that is missing; it can be stopped at
any time and goes on from what is there.
"""

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.recordings.layers import ARCHITECTURES, Network, numbers
from lwcore.diagnose import diagnose
from lwcore.results import environment, write_atomically
from lwcore.signatures import ArgumentError

FOLDER = Path("book/results/architectures")
SEEDS = range(1, 6)
STEPS = 48
LAST = 16  # steps at the end whose errors count
DELAYS = (4, 12, 24)  # of which the target is the sum
LAGS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
SEQUENCES = 1024  # to train on, and as many for `diagnose`
TESTED = 512  # sequences on which shares are taken
BATCH = 32
RATE = 3e-3
MOMENTS = (0, 100, 400, 1500)  # steps of training at which networks are looked at
NULL = ("GRU", "CfC", "minGRU", "Mamba", "transformer")
NULL_DRAWS = 100
NULL_SEQUENCES = 128


def sample(count: int, *seed: int) -> tuple[Tensor, Tensor]:
    """Draw inputs, standard normal, and targets of the last steps, (count, 16, 1)."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((count, STEPS, 1), np.float32)
    total = sum(_delayed(inputs, delay) for delay in DELAYS)
    targets = total / np.float32(len(DELAYS) ** 0.5)
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def _delayed(inputs: Any, delay: int) -> Any:
    """Return what was read so many steps before each of the last steps."""
    return inputs[:, STEPS - LAST - delay : STEPS - delay]


def loss(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of the last steps."""
    return (predictions[:, -LAST:] - targets).square().mean()


def shares(network: nn.Module, inputs: Tensor) -> dict[int, float]:
    """Return the share of each delay that is learned: 1 − r²/a², where r of its part a is missing.

    The target is a Σ x_{t−ℓ} with a = 1/√3 and the predictions' part of x_{t−ℓ} is c = E ŷ_t
    x_{t−ℓ}, so that r = a − c: the share is 1 where c = a, and 0 where nothing of x_{t−ℓ} is in ŷ.
    """
    with torch.no_grad():
        predictions = network(inputs)[:, -LAST:]
    by_delay = {}
    for delay in DELAYS:
        coefficient = (predictions * _delayed(inputs, delay)).mean().item()  # c
        missing = 1 - len(DELAYS) ** 0.5 * coefficient  # r/a
        by_delay[delay] = 1 - missing**2
    return by_delay


def trained(network: nn.Module, seed: int) -> Iterator[tuple[int, float]]:
    """Train a network in place, and stop at each of `MOMENTS`.

    Yields the number of steps done, and the seconds that an epoch has taken on the way.
    """
    inputs, targets = sample(SEQUENCES, seed, 0)
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    descent = torch.optim.AdamW(parameters, lr=RATE)
    rng = np.random.default_rng([seed, 5])
    steps_an_epoch = SEQUENCES / BATCH
    seconds = 0.0
    done = 0
    for moment in MOMENTS:
        start = time.process_time()
        for _ in range(done, moment):
            chosen = torch.from_numpy(rng.choice(SEQUENCES, BATCH, replace=False))
            descent.zero_grad()
            loss(network(inputs[chosen]), targets[chosen]).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            descent.step()
        seconds += time.process_time() - start
        done = moment
        yield moment, seconds / max(moment, 1) * steps_an_epoch


def begun(name: str, seed: int) -> nn.Module:
    """Return the network of a seed before training."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return Network(name).eval()


def read(network: nn.Module, data: tuple[Tensor, Tensor], source: str, seed: int) -> pd.DataFrame:
    """Diagnose a network: N(ℓ), infinite where it is not detected, its estimate and its interval.

    Returns a row a lag, or one row with the refusal's words if there is one. Seconds are of
    processor time, memory is in MiB.
    """
    start = time.process_time()
    peak_before = _peak()
    options: dict[str, Any] = {"loss": loss, "source": source, "seed": seed, "progress": False}
    try:
        answer = diagnose(network, data, LAGS, **options).data
    except ArgumentError as refusal:
        return pd.DataFrame([{"source": source, "refused": str(refusal)}])
    detected = answer.detected.values.astype(bool)
    estimate = answer.required.values
    low, high = answer.required_interval.values
    return pd.DataFrame(
        {
            "lag": LAGS,
            "detected": detected,
            "source": source,
            "refused": "",
            "estimate": estimate,
            "low": low,
            "high": high,
            "needed": np.where(detected, estimate, np.inf),
            "seconds": time.process_time() - start,
            "memory": _peak() - peak_before,
        }
    )


def _peak() -> float:
    """Return the most memory that this process has had, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(name: str, seed: int) -> pd.DataFrame:
    """Return all numbers of an architecture and a seed, a row for each moment, source and lag."""
    network = begun(name, seed)
    test_inputs, test_targets = sample(TESTED, seed, 1)
    fresh = sample(SEQUENCES, seed, 2)
    # One step's memory is taken first, so that what `diagnose` needs counts above it.
    loss(network(test_inputs[:BATCH]), test_targets[:BATCH]).backward()
    tables: list[pd.DataFrame] = []
    for step, epoch in trained(network, seed):
        learned = shares(network, test_inputs)
        sources = ("error", "target") if step == 0 else ("target",)
        for source in sources:
            table = read(network, fresh, source, seed).assign(step=step, epoch_seconds=epoch)
            if "lag" in table:
                table["share"] = table["lag"].map(learned)
            tables.append(table)
        if all("lag" not in table for table in tables):  # refused: nothing is trained
            break
    rows = pd.concat(tables, ignore_index=True)
    return rows.assign(architecture=name, seed=seed, parameters=numbers(network))


def null(name: str, seed: int) -> pd.DataFrame:
    """Diagnose networks whose targets are independent of the inputs, a row for each draw and lag.

    No lag should be shown.
    """
    tables: list[pd.DataFrame] = []
    for draw in range(NULL_DRAWS):
        inputs, _ = sample(NULL_SEQUENCES, seed, 3, draw)
        _, targets = sample(NULL_SEQUENCES, seed, 4, draw)
        network = begun(name, 1000 * seed + draw)
        tables.append(read(network, (inputs, targets), "target", draw).assign(draw=draw))
    return pd.concat(tables, ignore_index=True).assign(architecture=name, seed=seed)


def record(name: str, seed: int, measure: Callable[[str, int], pd.DataFrame]) -> None:
    """Record an architecture and a seed, in a file that is there whole or not at all.

    Args:
        measure: `measured` or `null`, after which the file is named.
    """
    path = FOLDER / f"{measure.__name__}-{name.replace(' ', '-')}-{seed}.csv"
    if path.exists():
        return
    # a process for each, whose peak of memory is that of one architecture
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        rows = pool.submit(measure, name, seed).result()
    table = rows.assign(revision=environment()["revision"])
    write_atomically(path, lambda part: table.to_csv(part, index=False))


def main() -> None:
    """Record what is missing, seed after seed, and the null draws after the first."""
    for seed in SEEDS:
        for name in ARCHITECTURES:
            record(name, seed, measured)
        if seed == SEEDS[0]:
            for name in NULL:
                record(name, seed, null)


if __name__ == "__main__":
    main()
