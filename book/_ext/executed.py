"""Notebooks that were executed: by the build or by a test, whichever needs one first. The other
takes what was left.

What was left holds as long as all that the execution read is the same: the notebook's code, the
modules of the package and of the book that it imported, and the recorded files that it opened; so
are the names of all recorded files, the lock and the Python version. Each execution keeps the list.
"""

import copy
import hashlib
import json
import os
import sys
import time
from contextlib import contextmanager
from functools import cache
from glob import glob
from pathlib import Path

import jupytext
import nbformat
from filelock import FileLock
from forked_kernels import use_forked_kernels
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "_build" / ".jupyter_cache"
OURS = ("lwcore", "book", "benchmarks", "notebooks")
RECORDED = ("lwcore/configs", "book/results")
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


def place(path):
    """Give a file's path within the checkout."""
    return Path(path).resolve().relative_to(ROOT).as_posix()


def state(files):
    """Give what some files hold now, by their places, and what every notebook depends on."""
    now = {"Python": sys.version}
    for folder in RECORDED:
        now[folder] = sorted(glob(f"{folder}/**", root_dir=ROOT, recursive=True))
    for file in {*files, "constraints.txt"} - now.keys():
        path = ROOT / file
        now[file] = digest(path, path.stat().st_mtime_ns) if path.is_file() else None
    return now


@cache
def digest(path, mtime_ns):
    """Give a file's digest; a file is read once for each time it was changed."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


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


def record_of(path, kept):
    """Give the cache's record of an execution of a notebook that holds; None if there is none."""
    try:
        record = kept.match_cache_notebook(read(path))
    except KeyError:
        return None
    # a checkout that was copied or moved takes its executions along: the place is one within it
    was = record.data.get("read", {})
    if record.data.get("notebook") == place(path) and was == state(was):
        return record
    kept.remove_cache(record.pk)  # stale, or another notebook's
    return None


def find(path):
    """Give what an execution of a notebook as it is now has left: its code cells with their
    outputs, or None."""
    with store() as kept:
        record = record_of(path, kept)
        return record and kept.get_cache_bundle(record.pk).nb


def key(path):
    """Identify the execution that `find` gives; None if there is none."""
    with store() as kept:
        record = record_of(path, kept)
        return record and f"{record.hashkey} of {record.created}"


def executed(path, notebook=None):
    """Give a notebook's code cells with their outputs, of an execution that is left or made now;
    one process at a time makes it."""
    path = Path(path).resolve()
    notebook = notebook or read(path)
    with lock(path.stem):
        kept_cells = find(path)
        if kept_cells is not None:
            return kept_cells
        start = time.time()
        used = run(notebook, path.parent)
        if all(file.stat().st_mtime < start for file in used):  # nothing was edited meanwhile
            from jupyter_cache.base import CacheBundleIn

            facts = {"notebook": place(path), "read": state(map(place, used))}
            facts["execution_seconds"] = time.time() - start
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
        timeout=900,
        kernel_name="python3",
        record_timing=False,
    )
    with client.setup_kernel():
        for index, cell in enumerate(framed.cells):
            client.execute_cell(cell, index, store_history=cell not in (listen, report))
    ours = set()
    for name in json.loads(report.outputs[0]["text"]):
        directory, file = os.path.split(os.path.join(folder, name))
        known = of_ours(directory)
        if known and (known / file).is_file():
            ours.add(known / file)
    return ours


@cache
def of_ours(directory):
    """Give the real path of a folder with files of ours; None for another: most are libraries'."""
    real = Path(directory).resolve()
    is_ours = any(real.is_relative_to(ROOT / name) for name in OURS)
    return real if is_ours else None
