"""What all figures share: colours, panels, lines with bands, and the last touch."""

from __future__ import annotations

import pickle
import re
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lwcore.experiment import config_of
from lwcore.inference import LETTER, OPTIMISER, probes, windows
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
MODELS = ("ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM")
COLOURS = dict(zip(MODELS, SHADES, strict=False))
OTHERS: Any = (*SHADES[5::2], "black")  # for what is no cell
MARKERS = dict(zip(MODELS, "osD^v", strict=True))
ORDER_STYLES = {"zeroth": ":", "first": "--", "exact": "-"}

_STYLE: Any = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 10.2),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9.35),
    "legend.title_fontsize": 10.2,
    # comes with matplotlib: pictures are the same on every machine
    "font.sans-serif": ["DejaVu Sans"],
    "svg.hashsalt": "lwcore",
}
_ABOVE: Any = {"loc": "outside upper center", "ncols": 8, "fontsize": 8}


def use_book_style() -> None:
    """The book's style: seaborn's ticks, small, on transparent ground; vectors in notebooks.

    A notebook's picture holds the `narrowed` one as well, hidden: pages show it on telephones.
    """
    plt.style.use(["seaborn-v0_8-ticks", _STYLE])
    try:
        from IPython.core.getipython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:  # not in a notebook
        return

    set_matplotlib_formats("svg")
    shell: Any = get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, _both)


def _both(figure: Figure) -> str:
    """A picture that holds the narrowed one, hidden."""
    from IPython.core.pylabtools import print_figure

    wide, narrow = (print_figure(one, "svg") for one in (figure, narrowed(figure)))
    hidden = narrow[narrow.index("<svg") :].replace("<svg", '<svg display="none"', 1)
    return f"{wide.rstrip().removesuffix('</svg>')}{hidden}</svg>"


