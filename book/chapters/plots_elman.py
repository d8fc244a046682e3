"""Figures of the companion's chapters: errors against width, kernels along time, risks against
bounds, envelopes and windows.

Bounds are dashed, or dotted where their proof closes and the printed one's does not; what is
measured is drawn full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import ArrayLike

from book.chapters import elman_bridge as bridge
from book.chapters.elman_cutoff import KernelGrowth
from book.chapters.elman_measured import Scaling, Study
from lwcore.elman.descent import Descent
from lwcore.figures import SHADES, canvas, done

_KIND = {"printed": "--", "repaired": ":"}


def kernel(scalings: Mapping[str, Scaling], steps: Mapping[str, ArrayLike]) -> Figure:
    """Draw the distance of finite kernels to two candidates for their limit, and kernels along
    time.

    Distances are drawn against the width, κ_t(X, X), shape (T,) or (starts, T), along time.
    """
    figure, (left, right) = canvas(2)
    for colour, (name, scaling) in zip(SHADES, scalings.items(), strict=False):
        _scatter(left, scaling, colour, f"limit, {name}")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="neurons m",
        ylabel="distance of kernels (root mean square)",
    )
    for colour, (name, values) in zip((SHADES[0], SHADES[1], "grey"), steps.items(), strict=False):
        rows = np.atleast_2d(np.asarray(values))
        t = np.arange(1, rows.shape[1] + 1)
        many = len(rows) > 1
        for k, row in enumerate(rows):
            right.plot(
                t,
                row,
                color=colour,
                lw=0.7 if many else 1.8,
                alpha=0.6 if many else 1,
                zorder=1 if many else 2,
                label="" if k else name,
            )
    right.set(xlabel="step t", ylabel=r"$\kappa_t(X, X)$", ylim=(0, None))
    return done(figure, left, right)


def targets(case: Study, outputs: Mapping[int, ArrayLike]) -> Figure:
    """Draw the target of the first sequence beside the outputs of transported networks, by their
    width, shape (starts, T)."""
    figure, panels = canvas(len(outputs), height=2.8, sharey=True)
    t = np.arange(1, case.problem.length + 1)
    for axes, (width, rows) in zip(panels, outputs.items(), strict=True):
        axes.plot(t, np.asarray(rows).T, color=SHADES[0], lw=0.8, alpha=0.7)
        axes.plot(t, case.targets[0], color="black", lw=2, ls="--")
        axes.set(title=f"m = {width}", xlabel="step t")
    panels[0].set_ylabel("output")
    return done(figure)


def errors(measured: Mapping[str, Scaling], bounds: Mapping[tuple[str, str], ArrayLike]) -> Figure:
    """Draw measured errors against the width, one panel each, with bounds.

    Bounds are values at the same widths, by panel and ``"printed"`` or ``"repaired"``.
    """
    figure, panels = canvas(len(measured), sharey=True)
    for axes, (name, scaling) in zip(panels, measured.items(), strict=True):
        _scatter(axes, scaling, SHADES[0], "measured")
        for kind, style in _KIND.items():
            if (name, kind) in bounds:
                axes.plot(
                    scaling.sizes,
                    bounds[name, kind],
                    style,
                    color=SHADES[3],
                    label=f"bound, {kind}",
                )
        axes.set(xscale="log", yscale="log", xlabel="neurons m")
        axes.set_title(name, fontsize=9)
    panels[0].set_ylabel("largest error")
    return done(figure, panels[-1])


def union(error: Scaling, width: int, bound: ArrayLike) -> Figure:
    """Draw the largest error over n sequences against n, beside a bound scaled to meet it at n =
    1."""
    figure, (axes,) = canvas(1, width=5.4, height=3.2)
    _scatter(axes, error, SHADES[0], f"measured, m = {width}")
    limit = np.asarray(bound)
    axes.plot(
        error.sizes,
        limit * (error.mean[0] / limit[0]),
        "--",
        color=SHADES[3],
        label="shape of the bound, √log(2nT/δ)",
    )
    axes.set(xscale="log", xlabel="sequences n", ylabel="largest |F − F̃|", ylim=(0, None))
    return done(figure, axes)


def descent(
    steps: Sequence[int],
    shares: Mapping[str, ArrayLike],
    bounds: Mapping[tuple[str, str], ArrayLike],
) -> Figure:
    """Draw the least risk of projected descent over the first risk, against the number of steps,
    with C&E Theorem 1.

    Shares are least risk over first risk, shape (steps, starts), by activation; bounds are over the
    first risk, too.
    """
    figure, panels = canvas(len(shares), sharey=True)
    for axes, (name, rows) in zip(panels, shares.items(), strict=True):
        values = np.asarray(rows)
        _range(axes, steps, values, SHADES[0], "measured")
        for kind, style in _KIND.items():
            axes.plot(steps, bounds[name, kind], style, color=SHADES[3], label=f"Theorem 1, {kind}")
        axes.axhline(1, color="grey", lw=0.8)
        axes.set(xscale="log", yscale="log", xlabel="steps τ")
        axes.set_title(name, fontsize=9)
    panels[0].set_ylabel("risk / first risk")
    return done(figure, panels[0])


def dependence(panels_of: Mapping[str, tuple[Sequence[float], ArrayLike, ArrayLike]]) -> Figure:
    """Draw the least risk over the first risk, shape (k, starts), and the printed bound over it,
    (k,), against what each panel varies."""
    figure, panels = canvas(len(panels_of), sharey=True)
    for axes, (name, (sizes, rows, bound)) in zip(panels, panels_of.items(), strict=True):
        _range(axes, sizes, np.asarray(rows), SHADES[0], "measured")
        axes.plot(sizes, bound, "--", color=SHADES[3], label="Theorem 1, printed")
        axes.axhline(1, color="grey", lw=0.8)
        axes.set(xlabel=name, yscale="log", xscale="linear" if name.startswith("α") else "log")
        if not name.startswith("α"):
            axes.set_xticks(list(sizes), [f"{size:g}" for size in sizes])
            axes.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("risk / first risk")
    return done(figure, panels[0])


def cut_off(growth: Mapping[str, KernelGrowth]) -> Figure:
    """Draw the kernel along time, one panel for each α: its bound, its limit, and single
    networks."""
    figure, panels = canvas(len(growth), sharey=True)
    for axes, (name, course) in zip(panels, growth.items(), strict=True):
        t = np.arange(1, len(course.limit) + 1)
        axes.plot(
            t, np.exp(course.log_bound), ":", color=SHADES[3], label="bound $L_t^2$, repaired"
        )
        axes.plot(t, course.networks.T, color="grey", lw=0.6, alpha=0.6, label="_networks")
        axes.plot([], [], color="grey", lw=0.8, label="single networks")
        axes.plot(t, course.limit, color=SHADES[0], lw=2, label="infinite width")
        axes.set(yscale="log", xlabel="step t")
        axes.set_title(name, fontsize=9)
    panels[0].set_ylabel(r"$\kappa_t(X, X)$")
    return done(figure, panels[0])


def moves(runs: Sequence[Descent], radius: float, promise: float) -> Figure:
    """Draw how far neurons move in free descent, over the radius of C&E Theorem 2, and the risk
    over its promise."""
    figure, (left, right) = canvas(2)
    for run in runs:
        left.plot(np.maximum(run.recurrent_moves, run.input_moves) / radius, color=SHADES[0], lw=1)
        right.plot(run.risks / promise, color=SHADES[0], lw=1)
    left.axhline(1, color=SHADES[3], ls="--", label="radius λ, printed")
    right.axhline(1, color=SHADES[3], ls="--", label="promise, printed")
    left.set(xlabel="step s", ylabel="farthest neuron's move × √m / λ", ylim=(0, None))
    right.set(xlabel="step s", ylabel="risk / promise", yscale="log")
    return done(figure, left, right)


def looseness(frame: pd.DataFrame, base: tuple[int, int, int]) -> Figure:
    """Draw every bound over what was measured, against m, T and τ around a base setting, as
    `tables_elman.looseness` gives them.

    Returns:
        The figure: a row of panels for the printed bounds, one for the repaired ones.
    """
    figure, panels = canvas(6, rows=2, height=6.0, sharey=True)
    names = list(frame["result"].unique())
    for row, kind in enumerate(("printed", "repaired")):
        for column, varied in enumerate(("m", "T", "τ")):
            axes = panels[3 * row + column]
            others = [
                (name, value)
                for name, value in zip(("m", "T", "τ"), base, strict=True)
                if name != varied
            ]
            chosen = frame[
                np.logical_and.reduce([frame[name] == value for name, value in others])
            ].sort_values(varied)
            for k, name in enumerate(names):
                if varied == "τ" and name not in ("Theorem 1", "Corollary 1"):
                    continue
                line = chosen[chosen["result"] == name]
                style: dict[str, Any] = {
                    "color": SHADES[k % len(SHADES)],
                    "marker": "os^vD"[k % 5],
                    "ls": "-" if k < len(SHADES) else "--",
                }
                axes.plot(line[varied], 10 ** line[kind], ms=4, label=name, **style)
            axes.axhline(1, color="grey", lw=0.8)
            axes.set(
                xscale="log",
                yscale="log",
                xlabel={"m": "neurons m", "T": "length T", "τ": "steps τ"}[varied],
            )
            ticks = sorted(chosen[varied].unique())
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.xaxis.set_minor_locator(NullLocator())
        panels[3 * row].set_ylabel(f"{kind} bound / measured")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8
    )
    return done(figure)


def envelopes(measured: Mapping[str, tuple[float, ArrayLike]], dimension: int) -> Figure:
    """Draw envelopes for each neuron of tanh networks beside the cut-off's exponential and the law
    of wide networks.

    Measured are, by title, α and log f(ℓ)/m at ℓ = 1 … L, shape (starts, L).
    """
    figure, panels = canvas(len(measured), sharey=True)
    for axes, (name, (alpha, rows)) in zip(panels, measured.items(), strict=True):
        values = np.exp(np.atleast_2d(np.asarray(rows)))
        lags = np.arange(1, values.shape[1] + 1)
        axes.plot(lags, values.T, color=SHADES[0], lw=0.9, alpha=0.8, label="_networks")
        axes.plot([], [], color=SHADES[0], lw=1.2, label="measured")
        axes.plot(
            lags,
            bridge.cut_off_law(alpha).envelope(lags),
            "--",
            color=SHADES[3],
            label=r"$(\alpha\sigma_1)^\ell$",
        )
        if alpha < 1:
            axes.plot(
                lags,
                np.exp(bridge.wide_law(alpha, dimension, lags).log_envelope),
                ":",
                color="black",
                label="law of wide networks",
            )
        axes.set(xscale="log", yscale="log", xlabel="lag ℓ (steps)", ylim=(1e-6, 1e2))
        axes.set_title(name, fontsize=9)
    panels[0].set_ylabel("envelope f(ℓ)/m")
    return done(figure, panels[0])


def _scatter(axes: Axes, scaling: Scaling, colour: Any, label: str) -> None:
    """Draw the mean over starts as a line and every start as a pale dot."""
    axes.plot(
        np.repeat(scaling.sizes, scaling.samples.shape[1]),
        scaling.samples.ravel(),
        ".",
        color=colour,
        alpha=0.2,
        ms=4,
        mew=0,
    )
    axes.plot(scaling.sizes, scaling.mean, color=colour, marker="o", ms=4, label=label)


def _range(axes: Axes, x: Sequence[float], rows: np.ndarray, colour: Any, label: str) -> None:
    """Draw the median over starts, shape (k, starts), with a bar from the least to the largest."""
    middle = np.median(rows, axis=1)
    axes.errorbar(
        x,
        middle,
        yerr=[middle - rows.min(axis=1), rows.max(axis=1) - middle],
        color=colour,
        marker="o",
        ms=4,
        label=label,
    )
