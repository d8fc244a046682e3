"""A run: every network of a configuration, or of a sweep's points, is trained, measured and stored.

The result is one file. Until it is there, finished members and one checkpoint for each that is not
stand in a folder ``<name>-<configuration>-<code>.partial`` beside it. All these files are whole or
not there at all, so a run that was killed goes on from them and ends with the same bits. Nothing is
locked: two processes at the same run may do a member twice, with the same bits, too.
"""

from __future__ import annotations

import functools
import io
import multiprocessing
import os
import shutil
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import xarray as xr

from lwcore import cells, results, tasks, train
from lwcore.adaptive import base_rates
from lwcore.config import Config, Sweep, shipped
from lwcore.course import course
from lwcore.measure import measure
from lwcore.network import Network
from lwcore.progress import bar
from lwcore.results import load
from lwcore.trace import Trace

__all__ = ["Config", "Sweep", "load", "run", "run_member", "shipped"]

Snapshots = dict[int, dict[str, Any]]
Job = tuple[Config, str, int]  # a member: its configuration, model, seed
Found = TypeVar("Found")


class Stream(IntEnum):
    """Independent sources of randomness of a member.

    All models of one seed share task, sequences and order, to be comparable.
    """

    TASK = 0
    TRAINING = 1
    DIAGNOSTICS = 2
    ORDER = 3
    WEIGHTS = 4
    MEASURE = 5


