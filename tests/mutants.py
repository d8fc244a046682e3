"""Mutation testing: change one operator, number or condition at a time, and see whether the tests notice. ``make mutants`` runs it.

The mutants are cosmic-ray's, made by its operators. They are run here, because each run of its own imports PyTorch, SciPy and pytest anew;
mutmut, which does fork, leaves constants and decorated functions alone, and lets caches that the original filled answer for a mutant. Here
one process imports what does not depend on the module, and every mutant is a fork of it that imports the module as changed and runs the
tests that reach the changed statement, the quickest first, until one fails.

A mutant is killed if a test fails or the module cannot be imported. One that runs out of time is counted apart, and not as killed. Text is
not mutated (no operator of cosmic-ray's touches a string, and what stands in an f-string is left out), nor are annotations. Where a module
has more mutants than ``--most``, a random sample of them is run, and the score has a binomial interval. Results are kept in
``_build/mutants`` and hold as long as the module does not change; those that survived run again, unless explained.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import csv
import gc
import hashlib
import importlib
import json
import math
import os
import random
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from pathlib import Path

import coverage
import hypothesis
import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from scipy import stats

from tests.covered import revision

ROOT = Path(__file__).parent.parent
WORK = ROOT / "_build" / "mutants"
RESULTS = ROOT / "book" / "results" / "trust"
EXPLAINED = Path(__file__).with_name("mutants_explained.toml")
SEED = 1

# One or two changes for each operator: those that stay within its type. A shift in the place of a sum of floats would only raise an error.
BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul LShift_RShift BitAnd_BitOr BitOr_BitAnd"
COMPARISON = "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
UNARY = "USub_UAdd Delete_Invert Delete_Not"
OPERATORS = [
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in BINARY.split()),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in COMPARISON.split()),
    *(f"core/ReplaceUnaryOperator_{pair}" for pair in UNARY.split()),
    *(f"core/{name}" for name in ("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd")),
    *(f"core/{name}" for name in ("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer")),
    *(f"core/{name}" for name in ("RemoveDecorator", "ZeroIterationForLoop")),
]


@dataclass(frozen=True)
class Target:
    """Modules whose mutants are counted together, and what tests them."""

    modules: tuple[str, ...]  # paths
    tests: tuple[str, ...]
    preload: tuple[str, ...] = ("lwcore.arguments",)  # what they import and what does not import them


STABLE = ("standard", "law", "estimates", "mcculloch", "ecf", "hill", "likelihood", "fits", "goodness")
BOUNDS = ("shift_family", "divergence", "information", "detection", "complexity")
NETWORKS = ("torch", "lwcore.arguments", "lwcore.cells")
TARGETS = {
    "stable": Target(tuple(f"lwcore/stable/{name}.py" for name in STABLE), ("tests/test_stable_law.py", "tests/test_stable_fits.py")),
    "bounds": Target(
        tuple(f"lwcore/bounds/{name}.py" for name in BOUNDS), ("tests/test_bounds.py",), ("lwcore.stable", "lwcore.arguments")
    ),
    "window": Target(("lwcore/window.py", "lwcore/decay.py"), ("tests/test_window.py",), ("lwcore.bounds", "lwcore.arguments")),
    "transport": Target(("lwcore/transport.py",), ("tests/test_transport.py", "tests/test_orders.py", "tests/test_bptt.py"), NETWORKS),
    "bptt": Target(("lwcore/bptt.py",), ("tests/test_bptt.py", "tests/test_orders.py"), (*NETWORKS, "lwcore.transport")),
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    operator: str
    occurrence: int
    line: int
    before: str  # the line as it is
    after: str  # the line as changed

    @property
    def key(self) -> str:
        """Name of the mutant."""
        return f"{self.module}:{self.operator}:{self.occurrence}"


def mutants(module: str) -> list[Mutant]:
    """List the mutants of a module that differ from it in more than an annotation."""
    kept = WORK / f"{fingerprint(module)}.json"
    if kept.exists():
        return [Mutant(**fields) for fields in json.loads(kept.read_text())]
    source = (ROOT / module).read_text()
    original, lines = evaluated(source), source.splitlines()
    found = []
    for operator in OPERATORS:
        occurrence = 0
        while (changed := mutate_code(source, get_operator(operator)(), occurrence)) is not None:
            after = changed.splitlines()
            # a removed decorator takes its line with it
            line = next((i for i, (a, b) in enumerate(zip(lines, after, strict=False)) if a != b), None)
            if line is not None and evaluated(changed) != original:
                found.append(Mutant(module, operator.removeprefix("core/"), occurrence, line + 1, lines[line].strip(), after[line].strip()))
            occurrence += 1
    WORK.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([asdict(mutant) for mutant in found]))
    return found


def evaluated(source: str) -> str:
    """Return the syntax tree without annotations and without formatted text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = []
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
    return ast.dump(tree)


