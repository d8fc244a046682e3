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
from lwcore.config import Config, Model, Sweep, shipped
from lwcore.course import base_rates, course
from lwcore.measure import measure
from lwcore.network import Network
from lwcore.results import bar, load
from lwcore.signatures import Count, Index, checked
from lwcore.trace import Trace

__all__ = ["Config", "Sweep", "load", "run", "run_member", "shipped"]

Advance = Callable[[int], None]  # called with the number of training steps just taken
Job = tuple[Config, Model, int]  # a member: its configuration, model, seed
Snapshots = dict[int, dict[str, Any]]  # state dictionaries by the number of steps taken
Found = TypeVar("Found")


class Stream(IntEnum):
    """Independent sources of a member's randomness; models share task, sequences and order."""

    TASK = 0
    TRAINING = 1
    DIAGNOSTICS = 2
    ORDER = 3
    WEIGHTS = 4
    MEASURE = 5


class Trained(NamedTuple):
    """A network, the loss of every step, snapshots, and the optimiser's last state dictionary."""

    network: Network
    losses: list[float]
    snapshots: Snapshots
    optimizer: dict[str, Any]


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread: small matrices gain nothing from more, which sum in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@checked
def run(
    config: Config | Sweep,
    executor: Executor | None = None,
    resume: bool = True,
    directory: str | Path | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Results of a configuration over model and seed, of a sweep over its axes, too.

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
        partial.mkdir(parents=True, exist_ok=True)
        stored = _made(config, executor, partial, progress)
        try:
            results.save(stored, partial / path.name)
            (partial / path.name).replace(path)
        except FileNotFoundError:  # another process has stored the same, and removed the folder
            if not path.exists():
                raise
    shutil.rmtree(partial, ignore_errors=True)
    return stored


@checked
def run_member(
    config: Config,
    model: Model,
    seed: Index,
    partial: Path | None = None,
    advance: Advance = lambda steps: None,
    measured: bool = True,
) -> xr.Dataset:
    """One network's results, found in a folder or made; in the folder it keeps its checkpoint, too.

    What is not `measured` says only how training went, and what was learned.
    """
    stored = partial and _file(partial, config, model, seed)
    before = None if stored is None else _found(stored, load)
    if before is not None:
        advance(config.training.steps)
        return before
    trained = train_member(config, model, seed, partial, advance)
    dataset = measure_member(config, model, seed, trained, measured)
    if stored is not None:
        _keep(stored, functools.partial(results.save, dataset))
        stored.with_suffix(".checkpoint").unlink(missing_ok=True)
    return dataset


@_one_thread()
def train_member(
    config: Config,
    model: str,
    seed: int,
    partial: Path | None = None,
    advance: Advance = lambda steps: None,
    prepare: Callable[[Network], None] = lambda network: None,
) -> Trained:
    """A network trained, from its checkpoint in a folder if one is there.

    `prepare` changes the network in place before its first step; give no folder then.
    """
    settings, network = config.training, _start(config, model, seed)
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


@_one_thread()
def measure_member(
    config: Config, model: str, seed: int, trained: Trained, measured: bool = True
) -> xr.Dataset:
    """How training went, what was learned, and if `measured` rates, statistics and windows."""
    network, losses, snapshots, optimizer = trained
    task, rng = task_of(config, seed), _rng(seed, Stream.DIAGNOSTICS)
    fresh = tasks.sample(task, config.diagnostics.sequences, rng)
    # Directions and null noise are the member's own: nulls of different models are independent.
    own = _seed(seed, Stream.MEASURE, int.from_bytes(model.encode()))
    dataset = measure(network, fresh, config.diagnostics, own) if measured else xr.Dataset()
    if snapshots:
        dataset = dataset.merge(course(network, snapshots, fresh, task, config.diagnostics))
    with torch.no_grad():
        predictions = network(fresh.inputs)
    error = (predictions - fresh.targets).square().mean(dtype=torch.float64).item()
    variance = fresh.targets.var(correction=0).item()
    delays = np.arange(1, max(*task.lags, *config.diagnostics.lags) + 1)
    planted = np.zeros(len(delays))
    planted[np.array(task.lags) - 1] = task.coefficients
    learned = tasks.recovered_coefficients(task, fresh, predictions, list(delays)).double().numpy()
    found: dict[str, tuple[Any, Any, str]] = {
        "loss": ("step", losses, "training loss of the minibatch"),
        "test_loss": ((), error, "mean squared error on fresh sequences"),
        "target_variance": ((), variance, "variance of the target, the error of a constant"),
        "learned": ("delay", learned, "coefficient of the delayed input in the network's output"),
        "planted": ("delay", planted, "coefficient of the delayed input in the target"),
    }
    if optimizer["state"]:
        meaning = "base rate Λ of a neuron, per unit of global learning rate"
        found["base_rate"] = ("unit", base_rates(network, optimizer).numpy(), meaning)
    for name, (dims, values, meaning) in found.items():
        dataset[name] = (dims, values, {"long_name": meaning})
    named = ("delay", delays, {"long_name": "delay", "units": "steps"})
    return dataset.assign_coords(delay=named).assign_attrs(fingerprint=config.fingerprint)


@_one_thread()
@checked
def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Networks in float64, by model and seed, trained as in `run` or as they start."""
    return {
        member: (
            train_member(config, *member).network if trained else _start(config, *member)
        ).double()
        for member in config.members
    }


@checked
def fresh_sequences(
    config: Config, seed: Index, n_sequences: Count | None = None
) -> tasks.Sequences:
    """Float64 sequences on which `run` measures a seed's networks, which were trained on others."""
    count = n_sequences or config.diagnostics.sequences
    rng = _rng(seed, Stream.DIAGNOSTICS)
    return tasks.sample(task_of(config, seed), count, rng, torch.float64)


@checked
def traces(
    config: Config, members: Mapping[tuple[str, int], Network], n_sequences: Count
) -> dict[tuple[str, int], Trace]:
    """Traces of networks, as `networks` gives them, over the first of their `fresh_sequences`."""
    fresh = {seed: fresh_sequences(config, seed, n_sequences).inputs for seed in config.seeds}
    return {member: network.cell.trace(fresh[member[1]]) for member, network in members.items()}


@checked
def task_of(config: Config, seed: Index) -> tasks.DelayedRegression:
    """The task of a seed, Eq. (40), which all its models share."""
    settings = config.task
    direction = _rng(seed, Stream.TASK).standard_normal(settings.input_size)
    return tasks.DelayedRegression(
        settings.length, settings.lags, settings.coefficients, settings.noise, direction
    )


@checked
def processes(workers: Count | None = None) -> Executor:
    """Processes, one for every core, as an executor; Ctrl-C ends them at once."""
    ended = (signal.SIGINT, signal.SIG_DFL)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=signal.signal, initargs=ended)


