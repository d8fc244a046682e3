"""Running the tests on a mutant: a fork of a process that has imported all that the mutant cannot
change."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NamedTuple

import coverage
import hypothesis
import pytest

from tests.mutation.mutants import ROOT, Mutant, changed

WORK = ROOT / "_build" / "mutants"
OURS = ("lwcore", "book", "tests", "conftest", "__main__")  # may import what is mutated
KILLED = 9  # how a fork ends at the first test that fails


class Target(NamedTuple):
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


def status_of(work: Callable[[], int], limit: float, log: Path) -> int | None:
    """The exit status of a function that runs in a fork, its output in a file: negative if by a
    signal, None if it ran out of time."""

    def into_log() -> None:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.exit(int(work()))

    child = multiprocessing.get_context("fork").Process(target=into_log)
    child.start()
    child.join(limit)
    status = child.exitcode
    child.kill()
    child.join()
    return status


def pytest_run(tests: tuple[str, ...], plugin: object) -> int:
    """Run pytest as the project does, less what a fork has no use for."""
    options = ["-q", "--tb=no", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["--hypothesis-profile=mutants", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    # a failure need not be shrunk
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile(
        "mutants", derandomize=True, deadline=None, max_examples=25, database=None, phases=phases
    )
    return pytest.main([*options, *tests], plugins=[plugin])


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
        data, tested = self.coverage.get_data(), OURS
        lines = {
            str(Path(path).relative_to(ROOT)): data.contexts_by_lineno(path)
            for path in self.modules
        }
        outside = [name for name in sys.modules if name.split(".")[0] not in tested]
        return {"seconds": self.seconds, "lines": lines, "modules": outside}


class Order:
    """A plugin that runs the tests it is given, in that order, until one fails or takes far longer
    than without the mutant."""

    def __init__(self, tests: list[str], seconds: dict[str, float]) -> None:
        self.rank = {test: rank for rank, test in enumerate(tests)}
        self.seconds = seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self.rank]
        items[:] = sorted(kept, key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # nothing handles this signal: it ends the process
        signal.alarm(15 + math.ceil(10 * self.seconds[nodeid]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"killed by {report.nodeid}", flush=True)
            os._exit(KILLED)  # nothing is left to tidy up: the fork goes with its memory


def baseline(name: str, target: Target) -> dict:
    """What `Watch` finds of the tests on the modules as they are."""
    record, log = WORK / f"{name}-baseline.json", WORK / f"{name}-baseline.log"

    def work() -> int:
        watch = Watch(target.modules)
        status = pytest_run(target.tests, watch)
        record.write_text(json.dumps(watch.result()))
        return status

    if status := status_of(work, 3600, log):
        sys.exit(f"{name}: without a mutant the tests end with {status}; see {log}")
    return json.loads(record.read_text())


def order_of_tests(mutant: Mutant, base: dict) -> list[str]:
    """The tests that run the mutant's statement, the quickest first; of what runs at import, those
    that run anything of its module."""
    lines, tree = base["lines"][mutant.module], ast.parse((ROOT / mutant.module).read_text())
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    around = [node for node in statements if node.lineno <= mutant.line <= node.end_lineno]
    smallest = min(around, key=lambda node: node.end_lineno - node.lineno, default=None)
    span = range(smallest.lineno, smallest.end_lineno + 1) if smallest else [mutant.line]
    tests = {test for line in span for test in lines.get(str(line), [])}
    if "" in tests and not isinstance(smallest, ast.FunctionDef):
        tests = {test for tests in lines.values() for test in tests}
    return sorted(tests - {""}, key=base["seconds"].get)


def outcome_of(mutant: Mutant, target: Target, base: dict, log: Path) -> str:
    """What comes of the tests on a mutant: ``"killed"``, ``"survived"`` or ``"timeout"``."""
    path = str(ROOT / mutant.module)
    mutated = changed(Path(path).read_text(), mutant.operator, mutant.occurrence)
    tests = order_of_tests(mutant, base)
    if not tests:
        return "survived"

    def work() -> int:
        plain = SourceFileLoader.get_code

        def get_code(self, fullname):
            if self.path != path:
                return plain(self, fullname)
            return compile(mutated, path, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code
        return pytest_run(target.tests, Order(tests, base["seconds"]))

    status = status_of(work, 3600, log)
    ends = {0: "survived", KILLED: "killed", None: "timeout", -signal.SIGALRM: "timeout"}
    ends[int(pytest.ExitCode.INTERRUPTED)] = "killed"  # the module cannot be imported
    if status not in ends:
        sys.exit(f"{mutant.key}: pytest ended with {status}; see {log}")
    return ends[status]
