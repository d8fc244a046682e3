"""What computing costs: tables and figures of the recorded benchmarks (``make bench``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lwcore.figures import COLOURS, MARKERS, MODELS, canvas, done

_MATRICES = dict(zip(MODELS, (1, 1, 2, 3, 4), strict=True))
_AXES = {"T": "time steps T", "B": "sequences B", "H": "neurons H", "L": "longest lag L (steps)"}
_SIZE = {"B": 0, "T": 1, "D": 2, "H": 3}

Record = dict[str, Any]


def load(path: str | Path) -> Record:
    """Read a recorded benchmark.

    Args:
        path: A JSON file of ``make bench``.

    Returns:
        Its numbers, and under ``environment`` what it ran on.
    """
    return json.loads(Path(path).read_text(encoding="utf-8"))


def machine(steps: Record) -> pd.DataFrame:
    """Tabulate what the training steps ran on.

    Args:
        steps: The record ``steps``.

    Returns:
        A row a property.
    """
    found = steps["environment"]
    versions = dict(part.split() for part in found["versions"].split(", "))
    rows = {
        "machine": found["machine"],
        "threads": found["threads"],
        "programs at work at the start": f"{found['load']:.1f}",
        "one large product of matrices": f"{found['gemm_gflops']:.0f} GFLOP/s",
        "lwcore": f"{versions.pop('lwcore')}, revision {found['revision']}",
    }
    return pd.DataFrame({"recorded": rows | versions})


def ratios(steps: Record, shape: str) -> pd.DataFrame:
    """Tabulate the training step of every cell at one shape.

    Args:
        steps: The record ``steps``.
        shape: ``"small"`` or ``"large"``.

    Returns:
        A row a cell, and PyTorch's two layers.
    """
    measured = steps["shapes"][shape]
    batch, length, inputs, hidden = measured["shape"]
    taken, rows = measured["seconds"], {}
    for model, matrices in _MATRICES.items():
        work = 2e-9 * batch * length * matrices * hidden * (3 * hidden + 2 * inputs)
        rows[model] = {
            "ms": f"{1e3 * taken[model]:.1f}",
            "time over nn.LSTM's": f"{taken[model] / taken['nn.LSTM']:.2f}",
            "naive loop's over this": f"{taken[f'{model}, naive loop'] / taken[model]:.2f}",
            "GFLOP/s": f"{work / taken[model]:.0f}",
            "of its matrix products' rate": f"{taken[f'{model}, products'] / taken[model]:.0%}",
            "of the machine's": f"{work / taken[model] / steps['environment']['gemm_gflops']:.0%}",
        }
    for layer in ("nn.LSTM", "nn.GRU"):
        rows[layer] = {
            "ms": f"{1e3 * taken[layer]:.1f}",
            "time over nn.LSTM's": f"{taken[layer] / taken['nn.LSTM']:.2f}",
        }
    table = pd.DataFrame(rows).T.fillna("")
    return table.rename_axis("one training step")


def against_scipy(stable: Record, fits: Record) -> pd.DataFrame:
    """Tabulate stable laws and their maximum-likelihood fit against SciPy's.

    Args:
        stable: The record ``stable``.
        fits: The record ``fits``.

    Returns:
        A row a task; the first call, which builds tables, stands apart.
    """
    tasks = {
        f"{name}, a point": (taken["first"], taken["later"], taken["scipy"])
        for name, taken in stable["seconds_a_point"].items()
    }
    name = next(iter(fits["first"]))
    tasks[f"maximum likelihood, {name.partition(', ')[2]}"] = (
        fits["first"][name],
        fits["median"][name],
        fits["scipy"],
    )
    rows = {
        task: {
            "ours, first call (µs)": f"{1e6 * first:,.2f}",
            "ours (µs)": f"{1e6 * later:,.2f}",
            "SciPy (µs)": f"{1e6 * scipy:,.0f}",
            "SciPy over ours": f"{scipy / later:,.0f}",
        }
        for task, (first, later, scipy) in tasks.items()
    }
    return pd.DataFrame(rows).T.rename_axis("stable law, α = " + str(stable["alpha"]))


def _curves(
    steps: Record, transport: Record
) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Sizes and seconds by what was varied and by cell: training steps over T, B and H, exact rates
    over L."""
    curves: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for size in ("T", "B", "H"):
        sweep = [point for point in steps["sweeps"] if point["size"] == size]
        x = np.array([point["shape"][_SIZE[size]] for point in sweep])
        curves[size] = {
            model: (x, np.array([point["seconds"][model] for point in sweep])) for model in MODELS
        }
    for model in MODELS:
        sweep = [
            point
            for point in transport["sweeps"]
            if point["size"] == "L" and point["kind"] == model
        ]
        seconds = np.array([point["seconds"] for point in sweep])
        curves.setdefault("L", {})[model] = (np.array([point["lag"] for point in sweep]), seconds)
    return curves


