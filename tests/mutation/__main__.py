"""Mutation testing: change one operator, number or condition at a time, and see whether the tests
notice. ``make mutants`` runs it.

The mutants are cosmic-ray's, made by its operators. They are run here, because each run of its own
imports PyTorch, SciPy and pytest anew; mutmut, which does fork, leaves constants and decorated
functions alone, and lets caches that the original filled answer for a mutant. Here one process
imports what does not depend on the module, and every mutant is a fork of it that imports the module
as changed and runs the tests that reach the changed statement, the quickest first, until one fails.

A mutant is killed if a test fails or the module cannot be imported. One that runs out of time is
counted apart. The score is the share noticed, killed or out of time, as cosmic-ray itself, mutmut,
Stryker and PIT have it; ``score_without_timeouts`` is the share killed. Text is not mutated (no
operator of cosmic-ray's touches a string, and what stands in an f-string is left out), nor are
annotations. Where a module has more mutants than ``--most``, a random sample of them is run, and
the score has a binomial interval. Results are kept in ``_build/mutants`` and hold as long as the
module does not change; those that survived run again, unless explained. A target whose mutants have
not all been run keeps the rows that it has in the tables.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import time
import tomllib
from collections import Counter
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from scipy import stats

from tests.covered import TABLE, revision
from tests.mutation.forks import Target, baseline, preload, prepare, run_mutant
from tests.mutation.mutants import SEED, WORK, Mutant, chosen, fingerprint

EXPLAINED = Path(__file__).with_name("explained.toml")

STABLE = ("standard", "law", "fits")
NETWORKS = ("torch", "lwcore.signatures", "lwcore.cells")
TARGETS = {
    "stable": Target(
        tuple(f"lwcore/stable/{name}.py" for name in STABLE),
        ("tests/test_stable_law.py", "tests/test_stable_fits.py"),
    ),
    "detection": Target(
        ("lwcore/detection.py",), ("tests/test_bounds.py",), ("lwcore.stable", "lwcore.signatures")
    ),
    "window": Target(
        ("lwcore/window.py",), ("tests/test_window.py",), ("lwcore.detection", "lwcore.signatures")
    ),
    "transport": Target(
        ("lwcore/transport.py",),
        ("tests/test_transport.py", "tests/test_orders.py", "tests/test_gradient.py"),
        NETWORKS,
    ),
    "gradient": Target(
        ("lwcore/gradient.py",),
        ("tests/test_gradient.py", "tests/test_orders.py"),
        (*NETWORKS, "lwcore.transport"),
    ),
}


def run_target(name: str, most: int, patience: float) -> None:
    """Run the mutants of a target that are not known to be killed, and keep what came of them."""
    target, record = TARGETS[name], WORK / f"{name}.jsonl"
    WORK.mkdir(parents=True, exist_ok=True)
    prepare()
    preload(target.preload)
    base = baseline(name, target)
    preload(base["modules"])
    gc.freeze()  # so that no fork walks through, and thereby copies, all that was imported
    todo, total = chosen(target.modules, most)
    known = {(row["key"], row["source"]): row for row in read(record)}
    sources = {module: fingerprint(module) for module in target.modules}
    outcome = {
        mutant: known.get((mutant.key, sources[mutant.module]), {}).get("outcome")
        for mutant in todo
    }
    explained = tomllib.loads(EXPLAINED.read_text())["survivor"]
    todo = [
        m
        for m in todo
        if outcome[m] not in ("killed", "survived")
        or (outcome[m] == "survived" and not explanation(m, explained))
    ]
    print(f"{name}: {len(todo)} mutants to run, of {total} in all", flush=True)
    for done, mutant in enumerate(todo, 1):
        start = time.monotonic()
        outcome = run_mutant(mutant, target, base, patience, WORK / f"{name}.log")
        row = {
            "key": mutant.key,
            "source": sources[mutant.module],
            "outcome": outcome,
            "seconds": round(time.monotonic() - start, 2),
        }
        with record.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if outcome != "killed":
            print(
                f"{name} {done}/{len(todo)} {outcome}: {mutant.module}:{mutant.line} "
                f"{mutant.operator}: {mutant.after}",
                flush=True,
            )


def read(record: Path) -> list[dict]:
    """Read what is kept."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def explanation(mutant: Mutant, explained: list[dict]) -> str:
    """Return why a mutant may survive, or nothing."""
    for entry in explained:
        if (
            entry["module"] == mutant.module
            and entry["line"] == mutant.before
            and mutant.after in entry.get("becomes", [mutant.after])
        ):
            return f"{entry['kind']}: {entry['why']}"
    return ""


