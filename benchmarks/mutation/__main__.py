"""Mutation testing: change one operator, number or condition at a time, and see whether the tests
notice.

``make mutants`` runs it. ``python -m benchmarks.mutation window --most 25 --minutes 10`` tries a
few mutants of one target, and records nothing.

The mutants are cosmic-ray's, made by its operators. They are run here, because each run of its own
imports PyTorch, SciPy and pytest anew, and writes into the checkout; mutmut, which does fork,
leaves constants and decorated functions alone. Here one process imports what no mutant changes, and
every mutant is a fork of it that imports the module as changed and runs the target's tests until
one fails, and those marked slow if none did.

A mutant is killed if a test fails or the module cannot be imported. One that runs out of time is
counted apart. The score is the share noticed, killed or out of time, as cosmic-ray itself, mutmut,
Stryker and PIT have it; ``score_without_timeouts`` is the share killed. Text is not mutated (no
operator of cosmic-ray's touches a string, and what stands in an f-string is left out), nor are
annotations. Where a module has more than `MOST` mutants, a random sample of them is run, and the
score has a binomial interval.
"""

import argparse
import gc
import importlib
import math
import multiprocessing
import os
import sys
import time
import tomllib
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from pathlib import Path

import hypothesis
import pandas as pd
import pytest
from scipy import stats

from benchmarks.mutation.mutants import ROOT, SEED, Mutant, changed, chosen

EXPLAINED = Path(__file__).with_name("explained.toml")
TRUST = ROOT / "book" / "results" / "trust"
MOST = 310

REFUSALS = "tests/test_refusals.py"
SAYS = "test_functions_and_classes_that_say_what_they_take_check"  # of every target, last
STABLE = ("standard", "law", "fits")
TARGETS = {  # modules, none of which imports one of a later target, and what tests them
    "stable": (
        tuple(f"lwcore/stable/{name}.py" for name in STABLE),
        ("tests/test_stable_law.py", "tests/test_stable_fits.py"),
    ),
    "detection": (("lwcore/detection.py",), ("tests/test_bounds.py",)),
    "window": (("lwcore/window.py",), ("tests/test_window.py", "tests/test_five_laws.py")),
    "transport": (
        ("lwcore/transport.py",),
        ("tests/test_transport.py", "tests/test_orders.py", "tests/test_gradient.py"),
    ),
    "gradient": (("lwcore/gradient.py",), ("tests/test_gradient.py", "tests/test_orders.py")),
    "gated": (("lwcore/cells/gated.py",), ("tests/test_cells.py", "tests/test_gradient.py")),
}
LIBRARIES = (
    "bs4 hypothesis.extra.numpy jupyter_cache.cache.main jupytext mpmath nbval.plugin torch xarray"
)
UNCHANGED = (*LIBRARIES.split(), "scipy.optimize")


def run_tests(tests: tuple[str, ...], part: str, mutant: Mutant | None) -> None:
    """In a fork: the tests on a mutant, as the project runs them; ends with pytest's status."""
    plain = SourceFileLoader.get_code
    if mutant:
        path = str(ROOT / mutant.module)
        code = changed(Path(path).read_text(), mutant.operator, mutant.occurrence)

        def get_code(loader: SourceFileLoader, name: str) -> object:
            if loader.path != path:
                return plain(loader, name)
            return compile(code, path, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # nothing need be shrunk
    how = {"derandomize": True, "deadline": None, "database": None, "phases": phases}
    hypothesis.settings.register_profile("mutants", max_examples=12, **how)
    options = ["-x", "-qq", "--tb=no", "-o", "addopts=", "-p", "no:cacheprovider", "-m", part]
    options += ["--hypothesis-profile=mutants", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    sys.exit(pytest.main([*options, *tests]))


def outcome_of(tests: tuple[str, ...], mutant: Mutant | None = None, limit: float = 3600) -> str:
    """What comes of the tests on a mutant: ``"killed"``, ``"survived"`` or ``"timeout"``."""
    failed, not_imported = pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED
    ends = {failed: "killed", not_imported: "killed", None: "timeout"}
    for part in ("not slow", "slow"):
        arguments = (tests, part, mutant)
        fork = multiprocessing.get_context("fork").Process(target=run_tests, args=arguments)
        fork.start()
        fork.join(limit)
        status = fork.exitcode
        fork.kill()
        fork.join()
        if status in ends:
            return ends[status]
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            sys.exit(f"{mutant}: pytest ended with {status}")
    return "survived"


def outcomes_of(
    modules: tuple[str, ...], tests: tuple[str, ...], run: list[Mutant], until: float
) -> list[str]:
    """The outcomes of a target's mutants, one by one, none of which takes far longer than without
    a mutant; those that begin in time. After that its modules may be imported, as no later target
    changes them."""
    gc.freeze()  # no fork need walk through what was imported
    begin, found = time.monotonic(), []
    if outcome_of(tests) != "survived":
        sys.exit(f"{tests} fail without a mutant")
    limit = 60 + 2 * (time.monotonic() - begin)
    for done, mutant in enumerate(run, 1):
        if time.monotonic() > until:
            break
        found.append(outcome_of(tests, mutant, limit))
        print(f"{done}/{len(run)} {found[-1]}: {mutant}", flush=True)
    for module in modules:
        importlib.import_module(module.removesuffix(".py").replace("/", "."))
    return found


def explanation(mutant: Mutant, explained: list[dict]) -> str:
    """Why a mutant may survive; empty where nobody has said so."""
    for entry in explained:
        if (
            entry["module"] == mutant.module
            and mutant.function in entry["function"]
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
    """Run one target after the other; write the scores and the survivors of all as tables."""
    options = argparse.ArgumentParser(description="Change the code, and see what the tests notice.")
    options.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}")
    options.add_argument("--most", type=int, default=MOST, help="mutants of a target")
    options.add_argument("--minutes", type=float, default=math.inf, help="for each target")
    given = options.parse_args()
    os.environ["LWCORE_COMPILED"] = "0"  # steps need no compilation
    for name in UNCHANGED:
        importlib.import_module(name)
    explained = tomllib.loads(EXPLAINED.read_text())["survivor"]
    scores, survivors = [], []
    for name in given.targets or TARGETS:
        modules, tests = TARGETS[name]
        run, total = chosen(modules, given.most)
        tests = (*tests, REFUSALS, f"tests/test_signatures.py::{SAYS}")
        outcomes = outcomes_of(modules, tests, run, time.monotonic() + 60 * given.minutes)
        count, reasons = Counter(outcomes), 0
        for mutant in sorted(m for m, end in zip(run, outcomes, strict=False) if end == "survived"):
            why = explanation(mutant, explained)
            survivors.append({"target": name} | mutant._asdict() | {"why": why})
            reasons += bool(why)
        scores.append(score(name, count, reasons, total))
    table = pd.DataFrame(scores)
    columns = ["target", "module", "function", "operator", "line", "before", "after", "why"]
    lines = pd.DataFrame(survivors, columns=columns)
    if given.targets:
        print(table.to_string(index=False), lines.to_string(index=False), sep="\n\n")
        return
    from lwcore.results import revision  # here: every fork imports the package for itself

    table.assign(revision=revision()).to_csv(TRUST / "mutation.csv", index=False)
    lines.to_csv(TRUST / "survivors.csv", index=False)


if __name__ == "__main__":
    main()
