"""Figures of the gradient chapter: where it comes from, lag by lag.

Curves come in mappings keyed by what they belong to: whether the network was trained (words, one
panel each), the model and the seed. Lines are medians over seeds, bands run from the least to the
largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from torch import Tensor

from lwcore.figures import canvas, done, legend_above, model_band

Networks = tuple[str, str, int]  # trained or not, model, seed


def lag_norms(vectors: Mapping[Networks, Tensor], planted: Sequence[int]) -> Figure:
    """Draw the length of each lag's part of the gradient, from the vectors of
    `gradient.lag_vectors` for all lags from 0."""
    norms = {key: parts.norm(dim=1).numpy() for key, parts in vectors.items()}
    figure, panels = _curves(norms, np.arange(len(next(iter(norms.values())))), planted=planted)
    largest = max(float(norm.max()) for norm in norms.values())
    panels[0].set(
        ylabel="length of the lag's part", yscale="log", ylim=(1e-4 * largest, 1.5 * largest)
    )
    return done(figure)


def truncation(vectors: Mapping[Networks, Tensor], planted: Sequence[int]) -> Figure:
    """Draw how far the gradient is from the whole one if lags beyond L are left out, as a share of
    its length."""
    missed = {
        key: ((parts.sum(0) - parts.cumsum(0)).norm(dim=1) / parts.sum(0).norm()).numpy()[
            : 2 * planted[-1]
        ]
        for key, parts in vectors.items()
    }
    figure, panels = _curves(missed, np.arange(len(next(iter(missed.values())))), planted=planted)
    for axes in panels:
        axes.set_xlabel("longest lag kept L (steps)")
    panels[0].set(ylabel="share of the gradient missed", ylim=(0, None))
    return done(figure)


def inflation(ratios: Mapping[Networks, ArrayLike], lags: Sequence[int]) -> Figure:
    """Draw how much larger each lag's part comes out with one sensitivity than with another."""
    figure, panels = _curves(ratios, lags)
    panels[0].set(ylabel="total over immediate", ylim=(0, None))
    for axes in panels:
        axes.axhline(1, color="black", lw=0.8, ls=":")
    return done(figure)


def _curves(
    curves: Mapping[Networks, ArrayLike], lags: ArrayLike, *, planted: Iterable[int] = ()
) -> tuple[Figure, list[Axes]]:
    """Draw curves over lags: a column for each state; planted delays as vertical lines."""
    shown = list(dict.fromkeys(state for state, _, _ in curves))
    figure, panels = canvas(len(shown), width=7.6, sharex=True, sharey=True)
    for axes, state in zip(panels, shown, strict=True):
        for lag in planted:
            axes.axvline(lag, color="grey", lw=0.8, ls=":")
        chosen = {key[1:]: np.asarray(curve) for key, curve in curves.items() if key[0] == state}
        for model in dict.fromkeys(model for model, _ in chosen):
            seeds = xr.DataArray(
                [curve for (name, _), curve in chosen.items() if name == model],
                dims=("seed", "lag"),
            )
            model_band(axes, xr.DataArray(lags, dims="lag"), seeds, model, marker=False)
        axes.set(title=state, xlabel="lag ℓ (steps)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(figure, panels[0])
    return figure, panels
