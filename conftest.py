"""Text notebooks as tests: every code cell is one, and outputs with a reference are compared.

nbval alone reads ``.ipynb`` only, and compares nothing where a notebook stores no outputs. Here the
notebook is MyST text. It is executed only if neither the book's build nor an earlier test has left
its outputs (``book/_ext/executed.py``); nbval compares them with those in
``tests/reference_outputs/<notebook>.json``, in the order of the cells and keyed by a hash of their
source. An edited cell is compared with the record that stood in its place; a checked cell without
one fails until ``make references`` records it.

The profiles of Hypothesis, which the property tests run under, are set here as well.
"""

import copy
import difflib
import hashlib
import json
import os
import re
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import hypothesis
import nbformat
from nbclient.exceptions import CellExecutionError
from nbval.plugin import IPyNbCell, IPyNbFile, coalesce_streams, find_metadata_tags

sys.path.insert(0, str(Path(__file__).parent / "book" / "_ext"))
import executed

# two threads stall on small matrices, many times over
os.environ.setdefault("OMP_NUM_THREADS", "1")

# "fast" tries the same few examples on every run, "few" still fewer (`make check`), "deep" many new
# ones. None takes a verdict from the clock, as machines are shared.
hypothesis.settings.register_profile("fast", max_examples=12, derandomize=True, deadline=None)
hypothesis.settings.register_profile("few", max_examples=5, derandomize=True, deadline=None)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

REFERENCES = Path(__file__).parent / "tests" / "reference_outputs"
FENCE = re.compile(r"`{3,}\{code-cell\}")  # with it a code cell begins
LONGEST = [
    *("pages/test_pages", "test_ordinary_models", "pages/test_browser", "test_cli"),
    *("test_diagnose", "test_diagnose_definition", "test_diagnose_refusals", "test_ambient"),
    *("test_experiment", "pages/test_pdf", "test_installed", "test_measure"),
]


def pytest_addoption(parser):
    """Add the option that records instead of comparing."""
    parser.addoption("--refresh-references", action="store_true", help="record checked outputs")