class Trained(NamedTuple):
    """A network, the loss of every step, state dictionaries by step, and the optimiser's last."""

    network: Network
    losses: list[float]
    snapshots: Snapshots
    optimizer: dict[str, Any]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: small matrices gain nothing from more, and sum in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run(
    config: Config | Sweep,
    executor: Executor | None = None,
    resume: bool = True,
    directory: str | Path | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Results of a configuration, over model, seed and what `measure` gives; a sweep's over its
    axes, too.

    With a directory the result is ``<directory>/<name>.nc``, and what an earlier run of the same
    configuration has left there is used, unless `resume` is False; another configuration's result
    is not overwritten, but for that. Members run in this process, or on any
    `concurrent.futures.Executor`, whose workers need not see the directory: what they cannot store
    is stored from here, but they keep no checkpoints then.

    A sweep keeps ``final_loss``, the mean over the last tenth of the steps, in the place of every
    step's loss, and ``still_falling``, the share by which that is below the tenth before.
    """
    if directory is None:
        return _made(config, executor, None, progress)
    path = Path(directory).absolute() / f"{config.name}.nc"
    code = results.code_fingerprint()
    partial = path.with_name(f"{config.name}-{config.fingerprint}-{code}.partial")
    if resume and path.exists():
        stored = load(path)
        if stored.attrs["fingerprint"] != config.fingerprint:
            raise FileExistsError(
                f"{path} holds another configuration of the same name (other seeds, say). Move it, "
                "choose another directory, or overwrite it with resume=False (--no-resume)."
            )
    else:
        if not resume:
            shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"directory = {str(directory)!r}: must be a folder, or a new one's name ({error})."
            ) from None
        stored = _made(config, executor, partial, progress)
        try:
            results.save(stored, path, scratch=partial)
        except FileNotFoundError:  # the folder went with whoever stored the same result
            if not path.exists():
                raise
    shutil.rmtree(partial, ignore_errors=True)
    return stored


@_one_thread()
def run_member(
    config: Config,
    model: str,
    seed: int,
    partial: Path | None = None,
    advance: Callable[[int], None] = lambda steps: None,
    measured: bool = True,
    prepare: Callable[[Network], None] | None = None,
) -> xr.Dataset:
    """Train and measure one network, or find it done.

    The finished member and, while it trains, its checkpoint are kept in a folder, if there is one.
    `advance` is called with the number of training steps just taken. What is not `measured` says
    only how training went, and what was learned. `prepare` changes the network in place before its
    first step; nothing can be kept then.
    """
    if prepare is not None and partial is not None:
        raise ValueError(f"partial = {str(partial)!r}: must be None where the network is prepared.")
    stored = None if partial is None else _file(partial, config, model, seed)
    before = None if stored is None else _found(stored, load)
    if before is not None:
        advance(config.training.steps)
        return before
    task = task_of(config, seed)
    if partial is None and prepare is None:
        trained = _trained(config, model, seed, advance)
    else:
        trained = _train(config, model, seed, partial, advance, prepare)
    network, losses, snapshots, optimizer = trained
    fresh = tasks.sample(task, config.diagnostics.sequences, _rng(seed, Stream.DIAGNOSTICS))
    # Directions and null noise are the member's own: nulls of different models are independent.
    own = _seed(seed, Stream.MEASURE, int.from_bytes(model.encode()))
    dataset = measure(network, fresh, config.diagnostics, own) if measured else xr.Dataset()
    if snapshots:
        on_the_way = course(network, snapshots, fresh, task, config.diagnostics)
        dataset = dataset.merge(on_the_way)
    with torch.no_grad():
        predictions = network(fresh.inputs)
    test_loss = (predictions - fresh.targets).square().mean(dtype=torch.float64).item()
    variance = fresh.targets.var(correction=0).item()
    delays = np.arange(1, max(*task.lags, *config.diagnostics.lags) + 1)
    planted = np.zeros(len(delays))
    planted[np.array(task.lags) - 1] = task.coefficients
    learned = tasks.recovered_coefficients(task, fresh, predictions, list(delays)).double().numpy()
    base = base_rates(network, optimizer).numpy() if optimizer["state"] else None
    variables: dict[str, tuple[tuple[str, ...], Any, str]] = {
        "loss": (("step",), np.asarray(losses), "training loss of the minibatch"),
        "base_rate": (("unit",), base, "base rate Λ of a neuron, per unit of global learning rate"),
        "test_loss": ((), test_loss, "mean squared error on fresh sequences"),
        "target_variance": ((), variance, "variance of the target, the error of a constant"),
        "learned": (
            ("delay",),
            learned,
            "coefficient of the delayed input in the network's output",
        ),
        "planted": (("delay",), planted, "coefficient of the delayed input in the target"),
    }
    for name, (dims, values, meaning) in variables.items():
        if values is not None:
            dataset[name] = (dims, values, {"long_name": meaning})
    attributes = {"long_name": "delay", "units": "steps"}
    dataset = dataset.assign_coords(delay=("delay", delays, attributes))
    dataset.attrs["fingerprint"] = config.fingerprint
    if stored is not None:
        _keep(stored, functools.partial(results.save, dataset))
        stored.with_suffix(".checkpoint").unlink(missing_ok=True)
    return dataset


@_one_thread()
def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Networks of a configuration, float64 copies by model and seed, trained as in `run`, or as
    they start.

    Where the environment variable ``LWCORE_NETWORKS`` names a folder, networks are trained once for
    each configuration and code, and kept there; processes that ask for the same one at the same
    time wait for the first.
    """
    made = {
        member: _trained(config, *member).network if trained else _start(config, *member)
        for member in config.members
    }
    return {member: network.double() for member, network in made.items()}


def fresh_sequences(config: Config, seed: int, n_sequences: int | None = None) -> tasks.Sequences:
    """Float64 sequences on which `run` measures a seed's networks, which were trained on others."""
    count = config.diagnostics.sequences if n_sequences is None else n_sequences
    rng = _rng(seed, Stream.DIAGNOSTICS)
    return tasks.sample(task_of(config, seed), count, rng, torch.float64)


def traces(
    config: Config, members: Mapping[tuple[str, int], Network], n_sequences: int
) -> dict[tuple[str, int], Trace]:
    """Traces of networks, as `networks` gives them, over the first of their `fresh_sequences`."""
    fresh = {seed: fresh_sequences(config, seed, n_sequences).inputs for seed in config.seeds}
    return {member: network.cell.trace(fresh[member[1]]) for member, network in members.items()}


def task_of(config: Config, seed: int) -> tasks.DelayedRegression:
    """The task of a seed, Eq. (40), which all its models share."""
    settings = config.task
    direction = _rng(seed, Stream.TASK).standard_normal(settings.input_size)
    return tasks.DelayedRegression(
        settings.length, settings.lags, settings.coefficients, settings.noise, direction
    )


@contextmanager
def processes(workers: int | None = None) -> Iterator[Executor]:
    """Processes, one for every core, as an executor; an interrupt ends them at once."""
    context, before = multiprocessing.get_context("spawn"), multiprocessing.active_children()
    ignored = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(workers, context, initializer=signal.signal, initargs=ignored) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for child in set(multiprocessing.active_children()) - set(before):
                child.terminate()
            raise


def _made(
    config: Config | Sweep, executor: Executor | None, partial: Path | None, progress: bool
) -> xr.Dataset:
    """Do all members of all points, and gather them."""
    points = config.points()
    every: list[Job] = [(point, *member) for point in points.values() for member in point.members]
    if executor is None:
        total, unit = sum(point.training.steps for point, *_ in every), "training steps"
    else:
        total, unit = len(every), "networks"
    with bar(f"lw run {config.name}", total, unit, show=progress) as advance:
        if executor is None:
            done = {job: run_member(*job, partial, advance, config.measured) for job in every}
        else:
            done = {}
            for job, data in _spread(executor, every, partial, config.measured):
                done[job] = data
                advance(1)
    parts = []
    for labels, point in points.items():
        by_model = [
            xr.concat([done[point, model, seed] for seed in point.seeds], dim="seed")
            for model in point.models
        ]
        one = xr.concat(by_model, dim="model")
        one = one.assign_coords(model=list(point.models), seed=list(point.seeds))
        place = {axis: [label] for axis, label in zip(config.axes, labels, strict=True)}
        parts.append(_without_steps(one).expand_dims(place) if place else one)
    whole = parts[0]
    if config.axes:
        grid = {axis: [one.label for one in variants] for axis, variants in config.axes.items()}
        together = xr.combine_by_coords(
            parts, compat="no_conflicts", combine_attrs="drop", join="outer"
        )
        assert isinstance(together, xr.Dataset)
        whole = together.reindex(grid)
    whole.attrs = results.provenance(config)
    return whole


def _spread(
    executor: Executor, every: list[Job], partial: Path | None, measured: bool
) -> Iterator[tuple[Job, xr.Dataset]]:
    """Members that an executor does, as they end; behind one that fails no other begins."""
    code = results.code_fingerprint()
    futures = {executor.submit(_elsewhere, code, *job, partial, measured): job for job in every}
    try:
        for future in as_completed(futures):
            job, data = futures[future], future.result()
            if partial is not None and not _file(partial, *job).exists():
                _keep(_file(partial, *job), functools.partial(results.save, data))
            yield job, data
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _elsewhere(
    code: str, config: Config, model: str, seed: int, partial: Path | None, measured: bool
) -> xr.Dataset:
    """Do a member on a worker, whose code must be that of the process which asks for it."""
    if code != results.code_fingerprint():
        raise RuntimeError("A worker has another version of lwcore. Install this one there.")
    return run_member(config, model, seed, partial, measured=measured)


def _without_steps(one: xr.Dataset) -> xr.Dataset:
    """Put the end of training in the place of every step's loss."""
    tenth = one.sizes["step"] // 10
    if tenth:
        before = one.loss.isel(step=slice(-2 * tenth, -tenth)).mean("step")
        last = one.loss.isel(step=slice(-tenth, None)).mean("step")
        falling = 1 - last / before
        meaning = "training loss, mean over the last tenth of the steps"
        one["final_loss"] = last.assign_attrs(long_name=meaning)
        meaning = "share by which that is below the tenth before"
        one["still_falling"] = falling.assign_attrs(long_name=meaning)
    return one.drop_dims("step")


def _file(partial: Path, config: Config, model: str, seed: int) -> Path:
    """Where a finished member is kept; its checkpoint ends in ``.checkpoint``."""
    return partial / f"{config.name}-{model}-{seed}.nc"


def _keep(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file, unless its folder is on other disks, or gone as the result is stored."""
    if path.parent.is_dir():
        with suppress(FileNotFoundError):
            write(path)


def _found(path: Path, read: Callable[[Path], Found]) -> Found | None:
    """Read a file if it is there; one that is damaged is named, and what it held computed anew."""
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        warnings.warn(f"{error} What it held is computed anew.", stacklevel=2)
        return None


def save_checkpoint(path: Path, state: train.Progress, snapshots: Snapshots) -> None:
    """Store where a network is in its training."""
    whole = io.BytesIO()  # in memory first: a full disk is then an OSError
    torch.save(vars(state) | {"snapshots": snapshots}, whole)
    results.write_atomically(path, lambda part: part.write_bytes(whole.getvalue()))


def load_checkpoint(path: Path) -> tuple[train.Progress, Snapshots]:
    """Read a checkpoint, whose archive's checksums PyTorch does not look at; no code is run."""
    whole = io.BytesIO(path.read_bytes())
    try:
        if damaged := zipfile.ZipFile(whole).testzip():
            raise ValueError(f"the checksum of {damaged} does not fit")
        whole.seek(0)
        state = torch.load(whole, weights_only=True)
        snapshots = state.pop("snapshots")
        return train.Progress(**state), snapshots
    except Exception as error:  # torch.load raises what it likes
        raise ValueError(f"checkpoint {path} cannot be read ({error}).") from error


def _start(config: Config, model: str, seed: int) -> Network:
    """Make a network as it is before training."""
    generator = torch.Generator().manual_seed(_seed(seed, Stream.WEIGHTS))
    settings = config.network.model_dump()
    sizes = config.task.input_size, settings.pop("hidden_size")
    return Network(getattr(cells, model)(*sizes, generator=generator, **settings), generator)


def _trained(
    config: Config, model: str, seed: int, advance: Callable[[int], None] = lambda steps: None
) -> Trained:
    """Train a network, or read it where one like it was kept."""
    if "LWCORE_NETWORKS" not in os.environ:
        return _train(config, model, seed, advance=advance)
    from filelock import FileLock  # the book's, which alone keeps networks

    own = config.but(models=[model], seeds=[seed])  # whatever else a configuration holds
    folder = Path(os.environ["LWCORE_NETWORKS"]) / results.code_fingerprint()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{model}-{seed}-{own.fingerprint}.pt"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            trained = _train(config, model, seed, advance=advance)
            kept = (trained.network.state_dict(), *trained[1:])
            results.write_atomically(path, lambda part: torch.save(kept, part))
            return trained
    advance(config.training.steps)
    state, *rest = torch.load(path, weights_only=True)
    network = _start(config, model, seed)
    network.load_state_dict(state)
    return Trained(network, *rest)


def _train(
    config: Config,
    model: str,
    seed: int,
    partial: Path | None = None,
    advance: Callable[[int], None] = lambda steps: None,
    prepare: Callable[[Network], None] | None = None,
) -> Trained:
    """Train a network, from its last checkpoint if there is one."""
    settings = config.training
    network = _start(config, model, seed)
    if prepare is not None:
        prepare(network)
    checkpoint = partial and _file(partial, config, model, seed).with_suffix(".checkpoint")
    stored = checkpoint and _found(checkpoint, load_checkpoint)
    begun = {0: _copy(network)} if 0 in settings.snapshots else {}
    latest, snapshots = stored or (train.Progress(), begun)
    advance(latest.step)

    def on_step(state: train.Progress) -> None:
        nonlocal latest
        advance(1)
        latest = state
        if state.step in settings.snapshots:
            snapshots[state.step] = _copy(network)
        if checkpoint is not None and state.step % settings.checkpoint_every == 0:
            _keep(checkpoint, lambda path: save_checkpoint(path, state, snapshots))

    drawn = tasks.sample(task_of(config, seed), settings.sequences, _rng(seed, Stream.TRAINING))
    try:
        losses = train.fit(
            network,
            drawn,
            seed=_seed(seed, Stream.ORDER),
            **settings.model_dump(exclude={"sequences", "checkpoint_every", "snapshots"}),
            resume_from=latest if stored else None,
            on_step=on_step,
        )
    except FloatingPointError as error:
        raise FloatingPointError(f"{model}, seed {seed}: {error}") from error
    return Trained(network, losses, snapshots, latest.optimizer or {"state": {}})


def _copy(network: Network) -> dict[str, Any]:
    """Copy a network's state dictionary, which training goes on changing."""
    return {name: value.cpu().clone() for name, value in network.state_dict().items()}


def _seed(seed: int, stream: Stream, *more: int) -> int:
    """A 32-bit seed for one stream of a member."""
    return int(np.random.SeedSequence([seed, stream, *more]).generate_state(1)[0])


def _rng(seed: int, stream: Stream) -> np.random.Generator:
    """A NumPy generator for one stream of a member."""
    return np.random.default_rng(_seed(seed, stream))
