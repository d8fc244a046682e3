"""A run: every network of a configuration, at each point of its axes, trained, measured and stored.

The result is one file. Until it is there, finished members and checkpoints stand in a folder
``<name>-<configuration>-<code>.partial`` beside it. All these files are whole or not there at all,
so a run that was killed goes on from them and ends with the same bits. Nothing is locked: two
processes at the same run may do a member twice, with the same bits, too.
"""

from __future__ import annotations

import copy
import functools
import io
import multiprocessing
import shutil
import signal
import tempfile
import zipfile
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import closing, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from threadpoolctl import threadpool_limits

from lwcore import cells, results, tasks
from lwcore.config import Config, Model, Point, shipped
from lwcore.inference import described
from lwcore.measure import base_rates, course, measure
from lwcore.network import Network, Progress, fit, freed_memory_kept
from lwcore.results import bar, load
from lwcore.signatures import Count, Index, checked, warn
from lwcore.trace import Trace

__all__ = ["Config", "load", "run", "run_member", "shipped"]

Job = tuple[Config, Model, int, Path]  # what `run_member` takes
Snapshots = dict[int, dict[str, Any]]  # state dictionaries by the number of steps taken

# Independent sources of a member's randomness; models share task, sequences and order.
Stream = IntEnum("Stream", "TASK TRAINING DIAGNOSTICS ORDER WEIGHTS MEASURE", start=0)


