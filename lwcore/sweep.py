"""A sweep: one configuration run at every point of a grid of changes, gathered into one result.

A point is finished or not there: a sweep that was killed goes on from the points, members and checkpoints it has left.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path

import xarray as xr

from lwcore import results
from lwcore.config import Sweep
from lwcore.experiment import run


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
        executor: Where the members of a point run, as for `experiment.run`.
        resume: Use what an earlier run of the same sweep has left.
        directory: Where to keep the result, ``<name>.nc``, and unfinished work.
        advance: Called with 1 for every point done.

    Returns:
        The results of `experiment.run` over the sweep's axes, with provenance in the attributes. In the place of every step's loss stand
        ``final_loss``, its mean over the last tenth of the steps, and ``still_falling``, the share by which that is below the tenth before.

    Raises:
        FileExistsError: If the result of another sweep stands under the same name and `resume` is set.
    """
    home = Path(directory)
    path = home / f"{sweep.name}.nc"
    points = sweep.points()
    if resume and path.exists():
        stored = results.load(path)
        if stored.attrs["fingerprint"] != sweep.fingerprint:
            raise FileExistsError(f"{path} holds another sweep of the same name. Move it, or overwrite it with resume=False (--no-resume).")
        advance(len(points))
        return stored
    partial = home / f"{sweep.name}-{sweep.fingerprint}-{results.code_fingerprint()}.partial"
    if not resume:
        shutil.rmtree(partial, ignore_errors=True)

    def done() -> Iterator[xr.Dataset]:
        for labels, config in points.items():
            one = _without_steps(run(config, executor, directory=partial, progress=False, measured=sweep.measured))
            advance(1)
            yield one.expand_dims({axis: [label] for axis, label in zip(sweep.axes, labels, strict=True)})

    dataset = xr.combine_by_coords(list(done()), compat="no_conflicts", combine_attrs="drop", join="outer")
    assert isinstance(dataset, xr.Dataset)
    dataset = dataset.reindex({axis: [variant.label for variant in variants] for axis, variants in sweep.axes.items()})
    dataset.attrs = results.provenance(sweep)
    results.save(dataset, path)
    shutil.rmtree(partial, ignore_errors=True)
    return dataset


def _without_steps(one: xr.Dataset) -> xr.Dataset:
    """Put the end of training in the place of every step's loss."""
    tenth = one.sizes["step"] // 10
    if tenth:
        before, last = (one.loss.isel(step=part).mean("step") for part in (slice(-2 * tenth, -tenth), slice(-tenth, None)))
        one["final_loss"] = last.assign_attrs(long_name="training loss, mean over the last tenth of the steps")
        one["still_falling"] = (1 - last / before).assign_attrs(long_name="share by which that is below the tenth before")
    return one.drop_dims("step")
