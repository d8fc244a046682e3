"""Kill a run again and again, with a reader beside it.

Has the result the same bits in the end, and was no part of a file seen? Run with
``python -m benchmarks.interruption``. Every attempt is a run in a process of its own, killed at a
random moment or while it writes a file; the next attempt goes on from what it left. So that kills
do fall into writes, files are written in pieces with pauses between them. A run that came to its
end is compared with an undisturbed one, and begun again. Then pairs of processes are started on one
run, and one of each second pair is killed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from lwcore import experiment, results
from lwcore.experiment import running
from lwcore.experiment.config import Config

RECORD = Path("book/results/trust/interruption.json")
SETTINGS = Config.named("smoke").replace(
    name="interrupted",
    models=("ConstGate", "DiagGate"),
    seeds=(1, 2),
    training={"steps": 120, "checkpoint_every": 6, "snapshots": (0, 60)},
)
PIECES = 6  # of every file that an attempt writes
PAUSE = 0.004  # seconds between them
ATTEMPT = 2.0  # seconds after which an attempt is killed at the latest
processes = multiprocessing.get_context("fork")


def attempt(folder: Path, writing: Synchronized[int]) -> None:
    """Run with slow writes; `writing` is 1 while a file is being written."""

    def write_slowly(path: Path, content: bytes) -> int:
        writing.value = 1
        size = -(-len(content) // PIECES) or 1
        with path.open("wb") as part:
            for start in range(0, len(content), size):
                part.write(content[start : start + size])
                part.flush()
                time.sleep(PAUSE)
        writing.value = 0
        return len(content)

    Path.write_bytes = write_slowly  # type: ignore[assignment, method-assign]
    experiment.run(SETTINGS, directory=folder, progress=False)


def read_all(folder: Path, looks: Synchronized[int], faults: Synchronized[int]) -> None:
    """Read every file that a reader can see, over and over; count those that are not whole."""
    readers: dict[str, Callable[[Path], object]] = {
        ".nc": results.load,
        ".checkpoint": running.load_checkpoint,
    }
    while True:
        time.sleep(0.002)
        for path in list(folder.rglob("[!.]*.*")):
            if path.suffix not in readers:
                continue
            try:
                readers[path.suffix](path)
            except FileNotFoundError:
                continue
            except ValueError as error:
                faults.value += 1
                print(error)
            else:
                looks.value += 1


class Trial:
    """A folder in which a run is disturbed, and what came of it."""

    def __init__(self, room: str) -> None:
        """Run once undisturbed."""
        self.folder = Path(room)
        self.counts = Counter[str]()
        self.result = self.folder / f"{SETTINGS.name}.nc"
        self.writing = processes.Value("i", 0)
        experiment.run(SETTINGS, directory=self.folder, progress=False)
        self.undisturbed = self.result.read_bytes()

    def begin(self) -> Any:
        """Begin another attempt, from what the last one left."""
        process = processes.Process(target=attempt, args=(self.folder, self.writing))
        process.start()
        return process

    def judge(self, ended: bool = True) -> None:
        """Compare the result with the undisturbed one, and take it away."""
        same = ended and self.result.read_bytes() == self.undisturbed
        self.counts["other bits"] += not same
        self.counts["files left behind"] += len(list(self.folder.iterdir())) - 1
        self.result.unlink()


def interrupted(trial: Trial, times: int, rng: random.Random) -> dict[str, int]:
    """Kill runs and count what came of it."""
    looks = processes.Value("i", 0)
    faults = processes.Value("i", 0)
    reader = processes.Process(target=read_all, args=(trial.folder, looks, faults), daemon=True)
    reader.start()
    counts = trial.counts
    trial.result.unlink()
    while counts["kills"] < times or not counts["runs finished"]:
        has_enough_kills = counts["kills"] >= times
        in_a_write = rng.random() < 0.5
        patience = 300 if has_enough_kills else rng.uniform(0, ATTEMPT)
        exitcode = _kill_or_finish(trial, patience, in_a_write)
        if exitcode == 0:
            counts["runs finished"] += 1
            trial.judge()
        elif exitcode == -signal.SIGKILL:
            counts["kills"] += 1
        else:
            raise RuntimeError(f"an attempt ended with status {exitcode}")
    reader.kill()
    names = ("kills", "inside a write", "runs finished", "other bits", "files left behind")
    seen = {"files read meanwhile": looks.value, "partial files seen": faults.value}
    return {name: counts[name] for name in names} | seen


def _kill_or_finish(trial: Trial, patience: float, in_a_write: bool) -> int | None:
    """Begin an attempt, kill it after some seconds, or later, in a write; return its exit code."""
    until = time.monotonic() + patience
    process = trial.begin()
    while process.is_alive():
        is_late = time.monotonic() >= until
        if is_late and (trial.writing.value or not in_a_write):
            break
        time.sleep(0.0005)
    trial.counts["inside a write"] += process.is_alive() and bool(trial.writing.value)
    process.kill()
    process.join()
    trial.writing.value = 0
    return process.exitcode


def together(trial: Trial, times: int, rng: random.Random) -> dict[str, int]:
    """Start two processes on the same run, and kill one of them every other time."""
    trial.result.unlink()
    for number in range(times):
        first = trial.begin()
        second = trial.begin()
        if number % 2:
            first.join(rng.uniform(0, ATTEMPT))
            first.kill()
        first.join()
        second.join()
        trial.counts["one killed"] += first.exitcode == -signal.SIGKILL
        trial.judge(second.exitcode == 0)
    names = ("one killed", "other bits", "files left behind")
    return {"pairs": times} | {name: trial.counts[name] for name in names}


def main() -> None:
    """Kill, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", type=int, nargs="?", default=100, help="number of kills")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    arguments = parser.parse_args()
    measured: dict[str, Any] = {"environment": results.environment()}
    n_pairs = -(-arguments.times // 5)
    tasks = {"interruption": (interrupted, arguments.times), "two at once": (together, n_pairs)}
    for name, (task, times) in tasks.items():
        with tempfile.TemporaryDirectory() as room:
            measured[name] = task(Trial(room), times, random.Random(0))
    text = json.dumps(measured, indent=1) + "\n"
    results.write_atomically(arguments.record, lambda part: part.write_text(text, encoding="utf-8"))
    print(f"{text}recorded in {arguments.record}")


if __name__ == "__main__":
    main()