@checked
def run(
    config: Config,
    executor: Executor | None = None,
    resume: bool = True,
    directory: str | Path | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Results of a configuration over its axes, model and seed.

    With a directory the result is ``<directory>/<name>.nc``, and what an earlier run of the same
    configuration has left there is used, unless `resume` is False; another configuration's result
    is not overwritten, but for that. Members run in this process, or on any
    `concurrent.futures.Executor`, whose workers keep checkpoints where they see the directory.

    With axes ``final_loss``, the mean over the last tenth of the steps, is kept in the place of
    every step's loss, and ``still_falling``, the share by which that is below the tenth before.
    """
    if directory is None:
        with tempfile.TemporaryDirectory() as folder:
            return run(config, executor, resume, folder, progress)
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
        except FileNotFoundError:  # another process has stored it, and removed the folder
            if not path.exists():
                raise
    shutil.rmtree(partial, ignore_errors=True)
    return stored


@threadpool_limits.wrap(limits=1)  # more sum in another order
@checked
@freed_memory_kept()
def run_member(
    config: Config,
    model: Model,
    seed: Index,
    checkpoint: Path | None = None,
    prepare: Callable[[Network], None] = lambda network: None,
) -> xr.Dataset:
    """One network's results: how training went, what was learned, and what is measured on it.

    It goes on from a checkpoint if there is one; `prepare` changes the network before its start.
    """
    network, task, settings = _start(config, model, seed), task_of(config, seed), config.diagnostics
    prepare(network)
    state, snapshots = _train(network, config, model, seed, checkpoint)
    fresh = tasks.sample(task, settings.sequences, _rng(seed, Stream.DIAGNOSTICS))
    # Directions and null noise are the member's own: nulls of different models are independent.
    own = _seed(seed, Stream.MEASURE, int.from_bytes(model.encode()))
    dataset = measure(network, fresh, settings, own) if config.measured else xr.Dataset()
    if snapshots:
        dataset = dataset.merge(course(network, snapshots, fresh, task, settings))
    with torch.no_grad():
        predictions = network(fresh.inputs)
    error = (predictions - fresh.targets).square().mean(dtype=torch.float64).item()
    variance = fresh.targets.var(correction=0).item()
    delays = list(range(1, max(*task.lags, *settings.lags) + 1))
    planted = dict.fromkeys(delays, 0.0) | dict(zip(task.lags, task.coefficients, strict=True))
    learned = tasks.recovered_coefficients(task, fresh, predictions, delays).double().numpy()
    found: dict[str, tuple[Any, Any, str]] = {
        "loss": ("step", state.losses, "training loss of the minibatch"),
        "test_loss": ((), error, "mean squared error on fresh sequences"),
        "target_variance": ((), variance, "variance of the target, the error of a constant"),
        "learned": ("delay", learned, "coefficient of the delayed input in the network's output"),
        "planted": ("delay", [*planted.values()], "coefficient of the delayed input in the target"),
    }
    if state.optimizer.get("state"):
        meaning = "base rate Λ of a neuron, per unit of global learning rate"
        found["base_rate"] = ("unit", base_rates(network, state.optimizer).numpy(), meaning)
    named = ("delay", delays, {"long_name": "delay", "units": "steps"})
    dataset = dataset.merge(described(found)).assign_coords(delay=named)
    return dataset.assign_attrs(fingerprint=config.fingerprint)


def _train(
    network: Network, config: Config, model: str, seed: int, checkpoint: Path | None = None
) -> tuple[Progress, Snapshots]:
    """Training in place: its last state, and snapshots of the network on the way."""
    settings, latest = config.training, Progress()
    snapshots = {0: copy.deepcopy(network.state_dict())} if 0 in settings.snapshots else {}
    if checkpoint and (stored := _found(checkpoint, load_checkpoint)):
        latest, snapshots = stored

    def on_step(state: Progress) -> None:
        nonlocal latest
        latest = state
        if state.step in settings.snapshots:
            snapshots[state.step] = copy.deepcopy(state.network)
        if checkpoint and state.step % settings.checkpoint_every == 0:
            _keep(checkpoint, lambda path: save_checkpoint(path, state, snapshots))

    drawn = tasks.sample(task_of(config, seed), settings.sequences, _rng(seed, Stream.TRAINING))
    try:
        fit(
            network,
            drawn,
            seed=_seed(seed, Stream.ORDER),
            **settings.model_dump(exclude={"sequences", "checkpoint_every", "snapshots"}),
            resume_from=latest if latest.step else None,
            on_step=on_step,
        )
    except FloatingPointError as error:
        raise FloatingPointError(f"{model}, seed {seed}: {error}") from error
    return latest, snapshots


@threadpool_limits.wrap(limits=1)  # more sum in another order
@checked
def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Networks in float64, by model and seed, trained as in `run` or as they start."""
    made: dict[tuple[str, int], Network] = {}
    for model, seed in config.members:
        network = _start(config, model, seed)
        if trained:
            _train(network, config, model, seed)
        made[model, seed] = network.double()
    return made


@checked
def task_of(config: Config, seed: Index) -> tasks.DelayedRegression:
    """The task of a seed, Eq. (40), which all its models share."""
    direction = _rng(seed, Stream.TASK).standard_normal(config.task.input_size)
    settings = config.task.model_dump(exclude={"input_size"})
    return tasks.DelayedRegression(**settings, direction=direction)


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


def processes() -> Executor:
    """Processes, one for every core, as an executor; Ctrl-C ends them at once."""
    ended = (signal.SIGINT, signal.SIG_DFL)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(None, context, signal.signal, ended)


def _made(config: Config, executor: Executor | None, partial: Path, show: bool) -> xr.Dataset:
    """Results of all members of all points, stored as they end, and gathered."""
    jobs: dict[Point, Job] = {}
    for number, (labels, point) in enumerate(config.points().items()):
        for model, seed in point.members:
            checkpoint = partial / f"{number}-{model}-{seed}.checkpoint"
            jobs[*labels, model, seed] = point, model, seed, checkpoint
    files = {key: checkpoint.with_suffix(".nc") for key, (*_, checkpoint) in jobs.items()}
    done = {key: found for key, path in files.items() if (found := _found(path, load))}
    missing = {key: job for key, job in jobs.items() if key not in done}
    with (
        bar(f"lw run {config.name}, networks", len(jobs), show) as advance,
        closing(_ended(missing, executor)) as ended,
    ):
        advance(len(done))
        for key, one in ended:
            done[key] = one
            _keep(files[key], functools.partial(results.save, one))
            advance(1)
    dims, parts = (*config.axes, "model", "seed"), []
    for key in jobs:
        one = _without_steps(done[key]) if config.axes else done[key]
        parts.append(one.expand_dims({dim: [at] for dim, at in zip(dims, key, strict=True)}))
    if len(widths := {one.sizes["unit"] for one in parts}) > 1:  # NaN beyond the last neuron
        parts = [one.pad(unit=(0, max(widths) - one.sizes["unit"])) for one in parts]
    whole: Any = xr.combine_by_coords(parts, compat="no_conflicts", combine_attrs="override")
    order = {dim: list(dict.fromkeys(key[at] for key in jobs)) for at, dim in enumerate(dims)}
    return whole.reindex(order).drop_attrs(deep=False).assign_attrs(results.provenance(config))


def _ended(
    jobs: dict[Point, Job], executor: Executor | None
) -> Generator[tuple[Point, xr.Dataset]]:
    """Results of members as they end; behind one that fails no other begins."""
    if executor is None:
        yield from ((key, run_member(*job)) for key, job in jobs.items())
        return
    elsewhere = functools.partial(_elsewhere, results.code_fingerprint())
    futures = {executor.submit(elsewhere, *job): key for key, job in jobs.items()}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _elsewhere(code: str, *job: Any) -> xr.Dataset:
    """A member done on a worker, whose code must be that of the process which asks for it."""
    if code != results.code_fingerprint():
        raise RuntimeError("A worker has another version of lwcore. Install this one there.")
    return run_member(*job)


def _without_steps(one: xr.Dataset) -> xr.Dataset:
    """A member with the end of training in the place of every step's loss."""
    if tenth := one.sizes["step"] // 10:
        before, last = one.loss[-2 * tenth : -tenth].mean(), one.loss[-tenth:].mean()
        words = "training loss, mean over the last tenth of the steps"
        one["final_loss"] = last.assign_attrs(long_name=words)
        words = "share by which that is below the tenth before"
        one["still_falling"] = (1 - last / before).assign_attrs(long_name=words)
    return one.drop_dims("step")


def _keep(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file, unless its folder is on other disks, or gone: then the result is stored."""
    if path.parent.is_dir():
        with suppress(FileNotFoundError):
            write(path)


def _found(path: Path, read: Callable[[Path], Any]) -> Any:
    """What a file holds, if it is there; one that is damaged is named, and not used."""
    with suppress(FileNotFoundError):
        try:
            return read(path)
        except ValueError as error:
            warn(f"{error} What it held is computed anew.")
    return None


def save_checkpoint(path: Path, state: Progress, snapshots: Snapshots) -> None:
    """Store where a network is in its training."""
    whole = io.BytesIO()  # in memory first: a full disk is then an OSError
    torch.save((vars(state), snapshots), whole)
    results.write_atomically(path, lambda part: part.write_bytes(whole.getvalue()))


def load_checkpoint(path: Path) -> tuple[Progress, Snapshots]:
    """Checkpoint in a file, verified by its archive's checksums; no code is run."""
    whole = io.BytesIO(path.read_bytes())
    try:
        if damaged := zipfile.ZipFile(whole).testzip():
            raise ValueError(f"the checksum of {damaged} does not fit")
        whole.seek(0)
        state, snapshots = torch.load(whole, weights_only=True)
        return Progress(**state), snapshots
    except Exception as error:  # torch.load raises what it likes
        raise ValueError(f"checkpoint {path} cannot be read ({error}).") from error


def _start(config: Config, model: str, seed: int) -> Network:
    """A network as it is before training."""
    generator = torch.Generator().manual_seed(_seed(seed, Stream.WEIGHTS))
    settings = config.network.model_dump() | {"input_size": config.task.input_size}
    return Network(getattr(cells, model)(**settings, generator=generator), generator)


def _seed(seed: int, stream: Stream, *more: int) -> int:
    """A 32-bit seed for one stream of a member."""
    return int(np.random.SeedSequence([seed, stream, *more]).generate_state(1)[0])


def _rng(seed: int, stream: Stream) -> np.random.Generator:
    """A NumPy generator for one stream of a member."""
    return np.random.default_rng(_seed(seed, stream))
