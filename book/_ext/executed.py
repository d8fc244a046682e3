"""Notebooks that were executed: by the build or by a test, whichever needs one first. The other
takes what was left.

What was left holds as long as its key stands: the notebook's code, all it can reach (the modules of
the package and of the book that it imports, with what these import in turn; files of the repository
that its code names), the lock and the Python version. No execution that read anything else of the
repository is kept, so that no key is too narrow.
"""

import ast
import copy
import hashlib
import json
import re
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jupytext
import nbformat
from filelock import FileLock
from forked_kernels import use_forked_kernels
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "_build" / ".jupyter_cache"
TIMEOUT = 900
PACKAGES = ("lwcore", "book", "benchmarks")
ENCRYPTED = Config(KernelManager={"transport_encryption": "auto"})  # else each kernel warns

# The kernel keeps a list of the files it opens. What it imports it knows; sources are opened to
# show or to identify them, too.
LISTEN = """\
import sys as _sys
_opened = set()
_sys.addaudithook(lambda event, args: event == "open" and isinstance(args[0], str) and _opened.add(args[0]))"""
REPORT = """\
import json as _json
_data = {_name for _name in _opened if not _name.endswith(".py") and "__pycache__" not in _name}
_modules = {getattr(_module, "__file__", None) or "" for _module in list(_sys.modules.values())}
print(_json.dumps(sorted(_data | _modules)))"""


def is_notebook(path):
    """Say whether a page is a notebook: its front matter names a kernel."""
    front_matter = path.read_text(encoding="utf-8").partition("\n---")[0]
    return "\nkernelspec:" in front_matter


def read(path):
    """Read a text notebook; it is parsed once for each time it was changed."""
    return copy.deepcopy(notebook_of(path, path.stat().st_mtime_ns))


@cache
def notebook_of(path, mtime_ns):
    """Parse a text notebook."""
    return jupytext.read(path)


def key(path):
    """Identify a notebook's code, all that it can reach, and the Python and the packages below
    it."""
    code, _, _ = parsed(path, path.stat().st_mtime_ns)
    digest = hashlib.sha256(f"{sys.version}\n{code}".encode())
    for source in (ROOT / "constraints.txt", *sorted(reach(path))):
        digest.update(source.relative_to(ROOT).as_posix().encode())
        digest.update(fingerprint(source, source.stat().st_mtime_ns))
    return digest.hexdigest()[:16]


@cache
def fingerprint(path, mtime_ns):
    """Give a file's digest; a file is read once for each time it was changed."""
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def parsed(path, mtime_ns):
    """Give a notebook's code, the modules of ours that it imports, and the texts it holds.

    Lines for IPython alone, such as ``%matplotlib``, are left out.
    """
    sources = []
    for cell in read(path).cells:
        if cell.cell_type == "code":
            sources.append(re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE))
    code = "\n".join(sources)
    tree = ast.parse(code)
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
    return code, frozenset(imported(tree)), frozenset(texts)


def reach(path):
    """List the files of the repository that a notebook can read.

    These are modules, with all they import, and what its code names: files, and all in folders.
    """
    _, imports, texts = parsed(path, path.stat().st_mtime_ns)
    files = files_of(imports)
    if ROOT / "lwcore" / "experiment" / "config.py" in files:
        files.update((ROOT / "lwcore" / "configs").rglob("*.toml"))
    if ROOT / "book" / "chapters" / "training.py" in files:
        files.update((ROOT / "book" / "results" / "networks").glob("*.npz"))
    for text in texts:
        if "/" not in text or "\n" in text:
            continue
        named = (path.parent / text).resolve()
        if not named.is_relative_to(ROOT) or named == ROOT:
            continue
        for file in [named] if named.is_file() else named.rglob("*"):
            if file.is_file() and file.suffix != ".pyc":
                files.add(file)
    return files


def files_of(names):
    """List the files of some modules, and of all that these import."""
    files = set()
    seen = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        file = file_of(name)
        if file is not None:
            files.add(file)
            waiting |= imports_of(file, file.stat().st_mtime_ns) - seen
    return files


