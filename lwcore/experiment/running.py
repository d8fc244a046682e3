"""A run: every network of a configuration, at each point of its axes, trained, measured and stored.

The result is one file. Until it is there, finished members and checkpoints stand in a folder
``<name>-<configuration>-<code>.partial`` beside it, where "code" stands for all that computes: the
package, the versions of its libraries, the processor. All these files are whole or not there at
all, so a run that was killed goes on from them and ends with the same bits. Nothing is locked: two
processes at the same run may do a member twice, with the same bits, too.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from lwcore import cells, results, tasks
from lwcore.experiment import surroundings
from lwcore.experiment.config import Config, Model, Point, shipped
from lwcore.experiment.measure import base_rates, course, measure
from lwcore.inference import described
from lwcore.network import Network, Progress, fit, freed_memory_kept
from lwcore.results import bar, load
from lwcore.signatures import Int64Count, Seed, checked, require, require_path, warn
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
    """Return the results of a configuration over its axes, model and seed.

    With a directory the result is ``<directory>/<name>.nc``, and what an earlier run of the same
    configuration has left there is used, unless `resume` is False; a warning says if other code
    made it. Another configuration's result is not overwritten, but for that.

    Members run in this process, or on any `concurrent.futures.Executor`, whose workers keep
    checkpoints where they see the directory, and which must have the same versions on the same kind
    of processor. Use `processes` for several members at once: threads of one process take turns.

    With axes ``final_loss``, the mean over the last tenth of the steps, is kept in the place of
    every step's loss, and ``still_falling``, the share by which that is below the tenth before.
    """
    if directory is not None:
        require_path("directory", str(directory))
    else:
        with tempfile.TemporaryDirectory() as folder:
            return run(config, executor, resume, folder, progress)
    surroundings.refuse_variables()
    _refuse_what_no_file_can_hold(config)
    path = Path(directory).absolute() / f"{config.name}.nc"
    require("directory", str(directory), not path.is_dir(), f"one without a folder {path.name}")
    begins = f"{config.name}-{config.fingerprint}-"
    partial = path.with_name(f"{begins}{surroundings.fingerprint()}.partial")
    if resume and path.exists():
        stored = _result_of(config, path)
    else:
        overwritten = _digest_of(path)
        if not resume:
            shutil.rmtree(partial, ignore_errors=True)
        for other in sorted(path.parent.glob(f"{begins}*.partial")):
            if other != partial:
                warn(
                    f"{other} is left from a run of this configuration by other code, other "
                    "libraries or another processor, and is not used. Remove it if none is at it."
                )
        partial.mkdir(parents=True, exist_ok=True)
        stored = _run_members(config, executor, partial, progress)
        stored = _put_in_place(stored, config, partial, path, resume, overwritten)
    shutil.rmtree(partial, ignore_errors=True)
    return stored


def _result_of(config: Config, path: Path) -> xr.Dataset:
    """Load the result of a configuration; refuse another's, and say if something else made it."""
    stored = load(path)
    if stored.attrs["fingerprint"] != config.fingerprint:
        # a setting that came later has another fingerprint: compare the settings themselves
        try:
            same = Config.stored(stored.attrs) == config
        except ValueError:
            same = False
        if not same:
            raise FileExistsError(
                f"{path} holds another configuration of the same name (other seeds, say). Move it, "
                "choose another directory, or overwrite it with resume=False (--no-resume)."
            )
    here = results.environment() | {"arithmetic": surroundings.arithmetic()}
    compared = ("code", "versions", "machine", "arithmetic")
    others = [key for key in compared if stored.attrs.get(key, here[key]) != here[key]]
    if others:
        differences = "; ".join(f"{key} {stored.attrs[key]}, here {here[key]}" for key in others)
        warn(
            f"{path} was made by something else than what runs here ({differences}). It is "
            "returned as it is. To compute it anew: resume=False (--no-resume)."
        )
    return stored


