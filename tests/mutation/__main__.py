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
annotations. Where a module has more than `MOST` mutants, a random sample of them is run, and the
score has a binomial interval. Those killed are kept in ``_build/mutants`` and are not run again as
long as no module of the target changes.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import tomllib
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from scipy import stats

from tests.mutation.forks import WORK, Target, baseline, outcome_of, preload
from tests.mutation.mutants import ROOT, SEED, Mutant, chosen

EXPLAINED = Path(__file__).with_name("explained.toml")
TRUST = ROOT / "book" / "results" / "trust"
MOST = 310

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
        ("lwcore/window.py",),
        ("tests/test_window.py", "tests/test_five_laws.py"),
        ("lwcore.detection", "lwcore.signatures"),
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


def run_target(name: str, todo: list[Mutant], record: Path) -> None:
    """Run the mutants of a target that are not known to be killed, and keep what came of them."""
    target, known = TARGETS[name], read(record)
    os.environ["LWCORE_COMPILED"] = "0"  # steps need no compilation
    preload(target.preload)
    base = baseline(name, target)
    preload(base["modules"])
    gc.freeze()  # so that no fork walks through, and thereby copies, all that was imported
    todo = [mutant for mutant in todo if known.get(mutant.key) != "killed"]
    for done, mutant in enumerate(todo, 1):
        known[mutant.key] = outcome_of(mutant, target, base, WORK / f"{name}.log")
        record.write_text(json.dumps(known))
        print(f"{name} {done}/{len(todo)} {known[mutant.key]}: {mutant}", flush=True)


def read(record: Path) -> dict[str, str]:
    """What is kept: outcome by mutant."""
    return json.loads(record.read_text()) if record.exists() else {}


def record_of(target: Target) -> Path:
    """Where the outcomes of a target's modules, as they are, are kept."""
    digest = hashlib.sha256(b"".join((ROOT / module).read_bytes() for module in target.modules))
    return WORK / f"{digest.hexdigest()[:16]}.json"


def explanation(mutant: Mutant, explained: list[dict]) -> str:
    """Why a mutant may survive; empty where nobody has said so."""
    for entry in explained:
        if (
            entry["module"] == mutant.module
            and entry["line"] == mutant.before
            and mutant.after in entry.get("becomes", [mutant.after])
        ):
            return f"{entry['kind']}: {entry['why']}"
    return ""


def score(name: str, count: Counter, explained: int, total: int) -> dict:
    """The row of a target, from how many of its mutants came to which end, how many survivors are
    explained, and all there are."""
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
    }


def main() -> None:
    """Run one target after the other, and write the scores and the survivors as tables."""
    WORK.mkdir(parents=True, exist_ok=True)
    explained = tomllib.loads(EXPLAINED.read_text())["survivor"]
    scores, survivors = [], []
    for name, target in TARGETS.items():
        (run, total), record = chosen(target.modules, MOST), record_of(target)
        child = os.fork()  # what one target imports another may change
        if child == 0:
            run_target(name, run, record)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{name}: not all mutants could be run")
        outcomes = read(record)
        alive = [mutant for mutant in run if outcomes[mutant.key] == "survived"]
        alive.sort(key=lambda mutant: (mutant.module, mutant.line, mutant.key))
        reasons = [explanation(mutant, explained) for mutant in alive]
        for mutant, why in zip(alive, reasons, strict=True):
            survivors.append({"target": name} | mutant._asdict() | {"why": why})
        count = Counter(outcomes[mutant.key] for mutant in run)
        scores.append(score(name, count, sum(map(bool, reasons)), total))
    from lwcore.results import revision  # here: every fork imports the package for itself

    table = pd.DataFrame(scores).assign(revision=revision())
    table.to_csv(TRUST / "mutation.csv", index=False)
    columns = ["target", "module", "operator", "line", "before", "after", "why"]
    pd.DataFrame(survivors, columns=columns).to_csv(TRUST / "survivors.csv", index=False)


if __name__ == "__main__":
    main()