def exponents(steps: Record, transport: Record) -> pd.DataFrame:
    """Fit how fast the time grows: the slope of its logarithm against that of a size, over the
    larger half of the sizes measured.

    Args:
        steps: The record ``steps``.
        transport: The record ``transport``.

    Returns:
        A row a cell, a column a size.
    """
    slopes = {}
    for size, by_model in _curves(steps, transport).items():
        half = {model: (x[len(x) // 2 :], y[len(y) // 2 :]) for model, (x, y) in by_model.items()}
        slopes[_AXES[size]] = {
            model: f"{np.polyfit(np.log(x), np.log(y), 1)[0]:.2f}" for model, (x, y) in half.items()
        }
    return pd.DataFrame(slopes).rename_axis("time grows as the power")


def growth(steps: Record, transport: Record) -> Figure:
    """Draw the time of a training step against T, B and H, and that of exact rates against the
    longest lag."""
    figure, panels = canvas(4, width=6.6, height=5.6, rows=2)
    for axes, (size, by_model) in zip(panels, _curves(steps, transport).items(), strict=True):
        for model in MODELS:
            axes.loglog(
                *by_model[model], marker=MARKERS[model], ms=4, color=COLOURS[model], label=model
            )
        sizes = next(iter(by_model.values()))[0].tolist()
        axes.set(
            xlabel=_AXES[size], ylabel="exact rates (s)" if size == "L" else "training step (s)"
        )
        axes.set_xticks(sizes, [f"{x:g}" for x in sizes])
        axes.xaxis.minorticks_off()
    panels[0].legend(fontsize=8)
    return done(figure)


def layout(
    record: Record, runs: int = 10_000, workers: tuple[int, ...] = (1, 8, 64)
) -> pd.DataFrame:
    """Lay out large runs: what one member costs, and what that comes to on so many workers.

    Args:
        record: The record ``distribution``.
        runs: Number of members of the many small runs, with the settings of ``quick``.
        workers: Numbers of workers with one thread each; there are not more at work than members.

    Returns:
        A column a plan.
    """
    plans, dask = {}, 1e-3 * record["dask"]["processor_ms_a_job"]
    for name, count in (("paper-v6", record["paper-v6"]["members"]), ("quick", runs)):
        cells = pd.DataFrame(record[name]["cells"]).T
        seconds, longest, mean = count * cells.seconds.mean(), cells.seconds.max(), cells.mean()
        written = count * (mean.stored + mean.checkpoint * record[name]["checkpoints"])
        rows = {
            "a member, hours of a processor": f"{mean.seconds / 3600:.2g} "
            f"({cells.seconds.min() / 3600:.2g} to {longest / 3600:.2g})"
        }
        rows |= {
            f"hours on {n} worker{'s' * (n > 1)}": format(
                max(seconds / min(n, count), longest) / 3600, ",.3g"
            )
            for n in workers
        }
        rows |= {
            "travels to a worker, kB a member": f"{1e-3 * mean.job:.1f}",
            "travels back, MB a member": f"{1e-6 * mean.back:.2f}",
            "travels back, GB in all": f"{1e-9 * count * mean.back:.2g}",
            "a checkpoint, MB": f"{1e-6 * mean.checkpoint:.2g}",
            "written to disk, GB in all": f"{1e-9 * written:.3g}",
            "the scheduler's own time, s in all": f"{count * dask:.2g}",
            "workers that keep one scheduler busy": f"{busy:,.0f}"
            if (busy := mean.seconds / dask) < 1e5
            else "more than there are",
        }
        plans[f"{name}, {count:,} members"] = rows
    return pd.DataFrame(plans).rename_axis("plan")