def _digest_of(path: Path) -> str | None:
    """Return the digest of a file's bytes; nothing if it is not there."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _put_in_place(
    dataset: xr.Dataset,
    config: Config,
    partial: Path,
    path: Path,
    resume: bool,
    overwritten: str | None,
) -> xr.Dataset:
    """Store a result in its place, and return what stands there then.

    What was checked at the start is checked again: another run may have stored a result meanwhile.
    One of the same configuration is as good as ours. Another's is never overwritten, except by a
    run that was told to overwrite it, as it stood there when the run began.
    """
    ready = partial / path.name
    try:
        results.save(dataset, ready)
        if not path.exists():
            path.unlink(missing_ok=True)  # a link that leads nowhere
            try:
                os.link(ready, path)  # at one stroke, and only if nothing is there
                return dataset
            except FileExistsError:
                pass
            except FileNotFoundError:
                raise
            except OSError:  # a file system without links
                ready.replace(path)
                return dataset
        if not resume and _digest_of(path) == overwritten:
            ready.replace(path)
            return dataset
    except FileNotFoundError:  # another process has stored the same result, and removed the folder
        if not path.exists():
            raise
    try:
        stored = _result_of(config, path)
    except FileExistsError:
        raise FileExistsError(
            f"{path} was stored while this run was under way, and holds another configuration of "
            f"the same name. It is left as it is, and the networks of this run are kept in "
            f"{partial}: move the file, and repeat the command."
        ) from None
    if not resume and ready.exists():  # told to compute it anew
        ready.replace(path)
        return dataset
    return stored


def _refuse_what_no_file_can_hold(config: Config) -> None:
    """Store axes, labels and texts in memory before anything is trained, and compare.

    A file that could not be written at the end would cost all that was computed for it.
    """
    points = list(config.points())
    axes = {
        axis: [*dict.fromkeys(labels[i] for labels in points)] for i, axis in enumerate(config.axes)
    }
    texts = {"description": config.description, "configuration": config.model_dump_json()}
    skeleton = xr.Dataset(coords=axes, attrs=texts)
    try:
        same = results.from_bytes(results.to_bytes(skeleton)).identical(skeleton)
        why = "they come back changed"
    except Exception as error:  # xarray, h5netcdf and h5py each have errors of their own
        same, why = False, str(error)
    require("config", config.name, same, f"one whose texts and labels a file can hold ({why})")


@surroundings.held()
@checked
@freed_memory_kept()
def run_member(
    config: Config,
    model: Model,
    seed: Seed,
    checkpoint: Path | None = None,
    prepare: Callable[[Network], None] = lambda network: None,
) -> xr.Dataset:
    """Return one network's results: how training went, what was learned, what is measured on it.

    Goes on from a checkpoint if there is one; `prepare` changes the network before its start.
    Everything in this process that could change bits is held meanwhile (`surroundings.held`).
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
    if checkpoint and (stored := _load_if_present(checkpoint, load_checkpoint)):
        latest, snapshots = stored

    def on_step(state: Progress) -> None:
        nonlocal latest
        latest = state
        if state.step in settings.snapshots:
            snapshots[state.step] = copy.deepcopy(state.network)
        if checkpoint and state.step % settings.checkpoint_every == 0:
            _write_if_folder_exists(
                checkpoint, lambda path: save_checkpoint(path, state, snapshots)
            )

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


@surroundings.held()
@checked
def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Return networks in float64, by model and seed, trained as in `run` or as they start."""
    made: dict[tuple[str, int], Network] = {}
    for model, seed in config.members:
        network = _start(config, model, seed)
        if trained:
            _train(network, config, model, seed)
        made[model, seed] = network.double()
    return made


@checked
def task_of(config: Config, seed: Seed) -> tasks.DelayedRegression:
    """The task of a seed, Eq. (40), which all its models share."""
    direction = _rng(seed, Stream.TASK).standard_normal(config.task.input_size)
    settings = config.task.model_dump(exclude={"input_size"})
    return tasks.DelayedRegression(**settings, direction=direction)


@checked
def fresh_sequences(
    config: Config, seed: Seed, n_sequences: Int64Count | None = None
) -> tasks.Sequences:
    """Float64 sequences on which `run` measures a seed's networks, which were trained on others."""
    count = n_sequences or config.diagnostics.sequences
    rng = _rng(seed, Stream.DIAGNOSTICS)
    return tasks.sample(task_of(config, seed), count, rng, torch.float64)


@checked
def traces(
    config: Config, members: Mapping[tuple[str, int], Network], n_sequences: Int64Count
) -> dict[tuple[str, int], Trace]:
    """Traces of networks, as `networks` gives them, over the first of their `fresh_sequences`."""
    fresh = {seed: fresh_sequences(config, seed, n_sequences).inputs for seed in config.seeds}
    return {member: network.cell.trace(fresh[member[1]]) for member, network in members.items()}


@checked
def provenance(config: Config) -> dict[str, str]:
    """What a result is made from: the configuration, its fingerprint, and the environment."""
    stored = {"configuration": config.model_dump_json(), "fingerprint": config.fingerprint}
    return config.model_dump(include={"name", "description"}) | stored | results.environment()