def imported(tree):
    """Name the modules of the package and the book that some code imports, and the packages they
    are in; a name may be no module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in PACKAGES:
                yield name
                while "." in name:
                    name = name.rpartition(".")[0]
                    yield name


@cache
def imports_of(path, mtime_ns):
    """Name the modules of the package and the book that a module imports.

    `lwcore` itself names all of its modules for type checkers, and imports those that a reader
    names.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path == ROOT / "lwcore" / "__init__.py":
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    return set(imported(tree))


def file_of(module):
    """Find a module's file; None if there is no such module."""
    stem = ROOT.joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


@contextmanager
def store():
    """Open the cache for this process alone, and close its database again."""
    with lock():
        from jupyter_cache import get_cache  # its SQLAlchemy takes a second: no test but notebooks'

        opened = get_cache(STORE)
        try:
            yield opened
        finally:
            # else it stays open until it is collected, of which Python warns from 3.13 on
            opened.db.dispose()


def find(path):
    """Give what an execution of a notebook as it is now has left: its code cells with their
    outputs, or None."""
    with store() as kept:
        try:
            record = kept.match_cache_notebook(read(path))
        except KeyError:
            return None
        # a checkout that was copied or moved takes its executions along: the place is one within it
        same_place = record.data.get("notebook") == place(path)
        if same_place and record.data.get("key") == key(path):
            return kept.get_cache_bundle(record.pk).nb
        kept.remove_cache(record.pk)  # stale, or another notebook's
        return None


def place(path):
    """Give a notebook's path within the checkout."""
    return Path(path).resolve().relative_to(ROOT).as_posix()


def executed(path, notebook=None):
    """Give a notebook's code cells with their outputs, of an execution that is left or made now;
    one process at a time makes it."""
    path = Path(path).resolve()
    notebook = notebook or read(path)
    with lock(path.stem):
        kept_cells = find(path)
        if kept_cells is not None:
            return kept_cells
        before = key(path)
        start = time.perf_counter()
        used = run(notebook, path.parent)
        seconds = time.perf_counter() - start
        beyond_reach = used - reach(path)
        # SHA256SUMS verifies, and adds nothing
        unknown = sorted(str(file) for file in beyond_reach if file.name != "SHA256SUMS")
        if unknown:
            raise RuntimeError(
                f"{path.name} reads {', '.join(unknown)}, of which its key knows nothing: name it "
                "in the notebook's code."
            )
        if before == key(path):  # else something was edited meanwhile
            facts = {"execution_seconds": seconds, "key": before, "notebook": place(path)}
            from jupyter_cache.base import CacheBundleIn

            bundle = CacheBundleIn(notebook, str(path), data=facts)
            with store() as kept:
                kept.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return nbformat.from_dict({**notebook, "cells": code_cells})


def lock(name="cache"):
    """Keep other processes from the cache, or from a notebook, for the time being."""
    STORE.mkdir(parents=True, exist_ok=True)
    return FileLock(STORE / f"{name}.lock")


def run(notebook, folder):
    """Execute a notebook in place; list the files of the repository that it read, modules and data.

    Two cells of ours stand around its own: the first listens, the last reports.
    """
    use_forked_kernels()
    listen = nbformat.v4.new_code_cell(LISTEN)
    report = nbformat.v4.new_code_cell(REPORT)
    framed = nbformat.v4.new_notebook(metadata=notebook.metadata)
    framed.cells = [listen, *notebook.cells, report]
    client = NotebookClient(
        framed,
        resources={"metadata": {"path": str(folder)}},
        config=ENCRYPTED,
        timeout=TIMEOUT,
        kernel_name="python3",
        record_timing=False,
    )
    with client.setup_kernel():
        for index, cell in enumerate(framed.cells):
            client.execute_cell(cell, index, store_history=cell not in (listen, report))
    ours = set()
    for name in json.loads(report.outputs[0]["text"]):
        file = (Path(folder) / name).resolve()
        if not file.is_relative_to(ROOT) or not file.is_file():
            continue
        if file.relative_to(ROOT).parts[0] in (*PACKAGES, "notebooks"):
            ours.add(file)
    return ours
