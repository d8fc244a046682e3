"""Unfinished work: a folder in which several processes may work at once, each task done by one of them, until one has stored the result.

A task is claimed by a lock of the operating system (`filelock`), which vanishes with the process that holds it, however it ends. The folder
is open while its marker stands: whoever has stored the result takes the marker away first, so that nobody begins anything in a folder
that is about to go, and then waits until everybody has left.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr
from filelock import FileLock, Timeout

from lwcore import results

MARKER = "configuration.json"
_REMOVED = "{} was removed while work in it went on. Start again."


class Busy(Exception):
    """Another process is at this task."""


class Gone(RuntimeError):
    """A folder is not open: another process has finished the work in it, or it is not on a disk of this machine."""


def folder_of(subject: results.Described, home: Path) -> Path:
    """Say where unfinished work is kept; another configuration, or other code, has another folder.

    Args:
        subject: What is worked at.
        home: Folder of the results.

    Returns:
        The folder.
    """
    return home / f"{subject.name}-{subject.fingerprint}-{results.code_fingerprint()}.partial"


def once(subject: results.Described, folder: Path, tasks: Sequence[str], make: Callable[[], xr.Dataset], resume: bool) -> xr.Dataset:
    """Give a result: the one that is stored, or one made now, whoever of several processes makes it.

    Args:
        subject: What the result is of. It is stored beside the folder, under the subject's name.
        folder: Folder of the unfinished work, open while `make` is at it.
        tasks: Names of all tasks in it.
        make: Makes the result.
        resume: Use what is stored; otherwise all that there is is forgotten first.

    Returns:
        The result.

    Raises:
        FileExistsError: If the result of something else stands under the same name and `resume` is set; or if it is not, and another
            process is at the same work.
        Gone: If the folder was removed from outside.
        OSError: If the result cannot be stored.
        ValueError: If the directory that is to hold the folder is a file.
    """
    results.check_folder("directory", folder.parent)
    path = folder.parent / f"{subject.name}.nc"
    stored = _finished(subject, path) if resume else None
    if stored is not None:
        if not _begun_behind(folder, path):  # by somebody who makes the result anew
            close(folder, tasks)
        return stored
    begin(folder, subject.model_dump_json(), anew=not resume)
    if resume and (stored := _finished(subject, path)) is not None:  # another process closed the folder just before we opened it again
        close(folder, tasks)
        return stored
    if not resume:
        clear(folder, tasks)
    try:
        made = make()
        results.save(made, path, scratch=folder)
    except (Gone, OSError):
        stored = None if is_open(folder) else _finished(subject, path)
        if stored is None:
            raise
        return stored
    close(folder, tasks)
    return made


def begin(folder: Path, configuration: str, anew: bool = False) -> None:
    """Open a folder, or join those who work in it.

    Args:
        folder: The folder; it is made if need be.
        configuration: What is being worked at, for a reader who finds the folder.
        anew: Write the marker also if it is there: it is then newer than a result that was there before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if anew or not is_open(folder):
        results.write_atomically(folder / MARKER, lambda part: part.write_bytes(configuration.encode()))


def is_open(folder: Path) -> bool:
    """Say whether a folder can be worked in."""
    return (folder / MARKER).exists()


class Job(NamedTuple):
    """One task, to be done where its folder is open.

    Attributes:
        folder: The open folder; None where nothing is kept.
        name: Name of the task, which can stand in a file's name.
        do: Does the task, or finds what was made of it, given the folder or None. Picklable if it is to travel.
    """

    folder: Path | None
    name: str
    do: Callable[[Path | None], Any]


