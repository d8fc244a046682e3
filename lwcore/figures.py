"""What all figures share: colours, panels, lines with bands, and the last touch.

`panels` draws an array of named dimensions. `canvas` gives empty panels, into which `band`,
`model_band`, `window_lines` and `learned_lines` draw. `done` or `signed` finishes a figure.
`overview` is a whole run in one picture.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any, get_args

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lwcore.experiment import config_of
from lwcore.experiment.config import Model
from lwcore.inference import OPTIMISER_VIEW, PAPER_V2, probes, windows
from lwcore.signatures import Count, Positive, checked

SHADES: Any = (  # the palette "colorblind" of seaborn
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
)
MODELS = get_args(Model)
COLOURS = dict(zip(MODELS, cycle(SHADES), strict=False))
OTHERS: Any = (*SHADES[5::2], "black")  # for what is no cell
MARKERS = dict(zip(MODELS, cycle("osD^vPX*<>"), strict=False))
ORDER_STYLES = {"zeroth": ":", "first": "--", "exact": "-"}

_CLEAR = "none"
_TEXT = 10.2  # size of letters, points
_SMALL_TEXT = 9.35
_STYLE: Any = {
    "figure.facecolor": _CLEAR,
    "axes.facecolor": _CLEAR,
    "savefig.facecolor": _CLEAR,
    "font.size": _TEXT,
    "axes.labelsize": _TEXT,
    "axes.titlesize": _TEXT,
    "xtick.labelsize": _SMALL_TEXT,
    "ytick.labelsize": _SMALL_TEXT,
    "legend.fontsize": _SMALL_TEXT,
    "legend.title_fontsize": _TEXT,
    # comes with matplotlib: pictures are the same on every machine
    "font.sans-serif": ["DejaVu Sans"],
    # names inside an SVG are drawn at random otherwise
    "svg.hashsalt": "lwcore",
}
_ABOVE: Any = {"loc": "outside upper center", "ncols": 8, "fontsize": 8}


def use_book_style() -> None:
    """Use the book's style: seaborn's ticks, small, on transparent ground; vectors in notebooks."""
    plt.style.use(["seaborn-v0_8-ticks", _STYLE])
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # not in a notebook
        return

    set_matplotlib_formats("svg")


@checked
def panels(
    values: xr.DataArray,
    x: str,
    *,
    col: str,
    hue: str = "model",
    dashed: bool = False,
    **axes: Any,
) -> Figure:
    """Draw a `band` along a dimension for each value of another, in one panel for each of a third.

    Args:
        x: The dimension of the horizontal axis.
        col: The dimension of which each value has a panel.
        hue: The dimension that colours tell apart.
        dashed: Whether dashes tell it apart, too: the last of up to three values is solid.
        axes: What is set on all axes, such as ``yscale="log"``.

    Examples:
        >>> loss = xr.DataArray(np.ones((2, 3, 4)), dims=("model", "seed", "step"))
        >>> figure = panels(loss, "step", col="model", hue="seed", ylabel="loss")
        >>> len(figure.axes)
        2
    """
    names = values[hue].values.tolist()
    palette = dict(zip(names, OTHERS * len(names), strict=False)) | COLOURS
    styles = (":", "--", "-")[-len(names) :] if dashed else ["-"] * len(names)
    figure, in_a_row = canvas(values.sizes[col], height=3.0, sharex=True, sharey=True)
    titles = map(str, values[col].values)
    by_panel = values.transpose(col, ...)
    for title, in_panel, own_axes in zip(titles, by_panel, in_a_row, strict=True):
        for line, name, style in zip(in_panel.transpose(hue, ...), names, styles, strict=True):
            band(own_axes, line[x], line, color=palette[name], ls=style, label=name)
        own_axes.set(title=title, **axes)
        own_axes.label_outer()
    legend_above(figure, in_a_row[0])
    return done(figure)


@checked
def canvas(
    count: Count, *, width: Positive = 8.6, height: Positive = 3.4, rows: Count = 1, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure, of a size in inches, with `count` empty panels, row by row.

    What is `shared` are options of matplotlib's ``subplots``, such as ``sharey=True``.
    """
    figure = plt.figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, count // rows, squeeze=False, **shared)
    return figure, list(grid.flat)


@checked
def band(
    axes: Axes, x: xr.DataArray, y: xr.DataArray, *, quartiles: bool = False, **line: Any
) -> None:
    """Draw a line, y's median over all dimensions that x has not, in a band of their range.

    With `quartiles` the band is the middle half. The band takes the ``color`` of the line.
    """
    over = [dim for dim in y.dims if dim not in x.dims]
    if quartiles:
        low = y.quantile(0.25, over)
        high = y.quantile(0.75, over)
    else:  # min and max do not warn where all are NaN
        low = y.min(over)
        high = y.max(over)
    across = np.asarray(x, float)
    axes.fill_between(across, low, high, color=line.get("color"), alpha=0.18, lw=0)
    axes.plot(x, y.median(over), **line)


