"""A sweep: one configuration run at every point of a grid of changes, gathered into one result.

A point is finished or not there: a sweep that was killed goes on from the points, members and checkpoints it has left. Several processes
may be started on the same sweep; each point is done by one of them. On an executor the members of all points are handed out at once.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path

import xarray as xr

from lwcore import experiment, results, unfinished
from lwcore.config import Config, Sweep
from lwcore.experiment import run
from lwcore.unfinished import Job


def run_sweep(
    sweep: Sweep,
    executor: Executor | None = None,
    resume: bool = True,
    directory: str | Path = "results",
    advance: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """Run every point of a sweep.

    Args:
        sweep: The sweep.
        executor: Where members run, as for `experiment.run`.
        resume: Use what an earlier run of the same sweep has left.
        directory: Where to keep the result, ``<name>.nc``, and unfinished work.
        advance: Called with 1 for every point done.

    Returns:
        The results of `experiment.run` over the sweep's axes, with provenance in the attributes. In the place of every step's loss stand
        ``final_loss``, its mean over the last tenth of the steps, and ``still_falling``, the share by which that is below the tenth before.

    Raises:
        FileExistsError: If the result of another sweep stands under the same name and `resume` is set; or if it is not, and another
            process is at the same sweep.
        OSError: If a file cannot be written; what was finished is kept.
        ValueError: If the directory is a file.
        RuntimeError: If unfinished work was removed from outside.
    """
    points = sweep.points()
    partial = unfinished.folder_of(sweep, Path(directory))
    reached: set[str] = set()

    def reach(config: Config) -> None:
        advance(config.name not in reached)
        reached.add(config.name)

    def make() -> xr.Dataset:
        if executor is not None:
            _members_of_all(points.values(), executor, partial, sweep.measured, reach)
        jobs = [Job(partial, config.name, functools.partial(_point, config, sweep.measured, reach)) for config in points.values()]
        done = {job.name: one for job, one in unfinished.here(jobs)}
        axes = {labels: {axis: [label] for axis, label in zip(sweep.axes, labels, strict=True)} for labels in points}
        parts = [done[config.name].expand_dims(axes[labels]) for labels, config in points.items()]
        dataset = xr.combine_by_coords(parts, compat="no_conflicts", combine_attrs="drop", join="outer")
        assert isinstance(dataset, xr.Dataset)
        dataset = dataset.reindex({axis: [variant.label for variant in variants] for axis, variants in sweep.axes.items()})
        dataset.attrs = results.provenance(sweep)
        return dataset

    dataset = unfinished.once(sweep, partial, [config.name for config in points.values()], make, resume)
    advance(len(points) - len(reached))
    return dataset


def _members_of_all(configs: Iterable[Config], executor: Executor, partial: Path, measured: bool, reach: Callable[[Config], None]) -> None:
    """Do the members of all points at once, so that `run` finds them done."""
    left = {unfinished.folder_of(config, partial): config for config in configs}
    while left:
        jobs: list[Job] = []
        for folder, config in list(left.items()):
            if (partial / f"{config.name}.nc").exists():
                reach(left.pop(folder))
                continue
            unfinished.begin(folder, config.model_dump_json())
            jobs += experiment.jobs(config, folder, measured)
        missing = Counter(job.folder for job in jobs)
        try:
            for job, data in unfinished.on_executor(executor, jobs):
                experiment.keep(job, data)
                missing[job.folder] -= 1
                if job.folder and not missing[job.folder]:
                    reach(left.pop(job.folder))
        except unfinished.Gone:  # another process has finished a point, or the sweep
            if not unfinished.is_open(partial):
                raise


def _point(config: Config, measured: bool, reach: Callable[[Config], None], folder: Path | None) -> xr.Dataset:
    """Run a point, in the sweep's folder."""
    one = _without_steps(run(config, directory=folder, progress=False, measured=measured))
    reach(config)
    return one


def _without_steps(one: xr.Dataset) -> xr.Dataset:
    """Put the end of training in the place of every step's loss."""
    tenth = one.sizes["step"] // 10
    if tenth:
        before, last = (one.loss.isel(step=part).mean("step") for part in (slice(-2 * tenth, -tenth), slice(-tenth, None)))
        one["final_loss"] = last.assign_attrs(long_name="training loss, mean over the last tenth of the steps")
        one["still_falling"] = (1 - last / before).assign_attrs(long_name="share by which that is below the tenth before")
    return one.drop_dims("step")