@contextmanager
def claim(folder: Path | None, task: str, wait: bool = True) -> Iterator[None]:
    """Keep all others from a task meanwhile.

    Args:
        folder: An open folder; None where nobody else could know of the task.
        task: Name of the task.
        wait: Wait until whoever is at it has left.

    Yields:
        Nothing.

    Raises:
        Busy: If somebody is at it, and `wait` is not set.
        Gone: If the folder is not open.
    """
    if folder is None:
        yield
        return
    if not is_open(folder):
        raise Gone(_REMOVED.format(folder))
    lock = FileLock(folder / f"{task}.lock")
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise Busy(task) from None
    except FileNotFoundError:
        raise Gone(_REMOVED.format(folder)) from None
    try:
        if is_open(folder):
            yield
            return
        Path(lock.lock_file).unlink(missing_ok=True)
    finally:
        lock.release()
    with suppress(OSError):
        folder.rmdir()  # it was closed while we waited, and perhaps made again for our lock
    raise Gone(_REMOVED.format(folder))


def here(jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
    """Do jobs one after the other: first those that nobody is at, then, when they are left, the others, which should be done by then.

    Args:
        jobs: The jobs.

    Yields:
        A job and what was made of it.
    """
    busy = []
    for job in jobs:
        try:
            made = _do(job, wait=False)
        except Busy:
            busy.append(job)
        else:
            yield job, made
    for job in busy:
        yield job, _do(job)


def on_executor(executor: Executor, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
    """Do jobs on an executor, in the order in which they end; those that another process is at come last.

    A worker that does not see a job's folder, as it may be on a machine with other disks, does the job without.

    Args:
        executor: The executor.
        jobs: The jobs.

    Yields:
        A job and what was made of it.

    Raises:
        Gone: If a folder was closed meanwhile.
    """
    running: dict[Future[Any], Job] = {executor.submit(_do, job, wait=False): job for job in jobs}
    again: dict[Future[Any], Job] = {}
    try:
        while running:
            for future in as_completed(running):
                job = running[future]
                try:
                    made = future.result()
                except Busy:
                    again[executor.submit(_do, job)] = job
                except Gone:
                    if job.folder is None or not is_open(job.folder):
                        raise
                    again[executor.submit(_do, job._replace(folder=None))] = job
                else:
                    yield job, made
            running, again = again, {}
    except BaseException:  # an interrupt, or a job that failed: what has not begun shall not begin
        for future in (*running, *again):
            future.cancel()
        raise


def clear(folder: Path, tasks: Iterable[str]) -> None:
    """Forget all that was done in a folder.

    Args:
        folder: An open folder.
        tasks: Names of all tasks.

    Raises:
        FileExistsError: If another process is at one of them.
    """
    for name in tasks:
        try:
            with claim(folder, name, wait=False):
                pass
        except Busy:
            raise FileExistsError(f"{folder}: another process is at {name!r}. Let it finish, or end it, before you start anew.") from None
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != MARKER and path.suffix != ".lock":
            path.unlink()


def close(folder: Path, tasks: Iterable[str]) -> None:
    """Remove a folder whose result is stored.

    Args:
        folder: The folder; nothing happens if there is none.
        tasks: Names of all tasks.
    """
    if not folder.exists():
        return
    (folder / MARKER).unlink(missing_ok=True)
    for name in tasks:
        if (folder / f"{name}.lock").exists():
            with suppress(FileNotFoundError), FileLock(folder / f"{name}.lock"):  # whoever came in before can finish
                pass
    shutil.rmtree(folder, ignore_errors=True)


def _do(job: Job, wait: bool = True) -> Any:
    """Do a job while it is claimed."""
    with claim(job.folder, job.name, wait):
        return job.do(job.folder)


def _begun_behind(folder: Path, path: Path) -> bool:
    """Say whether a folder was opened after a file had been written."""
    try:
        return (folder / MARKER).stat().st_mtime_ns > path.stat().st_mtime_ns
    except FileNotFoundError:
        return False


def _finished(subject: results.Described, path: Path) -> xr.Dataset | None:
    """Read the result if it is there and whole; refuse another one's."""
    stored = results.reusable(path)
    if stored is None or stored.attrs["fingerprint"] == subject.fingerprint:
        return stored
    raise FileExistsError(
        f"{path} holds another {type(subject).__name__.lower().replace('config', 'configuration')} of the same name (other seeds, say). "
        "Move it, choose another directory, or overwrite it with resume=False (--no-resume)."
    )
