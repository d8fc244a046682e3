"""What all figures share: colours, panels, lines with bands, and the last touch."""

from __future__ import annotations

from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy import stats

from lwcore.config import Config, Sweep
from lwcore.inference import LETTER, OPTIMISER, probes, windows

SHADES: Any = (
    "#0173b2",
    "#de8f05",
    "#029e73",
    "#d55e00",
    "#cc78bc",
    "#ca9161",
    "#fbafe4",
    "#949494",
    "#ece133",
    "#56b4e9",
)  # seaborn's "colorblind"
MODELS = ("ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM")
COLOURS = dict(zip(MODELS, SHADES, strict=False))
MARKERS = dict(zip(MODELS, "osD^v", strict=True))
ORDER_STYLES = {"zeroth": ":", "first": "--", "exact": "-"}

_STYLE: Any = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(
        ("font.size", "axes.labelsize", "axes.titlesize", "legend.title_fontsize"), 10.2
    ),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9.35),
    # comes with matplotlib: pictures are the same on every machine
    "font.sans-serif": ["DejaVu Sans"],
    "svg.hashsalt": "lwcore",
}


def use_book_style() -> None:
    """Set matplotlib's style "seaborn-v0_8-ticks" in a smaller size, with transparent backgrounds,
    and vector graphics in notebooks."""
    plt.style.use(["seaborn-v0_8-ticks", _STYLE])
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # not in a notebook
        return
    set_matplotlib_formats("svg")


def canvas(
    count: int,
    *,
    width: float = 8.6,
    height: float = 3.4,
    rows: int = 1,
    sharex: bool = False,
    sharey: bool | Literal["row"] = False,
) -> tuple[Figure, list[Axes]]:
    """Make a figure with some panels, row by row."""
    figure, grid = plt.subplots(
        rows,
        count // rows,
        figsize=(width, height),
        layout="constrained",
        sharex=sharex,
        sharey=sharey,
        squeeze=False,
    )
    return figure, list(grid.flat)


def band(
    axes: Axes,
    x: xr.DataArray,
    y: xr.DataArray,
    *,
    quartiles: bool = False,
    color: Any = None,
    **line: Any,
) -> None:
    """Draw y against x: as a line its median over all other dimensions, as a band their range or
    middle half."""
    over = [dim for dim in y.dims if dim not in x.dims]
    low, high = (
        (y.quantile(0.25, over), y.quantile(0.75, over))
        if quartiles
        else (y.min(over), y.max(over))
    )
    axes.fill_between(np.asarray(x, float), low, high, color=color, alpha=0.18, lw=0)
    axes.plot(x, y.median(over), color=color, **line)


def model_band(
    axes: Axes, x: xr.DataArray, y: xr.DataArray, model: str, *, marker: bool = True, **options: Any
) -> None:
    """Draw a band in the colour of a model, with its marker."""
    band(
        axes,
        x,
        y,
        color=COLOURS[model],
        marker=MARKERS[model] if marker else None,
        ms=4,
        label=model,
        **options,
    )


def density(axes: Axes, values: NDArray[np.float64], *, fill: bool = False, **line: Any) -> None:
    """Draw the density of log₁₀ of some values, by Gaussian kernels of Scott's width, from the
    least to the largest of them."""
    axes.set_xscale("log")
    if len(np.unique(values)) < 2:
        return
    logs = np.log10(values)
    at = np.linspace(logs.min(), logs.max(), 200)
    height = stats.gaussian_kde(logs)(at)
    (drawn,) = axes.plot(10**at, height, **line)
    if fill:
        axes.fill_between(
            10**at, height, color=drawn.get_color(), alpha=0.25, lw=0
        ).sticky_edges.y.append(0)


def legend_above(figure: Figure, axes: Axes) -> None:
    """Name the lines of all panels once, above them: what is below is the run they came from."""
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=6,
        columnspacing=1.0,
        handlelength=1.5,
        fontsize=8,
    )


def done(
    figure: Figure, *with_legend: Axes, ylabel: str | None = None, trim: bool = True
) -> Figure:
    """Add legends, trim the frame if it is no part of the picture, and take the figure off pyplot's
    list: a notebook shows it once."""
    for axes in with_legend:
        axes.legend()
    if ylabel is not None:
        figure.supylabel(ylabel, fontsize=10)
    if trim:
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