def _made(
    config: Config | Sweep, executor: Executor | None, partial: Path | None, progress: bool
) -> xr.Dataset:
    """Results of all members of all points, gathered."""
    points = config.points()
    every: list[Job] = [(point, *member) for point in points.values() for member in point.members]
    steps = sum(point.training.steps for point, *_ in every)
    with bar(f"lw run {config.name}, training steps", steps, progress) as advance:
        if executor is None:
            done = {job: run_member(*job, partial, advance, config.measured) for job in every}
        else:
            done = _spread(executor, every, partial, advance, config.measured)
    parts = []
    for labels, point in points.items():
        place = {axis: [label] for axis, label in zip(config.axes, labels, strict=True)}
        for model, seed in point.members:
            one = done[point, model, seed]
            one = _without_steps(one) if place else one
            parts.append(one.expand_dims(place | {"model": [model], "seed": [seed]}))
    order: dict[str, Any] = {axis: [one.label for one in of] for axis, of in config.axes.items()}
    order["model"] = list(dict.fromkeys(model for _, model, _ in every))
    order["seed"] = list(dict.fromkeys(seed for _, _, seed in every))
    whole: Any = xr.combine_by_coords(parts, compat="no_conflicts", combine_attrs="override")
    return whole.reindex(order).drop_attrs(deep=False).assign_attrs(results.provenance(config))


def _spread(
    executor: Executor, every: list[Job], partial: Path | None, advance: Advance, measured: bool
) -> dict[Job, xr.Dataset]:
    """Results of members that an executor does; behind one that fails no other begins."""
    code, done = results.code_fingerprint(), {}
    futures = {executor.submit(_elsewhere, code, *job, partial, measured): job for job in every}
    try:
        for future in as_completed(futures):
            job = futures[future]
            done[job] = future.result()
            if partial is not None and not _file(partial, *job).exists():
                _keep(_file(partial, *job), functools.partial(results.save, done[job]))
            advance(job[0].training.steps)
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return done


def _elsewhere(
    code: str, config: Config, model: Model, seed: int, partial: Path | None, measured: bool
) -> xr.Dataset:
    """A member done on a worker, whose code must be that of the process which asks for it."""
    if code != results.code_fingerprint():
        raise RuntimeError("A worker has another version of lwcore. Install this one there.")
    return run_member(config, model, seed, partial, measured=measured)


def _without_steps(one: xr.Dataset) -> xr.Dataset:
    """A member with the end of training in the place of every step's loss."""
    tenth = one.sizes["step"] // 10
    if tenth:
        before = one.loss.isel(step=slice(-2 * tenth, -tenth)).mean("step")
        last = one.loss.isel(step=slice(-tenth, None)).mean("step")
        meaning = "training loss, mean over the last tenth of the steps"
        one["final_loss"] = last.assign_attrs(long_name=meaning)
        meaning = "share by which that is below the tenth before"
        one["still_falling"] = (1 - last / before).assign_attrs(long_name=meaning)
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
    """What a file holds, if it is there; one that is damaged is named, and not used."""
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
    """Checkpoint in a file, verified by its archive's checksums; no code is run."""
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
    """A network as it is before training."""
    generator = torch.Generator().manual_seed(_seed(seed, Stream.WEIGHTS))
    settings = config.network.model_dump()
    sizes = config.task.input_size, settings.pop("hidden_size")
    return Network(getattr(cells, model)(*sizes, generator=generator, **settings), generator)


def _copy(network: Network) -> dict[str, Any]:
    """A copy of a network's state dictionary, which training goes on changing."""
    return {name: value.clone() for name, value in network.state_dict().items()}


def _seed(seed: int, stream: Stream, *more: int) -> int:
    """A 32-bit seed for one stream of a member."""
    return int(np.random.SeedSequence([seed, stream, *more]).generate_state(1)[0])


def _rng(seed: int, stream: Stream) -> np.random.Generator:
    """A NumPy generator for one stream of a member."""
    return np.random.default_rng(_seed(seed, stream))