def chosen(target: Target, most: int) -> tuple[list[Mutant], int]:
    """Draw the mutants to run, in random order; also return how many there are."""
    everything = [mutant for module in target.modules for mutant in mutants(module)]
    random.Random(SEED).shuffle(everything)
    return everything[:most], len(everything)


# Running ---------------------------------------------------------------------------------------------------------------------


def preload(names: Iterable[str]) -> None:
    """Import what the tests need and the mutants cannot change."""
    for name in names:
        with contextlib.suppress(Exception):  # not every name among the loaded modules is importable
            importlib.import_module(name)


def prepare() -> None:
    """Set what all runs share."""
    sys.dont_write_bytecode = False
    os.environ["LWCORE_COMPILED"] = "0"  # the plain loops need no compilation
    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        deadline=None,
        max_examples=25,
        database=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # a failure need not be shrunk
    )


def run_in_fork(work, limit: float, log: Path) -> int | None:
    """Run a function in a fork, its output in a file; return its exit status, negative if by a signal, or None if it ran out of time."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            status = int(work())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def pytest_run(tests: tuple[str, ...], plugin: object, *options: str) -> int:
    """Run pytest as the project does, less what a fork has no use for."""
    arguments = (
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-profile=mutants",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-q",
        *options,
        *tests,
    )
    return pytest.main([str(argument) for argument in arguments], plugins=[plugin])


class Watch:
    """A plugin that notes how long each test takes, and which lines it runs."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules = [str(ROOT / module) for module in modules]
        self.coverage = coverage.Coverage(data_file=None, include=self.modules, config_file=False)
        self.seconds: dict[str, float] = {}
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        for name in [name for name in sys.modules if name.startswith("lwcore.")]:
            for function in vars(sys.modules[name]).values():
                if hasattr(function, "cache_clear"):
                    function.cache_clear()  # or what one test has computed would hide that the next needs it, too
        start = time.monotonic()
        result = yield
        self.seconds[item.nodeid] = time.monotonic() - start
        return result

    def result(self) -> dict:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {str(Path(path).relative_to(ROOT)): data.contexts_by_lineno(path) for path in self.modules}
        outside = [name for name in sys.modules if name.split(".")[0] not in ("lwcore", "tests", "conftest", "__main__")]
        return {"seconds": self.seconds, "lines": lines, "modules": outside}


class Order:
    """A plugin that runs the tests it is given, in that order, until one fails or takes far longer than without the mutant."""

    def __init__(self, tests: list[str], seconds: dict[str, float]) -> None:
        self.rank = {test: rank for rank, test in enumerate(tests)}
        self.seconds = seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.alarm(15 + math.ceil(10 * self.seconds[nodeid]))  # nothing handles this signal: it ends the process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"killed by {report.nodeid}", flush=True)
            os._exit(1)  # nothing is left to tidy up: the fork goes with its memory


def baseline(name: str, target: Target) -> dict:
    """Run the tests on the modules as they are; return what `Watch` found."""
    record = WORK / f"{name}-baseline-{fingerprint(*target.modules, *target.tests)}.json"
    if record.exists():
        return json.loads(record.read_text())

    def work() -> int:
        watch = Watch(target.modules)
        status = pytest_run(target.tests, watch)
        record.write_text(json.dumps(watch.result()))
        return status

    log = WORK / f"{name}-baseline.log"
    if status := run_in_fork(work, 3600, log):
        sys.exit(f"{name}: without a mutant the tests end with {status}; see {log}")
    return json.loads(record.read_text())


def order_of_tests(mutant: Mutant, base: dict, patience: float) -> list[str]:
    """Name the tests that run the mutant's statement, the quickest first; of what runs at import, those that run anything of its module."""
    lines = base["lines"][mutant.module]
    statements = [node for node in ast.walk(ast.parse((ROOT / mutant.module).read_text())) if isinstance(node, ast.stmt)]
    around = [node for node in statements if node.lineno <= mutant.line <= node.end_lineno]
    smallest = min(around, key=lambda node: node.end_lineno - node.lineno, default=None)
    span = range(smallest.lineno, smallest.end_lineno + 1) if smallest else [mutant.line]
    direct = {test for line in span for test in lines.get(str(line), [])} - {""}
    at_import = any("" in lines.get(str(line), []) for line in span)
    if at_import and not isinstance(smallest, ast.FunctionDef):
        direct = {test for tests in lines.values() for test in tests} - {""}
    return sorted((test for test in direct if base["seconds"][test] <= patience), key=lambda test: base["seconds"][test])


