"""Notebooks executed side by side while the other pages are read: myst-nb would run them one after
the other, on one core.

What has no execution that holds is executed (`executed`), the longest texts first, so that no core
is idle at the end; a page waits for its notebook, and myst-nb finds it in the cache, which both
keep in ``_build/.jupyter_cache``. A notebook that fails is left to myst-nb, which runs it once more
and says what went wrong where a reader of its log looks for it.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import executed
from forked_kernels import forking_process
from nbclient.exceptions import CellExecutionError

# That this process may use: a container or a queue often grants a few of many.
CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
# Short texts that compute for long.
FIRST = {"book/browse", "book/intro", "notebooks/03_bptt", "notebooks/08_robust_averaging"}


def notebooks(env):
    """Find the notebooks among the pages: paths by page."""
    paths = {page: Path(env.doc2path(page)) for page in env.found_docs}
    return {page: path for page, path in paths.items() if executed.is_notebook(path)}


def changed(app, env, *_):
    """Have pages read anew whose outputs no longer hold.

    An edit of the package changes no page's text.
    """
    env.execution_keys = getattr(env, "execution_keys", {})
    pages = []
    for page, path in notebooks(env).items():
        key = executed.key(path)
        if key is None or key != env.execution_keys.get(page):
            pages.append(page)
    return pages


def begin(app, env, docnames):
    """Begin to execute the notebooks among the pages that are about to be read, one for each core.

    Pages that need no execution are read first, the others as they were begun.
    """
    paths = {}
    for page, path in notebooks(env).items():
        if page in docnames and executed.key(path) is None:
            paths[page] = path
    waiting = sorted(paths, key=lambda page: (page not in FIRST, -paths[page].stat().st_size))
    pool = ThreadPoolExecutor(CORES)
    app.executions = {page: pool.submit(execute, paths[page]) for page in waiting}
    pool.shutdown(wait=False)
    docnames[:] = [page for page in docnames if page not in paths] + waiting


def wait(app, env, docname):
    """Let a page wait for the execution of its notebook, and note which one it shows."""
    if docname in app.executions:
        app.executions[docname].result()
    path = notebooks(env).get(docname)
    env.execution_keys[docname] = path and executed.key(path)


def write_side_by_side(app, env):
    """Have pages written by several processes for each core, where forking is safe: on Linux.

    This one prepares pages for the others: with few at a time no other waits for long.
    """
    if sys.platform == "linux":
        app.parallel = 4 * CORES


def execute(path):
    """Execute a notebook; one that fails is left to myst-nb."""
    with suppress(CellExecutionError):
        executed.executed(path)


def setup(app):
    """Connect it."""
    app.executions = {}  # that were begun, by page
    if sys.platform == "linux" and not executed.STORE.exists():  # in a new clone all are to come
        forking_process()
    app.connect("env-get-outdated", changed)
    app.connect("env-before-read-docs", begin)
    app.connect("env-purge-doc", wait)
    app.connect("env-check-consistency", write_side_by_side)
