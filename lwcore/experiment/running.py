"""A run: every network of a configuration, at each point of its axes, trained, measured and stored.

The result is one file. Until it is there, finished members and checkpoints stand in a folder
``<name>-<configuration>-<code>.partial`` beside it, where "code" stands for all that computes: the
package, the versions of its libraries, the processor. Each file is whole or not there, so a run
that was killed goes on from them and ends with the same bits. Nothing is locked: two processes at
the same run may do a member twice, with the same bits, too.
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
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import closing, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from lwcore import cells, results, tasks
from lwcore.ambient import warn
from lwcore.experiment import surroundings
from lwcore.experiment.config import Config, Model, Point
from lwcore.experiment.measure import base_rates, course, measure
from lwcore.inference import described
from lwcore.network import Network, Progress, keep_freed_memory, train
from lwcore.results import bar, load
from lwcore.signatures import Int64Count, Seed, checked, require
from lwcore.trace import Trace

Job = tuple[Config, Model, int, Path]  # configuration, model, seed, checkpoint: see `run_member`
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
    """Train and measure all networks of a configuration; return one dataset of their results.

    For its variables see :ref:`api-run-data`.
    With a directory the result is ``<directory>/<name>.nc``, and what an earlier run of the same
    configuration has left there is used; a warning says if other code made it. Another
    configuration's result is overwritten only where `resume` is False. With axes the loss of every
    step is not kept.

    Args:
        executor: Where members run; in this process if None. Use `process_pool`, or any
            `concurrent.futures.Executor` whose workers have the same versions on the same kind of
            processor. Threads of one process take turns.
        resume: Whether to go on from what is there, and to return a result that is there.
        directory: Folder of the result; nothing is kept if None.
        progress: Whether to draw a bar.

    Examples:
        >>> quick = Config.named("quick").replace(seeds=[0], training={"steps": 10}, measured=False)
        >>> run(quick, progress=False).test_loss.dims
        ('model', 'seed')
    """
    if directory is None:
        with tempfile.TemporaryDirectory() as folder:
            return run(config, executor, resume, folder, progress)
    path = Path(directory).absolute() / f"{config.name}.nc"
    require("directory", str(directory), not path.is_dir(), f"one without a folder {path.name}")
    of_configuration = f"{config.name}-{config.fingerprint}-"
    partial = path.with_name(f"{of_configuration}{surroundings.fingerprint()}.partial")
    if resume and path.exists():
        stored = _result_of(config, path)
    else:
        if not resume:
            shutil.rmtree(partial, ignore_errors=True)
        for other in sorted(path.parent.glob(f"{of_configuration}*.partial")):
            if other != partial:
                warn(f"{other} is left from a run by other code or libraries, and is not used.")
        partial.mkdir(parents=True, exist_ok=True)
        computed = _run_members(config, executor, partial, progress)
        stored = _put_in_place(computed, config, partial, path, resume)
    shutil.rmtree(partial, ignore_errors=True)
    return stored


def _result_of(config: Config, path: Path) -> xr.Dataset:
    """Load the result of a configuration; refuse another's, and say if something else made it."""
    stored = load(path)
    try:
        is_the_same = Config.stored(stored.attrs) == config
    except ValueError:  # one that this version does not know
        is_the_same = False
    if not is_the_same:
        raise FileExistsError(
            f"{path} holds another configuration of the same name (other seeds, say). Move it, "
            "choose another directory, or overwrite it with resume=False (--no-resume)."
        )
    here = results.environment() | {"arithmetic": surroundings.arithmetic()}
    differences = []
    for key in ("code", "versions", "machine", "arithmetic"):
        there = stored.attrs.get(key, here[key])  # older results do not name the arithmetic
        if there != here[key]:
            differences.append(f"{key} {there}, here {here[key]}")
    if differences:
        warn(
            f"{path} was made by something else than what runs here ({'; '.join(differences)}). It "
            "is returned as it is. To compute it anew: resume=False (--no-resume)."
        )
    return stored


def _put_in_place(
    dataset: xr.Dataset, config: Config, partial: Path, path: Path, resume: bool
) -> xr.Dataset:
    """Store a result in its place, and return what stands there then.

    Another run may have stored one meanwhile: that of the same configuration is as good as ours,
    another's is refused as at the start. Of two that store at once the last stays.
    """
    ready = partial / path.name  # what is cut short in a write goes with this folder
    try:
        results.save(dataset, ready)
        if resume and path.exists():
            return _result_of(config, path)
        ready.replace(path)
        return dataset
    except FileNotFoundError:  # another process has stored the same result, and removed the folder
        return _result_of(config, path)