def run_mutant(mutant: Mutant, target: Target, base: dict, patience: float, log: Path) -> str:
    """Run the tests on a mutant: ``"killed"``, ``"survived"`` or ``"timeout"``."""
    path = str(ROOT / mutant.module)
    changed = mutate_code(Path(path).read_text(), get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    tests = order_of_tests(mutant, base, patience)
    if not tests:
        return "survived"

    def work() -> int:
        plain = SourceFileLoader.get_code

        def get_code(self, fullname):
            return compile(changed, path, "exec", dont_inherit=True) if self.path == path else plain(self, fullname)

        SourceFileLoader.get_code = get_code
        return pytest_run(target.tests, Order(tests, base["seconds"]), "--tb=no")

    status = run_in_fork(work, 3600, log)
    if status in (None, -signal.SIGALRM):
        return "timeout"
    if status in (3, 4, 5, 70):
        sys.exit(f"{mutant.key}: pytest ended with {status}; see {log}")
    return "survived" if status == 0 else "killed"


def run_target(name: str, most: int, patience: float) -> None:
    """Run the mutants of a target that are not known to be killed, and keep what came of them."""
    target, record = TARGETS[name], WORK / f"{name}.jsonl"
    WORK.mkdir(parents=True, exist_ok=True)
    prepare()
    preload(target.preload)
    base = baseline(name, target)
    preload(base["modules"])
    gc.freeze()  # so that no fork walks through, and thereby copies, all that was imported
    todo, total = chosen(target, most)
    known = {(row["key"], row["source"]): row for row in read(record)}
    sources = {module: fingerprint(module) for module in target.modules}
    outcome = {mutant: known.get((mutant.key, sources[mutant.module]), {}).get("outcome") for mutant in todo}
    explained = tomllib.loads(EXPLAINED.read_text())["survivor"]
    todo = [m for m in todo if outcome[m] not in ("killed", "survived") or (outcome[m] == "survived" and not explanation(m, explained))]
    print(f"{name}: {len(todo)} mutants to run, of {total} in all", flush=True)
    for done, mutant in enumerate(todo, 1):
        start = time.monotonic()
        outcome = run_mutant(mutant, target, base, patience, WORK / f"{name}.log")
        row = {"key": mutant.key, "source": sources[mutant.module], "outcome": outcome, "seconds": round(time.monotonic() - start, 2)}
        with record.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if outcome != "killed":
            print(f"{name} {done}/{len(todo)} {outcome}: {mutant.module}:{mutant.line} {mutant.operator}: {mutant.after}", flush=True)


def fingerprint(*files: str) -> str:
    """Return a hash of files of the repository."""
    return hashlib.sha256(b"".join((ROOT / file).read_bytes() for file in files)).hexdigest()[:16]


def read(record: Path) -> list[dict]:
    """Read what is kept."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


# Results ---------------------------------------------------------------------------------------------------------------------


def explanation(mutant: Mutant, explained: list[dict]) -> str:
    """Return why a mutant may survive, or nothing."""
    for entry in explained:
        if entry["module"] == mutant.module and entry["line"] == mutant.before and mutant.after in entry.get("becomes", [mutant.after]):
            return f"{entry['kind']}: {entry['why']}"
    return ""


def report(most: int) -> None:
    """Write the scores and the survivors as tables."""
    explained = tomllib.loads(EXPLAINED.read_text())["survivor"]
    scores, survivors = [], []
    for name, target in TARGETS.items():
        run, total = chosen(target, most)
        known = {(row["key"], row["source"]): row["outcome"] for row in read(WORK / f"{name}.jsonl")}
        outcomes = {mutant: known.get((mutant.key, fingerprint(mutant.module))) for mutant in run}
        if None in outcomes.values():
            print(f"{name}: not all mutants have been run")
            continue
        count = Counter(outcomes.values())
        alive = [mutant for mutant, outcome in outcomes.items() if outcome == "survived"]
        reasons = {mutant: explanation(mutant, explained) for mutant in alive}
        for mutant in sorted(alive, key=lambda mutant: (mutant.module, mutant.line, mutant.key)):
            shown = {k: v for k, v in asdict(mutant).items() if k != "occurrence"}
            survivors.append({"target": name, **shown, "why": reasons[mutant]})
        interval = stats.binomtest(count["killed"], len(run)).proportion_ci(method="wilson") if len(run) < total else None
        known_equivalent = sum(bool(reason) for reason in reasons.values())
        scores.append(
            {
                "module": name,
                "mutants": total,
                "run": len(run),
                "killed": count["killed"],
                "timed_out": count["timeout"],
                "survived_explained": known_equivalent,
                "survived_unexplained": len(alive) - known_equivalent,
                "score": round(count["killed"] / len(run), 4),
                "score_low": round(interval.low, 4) if interval else "",
                "score_high": round(interval.high, 4) if interval else "",
                "score_without_explained": round(count["killed"] / (len(run) - known_equivalent), 4),
                "tool": f"cosmic-ray {version('cosmic-ray')}",
                "seed": SEED,
                "revision": revision(),
            }
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    for file, rows in (("mutation.csv", scores), ("survivors.csv", survivors)):
        if rows:
            with (RESULTS / file).open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    for row in scores:
        print(row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Mutation testing of the modules that everything rests on.")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all if none is named")
    parser.add_argument("--most", type=int, default=500, help="run at most so many mutants of each (default %(default)s)")
    parser.add_argument(
        "--patience", type=float, default=float("inf"), help="leave out tests that take longer (seconds): a lower score, sooner"
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