def report(most: int) -> None:
    """Write the scores and the survivors as tables."""
    explained = tomllib.loads(EXPLAINED.read_text())["survivor"]
    scores, survivors = [], []
    for name, target in TARGETS.items():
        run, total = chosen(target.modules, most)
        known = {
            (row["key"], row["source"]): row["outcome"] for row in read(WORK / f"{name}.jsonl")
        }
        outcomes = {mutant: known.get((mutant.key, fingerprint(mutant.module))) for mutant in run}
        if None in outcomes.values():
            print(f"{name}: not all mutants have been run")
            scores += recorded("mutation.csv", "module", name)
            survivors += recorded("survivors.csv", "target", name)
            continue
        reasons = {
            mutant: explanation(mutant, explained)
            for mutant in run
            if outcomes[mutant] == "survived"
        }
        for mutant in sorted(reasons, key=lambda mutant: (mutant.module, mutant.line, mutant.key)):
            shown = {k: v for k, v in asdict(mutant).items() if k != "occurrence"}
            survivors.append({"target": name, **shown, "why": reasons[mutant]})
        scores.append(
            score(name, Counter(outcomes.values()), sum(map(bool, reasons.values())), total)
        )
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    for file, rows in (("mutation.csv", scores), ("survivors.csv", survivors)):
        if rows:
            with TABLE.with_name(file).open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    for row in scores:
        print(row)


def recorded(file: str, column: str, name: str) -> list[dict]:
    """Return the rows of a target in a table as it stands."""
    path = TABLE.with_name(file)
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines()) if path.exists() else []
    return [row for row in rows if row[column] == name]


def score(name: str, count: Counter, explained: int, total: int) -> dict:
    """Return the row of a target, from how many of its mutants came to which end, how many
    survivors are explained, and all there are."""
    run, noticed = count.total(), count["killed"] + count["timeout"]
    interval = stats.binomtest(noticed, run).proportion_ci(method="wilson") if run < total else None
    return {
        "module": name,
        "mutants": total,
        "run": run,
        "killed": count["killed"],
        "timed_out": count["timeout"],
        "survived_explained": explained,
        "survived_unexplained": count["survived"] - explained,
        "score": round(noticed / run, 4),
        "score_low": round(float(interval.low), 4) if interval else "",
        "score_high": round(float(interval.high), 4) if interval else "",
        "score_without_timeouts": round(count["killed"] / run, 4),
        "score_without_explained": round(noticed / (run - explained), 4),
        "tool": f"cosmic-ray {version('cosmic-ray')}",
        "seed": SEED,
        "revision": revision(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Mutation testing of the modules that everything rests on."
    )
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all if none is named")
    parser.add_argument(
        "--most",
        type=int,
        default=310,
        help="run at most so many mutants of each (default %(default)s)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=float("inf"),
        help="leave out tests that take longer (seconds): a lower score, sooner",
    )
    parser.add_argument("--report", action="store_true", help="run nothing, write the tables")
    options = parser.parse_args()
    if not options.report:
        for target in options.targets or TARGETS:
            child = os.fork()  # what one target imports another may change
            if child == 0:
                run_target(target, options.most, options.patience)
                os._exit(0)
            os.waitpid(child, 0)
    report(options.most)