@surroundings.held()
@checked
def run_member(
    config: Config,
    model: Model,
    seed: Seed,
    checkpoint: Path | None = None,
) -> xr.Dataset:
    """Train one network and return its results: training, what was learned, what is measured on it.

    Args:
        checkpoint: File from which training goes on if it is there, and into which it is stored.
    """
    settings = config.diagnostics
    task = task_of(config, seed)
    network = _start(config, model, seed)
    state, snapshots = _train(network, config, model, seed, checkpoint)
    fresh = tasks.sample(task, settings.sequences, _rng(seed, Stream.DIAGNOSTICS))
    dataset = xr.Dataset()
    if config.measured:
        # Directions and null noise are the member's own: nulls of different models are independent.
        own_seed = _seed(seed, Stream.MEASURE, int.from_bytes(model.encode()))
        dataset = measure(network, fresh, settings, own_seed)
    if snapshots:
        dataset = dataset.merge(course(network, snapshots, fresh, task, settings))
    loss = ("step", state.losses, "training loss of the minibatch")
    dataset = dataset.merge(described({"loss": loss}))
    dataset = dataset.merge(_learned(network, task, fresh, settings.lags))
    if state.optimizer.get("state"):
        rates = base_rates(network, state.optimizer).numpy()
        base_rate = ("unit", rates, "base rate Λ of a neuron, per unit of global learning rate")
        dataset = dataset.merge(described({"base_rate": base_rate}))
    member = _member_name(config, model, seed)
    return dataset.assign_attrs(fingerprint=config.fingerprint, member=member)


def _learned(
    network: Network, task: tasks.DelayedRegression, fresh: tasks.Sequences, lags: Sequence[int]
) -> xr.Dataset:
    """Return the error on fresh sequences, and what is learned of each delay.

    Delays go from 1 to the longest of the lags that are measured, and of the task's.
    """
    with torch.no_grad():
        predictions = network(fresh.inputs)
    error = (predictions - fresh.targets).square().mean(dtype=torch.float64)
    variance = fresh.targets.var(correction=0)
    delays = list(range(1, max(*task.lags, *lags) + 1))
    coefficients = dict(zip(task.lags, task.coefficients, strict=True))
    planted = [coefficients.get(delay, 0.0) for delay in delays]
    learned = tasks.recovered_coefficients(task, fresh, predictions, delays).double()
    data = described(
        {
            "test_loss": ((), error.item(), "mean squared error on fresh sequences"),
            "target_variance": (
                (),
                variance.item(),
                "variance of the target, the error of a constant",
            ),
            "learned": (
                "delay",
                learned.numpy(),
                "coefficient of the delayed input in the network's output",
            ),
            "planted": ("delay", planted, "coefficient of the delayed input in the target"),
        }
    )
    about_delays = {"long_name": "delay", "units": "steps"}
    return data.assign_coords(delay=("delay", delays, about_delays))


