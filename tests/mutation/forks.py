"""Running the tests on a mutant: a fork of a process that has imported all that the mutant cannot
change."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

import coverage
import hypothesis
import pytest

from tests.mutation.mutants import ROOT, WORK, Mutant, changed, fingerprint


@dataclass(frozen=True)
class Target:
    """Modules whose mutants are counted together, and what tests them."""

    modules: tuple[str, ...]  # paths
    tests: tuple[str, ...]
    # what they import and what does not import them
    preload: tuple[str, ...] = ("lwcore.signatures",)


def preload(names: Iterable[str]) -> None:
    """Import what the tests need and the mutants cannot change."""
    for name in names:
        # not every name among the loaded modules is importable
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def prepare() -> None:
    """Set what all runs share."""
    sys.dont_write_bytecode = False
    os.environ["LWCORE_COMPILED"] = "0"  # steps need no compilation
    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        deadline=None,
        max_examples=25,
        database=None,
        # a failure need not be shrunk
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )


def run_in_fork(work: Callable[[], int], limit: float, log: Path) -> int | None:
    """Run a function in a fork, its output in a file; return its exit status, negative if by a
    signal, or None if it ran out of time."""
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
                    # or what one test has computed would hide that the next needs it, too
                    function.cache_clear()
        start = time.monotonic()
        result = yield
        self.seconds[item.nodeid] = time.monotonic() - start
        return result

    def result(self) -> dict:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            str(Path(path).relative_to(ROOT)): data.contexts_by_lineno(path)
            for path in self.modules
        }
        outside = [
            name
            for name in sys.modules
            if name.split(".")[0] not in ("lwcore", "tests", "conftest", "__main__")
        ]
        return {"seconds": self.seconds, "lines": lines, "modules": outside}


class Order:
    """A plugin that runs the tests it is given, in that order, until one fails or takes far longer
    than without the mutant."""

    def __init__(self, tests: list[str], seconds: dict[str, float]) -> None:
        self.rank = {test: rank for rank, test in enumerate(tests)}
        self.seconds = seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.rank),
            key=lambda item: self.rank[item.nodeid],
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # nothing handles this signal: it ends the process
        signal.alarm(15 + math.ceil(10 * self.seconds[nodeid]))

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
    """Name the tests that run the mutant's statement, the quickest first; of what runs at import,
    those that run anything of its module."""
    lines = base["lines"][mutant.module]
    statements = [
        node
        for node in ast.walk(ast.parse((ROOT / mutant.module).read_text()))
        if isinstance(node, ast.stmt)
    ]
    around = [node for node in statements if node.lineno <= mutant.line <= node.end_lineno]
    smallest = min(around, key=lambda node: node.end_lineno - node.lineno, default=None)
    span = range(smallest.lineno, smallest.end_lineno + 1) if smallest else [mutant.line]
    direct = {test for line in span for test in lines.get(str(line), [])} - {""}
    at_import = any("" in lines.get(str(line), []) for line in span)
    if at_import and not isinstance(smallest, ast.FunctionDef):
        direct = {test for tests in lines.values() for test in tests} - {""}
    return sorted(
        (test for test in direct if base["seconds"][test] <= patience),
        key=lambda test: base["seconds"][test],
    )


def run_mutant(mutant: Mutant, target: Target, base: dict, patience: float, log: Path) -> str:
    """Run the tests on a mutant: ``"killed"``, ``"survived"`` or ``"timeout"``."""
    path = str(ROOT / mutant.module)
    mutated = changed(Path(path).read_text(), mutant.operator, mutant.occurrence)
    tests = order_of_tests(mutant, base, patience)
    if not tests:
        return "survived"

    def work() -> int:
        plain = SourceFileLoader.get_code

        def get_code(self, fullname):
            return (
                compile(mutated, path, "exec", dont_inherit=True)
                if self.path == path
                else plain(self, fullname)
            )

        SourceFileLoader.get_code = get_code
        return pytest_run(target.tests, Order(tests, base["seconds"]), "--tb=no")

    status = run_in_fork(work, 3600, log)
    if status in (None, -signal.SIGALRM):
        return "timeout"
    if status in (3, 4, 5, 70):
        sys.exit(f"{mutant.key}: pytest ended with {status}; see {log}")
    return "survived" if status == 0 else "killed"
