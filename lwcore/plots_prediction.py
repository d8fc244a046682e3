"""Figures on whether what was measured predicts what is learned: agreement in ranks, and the frontier of learning on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy.stats import rankdata

from lwcore.agreement import LEARNED
from lwcore.figures import COLOURS, MARKERS, SHADES, canvas, signed

_ERRORS = {"target": SHADES[0], "error": SHADES[3], "–": "black"}
_WORDS = {"target": "target in the error's place", "error": "the network's own error", "–": "no error needed"}
_STYLES = ("-", "--", ":", "-.")
_SHARE = "share learned"


def left_over(ratio: xr.DataArray, share: xr.DataArray, results: xr.Dataset) -> Figure:
    """Draw how much of a lag's signal is left after training against the share learned, one point a network and lag."""
    figure, (axes,) = canvas(1, width=5.4, height=4)
    axes.axline((0, 1), (1, 0), color="grey", ls=":", lw=1, label="one less the share")
    _points(axes, share, ratio)
    axes.set(xlabel=_SHARE, ylabel="signal left, own error over target", ylim=(min(0.0, float(ratio.min()) - 0.05), None))
    return signed(figure, results, axes)


def against(scores: xr.DataArray, share: xr.DataArray, chosen: Mapping[str, tuple[str, str]], results: xr.Dataset) -> Figure:
    """Draw the share learned against ranks of predictors, given as (name, source of the error) by the words to stand over the panel."""
    figure, panels = canvas(len(chosen), height=3.2, sharey=True)
    for axes, (words, (name, source)) in zip(panels, chosen.items(), strict=True):
        (at,) = np.flatnonzero((scores.predictor == name) & (scores.source == source) & (scores.stage != "before"))
        score = scores.isel(predictor=at)
        _points(axes, score.copy(data=rankdata(score).reshape(score.shape)), share)
        axes.axhline(LEARNED, color="grey", ls=":", lw=1)
        axes.set(xlabel="rank of the score", title=words)
        axes.title.set_fontsize(9)
    panels[0].set_ylabel(_SHARE)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, columnspacing=1.2)
    return signed(figure, results)


def predictors(compared: xr.Dataset, results: xr.Dataset, strata: Sequence[str], statistic: str = "rank correlation") -> Figure:
    """Draw the agreement of every predictor, a row each, with intervals over seeds, in several strata, beside the baseline.

    Args:
        compared: From `agreement.compare`.
        results: The run.
        strata: Names of strata, a panel each; rows are sorted by the mean in the first.
        statistic: The measure of agreement.

    Returns:
        The figure: the grey line is the baseline, its band the interval of the latter.
    """
    one = compared.sel(statistic=statistic)
    names = one.predictor.values[1:]
    rows = sorted(dict.fromkeys(names), key=lambda name: float(one.value.sel(stratum=strata[0])[one.predictor == name].mean()))
    figure, panels = canvas(len(strata), width=7.8, height=1.4 + 0.27 * len(rows), sharey=True)
    kinds = list(dict.fromkeys(zip(one.source.values[1:], one.stage.values[1:], strict=True)))
    for axes, stratum in zip(panels, strata, strict=True):
        at = one.sel(stratum=stratum)
        base = at.isel(predictor=0)
        axes.axvspan(float(base.low), float(base.high), color="grey", alpha=0.25, lw=0)
        axes.axvline(float(base.value), color="grey", lw=1.2)
        for i, (source, stage) in enumerate(kinds):
            here = np.flatnonzero((one.source == source) & (one.stage == stage) & (np.arange(one.sizes["predictor"]) > 0))
            part = at.isel(predictor=here)
            y = np.array([rows.index(name) for name in part.predictor.values]) + 0.6 * ((i + 0.5) / len(kinds) - 0.5)
            ends = np.clip([part.value - part.low, part.high - part.value], 0, None)  # a skewed bootstrap may leave the value outside
            style = {"color": _ERRORS[source], "mfc": "none" if stage == "before" else None}
            words = "nothing measured" if stage == "–" else f"{_WORDS[source]}, {stage} training"
            axes.errorbar(part.value, y, xerr=ends, fmt="o", ms=3.5, lw=1, label=words, **style)
        axes.set(
            xlabel=statistic,
            title=stratum.replace(" and ", "\nand "),
            yticks=range(len(rows)),
            yticklabels=rows,
            ylim=(-0.7, len(rows) - 0.3),
        )
        axes.grid(axis="y", lw=0.4, alpha=0.5)
        axes.title.set_fontsize(9)
    handles, labels = panels[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="grey", lw=1.2))
    figure.legend(handles, [*labels, str(compared.predictor.values[0])], loc="outside upper center", ncols=2)
    return signed(figure, results)