def signed(figure: Figure, results: xr.Dataset, *with_legend: Axes) -> Figure:
    """Finish a figure as `done` does, and say which run or sweep made it."""
    text = results.attrs["configuration"]
    settings = (
        Sweep.model_validate_json(text) if '"axes":' in text else Config.model_validate_json(text)
    )
    config = settings if isinstance(settings, Config) else next(iter(settings.points().values()))
    seeds = f"{len(config.seeds)} seed{'s' if len(config.seeds) > 1 else ''}"
    scale = f"T = {config.task.length}, H = {config.network.hidden_size}, {config.training.steps} steps, {seeds}"
    source = f"run “{settings.name}”: {scale}; revision {results.attrs['revision']}"
    figure.supxlabel(source, x=0.005, ha="left", fontsize=7, color="grey")
    return done(figure, *with_legend)


def summary(results: xr.Dataset) -> Figure:
    """Draw the whole result in one picture: envelopes, what was learned, the paper's window and the
    optimiser's."""
    figure, (carried, recovered, paper, own) = canvas(4, width=7.6, height=6, rows=2)
    for model in results.model.values:
        for order in ("first", "exact"):
            if order not in results.order.values:
                continue
            style = ORDER_STYLES[order]
            model_band(
                carried,
                results.lag,
                results.envelope.sel(model=model, order=order),
                model,
                ls=style,
                marker=False,
            )
    carried.set(
        xlabel="lag ℓ (steps)",
        yscale="log",
        title="What gates carry back",
        ylabel="envelope f(ℓ)",
        ylim=(1e-3, None),
    )
    carried.legend(
        [Line2D([], [], color="grey", ls=ORDER_STYLES[o]) for o in ("first", "exact")],
        ["first order", "exact"],
    )
    learned_lines(recovered, results)
    recovered.set(
        xlabel="delay (steps)", title="What was learned", ylabel="coefficient in the output"
    )
    for axes, view, how, title in (
        (paper, "zeroth", LETTER, "Window, version 2 to the letter"),
        (own, "gradient", OPTIMISER, "Window, in the whole gradient"),
    ):
        window_lines(axes, windows(probes(results, view), **how))
        axes.set_title(title)
    window_axis(results, paper, own)
    legend_above(figure, own)
    return signed(figure, results)


def learned_lines(axes: Axes, results: xr.Dataset) -> None:
    """Draw planted coefficients as grey bars and the networks' as lines."""
    planted = results.planted.isel(model=0, seed=0)
    axes.vlines(
        planted.delay[planted > 0],
        0,
        planted[planted > 0],
        color="darkgrey",
        lw=5,
        zorder=0,
        label="planted",
    )
    for model in results.model.values:
        model_band(axes, results.delay, results.learned.sel(model=model), model, marker=False)


def window_lines(axes: Axes, chosen: xr.DataArray) -> None:
    """Draw H_N against N for every model, and the null control of all of them as one grey line: the
    largest window it gives."""
    for model in chosen.model.values:
        model_band(
            axes, chosen.budget, chosen.sel(model=model, source="error"), model, quartiles=True
        )
    worst = chosen.sel(source="noise").max(("model", "seed", "probe"))
    axes.plot(chosen.budget, worst, color="grey", ls=(0, (2, 2)), label="null control, largest")
    axes.set(xscale="log", xlabel="number of sequences N")


def window_axis(results: xr.Dataset, *panels: Axes) -> None:
    """Put windows on an axis that has room for short and long lags, and for none: logarithmic from
    1 on, with 0 below."""
    longest = int(results.lag[-1])
    ticks = [0] + [2**k for k in range(longest.bit_length())]
    for axes in panels:
        axes.set_yscale("symlog", linthresh=1, linscale=0.5)
        axes.set_yticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(-0.2, 1.3 * longest)
        place = axes.get_subplotspec()
        if place is not None and place.is_first_col():
            axes.set_ylabel("learnability window $H_N$ (steps)")
