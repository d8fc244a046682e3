"""A run interrupted a hundred times, and a reader beside it: does it end with the same bits, and was a part of a file ever to be seen?

Run with ``make interruptions``; some ten minutes. Every attempt is ``lw run`` in a process of its own, ended by SIGKILL at a random
moment, by SIGKILL while it writes a file, or by a disk that is full at a random moment; the next attempt goes on from what it left. So
that kills do fall into writes, every file is written in pieces with pauses between them. A run that came to its end is compared with an
undisturbed one, and begun again in an empty folder, until there were enough interruptions. Attempts are forked from this process, behind
its undisturbed run, so that they are ended at work and not while PyTorch is read. Then single bits of a result and of a checkpoint are
turned over, one at a time, to see whether that is found; and pairs of processes are started on one run.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import io
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from lwcore import checkpoints, cli, experiment, results, unfinished
from lwcore.config import Config

RECORD = Path("book/results/trust/interruption.json")
SETTINGS = Config.named("smoke").but(
    name="interrupted", models=("ConstGate", "DiagGate"), seeds=(1, 2), training={"steps": 120, "checkpoint_every": 6, "snapshots": (0, 60)}
)
PIECES, PAUSE = 6, 0.004  # of every file that an attempt writes; seconds
ATTEMPT = 2.0  # seconds after which an attempt is killed at the latest
DISK = 1_500_000  # bytes that an attempt on a small disk may write at most
PATIENCE = 300.0  # seconds until an attempt that should end by itself is given up
RESULT = f"{SETTINGS.name}.nc"
processes = multiprocessing.get_context("fork")


def attempt(file: str, folder: str, writing: Synchronized[int], room: int, begun: Synchronized[int] | None = None) -> None:
    """Run ``lw run`` with slow writes, on a disk with some room; `writing` is 1 while a file is being written, `begun` counts trainings."""
    left = room

    def write_slowly(path: Path, content: bytes) -> int:
        nonlocal left
        size = -(-len(content) // PIECES) or 1
        with path.open("wb") as part:
            for start in range(0, len(content), size):
                left -= size
                if left < 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                part.write(content[start : start + size])
                part.flush()
                time.sleep(PAUSE)
        return len(content)

    original = results.write_atomically

    def watched(*arguments: object, **options: object) -> None:
        writing.value = 1
        try:
            original(*arguments, **options)  # type: ignore[arg-type]
        finally:
            writing.value = 0

    train = experiment._train

    def counted(*arguments: Any, **options: Any) -> Any:
        if begun is not None:
            with begun.get_lock():
                begun.value += 1
        return train(*arguments, **options)

    experiment._train = counted
    Path.write_bytes = write_slowly  # type: ignore[assignment, method-assign]
    results.write_atomically = watched
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.app(["run", file, "--directory", folder], standalone_mode=True)
        except SystemExit as end:
            if end.code == 2 and ("No space left on device: '" not in said.getvalue() or "goes on from here" not in said.getvalue()):
                raise RuntimeError(said.getvalue()) from None
            raise


def read_all(folder: str, stop: Synchronized[int], looks: Synchronized[int], faults: Synchronized[int]) -> None:
    """Read every file that a reader can see, over and over; count the files read and those that were not whole."""
    while not stop.value:
        time.sleep(0.002)
        for path in [Path(place, name) for place, _, names in os.walk(folder) for name in names if not name.startswith(".")]:
            try:
                if path.suffix == ".nc":
                    results.load(path, verified=True)
                elif path.suffix == ".checkpoint":
                    checkpoints.read(path)
                elif path.name == unfinished.MARKER:
                    Config.model_validate_json(path.read_bytes())
                else:
                    continue
                looks.value += 1
            except FileNotFoundError:
                continue
            except ValueError as error:
                if path.suffix == ".checkpoint" and isinstance(error.__cause__, FileNotFoundError):
                    continue
                faults.value += 1
                print(error)


def toml(config: Config) -> str:
    """Write a configuration as a file that ``lw run`` reads: JSON's numbers, texts and lists are TOML's."""
    whole = config.model_dump(mode="json", exclude_none=True)
    sections = {"": {key: value for key, value in whole.items() if not isinstance(value, dict)}}
    sections |= {f"[{key}]": value for key, value in whole.items() if isinstance(value, dict)}
    return "\n".join("\n".join([head, *(f"{key} = {json.dumps(value)}" for key, value in body.items())]) for head, body in sections.items())


def interrupted(times: int, seed: int = 0) -> dict[str, float]:
    """Interrupt runs and compare what they end with.

    Args:
        times: Number of interruptions.
        seed: Seed of their moments.

    Returns:
        Counts: interruptions and their kinds; runs that came to their end, those that ended with other bits, files that they left beside
        the result; files read meanwhile, those not whole; and the seconds it took.

    Raises:
        RuntimeError: If an attempt ends in a way of its own.
    """
    rng, begun, counts = random.Random(seed), time.perf_counter(), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        file, folder = Path(room, "interrupted.toml"), Path(room, "folder")
        file.write_text(toml(SETTINGS), encoding="utf-8")
        experiment.run(SETTINGS, directory=folder, progress=False)
        wanted = (folder / RESULT).read_bytes()
        writing, stop, looks, faults = (processes.Value("i", 0) for _ in range(4))
        reader = processes.Process(target=read_all, args=(str(folder), stop, looks, faults))
        reader.start()
        (folder / RESULT).unlink()
        while counts["interruptions"] < times or counts["runs finished"] == 0:
            kind = rng.choice(("any moment", "inside a write", "full disk")) if counts["interruptions"] < times else "none"
            free = rng.randrange(DISK) if kind == "full disk" else 10**12
            process = processes.Process(target=attempt, args=(str(file), str(folder), writing, free))
            process.start()
            until = time.monotonic() + (rng.uniform(0, ATTEMPT) if kind in ("any moment", "inside a write") else PATIENCE)
            while process.is_alive() and (time.monotonic() < until or (kind == "inside a write" and not writing.value)):
                time.sleep(0.0005)
            counts["inside a write"] += process.is_alive() and bool(writing.value)
            process.kill()
            process.join()
            writing.value = 0
            if process.exitcode == 0:
                counts["runs finished"] += 1
                counts["mismatches"] += (folder / RESULT).read_bytes() != wanted
                counts["files left behind"] += len(list(folder.iterdir())) - 1
                (folder / RESULT).unlink()
            elif process.exitcode in (-signal.SIGKILL, 2):
                counts["interruptions"] += 1
                counts["full disk" if process.exitcode == 2 else "killed"] += 1
            else:
                raise RuntimeError(f"an attempt ended with status {process.exitcode}")
        stop.value = 1
        reader.join()
    kinds = ("interruptions", "killed", "inside a write", "full disk", "runs finished", "mismatches", "files left behind")
    seen = {"files read meanwhile": looks.value, "partial files seen": faults.value}
    return {kind: counts[kind] for kind in kinds} | seen | {"seconds": round(time.perf_counter() - begun, 1)}


def together(times: int, seed: int = 0) -> dict[str, float]:
    """Start two processes on the same run, and kill one of them at a random moment every other time.

    Args:
        times: How often.
        seed: Seed of the moments.

    Returns:
        Counts: pairs and how many of them lost one; results with other bits, and files left; members, and trainings begun for them.
    """
    rng, counts, begun = random.Random(seed), Counter[str](), processes.Value("i", 0)
    with tempfile.TemporaryDirectory() as room:
        file, folder = Path(room, "interrupted.toml"), Path(room, "folder")
        file.write_text(toml(SETTINGS), encoding="utf-8")
        experiment.run(SETTINGS, directory=folder, progress=False)
        wanted = (folder / RESULT).read_bytes()
        for number in range(times):
            (folder / RESULT).unlink()
            pair = [processes.Process(target=attempt, args=(str(file), str(folder), processes.Value("i", 0), 10**12, begun)) for _ in "12"]
            for process in pair:
                process.start()
            if number % 2:
                pair[0].join(rng.uniform(0, ATTEMPT))
                pair[0].kill()
            for process in pair:
                process.join(PATIENCE)
            counts["one killed"] += pair[0].exitcode == -signal.SIGKILL
            counts["mismatches"] += pair[1].exitcode != 0 or (folder / RESULT).read_bytes() != wanted
            counts["files left behind"] += len(list(folder.iterdir())) - 1
    kinds = ("one killed", "mismatches", "files left behind")
    return (
        {"pairs": times}
        | {kind: counts[kind] for kind in kinds}
        | {"members": times * len(SETTINGS.members), "trainings begun": begun.value}
    )


def turned_over(times: int, seed: int = 0) -> dict[str, dict[str, int]]:
    """Turn over single bits of a result and of a checkpoint, in random places.

    Args:
        times: How many bits of each.
        seed: Seed of the places.

    Returns:
        For both, how many were turned over, and how many of them were not found.
    """
    rng, missed = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        folder, name = Path(room), f"{SETTINGS.models[0]}-{SETTINGS.seeds[0]}"
        result, checkpoint = folder / f"{name}.nc", folder / f"{name}.checkpoint"
        with contextlib.suppress(KeyboardInterrupt):
            experiment.run_member(SETTINGS, SETTINGS.models[0], SETTINGS.seeds[0], folder, _stop_behind(60))
        state = checkpoint.read_bytes()
        experiment.run_member(SETTINGS, SETTINGS.models[0], SETTINGS.seeds[0], folder)
        ways: dict[Path, tuple[bytes, Callable[[Path], object]]] = {
            result: (result.read_bytes(), functools.partial(results.load, verified=True)),
            checkpoint: (state, checkpoints.read),
        }
        for path, (whole, read) in ways.items():
            damaged = bytearray(whole)
            for _ in range(times):
                place, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
                damaged[place] ^= bit
                path.write_bytes(damaged)
                with contextlib.suppress(ValueError):
                    read(path)
                    missed[path.suffix] += 1
                damaged[place] ^= bit
    return {
        kind: {"bits turned over": times, "missed": missed[suffix]} for kind, suffix in (("result", ".nc"), ("checkpoint", ".checkpoint"))
    }


def _stop_behind(steps: int) -> Callable[[int], None]:
    """Interrupt a training behind a step."""
    left = steps

    def advance(count: int) -> None:
        nonlocal left
        left -= count
        if left <= 0:
            raise KeyboardInterrupt

    return advance


def main() -> None:
    """Interrupt, turn bits over, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", type=int, nargs="?", default=100, help="number of interruptions")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    times, record = vars(parser.parse_args()).values()
    revision = results.revision()
    results.revision = lambda: revision  # it stands in every result, and would change with a file edited meanwhile
    found = {
        "environment": results.environment(),
        "interruption": interrupted(times),
        "two at once": together(times // 5),
        "damage": turned_over(10 * times),
    }
    text = json.dumps(found, indent=1) + "\n"
    results.write_atomically(record, lambda part: part.write_text(text, encoding="utf-8"))
    print(f"{text}recorded in {record}")


if __name__ == "__main__":
    main()
