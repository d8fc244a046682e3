"""Where members are computed: in processes of this machine, or by the workers of a Dask scheduler, here or anywhere."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

from lwcore.results import code_fingerprint


@contextmanager
def processes(workers: int | None = None) -> Iterator[Executor]:
    """Compute in processes of this machine. An interrupt ends them at once: whatever they do can be ended at any moment.

    Args:
        workers: How many; one for every core if None.

    Yields:
        The executor.

    Raises:
        KeyboardInterrupt: As it came, when the processes have ended.
    """
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise


@contextmanager
def dask(scheduler: str | None = None, say: Callable[[str], None] = print, workers: int | None = None) -> Iterator[Executor]:
    """Compute by the workers of a Dask scheduler.

    A worker that dies loses what it was at, no more: that member is begun again elsewhere, from its checkpoint where workers see the
    folder of the results.

    Args:
        scheduler: Address of a scheduler, ``"tcp://host:8786"``; a cluster of our own on this machine if None.
        say: Told where the dashboard is.
        workers: How many processes our own cluster has, each of one thread; one for every core if None.

    Yields:
        The executor.

    Raises:
        ImportError: If Dask is missing.
        OSError: If there is no scheduler at that address.
        RuntimeError: If it has workers with other code than ours, or gives a member up that several workers died of.
    """
    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError:
        raise ImportError("--executor dask needs Dask: pip install 'lwcore[cluster]'") from None
    with ExitStack() as stack:
        own = None if scheduler else stack.enter_context(LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0"))
        client = stack.enter_context(Client(own or scheduler, timeout="10s", set_as_default=False))
        say(f"Dashboard: {client.dashboard_link}")
        others = {worker: code for worker, code in client.run(code_fingerprint).items() if code != code_fingerprint()}
        if others:
            raise RuntimeError(
                f"These workers have another version of lwcore: {', '.join(others)}. Install this one there and start again."
            )
        try:
            yield client.get_executor()
        except KilledWorker as error:
            raise RuntimeError(str(error)) from error