def frontiers(share: xr.DataArray, found: xr.Dataset, predicted: Mapping[str, xr.DataArray], results: xr.Dataset) -> Figure:
    """Draw the share learned over lags and numbers of training sequences, with the measured frontier and predicted ones.

    Args:
        share: Share learned (model, seed, lag, sequences).
        found: The measured frontier, from `frontier.frontier`.
        predicted: N(ℓ) (model, seed, lag) by the words for the legend; the medians over seeds are drawn.
        results: The sweep.

    Returns:
        The figure, a panel for each model. Frontiers are N(ℓ) of each lag; where they leave the grid their line does.
    """
    rows = -(-(share.sizes["model"] + 1) // 3)
    figure, panels = canvas(3 * rows, height=2.7 * rows, rows=rows)
    for axes in panels[share.sizes["model"] :]:
        axes.set_axis_off()
    n, lags = _edges(share.sequences.values), _edges(share.lag.values)
    for axes, model in zip(panels, share.model.values, strict=False):
        mean = share.sel(model=model).mean("seed").transpose("lag", "sequences")
        image = axes.pcolormesh(n, lags, mean, vmin=0, vmax=1, cmap="Greens", rasterized=True)
        one = found.sel(model=model)
        far = 10 * n[-1]  # the line to a lag that was never learned leaves the panel
        needed, low, high = (one[name].clip(max=far) for name in ("needed", "needed_low", "needed_high"))
        axes.errorbar(needed, one.lag, xerr=[needed - low, high - needed], fmt="o-", ms=4, color="black", label="measured")
        for (words, of_reading), style, colour in zip(
            predicted.items(), _STYLES, (SHADES[3], SHADES[0], SHADES[1], SHADES[4]), strict=False
        ):
            curve = of_reading.sel(model=model).median("seed").clip(n[0] / 10, far)
            axes.plot(curve, curve.lag, style, color=colour, lw=1.8, label=words)
        axes.set(xscale="log", yscale="log", xlim=n[[0, -1]], ylim=lags[[0, -1]], title=model, xlabel="training sequences N")
        axes.set_xticks(share.sequences.values[::2], share.sequences.values[::2])
        axes.set_yticks(share.lag.values, share.lag.values)
        axes.minorticks_off()
    figure.colorbar(image, ax=panels, label=_SHARE, shrink=0.6)
    panels[share.sizes["model"]].legend(*panels[0].get_legend_handles_labels(), loc="center", title="frontier N(ℓ)")
    figure.supylabel("lag of the task (steps)", fontsize=10)
    return signed(figure, results)


def _points(axes: Axes, x: xr.DataArray, y: xr.DataArray) -> None:
    """Draw a point for each network and lag, in the colour of its model."""
    for model in y.model.values:
        across, up = xr.broadcast(x.sel(model=model), y.sel(model=model))
        axes.plot(across.values.ravel(), up.values.ravel(), MARKERS[model], ms=4, alpha=0.7, color=COLOURS[model], label=model)


def _edges(middles: NDArray[np.int64]) -> NDArray[np.float64]:
    """Edges of cells around increasing numbers, half way between them on a logarithmic scale."""
    log = np.log(middles)
    half = np.diff(log) / 2
    return np.exp(np.concatenate([[log[0] - half[0]], log[:-1] + half, [log[-1] + half[-1]]]))
