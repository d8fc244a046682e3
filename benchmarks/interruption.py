"""A run killed again and again, and a reader beside it: the same bits, and was a part of a file
ever to be seen?

Run with ``make interruptions``. Every attempt is a run in a process of its own, killed at a random
moment or while it writes a file; the next attempt goes on from what it left. So that kills do fall
into writes, files are written in pieces with pauses between them. A run that came to its end is
compared with an undisturbed one, and begun again. Then pairs of processes are started on one run,
and one of each second pair is killed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from lwcore import experiment, results
from lwcore.config import Config

RECORD = Path("book/results/trust/interruption.json")
SETTINGS = Config.named("smoke").but(
    name="interrupted",
    models=("ConstGate", "DiagGate"),
    seeds=(1, 2),
    training={"steps": 120, "checkpoint_every": 6, "snapshots": (0, 60)},
)
PIECES, PAUSE = 6, 0.004  # of every file that an attempt writes; seconds
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
    """Read every file that a reader can see, over and over; count those that were not whole,
    too."""
    readers = {".nc": results.load, ".checkpoint": experiment.load_checkpoint}
    while True:
        time.sleep(0.002)
        for place, _, names in os.walk(folder):
            for path in [Path(place, name) for name in names if not name.startswith(".")]:
                try:
                    readers[path.suffix](path)
                    looks.value += 1
                except FileNotFoundError:
                    continue
                except ValueError as error:
                    faults.value += 1
                    print(error)


def interrupted(times: int, seed: int = 0) -> dict[str, int]:
    """Kill runs and count what came of it."""
    rng, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        experiment.run(SETTINGS, directory=folder, progress=False)
        result = folder / f"{SETTINGS.name}.nc"
        wanted = result.read_bytes()
        writing, looks, faults = (processes.Value("i", 0) for _ in range(3))
        reader = processes.Process(target=read_all, args=(folder, looks, faults), daemon=True)
        reader.start()
        result.unlink()
        while counts["kills"] < times or not counts["runs finished"]:
            inside = rng.random() < 0.5  # a write
            until = time.monotonic() + (rng.uniform(0, ATTEMPT) if counts["kills"] < times else 300)
            process = processes.Process(target=attempt, args=(folder, writing))
            process.start()
            while process.is_alive() and (
                time.monotonic() < until or (inside and not writing.value)
            ):
                time.sleep(0.0005)
            counts["inside a write"] += process.is_alive() and bool(writing.value)
            process.kill()
            process.join()
            writing.value = 0
            counts["kills"] += process.exitcode == -signal.SIGKILL
            if process.exitcode == 0:
                counts["runs finished"] += 1
                counts["other bits"] += result.read_bytes() != wanted
                counts["files left behind"] += len(list(folder.iterdir())) - 1
                result.unlink()
            elif process.exitcode != -signal.SIGKILL:
                raise RuntimeError(f"an attempt ended with status {process.exitcode}")
        reader.kill()
    kinds = ("kills", "inside a write", "runs finished", "other bits", "files left behind")
    seen = {"files read meanwhile": looks.value, "partial files seen": faults.value}
    return {kind: counts[kind] for kind in kinds} | seen


def together(times: int, seed: int = 0) -> dict[str, int]:
    """Start two processes on the same run, and kill one of them every other time."""
    rng, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        result = folder / f"{SETTINGS.name}.nc"
        experiment.run(SETTINGS, directory=folder, progress=False)
        wanted = result.read_bytes()
        for number in range(times):
            result.unlink()
            pair = [
                processes.Process(target=attempt, args=(folder, processes.Value("i", 0)))
                for _ in range(2)
            ]
            for process in pair:
                process.start()
            if number % 2:
                pair[0].join(rng.uniform(0, ATTEMPT))
                pair[0].kill()
            for process in pair:
                process.join()
            counts["one killed"] += pair[0].exitcode == -signal.SIGKILL
            counts["other bits"] += pair[1].exitcode != 0 or result.read_bytes() != wanted
            counts["files left behind"] += len(list(folder.iterdir())) - 1
    kinds = ("one killed", "other bits", "files left behind")
    return {"pairs": times} | {kind: counts[kind] for kind in kinds}


def main() -> None:
    """Kill, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", type=int, nargs="?", default=100, help="number of kills")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    times, record = vars(parser.parse_args()).values()
    revision = results.revision()
    results.revision = lambda: revision  # it would change with a file edited meanwhile
    found = {
        "environment": results.environment(),
        "interruption": interrupted(times),
        "two at once": together(-(-times // 5)),
    }
    text = json.dumps(found, indent=1) + "\n"
    results.write_atomically(record, lambda part: part.write_text(text, encoding="utf-8"))
    print(f"{text}recorded in {record}")


if __name__ == "__main__":
    main()