def pytest_collection_modifyitems(items):
    """Begin with the longest files, so that no process has nothing left to do while another has."""
    place = {f"tests/{name}.py": k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


def pytest_collect_file(file_path, parent):
    """Take every Markdown file whose front matter names a kernel for a notebook."""
    if file_path.suffix == ".md" and "\nkernelspec:" in file_path.read_text().partition("\n---")[0]:
        return TextNotebook.from_parent(parent, path=file_path)
    return None


class TextNotebook(IPyNbFile):
    """A notebook in MyST text, with its recorded outputs."""

    @property
    def reference_path(self):
        """Where the recorded outputs stand."""
        return REFERENCES / f"{self.path.stem}.json"

    def get_sanitize_files(self):
        """Name the file of patterns that mask late digits before outputs are compared."""
        return [REFERENCES / "sanitize.cfg"]

    def collect(self):
        """Give one test for each code cell; what is in the cells is read when they are tried."""
        text = self.path.read_text(encoding="utf-8").splitlines()
        self.lines = [number for number, line in enumerate(text, 1) if FENCE.match(line)]
        for number, line in enumerate(self.lines):
            test = TextNotebookCell.from_parent(
                self, name=f"Cell {number + 1}", cell_num=number, cell=None, options=None
            )
            test.line = line
            yield test

    def setup(self):
        """Get the cells' recorded outputs, and those of now: up to the first cell that fails."""
        self.setup_sanitize_files()
        self.skip_compare += ("image/svg+xml",)  # pictures are not compared, whatever their format
        notebook = executed.read(self.path)
        self.read_records([cell for cell in notebook.cells if cell.cell_type == "code"])
        with suppress(CellExecutionError):  # the cell that failed says so in its own test
            notebook = executed.executed(self.path, notebook)
        self.outcomes = [cell for cell in notebook.cells if cell.cell_type == "code"]

    def read_records(self, code_cells):
        """Read what is on record for each cell, as the outputs of a copy of it."""
        path = self.reference_path
        recorded = json.loads(path.read_text()) if path.exists() else {}
        keys = [source_hash(cell) for cell in code_cells if "nbval-check-output" in tags(cell)]
        former = former_keys(list(recorded), keys)
        self.records = {key: recorded.get(key) for key in keys}
        self.code_cells = []
        self.references = []
        for code_cell, _ in zip(code_cells, self.lines, strict=True):
            key = source_hash(code_cell)
            reference = recorded.get(former.get(key, key))
            cell = copy.copy(code_cell)
            # nbval takes a cell without a count for one that was never run, and compares nothing
            cell.execution_count = 1
            cell.outputs = [*map(nbformat.from_dict, reference or [])]
            self.code_cells.append(cell)
            self.references.append(reference)

    def teardown(self):
        """Write what was recorded, without the records of cells that are gone."""
        if self.config.option.refresh_references:
            self.reference_path.unlink(missing_ok=True)
            kept = {key: outputs for key, outputs in self.records.items() if outputs is not None}
            if kept:
                text = json.dumps(kept, indent=1, ensure_ascii=False)
                self.reference_path.write_text(f"{text}\n")


class CellFailure(Exception):
    """What is wrong with a cell, in words, and the lines that show it."""


class TextNotebookCell(IPyNbCell):
    """One code cell: it must run, and print what was recorded if it is tagged so."""

    def runtest(self):
        """See that the cell ran; compare or record its outputs."""
        self.cell = self.parent.code_cells[self.cell_num]
        self.options = defaultdict(bool, find_metadata_tags(self.cell.metadata))
        outcome = self.parent.outcomes[self.cell_num]
        self.test_outputs = coalesce_streams(outcome.outputs)
        for output in self.test_outputs:
            if output.output_type == "error":
                raise CellFailure("this cell failed.", *output.traceback)
        if outcome.execution_count is None:
            raise CellFailure("this cell was not run: one above it failed.")
        may_write = "remove-stderr" in tags(self.cell)
        for output in self.test_outputs:
            if output.get("name") == "stderr" and not may_write:
                raise CellFailure("this cell warns, and a page may hold no warning:", output.text)
        if not self.options["check"]:
            return
        if self.config.option.refresh_references:
            self.parent.records[source_hash(self.cell)] = [
                self.without_images(output) for output in self.test_outputs
            ]
            return
        notebook = self.path.relative_to(self.config.rootpath).as_posix()
        record = f".venv/bin/python -m pytest {notebook} --refresh-references"
        recorded_outputs = coalesce_streams(self.cell.outputs)
        if self.parent.references[self.cell_num] is None:
            raise CellFailure(
                "what this cell prints is to be checked, and nothing is recorded. "
                f"To record it: {record}"
            )
        if not self.compare_outputs(self.test_outputs, recorded_outputs):
            raise CellFailure(
                "this cell prints something else than is recorded (- recorded, + printed now):",
                *self.differences(recorded_outputs, self.test_outputs),
                f"If this change is meant, record it: {record}",
            )

    def reportinfo(self):
        """Name the cell the way other tests are named."""
        return self.path, self.line - 1, self.name

    def repr_failure(self, excinfo):
        """Say what is wrong with the cell, and in which line it begins."""
        if not isinstance(excinfo.value, CellFailure):
            return super().repr_failure(excinfo)
        where = f"{self.path.relative_to(self.config.rootpath).as_posix()}:{self.line}"
        first, *more = excinfo.value.args
        return "\n".join([f"{where}: {first}", *more])

    def differences(self, recorded, printed):
        """List the lines in which outputs differ, for each kind of output that does."""
        recorded, printed = self.texts_by_kind(recorded), self.texts_by_kind(printed)
        lines = []
        for kind in sorted(recorded.keys() | printed.keys()):
            before, now = recorded.get(kind, []), printed.get(kind, [])
            if before != now:
                lines.append(f"{kind}:")
                lines += list(difflib.unified_diff(before, now, lineterm="", n=1))[2:]
        return lines or self.comparison_traceback

    def texts_by_kind(self, outputs):
        """Give the lines of some outputs, without late digits, by their MIME type or stream."""
        lines = defaultdict(list)
        for output in outputs:
            texts = output.get("data") or {output.get("name", "text"): output.get("text", "")}
            for kind, text in texts.items():
                if kind not in self.parent.skip_compare:
                    words = text if isinstance(text, str) else json.dumps(text, indent=1)
                    lines[kind] += self.sanitize(words).splitlines()
        return lines

    def without_images(self, output):
        """Drop what is never compared from a recorded output."""
        kept = {
            key: output[key] for key in sorted(output) if key not in ("metadata", "execution_count")
        }
        if "data" in kept:
            shown = kept["data"].items()
            kept["data"] = {kind: one for kind, one in shown if not kind.startswith("image/")}
        return kept


def tags(cell):
    """List the tags of a cell."""
    return cell.metadata.get("tags", ())


def former_keys(before, now):
    """Find for each edited cell the record that stood in its place: its key by the cell's."""
    former = {}
    matcher = difflib.SequenceMatcher(None, before, now, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "replace":
            former |= zip(now[start:end], before[first:last], strict=False)
    return former


def source_hash(cell):
    """Return the key of a cell's recorded outputs."""
    return hashlib.sha256(cell.source.encode()).hexdigest()[:16]