def _folded(words: str, width: int) -> str:
    """Words in lines of a width; a formula is not broken."""
    whole = re.sub(
        r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\N{NO-BREAK SPACE}"), words
    )
    lines = fill(whole, width, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\N{NO-BREAK SPACE}", " ")


@checked
def narrowed(figure: Figure) -> Figure:
    """A figure's panels in one column: on a page of 342 pixels no letter is below 8."""
    narrow: Figure = pickle.loads(pickle.dumps(figure))
    narrow.set_layout_engine("constrained")
    shown = [(axes, grid) for axes in narrow.axes if (grid := axes.get_gridspec()) is not None]
    heights = [max(2.3, 0.75 * figure.get_figheight() / grid.nrows) for _, grid in shown]
    narrow.set_size_inches(3.7, 0.4 + sum(heights))
    column, label = narrow.add_gridspec(len(shown), 1, height_ratios=heights), ""
    for at, (axes, _) in enumerate(shown):
        label = axes.get_ylabel() or label  # panels of a row share it, and the tick labels
        axes.set_subplotspec(column[at])
        axes.tick_params(labelleft=True, labelbottom=True)
        axes.set(ylabel=_folded(label, 28), xlabel=_folded(axes.get_xlabel(), 42))
        axes.set_title(_folded(axes.get_title(), 40))
    for text in narrow.texts:
        text.set_text(_folded(text.get_text(), 56))
    inside = [legend for axes, _ in shown if (legend := axes.get_legend())]
    alone: Any = inside if len(inside) == 1 and not narrow.legends else []
    drawn = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes]
    # with error bars, which a copy and a legend both lose
    whole = {label: one for each in drawn for one, label in each if isinstance(one, tuple)}
    for legend in [*narrow.legends, *alone]:
        labels = [text.get_text() for text in legend.texts]
        handles = [whole.get(*one) for one in zip(labels, legend.legend_handles, strict=True)]
        columns = max(1, 54 // (8 + max(map(len, labels))))  # letters in a line
        narrow.set_figheight(narrow.get_figheight() + 0.17 * len(labels) / columns)
        legend.remove()
        narrow.legend(handles, labels, **_ABOVE | {"ncols": columns})
    return narrow


@checked
def panels(
    values: xr.DataArray,
    x: str,
    hue: str | None = "model",
    style: str | None = None,
    col: str | None = None,
    row: str | None = None,
    width: Positive = 8.6,
    height: Positive = 3.0,
    **axes: Any,
) -> Figure:
    """Lines of medians along a dimension, with bands over all dimensions that are not named.

    Bands run from the least to the largest value. What else is given is set on all axes, such as
    ``yscale="log"``.

    Examples:
        >>> loss = xr.DataArray(np.ones((2, 3, 4)), dims=("model", "seed", "step"))
        >>> figure = panels(loss, "step", col="model", hue=None, ylabel="loss")
        >>> len(figure.axes)
        2
    """
    import seaborn as sns  # here: it takes a second to import, and nothing else needs it

    labels = [] if hue is None else values[hue].values.tolist()
    grid = sns.relplot(
        values.to_dataframe("value").reset_index(),
        **{"x": x, "y": "value", "hue": hue, "style": style, "col": col, "row": row},
        **{"kind": "line", "estimator": "median", "errorbar": ("pi", 100)},
        palette=dict(zip(labels, OTHERS * len(labels), strict=False)) | COLOURS if hue else None,
        style_order=None if style is None else values[style].values[::-1],  # the last one is solid
        err_kws={"alpha": 0.18, "lw": 0},
        facet_kws={"sharey": "row"},
        height=height,
        aspect=width / height / (values.sizes[col] if col else 1),
    )
    grid.set_titles(", ".join(one for one in (row and "{row_name}", col and "{col_name}") if one))
    grid.set(**{"ylabel": values.attrs.get("long_name", "")} | axes)
    grid.figure.set_layout_engine("constrained")
    if grid.legend is not None:
        titled = {hue, *labels} if style and hue in (col, row) else {}  # above the panels
        entries = zip(grid.legend.legend_handles, grid.legend.texts, strict=True)
        shown = [(line, text.get_text()) for line, text in entries if text.get_text() not in titled]
        grid.legend.remove()
        grid.figure.legend(*zip(*shown, strict=True), **_ABOVE)
    plt.close(grid.figure)
    return grid.figure


@checked
def canvas(
    count: Count, *, width: Positive = 8.6, height: Positive = 3.4, rows: Count = 1, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with some panels, row by row, for what `panels` does not draw."""
    figure = plt.figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(rows, count // rows, squeeze=False, **shared).flat)


@checked
def band(
    axes: Axes, x: xr.DataArray, y: xr.DataArray, *, quartiles: bool = False, **line: Any
) -> None:
    """A line, y's median over all other dimensions, in a band of their range or middle half."""
    over = [dim for dim in y.dims if dim not in x.dims]
    quarters = (y.quantile(q, over) for q in (0.25, 0.75))
    ends = quarters if quartiles else (y.min(over), y.max(over))  # without a word where all are NaN
    axes.fill_between(np.asarray(x, float), *ends, color=line.get("color"), alpha=0.18, lw=0)
    axes.plot(x, y.median(over), **line)


@checked
def model_band(
    axes: Axes, x: xr.DataArray, y: xr.DataArray, model: str, *, marker: bool = True, **line: Any
) -> None:
    """A band in the colour of a model, with its marker."""
    shape = MARKERS[model] if marker else None
    band(axes, x, y, **{"color": COLOURS[model], "marker": shape, "ms": 4, "label": model} | line)


@checked
def legend_above(figure: Figure, axes: Axes) -> None:
    """The lines of all panels named once, above them: below stands the run they came from."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, columnspacing=1.0, handlelength=1.5, **_ABOVE)


@checked
def done(figure: Figure, *with_legend: Axes, trim: bool = True) -> Figure:
    """A figure with legends and a trimmed frame, off pyplot's list: notebooks show it once."""
    for axes in with_legend:
        axes.legend()
    if trim:
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


@checked
def signed(figure: Figure, results: xr.Dataset, *with_legend: Axes) -> Figure:
    """A figure that is `done`, and says which run or sweep made it."""
    config, made = config_of(results), results.attrs
    seeds = f"{len(config.seeds)} seed{'s' if len(config.seeds) > 1 else ''}"
    sizes = f"T = {config.task.length}, H = {config.network.hidden_size}"
    scale = f"{sizes}, {config.training.steps:,} steps, {seeds}"
    source = f"run “{made['name']}”: {scale}; revision {made['revision']}"
    figure.supxlabel(source, x=0.005, ha="left", fontsize=7, color="grey")
    return done(figure, *with_legend)


@checked
def summary(results: xr.Dataset) -> Figure:
    """A run in one picture: envelopes, what was learned, the paper's window, the optimiser's."""
    figure, (carried, recovered, paper, own) = canvas(4, width=7.6, height=6, rows=2)
    shown = [order for order in ("first", "exact") if order in results.order]
    for model in results.model.values:
        for order in shown:
            f = results.envelope.sel(model=model, order=order)
            model_band(carried, f.lag, f, model, ls=ORDER_STYLES[order], marker=False)
    carried.set(xlabel="lag ℓ (steps)", ylabel="envelope f(ℓ)", yscale="log", ylim=(1e-3, None))
    styles = [Line2D([], [], color="grey", ls=ORDER_STYLES[order]) for order in shown]
    carried.legend(styles, [{"first": "first order"}.get(order, order) for order in shown])
    carried.set_title("What gates carry back")
    learned_lines(recovered, results)
    recovered.set(xlabel="delay (steps)", ylabel="coefficient in the output")
    recovered.set_title("What was learned")
    window_lines(paper, probes(results, "zeroth"), **LETTER)
    paper.set_title("Window, letter of version 2")
    window_lines(own, probes(results, "gradient"), **OPTIMISER)
    own.set_title("Window, in the whole gradient")
    legend_above(figure, own)
    return signed(figure, results)


@checked
def learned_lines(axes: Axes, results: xr.Dataset) -> None:
    """Planted coefficients as grey bars, and the networks' as lines."""
    planted = results.planted.isel(model=0, seed=0)
    planted = planted[planted > 0]
    axes.vlines(planted.delay, 0, planted, color="darkgrey", lw=5, zorder=0, label="planted")
    for model in results.model.values:
        model_band(axes, results.delay, results.learned.sel(model=model), model, marker=False)


@checked
def window_lines(axes: Axes, seen: xr.Dataset, **how: Any) -> None:
    """H_N against N for every model, and in grey the largest window that a null control gives.

    ``inference.windows(seen, **how)``, on an axis that is logarithmic from 1 on, with 0 below.
    """
    chosen, longest = windows(seen, **how), int(seen.lag[-1])
    for model in chosen.model.values:
        found = chosen.sel(model=model, source="error")
        model_band(axes, chosen.budget, found, model, quartiles=True)
    worst = chosen.sel(source="noise").max(("model", "seed", "probe"))
    axes.plot(chosen.budget, worst, color="grey", ls=(0, (2, 2)), label="null control, largest")
    axes.set(xscale="log", xlabel="number of sequences N")
    ticks = [0] + [2**k for k in range(longest.bit_length())]
    axes.set_yscale("symlog", linthresh=1, linscale=0.5)
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(-0.2, 1.3 * longest)
    place = axes.get_subplotspec()
    if place is not None and place.is_first_col():
        axes.set_ylabel("learnability window $H_N$ (steps)")
