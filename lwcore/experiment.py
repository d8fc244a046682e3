"""Running a configuration: every (model, seed) member is trained, measured and stored; what is there already is not done again."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from filelock import FileLock

from lwcore import cells, checkpoints, results, tasks, train, unfinished
from lwcore.adaptive import base_rates
from lwcore.cells import Trace
from lwcore.config import Config, shipped
from lwcore.course import course
from lwcore.measure import measure
from lwcore.network import Network
from lwcore.progress import bar
from lwcore.results import load
from lwcore.unfinished import Job

__all__ = ["Config", "load", "run", "run_member", "shipped"]


class Stream(IntEnum):
    """The independent sources of randomness of a member. All models of one seed share task, sequences and order, to be comparable."""

    TASK = 0
    TRAINING = 1
    DIAGNOSTICS = 2
    ORDER = 3
    WEIGHTS = 4
    MEASURE = 5


class Trained(NamedTuple):
    """A network behind its training.

    Attributes:
        network: The network.
        losses: The minibatch loss of every step.
        snapshots: State dictionaries of the network on the way, by the number of steps taken.
        optimizer: State dictionary of the optimiser behind the last step.
    """

    network: Network
    losses: list[float]
    snapshots: dict[int, dict[str, Any]]
    optimizer: dict[str, Any]


def run(
    config: Config,
    executor: Executor | None = None,
    resume: bool = True,
    directory: str | Path | None = None,
    progress: bool = True,
    device: str = "cpu",
    measured: bool = True,
) -> xr.Dataset:
    """Train and measure every member of a configuration.

    With a directory, the result is ``<directory>/<name>.nc``; while the run goes on, finished members and training checkpoints stand in
    ``<directory>/<name>-<configuration>-<code>.partial``, so that a killed run can go on from there and ends with the same bits. Several
    processes may be started on the same run, also on several machines that share the folder: each member is done by one of them, and all
    give the same result. Files are verified before they are used; one that is damaged is set aside with a warning, and what it held is
    computed anew.

    Args:
        config: The configuration.
        executor: Where members run, any `concurrent.futures.Executor`; one after the other in this process if None. Its workers need not
            see the directory: what they cannot store is stored here, but they keep no checkpoints then.
        resume: Use what an earlier run of the same configuration has left: its result, its finished members, its checkpoints. False
            starts anew, unless another process is at it.
        directory: Where to keep results; None keeps everything in memory only.
        progress: Draw a progress bar, on standard error (in a notebook, in the cell's output).
        device: Where networks are trained. On any but ``"cpu"`` all seeds of a model are trained together, in this process; measuring
            stays on the processor.
        measured: Measure rates, statistics and windows; otherwise only how training went, and what was learned, is kept. The two belong
            into different directories.

    Returns:
        The results over model, seed and the dimensions of `measure`, with their provenance in the attributes.

    Raises:
        FileExistsError: If a result of another configuration stands under the same name and `resume` is set; or if it is not, and another
            process is at the same run.
        OSError: If a file cannot be written; what was finished is kept.
        ValueError: If the directory is a file, there is no such device, or an executor as well.
    """
    if train.device_of(device).type != "cpu" and executor is not None:
        raise ValueError(f"device = {device!r}: trains in this process; must be 'cpu' with an executor.")
    partial = None if directory is None else unfinished.folder_of(config, Path(directory))

    def make() -> xr.Dataset:
        done = _members(config, executor, partial, progress, device, measured)
        by_model = [xr.concat([done[model, seed] for seed in config.seeds], dim="seed") for model in config.models]
        dataset = xr.concat(by_model, dim="model").assign_coords(model=list(config.models), seed=list(config.seeds))
        dataset.attrs = results.provenance(config)
        return dataset

    return make() if partial is None else unfinished.once(config, partial, _names(config), make, resume)


def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Give the networks of a configuration themselves, in memory, for a closer look than `measure` takes.

    Where the environment variable ``LWCORE_NETWORKS`` names a folder, networks are trained once for each configuration and code, and kept
    there; processes that ask for the same one at the same time wait for the first.

    Args:
        config: The configuration.
        trained: Train them, exactly as `run` does; otherwise they are as `run` finds them before its first step.

    Returns:
        A float64 copy of each network, by model and seed.
    """
    with _one_thread():
        made = ((_trained(config, *member).network if trained else _start(config, *member)) for member in config.members)
        return {member: network.double() for member, network in zip(config.members, made, strict=True)}


def fresh_sequences(config: Config, seed: int, n_sequences: int | None = None) -> tasks.Sequences:
    """Draw the sequences on which `run` measures a seed's networks, none of which they were trained on.

    Args:
        config: The configuration.
        seed: The members' seed, which they share their task and sequences with.
        n_sequences: How many; as many as the configuration says if None.

    Returns:
        Inputs and targets, in float64.
    """
    count = config.diagnostics.sequences if n_sequences is None else n_sequences
    return tasks.sample(task_of(config, seed), count, _rng(seed, Stream.DIAGNOSTICS), torch.float64)


def traces(config: Config, members: Mapping[tuple[str, int], Network], n_sequences: int) -> dict[tuple[str, int], Trace]:
    """Let networks scan the first of their `fresh_sequences`.

    Args:
        config: The configuration.
        members: Networks, as `networks` gives them.
        n_sequences: How many sequences.

    Returns:
        A trace of each network's cell, by model and seed.
    """
    fresh = {seed: fresh_sequences(config, seed, n_sequences).inputs for seed in config.seeds}
    return {(model, seed): network.cell.trace(fresh[seed]) for (model, seed), network in members.items()}


def task_of(config: Config, seed: int) -> tasks.DelayedRegression:
    """Draw a seed's task, Eq. (40): all models of the seed learn the same.

    Args:
        config: The configuration.
        seed: The members' seed.

    Returns:
        The task.
    """
    settings = config.task
    direction = _rng(seed, Stream.TASK).standard_normal(settings.input_size)
    return tasks.DelayedRegression(settings.length, settings.lags, settings.coefficients, settings.noise, direction)


def _members(
    config: Config, executor: Executor | None, partial: Path | None, progress: bool, device: str, measured: bool
) -> dict[tuple[str, int], xr.Dataset]:
    """Do all members, or find them done."""
    in_process = executor is None
    total, unit = len(config.members) * (config.training.steps if in_process else 1), "training steps" if in_process else "networks"
    with _one_thread(), bar(f"lw run {config.name}", total, unit, show=progress) as advance:
        if train.device_of(device).type != "cpu":
            return dict(pair for model in config.models for pair in _run_together(config, model, partial, advance, device, measured))
        member: dict[str, tuple[str, int]] = dict(zip(_names(config), config.members, strict=True))
        found = {}
        if executor is None:
            return {member[job.name]: data for job, data in unfinished.here(jobs(config, partial, measured, advance=advance))}
        for job, data in unfinished.on_executor(executor, jobs(config, partial, measured)):
            keep(job, data)
            found[member[job.name]] = data
            advance(1)
        return found


def _names(config: Config) -> list[str]:
    """Names of the members' files."""
    return [f"{model}-{seed}" for model, seed in config.members]


def jobs(config: Config, partial: Path | None, measured: bool, **options: Any) -> list[Job]:
    """Make the members into jobs.

    Args:
        config: The configuration.
        partial: Folder of unfinished work, or None.
        measured: As for `run`.
        **options: More for `run_member`.

    Returns:
        The jobs, in the order of the members.
    """
    work = (functools.partial(run_member, config, *member, measured=measured, **options) for member in config.members)
    return [Job(partial, name, do) for name, do in zip(_names(config), work, strict=True)]


def keep(job: Job, data: xr.Dataset) -> None:
    """Store a member that its worker could not, as it does not see the folder.

    Args:
        job: The job.
        data: The member's dataset.
    """
    if job.folder is not None and not (job.folder / f"{job.name}.nc").exists():
        results.save(data, job.folder / f"{job.name}.nc")


def run_member(
    config: Config,
    model: str,
    seed: int,
    partial: Path | None = None,
    advance: Callable[[int], None] = lambda steps: None,
    trained: Trained | None = None,
    measured: bool = True,
    prepare: Callable[[Network], None] | None = None,
) -> xr.Dataset:
    """Train and measure one network.

    Args:
        config: The configuration.
        model: Name of the cell.
        seed: The member's seed.
        partial: Folder for the finished member and, while it trains, its checkpoint; None for neither. Nobody else may be at the same
            member (`unfinished.claim`).
        advance: Called with the number of training steps just taken or found done.
        trained: The trained network, where that is done already.
        measured: As for `run`.
        prepare: Changes the network in place before its first step. The configuration does not know of it, so nothing may be kept in a
            folder.

    Returns:
        The member's dataset.

    Raises:
        FloatingPointError: If training diverges; the message names the member.
        ValueError: If there is a folder for a network that is prepared.
    """
    if prepare is not None and partial is not None:
        raise ValueError(f"partial = {str(partial)!r}: must be None where the network is prepared.")
    stored = None if partial is None else partial / f"{model}-{seed}.nc"
    before = None if stored is None else results.reusable(stored)
    if before is not None:
        advance(config.training.steps)
        return before
    with _one_thread():
        task = task_of(config, seed)
        if trained is None:
            alone = partial is None and prepare is None
            trained = (
                _trained(config, model, seed, advance) if alone else _train(config, model, [seed], partial, advance, prepare=prepare)[0]
            )
        network, losses, snapshots, optimizer = trained
        fresh = tasks.sample(task, config.diagnostics.sequences, _rng(seed, Stream.DIAGNOSTICS))
        # Directions and null noise are the member's own, so that nulls of different models are independent draws.
        measure_seed = _seed(seed, Stream.MEASURE, int.from_bytes(model.encode()))
        dataset = measure(network, fresh, config.diagnostics, measure_seed) if measured else xr.Dataset()
        if snapshots:
            dataset = dataset.merge(course(network, snapshots, fresh, task, config.diagnostics))
        with torch.no_grad():
            predictions = network(fresh.inputs)
        test_loss = (predictions - fresh.targets).square().mean(dtype=torch.float64)
    dataset["loss"] = ("step", np.asarray(losses), {"long_name": "training loss of the minibatch"})
    if optimizer["state"]:
        adapted = base_rates(network, optimizer).numpy()
        dataset["base_rate"] = ("unit", adapted, {"long_name": "base rate Λ of a neuron, per unit of global learning rate"})
    dataset["test_loss"] = ((), test_loss.item(), {"long_name": "mean squared error on fresh sequences"})
    dataset["target_variance"] = (
        (),
        fresh.targets.var(correction=0).item(),
        {"long_name": "variance of the target, the error of a constant"},
    )
    delays = np.arange(1, max(*task.lags, *config.diagnostics.lags) + 1)
    planted = np.zeros(len(delays))
    planted[np.array(task.lags) - 1] = task.coefficients
    learned = tasks.recovered_coefficients(task, fresh, predictions, delays).double().numpy()
    dataset["learned"] = ("delay", learned, {"long_name": "coefficient of the delayed input in the network's output"})
    dataset["planted"] = ("delay", planted, {"long_name": "coefficient of the delayed input in the target"})
    dataset = dataset.assign_coords(delay=("delay", delays, {"long_name": "delay", "units": "steps"}))
    dataset.attrs["fingerprint"] = config.fingerprint
    if stored is not None:
        results.save(dataset, stored)
        stored.with_suffix(".checkpoint").unlink(missing_ok=True)
    return dataset


def _start(config: Config, model: str, seed: int) -> Network:
    """Make a network as it is before training."""
    generator = torch.Generator().manual_seed(_seed(seed, Stream.WEIGHTS))
    cell = getattr(cells, model)(
        config.task.input_size,
        config.network.hidden_size,
        generator=generator,
        **config.network.model_dump(exclude={"hidden_size"}),
    )
    return Network(cell, generator)


def _trained(config: Config, model: str, seed: int, advance: Callable[[int], None] = lambda steps: None) -> Trained:
    """Train a network, or read it where one like it was kept."""
    if "LWCORE_NETWORKS" not in os.environ:
        return _train(config, model, [seed], advance=advance)[0]
    own = config.but(models=[model], seeds=[seed])  # whatever else a configuration holds
    path = Path(os.environ["LWCORE_NETWORKS"]) / results.code_fingerprint() / f"{model}-{seed}-{own.fingerprint}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            trained = _train(config, model, [seed], advance=advance)[0]
            kept = (trained.network.state_dict(), *trained[1:])
            results.write_atomically(path, lambda part: torch.save(kept, part))
            return trained
    advance(config.training.steps)
    state, *rest = torch.load(path, weights_only=True)
    network = _start(config, model, seed)
    network.load_state_dict(state)
    return Trained(network, *rest)


def _run_together(
    config: Config, model: str, partial: Path | None, advance: Callable[[int], None], device: str, measured: bool
) -> Iterator[tuple[tuple[str, int], xr.Dataset]]:
    """Train all seeds of a model together on a device, and measure them one after the other; unless all are stored."""
    trained: list[Trained | None] = [None] * len(config.seeds)
    with ExitStack() as claims:
        for seed in config.seeds:
            claims.enter_context(unfinished.claim(partial, f"{model}-{seed}"))
        if partial is None or not all((partial / f"{model}-{seed}.nc").exists() for seed in config.seeds):
            trained = [one._replace(network=one.network.cpu()) for one in _train(config, model, config.seeds, partial, advance, device)]
        for seed, own in zip(config.seeds, trained, strict=True):
            yield (model, seed), run_member(config, model, seed, partial, (lambda steps: None) if own else advance, own, measured)


def _train(
    config: Config,
    model: str,
    seeds: Sequence[int],
    partial: Path | None = None,
    advance: Callable[[int], None] = lambda steps: None,
    device: str = "cpu",
    prepare: Callable[[Network], None] | None = None,
) -> list[Trained]:
    """Train a model's networks together, from their last checkpoint if there is one."""
    settings = config.training
    networks = [_start(config, model, seed) for seed in seeds]
    if prepare is not None:
        for network in networks:
            prepare(network)
    checkpoint = None if partial is None else partial / f"{model}-{'-'.join(map(str, seeds))}.checkpoint"
    stored = None if checkpoint is None else checkpoints.latest(checkpoint)
    latest, snapshots = stored or ([train.Progress() for _ in seeds], [{0: _copy(n)} if 0 in settings.snapshots else {} for n in networks])
    done = latest[0].step
    advance(done * len(seeds))

    def on_step(states: list[train.Progress]) -> None:
        nonlocal done, latest
        advance((states[0].step - done) * len(seeds))
        done, latest = states[0].step, states
        if done in settings.snapshots:
            for kept, network in zip(snapshots, networks, strict=True):
                kept[done] = _copy(network)
        if checkpoint is not None and done % settings.checkpoint_every == 0:
            checkpoints.write(checkpoint, states, snapshots)

    try:
        losses = train.fit_together(
            networks,
            [tasks.sample(task_of(config, seed), settings.sequences, _rng(seed, Stream.TRAINING)) for seed in seeds],
            seeds=[_seed(seed, Stream.ORDER) for seed in seeds],
            **settings.model_dump(exclude={"sequences", "checkpoint_every", "snapshots"}),
            device=device,
            report_every=1 if device == "cpu" else math.gcd(settings.checkpoint_every, *settings.snapshots),
            resume_from=latest if stored else None,
            on_step=on_step,
        )
    except FloatingPointError as error:
        raise FloatingPointError(f"{model}, seed {', '.join(map(str, seeds))}: {error}") from error
    optimizers = [state.optimizer or {"state": {}} for state in latest]
    return [Trained(*parts) for parts in zip(networks, losses, snapshots, optimizers, strict=True)]


def _copy(network: Network) -> dict[str, Any]:
    """Copy a network's state dictionary, which training goes on changing."""
    return {name: value.cpu().clone() for name, value in network.state_dict().items()}


def _seed(seed: int, stream: Stream, *more: int) -> int:
    """A 32-bit seed for one stream of a member."""
    return int(np.random.SeedSequence([seed, stream, *more]).generate_state(1)[0])


def _rng(seed: int, stream: Stream) -> np.random.Generator:
    """A NumPy generator for one stream of a member."""
    return np.random.default_rng(_seed(seed, stream))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: small matrices gain nothing from more, stall at random with them, and sum in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