def processes() -> Executor:
    """Return processes, one for every core, as an executor; Ctrl-C ends them at once.

    A script calls it below ``if __name__ == "__main__":``, because every process imports the script
    anew. A notebook and ``python -c`` need nothing.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A process that is importing the script, which comes by here once more. The process that
        # started it says why nothing comes of it.
        raise SystemExit(1)
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if getattr(main, "__spec__", None) is None and path and not Path(path).exists():
        raise RuntimeError(
            f"processes() needs a program that other processes can import, and {path} is no file. "
            "Save it as one, call it by python -c, or run without an executor."
        )
    ended = (signal.SIGINT, signal.SIG_DFL)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(None, context, signal.signal, ended)


def _run_members(
    config: Config, executor: Executor | None, partial: Path, show: bool
) -> xr.Dataset:
    """Return the results of all members of all points, stored as they end, and gathered."""
    jobs: dict[Point, Job] = {}
    for number, (labels, point) in enumerate(config.points().items()):
        for model, seed in point.members:
            checkpoint = partial / f"{number}-{model}-{seed}.checkpoint"
            jobs[*labels, model, seed] = point, model, seed, checkpoint
    files = {key: checkpoint.with_suffix(".nc") for key, (*_, checkpoint) in jobs.items()}
    done: dict[Point, xr.Dataset] = {}
    for key, path in files.items():
        stored = _load_if_present(path, load)
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
    with surroundings.plain_xarray():
        whole = _gathered(config, {key: done[key] for key in jobs})
    made_by = {"arithmetic": surroundings.arithmetic()}
    return whole.assign_attrs(provenance(config) | made_by)


def _gathered(config: Config, members: dict[Point, xr.Dataset]) -> xr.Dataset:
    """Return members side by side, in the order of axes, models and seeds."""
    dims, parts = (*config.axes, "model", "seed"), []
    for key, member in members.items():
        kept = _without_steps(member) if config.axes else member
        parts.append(kept.expand_dims({dim: [at] for dim, at in zip(dims, key, strict=True)}))
    # A member has neurons if they were measured, or have base rates: not after gradient descent.
    widths = {part.sizes["unit"] for part in parts if "unit" in part.sizes}
    if len(widths) > 1:  # NaN beyond the last neuron
        parts = [
            part.pad(unit=(0, max(widths) - part.sizes["unit"])) if "unit" in part.sizes else part
            for part in parts
        ]
    # Points may have other lags and delays: NaN where one has none. What is aligned is taken for no
    # part of the grid.
    parts = list(xr.align(*parts, join="outer", exclude=dims))
    combine: Any = {"compat": "no_conflicts", "combine_attrs": "override"}
    # xarray's defaults, which it is about to change
    combine |= {"data_vars": "all", "coords": "different", "join": "outer"}
    whole: Any = xr.combine_by_coords(parts, **combine)
    order = {dim: list(dict.fromkeys(key[i] for key in members)) for i, dim in enumerate(dims)}
    return whole.reindex(order).drop_attrs(deep=False)


def _as_completed(
    jobs: dict[Point, Job], executor: Executor | None
) -> Generator[tuple[Point, xr.Dataset]]:
    """Yield results of members as they end; behind one that fails no other begins."""
    if executor is None:
        yield from ((key, run_member(*job)) for key, job in jobs.items())
        return
    made_by = (results.code_fingerprint(), surroundings.fingerprint())
    on_worker = functools.partial(_run_on_worker, made_by)
    try:
        futures = {executor.submit(on_worker, *job): key for key, job in jobs.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()
    except BrokenProcessPool:
        raise RuntimeError(
            "A process ended without a result. In a script, call run below "
            '`if __name__ == "__main__":`, because every process imports the script anew. '
            "Otherwise the process was killed, perhaps for want of memory: repeat the run, which "
            "goes on from what it has kept."
        ) from None


def _run_on_worker(made_by: tuple[str, str], *job: Any) -> xr.Dataset:
    """Return a member done on a worker, which must compute as the process that asks for it does."""
    code, everything = made_by
    if code != results.code_fingerprint():
        raise RuntimeError("A worker has another version of lwcore. Install this one there.")
    if everything != surroundings.fingerprint():
        raise RuntimeError(
            f"A worker computes other bits than the process that asks for them: it has "
            f"{results.versions()} on a processor whose arithmetic goes by "
            f"{surroundings.arithmetic()}. Use workers, and a process that asks, with the same "
            "versions on the same kind of processor."
        )
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


def _write_if_folder_exists(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file, unless its folder is on other disks, or gone: then the result is stored."""
    if path.parent.is_dir():
        with suppress(FileNotFoundError):
            write(path)


def _load_if_present(path: Path, read: Callable[[Path], Any]) -> Any:
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
