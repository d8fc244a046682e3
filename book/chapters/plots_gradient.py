"""Figures of how the matched statistic behaves.

Curves come in mappings keyed by what they belong to: whether the network was trained (words, one
row or panel each), the order of the rates where there is one, the model and the seed. Lines are
medians over seeds, bands run from the least to the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from book.chapters.matched import Agreement, LagTerms, own_sign_bias, own_sign_means
from lwcore.figures import SHADES, canvas, done, legend_above, model_band
from lwcore.stats import Interval

Networks = tuple[str, str, int]  # trained or not, model, seed
Orders = tuple[str, str, str, int]  # trained or not, order, model, seed
_WORDS = {"zeroth": "zeroth order", "first": "first order", "exact": "exact diagonal"}


def explained(
    agreements: Mapping[Orders, Agreement], lags: Sequence[int], least: float = -1
) -> Figure:
    """Draw how much of each lag's part the diagonal of the transport explains; the axis is cut
    below `least`."""
    figure, panels = _curves({key: one.explained.value for key, one in agreements.items()}, lags)
    for axes in panels:
        axes.axhline(0, color="black", lw=0.8, ls=":")
        axes.set_ylim(least, 1.05)
    figure.supylabel("explained share of the lag's part", fontsize=10)
    return done(figure)


def factorised(ratios: Mapping[Orders, Interval], lags: Sequence[int]) -> Figure:
    """Draw the two sides of Eq. (29) over each other, one where it holds."""
    figure, panels = _curves({key: one.value for key, one in ratios.items()}, lags, markers=True)
    for axes in panels:
        axes.axhline(1, color="black", lw=0.8, ls=":")
        axes.axhline(0, color="grey", lw=0.8, ls=":")
        axes.set_xticks(list(lags))
    figure.supylabel(r"E T over $f\,\bar{m}$", fontsize=10)
    return done(figure)


def own_signs(terms: LagTerms, signs: Tensor, lags: Sequence[int], sizes: Sequence[int]) -> Figure:
    """Draw what averages of pure noise give, with signs from the same sequences and from others,
    against the number of sequences.

    Args:
        terms: Rates and alignments where the error is noise.
        signs: Signs from other sequences, shape (lags, H).
        lags: The lags the terms belong to.
        sizes: Numbers of sequences N, each giving at least two groups.

    Returns:
        The figure: means with the closed form, and the same in standard errors; bars are two
            standard errors over groups.
    """
    figure, (raw, standard) = canvas(2, width=7.6)
    sequence = terms.statistic(signs).mean(1)
    size = np.asarray(sizes)
    for i, (lag, colour) in enumerate(zip(lags, SHADES, strict=False)):
        own = [own_sign_means(terms, n)[:, i] for n in sizes]
        other = [sequence[: len(sequence) // n * n, i].unflatten(0, (-1, n)).mean(1) for n in sizes]
        error = float(sequence[:, i].std()) / np.sqrt(size)
        beside = size * (1 + 0.06 * (i - 1))
        _bars(raw, beside, own, 1.0, "o", colour, f"lag {lag}")
        raw.plot(size, [float(own_sign_bias(terms, n)[i]) for n in sizes], color=colour, lw=1)
        _bars(standard, beside, own, error, "o", colour, f"lag {lag}, own signs")
        _bars(standard, beside, other, error, "x", colour, f"lag {lag}, signs of others")
    raw.set(xlabel="number of sequences N", ylabel="mean of pure noise", xscale="log", yscale="log")
    standard.set(
        xlabel="number of sequences N",
        ylabel="the same in standard errors",
        xscale="log",
        ylim=(-2, None),
    )
    standard.axhline(0, color="black", lw=0.8, ls=":")
    raw.legend(loc="lower left")
    kinds = [Line2D([], [], color="grey", marker=marker, ls="") for marker in "ox"]
    standard.legend(kinds, ["own signs", "signs of others"], loc="lower left", ncols=2, fontsize=8)
    return done(figure)


def _bars(
    axes: Axes,
    x: NDArray[np.float64],
    groups: list[Tensor],
    unit: ArrayLike,
    marker: str,
    colour: Any,
    label: str,
) -> None:
    """Draw means over groups with two standard errors, in a unit."""
    middle = np.array([float(group.mean()) for group in groups]) / unit
    error = np.array([float(group.std()) / len(group) ** 0.5 for group in groups]) / unit
    axes.errorbar(
        x, middle, 2 * error, fmt=marker, ms=5, capsize=2, lw=1, color=colour, label=label
    )


def _curves(
    curves: Mapping[Networks, ArrayLike] | Mapping[Orders, ArrayLike],
    lags: ArrayLike,
    *,
    markers: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Draw curves over lags: a column for each state, or a row where columns are orders."""
    shown = list(dict.fromkeys(key[:-2] for key in curves))
    rows = len({key[0] for key in shown}) if len(shown[0]) > 1 else 1
    figure, panels = canvas(
        len(shown), rows=rows, width=7.6, height=3.4 if rows == 1 else 5.2, sharex=True, sharey=True
    )
    for axes, words in zip(panels, shown, strict=True):
        chosen = {key[-2:]: np.asarray(curve) for key, curve in curves.items() if key[:-2] == words}
        for model in dict.fromkeys(model for model, _ in chosen):
            seeds = xr.DataArray(
                [curve for (name, _), curve in chosen.items() if name == model],
                dims=("seed", "lag"),
            )
            model_band(axes, xr.DataArray(lags, dims="lag"), seeds, str(model), marker=markers)
        axes.set_title(
            ", ".join(_WORDS.get(word, word) for word in words), fontsize=None if rows == 1 else 10
        )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in panels[-(len(shown) // rows) :]:
        axes.set_xlabel("lag ℓ (steps)")
    legend_above(figure, panels[0])
    return figure, panels