def _train(
    network: Network, config: Config, model: str, seed: int, checkpoint: Path | None = None
) -> tuple[Progress, Snapshots]:
    """Train a network, from a checkpoint if there is one; return last state and snapshots."""
    settings = config.training
    latest = Progress()
    snapshots = {}
    if 0 in settings.snapshots:
        snapshots[0] = copy.deepcopy(network.state_dict())
    member = _member_name(config, model, seed)
    read = functools.partial(load_checkpoint, member=member)
    stored = _load_if_present(checkpoint, read) if checkpoint else None
    if stored is not None:
        latest, snapshots = stored

    def on_step(state: Progress) -> None:
        nonlocal latest
        latest = state
        if state.step in settings.snapshots:
            snapshots[state.step] = copy.deepcopy(state.network)
        if checkpoint and state.step % settings.checkpoint_every == 0:
            _write_if_folder_exists(
                checkpoint, lambda path: save_checkpoint(path, state, snapshots, member)
            )

    drawn = tasks.sample(task_of(config, seed), settings.sequences, _rng(seed, Stream.TRAINING))
    try:
        train(
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


@surroundings.held()
@checked
def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Return networks in float64, by model and seed, trained as in `run` or as they start.

    Every call trains them anew, one after the other; nothing is stored.
    """
    by_member: dict[tuple[str, int], Network] = {}
    for model, seed in config.members:
        network = _start(config, model, seed)
        if trained:
            _train(network, config, model, seed)
        by_member[model, seed] = network.double()
    return by_member


@checked
def task_of(config: Config, seed: Seed) -> tasks.DelayedRegression:
    """Return the task of a seed, Eq. (40), which all its models share.

    The seed draws the direction of the inputs that counts; delays and coefficients are settings.
    """
    direction = _rng(seed, Stream.TASK).standard_normal(config.task.input_size)
    settings = config.task.model_dump(exclude={"input_size"})
    return tasks.DelayedRegression(**settings, direction=direction)


@checked
def fresh_sequences(
    config: Config, seed: Seed, n_sequences: Int64Count | None = None
) -> tasks.Sequences:
    """Draw the sequences on which `run` measures a seed's networks, or the first, in float64."""
    count = n_sequences or config.diagnostics.sequences
    rng = _rng(seed, Stream.DIAGNOSTICS)
    return tasks.sample(task_of(config, seed), count, rng, torch.float64)


@checked
def traces(
    config: Config, members: Mapping[tuple[str, int], Network], n_sequences: Int64Count
) -> dict[tuple[str, int], Trace]:
    """Scan the first `fresh_sequences` of its seed with each of the `networks`."""
    inputs = {seed: fresh_sequences(config, seed, n_sequences).inputs for seed in config.seeds}
    by_member = {}
    for (model, seed), network in members.items():
        by_member[model, seed] = network.cell.trace(inputs[seed])
    return by_member


def process_pool() -> Executor:
    """Return processes, one for every core, as an executor; Ctrl-C ends them at once.

    A script calls it below ``if __name__ == "__main__":``: every process imports the script anew.
    """
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(None, context, _begin_worker)


def _begin_worker() -> None:
    """Let Ctrl-C end a process of a pool at once, and keep the memory that its trainings free."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_freed_memory()


def _run_members(
    config: Config, executor: Executor | None, partial: Path, show: bool
) -> xr.Dataset:
    """Run all members of all points that are not yet stored in `partial`; return all, gathered."""
    # Of the code that runs: the checkout may be another when the last network is trained.
    made_by = {
        "name": config.name,
        "description": config.description,
        "configuration": config.model_dump_json(),
        "fingerprint": config.fingerprint,
        **results.environment(),
        "arithmetic": surroundings.arithmetic(),
    }
    jobs: dict[Point, Job] = {}
    files: dict[Point, Path] = {}
    done: dict[Point, xr.Dataset] = {}
    for number, (labels, point) in enumerate(config.points().items()):
        for model, seed in point.members:
            key = (*labels, model, seed)
            files[key] = partial / f"{number}-{model}-{seed}.nc"
            jobs[key] = (point, model, seed, files[key].with_suffix(".checkpoint"))
            read = functools.partial(_load_member, member=_member_name(point, model, seed))
            stored = _load_if_present(files[key], read)
            if stored is not None:
                done[key] = stored
    missing = {key: job for key, job in jobs.items() if key not in done}
    with (
        bar(f"lw run {config.name}, networks", len(jobs), show) as advance,
        closing(_as_completed(missing, executor)) as completed,
    ):
        advance(len(done))
        for key, member in completed:
            done[key] = member
            _write_if_folder_exists(files[key], functools.partial(results.save, member))
            advance(1)
    in_order = {key: done[key] for key in jobs}
    with surroundings.plain_xarray():
        whole = _gathered(config, in_order)
    return whole.assign_attrs(made_by)


def _gathered(config: Config, members: dict[Point, xr.Dataset]) -> xr.Dataset:
    """Put members side by side, in the order of axes, models and seeds.

    Points may differ in width, lags and delays: NaN stands where one has none.
    """
    dims = (*config.axes, "model", "seed")
    # A member has neurons if they were measured, or have base rates: not after gradient descent.
    width = max(member.sizes.get("unit", 0) for member in members.values())
    parts = []
    for key, member in members.items():
        part = member.drop_dims("step") if config.axes else member
        n_missing = width - part.sizes.get("unit", width)
        if n_missing:
            part = part.pad(unit=(0, n_missing))
        labels = {dim: [label] for dim, label in zip(dims, key, strict=True)}
        parts.append(part.expand_dims(labels))
    # first: unlike lags or delays are a part of the grid for `combine_by_coords`
    aligned = xr.align(*parts, join="outer", exclude=dims)
    whole: Any = xr.combine_by_coords(
        aligned,
        compat="no_conflicts",
        combine_attrs="override",
        # xarray's defaults, which it is about to change
        data_vars="all",
        coords="different",
        join="outer",
    )
    order = {}
    for dim, labels_of_dim in zip(dims, zip(*members, strict=True), strict=True):
        order[dim] = list(dict.fromkeys(labels_of_dim))
    return whole.reindex(order).drop_attrs(deep=False)


def _as_completed(
    jobs: dict[Point, Job], executor: Executor | None
) -> Generator[tuple[Point, xr.Dataset]]:
    """Yield members as they finish. After the first failure no further member is started."""
    if executor is None:
        for key, job in jobs.items():
            yield key, run_member(*job)
        return
    on_worker = functools.partial(_run_on_worker, surroundings.fingerprint())
    futures = {executor.submit(on_worker, *job): key for key, job in jobs.items()}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _run_on_worker(made_by: str, *job: Any) -> xr.Dataset:
    """Run a member on a worker, of the code and surroundings of the process that asks."""
    if made_by != surroundings.fingerprint():
        raise RuntimeError(
            f"A worker computes other bits than the process that asks for them: it has the code "
            f"{results.code_fingerprint()} and {results.versions()} on a processor whose "
            f"arithmetic goes by {surroundings.arithmetic()}. Use workers, and a process that "
            "asks, with the same lwcore and versions on the same kind of processor."
        )
    return run_member(*job)


def _write_if_folder_exists(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file, unless its folder is on other disks, or gone: the whole result is stored."""
    if path.parent.is_dir():
        with suppress(FileNotFoundError):
            write(path)


def _load_if_present(path: Path, read: Callable[[Path], Any]) -> Any:
    """Return what a file holds, or None; one that is damaged is named, and not used."""
    with suppress(FileNotFoundError):
        try:
            return read(path)
        except ValueError as error:
            warn(f"{error} What it held is computed anew.")
    return None


def _member_name(config: Config, model: str, seed: int) -> str:
    """Return what tells a network of a run from all others, whatever the name of its file."""
    return f"{config.fingerprint}-{model}-{seed}"


def _load_member(path: Path, member: str) -> xr.Dataset:
    """Load what a finished member has stored; refuse another member's: files can be renamed."""
    stored = load(path)
    stored_member = stored.attrs.get("member")
    if stored_member != member:
        raise ValueError(f"{path} is of the member {stored_member}, not of {member}.")
    return stored


def save_checkpoint(path: Path, state: Progress, snapshots: Snapshots, member: str = "") -> None:
    """Store where a network, the `member`, is in its training, with its snapshots, atomically."""
    content = io.BytesIO()  # in memory first: a full disk is then an OSError
    torch.save((vars(state), snapshots, member), content)
    results.write_atomically(path, lambda temporary: temporary.write_bytes(content.getvalue()))


@checked
def load_checkpoint(path: Path, member: str | None = None) -> tuple[Progress, Snapshots]:
    """Read a checkpoint, verified by its archive's checksums; no code in it is run.

    Raises:
        ValueError: If the file is damaged, or something else, or of another network than `member`.
    """
    content = io.BytesIO(path.read_bytes())
    try:
        damaged = zipfile.ZipFile(content).testzip()
        if damaged:
            raise ValueError(f"the checksum of {damaged} does not fit")
        content.seek(0)
        progress, snapshots, stored_member = torch.load(content, weights_only=True)
        if member is not None and stored_member != member:
            raise ValueError(f"it is of the member {stored_member}, not of {member}")
        return Progress(**progress), snapshots
    except Exception as error:  # torch.load raises what it likes
        raise ValueError(f"checkpoint {path} cannot be read ({error}).") from error


def _start(config: Config, model: str, seed: int) -> Network:
    """Return a network as it is before training."""
    generator = torch.Generator().manual_seed(_seed(seed, Stream.WEIGHTS))
    family = getattr(cells.gated, model)
    settings = config.network.model_dump()
    cell = family(config.task.input_size, **settings, generator=generator)
    return Network(cell, generator)


def _seed(seed: int, stream: Stream, *more: int) -> int:
    """Return a 32-bit seed for one stream of a member's random numbers."""
    sequence = np.random.SeedSequence([seed, stream, *more])
    return int(sequence.generate_state(1)[0])


def _rng(seed: int, stream: Stream) -> np.random.Generator:
    """Return a NumPy generator for one stream of a member's random numbers."""
    return np.random.default_rng(_seed(seed, stream))