@checked
def model_band(
    axes: Axes, x: xr.DataArray, y: xr.DataArray, model: str, *, marker: bool = True, **line: Any
) -> None:
    """Draw a `band` in the colour of a model, with its marker, named for the legend."""
    of_model = {
        "color": COLOURS[model],
        "marker": MARKERS[model] if marker else None,
        "ms": 4,
        "label": model,
    }
    band(axes, x, y, **of_model | line)


@checked
def legend_above(figure: Figure, axes: Axes) -> None:
    """Name the lines of one panel, which are those of all panels, above the figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, columnspacing=1.0, handlelength=1.5, **_ABOVE)


@checked
def done(figure: Figure, *with_legend: Any, trim: bool = True) -> Figure:
    """Return a figure with legends and a trimmed frame, which a notebook shows once."""
    for axes in with_legend:
        axes.legend()
    if trim:
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


@checked
def signed(figure: Figure, results: xr.Dataset, *with_legend: Any) -> Figure:
    """Finish a figure as `done` does, with a line below it that says which run made it."""
    config = config_of(results)
    n_seeds = len(config.seeds)
    seeds = "1 seed" if n_seeds == 1 else f"{n_seeds} seeds"
    sizes = f"T = {config.task.length}, H = {config.network.hidden_size}"
    steps = f"{config.training.steps:,} steps"
    name = results.attrs["name"]
    revision = results.attrs["revision"]
    source = f"run “{name}”: {sizes}, {steps}, {seeds}; revision {revision}"
    figure.supxlabel(source, x=0.005, ha="left", fontsize=7, color="grey")
    return done(figure, *with_legend)


@checked
def overview(results: xr.Dataset) -> Figure:
    """Draw a run in one picture: envelopes, what was learned, and windows of two views."""
    figure, (carried, recovered, paper, own) = canvas(4, width=7.6, height=6, rows=2)
    _envelope_lines(carried, results)
    carried.set_title("What gates carry back")
    learned_lines(recovered, results)
    recovered.set(xlabel="delay (steps)", ylabel="coefficient in the output")
    recovered.set_title("What was learned")
    window_lines(paper, probes(results, "zeroth"), **PAPER_V2)
    paper.set_title("Window, letter of version 2")
    window_lines(own, probes(results, "gradient"), **OPTIMISER_VIEW)
    own.set_title("Window, in the whole gradient")
    legend_above(figure, own)
    return signed(figure, results)


def _envelope_lines(axes: Axes, results: xr.Dataset) -> None:
    """Draw envelopes f(ℓ) against the lag, dashed at first order and solid for the exact ones."""
    names = {"first": "first order", "exact": "exact"}
    orders = [order for order in names if order in results.order]
    for model in results.model.values:
        for order in orders:
            f = results.envelope.sel(model=model, order=order)
            model_band(axes, f.lag, f, model, ls=ORDER_STYLES[order], marker=False)
    axes.set(xlabel="lag ℓ (steps)", ylabel="envelope f(ℓ)", yscale="log", ylim=(1e-3, None))
    styles = [Line2D([], [], color="grey", ls=ORDER_STYLES[order]) for order in orders]
    axes.legend(styles, [names[order] for order in orders])


@checked
def learned_lines(axes: Axes, results: xr.Dataset) -> None:
    """Draw planted coefficients as grey bars, and what networks have learned of them as lines."""
    planted = results.planted.isel(model=0, seed=0)
    planted = planted[planted > 0]
    axes.vlines(planted.delay, 0, planted, color="darkgrey", lw=5, zorder=0, label="planted")
    for model in results.model.values:
        model_band(axes, results.delay, results.learned.sel(model=model), model, marker=False)


@checked
def window_lines(axes: Axes, results: xr.Dataset, **options: Any) -> None:
    """Draw H_N against N for every model, and in grey the largest window that a null control gives.

    The axis of windows is logarithmic from 1 on, with 0 below.

    Args:
        results: A run, with the probes of one view (`inference.probes`).
        options: Of `inference.windows`.
    """
    found = windows(results, **options)
    numbers = found.n_sequences
    from_errors = found.sel(source="error")
    for model in found.model.values:
        model_band(axes, numbers, from_errors.sel(model=model), model, quartiles=True)
    control = found.sel(source="noise")
    worst = control.max(("model", "seed", "probe"))
    dashes = (0, (2, 2))
    axes.plot(numbers, worst, color="grey", ls=dashes, label="null control, largest")
    axes.set(xscale="log", xlabel="number of sequences N")
    longest = int(results.lag[-1])
    ticks = [0] + [2**k for k in range(longest.bit_length())]
    axes.set_yscale("symlog", linthresh=1, linscale=0.5)
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(-0.2, 1.3 * longest)
    place = axes.get_subplotspec()
    if place is not None and place.is_first_col():
        axes.set_ylabel("learnability window $H_N$ (steps)")
