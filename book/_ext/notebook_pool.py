"""Notebooks executed side by side before the pages are read: myst-nb would run them one after the other, on one core.

What is not in the execution cache is run and put there; then myst-nb finds it. A notebook that fails is left to myst-nb, which runs it
once more and says what went wrong where a reader of its log looks for it.
"""

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.core.read import create_nb_reader
from sphinx.util import logging

logger = logging.getLogger(__name__)


def fill_cache(app, env, docnames):
    """Execute the notebooks among the pages that are about to be read, one for every core at a time."""
    settings = env.mystnb_config
    if settings.execution_mode != "cache":
        return
    cache = get_cache(settings.execution_cache_path)
    fresh = {path: read for path in map(env.doc2path, docnames) if (read := notebook(env, path)) and not is_cached(cache, read)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(execute, path, read, settings.execution_timeout): path for path, read in fresh.items()}
        for run in as_completed(runs):  # only this thread writes to the cache
            path, result = runs[run], run.result()
            if result.err is None:
                cache.cache_notebook_bundle(
                    CacheBundleIn(result.nb, str(path), data={"execution_seconds": result.time}), check_validity=False, overwrite=True
                )
            logger.info("%s: %s in %.1f seconds", path, "failed" if result.err else "executed", result.time)


def notebook(env, path):
    """Read a notebook as myst-nb reads it; None if the page is none."""
    text = Path(path).read_text(encoding="utf-8")
    reader = create_nb_reader(str(path), env.myst_config, env.mystnb_config, text)
    return reader and reader.read(text)


def is_cached(cache, read):
    """Tell whether the cache holds the outputs of a notebook."""
    try:
        cache.match_cache_notebook(read)
    except KeyError:
        return False
    return True


def execute(path, read, timeout):
    """Run a notebook in its folder."""
    return single_nb_execution(read, cwd=str(Path(path).parent), timeout=timeout, allow_errors=False)


def setup(app):
    """Connect it."""
    app.connect("env-before-read-docs", fill_cache)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
